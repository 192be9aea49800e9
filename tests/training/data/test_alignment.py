from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.errors import InvalidData
from localrank.features.contract import FeatureContract
from localrank_training.data.alignment import aligned
from tests.training.kinds import two_kinds

if TYPE_CHECKING:
    from localrank_training.data.queries import QuerySet


def contract(*names: str) -> FeatureContract:
    return FeatureContract.learn(np.zeros((2, len(names)), np.float32), [2], names=names)


def named(*names: str) -> QuerySet:
    queries = two_kinds(4)
    return replace(
        queries,
        documents=np.ascontiguousarray(queries.documents[:, : len(names)]),
        feature_names=names,
    )


def test_the_same_names_in_the_same_order_need_no_copy() -> None:
    queries = named("a", "b")

    assert queries is aligned(queries, contract("a", "b"))


def test_columns_are_found_by_name_and_further_ones_left_out() -> None:
    queries = named("a", "b", "c", "d", "e")

    found = aligned(queries, contract("d", "a", "b"))

    assert ("d", "a", "b") == found.feature_names
    np.testing.assert_array_equal(queries.documents[:, [3, 0, 1]], found.documents)
    assert found.documents.flags.c_contiguous
    np.testing.assert_array_equal(queries.labels, found.labels)


def test_data_without_names_are_taken_by_position() -> None:
    queries = named("f1", "f2", "f3")

    found = aligned(queries, contract("bm25", "pagerank", "length"))

    assert ("bm25", "pagerank", "length") == found.feature_names
    np.testing.assert_array_equal(queries.documents, found.documents)


def test_names_that_a_model_has_in_another_order_are_no_positions() -> None:
    queries = named("f1", "f2", "f3")

    found = aligned(queries, contract("f3", "f1", "f2"))

    np.testing.assert_array_equal(queries.documents[:, [2, 0, 1]], found.documents)


@pytest.mark.parametrize("n", [2, 4])
def test_data_without_names_have_as_many_features_as_the_model(n: int) -> None:
    names = [f"f{i + 1}" for i in range(n)]
    with pytest.raises(InvalidData, match=f"expected 3 features per document, as the model has, found {n}"):
        aligned(named(*names), contract("f1", "f2", "f3"))


def test_a_missing_feature_is_named() -> None:
    with pytest.raises(
        InvalidData, match="needs the features 'x', which the data do not have; they have 'a', 'b'"
    ):
        aligned(named("a", "b"), contract("a", "x"))
    with pytest.raises(InvalidData, match="'n0', 'n1', 'n2', 'n3', 'n4' and 7 more"):
        aligned(named("a", "b"), contract(*(f"n{i}" for i in range(12))))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("b", "a"), []),
        (("b", "a", "c"), ["left out, because the model does not know them: 'c'"]),
        (
            ("a", "v", "b", "w", "x", "y", "z"),
            ["left out, because the model does not know them: 'v', 'w', 'x', 'y', 'z'"],
        ),
        (
            ("a", "u", "v", "b", "w", "x", "y", "z"),
            ["left out, because the model does not know them: 'u', 'v', 'w', 'x', 'y' and 1 more"],
        ),
    ],
)
def test_what_is_left_out_is_said(names: tuple[str, ...], said: list[str]) -> None:
    queries = named("x1", "x2", "x3", "x4", "x5")
    documents = np.tile(queries.documents, (1, 2))[:, : len(names)]
    told: list[str] = []

    aligned(replace(queries, documents=documents, feature_names=names), contract("a", "b"), told.append)

    assert said == told


def test_a_value_that_the_model_needs_is_asked_for_by_the_models_policy() -> None:
    queries = named("b", "a")
    documents = queries.documents.copy()
    documents[3, 1] = np.nan

    with pytest.raises(InvalidData) as caught:
        aligned(queries.with_documents(documents), contract("a", "b"))

    assert str(caught.value).endswith(
        "expected a value of 'a', found none; the model was trained without missing values and does not "
        "replace them"
    )
