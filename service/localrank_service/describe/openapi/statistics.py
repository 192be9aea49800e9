"""`/v1/stats`: what the service counted and timed."""

from __future__ import annotations

from typing import Any

from localrank_service.describe.openapi.operation import Operation
from localrank_service.describe.openapi.parameters import in_query
from localrank_service.describe.openapi.problems import KEY
from localrank_service.describe.openapi.shapes import COUNT, NUMBER, TEXT, closed, list_of, map_of, maybe, ref
from localrank_service.telemetry import totals
from localrank_service.telemetry.recent import OUTCOMES, QUANTILES, WINDOWS

_COURSE: dict[str, Any] = {
    **dict.fromkeys(OUTCOMES, list_of(COUNT)),
    **dict.fromkeys(("p50", "p99"), list_of(maybe(NUMBER))),
}

_FIGURES: dict[str, Any] = {
    "requests": closed(dict.fromkeys(OUTCOMES, COUNT)),
    "per_second": NUMBER,
    "milliseconds": map_of(closed(dict.fromkeys(QUANTILES, NUMBER)))
    | {"description": "Quantiles of each stage and of their `total`, accurate to 10 %."},
}

SCHEMAS: dict[str, Any] = {
    "Stats": closed(
        {
            "workers": COUNT,
            "uptime_seconds": NUMBER,
            "in_flight": COUNT,
            "connections": COUNT,
            "refused": map_of(COUNT)
            | {"description": "Requests and connections since the start, by reason."},
            "deaths": map_of(COUNT) | {"description": "Workers since the start, by cause."},
            "windows": closed(dict.fromkeys(WINDOWS, ref("StatsWindow"))),
            "experiments": maybe(
                list_of(
                    closed(
                        {
                            "name": TEXT,
                            "kind": TEXT,
                            "state": {"enum": ["running", "returned", "waiting", "over"]},
                        }
                    )
                )
            )
            | {"description": "A summary; null if experiments are off."},
            "impressions": maybe(
                closed(
                    {
                        "share": NUMBER | {"description": "Share of the rankings that are logged."},
                        "logged": COUNT,
                        "dropped": COUNT,
                        "over_quota": COUNT,
                        "lost": COUNT,
                        "feedback": map_of(COUNT) | {"description": "Events since the start, by outcome."},
                        "bytes": COUNT | {"description": "Bytes of all files of the log."},
                        "most_bytes": COUNT,
                    }
                )
            )
            | {"description": "The impression log, and its queries since the start; null if it is off."},
            "series": closed(
                {
                    "seconds": COUNT | {"description": "Length of each slice."},
                    "latest_seconds": NUMBER | {"description": "Length of the last slice so far."},
                    **_COURSE,
                    "models": map_of(closed(_COURSE)),
                }
            )
            | {
                "description": "Only with `series=true`: requests and quantiles of their time in milliseconds, for each "
                "slice, oldest first."
            },
            "models": map_of(ref("StatsModel")) | {"description": "Counts of each model since the start."},
        },
        optional=("series",),
    ),
    "StatsModel": closed(
        {
            "versions": map_of(
                closed(
                    {
                        "requests": closed(dict.fromkeys(totals.OUTCOMES, COUNT)),
                        "clusters": list_of(
                            closed(
                                {
                                    "cluster": {
                                        "type": ["integer", "string", "null"],
                                        "description": "null is the global scorer; `other` is all clusters without a "
                                        "series of their own.",
                                    },
                                    "requests": COUNT,
                                    "training_share": maybe(NUMBER)
                                    | {"description": "Share of the training queries."},
                                }
                            )
                        ),
                        "fallbacks": map_of(COUNT) | {"description": "Requests by `route.fallback`."},
                        "drift": maybe(NUMBER)
                        | {
                            "description": "How far the clusters' shares of the requests differ from their shares of "
                            "the training queries, from 0 to 1; null if there are too few requests to tell, or no "
                            "clusters."
                        },
                        "drift_missing": maybe(COUNT)
                        | {
                            "description": "Requests that are missing to tell the drift; null without clusters."
                        },
                    }
                )
            ),
            "degraded": list_of(closed({"rung": TEXT, "reason": TEXT, "requests": COUNT})),
            "imputed": COUNT | {"description": "Missing values that were replaced."},
            "out_of_range": COUNT | {"description": "Values out of the training range."},
        }
    ),
    "StatsWindow": closed(
        {
            "seconds": NUMBER | {"description": "Real length of the window in seconds."},
            **_FIGURES,
            "models": map_of(ref("StatsFigures")),
        }
    ),
    "StatsFigures": closed(_FIGURES),
}

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("get", "/v1/stats"): Operation(
        None,
        "Stats",
        {*KEY, 422},
        parameters=(
            in_query(
                "series",
                "Whether to answer the figures of each slice of time.",
                {"type": "boolean", "default": False},
            ),
        ),
    ),
}
