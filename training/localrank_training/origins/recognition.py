"""Which library wrote a model file, and its reader."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from localrank.disk import read_plain
from localrank.errors import InvalidData
from localrank_training.learners.forests import reason_of
from localrank_training.origins import catboost, lightgbm, ranklib, xgboost
from localrank_training.origins.model import MOST_FEATURES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from localrank_training.origins.model import OriginModel

#: Bytes of a model file.
_LARGEST = 1 << 28
FORMATS = ("lightgbm", "xgboost", "ranklib", "catboost-json")

#: What other files begin with, and what to do instead.
_OTHERS = (
    (b"\x80", "a Python pickle, which would run code; save the model with its library's own save_model"),
    (b"{L", "XGBoost's binary JSON; save it as text: booster.save_model('model.json')"),
    (b"CBM1", "CatBoost's binary form; save it as JSON: model.save_model('model.json', format='json')"),
    (
        b"binf",
        "XGBoost's old binary form; load it with XGBoost and save it: booster.save_model('model.json')",
    ),
)


def read_model(path: Path, form: str | None = None, names: Sequence[str] | None = None) -> OriginModel:
    """Read a model file.

    Args:
        path: of the file.
        form: one of `FORMATS`; recognised if not given.
        names: of the features, in the order of the columns, instead of those in the file.

    Raises:
        InvalidData: it cannot be imported; the message names the file, what was expected and what was found.
    """
    try:
        content = read_plain(path, _LARGEST)
    except OSError as error:
        raise InvalidData(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        model = replace(_read(content, form, None if names is None else len(names)), content=content)
        _check_size(model.n_features)
        if names is not None:
            model = replace(model, names=_checked(tuple(names), model.n_features))
        elif model.names is not None:
            _checked(model.names, model.n_features)
    except InvalidData as error:
        raise InvalidData(f"{path}: {error}") from None
    except (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        raise InvalidData(f"{path}: this model cannot be read: {reason_of(error):.300}") from None
    return model


def _read(content: bytes, form: str | None, n_names: int | None) -> OriginModel:
    for start, what in _OTHERS:
        if content.startswith(start):
            raise InvalidData(f"expected the text or JSON of a model, found {what}")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise InvalidData("expected the text or JSON of a model, found bytes that are not text") from None
    members = _json(text) if text.lstrip()[:1] in {"{", "["} else None
    found = _recognised(text, members)
    if form is not None and form != found:
        raise InvalidData(f"expected the format {form}, found {found}")
    if found == "lightgbm":
        return lightgbm.read(text)
    if found == "ranklib":
        return ranklib.read(text, n_names)
    if found == "xgboost":
        return xgboost.read(members or {})
    return catboost.read(members or {})


def _check_size(n_features: int) -> None:
    if n_features > MOST_FEATURES:
        raise InvalidData(f"expected at most {MOST_FEATURES} features, found {n_features}")


def _recognised(text: str, members: dict[str, Any] | None) -> str:
    if members is not None:
        if "learner" in members:
            return "xgboost"
        if "features_info" in members and ("oblivious_trees" in members or "trees" in members):
            return "catboost-json"
        if "tree_info" in members:
            raise InvalidData(
                "expected LightGBM's text, found its dump_model; use booster.save_model('model.txt')"
            )
    elif text.startswith(("tree\n", "tree\r\n")):
        return "lightgbm"
    elif text.startswith("##"):
        return "ranklib"
    raise InvalidData(f"expected a model of {', '.join(FORMATS)}, found something else")


def _json(text: str) -> dict[str, Any]:
    try:
        members = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidData(f"expected JSON, found: {error}") from None
    if isinstance(members, list):
        raise InvalidData(
            "expected XGBoost's model file, found its dump, which has no base score; use "
            "booster.save_model('model.json')"
        )
    return dict(members)


def _checked(names: tuple[str, ...], n_features: int) -> tuple[str, ...]:
    if len(names) != n_features:
        raise InvalidData(f"expected {n_features} names of features, found {len(names)}")
    if not all(names):
        raise InvalidData("expected every feature to have a name, found an empty one")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidData(f"expected names of features that differ, found {twice!r} twice")
    return names
