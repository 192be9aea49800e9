from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.utils.estimator_checks import estimator_checks_generator

import localrank
import localrank_training
from localrank.metrics import Judgements
from localrank_training import LocalRanker
from localrank_training.data.tables import Values
from localrank_training.estimator import _grouped, _numbered, _Rows, _weights

if TYPE_CHECKING:
    from pathlib import Path

#: One setting and nothing to choose, so that fits take milliseconds.
QUICK: dict[str, Any] = {"method": "global", "settings": {"learner.C": 1.0}}


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any, Any]:
    """30 queries whose rows are mixed up."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4)).astype(np.float32)
    y = np.digitize(X[:, 0] - X[:, 1] + 0.3 * rng.standard_normal(300), [-0.5, 0.8])
    return X, y, rng.permutation(np.repeat(np.arange(30), 10)) + 100


def test_scores_are_those_of_the_ranker_query_by_query(data: tuple[Any, Any, Any]) -> None:
    X, y, qid = data

    ranker = LocalRanker(**QUICK).fit(X, y, qid=qid)

    scores, order = ranker.predict(X, qid=qid), ranker.rank(X, qid=qid)
    for query in np.unique(qid):
        np.testing.assert_array_equal(ranker.ranker_.rank(X[qid == query]).scores, scores[qid == query])
    assert sorted(order.tolist()) == list(range(300))
    assert list(dict.fromkeys(qid.tolist())) == list(dict.fromkeys(qid[order].tolist()))
    ranked = [(q, s) for q, s in zip(qid[order].tolist(), scores[order].tolist(), strict=True)]
    assert all(a[0] != b[0] or a[1] >= b[1] for a, b in itertools.pairwise(ranked))
    grouped = np.argsort(qid, kind="stable")
    expected = (
        Judgements(y[grouped].astype(float), np.arange(0, 301, 10))
        .per_query(scores[grouped], "ndcg@10")
        .mean()
    )
    assert pytest.approx(expected) == ranker.score(X, y, qid=qid)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_column_qid_stands_for_the_argument(data: tuple[Any, Any, Any], frame: Any) -> None:
    X, y, qid = data
    table = frame({"bm25": X[:, 0], "qid": qid, "age": X[:, 1], "clicks": X[:, 2], "length": X[:, 3]})

    ranker = LocalRanker(**QUICK).fit(table, y)

    assert ["bm25", "age", "clicks", "length"] == ranker.feature_names_in_.tolist()
    assert ("bm25", "age", "clicks", "length") == ranker.ranker_.contract.names
    np.testing.assert_array_equal(
        LocalRanker(**QUICK).fit(X, y, qid=qid).predict(X, qid=qid), ranker.predict(table)
    )


def test_a_grid_search_over_groups_needs_no_routing_with_a_column(data: tuple[Any, Any, Any]) -> None:
    X, y, qid = data
    table = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(qid=qid)

    search = GridSearchCV(
        LocalRanker(**QUICK), {"settings": [{"learner.C": 1e-9}, {"learner.C": 1.0}]}, cv=GroupKFold(3)
    ).fit(table, y, groups=qid)

    assert {"learner.C": 1.0} == search.best_params_["settings"]
    assert 0.8 < search.best_score_ <= 1


def test_metadata_routing_carries_the_queries(data: tuple[Any, Any, Any]) -> None:
    X, y, qid = data
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = LocalRanker(**QUICK).set_fit_request(qid=True).set_score_request(qid=True)

        scores = cross_val_score(ranker, X, y, cv=GroupKFold(3), params={"qid": qid, "groups": qid})

    by_hand = []
    for train, test in GroupKFold(3).split(X, y, qid):
        fitted = LocalRanker(**QUICK).fit(X[train], y[train], qid=qid[train])
        by_hand.append(fitted.score(X[test], y[test], qid=qid[test]))
    np.testing.assert_allclose(scores, by_hand)


def test_parameters_are_read_set_and_cloned() -> None:
    ranker = LocalRanker("global", learner="lambdamart", settings={"learner.num_leaves": 5})

    assert "lambdamart" == ranker.get_params()["learner"]
    assert {"learner.C": 1.0} == clone(ranker.set_params(settings={"learner.C": 1.0})).settings
    assert "\n" not in repr(ranker)
    with pytest.raises(ValueError, match="no method 'globl'"):
        LocalRanker("globl").fit(np.eye(4), [0, 1, 0, 1], qid=[1, 1, 2, 2])


def test_what_is_published_is_what_predicts(data: tuple[Any, Any, Any], tmp_path: Path) -> None:
    X, y, qid = data
    ranker = LocalRanker(**QUICK).fit(X, y, qid=qid)

    reference = ranker.publish("web", tmp_path, promote=True)

    assert 1 == reference.version
    served = localrank.load(tmp_path / "web")
    np.testing.assert_array_equal(served.rank(X[qid == 105]).scores, ranker.predict(X[qid == 105]))


def test_wrong_input_is_a_value_error_in_a_sentence(data: tuple[Any, Any, Any]) -> None:
    X, y, qid = data
    with pytest.raises(ValueError, match="qid: expected a query for each of 300 rows, found 299"):
        LocalRanker(**QUICK).fit(X, y, qid=qid[1:])
    with pytest.raises(ValueError, match="y: expected labels of at least 0, found -1"):
        LocalRanker(**QUICK).fit(X, y - 1, qid=qid)
    with pytest.raises(ValueError, match="Input X contains infinity"):
        LocalRanker(**QUICK).fit(np.where(X > 2, np.inf, X), y, qid=qid)
    strict = {**QUICK["settings"], "contract.missing": "reject"}
    with pytest.raises(ValueError, match=r"Input X contains NaN, .*contract\.missing"):
        LocalRanker(method="global", settings=strict).fit(np.where(X > 2, np.nan, X), y, qid=qid)
    with pytest.raises(ValueError, match="X has 3 features, but LocalRanker is expecting 4"):
        LocalRanker(**QUICK).fit(X, y, qid=qid).predict(X[:, :3])


def test_queries_that_are_not_there_are_refused(data: tuple[Any, Any, Any]) -> None:
    X, y, qid = data
    row = int(np.flatnonzero(qid == 103)[0])
    for unknown in (np.where(qid == 103, np.nan, qid), [None if q == 103 else f"q{q}" for q in qid]):
        with pytest.raises(ValueError, match=f"qid: expected a query for each row, found none in row {row}$"):
            LocalRanker(**QUICK).fit(X, y, qid=unknown)
    with pytest.raises(ValueError, match=r"found an array of shape \(150, 2\)"):
        LocalRanker(**QUICK).fit(X, y, qid=qid.reshape(-1, 2))
    with pytest.raises(ValueError, match=r"for each of 300 rows, found 30; .* np.repeat"):
        LocalRanker(**QUICK).fit(X, y, qid=[10] * 30)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ({"label": 1}, r"the column 'label' \(labels, which are y\)"),
        ({"doc_id": 7}, r"the column 'doc_id' \(which names the documents\)"),
        ({"when": pd.Timestamp("2026-01-02")}, "expected numbers in the column 'when', found dates"),
    ],
)
def test_a_column_that_is_no_feature_is_refused(
    data: tuple[Any, Any, Any], column: dict[str, Any], expected: str
) -> None:
    X, y, qid = data
    table = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(**column)

    with pytest.raises(ValueError, match=expected):
        LocalRanker(**QUICK).fit(table, y, qid=qid)


def test_labels_that_are_text_and_columns_that_stand_twice_are_refused(data: tuple[Any, Any, Any]) -> None:
    X, y, qid = data
    with pytest.raises(ValueError, match="y: expected numbers, found the text 'bad'"):
        LocalRanker(**QUICK).fit(X, np.where(y > 9, "good", "bad"), qid=qid)
    with pytest.raises(ValueError, match="X: expected every column once, found 'a' again"):
        LocalRanker(**QUICK).fit(pd.DataFrame(X, columns=["a", "b", "c", "a"]), y, qid=qid)


def test_another_order_of_the_columns_is_refused_as_by_every_estimator(data: tuple[Any, Any, Any]) -> None:
    X, y, qid = data
    named = LocalRanker(**QUICK).fit(pd.DataFrame(X, columns=["a", "b", "c", "d"]), y, qid=qid)
    numbered = LocalRanker(**QUICK).fit(pd.DataFrame(X), y, qid=qid)

    for take in (named.predict, named.rank):
        with pytest.raises(ValueError, match="must be in the same order"):
            take(pd.DataFrame(X, columns=["a", "b", "c", "d"])[["b", "a", "c", "d"]], qid=qid)
    for take in (numbered.predict, numbered.rank):
        with pytest.raises(ValueError, match=r"^X: expected the names of features as .*, found 1$"):
            take(pd.DataFrame(X)[[1, 0, 2, 3]], qid=qid)


def test_what_it_prints_is_one_line_however_many_settings_there_are() -> None:
    ranker = LocalRanker(
        "global", learner="lambdamart", settings={f"learner.{name}": 1 for name in "abcdefghij"}
    )

    assert "\n" not in repr(ranker)
    assert repr(ranker).startswith("LocalRanker('global'") or repr(ranker).startswith("LocalRanker(learner=")
    assert "sk-container-id" in ranker._repr_html_()


class InPairs(LocalRanker):
    """The checks give no queries, and nothing can be learned from a single one."""

    def fit(self, X: Any, y: Any, qid: Any = None, query_weight: Any = None) -> InPairs:
        pairs = np.arange(np.shape(X)[0] if np.ndim(X) else 0) // 2 if qid is None else qid
        return super().fit(X, y, pairs, query_weight)


#: Checks that fit labels that are all the same, of which no order can be learned.
ONE_LABEL = ("check_estimators_nan_inf", "check_positive_only_tag_during_fit")


def test_scikit_learns_checks_pass() -> None:
    estimator = InPairs("global", settings={"learner.C": 1.0, "contract.normalise": "none"})
    failed = {}
    for instance, check in estimator_checks_generator(estimator):
        name = check.func.__name__
        if name in ONE_LABEL or name == "check_array_api_input":  # which skips itself
            continue
        try:
            check(instance)
        except Exception as error:  # noqa: BLE001 - every failure is listed
            failed[name] = f"{type(error).__name__}: {error}"
    assert {} == failed


def test_the_package_says_what_is_public() -> None:
    for name in localrank_training.__all__:
        assert getattr(localrank_training, name).__name__ == name
    assert set(localrank_training.__all__) <= set(dir(localrank_training))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = localrank_training.nothing


@pytest.mark.parametrize(
    ("qid", "numbers", "ids"),
    [
        ([7, 3, 7, 5], [0, 1, 0, 2], ("7", "3", "5")),
        (["b", "a", "b"], [0, 1, 0], ("b", "a")),
        (np.array([[2], [1], [2]]), [0, 1, 0], ("2", "1")),
        (np.array(["x", 3, "x"], object), [0, 1, 0], ("x", "3")),
    ],
)
def test_queries_are_numbered_as_they_first_appear(
    qid: Any, numbers: list[int], ids: tuple[str, ...]
) -> None:
    found, names = _numbered(qid, len(numbers))

    assert (numbers, ids) == (found.tolist(), names)


@pytest.mark.parametrize(
    ("qid", "message"),
    [
        (
            [1, 2],
            r"^qid: expected a query for each of 3 rows, found 2; to make queries from the sizes of groups, use ",
        ),
        ([1, 1], r"^qid: expected a query for each of 3 rows, found 2$"),
        (["a", "b"], r"^qid: expected a query for each of 3 rows, found 2$"),
        ([1.0, 2.0], r"^qid: expected a query for each of 3 rows, found 2$"),
        ([1, None, None], r"^qid: expected a query for each row, found none in row 1$"),
        (pd.array([1, 2, None], dtype="Int64"), r"^qid: expected a query for each row, found none in row 2$"),
        (np.array(["2026-01-01", "NaT", "2026-01-02"], "M8[D]"), r"found none in row 1$"),
        (np.ones((3, 2)), r"^qid: expected one query for each row, found an array of shape \(3, 2\)$"),
        (np.ones((3, 1, 2)), r"^qid: expected one query for each row, found an array of shape \(3, 1, 2\)$"),
    ],
)
def test_what_numbers_no_queries_is_refused(qid: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _numbered(qid, 3)


def rows(queries: list[int]) -> _Rows:
    documents = np.arange(len(queries), dtype=np.float32)[:, None]
    ids = tuple(f"q{number}" for number in range(max(queries) + 1))
    return _Rows(documents, np.array(queries), ids, ("f1",), Values())


def test_rows_of_a_query_are_put_next_to_each_other() -> None:
    queries, order = _grouped(rows([0, 1, 0, 2, 1]), [5, 6, 7, 8, 9])

    assert [0, 2, 1, 4, 3] == order.tolist() == queries.lines.tolist()
    assert [0, 2, 1, 4, 3] == queries.documents[:, 0].tolist()
    assert [5, 7, 6, 9, 8] == queries.labels.tolist()
    assert [0, 2, 4, 5] == queries.offsets.tolist()
    assert (("q0", "q1", "q2"), ("f1",)) == (queries.query_ids, queries.feature_names)


def test_a_query_has_the_weight_of_its_rows() -> None:
    assert [2.0, 0.0] == _weights([2, 0, 2], rows([0, 1, 0])).tolist()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 1], "^query_weight: expected one for each of 3 rows, found 2$"),
        ([1, -0.5, -2], r"^query_weight: expected finite numbers of at least 0, found -0\.5 in row 1$"),
        ([1, 1, np.nan], "^query_weight: expected finite numbers of at least 0, found nan in row 2$"),
        ([np.inf, 1, 1], "^query_weight: expected finite numbers of at least 0, found inf in row 0$"),
        ([1, 1, 2], "^query_weight: row 2"),
    ],
)
def test_weights_that_are_none_are_refused(weights: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _weights(weights, rows([0, 1, 0]))


def test_settings_are_put_over_those_of_the_file_and_the_method(tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text("seed = 3\n[learner]\nmethod = 'ranksvm'\nC = 7\n")

    plain = LocalRanker("global", config=config)._configuration()
    more = LocalRanker(
        "global", config=config, settings={"seed": 5, "learner.tolerance": 0.05}
    )._configuration()

    assert (3, 7, "none") == (plain.seed, plain.learner.settings["C"], plain.clustering.method)
    assert (5, 7, 0.05) == (more.seed, more.learner.settings["C"], more.learner.settings["tolerance"])
    with pytest.raises(ValueError, match=r"^LocalRanker: unknown setting 'sead'"):
        LocalRanker(settings={"sead": 1})._configuration()


def test_what_is_given_reaches_training(data: tuple[Any, Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, qid = data
    asked: dict[str, Any] = {}

    def train(queries: Any, configuration: Any, **options: Any) -> Any:
        asked.update(queries=queries, configuration=configuration, **options)
        return SimpleNamespace(built=SimpleNamespace(ranker="ranker"))

    monkeypatch.setattr("localrank_training.estimator.train", train)
    monkeypatch.setattr("localrank_training.estimator.report_of", lambda trained: ("report", trained))

    ranker = LocalRanker(**QUICK, workers=3).fit(X, y, qid=qid, query_weight=1.0 + qid % 2)

    assert 3 == asked["workers"]
    assert "none" == asked["configuration"].clustering.method
    expected = [1.0 + int(name) % 2 for name in asked["queries"].query_ids]
    assert expected == asked["queries"].weights.tolist()
    report: Any = ranker.report_
    assert ("report", ranker.trained_) == report
    assert "ranker" == str(ranker.ranker_)
    ranker = LocalRanker(**QUICK).fit(X, y, qid=qid)
    assert 1 == asked["workers"]
    assert asked["queries"].weights is None


def test_equal_scores_keep_the_order_of_the_rows(data: tuple[Any, Any, Any]) -> None:
    X, y, qid = data
    ranker = LocalRanker(**QUICK).fit(X, y, qid=qid)
    twins = np.repeat(X[:3], 2, axis=0)

    order = ranker.rank(twins, qid=[1] * 6)

    assert all(order.tolist().index(row) + 1 == order.tolist().index(row + 1) for row in (0, 2, 4))
    assert [0, 2, 1] == ranker.rank(X[[0, 1, 0]], qid=["b", "a", "b"]).tolist()


def test_the_metric_of_the_score_is_the_one_that_is_asked_for(data: tuple[Any, Any, Any]) -> None:
    X, y, qid = data
    scores = {
        metric: LocalRanker(**QUICK, metric=metric).fit(X, y, qid=qid).score(X, y, qid=qid)
        for metric in ("ndcg@10", "p@10", "mrr")
    }

    assert scores["ndcg@10"] == LocalRanker(**QUICK).fit(X, y, qid=qid).score(X, y, qid=qid)
    assert 3 == len(set(scores.values()))


def test_a_published_model_is_not_served_unless_asked(data: tuple[Any, Any, Any], tmp_path: Path) -> None:
    X, y, qid = data

    LocalRanker(**QUICK).fit(X, y, qid=qid).publish("web", tmp_path)

    assert {} == localrank.Registry(tmp_path).aliases("web")


@pytest.mark.parametrize(("missing", "allowed"), [("reject", False), ("median", True)])
def test_missing_values_are_allowed_if_a_setting_says_what_they_become(
    missing: str, *, allowed: bool
) -> None:
    tags = LocalRanker("global", settings={"contract.missing": missing}).__sklearn_tags__()

    assert (allowed, True, True) == (
        tags.input_tags.allow_nan,
        tags.target_tags.required,
        tags.target_tags.positive_only,
    )
    assert "ranker" == tags.estimator_type
    assert not LocalRanker("globl").__sklearn_tags__().input_tags.allow_nan


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        (np.array([[1.0, "nike"], [2.0, "kobo"]], object), "found the text 'nike'; give a frame"),
        (pl.LazyFrame({"x": [1.0, 2.0]}), r"found a LazyFrame; its collect\(\) brings them there"),
        (pd.DataFrame({"x": pd.to_datetime(["2026-01-01", "2026-01-02"])}), "found dates; give the days since 1970"),
    ],
    ids=["texts without names", "a frame that is not in memory", "dates"],
)  # fmt: skip
def test_what_cannot_be_learned_from_is_refused_with_what_to_do(documents: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        LocalRanker(learner="linear").fit(documents, [0, 1], qid=[0, 0])
