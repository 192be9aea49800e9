"""What an operator writes down about experiments: one JSON document, in the file and in the admin routes.

```json
{"experiments": [{"name": "web-4", "kind": "canary", "model": "web", "candidate": "web@4", "percent": 5}]}
```

Members that are left out have the defaults of their kind. An experiment with other settings is another experiment, even
if it has the same name. `Definition.run` identifies each, and their counts are never mixed.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from localrank.interleaving import METHODS
from localrank_service.http.problems import Problem, pointer
from localrank_service.wire.members import Kind, Member, by_name, check, check_names
from localrank_service.wire.text import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "CANARY",
    "GUARDRAILS",
    "INTERLEAVING",
    "KINDS",
    "MEMBERS",
    "SHADOW",
    "SPLIT",
    "UNITS",
    "Definition",
    "Guardrails",
    "defined",
    "document",
    "parse",
]

CANARY, SPLIT, SHADOW, INTERLEAVING = "canary", "split", "shadow", "interleaving"
KINDS: Final = (CANARY, SPLIT, SHADOW, INTERLEAVING)
SESSION, QUERY, REQUEST = "session_id", "query_id", "request"
UNITS: Final = (SESSION, QUERY, REQUEST)
#: Experiments in one document, and results that are interleaved, at most.
MOST: Final = 32
DEEPEST: Final = 100
_LARGEST_FILE: Final = 256 * 1024


def _number(least: float, most: float, *, open_below: bool = True) -> Kind:
    said = f"a number {'above' if open_below else 'from'} {least:g}, at most {most:g}"
    return Kind(
        said,
        {
            "type": "number",
            ("exclusiveMinimum" if open_below else "minimum"): least,
            "maximum": most,
        },
        lambda value: (
            type(value) in {int, float}
            and (least < value if open_below else least <= value)
            and value <= most
        ),
    )


def _whole(least: int, most: int) -> Kind:
    return Kind(
        f"an integer from {least} to {most}",
        {"type": "integer", "minimum": least, "maximum": most},
        lambda value: type(value) is int and least <= value <= most,
    )


def _named(pattern: str, expected: str) -> Kind:
    known = re.compile(pattern)
    return Kind(
        expected,
        {"type": "string", "pattern": f"^{pattern}$"},
        lambda value: type(value) is str and known.fullmatch(value) is not None,
    )


def _one_of(names: Sequence[str]) -> Kind:
    return Kind(f"one of {', '.join(names)}", {"enum": list(names)}, lambda value: value in names)


_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"

#: What guards a canary; any other member is refused by name.
GUARDRAILS: Final = (
    Member(
        "minimum_requests",
        _whole(10, 1_000_000),
        "Requests that the candidate must have ranked before it is judged; 50 if left out.",
        nullable=False,
    ),
    Member(
        "alpha",
        _number(0, 0.2),
        "The probability of taking back a candidate that is as good as the baseline, at any time; 0.01 if "
        "left out.",
        nullable=False,
    ),
    Member(
        "errors",
        _number(0, 1, open_below=False),
        "How much larger than the baseline's the candidate's share of failed rankings may be; 0.01 if left "
        "out.",
        nullable=False,
    ),
    Member(
        "degraded",
        _number(0, 1, open_below=False),
        "How much larger than the baseline's the candidate's share of degraded answers may be; 0.05 if left "
        "out.",
        nullable=False,
    ),
    Member(
        "latency",
        _number(1, 1000, open_below=False),
        "How many times as long as the baseline the candidate may take to rank, compared at `quantile`; 2 if "
        "left out.",
        nullable=False,
    ),
    Member(
        "quantile",
        _number(0, 0.999),
        "Which quantile of the ranking times is compared; 0.95 if left out.",
        nullable=False,
    ),
)

#: The members of one experiment; any other member is refused by name.
MEMBERS: Final = (
    Member(
        "name",
        _named(_NAME, "1 to 64 letters, digits, '.', '_' and '-', the first a letter or digit"),
        "Name of the experiment in answers, metrics and the impression log.",
        nullable=False,
    ),
    Member(
        "kind",
        _one_of(KINDS),
        "`canary` and `split`: a share of the units gets the candidate's answers; a canary is taken back if "
        "it fails. `shadow`: the candidate also ranks, but its rankings are not answered. `interleaving`: "
        "each answer mixes the results of both.",
        nullable=False,
    ),
    Member(
        "model",
        _named(_NAME, "the name of a model, without @"),
        "Requests that name this model without a version or alias take part.",
        nullable=False,
    ),
    Member(
        "candidate",
        _named(rf"{_NAME}@{_NAME}", "name@version or name@alias"),
        "The version that is compared with the baseline, the model's champion. Both must take the same "
        "features.",
        nullable=False,
    ),
    Member(
        "percent",
        _number(0, 100),
        "Percentage of the units that get the candidate (at most 50 for a canary), get interleaved results, "
        "or are also ranked by the shadow. If left out, 5 for a canary, 50 for a split, else 100.",
        nullable=False,
    ),
    Member(
        "unit",
        _one_of(UNITS),
        "What gets an arm at random. The same `session_id` or `query_id` always gets the same arm; with "
        "`request`, each request gets one by itself. If left out, `session_id` for a canary and a split, "
        "else `request`. Requests without the unit take no part.",
        nullable=False,
    ),
    Member(
        "salt",
        Kind(
            "a text of 1 to 128 characters",
            {"type": "string", "minLength": 1, "maxLength": 128},
            lambda value: type(value) is str and 0 < len(value) <= 128,
        ),
        "Experiments with different salts assign their arms independently. If left out, the name of the "
        "experiment.",
        nullable=False,
    ),
    Member(
        "guardrails",
        Kind("an object", {"type": "object"}, lambda value: type(value) is dict),
        "For a canary only: when it is taken back.",
        nullable=False,
    ),
    Member(
        "method",
        _one_of(tuple(METHODS)),
        "For interleaving only: how to interleave; `team_draft` if left out.",
        nullable=False,
    ),
    Member(
        "depth",
        _whole(1, DEEPEST),
        "For interleaving only: how many of the first results are interleaved; 10 if left out. The other "
        "results follow in the baseline's order.",
        nullable=False,
    ),
)

_MEMBERS, _GUARDRAILS = by_name(MEMBERS), by_name(GUARDRAILS)
_REQUIRED: Final = ("name", "kind", "model", "candidate")
_PERCENT: Final = {CANARY: 5.0, SPLIT: 50.0, SHADOW: 100.0, INTERLEAVING: 100.0}
#: Members that only one kind has.
_OF_KIND: Final = {"guardrails": CANARY, "method": INTERLEAVING, "depth": INTERLEAVING}
#: A canary needs a baseline to be compared with.
_MOST_OF_CANARY: Final = 50.0


@dataclass(frozen=True, slots=True)
class Guardrails:
    """When a canary is taken back; `MEMBERS` says what each means."""

    minimum_requests: int = 50
    alpha: float = 0.01
    errors: float = 0.01
    degraded: float = 0.05
    latency: float = 2.0
    quantile: float = 0.95


@dataclass(frozen=True, slots=True)
class Definition:
    """One experiment; `MEMBERS` says what each of its members means.

    Attributes:
        run: tells experiments of the same name apart that differ in anything.
    """

    name: str
    kind: str
    model: str
    candidate: str
    percent: float
    unit: str
    salt: str
    guardrails: Guardrails | None = None
    method: str | None = None
    depth: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return all settings, also those that were left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def run(self) -> str:
        return hashlib.sha256(orjson.dumps(self.to_json(), option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]


def parse(content: bytes) -> tuple[Definition, ...]:
    """Read a document, or raise a `Problem`, 400 or 422, that says what is wrong where."""
    if len(content) > _LARGEST_FILE:
        raise Problem(413, f"{len(content)} bytes; expected at most {_LARGEST_FILE}", pointer="")
    try:
        members = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise Problem(400, f"not JSON: {error}", pointer="") from None
    if type(members) is not dict or members.keys() != {"experiments"}:
        raise Problem(422, 'expected {"experiments": [...]} and no other member', pointer="")
    listed = members["experiments"]
    if type(listed) is not list or len(listed) > MOST:
        raise Problem(
            422, f"experiments: expected a list of at most {MOST} experiments", pointer="/experiments"
        )
    found = [defined(one, pointer("experiments", position)) for position, one in enumerate(listed)]
    _check_together(found)
    return tuple(found)


def document(definitions: Sequence[Definition]) -> bytes:
    """Return the document of these experiments."""
    members = {"experiments": [one.to_json() for one in definitions]}
    return orjson.dumps(members, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def defined(members: Any, at: str = "") -> Definition:
    """Read one experiment."""
    if type(members) is not dict:
        refuse("an experiment", "an object", members, at)
    try:
        check_names(members, _MEMBERS)
    except Problem as problem:
        problem.pointer = f"{at}{problem.pointer}"
        raise
    for name in _REQUIRED:
        if name not in members:
            raise Problem(422, f"an experiment without {name}; expected {', '.join(_REQUIRED)}", pointer=at)
    check(members, _MEMBERS, at)
    kind = members["kind"]
    for name, only in _OF_KIND.items():
        if name in members and kind != only:
            raise Problem(422, f"{name} needs kind {only}, found {kind}", pointer=at + pointer(name))
    percent = float(members.get("percent", _PERCENT[kind]))
    if kind == CANARY and percent > _MOST_OF_CANARY:
        raise Problem(
            422,
            f"percent: expected at most {_MOST_OF_CANARY:g} for a canary, which is compared with the rest, found {percent:g}",
            pointer=f"{at}/percent",
        )
    interleaving = kind == INTERLEAVING
    return Definition(
        members["name"],
        kind,
        members["model"],
        members["candidate"],
        percent,
        str(members.get("unit", REQUEST if kind in {SHADOW, INTERLEAVING} else SESSION)),
        str(members.get("salt", members["name"])),
        _guardrails(members.get("guardrails", {}), f"{at}/guardrails") if kind == CANARY else None,
        members.get("method", "team_draft") if interleaving else None,
        members.get("depth", 10) if interleaving else None,
    )


def _guardrails(members: Mapping[str, Any], at: str) -> Guardrails:
    try:
        check_names(members, _GUARDRAILS)
    except Problem as problem:
        problem.pointer = f"{at}{problem.pointer}"
        raise
    check(members, _GUARDRAILS, at)
    return Guardrails(**members)


def _check_together(found: Sequence[Definition]) -> None:
    """Refuse experiments that would not know which of them answers a request."""
    names: set[str] = set()
    answering: dict[str, str] = {}
    for position, one in enumerate(found):
        at = pointer("experiments", position)
        if one.name in names:
            raise Problem(422, f"two experiments are called {one.name!r}", pointer=f"{at}/name")
        names.add(one.name)
        if one.kind == SHADOW:
            continue
        if (other := answering.setdefault(one.model, one.name)) != one.name:
            raise Problem(
                422,
                f"{one.name!r} and {other!r} both decide which version of {one.model!r} answers; expected one "
                "such experiment at a time; only shadows may run besides",
                pointer=f"{at}/model",
            )
