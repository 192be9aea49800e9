"""What every wire turns a request into: options, and one float32 matrix for the model they name.

The matrix comes second, because the columns' order is the model's and the options say which model.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from localrank.errors import ContractMismatch, InvalidDocuments
from localrank_service.http.problems import Problem, pointer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from localrank.arrays import Array, Indices, Matrix
    from localrank.features.contract import FeatureContract
    from localrank.tables.table import ItemLookups
    from localrank_service.wire.relevance import Relevance

#: Names in a sentence.
_FEW = 3
#: How many times longer it takes to make objects of a text than to lift its numbers.
SLOWER = 16

_MISMATCH = "contract-mismatch"
_FLOAT32 = np.dtype(np.float32)

Explain: TypeAlias = Literal["none", "route", "contributions"]
EXPLANATIONS: tuple[Explain, ...] = ("none", "route", "contributions")
#: What is answered: the ranking, or one score for each document in the order of the request.
Wanted: TypeAlias = Literal["ranking", "scores"]
ANSWERS: tuple[Wanted, ...] = ("ranking", "scores")


@dataclass(frozen=True, slots=True)
class Options:
    """What a request asks for, besides its documents."""

    model: str | None = None
    query_id: str | int | None = None
    top_n: int | None = None
    explain: Explain = "none"
    contract: str | None = None
    compare: tuple[int, int] | None = None
    timeout_ms: float | None = None
    allow_degraded: bool = True
    fallback_feature: str | None = None
    timeout_at: str | None = "/timeout_ms"
    session_id: str | int | None = None
    offset: int = 0
    pin: tuple[str | int, ...] = ()
    boost: Mapping[str, float] | None = None
    query_features: Mapping[str, Any] | None = None
    answer: Wanted = "ranking"
    relevance: Relevance | None = None

    @property
    def in_query_string(self) -> bool:
        """Whether these options stand there, so that no pointer leads to them."""
        return self.timeout_at is None

    def shown(self, order: Indices) -> Indices:
        """Return the part of an order that is answered."""
        if not self.offset and self.top_n is None:
            return order
        return order[self.offset : None if self.top_n is None else self.offset + self.top_n]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request may be.

    Attributes:
        max_documents: also how many queries there may be in one request.
        max_numbers: of all documents together.
        max_members: of JSON: values that are not numbers in lists, such as texts, lists, and named features.
    """

    max_documents: int
    refuse_extra_features: bool
    max_numbers: int = 2**22
    max_members: int = 2**20


@dataclass(frozen=True, slots=True, eq=False)
class Documents:
    """One query's documents for one model.

    Attributes:
        matrix: ``[n_docs, n_features]`` float32 in the model's order; NaN is a missing value.
        ids: one per document, if the request named them; bytes if they came as a binary tensor.
        locate: the JSON pointer of a document, or of one of its features.
        ignored: ``{feature name: documents that had it}`` of features that the model does not know.
        sent: each document as it was sent, if the answer is to repeat them.
        generations: of the tables that the documents were looked up in, by name.
        unknown: by table, how many ids it does not have.
        items: ids for tables alone, of an API whose requests and answers count documents by position.
    """

    matrix: Matrix
    ids: Sequence[Any] | None
    locate: Callable[[int, int | None], str]
    ignored: dict[str, int] = field(default_factory=dict)
    sent: Sequence[bytes] | None = None
    generations: Mapping[str, int] = field(default_factory=dict)
    unknown: Mapping[str, int] = field(default_factory=dict)
    items: Sequence[Any] | None = None


class RequestQuery(Protocol):
    """A request, read as far as it can be without its model."""

    @property
    def options(self) -> Options: ...

    @property
    def cost(self) -> int:
        """How many bytes of plain JSON take as long to read as the documents."""
        ...

    def documents(self, contract: FeatureContract, /) -> Documents:
        """Return the documents for the model with this contract, or raise a `Problem`."""
        ...


