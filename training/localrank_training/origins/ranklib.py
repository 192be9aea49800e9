"""RankLib's model files: ensembles of trees, linear weights, and RankBoost's steps.

A feature that is not in a line of data is zero to RankLib, so a missing value becomes zero. Normalisation (``-norm``) is
not in the file: features must come as they were when the model was trained.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import numpy as np

from localrank.errors import InvalidData
from localrank.scorers import LinearScorer, StumpScorer
from localrank.scorers.trees import MISSING_NONE
from localrank_training.origins.model import MOST_FEATURES, Grove, OriginModel, TreeSplit

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from localrank.scorers import Scorer

#: RankLib adds up in float32.
_TOLERANCE = 1e-5
_TREES = ("LambdaMART", "MART", "Random Forests")
_WEIGHTS = ("Coordinate Ascent", "AdaRank", "Linear Regression")
_STEPS = "RankBoost"
_NOTE = (
    "RankLib files do not hold the normalisation (-norm); send features that are normalised as in training"
)


def read(text: str, n_features: int | None = None) -> OriginModel:
    """Read the model; the file does not say how many features there are beyond those that it uses.

    Raises:
        InvalidData: it is of a kind that cannot be imported, or not what RankLib writes.
    """
    kind = text.splitlines()[0].removeprefix("##").strip()
    body = "\n".join(line for line in text.splitlines() if not line.startswith("##")).strip()
    try:
        offset = 0.0
        scorer: Scorer
        if kind in _TREES:
            scorer, used = _trees(body, kind)
        elif kind in _WEIGHTS:
            weights, offset = _weights(body)
            used = len(weights)
            scorer = LinearScorer(np.pad(weights, (0, max(0, (n_features or used) - used))), "raw")
        elif kind == _STEPS:
            scorer, used = _steps(body)
        else:
            known = ", ".join((*_TREES, *_WEIGHTS, _STEPS))
            raise InvalidData(f"RankLib: expected one of {known}, found {kind!r}")
    except (ValueError, ET.ParseError, AttributeError, TypeError) as error:
        raise InvalidData(f"RankLib: this {kind} model cannot be read: {error}") from None
    if n_features is not None and used > n_features:
        raise InvalidData(f"RankLib: the model looks at feature {used}, found {n_features} names of features")
    return OriginModel(
        "ranklib", scorer, n_features or used, None, "zero", offset, tolerance=_TOLERANCE, notes=(_NOTE,)
    )


def _trees(body: str, kind: str) -> tuple[Scorer, int]:
    if "<!" in body:
        raise ValueError("expected plain elements, found a declaration")
    ensembles = ET.fromstring(f"<all>{body}</all>").findall("ensemble")  # noqa: S314 - no declarations
    if not ensembles or (len(ensembles) > 1 and kind != "Random Forests"):
        raise ValueError(f"expected <ensemble>, found {len(ensembles)} of them")
    grove = Grove()
    for ensemble in ensembles:
        for tree in ensemble.findall("tree"):
            weight = float(np.float32(tree.attrib["weight"])) / len(ensembles)
            grove.plant(tree.find("split"), functools.partial(_look, weight=weight), 1 << 30)
    scorer = grove.scorer()
    return scorer, scorer.n_features


def _look(node: Element, weight: float) -> TreeSplit | float:
    output = node.find("output")
    if output is not None:
        return float(np.float32((output.text or "").strip())) * weight
    feature, threshold = node.find("feature"), node.find("threshold")
    sides = {child.attrib.get("pos"): child for child in node.findall("split")}
    if feature is None or threshold is None or set(sides) != {"left", "right"}:
        raise ValueError("expected a split to have a feature, a threshold, a left and a right side")
    at = float(np.float32((threshold.text or "").strip()))
    return TreeSplit(_position(feature.text or ""), at, MISSING_NONE, sides["left"], sides["right"])


def _weights(body: str) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], float]:
    """Read ``1:0.5 2:-0.3``; feature 0 is what every score starts from, and repeated features add up."""
    offset, found = 0.0, dict[int, float]()
    for term in body.split():
        feature, _, weight = term.partition(":")
        if int(feature) == 0:
            offset += float(weight)
            continue
        position = _position(feature)
        found[position] = found.get(position, 0.0) + float(weight)
    if not found:
        raise ValueError("expected feature:weight, found nothing")
    weights = np.zeros(max(found) + 1)
    weights[list(found)] = list(found.values())
    return weights, offset


def _steps(body: str) -> tuple[Scorer, int]:
    """Read ``3:0.25:1.5``: feature, threshold, and what is added above it."""
    terms = [term.split(":") for term in body.split()]
    if not terms or any(len(term) != 3 for term in terms):
        raise ValueError("expected feature:threshold:weight")
    features = np.array([_position(feature) for feature, _, _ in terms], np.int64)
    lowest = -np.finfo(np.float64).max  # RankLib's -Infinity: every value is above it
    thresholds = np.array([max(float(threshold), lowest) for _, threshold, _ in terms])
    steps = np.array([float(step) for _, _, step in terms])
    return StumpScorer.of(features, thresholds, steps, "raw"), int(features.max()) + 1


def _position(feature: str) -> int:
    """Return the column of a feature, which RankLib counts from 1."""
    number = int(feature)
    if not 1 <= number <= MOST_FEATURES:
        raise ValueError(f"expected a feature from 1 to {MOST_FEATURES}, found {number}")
    return number - 1
