"""From what a person wrote (TOML, a flag) to a frozen dataclass of settings, or one clear sentence.

A setting's type is its annotation; a `Literal` lists its choices; bounds stand in the field's metadata, made by
`setting`. Nothing is converted silently, except a whole number where a real one is wanted.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from localrank.errors import InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["check_bounds", "checked", "setting"]

T = TypeVar("T")


def setting(
    default: Any,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    meaning: str = "",
) -> Any:
    """Declare one setting of a settings dataclass.

    Args:
        default: what it is when left out.
        low: inclusive lower bound of a number.
        high: inclusive upper bound of a number.
        above: exclusive lower bound of a number.
        meaning: one line for people.
    """
    return dataclasses.field(
        default=default, metadata={"low": low, "high": high, "above": above, "meaning": meaning}
    )


def checked(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """Make a settings dataclass from a mapping.

    Args:
        kind: the dataclass.
        values: what was written.
        where: how the place is called in messages, such as ``run.toml [clustering]``.

    Raises:
        InvalidConfiguration: a name is unknown, a value has the wrong type or is out of range.
    """
    hints = get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}  # type: ignore[arg-type]
    for name in values:
        if name not in fields:
            near = difflib.get_close_matches(name, fields, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InvalidConfiguration(
                f"{where}: unknown setting {name!r}{hint} (expected: {', '.join(fields) or 'none'})"
            )
    settled = {
        name: _fitting(value, hints[name], fields[name].metadata, f"{where}: {name}")
        for name, value in values.items()
    }
    try:
        return kind(**settled)
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{where}: {error}") from None


def check_bounds(component: Any) -> None:
    """Check the numbers of a settings dataclass made in Python; for its ``__post_init__``."""
    for field in dataclasses.fields(component):
        _check_bounds(getattr(component, field.name), field.metadata, field.name)


def _fitting(value: Any, hint: Any, bounds: Mapping[str, Any], where: str) -> Any:
    for option in get_args(hint) if get_origin(hint) in {Union, types.UnionType} else (hint,):
        fits, settled = _match(value, option)
        if fits:
            _check_bounds(settled, bounds, where)
            return settled
    raise InvalidConfiguration(f"{where}: expected {_describe(hint)}, found {value!r}")


def _match(value: Any, option: Any) -> tuple[bool, Any]:
    if option is types.NoneType:
        return value is None, None
    if get_origin(option) is Literal:
        return value in get_args(option) and not isinstance(value, bool), value
    if get_origin(option) is tuple:
        inner = get_args(option)[0]
        if not isinstance(value, list | tuple) or not value:
            return False, None
        matched = [_match(member, inner) for member in value]
        return all(fits for fits, _ in matched), tuple(settled for _, settled in matched)
    if option is bool:
        return isinstance(value, bool), value
    if option is int:
        return isinstance(value, int) and not isinstance(value, bool), value
    if option is float:
        fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return fits, float(value) if fits else None
    return isinstance(value, option), value


def _check_bounds(value: Any, bounds: Mapping[str, Any], where: str) -> None:
    for number in value if isinstance(value, tuple) else (value,):
        if not isinstance(number, int | float) or isinstance(number, bool):
            continue
        low, high, above = bounds.get("low"), bounds.get("high"), bounds.get("above")
        if low is not None and number < low:
            raise InvalidConfiguration(f"{where}: expected at least {low}, found {number}")
        if high is not None and number > high:
            raise InvalidConfiguration(f"{where}: expected at most {high}, found {number}")
        if above is not None and number <= above:
            raise InvalidConfiguration(f"{where}: expected more than {above}, found {number}")


def _describe(hint: Any) -> str:
    if get_origin(hint) in {Union, types.UnionType}:
        return " or ".join(_describe(option) for option in get_args(hint) if option is not types.NoneType)
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(repr(choice) for choice in get_args(hint))
    if get_origin(hint) is tuple:
        return f"a list of {_describe(get_args(hint)[0])}s"
    names = {int: "whole number", float: "number", str: "text", bool: "true or false"}
    return names.get(hint, getattr(hint, "__name__", str(hint)))
