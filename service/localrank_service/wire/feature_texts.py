"""Features that are written as text, for clients that know documents as texts only.

    [25.3, 0.66]   {"bm25": 25.3}   {"features": …}     JSON: in the model's order, or by name
    {main=[{name=bm25, value=25.3}, {name=price}]}      an entry of the Learning to Rank plug-ins' log, as Java writes it
    25.3 0.66                                           bare numbers, in the model's order
    1:25.3 4:90                                         as SVMlight: by position from 1; what is left out is zero
    bm25: 25.3                                          a line for each feature, up to the first empty line
    brand: nike

Each of the first four may be the whole text or its first line; what follows it has no effect. Any text takes time in proportion
to its length.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from localrank.errors import shown
from localrank.letor import decimals
from localrank.native import texts as compiled
from localrank.native.texts import MOST_LEVELS, lift_numbers
from localrank.responses import WrongHitError, features_of_entry
from localrank_service.wire import uncompiled
from localrank_service.wire.text import named_once

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from localrank.arrays import Matrix

#: As the sentence of an error names them.
FORMS = "a JSON list or object, lines of name: value, numbers, 1:0.2 2:3, or a logged entry {main=[{name=bm25, value=1.5}]}"
#: Values of one text; as many as there may be in one element of a list.
_MOST_VALUES = 2**15
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_INDEX = re.compile(r"[1-9][0-9]{0,8}")
_EMPTY_LINE = re.compile(r"\n[ \t\r]*\n")
#: What a number begins with, and how long whole numbers are that a double may round.
_BEGINS, _LONG = frozenset("-0123456789"), range(16, 20)
#: What programs write of no value.
_MISSING = frozenset({"", "null", "None", "NaN", "nan"})
_OUTLINE = b'{"features":null}'


class WrongTextError(ValueError):
    """A text has one of the forms, and something in it is wrong."""


class Places(NamedTuple):
    """The values of some features by position from 0; those of others are zero."""

    values: dict[int, Any]


def features_of(text: str, known: Collection[str]) -> list[Any] | dict[str, Any] | Places | None:
    """Return the features that a text holds: in order, by name, or by position; None if it has none of the forms.

    Values are as JSON has them: numbers, texts, truth values, None. Names may be of no feature.

    Args:
        text: of a document.
        known: names of features; each of them may stand in it once.

    Raises:
        WrongTextError: a feature stands in it twice, or it holds several logged entries.
    """
    text = text.strip()
    for part in dict.fromkeys((text, text.partition("\n")[0].rstrip())):
        found: list[Any] | dict[str, Any] | Places | None
        if part[:1] in {"[", "{"}:
            found = _of_json(part)
            found = _of_entry(part) if found is None else found
        else:
            found = _of_numbers(part)
        if found is not None:
            return found
    return _of_lines(text, known)


def rows_of(texts: Sequence[Any], numbers: int) -> Matrix | None:
    """Return ``[n_texts, width]`` if all are JSON lists of as many numbers, and there are no more numbers than this."""
    if not all(type(text) is str and text[:1] == "[" and text[-1:] == "]" for text in texts):
        return None
    # Each begins and ends a list, so that there are as many rows only if each is one.
    whole = '{"features":[' + ",".join(texts) + "]}"
    lifted = lift_numbers(whole.encode(), b"features", numbers=numbers, arrays=1)
    if lifted is None or lifted.outline != _OUTLINE or lifted.spans[0, 2] != len(texts):
        return None
    return lifted.array()


def _of_json(part: str) -> list[Any] | dict[str, Any] | None:
    content = part.encode()
    most = {"members": _MOST_VALUES, "numbers": _MOST_VALUES, "levels": MOST_LEVELS}
    if (compiled.scan(content, **most) or uncompiled.scan(content, **most)).problem:
        return None
    try:
        found: Any = orjson.loads(content)
    except orjson.JSONDecodeError:
        # A number beyond the range of float64, which becomes infinite.
        found = json.loads(content, parse_int=float)
    if not named_once(content, found):
        raise WrongTextError("holds JSON in which a name stands twice")
    if type(found) is dict and type(found.get("features")) in {list, dict}:
        found = found["features"]
    return found if type(found) in {list, dict} else None


def _of_entry(part: str) -> dict[str, Any] | None:
    """Read ``{main=[{name=x, value=1.5}, {value=2.0, name=y}, {name=z}]}``; a list of one such is as good."""
    if part[:1] == "[" and part[-1:] == "]":
        part = part[1:-1]
    begin = part.find("=[")
    if part[:1] != "{" or begin < 0 or part[-2:] != "]}":
        return None
    listed = part[begin + 2 : -2]
    if (end := listed.find("], ")) >= 0 and listed.find("=[", end) >= 0:
        name = part[1:begin]
        raise WrongTextError(f"holds several logged entries, {shown(name)} first; expected one")
    if not listed:
        return {}
    if listed[0] != "{" or listed[-1] != "}":
        return None
    values = [_logged(one) for one in listed[1:-1].split("}, {")]
    if None in values:
        return None
    try:
        return features_of_entry(values, "the entry")
    except WrongHitError as error:
        raise WrongTextError(f"holds a logged entry: {error}") from None


def _logged(one: str) -> dict[str, Any] | None:
    if one.startswith("value="):
        value, comma, name = one.removeprefix("value=").partition(", name=")
        return {"name": name, "value": _value(value)} if comma else None
    if not one.startswith("name="):
        return None
    name, comma, value = one.removeprefix("name=").rpartition(", value=")
    return {"name": name, "value": _value(value)} if comma else {"name": value}


def _of_numbers(part: str) -> list[Any] | Places | None:
    if (values := decimals(part.encode())) is not None and 0 < len(values) <= _MOST_VALUES:
        return list(values.tolist())
    tokens = part.split(None, _MOST_VALUES)
    if not tokens or len(tokens) > _MOST_VALUES:
        return None
    if ":" not in tokens[0]:
        is_number = all(_NUMBER.fullmatch(one) or one in _MISSING for one in tokens)
        return [_value(one) for one in tokens] if is_number else None
    found: dict[int, Any] = {}
    for token in tokens:
        index, colon, text = token.partition(":")
        if not colon or not _INDEX.fullmatch(index):
            return None
        value = None if text == "?" else _value(text)
        if type(value) is str:
            return None
        place = int(index) - 1
        if place in found:
            raise WrongTextError(f"holds the index {index} twice")
        found[place] = value
    return Places(found)


def _of_lines(text: str, known: Collection[str]) -> dict[str, Any] | None:
    empty = _EMPTY_LINE.search(text)
    lines = (text if empty is None else text[: empty.start()]).split("\n", _MOST_VALUES)
    found: dict[str, Any] = {}
    for line in lines[:_MOST_VALUES]:
        name, colon, value = line.partition(": ")
        name = name.strip()
        if not colon:
            if name[-1:] != ":":
                # It goes on with the value of the line before, which is of no feature.
                continue
            name = name[:-1]
        if name in found and name in known:
            raise WrongTextError(f"holds the feature {name!r} twice")
        found[name] = _value(value.strip())
    return found or None


def _value(text: str) -> Any:
    """Return a number, None for no value, or the text itself: a value of a category, or no value of a feature."""
    if text[:1] not in _BEGINS or not _NUMBER.fullmatch(text):
        return None if text in _MISSING else text
    # A long whole number may be a value of a category, which has more digits than a double.
    is_long = len(text) in _LONG and text.lstrip("-").isdecimal()
    return int(text) if is_long else float(text)
