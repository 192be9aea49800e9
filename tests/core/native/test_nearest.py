"""The compiled search and look-up against numpy."""

from __future__ import annotations

import platform
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrank.errors import ArtifactCorrupt
from localrank.native.library import library, load
from localrank.native.search import TrainingQueries, _scratch
from localrank.points.signature import Signature, Signatures, one_to_many
from localrank.routing.search import CompiledSearch, HyperplaneTables, NumpySearch, draw_planes
from tests.core.clouds import clustered, scattered
from tests.core.native.building import built

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable
    from pathlib import Path

    from localrank.arrays import Indices


@pytest.fixture(scope="module")
def opened() -> ctypes.CDLL:
    found = library()
    assert found is not None
    return found


@st.composite
def known(draw: st.DrawFn) -> tuple[Signatures, Indices, Signature]:
    """Any training queries of unit rows, some of low rank, some the same as others, and a query near one or none."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_queries = draw(st.integers(1, 90))
    n_features = draw(st.sampled_from([1, 2, 3, 10, 15, 16, 17, 31, 33, 46, 64, 136]))
    n_components = draw(st.integers(1, min(4, n_features)))
    centre = random.standard_normal((n_components, n_features))
    spread = draw(st.sampled_from([0.0, 1e-4, 0.05, 1.0, 100.0]))

    def near(count: int) -> np.ndarray:
        rows = centre + spread * random.standard_normal((count, n_components, n_features))
        rows[random.random(rows.shape) < draw(st.sampled_from([0.0, 0.0, 0.6]))] = 0
        lengths = np.sqrt(np.vecdot(rows, rows))[..., None]
        return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)

    directions, ranks = near(n_queries), random.integers(0, n_components + 1, n_queries)
    copied = random.integers(0, n_queries, n_queries)
    some = random.random(n_queries) < 0.2
    directions[some] = directions[copied[some]]
    directions[np.arange(n_components) >= ranks[:, None]] = 0
    clusters = random.integers(0, draw(st.integers(1, 5)), n_queries)
    rank = draw(st.integers(1, n_components))
    asked = directions[0].copy() if draw(st.booleans()) else near(1)[0]
    asked[rank:] = 0
    signatures = Signatures(directions, np.ones((n_queries, n_components)), ranks)
    return signatures, clusters, Signature(asked, np.ones(n_components), rank)


@settings(max_examples=300)
@given(case=known())
def test_all_are_compared_as_one_by_one(case: tuple[Signatures, Indices, Signature]) -> None:
    signatures, clusters, asked = case
    search = CompiledSearch(signatures, clusters)

    found = search.among_all(asked)

    assert search.among(asked, np.arange(len(signatures))) == found
    by_numpy = NumpySearch(signatures, clusters, "eq5").among_all(asked)
    assert by_numpy.similarity == pytest.approx(found.similarity, abs=1e-6)
    assert (by_numpy.margin is None) == (found.margin is None)
    alike = one_to_many(asked, signatures)
    assert alike[clusters == found.cluster].max() == pytest.approx(alike.max(), abs=1e-6)
    if found.margin is not None:
        others = alike[clusters != found.cluster].max()
        assert found.similarity - others == pytest.approx(found.margin, abs=1e-6)


@settings(max_examples=100)
@given(case=known())
def test_the_compiled_search_is_that_of_numpy(case: tuple[Signatures, Indices, Signature]) -> None:
    signatures, clusters, asked = case
    found = CompiledSearch(signatures, clusters).among_all(asked)

    spelled = [
        sum(
            abs(float(asked.directions[p].astype(float) @ row[p].astype(float)))
            for p in range(len(asked.directions))
        )
        / max(min(asked.rank, int(rank)), 1)
        for row, rank in zip(signatures.directions, signatures.ranks, strict=True)
    ]

    np.testing.assert_allclose(one_to_many(asked, signatures), np.minimum(spelled, 1), atol=1e-6)
    assert found.similarity == pytest.approx(min(max(spelled), 1), abs=1e-6)
    assert max(np.array(spelled)[clusters == found.cluster]) == pytest.approx(max(spelled), abs=1e-6)


@settings(max_examples=60)
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_the_compiled_look_up_is_that_of_numpy(data: st.DataObject, seed: int) -> None:
    """The same candidates with the same votes in the same order."""
    planes = data.draw(st.sampled_from([1, 3, 6, 9]), "planes")
    cap = data.draw(st.sampled_from([None, 1, 3, 20]), "cap")
    probes = data.draw(st.sampled_from([0, 0, 1, 2, 12]), "probes")
    most = data.draw(st.integers(1, 70), "most")
    spread = data.draw(st.sampled_from([0.05, 0.5, 5.0]), "spread")
    random = np.random.default_rng(seed)
    signatures, _ = clustered(250, 4, spread, seed=seed)
    ranks = random.integers(0, 4, 250)
    signatures.directions[np.arange(3) >= ranks[:, None]] = 0
    signatures = Signatures(signatures.directions, signatures.eigenvalues, ranks)
    drawn = draw_planes(24, 5, planes, seed)
    compiled, plain = (HyperplaneTables.build(signatures, drawn, seed) for _ in range(2))
    plain.__dict__["_look_up"] = None

    for query in range(0, 250, 10):
        asked = signatures.of(query)
        for ours, theirs in zip(
            compiled.votes(asked, cap=cap, probes=probes),
            plain.votes(asked, cap=cap, probes=probes),
            strict=True,
        ):
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(
            compiled.candidates(asked, ranks.astype(np.uint16), most, cap=cap, probes=probes),
            plain.candidates(asked, ranks.astype(np.uint16), most, cap=cap, probes=probes),
        )
        full = np.full(250, 3, np.uint16)
        for tables in (compiled, plain):
            np.testing.assert_array_equal(
                tables.candidates(asked, full, most, cap=cap, probes=probes),
                tables.candidates(asked, None, most, cap=cap, probes=probes),
            )


def test_scratch_grows_with_what_is_found() -> None:
    one = np.zeros((20_000, 1, 4), np.float32)
    one[:, 0, 0] = 1
    signatures = Signatures(one, np.ones((20_000, 1)), np.ones(20_000, np.int64))
    tables = HyperplaneTables.build(signatures, draw_planes(4, 2, 3, seed=0))

    found, votes = tables.votes(signatures.of(0))

    np.testing.assert_array_equal(found, np.arange(20_000))
    assert (votes == 2).all()


def test_ids_and_offsets_out_of_range_are_not_followed() -> None:
    """An artifact's are checked when it is loaded; this is for those that are not from one."""
    signatures = scattered(40)
    built = HyperplaneTables.build(signatures, draw_planes(20, 3, 2, seed=0))
    random = np.random.default_rng(0)
    wrong = HyperplaneTables(
        built.planes,
        random.integers(-(2**31), 2**31 - 1, built.offsets.shape, np.int32),
        random.integers(-(2**31), 2**31 - 1, built.ids.shape, np.int32),
    )
    mixed = HyperplaneTables(built.planes, built.offsets, np.where(built.ids % 2, built.ids, 2**31 - 1))

    for query in range(0, 40, 5):
        assert 0 == len(wrong.votes(signatures.of(query))[0])
        assert (mixed.votes(signatures.of(query))[0] % 2 == 1).all()


