"""The compiled walk: groups of trees, blocks of documents, what is missing, and no byte beyond what is given."""

from __future__ import annotations

import numpy as np
import pytest

from localrank.native.library import library
from localrank.native.walk import CompiledWalk
from localrank.scorers.trees import (
    CATEGORICAL,
    DEFAULT_LEFT,
    MISSING_NAN,
    MISSING_NONE,
    MISSING_TYPE,
    MISSING_ZERO,
    TreesScorer,
)
from localrank.scorers.walk import IS_LEAF, ForestLayout, NumpyWalk
from tests.core.native.fences import fenced, room

#: Around groups of sixteen trees, and around ten documents side by side.
TREES = (1, 2, 15, 16, 17, 31, 32, 33, 49)
DOCUMENTS = (1, 2, 9, 10, 11, 19, 20, 21, 31)
FEATURES = 3


def grown(n_trees: int, seed: int, decisions: tuple[int, ...] = (MISSING_NONE,)) -> TreesScorer:
    """Grow trees of none to nine splits, as LightGBM numbers them: a new right leaf for each."""
    random = np.random.default_rng(seed)
    splits = random.integers(0, 10, n_trees)
    lefts: list[int] = []
    rights: list[int] = []
    for count in splits.tolist():
        left, right, where = [0] * count, [0] * count, [(-1, 0)]
        for split in range(count):
            leaf = int(random.integers(split + 1))
            parent, side = where[leaf]
            if parent >= 0:
                (right if side else left)[parent] = split
            left[split], right[split] = -1 - leaf, -2 - split
            where[leaf] = (split, 0)
            where.append((split, 1))
        lefts += left
        rights += right
    n_splits = int(splits.sum())
    return TreesScorer(
        splits=splits.astype(np.int32),
        features=random.integers(0, FEATURES, n_splits, np.int32),
        thresholds=random.standard_normal(n_splits).round(1),
        decisions=random.choice(np.array(decisions, np.uint8), n_splits),
        left=np.array(lefts, np.int32),
        right=np.array(rights, np.int32),
        values=random.standard_normal(n_splits + n_trees),
        category_words=np.zeros(0, np.int32),
        category_bits=np.zeros(0, np.uint32),
    )


def by_definition(forest: TreesScorer, document: np.ndarray) -> float:
    """Go down one tree after the other, from split to split."""
    total, splits_before = 0.0, 0
    for tree, count in enumerate(forest.splits.tolist()):
        at = 0 if count else -1
        while at >= 0:
            split = splits_before + at
            seen, kind = float(document[forest.features[split]]), int(forest.decisions[split])
            by_default = (np.isnan(seen) and kind & MISSING_TYPE == MISSING_NAN) or (
                kind & MISSING_TYPE == MISSING_ZERO and (np.isnan(seen) or abs(seen) <= np.float32(1e-35))
            )
            seen = 0.0 if np.isnan(seen) else seen
            to_left = bool(kind & DEFAULT_LEFT) if by_default else seen <= forest.thresholds[split]
            at = int((forest.left if to_left else forest.right)[split])
        total += float(forest.values[splits_before + tree - 1 - at])
        splits_before += count
    return total


def scored(forest: TreesScorer, documents: np.ndarray, *, in_front: bool = False) -> np.ndarray:
    """Score documents, and write scores, beside memory that nobody may touch."""
    opened = library()
    assert opened is not None
    layout = ForestLayout.of(forest)
    given, scores = fenced(documents, in_front=in_front), room(len(documents), np.float64, in_front=in_front)
    scores[:] = np.nan
    nodes, ends, values = (
        fenced(array, in_front=in_front) for array in (layout.nodes, layout.ends, layout.values)
    )
    sets, words = fenced(layout.set_begins), fenced(layout.category_bits)
    opened.localrank_walk(
        given.ctypes.data, *documents.shape, nodes.ctypes.data, ends.ctypes.data, len(ends), values.ctypes.data,
        sets.ctypes.data, words.ctypes.data, len(sets) - 1, layout.zero_is_missing, scores.ctypes.data,
    )  # fmt: skip
    return scores


