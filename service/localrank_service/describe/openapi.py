"""What ``/openapi.json`` says.

The framework knows the routes but not what they read and answer, because no body passes through its models. So the
operations are described here by hand, and tests compare real requests and answers with what stands here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fastapi.openapi.utils import get_openapi

from localrank import __version__
from localrank_service.experiments.definition import GUARDRAILS, MEMBERS
from localrank_service.ladder import OVERLOAD, RUNGS, TIMEOUT
from localrank_service.telemetry.recent import OUTCOMES, QUANTILES, WINDOWS
from localrank_service.telemetry.totals import OUTCOMES as TOTALS
from localrank_service.wire import evaluate, letor, npy
from localrank_service.wire.adapters import ENGINES
from localrank_service.wire.answer import BASELINE, CANDIDATE, INTERLEAVED
from localrank_service.wire.feedback import MOST_EVENTS
from localrank_service.wire.members import (
    ADAPTER,
    BINARY_INPUT,
    BINARY_OUTPUT,
    COHERE,
    COMPARE,
    EVALUATE,
    FEEDBACK,
    INFER_PARAMETERS,
    RERANK,
    names_of,
)
from localrank_service.wire.v2 import INPUTS, OUTPUTS

if TYPE_CHECKING:
    from fastapi import FastAPI

    from localrank_service.wire.members import Member

__all__ = ["OPERATIONS", "SCHEMAS", "install"]

_DESCRIPTION = """\
Reranks the documents of a query with a model that is chosen for this query.

Every error, on every route, is an RFC 9457 problem with two more members: `error` repeats the text, and `pointer` says
where in the request the error is. Send `X-Request-Id` to find a request again; the answer has the same id.
"""

_NUMBER: dict[str, Any] = {"type": "number"}
_TEXT: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_ID: dict[str, Any] = {"type": ["string", "integer"]}
#: Not `const`, of which openapi-python-client makes wrong code if the member is optional.
_ALWAYS_FALSE: dict[str, Any] = {"type": "boolean", "not": {"const": True}}
_FREE: dict[str, Any] = {"type": "object", "additionalProperties": True}


def _maybe(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _closed(properties: dict[str, Any], *, optional: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """Return the schema of an object of exactly these members."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
        **more,
    }


