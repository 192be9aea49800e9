"""The schema of `explanation`."""

from __future__ import annotations

from typing import Any

from localrank_service.describe.openapi.parts import PLACE
from localrank_service.describe.openapi.shapes import COUNT, FREE, NUMBER, TEXT, closed, list_of, maybe

EXPLANATION: dict[str, Any] = closed(
    {
        "base": NUMBER | {"description": "The mean score of the list."},
        "features": list_of(TEXT) | {"description": "The columns of `contributions`."},
        "contributions": list_of(list_of(NUMBER))
        | {
            "description": "One row for each of `results`, in their order. The score is the base plus the sum of the "
            "row."
        },
        "comparison": closed(
            {
                "above": COUNT,
                "below": COUNT,
                "difference": NUMBER | {"description": "Of the scores."},
                "features": list_of(closed({"feature": TEXT, "difference": NUMBER}))
                | {
                    "description": "The largest difference first; they add up to the difference of the scores."
                },
            }
        ),
        "signature": closed({"components": COUNT, "rank": COUNT, "eigenvalues": list_of(NUMBER)}),
        "vector": closed({"width": COUNT}),
        "gaussian": closed({"width": COUNT, "log_determinant": NUMBER}),
        "clusters": maybe(list_of(closed({"cluster": COUNT, "similarity": NUMBER}))),
        "neighbours": list_of(
            closed(
                {"query": COUNT, "cluster": COUNT, "similarity": NUMBER, "place": PLACE},
                optional=("place",),
            )
        )
        | {"description": "The most similar training queries, by position, if the router knows them."},
        "place": PLACE | {"description": "Place of the query on the model's map, if it is known."},
        "scorer": closed(
            {
                "cluster": maybe(COUNT),
                "kind": TEXT,
                "size": COUNT,
                "exemplar": maybe(TEXT),
                "validation": maybe(FREE),
            },
            optional=("size", "exemplar", "validation"),
        ),
    },
    optional=(
        "base",
        "features",
        "contributions",
        "comparison",
        "signature",
        "vector",
        "gaussian",
        "clusters",
        "neighbours",
        "place",
        "scorer",
    ),
)
