"""Golden files: what our own code wrote once, so that a test notices every change of it.

They prove nothing by themselves; other tests calculate the same numbers another way. After a change that is meant, write
them anew, and read the difference before it is committed:

    LOCALRANK_WRITE_GOLDEN=1 python -m pytest tests/training -k golden

Numbers are compared with a tolerance, as libraries and processors round in different ways. A file also says with which
libraries it was made: with others, whose learners may come to something else, the test is skipped.
"""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import MISSING, fields, is_dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from pathlib import Path

#: Libraries whose next minor version may come to other numbers.
LIBRARIES = ("numpy", "scipy", "scikit-learn", "lightgbm")
_ANEW = "If this change is meant, run the test with LOCALRANK_WRITE_GOLDEN=1 and read what git diff shows."
#: A number with a point, as a text has it.
_DECIMAL = re.compile(r"[-−+]?\d[\d,]*(?:\.\d+)?e[-+]?\d+|[-−+]?\d[\d,]*\.\d+")


def agree(path: Path, found: Any, *, rel: float = 1e-4, abs: float = 1e-5) -> None:  # noqa: A002 - as pytest.approx has it
    """Compare what `described` makes of a value with a JSON file, or write the file."""
    plain = described(found)
    if _writing():
        made_with = {"made with": _versions(), "found": plain}
        path.parent.mkdir(exist_ok=True)
        path.write_text(_lines(json.dumps(made_with, indent=1, ensure_ascii=False)) + "\n", encoding="utf-8")
    kept = json.loads(path.read_text(encoding="utf-8"))
    _skip_unless(kept["made with"])
    wrong = list(_differences(kept["found"], plain, "", rel, abs))
    assert not wrong, f"{path.name}, expected and found:\n" + "\n".join(wrong[:20]) + f"\n{_ANEW}"


def agree_exactly(path: Path, found: str) -> None:
    """Compare a text with a file to the letter, or write the file: for what no library rounds."""
    if _writing():
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == found, _ANEW


def described(value: Any) -> Any:
    """Return JSON values: a dataclass as its name and the fields that are not as by default, numbers with seven digits."""
    if is_dataclass(value) and not isinstance(value, type):
        shown = {
            one.name: described(getattr(value, one.name))
            for one in fields(value)
            if one.default is MISSING or getattr(value, one.name) != one.default
        }
        return {"kind": type(value).__name__, **shown}
    if isinstance(value, np.ndarray):
        flat = [described(one) for one in value.ravel().tolist()]
        return flat if value.ndim == 1 else {"shape": list(value.shape), "numbers": flat}
    if isinstance(value, np.generic):
        return described(value.item())
    if isinstance(value, dict):
        return {str(key): described(member) for key, member in value.items()}
    if isinstance(value, list | tuple | range):
        return [described(member) for member in value]
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else str(value)
    return value


def _writing() -> bool:
    return bool(os.environ.get("LOCALRANK_WRITE_GOLDEN"))


def _versions() -> dict[str, str]:
    return {name: ".".join(version(name).split(".")[:2]) for name in LIBRARIES}


def _stamp(versions: dict[str, str]) -> str:
    return "made with " + ", ".join(f"{name} {number}" for name, number in versions.items())


def _skip_unless(versions: dict[str, str]) -> None:
    if versions != _versions():
        pytest.skip(f"{_stamp(versions)}; found {_stamp(_versions())}")


def _differences(expected: Any, found: Any, where: str, rel: float, near: float) -> Any:
    if isinstance(expected, dict) and isinstance(found, dict) and list(expected) == list(found):
        for key in expected:
            yield from _differences(expected[key], found[key], f"{where}.{key}", rel, near)
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from _differences(one, other, f"{where}[{number}]", rel, near)
    elif isinstance(expected, float) and isinstance(found, float):
        if not math.isclose(expected, found, rel_tol=rel, abs_tol=near):
            yield f"{where}: {expected!r}, {found!r}"
    elif isinstance(expected, str) and isinstance(found, str):
        if not _alike(expected, found, rel, near):
            yield f"{where}: {expected!r}, {found!r}"
    elif type(expected) is not type(found) or expected != found:
        yield f"{where}: {expected!r}, {found!r}"


def _alike(expected: str, found: str, rel: float, near: float) -> bool:
    """Tell whether texts are the same, but for the last digits of their numbers."""
    if expected == found:
        return True
    if _DECIMAL.sub("#", expected) != _DECIMAL.sub("#", found):
        return False
    return all(
        math.isclose(_number(one), _number(other), rel_tol=rel, abs_tol=max(near, 1.01 * _last_digit(one)))
        for one, other in zip(_DECIMAL.findall(expected), _DECIMAL.findall(found), strict=True)
    )


def _number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


def _last_digit(text: str) -> float:
    """Return what one is worth in the last digit of a number."""
    digits, _, power = text.partition("e")
    return float(10.0 ** (int(power or 0) - len(digits.partition(".")[2])))


def _lines(text: str) -> str:
    """Put lists of numbers and words on one line each."""
    return re.sub(
        r"\[\s+([^\[\]{}]*?)\s+\]", lambda found: "[" + re.sub(r"\s*\n\s*", " ", found[1]) + "]", text
    )
