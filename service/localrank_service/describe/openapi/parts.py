"""Parts that the answers of several routes have in common."""

from __future__ import annotations

from typing import Any

from localrank_service.describe.openapi.shapes import (
    ALWAYS_FALSE,
    COUNT,
    NUMBER,
    TEXT,
    closed,
    list_of,
    maybe,
)
from localrank_service.ladder import OVERLOAD, RUNGS, TIMEOUT
from localrank_service.wire.answer import BASELINE, CANDIDATE, INTERLEAVED

ROUTE: dict[str, Any] = closed(
    {
        "strategy": TEXT,
        "cluster": maybe(COUNT) | {"description": "null is the global scorer."},
        "similarity": maybe(NUMBER),
        "margin": maybe(NUMBER),
        "candidates": COUNT,
        "fallback": maybe(TEXT),
        "local": ALWAYS_FALSE | {"description": "Only if the cluster has no scorer of its own."},
        "shares": list_of({"type": "number", "minimum": 0, "maximum": 1}, minItems=1)
        | {"description": "The weight of each cluster's scorer, only if several of them answer together."},
    },
    optional=("local", "shares"),
)

DEGRADED: dict[str, Any] = closed({"rung": {"enum": list(RUNGS)}, "reason": {"enum": [TIMEOUT, OVERLOAD]}})
DEGRADED["description"] = "Which cheaper ranking answered, and why."

ARM: dict[str, Any] = {"enum": [BASELINE, CANDIDATE]}
_PART: dict[str, Any] = {"name": TEXT, "arm": {"enum": [BASELINE, CANDIDATE, INTERLEAVED]}}
_PART_TAKEN = {"description": "The experiment that the request took part in, and the version that answered."}
EXPERIMENT = closed(_PART) | _PART_TAKEN
EXPERIMENT_WITH_TEAMS = (
    closed(
        _PART
        | {
            "teams": list_of(maybe(ARM))
            | {
                "description": "The version that each result comes from, only if the rankings of two versions are "
                "interleaved."
            }
        },
        optional=("teams",),
    )
    | _PART_TAKEN
)

PLACE = list_of(NUMBER, minItems=2, maxItems=2)
