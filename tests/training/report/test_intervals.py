"""Intervals against scipy's and against resampling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from localrank_training.evaluation.features import importances_of
from localrank_training.report.parts import called, named, signed, wilson, within
from tests.core.examples import example_queries, example_ranker


@pytest.mark.parametrize(("cases", "n"), [(0, 10), (3, 10), (10, 10), (17, 80), (1, 1)])
def test_a_share_has_wilsons_interval(cases: int, n: int) -> None:
    expected = binomtest(cases, n).proportion_ci(method="wilson")

    assert (expected.low, expected.high) == pytest.approx(wilson(cases / n, n), abs=1e-12)


def test_errors_of_importances_are_what_resampled_queries_spread() -> None:
    ranker, queries = example_ranker("exact", "linear"), example_queries()
    found = importances_of(ranker, queries)
    assert found is not None
    rng = np.random.default_rng(0)

    drawn = []
    for _ in range(150):
        some = importances_of(ranker, [queries[i] for i in rng.integers(0, len(queries), len(queries))])
        assert some is not None
        drawn.append(some.overall)

    np.testing.assert_allclose(found.errors, np.std(drawn, axis=0), rtol=0.35)


def test_one_query_tells_no_error() -> None:
    found = importances_of(example_ranker("exact", "linear"), example_queries()[:1])

    assert found is not None
    assert np.isnan(found.errors).all()


def test_metrics_and_differences_are_written_as_people_do() -> None:
    assert ["MAP", "NDCG@10", "mean NDCG"] == [called(name) for name in ("map", "ndcg@10", "mean_ndcg")]
    assert "MAP 0.5 and NDCG@10 fell; a map of x" == named("map 0.5 and ndcg@10 fell; a map of x")
    assert ("−0.0100", "+0.0200") == (signed(-0.01), signed(0.02))
    assert "+0.0200" == within(0.02, None)
