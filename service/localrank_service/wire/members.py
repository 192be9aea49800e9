"""What requests may hold: one table for the parser, for OpenAPI and for the tables in docs/use/http.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from localrank.metrics import CONVENTIONS
from localrank.registry import ALIAS_NAME, CHAMPION
from localrank_service.http.problems import Problem, pointer
from localrank_service.wire.kinds import (
    ANYTHING,
    FLAG,
    ID,
    TEXT,
    Kind,
    integer,
    matching,
    number,
    one_of,
    text_of,
)
from localrank_service.wire.query import EXPLANATIONS
from localrank_service.wire.text import refuse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


class Member(NamedTuple):
    """A member of a request. If it is ``nullable``, ``null`` means the same as leaving it out."""

    name: str
    kind: Kind
    meaning: str
    nullable: bool = True


_CELL = {"type": ["number", "null"], "description": "null is a missing value"}
_ROW = {"type": "array", "items": _CELL}
_FEATURES = {
    "anyOf": [_ROW, {"type": "object", "additionalProperties": _CELL}],
    "description": "In the model's order, or by name; a feature that is left out is a missing value.",
}

#: The highest grade that a document may get.
HIGHEST_GRADE = 100
#: Milliseconds that a request may give the server at most: an hour.
LONGEST_TIMEOUT = 3_600_000
_TIMEOUT = Member(
    "timeout_ms",
    number(0, LONGEST_TIMEOUT, above=True),
    "Milliseconds for the ranking, from the arrival of the whole request. If that is too short for the "
    "model, a cheaper ranking answers; the cheapest is the order of the request. `degraded` says which one "
    "answered.",
)
_ALLOW = Member(
    "allow_degraded",
    FLAG,
    "If false, the answer is 504 instead of a cheaper ranking than the model's own.",
    nullable=False,
)

_MODEL = Member(
    "model",
    TEXT,
    "`name`, `name@version` or `name@alias`. If left out, the server's default model, or its only one.",
)
_QUERY_ID = Member("query_id", ID, "The caller's name for the query.")
_SESSION_ID = Member("session_id", ID, "The caller's name for the user's session.")
_TOP_N = Member("top_n", integer(1), "Answer only this many of the best documents.")
_CONTRACT = Member(
    "contract",
    TEXT,
    "Hash of the feature contract that the caller expects; if the model has another one, the answer is 409.",
)

_EXPLAIN = Member(
    "explain",
    one_of(EXPLANATIONS),
    "`route` adds `explanation`: a summary of the query's signature, the similarity to each cluster, the "
    "most similar training queries, and the scorer that answered. `contributions` adds `explanation`: what "
    "each feature adds to each score; the answer is 422 if the scorer is not a sum over features.",
)
_COMPARE = Member(
    "compare",
    Kind(
        "two positions of documents",
        {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2},
        lambda value: (
            type(value) is list
            and len(value) == 2
            and all(type(position) is int and position >= 0 for position in value)
        ),
    ),
    "Only with `explain` as `contributions`: the positions of two documents in the request. `explanation` "
    "then says why the first one is above the second one.",
)

#: Of ``POST /v1/rerank``; any other is refused by name.
RERANK = (
    _MODEL,
    _QUERY_ID,
    _SESSION_ID,
    _TOP_N,
    _EXPLAIN,
    _COMPARE,
    _CONTRACT,
    Member(
        "feature_names",
        Kind("a list of texts", {"type": "array", "items": {"type": "string"}}),
        "Names of the columns, if their order differs from the model's or there are more of them. If one is "
        "missing, the answer is 409.",
    ),
    Member(
        "documents",
        Kind(
            "a list of objects",
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"id": ID.schema, "features": _FEATURES},
                    "required": ["features"],
                    "additionalProperties": False,
                },
            },
        ),
        "One object per document: `features`, a list or an object, and optionally `id`.",
        nullable=False,
    ),
    Member(
        "ids",
        Kind("a list of texts or integers", {"type": "array", "items": ID.schema}),
        "One per row of `features`; they may repeat.",
    ),
    Member(
        "features",
        Kind(
            "a list of rows",
            {"type": "array", "items": _ROW},
        ),
        "One row per document.",
        nullable=False,
    ),
    _TIMEOUT,
    _ALLOW,
    Member(
        "fallback_feature",
        TEXT,
        "Only with `timeout_ms`: a feature of the model. If there is no time to rank at all, the documents "
        "are ordered by this feature, largest first, instead of staying in the order of the request.",
    ),
)

#: Of ``POST /v1/compare``; any other is refused by name.
COMPARE = (
    Member(
        "baseline",
        TEXT,
        "`name`, `name@version` or `name@alias`: the first version. If left out, the server's default model, "
        "or its only one.",
    ),
    Member("candidate", TEXT, "The second version.", nullable=False),
    *(
        member
        for member in RERANK
        if member.name
        not in {
            *("model", "contract", "explain", "compare"),
            *("timeout_ms", "allow_degraded", "fallback_feature"),
        }
    ),
)

#: Of ``POST /v2/rerank``; any other is refused by name.
COHERE = (
    _MODEL,
    Member("query", TEXT, "Has no effect, because the model ranks by features only."),
    Member(
        "documents",
        Kind(
            "a list of objects with features",
            {
                "type": "array",
                "items": {"type": "object", "properties": {"features": _FEATURES}, "required": ["features"]},
            },
        ),
        "One object per document: `features`, a list or an object. It may have other members.",
        nullable=False,
    ),
    _TOP_N,
    Member(
        "return_documents",
        FLAG,
        "Answer each document as it was sent, with its score.",
        nullable=False,
    ),
    _CONTRACT,
    _EXPLAIN,
    _COMPARE,
    _TIMEOUT,
    _ALLOW,
    _QUERY_ID,
    _SESSION_ID,
    Member("max_tokens_per_doc", ANYTHING, "Has no effect."),
    Member("priority", ANYTHING, "Has no effect."),
    Member("rank_fields", ANYTHING, "Has no effect."),
)

#: Of the query string of ``POST /v1/adapters/ENGINE``; any other is refused by name.
ADAPTER = (
    _MODEL,
    _QUERY_ID._replace(kind=TEXT),
    _SESSION_ID._replace(kind=TEXT),
    _TOP_N._replace(meaning="Answer only this many of the best hits."),
    _CONTRACT,
    Member(
        "log",
        TEXT,
        "The name of the log entry (Elasticsearch, OpenSearch) or of the field (Solr) that holds the "
        "features, if there are several.",
    ),
    Member(
        "missing_as_zero",
        FLAG,
        "If true, a feature that a hit does not log is 0, as with the option of this name in the plug-ins; "
        "otherwise it is missing.",
    ),
    _TIMEOUT,
    _ALLOW,
)

#: Of ``parameters`` of the Open Inference Protocol; others are the business of other servers.
INFER_PARAMETERS = (
    _TOP_N._replace(meaning="Answer only this many of the best documents of each query."),
    _CONTRACT,
    Member(
        "timeout",
        integer(0),
        "Microseconds for the ranking, from the arrival of the whole request, as `timeout_ms` of "
        "`/v1/rerank`; 0 is no limit.",
    ),
    _ALLOW,
    Member(
        "priority",
        Kind(
            "0, as requests are answered in the order in which they come",
            {"const": 0},
            lambda value: value == 0,
        ),
        "Only 0: requests are answered in the order in which they come.",
    ),
    _QUERY_ID,
    _SESSION_ID,
    Member("binary_data_output", FLAG, "Answer binary tensors, unless an output says otherwise."),
)

#: Of each event of ``POST /v1/feedback``; any other is refused by name.
FEEDBACK = (
    Member(
        "request_id",
        text_of(1, 128),
        "The `request_id` of the answer that showed the documents; its header `X-Request-ID` has it too.",
        nullable=False,
    ),
    Member(
        "query",
        integer(0),
        "Position of the query in its request, if the request had several queries; the first one if left "
        "out.",
    ),
    Member(
        "id",
        ID,
        "The id that the document had in the request; the first document with it, if several had it.",
    ),
    Member("index", integer(0), "The position of the document in the request; use this or `id`."),
    Member(
        "click",
        Kind("true", {"type": "boolean", "not": {"const": False}}, lambda value: value is True),
        "The user chose the document.",
        nullable=False,
    ),
    Member(
        "grade",
        number(0, HIGHEST_GRADE),
        "How relevant the document is; higher is better. If a document gets several grades, the last one "
        "counts. An event has either `click` or `grade`.",
        nullable=False,
    ),
    Member(
        "event_id",
        ID,
        "The caller's name for the event. Events with the same name count once, so an event can be sent "
        "again.",
    ),
)

#: Of each query of ``POST /v1/evaluate``: documents as in ``POST /v1/rerank``, and what they are judged.
JUDGED = (
    *(
        member
        for member in RERANK
        if member.name
        in {
            "query_id",
            "feature_names",
            "documents",
            "ids",
            "features",
        }
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
    _MODEL,
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
    _CONTRACT,
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

#: Of ``parameters`` of an input, and of an output.
BINARY_INPUT = (Member("binary_data_size", integer(0), "The bytes of a tensor that follows the JSON."),)
BINARY_OUTPUT = (Member("binary_data", FLAG, "Answer this output as a binary tensor."),)


_ALIAS = Member(
    "alias",
    matching(ALIAS_NAME.pattern, "1 to 64 letters, digits, '.', '_' and '-', the first a letter"),
    f"The alias that moves; `{CHAMPION}` if left out.",
    nullable=False,
)

#: Of ``POST /v1/models/NAME/promote`` and ``…/rollback``; any other is refused by name.
PROMOTE = (Member("version", integer(1), "The version that the alias will name.", nullable=False), _ALIAS)
ROLLBACK = (_ALIAS,)


def names_of(table: Iterable[Member]) -> tuple[str, ...]:
    """Return the names of the members, in order."""
    return tuple(member.name for member in table)


def by_name(table: Iterable[Member]) -> dict[str, Member]:
    """Return the members as the parser looks them up."""
    return {member.name: member for member in table}


def plain_values(found: Mapping[str, Any], table: Mapping[str, Member]) -> dict[str, Any]:
    """Convert the numbers and flags of a query string; a text that is neither stays as it is."""
    return {
        name: table[name].kind.of_text(value) if type(value) is str else value
        for name, value in found.items()
    }


def check_names(found: Iterable[str], table: Mapping[str, Member], at: str = "") -> None:
    """Refuse a member that is not in the table."""
    for name in found:
        if name not in table:
            raise Problem(
                422,
                f"unknown member {name!r}; expected some of {', '.join(table)}",
                pointer=at + pointer(name),
            )


def check_query_string(query_string: bytes, names: Iterable[str], options: Collection[str] = ()) -> None:
    """Refuse what stands in the query string although nothing would read it there.

    Args:
        query_string: of the request.
        names: members of the body.
        options: what may stand there.
    """
    if query_string:
        # All names at once: reading thousands of options one by one takes longer than a body of this size.
        given = "&".join(option.partition("=")[0] for option in query_string.decode("latin-1").split("&"))
        found = dict.fromkeys(unquote(given).split("&"))
        for name in names:
            if name in found:
                raise Problem(422, f"{name}: expected in the body, found in the query string")
        for name in found:
            if name and name not in options:
                expected = f"some of {', '.join(options)}" if options else "none"
                raise Problem(422, f"unknown option {name[:40]!r} in the query string; expected {expected}")


def check(members: Mapping[str, Any], table: Mapping[str, Member], at: str = "") -> None:
    """Refuse a value that its member does not accept."""
    for name, value in members.items():
        if (member := table.get(name)) is None or member.kind.accepts is None:
            continue
        if not (member.nullable and value is None) and not member.kind.accepts(value):
            refuse(name, member.kind.expected, value, at + pointer(name))
