"""The experiments of L-GMML on queries whose relevant documents lie around one place, which nearness can rank."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.__main__ import main
from localrank.scorers import LinearScorer
from localrank_papers.figures import lgmml, lgmml_variants
from localrank_papers.figures.folds import Fold, read_folds
from localrank_papers.figures.lgmml_variants import METRICS, VARIANTS, by_column_norm, noisy
from localrank_training.data.queries import QuerySet, default_names
from localrank_training.data.writing import write

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_training.learners.lesson import Lesson

ON_DATA = ("lgmml-fig3", "lgmml-table2", "lgmml-table4", "lgmml-table5", "lgmml-noise")
ON_SONGS = ("lgmml-fig2", "lgmml-fig4", "lgmml-fig5", "lgmml-table1", "lgmml-table3")


def around_one_place(n_queries: int = 40, n_docs: int = 14) -> QuerySet:
    """A document is the more relevant the nearer it is to a corner, by two of four features."""
    rng = np.random.default_rng(0)
    documents = rng.random((n_queries * n_docs, 4))
    distance = np.hypot(1 - documents[:, 0], 1 - documents[:, 1]) + 0.05 * rng.standard_normal(len(documents))
    labels = np.zeros(len(documents))
    for query in range(n_queries):
        span = slice(query * n_docs, (query + 1) * n_docs)
        order = np.argsort(np.argsort(distance[span]))
        labels[span] = np.where(order < 2, 2, np.where(order < 5, 1, 0))
    return QuerySet(
        documents=documents.astype(np.float32),
        labels=labels,
        offsets=np.arange(n_queries + 1) * n_docs,
        query_ids=tuple(f"q{query}" for query in range(n_queries)),
        feature_names=default_names(4),
        lines=np.arange(len(documents)),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corner")
    queries = around_one_place()
    for part in range(5):
        write(queries.select(np.arange(part, len(queries), 5)), path / f"S{part + 1}.txt.gz")
    return path


@pytest.fixture(scope="module")
def found(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What all experiments find, with few metrics, trees and songs."""
    out = tmp_path_factory.mktemp("lgmml")
    few = {"num_threads": 1, "num_iterations": 20, "min_data_in_leaf": 5}
    learners = {
        "gbrt": (few,),
        "lambdamart": ({"members": 1, **few},),
        "ranksvm": ({"C": 1.0}, {"C": 10.0}),
        "lgmml": ({"t": 0.5, "metrics": 3},),
    }
    changes = {
        "SIZES": (1, 2, 4),
        "SHOWN": 4,
        "ROUNDS": 10,
        "LEARNERS": learners,
        "NOISE": (0, 30),
        "NOISED": {name: learners[name] for name in ("ranksvm", "lambdamart", "lgmml")},
        "CLASSES": ((4, 24),),
        "SONG_SIZES": (1, 4, 20),
        "SPLITS": 1,
        "STRUCTURAL": {"C": 100.0, "tolerance": 0.2, "max_cuts": 10},
        "REPRESENTATIONS": {"Audio": (3, 12, 6), "Lyrics-128": (3, 12, 4), "Lyrics-256": (3, 12, 5)},
        "DIMENSIONS": (4, 8, 16),
        "R_MLR_UP_TO": 8,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in changes.items():
            patch.setattr(lgmml, name, value)
        arguments = ["--data", str(folder), "--out", str(out), "--workers", "1", "--draws", "0"]
        assert 0 == main(["papers", "run", *ON_DATA, *ON_SONGS, *arguments])
    return {name: json.loads((out / f"{name}.json").read_text()) for name in (*ON_DATA, *ON_SONGS)}


def means(table: dict[str, Any], at: int) -> dict[Any, float]:
    return {row[0]: row[at] for row in table["rows"]}


def test_the_paper_as_printed_ranks_what_lies_around_one_place(found: dict[str, Any]) -> None:
    table = found["lgmml-table4"]["tables"][0]
    column = table["header"].index("ndcg@10")

    by_name = means(table, column)

    assert by_name["paper, algorithm 2, mean weights"] > 0.8
    assert by_name["paper, section 3, mean weights"] > 0.7
    # Farthest first, whatever the labels.
    assert by_name["released code"] < by_name["paper, algorithm 2, mean weights"] - 0.1
    assert set(by_name) >= set(VARIANTS)


def test_a_label_leak_is_never_worse_by_much_and_is_called_one(found: dict[str, Any]) -> None:
    table = found["lgmml-table4"]["tables"][0]
    by_name = means(table, table["header"].index("ndcg@10"))

    for how in ("algorithm 2", "section 3"):
        assert by_name[f"label leak (test labels), {how}"] > by_name[f"paper, {how}, equal weights"] - 0.02
    assert "no ranker" in found["lgmml-table4"]["marks"]["protocol"]


def test_figure_3_has_every_variant_at_every_number_of_metrics(found: dict[str, Any]) -> None:
    table = found["lgmml-fig3"]["tables"][0]

    assert [(name, size) for name in VARIANTS for size in (1, 2, 4)] == [
        tuple(row[:2]) for row in table["rows"]
    ]
    assert any("training queries only" in sentence for sentence in found["lgmml-fig3"]["sentences"])
    # The same metrics are in Table 4.
    at_most = {row[0]: row[2:] for row in table["rows"] if row[1] == 4}
    assert all(
        at_most[row[0]] == row[1 : 1 + len(METRICS)]
        for row in found["lgmml-table4"]["tables"][0]["rows"]
        if row[0] in at_most
    )


def test_scoring_takes_longer_with_more_metrics(found: dict[str, Any]) -> None:
    times = means(found["lgmml-table5"]["tables"][0], 1)

    assert {"GBRT", "λ-MART", "RankSVM", "L-GMML, 1 metrics", "L-GMML, 4 metrics"} <= set(times)
    assert all(time > 0 for time in times.values())


def test_noise_is_beside_the_features_and_the_same_for_every_learner(
    folder: Path, found: dict[str, Any]
) -> None:
    header = found["lgmml-noise"]["tables"][0]["header"]

    assert ["ranker", "0 columns", "30 columns"] == header
    fold = read_folds(folder).folds[0]
    settings: dict[str, Any] = {"settings": [{"C": 1.0}], "columns": 5, "convention": "standard", "seed": 0}
    first, second = (noisy(fold, learner="ranksvm", **settings)["figures"] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_columns_have_norm_one_over_all_documents() -> None:
    queries = around_one_place(5)

    scaled = by_column_norm(queries)

    np.testing.assert_allclose(np.linalg.norm(scaled.documents.astype(float), axis=0), 1.0, rtol=1e-5)


def test_table_2_counts_the_data_beside_the_papers_counts(found: dict[str, Any]) -> None:
    rows = found["lgmml-table2"]["tables"][0]["rows"]

    assert [24, 8, 8, 3, 4] == rows[-1][2:]
    assert ["as the paper prints it", "MSLR-WEB10K", 6000, 2000, 2000, 5, 136] in rows


def test_local_metrics_gain_on_songs_up_to_their_classes(found: dict[str, Any]) -> None:
    rows = {row[1]: row[2] for row in found["lgmml-fig2"]["tables"][0]["rows"]}

    assert rows[4] > rows[1]
    assert rows[20] < rows[4] + 0.03


def test_songs_are_marked_as_synthetic(found: dict[str, Any]) -> None:
    for name in ON_SONGS:
        assert found[name]["marks"]["data"].startswith("synthetic: classes of points for CAL10K")
        assert "CAL10K" in found[name]["marks"]["not_run"]


def test_mlr_is_in_figure_5_and_r_mlr_stops_where_it_is_too_slow(found: dict[str, Any]) -> None:
    assert ["representation", "Euclidean", "MLR", "R-MLR", "GMML", "L-GMML"] == found["lgmml-fig5"]["tables"][
        0
    ]["header"]
    assert [(4, True), (8, True), (16, False)] == [
        (row[0], row[1] is not None) for row in found["lgmml-fig4"]["tables"][0]["rows"]
    ]
    assert (
        3
        == len(found["lgmml-table1"]["tables"][0]["rows"])
        == len(found["lgmml-table3"]["tables"][0]["rows"])
    )


@dataclass(frozen=True)
class _Given:
    """A learner that learns nothing."""

    towards: float
    blocks: str = "raw"

    def fit(self, _lesson: Lesson) -> LinearScorer:
        return LinearScorer(np.array([self.towards, self.towards, 0.0, 0.0]), blocks="raw")


@pytest.mark.parametrize("towards", [(1.0, -1.0), (-1.0, 1.0)])
def test_settings_are_chosen_by_validation_queries(
    folder: Path, monkeypatch: pytest.MonkeyPatch, towards: tuple[float, float]
) -> None:
    monkeypatch.setattr(lgmml_variants, "make", lambda _learner, values: _Given(**values))

    chosen, _, _ = lgmml_variants._best(
        read_folds(folder).folds[0], "given", [{"towards": one} for one in towards]
    )

    assert isinstance(chosen, LinearScorer)
    assert [1.0, 1.0, 0.0, 0.0] == chosen.weights.tolist()


def test_the_seconds_of_a_sweep_are_those_of_the_paper_as_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Algorithm 2 takes ten seconds for all four metrics and one for each weighing; section 3 takes a hundred times as long."""
    clock = [0.0]
    sampled, weights = lgmml_variants._sampled, lgmml_variants._weights

    def slow(learner: object, alone: float) -> None:
        clock[0] += alone * (1 if learner is lgmml_variants.PAPER_LEARNER else 100)

    def sampling(learner: Any, *rest: Any) -> Any:
        slow(learner, 10.0)
        return sampled(learner, *rest)

    def weighing(scorer: Any, queries: Any, learner: Any, *rest: Any) -> Any:
        slow(learner, 1.0)
        return weights(scorer, queries, learner, *rest)

    monkeypatch.setattr(lgmml_variants, "_sampled", sampling)
    monkeypatch.setattr(lgmml_variants, "_weights", weighing)
    monkeypatch.setattr("time.process_time", lambda: clock[0])
    queries = around_one_place(9)
    fold = Fold(1, queries.select(np.arange(6)), queries.select([]), queries.select(np.arange(6, 9)))

    found = lgmml_variants.sweep(fold, sizes=[1, 2, 4], rounds=1, convention="standard", seed=0)

    assert pytest.approx([1 + 10 / 4, 1 + 20 / 4, 1 + 40 / 4]) == found["seconds"].tolist()
    assert (len(VARIANTS), 3, len(METRICS), 3) == found["figures"].shape
    assert (2, 6) == found["training"].shape
