"""What callers ask, and what the clients return and raise: a query as the caller has it, and the answers as values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from localrank.errors import InvalidDocuments
from localrank.features.feature import is_absent
from localrank.frames import as_tuple, columns_of, matrix, names_of
from localrank.routing.route import Route

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx
    import numpy.typing as npt

    from localrank.arrays import Indices, Vector
    from localrank.frames import Indexed


class QueryOptions(TypedDict, total=False):
    """What `Query` takes besides the documents, by name."""

    model: str | None
    top_n: int | None
    explain: str | None
    contract: str | None
    feature_names: Sequence[str] | None
    compare: tuple[int, int] | None
    timeout_ms: float | None
    allow_degraded: bool
    fallback_feature: str | None
    query_id: str | int | None
    session_id: str | int | None
    offset: int
    pin: Sequence[Any]
    boost: Mapping[Any, float] | None
    query_features: Mapping[str, Any] | None
    look_up: bool


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One query of a batch.

    Attributes:
        features: ``[n, d]``; NaN is a missing value, and a category has its codes. Or lists of values, or a frame of pandas,
            polars or Arrow, whose columns are sent with their names; columns that pandas has numbered are sent without. Or
            one mapping of feature names to values per document. Or one mapping of feature names to columns: a list, array or
            series with a value for each document, or the one value of a feature of the query. Lists of numbers alone are
            taken as an array.
        ids: of the documents, anything, in a list, array, series or index, read by place; they stay with the caller.
        model: ``name``, ``name@version`` or ``name@alias``.
        top_n: give only the best.
        explain: ``route`` asks why the query went where it went, ``contributions`` what each feature adds to each score.
        contract: hash of the feature contract that the caller was written for.
        feature_names: of the columns of an array, if they are not in the model's order.
        compare: positions of two documents; with contributions, why the first is above the second.
        timeout_ms: milliseconds in which the service should rank; a cheaper ranking answers if that is too little.
        allow_degraded: false asks for an error instead of a cheaper ranking.
        fallback_feature: with a timeout, the feature whose order is answered if there is no time to rank at all.
        query_id: the caller's name for the query, for the service's log and experiments.
        session_id: the caller's name for the user's session.
        offset: leave out this many of the best.
        pin: the ids of documents that come first, in this order; their positions if there are no ids.
        boost: what to add to scores before the documents are sorted, by id, or by position.
        query_features: values of features of the query, by name; then the documents need not have them.
        look_up: send the ids, texts or whole numbers, because the model looks features up by them; then the documents need
            not have these.
    """

    features: npt.ArrayLike | Indexed
    ids: Indexed | None = None
    model: str | None = None
    top_n: int | None = None
    explain: str | None = None
    contract: str | None = None
    feature_names: Sequence[str] | None = None
    compare: tuple[int, int] | None = None
    timeout_ms: float | None = None
    allow_degraded: bool = True
    fallback_feature: str | None = None
    query_id: str | int | None = None
    session_id: str | int | None = None
    offset: int = 0
    pin: Sequence[Any] = ()
    boost: Mapping[Any, float] | None = None
    query_features: Mapping[str, Any] | None = None
    look_up: bool = False

    def __post_init__(self) -> None:
        if self.ids is None:
            if self.look_up:
                raise ValueError("look_up: expected ids of the documents, found none")
            return
        documents: Any = self.features
        object.__setattr__(self, "ids", ids := as_tuple(self.ids))
        if isinstance(documents, Mapping):
            return
        if not hasattr(documents, "__len__"):
            raise InvalidDocuments(f"expected numbers in the documents, found a {type(documents).__name__}")
        if len(ids) != len(documents):
            raise ValueError(f"{len(ids)} ids for {len(documents)} documents")

    def options(self, model: str | None) -> dict[str, Any]:
        """Return everything but the documents."""
        options = {
            "model": self.model or model,
            "top_n": self.top_n,
            "explain": self.explain,
            "contract": self.contract,
            "timeout_ms": self.timeout_ms,
            "allow_degraded": None if self.allow_degraded else False,
            "fallback_feature": self.fallback_feature,
            "query_id": self.query_id,
            "session_id": self.session_id,
            "compare": None if self.compare is None else list(self.compare),
            "feature_names": self.names(),
            "query_features": self._of_query(),
            "offset": self.offset or None,
            "pin": [self._place(one) for one in self.pin] or None,
            "boost": self._boosts() or None,
        }
        return {name: value for name, value in options.items() if value is not None}

    def sent_ids(self) -> list[str | int] | None:
        """Return the ids if the service needs them."""
        if not self.look_up:
            return None
        ids = as_tuple(self.ids)
        for one in ids:
            if isinstance(one, bool) or not isinstance(one, str | int | np.integer):
                raise TypeError(f"look_up: expected ids that are texts or whole numbers, found {one!r}")
        return [one if isinstance(one, str) else int(one) for one in ids]

    def _of_query(self) -> dict[str, Any] | None:
        if self.query_features is None:
            return None
        sent = _by_name(self.query_features, "query_features")
        return {name: _value(one, f"query_features[{name!r}]") for name, one in sent.items()}

    def _boosts(self) -> dict[str, float]:
        boosts = {}
        for one, addend in _by_name({} if self.boost is None else self.boost, "boost").items():
            if not isinstance(addend, Real | Decimal) or not math.isfinite(addend):
                raise ValueError(f"boost[{one!r}]: expected a finite number, found {addend!r}")
            boosts[str(self._place(one))] = float(addend)
        return boosts

    def rows(self) -> list[list[Any]] | None:
        """Return the documents as lists of values, if some are no numbers: those of lists, or of a frame."""
        documents: Any = self.features
        columns = columns_of(documents)
        if columns is not None:
            if all(_is_numeric(documents[name]) for name in columns):
                return None
            listed = [_listed(documents[name]) for name in columns]
            rows = list(map(list, zip(*listed, strict=True)))
        elif isinstance(documents, list | tuple):
            rows = [list(row) if isinstance(row, list | tuple) else [] for row in documents]
        else:
            return None
        if columns is None and all(
            isinstance(one, _NUMBERS) and not isinstance(one, bool) for row in rows for one in row
        ):
            return None
        return [[_value(one) for one in row] for row in rows]

    def columns(self) -> dict[str, Any] | None:
        """Return the columns by name, if the documents are given so."""
        if not isinstance(self.features, Mapping):
            return None
        found: dict[str, Any] = {}
        for name, one in self.features.items():
            where = f"the column {name!r}"
            if isinstance(one, str) or not hasattr(one, "__len__"):
                found[name] = _value(one, where)
            elif isinstance(one, Mapping | AbstractSet):
                raise InvalidDocuments(
                    f"expected a list or one value in {where}, found a {type(one).__name__}"
                )
            else:
                # Arrow would give scalars of its own.
                listed = one.to_pylist() if hasattr(one, "to_pylist") else one
                found[name] = [_value(each, where) for each in listed]
        return found

    def _place(self, document: Any) -> str | int:
        """Return what the service calls a document: its position, unless it gets the ids."""
        if self.ids is None:
            try:
                return int(document)
            except (TypeError, ValueError):
                raise ValueError(
                    f"expected the position of a document, as there are no ids, found {document!r}"
                ) from None
        ids: tuple[Any, ...] = as_tuple(self.ids)
        if (found := ids.count(document)) != 1:
            raise ValueError(f"expected one document with the id {document!r}, found {found}")
        place = ids.index(document)
        sent = self.sent_ids()
        return place if sent is None else sent[place]

    def named(self) -> list[dict[str, Any]] | None:
        """Return the documents by name, if they are."""
        if (
            isinstance(self.features, list | tuple)
            and self.features
            and isinstance(self.features[0], Mapping)
        ):
            documents: Any = self.features
            return [
                {"features": {name: _value(value) for name, value in document.items()}}
                for document in documents
            ]
        return None

    def array(self) -> np.ndarray[Any, np.dtype[Any]]:
        """Return the documents as the service wants them: float32, or float16 as it is.

        Raises:
            InvalidDocuments: something is no number, or a column of a frame has no name.
        """
        if isinstance(self.features, np.ndarray) and self.features.dtype == np.float16:
            return np.ascontiguousarray(self.features)
        columns = columns_of(self.features)
        try:
            values = matrix(self.features, columns)
        except InvalidDocuments as error:
            if columns is None:
                raise
            raise InvalidDocuments(
                f"{error}; every column is sent as a feature: drop those that are none, and give ids of documents as ids"
            ) from None
        return values.reshape(0, 0) if values.shape == (0,) else values

    def names(self) -> list[str] | None:
        """Return the names of the features: those of a frame's columns, or those that the caller gives."""
        columns = columns_of(self.features)
        of_frame = None if columns is None else names_of(columns)
        if self.feature_names is None:
            return None if of_frame is None else list(of_frame)
        given = list(self.feature_names)
        if of_frame is not None and given != list(of_frame):
            raise ValueError("expected feature_names to be the names of the frame's columns, found others")
        return given


