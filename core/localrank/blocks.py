"""The named blocks of features that a scorer may ask for, and the text for several of them, a *wish*.

A wish is a text: one block, ``raw``, or several next to each other, ``[minmax, zscore * 0.25, rank]``. A scale
multiplies its block. The text is what configurations, scorers and artifacts hold; `parse` reads it and `written` gives it
its one spelling.

What the blocks hold is defined in `localrank.cloud`. How wide they are depends on the model: `FeatureContract.widths`.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from localrank.errors import InvalidConfiguration
from localrank.spelling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Every block by name, with its meaning in short.
BLOCKS: dict[str, str] = {
    "raw": "imputed values",
    "normalised": "values on the scale of the contract",
    "minmax": "from 0 to 1 within the list",
    "zscore": "mean 0 and deviation 1 within the list",
    "rank": "mid-rank percentile within the list",
    "to_best": "distance to the largest value of the list, in standard deviations of the training values",
    "quadratic": "products of every two values on the scale of the contract, and their squares",
    "list": "logarithm of the number of documents, and the spectrum of the list",
    "route": "similarity and shares of the clusters; known after routing only",
}
#: Weighting blocks against each other needs no larger scale.
_LARGEST_SCALE = 1000.0
_TERM = re.compile(r"\s*([a-z_]+)\s*(?:\*\s*([0-9.eE+-]+)\s*)?")


class Block(NamedTuple):
    """One block of a wish, and its factor."""

    name: str
    scale: float = 1.0

    def __str__(self) -> str:
        return self.name if self.scale == 1 else f"{self.name} * {str(self.scale).removesuffix('.0')}"


@lru_cache(1024)
def parse(text: str) -> tuple[Block, ...]:
    """Read a wish such as ``raw`` or ``[minmax, zscore * 0.25, rank]``.

    Raises:
        InvalidConfiguration: the text is not a wish, a block is unknown or comes twice, or a scale is out of range.
    """
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]"):
        inner = inner[1:-1]
    blocks = tuple(_block(term, text) for term in inner.split(","))
    names = [block.name for block in blocks]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InvalidConfiguration(
            f"blocks: expected every block once, found {twice!r} twice in {text!r:.80}"
        )
    return blocks


def written(blocks: Iterable[Block]) -> str:
    """Return the text of a wish."""
    terms = [str(block) for block in blocks]
    return terms[0] if len(terms) == 1 else f"[{', '.join(terms)}]"


def canonical(text: str) -> str:
    """Return the one spelling of a wish; raise what `parse` raises."""
    return written(parse(text))


def union(texts: Iterable[str]) -> str:
    """Return the wish for every block of several wishes, without scales."""
    return written(
        Block(name) for name in dict.fromkeys(block.name for text in texts for block in parse(text))
    )


def width_of(text: str, widths: Mapping[str, int]) -> int:
    """Return how many columns a wish has, given those of each block."""
    return sum(widths[block.name] for block in parse(text))


def _block(term: str, text: str) -> Block:
    found = _TERM.fullmatch(term)
    if found is None:
        raise InvalidConfiguration(
            f"blocks: expected blocks such as [minmax, zscore * 0.25, rank], found {text!r:.80}"
        )
    name, scale = found[1], 1.0
    if name not in BLOCKS:
        expected = f"expected one of {', '.join(BLOCKS)}, found {name!r}"
        raise InvalidConfiguration(f"blocks: {expected}{did_you_mean(name, BLOCKS)}")
    if found[2] is not None:
        try:
            scale = float(found[2])
        except ValueError:
            scale = math.nan
        if not 0 < scale <= _LARGEST_SCALE:
            raise InvalidConfiguration(
                f"blocks: {name}: expected a scale above 0 and up to {_LARGEST_SCALE:g}, found {found[2]}"
            )
    return Block(name, scale)
