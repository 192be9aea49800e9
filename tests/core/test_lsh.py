"""Hash tables against Figure 3 written out with dictionaries, and against the probabilities of the hash."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from localrank.errors import InvalidConfiguration
from localrank.points.signature import Signature, Signatures
from localrank.routing.search import HyperplaneTables, automatic_planes, draw_planes, hash_bits

from .clouds import clustered, scattered

pytestmark = pytest.mark.usefixtures("arithmetic")


def figure_3(signatures: Signatures, test: Signature, planes: np.ndarray) -> dict[int, int]:
    """Transcribe LocalRank's Figure 3: preprocessing, then testing up to line 16."""
    m, P = len(planes), signatures.directions.shape[1]

    def bucket(u: np.ndarray, j: int) -> tuple[bool, ...]:
        return tuple(bool(r @ u >= 0) for r in planes[j])

    HT: dict[tuple[int, int], dict[tuple[bool, ...], list[int]]] = defaultdict(lambda: defaultdict(list))
    for q in range(len(signatures)):
        for p in range(min(P, int(signatures.ranks[q]))):
            for j in range(m):
                HT[p, j][bucket(signatures.directions[q, p], j)].append(q)
    CQ: set[int] = set()
    CP: dict[tuple[int, int], int] = defaultdict(int)
    CM: dict[tuple[int, int], int] = defaultdict(int)
    for p in range(test.rank):
        for j in range(m):
            for count, u in ((CP, test.directions[p]), (CM, -test.directions[p])):
                for q in HT[p, j][bucket(u, j)]:
                    CQ.add(q)
                    count[p, q] += 1
    return {q: sum(max(CP[p, q], CM[p, q]) for p in range(P)) for q in CQ}


@pytest.mark.parametrize(("tables", "planes"), [(1, 1), (3, 2), (8, 4), (2, 9)])
@pytest.mark.parametrize("components", [1, 3, 5])
def test_votes_are_those_of_figure_3(tables: int, planes: int, components: int) -> None:
    signatures = scattered(60, components=components)
    drawn = draw_planes(20, tables, planes, seed=tables)
    built = HyperplaneTables.build(signatures, drawn)

    for query in range(12):
        found, votes = built.votes(signatures.of(query))

        assert figure_3(signatures, signatures.of(query), drawn) == dict(
            zip(found.tolist(), votes.tolist(), strict=True)
        )
        assert (np.diff(found) > 0).all()


def test_a_query_finds_itself_in_every_table() -> None:
    signatures = scattered(50)
    built = HyperplaneTables.build(signatures, draw_planes(20, 6, 5, seed=0))

    for query in range(50):
        found, votes = built.votes(signatures.of(query))
        if signatures.ranks[query]:
            assert 6 * signatures.ranks[query] == votes[found == query].item()
        else:
            assert 0 == len(found)


def test_collision_probability_follows_the_angle() -> None:
    """Charikar (2002), section 3: P[h(u) = h(v)] = 1 - angle(u, v) / pi."""
    planes = draw_planes(2, 20_000, 1, seed=0)
    for angle in (0.1, 0.5, 1.0, 2.0, 3.0):
        u, v = np.array([[1.0, 0.0]], np.float32), np.array([[np.cos(angle), np.sin(angle)]], np.float32)

        agreement = (hash_bits(u, planes) == hash_bits(v, planes)).mean()

        np.testing.assert_allclose(agreement, 1 - angle / np.pi, atol=0.015)


@pytest.mark.parametrize("angle", [0.2, 0.6, 1.2])
def test_expected_votes_follow_the_angle(angle: float) -> None:
    """Two sides: of m tables, m (1 - angle/pi)^h or m (angle/pi)^h share a bucket, and the larger count is taken."""
    m, h = 4000, 3
    pair = np.array([[[1, 0]], [[np.cos(angle), np.sin(angle)]]], np.float32)
    signatures = Signatures(pair, np.ones((2, 1)), np.ones(2, np.int64))
    built = HyperplaneTables.build(signatures, draw_planes(2, m, h, seed=1))

    _, votes = built.votes(signatures.of(0))

    p = (1 - angle / np.pi) ** h
    assert abs(votes[1] - m * p) < 4 * np.sqrt(m * p * (1 - p))


