"""What a model expects of a query's documents, and how it prepares them.

The order is always impute, then one block per wish of a consumer (`localrank.features.blocks`). Training and serving both go
through `FeatureContract.cloud`, so that the service computes what training did.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias, cast, get_args

import numpy as np

from localrank.arrays import one_line
from localrank.errors import ContractMismatch, InvalidDocuments
from localrank.features.blocks import SPECTRUM, Cloud, parse
from localrank.features.columns import column_quantiles, forget, mean_and_deviation
from localrank.features.feature import MISSING, TABLE_NAME, Feature, Missing, is_absent, special
from localrank.features.scaling import all_finite, count_out_of_range, rescaled, within_query
from localrank.frames import columns_of, matrix, names_of
from localrank.native.documents import Range

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from localrank.arrays import Matrix, Vector
    from localrank.frames import Indexed

#: How features are put on one scale, within the query or by what training saw.
Normalisation: TypeAlias = Literal["none", "query_minmax", "query_zscore", "global_zscore", "column_norm"]
NORMALISATIONS: tuple[Normalisation, ...] = get_args(Normalisation)
#: Before the name of a table, where the contract says what a feature is from.
_TABLE = "table:"
#: Which quantiles of the training values a contract holds.
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


class Encoding(NamedTuple):
    """Numbers that stand for a category in all blocks but ``raw``, so that linear scorers can use it.

    Attributes:
        feature: position of the category.
        beside: position of another one, a category of the query, if the number is that of both values together.
        numbers: ``[n_values + 2]``, by the code; or ``[n_values + 2, n_values of the other + 2]``, by both codes.
    """

    feature: int
    beside: int | None
    numbers: Vector


@dataclass(frozen=True, eq=False)
class FeatureContract:
    """Names, order, missing values, normalisation and training range of the features of one model.

    In the block ``raw`` a category has its codes. In all other blocks it has its encoding, and each encoding of two
    categories is a further column behind the features.

    Attributes:
        features: in the order of the columns.
        fill: ``[n_features]``, the value put in; for ``nan`` what the normalised view gets.
        normalise: how the features are put on one scale.
        shift, scale: ``[n_columns]`` mean and deviation (1 if it is 0) of the training values. ``global_zscore`` subtracts
            the one and divides by the other; ``column_norm`` divides by :attr:`norm`.
        quantiles: ``[len(QUANTILES), n_columns]`` of the training values; the first and last are the range.
        list_lengths: the number of documents of the training queries, at `QUANTILES`.
        encodings: one for each category, in the order of the columns, then those of two categories.
    """

    features: tuple[Feature, ...]
    fill: Matrix
    normalise: Normalisation
    shift: Vector
    scale: Vector
    quantiles: Matrix
    list_lengths: tuple[float, ...]
    encodings: tuple[Encoding, ...] = ()

    __repr__ = one_line

    @classmethod
    def learn(
        cls,
        documents: Matrix,
        lengths: Sequence[int],
        *,
        names: Sequence[str] | None = None,
        missing: Missing | Sequence[Missing] = "reject",
        constant: float = 0.0,
        normalise: Normalisation = "query_minmax",
        features: Sequence[Feature] | None = None,
        encodings: Sequence[Encoding] = (),
    ) -> Self:
        """Learn the contract of training documents ``[n_docs of all queries, n_features]``; NaN is missing.

        They are read in portions of rows, a few times, so they may lie in a mapped file.

        Args:
            documents: of all training queries.
            lengths: of the queries.
            names: of the features, if no more is known of them.
            missing: what a missing value becomes, for all features or for each. A category has its own code for it.
            constant: the value for ``constant``.
            normalise: how the features are put on one scale.
            features: instead of names.
            encodings: of the categories.
        """
        n_features = documents.shape[1]
        if features is None:
            names = tuple(names) if names is not None else tuple(f"f{i + 1}" for i in range(n_features))
            features = tuple(Feature(name) for name in names)
        policies = (missing,) * n_features if isinstance(missing, str) else tuple(missing)
        features = tuple(
            replace(one, missing="constant" if one.kind == "category" else policy)
            for one, policy in zip(features, policies, strict=True)
        )
        if any(one.kind == "category" for one in features):
            documents = cast("Matrix", _Encoded(documents, features, _whole(features, encodings)))
        quantiles, known = column_quantiles(documents, QUANTILES)
        median = quantiles[QUANTILES.index(0.5)]
        fill = np.array(
            [
                one.absent
                if one.kind == "category"
                else {"median": median[i], "nan": median[i], "constant": constant}.get(one.missing, 0.0)
                for i, one in enumerate(features)
            ],
            np.float32,
        )
        wide, empty = np.zeros(documents.shape[1]), known == 0
        wide[:n_features] = fill

        def filled(values: Vector) -> Vector:
            values[:, empty] = 0.0
            return np.where(np.isnan(values), wide, values)

        holes = bool((known < len(documents)).any())
        mean, deviation = mean_and_deviation(documents, filled) if holes else mean_and_deviation(documents)
        return cls(
            features=features,
            encodings=_whole(features, encodings),
            fill=fill,
            normalise=normalise,
            shift=mean,
            scale=np.where(deviation > 0, deviation, 1.0),
            quantiles=np.ascontiguousarray(quantiles, np.float32),
            list_lengths=tuple(float(length) for length in np.quantile(lengths, QUANTILES)),
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """One per feature."""
        return tuple(one.name for one in self.features)

    @cached_property
    def missing(self) -> tuple[Missing, ...]:
        """What a missing value of each feature becomes."""
        return tuple(one.missing for one in self.features)

    @cached_property
    def special(self) -> dict[str, Feature]:
        """By name the features that are not plain numbers of documents."""
        return special(self.features)

    @cached_property
    def n_features(self) -> int:
        return len(self.features)

    @cached_property
    def n_columns(self) -> int:
        """How many columns the blocks but ``raw`` have: the features, and the encodings of two categories."""
        return self.n_features + sum(one.beside is not None for one in self.encodings)

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """One per column."""
        pairs = [(one.feature, one.beside) for one in self.encodings if one.beside is not None]
        return (*self.names, *(f"{self.names[one]} by {self.names[other]}" for one, other in pairs))

    @cached_property
    def feature_of(self) -> tuple[int, ...]:
        """``[n_columns]`` the feature of each column."""
        return (
            *range(self.n_features),
            *(one.feature for one in self.encodings if one.beside is not None),
        )

    @cached_property
    def categories(self) -> tuple[int, ...]:
        """Positions of the categories."""
        return tuple(at for at, one in enumerate(self.features) if one.kind == "category")

    @cached_property
    def _codes(self) -> dict[int, Callable[[Any], float]]:
        return {at: self.features[at].code_of for at in self.categories}

    @cached_property
    def of_query(self) -> tuple[int, ...]:
        """Positions of the features of the query."""
        return tuple(at for at, one in enumerate(self.features) if one.scope == "query")

    @cached_property
    def tables(self) -> dict[str, tuple[int, ...]]:
        """Positions of the features that are looked up, by the name of their table."""
        found: dict[str, tuple[int, ...]] = {}
        for at, one in enumerate(self.features):
            if one.table is not None:
                found[one.table] = (*found.get(one.table, ()), at)
        return found

    @cached_property
    def looked_up(self) -> tuple[int, ...]:
        """Positions of the features that are looked up in tables."""
        return tuple(at for at, one in enumerate(self.features) if one.table is not None)

    @cached_property
    def norm(self) -> Vector:
        r"""``[n_features]`` the 2-norm of each column of the training values over :math:`\sqrt n`.

        :math:`\|x\|^2 / n` is the square of the mean plus the variance. The factor :math:`\sqrt n` is the same for all
        features; without it the scale, and what learners' settings mean, would depend on the number of documents.
        """
        return np.hypot(self.shift, self.scale)

    @cached_property
    def positions(self) -> dict[str, int]:
        """Column of each feature by name."""
        return {name: position for position, name in enumerate(self.names)}

    @cached_property
    def digest(self) -> str:
        """Hash of everything in the contract; a client may send it to check that the model has the same contract."""
        canonical = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()

    def widths(self, n_clusters: int = 0) -> dict[str, int]:
        """Return how many columns each block has if the model has ``n_clusters``."""
        n_columns = self.n_columns
        return {
            "raw": self.n_features,
            "list": 1 + min(SPECTRUM, n_columns),
            "route": 1 + n_clusters,
            "quadratic": n_columns * (n_columns + 1) // 2,
            **dict.fromkeys(("normalised", "minmax", "zscore", "rank", "to_best"), n_columns),
        }

    def columns(self, blocks: str, n_clusters: int = 0) -> tuple[str, ...]:
        """Return the names of the columns of a wish for blocks. A single block of features has the features' names.

        Args:
            blocks: such as ``raw`` or ``[minmax, zscore * 0.25, rank]``.
            n_clusters: of the model, for ``route``.
        """
        names: list[str] = []
        terms = parse(blocks)
        for term in terms:
            if term.name == "list":
                names += ["log(documents)", *(f"spectrum({i + 1})" for i in range(self.widths()["list"] - 1))]
            elif term.name == "route":
                names += ["similarity", *(f"share({cluster})" for cluster in range(n_clusters))]
            elif term.name == "quadratic":
                names += [
                    f"{one} * {other}" for one, other in combinations_with_replacement(self.column_names, 2)
                ]
            elif term.name == "raw":
                names += self.names
            elif len(terms) == 1:
                names += self.column_names
            else:
                names += [f"{term.name}({name})" for name in self.column_names]
        return tuple(names)

    def places(self, names: Sequence[str]) -> tuple[list[int], tuple[str, ...]]:
        """Return where each feature of the model stands among the names, and the names that it does not know.

        Raises:
            InvalidDocuments: a name stands twice.
            ContractMismatch: a feature of the model is not among the names.
        """
        given: dict[str, int] = {}
        for position, name in enumerate(names):
            if given.setdefault(name, position) != position:
                raise InvalidDocuments(f"feature {name!r} is named twice", feature=position)
        unknown = tuple(name for name in names if name not in self.positions)
        if absent := [name for name in self.names if name not in given]:
            # A missing feature is often spelled differently there.
            more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
            beside = f", and does not know {unknown[0]!r}{more}" if unknown else ""
            raise ContractMismatch(
                f"feature {absent[0]!r} is not among the names; the model takes {self.n_features} features{beside}"
            )
        return [given[name] for name in self.names], unknown

    def matrix(
        self, documents: Indexed, *, of_query: bool = False, looked_up: bool = False
    ) -> tuple[Matrix, tuple[str, ...]]:
        """Return documents ``[n_docs, n_features]`` in the order of the features, and the columns that are no features.

        Args:
            documents: an array of numbers, with codes for categories, or lists of values, in the order of the features; or a
                frame of pandas, polars or Arrow, whose columns are taken by name. A frame of pandas without names of its own
                is taken by place.
            of_query: whether features of the query may be left out.
            looked_up: whether features may be left out that are looked up in tables.

        Raises:
            InvalidDocuments: something is no number, or the names of the columns are no names of features.
            ContractMismatch: a feature of the model is not among the columns.
        """
        is_matrix = type(documents) is np.ndarray and documents.dtype == np.float32 and documents.ndim == 2
        lacking = {*(self.of_query if of_query else ()), *(self.looked_up if looked_up else ())}
        if is_matrix and (not lacking or _width_of(documents, None) == self.n_features):
            return np.ascontiguousarray(documents), ()
        columns = columns_of(documents)
        names = None if columns is None else names_of(columns)
        kept: Sequence[int] = range(self.n_features)
        unknown: tuple[str, ...] = ()
        if names is not None:
            kept = [at for at in kept if at not in lacking or self.names[at] in names]
            absent = [self.names[at] for at in lacking if at not in kept]
            _, unknown = self.places((*names, *absent))
            columns = [self.names[at] for at in kept]
        elif lacking and _width_of(documents, columns) == self.n_features - len(lacking):
            kept = [at for at in kept if at not in lacking]
        codes = {place: self._codes[at] for place, at in enumerate(kept) if at in self._codes}
        found = matrix(documents, columns, codes)
        whole = len(kept) == self.n_features or found.ndim != 2
        return (found if whole else self.widened(found, kept)), unknown

    def query_value(self, name: str, value: Any) -> tuple[int, float]:
        """Return the position of a feature of the query and the number of its value, NaN if there is none.

        Raises:
            InvalidDocuments: the model has no such feature of the query, or the value is of another kind.
        """
        at = self.positions.get(name)
        if at is None or self.features[at].scope != "query":
            found = "no feature" if at is None else "a feature of documents"
            shown = ", ".join(repr(self.names[one]) for one in self.of_query) or "none"
            raise InvalidDocuments(
                f"{name!r} is {found} of the model; its features of the query are: {shown}", feature=at
            )
        if self.features[at].kind == "category":
            try:
                return at, self.features[at].code_of(value)
            except TypeError as error:
                raise InvalidDocuments(f"feature {name!r} of the query: {error}", feature=at) from None
        value = None if is_absent(value) else value
        if isinstance(value, bool) or not isinstance(value, Real | np.number | None):
            kinds = {bool: "a truth value", str: "a text"}
            shown = kinds.get(type(value), f"a {type(value).__name__}")
            raise InvalidDocuments(
                f"feature {name!r} of the query: expected a number, found {shown}", feature=at
            )
        with np.errstate(over="ignore"):
            number = np.nan if value is None else float(np.float32(value))
        if np.isinf(number):
            raise InvalidDocuments(
                f"feature {name!r} of the query is infinite or beyond float32; expected a finite number",
                feature=at,
            )
        return at, number

    def completed(self, documents: Matrix, query: Mapping[int, float] | None = None) -> Matrix:
        """Return ``[n_docs, n_features]`` with the value of each feature of the query in all rows.

        Args:
            documents: ``[n_docs, n_features]``.
            query: numbers of features of the query, by position. What is in no row and not here is missing.

        Raises:
            InvalidDocuments: a document has another value than the query or a document before it.
        """
        for at in self.of_query:
            column = documents[:, at]
            missing = np.isnan(column)
            known = column[~missing]
            value = np.float32((query or {}).get(at, np.nan))
            if np.isnan(value):
                if not len(known):
                    continue
                value = known[0]
            if (known != value).any():
                document = int(np.flatnonzero(~missing & (column != value))[0])
                raise InvalidDocuments(
                    f"feature {self.names[at]!r} of document {document} is {self._shown(at, float(column[document]))}; expected "
                    f"{self._shown(at, float(value))}, as it is one of the query",
                    document=document,
                    feature=at,
                )
            if missing.any():
                documents = documents.copy()
                documents[:, at] = value
        return documents

    def widened(self, documents: Matrix, kept: Sequence[int]) -> Matrix:
        """Return ``[n_docs, n_features]`` of documents that have these features only; the others are missing."""
        wide = np.full((len(documents), self.n_features), np.nan, np.float32)
        wide[:, kept] = documents
        return wide

    def _shown(self, at: int, number: float) -> str:
        feature = self.features[at]
        is_code = feature.kind == "category" and number in range(feature.unseen + 2)
        return repr(feature.value_of(number)) if is_code else f"{number:g}"

    def unseen(self, documents: Matrix) -> dict[int, int]:
        """Return by category how many documents have a value that training did not know."""
        counts = {at: int((documents[:, at] == self.features[at].unseen).sum()) for at in self.categories}
        return {at: count for at, count in counts.items() if count}

    def cloud(self, documents: Indexed, query_features: Mapping[str, Any] | None = None) -> Cloud:
        """Impute one query's documents and make their cloud.

        Args:
            documents: ``[n_docs, n_features]``, NaN being a missing value, or what else `matrix` takes. Columns of a frame
                that are no features are ignored with a warning of Python.
            query_features: values of features of the query by name; then documents need not have these columns.

        Raises:
            InvalidDocuments: wrong number of features, an infinite value, a missing one that may not be, or no number.
            ContractMismatch: a feature of the model is not among the columns of a frame.
            TypeError: `query_features` is no mapping.
        """
        if not isinstance(query_features, Mapping | None):
            raise TypeError(f"query_features: expected a mapping, found a {type(query_features).__name__}")
        documents, unknown = self.matrix(documents, of_query=query_features is not None)
        if unknown:
            more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
            warnings.warn(f"the model does not know the column {unknown[0]!r}{more}; ignored", stacklevel=3)
        if documents.ndim != 2 or documents.shape[1] != self.n_features:
            found = documents.shape[1] if documents.ndim == 2 else f"shape {documents.shape}"
            raise InvalidDocuments(f"expected {self.n_features} features per document, found {found}")
        if self.of_query or query_features:
            query = dict(self.query_value(*one) for one in (query_features or {}).items())
            documents = self.completed(documents, query)
        if not len(documents):
            filled = np.zeros((0, self.n_columns), np.float32)
            return Cloud(self, documents, filled, filled, {})
        if self.categories or self.of_query:
            return self._imputed(documents)
        normalised = self._normalised(documents)
        if normalised is None:
            return self._imputed(documents)
        return Cloud(self, documents, documents, normalised, {})

    def grown(self, documents: Matrix, lengths: Sequence[int], n_before: int, lists_before: int) -> Self:
        """Return the contract with the ranges of more training documents, which changes no document's blocks.

        What a missing value becomes, and the scale, stay as they are: scorers have learned with them.

        Args:
            documents: ``[n_docs, n_features]`` the new ones; NaN is missing.
            lengths: of the new lists.
            n_before: how many documents the ranges were learned from.
            lists_before: how many lists.
        """
        if self.categories:
            documents = encoded(np.where(np.isnan(documents), self._absent, documents), self.encodings)
        merged = [
            merged_quantiles(self.quantiles[:, at], n_before, values[~np.isnan(values)])
            for at, values in enumerate(documents.T)
        ]
        lists = merged_quantiles(np.array(self.list_lengths), lists_before, np.array(lengths, np.float64))
        return replace(
            self,
            quantiles=np.ascontiguousarray(np.stack(merged, axis=1), np.float32),
            list_lengths=tuple(lists.tolist()),
        )

    def out_of_range(self, documents: Matrix) -> int:
        """Count the values out of the training range."""
        return count_out_of_range(documents, self._range)

    def outside(self, documents: Matrix) -> float:
        r"""Return how far documents without missing values lie outside the bulk of the training values, from 0 to 1.

        .. math::
            \frac1{nd} \sum_{i=1}^n \sum_{f=1}^d \min\Bigl(1, \frac{\max(0,\; l_f - x_{if},\; x_{if} - h_f)}{h_f - l_f}\Bigr)

        Here :math:`l` and :math:`h` are the quantiles 0.01 and 0.99 of the training values. A feature whose quantiles are
        equal has its deviation in place of their difference. Each value counts 1 at most, so that one absurd value cannot
        decide.
        """
        if not documents.size:
            return 0.0
        low, high, spread = self._bulk
        beyond = np.maximum(low - documents, documents - high)
        return float(np.clip(beyond / spread, 0.0, 1.0).mean())

    @cached_property
    def _range(self) -> Range:
        """The least and the greatest value of each feature; of a category the codes of values that training knew."""
        least, most = (self.quantiles[at, : self.n_features].copy() for at in (0, -1))
        for at in self.categories:
            least[at], most[at] = 0.0, self.features[at].unseen - 1
        return Range(least, most)

    @cached_property
    def _absent(self) -> Matrix:
        """``[n_features]`` the code of an absent value; NaN for numbers."""
        return np.array(
            [one.absent if one.kind == "category" else np.nan for one in self.features], np.float32
        )

    @cached_property
    def _bulk(self) -> tuple[Vector, Vector, Vector]:
        low, high = (self.quantiles[QUANTILES.index(q)].astype(np.float64) for q in (0.01, 0.99))
        return low, high, np.where(high > low, high - low, self.scale)

    def _imputed(self, documents: Matrix) -> Cloud:
        missing = np.isnan(documents)
        for feature in self.categories:
            self._check_codes(documents[:, feature], feature)
        if (infinite := np.isinf(documents)).any():
            document, feature = (int(i) for i in np.argwhere(infinite)[0])
            raise InvalidDocuments(
                f"feature {self.names[feature]!r} of document {document} is infinite or beyond float32; "
                "expected a finite number",
                document=document,
                feature=feature,
            )
        columns = np.flatnonzero(missing.any(axis=0))
        for feature in map(int, columns):
            if self.missing[feature] == "reject":
                document = int(np.flatnonzero(missing[:, feature])[0])
                raise InvalidDocuments(
                    f"feature {self.names[feature]!r} of document {document} is missing, and this model does not "
                    "impute it",
                    document=document,
                    feature=feature,
                )
        filled = np.where(missing, self.fill, documents)
        keeps_nan = [int(feature) for feature in columns if self.missing[feature] == "nan"]
        raw = filled
        if keeps_nan:
            raw = filled.copy()
            raw[:, keeps_nan] = documents[:, keeps_nan]
        counts = dict(zip(columns.tolist(), missing.sum(axis=0)[columns].tolist(), strict=True))
        if self.categories:
            filled = encoded(filled, self.encodings)
        # Nothing is missing any more.
        normalised = cast("Matrix", self._normalised(filled))
        if self.of_query and self.normalise not in ("query_minmax", "query_zscore"):
            # The same for all documents: no linear scorer can use it, on whatever scale it is.
            normalised = normalised.copy()
            normalised[:, self.of_query] = 0.0
        return Cloud(self, raw, filled, normalised, counts)

    def _check_codes(self, codes: Matrix, feature: int) -> None:
        one = self.features[feature]
        bad = ~(np.isnan(codes) | ((codes >= 0) & (codes <= one.unseen) & (codes == np.floor(codes))))
        if bad.any():
            document = int(bad.argmax())
            raise InvalidDocuments(
                f"feature {one.name!r} of document {document}: expected the code of a category, a whole number from 0 "
                f"to {one.unseen}, found {codes[document]:g}",
                document=document,
                feature=feature,
            )

    def _normalised(self, documents: Matrix) -> Matrix | None:
        """Return the documents on one scale; ``None`` if a value is missing or infinite."""
        if self.normalise in ("query_minmax", "query_zscore"):
            return within_query(documents, standard=self.normalise == "query_zscore")
        if not all_finite(documents):
            return None
        if self.normalise == "none":
            return documents
        if self.normalise == "column_norm":
            return rescaled(documents, np.zeros(self.n_columns), self.norm)
        return rescaled(documents, self.shift, self.scale)

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values that read back to the same numbers; what says nothing is left out."""
        further: dict[str, Any] = {
            "categories": {one.name: list(one.values) for one in self.features if one.kind == "category"},
            "of_query": [one.name for one in self.features if one.scope == "query"],
            "monotone": {one.name: one.monotone for one in self.features if one.monotone},
            "from": {one.name: f"{_TABLE}{one.table}" for one in self.features if one.table is not None},
            "encodings": [
                {
                    "feature": self.names[one.feature],
                    **({} if one.beside is None else {"beside": self.names[one.beside]}),
                    "numbers": one.numbers.tolist(),
                }
                for one in self.encodings
            ],
        }
        return {
            "dtype": "float32",
            "names": list(self.names),
            "missing": list(self.missing),
            "fill": self.fill.tolist(),
            "normalise": self.normalise,
            "shift": self.shift.tolist(),
            "scale": self.scale.tolist(),
            "quantiles": {str(q): row.tolist() for q, row in zip(QUANTILES, self.quantiles, strict=True)},
            "list_lengths": {str(q): length for q, length in zip(QUANTILES, self.list_lengths, strict=True)},
            **{member: value for member, value in further.items() if value},
        }

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        """Undo `to_json`; raise `ValueError` if it is not what `to_json` writes."""
        try:
            features = _features(members)
            positions = {one.name: at for at, one in enumerate(features)}
            contract = cls(
                features=features,
                encodings=tuple(
                    Encoding(
                        positions[one["feature"]],
                        positions[one["beside"]] if "beside" in one else None,
                        np.array(one["numbers"], np.float64),
                    )
                    for one in members.get("encodings", ())
                ),
                fill=_float32(members["fill"]),
                normalise=members["normalise"],
                shift=np.array(members["shift"], np.float64),
                scale=np.array(members["scale"], np.float64),
                quantiles=_float32([members["quantiles"][str(q)] for q in QUANTILES]),
                list_lengths=tuple(float(members["list_lengths"][str(q)]) for q in QUANTILES),
            )
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"the contract cannot be read: {error!r}") from None
        contract._check(members)
        return contract

    def _check(self, members: Mapping[str, Any]) -> None:
        n, n_columns = self.n_features, self.n_columns
        if not all(isinstance(text, str) for text in (*self.names, *self.missing, self.normalise)):
            raise ValueError(
                f"the contract of {n} features: the name or the policy of a feature is not a text"
            )
        problems = [
            (members.get("dtype") != "float32", "dtype is not float32"),
            (n == 0, "there are none"),
            (len(set(self.names)) != n, "two features have the same name"),
            (not set(self.missing) <= set(MISSING), "missing does not have one policy per feature"),
            (any(one.monotone not in (-1, 0, 1) for one in self.features), "monotone is not -1 or 1"),
            (
                any(one.table is not None and one.scope == "query" for one in self.features),
                "a feature of the query is from a table",
            ),
            (
                any(not TABLE_NAME.fullmatch(name) for name in self.tables),
                "the name of a table is not one",
            ),
            (
                any(not isinstance(value, str) for one in self.features for value in one.values),
                "a value of a category is not a text",
            ),
            (
                any(len(set(one.values)) < len(one.values) for one in self.features),
                "two values of a category are the same",
            ),
            (
                any(
                    one.kind == "category" and (one.missing != "constant" or fill != one.absent)
                    for one, fill in zip(self.features, self.fill.ravel(), strict=False)
                ),
                "an absent value of a category does not have its code",
            ),
            (
                not self._is_encoded(),
                "encodings are not one per category, with a finite number for each code",
            ),
            (self.normalise not in NORMALISATIONS, f"normalise is not one of {', '.join(NORMALISATIONS)}"),
            (
                self.fill.shape != (n,) or any(a.shape != (n_columns,) for a in (self.shift, self.scale)),
                "fill, shift or scale has another length",
            ),
            (self.quantiles.shape != (len(QUANTILES), n_columns), "quantiles have another shape"),
            (
                not all(np.isfinite(a).all() for a in (self.fill, self.shift, self.scale, self.quantiles)),
                "a number is not finite",
            ),
            (not (self.scale > 0).all(), "a scale is not positive"),
        ]
        for wrong, what in problems:
            if wrong:
                raise ValueError(f"the contract of {n} features: {what}")

    def _is_encoded(self) -> bool:
        single = tuple(one.feature for one in self.encodings if one.beside is None)
        among = set(self.categories)
        return single == self.categories and all(
            one.numbers.shape
            == tuple(self.features[at].absent + 1 for at in (one.feature, one.beside) if at is not None)
            and bool(np.isfinite(one.numbers).all())
            and {one.feature, one.feature if one.beside is None else one.beside} <= among
            for one in self.encodings
        )