def to_float32(values: np.ndarray[Any, np.dtype[Any]]) -> Matrix:
    """Round to float32 once; what it cannot hold becomes infinite, which the feature contract refuses."""
    if values.dtype == _FLOAT32:
        return np.ascontiguousarray(values)
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(values, np.float32)


def from_bytes(
    body: bytes, dtype: str, shape: tuple[int, int], *, offset: int = 0, fortran: bool = False
) -> Matrix:
    """Return the numbers that stand in the body as one float32 matrix, without a copy if none is needed.

    The caller has compared the shape with the length of the body.
    """
    count = shape[0] * shape[1]
    values = np.frombuffer(body, dtype, count, offset) if count else np.zeros(0, np.float32)
    if not values.flags.aligned:
        values = values.copy()
    return to_float32(values.reshape(shape, order="F" if fortran else "C"))


def ordered(matrix: Matrix, columns: Array | None) -> Matrix:
    """Return the matrix in the order of the model's features; ``columns`` as of `columns_of`."""
    return matrix if columns is None else np.ascontiguousarray(matrix[:, columns])


def in_model_order(
    cell: Callable[[int, int | None], str], columns: Array | None
) -> Callable[[int, int | None], str]:
    """Return where a feature of the model stands in a request that has its features at ``columns``."""
    if columns is None:
        return cell
    return lambda document, feature: cell(document, None if feature is None else int(columns[feature]))


class AbsentColumns(NamedTuple):
    """Columns that rows need not have, because their values stand beside the rows.

    Attributes:
        places: of these columns in a whole row.
        width: of a whole row.
        names: of these columns.
    """

    places: tuple[int, ...]
    width: int
    names: tuple[str, ...]

    @classmethod
    def of(
        cls, contract: FeatureContract, names: Sequence[str] | None, *, of_query: bool
    ) -> AbsentColumns | None:
        """Return the features that the rows may lack; ``None`` if there are none.

        Args:
            contract: of the model. Rows may lack what is looked up in tables.
            names: of the columns that the rows have, if they have names. Those that they lack follow them.
            of_query: whether the request has features of the query, so that the rows may lack these too.
        """
        absent = contract.looked_up
        if of_query:
            absent = tuple(sorted({*absent, *contract.of_query}))
        if names is None:
            lacking, places = absent, absent
            width = contract.n_features
        else:
            lacking = tuple(at for at in absent if contract.names[at] not in names)
            width = len(names) + len(lacking)
            places = tuple(range(len(names), width))
        return cls(places, width, tuple(contract.names[at] for at in lacking)) if lacking else None

    @property
    def kept(self) -> list[int]:
        """Where in a whole row the columns of a short one stand."""
        return [at for at in range(self.width) if at not in self.places]

    def whole(self, row: Any) -> Any:
        """Return a row with nulls in the gap, if it is short."""
        if type(row) is not list or len(row) != self.width - len(self.places):
            return row
        values = iter(row)
        return [None if at in self.places else next(values) for at in range(self.width)]

    def filled(self, matrix: Matrix) -> Matrix:
        """Return whole rows, NaN in the gap, if these are short."""
        if not self.is_short(matrix.shape[1]):
            return matrix
        wide = np.full((len(matrix), self.width), np.nan, np.float32)
        wide[:, self.kept] = matrix
        return wide

    def is_short(self, width: int) -> bool:
        return width == self.width - len(self.places)

    def located(self, cell: Callable[[int, int | None], str]) -> Callable[[int, int | None], str]:
        """Return where in short rows a column of whole ones stands; for one in the gap, the row."""
        places = {at: place for place, at in enumerate(self.kept)}
        return lambda document, at: cell(document, None if at is None else places.get(at))


def with_query(documents: Documents, contract: FeatureContract, options: Options) -> Documents:
    """Return the documents with the values of the features of the query.

    Raises:
        Problem: 422 if the query has no such feature, or a document another value.
    """
    values = {}
    for name, value in (options.query_features or {}).items():
        try:
            at, number = contract.query_value(name, value)
        except InvalidDocuments as error:
            place = None if options.in_query_string else pointer("query_features", name)
            raise Problem(422, f"query_features: {error}", pointer=place) from None
        values[at] = number
    try:
        matrix = contract.completed(documents.matrix, values)
    except InvalidDocuments as error:
        raise Problem(422, str(error), pointer=documents.locate(error.document or 0, error.feature)) from None
    return documents if matrix is documents.matrix else replace(documents, matrix=matrix)


