"""A JSON body, checked before any of it is parsed, and parsed in pieces of bounded size.

`checked` is the only way to a body's JSON. It reads the text once, without the interpreter if there is compiled code,
and refuses what is no JSON, is nested too deeply, or holds more than the limits allow. What it returns is a `Text`: a
value where it stands in the body. Arrays are then parsed run by run, so that no call of the parser takes long or makes
many objects. An object that has a member twice is refused on every wire, when it is parsed.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import orjson

from localrank.errors import shown
from localrank.native import texts as compiled
from localrank.native.texts import MOST_LEVELS
from localrank_service.http.aside import give_way
from localrank_service.http.problems import Problem, pointer
from localrank_service.wire import uncompiled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank.native.texts import Cut
    from localrank_service.wire.query import Limits

#: Largest number of members of an object whose members are read one by one; every wire has fewer.
_MOST_NAMES = 64
#: One element of an array is parsed at once: a document, a row, a query's option.
_ELEMENT_VALUES, _ELEMENT_BYTES = 2**15, 2**20
#: To describe an error, a text up to this size is parsed as a whole.
SMALL = 2**16
#: What is parsed in one piece of a body whose numbers were lifted out of it: 3 ms at most.
_OUTLINE_MEMBERS, _OUTLINE_BYTES = 2**15, 2**20

_SPACE = re.compile(rb"[ \t\r\n]*")
_CONTAINERS = frozenset({dict, list})


def checked(body: bytes, limits: Limits) -> Text:
    """Return the body's value, or raise a `Problem`: 400 if it is no JSON or too deep, 413 if it holds too much."""
    sizes = {"members": limits.max_members, "numbers": limits.max_numbers, "levels": MOST_LEVELS}
    found = compiled.scan(body, **sizes) or uncompiled.scan(body, **sizes)
    if found.problem == "syntax":
        _explain_syntax(body, found.at)
    if found.problem == "levels":
        raise Problem(400, f"the body is nested too deeply: more than {MOST_LEVELS} levels", pointer="")
    if found.problem == "members":
        most = f"{limits.max_members} values, not counting numbers in lists"
        raise Problem(413, f"the body has more than {most}, the limit of this server", pointer="")
    if found.problem == "numbers":
        most = f"{limits.max_numbers} numbers"
        raise Problem(413, f"the body has more than {most}, the limit of this server", pointer="")
    return Text(body, _after_space(body, 0), len(body), "")


def members_in(body: bytes, limits: Limits) -> dict[str, Text]:
    """Return the members of a body that is an object, or raise a `Problem`: 400, 413 or 422."""
    text = checked(body, limits)
    if text.kind != "{":
        refuse("the body", "an object", text, "")
    return text.members()


def list_in(body: bytes, limits: Limits, name: str, kind: str) -> Elements:
    """Return the elements of a list that is the one member of a body."""
    members = members_in(body, limits)
    if unknown := members.keys() - {name}:
        other = min(unknown)
        raise Problem(422, f"unknown member {other!r}; expected {name}", pointer=pointer(other))
    listed = members.get(name)
    if listed is None or listed.kind != "[":
        refuse(name, kind, listed, pointer(name))
    return Elements(listed)


def outline_members(outline: bytes) -> dict[str, Any] | None:
    """Parse what is left of a body whose numbers were lifted out of it, if it is an object and small."""
    if len(outline) > _OUTLINE_BYTES:
        return None
    sizes = {"members": _OUTLINE_MEMBERS, "numbers": _OUTLINE_MEMBERS, "levels": MOST_LEVELS}
    found = compiled.scan(outline, **sizes)
    if found is None or found.problem:
        return None
    try:
        members: Any = orjson.loads(outline)
    except orjson.JSONDecodeError:
        return None
    return members if type(members) is dict else None