def test_the_negative_has_the_complementary_bits() -> None:
    random = np.random.default_rng(0)
    vectors, planes = random.standard_normal((50, 7)).astype(np.float32), draw_planes(7, 4, 6, seed=2)

    np.testing.assert_array_equal(hash_bits(vectors, planes), ~hash_bits(-vectors, planes))


@pytest.mark.parametrize("probes", [1, 2, 9])
def test_probes_look_across_the_nearest_hyperplanes(probes: int) -> None:
    """A training query counts for a table when its bits differ in none, or in one of the nearest hyperplanes."""
    signatures = scattered(40)
    drawn = draw_planes(20, 5, 4, seed=3)
    built = HyperplaneTables.build(signatures, drawn)
    bits = hash_bits(signatures.directions, drawn)  # [Q, P, m, h]
    test = signatures.of(5)
    projected = np.einsum("pd,mhd->pmh", test.directions, drawn)
    expected = {}
    for query in range(40):
        total = 0
        for p in range(min(3, int(signatures.ranks[query]))):
            counts = [0, 0]
            for j in range(5):
                near = set(np.argsort(np.abs(projected[p, j]))[:probes].tolist())
                for side in (0, 1):
                    own = (projected[p, j] >= 0) ^ bool(side)
                    differ = np.flatnonzero(bits[query, p, j] != own).tolist()
                    counts[side] += not differ or (len(differ) == 1 and differ[0] in near)
            total += max(counts)
        if total:
            expected[query] = total

    found, votes = built.votes(test, probes=probes)

    assert expected == dict(zip(found.tolist(), votes.tolist(), strict=True))


def test_cut_buckets_keep_the_same_queries_in_every_table() -> None:
    one = np.array([[0.6, 0.8, 0.0]], np.float32)
    count, cap = 500, 20
    signatures = Signatures(np.tile(one, (count, 1, 1)), np.ones((count, 1)), np.ones(count, np.int64))
    built = HyperplaneTables.build(signatures, draw_planes(3, 12, 4, seed=4))

    found, votes = built.votes(signatures.of(0), cap=cap)

    assert cap == len(found)
    np.testing.assert_array_equal(votes, 12)
    # A random choice, not the first ones.
    assert found.max() > 2 * cap


def test_a_cap_only_takes_votes_away() -> None:
    signatures, _ = clustered(300, 4, 0.3)
    built = HyperplaneTables.build(signatures, draw_planes(24, 6, 3, seed=5))

    every = dict(zip(*(array.tolist() for array in built.votes(signatures.of(0))), strict=True))
    capped = dict(zip(*(array.tolist() for array in built.votes(signatures.of(0), cap=5)), strict=True))

    assert len(capped) < len(every)
    assert all(votes <= every[query] for query, votes in capped.items())


def test_a_cap_of_zero_is_none() -> None:
    signatures, _ = clustered(300, 4, 0.3)
    built = HyperplaneTables.build(signatures, draw_planes(24, 6, 3, seed=5))

    for every, uncapped in zip(
        built.votes(signatures.of(0)), built.votes(signatures.of(0), cap=0), strict=True
    ):
        np.testing.assert_array_equal(every, uncapped)


