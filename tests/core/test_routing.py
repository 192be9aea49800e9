"""Routers against a plain search for the nearest training query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from localrank.errors import InvalidConfiguration
from localrank.points.signature import (
    SIMILARITIES,
    PcaRepresentation,
    Signature,
    Signatures,
    Similarity,
    one_to_many,
)
from localrank.points.similarity import measure_of
from localrank.points.vectors import VectorPoint, VectorPoints
from localrank.routing.router import ExactRouter, GlobalRouter, Router
from localrank.routing.routers import CentroidRouter, LshRouter, MedoidRouter, OverlapRouter, exact_below
from localrank.routing.search import (
    CompiledSearch,
    HyperplaneTables,
    NumpySearch,
    automatic_planes,
    draw_planes,
    hash_bits,
)

from .clouds import clustered, scattered
from .examples import ROUTER_EXAMPLES, example_queries, example_ranker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from localrank.routing.route import Route

pytestmark = pytest.mark.usefixtures("arithmetic")

NOTHING = Signature(np.zeros((3, 24), np.float32), np.zeros(3), 0)


def lsh(
    signatures: Signatures, clusters: np.ndarray, *, tables: int = 16, planes: int = 4, **settings: Any
) -> LshRouter:
    drawn = draw_planes(signatures.directions.shape[2], tables, planes, seed=1)
    shipped = {"exact_below": 0, **settings}
    return LshRouter(signatures, clusters, HyperplaneTables.build(signatures, drawn), **shipped)


def figures(route: Route) -> tuple[float, float]:
    assert route.similarity is not None
    assert route.margin is not None
    return route.similarity, route.margin


@pytest.fixture(scope="module")
def known() -> tuple[Signatures, np.ndarray]:
    return clustered(400, 5, 0.5)


@pytest.fixture(scope="module")
def asked() -> Signatures:
    # The same centres, other queries.
    signatures, _ = clustered(700, 5, 0.5)
    return signatures.take(np.arange(400, 460))


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_the_exact_router_takes_the_cluster_of_the_most_similar_query(
    known: tuple[Signatures, np.ndarray], asked: Signatures, similarity: Similarity
) -> None:
    """Figure 2, line 5: argmax over clusters of the maximum over their queries."""
    signatures, clusters = known
    router = ExactRouter(signatures, clusters, similarity)

    for query in range(len(asked)):
        best = {
            cluster: one_to_many(
                asked.of(query), signatures.take(np.flatnonzero(clusters == cluster)), similarity
            ).max()
            for cluster in range(5)
        }
        first, second = sorted(best.values(), reverse=True)[:2]

        route = router.route(asked.of(query))

        assert max(best, key=best.__getitem__) == route.cluster
        np.testing.assert_allclose([first, first - second], figures(route), atol=1e-6)
        assert (400, None, "exact") == (route.candidates, route.fallback, route.strategy)


@pytest.mark.parametrize(("member", "of"), [("average", np.mean), ("farthest", np.min), ("nearest", np.max)])
def test_a_cluster_is_as_near_as_the_member_that_is_asked_for(
    known: tuple[Signatures, np.ndarray], asked: Signatures, member: str, of: Callable[..., float]
) -> None:
    signatures, clusters = known
    router = ExactRouter(signatures, clusters, "subspace", member)

    for query in range(0, len(asked), 5):
        similarities = one_to_many(asked.of(query), signatures, "subspace")
        near = np.array([of(similarities[clusters == cluster]) for cluster in range(5)])
        first, second = np.sort(near)[:-3:-1]

        route = router.route(asked.of(query))

        assert int(np.argmax(near)) == route.cluster
        np.testing.assert_allclose([first, first - second], figures(route), rtol=1e-9, atol=1e-12)
        found = router.nearest(asked.of(query), 6)
        assert found is not None
        np.testing.assert_allclose(near, found[:5], rtol=1e-9)
        assert -np.inf == found[5]


def test_a_member_that_cannot_be_compared_is_not_the_farthest() -> None:
    known = PcaRepresentation(1).sign_all([np.eye(3, dtype=np.float32), np.ones((2, 3), np.float32)])
    router = ExactRouter(known, np.array([0, 0]), "subspace", "farthest")

    route = router.route(known.of(0))

    assert (0, None) == (route.cluster, route.margin)
    assert route.similarity == pytest.approx(1)


def test_an_unknown_member_is_refused(known: tuple[Signatures, np.ndarray]) -> None:
    with pytest.raises(InvalidConfiguration, match="expected member to be one of nearest, average, farthest"):
        ExactRouter(*known, "eq5", "median")


def test_the_centroid_router_takes_the_nearest_mean() -> None:
    """Lwin and Kham, eq. 2 and 3: the least Euclidean distance to a centroid."""
    random = np.random.default_rng(3)
    centroids = random.standard_normal((4, 7)).astype(np.float32)
    router = CentroidRouter(VectorPoints(centroids, np.ones(4, np.bool_)))

    for values in random.standard_normal((50, 7)).astype(np.float32):
        distances = np.sort(cdist(values[None], centroids)[0])

        route = router.route(VectorPoint(values))

        assert int(np.argmin(cdist(values[None], centroids)[0])) == route.cluster
        first, second = 1 / (1 + distances[:2])
        np.testing.assert_allclose([first, first - second], figures(route), atol=1e-6)
    assert (None, "no_signature") == router.route(VectorPoint(centroids[0], known=False))[1:6:4]


def test_the_medoid_router_takes_the_most_similar_medoid(
    known: tuple[Signatures, np.ndarray], asked: Signatures
) -> None:
    signatures, clusters = known
    medoids = signatures.take(np.array([np.flatnonzero(clusters == cluster)[0] for cluster in range(5)]))
    router = MedoidRouter(medoids)

    for query in range(len(asked)):
        similarities = one_to_many(asked.of(query), medoids)

        route = router.route(asked.of(query))

        assert int(np.argmax(similarities)) == route.cluster
        first, second = np.sort(similarities)[:-3:-1]
        np.testing.assert_allclose([first, first - second], figures(route), rtol=1e-6)
        assert 5 == route.candidates


def test_looking_at_every_bucket_and_comparing_everything_is_the_exact_scan(
    known: tuple[Signatures, np.ndarray], asked: Signatures
) -> None:
    signatures, clusters = known
    exact = ExactRouter(signatures, clusters)
    everything = lsh(signatures, clusters, planes=1, rerank=400, cap=0)

    for query in range(len(asked)):
        expected, route = exact.route(asked.of(query)), everything.route(asked.of(query))

        assert (expected.cluster, expected.candidates) == (route.cluster, route.candidates)
        np.testing.assert_allclose(figures(expected), figures(route), atol=1e-6)


@pytest.mark.parametrize("spread", [0.05, 0.5])
def test_the_shipped_parameters_agree_with_the_exact_scan(spread: float) -> None:
    signatures, clusters = clustered(6000, 8, spread)
    held, _ = clustered(6400, 8, spread)
    exact = ExactRouter(signatures, clusters)
    tables = lsh(signatures, clusters, planes=automatic_planes(6000))

    agreement = np.mean(
        [exact.route(held.of(q)).cluster == tables.route(held.of(q)).cluster for q in range(6000, 6400)]
    )

    assert agreement >= 0.95


@pytest.mark.parametrize("exemplars", [(), (0, 9)])
def test_most_votes_answer_as_published(
    exemplars: tuple[int, ...], known: tuple[Signatures, np.ndarray], asked: Signatures
) -> None:
    """Figure 3, line 17, with the votes counted by sets: tables in which u or -u shares the bucket, the better of both."""
    signatures, clusters = known
    tables = HyperplaneTables.build(signatures, draw_planes(signatures.directions.shape[2], 8, 5, 1))
    router = LshRouter(signatures, clusters, tables, rerank=0, cap=0, exemplars=exemplars)
    sides = hash_bits(signatures.directions, tables.planes)  # [n, P, m, h]
    ours = hash_bits(asked.directions, tables.planes)

    for query in range(len(asked)):
        same = (sides == ours[query]).all(axis=-1).sum(axis=-1)  # [n, P]
        opposite = (sides != ours[query]).all(axis=-1).sum(axis=-1)
        votes = np.maximum(same, opposite).sum(axis=-1)
        winner = int(np.argmax(votes))
        assert votes[winner] > 0

        route = router.route(asked.of(query))

        assert ("lsh", clusters[winner], 1, None) == (
            route.strategy,
            route.cluster,
            route.candidates,
            route.margin,
        )
        expected = one_to_many(asked.of(query), signatures)[winner]
        assert route.similarity == pytest.approx(expected, abs=1e-6)


def test_what_is_compared_is_bounded(known: tuple[Signatures, np.ndarray], asked: Signatures) -> None:
    router = lsh(*known, rerank=7, exemplars=(0, 9))

    for query in range(len(asked)):
        assert router.route(asked.of(query)).candidates <= 9


def test_small_training_sets_are_compared_as_a_whole(
    known: tuple[Signatures, np.ndarray], asked: Signatures
) -> None:
    scanned, looked_up = (lsh(*known, rerank=64, exact_below=below) for below in (401, 400))

    assert 400 == scanned.route(asked.of(0)).candidates
    assert 64 == looked_up.route(asked.of(0)).candidates
    assert ["exact", "lsh"] == [one.route(asked.of(0)).strategy for one in (scanned, looked_up)]


def test_exemplars_give_a_margin_where_all_candidates_are_of_one_cluster() -> None:
    signatures, clusters = clustered(600, 3, 0.01)
    exemplars = tuple(int(np.flatnonzero(clusters == cluster)[0]) for cluster in range(3))
    exact = ExactRouter(signatures, clusters)

    without = lsh(signatures, clusters, planes=8, rerank=64).route(signatures.of(5))
    route = lsh(signatures, clusters, planes=8, rerank=64, exemplars=exemplars).route(signatures.of(5))

    assert without.margin is None
    assert route.margin is not None
    expected = exact.route(signatures.of(5)).margin
    assert expected is not None
    assert route.margin >= expected - 1e-6
    np.testing.assert_allclose(expected, route.margin, atol=0.02)


def far_apart() -> tuple[Signatures, Signature]:
    """Return training queries that all look one way, and a query that looks another."""
    one = np.zeros((10, 1, 16), np.float32)
    one[:, 0, 0] = 1
    other = np.zeros((1, 16), np.float32)
    other[0, 8] = 1
    return Signatures(one, np.ones((10, 1)), np.ones(10, np.int64)), Signature(other, np.ones(1), 1)


def test_a_training_query_that_is_candidate_and_exemplar_counts_once(
    known: tuple[Signatures, np.ndarray], asked: Signatures
) -> None:
    everyone = lsh(*known, rerank=64, exemplars=(*range(400), 0))
    exact = ExactRouter(*known)

    for query in range(5):
        route = everyone.route(asked.of(query))
        assert 400 == route.candidates
        assert exact.route(asked.of(query)).cluster == route.cluster


@pytest.mark.parametrize(("exemplars", "candidates"), [((), 10), ((2, 3), 2)])
def test_an_empty_look_up_has_a_defined_answer(exemplars: tuple[int, ...], candidates: int) -> None:
    signatures, query = far_apart()
    router = lsh(signatures, np.arange(10), tables=1, planes=12, exemplars=exemplars)

    route = router.route(query)

    assert 0 == len(router.tables.votes(query)[0])
    assert ("no_candidates", candidates) == (route.fallback, route.candidates)
    assert ("lsh" if exemplars else "exact") == route.strategy
    assert route.cluster in (exemplars or range(10))


def test_a_query_without_directions_goes_to_the_global_scorer(known: tuple[Signatures, np.ndarray]) -> None:
    signatures, clusters = known
    routers: list[Router] = [
        ExactRouter(signatures, clusters),
        MedoidRouter(signatures.take(np.arange(5))),
        lsh(signatures, clusters),
    ]

    for router in routers:
        route = router.route(NOTHING)
        assert (None, "no_signature", None, 0) == (
            route.cluster,
            route.fallback,
            route.similarity,
            route.candidates,
        )
    assert None is GlobalRouter().route(NOTHING).cluster


def test_one_cluster_has_no_margin(known: tuple[Signatures, np.ndarray], asked: Signatures) -> None:
    signatures, _ = known

    assert ExactRouter(signatures, np.zeros(400, np.int64)).route(asked.of(0)).margin is None


def test_training_queries_without_directions_are_never_chosen() -> None:
    signatures = scattered(30)
    clusters = np.zeros(30, np.int64)
    clusters[3] = 1

    for router in (ExactRouter(signatures, clusters), lsh(signatures, clusters)):
        assert {0} == {router.route(signatures.of(query)).cluster for query in range(10) if query != 3}


def test_routers_work_on_read_only_maps(
    known: tuple[Signatures, np.ndarray], asked: Signatures, tmp_path: Path
) -> None:
    signatures, clusters = known
    router = lsh(signatures, clusters, exemplars=(0, 1))

    def mapped(array: np.ndarray) -> Any:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.npy"
        np.save(path, array)
        return np.load(path, mmap_mode="r")

    theirs = Signatures(
        *(mapped(a) for a in (signatures.directions, signatures.eigenvalues, signatures.ranks))
    )
    tables = HyperplaneTables(
        *(mapped(a) for a in (router.tables.planes, router.tables.offsets, router.tables.ids))
    )
    of_maps = LshRouter(theirs, mapped(clusters), tables, exact_below=0, exemplars=(0, 1))

    for query in range(len(asked)):
        assert router.route(asked.of(query)) == of_maps.route(asked.of(query))
        assert ExactRouter(signatures, clusters).route(asked.of(query)) == ExactRouter(
            theirs, mapped(clusters)
        ).route(asked.of(query))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"rerank": -1}, "rerank"),
        ({"cap": -1}, "cap"),
        ({"probes": -1}, "probes"),
        ({"exemplars": (400,)}, "exemplars among 400"),
        ({"exemplars": (-1,)}, "exemplars among 400"),
        ({"similarity": "cosine"}, "eq5"),
    ],
)
def test_senseless_settings_are_refused(
    known: tuple[Signatures, np.ndarray], setting: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        lsh(*known, **setting)


def test_a_cloud_of_lower_rank_is_not_outvoted_by_what_it_cannot_share() -> None:
    """Eq. 5 compares the directions that both clouds have, so votes count as a share of what these could win."""
    query = Signature(np.eye(2, 24, dtype=np.float32), np.ones(2), 2)
    line, plane = np.zeros((2, 24), np.float32), np.zeros((2, 24), np.float32)
    line[0, 0] = 1  # the query's first direction, and no second one
    plane[[0, 1], [0, 1]] = plane[[0, 1], [2, 3]] = np.sqrt(0.5)  # 45 degrees from each of the query's two
    known = Signatures(np.stack([line, plane]), np.ones((2, 2)), np.array([1, 2]))
    router = lsh(known, np.array([0, 1]), tables=64, planes=1, rerank=1, cap=0)
    found, votes = router.tables.votes(query)
    assert ([0, 1], True) == (found.tolist(), bool(votes[1] > votes[0]))

    route = router.route(query)

    assert 0 == route.cluster
    assert route.similarity == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["cap", "rerank", "probes", "exact_below"])
@pytest.mark.parametrize("value", [-1, 2**31, 2**63])
def test_settings_beyond_what_tables_hold_are_refused(name: str, value: int) -> None:
    known = PcaRepresentation(1).sign_all([np.eye(3, dtype=np.float32)])
    tables = HyperplaneTables.build(known, draw_planes(3, 1, 2, 0))

    with pytest.raises(
        InvalidConfiguration, match=f"routing: expected {name} from . to 2147483647, found {value}"
    ):
        LshRouter(known, np.array([0]), tables, **{name: value})  # type: ignore[arg-type]


def test_settings_may_be_as_large_as_tables_hold_and_exemplars_any_query(
    known: tuple[Signatures, np.ndarray], asked: Signatures
) -> None:
    least = lsh(*known, rerank=1, cap=0, probes=0, exact_below=0, exemplars=(0, 399))
    most = lsh(*known, rerank=2**31 - 1, cap=2**31 - 1, probes=2**31 - 1, exact_below=2**31 - 1)

    assert 3 == least.route(asked.of(0)).candidates
    assert 400 == most.route(asked.of(0)).candidates


def test_settings_that_are_not_given_are_those_of_the_documentation() -> None:
    """docs/use/configuration.md: rerank 256, cap 64, probes 0."""
    signatures, clusters = clustered(10, 2, 0.5)
    router = LshRouter(
        signatures, clusters, HyperplaneTables.build(signatures, draw_planes(24, 2, 2, seed=0))
    )

    assert (256, 64, 0, None, ()) == (
        router.rerank,
        router.cap,
        router.probes,
        router.exact_below,
        router.exemplars,
    )


@pytest.mark.parametrize(("components", "features"), [(1, 1), (4, 46), (8, 700)])
@pytest.mark.parametrize(
    ("similarity", "more", "most"), [("eq5", 200, 1_500_000), ("covariance", 550, 780_000)]
)
def test_hash_tables_begin_where_all_queries_hold_so_many_numbers(
    components: int, features: int, similarity: str, more: int, most: int
) -> None:
    """Each query counts for some more than its directions hold."""
    below = exact_below(components, features, similarity)

    assert below * (components * features + more) <= most
    assert (below + 1) * (components * features + more) > most


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_the_form_of_the_similarity_decides_too_where_tables_begin(similarity: str) -> None:
    n_queries = exact_below(3, 24, "covariance")
    signatures, clusters = clustered(n_queries, 4, 0.3)
    assert (3, 24) == signatures.directions.shape[1:]
    few = signatures.take(np.arange(n_queries - 1))

    def strategy(known: Signatures) -> str:
        router = lsh(known, clusters[: len(known)], similarity=similarity, exact_below=None)
        return router.route(signatures.of(0)).strategy

    assert "exact" == strategy(few)
    assert ("exact" if similarity == "eq5" else "lsh") == strategy(signatures)


def test_every_router_sends_training_queries_to_their_cluster(arithmetic: str) -> None:
    signatures, clusters = clustered(500, 4, 0.3)
    tables = HyperplaneTables.build(signatures, draw_planes(24, 8, 4, seed=1))
    for similarity in SIMILARITIES:
        routers = (
            ExactRouter(signatures, clusters, similarity),
            MedoidRouter(signatures.take(np.array([int(np.argmax(clusters == c)) for c in range(4)]))),
            LshRouter(signatures, clusters, tables, similarity=similarity, exact_below=0),
        )
        for router in routers:
            for query in range(0, 500, 25):
                route = router.route(signatures.of(query))
                assert clusters[query] == route.cluster
                if router is not routers[1]:
                    assert route.similarity == pytest.approx(1, abs=1e-6)
    search = ExactRouter(signatures, clusters)._search
    assert isinstance(search, CompiledSearch if arithmetic == "compiled" else NumpySearch)


@pytest.mark.parametrize("strategy", sorted(ROUTER_EXAMPLES))
def test_neighbours_are_the_most_similar_training_queries(strategy: str) -> None:
    ranker = example_ranker(strategy)
    router = ranker.router
    for documents in example_queries(4, seed=3):
        point = ranker.representation.of(ranker.contract.cloud(documents))

        found = router.most_similar(point, 3)

        if strategy in ("exact", "lsh", "overlap"):
            assert isinstance(router, ExactRouter | LshRouter | OverlapRouter)
            one_to_many = measure_of(router.similarity, router.points).one_to_many
            every = [float(one_to_many(point, router.points.take(np.array([q])))[0]) for q in range(24)]
            np.testing.assert_allclose([one.similarity for one in found], sorted(every)[:-4:-1], rtol=1e-6)
            assert all(one.similarity == pytest.approx(every[one.query], rel=1e-6) for one in found)
            assert [one.query % 3 for one in found] == [one.cluster for one in found]
        else:
            assert [] == found
    lonely = ranker.representation.of(ranker.contract.cloud(example_queries(1)[0][:1]))
    assert lonely.known or [] == router.most_similar(lonely, 3)


@pytest.mark.parametrize("make", [ExactRouter, lsh])
def test_a_grown_router_is_that_of_all_queries(make: Callable[..., Router], asked: Signatures) -> None:
    signatures, clusters = clustered(400, 5, 0.5)
    first, then = np.arange(300), np.arange(300, 400)

    grown = make(signatures.take(first), clusters[first]).grown(signatures.take(then), clusters[then])

    whole = make(signatures, clusters)
    for query in range(len(asked)):
        assert whole.route(asked.of(query)) == grown.route(asked.of(query))
    assert whole.sizes(5).tolist() == grown.sizes(5).tolist()


def test_a_new_query_of_a_cluster_stands_for_its_model() -> None:
    """Its model has learned from the same queries as before, so equally many neighbours are in common."""
    points = VectorPoints(np.array([[0.0], [1.0], [10.0]], np.float32), np.ones(3, np.bool_))
    router = OverlapRouter(points, np.arange(3), np.array([[0, 1], [1, 0], [2, 1]]), "euclidean")
    new = VectorPoints(np.array([[11.0]], np.float32), np.ones(1, np.bool_))

    grown = router.grown(new, np.array([2]))

    assert isinstance(grown, OverlapRouter)
    assert [2, 1] == grown.neighbours[3].tolist()
    assert 2 == grown.route(new.of(0)).cluster


@pytest.mark.parametrize(
    "router",
    [
        GlobalRouter(),
        MedoidRouter(VectorPoints(np.eye(2, dtype=np.float32), np.ones(2, np.bool_)), "euclidean"),
    ],
)
def test_a_router_without_training_queries_does_not_grow(router: Router) -> None:
    more = VectorPoints(np.ones((1, 2), np.float32), np.ones(1, np.bool_))

    assert router is router.grown(more, np.zeros(1, np.int64))