def some(n_docs: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n_docs, FEATURES)).round(1).astype(np.float32)


@pytest.mark.parametrize("n_trees", TREES)
def test_any_number_of_trees_is_added_in_their_order(n_trees: int) -> None:
    forest, documents = grown(n_trees, n_trees), some(12)

    for in_front in (False, True):
        scores = scored(forest, documents, in_front=in_front)

        assert [by_definition(forest, document) for document in documents] == scores.tolist()


@pytest.mark.parametrize("n_docs", DOCUMENTS)
def test_any_number_of_documents_is_scored_each_for_itself(n_docs: int) -> None:
    forest, documents = grown(20, 7), some(n_docs, n_docs)

    for in_front in (False, True):
        scores = scored(forest, documents, in_front=in_front)

        assert [by_definition(forest, document) for document in documents] == scores.tolist()


def test_no_documents_have_no_scores() -> None:
    assert 0 == len(scored(grown(3, 0), some(0)))


def test_constants_need_no_features() -> None:
    forest = grown(1, 0)
    constant = TreesScorer(
        **{
            **forest.arrays(),
            "splits": np.zeros(17, np.int32),
            "values": np.arange(17.0),
            **{name: getattr(forest, name)[:0] for name in ("features", "thresholds", "decisions", "left", "right")},
        }
    )  # fmt: skip

    assert [136.0] * 12 == scored(constant, np.zeros((12, 0), np.float32)).tolist()


@pytest.mark.parametrize(
    "decisions",
    [
        (MISSING_NONE,),
        (MISSING_NAN,),
        (MISSING_NAN | DEFAULT_LEFT,),
        (MISSING_ZERO,),
        (MISSING_ZERO | DEFAULT_LEFT, MISSING_NONE),
        (MISSING_NAN, MISSING_NAN | DEFAULT_LEFT, MISSING_NONE),
    ],
)
@pytest.mark.parametrize("place", [0, 17, 35])
def test_one_missing_value_anywhere_goes_where_its_split_says(decisions: tuple[int, ...], place: int) -> None:
    """All documents are walked another way if any lacks a value."""
    forest = grown(33, 3, decisions)
    for missing in (np.nan, 0.0, -0.0, 1e-35, np.inf, -np.inf):
        documents = some(12)
        documents.flat[place] = missing

        scores = scored(forest, documents)

        assert [by_definition(forest, document) for document in documents] == scores.tolist()
        np.testing.assert_array_equal(scores, NumpyWalk(ForestLayout.of(forest)).score(documents))
        np.testing.assert_array_equal(scores, CompiledWalk(ForestLayout.of(forest)).score(documents))


