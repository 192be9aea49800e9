"""`/v1/adapters`: responses of search engines."""

from __future__ import annotations

from typing import Any

from localrank_service.describe.openapi.examples import NAMED, ROWS
from localrank_service.describe.openapi.operation import Operation
from localrank_service.describe.openapi.parameters import option
from localrank_service.describe.openapi.parts import DEGRADED, EXPERIMENT_WITH_TEAMS, ROUTE
from localrank_service.describe.openapi.problems import BODY, KEY, MODEL
from localrank_service.describe.openapi.shapes import COUNT, NUMBER, TEXT, closed, list_of, map_of, ref
from localrank_service.wire.adapters import ENGINES
from localrank_service.wire.members import ADAPTER


def _engine_page(page: str, hits: str, hit: dict[str, Any], *, answered: bool = False) -> dict[str, Any]:
    """Return the schema of a response of a search engine, which may have any further members."""
    listed = {"type": "object", "properties": hit, "required": list(hit) if answered else []}
    return {
        "type": "object",
        "properties": {
            page: {"type": "object", "properties": {hits: list_of(listed)}, "required": [hits]},
            **({"localrank": ref("Adapted")} if answered else {}),
        },
        "required": [page, *(["localrank"] if answered else [])],
    }


SCHEMAS: dict[str, Any] = {
    "Adapted": closed(
        {
            "request_id": TEXT,
            "model": TEXT,
            "version": COUNT,
            "route": ROUTE,
            "degraded": DEGRADED,
            "experiment": EXPERIMENT_WITH_TEAMS,
            "warnings": list_of(closed({"code": TEXT, "feature": TEXT, "count": COUNT})),
            "timings_ms": map_of(NUMBER),
        },
        optional=("degraded", "experiment"),
    ),
    "SearchResponse": _engine_page(
        "hits", "hits", {"fields": {"type": "object", "description": "`_ltrlog` holds the features."}}
    )
    | {
        "examples": [
            {
                "hits": {
                    "max_score": 9.2,
                    "hits": [
                        {
                            "_id": identifier,
                            "_score": score,
                            "fields": {
                                "_ltrlog": [
                                    {
                                        "log_entry1": [
                                            {"name": n, "value": v} for n, v in zip(NAMED, row, strict=True)
                                        ]
                                    }
                                ]
                            },
                        }
                        for identifier, score, row in (("d1", 9.2, ROWS[0]), ("d2", 7.5, ROWS[1]))
                    ],
                }
            }
        ]
    },
    "SearchReranked": _engine_page("hits", "hits", {"_score": NUMBER}, answered=True),
    "SolrResponse": _engine_page("response", "docs", {"[features]": TEXT})
    | {
        "examples": [
            {
                "response": {
                    "numFound": 2,
                    "docs": [
                        {
                            "id": identifier,
                            "[features]": ",".join(f"{n}={v}" for n, v in zip(NAMED, row, strict=True)),
                        }
                        for identifier, row in zip(("d1", "d2"), ROWS, strict=True)
                    ],
                }
            }
        ]
    },
    "SolrReranked": _engine_page("response", "docs", {"score": NUMBER}, answered=True),
}

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("post", f"/v1/adapters/{engine}"): Operation(
        "SolrResponse" if engine == "solr" else "SearchResponse",
        "SolrReranked" if engine == "solr" else "SearchReranked",
        {*KEY, *BODY, *MODEL, 409, 504},
        name=f"rerank_{engine}",
        parameters=tuple(option(member) for member in ADAPTER),
    )
    for engine in ENGINES
}
