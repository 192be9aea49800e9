"""Trees as plain arrays: what a document meets on its way, and what a forest must not be."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrank.errors import ArtifactCorrupt, InvalidDocuments
from localrank.scorers import SCORERS, TreesScorer
from localrank.scorers.trees import CATEGORICAL, DEFAULT_LEFT, MISSING_NAN, MISSING_NONE, MISSING_ZERO
from localrank.scorers.walk import ForestLayout, NumpyWalk, walk_of
from tests.core.scorers.stored import again, rebuilt

if TYPE_CHECKING:
    from localrank.arrays import Matrix, Vector

pytestmark = pytest.mark.usefixtures("arithmetic")

ROOT = Path(__file__).parents[3]
NAN = float("nan")


def forest(*trees: dict[str, list[Any]], sets: tuple[tuple[int, ...], ...] = ()) -> TreesScorer:
    """Make a forest of trees given by their lists; ``sets`` are categories."""
    words = [max(members, default=0) // 32 + 1 for members in sets]
    bits = np.zeros(sum(words), np.uint32)
    for members, begin in zip(sets, np.cumsum([0, *words]), strict=False):
        for member in members:
            bits[begin + member // 32] |= np.uint32(1 << (member % 32))

    def joined(name: str, dtype: type[np.generic]) -> Any:
        return np.array([number for tree in trees for number in tree.get(name, [])], dtype)

    return TreesScorer(
        splits=np.array([len(tree.get("features", [])) for tree in trees], np.int32),
        features=joined("features", np.int32),
        thresholds=joined("thresholds", np.float64),
        decisions=joined("decisions", np.uint8),
        left=joined("left", np.int32),
        right=joined("right", np.int32),
        values=joined("values", np.float64),
        category_words=np.array(words, np.int32),
        category_bits=bits,
    )


def stump(threshold: float, decision: int, feature: int = 0) -> dict[str, list[Any]]:
    return {
        "features": [feature],
        "thresholds": [threshold],
        "decisions": [decision],
        "left": [-1],
        "right": [-2],
        "values": [-1.0, 1.0],
    }


def column(*values: float) -> Matrix:
    return np.array(values, np.float32)[:, None]


def both_walks(scorer: TreesScorer, documents: Matrix) -> Vector:
    """Score in every way there is: they must agree to the bit. Bit vectors are for eight documents or more."""
    scores = NumpyWalk(ForestLayout.of(scorer)).score(documents)
    np.testing.assert_array_equal(scores, walk_of(scorer).score(documents))
    often = -(-40 // max(len(documents), 1))
    together = walk_of(scorer).score(np.tile(documents, (often, 1)))
    np.testing.assert_array_equal(np.tile(scores, often), together)
    return scores


def definition(scorer: TreesScorer, document: Vector) -> float:
    """Walk one document through LightGBM's definition, written as it stands there (include/LightGBM/tree.h)."""
    total = 0.0
    for tree in range(scorer.n_trees):
        first = int(scorer.split_begins[tree])
        node = 0 if scorer.splits[tree] else -1
        while node >= 0:
            split = first + node
            decision, value = int(scorer.decisions[split]), float(document[scorer.features[split]])
            if decision & CATEGORICAL:
                wanted = int(scorer.thresholds[split])
                begin = int(scorer.category_words[:wanted].sum())
                words = scorer.category_bits[begin : begin + int(scorer.category_words[wanted])]
                category = -1 if np.isnan(value) or abs(value) >= 2**31 else int(value)
                left = 0 <= category < 32 * len(words) and bool(words[category // 32] >> (category % 32) & 1)
            else:
                missing = decision & 12
                if np.isnan(value) and missing != MISSING_NAN:
                    value = 0.0
                if (missing == MISSING_ZERO and abs(value) <= float(np.float32(1e-35))) or (
                    missing == MISSING_NAN and np.isnan(value)
                ):
                    left = bool(decision & DEFAULT_LEFT)
                else:
                    left = value <= scorer.thresholds[split]
            node = int(scorer.left[split] if left else scorer.right[split])
        total += float(scorer.values[first + tree - 1 - node])
    return total


@st.composite
def forests(draw: st.DrawFn, n_features: int = 3) -> TreesScorer:
    """Any well-formed forest: every shape of tree, every kind of decision, thresholds where float32 is thin."""
    thresholds = st.one_of(
        st.floats(-3, 3),
        st.sampled_from([0.0, -0.0, 1e-35, -1e-35, 1e-40, 1e300, -1e300, float("inf"), 0.1, 1 + 2**-30]),
    )
    sets = draw(st.lists(st.frozensets(st.integers(0, 70), max_size=4), max_size=3))
    trees: list[dict[str, list[Any]]] = []
    for _ in range(draw(st.integers(1, 4))):
        left: list[int] = []
        right: list[int] = []
        # Grow as LightGBM does: split an open leaf; the left part keeps its number, the right one is new.
        where: list[tuple[list[int], int]] = [([0], 0)]
        for split in range(draw(st.integers(0, 6))):
            leaf = draw(st.integers(0, split))
            side, parent = where[leaf]
            if split:
                side[parent] = split
            left.append(-1 - leaf)
            right.append(-2 - split)
            where[leaf] = (left, split)
            where.append((right, split))
        decisions = [
            draw(st.sampled_from([0, 2, 4, 6, 8, 10] + 6 * [CATEGORICAL] * bool(sets))) for _ in left
        ]
        trees.append(
            {
                "features": [draw(st.integers(0, n_features - 1)) for _ in left],
                "thresholds": [
                    float(draw(st.integers(0, len(sets) - 1))) if decision & 1 else draw(thresholds)
                    for decision in decisions
                ],
                "decisions": decisions,
                "left": left,
                "right": right,
                "values": [draw(st.floats(-10, 10)) for _ in range(len(left) + 1)],
            }
        )
    return forest(*trees, sets=tuple(tuple(members) for members in sets))


documents_of_any_kind = st.lists(
    st.lists(
        st.one_of(
            st.floats(width=32, allow_infinity=False),
            st.sampled_from(
                [NAN, 0.0, -0.0, 1e-35, -1e-35, 2e-35, 1e-40, 0.1, 1.0, 3e9, -0.5, -1.0, 64.0, 70.9]
            ),
        ),
        min_size=3,
        max_size=3,
    ),
    min_size=1,
    max_size=19,
)


@settings(max_examples=300)
@given(forests(), documents_of_any_kind)
def test_every_forest_scores_every_document_as_defined(scorer: TreesScorer, rows: list[list[float]]) -> None:
    documents = np.array(rows, np.float32)

    scores = both_walks(scorer, documents)

    expected = [definition(scorer, row.astype(np.float64)) for row in documents]
    np.testing.assert_array_equal(expected, scores)


@settings(max_examples=50)
@given(forests())
def test_what_is_taken_apart_is_put_together_again(scorer: TreesScorer) -> None:
    read = again(scorer, 3)

    assert read.settings() == scorer.settings()
    for name, array in scorer.arrays().items():
        np.testing.assert_array_equal(array, read.arrays()[name])
        assert read.arrays()[name].dtype == array.dtype


@pytest.mark.parametrize(
    ("decision", "values", "goes_right"),
    [
        (MISSING_NONE, (-1.0, 0.5, 0.75, NAN, 0.0), (False, False, True, False, False)),
        (MISSING_NAN, (-1.0, 0.5, 0.75, NAN, 0.0), (False, False, True, True, False)),
        (MISSING_NAN | DEFAULT_LEFT, (-1.0, 0.5, 0.75, NAN, 0.0), (False, False, True, False, False)),
        (MISSING_ZERO, (-1.0, 0.5, 0.75, NAN, 0.0, -0.0, 1e-35, 2e-35), (0, 0, 1, 1, 1, 1, 1, 0)),
        (MISSING_ZERO | DEFAULT_LEFT, (0.75, NAN, 0.0, 1e-35), (True, False, False, False)),
    ],
)
def test_what_is_missing_goes_where_its_split_says(
    decision: int, values: tuple[float, ...], goes_right: tuple[bool, ...]
) -> None:
    scores = both_walks(forest(stump(0.5, decision)), column(*values))

    np.testing.assert_array_equal(scores > 0, goes_right)


def test_nan_taken_for_zero_is_compared_with_the_threshold() -> None:
    scores = both_walks(forest(stump(-0.5, MISSING_NONE)), column(NAN, 0.0, -1.0))

    np.testing.assert_array_equal(scores, [1.0, 1.0, -1.0])


def test_categories_are_cut_towards_zero_and_the_unknown_goes_right() -> None:
    scorer = forest(stump(1.0, CATEGORICAL), sets=((5,), (0, 2, 33)))

    scores = both_walks(scorer, column(0, 1, 2, 2.9, 33, -0.9, -1, NAN, 64, 3e38, 5))

    np.testing.assert_array_equal(scores < 0, [1, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0])


def test_a_double_threshold_between_two_floats_decides_as_the_double() -> None:
    low, high = np.float32(0.1), np.nextafter(np.float32(0.1), np.float32(1))
    between = (float(low) + float(high)) / 2

    scores = both_walks(
        forest(stump(between, 0), stump(float(high), 0), stump(float(low), 0)),
        column(float(low), float(high)),
    )

    np.testing.assert_array_equal(scores, [-1.0 - 1.0 - 1.0, 1.0 - 1.0 + 1.0])


def test_scores_do_not_depend_on_the_place_in_the_list() -> None:
    rng = np.random.default_rng(0)
    scorer = forest(*(stump(float(threshold), 0) for threshold in rng.standard_normal(40)))
    scorer = TreesScorer(**{**scorer.arrays(), "values": rng.standard_normal(80)})  # type: ignore[arg-type]
    documents = rng.standard_normal((500, 1)).astype(np.float32)

    together = both_walks(scorer, documents)

    alone = [both_walks(scorer, row[None])[0] for row in documents]
    np.testing.assert_array_equal(alone, together)


def test_no_documents_get_no_scores() -> None:
    assert forest(stump(0.5, 0)).score_rows(np.zeros((0, 1), np.float32)).shape == (0,)


def test_a_tree_without_splits_is_a_constant() -> None:
    scorer = forest({"values": [0.25]}, stump(0.0, 0), {"values": [0.5]})

    np.testing.assert_array_equal(both_walks(scorer, column(1.0, -1.0)), [0.25 + 1 + 0.5, 0.25 - 1 + 0.5])


def test_rows_that_are_not_contiguous_are_scored_as_they_are_read() -> None:
    documents = np.array([[9.0, 1.0], [9.0, -1.0]], np.float32)[:, 1:]

    np.testing.assert_array_equal(forest(stump(0.0, 0)).score_rows(documents), [1.0, -1.0])


def test_documents_with_too_few_features_are_refused() -> None:
    scorer = forest(stump(0.0, 0, feature=2))

    with pytest.raises(InvalidDocuments, match=r"look at 3 features, found documents of shape \(4, 2\)"):
        scorer.score_rows(np.zeros((4, 2), np.float32))
    with pytest.raises(InvalidDocuments, match=r"look at 3 features, found documents of shape \(4, 2\)"):
        scorer.parts_of(np.zeros((4, 2), np.float32))
    with pytest.raises(InvalidDocuments, match=r"look at 3 features, found documents of shape \(1, 2\)"):
        scorer.parts_of(np.zeros((4, 3), np.float32))(np.zeros((1, 2), np.float32))


def test_no_feature_is_numbered_beyond_the_bits_of_a_node() -> None:
    """The bit after the last one of a feature says that a node is a leaf."""
    last = forest(stump(0.0, 0, feature=2**29 - 1))

    assert 2**29 - 1 == int(ForestLayout.of(last).nodes["feature"][0])
    with pytest.raises(ValueError, match=f"tree 0, split 0: expected a feature, found {2**29}"):
        forest(stump(0.0, 0, feature=2**29))


def test_two_forests_add_up() -> None:
    first = forest(stump(0.0, 0), stump(0.0, CATEGORICAL), sets=((1, 2),))
    second = forest(stump(1.0, CATEGORICAL), {"values": [7.0]}, sets=((0,), (3, 40)))
    documents = column(-1, 0, 1, 2, 3, 40, NAN)

    joined = both_walks(first.plus(second), documents)

    np.testing.assert_array_equal(joined, both_walks(first, documents) + both_walks(second, documents))


def test_a_scorer_crosses_processes_without_its_addresses() -> None:
    scorer = forest(stump(0.0, 0))
    scorer.score_rows(column(1.0))

    copied = pickle.loads(pickle.dumps(scorer))

    assert "walk" not in copied.__dict__
    np.testing.assert_array_equal(copied.score_rows(column(1.0, -1.0)), [1.0, -1.0])


def test_an_artifact_may_hold_trees() -> None:
    assert SCORERS["trees"] is TreesScorer


DEEP: dict[str, list[Any]] = {
    "features": [0, 1, 0],
    "thresholds": [0.0, 0.0, 1.0],
    "decisions": [0, 0, 0],
    "left": [1, 2, -1],
    "right": [-4, -3, -2],
    "values": [1.0, 2.0, 3.0, 4.0],
}


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("left", [1, 3, -1], "tree 1, split 1: expected a later split or a leaf .*found 3"),
        ("left", [1, 2, -6], "tree 1, split 2: expected a later split or a leaf .*found -6"),
        ("left", [1, 1, -1], "tree 1, split 1: expected a later split or a leaf .*found 1"),
        ("left", [1, 0, -1], "tree 1, split 1: expected a later split or a leaf .*found 0"),
        ("left", [2, 2, -1], "tree 1, split 1: expected exactly one parent"),
        ("left", [1, 2, -2], "leaf 2: expected exactly one parent"),
        ("features", [0, -1, 0], r"scorers\.features\.npy: expected 0 to 1, found -1 at position 2"),
        ("features", [0, 2, 0], r"scorers\.features\.npy: expected 0 to 1, found 2 at position 2"),
        ("features", [0, 1], r"thresholds: expected shape \(3\), found \(4,\)"),
        ("thresholds", [0.0, NAN, 0.0], "tree 1, split 1: expected a threshold, found nan"),
        ("decisions", [0, 12, 0], "tree 1, split 1: expected decision bits, found 12"),
        ("decisions", [0, 16, 0], "tree 1, split 1: expected decision bits, found 16"),
        ("values", [1.0, 2.0, 3.0, NAN], "a leaf is not finite"),
        ("values", [1.0, 2.0, 3.0, float("inf")], "a leaf is not finite"),
        ("values", [1.7e308, 1.7e308, 0.0, 0.0], "too large to be added"),
        ("values", [1.0, 2.0, 3.0], "values: expected one for each of 6 leaves, found 5"),
    ],
)
def test_a_malformed_forest_is_refused(name: str, change: list[Any], sentence: str) -> None:
    good = forest(stump(0.5, 0), DEEP)
    arrays = good.arrays()
    ahead = {"values": 2}.get(name, 1)
    arrays[name] = np.concatenate([arrays[name][:ahead], np.array(change, arrays[name].dtype)])

    with pytest.raises(ArtifactCorrupt, match=sentence):
        rebuilt("trees", {"blocks": "raw"}, arrays, n_features=2)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"splits": np.zeros(0, np.int32)}, r"splits: expected shape \(0\), found \(0,\)"),
        ({"splits": np.array([-1, 5], np.int32)}, "tree 0: expected a number of splits, found -1"),
        ({"splits": np.array([2**31 - 1, 2**31 - 1], np.int32)}, "at most a thousand million splits"),
        ({"splits": np.array([1, 3], np.int64)}, "splits: expected int32, found int64"),
        ({"left": np.zeros((2, 2), np.int32)}, r"left: expected shape \(4\), found \(2, 2\)"),
        ({"category_words": np.array([2], np.int32)}, "cover 0 words"),
        ({"category_words": np.array([1, -1], np.int32)}, "cover 0 words"),
        (
            {"decisions": np.array([1, 0, 0, 0], np.uint8)},
            "tree 0, split 0: expected one of 0 category sets, found 0.5",
        ),
        ({"surprise": np.zeros(1)}, "expected the arrays of 'trees' .*, found .*surprise"),
    ],
)
def test_a_forest_of_arrays_that_do_not_fit_is_refused(changes: dict[str, Any], sentence: str) -> None:
    arrays = {**forest(stump(0.5, 0), DEEP).arrays(), **changes}

    with pytest.raises(ArtifactCorrupt, match=sentence):
        rebuilt("trees", {"blocks": "raw"}, arrays, n_features=2)


