"""Configurations as TOML text: the standard library reads TOML and does not write it."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import TYPE_CHECKING, Any

from localrank.settings import plain, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from localrank_training.config import TrainingConfig

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(tables: Mapping[str, Any]) -> str:
    """Write a configuration's tables; top-level values come first, as TOML wants."""
    return "\n".join(_lines(tables, "", {})).lstrip("\n") + "\n"


def annotated(config: TrainingConfig) -> str:
    """Write a whole configuration, every setting with its meaning; it reads back to the same.

    A setting without a value is a comment.
    """
    meanings: dict[str, str] = {}
    tables: dict[str, Any] = {}
    for one in settings_of(type(config)):
        value = getattr(config, one.name)
        if not dataclasses.is_dataclass(value):
            tables[one.name], meanings[one.name] = value, one.meaning
            continue
        if one.name == "learner":
            # Only what was written is there; the rest has the learner's defaults.
            described = settings_of(config.learner.kind)
            unwritten = {setting.name: plain(setting.default) for setting in described}
            tables[one.name] = {"method": config.learner.method, **unwritten, **plain(value)}
        else:
            described = settings_of(type(value))
            tables[one.name] = {setting.name: None for setting in described} | plain(value)
        meanings |= {f"{one.name}.{setting.name}": setting.meaning for setting in described}
    return "\n".join(_lines(tables, "", meanings)).lstrip("\n") + "\n"


def value_text(value: Any) -> str:
    """Write one value."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(name)} = {value_text(member)}" for name, member in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(value_text, value))}]"
    # JSON's texts, numbers and booleans are TOML's.
    return json.dumps(value, ensure_ascii=False)


def _lines(tables: Mapping[str, Any], path: str, meanings: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a table: its values, then the tables and lists of tables in it."""
    inner = {}
    for name, value in tables.items():
        place = f"{path}.{name}" if path else name
        if (isinstance(value, dict) and not path) or _is_tables(value):
            inner[place] = value
        else:
            meaning = meanings.get(place)
            unset = value is None or value == []
            line = f"# {_key(name)} is not set" if unset else f"{_key(name)} = {value_text(value)}"
            yield line + (f"  # {meaning}" if meaning else "")
    for place, value in inner.items():
        for table in value if isinstance(value, list) else [value]:
            yield ""
            yield f"[[{place}]]" if isinstance(value, list) else f"[{place}]"
            yield from _lines(table, place, meanings)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(member, dict) for member in value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
