"""The compiled look-up and search, spelled out in Python, and no byte beyond what is given.

`test_nearest.py` compares the same with numpy through the classes that use it.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from localrank.native.library import library
from localrank.native.search import LookUp, _Scratch
from tests.core.native.fences import fenced, room

COMPONENTS, TABLES = 3, 4


def compiled() -> object:
    found = library()
    assert found is not None
    return found


class Tables:
    """Random tables, well formed or not, and one query's projections."""

    def __init__(self, n_queries: int, planes: int, seed: int, *, empty: bool = False) -> None:
        random = np.random.default_rng(seed)
        self.planes, self.n_queries = planes, n_queries
        buckets = random.integers(0, 2**planes, (COMPONENTS, TABLES, n_queries))
        if empty:
            buckets[:] = 0
        self.offsets = np.zeros((COMPONENTS, TABLES, 2**planes + 1), np.int32)
        self.ids = np.zeros((COMPONENTS, TABLES, n_queries), np.int32)
        for p in range(COMPONENTS):
            for j in range(TABLES):
                self.ids[p, j] = np.argsort(buckets[p, j], kind="stable")
                self.offsets[p, j, 1:] = np.cumsum(np.bincount(buckets[p, j], minlength=2**planes))
        self.projected = random.standard_normal((COMPONENTS, TABLES, planes)).astype(np.float32)

    def expected(self, rank: int, cap: int, probes: int) -> dict[int, int]:
        """Count in how many tables each training query shares a bucket, with one side or the other."""
        votes: Counter[int] = Counter()
        for p in range(rank):
            sides = []
            for side in (1, -1):
                shared: Counter[int] = Counter()
                for j in range(TABLES):
                    values = self.projected[p, j]
                    code = sum(1 << i for i, value in enumerate(values) if value >= 0)
                    nearest = sorted(range(self.planes), key=lambda i: abs(values[i]))
                    for bucket in (code, *(code ^ 1 << i for i in nearest[:probes])):
                        here = bucket if side > 0 else 2**self.planes - 1 - bucket
                        first, last = self.offsets[p, j, here : here + 2].tolist()
                        found = self.ids[p, j, first:last].tolist()
                        shared.update(found[: cap or None])
                sides.append(shared)
            for query in {*sides[0], *sides[1]}:
                votes[query] += max(sides[0][query], sides[1][query])
        return dict(votes)

    def found(
        self, rank: int, cap: int, probes: int, places: int | None = None
    ) -> tuple[int, dict[int, int]]:
        """Call the library with memory of exactly the size that it asks for."""
        places = self.n_queries if places is None else places
        looked = 1 + min(probes, self.planes)
        slots = 1 << max(2 * places - 1, 1).bit_length()
        projected, offsets, ids = (fenced(array) for array in (self.projected[:rank], self.offsets, self.ids))
        ranges, given, candidates = (
            room(2 * 2 * rank * TABLES * looked, np.int64), room(slots, np.int32), room(5 * places, np.int32),
        )  # fmt: skip
        given[:] = 77
        count = compiled().localrank_votes(  # type: ignore[attr-defined]
            projected.ctypes.data, rank, TABLES, self.planes, offsets.ctypes.data, ids.ctypes.data, self.n_queries,
            cap, probes, ranges.ctypes.data, given.ctypes.data, candidates.ctypes.data, places,
        )  # fmt: skip
        rows = candidates.reshape(-1, 5)[: max(count, 0)].tolist()
        assert len(rows) == len({row[0] for row in rows})
        return count, {row[0]: row[1] for row in rows}


@pytest.mark.parametrize("planes", [1, 2, 5])
@pytest.mark.parametrize("n_queries", [1, 2, 15, 16, 17, 40, 300])
@pytest.mark.parametrize("probes", [0, 1, 2, 9])
def test_votes_are_the_tables_in_which_a_bucket_is_shared(planes: int, n_queries: int, probes: int) -> None:
    for seed in range(3):
        tables = Tables(n_queries, planes, seed)
        for rank in (1, 2, 3):
            for cap in (0, 1, 3):
                expected = tables.expected(rank, cap, probes)

                assert (len(expected), expected) == tables.found(rank, cap, probes)


def test_a_projection_of_zero_is_above_its_plane() -> None:
    tables = Tables(60, 3, 0)
    tables.projected[:, :, 1] = 0.0
    tables.projected[:, 0, 1] = -0.0

    assert tables.expected(3, 0, 1) == tables.found(3, 0, 1)[1]