def test_another_number_of_features_is_refused() -> None:
    signatures, clusters = clustered(500, 4, 0.3)
    tables = HyperplaneTables.build(signatures, draw_planes(24, 8, 4, seed=1))
    narrow = Signature(np.ones((3, 23), np.float32), np.ones(3), 3)
    search = CompiledSearch(signatures, clusters)

    for run in (
        lambda: search.among_all(narrow),
        lambda: search.among(narrow, np.arange(3)),
        lambda: tables.votes(narrow),
    ):
        with pytest.raises(ValueError, match=r"\(3, 23\)|reshape"):
            run()


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-march=x86-64-v3",)], ids=["any", "x86-64-v3"])
def test_narrower_processors_find_the_same_bits(
    opened: ctypes.CDLL, options: tuple[str, ...], tmp_path: Path
) -> None:
    if options and platform.machine() != "x86_64":
        pytest.skip("not a processor of that family")
    narrow = load(built(tmp_path, "-DLOCALRANK_ONE_TARGET", *options))
    for n_features in (10, 33, 136):
        signatures, clusters = clustered(500, 4, 0.6, n_features=n_features, seed=n_features)
        searches = [
            TrainingQueries(signatures.directions, signatures.ranks, clusters, library)
            for library in (opened, narrow)
        ]
        for query in range(0, 500, 7):
            asked = -signatures.directions[query - 1]
            for which in (None, np.arange(query, 500)):
                assert searches[0].nearest(asked, 3, which) == searches[1].nearest(asked, 3, which)


