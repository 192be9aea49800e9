"""Kinds of values that members of requests have: what an error calls them, their JSON Schema, and how they are told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

#: The form of a number in a query string.
_DECIMAL: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?")
_WHOLE: Final = re.compile(r"[0-9]{1,18}")


class Kind(NamedTuple):
    """What a member's value is: in the sentence of an error, as JSON Schema, and as a test of the parsed value.

    What holds the documents has no test here: the wires read it piece by piece.
    """

    expected: str
    schema: Mapping[str, Any]
    accepts: Callable[[Any], bool] | None = None

    def of_text(self, text: str) -> Any:
        """Return the number or flag that a text in the query string stands for; any other text stays as it is."""
        match self.schema.get("type"):
            case "boolean":
                return {"true": True, "false": False}.get(text, text)
            case "integer":
                return int(text) if _WHOLE.fullmatch(text) else text
            case "number":
                return float(text) if _DECIMAL.fullmatch(text) else text
        return text


TEXT: Final = Kind("a text", {"type": "string"}, lambda value: type(value) is str)
ID: Final = Kind(
    "a text or an integer", {"type": ["string", "integer"]}, lambda value: type(value) in {str, int}
)
FLAG: Final = Kind("true or false", {"type": "boolean"}, lambda value: type(value) is bool)
OBJECT: Final = Kind("an object", {"type": "object"}, lambda value: type(value) is dict)
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