def encoded(documents: Matrix, encodings: Sequence[Encoding]) -> Matrix:
    """Return documents ``[n_docs, n_columns]`` with encodings in place of codes, those of two categories behind them.

    Args:
        documents: ``[n_docs, n_features]``, codes without NaN.
        encodings: of its categories.
    """
    n_docs, n_features = documents.shape
    pairs = sum(one.beside is not None for one in encodings)
    found = np.empty((n_docs, n_features + pairs), np.float32)
    found[:, :n_features] = documents
    end = n_features
    for one in encodings:
        codes = documents[:, one.feature].astype(np.intp)
        if one.beside is None:
            found[:, one.feature] = one.numbers[codes]
        else:
            found[:, end] = one.numbers[codes, documents[:, one.beside].astype(np.intp)]
            end += 1
    return found


class _Encoded:
    """Documents with encodings in place of codes, as `encoded` returns them, made for each portion of rows that is read."""

    def __init__(self, documents: Matrix, features: Sequence[Feature], encodings: Sequence[Encoding]) -> None:
        self._documents, self._encodings = documents, encodings
        self._absent = np.array(
            [one.absent if one.kind == "category" else np.nan for one in features], np.float32
        )
        further = sum(one.beside is not None for one in encodings)
        self.shape = (len(documents), documents.shape[1] + further)

    def __len__(self) -> int:
        return len(self._documents)

    def __getitem__(self, rows: slice) -> Matrix:
        some = np.asarray(self._documents[rows])
        found = encoded(np.where(np.isnan(some), self._absent, some), self._encodings)
        forget(self._documents, *rows.indices(len(self))[:2])
        return found


