"""A scikit-learn estimator over everything here: for notebooks, grid searches and pipelines.

    ranker = LocalRanker(learner="lambdamart").fit(X, y, qid=qid)
    ranker.predict(X_test, qid=qid_test)        # [n_docs] scores, higher is better
    ranker.publish("web", promote=True)         # what the service runs

Rows are documents. ``qid`` says which query each belongs to, as in XGBoost; the rows of a query need not be adjacent. A
table with a column ``qid`` needs no argument, so that it works in every tool of scikit-learn that passes ``X`` and ``y``
only. Queries matter in `predict` too: a query is routed and normalised as a whole, so without ``qid`` all rows are
one query.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from warnings import warn

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from localrank.errors import InvalidDocuments, LocalRankError
from localrank.features.feature import Feature
from localrank.frames import as_numbers, columns_of, is_missing, names_of
from localrank.metrics import Judgements
from localrank.registry.versions import Registry
from localrank.settings import checked
from localrank_training.data.categories import described
from localrank_training.data.queries import QuerySet, default_names
from localrank_training.data.reading import Grouping
from localrank_training.data.tables import AS_NAMED, IDS, Values, is_category, weights_of
from localrank_training.evaluation.evaluating import rank_all
from localrank_training.publishing.publish import publish as publish_trained
from localrank_training.report.figures import report_of
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig, check_learners, read_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from localrank.arrays import Indices, Matrix, Vector
    from localrank.registry.versions import Reference

#: The column of a table that says which query a row belongs to.
_QID = "qid"
#: Columns of judged queries that must not become features by mistake.
_NO_FEATURES = {"label": "labels, which are y"} | {
    name: "which names the documents" for name in IDS if name != "comment"
}


class _Rows(NamedTuple):
    """Documents in the order of the input; ``queries`` numbers them by first appearance."""

    documents: Matrix
    queries: Indices
    ids: tuple[str, ...]
    names: tuple[str, ...]
    values: Values


class LocalRanker(BaseEstimator):  # type: ignore[misc]
    """Learn to rank the documents of queries.

    Args:
        method: a ready configuration, such as ``auto``, ``localrank`` or ``global``; by default ``auto``, or with a
            learner ``global``.
        learner: such as ``ranksvm`` or ``lambdamart``.
        config: a TOML file.
        settings: single settings over all of these, ``{"learner.C": 0.1, "clustering.clusters": 3}``.
        metric: what `score` measures.
        workers: processes that train.

    Attributes:
        ranker_: what ranks, the `localrank.Ranker` that the service runs.
        report_: its figures on queries that it was not trained on, beside those of its own global scorer.
        trained_: the settings that were chosen, and the evidence.
        n_features_in_: columns of ``X``, ``qid`` left out.
        feature_names_in_: their names, if ``X`` has such.
    """

    def __init__(
        self,
        method: str | None = None,
        *,
        learner: str | None = None,
        config: str | Path | None = None,
        settings: Mapping[str, Any] | None = None,
        metric: str = "ndcg@10",
        workers: int = 1,
    ) -> None:
        self.method = method
        self.learner = learner
        self.config = config
        self.settings = settings
        self.metric = metric
        self.workers = workers

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return one line, as for everything public here."""
        return " ".join(super().__repr__(N_CHAR_MAX).split())

    def fit(self, X: Any, y: Any, qid: Any = None, query_weight: Any = None) -> Self:
        """Learn from judged documents.

        Args:
            X: ``[n_docs, n_features]``, an array or a table; NaN is a missing value.
            y: ``[n_docs]`` labels, from 0; higher is better.
            qid: ``[n_docs]`` the query of each row; the column ``qid`` of a table by default, else all are one query.
            query_weight: ``[n_docs]`` how much the query of each row counts, the same on all its rows; 1 by default.
        """
        configuration = self._configuration()
        rows, labels = self._read(X, qid, y, reset=True)
        if (labels < 0).any():
            raise ValueError(f"y: expected labels of at least 0, found {labels.min():g}")
        queries, _ = _grouped(rows, labels)
        if query_weight is not None:
            queries = replace(queries, weights=_weights(query_weight, rows))
        with _as_value_error():
            self.trained_ = train(queries, configuration, workers=self.workers)
            self.report_ = report_of(self.trained_)
        self.ranker_ = self.trained_.built.ranker
        self._queries = queries
        return self

    def predict(self, X: Any, qid: Any = None) -> Vector:
        """Return ``[n_docs]`` the score of each row, which the service would give it; higher is better."""
        check_is_fitted(self)
        rows, _ = self._read(X, qid)
        queries, order = _grouped(rows, np.zeros(len(rows.documents)))
        with _as_value_error():
            ranked = rank_all(self.ranker_, queries)
        scores = np.empty(len(order))
        scores[order] = ranked.scores
        return scores

    def rank(self, X: Any, qid: Any = None) -> Indices:
        """Return ``[n_docs]`` positions of the rows: query after query as they first appear, best document first."""
        check_is_fitted(self)
        rows, _ = self._read(X, qid)
        scores = self.predict(X, qid)
        return np.lexsort((np.arange(len(scores)), -scores, rows.queries))

    def score(self, X: Any, y: Any, qid: Any = None) -> float:
        """Return the mean of `metric` over the queries."""
        check_is_fitted(self)
        scores = self.predict(X, qid)
        rows, labels = self._read(X, qid, y)
        queries, order = _grouped(rows, labels)
        with _as_value_error():
            judgements = Judgements(queries.labels, queries.offsets)
            return float(judgements.per_query(scores[order], self.metric).mean())

    def publish(self, name: str, models_dir: str | Path = "models", *, promote: bool = False) -> Reference:
        """Publish the model as the next version of ``name``, for the service to load.

        Args:
            name: of the model.
            models_dir: where the models are.
            promote: make it the version that is served.
        """
        check_is_fitted(self)
        registry = Registry(Path(models_dir))
        reference = publish_trained(registry, name, self.trained_, self._queries, report=self.report_)
        if promote:
            registry.promote(name, reference.version)
        return reference

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        try:
            tags.input_tags.allow_nan = self._configuration().contract.missing != "reject"
        except ValueError:
            # A wrong setting is said by `fit`; until then the estimator can be shown.
            tags.input_tags.allow_nan = False
        return tags

    def _configuration(self) -> TrainingConfig:
        with _as_value_error():
            tables = read_tables(self.config, self.method, learner=self.learner)
            for name, value in (self.settings or {}).items():
                table, _, key = name.rpartition(".")
                if table == "learner":
                    check_learners({key: value})
                if table:
                    tables[table] = {**tables.get(table, {}), key: value}
                else:
                    tables[key] = value
            return checked(TrainingConfig, tables, "LocalRanker")

    def _read(self, X: Any, qid: Any, y: Any = None, *, reset: bool = False) -> tuple[_Rows, Any]:
        """Check the input as scikit-learn does; with ``reset`` remember the columns, else compare them."""
        values = Values()
        with _as_value_error("X: "):
            columns = columns_of(X)
            if columns is not None and qid is None and _QID in columns:
                qid = X[_QID]
                columns = [name for name in columns if name != _QID]
                X = X.select(columns) if hasattr(X, "column_names") else X[columns]
            if columns is not None:
                X, values = _with_codes(X, columns)
                _refuse_other_columns(X, columns)
            elif isinstance(X, np.ndarray) and X.dtype.kind == "O":
                _refuse_texts(X)
        if columns is not None and hasattr(X, "to_arrow"):
            # scikit-learn before 1.9 asks for names by a protocol that Polars 2 no longer has; Arrow still has it.
            X = X.to_arrow()
        takes_nan = self.__sklearn_tags__().input_tags.allow_nan or any(values)
        finite: str | bool = "allow-nan" if takes_nan else True
        how = {
            "dtype": np.float32,
            "ensure_all_finite": finite,
            "reset": reset,
            "ensure_min_samples": 1 + reset,
        }
        labels = None
        if reset and y is None:
            raise ValueError("LocalRanker requires y to be passed, but the target y is None: expected labels")
        if y is not None and np.asarray(y).dtype.kind in "USO":
            y = _numbers(y)
        with _with_advice():
            if y is None:
                documents = validate_data(self, X, **how)
            else:
                documents, labels = validate_data(self, X, y, y_numeric=True, **how)
        queries, ids = (
            (np.zeros(len(documents), np.int64), ("all",)) if qid is None else _numbered(qid, len(documents))
        )
        names = getattr(self, "feature_names_in_", list(default_names(documents.shape[1])))
        return _Rows(np.ascontiguousarray(documents), queries, ids, tuple(map(str, names)), values), labels


