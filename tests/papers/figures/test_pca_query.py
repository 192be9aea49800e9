"""The experiments of PCA query representation on queries of two kinds whose top values differ."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.__main__ import main
from localrank_papers.figures import pca_query
from localrank_papers.figures.folds import read_folds
from localrank_papers.figures.pca_clusters import answered, crossed, literal_points, pooled_points
from localrank_training.data.writing import write
from tests.training.kinds import two_kinds

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("pca-query-table1", "pca-query-fig3", "pca-query-quality")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five partitions of queries of two kinds, one of which lies elsewhere: the top values tell them apart."""
    path = tmp_path_factory.mktemp("apart")
    queries = two_kinds(60)
    apart = (np.arange(len(queries)) % 2)[queries.query_of, None] * 50.0
    queries = queries.with_documents((queries.documents + apart).astype(np.float32))
    for part in range(5):
        write(queries.select(np.arange(part * 12, part * 12 + 12)), path / f"S{part + 1}.txt.gz")
    return path


@pytest.fixture(scope="module")
def found(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("pca")
    with pytest.MonkeyPatch.context() as patch:
        for name, fewer in (
            ("SCORES", (5,)),
            ("COMPONENTS", (2,)),
            ("CLUSTERS", (1, 2)),
            ("STRENGTHS", (10.0,)),
        ):
            patch.setattr(pca_query, name, fewer)
        arguments = ["--data", str(folder), "--out", str(out), "--workers", "1", "--draws", "2"]
        assert 0 == main(["papers", "run", *NAMES, *arguments])
    return {name: json.loads((out / f"{name}.json").read_text()) for name in NAMES}


def test_read_literally_every_query_is_zero() -> None:
    """The mean of centred scores is zero; by one set of axes it is the score of the mean."""
    queries = two_kinds(12)
    lists = list(queries.clouds())

    literal, pooled = literal_points(lists, 5, 2), pooled_points(queries, 5, 2)

    assert literal.shape == pooled.shape == (12, 2)
    np.testing.assert_allclose(literal, 0.0, atol=1e-9)
    assert pooled.std(axis=0).max() > 0.1


def test_points_are_projections_of_mean_top_values() -> None:
    """By scikit-learn's PCA of the rows of all queries; axes have no sign."""
    from sklearn.decomposition import PCA

    queries = two_kinds(12)
    documents = queries.documents.astype(np.float64)
    scaled = (documents - documents.mean(axis=0)) / documents.std(axis=0)
    rows = [np.sort(scaled[queries.span(query)], axis=0)[::-1][:5] for query in range(12)]
    pca = PCA(2, svd_solver="full").fit(np.concatenate(rows))

    expected = np.stack([pca.transform(one).mean(axis=0) for one in rows])

    np.testing.assert_allclose(np.abs(pooled_points(queries, 5, 2)), np.abs(expected), rtol=1e-3, atol=1e-3)


def test_clusters_of_two_kinds_rank_better_than_one_model(found: dict[str, Any]) -> None:
    answer = found["pca-query-quality"]
    means = {
        row[0]: dict(zip(answer["tables"][0]["header"][1:], row[1:], strict=True))
        for row in answer["tables"][0]["rows"]
    }

    assert means["clusters, one a candidate"]["map"] > means["one model"]["map"] + 0.1
    assert means["clusters, one a candidate"]["map"] > means["random routing over these clusters"]["map"]
    assert means["oracle among these clusters"]["ndcg@5"] >= means["clusters, two at least"]["ndcg@5"]
    assert any("One cluster was chosen in 0 of 5 folds" in sentence for sentence in answer["sentences"])
    random = next(table for table in answer["tables"] if table["title"].startswith("Beside random clusters"))
    low = random["header"].index("low")
    assert all(row[low] > 0 for row in random["rows"] if row[0] == "clusters beside random clusters, map")


def test_table_1_counts_the_data_beside_the_papers_counts(found: dict[str, Any]) -> None:
    rows = found["pca-query-table1"]["tables"][0]["rows"]

    assert ["as the paper prints it", "OHSUMED", 106, 3, 45, None, None] in rows
    assert 60 == rows[-1][2]


def test_figure_3_says_that_the_literal_steps_come_to_nothing(found: dict[str, Any]) -> None:
    literal, pooled = found["pca-query-fig3"]["tables"][0]["rows"]

    assert literal[1] < 1e-6 < pooled[1]


def test_random_clusters_have_the_sizes_of_the_real_ones(folder: Path) -> None:
    fold = read_folds(folder).folds[0]
    settings: dict[str, Any] = {
        "scores": 5, "components": 2, "clusters": 2, "strength": 10.0, "convention": "standard"
    }  # fmt: skip

    real, dealt = answered(fold, **settings), answered(fold, **settings, draw=0)

    assert np.bincount(real["labels"]).tolist() == np.bincount(dealt["labels"]).tolist()
    assert (real["labels"] != dealt["labels"]).any()
    parity = [int(query_id[1:]) % 2 for query_id in (*fold.train.query_ids, *fold.validation.query_ids)]
    assert len(set(zip(parity, real["labels"].tolist(), strict=True))) == 2


def test_every_known_query_is_left_out_once(folder: Path) -> None:
    fold = read_folds(folder).folds[0]

    found = crossed(fold, scores=[5], components=[2], clusters=[1, 2], strengths=[10.0], parts=3)["map"]

    assert (1, 1, 2, 1, len(fold.train) + len(fold.validation)) == found.shape
    assert (found > 0).all()
    assert (found <= 1).all()
