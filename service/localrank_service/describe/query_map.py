"""The training queries in two dimensions, and what to say of a model that has no map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from localrank_service.http.problems import Problem

if TYPE_CHECKING:
    from localrank.representation import Point
    from localrank_service.models.live import LiveModel

#: Digits of a coordinate; a picture shows three.
_DIGITS = 5


def summary(model: LiveModel) -> dict[str, Any] | None:
    """Return how many queries are on the map and how much it shows; ``None`` without a map."""
    found = model.query_map
    return None if found is None else {"queries": len(found), "shown": found.shown}


def map_of(model: LiveModel) -> dict[str, Any]:
    """Return the map, or raise a `Problem` that says why there is none."""
    found = model.query_map
    if found is None:
        raise Problem(404, _missing(model))
    return {
        "model": model.name,
        "version": model.version,
        "similarity": found.similarity,
        "shown": found.shown,
        "places": found.points is not None or model.ranker.router.queries is not None,
        "queries": found.queries,
        "clusters": found.clusters,
        "coordinates": [[_short(x), _short(y)] for x, y in found.coordinates.tolist()],
    }


def place_of(model: LiveModel, point: Point) -> list[float] | None:
    """Return where a query belongs on the map, if there is one and the query can be compared."""
    if model.query_map is None:
        return None
    place = model.query_map.place(point, model.ranker.router)
    return None if place is None else [_short(x) for x in place.tolist()]


def known_place(model: LiveModel, query: int) -> list[float] | None:
    """Return the place of a training query that is on the map, without comparing it with the others again."""
    found = model.query_map
    if found is None:
        return None
    position = int(np.searchsorted(found.queries, query))
    if position == len(found) or found.queries[position] != query:
        return None
    return [_short(x) for x in found.coordinates[position].tolist()]


def _short(value: float) -> float:
    return round(value, _DIGITS)


def _missing(model: LiveModel) -> str:
    address = f"{model.name}@{model.version}"
    if not model.ranker.scorers:
        return (
            f"model {address} has no map: it has no clusters, so the global scorer answers every query; only "
            "models with clusters have a map"
        )
    return (
        f"model {address} has no map: it was published without one; train it again with localrank train, and promote "
        "the new version"
    )
