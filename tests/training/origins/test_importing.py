from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import lightgbm
import numpy as np
import pytest

import localrank
from localrank.__main__ import main
from localrank.registry import Registry

if TYPE_CHECKING:
    from pathlib import Path

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
