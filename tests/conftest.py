"""What all tests share: one BLAS thread, one hypothesis profile, both kinds of arithmetic and a journal for those that ask.

One BLAS thread, as in serving: small matrices gain nothing from more, and test processes run side by side.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from localrank.native import library as native
from tests.arithmetic import without_library

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Folders below those of `make test` that only `make test-all` runs, beside what is marked `slow`.
SLOW = [Path(__file__).parent / "papers" / "figures"]

for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

# No deadline: the machine may be busy. CI draws the same examples every time; elsewhere new ones are tried.
settings.register_profile(
    "localrank",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
# What a sanitizer sees in a few examples it sees in a hundred, and it is slow.
settings.register_profile("few", settings.get_profile("localrank"), max_examples=10)
settings.load_profile("localrank")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--library", type=Path, help="a library of compiled kernels to test instead of the installed one"
    )
    parser.addoption(
        "--journal", type=Path, help="leave out tests that this file names, and add those that pass"
    )


def pytest_configure(config: pytest.Config) -> None:
    if path := config.getoption("--library"):
        native.PATH = path.resolve()
    if (journal := config.getoption("--journal")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Journal(journal.resolve()))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of slow folders, and leave out what an interrupted run has already passed."""
    for item in items:
        if any(folder in item.path.parents for folder in SLOW):
            item.add_marker(pytest.mark.slow)
    journal: Path | None = config.getoption("--journal")
    if journal is not None and journal.exists():
        passed = set(journal.read_text().splitlines())
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
        items[:] = [item for item in items if item.nodeid not in passed]


class Journal:
    """The tests of one long run that have passed: the next run goes on after them."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            with self._file.open("a") as lines:
                print(report.nodeid, file=lines)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._file.exists():
            session.exitstatus = pytest.ExitCode.OK


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """A test cannot pull the plug, so what it writes need not outlive the power; most of its time would go there."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(os, "fsync", lambda _handle: None)
        yield


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of the real data sets, for tests that are marked `realdata`."""
    folder = os.environ.get("LOCALRANK_DATA")
    if folder is None:
        pytest.skip("LOCALRANK_DATA is not set")
    return Path(folder)


@pytest.fixture(scope="module", params=["compiled", pytest.param("numpy", marks=pytest.mark.slow)])
def arithmetic(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run a module's tests with the compiled kernels; `make test-all` runs them as on a machine without them, too.

    For modules whose code has a compiled twin: ``pytestmark = pytest.mark.usefixtures("arithmetic")``.
    """
    if request.param == "compiled":
        if native.library() is None:
            pytest.skip("the compiled kernels were not built when localrank was installed")
        yield "compiled"
        return
    with without_library():
        yield "numpy"
