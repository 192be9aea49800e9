"""L-GMML: the metrics of candidate sets, and the weights of a query that nobody has judged."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.linalg import sqrtm

from localrank.errors import InvalidConfiguration
from localrank.metrics import Judgements
from localrank.scorers import AnchoredBySimilarityScorer, AnchoredScorer
from localrank.scorers.anchored import bent
from localrank_papers.learners import lgmml
from localrank_papers.learners.gmml import PairScatter, metric_transform
from localrank_papers.learners.lgmml import LocalGeometricMeanMetrics, learn_weights
from localrank_training.learners.catalogue import LEARNERS, make
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.notes import collected
from tests.core.clouds import as_cloud
from tests.training.learners.listed import declared, listed

if TYPE_CHECKING:
    from localrank.arrays import Bits, Indices, Vector
    from localrank_training.data.queries import QuerySet
    from tests.training.learners.conftest import Judged


def two_kinds(judged: Judged, seed: int = 0, n_queries: int = 20) -> tuple[QuerySet, np.ndarray]:
    """Queries of two kinds: one's relevant documents are high in the first feature, the other's in the second.

    Clouds of the first kind are long in the third feature, those of the second in the fourth, so that signatures
    tell them apart.
    """
    rng = np.random.default_rng(seed)
    clouds, labels = [], []
    kinds = np.arange(n_queries) % 2
    for kind in kinds:
        cloud = 0.5 * rng.random((30, 4))
        cloud[:, :2] = rng.random((30, 2))
        cloud[:, 2 + kind] = 4 * rng.random(30)
        clouds.append(cloud)
        labels.append((cloud[:, kind] > 0.7) * 1)
    return judged(clouds, labels), kinds


def test_a_metric_and_its_anchor_are_those_of_the_candidate_set(judged: Judged) -> None:
    queries, _ = two_kinds(judged, n_queries=1)

    scorer = LocalGeometricMeanMetrics(metrics=1, weights="uniform", queries_per_set=1).fit(Lesson(queries))

    assert isinstance(scorer, AnchoredScorer)
    relevant = queries.labels > 0
    whole = metric_transform(PairScatter.of(queries, relevant, np.ones(1)), regularisation=0.1)
    judgements = Judgements(queries.labels, queries.offsets)
    values = []
    for anchor in queries.documents[relevant]:
        apart = (queries.documents - anchor).astype(float) @ whole.T
        values.append(float(judgements.per_query(-np.linalg.norm(apart, axis=1), "ndcg@10")[0]))
    anchor = queries.documents[relevant][int(np.argmax(values))].astype(float)
    distances = np.linalg.norm((queries.documents - anchor) @ whole.T, axis=1)
    # The farthest training document is at a distance of one.
    expected = distances / distances.max()
    np.testing.assert_allclose(scorer.distances(queries.documents)[:, 0], expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        scorer.score_rows(queries.documents), -expected * np.exp(-expected), rtol=1e-9, atol=1e-12
    )


def test_algorithm_2_compares_documents_of_all_queries_as_one_list(judged: Judged) -> None:
    """With room for all documents the candidate set is all of them: every pair is made here, whatever its queries."""
    queries, _ = two_kinds(judged, n_queries=4)

    scorer = LocalGeometricMeanMetrics(
        metrics=2, weights="uniform", candidate_sets="documents", documents_per_set=10_000
    ).fit(Lesson(queries))

    documents, relevant = queries.documents.astype(float), queries.labels > 0
    similar, dissimilar = np.zeros((4, 4)), np.zeros((4, 4))
    for i in np.flatnonzero(relevant):
        for j in range(len(documents)):
            apart = np.outer(documents[i] - documents[j], documents[i] - documents[j])
            if relevant[j]:
                similar += apart
            else:
                dissimilar += apart
    similar, dissimilar = (part / np.trace(part) * 4 + 0.1 * np.eye(4) for part in (similar, dissimilar))
    root = np.real(sqrtm(similar))
    inverse = np.linalg.inv(root)
    metric = inverse @ np.real(sqrtm(root @ dissimilar @ root)) @ inverse
    values = []
    for anchor in documents[relevant]:
        apart = documents - anchor
        distances = np.sqrt(np.einsum("di,ij,dj->d", apart, metric, apart))
        judgements = Judgements(queries.labels, np.array([0, len(documents)]))
        values.append(float(judgements.per_query(-distances, "ndcg@10")[0]))
    apart = documents - documents[relevant][int(np.argmax(values))]
    expected = np.sqrt(np.einsum("di,ij,dj->d", apart, metric, apart))
    assert isinstance(scorer, AnchoredScorer)
    assert scorer.transforms.shape[0] == 2
    found = scorer.distances(queries.documents)[:, 0]
    np.testing.assert_allclose(found / found.max(), expected / expected.max(), rtol=1e-6, atol=1e-9)


def test_a_set_of_documents_is_no_larger_than_it_may_be(
    judged: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries, _ = two_kinds(judged)
    sizes: list[tuple[int, int]] = []

    def remember(some: QuerySet, relevant: Bits, shares: Vector, **options: Any) -> PairScatter:
        sizes.append((int(relevant.sum()), some.n_docs))
        assert len(some) == len(shares) == 1
        return PairScatter.of(some, relevant, shares, **options)

    monkeypatch.setattr(lgmml, "PairScatter", SimpleNamespace(of=remember))
    learner = LocalGeometricMeanMetrics(
        metrics=3, weights="uniform", candidate_sets="documents", documents_per_set=40
    )

    learner.fit(Lesson(queries, weights=np.arange(20.0)))

    assert [(20, 40)] * 3 == sizes


@pytest.mark.parametrize("reach", [0.5, 0.9])
def test_that_share_of_the_training_documents_is_within_a_distance_of_one(
    judged: Judged, reach: float
) -> None:
    queries, _ = two_kinds(judged)

    scorer = LocalGeometricMeanMetrics(metrics=3, weights="uniform", reach=reach).fit(Lesson(queries))

    assert isinstance(scorer, AnchoredScorer)
    within = (scorer.distances(queries.documents) <= 1.0).mean(axis=0)
    np.testing.assert_allclose(within, reach, atol=0.01)


def trained(queries: QuerySet, uniform: AnchoredScorer, rng: np.random.Generator) -> Vector:
    return learn_weights(
        bent(uniform.distances(queries.documents), "rising"),
        queries.labels > 0,
        queries.offsets,
        start=uniform.weights,
        rounds=10,
        step=0.1 / len(uniform.weights),
        margin=0.1,
        rng=rng,
    )


def test_the_mean_weights_are_the_mean_of_the_training_queries(judged: Judged) -> None:
    queries, _ = two_kinds(judged)
    share = np.arange(1.0, 21.0)
    uniform = LocalGeometricMeanMetrics(metrics=4, weights="uniform").fit(Lesson(queries, weights=share))
    mean = LocalGeometricMeanMetrics(metrics=4, weights="mean", rounds=10).fit(Lesson(queries, weights=share))
    near = LocalGeometricMeanMetrics(metrics=4, weights="similarity", rounds=10).fit(
        Lesson(queries, weights=share)
    )

    assert isinstance(uniform, AnchoredScorer)
    assert isinstance(mean, AnchoredScorer)
    assert isinstance(near, AnchoredBySimilarityScorer)
    np.testing.assert_array_equal(uniform.weights, np.full(4, 0.25))
    np.testing.assert_array_equal(mean.transforms, uniform.transforms)
    np.testing.assert_allclose(mean.weights, share @ near.weights / share.sum(), rtol=1e-12)
    assert (near.weights != uniform.weights).any(axis=1).mean() > 0.5
    assert near.weights.min() >= 0


def test_the_step_is_in_units_of_the_first_weights(judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    queries, _ = two_kinds(judged)
    told: dict[str, object] = {}

    def record(curves: Vector, relevant: Bits, offsets: Indices, **settings: object) -> Vector:
        told.update(settings, n_docs=len(curves), n_relevant=relevant.sum(), n_queries=len(offsets) - 1)
        return np.ones((20, 4))

    monkeypatch.setattr("localrank_papers.learners.lgmml.learn_weights", record)

    LocalGeometricMeanMetrics(metrics=4, step=0.2, rounds=7, margin=0.3).fit(Lesson(queries))

    assert told["step"] == 0.2 / 4
    assert (told["rounds"], told["margin"]) == (7, 0.3)
    np.testing.assert_array_equal(told["start"], np.full(4, 1 / 4))
    assert (told["n_docs"], told["n_queries"]) == (600, 20)
    assert told["n_relevant"] == (queries.labels > 0).sum()


def test_training_lowers_misranking_of_the_training_queries(judged: Judged) -> None:
    queries, _ = two_kinds(judged)
    uniform = LocalGeometricMeanMetrics(metrics=10, weights="uniform", queries_per_set=1).fit(Lesson(queries))
    assert isinstance(uniform, AnchoredScorer)
    curves = bent(uniform.distances(queries.documents), "rising")

    learned = trained(queries, uniform, np.random.default_rng(0))

    judgements = Judgements(queries.labels, queries.offsets)
    before = judgements.per_query(-(curves @ uniform.weights), "map").mean()
    after = judgements.per_query(-(curves * learned[queries.query_of]).sum(axis=1), "map").mean()
    assert after > before + 0.02


def test_similar_queries_lend_their_weights(judged: Judged) -> None:
    """New queries of two kinds are ranked better by the weights of their own kind than by the mean of all."""
    queries, _ = two_kinds(judged)
    fresh, _ = two_kinds(judged, seed=1)
    judgements = Judgements(fresh.labels, fresh.offsets)
    values = {}
    for weights in ("mean", "similarity"):
        scorer = LocalGeometricMeanMetrics(
            metrics=10, weights=weights, queries_per_set=1, rounds=300, step=0.3
        ).fit(Lesson(queries))
        scores = np.concatenate([scorer.score(as_cloud(cloud)) for cloud in fresh.clouds()])
        values[weights] = judgements.per_query(scores, "map").mean()

    assert values["similarity"] > values["mean"] + 0.02


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(judged: Judged) -> None:
    queries, _ = two_kinds(judged)

    first, second, third = (
        LocalGeometricMeanMetrics(metrics=3, queries_per_set=2, rounds=5, seed=seed)
        .fit(Lesson(queries))
        .score(as_cloud(queries.documents))
        for seed in (0, 0, 1)
    )

    np.testing.assert_array_equal(first, second)
    assert (first != third).any()


def test_no_more_metrics_than_there_are_queries_to_learn_from(judged: Judged) -> None:
    queries, _ = two_kinds(judged, n_queries=3)

    with collected() as notes:
        scorer = LocalGeometricMeanMetrics(metrics=20, queries_per_set=1, weights="uniform").fit(
            Lesson(queries)
        )

    assert isinstance(scorer, AnchoredScorer)
    assert len(scorer.weights) == 3
    assert notes[0].text == "3 metrics instead of 20: 3 training queries have no more sets"


def test_a_set_of_several_queries_counts_each_by_its_weight(judged: Judged) -> None:
    queries, _ = two_kinds(judged, n_queries=4)
    share = np.array([1.0, 3.0, 2.0, 5.0])

    scorer = LocalGeometricMeanMetrics(metrics=1, queries_per_set=2, weights="uniform").fit(
        Lesson(queries, weights=share)
    )

    assert isinstance(scorer, AnchoredScorer)
    found = []
    for pair in combinations(range(4), 2):
        own = np.where(np.isin(np.arange(4), pair), share, 0.0)
        scatter = PairScatter.of(queries, queries.labels > 0, own)
        ratio = scorer.transforms[0] / metric_transform(scatter, regularisation=0.1)
        found.append(np.ptp(ratio / ratio[0, 0]) < 1e-6)
    assert found.count(True) == 1


def test_no_set_comes_twice_nor_has_more_than_half_of_the_queries(judged: Judged) -> None:
    queries, _ = two_kinds(judged, n_queries=4)

    with collected() as notes:
        scorer = LocalGeometricMeanMetrics(metrics=200, weights="uniform").fit(Lesson(queries))

    assert isinstance(scorer, AnchoredScorer)
    assert len(scorer.weights) == 6
    assert len(np.unique(scorer.transforms.reshape(6, -1).round(9), axis=0)) == 6
    np.testing.assert_allclose(scorer.weights, 1 / 6)
    assert "6 metrics instead of 200: 4 training queries" in notes[0].text


def test_a_low_rank_is_kept_in_the_scorer(judged: Judged) -> None:
    queries, _ = two_kinds(judged)

    scorer = LocalGeometricMeanMetrics(metrics=3, rank=2, weights="uniform").fit(Lesson(queries))

    assert isinstance(scorer, AnchoredScorer)
    assert scorer.transforms.shape == (3, 2, 4)


def test_queries_that_lose_all_weights_have_equal_ones(judged: Judged) -> None:
    queries, _ = two_kinds(judged)
    wild = LocalGeometricMeanMetrics(metrics=2, step=1e6, margin=10.0, weights="similarity", seed=3)

    with collected() as notes:
        scorer = wild.fit(Lesson(queries))

    assert isinstance(scorer, AnchoredBySimilarityScorer)
    assert any("lost all weights" in note.text for note in notes)
    assert scorer.weights.any(axis=1).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metrics": 0}, "metrics: expected at least 1, found 0"),
        ({"weights": "nearest"}, "weights: expected one of 'uniform', 'mean', 'similarity', found 'nearest'"),
        ({"reach": 0.0}, "reach: expected more than 0, found 0.0"),
        ({"components": 9}, "components: expected at most 8, found 9"),
        ({"bandwidth": 0.0}, "bandwidth: expected at least 0.001, found 0.0"),
        ({"curve": "distance"}, "curve: expected one of 'turning', 'rising', found 'distance'"),
        ({"metric": "ndgc"}, "metric 'ndgc': expected one of map"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        make("lgmml", settings)


@pytest.mark.parametrize(
    ("available", "wanted", "size", "count"),
    [(2, 10, 1, 2), (3, 10, 2, 3), (4, 10, 2, 6), (5, 10, 3, 10), (6, 2, 2, 15), (6, 1, 1, 6), (7, 3, 3, 35)],
)
def test_a_set_has_as_many_queries_as_wanted_but_half_of_all_at_most(
    available: int, wanted: int, size: int, count: int
) -> None:
    """Half is rounded up. With many tries every set is drawn; queries without a share are in none."""
    shares = np.append(np.full(available, 1 / available), 0.0)
    learner = LocalGeometricMeanMetrics(metrics=300, queries_per_set=wanted)

    with collected() as notes:
        drawn = [tuple(one.tolist()) for one in learner._drawn(shares, np.random.default_rng(0))]

    assert sorted(drawn) == list(combinations(range(available), size)) if size > 1 else True
    assert {(size, count)} == {(len(one), len(set(drawn))) for one in drawn}
    assert count == notes[0].figures["metrics"]


def test_as_many_sets_as_metrics_are_drawn_without_a_note() -> None:
    with collected() as notes:
        alone = LocalGeometricMeanMetrics(metrics=3, queries_per_set=1)._drawn(
            np.full(3, 1 / 3), np.random.default_rng(0)
        )

    assert {(0,), (1,), (2,)} == {tuple(one.tolist()) for one in alone}
    assert not notes


def test_how_signatures_are_compared_reaches_the_scorer(judged: Judged) -> None:
    queries, _ = two_kinds(judged, n_queries=4)

    scorer = LocalGeometricMeanMetrics(
        metrics=2, rounds=1, weights="similarity", similarity="subspace", bandwidth=0.5, components=2
    ).fit(Lesson(queries, weights=np.array([1.0, 3.0, 2.0, 2.0])))

    assert isinstance(scorer, AnchoredBySimilarityScorer)
    assert ("subspace", 0.5) == (scorer.similarity, scorer.bandwidth)
    assert (4, 2, 4) == scorer.signatures.directions.shape
    np.testing.assert_allclose([1 / 8, 3 / 8, 2 / 8, 2 / 8], scorer.shares)


def test_of_many_queries_some_tell_the_scale(judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    """The farthest document of those drawn is at a distance of one, of all queries if there are no more."""
    queries, _ = two_kinds(judged, n_queries=4)
    learner = LocalGeometricMeanMetrics(metrics=1, weights="uniform")
    for enough, drawn in ((1, 1), (3, 3), (4, 4)):
        monkeypatch.setattr(lgmml, "_ENOUGH", enough)

        scorer = learner.fit(Lesson(queries))

        assert isinstance(scorer, AnchoredScorer)
        farthest = scorer.distances(queries.documents)[:, 0].reshape(4, 30).max(axis=1)
        assert any(np.isclose(max(some), 1.0) for some in combinations(farthest, drawn))
        assert bool(np.isclose(farthest.max(), 1.0)) or enough < 4


def test_candidate_documents_come_from_queries_that_count(
    judged: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an odd number half is rounded down; kinds with fewer documents give all that they have."""
    queries, _ = two_kinds(judged, n_queries=4)
    marked = queries.with_documents(
        queries.documents + 10 * (queries.query_of == 2)[:, None].astype(np.float32)
    )
    seen: list[QuerySet] = []

    def remember(some: QuerySet, relevant: Bits, shares: Vector, **options: Any) -> PairScatter:
        seen.append(some)
        return PairScatter.of(some, relevant, shares, **options)

    monkeypatch.setattr(lgmml, "PairScatter", SimpleNamespace(of=remember))
    for most in (21, 10_000):
        LocalGeometricMeanMetrics(
            metrics=1, weights="uniform", candidate_sets="documents", documents_per_set=most
        ).fit(Lesson(marked, weights=np.array([1.0, 1.0, 0.0, 1.0])))

    assert (20, 90) == (seen[0].n_docs, seen[1].n_docs)
    assert 10 == np.count_nonzero(seen[0].labels)
    assert all(one.documents.max() < 10 for one in seen)
    assert all(len(one.lines) == one.n_docs for one in seen)


def test_the_settings_are_those_that_the_page_lists() -> None:
    assert listed("lgmml") == declared("lgmml")
    assert LEARNERS["lgmml"].continues is False