_NUMBERS = (int, float, np.number, type(None))


def _listed(values: Any) -> list[Any]:
    found: list[Any] = (values.to_pylist if hasattr(values, "to_pylist") else values.to_list)()
    return found


def _by_name(values: Any, name: str) -> Mapping[Any, Any]:
    if not isinstance(values, Mapping):
        raise TypeError(f"{name}: expected a mapping, found a {type(values).__name__}")
    return values


def _value(value: Any, where: str = "the documents") -> Any:
    """Return what JSON has for a value; NaN is missing."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Real | Decimal):
        return None if value != value else float(value)  # noqa: PLR0124
    if is_absent(value):
        return None
    raise InvalidDocuments(
        f"expected texts, numbers and truth values in {where}, found a {type(value).__name__}"
    )


def _is_numeric(column: Any) -> bool:
    kind = str(getattr(column, "dtype", None) or column.type)
    return kind.lower().startswith(("int", "uint", "float", "double", "decimal"))


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning in a successful answer.

    Attributes:
        code: ``feature_imputed``, ``feature_ignored``, or ``warnings_omitted`` with an empty feature.
        feature: which.
        count: in how many documents.
    """

    code: str
    feature: str
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Reranked:
    """One query's documents in order.

    Attributes:
        order: ``[k]``, positions of the best documents in the request, best first.
        scores: ``[k]`` float64, of the same documents.
        ids: ``[k]``, the caller's ids of the same documents, if it gave any.
        route: how the query found its scorer.
        model: that answered.
        version: of the model.
        request_id: under which the service's log knows the request.
        warnings: what to know.
        timings_ms: the service's stages.
        explanation: if it was asked for.
        degraded: ``{"rung", "reason"}`` if a cheaper ranking answered.
        experiment: ``{"name", "arm"}`` if the request took part in one.
        teams: whose each document is, if two versions' rankings are interleaved.
        pinned: how many of the first documents the caller had pinned.
        boosts: ``[k]``, what the caller added to the scores.
    """

    order: Indices
    scores: Vector
    ids: tuple[Any, ...] | None
    route: Route
    model: str
    version: int
    request_id: str
    warnings: tuple[Warned, ...]
    timings_ms: Mapping[str, float]
    explanation: Mapping[str, Any] | None = None
    degraded: Mapping[str, str] | None = None
    experiment: Mapping[str, str] | None = None
    teams: tuple[str | None, ...] | None = None
    pinned: int = 0
    boosts: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """The scores of one query's documents, in the order of the request.

    Attributes:
        scores: ``[n_docs]`` float64, with what the caller added.
        route: how the query found its scorer.
        model: that answered.
        version: of the model.
        request_id: under which the service's log knows the request.
        warnings: what to know.
        timings_ms: the service's stages.
        explanation: if it was asked for.
        degraded: ``{"rung", "reason"}`` if a cheaper ranking answered.
        experiment: ``{"name", "arm"}`` if the request took part in one.
    """

    scores: Vector
    route: Route
    model: str
    version: int
    request_id: str
    warnings: tuple[Warned, ...]
    timings_ms: Mapping[str, float]
    explanation: Mapping[str, Any] | None = None
    degraded: Mapping[str, str] | None = None
    experiment: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """A model that the service serves.

    Attributes:
        name: of the model.
        version: its champion.
        aliases: ``{alias: version}``.
        contract: hash of its feature contract.
        n_features: how many a document has.
        n_clusters: how many kinds of query it tells apart.
        routing: its router's strategy.
        default: whether it answers requests that name none.
    """

    name: str
    version: int
    aliases: Mapping[str, int]
    contract: str
    n_features: int
    n_clusters: int
    routing: str
    default: bool