@pytest.mark.parametrize("threshold", [-1.0, 0.5, 2.0, NAN])
def test_a_category_set_that_is_not_there_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match="tree 0, split 0: expected one of 2 category sets"):
        forest(stump(threshold, CATEGORICAL), sets=((1,), (2,)))


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [
        ({"blocks": "text"}, "blocks: expected one of raw, .*, found 'text'"),
        ({"blocks": "raw", "more": 1}, r"expected the settings of 'trees' \(blocks\), found blocks, more"),
    ],
)
def test_strange_settings_are_refused(stated: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ArtifactCorrupt, match=sentence):
        rebuilt("trees", stated, forest(stump(0.5, 0)).arrays(), n_features=1)


@settings(max_examples=200)
@given(forests(), st.data())
def test_no_corrupted_forest_leads_the_walk_astray(scorer: TreesScorer, data: st.DataObject) -> None:
    """A file that passes the checks is walked without reading outside; all others are refused with a sentence."""
    arrays = {name: array.copy() for name, array in scorer.arrays().items()}
    name = data.draw(st.sampled_from(sorted(name for name, array in arrays.items() if len(array))))
    at = data.draw(st.integers(0, len(arrays[name]) - 1))
    raw = arrays[name].view(np.uint8)
    raw[at * arrays[name].itemsize + data.draw(st.integers(0, arrays[name].itemsize - 1))] ^= data.draw(
        st.integers(1, 255)
    )
    documents = np.random.default_rng(0).standard_normal((9, 3)).astype(np.float32)

    try:
        changed = cast("TreesScorer", again(scorer, 3, arrays=arrays))
    except ArtifactCorrupt as error:
        assert "expected" in str(error) or "values" in str(error)  # noqa: PT017 - either outcome is right
    else:
        expected = [definition(changed, row.astype(np.float64)) for row in documents]
        np.testing.assert_array_equal(expected, both_walks(changed, documents))


def test_scoring_with_trees_needs_no_library_that_grows_them() -> None:
    arrays = {name: array.tolist() for name, array in forest(stump(0.5, 0)).arrays().items()}
    dtypes = {name: array.dtype.name for name, array in forest(stump(0.5, 0)).arrays().items()}
    probe = (
        "import sys, numpy as np; from localrank.scorers import TreesScorer\n"
        f"arrays = {{name: np.array(values, {dtypes}[name]) for name, values in {arrays}.items()}}\n"
        "TreesScorer(**arrays).score_rows(np.zeros((3, 1), np.float32))\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules} - sys.stdlib_module_names))"
    )

    answer = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True)

    assert not {"lightgbm", "sklearn", "joblib", "pandas", "localrank_training", "numba"} & set(
        answer.stdout.split()
    )
