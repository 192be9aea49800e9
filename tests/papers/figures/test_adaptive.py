"""Adaptive training's experiments on queries of two kinds, where one model for both cannot be right."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from localrank.__main__ import main
from localrank_papers.figures import adaptive, adaptive_clusters
from localrank_papers.figures.adaptive_clusters import PUBLISHED, REPAIRED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.soak

NAMES = ("adaptive-table2", "adaptive-fig4", "adaptive-fig5")


@pytest.fixture(scope="module")
def found(folds_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the three experiments find, with few trees and two clusters."""
    published = replace(PUBLISHED, num_iterations=15)
    repaired = replace(REPAIRED, num_iterations=20, min_data_in_leaf=5, learning_rate=0.2)
    out = tmp_path_factory.mktemp("adaptive")
    with pytest.MonkeyPatch.context() as patch:
        for module in (adaptive, adaptive_clusters):
            patch.setattr(module, "PUBLISHED", published)
            patch.setattr(module, "REPAIRED", repaired)
        for name, fewer in (("ROUNDS", 1), ("_PARTS", 2)):
            patch.setattr(adaptive_clusters, name, fewer)
        patch.setattr(adaptive, "_PARTS", 2)
        patch.setattr(adaptive, "COUNT", 2)
        patch.setattr(adaptive, "CANDIDATES", (1, 2))
        patch.setattr(adaptive_clusters.as_published, "__defaults__", (2, published))
        patch.setattr(adaptive_clusters.repaired, "__defaults__", (repaired, 0))
        arguments = ["--data", str(folds_folder), "--out", str(out), "--workers", "1", "--draws", "2"]
        assert 0 == main(["papers", "run", *NAMES, *arguments])
        yield {name: json.loads((out / f"{name}.json").read_text()) for name in NAMES}


def ndcg(found: dict[str, Any], protocol: str, ranking: str) -> float:
    """NDCG@5 of a row of Table 2."""
    table = found["adaptive-table2"]["tables"][0]
    column = table["header"].index("ndcg@5")
    (row,) = (row for row in table["rows"] if row[:2] == [protocol, ranking])
    return float(row[column])


def test_no_answer_beats_the_oracle(found: dict[str, Any]) -> None:
    for protocol in ("published", "repaired"):
        for clusters in ("k-means", "Ward"):
            oracle = ndcg(found, protocol, f"{clusters}, oracle")
            for answer in ("selective", "random routing"):
                assert ndcg(found, protocol, f"{clusters}, {answer}") <= oracle


def test_every_protocol_has_all_eight_metrics_with_deviations(found: dict[str, Any]) -> None:
    table = found["adaptive-table2"]["tables"][0]

    assert [*table["header"][2::2]] == list(adaptive.METRICS)
    assert {row[0] for row in table["rows"]} == {"published", "repaired"}
    assert all(0 <= value <= 1 for row in table["rows"] for value in row[2:])


def test_random_clusters_stand_beside_the_real_ones(found: dict[str, Any]) -> None:
    control = found["adaptive-table2"]["tables"][1]

    assert len(control["rows"]) == 2 * 2 * 3
    for row in control["rows"]:
        mean, low, high, below = row[4:]
        assert low <= mean <= high
        assert 0 <= below <= 2


def test_one_cluster_is_among_the_choices_and_is_the_global_model(found: dict[str, Any]) -> None:
    choices = found["adaptive-table2"]["tables"][-1]

    for clusters, answer, chosen, of_one, flips in choices["rows"]:
        counts = [int(count) for count in chosen.split(", ")]
        assert set(counts) <= {1, 2}
        assert of_one == counts.count(1)
        assert 0 <= flips <= 1
        if of_one == len(counts):
            ours = ndcg(found, "repaired", f"{clusters}, {answer}, clusters chosen")
            assert ours == ndcg(found, "repaired", "one global model")


def test_the_comparisons_are_one_family_of_paired_tests(found: dict[str, Any]) -> None:
    for table in found["adaptive-table2"]["tables"][2:4]:
        raw, adjusted = (table["header"].index(name) for name in ("p (randomisation)", "p (Holm)"))
        assert all(row[adjusted] >= row[raw] for row in table["rows"])
        assert any("fusion" in row[0] for row in table["rows"])


@pytest.mark.parametrize("name", ["adaptive-fig4", "adaptive-fig5"])
def test_levels_hold_every_query_once(found: dict[str, Any], name: str) -> None:
    table = found[name]["tables"][0]

    for how in {row[0] for row in table["rows"]}:
        queries = sum(row[3] for row in table["rows"] if row[0] == how and row[1] == "baseline")
        assert queries == 60


def test_at_a_level_the_baseline_is_that_far_from_the_feature(found: dict[str, Any]) -> None:
    """That is what a level means; by another run of the baseline it does not hold."""
    rows = found["adaptive-fig4"]["tables"][0]["rows"]
    means = {(row[1], row[2]): row[4] for row in rows if row[0] == "as published"}

    for (ranking, level), mean in means.items():
        if ranking == "baseline":
            assert mean - means["best feature", level] == pytest.approx(level, abs=0.0501)


def test_marks_name_the_data_that_is_missing(found: dict[str, Any]) -> None:
    marks = found["adaptive-table2"]["marks"]

    assert marks["data"].startswith("another than the paper's (MQ2007)")
    assert "MQ2007" in marks["not_run"]


def test_models_of_the_two_kinds_rank_better_than_one_model_if_the_right_one_is_taken(
    found: dict[str, Any],
) -> None:
    """Kinds are ranked by the same feature in opposite directions, and the mean document does not show the kind."""
    for clusters in ("k-means", "Ward"):
        one = ndcg(found, "published", "one global model")
        assert ndcg(found, "published", f"{clusters}, oracle") > one + 0.1