def _list(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def _map(values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _described_by(table: tuple[Member, ...]) -> dict[str, Any]:
    """Return the properties of a request whose members stand in the table."""
    return {
        name: (_maybe(dict(kind.schema)) if nullable and kind.schema else dict(kind.schema))
        | {"description": meaning}
        for name, kind, meaning, nullable in table
    }


def _engine_page(page: str, hits: str, hit: dict[str, Any], *, answered: bool = False) -> dict[str, Any]:
    """Return the schema of a response of a search engine, which may have any further members."""
    listed = {"type": "object", "properties": hit, "required": list(hit) if answered else []}
    return {
        "type": "object",
        "properties": {
            page: {"type": "object", "properties": {hits: _list(listed)}, "required": [hits]},
            **({"localrank": _ref("Adapted")} if answered else {}),
        },
        "required": [page, *(["localrank"] if answered else [])],
    }


#: Exactly one of `documents`, `features` and `features_b64`. Not by `oneOf`: generators of clients make an untyped body of
#: alternatives that only differ in what they require, and leave conditions alone.
_ONE_FORM: dict[str, Any] = {
    "if": {"required": ["documents"]},
    "then": {
        "not": {
            "anyOf": [
                {"required": [other]} for other in ("ids", "shape", "dtype", "features", "features_b64")
            ]
        }
    },
    "else": {
        "if": {"required": ["features"]},
        "then": {"not": {"anyOf": [{"required": [other]} for other in ("dtype", "features_b64")]}},
        "else": {"required": ["features_b64", "shape"]},
    },
}

_SUMMARY: dict[str, Any] = {
    "name": _TEXT,
    "version": _COUNT,
    "aliases": _map(_COUNT),
    "contract": _TEXT,
    "normalise": _TEXT,
    "n_features": _COUNT,
    "n_clusters": _COUNT,
    "representation": {"type": "object", "required": ["method"], "properties": {"method": _TEXT}}
    | {"description": "How a query is represented when queries are compared: the method and its settings."},
    "routing": _TEXT,
}

#: Documents of the demo model, so that the examples can be tried.
_ROWS = [
    [18.0, 0.5, 0.5, 69, 0.5, 6.0, 0.5, 0.5, 91, 0.5],
    [10.1, 0.34, 0.72, 47, 0.31, 4.1, 0.69, 0.37, 62, 0.7],
]
_NAMED = {
    "bm25": 25.3,
    "title_match": 0.66,
    "body_match": 0.31,
    "url_length": 90,
    "pagerank": 0.7,
    "inlinks": 8.2,
    "freshness": 0.33,
    "clicks": 0.65,
    "dwell_time": 121,
    "spam": 0.29,
}

_TENSOR = _closed(
    {
        "name": _TEXT,
        "datatype": _TEXT,
        "shape": _list({"type": "integer", "minimum": -1}),
        "parameters": _closed({"optional": {"const": True}}),
    },
    optional=("parameters",),
)

_ROUTE = _closed(
    {
        "strategy": _TEXT,
        "cluster": _maybe(_COUNT) | {"description": "null is the global scorer."},
        "similarity": _maybe(_NUMBER),
        "margin": _maybe(_NUMBER),
        "candidates": _COUNT,
        "fallback": _maybe(_TEXT),
        "local": _ALWAYS_FALSE | {"description": "Only if the cluster has no scorer of its own."},
        "shares": _list({"type": "number", "minimum": 0, "maximum": 1}, minItems=1)
        | {"description": "The weight of each cluster's scorer, only if several of them answer together."},
    },
    optional=("local", "shares"),
)

_DEGRADED = _closed({"rung": {"enum": list(RUNGS)}, "reason": {"enum": [TIMEOUT, OVERLOAD]}})
_DEGRADED["description"] = "Which cheaper ranking answered, and why."

_ARM: dict[str, Any] = {"enum": [BASELINE, CANDIDATE]}
_PART: dict[str, Any] = {"name": _TEXT, "arm": {"enum": [BASELINE, CANDIDATE, INTERLEAVED]}}
_PART_TAKEN = {"description": "The experiment that the request took part in, and the version that answered."}
_EXPERIMENT = _closed(_PART) | _PART_TAKEN
_EXPERIMENT_WITH_TEAMS = (
    _closed(
        _PART
        | {
            "teams": _list(_maybe(_ARM))
            | {
                "description": "The version that each result comes from, only if the rankings of two versions are "
                "interleaved."
            }
        },
        optional=("teams",),
    )
    | _PART_TAKEN
)

_PLACE = _list(_NUMBER, minItems=2, maxItems=2)

_EXPLANATION = _closed(
    {
        "base": _NUMBER | {"description": "The mean score of the list."},
        "features": _list(_TEXT) | {"description": "The columns of `contributions`."},
        "contributions": _list(_list(_NUMBER))
        | {
            "description": "One row for each of `results`, in their order. The score is the base plus the sum of the "
            "row."
        },
        "comparison": _closed(
            {
                "above": _COUNT,
                "below": _COUNT,
                "difference": _NUMBER | {"description": "Of the scores."},
                "features": _list(_closed({"feature": _TEXT, "difference": _NUMBER}))
                | {
                    "description": "The largest difference first; they add up to the difference of the scores."
                },
            }
        ),
        "signature": _closed({"components": _COUNT, "rank": _COUNT, "eigenvalues": _list(_NUMBER)}),
        "vector": _closed({"width": _COUNT}),
        "gaussian": _closed({"width": _COUNT, "log_determinant": _NUMBER}),
        "clusters": _maybe(_list(_closed({"cluster": _COUNT, "similarity": _NUMBER}))),
        "neighbours": _list(
            _closed(
                {"query": _COUNT, "cluster": _COUNT, "similarity": _NUMBER, "place": _PLACE},
                optional=("place",),
            )
        )
        | {"description": "The most similar training queries, by position, if the router knows them."},
        "place": _PLACE | {"description": "Place of the query on the model's map, if it is known."},
        "scorer": _closed(
            {
                "cluster": _maybe(_COUNT),
                "kind": _TEXT,
                "size": _COUNT,
                "exemplar": _maybe(_TEXT),
                "validation": _maybe(_FREE),
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

_COURSE: dict[str, Any] = {
    **dict.fromkeys(OUTCOMES, _list(_COUNT)),
    **dict.fromkeys(("p50", "p99"), _list(_maybe(_NUMBER))),
}

_CHANGE = _closed({"path": _TEXT, "before": {}, "after": {}})

_FIGURES: dict[str, Any] = {
    "requests": _closed(dict.fromkeys(OUTCOMES, _COUNT)),
    "per_second": _NUMBER,
    "milliseconds": _map(_closed(dict.fromkeys(QUANTILES, _NUMBER)))
    | {"description": "Quantiles of each stage and of their `total`, accurate to 10 %."},
}

SCHEMAS: dict[str, Any] = {
    "Problem": _closed(
        {
            "type": _TEXT,
            "title": _TEXT,
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": _TEXT,
            "instance": _TEXT,
            "error": _TEXT,
            "pointer": _maybe(_TEXT),
            "live": {"type": "boolean", "description": "Of `/v2/health/ready` only."},
            "ready": {"type": "boolean", "description": "Of `/v2/health/ready` only."},
            "message": _TEXT | {"description": "Of `/v2/rerank` only: the same text."},
            "loading": _map(_COUNT)
            | {
                "description": "While models are being loaded: the addresses that are left, with their versions."
            },
        },
        optional=("live", "ready", "message", "loading"),
    ),
    "RerankRequest": _closed(
        _described_by(RERANK),
        optional=names_of(RERANK),
        **_ONE_FORM,
        examples=[
            {
                "model": "demo",
                "query_id": "q-17",
                "top_n": 10,
                "documents": [{"id": "d1", "features": _ROWS[0]}, {"id": "d2", "features": _NAMED}],
            },
            {"model": "demo", "ids": ["d1", "d2"], "features": _ROWS},
        ],
    ),
    "RerankAnswer": _closed(
        {
            "request_id": _TEXT,
            "model": _TEXT,
            "version": _COUNT,
            "results": _list(
                _closed(
                    {
                        "rank": {"type": "integer", "minimum": 1},
                        "index": _COUNT | {"description": "Position in the request."},
                        "id": {"type": ["string", "integer", "null"]},
                        "score": _NUMBER,
                        "team": _maybe(_ARM)
                        | {
                            "description": "The version that the result comes from, only if the rankings of two "
                            "versions are interleaved."
                        },
                    },
                    optional=("id", "team"),
                )
            )
            | {
                "description": "Ordered by score, then by position in the request, unless they are interleaved."
            },
            "route": _ROUTE,
            "degraded": _maybe(_DEGRADED),
            "experiment": _EXPERIMENT,
            "warnings": _list(
                _closed(
                    {
                        "code": {"enum": ["feature_imputed", "feature_ignored", "warnings_omitted"]},
                        "feature": _TEXT | {"description": "Empty if warnings are omitted."},
                        "count": {"type": "integer", "minimum": 1},
                    }
                )
            ),
            "explanation": _EXPLANATION,
            "timings_ms": _map(_NUMBER)
            | {"description": "Each stage in the order of its run, and their total, as in `Server-Timing`."},
        },
        optional=("experiment", "explanation"),
    ),
    "CompareRequest": _closed(
        _described_by(COMPARE),
        optional=tuple(name for name in names_of(COMPARE) if name != "candidate"),
        examples=[{"baseline": "demo", "candidate": "demo@1", "ids": ["d1", "d2"], "features": _ROWS}],
    ),
    "CompareAnswer": _closed(
        {
            "request_id": _TEXT,
            "baseline": _ref("CompareSide"),
            "candidate": _ref("CompareSide"),
            "moves": _list(
                _closed(
                    {
                        "index": _COUNT | {"description": "Position in the request."},
                        "id": {"type": ["string", "integer", "null"]},
                        "baseline": {"type": "integer", "minimum": 1, "description": "Its rank there."},
                        "candidate": {"type": "integer", "minimum": 1, "description": "Its rank there."},
                        "move": {
                            "type": "integer",
                            "description": "By how many ranks the candidate moves it up; less than 0 is down.",
                        },
                    },
                    optional=("id",),
                )
            )
            | {
                "description": "Every document; with `top_n`, every document that is among the first in at least one of the "
                "rankings."
            },
            "agreement": _closed(
                {
                    "kendall_tau": _maybe(_NUMBER)
                    | {
                        "description": "Tau-b of the scores; null if one version gives all documents the same score."
                    },
                    "rbo": _NUMBER | {"description": "Rank-biased overlap, persistence 0.9."},
                    "overlap": _map(_NUMBER)
                    | {
                        "description": "Share of the first documents that both rankings have in common, by the number of "
                        "documents."
                    },
                }
            ),
            "timings_ms": _map(_NUMBER),
        }
    ),
    "CompareSide": _closed(
        {
            "model": _TEXT,
            "version": _COUNT,
            "results": _list(
                _closed(
                    {
                        "rank": {"type": "integer", "minimum": 1},
                        "index": _COUNT,
                        "id": {"type": ["string", "integer", "null"]},
                        "score": _NUMBER,
                    },
                    optional=("id",),
                )
            ),
            "route": _ROUTE,
            "warnings": _list(_closed({"code": _TEXT, "feature": _TEXT, "count": _COUNT})),
        }
    ),
    "Experiments": _closed(
        {
            "generation": _TEXT | {"description": "Workers with the same value run the same experiments."},
            "workers": _list(_closed({"pid": _COUNT, "generation": _TEXT})),
            "problem": _maybe(_TEXT) | {"description": "Why the file cannot be used; null if it can."},
            "experiments": _list(_ref("Experiment")),
        }
    ),
    "ExperimentSettings": _closed(
        _described_by(MEMBERS)
        | {"guardrails": _closed(_described_by(GUARDRAILS), optional=names_of(GUARDRAILS))},
        optional=tuple(name for name in names_of(MEMBERS) if name not in {"kind", "model", "candidate"}),
        examples=[{"kind": "canary", "model": "demo", "candidate": "demo@2", "percent": 5}],
    ),
    "Experiment": _closed(
        _described_by(MEMBERS)
        | {
            "guardrails": _closed(_described_by(GUARDRAILS)),
            "run": _TEXT
            | {
                "description": "Identifies the experiment and its settings: after a change of a setting it is another "
                "value."
            },
            "state": {"enum": ["running", "returned", "waiting", "over"]},
            "reason": _maybe(_TEXT) | {"description": "Why it does not run."},
            "returned": _maybe(
                _closed({"experiment": _TEXT, "at": _TEXT, "reason": _TEXT, "evidence": _TEXT})
            )
            | {"description": "When and why the canary was taken back."},
            "versions": _closed({"baseline": _maybe(_TEXT), "candidate": _maybe(_TEXT)}),
            "arms": _map(
                _closed(
                    {
                        "requests": _map(_COUNT) | {"description": "By outcome."},
                        "rank_ms": _closed({"p50": _maybe(_NUMBER), "p95": _maybe(_NUMBER)}),
                    }
                )
            ),
            "outside": _COUNT
            | {
                "description": "Requests that took no part, because they lack the unit or their answer has no place for "
                "teams."
            },
            "shadow": _closed(
                {
                    **dict.fromkeys(("ranked", "dropped", "failed"), _COUNT),
                    **dict.fromkeys(("kendall_tau", "rbo", "overlap_at_10"), _maybe(_NUMBER)),
                }
            )
            | {
                "description": "For a shadow: how many of its requests were ranked, dropped or failed, and how much its "
                "rankings agree with the answers on average."
            },
        },
        optional=("guardrails", "method", "depth", "shadow"),
    ),
    "ExperimentChanged": _closed(
        {
            "name": _TEXT,
            "run": _maybe(_TEXT),
            "workers": _list(_COUNT)
            | {"description": "Process ids of the workers; all of them use the change."},
        }
    ),
    "BatchRequest": _closed(
        {"queries": _list(_ref("RerankRequest"))},
        examples=[{"queries": [{"model": "demo", "top_n": 1, "features": _ROWS}, {"features": _ROWS[:1]}]}],
    ),
    "BatchAnswer": _closed(
        {
            "request_id": _TEXT,
            "answers": _list(
                {
                    "oneOf": [
                        _closed({"status": {"const": 200}, "answer": _ref("RerankAnswer")}),
                        _closed(
                            {
                                "status": {"type": "integer", "minimum": 400, "maximum": 599},
                                "problem": _ref("Problem"),
                            }
                        ),
                    ]
                }
            )
            | {"description": "One for each query, in their order. Pointers start at the whole body."},
            "timings_ms": _map(_NUMBER),
        }
    ),
    "Adapted": _closed(
        {
            "request_id": _TEXT,
            "model": _TEXT,
            "version": _COUNT,
            "route": _ROUTE,
            "degraded": _DEGRADED,
            "experiment": _EXPERIMENT_WITH_TEAMS,
            "warnings": _list(_closed({"code": _TEXT, "feature": _TEXT, "count": _COUNT})),
            "timings_ms": _map(_NUMBER),
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
                                            {"name": n, "value": v} for n, v in zip(_NAMED, row, strict=True)
                                        ]
                                    }
                                ]
                            },
                        }
                        for identifier, score, row in (("d1", 9.2, _ROWS[0]), ("d2", 7.5, _ROWS[1]))
                    ],
                }
            }
        ]
    },
    "SearchReranked": _engine_page("hits", "hits", {"_score": _NUMBER}, answered=True),
    "SolrResponse": _engine_page("response", "docs", {"[features]": _TEXT})
    | {
        "examples": [
            {
                "response": {
                    "numFound": 2,
                    "docs": [
                        {
                            "id": identifier,
                            "[features]": ",".join(f"{n}={v}" for n, v in zip(_NAMED, row, strict=True)),
                        }
                        for identifier, row in zip(("d1", "d2"), _ROWS, strict=True)
                    ],
                }
            }
        ]
    },
    "SolrReranked": _engine_page("response", "docs", {"score": _NUMBER}, answered=True),
    "CohereRequest": _closed(
        _described_by(COHERE),
        optional=tuple(name for name in names_of(COHERE) if name != "documents"),
        examples=[
            {
                "model": "demo",
                "query": "cheap flights",
                "documents": [{"features": _ROWS[0], "text": "…"}, {"features": _NAMED}],
                "top_n": 1,
            }
        ],
    ),
    "CohereAnswer": _closed(
        {
            "id": _TEXT,
            "results": _list(
                _closed(
                    {
                        "index": _COUNT,
                        "relevance_score": {"type": "number", "minimum": 0, "maximum": 1},
                        "score": _NUMBER,
                        "document": _FREE,
                    },
                    optional=("document",),
                )
            )
            | {"description": "Ordered by score, then by position in the request."},
            "meta": _closed(
                {
                    "api_version": _closed({"version": {"const": "2"}}),
                    "billed_units": _closed({}),
                    "warnings": _list(_TEXT),
                    "localrank": _closed(
                        {
                            "model": _TEXT,
                            "version": _COUNT,
                            "relevance_score": _TEXT | {"description": "How it is computed from the score."},
                            "route": _ROUTE,
                            "degraded": _DEGRADED,
                            "experiment": _EXPERIMENT_WITH_TEAMS,
                            "explanation": _EXPLANATION,
                            "timings_ms": _map(_NUMBER),
                        },
                        optional=("degraded", "experiment", "explanation"),
                    ),
                }
            ),
        }
    ),
    "InferRequest": {
        "type": "object",
        "properties": {
            "id": _maybe(_TEXT) | {"description": "Is sent back."},
            "parameters": _maybe(_FREE | {"properties": _described_by(INFER_PARAMETERS)})
            | {"description": "Others are ignored."},
            "inputs": _list(
                {
                    "type": "object",
                    "properties": {
                        "name": {"enum": list(INPUTS)},
                        "datatype": {"enum": sorted({kind for kinds in INPUTS.values() for kind in kinds})},
                        "shape": _list(_COUNT, minItems=1),
                        "parameters": _maybe(_FREE | {"properties": _described_by(BINARY_INPUT)}),
                        "data": {
                            "type": "array",
                            "items": {},
                            "description": "Nested or flat; null is a missing value.",
                        },
                    },
                    "required": ["name", "datatype", "shape"],
                },
                minItems=1,
            )
            | {
                "description": "`features` [documents, features]; `doc_ids` [documents]; `group` [queries], the "
                "number of documents of each query, if there are several queries."
            },
            "outputs": _maybe(
                _list(
                    {
                        "type": "object",
                        "properties": {
                            "name": {"enum": list(OUTPUTS)},
                            "parameters": _maybe(_FREE | {"properties": _described_by(BINARY_OUTPUT)}),
                        },
                        "required": ["name"],
                    }
                )
            )
            | {"description": "All outputs if left out."},
        },
        "required": ["inputs"],
        "examples": [
            {
                "id": "42",
                "inputs": [
                    {
                        "name": "features",
                        "shape": [2, 10],
                        "datatype": "FP32",
                        "data": _ROWS,
                    },
                    {"name": "doc_ids", "shape": [2], "datatype": "BYTES", "data": ["d1", "d2"]},
                ],
            }
        ],
    },
    "InferAnswer": _closed(
        {
            "model_name": _TEXT,
            "model_version": _TEXT,
            "id": _TEXT,
            "parameters": _closed(
                {
                    "degraded": _TEXT
                    | {"description": "Which cheaper ranking answered each query, separated by commas."},
                    "experiment": _TEXT | {"description": "The experiment that the request took part in."},
                    "arm": _ARM | {"description": "Which arm of the experiment answered."},
                },
                optional=("degraded", "experiment", "arm"),
            ),
            "outputs": _list(
                _closed(
                    {
                        "name": {"enum": list(OUTPUTS)},
                        "datatype": {"enum": ["FP64", "INT32", "INT64", "BYTES"]},
                        "shape": _list(_COUNT, minItems=1, maxItems=1),
                        "parameters": _closed({"binary_data_size": _COUNT}),
                        "data": {"type": "array", "items": {}},
                    },
                    optional=("parameters", "data"),
                )
            )
            | {
                "description": "`scores` in the order of the request; `ranking`: the positions in the request, best "
                "first, query by query; only `ranking` decides the order; `cluster` of each query, where "
                "-1 is the global scorer; `doc_ids` in the order of `ranking`."
            },
        },
        optional=("id", "parameters"),
    ),
    "ServerMetadata": _closed({"name": _TEXT, "version": _TEXT, "extensions": _list(_TEXT)}),
    "ServerHealth": _closed({"live": {"const": True}, "ready": {"type": "boolean"}}),
    "ModelMetadata": _closed(
        {
            "name": _TEXT,
            "versions": _list(_TEXT),
            "platform": _TEXT,
            "inputs": _list(_TENSOR),
            "outputs": _list(_TENSOR),
        }
    ),
    "ModelReady": _closed({"name": _TEXT, "ready": {"const": True}}),
    "ModelConfiguration": _FREE,
    "ModelStatistics": _closed(
        {
            "model_stats": _list(
                _closed(
                    {
                        "name": _TEXT,
                        "version": _TEXT,
                        "last_inference": _COUNT,
                        "inference_count": _COUNT,
                        "execution_count": _COUNT,
                        "inference_stats": _map(_closed({"count": _COUNT, "ns": _COUNT})),
                        "batch_stats": _list({}),
                    }
                )
            )
        }
    ),
    "IndexRequest": _FREE | {"properties": {"ready": {"type": "boolean", "default": False}}},
    "Index": _list(
        _closed(
            {
                "name": _TEXT,
                "version": _TEXT,
                "state": {"enum": ["READY", "UNAVAILABLE", "LOADING"]},
                "reason": _TEXT,
            }
        )
    ),
    "RepositoryRequest": {
        "type": "object",
        "properties": {"parameters": _closed({"unload_dependents": {}}, optional=("unload_dependents",))},
    },
    "RepositoryAnswer": _closed({"name": _TEXT, "loaded": {"type": "boolean"}, "workers": _list(_COUNT)}),
    "ModelSummary": _closed(_SUMMARY | {"default": {"type": "boolean"}}),
    "Models": _closed(
        {"models": _list(_ref("ModelSummary")), "loading": _map(_COUNT), "broken": _map(_TEXT)}
    ),
    "Stats": _closed(
        {
            "workers": _COUNT,
            "uptime_seconds": _NUMBER,
            "in_flight": _COUNT,
            "connections": _COUNT,
            "refused": _map(_COUNT) | {"description": "Requests and connections since the start, by reason."},
            "deaths": _map(_COUNT) | {"description": "Workers since the start, by cause."},
            "windows": _closed(dict.fromkeys(WINDOWS, _ref("StatsWindow"))),
            "experiments": _maybe(
                _list(
                    _closed(
                        {
                            "name": _TEXT,
                            "kind": _TEXT,
                            "state": {"enum": ["running", "returned", "waiting", "over"]},
                        }
                    )
                )
            )
            | {"description": "A summary; null if experiments are off."},
            "impressions": _maybe(
                _closed(
                    {
                        "share": _NUMBER | {"description": "Share of the requests that are logged."},
                        "logged": _COUNT,
                        "dropped": _COUNT,
                        "lost": _COUNT,
                        "feedback": _map(_COUNT) | {"description": "Events since the start, by outcome."},
                        "bytes": _COUNT | {"description": "Bytes of all files of the log."},
                        "most_bytes": _COUNT,
                    }
                )
            )
            | {"description": "The impression log, and its queries since the start; null if it is off."},
            "series": _closed(
                {
                    "seconds": _COUNT | {"description": "Length of each slice."},
                    "latest_seconds": _NUMBER | {"description": "Length of the last slice so far."},
                    **_COURSE,
                    "models": _map(_closed(_COURSE)),
                }
            )
            | {
                "description": "Only with `series=true`: requests and quantiles of their time in milliseconds, for each "
                "slice, oldest first."
            },
            "models": _map(_ref("StatsModel")) | {"description": "Counts of each model since the start."},
        },
        optional=("series",),
    ),
    "StatsModel": _closed(
        {
            "versions": _map(
                _closed(
                    {
                        "requests": _closed(dict.fromkeys(TOTALS, _COUNT)),
                        "clusters": _list(
                            _closed(
                                {
                                    "cluster": {
                                        "type": ["integer", "string", "null"],
                                        "description": "null is the global scorer; `other` is all clusters without a "
                                        "series of their own.",
                                    },
                                    "requests": _COUNT,
                                    "training_share": _maybe(_NUMBER)
                                    | {"description": "Share of the training queries."},
                                }
                            )
                        ),
                        "fallbacks": _map(_COUNT) | {"description": "Requests by `route.fallback`."},
                        "drift": _maybe(_NUMBER)
                        | {
                            "description": "How far the clusters' shares of the requests differ from their shares of "
                            "the training queries, from 0 to 1."
                        },
                    }
                )
            ),
            "degraded": _list(_closed({"rung": _TEXT, "reason": _TEXT, "requests": _COUNT})),
            "imputed": _COUNT | {"description": "Missing values that were replaced."},
            "out_of_range": _COUNT | {"description": "Values out of the training range."},
        }
    ),
    "StatsWindow": _closed(
        {
            "seconds": _NUMBER | {"description": "Real length of the window in seconds."},
            **_FIGURES,
            "models": _map(_ref("StatsFigures")),
        }
    ),
    "StatsFigures": _closed(_FIGURES),
    "Model": _closed(
        _SUMMARY
        | {
            "created": _TEXT,
            "sha256": _TEXT,
            "metrics": _FREE,
            "notes": _list({}),
            "source": _FREE,
            "guard": _map(_closed({"blend": _maybe(_NUMBER), "global": _maybe(_NUMBER)}))
            | {
                "description": "Thresholds of `similarity`, `margin` and `distance`, if the model has a guard."
            },
            "features": _list(
                _closed({"name": _TEXT, "missing": _TEXT, "lowest": _NUMBER, "highest": _NUMBER})
            ),
            "list_lengths": _map(_NUMBER)
            | {"description": "Documents of the training queries, by quantile."},
            "samples": {"type": "integer", "minimum": 1}
            | {"description": "How many sample queries `/v1/models/{name}/sample` has."},
            "map": _maybe(
                _closed({"queries": _COUNT, "shown": {"type": "number", "minimum": 0, "maximum": 1}})
            )
            | {"description": "What `/v1/models/{name}/map` shows; null if there is no map."},
        },
        optional=("created", "sha256", "metrics", "notes", "source", "guard"),
    ),
    "Clusters": _closed(
        {
            "model": _TEXT,
            "version": _COUNT,
            "clusters": _list(
                _closed(
                    {
                        "cluster": _COUNT,
                        "scorer": _TEXT,
                        "size": _COUNT,
                        "exemplar": _maybe(_TEXT),
                        "validation": _maybe(_FREE),
                    },
                    optional=("size", "exemplar", "validation"),
                )
            ),
            "global": _closed({"scorer": _TEXT}),
        }
    ),
    "FeedbackRequest": _closed(
        {
            "events": _list(
                _closed(
                    _described_by(FEEDBACK),
                    optional=tuple(name for name in names_of(FEEDBACK) if name != "request_id"),
                    allOf=[
                        {"oneOf": [{"required": ["id"]}, {"required": ["index"]}]},
                        {"oneOf": [{"required": ["click"]}, {"required": ["grade"]}]},
                    ],
                ),
                maxItems=MOST_EVENTS,
            )
        },
        examples=[
            {
                "events": [
                    {"request_id": "0f9d3c1e", "id": "d2", "click": True, "event_id": "c-1"},
                    {"request_id": "0f9d3c1e", "index": 0, "grade": 3},
                ]
            }
        ],
    ),
    "FeedbackAnswer": _closed(
        {
            "request_id": _TEXT,
            "accepted": _COUNT | {"description": "Events that will be logged."},
            "unsampled": _COUNT | {"description": "Events that belong to requests which are not logged."},
            "dropped": _COUNT | {"description": "Events that the queue had no room for; send them again."},
        }
    ),
    "EvaluateRequest": _closed(
        _described_by(EVALUATE),
        optional=tuple(name for name in names_of(EVALUATE) if name != "queries"),
        examples=[
            {
                "model": "demo",
                "metrics": ["ndcg@10", "mrr"],
                "queries": [{"query_id": "q-17", "features": _ROWS, "labels": [1, 0]}],
            }
        ],
    ),
    "EvaluateAnswer": _closed(
        {
            "request_id": _TEXT,
            "model": _TEXT,
            "version": _COUNT,
            "alias": _maybe(_TEXT)
            | {"description": "The alias in the request; null if the request named a version."},
            "queries": _COUNT,
            "documents": _COUNT,
            "metrics": _list(
                _closed(
                    {
                        "metric": _TEXT,
                        "mean": _maybe(_NUMBER),
                        "convention": _TEXT,
                        "queries": _COUNT,
                        "empty_queries": _COUNT,
                        "empty_queries_are": _TEXT,
                        "ties": _TEXT,
                    }
                )
            ),
            "latency_ms": _maybe(_closed(dict.fromkeys(("mean", "p50", "p90", "p99", "max"), _NUMBER)))
            | {
                "description": "Milliseconds to rank one query, without reading the request and writing the answer."
            },
            "stages_ms": _map(_NUMBER) | {"description": "Mean of each stage."},
            "routes": _map(_COUNT) | {"description": "Queries by cluster, or `global`."},
            "per_query": _list(
                _closed(
                    {"query_id": {"type": ["string", "integer", "null"]}, "metrics": _map(_maybe(_NUMBER))}
                )
            ),
            "timings_ms": _closed(dict.fromkeys(("read", "rank", "measure"), _NUMBER)),
        },
        optional=("per_query",),
    ),
    "QueryMap": _closed(
        {
            "model": _TEXT,
            "version": _COUNT,
            "similarity": _TEXT,
            "shown": {"type": "number", "minimum": 0, "maximum": 1}
            | {"description": "How much of the similarities the two dimensions show, from 0 to 1."},
            "places": {"type": "boolean"}
            | {"description": "Whether `explain=route` answers the place of a query."},
            "queries": _list(_COUNT)
            | {"description": "The same numbers as in `neighbours` of an explanation."},
            "clusters": _list(_COUNT),
            "coordinates": _list(_PLACE),
        }
    ),
    "Versions": _closed(
        {
            "name": _TEXT,
            "aliases": _map(_COUNT),
            "history": _map(_list(_closed({"version": _COUNT, "since": _TEXT})))
            | {"description": "The versions that each alias named, oldest first."},
            "versions": _list(
                _closed(
                    {
                        "version": _COUNT,
                        "live": {"type": "boolean"}
                        | {"description": "Whether this service answers with it."},
                        "broken": _TEXT | {"description": "Why the version cannot be read."},
                        "created": _TEXT,
                        "sha256": _TEXT,
                        "contract": _TEXT,
                        "n_features": _COUNT,
                        "n_clusters": _COUNT,
                        "representation": _TEXT,
                        "routing": _TEXT,
                        "scorers": _list(_TEXT),
                        "bytes": _COUNT,
                        "metrics": _FREE,
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
            "omitted": _COUNT
            | {"description": "Number of older versions that no alias has named; they are left out."},
        }
    ),
    "Difference": _closed(
        {
            "name": _TEXT,
            "before": _COUNT,
            "after": _COUNT,
            **dict.fromkeys(("settings", "metrics", "contract"), _list(_CHANGE)),
            "probe": _maybe(
                _list(
                    _closed(
                        {
                            "probe": {"enum": ["before", "after"]},
                            "query": _COUNT,
                            "documents": _COUNT,
                            "clusters": _list(_maybe(_COUNT), minItems=2, maxItems=2),
                            "tau": {"type": "number", "minimum": -1, "maximum": 1},
                            "same_first": {"type": "boolean"},
                            "furthest": _COUNT,
                        }
                    )
                )
            )
            | {
                "description": "Both versions' rankings of both probes; null if the features are not the same."
            },
        }
    ),
    "Promotion": _closed(
        {"version": {"type": "integer", "minimum": 1}, "alias": _TEXT | {"default": "champion"}},
        optional=("alias",),
    ),
    "Rollback": _closed({"alias": _TEXT | {"default": "champion"}}, optional=("alias",)),
    "Switched": _closed(
        {
            "name": _TEXT,
            "alias": _TEXT,
            "version": _COUNT,
            "previous": _maybe(_COUNT),
            "workers": _list(_COUNT)
            | {"description": "Process ids of the workers; all of them have switched."},
        }
    ),
    "Ready": _closed(
        {
            "ready": {"const": True},
            "models": _map(_COUNT),
            "broken": _map(_TEXT),
            "remote": _closed({"error": _maybe(_TEXT)}),
        },
        optional=("remote",),
    ),
    "Live": _closed({"live": {"const": True}}),
    "Started": _closed({"started": {"const": True}}),
    "Info": _FREE,
    "JsonSchema": _FREE,
}

#: ``(method, path)``: what it reads, what it answers with 200 and as which media type, which other statuses it has.
OPERATIONS: dict[tuple[str, str], tuple[str | None, str, str, tuple[int, ...]]] = {
    ("post", "/v1/rerank"): (
        "RerankRequest",
        "RerankAnswer",
        "application/json",
        (400, 401, 403, 404, 409, 413, 415, 422, 503, 504),
    ),
    ("post", "/v1/rerank/batch"): (
        "BatchRequest",
        "BatchAnswer",
        "application/json",
        (400, 401, 403, 413, 415, 422),
    ),
    ("post", "/v1/compare"): (
        "CompareRequest",
        "CompareAnswer",
        "application/json",
        (400, 401, 403, 404, 409, 413, 415, 422, 503),
    ),
    ("get", "/v1/experiments"): (None, "Experiments", "application/json", (401, 403, 409)),
    ("put", "/v1/experiments/{name}"): (
        "ExperimentSettings",
        "ExperimentChanged",
        "application/json",
        (400, 401, 403, 409, 413, 415, 422, 503),
    ),
    ("delete", "/v1/experiments/{name}"): (
        None,
        "ExperimentChanged",
        "application/json",
        (401, 403, 404, 409, 503),
    ),
    ("post", "/v2/rerank"): (
        "CohereRequest",
        "CohereAnswer",
        "application/json",
        (400, 401, 403, 404, 409, 413, 415, 422, 503, 504),
    ),
    **{
        ("post", f"/v1/adapters/{engine}"): (
            "SolrResponse" if engine == "solr" else "SearchResponse",
            "SolrReranked" if engine == "solr" else "SearchReranked",
            "application/json",
            (400, 401, 403, 404, 409, 413, 415, 422, 503, 504),
        )
        for engine in ENGINES
    },
    ("post", "/v1/feedback"): (
        "FeedbackRequest",
        "FeedbackAnswer",
        "application/json",
        (400, 401, 403, 409, 413, 415, 422),
    ),
    ("post", "/v1/evaluate"): (
        "EvaluateRequest",
        "EvaluateAnswer",
        "application/json",
        (400, 401, 403, 404, 409, 413, 415, 422, 429, 503, 504),
    ),
    ("get", "/v1/stats"): (None, "Stats", "application/json", (401, 403, 422)),
    ("get", "/v1/models"): (None, "Models", "application/json", (401, 403)),
    ("get", "/v1/models/{name}"): (None, "Model", "application/json", (401, 403, 404, 503)),
    ("get", "/v1/models/{name}/schema"): (
        None,
        "JsonSchema",
        "application/schema+json",
        (401, 403, 404, 503),
    ),
    ("get", "/v1/models/{name}/sample"): (
        None,
        "RerankRequest",
        "application/json",
        (401, 403, 404, 422, 503),
    ),
    ("get", "/v1/models/{name}/map"): (None, "QueryMap", "application/json", (401, 403, 404, 503)),
    ("get", "/v1/models/{name}/versions"): (None, "Versions", "application/json", (401, 403, 404, 503)),
    ("get", "/v1/models/{name}/diff"): (
        None,
        "Difference",
        "application/json",
        (401, 403, 404, 409, 422, 503),
    ),
    ("get", "/v1/models/{name}/clusters"): (None, "Clusters", "application/json", (401, 403, 404, 503)),
    ("post", "/v1/models/{name}/promote"): (
        "Promotion",
        "Switched",
        "application/json",
        (400, 401, 403, 404, 409, 413, 415, 422, 503),
    ),
    ("post", "/v1/models/{name}/rollback"): (
        "Rollback",
        "Switched",
        "application/json",
        (400, 401, 403, 404, 409, 413, 415, 422, 503),
    ),
    **dict.fromkeys(
        (("post", "/v2/models/{name}/infer"), ("post", "/v2/models/{name}/versions/{version}/infer")),
        (
            "InferRequest",
            "InferAnswer",
            "application/json",
            (400, 401, 403, 404, 409, 413, 415, 422, 503, 504),
        ),
    ),
    ("get", "/v2"): (None, "ServerMetadata", "application/json", (401, 403)),
    ("get", "/v2/health/live"): (None, "ServerHealth", "application/json", ()),
    ("get", "/v2/health/ready"): (None, "ServerHealth", "application/json", (503,)),
    ("get", "/v2/models/stats"): (None, "ModelStatistics", "application/json", (401, 403)),
    **{
        ("get", f"/v2/models/{{name}}{version}{path}"): (
            None,
            answer,
            "application/json",
            (401, 403, 404, 503),
        )
        for path, answer in {
            "": "ModelMetadata",
            "/config": "ModelConfiguration",
            "/ready": "ModelReady",
            "/stats": "ModelStatistics",
        }.items()
        for version in ("", "/versions/{version}")
    },
    ("post", "/v2/repository/index"): (
        "IndexRequest",
        "Index",
        "application/json",
        (400, 401, 403, 413, 415, 422),
    ),
    ("post", "/v2/repository/models/{name}/load"): (
        "RepositoryRequest",
        "RepositoryAnswer",
        "application/json",
        (400, 401, 403, 404, 413, 415, 422, 503),
    ),
    ("post", "/v2/repository/models/{name}/unload"): (
        "RepositoryRequest",
        "RepositoryAnswer",
        "application/json",
        (400, 401, 403, 404, 413, 415, 422, 503),
    ),
    ("get", "/livez"): (None, "Live", "application/json", ()),
    ("get", "/startupz"): (None, "Started", "application/json", (503,)),
    ("get", "/readyz"): (None, "Ready", "application/json", (503,)),
    ("get", "/info"): (None, "Info", "application/json", (401, 403)),
    ("get", "/metrics"): (None, "", "text/plain", ()),
}

_INFER = (("post", "/v2/models/{name}/infer"), ("post", "/v2/models/{name}/versions/{version}/infer"))
_BINARY_TENSORS: dict[str, Any] = {
    "type": "string",
    "format": "binary",
    "description": "First the JSON; `Inference-Header-Content-Length` is its length in bytes. Then the binary tensors "
    "in order, little-endian, row by row. If a request says 0, there is no JSON, and the body is "
    "`features` as FP32.",
}

#: Of operations that also read something other than JSON: those media types.
OTHER_BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("post", "/v1/rerank"): {
        npy.MEDIA_TYPE: {
            "schema": {
                "type": "string",
                "format": "binary",
                "description": "The bytes that `numpy.save` writes: `[documents, features]` of float16, float32 or "
                "float64; NaN is a missing value. Options are in the query string.",
            }
        }
    },
    ("post", "/v1/evaluate"): {
        letor.MEDIA_TYPE: {
            "schema": {
                "type": "string",
                "description": "LETOR text, a line for each document: `2 qid:17 1:0.5 2:3 # comment`. Options are in "
                "the query string.",
            }
        }
    },
    **{key: {"application/octet-stream": {"schema": _BINARY_TENSORS}} for key in _INFER},
}

#: Of operations that also answer something other than JSON: those media types.
OTHER_ANSWERS: dict[tuple[str, str], dict[str, Any]] = {
    key: {"application/octet-stream": {"schema": _BINARY_TENSORS}} for key in _INFER
}


def _in_query(member: Member, prefix: str = "") -> dict[str, Any]:
    return {
        "name": member.name,
        "in": "query",
        "required": False,
        "description": prefix + member.meaning,
        "schema": _TEXT if member.name in {"query_id", "session_id"} else dict(member.kind.schema),
    }


#: Parameters that the framework does not know of; those of `/v1/rerank` are the options of a body that is not JSON.
PARAMETERS: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("post", "/v1/rerank"): [
        _in_query(
            member._replace(
                meaning=member.meaning
                + (" Repeat it for each name." if member.name == "feature_names" else "")
            ),
            f"With `{npy.MEDIA_TYPE}`. ",
        )
        for member in RERANK
        if member.name in npy.OPTIONS
    ],
    ("post", "/v1/evaluate"): [
        _in_query(
            member._replace(
                meaning=member.meaning + (" Repeat it for each metric." if member.name == "metrics" else "")
            ),
            f"With `{letor.MEDIA_TYPE}`. ",
        )
        for member in EVALUATE
        if member.name in evaluate.OPTIONS
    ],
    **{("post", f"/v1/adapters/{engine}"): [_in_query(member) for member in ADAPTER] for engine in ENGINES},
    ("get", "/v1/models/{name}/sample"): [
        {
            "name": "query",
            "in": "query",
            "required": False,
            "description": "Which of the model's `samples`; the first if left out.",
            "schema": _COUNT,
        }
    ],
    ("get", "/v1/models/{name}/diff"): [
        {
            "name": side,
            "in": "query",
            "required": True,
            "description": "A version number, or an alias.",
            "schema": _TEXT,
        }
        for side in ("before", "after")
    ],
    ("get", "/v1/stats"): [
        {
            "name": "series",
            "in": "query",
            "required": False,
            "description": "Whether to answer the figures of each slice of time.",
            "schema": {"type": "boolean", "default": False},
        }
    ],
    **{
        (method, path): [
            *(
                {"name": name, "in": "path", "required": True, "schema": _TEXT}
                for name in ("name", "version")
                if f"{{{name}}}" in path
            ),
            {
                "name": "Inference-Header-Content-Length",
                "in": "header",
                "required": False,
                "description": "How many bytes of the body are JSON, if binary tensors follow.",
                "schema": _COUNT,
            },
        ]
        for method, path in _INFER
    },
}

