"""The models that a search engine can compute: a weighted sum of features, or a sum over trees that split numbers.

The engines know nothing of a query's other documents, of clusters or of this project's blocks. So a model is refused
unless its scorer takes each document's features as they are, or with a shift and a scale that weights can absorb.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from localrank.blocks import parse
from localrank.errors import ExportRefused
from localrank.scorers import LinearScorer, SumScorer, TreesScorer
from localrank.scorers.trees import CATEGORICAL, MISSING_TYPE, MISSING_ZERO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank.arrays import Vector
    from localrank.contract import FeatureContract
    from localrank.ranker import Ranker
    from localrank.scorers import Scorer

_MOST_TREES = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class PlainWeights:
    """``[n_features]`` weights; a constant is left out, which changes no order."""

    weights: Vector


@dataclass(frozen=True, slots=True, eq=False)
class PlainTrees:
    """Forests whose scores add up; all their splits compare a number with a threshold."""

    forests: tuple[TreesScorer, ...]


def plain_form(ranker: Ranker, *, global_scorer: bool = False) -> PlainWeights | PlainTrees:
    """Return what an engine can compute of a model.

    Args:
        ranker: the model.
        global_scorer: take its global scorer, leaving its clusters out.

    Raises:
        ExportRefused: it cannot; the message says what is in the way and what to do.
    """
    if ranker.scorers and not global_scorer:
        raise ExportRefused(
            f"expected one scorer for all queries, found {len(ranker.scorers)} clusters, which need routing; "
            "use --global-scorer to export only the global scorer, or let the service rank the hits (see its "
            "adapters)"
        )
    parts = list(_parts(ranker.global_scorer))
    if all(isinstance(part, TreesScorer) for part in parts):
        forests = tuple(part for part in parts if isinstance(part, TreesScorer))
        if (n_trees := sum(forest.n_trees for forest in forests)) > _MOST_TREES:
            raise ExportRefused(
                f"expected at most {_MOST_TREES} trees, a shared forest counted wherever it stands, found {n_trees}; "
                "search engines cannot run such models"
            )
        for forest in forests:
            _check_trees(forest, ranker.contract)
        return PlainTrees(forests)
    if len(parts) == 1 and isinstance(parts[0], LinearScorer):
        return PlainWeights(_weights(parts[0], ranker.contract))
    kinds = ", ".join(sorted({part.kind for part in parts}))
    raise ExportRefused(
        f"expected a linear scorer or trees, found {kinds}; search engines cannot run such models"
    )


def _parts(scorer: Scorer) -> Iterator[Scorer]:
    if isinstance(scorer, SumScorer):
        for member in scorer.rankers:
            yield from _parts(member)
    else:
        yield scorer


def _weights(scorer: LinearScorer, contract: FeatureContract) -> Vector:
    """Let the weights absorb the blocks' scales and a normalisation by what training saw."""
    terms = parse(scorer.blocks)
    weights = np.zeros(contract.n_features)
    for term, part in zip(terms, np.split(scorer.weights, len(terms)), strict=True):
        if term.name == "raw" or (term.name == "normalised" and contract.normalise == "none"):
            divisor: Vector | float = 1.0
        elif term.name == "normalised" and contract.normalise == "global_zscore":
            divisor = contract.scale
        elif term.name == "normalised" and contract.normalise == "column_norm":
            divisor = contract.norm
        else:
            raise _per_query(term.name, contract)
        weights += part * term.scale / divisor
    return weights


def _check_trees(forest: TreesScorer, contract: FeatureContract) -> None:
    terms = parse(forest.blocks)
    term = terms[0]
    plain = term.name == "raw" or (term.name == "normalised" and contract.normalise == "none")
    if len(terms) > 1 or not plain or term.scale != 1:
        raise _per_query(forest.blocks, contract)
    if ((forest.decisions & CATEGORICAL) > 0).any():
        raise ExportRefused(
            "expected splits of numbers, found splits on categories; search engines cannot run these"
        )
    if ((forest.decisions & MISSING_TYPE) == MISSING_ZERO).any():
        raise ExportRefused(
            "expected trees that treat zero as a value, found trees that treat it as missing; search engines "
            "cannot run these"
        )


def _per_query(blocks: str, contract: FeatureContract) -> ExportRefused:
    how = f" ({contract.normalise})" if blocks == "normalised" else ""
    return ExportRefused(
        f"expected features as they are, found the block {blocks!r}{how}; search engines cannot compute this "
        'block; train with [learner] blocks = "raw", or [contract] normalise = "none"'
    )
