"""What requests may hold: kinds of values, and members that have the same meaning in several APIs.

Each API has a table of its members: for its reader, for OpenAPI and for the tables in docs/use/http.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn
from urllib.parse import unquote

from localrank_service.http.problems import Problem, pointer
from localrank_service.wire.query import ANSWERS, EXPLANATIONS, Limits
from localrank_service.wire.relevance import RELEVANCES
from localrank_service.wire.text import checked, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

#: The form of a number in a query string.
_DECIMAL: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?")
_WHOLE: Final = re.compile(r"[0-9]{1,18}")
#: What is of a type of JSON Schema that has entries, and how much of an entry's name a sentence shows.
_CONTAINERS: Final[Mapping[str, Any]] = {"array": list, "object": dict}
_LONGEST_STEP: Final = 40

#: What an object in a query string may hold.
_OBJECT: Final = Limits(0, refuse_extra_features=True, max_numbers=2**12, max_members=2**12)


def object_of(text: str) -> Any:
    """Return the object that a text of JSON is; any other text stays as it is."""
    try:
        return checked(text.encode(), _OBJECT).value() if text.startswith("{") else text
    except Problem:
        return text


class Kind(NamedTuple):
    """What a member's value is: in the sentence of an error, as JSON Schema, and as a test of the parsed value.

    What holds the documents has no test here: the wires read it piece by piece.
    """

    expected: str
    schema: Mapping[str, Any]
    accepts: Callable[[Any], bool] | None = None
    entries: Kind | None = None

    def refuse(self, name: str, value: Any, at: str) -> NoReturn:
        """Raise the problem of a value that is not accepted. If it holds entries, name the first wrong one."""
        if self.entries is not None and type(value) is _CONTAINERS[self.schema["type"]]:
            most = self.schema.get("maxItems", self.schema.get("maxProperties"))
            if most is not None and len(value) > most:
                raise Problem(422, f"{name}: expected at most {most} entries, found {len(value)}", pointer=at)
            steps: Iterable[tuple[str | int, Any]] = (
                value.items() if isinstance(value, dict) else enumerate(value)
            )
            for step, one in steps:
                if self.entries.accepts is not None and not self.entries.accepts(one):
                    shown = repr(
                        step
                        if isinstance(step, int)
                        else step[:_LONGEST_STEP] + "…" * (len(step) > _LONGEST_STEP)
                    )
                    self.entries.refuse(f"{name}[{shown}]", one, at + pointer(step))
        refuse(name, self.expected, value, at)

    def of_text(self, text: str) -> Any:
        """Return the number or flag that a text in the query string stands for; any other text stays as it is."""
        match self.schema.get("type"):
            case "boolean":
                return {"true": True, "false": False}.get(text, text)
            case "integer":
                return int(text) if _WHOLE.fullmatch(text) else text
            case "number":
                return float(text) if _DECIMAL.fullmatch(text) else text
            case "object":
                return object_of(text)
        return text


TEXT: Final = Kind("a text", {"type": "string"}, lambda value: type(value) is str)
ID: Final = Kind(
    "a text or an integer", {"type": ["string", "integer"]}, lambda value: type(value) in {str, int}
)
FLAG: Final = Kind("true or false", {"type": "boolean"}, lambda value: type(value) is bool)
OBJECT: Final = Kind("an object", {"type": "object"}, lambda value: type(value) is dict)
NUMBER: Final = Kind("a number", {"type": "number"}, lambda value: type(value) in {int, float})
ANYTHING: Final = Kind("anything", {})


def integer(least: int, most: int | None = None) -> Kind:
    """An integer from ``least``, up to ``most`` if there is a largest one."""
    if most is None:
        return Kind(
            f"an integer of at least {least}",
            {"type": "integer", "minimum": least},
            lambda value: type(value) is int and value >= least,
        )
    return Kind(
        f"an integer from {least} to {most}",
        {"type": "integer", "minimum": least, "maximum": most},
        lambda value: type(value) is int and least <= value <= most,
    )


def number(least: float, most: float, *, above: bool = False) -> Kind:
    """A number from ``least`` to ``most``; ``least`` itself is refused if the number must be ``above`` it."""
    if above:
        return Kind(
            f"a number above {least:g}, at most {most:.10g}",
            {"type": "number", "exclusiveMinimum": least, "maximum": most},
            lambda value: type(value) in {int, float} and least < value <= most,
        )
    return Kind(
        f"a number from {least:g} to {most:g}",
        {"type": "number", "minimum": least, "maximum": most},
        lambda value: type(value) in {int, float} and least <= value <= most,
    )


def text_of(least: int, most: int) -> Kind:
    """A text with a limited number of characters."""
    return Kind(
        f"a text of {least} to {most} characters",
        {"type": "string", "minLength": least, "maxLength": most},
        lambda value: type(value) is str and least <= len(value) <= most,
    )


def matching(pattern: str, expected: str) -> Kind:
    """A text that the pattern describes as a whole."""
    known = re.compile(pattern)
    return Kind(
        expected,
        {"type": "string", "pattern": f"^{pattern}$"},
        lambda value: type(value) is str and known.fullmatch(value) is not None,
    )


def one_of(names: Iterable[str]) -> Kind:
    """One of these texts."""
    known = tuple(names)
    return Kind(f"one of {', '.join(known)}", {"enum": list(known)}, lambda value: value in known)


class Member(NamedTuple):
    """A member of a request. If it is ``nullable``, ``null`` means the same as leaving it out."""

    name: str
    kind: Kind
    meaning: str
    nullable: bool = True


CELL = {
    "type": ["number", "string", "boolean", "null"],
    "description": "null is a missing value. Texts and truth values are values of categories.",
}
ROW = {"type": "array", "items": CELL}
#: A document of features, or of a text that is features.
TEXTUAL = {"type": "string", "description": "Features that are written as text."}
FEATURES = {
    "anyOf": [ROW, {"type": "object", "additionalProperties": CELL}],
    "description": "In the model's order, or by name; a feature that is left out is a missing value.",
}

#: Milliseconds that a request may give the server at most: an hour.
LONGEST_TIMEOUT = 3_600_000
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
#: Documents that one request may pin, and boost.
MOST_RULES = 1000
#: Members that mean the same wherever they stand.
SHARED = {
    member.name: member
    for member in (
        Member(
            "model",
            TEXT,
            "`name`, `name@version` or `name@alias`. If left out, the server's default model, or its only one.",
        ),
        Member("query_id", ID, "The caller's name for the query."),
        Member("session_id", ID, "The caller's name for the user's session."),
        Member("top_n", integer(1), "Answer only this many of the best documents."),
        Member("offset", integer(0), "Leave out this many of the best documents, those of earlier pages."),
        Member(
            "pin",
            Kind(
                f"a list of at most {MOST_RULES} ids",
                {"type": "array", "items": ID.schema, "maxItems": MOST_RULES},
                lambda value: (
                    type(value) is list
                    and len(value) <= MOST_RULES
                    and all(type(one) in {str, int} for one in value)
                ),
                ID,
            ),
            "The ids of documents that come first, in this order, whatever their scores. If the request has no ids, their "
            "positions.",
        ),
        Member(
            "boost",
            Kind(
                f"an object of at most {MOST_RULES} numbers",
                {
                    "type": "object",
                    "additionalProperties": NUMBER.schema,
                    "maxProperties": MOST_RULES,
                },
                lambda value: (
                    type(value) is dict
                    and len(value) <= MOST_RULES
                    and all(type(one) in {int, float} for one in value.values())
                ),
                NUMBER,
            ),
            "What to add to the scores of documents before they are sorted, by id. If the request has no ids, by position.",
        ),
        Member(
            "query_features",
            Kind(
                "an object of texts, numbers, true, false or null",
                {"type": "object", "additionalProperties": CELL},
                lambda value: type(value) is dict and _SCALARS.issuperset(map(type, value.values())),
                Kind("a text, a number, true, false or null", CELL, lambda one: type(one) in _SCALARS),
            ),
            "Values of features of the query, by name. The documents need not have these features then.",
        ),
        Member(
            "answer",
            # Without a title, generated clients would call it as the type of the answer.
            one_of(ANSWERS)._replace(schema={"title": "AnswerForm", "enum": list(ANSWERS)}),
            "`scores` answers `scores`, one for each document in the order of the request, instead of `results`. Boosts are in "
            "them; `pin`, `offset` and `top_n` are refused then.",
        ),
        Member(
            "relevance",
            one_of(RELEVANCES),
            "What `relevance_score` is: `sigmoid` (if left out), the logistic function of the score; `raw`, the score itself; "
            "`rank`, from 1 for the first document down to 1 / number of documents for the last.",
        ),
        Member(
            "return_documents",
            FLAG,
            'Answer each document as it was sent; a text as `{"text": …}`.',
            nullable=False,
        ),
        Member(
            "contract",
            TEXT,
            "Hash of the feature contract that the caller expects; if the model has another one, the answer is 409.",
        ),
        Member(
            "explain",
            one_of(EXPLANATIONS),
            "`route` adds `explanation`: a summary of the query's signature, the similarity to each cluster, the "
            "most similar training queries, and the scorer that answered. `contributions` adds `explanation`: what "
            "each feature adds to each score; the answer is 422 if the scorer is not a sum over features.",
        ),
        Member(
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
        ),
        Member(
            "timeout_ms",
            number(0, LONGEST_TIMEOUT, above=True),
            "Milliseconds for the ranking, from the arrival of the whole request. If that is too short for the "
            "model, a cheaper ranking answers; the cheapest is the order of the request. `degraded` says which one "
            "answered.",
        ),
        Member(
            "allow_degraded",
            FLAG,
            "If false, the answer is 504 instead of a cheaper ranking than the model's own.",
            nullable=False,
        ),
    )
}


def shared(*names: str) -> tuple[Member, ...]:
    """Return the shared members of these names."""
    return tuple(SHARED[name] for name in names)


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
            member.kind.refuse(name, value, at + pointer(name))
