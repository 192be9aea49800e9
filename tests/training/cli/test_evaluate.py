from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank import Registry
from localrank.__main__ import main
from localrank.artifact import Provenance
from localrank_training.data.reading import read
from localrank_training.evaluation.evaluating import evaluate, versus
from localrank_training.learners.ranksvm import RankSvm
from localrank_training.run.pipeline import build
from localrank_training.settings.config import TrainingConfig
from tests.training.kinds import two_kinds

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.ranker import Ranker
    from localrank_training.data.queries import QuerySet

TABLES = {
    "contract": {"normalise": "none"},
    "representation": {"components": 1},
    "clustering": {"clusters": 2},
}


def local_ranker() -> Ranker:
    return build(two_kinds(), TrainingConfig.from_tables(TABLES), RankSvm()).ranker


def global_ranker() -> Ranker:
    return build(two_kinds(), TrainingConfig.read(method="global"), RankSvm()).ranker


def publish(models: Path, name: str, ranker: Ranker) -> None:
    probe = list(two_kinds(3, seed=5).clouds())
    Registry(models).publish(name, ranker, Provenance("2026-01-31T12:00:00Z", {}, probe))


def letor(queries: QuerySet) -> str:
    return "".join(
        f"{queries.labels[row]:g} qid:{queries.query_ids[query]} "
        + " ".join(f"{i + 1}:{value!r}" for i, value in enumerate(queries.documents[row].tolist()))
        + "\n"
        for query in range(len(queries))
        for row in range(queries.offsets[query], queries.offsets[query + 1])
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``web@1`` with clusters and champion, ``web@2`` and ``plain@1`` global; and ``test.txt``, one query empty."""
    folder = tmp_path_factory.mktemp("place")
    models = folder / "models"
    local, alone = local_ranker(), global_ranker()
    for name, ranker in (("web", local), ("web", alone), ("plain", alone)):
        publish(models, name, ranker)
    Registry(models).promote("web", 1, since="2026-01-31T12:00:00Z")
    queries = two_kinds(20, seed=1)
    labels = queries.labels.copy()
    labels[queries.span(3)] = 0
    (folder / "test.txt").write_text(letor(replace(queries, labels=labels)))
    return folder


@pytest.fixture
def run(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(place)
    return Run(capsys)


class Run:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        code = main(["evaluate", *arguments])
        return code, *self._capsys.readouterr()


def test_one_model_is_compared_with_its_global_scorer(run: Run) -> None:
    expected = evaluate(local_ranker(), read("test.txt"), ["map", "ndcg@10"]).against_global

    code, text, errors = run("web", "test.txt", "--metrics", "map,ndcg@10")

    assert (code, errors) == (0, "")
    lines = text.splitlines()
    assert lines[0] == "20 queries, 300 documents"
    assert lines[2] == "standard: empty queries counted 0; differences are web@1 less its global scorer"
    for line, one in zip(lines[4:6], expected, strict=True):
        cells = line.split()
        assert cells[:2] == [one.metric, "1"]
        assert cells[2:5] == [f"{one.candidate:.4f}", f"{one.baseline:.4f}", f"{one.difference:+.4f}"]
        assert one.interval_text in line
        assert f"{one.wins}/{one.ties}/{one.losses}" in line
        assert f"{one.helped}/{one.hurt}" in line
    assert lines[6].startswith("2 of 2 differences are significant at 5 % (Holm).")
    assert "These 20 queries find a true difference" in lines[6]
    assert f"map {expected[0].detectable:.4f}" in lines[6]
    assert "web@1: routed by exact to 2 of 2 clusters, largest 50.0%, global scorer 0.0%" in text


def test_the_oracle_is_shown_if_asked_for(run: Run) -> None:
    expected = evaluate(local_ranker(), read("test.txt"), ["map"], oracle=True)

    code, text, _ = run("web", "test.txt", "--metrics", "map", "--oracle")

    assert code == 0
    (line,) = [line for line in text.splitlines() if line.split()[:2] == ["map", "standard"]]
    figures = [expected.local[0].mean, expected.global_[0].mean, expected.oracle[0].mean]
    assert [f"{one:.4f}" for one in figures] == line.split()[2:]
    assert "with the best cluster of each query, which is chosen by the labels" in text
    assert "best cluster" not in run("web", "test.txt", "--metrics", "map")[1]


def test_json_says_everything(run: Run) -> None:
    expected = evaluate(local_ranker(), read("test.txt"), ["map"], ["letor4"], name="web@1", margin=0.01)

    code, text, _ = run(
        "web", "test.txt", "--json", "--metrics", "map", "--convention", "letor4", "--margin", "0.01"
    )

    assert code == 0
    answer = json.loads(text)
    assert answer["data"] == {"paths": ["test.txt"], "queries": 20, "documents": 300}
    assert answer["comparison"] is None
    assert answer["models"] == json.loads(json.dumps([expected.to_json()]))


def test_two_models_are_compared_second_less_first(run: Run) -> None:
    queries = read("test.txt")
    first, second = (evaluate(one, queries, ["map"]) for one in (global_ranker(), local_ranker()))
    expected = versus(second, first)

    code, text, _ = run("plain", "web@champion", "test.txt", "--json", "--metrics", "map")

    assert code == 0
    answer = json.loads(text)
    assert [one["model"] for one in answer["models"]] == ["plain@1", "web@1"]
    compared = answer["comparison"]
    assert (compared["candidate"], compared["baseline"]) == ("web@1", "plain@1")
    assert compared["comparisons"] == [one.to_json() for one in expected.comparisons]
    _, text, _ = run("plain", "web", "test.txt", "--metrics", "map")
    assert "differences are web@1 less plain@1" in text
    one = expected.comparisons[0]
    row = next(line.split() for line in text.splitlines() if line.startswith("map"))
    assert row[2:5] == [f"{one.candidate:.4f}", f"{one.baseline:.4f}", f"{one.difference:+.4f}"]
    assert text.index(" web@1 ") < text.index(" plain@1 ")
    assert [f"{second.local[0].mean:.4f}", f"{first.local[0].mean:.4f}"] == row[2:4]
    assert "plain@1: one global model, no clusters" in text


def test_a_margin_asks_for_non_inferiority(run: Run) -> None:
    _, text, _ = run("plain", "web", "test.txt", "--metrics", "map", "--margin", "0.02")
    assert re.search(r"at most 0\.02 worse", text)
    assert re.search(r"yes \(\+0\.\d{4}\)", text)

    _, text, _ = run("web", "plain", "test.txt", "--metrics", "map", "--margin", "0.02")
    assert re.search(r"not shown \(-0\.\d{4}\)", text)


def test_equal_scores_are_said_where_they_matter(run: Run, tmp_path: Path) -> None:
    queries = two_kinds(6, seed=2)
    twins = queries.documents.copy()
    twins[1::2] = twins[:-1:2]
    path = tmp_path / "twins.txt"
    path.write_text(letor(queries.with_documents(twins)))
    low, high = evaluate(local_ranker(), read(path), ["map"]).ties[0]

    _, text, _ = run("web", str(path), "--metrics", "map")
    assert (
        f"web@1: another order of documents with equal scores would give map (standard) {low:.4f} … {high:.4f}\n"
        in text
    )

    _, text, _ = run("web", "test.txt", "--metrics", "map")
    assert "equal scores" not in text


def test_every_convention_has_its_own_table_and_its_empty_queries(run: Run) -> None:
    _, text, _ = run("plain", "test.txt", "--convention", "standard-skip,letor3", "--metrics", "map,p@5")

    assert "standard-skip: empty queries left out" in text
    assert "letor3: empty queries counted 0" in text
    assert 4 == len(re.findall(r"^(?:map|p@5) +1 +0\.\d{4}$", text, re.MULTILINE))


def test_per_query_figures_go_to_a_file(run: Run, tmp_path: Path) -> None:
    expected = evaluate(local_ranker(), read("test.txt"), ["map"], ["standard-skip"])
    options = ("--metrics", "map", "--convention", "standard-skip", "--per-query")
    for suffix, delimiter in ((".csv", ","), (".tsv", "\t")):
        path = tmp_path / f"figures{suffix}"

        assert 0 == run("web", "test.txt", *options, str(path))[0]

        with path.open(newline="") as file:
            rows = list(csv.DictReader(file, delimiter=delimiter))
        assert [f"q{i}" for i in range(20)] == [row["query_id"] for row in rows]
        assert rows[3]["web@1 map standard-skip"] == ""
        found = [float(row["web@1 map standard-skip"] or "nan") for row in rows]
        np.testing.assert_array_equal(found, expected.local[0].per_query)


def test_labels_above_four_need_their_top_grade_for_err(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "graded.txt"
    path.write_text(letor(replace(two_kinds(4), labels=two_kinds(4).labels * 5)))

    code, _, errors = run("plain", str(path), "--metrics", "err")
    assert code == 1
    assert "ERR in convention standard has the top grade 4" in errors
    code, text, _ = run("plain", str(path), "--metrics", "err", "--top-grade", "10")
    assert code == 0
    assert "standard(top_grade=10): empty queries counted 0" in text


# ------------------------------------------------------------------------------------ models and data told apart


@pytest.mark.parametrize(
    "words",
    [
        ("web", "test.txt"),
        ("test.txt", "web"),
        ("web@1", "test.txt"),
        ("web@champion", "test.txt"),
        ("models/web", "test.txt"),
        ("models/web/1", "test.txt"),
    ],
)
def test_a_model_is_what_is_no_path_or_a_published_folder(run: Run, words: tuple[str, ...]) -> None:
    code, text, errors = run(*words, "--metrics", "map", "--json")

    assert (code, errors) == (0, "")
    assert [one["model"] for one in json.loads(text)["models"]] == ["web@1"]


def test_a_folder_is_data_even_if_a_model_has_its_name(run: Run, place: Path) -> None:
    (place / "plain").mkdir()
    (place / "plain" / "part-0.txt").write_text((place / "test.txt").read_text())

    code, _, errors = run("plain", "test.txt", "--metrics", "map")
    assert code == 2
    assert "expected a model, found only files and folders: plain, test.txt" in errors
    assert "its alias or version: web@champion" in errors
    code, text, _ = run("plain@1", "plain", "--metrics", "map", "--json")

    assert code == 0
    assert json.loads(text)["data"]["paths"] == ["plain"]
    (place / "plain" / "part-0.txt").unlink()
    (place / "plain").rmdir()


def test_another_models_dir_is_another_place(run: Run, place: Path) -> None:
    place.joinpath("models").rename(place / "elsewhere")
    try:
        assert run("web", "test.txt")[0] == 1
        assert run("web", "test.txt", "--models-dir", "elsewhere", "--metrics", "map")[0] == 0
    finally:
        place.joinpath("elsewhere").rename(place / "models")


def test_two_models_of_one_name_are_called_as_they_were_asked_for(run: Run, tmp_path: Path) -> None:
    publish(tmp_path, "web", global_ranker())

    _, text, _ = run("web", str(tmp_path / "web"), "test.txt", "--metrics", "map", "--json")

    assert [one["model"] for one in json.loads(text)["models"]] == ["web", str(tmp_path / "web")]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("web",), "expected argument DATA, found none"),
        (("web", "plain"), "expected judged queries after the model, found none"),
        (("test.txt", "test.txt"), "expected a model, found only files and folders"),
        (("web", "plain", "web@2", "test.txt"), "expected one or two models, found web, plain, web@2"),
        (("web", "web@champion", "test.txt"), "expected two different models, found models/web/1 twice"),
        (("web", "test.txt", "--metrics", "dcg@5"), "metric 'dcg@5': expected one of map"),
        (("web", "test.txt", "--metrics", " ,"), "--metrics: expected at least one"),
        (("web", "test.txt", "--convention", "trec"), "convention 'trec': expected one of letor3"),
        (("web", "test.txt", "--margin", "-1"), "--margin: expected a number between 0 and 1, found -1"),
        (
            ("web", "plain", "test.txt", "--run", "x"),
            "--run: expected one model to compare the run with, found two",
        ),
        (("web", "test.txt", "--top-grade", "0"), "top grade: expected 1 to 1000, found 0"),
        (("web", "test.txt", "--per-query", "no/x.csv"), "--per-query no/x.csv: no such folder"),
    ],
)
def test_wrong_use_is_explained_with_exit_code_two(run: Run, words: tuple[str, ...], complaint: str) -> None:
    code, text, errors = run(*words)

    assert (code, text) == (2, "")
    assert complaint in errors


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("nope", "test.txt"), "localrank: models: expected a model 'nope', found plain, web\n"),
        (("web@7", "test.txt"), "localrank: web: expected version 7, found 1, 2\n"),
        (("web", "tset.txt"), "localrank: tset.txt: no such file or folder, and no model of that name\n"),
        (("web", "data/x"), "localrank: data/x: no such file or folder, and no model of that name\n"),
        (
            ("web", "test.txt", "--convention", "letor3", "--per-query", "models"),
            "localrank: models: cannot be written: Is a directory\n",
        ),
    ],
)
def test_failures_are_one_line_with_exit_code_one(run: Run, words: tuple[str, ...], complaint: str) -> None:
    code, text, errors = run(*words)

    assert (code, text, errors) == (1, "", complaint)


def test_help_shows_how_models_and_data_are_told_apart(run: Run) -> None:
    code, text, _ = run("--help")

    assert code == 0
    assert "localrank evaluate demo data/test.txt\n" in text
    assert "word that is an existing file or folder is data" in " ".join(text.split())


# ----------------------------------------------------------------------------------------------- what is printed


@pytest.mark.parametrize("margin", ["0", "1"])
def test_a_margin_lies_between_0_and_1(run: Run, margin: str) -> None:
    code, _, errors = run("web", "test.txt", "--margin", margin)

    assert 2 == code
    assert f"--margin: expected a number between 0 and 1, found {margin}" in " ".join(errors.split())


def test_queries_that_a_model_was_trained_on_are_told(run: Run, place: Path, tmp_path: Path) -> None:
    trained = [
        "train",
        str(place / "test.txt"),
        "--learner",
        "linear",
        "--set",
        "learner.ridge=0.1",
        "--models-dir",
        str(tmp_path),
    ]
    assert 0 == main([*trained, "--name", "known"])

    _, _, errors = run("known", "test.txt", "--models-dir", str(tmp_path), "--metrics", "map")

    assert "these are the queries that known@1 learned from" in errors
    assert f"localrank models show known --models-dir {tmp_path}" in errors
