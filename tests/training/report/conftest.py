"""Training runs of every kind, and the page of each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pytest

from localrank.artifact import read_manifest
from localrank.registry.versions import Registry
from localrank_training.publishing.publish import publish
from localrank_training.report.background import background_of
from localrank_training.report.figures import report_of
from localrank_training.report.training_run import VersionOrigin, page_of_run
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig
from tests.service.page.conftest import browser  # noqa: F401  (a fixture)
from tests.training.kinds import two_kinds
from tests.training.run.test_blended import config as blend_of
from tests.training.run.test_blended import kinds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from localrank_training.data.queries import QuerySet
    from localrank_training.report import Page
    from localrank_training.report.background import Background
    from localrank_training.report.figures import TrainingReport
    from localrank_training.run.train import Trained

#: An id or a name that wants to be an element, and to end what it stands in.
NASTY = "</title><script>alert(1)</script>&\"'\x00`"


class Run(NamedTuple):
    """A training run and its page."""

    trained: Trained
    report: TrainingReport
    background: Background
    page: Page
    html: str


def run_of(
    folder: Path,
    queries: QuerySet,
    config: TrainingConfig,
    *,
    validation: QuerySet | None = None,
    curve: bool = False,
) -> Run:
    trained = train(queries, config, validation=validation)
    report = report_of(trained)
    reference = publish(Registry(folder), "web", trained, queries, validation=validation, report=report)
    background = background_of(trained, config, curve=curve)
    origin = VersionOrigin("localrank train 'a b.txt'", read_manifest(reference.path), config, 0.5)
    page = page_of_run(trained, report, background, origin)
    return Run(trained, report, background, page, page.html())


def linear(**tables: object) -> TrainingConfig:
    return TrainingConfig.from_tables({"learner": {"method": "linear", "ridge": 0.1}, **tables})


CLUSTERED = {"clustering": {"method": "complete_link", "clusters": 2}, "representation": {"components": 1}}
ALONE = {"clustering": {"method": "none"}, "routing": {"method": "global"}}


def hostile() -> QuerySet:
    queries = two_kinds(20)
    return replace(
        queries,
        query_ids=tuple(f"{NASTY}{i}" for i in range(20)),
        feature_names=tuple(f"{NASTY}{i}" for i in range(5)),
    )


_RUNS: dict[str, Callable[[Path], Run]] = {
    "blend": lambda folder: run_of(folder, kinds(), blend_of()),
    "alike": lambda folder: run_of(folder, kinds(40, kinds=1, noise=1.0), blend_of()),
    "clustered": lambda folder: run_of(folder, two_kinds(40), linear(**CLUSTERED), curve=True),
    "alone": lambda folder: run_of(
        folder,
        two_kinds(24),
        TrainingConfig.from_tables({"learner": {"method": "linear", "ridge": [0.1, 0.3]}, **ALONE}),
    ),
    "tiny": lambda folder: run_of(folder, two_kinds(4), linear(**ALONE), curve=True),
    "few": lambda folder: run_of(folder, kinds(6), blend_of()),
    "hostile": lambda folder: run_of(folder, hostile(), linear(**CLUSTERED)),
    "validated": lambda folder: run_of(
        folder,
        two_kinds(24),
        linear(**CLUSTERED, selection={"refit": False}),
        validation=two_kinds(10, seed=5),
    ),
    "opaque": lambda folder: run_of(
        folder, two_kinds(24), TrainingConfig.from_tables({"learner": {"method": "gmml"}, **ALONE})
    ),
}
RUNS = tuple(_RUNS)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """Return a run by its name; each is made once."""
    made: dict[str, Run] = {}

    def run(name: str) -> Run:
        if name not in made:
            made[name] = _RUNS[name](tmp_path_factory.mktemp(name))
        return made[name]

    return run
