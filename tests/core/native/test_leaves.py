"""Small trees by bit vectors: the bits of the walk, for every number of leaves and documents, and no byte beyond."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import lightgbm
import numpy as np
import pytest

from localrank.native.library import library, load
from localrank.native.walk import CompiledWalk
from localrank.scorers.bits import MOST_LEAVES, LeafBits
from localrank.scorers.trees import (
    CATEGORICAL,
    DEFAULT_LEFT,
    MISSING_NAN,
    MISSING_NONE,
    MISSING_ZERO,
    TreesScorer,
)
from localrank.scorers.walk import ForestLayout, NumpyWalk
from localrank_training.learners.forests import from_lightgbm
from tests.core.native.building import built
from tests.core.native.fences import fenced, room

if TYPE_CHECKING:
    import ctypes


FEATURES = 5
#: Words of the category sets; one is empty.
WORDS = (1, 0, 3, 2)
NUMBERS = tuple(
    kind | side for kind in (MISSING_NONE, MISSING_NAN, MISSING_ZERO) for side in (0, DEFAULT_LEFT)
)


def grown(
    leaves: tuple[int, ...], seed: int, decisions: tuple[int, ...] = (*NUMBERS, CATEGORICAL)
) -> TreesScorer:
    """Grow a tree of each number of leaves, of any shape."""
    random = np.random.default_rng(seed)
    lefts: list[int] = []
    rights: list[int] = []
    for count in leaves:
        sides: tuple[list[int], list[int]] = ([0] * (count - 1), [0] * (count - 1))
        where = [(0, -1)]
        for split in range(count - 1):
            leaf = int(random.integers(split + 1))
            side, parent = where[leaf]
            if parent >= 0:
                sides[side][parent] = split
            sides[0][split], sides[1][split] = -1 - leaf, -2 - split
            where[leaf] = (0, split)
            where.append((1, split))
        lefts += sides[0]
        rights += sides[1]
    chosen = random.choice(np.array(decisions, np.uint8), len(lefts))
    sets = random.integers(0, len(WORDS), len(lefts))
    return TreesScorer(
        splits=np.array(leaves, np.int32) - np.int32(1),
        features=random.integers(0, FEATURES, len(lefts), np.int32),
        thresholds=np.where(chosen == CATEGORICAL, sets, random.standard_normal(len(lefts)).round(1)),
        decisions=chosen,
        left=np.array(lefts, np.int32),
        right=np.array(rights, np.int32),
        values=random.standard_normal(sum(leaves)),
        category_words=np.array(WORDS, np.int32),
        category_bits=random.integers(0, 2**32, sum(WORDS), np.uint32),
    )


def some(n_docs: int, seed: int = 0) -> np.ndarray:
    """Make documents of numbers at thresholds, categories, and everything that may stand for nothing."""
    random = np.random.default_rng(seed)
    numbers = random.standard_normal((n_docs, FEATURES)).round(1)
    categories = random.integers(-2, 110, numbers.shape)
    strange = random.choice(
        [np.nan, 0.0, -0.0, 1e-35, -1e-35, 2e-35, np.inf, -np.inf, -0.5, 3e9], numbers.shape
    )
    documents = np.choose(random.integers(0, 3, numbers.shape), [numbers, categories, strange])
    return documents.astype(np.float32)


def by_bits(
    forest: TreesScorer, documents: np.ndarray, *, in_front: bool = False, opened: ctypes.CDLL | None = None
) -> np.ndarray:
    """Score all documents by bit vectors, beside memory that nobody may touch."""
    opened = opened or library()
    assert opened is not None
    layout = ForestLayout.of(forest)
    bits = LeafBits.of(layout)
    assert bits is not None
    given, scores = fenced(documents, in_front=in_front), room(len(documents), np.float64, in_front=in_front)
    scores[:] = np.nan
    columns, splits, ends, leaves, values, sets, words = (
        fenced(array, in_front=in_front)
        for array in (
            bits.columns,
            bits.splits,
            bits.ends,
            bits.leaves,
            bits.values,
            layout.set_begins,
            layout.category_bits,
        )
    )
    space = room(32 * len(columns), np.float32, in_front=in_front)
    opened.localrank_leaves(
        given.ctypes.data, *documents.shape, columns.ctypes.data, len(columns), splits.ctypes.data, ends.ctypes.data,
        leaves.ctypes.data, len(leaves), 1 if bits.most_leaves <= 32 else 2, values.ctypes.data, sets.ctypes.data,
        words.ctypes.data, space.ctypes.data, scores.ctypes.data,
    )  # fmt: skip
    return scores


@pytest.mark.parametrize("n_docs", [1, 2, 8, 31, 32, 33, 64, 71])
def test_any_number_of_documents_gets_the_bits_of_the_walk(n_docs: int) -> None:
    for leaves in ((7, 1, 2, 32), (64, 33, 1, 7)):
        forest, documents = grown(leaves, n_docs), some(n_docs, n_docs)

        expected = NumpyWalk(ForestLayout.of(forest)).score(documents)

        for in_front in (False, True):
            assert expected.tolist() == by_bits(forest, documents, in_front=in_front).tolist()


@pytest.mark.parametrize("leaves", range(1, MOST_LEAVES + 1))
def test_any_number_of_leaves_gets_the_bits_of_the_walk(leaves: int) -> None:
    documents = some(50, leaves)
    for decisions in ((MISSING_NONE,), NUMBERS, (CATEGORICAL,), (*NUMBERS, CATEGORICAL)):
        forest = grown((leaves,) * 3, leaves, decisions)
        layout = ForestLayout.of(forest)

        expected = NumpyWalk(layout).score(documents)

        assert expected.tolist() == by_bits(forest, documents).tolist()
        assert expected.tolist() == CompiledWalk(layout).score(documents).tolist()
        for n_docs in (1, 7, 8, 31, 39, 40, 50):
            chosen = CompiledWalk(layout, LeafBits.of(layout)).score(documents[:n_docs])
            assert expected[:n_docs].tolist() == chosen.tolist()


@pytest.mark.parametrize("side", [0, 1])
def test_a_tree_that_is_one_long_path_reaches_every_leaf(side: int) -> None:
    """The last bit of both words is a leaf, too."""
    for leaves in (32, 64):
        inner, outer = np.append(np.arange(1, leaves - 1), -leaves), -1 - np.arange(leaves - 1)
        steps = np.arange(leaves - 1.0)
        forest = replace(
            grown((leaves,), 0, (MISSING_NONE,)),
            features=np.zeros(leaves - 1, np.int32),
            thresholds=steps if side else steps[::-1].copy(),
            left=(outer if side else inner).astype(np.int32),
            right=(inner if side else outer).astype(np.int32),
            values=np.arange(1.0, leaves + 1),
        )
        documents = np.zeros((leaves, FEATURES), np.float32)
        documents[:, 0] = np.arange(leaves) - 0.5

        scores = by_bits(forest, documents)

        rising = np.arange(1.0, leaves + 1)
        assert (rising if side else rising[::-1]).tolist() == scores.tolist()


def test_no_documents_and_no_features_have_scores() -> None:
    assert 0 == len(by_bits(grown((7, 7), 0), some(0)))
    assert [3.5] * 33 == by_bits(
        replace(grown((1, 1), 0), values=np.array([1.5, 2.0])), np.zeros((33, 0), np.float32)
    ).tolist()


def test_trees_of_more_leaves_are_walked() -> None:
    forest, documents = grown((7, MOST_LEAVES + 1), 0), some(40)
    layout = ForestLayout.of(forest)

    assert LeafBits.of(layout) is None
    expected = NumpyWalk(layout).score(documents)
    assert expected.tolist() == CompiledWalk(layout, LeafBits.of(layout)).score(documents).tolist()


@pytest.mark.parametrize("to_left", [False, True])
def test_nothing_is_above_infinity(to_left: bool) -> None:  # noqa: FBT001
    """Infinity would stand for what is missing and goes right, so such a forest is walked."""
    decision = MISSING_NAN | (DEFAULT_LEFT if to_left else 0)
    forest = replace(grown((2,), 0, (decision,)), thresholds=np.array([np.inf]), values=np.array([1.0, 2.0]))
    layout = ForestLayout.of(forest)
    documents = np.full((32, FEATURES), np.inf, np.float32)
    documents[3] = np.nan

    assert (LeafBits.of(layout) is None) == (not to_left)
    scores = CompiledWalk(layout, LeafBits.of(layout)).score(documents)
    assert [1.0] * 3 + [1.0 if to_left else 2.0] + [1.0] * 28 == scores.tolist()


@pytest.mark.parametrize("settings", [{}, {"zero_as_missing": True}, {"use_missing": False}])
def test_lightgbm_gives_the_same_scores(settings: dict[str, bool]) -> None:
    random = np.random.default_rng(1)
    documents = random.standard_normal((2000, FEATURES)).round(2)
    documents[:, 3:] = random.integers(0, [6, 90], (2000, 2))
    documents[random.random(documents.shape) < 0.1] = np.nan
    documents[random.random(documents.shape) < 0.1] = 0
    gains = (
        np.nansum(documents[:, :3], axis=1)
        + np.isnan(documents[:, 0])
        + (documents[:, 3] == 2)
        + documents[:, 4] % 7 / 3
    )
    for leaves in (7, 31, 63):
        grows = {"num_leaves": leaves, "verbosity": -1, "min_data_in_leaf": 5, "cat_smooth": 1, **settings}
        data = lightgbm.Dataset(documents, np.nan_to_num(gains), categorical_feature=[3, 4])
        booster = lightgbm.train(grows, data, 20)
        asked = documents[:77].astype(np.float32)

        scores = by_bits(from_lightgbm(booster.model_to_string()), asked)

        assert booster.predict(asked.astype(np.float64), raw_score=True).tolist() == scores.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("family", ["", "x86-64-v3", "x86-64-v4"])
def test_every_width_of_vectors_finds_the_same_bits(family: str, tmp_path: Path) -> None:
    if family and platform.machine() != "x86_64":
        pytest.skip("not a processor of that family")
    flags = Path("/proc/cpuinfo").read_text() if family else ""
    if family and ("avx512bw" if family.endswith("4") else "avx2") not in flags:
        pytest.skip("this processor has no such vectors")
    opened = load(built(tmp_path, "-DLOCALRANK_ONE_TARGET", *[f"-march={family}"] * bool(family)))
    for leaves in (7, 32, 64):
        forest, documents = grown((leaves,) * 5, leaves), some(70, leaves)

        expected = NumpyWalk(ForestLayout.of(forest)).score(documents)

        assert expected.tolist() == by_bits(forest, documents, opened=opened).tolist()
    if family or platform.machine() == "x86_64":
        assert (64 if family else 32) == opened.localrank_most_leaves()
