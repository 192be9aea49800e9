"""Why a query went where it went, and why its documents have their scores: what ``explain`` adds to the answer.

Computed beside the ranking, so that requests which do not ask for it do not pay for it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from localrank.errors import ExplanationRefused
from localrank_service.describe.query_map import place_of
from localrank_service.http.problems import Problem, pointer, problem_of

if TYPE_CHECKING:
    from localrank.cloud import Cloud
    from localrank.ranker import Ranker, Ranking
    from localrank.representation import Point
    from localrank.routing import Route
    from localrank_service.models.live import LiveModel
    from localrank_service.wire.query import Options

__all__ = ["NEIGHBOURS", "explain"]

#: How many of the most similar training queries are named.
NEIGHBOURS = 5


def explain(model: LiveModel, cloud: Cloud, ranking: Ranking, options: Options) -> dict[str, Any]:
    """Return the explanation that a request asks for; ``cloud`` is the ranked one."""
    if options.explain == "route":
        return _route(model, cloud, ranking.route)
    return _contributions(model.ranker, cloud, ranking, options)


def _contributions(ranker: Ranker, cloud: Cloud, ranking: Ranking, options: Options) -> dict[str, Any]:
    """Return the base, the names of the features, and a row of contributions for each result, in their order.

    ``comparison`` says why one document is above another, the most telling feature first.
    """
    shown = ranking.order if options.top_n is None else ranking.order[: options.top_n]
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
        "contributions": orjson.Fragment(orjson.dumps(rows, option=orjson.OPT_SERIALIZE_NUMPY)),
    }
    if options.compare is not None:
        above, below = options.compare
        members["comparison"] = {
            "above": above,
            "below": below,
            "difference": float(ranking.scores[above] - ranking.scores[below]),
            "features": [
                {"feature": names[reason.feature], "difference": reason.amount}
                for reason in found.between(len(shown), len(shown) + 1)
            ],
        }
    return members


def _route(model: LiveModel, cloud: Cloud, route: Route) -> dict[str, Any]:
    """Return the query's point in short, and how near each cluster's nearest training query is.

    The point stands under its kind, such as ``signature``. ``clusters`` is ``None`` if the router does not compare
    points, or the query's cannot be compared. ``neighbours`` are the most similar training queries, if the router knows
    them. ``place`` is the query's on the model's map, if that is known. ``scorer`` is what answered: its cluster's size, exemplar and held-out figures against the global scorer's.
    """
    ranker = model.ranker
    point = ranker.representation.of(cloud)
    nearest = ranker.router.nearest(point, len(ranker.scorers))
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
    }


def _neighbours(model: LiveModel, point: Point) -> list[dict[str, Any]]:
    """Return the most similar training queries, with their places on the map if it can tell them."""
    router = model.ranker.router
    found = []
    for neighbour in router.most_similar(point, NEIGHBOURS):
        members = neighbour._asdict()
        if router.queries is not None:
            place = place_of(model, router.queries.of(neighbour.query))
            members |= {} if place is None else {"place": place}
        found.append(members)
    return found


def _scorer(model: LiveModel, route: Route) -> dict[str, Any]:
    """Return what answered: its kind, and what the manifest says of its cluster."""
    if route.cluster is None:
        return {"cluster": None, "kind": model.ranker.global_scorer.kind}
    known = {} if model.manifest is None else asdict(model.manifest.clusters[route.cluster])
    return {"cluster": route.cluster, "kind": model.ranker.scorers[route.cluster].kind, **known}