def _with_codes(X: Any, columns: Sequence[Any]) -> tuple[Any, Values]:
    """Return a frame with codes in the columns that are categories, and the values of these codes."""
    values = Values()
    try:
        table = pa.table(X)
    except (TypeError, ValueError, pa.ArrowException):
        return X, values  # what is wrong with it is said later
    codes = {
        field.name: values.codes_of(field.name, table[field.name].combine_chunks())
        for field in table.schema
        if field.name in columns and is_category(field.type)
    }
    if not codes:
        return X, values
    return pa.table({name: codes.get(name, table[name]) for name in columns}), values


def _refuse_texts(X: Any) -> None:
    """Refuse texts in an array of objects; it has no names for the categories that they would be."""
    text = next((value for value in X.ravel().tolist() if isinstance(value, str)), None)
    if text is not None:
        raise InvalidDocuments(
            f"expected numbers in an array, found the text {text!r:.80}; give a frame, whose columns of text are categories"
        )


def _refuse_other_columns(X: Any, columns: Sequence[Any]) -> None:
    """Refuse columns that are no features: labels, ids of documents, what is no number."""
    for name in columns:
        if name in _NO_FEATURES:
            raise InvalidDocuments(
                f"expected features only, found the column {name!r} ({_NO_FEATURES[name]}); drop it or rename it"
            )
        as_numbers(X[name], f"the column {name!r}")
    names_of(columns)


