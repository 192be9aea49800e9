"""Judged queries in, a served ranking out, through every command and a real socket."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank_training.data.reading import read
from tests.end_to_end.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

    from localrank_training.data.queries import QuerySet

pytestmark = pytest.mark.slow


#: Models of other kinds of scorer, by their name, with the learner's settings.
OTHERS = {
    "trees": "method = 'lambdamart'\nnum_iterations = 30\n",
    "borda": "method = 'mhr'\n",
    "stumps": "method = 'rankboost'\nrounds = 20\n",
    "metric": "method = 'gmml'\n",
    "metrics": "method = 'lgmml'\nmetrics = 5\nweights = 'similarity'\n",
}


def localrank(*arguments: str | Path, fails: int = 0) -> str:
    """Run the command line as a user would; return what it prints."""
    answer = subprocess.run(
        [sys.executable, "-m", "localrank", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert fails == answer.returncode, answer.stderr
    return answer.stdout if not fails else answer.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with synthetic training and test queries of the same kinds."""
    folder = tmp_path_factory.mktemp("thread")
    shape = ("--documents", "20", "--features", "12", "--kinds", "3", "--seed", "1")
    for sample, (queries, name) in enumerate([(60, "train.txt"), (30, "test.txt.gz")]):
        localrank(
            "data",
            "synthesize",
            "--queries",
            str(queries),
            *shape,
            "--sample",
            str(sample),
            "--out",
            folder / name,
        )
    return folder


@pytest.fixture(scope="module")
def parts(folder: Path) -> tuple[Path, Path]:
    return folder / "train.txt", folder / "test.txt.gz"


@pytest.fixture(scope="module")
def models(folder: Path, parts: tuple[Path, Path]) -> Path:
    models = folder / "models"
    common = ("--name", "web", "--models-dir", models)
    localrank("train", parts[0], *common, "--promote")
    localrank("train", parts[0], *common, "--method", "global")
    for name, learner in OTHERS.items():
        (folder / f"{name}.toml").write_text(
            f"[clustering]\nclusters = 2\n[selection]\nfolds = 2\n[learner]\n{learner}"
        )
        run = ("--config", folder / f"{name}.toml", "--promote")
        localrank("train", parts[0], "--name", name, "--models-dir", models, *run)
    return models


@pytest.fixture(scope="module")
def client(models: Path) -> Iterator[httpx.Client]:
    with serving(models) as client:
        yield client


def served_scores(client: httpx.Client, model: str, queries: QuerySet) -> list[float]:
    """Return what the service scores every document, in input order."""
    scores = np.full(queries.n_docs, np.nan)
    for query in range(len(queries)):
        answer = client.post(
            "/v1/rerank", json={"model": model, "features": queries.documents_of(query).tolist()}
        )
        assert 200 == answer.status_code, answer.text
        for result in answer.json()["results"]:
            scores[queries.lines[queries.offsets[query] + result["index"]]] = result["score"]
    return [float(score) for score in scores]


@pytest.mark.parametrize("model", ["web", *OTHERS])
def test_rank_and_the_service_give_the_same_bits_for_every_query(
    model: str, client: httpx.Client, models: Path, parts: tuple[Path, Path]
) -> None:
    offline = [float(line) for line in localrank("rank", model, parts[1], "--models-dir", models).split()]

    assert offline == served_scores(client, model, read(parts[1]))


@pytest.mark.soak
@pytest.mark.realdata
@pytest.mark.parametrize("name", ["MQ2008", "OHSUMED-raw"])
def test_they_do_on_real_data(name: str, real_data: Path, tmp_path: Path) -> None:
    data = real_data / name
    models = tmp_path / "models"
    lesson = (data / "S1.txt.gz", "--validation", data / "S2.txt.gz")
    localrank("train", *lesson, "--name", "real", "--models-dir", models, "--promote")
    offline = [
        float(line) for line in localrank("rank", "real", data / "S5.txt.gz", "--models-dir", models).split()
    ]

    with serving(models) as client:
        assert offline == served_scores(client, "real", read(data / "S5.txt.gz"))


def test_the_same_model_ranks_in_python(client: httpx.Client, models: Path, parts: tuple[Path, Path]) -> None:
    from localrank import load

    ranker = load(models / "web")
    documents = read(parts[1]).documents_of(0)

    ranking = ranker.rank(documents)

    answer = client.post("/v1/rerank", json={"features": documents.tolist(), "model": "web"}).json()
    assert ranking.order.tolist() == [result["index"] for result in answer["results"]]
    assert ranking.route.cluster == answer["route"]["cluster"]


def test_the_answer_tells_route_stages_and_version(client: httpx.Client, parts: tuple[Path, Path]) -> None:
    documents = read(parts[1]).documents_of(0)

    response = client.post("/v1/rerank", json={"model": "web", "features": documents.tolist()})

    answer = response.json()
    assert ("web", 1, "exact") == (answer["model"], answer["version"], answer["route"]["strategy"])
    stages = ["decode", "sign", "route", "score", "order", "encode", "total"]
    assert stages == list(answer["timings_ms"])
    assert stages == [entry.split(";")[0].strip() for entry in response.headers["server-timing"].split(",")]


def test_a_promoted_version_can_be_rolled_back(models: Path) -> None:
    def champion() -> Any:
        return json.loads(localrank("models", "list", "--json", "--models-dir", models))

    before = champion()
    localrank("models", "promote", "web", "2", "--models-dir", models)
    between = champion()
    localrank("models", "rollback", "web", "--models-dir", models)

    assert before != between
    assert before == champion()


def test_evaluate_shows_the_model_beside_its_global_scorer(models: Path, parts: tuple[Path, Path]) -> None:
    printed = localrank("evaluate", "web", parts[1], "--models-dir", models)

    assert "its global" in printed
    assert "ndcg@10" in printed
    assert "empty queries" in printed


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("train", "nowhere.txt"), 1, "nowhere.txt"),
        (("train",), 2, "expected judged queries, found none"),
        (("rank", "nobody", "nowhere.txt"), 1, "nobody"),
        (("trian", "x"), 2, "no command 'trian'"),
        (("train", "x", "--method", "best"), 2, "no method 'best'"),
    ],
)
def test_wrong_use_gets_one_sentence_and_its_code(
    arguments: tuple[str, ...], code: int, sentence: str, tmp_path: Path
) -> None:
    extra = ("--models-dir", tmp_path) if len(arguments) > 1 and arguments[0] != "trian" else ()

    said = localrank(*arguments, *extra, fails=code)

    assert sentence in said
    assert "Traceback" not in said


def test_training_that_fails_publishes_nothing(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text("1 qid:1 1:0.5\n0 qid:1 1:oops\n")

    localrank("train", tmp_path / "bad.txt", "--models-dir", tmp_path / "models", fails=1)

    assert not (tmp_path / "models").exists()