@pytest.mark.parametrize("n_trees", TREES)
def test_a_leaf_leads_to_the_next_tree_and_the_last_of_a_group_to_its_end(n_trees: int) -> None:
    forest = grown(n_trees, n_trees)

    layout = ForestLayout.of(forest)

    left, roots, ends = layout.nodes["left"], layout.roots.tolist(), layout.ends.tolist()
    groups = -(-n_trees // 16)
    assert 2 * len(forest.features) + n_trees + groups == len(layout.nodes) == len(layout.values)
    assert groups == len(ends)
    assert len(layout.nodes) - 1 == ends[-1]
    assert [0, *(end + 1 for end in ends[:-1])] == roots[::16]
    is_leaf = (layout.nodes["feature"] & IS_LEAF) > 0
    assert len(forest.values) + groups == is_leaf.sum()
    for tree, root in enumerate(roots):
        behind = root + 2 * int(forest.splits[tree]) + 1
        assert {behind} == set(left[root:behind][is_leaf[root:behind]].tolist())
        assert behind in (ends if tree % 16 == 15 or tree == n_trees - 1 else roots)
    assert ends == left[ends].tolist()
    assert not layout.values[ends].any()
    assert not layout.values[~is_leaf].any()


@pytest.mark.parametrize(
    ("decisions", "expected"),
    [((MISSING_NONE, MISSING_NAN), False), ((MISSING_ZERO,), True), ((MISSING_ZERO | DEFAULT_LEFT,), True)],
)
def test_zero_is_missing_if_a_split_says_so(decisions: tuple[int, ...], *, expected: bool) -> None:
    assert expected == ForestLayout.of(grown(17, 1, decisions)).zero_is_missing


def grouped(forest: TreesScorer, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return gains and contributions, which are those of the walk in numpy."""
    compiled, plain = CompiledWalk(ForestLayout.of(forest)), NumpyWalk(ForestLayout.of(forest))
    gains = compiled.gains(documents)
    contributions = compiled.contributions(documents, gains)
    by_numpy = plain.gains(documents)
    # Nodes that no document comes to have no meaning, and are on no path.
    np.testing.assert_allclose(plain.contributions(documents, by_numpy), contributions, atol=1e-12)
    np.testing.assert_allclose(plain.contributions(documents, gains), contributions, atol=1e-12)
    return gains, contributions


@pytest.mark.parametrize("n_trees", TREES)
def test_what_splits_add_is_the_score_without_its_mean(n_trees: int) -> None:
    forest, documents = grown(n_trees, n_trees, (MISSING_NAN, MISSING_ZERO)), some(23)

    gains, contributions = grouped(forest, documents)

    scores = scored(forest, documents)
    np.testing.assert_allclose(scores - scores.mean(), contributions.sum(axis=1), atol=1e-9)
    assert not gains[ForestLayout.of(forest).roots].any()


@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_categories_beyond_a_set_are_not_in_it(wanted: int) -> None:
    """The words of all sets lie side by side: those of the next one are not read."""
    words = [1, 2, 1]
    bits = np.full(sum(words), 0xFFFF_FFFF, np.uint32)
    bits[sum(words[:wanted])] = 0b10_0101
    forest = TreesScorer(
        splits=np.array([1], np.int32),
        features=np.array([0], np.int32),
        thresholds=np.array([wanted], np.float64),
        decisions=np.array([CATEGORICAL], np.uint8),
        left=np.array([-1], np.int32),
        right=np.array([-2], np.int32),
        values=np.array([1.0, 2.0]),
        category_words=np.array(words, np.int32),
        category_bits=bits,
    )
    seen = [
        -2.0,
        -1.0,
        -0.5,
        0.0,
        0.9,
        1.0,
        2.0,
        3.0,
        5.0,
        31.0,
        32.0,
        33.0,
        63.0,
        64.0,
        65.0,
        66.0,
        96.0,
        3e9,
        np.nan,
    ]
    inside = {0, 2, 5} | (set(range(32, 64)) if words[wanted] == 2 else set())

    scores = scored(forest, np.array(seen, np.float32)[:, None])

    expected = [1.0 if one > -1 and int(one) in inside else 2.0 for one in seen]
    assert expected == scores.tolist()
    column = np.array(seen, np.float32)[:, None]
    assert expected == NumpyWalk(ForestLayout.of(forest)).score(column).tolist()


@pytest.mark.parametrize("words", [[0], [0, 1], [1, 0], [2, 0, 1]])
def test_nothing_is_in_a_set_without_words(words: list[int]) -> None:
    """A value between -1 and 0 is category 0, whose word would be that of the next set or beyond all words."""
    forest = TreesScorer(
        splits=np.array([1], np.int32),
        features=np.array([0], np.int32),
        thresholds=np.array([words.index(0)], np.float64),
        decisions=np.array([CATEGORICAL], np.uint8),
        left=np.array([-1], np.int32),
        right=np.array([-2], np.int32),
        values=np.array([1.0, 2.0]),
        category_words=np.array(words, np.int32),
        category_bits=np.full(sum(words), 0xFFFF_FFFF, np.uint32),
    )
    seen = np.array([[-1.0], [-0.5], [-0.0], [0.0], [0.5], [1.0], [np.nan]], np.float32)

    scores = scored(forest, seen)

    assert [2.0] * len(seen) == scores.tolist()
    assert [2.0] * len(seen) == NumpyWalk(ForestLayout.of(forest)).score(seen).tolist()