def with_items(documents: Documents, items: ItemLookups, contract: FeatureContract) -> Documents:
    """Return the documents with the values of tables where the request has none.

    Raises:
        Problem: 422 if the request has neither ids nor any of these values.
    """
    ids = documents.items if documents.ids is None else documents.ids
    if ids is None:
        looked_up = documents.matrix[:, contract.looked_up]
        if not len(looked_up) or not np.isnan(looked_up).all():
            return documents
        shown = ", ".join(repr(contract.names[at]) for at in contract.looked_up[:_FEW])
        more = ", …" if len(contract.looked_up) > _FEW else ""
        raise Problem(
            422,
            f"expected the ids of the documents, by which the model looks up {shown}{more} in tables, or these "
            "features themselves; found neither",
            pointer="",
        )
    found = items.completed(documents.matrix, ids)
    return replace(documents, matrix=found.documents, generations=items.generations, unknown=found.unknown)


def check_count(count: int, limits: Limits, at: str, *, width: int = 0) -> None:
    """Refuse more documents than allowed, or more numbers in all of them together."""
    if count > limits.max_documents:
        raise Problem(
            413, f"{count} documents; this server takes {limits.max_documents} per request", pointer=at
        )
    if count * width > limits.max_numbers:
        raise Problem(
            413,
            f"{count} documents of {width} features have {count * width} numbers; this server takes "
            f"{limits.max_numbers} per request",
            pointer=at,
        )


def check_options(options: Options) -> None:
    """Refuse options that do not go together."""
    if options.timeout_ms is None:
        if options.fallback_feature is not None:
            raise Problem(
                422,
                "fallback_feature: expected timeout_ms with it, found none",
                pointer=pointer("fallback_feature"),
            )
    elif options.explain != "none":
        raise Problem(
            422,
            "timeout_ms cannot be used with explain, because an explanation takes longer",
            pointer=pointer("timeout_ms"),
        )
    if options.compare is not None and options.explain != "contributions":
        raise Problem(
            422,
            f"compare: expected explain to be contributions, found {options.explain}",
            pointer=pointer("compare"),
        )
    if options.answer == "scores":
        for name in ("pin", "offset", "top_n"):
            value = getattr(options, name)
            if value:
                raise Problem(
                    422,
                    f"{name} cannot be used with answer as scores, which are those of all documents in the order of the "
                    "request",
                    pointer=pointer(name),
                )


def check_contract(sent: str | None, contract: FeatureContract) -> None:
    """Refuse a contract that is not the model's."""
    if sent is not None and sent != contract.digest:
        raise Problem(
            409,
            f"contract {sent!r}; the model's is {contract.digest!r}",
            pointer="/contract",
            kind=_MISMATCH,
        )


def columns_of(
    names: Sequence[str], contract: FeatureContract, limits: Limits
) -> tuple[Array | None, tuple[str, ...]]:
    """Return where in a row each feature of the model is, ``None`` if in order, and the names it does not know.

    Raises:
        Problem: 409 where a feature of the model is not among the names, or an unknown one is refused.
    """
    if tuple(names) == contract.names:
        return None, ()
    try:
        places, extra = contract.places(names)
    except ContractMismatch as error:
        raise Problem(409, str(error), pointer="/feature_names", kind=_MISMATCH) from None
    except InvalidDocuments as error:
        raise Problem(422, str(error), pointer=f"/feature_names/{error.feature}") from None
    if extra and limits.refuse_extra_features:
        raise Problem(
            409,
            f"the model does not know feature {extra[0]!r}",
            pointer=pointer("feature_names", names.index(extra[0])),
            kind=_MISMATCH,
        )
    return np.array(places, np.intp), extra
