"""Why a query went where it went, and why its documents have their scores: what ``explain`` adds to the answer.

Computed beside the ranking, so that requests which do not ask for it do not pay for it.

A part of it is the place of a query on the model's map, which `/v1/models/{name}/map` shows.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from localrank.errors import ExplanationRefused
from localrank_service.http.aside import give_way
from localrank_service.http.problems import Problem, pointer, problem_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localrank.arrays import Vector
    from localrank.features.blocks import Cloud
    from localrank.points.representation import Point
    from localrank.ranker import Ranker, Ranking
    from localrank.routing.route import Route
    from localrank_service.models.live import LiveModel
    from localrank_service.wire.query import Options

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
            "models whose training looked for clusters have a map"
        )
    return (
        f"model {address} has no map: it was published without one; train it again with localrank train, and promote "
        "the new version"
    )


#: Said of a route that is always the same.
_NOTHING = "There is nothing to explain: the version has no clusters, so the global scorer answers every query, and no query is routed."
#: How many of the most similar training queries are named.
NEIGHBOURS = 5
#: Contributions in one answer, at most, and queries of one request whose route is explained.
MOST_CELLS, MOST_ROUTES = 2**18, 32
#: How often the training queries are read to explain a route: for the clusters, the neighbours and the place.
_PASSES = 4
#: Contributions that are written without giving way.
_PIECE = 2**14


def routing_work(model: LiveModel) -> int:
    """Return the cost of explaining a route, in numbers read: those of all training queries, several times."""
    router = model.ranker.router
    found = 0
    for points in (router.compares, model.query_map and model.query_map.points):
        if points is not None:
            found += sum(getattr(points, name).size for name in points.layout)
    return _PASSES * found


def rows_of(options: Options, n_documents: int) -> int:
    """Return how many documents have their contributions computed."""
    return len(options.shown(np.arange(n_documents))) + len(options.compare or ())


def explain(model: LiveModel, cloud: Cloud, ranking: Ranking, options: Options) -> dict[str, Any]:
    """Return the explanation that a request asks for; ``cloud`` is the ranked one."""
    if options.explain == "route":
        return _route(model, cloud, ranking.route)
    return _contributions(model.ranker, cloud, ranking, options)


def _contributions(ranker: Ranker, cloud: Cloud, ranking: Ranking, options: Options) -> dict[str, Any]:
    """Return the base, the names of the features, and a row of contributions for each result, in their order.

    ``comparison`` says why one document is above another, the most telling feature first.
    """
    shown = options.shown(ranking.order)
    for place, position in enumerate(options.compare or ()):
        if position >= len(cloud):
            raise Problem(
                422,
                f"compare: expected positions below {len(cloud)}, the number of documents, found {position}",
                pointer=pointer("compare", place),
            )
    which = np.append(shown, np.array(options.compare or (), np.intp))
    try:
        found = ranker.contributions(cloud, ranking, which)
    except ExplanationRefused as refusal:
        raise problem_of(refusal, pointer("explain")) from None
    rows = np.ascontiguousarray(found.values[: len(shown)])
    names = ranker.contract.names
    members: dict[str, Any] = {
        "base": found.base,
        "features": names,
        # Written here, because this may run in a thread of its own.
        "contributions": orjson.Fragment(_written(rows)),
    }
    contract = ranker.contract
    if contract.categories:
        members["values"] = {names[at]: _values(cloud, at, shown.tolist()) for at in contract.categories}
    if options.compare is not None:
        above, below = options.compare
        members["comparison"] = {
            "above": above,
            "below": below,
            "difference": float(ranking.scores[above] - ranking.scores[below]),
            "features": [
                {"feature": names[reason.feature], "difference": reason.amount}
                | (
                    {"values": _values(cloud, reason.feature, (above, below))}
                    if reason.feature in contract.categories
                    else {}
                )
                for reason in found.between(len(shown), len(shown) + 1)
            ],
        }
    return members


def _values(cloud: Cloud, at: int, positions: Iterable[int]) -> list[str | None]:
    """Return the values of a category in some documents."""
    value_of, codes = cloud.contract.features[at].value_of, cloud.raw[:, at]
    return [value_of(codes[position]) for position in positions]


def _written(rows: Vector) -> bytes:
    """Return the rows as JSON, written in pieces."""
    step = max(1, _PIECE // rows.shape[1])
    pieces = []
    for begin in range(0, len(rows), step):
        pieces.append(orjson.dumps(rows[begin : begin + step], option=orjson.OPT_SERIALIZE_NUMPY)[1:-1])
        give_way()
    return b"[" + b",".join(pieces) + b"]"


def _route(model: LiveModel, cloud: Cloud, route: Route) -> dict[str, Any]:
    """Return the query's point in short, and how near each cluster's nearest training query is.

    The point stands under its kind, such as ``signature``. ``clusters`` is ``None`` if the router does not compare
    points, or the query's cannot be compared. ``neighbours`` are the most similar training queries, if the router knows
    them. ``place`` is the query's on the model's map, if that is known. ``scorer`` is what answered: its cluster's size, exemplar and held-out figures against the global scorer's.
    ``said`` is there if there is nothing to explain.
    """
    ranker = model.ranker
    point = ranker.representation.of(cloud)
    nearest = ranker.router.nearest(point, len(ranker.scorers))
    give_way()
    summary = point.summary()
    return {
        **({point.kind: summary} if summary else {}),
        "clusters": None
        if nearest is None
        else [
            {"cluster": int(cluster), "similarity": float(nearest[cluster])}
            for cluster in np.argsort(-nearest, kind="stable")
            if np.isfinite(nearest[cluster])
        ],
        "neighbours": _neighbours(model, point),
        **({} if (place := place_of(model, point)) is None else {"place": place}),
        "scorer": _scorer(model, route),
        **({} if ranker.router.chooses else {"said": _NOTHING}),
    }


def _neighbours(model: LiveModel, point: Point) -> list[dict[str, Any]]:
    """Return the most similar training queries, with their places on the map if it can tell them."""
    router = model.ranker.router
    found = []
    for neighbour in router.most_similar(point, NEIGHBOURS):
        members = neighbour._asdict()
        give_way()
        if router.queries is not None:
            place = known_place(model, neighbour.query) or place_of(model, router.queries.of(neighbour.query))
            members |= {} if place is None else {"place": place}
        found.append(members)
    return found


def _scorer(model: LiveModel, route: Route) -> dict[str, Any]:
    """Return what answered: its kind, and what the manifest says of its cluster."""
    if route.cluster is None:
        return {"cluster": None, "kind": model.ranker.global_scorer.kind}
    known = {} if model.manifest is None else asdict(model.manifest.clusters[route.cluster])
    return {"cluster": route.cluster, "kind": model.ranker.scorers[route.cluster].kind, **known}