class Text(NamedTuple):
    """A JSON value where it stands in a body that was checked.

    Attributes:
        body: all of it.
        begin: where the value begins in the body, and ``end`` where it ends.
        at: its JSON pointer.
    """

    body: bytes
    begin: int
    end: int
    at: str

    @property
    def kind(self) -> str:
        """The first character: ``{`` or ``[`` or ``"``, or what a number or a word begins with."""
        return chr(self.body[self.begin])

    @property
    def first(self) -> str:
        """The first character of the first element of a list."""
        return chr(self.body[_after_space(self.body, self.begin + 1)])

    @property
    def content(self) -> bytes:
        return self.body[self.begin : self.end]

    def value(self) -> Any:
        """Parse the value if it is small enough for that; what holds many is read by `Elements`."""
        size = self.end - self.begin
        if size > SMALL:
            name = self.at.removeprefix("/") or "the body"
            raise Problem(413, f"{name} has {size} bytes; expected at most {SMALL}", pointer=self.at)
        found = _parsed(self.content, self.at, None)
        if type(found) in _CONTAINERS and b":" in self.content:
            _refuse_twice(self.content)
        return found

    def members(self, most: int = _MOST_NAMES) -> dict[str, Text]:
        """Return the members of an object by name, if they are not more than ``most``."""
        found = _cut(self, single=most)
        if found.elements > most:
            name = self.at.removeprefix("/") or "the body"
            raise Problem(
                422, f"{name} has {found.elements} members; expected at most {most}", pointer=self.at
            )
        members: dict[str, Text] = {}
        for begin, end, _, _, _, colon in found.runs.tolist():
            if colon - begin > SMALL:
                raise Problem(422, f"a member's name has {colon - begin} bytes", pointer=self.at)
            name = orjson.loads(self.body[begin:colon])
            if name in members:
                raise _stands_twice(name)
            members[name] = Text(self.body, _after_space(self.body, colon + 1), end, self.at + pointer(name))
        return members

    def with_member(self, name: str, value: bytes, count: int) -> bytes:
        """Return an object of ``count`` members with this value of a member, and everything else as it stands."""
        body, quoted = self.body, orjson.dumps(name)
        for begin, end, _, _, _, colon in _cut(self, single=count).runs.tolist():
            written = body[begin:colon].rstrip()
            if written == quoted or (b"\\" in written and orjson.loads(written) == name):
                return b"%b:%b%b" % (body[self.begin : colon], value, body[end : self.end])
        return b"%b%b%b:%b}" % (self.content.rstrip()[:-1], b"," if count else b"", quoted, value)


class Elements:
    """The elements of an array, parsed run by run.

    Attributes:
        count: how many there are.
    """

    __slots__ = ("_runs", "_text", "count")

    @property
    def kind(self) -> str:
        """The first character of the first element, if there is one."""
        return chr(self._text.body[self._runs[0, 0]]) if self.count else ""

    def __init__(self, text: Text) -> None:
        found = _cut(text)
        self._text = text
        self._runs = found.runs
        self.count = found.elements

    def __iter__(self) -> Iterator[tuple[int, list[Any]]]:
        """Yield the position of the first of some elements, and these."""
        text = self._text
        first = 0
        for begin, end, count, values, names, _ in self._runs.tolist():
            if values > _ELEMENT_VALUES or end - begin > _ELEMENT_BYTES:
                at = text.at + pointer(first)
                raise Problem(
                    413,
                    f"{_path(at)} has {values} values in {end - begin} bytes; expected at most {_ELEMENT_VALUES} in "
                    f"{_ELEMENT_BYTES}",
                    pointer=at,
                )
            found: list[Any] = _parsed(b"[%b]" % text.body[begin:end], text.at, first)
            if names and names != count_members(found):
                _refuse_twice(b"[%b]" % text.body[begin:end])
            yield first, found
            first += count
            give_way()

    def __getitem__(self, position: int) -> Any:
        """Parse one element again, for an error message."""
        ends = np.cumsum(self._runs[:, 2])
        run = int(np.searchsorted(ends, position, "right"))
        begin, end, count, *_ = self._runs[run].tolist()
        first = int(ends[run]) - count
        return _parsed(b"[%b]" % self._text.body[begin:end], self._text.at, first)[position - first]

    def all(self) -> list[Any]:
        """Parse all; the caller has looked at how many they are."""
        return [element for _, run in self for element in run]

    def texts(self) -> list[Text]:
        """Return all without parsing them; the caller has looked at how many they are."""
        text = self._text
        return [
            Text(text.body, begin, end, text.at + pointer(position))
            for position, (begin, end, *_) in enumerate(_cut(text, single=self.count).runs.tolist())
        ]