def test_tables_are_the_same_for_the_same_seed() -> None:
    signatures = scattered(30)

    first, second = (HyperplaneTables.build(signatures, draw_planes(20, 3, 4, seed=6)) for _ in range(2))
    other = HyperplaneTables.build(signatures, draw_planes(20, 3, 4, seed=7))

    for name in ("planes", "offsets", "ids"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert (first.ids != other.ids).any()


def test_tables_hold_every_query_once_and_are_compact() -> None:
    signatures = scattered(30)
    built = HyperplaneTables.build(signatures, draw_planes(20, 3, 4, seed=6))

    assert (3, 3, 2**4 + 1) == built.offsets.shape
    assert np.int32 == built.offsets.dtype == built.ids.dtype
    np.testing.assert_array_equal(np.sort(built.ids, axis=-1), np.broadcast_to(np.arange(30), (3, 3, 30)))
    np.testing.assert_array_equal(built.offsets[:, :, 0], 0)
    signed = (signatures.ranks[:, None] > np.arange(3)).sum(axis=0)
    np.testing.assert_array_equal(built.offsets[:, :, -1], np.tile(signed[:, None], (1, 3)))


@pytest.mark.parametrize("planes", [15, 16, 17])
def test_codes_of_any_width_are_hashed(planes: int) -> None:
    signatures = scattered(20)
    drawn = draw_planes(20, 2, planes, seed=8)

    built = HyperplaneTables.build(signatures, drawn)

    for query in (0, 4, 19):
        found, votes = built.votes(signatures.of(query))
        assert figure_3(signatures, signatures.of(query), drawn) == dict(
            zip(found.tolist(), votes.tolist(), strict=True)
        )


def test_the_automatic_number_of_planes_keeps_buckets_at_sixteen() -> None:
    assert 4 == automatic_planes(0)
    assert 4 == automatic_planes(100)
    assert 6 == automatic_planes(16 * 2**6)
    assert 16 == automatic_planes(10**6)
    assert 18 == automatic_planes(10**9)


@pytest.mark.parametrize(("n_queries", "planes"), [(1448, 6), (1449, 7), (2896, 7), (2897, 8)])
def test_the_automatic_number_of_planes_is_rounded(n_queries: int, planes: int) -> None:
    """16 * 2**6.5 is 1448.15, and 16 * 2**7.5 is 2896.3."""
    assert planes == automatic_planes(n_queries)


@pytest.mark.parametrize(("tables", "planes"), [(0, 4), (4, 0), (4, 25)])
def test_senseless_numbers_of_tables_and_planes_are_refused(tables: int, planes: int) -> None:
    with pytest.raises(InvalidConfiguration, match=f"found {tables} of {planes}"):
        draw_planes(5, tables, planes, seed=0)


@pytest.mark.parametrize("planes", [1, 24])
def test_one_table_of_one_to_24_planes_is_drawn(planes: int) -> None:
    assert (1, planes, 5) == draw_planes(5, tables=1, planes=planes, seed=0).shape


def test_grown_tables_are_those_of_all_queries_together() -> None:
    signatures = scattered(60)
    drawn = draw_planes(20, 5, 4, seed=7)
    first, then = np.arange(40), np.arange(40, 60)
    built = HyperplaneTables.build(signatures.take(first), drawn, seed=1)

    grown = built.grown(signatures.take(then), signatures.ranks[first], seed=2)

    together = HyperplaneTables.build(signatures, drawn, seed=2)
    np.testing.assert_array_equal(together.offsets, grown.offsets)
    np.testing.assert_array_equal(together.ids, grown.ids)


def test_tables_of_wide_codes_grow_too() -> None:
    signatures = scattered(30)
    drawn = draw_planes(20, 2, 18, seed=7)
    built = HyperplaneTables.build(signatures.take(np.arange(20)), drawn)

    grown = built.grown(signatures.take(np.arange(20, 30)), signatures.ranks[:20])

    np.testing.assert_array_equal(HyperplaneTables.build(signatures, drawn).ids, grown.ids)


#: The normals of three hyperplanes, which are those between the axes.
AXES = np.eye(3, 4, dtype=np.float32)[None]


def of_rows(*rows: tuple[float, ...]) -> Signatures:
    directions = np.array(rows, np.float32)[:, None]
    return Signatures(directions, np.ones((len(rows), 1)), np.ones(len(rows), np.int64))


def test_a_direction_within_a_hyperplane_is_on_its_upper_side() -> None:
    """h(u) = 1 if r . u >= 0: the first two hyperplanes hold the query, so it shares the bucket of (1, 1, 1)."""
    signatures = of_rows((1, 1, 1, 0), (-1, 1, 1, 0), (1, -1, 1, 0))
    built = HyperplaneTables.build(signatures, AXES)

    found, votes = built.votes(Signature(np.array([[0, 0, 1, 0]], np.float32), np.ones(1), 1))

    assert ([0], [1]) == (found.tolist(), votes.tolist())
    assert [True, True, True] == hash_bits(np.array([[0, 0, 1, 0]], np.float32), AXES)[0, 0].tolist()


def test_of_equally_near_hyperplanes_the_first_is_crossed() -> None:
    signatures = of_rows((-1, 1, 2, 0), (1, -1, 2, 0), (1, 1, -2, 0))
    built = HyperplaneTables.build(signatures, AXES)
    asked = Signature(np.array([[1, 1, 2, 0]], np.float32), np.ones(1), 1)

    reached = [built.votes(asked, probes=probes)[0].tolist() for probes in (0, 1, 2, 3, 4)]

    assert [[], [0], [0, 1], [0, 1, 2], [0, 1, 2]] == reached


def test_no_more_candidates_than_wanted_come_in_increasing_order() -> None:
    """The votes decide only if there is a choice: query 2 has the most, and is first where one is left out."""
    signatures = of_rows((1, 1, -1, 0), (1, -1, 1, 0), (1, 1, 1, 0))
    planes = np.repeat(AXES, 3, axis=0)
    planes[1, 2], planes[2, 1:] = planes[1, 0], planes[2, 0]
    built = HyperplaneTables.build(signatures, planes)
    asked, full = signatures.of(2), np.ones(3, np.uint16)

    # Table 0 tells all three apart, table 1 looks at the first two axes, table 2 at the first only.
    assert [2, 1, 3] == built.votes(asked)[1].tolist()
    for ranks in (None, full):
        chosen = [built.candidates(asked, ranks, most).tolist() for most in (1, 2, 3, 4)]
        assert [[2], [2, 0], [0, 1, 2], [0, 1, 2]] == chosen


@pytest.mark.parametrize("n_tables", [63, 64, 65, 130])
def test_candidates_of_any_number_of_votes_are_in_their_order(n_tables: int) -> None:
    signatures, _ = clustered(80, 2, 0.4, components=1)
    built = HyperplaneTables.build(signatures, draw_planes(24, n_tables, 3, seed=9))
    asked = signatures.of(5)
    found, votes = built.votes(asked)
    assert n_tables == votes.max()

    chosen = built.candidates(asked, None, len(found) - 1)

    # In 65,535ths, downwards: a lost share rounded so is the same for every order of the sums.
    lost = [65_535 - 65_535 * vote // n_tables for vote in votes.tolist()]
    expected = [query for _, query in sorted(zip(lost, found.tolist(), strict=True))]
    assert expected[:-1] == chosen.tolist()
    assert 5 == chosen[0]


def test_where_nothing_is_found_there_are_no_candidates() -> None:
    one = of_rows((1, 1, 1, 0))
    opposite_in_one_place = Signature(np.array([[-1, 1, 1, 0]], np.float32), np.ones(1), 1)
    without_direction = Signature(np.zeros((1, 4), np.float32), np.zeros(1), 0)
    none = Signatures(np.zeros((0, 1, 4), np.float32), np.zeros((0, 1)), np.zeros(0, np.int64))
    filled, empty = (HyperplaneTables.build(known, AXES) for known in (one, none))

    for tables, asked in (
        (filled, opposite_in_one_place),
        (filled, without_direction),
        (empty, one.of(0)),
    ):
        assert [0, 0] == [len(array) for array in tables.votes(asked)]
        assert 0 == len(tables.candidates(asked, None, 5))
