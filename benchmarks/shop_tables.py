"""Tables of a shop: one row for each product that a query showed, as a team exports them from its own logs.

A query has a category of the shop (``segment``), an hour and a device; a product has a brand, a material, numbers and gaps. A
shopper's grade from 0 to 4 follows a utility: numbers, weighted by the segment as far as `Shop.separation` says, effects of
brand and material, an effect of the brand within the segment, and noise. So the column ``segment`` names the kind of a query
(``separation = 1``), says nothing (``separation = 0``), or there is one kind only (``kinds = 1``). The shape of the cloud of
products does not depend on the kind.

The world (weights and effects) comes from ``seed`` alone; ``sample`` draws other queries of the same world.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

#: Columns of the table, apart from its numbers.
QUERY, LABEL, KIND, HOUR, DEVICE = "query", "grade", "segment", "hour", "device"
CATEGORIES = (KIND, DEVICE, "brand", "material")
OF_QUERY = (KIND, HOUR, DEVICE)
NUMBERS = (
    "relevance",
    "price",
    "rating",
    "reviews",
    "age_days",
    "margin",
    "stock",
    "discount",
    "photos",
    "weight",
)
#: A grade is reached from this share of the products of a list on.
_GRADES = (0.5, 0.75, 0.9, 0.97)


@dataclass(frozen=True)
class Shop:
    """What a shop is like.

    Attributes:
        kinds: values of ``segment``.
        separation: 0: all kinds weigh the numbers alike; 1: each in its own way.
        named: false hides the kinds: ``segment`` is drawn apart from them.
        products: fewest and most products of a query.
        brands, materials: how many there are.
        effects: deviation of what brand, material, and brand within segment add to the utility.
        noise: deviation of what nothing explains; that of the numbers is 1.
        gaps: share of the values of numbers and materials that are missing.
        bias: exponent of the position bias; with it the label is a click (0 or 1) on a list that an older ranker ordered.
    """

    kinds: int = 7
    separation: float = 1.0
    named: bool = True
    products: tuple[int, int] = (20, 40)
    brands: int = 40
    materials: int = 12
    effects: tuple[float, float, float] = (0.4, 0.3, 0.4)
    noise: float = 0.25
    gaps: float = 0.05
    bias: float | None = None


def table(n_queries: int, shop: Shop = Shop(), *, seed: int = 0, sample: int = 0) -> pd.DataFrame:
    """Return the rows of ``n_queries`` queries, in order of the queries."""
    import pandas as pd

    world, rng = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1 + sample])
    weights, brand_effect, material_effect, own_effect = _world(shop, world)
    lengths = rng.integers(shop.products[0], shop.products[1] + 1, n_queries)
    query_of = np.repeat(np.arange(n_queries), lengths)
    kind = rng.integers(shop.kinds, size=n_queries)
    shown = kind if shop.named else rng.integers(shop.kinds, size=n_queries)
    n = len(query_of)
    latent = rng.standard_normal((n, len(NUMBERS)))
    brand, material = rng.zipf(1.3, n) % shop.brands, rng.integers(shop.materials, size=n)
    utility = np.einsum("nf,nf->n", latent, weights[kind[query_of]])
    utility += brand_effect[brand] + material_effect[material] + own_effect[shown[query_of], brand]
    utility += shop.noise * rng.standard_normal(n)
    columns: dict[str, Any] = {
        QUERY: [f"q{sample}-{query}" for query in query_of],
        LABEL: _grades(utility, lengths),
        KIND: np.array([f"segment {number}" for number in range(shop.kinds)])[shown[query_of]],
        HOUR: np.round(rng.uniform(0, 24, n_queries), 1)[query_of],
        DEVICE: np.array(["mobile", "desktop", "tablet"])[rng.integers(3, size=n_queries)][query_of],
        "brand": np.array([f"brand {number}" for number in range(shop.brands)])[brand],
        "material": np.array([f"material {number}" for number in range(shop.materials)])[material],
    }
    columns |= _measured(latent, query_of, rng)
    for name in ("material", *NUMBERS[2:]):
        lost = rng.random(n) < shop.gaps
        columns[name] = np.where(lost, None if name == "material" else np.nan, columns[name])
    if shop.bias is not None:
        columns |= _clicks(utility, latent[:, 0], lengths, shop.bias, rng)
    return pd.DataFrame(columns)


def _world(shop: Shop, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Return the weights ``[kinds, numbers]`` and the effects of brands, of materials, and of brands within kinds."""
    n = len(NUMBERS)
    common, own = rng.standard_normal(n), rng.standard_normal((shop.kinds, n))
    weights = (1.0 - shop.separation) * common + shop.separation * own
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    of_brand, of_material, of_both = shop.effects
    return (
        weights,
        of_brand * rng.standard_normal(shop.brands),
        of_material * rng.standard_normal(shop.materials),
        of_both * min(shop.separation, 1.0) * rng.standard_normal((shop.kinds, shop.brands)),
    )


def _measured(latent: np.ndarray, query_of: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return the numbers as a shop stores them: skewed, rounded, some with another level for every query."""
    level = rng.standard_normal((query_of[-1] + 1, len(NUMBERS)))[query_of]
    found = latent.copy()
    found[:, 1] = np.round(np.exp(3.0 + level[:, 1] + 0.6 * latent[:, 1]), 2)
    found[:, 2] = np.round(np.clip(4.0 + 0.5 * latent[:, 2], 1, 5), 1)
    found[:, 3] = np.floor(np.exp(2.5 + 1.2 * latent[:, 3]))
    found[:, 4] = np.floor(np.exp(4.0 + 0.8 * latent[:, 4] + 0.5 * level[:, 4]))
    found[:, 0] += 2.0 * level[:, 0]
    return dict(zip(NUMBERS, found.T, strict=True))


def _grades(utility: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return grades from 0 to 4 by each product's place in its list."""
    grades = np.empty(len(utility), np.int64)
    begin = 0
    for length in lengths.tolist():
        place = np.argsort(np.argsort(utility[begin : begin + length])) / length
        grades[begin : begin + length] = np.searchsorted(_GRADES, place, side="right")
        begin += length
    return grades


def _clicks(
    utility: np.ndarray, relevance: np.ndarray, lengths: np.ndarray, bias: float, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return the position of each product in a list by relevance, and clicks on those that were examined and liked."""
    positions = np.empty(len(utility), np.int64)
    begin = 0
    for length in lengths.tolist():
        positions[begin : begin + length] = np.argsort(np.argsort(-relevance[begin : begin + length])) + 1
        begin += length
    liked = rng.random(len(utility)) < 1 / (1 + np.exp(-2.0 * (utility - 1.0)))
    examined = rng.random(len(utility)) < positions ** -float(bias)
    return {"position": positions, LABEL: (liked & examined).astype(np.int64)}
