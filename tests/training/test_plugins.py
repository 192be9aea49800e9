"""Components of other packages: found by entry points, imported when they are named, refused with a sentence."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import localrank
from localrank.__main__ import main
from localrank.errors import InvalidConfiguration
from localrank_training.learners.catalogue import LEARNERS
from localrank_training.settings.config import TrainingConfig
from localrank_training.settings.methods import METHODS
from tests.end_to_end.serving import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "plugin"
TRAIN = Path(__file__).parents[1] / "golden" / "data" / "train.csv"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Install a distribution of one module, as pip leaves it in a folder."""
    before = set(sys.modules)

    def made(name: str, module: str, **groups: str) -> Path:
        folder = tmp_path / name
        information = folder / f"{name}-1.0.dist-info"
        information.mkdir(parents=True)
        (folder / f"{name}.py").write_text(module)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (information / "entry_points.txt").write_text(
            "\n".join(f"[localrank.{group}]\n{entries}" for group, entries in groups.items())
        )
        monkeypatch.syspath_prepend(str(folder))
        return folder

    monkeypatch.setattr(LEARNERS, "_loaded", {})
    monkeypatch.setattr(METHODS, "_loaded", {})
    yield made
    for module in set(sys.modules) - before:
        if getattr(sys.modules[module], "__file__", None) and str(tmp_path) in str(
            sys.modules[module].__file__
        ):
            del sys.modules[module]


def rocchio() -> str:
    return (EXAMPLE / "rocchio.py").read_text()


def test_a_learner_of_another_package_is_trained_published_and_served_without_it(
    install: Callable[..., Path], tmp_path: Path
) -> None:
    """The example of the documentation; the process that ranks does not have it."""
    install("rocchio", rocchio(), learners="rocchio = rocchio:Rocchio", methods="rocchio = rocchio:METHOD")
    models = tmp_path / "models"
    command = [
        "train",
        str(TRAIN),
        "--models-dir",
        str(models),
        "--name",
        "web",
        "--promote",
        "--workers",
        "1",
    ]

    assert 0 == main([*command, "--method", "rocchio"])

    trained = localrank.load(models / "web")
    documents = np.random.default_rng(0).random((7, trained.contract.n_features)).tolist()
    with serving(models) as client:
        answer = client.post("/v1/rerank", json={"features": documents}).json()

    served = {one["index"]: one["score"] for one in answer["results"]}
    assert trained.rank(np.array(documents, np.float32)).scores.tolist() == [served[n] for n in range(7)]


def test_its_choices_are_tried(install: Callable[..., Path]) -> None:
    install("rocchio", rocchio(), learners="rocchio = rocchio:Rocchio", methods="rocchio = rocchio:METHOD")

    by_learner = TrainingConfig.read(learner="rocchio").learner
    by_method = TrainingConfig.read(method="rocchio").learner

    assert [0.25, 1.0] == [one.beta for one in by_learner.candidates()]  # type: ignore[attr-defined]
    assert [0.5, 1.0, 2.0] == [one.beta for one in by_method.candidates()]  # type: ignore[attr-defined]
    with pytest.raises(InvalidConfiguration, match="beta: expected at least 0, found -1"):
        TrainingConfig.read(learner="rocchio", overrides=["learner.beta=-1"])


def test_names_are_listed_without_an_import(
    install: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    install("broken", "raise RuntimeError('imported')", learners="broken = broken:Broken")

    assert 0 == main(["train", "--help"])

    listed = capsys.readouterr().out.split()
    assert {"broken,", "ranksvm,", "mhr,", "auto,"} <= set(listed)
    assert "broken" in LEARNERS
    with pytest.raises(InvalidConfiguration, match="no learner 'brokn'; did you mean 'broken'"):
        TrainingConfig.read(learner="brokn")


@pytest.mark.parametrize(
    ("module", "entry", "said"),
    [
        (
            "import nowhere_to_be_found",
            "own = own:Own",
            "plug-in own 1.0 (own:Own) cannot be imported: ModuleNotFoundError: No module named 'nowhere_to_be_found'",
        ),
        ("", "own = own:Own", "own 1.0 (own:Own) cannot be imported: AttributeError"),
        (
            "Own = 3",
            "own = own:Own",
            "learner 'own': the plug-in own 1.0 (own:Own): expected a dataclass that inherits from localrank_training.Le",
        ),
        ("class Own:\n    method = 'own'", "own = own:Own", "found <class 'own.Own'>"),
        (rocchio(), "own = own:Rocchio", "with this name as its `method`, found <class 'own.Rocchio'>"),
        (
            rocchio(),
            "ranksvm = own:Rocchio",
            "learner 'ranksvm': expected one component of this name, found 2: LocalRank itself, own 1.0 (own:Rocchio)",
        ),
        (
            rocchio(),
            "mhr = own:Rocchio",
            "learner 'mhr': expected one component of this name, found 2: localrank ",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(
    module: str, entry: str, said: str, install: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    install("own", module, learners=entry)

    assert 2 == main(["train", "x.txt", "--learner", entry.split(maxsplit=1)[0]])

    assert said in capsys.readouterr().err


def test_a_plug_in_with_the_name_of_our_learner_stops_only_runs_that_name_it(
    install: Callable[..., Path], tmp_path: Path
) -> None:
    """Defaults mean LocalRank's own; the default method names RankSVM, LambdaMART and the blend of them."""
    entries = "\n".join(f"{name} = own:Rocchio" for name in ("ranksvm", "blend", "lambdamart", "extra_trees"))
    install("own", rocchio(), learners=entries)
    both = "learner 'ranksvm': expected one component of this name, found 2: LocalRank itself, own 1.0"
    written = tmp_path / "run.toml"
    written.write_text('[learner]\nmethod = "blend"\n[[learner.members]]\nmethod = "ranksvm"\n')

    defaults = [TrainingConfig.read(method=name).learner for name in (None, "global", "knn", "adaptive_ward")]

    assert ["blend", "ranksvm", "ranksvm", "lambdamart"] == [one.method for one in defaults]
    assert all(one.kind.__module__.startswith("localrank_training.") for one in defaults)
    for written_with in ({"learner": "ranksvm"}, {"overrides": ["learner.method=ranksvm"]}):
        with pytest.raises(InvalidConfiguration, match=re.escape(both)):
            TrainingConfig.read(**written_with)
    for table in ({"method": "ranksvm"}, {"method": ["linear", "ranksvm"]}):
        with pytest.raises(InvalidConfiguration, match=re.escape(both)):
            TrainingConfig.from_tables({"learner": table})
    with pytest.raises(InvalidConfiguration, match="learner 'blend': expected one component"):
        TrainingConfig.read(written)


def test_a_method_is_a_dict_of_tables(install: Callable[..., Path]) -> None:
    install("own", "METHOD = {'clustering': 'none'}", methods="own = own:METHOD")

    with pytest.raises(
        InvalidConfiguration, match=r"method 'own': .* expected a dict of tables, .* found {'clus"
    ):
        TrainingConfig.read(method="own")


def test_a_scorer_that_core_does_not_know_is_refused(
    install: Callable[..., Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    module = rocchio().replace("LinearScorer(weights, self.blocks)\n", "weights\n")
    install("own", module, learners="rocchio = own:Rocchio")

    code = main(
        ["train", str(TRAIN), "--models-dir", str(tmp_path), "--learner", "rocchio", "--workers", "1"]
    )

    assert 2 == code
    assert "learner 'rocchio': fit: expected a scorer of localrank.scorers" in capsys.readouterr().err
    assert [] == list(tmp_path.glob("*/[0-9]*"))
