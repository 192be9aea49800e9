"""``POST /v1/adapters/elasticsearch``, ``…/opensearch`` and ``…/solr``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from localrank_service.apis.openapi import BODY, KEY, MODEL, NAMED, ROWS, TEXT, Schema, operation, option
from localrank_service.http.body import media_type, read_body
from localrank_service.http.direct import Answer, DirectRoute
from localrank_service.reranking import Attempt
from localrank_service.wire import adapters
from localrank_service.wire.answer import server_timing
from localrank_service.wire.members import ADAPTER

if TYPE_CHECKING:
    from localrank_service.service import Service

router = APIRouter(route_class=DirectRoute)

_STATUSES = {*KEY, *BODY, *MODEL, 409, 504}
_OPTIONS = tuple(option(member) for member in ADAPTER)


def _page(page: str, hits: str, hit: dict[str, Any], *, answered: bool = False) -> dict[str, Any]:
    """Return the schema of a response of a search engine, which may have any further members."""
    listed = {"type": "object", "properties": hit, "required": list(hit) if answered else []}
    found = {"type": "object", "properties": {hits: {"type": "array", "items": listed}}, "required": [hits]}
    added = {"localrank": {"$ref": "#/components/schemas/Adapted"}} if answered else {}
    return {"type": "object", "properties": {page: found, **added}, "required": [page, *added]}


def _logged(row: list[float]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in zip(NAMED, row, strict=True)]


_SEARCH = Schema(
    "SearchResponse",
    _page("hits", "hits", {"fields": {"type": "object", "description": "`_ltrlog` holds the features."}})
    | {
        "examples": [
            {
                "hits": {
                    "max_score": 9.2,
                    "hits": [
                        {
                            "_id": identifier,
                            "_score": score,
                            "fields": {"_ltrlog": [{"log_entry1": _logged(row)}]},
                        }
                        for identifier, score, row in (("d1", 9.2, ROWS[0]), ("d2", 7.5, ROWS[1]))
                    ],
                }
            }
        ]
    },
)
_SEARCH_RERANKED = Schema(
    "SearchReranked", _page("hits", "hits", {"_score": {"type": "number"}}, answered=True), ("Adapted",)
)
_SOLR = Schema(
    "SolrResponse",
    _page("response", "docs", {"[features]": TEXT})
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
)
_SOLR_RERANKED = Schema(
    "SolrReranked", _page("response", "docs", {"score": {"type": "number"}}, answered=True), ("Adapted",)
)


@router.post("/v1/adapters/elasticsearch")
@operation(_SEARCH_RERANKED, _STATUSES, reads=_SEARCH, name="rerank_elasticsearch", parameters=_OPTIONS)
async def elasticsearch(request: Request) -> Response:
    """Order the hits of an Elasticsearch response by the features that its LTR plug-in logged."""
    return await _adapt("elasticsearch", request)


@router.post("/v1/adapters/opensearch")
@operation(_SEARCH_RERANKED, _STATUSES, reads=_SEARCH, name="rerank_opensearch", parameters=_OPTIONS)
async def opensearch(request: Request) -> Response:
    """Order the hits of an OpenSearch response by the features that its LTR plug-in logged."""
    return await _adapt("opensearch", request)


@router.post("/v1/adapters/solr")
@operation(_SOLR_RERANKED, _STATUSES, reads=_SOLR, name="rerank_solr", parameters=_OPTIONS)
async def solr(request: Request) -> Response:
    """Order the documents of a Solr response by the features that its [features] transformer logged."""
    return await _adapt("solr", request)


async def _adapt(engine: str, request: Request) -> Response:
    service: Service = request.app.state.service
    request_id: str = request.scope["request_id"]
    with Attempt(service, engine, request.scope) as attempt:
        media_type(request.headers, ("application/json",))
        body = await read_body(request, service.settings.max_body_bytes)
        attempt.begin()
        asked = request.query_params.multi_items() if request.scope["query_string"] else ()
        query = await attempt.read(adapters.read, len(body), engine, body, asked, service.limits)
        model = await attempt.find(query.options.model, at=None)
        documents = await attempt.read(query.documents, query.cost, model.ranker.contract)
        ranked = await attempt.rank(model, documents, query.options)
        content = await attempt.write(adapters.encode, len(body), query, ranked, attempt.timing, request_id)
        return Answer(content, server_timing(attempt.timing.stop()))
