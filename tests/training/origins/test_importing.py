from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import lightgbm
import numpy as np
import pytest

import localrank
from localrank.__main__ import main
from localrank.errors import InvalidData
from localrank.registry.versions import Registry
from localrank_training.data.reading import read_table
from localrank_training.origins import read_model
from localrank_training.origins.importing import publish

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_training.data.queries import QuerySet
    from localrank_training.origins import OriginModel

NAMES = ["bm25", "pagerank", "clicks"]


@pytest.fixture
def documents() -> Any:
    return np.random.default_rng(0).standard_normal((200, 3)).astype(np.float32)


@pytest.fixture
def model(tmp_path: Path, documents: Any) -> Path:
    path = tmp_path / "model.txt"
    labels = np.digitize(documents[:, 0] - documents[:, 1], [0, 1])
    data = lightgbm.Dataset(documents, labels, group=[20] * 10, feature_name=NAMES, params={"verbosity": -1})
    lightgbm.train({"objective": "lambdarank", "verbosity": -1, "num_threads": 1}, data, 8).save_model(path)
    return path


@pytest.fixture
def data(tmp_path: Path, documents: Any) -> Path:
    path = tmp_path / "data.csv"
    # A query's documents are not adjacent: scores must find their own lines.
    rows = [f"0,q{i % 7},{','.join(map(repr, row.tolist()))}" for i, row in enumerate(documents)]
    path.write_text("\n".join([f"label,qid,{','.join(NAMES)}", *rows]) + "\n")
    return path


