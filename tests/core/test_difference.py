from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.stats import kendalltau

from localrank import Ranker, Registry
from localrank.features.contract import FeatureContract
from localrank.registry.difference import Change, Difference
from localrank.scorers import LinearScorer
from tests.core.examples import N_FEATURES, example_queries, example_ranker, provenance

if TYPE_CHECKING:
    from pathlib import Path


def diff(tmp_path: Path, before: Ranker, after: Ranker, **changes: object) -> Difference:
    registry = Registry(tmp_path)
    registry.publish("web", before, provenance(before))
    registry.publish("web", after, replace(provenance(after), **changes))  # type: ignore[arg-type]
    return registry.diff("web@1", "web@2")


def test_a_version_does_not_differ_from_itself(tmp_path: Path) -> None:
    ranker = example_ranker()

    found = diff(tmp_path, ranker, ranker)

    assert ((), (), ()) == (found.settings, found.metrics, found.contract)
    assert found.probe is not None
    assert {(1.0, True, 0)} == {(one.tau, one.same_first, one.furthest) for one in found.probe}


def test_settings_and_metrics_are_compared_by_path(tmp_path: Path) -> None:
    before, after = example_ranker("exact"), example_ranker("medoid")

    found = diff(
        tmp_path,
        before,
        after,
        source={"configuration": {"learner": {"C": 10.0}}},
        metrics={"map": {"local": 0.25}},
    )

    assert Change("configuration.learner.C", 0.1, 10.0) in found.settings
    assert Change("router.part", "exact", "medoid") in found.settings
    assert Change("map", None, {"local": 0.25}) in found.metrics


def test_probe_rankings_are_compared_by_kendalls_tau(tmp_path: Path) -> None:
    before = example_ranker("global", seed=1)
    after = replace(before, global_scorer=LinearScorer(np.random.default_rng(8).standard_normal(N_FEATURES)))

    found = diff(tmp_path, before, after)

    assert found.probe is not None
    for one in found.probe:
        side = before if one.probe == "before" else after
        query = provenance(side).probe[one.query]
        scores = [ranker.rank(query).scores for ranker in (before, after)]
        expected = kendalltau(*scores).statistic if len(query) > 1 else 1.0
        assert expected == pytest.approx(one.tau)
        first = [int(np.argmax(score)) for score in scores]
        assert (first[0] == first[1]) == one.same_first
        ranks = [[sorted(-score).index(-value) for value in score] for score in scores]
        assert max(abs(a - b) for a, b in zip(*ranks, strict=True)) == one.furthest
    assert any(one.tau < 1 for one in found.probe)


def test_a_large_probe_is_compared_in_little_memory(tmp_path: Path) -> None:
    """The pairs of 4,000 documents would take 128 MB as doubles."""
    before = example_ranker("global", seed=1)
    after = replace(before, global_scorer=LinearScorer(np.random.default_rng(8).standard_normal(N_FEATURES)))
    documents = np.random.default_rng(5).standard_normal((4_000, N_FEATURES)).astype(np.float32)
    registry = Registry(tmp_path)
    for ranker in (before, after):
        registry.publish("web", ranker, replace(provenance(ranker), probe=[documents]))
    expected = kendalltau(*(ranker.rank(documents).scores for ranker in (before, after))).statistic

    tracemalloc.start()
    try:
        found = registry.diff("web@1", "web@2")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert found.probe is not None
    assert [pytest.approx(expected)] * 2 == [one.tau for one in found.probe]
    assert peak < 16e6


def test_contracts_are_compared_feature_by_feature(tmp_path: Path) -> None:
    before = example_ranker("global")
    queries = example_queries()
    contract = FeatureContract.learn(
        np.concatenate(queries),
        [len(query) for query in queries],
        names=["f2", "f1", "f3", "f4", "f5", "new"],
        missing=["reject", "reject", "zero", "reject", "reject", "reject"],
        normalise="query_minmax",
    )

    found = diff(tmp_path, before, replace(before, contract=contract))

    changes = {change.path: (change.before, change.after) for change in found.contract}
    assert ("none", "query_minmax") == changes["normalise"]
    assert (5, None) == changes["names.f6"]
    assert (None, 5) == changes["names.new"]
    assert (["f1", "f2", "f3", "f4", "f5"], ["f2", "f1", "f3", "f4", "f5"]) == changes["order"]
    assert ("reject", "zero") == changes["missing.f3"]
    # f1 and f2 have changed places, and with them what training saw of each.
    assert (None, "differs for 2 of 5 features") == changes["quantiles"]
    assert found.probe is None
