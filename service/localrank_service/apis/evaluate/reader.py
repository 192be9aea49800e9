"""``POST /v1/evaluate``: judged queries, as JSON or as LETOR text with options in the query string."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from localrank.errors import InvalidConfiguration
from localrank.metrics import CONVENTIONS, Convention, Metric
from localrank_service.apis.evaluate import letor
from localrank_service.apis.rerank.reader import RERANK, JsonQuery, members_of
from localrank_service.http.problems import Problem, pointer
from localrank_service.wire.members import (
    FLAG,
    Kind,
    Member,
    by_name,
    check,
    check_names,
    integer,
    one_of,
    plain_values,
    shared,
)
from localrank_service.wire.query import Documents, Options, check_contract, with_query
from localrank_service.wire.text import Elements, members_in, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from localrank.arrays import Vector
    from localrank.features.contract import FeatureContract
    from localrank_service.wire.query import Limits
    from localrank_service.wire.text import Text

#: Of each query of ``POST /v1/evaluate``: documents as in ``POST /v1/rerank``, and what they are judged.
JUDGED = (
    *(
        member
        for member in RERANK
        if member.name
        in {"query_id", "query_features", "feature_names", "documents", "ids", "features", "columns"}
    ),
    Member(
        "labels",
        Kind(
            "a list of numbers of at least 0",
            {"type": "array", "items": {"type": "number", "minimum": 0}},
            lambda value: (
                type(value) is list and all(type(one) in {int, float} and one >= 0 for one in value)
            ),
        ),
        "How relevant each document is, in the order of the documents; higher is better.",
        nullable=False,
    ),
)

#: Of ``POST /v1/evaluate``; any other is refused by name.
EVALUATE = (
    *shared("model"),
    Member(
        "metrics",
        Kind(
            "a list of texts",
            {"type": "array", "items": {"type": "string"}},
            lambda value: type(value) is list and all(type(one) is str for one in value),
        ),
        "What to measure: `map`, `mean_ndcg`, `mrr`, `ndcg@10`, `p@5`, `err@20`, with any cutoff. If left out, `ndcg@10` and "
        "`map`.",
    ),
    Member(
        "convention",
        one_of(CONVENTIONS),
        "How to measure; `standard` if left out. Conventions differ in discounts, in queries without "
        "relevant documents and in short lists.",
    ),
    Member("top_grade", integer(1), "The largest label, for `err`; 4 if left out."),
    *shared("contract"),
    Member("per_query", FLAG, "Also answer the figures of each query.", nullable=False),
    Member(
        "queries",
        Kind(
            "a list of objects",
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        member.name: dict(member.kind.schema) | {"description": member.meaning}
                        for member in JUDGED
                    },
                    "required": ["labels"],
                    "additionalProperties": False,
                },
            },
        ),
        "The judged queries: documents as in `/v1/rerank`, and `labels`.",
        nullable=False,
    ),
)

#: What the query string of LETOR text may hold; ``metrics`` stands there once for each.
OPTIONS = ("model", "metrics", "convention", "top_grade", "contract", "per_query")
_TABLE = by_name(EVALUATE)
_QUERY = by_name(JUDGED)
_USUAL = ("ndcg@10", "map")
_MOST_METRICS = 32


class Judged(NamedTuple):
    """One judged query."""

    query_id: str | int | None
    documents: Documents
    labels: Vector


class Exam(NamedTuple):
    """What to measure, and the queries as they were sent.

    Attributes:
        model: the address, as in a rerank request.
        texts: the queries of JSON; or
        body: LETOR text.
    """

    model: str | None
    contract: str | None
    metrics: list[Metric]
    convention: Convention
    per_query: bool
    texts: list[Text]
    body: bytes | None
    limits: Limits
    most_queries: int

    def queries(self, contract: FeatureContract, go_on: Callable[[], None]) -> Iterator[Judged]:
        """Yield the queries for a model with this contract, or raise a `Problem`; ``go_on`` is called now and then."""
        check_contract(self.contract, contract)
        if self.body is not None:
            for one in letor.read(self.body, contract.n_features, self.most_queries, self.limits, go_on):
                for at in contract.categories:
                    # The text holds values, as it does offline.
                    one.matrix[:, at] = contract.features[at].codes_of_numbers(one.matrix[:, at])
                documents = with_query(Documents(one.matrix, None, _on_a_line), contract, Options())
                yield Judged(one.query_id, documents, one.labels)
            return
        room, numbers = self.limits.max_documents, self.limits.max_numbers
        for position, text in enumerate(self.texts):
            go_on()
            try:
                judged = _judged(text, contract, self.limits)
            except Problem as problem:
                if problem.pointer is not None:
                    problem.pointer = f"/queries/{position}{problem.pointer}"
                raise
            room -= len(judged.labels)
            numbers -= judged.documents.matrix.size
            if numbers < 0:
                raise Problem(
                    413,
                    f"the queries have more than {self.limits.max_numbers} numbers, the limit of this server",
                    pointer="/queries",
                )
            if room < 0:
                raise Problem(
                    413,
                    f"the queries have more than {self.limits.max_documents} documents, the limit of this "
                    "server",
                    pointer="/queries",
                )
            yield judged


def read_json(body: bytes, limits: Limits, most_queries: int) -> Exam:
    """Check everything that needs no model."""
    found = members_in(body, limits)
    check_names(found, _TABLE)
    queries = found.pop("queries", None)
    members = {name: one.value() for name, one in found.items()}
    check(members, _TABLE)
    if queries is None or queries.kind != "[":
        refuse("queries", "a list of objects", queries, "/queries")
    elements = Elements(queries)
    if elements.count > most_queries:
        raise Problem(
            413,
            f"{elements.count} queries; this server evaluates {most_queries} per request",
            pointer="/queries",
        )
    return _exam(members, elements.texts(), None, limits, most_queries)


def read_text(body: bytes, options: Sequence[tuple[str, str]], limits: Limits, most_queries: int) -> Exam:
    """Check the options; the text is read with the model."""
    members: dict[str, Any] = {}
    for name, value in options:
        if name not in OPTIONS:
            raise Problem(
                422, f"unknown option {name!r} in the query string; expected some of {', '.join(OPTIONS)}"
            )
        if name == "metrics":
            members.setdefault("metrics", []).append(value)
        elif name in members:
            raise Problem(400, f"option {name!r} stands twice in the query string")
        else:
            members[name] = value
    members = plain_values(members, _TABLE)
    try:
        check(members, _TABLE)
        return _exam(members, [], body, limits, most_queries)
    except Problem as problem:
        problem.pointer = None  # it stands in the query string
        raise


def _exam(
    members: dict[str, Any], texts: list[Text], body: bytes | None, limits: Limits, most_queries: int
) -> Exam:
    names = members.get("metrics") or list(_USUAL)
    if len(names) > _MOST_METRICS:
        raise Problem(422, f"{len(names)} metrics; expected at most {_MOST_METRICS}", pointer="/metrics")
    try:
        metrics = [Metric.parse(name) for name in names]
    except InvalidConfiguration as error:
        raise Problem(422, str(error), pointer="/metrics") from None
    convention = Convention.named(members.get("convention") or "standard")
    if (grade := members.get("top_grade")) is not None:
        try:
            convention = convention.with_top_grade(grade)
        except InvalidConfiguration as error:
            raise Problem(422, str(error), pointer="/top_grade") from None
    return Exam(
        members.get("model"),
        members.get("contract"),
        metrics,
        convention,
        bool(members.get("per_query")),
        texts,
        body,
        limits,
        most_queries,
    )


def _judged(text: Text, contract: FeatureContract, limits: Limits) -> Judged:
    if text.kind != "{":
        refuse("the query", "an object", text, "")
    content = text.content
    members = members_of(content, _QUERY, limits)
    try:
        check(members, _QUERY)
    except Problem:
        _refuse_label(members.get("labels"))
        raise
    labels = members.pop("labels", None)
    if labels is None:
        raise Problem(422, "the query has no labels", pointer="")
    query = JsonQuery(content, members, limits, plain=False)
    documents = query.documents(contract)
    if len(labels) != len(documents.matrix):
        raise Problem(422, f"{len(labels)} labels for {len(documents.matrix)} documents", pointer="/labels")
    return Judged(query.options.query_id, documents, np.array(labels, np.float64))


def _refuse_label(labels: Any) -> None:
    """Name the first label that is none; a caller cannot find it among thousands."""
    for position, label in enumerate(labels if type(labels) is list else ()):
        if type(label) not in {int, float} or label < 0:
            refuse(f"labels[{position}]", "a number of at least 0", label, pointer("labels", position))


def _on_a_line(_document: int, _feature: int | None) -> str:
    return ""