def _after_space(body: bytes, at: int) -> int:
    found = _SPACE.match(body, at)
    return at if found is None else found.end()


def _cut(text: Text, single: int | None = None) -> Cut:
    given = text.body, text.begin, text.end
    return compiled.cut(*given, single=single) or uncompiled.cut(*given, single=single)


def _parsed(content: bytes, at: str, first: int | None) -> Any:
    """Parse checked text. A number beyond the range is the only error that is still possible."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        found = json.loads(content, parse_int=float)
        steps = next(_infinite(found), ())
        if first is not None and steps:
            steps = (first + int(steps[0]), *steps[1:])
        if not steps and not isinstance(found, float):
            raise Problem(400, f"the body is not JSON: {error}", pointer="") from None
        raise Problem(
            422,
            "a number is beyond the range of float32; expected a finite number",
            pointer=at + pointer(*steps),
        ) from None


def _infinite(value: Any) -> Iterator[tuple[str | int, ...]]:
    """Yield the places of numbers that are beyond the range of float64."""
    if isinstance(value, float):
        if math.isinf(value):
            yield ()
    elif isinstance(value, dict | list):
        for name, one in value.items() if isinstance(value, dict) else enumerate(value):
            for steps in _infinite(one):
                yield name, *steps


def count_members(value: Any) -> int:
    """Return how many members the objects in parsed JSON have; a member that stood twice counts once."""
    if type(value) is dict:
        return len(value) + sum(count_members(one) for one in value.values() if type(one) in _CONTAINERS)
    if _CONTAINERS.isdisjoint(map(type, value)):
        return 0
    return sum(count_members(one) for one in value if type(one) in _CONTAINERS)


def named_once(content: bytes, value: Any) -> bool:
    """Return whether no object of a JSON text that was scanned, and parsed to this, has a member twice."""
    if b":" not in content or type(value) not in _CONTAINERS:
        return True
    found = compiled.cut(content, 0, len(content)) or uncompiled.cut(content, 0, len(content))
    return int(found.runs[:, 4].sum()) == count_members(value)


def _refuse_twice(content: bytes) -> None:
    """Refuse an object that has a member twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            counts = Counter(name for name, _ in pairs)
            raise _stands_twice(next(name for name, count in counts.items() if count > 1))
        return found

    json.loads(content, object_pairs_hook=once)


def _stands_twice(name: str) -> Problem:
    return Problem(400, f"member {name!r} stands twice in one object", pointer="")


def _path(at: str) -> str:
    """Return a JSON pointer as sentences name it: ``documents[3]``."""
    steps = at.removeprefix("/").split("/")
    return "".join(
        f"[{step}]"
        if step.isdecimal()
        else ("." if position else "") + step.replace("~1", "/").replace("~0", "~")
        for position, step in enumerate(steps)
    )


def refuse(name: str, expected: str, found: Any, at: str) -> NoReturn:
    """Raise the problem of a value that is of another kind than expected."""
    if isinstance(found, Text):
        if found.kind in "[{":
            found = [] if found.kind == "[" else {}
        elif found.end - found.begin <= SMALL:
            found = found.value()
        else:
            found = found.body[found.begin : found.begin + 100].decode(errors="ignore")
    raise Problem(422, f"{name}: expected {expected}, found {shown(found)}", pointer=at)


def _explain_syntax(body: bytes, at: int) -> NoReturn:
    """Say what is wrong with a body that is no JSON; reading it ended there."""
    if not body.strip():
        raise Problem(400, "the body is empty; expected a JSON object", pointer="")
    said = f"unexpected {body[at : at + 12].decode(errors='replace')!r}" if at < len(body) else "it ends"
    said += f" at byte {at}"
    if len(body) <= SMALL:
        try:
            orjson.loads(body)
        except orjson.JSONDecodeError as error:
            at = len(body.decode(errors="replace")[: error.pos].encode())
            said = str(error)
    rest = body[at : at + 12].lower()
    for constant, begins in (("NaN", b"nan"), ("Infinity", b"inf"), ("-Infinity", b"-inf")):
        if rest.startswith(begins):
            said = f"{constant} at byte {at}; a missing value is null"
    raise Problem(400, f"the body is not JSON: {said}", pointer="")