def test_planes_equally_near_are_crossed_in_their_order() -> None:
    tables = Tables(60, 4, 0)
    tables.projected[:] = np.sign(tables.projected)

    for probes in range(5):
        assert tables.expected(3, 0, probes) == tables.found(3, 0, probes)[1]


@pytest.mark.parametrize("places", [0, 1, 5, 59])
def test_how_many_there_may_be_is_said_if_room_is_missing(places: int) -> None:
    """All 60 are in one bucket of each table."""
    tables = Tables(60, 2, 0, empty=True)
    tables.projected[:] = -1

    assert (-60, {}) == tables.found(3, 0, 0, places)
    assert 60 == tables.found(3, 0, 0, 60)[0]
    # A cap leaves one for each table.
    assert -3 * TABLES == tables.found(3, 1, 0, 3 * TABLES - 1)[0]
    assert tables.found(3, 1, 0, 3 * TABLES)[0] > 0


def test_more_planes_than_there_can_be_have_no_candidates() -> None:
    projected, ids, offsets = room(31, np.float32), room(1, np.int32), room(1, np.int32)

    assert 0 == compiled().localrank_votes(  # type: ignore[attr-defined]
        projected.ctypes.data, 1, 1, 31, offsets.ctypes.data, ids.ctypes.data, 1, 0, 0, 0, 0, 0, 9
    )


@pytest.mark.parametrize("wrong", [-1, -5, 60, 61, 2**31 - 1, -(2**31)])
def test_what_is_no_training_query_is_passed_over(wrong: int) -> None:
    tables = Tables(60, 2, 1)
    expected = tables.expected(3, 0, 1)
    tables.ids[tables.ids == 7] = wrong
    expected.pop(7)

    assert expected == tables.found(3, 0, 1)[1]


@pytest.mark.parametrize(
    ("first", "last", "kept"),
    [(-5, 3, 3), (2, 99, 58), (5, 3, 0), (60, 60, 0), (70, 80, 0), (0, -1, 0), (59, 61, 1)],
)
def test_entries_that_are_not_there_are_not_read(first: int, last: int, kept: int) -> None:
    tables = Tables(60, 1, 0)
    tables.offsets[:] = 0
    tables.projected[:] = 1
    tables.offsets[0, TABLES - 1, 1:] = first, last

    _, found = tables.found(1, 0, 0)

    # The other side's bucket reads from 0 to what the first begins with.
    other = set(tables.ids[0, TABLES - 1, : max(min(first, 60), 0)].tolist())
    first = min(max(first, 0), 60)
    ours = set(tables.ids[0, TABLES - 1, first : first + kept].tolist())
    assert ours | other == set(found)


def lost(votes: int, shared: int) -> int:
    return 65535 - 65535 * votes // (max(shared, 1) * TABLES)


def chosen(
    votes: list[tuple[int, int]], wanted: int, rank: int, ranks: list[int] | None, n_queries: int
) -> list[int]:
    candidates = room(5 * len(votes), np.int32).reshape(-1, 5)
    for place, (query, count) in enumerate(votes):
        candidates[place, :2] = query, count
    keys, written = room(2 * len(votes), np.uint64), room(min(wanted, len(votes)), np.int64)
    given = None if ranks is None else fenced(np.array(ranks, np.uint16))
    kept = compiled().localrank_most_votes(  # type: ignore[attr-defined]
        candidates.ctypes.data, len(votes), None if given is None else given.ctypes.data, n_queries, rank, TABLES,
        wanted, keys.ctypes.data, written.ctypes.data,
    )  # fmt: skip
    assert len(written) == kept
    found: list[int] = written.tolist()
    return found


@pytest.mark.parametrize("n_queries", [3, 60, 300, 70_000])
@pytest.mark.parametrize("with_ranks", [False, True])
def test_those_with_the_largest_share_of_votes_come_first(n_queries: int, *, with_ranks: bool) -> None:
    random = np.random.default_rng(n_queries)
    for count in (1, 2, min(n_queries, 90)):
        queries = random.permutation(n_queries)[:count].tolist()
        ranks = random.integers(0, 5, n_queries).tolist() if with_ranks else None
        for rank in (1, 2, 3):
            votes = [(query, int(random.integers(0, rank * TABLES + 1))) for query in queries]
            keys = {
                query: (lost(mine, min(rank, ranks[query]) if ranks else rank), query)
                for query, mine in votes
            }
            keys = {query: (key[0] & 0xFFFF, query) for query, key in keys.items()}

            for wanted in {0, 1, count - 1, count, count + 5}:
                expected = (
                    sorted(queries, key=keys.__getitem__)[:wanted] if wanted < count else sorted(queries)
                )

                assert expected == chosen(votes, wanted, rank, ranks, n_queries)


