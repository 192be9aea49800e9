"""Dependencies run one way: papers → training → core ← service; checked on what Python really imports."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import localrank

ROOT = Path(__file__).parents[2]

OFFLINE = (
    "localrank_training",
    "localrank_papers",
    "sklearn",
    "joblib",
    "pandas",
    "lightgbm",
    "pyarrow",
    "matplotlib",
)
# Not pydantic: typer needs it.
ONLINE = ("localrank_service", "fastapi", "starlette", "uvicorn")


def imported_by(statement: str) -> set[str]:
    """Return the top-level modules that are there after the statement and were not before."""
    probe = (
        "import sys; before = {name.split('.')[0] for name in sys.modules}\n"
        f"{statement}\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules} - before))"
    )
    answer = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True)
    return set(answer.stdout.split())


def third_party(modules: set[str]) -> set[str]:
    return {name for name in modules if name not in sys.stdlib_module_names and not name.startswith("_")}


def core_modules() -> list[str]:
    """All but the client, which needs httpx: it is for callers of a service, and nothing here imports it."""
    names = [module.name for module in pkgutil.walk_packages(localrank.__path__, "localrank.")]
    return [name for name in names if not name.startswith("localrank.client")]


def test_core_imports_numpy_and_scipy_and_nothing_else() -> None:
    imported = third_party(imported_by("import localrank, " + ", ".join(core_modules())))

    assert "numpy" in imported
    # The runtime of scipy's compiled modules registers itself under a name of its own; scipy loads numpy.f2py, which
    # takes charset_normalizer where it is installed and does without where it is not.
    assert imported <= {"localrank", "numpy", "scipy", "cython_runtime", "charset_normalizer"}


def test_the_client_imports_no_types_of_answers_of_other_routes() -> None:
    """To make so many classes takes as long as a third of numpy."""
    imported_by("import localrank.client; assert 'localrank.answers' not in sys.modules")


def test_the_service_imports_neither_training_nor_an_exporter_of_spans() -> None:
    """FastAPI imports the interface of OpenTelemetry; the rest is imported if it is turned on."""
    imported = imported_by("import localrank_service.app; assert 'opentelemetry.sdk' not in sys.modules")

    assert not {*OFFLINE, "cryptography"} & imported
    assert "fastapi" in imported


def test_training_does_not_import_the_service() -> None:
    imported = imported_by("import localrank_training.run.pipeline, localrank_training.cli")

    assert not {*ONLINE, "localrank_papers"} & imported
    assert "localrank_training" in imported


def test_matplotlib_is_imported_only_to_draw() -> None:
    rooms = ("terminal", "pages", "training_run", "background")
    imported = imported_by("import " + ", ".join(f"localrank_training.report.{room}" for room in rooms))

    assert "localrank_training" in imported
    assert "matplotlib" not in imported


def test_training_loads_only_plugins_that_a_configuration_names() -> None:
    named = "from localrank_training.settings.config import TrainingConfig; TrainingConfig.read(learner={})"

    assert "localrank_papers" not in imported_by(named.format("'lambdamart'"))
    assert "localrank_papers" in imported_by(named.format("'mhr'"))


@pytest.mark.parametrize(
    ("package", "papers"),
    [("core/localrank", 1), ("service/localrank_service", 0), ("training/localrank_training", 0)],
)
def test_no_package_names_the_papers(package: str, papers: int) -> None:
    """But the table of commands; training finds their learners by entry points, and nothing else looks for these."""
    sources = {path: path.read_text() for path in (ROOT / package).rglob("*.py")}

    assert papers == sum("localrank_papers" in text for text in sources.values())
    looking = {path.name for path, text in sources.items() if "entry_points" in text}
    assert looking <= {"plugins.py"}


def test_the_commands_are_listed_without_loading_either_half() -> None:
    imported = imported_by("from localrank.__main__ import main; main(['--help'])")

    assert not {"numpy", "typer", "localrank_training", "localrank_service"} & imported