def _width_of(documents: Any, columns: Sequence[Any] | None) -> int:
    if columns is not None:
        return len(columns)
    first = documents.shape[-1:] if isinstance(documents, np.ndarray) else [len(one) for one in documents[:1]]
    return int(next(iter(first), 0))


def _whole(features: Sequence[Feature], encodings: Sequence[Encoding]) -> tuple[Encoding, ...]:
    """Return encodings with zeros for the categories that have none."""
    single = {one.feature: one for one in encodings if one.beside is None}
    return (
        *(
            single.get(at) or Encoding(at, None, np.zeros(one.absent + 1))
            for at, one in enumerate(features)
            if one.kind == "category"
        ),
        *(one for one in encodings if one.beside is not None),
    )


def _features(members: Mapping[str, Any]) -> tuple[Feature, ...]:
    """Read what `FeatureContract.to_json` writes of the features."""
    categories, of_query = members.get("categories", {}), members.get("of_query", [])
    monotone, origins = members.get("monotone", {}), members.get("from", {})
    if not all(origin.startswith(_TABLE) for origin in origins.values()):
        raise ValueError(f"from is not {_TABLE}NAME")
    if len(members["names"]) != len(members["missing"]):
        raise ValueError("missing does not have one policy per feature")
    return tuple(
        Feature(
            name,
            kind="category" if name in categories else "number",
            values=tuple(categories.get(name, ())),
            scope="query" if name in of_query else "document",
            missing=policy,
            monotone=monotone.get(name, 0),
            table=origins[name].removeprefix(_TABLE) if name in origins else None,
        )
        for name, policy in zip(members["names"], members["missing"], strict=True)
    )