@dataclass(frozen=True, slots=True)
class ServiceProblem:
    """What the service says is wrong.

    Attributes:
        status: of HTTP.
        detail: one sentence.
        pointer: where in the request.
        kind: ``about:blank``, or which of the service's problems it is.
        request_id: under which its log knows the request.
    """

    status: int
    detail: str
    pointer: str | None = None
    kind: str = "about:blank"
    request_id: str | None = None


class ServiceError(Exception):
    """The service answered with a problem."""

    def __init__(self, problem: ServiceProblem) -> None:
        super().__init__(f"{problem.status}: {problem.detail}")
        self.problem = problem


class Unavailable(ServiceError):
    """The service asked for a pause (429, 503) that is longer than the call could wait."""


class ServiceUnreachable(Exception):
    """There was no answer: no connection, a timeout, or an answer that broke off."""


def reranked(answer: Mapping[str, Any], query: Query) -> Reranked:
    """Read the answer to one query."""
    results = answer["results"]
    order = np.array([result["index"] for result in results], np.intp)
    return Reranked(
        order=order,
        scores=np.array([result["score"] for result in results], np.float64),
        ids=None if query.ids is None else tuple(query.ids[index] for index in order.tolist()),
        **_about(answer),
        teams=tuple(one["team"] for one in results) if results and "team" in results[0] else None,
        pinned=sum("pinned" in one for one in results),
        boosts=tuple(one.get("boost", 0.0) for one in results) if query.boost else None,
    )