def test_directions_without_a_number_are_no_training_queries() -> None:
    directions = np.full((3, 1, 4), np.nan, np.float32)
    signatures = Signatures(directions, np.ones((3, 1)), np.ones(3, np.int64))
    asked = Signature(np.full((1, 4), 0.5, np.float32), np.ones(1), 1)

    with pytest.raises(ArtifactCorrupt, match="hold no numbers"):
        CompiledSearch(signatures, np.zeros(3, np.int64)).among_all(asked)


def test_ranks_of_other_training_queries_are_refused() -> None:
    signatures, _ = clustered(50, 2, 0.1)
    tables = HyperplaneTables.build(signatures, draw_planes(24, 2, 3, seed=0))

    with pytest.raises(ValueError, match="expected ranks of 50 training queries"):
        tables.candidates(signatures.of(0), np.full(49, 3, np.uint16), 5)


def in_a_thread_of_its_own(run: Callable[[], None]) -> None:
    """Every thread begins with scratch for 4,096 candidates."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(run).result(timeout=30)


@pytest.mark.parametrize(("n_queries", "room"), [(4095, 4096), (4096, 4096), (4097, 8192)])
def test_scratch_holds_4096_candidates_and_grows_for_one_more(n_queries: int, room: int) -> None:
    one = np.zeros((n_queries, 1, 4), np.float32)
    one[:, 0, 0] = 1
    signatures = Signatures(one, np.ones((n_queries, 1)), np.ones(n_queries, np.int64))
    built_tables = HyperplaneTables.build(signatures, draw_planes(4, 2, 3, seed=0))

    def look_up() -> None:
        found, votes = built_tables.votes(signatures.of(0))

        np.testing.assert_array_equal(found, np.arange(n_queries))
        assert (votes == 2).all()
        assert room == _scratch.room

    in_a_thread_of_its_own(look_up)


def test_an_id_equal_to_the_number_of_queries_is_not_followed() -> None:
    """It is the first that does not exist."""
    signatures = scattered(40)
    good = HyperplaneTables.build(signatures, draw_planes(20, 3, 2, seed=0))
    wrong = HyperplaneTables(good.planes, good.offsets, np.where(good.ids == 7, 40, good.ids))
    asked = signatures.of(7)

    found, votes = wrong.votes(asked)

    expected, theirs = good.votes(asked)
    np.testing.assert_array_equal(expected[expected != 7], found)
    np.testing.assert_array_equal(theirs[expected != 7], votes)
    assert 7 in expected


@pytest.mark.parametrize("n_queries", [63, 64, 65, 200])
@pytest.mark.parametrize("probes", [0, 2])
def test_the_look_up_writes_where_it_may_only(opened: ctypes.CDLL, n_queries: int, probes: int) -> None:
    """Room for exactly as many candidates as there are training queries, and what stands behind it."""
    signatures, _ = clustered(n_queries, 2, 0.3)
    built = HyperplaneTables.build(signatures, draw_planes(24, 4, 2, seed=1))
    projected = np.ascontiguousarray(built._projected(signatures.of(0)))
    rank, tables, planes = projected.shape
    n_ranges, room, behind = 2 * rank * tables * (1 + probes), n_queries, 4096
    n_slots = 1 << (2 * room - 1).bit_length()
    ranges = np.full((n_ranges + behind, 2), 7, np.int64)
    slots, found = np.full(n_slots + behind, 7, np.int32), np.full((room + behind, 5), 7, np.int32)

    def votes(given: int) -> int:
        return int(
            opened.localrank_votes(
                projected.ctypes.data, rank, tables, planes, built.offsets.ctypes.data, built.ids.ctypes.data,
                n_queries, 0, probes, ranges.ctypes.data, slots.ctypes.data, found.ctypes.data, given,
            )
        )  # fmt: skip

    count = votes(room)
    keys, chosen = np.full(2 * count + behind, 7, np.uint64), np.full(count + behind, 7, np.int64)
    kept = opened.localrank_most_votes(
        found.ctypes.data,
        count,
        None,
        n_queries,
        rank,
        tables,
        count - 1,
        keys.ctypes.data,
        chosen.ctypes.data,
    )

    expected, their_votes = built.votes(signatures.of(0), probes=probes)
    order = np.argsort(found[:count, 0])
    np.testing.assert_array_equal(expected, found[:count, 0][order])
    np.testing.assert_array_equal(their_votes, found[:count, 1][order])
    assert (len(expected), count - 1) == (count, kept)
    for array, used in (
        (ranges, n_ranges),
        (slots, n_slots),
        (found, room),
        (keys, 2 * count),
        (chosen, kept),
    ):
        assert (array[used:] == 7).all()
    # There may be as many candidates as training queries: one place less is too few.
    assert -n_queries == votes(room - 1)