_SUMMARIES = {
    400: "Malformed: not JSON, truncated, a member twice, or impossible to decompress",
    401: "No key",
    403: "The key is not one for this route, or the host or origin is not allowed",
    404: "No such model or version",
    409: "Another contract, the version does not verify, or the feature is off",
    413: "Too many bytes or documents",
    415: "Another content type or encoding",
    422: "Breaks the feature contract",
    429: "Too busy; try again",
    503: "Not ready, or the model is broken",
    504: "The timeout of the request has passed",
}


_NO_WORD = re.compile(r"\W")
#: Operations with another name than their function, so that generated clients have natural names.
_NAMES = {
    "/v2/rerank": "rerank_as_cohere",
    "/v2/health/live": "server_live",
    "/v2/health/ready": "server_ready",
    "/v2/repository/index": "list_repository",
    "/v2/repository/models/{name}/load": "load_model",
    "/v2/repository/models/{name}/unload": "unload_model",
}


def _operation_id(given: str, path: str, method: str) -> str:
    """Return what generated clients call an operation; the framework's name has path and method behind it."""
    if path in _NAMES:
        return _NAMES[path]
    name = given.removesuffix(f"{_NO_WORD.sub('_', path)}_{method}")
    name = f"rerank_{name}" if path.startswith("/v1/adapters/") else name
    return f"{name}_of_version" if "{version}" in path else name