def scored(answer: Mapping[str, Any]) -> Scored:
    """Read the answer to one query whose scores were asked for."""
    return Scored(np.array(answer["scores"], np.float64), **_about(answer))


def _about(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what all answers say besides the documents."""
    return {
        "route": _route(answer["route"]),
        "model": answer["model"],
        "version": answer["version"],
        "request_id": answer["request_id"],
        "warnings": tuple(Warned(one["code"], one["feature"], one["count"]) for one in answer["warnings"]),
        "timings_ms": answer["timings_ms"],
        "explanation": answer.get("explanation"),
        "degraded": answer["degraded"],
        "experiment": answer.get("experiment"),
    }


def _route(members: Mapping[str, Any]) -> Route:
    return Route(
        members["strategy"],
        members["cluster"],
        members["similarity"],
        members["margin"],
        members["candidates"],
        members["fallback"],
        members.get("local", members["cluster"] is not None),
        tuple(members.get("shares", ())),
    )


def served(answer: Mapping[str, Any]) -> list[Served]:
    """Read the list of models."""
    return [Served(**{name: one[name] for name in Served.__slots__}) for one in answer["models"]]


def all_reranked(answer: Mapping[str, Any], queries: Sequence[Query]) -> list[Reranked | ServiceError]:
    """Read the answer to a batch."""
    found: list[Reranked | ServiceError] = []
    for one, query in zip(answer["answers"], queries, strict=True):
        if one["status"] == 200:
            found.append(reranked(one["answer"], query))
        else:
            found.append(ServiceError(problem_of(one["problem"], answer["request_id"])))
    return found


def problem_in(response: httpx.Response) -> ServiceProblem:
    """Read a problem, or name the status if something else than the service answered."""
    try:
        members = response.json()
        return problem_of(members, response.headers.get("x-request-id"))
    except (ValueError, KeyError, TypeError):
        # Something between here and the service answered.
        return ServiceProblem(response.status_code, response.reason_phrase or "no reason given")


def problem_of(members: Mapping[str, Any], request_id: str | None) -> ServiceProblem:
    """Return the problem that these members tell of."""
    return ServiceProblem(
        members["status"], members["detail"], members["pointer"], members["type"], request_id
    )
