"""What an operator writes down about experiments: one JSON document, in the file and in the admin routes.

```json
{"experiments": [{"name": "web-4", "kind": "canary", "model": "web", "candidate": "web@4", "percent": 5}]}
```

Members that are left out have the defaults of their kind. An experiment with other settings is another experiment, even
if it has the same name. `Definition.run` identifies each, and their counts are never mixed.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson

from localrank.rankings import METHODS
from localrank_service.http.problems import Problem, pointer
from localrank_service.wire.members import (
    OBJECT,
    Member,
    by_name,
    check,
    check_names,
    integer,
    matching,
    number,
    one_of,
    text_of,
)
from localrank_service.wire.query import Limits
from localrank_service.wire.text import Elements, checked, refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

CANARY, SPLIT, SHADOW, INTERLEAVING = "canary", "split", "shadow", "interleaving"
KINDS: Final = (CANARY, SPLIT, SHADOW, INTERLEAVING)
SESSION, QUERY, REQUEST = "session_id", "query_id", "request"
UNITS: Final = (SESSION, QUERY, REQUEST)
#: Experiments in one document, and results that are interleaved, at most.
MOST: Final = 32
DEEPEST: Final = 100
_LARGEST_FILE: Final = 256 * 1024
_LIMITS: Final = Limits(
    MOST, refuse_extra_features=True, max_numbers=_LARGEST_FILE, max_members=_LARGEST_FILE
)

_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"

#: A member that is left out or has a value; null is neither.
_given: Final = partial(Member, nullable=False)

#: What guards a canary; any other member is refused by name.
GUARDRAILS: Final = (
    _given(
        "minimum_requests",
        integer(10, 1_000_000),
        "Requests that the candidate must have ranked before it is judged; 50 if left out.",
    ),
    _given(
        "alpha",
        number(0, 0.2, above=True),
        "The probability of taking back a candidate that is as good as the baseline, at any time; 0.01 if "
        "left out.",
    ),
    _given(
        "errors",
        number(0, 1),
        "How much larger than the baseline's the candidate's share of failed rankings may be; 0.01 if left "
        "out.",
    ),
    _given(
        "degraded",
        number(0, 1),
        "How much larger than the baseline's the candidate's share of degraded answers may be; 0.05 if left "
        "out.",
    ),
    _given(
        "latency",
        number(1, 1000),
        "How many times as long as the baseline the candidate may take to rank, compared at `quantile`; 2 if "
        "left out.",
    ),
    _given(
        "quantile",
        number(0, 0.999, above=True),
        "Which quantile of the ranking times is compared; 0.95 if left out.",
    ),
)

#: The members of one experiment; any other member is refused by name.
MEMBERS: Final = (
    _given(
        "name",
        matching(_NAME, "1 to 64 letters, digits, '.', '_' and '-', the first a letter or digit"),
        "Name of the experiment in answers, metrics and the impression log.",
    ),
    _given(
        "kind",
        one_of(KINDS),
        "`canary` and `split`: a share of the units gets the candidate's answers; a canary is taken back if "
        "it fails. `shadow`: the candidate also ranks, but its rankings are not answered. `interleaving`: "
        "each answer mixes the results of both.",
    ),
    _given(
        "model",
        matching(_NAME, "the name of a model, without @"),
        "Requests that name this model without a version or alias take part.",
    ),
    _given(
        "candidate",
        matching(rf"{_NAME}@{_NAME}", "name@version or name@alias"),
        "The version that is compared with the baseline, the model's champion. Both must take the same "
        "features.",
    ),
    _given(
        "percent",
        number(0, 100, above=True),
        "Percentage of the units that get the candidate (at most 50 for a canary), get interleaved results, "
        "or are also ranked by the shadow. If left out, 5 for a canary, 50 for a split, else 100.",
    ),
    _given(
        "unit",
        one_of(UNITS),
        "What gets an arm at random. The same `session_id` or `query_id` always gets the same arm; with "
        "`request`, each request gets one by itself. If left out, `session_id` for a canary and a split, "
        "else `request`. Requests without the unit take no part.",
    ),
    _given(
        "salt",
        text_of(1, 128),
        "Experiments with different salts assign their arms independently. If left out, the name of the "
        "experiment.",
    ),
    _given(
        "guardrails",
        OBJECT,
        "For a canary only: when it is taken back.",
    ),
    _given(
        "method",
        one_of(tuple(METHODS)),
        "For interleaving only: how to interleave; `team_draft` if left out.",
    ),
    _given(
        "depth",
        integer(1, DEEPEST),
        "For interleaving only: how many of the first results are interleaved; 10 if left out. The other "
        "results follow in the baseline's order.",
    ),
)

_MEMBERS, _GUARDRAILS = by_name(MEMBERS), by_name(GUARDRAILS)
_REQUIRED: Final = ("name", "kind", "model", "candidate")
_PERCENT: Final = {CANARY: 5.0, SPLIT: 50.0, SHADOW: 100.0, INTERLEAVING: 100.0}
#: Members that belong to only one kind.
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
    text = checked(content, _LIMITS)
    members = text.members() if text.kind == "{" else {}
    if members.keys() != {"experiments"}:
        raise Problem(422, 'expected {"experiments": [...]} and no other member', pointer="")
    listed = members["experiments"]
    elements = Elements(listed) if listed.kind == "[" else None
    if elements is None or elements.count > MOST:
        raise Problem(
            422, f"experiments: expected a list of at most {MOST} experiments", pointer="/experiments"
        )
    found = [defined(one, pointer("experiments", position)) for position, one in enumerate(elements.all())]
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
    check_names(members, _MEMBERS, at)
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
    guardrails = members.get("guardrails", {})
    check_names(guardrails, _GUARDRAILS, f"{at}/guardrails")
    check(guardrails, _GUARDRAILS, f"{at}/guardrails")
    interleaving = kind == INTERLEAVING
    return Definition(
        members["name"],
        kind,
        members["model"],
        members["candidate"],
        percent,
        str(members.get("unit", REQUEST if kind in {SHADOW, INTERLEAVING} else SESSION)),
        str(members.get("salt", members["name"])),
        Guardrails(**guardrails) if kind == CANARY else None,
        members.get("method", "team_draft") if interleaving else None,
        members.get("depth", 10) if interleaving else None,
    )


def _check_together(found: Sequence[Definition]) -> None:
    """Refuse experiments that both decide which version answers a request."""
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