def test_an_imported_model_is_published_with_contract_and_probe(
    tmp_path: Path, model: Path, documents: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    models = tmp_path / "models"

    code = main(["models", "import", str(model), "--name", "web", "--promote", "--models-dir", str(models)])

    assert 0 == code
    out, err = capsys.readouterr()
    assert "scores are equal to the bit, compared with LightGBM" in out
    assert "published web version 1" in out
    assert "list lengths of synthetic queries" in err
    ranker = localrank.load(models / "web")
    expected = lightgbm.Booster(model_file=str(model)).predict(documents, raw_score=True)
    np.testing.assert_array_equal(expected, ranker.rank(documents).scores)
    assert tuple(NAMES) == ranker.contract.names
    assert {"nan"} == set(ranker.contract.missing)
    # The ranges are LightGBM's own of its training data.
    np.testing.assert_allclose(ranker.contract.quantiles[0], documents.min(axis=0), rtol=1e-6)
    np.testing.assert_allclose(ranker.contract.quantiles[-1], documents.max(axis=0), rtol=1e-6)
    assert 0 == main(["models", "verify", "web", "--models-dir", str(models)])


def test_scores_in_a_file_are_compared_line_by_line(
    tmp_path: Path, model: Path, data: Path, documents: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    models, scores = tmp_path / "models", tmp_path / "scores.txt"
    expected = np.asarray(lightgbm.Booster(model_file=str(model)).predict(documents, raw_score=True))
    scores.write_text("".join(f"1\t{i}\t{score:.8f}\n" for i, score in enumerate(expected)))
    arguments = [
        "models",
        "import",
        str(model),
        "--name",
        "web",
        "--data",
        str(data),
        "--expected",
        str(scores),
    ]

    assert 0 == main([*arguments, "--models-dir", str(models), "--json"])

    answer = json.loads(capsys.readouterr().out)
    assert 200 == answer["check"]["documents"]
    assert 0 < answer["check"]["deviation"] <= 1e-5
    manifest = json.loads((models / "web" / "1" / "manifest.json").read_text())
    assert "lightgbm" == manifest["source"]["imported"]["format"]
    np.testing.assert_allclose(manifest["contract"]["shift"], documents.mean(axis=0), rtol=1e-5)

    wrong = expected.copy()
    wrong[[3, 4]] = wrong[[4, 3]]
    scores.write_text("".join(f"{score!r}\n" for score in wrong.tolist()))
    assert 1 == main([*arguments, "--models-dir", str(models)])
    assert f"{scores}: expected the score" in capsys.readouterr().err
    assert [1] == Registry(models).versions("web")


def test_what_cannot_be_compared_is_published_only_if_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.txt"
    path.write_text("## Coordinate Ascent\n1:0.5 2:0.25\n")
    arguments = ["models", "import", str(path), "--name", "web", "--features", "bm25, age"]
    models = str(tmp_path / "models")

    assert 1 == main([*arguments, "--models-dir", models])
    assert "expected RankLib to compare scores with" in capsys.readouterr().err

    assert 0 == main([*arguments, "--unverified", "--models-dir", models])
    assert "not compared with the original library" in capsys.readouterr().err
    ranker = localrank.load(tmp_path / "models" / "web" / "1")
    missing = np.array([[2.0, np.nan]], np.float32)
    assert [1.0] == ranker.rank(missing).scores.tolist()  # missing is zero, as in RankLib
    assert ("bm25", "age") == ranker.contract.names


def test_a_wrong_format_is_a_wrong_use(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["models", "import", str(model), "--name", "web", "--format", "onnx"])
    assert (
        "--format: expected one of lightgbm, xgboost, ranklib, catboost-json, found 'onnx'"
        in capsys.readouterr().err
    )


def weights_of(tmp_path: Path, text: str, names: list[str] | None = None) -> tuple[Path, OriginModel]:
    path = tmp_path / "ranklib.txt"
    path.write_text(text)
    return path, read_model(path, names=names)


def judged(*names: str, n: int = 12) -> QuerySet:
    rng = np.random.default_rng(1)
    return read_table(
        {"label": [i % 2 for i in range(n)], "qid": [f"q{i % 3}" for i in range(n)]}
        | {name: rng.standard_normal(n) for name in names}
    )


def test_the_source_and_the_notes_say_where_a_version_comes_from(tmp_path: Path) -> None:
    path, model = weights_of(tmp_path, "## Linear Regression\n0:1.25 1:0.5 2:0.25\n")
    registry = Registry(tmp_path / "models")

    found = publish(registry, "web", model, path, unverified=True, created="2020-01-02T03:04:05Z")

    manifest = json.loads((tmp_path / "models" / "web" / "1" / "manifest.json").read_text())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert {"format": "ranklib", "file": "ranklib.txt", "sha256": digest, "check": None} == manifest[
        "source"
    ]["imported"]
    assert "2020-01-02T03:04:05Z" == manifest["created"]
    assert found.check is None
    # -norm, no comparison, the intercept, the lists, the ranges.
    assert 5 == len(found.notes)
    assert "scores were not compared with the original library" == found.notes[1]
    assert "the original model adds 1.25 to every score; " in found.notes[2]
    assert "synthetic queries" in found.notes[3]
    assert "the contract allows all of float32" in found.notes[4]


def test_data_give_the_contract_its_ranges_and_need_no_note(tmp_path: Path) -> None:
    path, model = weights_of(tmp_path, "## AdaRank\n1:0.5 2:0.25\n", ["a", "b"])
    data = judged("b", "c", "a")
    expected = tmp_path / "scores"
    scores = data.documents @ [0.25, 0, 0.5]
    in_order = np.empty(len(scores))
    in_order[data.lines] = scores
    expected.write_text("".join(f"{score!r}\n" for score in in_order.tolist()))

    found = publish(Registry(tmp_path / "models"), "web", model, path, data=data, expected=expected)

    assert found.check is not None
    assert (str(expected), 12) == (found.check.against, found.check.documents)
    assert 1 == len(found.notes)
    contract = localrank.load(tmp_path / "models" / "web" / "1").contract
    assert ("a", "b") == contract.names
    np.testing.assert_allclose(
        [data.documents[:, 2].min(), data.documents[:, 0].min()], contract.quantiles[0]
    )


def test_data_without_names_have_as_many_features_as_the_model(tmp_path: Path) -> None:
    path, model = weights_of(tmp_path, "## AdaRank\n1:0.5 2:0.25\n", ["a", "b"])
    registry = Registry(tmp_path / "models")

    with pytest.raises(InvalidData, match="expected 2 features per document, as the model has, found 3"):
        publish(registry, "web", model, path, data=judged("f1", "f2", "f3"), unverified=True)
    publish(registry, "web", model, path, data=judged("f1", "f2"), unverified=True)

    assert ("a", "b") == localrank.load(tmp_path / "models" / "web" / "1").contract.names


def test_scores_without_their_documents_are_refused(tmp_path: Path) -> None:
    path, model = weights_of(tmp_path, "## AdaRank\n1:0.5\n")

    with pytest.raises(InvalidData, match="--expected: expected the documents of these scores"):
        publish(Registry(tmp_path / "models"), "web", model, path, expected=path)
    assert not (tmp_path / "models" / "web").exists()


def test_ranges_that_the_origin_does_not_know_are_as_wide_as_float32(tmp_path: Path) -> None:
    path, model = weights_of(tmp_path, "## AdaRank\n1:0.5 2:0.25 3:1\n")
    known = replace(model, ranges=((-2.0, 5.0), None, (0.0, float("inf"))))
    largest = float(np.finfo(np.float32).max)

    found = publish(Registry(tmp_path / "models"), "web", known, path, unverified=True)

    quantiles = localrank.load(tmp_path / "models" / "web" / "1").contract.quantiles
    assert [-2.0, -largest, 0.0] == quantiles[0].tolist()
    assert [5.0, largest, largest] == quantiles[-1].tolist()
    assert (np.diff(quantiles, axis=0) >= 0).all()
    assert any("the contract allows all of float32" in note for note in found.notes)


@pytest.mark.parametrize(
    ("form", "library"),
    [("lightgbm", "LightGBM"), ("xgboost", "XGBoost"), ("catboost-json", "CatBoost"), ("ranklib", "RankLib")],
)
def test_the_library_that_is_not_there_is_named(
    tmp_path: Path, form: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, model = weights_of(tmp_path, "## AdaRank\n1:0.5\n")
    for name in ("lightgbm", "xgboost", "catboost"):
        monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(InvalidData, match=rf"ranklib\.txt: expected {library} to compare scores with"):
        publish(Registry(tmp_path / "models"), "web", replace(model, format=form), path)