@pytest.mark.parametrize("votes", [62, 63, 64, 65, 200])
def test_more_votes_than_are_tabulated_are_ordered_too(votes: int) -> None:
    given = [(0, votes - 1), (1, votes), (2, votes + 1)]

    assert [2, 1] == chosen(given, 2, 100, None, 3)


def test_votes_of_others_than_training_queries_are_those_of_the_first() -> None:
    assert [0, 0, 2] == chosen([(-1, 1), (3, 1), (2, 1)], 3, 1, [1, 1, 1], 3)


class Known:
    """Training queries as they lie in memory, and a query."""

    def __init__(self, n_queries: int, components: int, n_features: int, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.directions = random.standard_normal((n_queries, components, n_features)).astype(np.float32)
        self.directions /= 2 * np.sqrt(np.vecdot(self.directions, self.directions))[..., None]
        self.ranks = random.integers(0, components + 1, n_queries)
        self.clusters = random.integers(0, 3, n_queries)
        self.query = random.standard_normal((components, n_features)).astype(np.float32)
        self.query /= 2 * np.sqrt(np.vecdot(self.query, self.query))[:, None]

    def alike(self, query: int, rank: int) -> float:
        products = np.abs(np.vecdot(self.directions[query].astype(float), self.query.astype(float)))
        return min(1.0, float(products.sum()) / max(min(int(self.ranks[query]), rank), 1))

    def found(self, rank: int, which: list[int] | None = None) -> tuple[int, int, float, float]:
        n_queries, components, n_features = self.directions.shape
        arrays = [fenced(array) for array in (self.directions, self.ranks, self.clusters, self.query)]
        asked = None if which is None else fenced(np.array(which, np.int64))
        width = -(-n_features // 16) * 16
        scratch, answer = room(components * width, np.float32), room(4, np.int64)
        compiled().localrank_nearest(  # type: ignore[attr-defined]
            *(array.ctypes.data for array in arrays[:3]), n_queries, components, n_features, arrays[3].ctypes.data,
            rank, None if asked is None else asked.ctypes.data, n_queries if which is None else len(which),
            scratch.ctypes.data, answer.ctypes.data,
        )  # fmt: skip
        place, cluster = answer[:2].tolist()
        similarity, other = answer[2:].view(np.float64).tolist()
        return place, cluster, similarity, other


WIDTHS = (1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 96, 136)


@pytest.mark.parametrize("n_features", WIDTHS)
@pytest.mark.parametrize("components", [1, 3])
@pytest.mark.parametrize("n_queries", [1, 2, 9])
def test_the_nearest_is_the_one_of_the_largest_similarity(
    n_features: int, components: int, n_queries: int
) -> None:
    known = Known(n_queries, components, n_features, n_features)
    for rank in range(1, components + 1):
        for which in (None, list(range(n_queries))[::-1], [n_queries - 1] * 3, []):
            order = list(range(n_queries)) if which is None else which
            alike = [known.alike(query, rank) for query in order]

            place, cluster, similarity, other = known.found(rank, which)

            if not order:
                assert (-1, -1, -np.inf, -np.inf) == (place, cluster, similarity, other)
                continue
            assert max(alike) == pytest.approx(similarity, abs=1e-6)
            assert alike[place] == pytest.approx(max(alike), abs=1e-6)
            assert known.clusters[order[place]] == cluster
            others = [
                one for one, query in zip(alike, order, strict=True) if known.clusters[query] != cluster
            ]
            assert max(others, default=-np.inf) == pytest.approx(other, abs=1e-6)


@pytest.mark.parametrize("n_features", WIDTHS)
def test_a_product_is_of_all_features_of_its_row_and_of_no_other(n_features: int) -> None:
    for feature in range(n_features):
        known = Known(3, 2, n_features)
        known.query[:] = 0
        known.query[1, feature] = 1
        known.directions[:] = 100
        known.directions[:, 1] = 50
        known.directions[:, 1, feature] = [0.25, -0.5, 0.125]
        known.ranks[:] = 2

        assert (1, 0.25) == known.found(2)[::2]


@pytest.mark.parametrize(
    ("similarities", "clusters", "expected"),
    [
        ([0.5, 0.25, 0.5], [0, 1, 2], (0, 0, 0.5, 0.5)),
        ([0.25, 0.5, 0.5], [0, 1, 1], (1, 1, 0.5, 0.25)),
        ([0.5, 0.75, 0.25], [0, 0, 1], (1, 0, 0.75, 0.25)),
        ([0.25, 0.5, 0.75], [0, 1, 0], (2, 0, 0.75, 0.5)),
        ([0.75, 0.25, 0.5], [2, 2, 2], (0, 2, 0.75, -np.inf)),
        ([0.75, 0.5, 0.25], [0, 1, 2], (0, 0, 0.75, 0.5)),
        ([0.5, 0.5, 0.5], [1, 1, 0], (0, 1, 0.5, 0.5)),
        ([0.0, 0.0, 0.0], [1, 0, 1], (0, 1, 0.0, 0.0)),
        ([9.0, 1.0, 1.5], [0, 1, 0], (0, 0, 1.0, 1.0)),
    ],
)
def test_of_equals_the_first_is_the_nearest(
    similarities: list[float], clusters: list[int], expected: tuple[int, int, float, float]
) -> None:
    known = Known(3, 1, 5)
    known.directions[:], known.query[:] = 0, 0
    known.query[0, 0] = 1
    known.directions[:, 0, 0] = similarities
    known.clusters, known.ranks = np.array(clusters), np.ones(3, np.int64)

    assert expected == known.found(1)


def test_others_than_training_queries_are_the_first() -> None:
    known = Known(3, 2, 20)

    for wrong in (-1, 3, 2**40, -(2**40)):
        assert known.found(2, [0])[1:] == known.found(2, [wrong])[1:]


@pytest.mark.parametrize("count", [1, 3, 4, 5, 6, 20])
@pytest.mark.parametrize("n_features", [5, 700])
def test_what_is_fetched_ahead_changes_nothing(count: int, n_features: int) -> None:
    known = Known(8, 2, n_features)
    which = [7 - one % 8 for one in range(count)]

    alike = [known.alike(query, 2) for query in which]

    assert int(np.argmax(alike)) == known.found(2, which)[0]


def test_memory_is_kept_for_twice_as_many_slots_and_as_many_keys() -> None:
    scratch = _Scratch()
    assert (4096, 256) == (scratch.room, scratch.buckets)

    scratch.reserve(5000, 300)

    assert (8192, 300) == (scratch.room, scratch.buckets)
    assert (2 * 8192, 8192, 2 * 8192) == (len(scratch.slots), len(scratch.candidates), len(scratch.keys))
    assert (300, 2) == scratch.ranges.shape
    scratch.reserve(1, 1)
    assert (8192, 300) == (scratch.room, scratch.buckets)


@pytest.mark.parametrize("shape", [(3, 4, 3), (3, 4, 6), (2, 4, 5), (3, 5, 5)])
def test_tables_of_another_shape_are_refused(shape: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"expected offsets \(3, 4, 5\), found"):
        LookUp(np.zeros(shape, np.int32), np.zeros((3, 4, 9), np.int32), 2)


def in_lanes(row: np.ndarray, asked: np.ndarray) -> np.float32:
    """Add products in sixteen lanes, blocks in turn in two sums, as nearest.c says it does on every processor."""
    blocks = np.zeros((-(-len(row) // 16), 16), np.float32)
    blocks.flat[: len(row)] = row * asked
    sums = np.zeros((2, 16), np.float32)
    for place, block in enumerate(blocks):
        sums[place % 2] += block
    lanes = sums[0] + sums[1]
    lanes = lanes[:8] + lanes[8:]
    lanes = lanes[:4] + lanes[4:]
    total: np.float32 = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])
    return total


@pytest.mark.parametrize("n_features", [*WIDTHS, 200, 700])
def test_products_are_added_in_the_same_order_on_every_processor(n_features: int) -> None:
    known = Known(4, 2, n_features, 3)
    known.ranks[:] = 2

    for query in range(4):
        expected = sum(abs(float(in_lanes(known.directions[query, p], known.query[p]))) for p in range(2)) / 2

        assert expected == known.found(2, [query])[2]
