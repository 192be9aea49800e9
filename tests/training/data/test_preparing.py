"""Judged queries made ready for a model: its columns, no value that it cannot take, and shorter lists."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.errors import InvalidConfiguration, InvalidData
from localrank.features.contract import FeatureContract
from localrank_training.data import preparing
from localrank_training.data.preparing import aligned, placed, refuse_missing, with_shorter_lists
from localrank_training.data.reading import read
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig
from localrank_training.settings.steps import ContractSettings
from tests.training.kinds import two_kinds

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_training.data.queries import QuerySet

QUICK = TrainingConfig.from_tables({"clustering": {"method": "none"}, "routing": {"method": "global"}})


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


def with_holes(*places: tuple[int, int]) -> QuerySet:
    queries = two_kinds(4)
    documents = queries.documents.copy()
    for place in places:
        documents[place] = np.nan
    return replace(queries, documents=documents)


@pytest.mark.parametrize("cells", [5, 40, 1 << 22])
def test_the_first_missing_value_is_named_and_the_others_counted(
    cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "_CELLS", cells)
    queries = with_holes((3, 0), (17, 4), (17, 2), (40, 2))

    with pytest.raises(InvalidData) as error:
        refuse_missing(queries, ["nan", "zero", "reject", "reject", "reject"], "do this")

    expected = "query 'q1': expected a value of 'f3', found none, and 1 more document lacks values; do this"
    assert expected == str(error.value)


def test_values_that_are_replaced_may_be_missing() -> None:
    queries = with_holes((3, 0))

    refuse_missing(queries, "median", "")
    refuse_missing(queries, ["nan", *["reject"] * 4], "")


def test_a_model_that_replaces_nothing_names_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 qid:1 1:2 2:3\n0 qid:1 1:? 2:4\n")
    queries = read([tmp_path / "a.txt"])
    contract = FeatureContract.learn(np.zeros((2, 2), np.float32), [2], names=("f1", "f2"))

    with pytest.raises(
        InvalidData, match=r"a\.txt:2, query '1': expected a value of 'f1', found none; the model"
    ):
        aligned(queries, contract)


def test_training_says_what_to_do_about_missing_values() -> None:
    strict = QUICK.replace(contract=ContractSettings(missing="reject"))
    with pytest.raises(
        InvalidData,
        match=r"query 'q0': expected a value of 'f2', found none; --set contract.missing=median",
    ):
        train(with_holes((2, 1)), strict)


def test_a_label_that_cannot_be_used_has_a_place(tmp_path: Path) -> None:
    lines = [f"{i % 2} qid:{i // 4} 1:{i} 2:{-i}\n" for i in range(16)]
    lines[9] = "1001 qid:2 1:3 2:4\n"
    (tmp_path / "a.txt").write_text("".join(lines))
    queries = read([tmp_path / "a.txt"])

    with pytest.raises(
        InvalidData, match=r"a\.txt:10, query '2': label of document 9: expected 0 to 1000, found 1001"
    ):
        train(queries, QUICK)
    with pytest.raises(InvalidData, match=r"^other$"), placed(queries):
        raise InvalidData("other")


def test_full_lists_stay_where_they_are_and_shorter_ones_follow() -> None:
    queries = two_kinds(4, n_docs=9)

    lists, weights = with_shorter_lists(queries, [5, 2])

    assert [9] * 4 + [5] * 4 + [2] * 4 == lists.lengths.tolist()
    assert queries.query_ids * 3 == lists.query_ids
    np.testing.assert_array_equal(queries.documents, lists.documents[: queries.n_docs])
    np.testing.assert_allclose(np.full(12, 1 / 3), weights)


def test_a_shorter_list_holds_documents_of_its_query_with_their_labels_in_their_order() -> None:
    queries = two_kinds(6, n_docs=12)

    lists, _ = with_shorter_lists(queries, [4], seed=3)

    for query in range(6):
        lines = lists.lines[lists.span(6 + query)]
        assert sorted(set(lines.tolist())) == lines.tolist()
        np.testing.assert_array_equal(queries.documents[lines], lists.documents_of(6 + query))
        np.testing.assert_array_equal(queries.labels[lines], lists.labels_of(6 + query))
        assert set(lines) <= set(range(*queries.span(query).indices(queries.n_docs)))


def test_the_sample_follows_the_seed() -> None:
    queries = two_kinds(6, n_docs=12)
    first, again, other = (with_shorter_lists(queries, [4], seed=seed)[0].lines for seed in (1, 1, 2))

    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_an_unknown_feature_is_named() -> None:
    with pytest.raises(
        InvalidConfiguration,
        match=r"\[lists\] by: expected 'random' or a feature \(f1, f2, f3, f4, f5, …\), found 'bm25'",
    ):
        with_shorter_lists(two_kinds(), [3], by="bm25")


def test_the_largest_values_are_kept_in_the_order_of_their_documents_and_ties_go_to_the_first() -> None:
    queries = two_kinds(1, n_docs=6)
    documents = queries.documents.copy()
    documents[:, 3] = [2, 5, np.nan, 5, 2, 7]
    queries = queries.with_documents(documents)

    kept = [with_shorter_lists(queries, [n], by="f4")[0].lines[6:].tolist() for n in range(1, 6)]

    assert [[5], [1, 5], [1, 3, 5], [0, 1, 3, 5], [0, 1, 3, 4, 5]] == kept


def test_only_lists_that_are_longer_are_shortened_and_each_query_counts_once() -> None:
    queries = two_kinds(3, n_docs=4)
    offsets = np.array([0, 6, 9, 12])  # of 6, 3 and 3 documents
    queries = replace(queries, offsets=offsets, positions=np.arange(12), comments=tuple("abcdefghijkl"))

    lists, weights = with_shorter_lists(queries, [3, 5, 2])

    assert [6, 3, 3, 3, 5, 2, 2, 2] == lists.lengths.tolist()
    assert ("q0", "q1", "q2", "q0", "q0", "q0", "q1", "q2") == lists.query_ids
    np.testing.assert_allclose([1 / 4, 1 / 2, 1 / 2, 1 / 4, 1 / 4, 1 / 4, 1 / 2, 1 / 2], weights)
    assert lists.documents.flags.c_contiguous


def test_the_samples_of_several_queries_are_not_the_same_places() -> None:
    queries = two_kinds(12, n_docs=12)

    lists, _ = with_shorter_lists(queries, [4])
    again, _ = with_shorter_lists(queries, [4], seed=0)

    places = {tuple((lists.lines[lists.span(12 + q)] - 12 * q).tolist()) for q in range(12)}
    assert len(places) > 6
    np.testing.assert_array_equal(lists.lines, again.lines)


def test_weights_are_kept_if_nothing_is_shortened() -> None:
    queries = replace(two_kinds(3, n_docs=5), weights=np.array([2.0, 1.0, 0.5]))

    lists, weights = with_shorter_lists(queries, [5])

    assert queries is lists
    assert [2.0, 1.0, 0.5] == weights.tolist()
