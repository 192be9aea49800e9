"""The experiments of multiple hyperplanes on graded queries whose hyperplanes are known."""

from __future__ import annotations

import json
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrank.__main__ import main
from localrank.scorers import BordaScorer, LinearScorer
from localrank_papers.figures import hyperplanes, mhr
from localrank_papers.figures.folds import Fold
from localrank_papers.figures.hyperplanes import graded, turned
from localrank_training.data.writing import write
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.seen import scores_of

if TYPE_CHECKING:
    from localrank_training.data.queries import QuerySet

pytestmark = pytest.mark.soak

NAMES = ("mhr-fig1", "mhr-fig2", "mhr-fig3", "mhr-table5", "mhr-table6", "mhr-table7", "mhr-grades")


def three_grades(seed: int, n_queries: int = 60) -> QuerySet:
    """Steps at right angles, so that the first and the last hyperplane are at right angles too."""
    rng = np.random.default_rng(seed)
    return graded(n_queries, 15, 2.0 * turned(2, 1.0, rng, 6), (0.5, 0.3, 0.2), rng)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the experiments find."""
    data, out = tmp_path_factory.mktemp("three-grades"), tmp_path_factory.mktemp("mhr")
    queries = three_grades(0)
    for part in range(5):
        write(queries.select(np.arange(part, len(queries), 5)), data / f"S{part + 1}.txt.gz")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mhr, "STRENGTHS", (1.0, 10.0))
        patch.setattr(hyperplanes, "_QUERIES", 80)
        arguments = ["--data", str(data), "--out", str(out), "--workers", "1", "--draws", "0"]
        assert 0 == main(["papers", "run", *NAMES, *arguments])
    return {name: json.loads((out / f"{name}.json").read_text()) for name in NAMES}


def rows(found: dict[str, Any], name: str, table: int) -> dict[Any, list[Any]]:
    return {row[0]: row[1:] for row in found[name]["tables"][table]["rows"]}


@given(st.integers(0, 1000), st.lists(st.floats(0.1, 5.0), min_size=2, max_size=4))
@settings(max_examples=25)
def test_equal_normals_are_ranksvm(seed: int, weights: list[float]) -> None:
    """Section 3.1: if all hyperplanes have the same normal, MHR ranks as RankSVM, whatever the Borda weights."""
    queries = three_grades(seed, n_queries=4)
    normal = np.random.default_rng(seed).standard_normal(6)
    plane = LinearScorer(normal, "raw")
    lesson = Lesson(queries, blocks="raw", widths={"raw": 6})

    borda = scores_of(
        BordaScorer(tuple(LinearScorer(2.0 * normal, "raw") for _ in weights), np.array(weights)), lesson
    )

    alone = scores_of(plane, lesson)
    for query in range(4):
        span = queries.span(query)
        np.testing.assert_array_equal(
            np.argsort(-borda[span], kind="stable"), np.argsort(-alone[span], kind="stable")
        )


def test_each_of_four_trials_tests_other_queries() -> None:
    queries = three_grades(1)

    folds = mhr._four(queries, 0)

    assert sorted(q for fold in folds for q in fold.test.query_ids) == sorted(queries.query_ids)
    for fold in folds:
        assert set(fold.train.query_ids).isdisjoint(fold.test.query_ids)
        assert len(fold.train) + len(fold.test) == len(queries)
        assert not len(fold.validation)


def test_map_counts_the_highest_grade_only() -> None:
    queries = three_grades(2, n_queries=1)
    labels = queries.labels
    scores = np.where(labels == 1, 3.0, labels)  # the middle grade before the highest

    measured = mhr._measured(queries, scores, 2.0)[-1]

    middle, highest = int((labels == 1).sum()), int((labels == 2).sum())
    expected = np.mean([found / (middle + found) for found in range(1, highest + 1)])
    assert measured == pytest.approx([expected])


def test_hyperplanes_of_steps_at_right_angles_are_found_so(found: dict[str, Any]) -> None:
    for table in (0, 1):
        cosines = rows(found, "mhr-table5", table)
        assert abs(cosines["(2,3) and (1,2)"][-3]) < 0.25
        assert cosines["(2,3) with itself"][-1] > 0.8


def test_a_base_ranker_orders_its_own_pair_better_than_ranksvm_and_no_other(found: dict[str, Any]) -> None:
    for table in found["mhr-table6"]["tables"]:
        pairs = table["header"][2:]
        test = {row[1]: row[2:] for row in table["rows"] if row[0] == "test"}
        best = pairs.index("(1,2)")
        assert test["base ranker (1,2)"][best] < test["RSVM"][best] - 0.02
        other = pairs.index("(2,3)")
        assert test["base ranker (1,2)"][other] > test["RSVM"][other] + 0.1
        assert [test[f"base ranker {pair}"][n] for n, pair in enumerate(pairs)] == test[
            "each base ranker on its own pair"
        ]


def test_accuracies_come_with_intervals_and_one_family(found: dict[str, Any]) -> None:
    for name in ("mhr-fig2", "mhr-fig3"):
        accuracies, gains, paired = found[name]["tables"][:3]
        means = {row[0]: row[1:] for row in accuracies["rows"]}
        relative = {row[0]: row[1:] for row in gains["rows"]}
        at = mhr.METRICS.index("ndcg@10")
        expected = 100 * (means["MHR-BC"][at] / means["RSVM"][at] - 1)
        assert relative["MHR-BC"][1] == pytest.approx(expected)
        raw, adjusted = (paired["header"].index(one) for one in ("p (randomisation)", "p (Holm)"))
        assert all(row[adjusted] >= row[raw] for row in paired["rows"])


def test_dividing_the_highest_grade_keeps_the_other_base_rankers(found: dict[str, Any]) -> None:
    """With K grades there are K (K - 1) / 2 of them, and those with one of the two highest are learned anew."""
    for _, grades, _, _, rankers, anew in found["mhr-grades"]["tables"][0]["rows"]:
        assert rankers == grades * (grades - 1) / 2
        assert anew == sum(high >= grades - 2 for _, high in combinations(range(grades), 2))


def test_multiple_hyperplanes_gain_if_steps_turn_and_only_then(found: dict[str, Any]) -> None:
    table = found["mhr-grades"]["tables"][1]
    low, high = table["header"].index("low"), table["header"].index("high")
    by_name = {row[0]: row for row in table["rows"]}

    turned_row = by_name["MHR-BC, 5 grades, every step at right angles to the others"]
    same_row = by_name["MHR-BC, 5 grades, every step the same way"]

    assert turned_row[low] > 0
    assert same_row[high] < 0.01


def test_the_plane_of_one_query_holds_all_of_its_documents(found: dict[str, Any]) -> None:
    rows = found["mhr-fig1"]["plots"][0]["rows"]

    assert sum(row[0].startswith("label") for row in rows) == 15
    assert {row[0] for row in rows if row[0].startswith("towards")} == {
        "towards label 1 from 0",
        "towards label 2 from 0",
        "towards label 2 from 1",
    }


def test_times_are_of_every_hyperplane(found: dict[str, Any]) -> None:
    for _, _, each, total, plain in found["mhr-table7"]["tables"][0]["rows"]:
        assert len(each.split(", ")) == 3
        assert total >= 0
        assert plain >= 0


def test_a_fold_without_validation_queries_has_an_address() -> None:
    fold = mhr._four(three_grades(3, n_queries=8), 0)[0]

    assert isinstance(fold, Fold)
    assert fold.fingerprint
