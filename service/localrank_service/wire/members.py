"""What requests may hold: one table for the parser, for OpenAPI and for the tables in docs/http.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from localrank_service.http.problems import Problem, pointer
from localrank_service.wire.query import DTYPES, EXPLANATIONS
from localrank_service.wire.text import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = [
    "ADAPTER",
    "BINARY_INPUT",
    "BINARY_OUTPUT",
    "COHERE",
    "INFER_PARAMETERS",
    "RERANK",
    "Kind",
    "Member",
    "by_name",
    "check",
    "check_names",
    "names_of",
]


class Kind(NamedTuple):
    """What a member's value is: in the sentence of an error, as JSON Schema, and as a test of the parsed value.

    What holds the documents has no test here: the wires read it piece by piece.
    """

    expected: str
    schema: Mapping[str, Any]
    accepts: Callable[[Any], bool] | None = None


class Member(NamedTuple):
    """A member of a request: ``null`` is as good as leaving it out if it is ``nullable``."""

    name: str
    kind: Kind
    meaning: str
    nullable: bool = True


def _integer(least: int) -> Kind:
    return Kind(
        f"an integer of at least {least}",
        {"type": "integer", "minimum": least},
        lambda value: type(value) is int and value >= least,
    )


def _one_of(names: Iterable[str]) -> Kind:
    known = tuple(names)
    return Kind(f"one of {', '.join(known)}", {"enum": list(known)}, lambda value: value in known)


_TEXT = Kind("a text", {"type": "string"}, lambda value: type(value) is str)
_ID = Kind("a text or an integer", {"type": ["string", "integer"]}, lambda value: type(value) in {str, int})
_FLAG = Kind("true or false", {"type": "boolean"}, lambda value: type(value) is bool)
_ANYTHING = Kind("anything", {})
_CELL = {"type": ["number", "null"], "description": "null is a missing value"}
_ROW = {"type": "array", "items": _CELL}
_FEATURES = {
    "anyOf": [_ROW, {"type": "object", "additionalProperties": _CELL}],
    "description": "In the model's order, or by name; a name left out is missing.",
}

_MODEL = Member(
    "model",
    _TEXT,
    "`name`, `name@version` or `name@alias`. Without it, the model that the server is set to, or the only one.",
)
_TOP_N = Member("top_n", _integer(1), "Answer only the best.")
_CONTRACT = Member(
    "contract",
    _TEXT,
    "Hash of the feature contract that the caller was written for; another one is 409.",
)

_EXPLAIN = Member(
    "explain",
    _one_of(EXPLANATIONS),
    "`route` adds `explanation`: the query's signature in short, how near each cluster was, the most similar training "
    "queries, and what answered. `contributions` adds "
    "`explanation`: what each feature adds to each score, or 422 if the scorer is no sum over features.",
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
    "With `explain` as `contributions`: two documents by their positions in the request; `explanation` then says why "
    "the first is above the second.",
)

#: Of ``POST /v1/rerank``; any other is refused by name.
RERANK = (
    _MODEL,
    Member("query_id", _ID, "The caller's name for the query."),
    _TOP_N,
    _EXPLAIN,
    _COMPARE,
    _CONTRACT,
    Member(
        "feature_names",
        Kind("a list of texts", {"type": "array", "items": {"type": "string"}}),
        "Names of the columns, if they are in another order than the model's, or more. A missing one is 409.",
    ),
    Member(
        "documents",
        Kind(
            "a list of objects",
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"id": _ID.schema, "features": _FEATURES},
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
        Kind("a list of texts or integers", {"type": "array", "items": _ID.schema}),
        "One per row of `features`; they may repeat.",
    ),
    Member(
        "features",
        Kind(
            "a list of rows, or a flat list with shape",
            {"anyOf": [{"type": "array", "items": _ROW}, {"type": "array", "items": _CELL}]},
        ),
        "One row per document; or flat, the rows one after another, with `shape`.",
        nullable=False,
    ),
    Member(
        "features_b64",
        Kind("a text in base64", {"type": "string"}),
        "The little-endian numbers of all rows, in base64; NaN is a missing value.",
        nullable=False,
    ),
    Member("dtype", _one_of(DTYPES), "Of `features_b64`; `float32` if left out.", nullable=False),
    Member(
        "shape",
        Kind(
            "[documents, features]",
            {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2},
            lambda value: (
                type(value) is list
                and len(value) == 2
                and all(type(extent) is int and extent >= 0 for extent in value)
            ),
        ),
        "Of flat `features`, or of `features_b64`: how many documents and features.",
        nullable=False,
    ),
)

#: Of ``POST /v2/rerank``; any other is refused by name.
COHERE = (
    _MODEL,
    Member("query", _TEXT, "Has no effect: the features say what matters of it."),
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
        _FLAG,
        "Answer the documents as they were sent, beside their scores.",
        nullable=False,
    ),
    _CONTRACT,
    _EXPLAIN,
    _COMPARE,
    Member("max_tokens_per_doc", _ANYTHING, "Has no effect."),
    Member("priority", _ANYTHING, "Has no effect."),
    Member("rank_fields", _ANYTHING, "Has no effect."),
)

#: Of the query string of ``POST /v1/adapters/ENGINE``; any other is refused by name.
ADAPTER = (
    _MODEL,
    Member("query_id", _TEXT, "The caller's name for the query."),
    _TOP_N._replace(meaning="Return only the best hits."),
    _CONTRACT,
    Member(
        "log",
        _TEXT,
        "The name of the log entry (Elasticsearch, OpenSearch) or the field (Solr) with the features, if there are several.",
    ),
    Member(
        "missing_as_zero",
        _FLAG,
        "A feature that a hit does not log is 0, as with the plug-ins' option of this name; otherwise it is missing.",
    ),
)

#: Of ``parameters`` of the Open Inference Protocol; others are the business of other servers.
INFER_PARAMETERS = (
    _TOP_N._replace(meaning="Answer only the best of each query."),
    _CONTRACT,
    Member("timeout", _integer(0), "Microseconds after which no ranking is begun; 504 if they have passed."),
    Member("binary_data_output", _FLAG, "Answer binary tensors, unless an output says otherwise."),
)

#: Of ``parameters`` of an input, and of an output.
BINARY_INPUT = (Member("binary_data_size", _integer(0), "The bytes of a tensor that follows the JSON."),)
BINARY_OUTPUT = (Member("binary_data", _FLAG, "Answer this output as a binary tensor."),)


def names_of(table: Iterable[Member]) -> tuple[str, ...]:
    """Return the names of the members, in order."""
    return tuple(member.name for member in table)


def by_name(table: Iterable[Member]) -> dict[str, Member]:
    """Return the members as the parser looks them up."""
    return {member.name: member for member in table}


def check_names(found: Iterable[str], table: Mapping[str, Member]) -> None:
    """Refuse a member that is not in the table."""
    for name in found:
        if name not in table:
            raise Problem(
                422, f"unknown member {name!r}; expected some of {', '.join(table)}", pointer=pointer(name)
            )


def check(members: Mapping[str, Any], table: Mapping[str, Member], at: str = "") -> None:
    """Refuse a value that its member does not accept."""
    for name, value in members.items():
        if (member := table.get(name)) is None or member.kind.accepts is None:
            continue
        if not (member.nullable and value is None) and not member.kind.accepts(value):
            refuse(name, member.kind.expected, value, at + pointer(name))
