"""LightGBM's text, as ``Booster.save_model`` writes it [ke2017].

The arithmetic of the trees is LightGBM's own, so the scores are equal to the bit (`Booster.predict` with ``raw_score``).
Files that were saved after early stopping hold the rounds up to the best only.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from localrank.errors import InvalidData
from localrank_training.learners.forests import from_lightgbm
from localrank_training.origins.model import OriginModel, values_of

if TYPE_CHECKING:
    from collections.abc import Sequence


def read(text: str) -> OriginModel:
    """Read the model.

    Raises:
        InvalidData: it is cut off, gives several scores, has linear models in its leaves, or does not say which features
            are its categories.
    """
    text = text.replace("\r\n", "\n")
    scorer = from_lightgbm(text)
    if "\nparameters:\n" in text and "\nend of parameters\n" not in text:
        # The trees are whole, but LightGBM itself crashes on such a file when it is asked for its scores.
        raise InvalidData("LightGBM: expected 'end of parameters', found the end of the file: it is cut off")
    head = text.split("\nTree=", 1)[0]
    fields = dict(line.split("=", 1) for line in head.split("\n") if "=" in line)
    names = tuple(fields.get("feature_names", "").split(" ")) if fields.get("feature_names") else None
    n_features = _count(fields.get("max_feature_idx"), names, scorer.n_features)
    averaged = "average_output" in head.split("\n")
    return OriginModel(
        format="lightgbm",
        scorer=scorer,
        n_features=n_features,
        names=names,
        missing="nan",
        # A mean of trees is a sum of smaller leaves here, which rounds in another place.
        tolerance=1e-12 if averaged else 0.0,
        ranges=_ranges(fields.get("feature_infos", ""), n_features),
        categories=_categories(text, fields.get("feature_infos", "").split(" ")),
    )


def _count(highest: str | None, names: tuple[str, ...] | None, used: int) -> int:
    if highest is None or not highest.isdecimal():
        raise InvalidData(f"LightGBM: expected max_feature_idx to be a number, found {highest!r}")
    count = int(highest) + 1
    if (names is not None and len(names) != count) or used > count:
        raise InvalidData(
            f"LightGBM: expected {count} features by max_feature_idx, found {len(names or ())} names and trees "
            f"that look at {used}"
        )
    return count


def _categories(text: str, infos: Sequence[str]) -> dict[int, tuple[str, ...]]:
    """Return the values of each category of a pandas frame; their positions are the codes that the trees were grown on.

    The line at the end has one list for each column of categories, in the order of the columns. Which columns these are,
    ``feature_infos`` says: ``[low:high]`` is a number, ``0:2:1`` a category, and ``none`` an unused column of either kind.
    """
    last = text.rstrip("\n").rsplit("\n", 1)[-1]
    if not last.startswith("pandas_categorical:"):
        return {}
    try:
        listed = json.loads(last.partition(":")[2]) or []
    except json.JSONDecodeError:
        listed = []
    try:
        values = [values_of("LightGBM", one) for one in listed]
    except TypeError as error:
        raise InvalidData(f"LightGBM: pandas_categorical: expected lists of values, found {error}") from None
    columns = [at for at, info in enumerate(infos) if not info.startswith("[") and info != "none"]
    if values and len(columns) != len(values):
        raise InvalidData(
            f"LightGBM: expected to find which features are the {len(values)} categories of the pandas frame, found "
            f"{len(columns)} that the trees use; leave unused columns out and train again"
        )
    return dict(zip(columns, values, strict=True)) if values else {}


def _ranges(infos: str, n_features: int) -> tuple[tuple[float, float] | None, ...] | None:
    """Read ``[low:high]`` of each feature; categories and unused features have none."""
    parts = infos.split(" ")
    if len(parts) != n_features:
        return None
    ranges: list[tuple[float, float] | None] = []
    for part in parts:
        low, _, high = part.removeprefix("[").removesuffix("]").partition(":")
        try:
            ranges.append((float(low), float(high)) if part.startswith("[") else None)
        except ValueError:
            ranges.append(None)
    return tuple(ranges)