def _numbers(y: Any) -> Any:
    """Return labels that are objects as numbers."""
    values = np.asarray(y)
    wrong = next((value for value in values.ravel() if isinstance(value, str | bytes)), None)
    if wrong is not None:
        raise ValueError(f"y: expected numbers, found the text {str(wrong)!r}")
    return values


def _numbered(qid: Any, n_docs: int) -> tuple[Indices, tuple[str, ...]]:
    """Number the queries by first appearance."""
    values = np.asarray(qid)
    if values.ndim > 1 and values.shape[1:] != (1,) * (values.ndim - 1):
        raise ValueError(f"qid: expected one query for each row, found an array of shape {values.shape}")
    values = values.ravel()
    if len(values) != n_docs:
        sizes = values.dtype.kind in "iu" and int(values.sum()) == n_docs
        hint = (
            "; to make queries from the sizes of groups, use np.repeat(np.arange(len(sizes)), sizes)"
            if sizes
            else ""
        )
        raise ValueError(f"qid: expected a query for each of {n_docs} rows, found {len(values)}{hint}")
    unknown = np.flatnonzero([is_missing(value) for value in values.tolist()])
    if len(unknown):
        raise ValueError(f"qid: expected a query for each row, found none in row {unknown[0]}")
    if values.dtype.kind == "O":
        values = values.astype(str)
    distinct, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(distinct), np.int64)
    number[order] = np.arange(len(distinct))
    return number[inverse], tuple(str(value) for value in distinct[order])


def _weights(values: Any, rows: _Rows) -> Vector:
    """Return ``[n_queries]`` the weight that all rows of a query have."""
    found = np.asarray(values, np.float64).ravel()
    if len(found) != len(rows.queries):
        raise ValueError(
            f"query_weight: expected one for each of {len(rows.queries)} rows, found {len(found)}"
        )
    bad = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if len(bad):
        at = int(bad[0])
        raise ValueError(
            f"query_weight: expected finite numbers of at least 0, found {found[at]:g} in row {at}"
        )
    with _as_value_error():
        return weights_of(rows.queries, found, rows.ids, lambda row: f"query_weight: row {row}")


def _grouped(rows: _Rows, labels: Any) -> tuple[QuerySet, Indices]:
    """Put the rows of each query next to each other; return where each was, too."""
    grouping = Grouping(rows.queries, len(rows.ids))
    order = grouping.order
    queries = QuerySet(
        documents=np.ascontiguousarray(rows.documents[order]),
        labels=np.asarray(labels, np.float64)[order],
        offsets=grouping.offsets,
        query_ids=rows.ids,
        feature_names=rows.names,
        lines=order,
    )
    # A column of a frame was chosen as a feature, so that none is left out.
    columns = AS_NAMED.of([Feature(name, "category") for name in rows.values])
    return described(queries, columns, rows.values, warn), order


@contextmanager
def _with_advice() -> Iterator[None]:
    """Say what to do about missing values here, not in scikit-learn."""
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("Input X contains NaN"):
            raise
        raise ValueError(
            "Input X contains NaN, and no setting says what to do with missing values; use "
            "settings={'contract.missing': 'median'}, or 'zero', 'constant', 'nan', 'learned'"
        ) from None


@contextmanager
def _as_value_error(where: str = "") -> Iterator[None]:
    """Raise this project's errors as the one that scikit-learn's users and tools expect."""
    try:
        yield
    except LocalRankError as error:
        raise ValueError(f"{where}{error}") from error