def merged_quantiles(before: Matrix | Vector, n_before: int, values: Matrix | Vector) -> Vector:
    r"""Return the quantiles of old and new values together, if only the quantiles of the old ones are known.

    The old distribution :math:`F` is taken to be linear between its quantiles, the new one :math:`G` is the
    distribution of the values. The result is, for each of `QUANTILES`, the smallest :math:`x` with
    :math:`(n F(x) + m G(x)) / (n + m) \ge q`. Least and greatest value are exact.

    Args:
        before: ``[len(QUANTILES)]`` the old quantiles.
        n_before: how many values they are of.
        values: the new ones, finite.
    """
    old, new = before.astype(np.float64), np.sort(values.astype(np.float64))
    if not len(new):
        return old
    at = np.unique(np.concatenate([old, new]))
    weight = n_before / (n_before + len(new))
    reached = weight * _cumulated(old, at) + (1 - weight) * np.searchsorted(new, at, side="right") / len(new)
    # The share below each of these points: it includes the linear part, but not a jump at the point itself.
    below = weight * _cumulated(old, at, before=True) + (1 - weight) * np.searchsorted(new, at) / len(new)
    found = np.empty(len(QUANTILES))
    for position, share in enumerate(QUANTILES):
        first = min(int(np.searchsorted(reached, share - 1e-12)), len(at) - 1)
        found[position] = at[first]
        if first and reached[first - 1] < share < below[first]:
            along = (share - reached[first - 1]) / (below[first] - reached[first - 1])
            found[position] = at[first - 1] + along * (at[first] - at[first - 1])
    found[0], found[-1] = at[0], at[-1]
    return found


def _cumulated(quantiles: Vector, at: Vector, *, before: bool = False) -> Vector:
    """Return the share up to each point, or before it, of a distribution that is linear between quantiles."""
    shares = np.array(QUANTILES)
    last = np.searchsorted(quantiles, at, side="left" if before else "right") - 1
    inside = (last >= 0) & (last < len(shares) - 1)
    low = np.clip(last, 0, len(shares) - 2)
    width = quantiles[low + 1] - quantiles[low]
    along = np.divide(at - quantiles[low], width, out=np.zeros(len(at)), where=inside & (width > 0))
    return np.where(
        last < 0, 0.0, np.where(inside, shares[low] + along * (shares[low + 1] - shares[low]), 1.0)
    )


def _float32(values: Any) -> Matrix:
    """Read JSON numbers. Numbers beyond float32 become infinite, and a contract with these is refused."""
    with np.errstate(over="ignore"):
        return np.array(values, np.float64).astype(np.float32)