def install(app: FastAPI) -> None:
    """Make the application use the descriptions of this module."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(
                get_openapi(
                    title="LocalRank",
                    version=__version__,
                    description=_DESCRIPTION,
                    routes=app.routes,
                    servers=[{"url": "/", "description": "Where this document comes from"}],
                )
            )
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _described(document: dict[str, Any]) -> dict[str, Any]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            reads, answers, media, statuses = OPERATIONS[method, path]
            if reads is not None:
                operation["requestBody"] = {
                    "required": True,
                    "content": {
                        "application/json": {"schema": _ref(reads)},
                        **OTHER_BODIES.get((method, path), {}),
                    },
                }
            operation.setdefault("tags", ["ranking"])
            operation["operationId"] = _operation_id(operation["operationId"], path, method)
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path":
                    parameter["schema"] = _TEXT  # a part of a path is never null
            if (parameters := PARAMETERS.get((method, path))) is not None:
                operation["parameters"] = [*operation.get("parameters", []), *parameters]
            schema = _ref(answers) if answers else _TEXT
            content = {media: {"schema": schema}, **OTHER_ANSWERS.get((method, path), {})}
            operation["responses"] = {"200": {"description": "OK", "content": content}}
            for status in (*statuses, 500):
                operation["responses"][str(status)] = {
                    "description": _SUMMARIES.get(status, "The server failed"),
                    "content": {"application/problem+json": {"schema": _ref("Problem")}},
                }
            if 401 in statuses:
                # The serving key is optional if none is configured; the admin key never is.
                anybody: list[dict[str, list[str]]] = (
                    [] if answers in {"Switched", "RepositoryAnswer", "ExperimentChanged"} else [{}]
                )
                operation["security"] = [*anybody, {"bearer": []}, {"header": []}]
    document["components"] = {
        "schemas": SCHEMAS,
        "securitySchemes": {
            "bearer": {"type": "http", "scheme": "bearer"},
            "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        },
    }
    return document
