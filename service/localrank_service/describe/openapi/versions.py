"""`/v1/models/{name}/versions`: versions, how two differ, and which one answers."""

from __future__ import annotations

from typing import Any

from localrank_service.describe.openapi.operation import Operation
from localrank_service.describe.openapi.parameters import in_query
from localrank_service.describe.openapi.problems import BODY, KEY, MODEL
from localrank_service.describe.openapi.shapes import (
    COUNT,
    FREE,
    TEXT,
    closed,
    described_by,
    list_of,
    map_of,
    maybe,
)
from localrank_service.wire.members import PROMOTE, ROLLBACK

_CHANGE = closed({"path": TEXT, "before": {}, "after": {}})

SCHEMAS: dict[str, Any] = {
    "Versions": closed(
        {
            "name": TEXT,
            "aliases": map_of(COUNT),
            "history": map_of(list_of(closed({"version": COUNT, "since": TEXT})))
            | {"description": "The versions that each alias named, oldest first."},
            "versions": list_of(
                closed(
                    {
                        "version": COUNT,
                        "live": {"type": "boolean"}
                        | {"description": "Whether this service answers with it."},
                        "broken": TEXT | {"description": "Why the version cannot be read."},
                        "created": TEXT,
                        "sha256": TEXT,
                        "contract": TEXT,
                        "n_features": COUNT,
                        "n_clusters": COUNT,
                        "representation": TEXT,
                        "routing": TEXT,
                        "scorers": list_of(TEXT),
                        "bytes": COUNT,
                        "metrics": FREE,
                    },
                    optional=(
                        "broken",
                        "created",
                        "sha256",
                        "contract",
                        "n_features",
                        "n_clusters",
                        "representation",
                        "routing",
                        "scorers",
                        "bytes",
                        "metrics",
                    ),
                )
            )
            | {"description": "The newest first."},
            "omitted": COUNT
            | {"description": "Number of older versions that no alias has named; they are left out."},
        }
    ),
    "Difference": closed(
        {
            "name": TEXT,
            "before": COUNT,
            "after": COUNT,
            **dict.fromkeys(("settings", "metrics", "contract"), list_of(_CHANGE)),
            "probe": maybe(
                list_of(
                    closed(
                        {
                            "probe": {"enum": ["before", "after"]},
                            "query": COUNT,
                            "documents": COUNT,
                            "clusters": list_of(maybe(COUNT), minItems=2, maxItems=2),
                            "tau": {"type": "number", "minimum": -1, "maximum": 1},
                            "same_first": {"type": "boolean"},
                            "furthest": COUNT,
                        }
                    )
                )
            )
            | {
                "description": "Both versions' rankings of both probes; null if the features, or their rules for missing values, are not the same."
            },
        }
    ),
    "Promotion": closed(described_by(PROMOTE), optional=("alias",)),
    "Rollback": closed(described_by(ROLLBACK), optional=("alias",)),
    "Switched": closed(
        {
            "name": TEXT,
            "alias": TEXT,
            "version": COUNT,
            "previous": maybe(COUNT),
            "workers": list_of(COUNT)
            | {"description": "Process ids of the workers; all of them have switched."},
        }
    ),
}

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("get", "/v1/models/{name}/versions"): Operation(None, "Versions", {*KEY, *MODEL}),
    ("get", "/v1/models/{name}/diff"): Operation(
        None,
        "Difference",
        {*KEY, *MODEL, 409, 422},
        parameters=tuple(
            in_query(side, "A version number, or an alias.", TEXT, required=True)
            for side in ("before", "after")
        ),
    ),
    ("post", "/v1/models/{name}/promote"): Operation(
        "Promotion", "Switched", {*KEY, *BODY, *MODEL, 409}, admin=True
    ),
    ("post", "/v1/models/{name}/rollback"): Operation(
        "Rollback", "Switched", {*KEY, *BODY, *MODEL, 409}, admin=True
    ),
}
