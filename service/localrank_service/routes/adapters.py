"""``POST /v1/adapters/elasticsearch``, ``…/opensearch`` and ``…/solr``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from localrank_service.http.body import media_type, read_body
from localrank_service.http.direct import Answer, DirectRoute
from localrank_service.reranking import Attempt
from localrank_service.wire import adapters
from localrank_service.wire.answer import server_timing

if TYPE_CHECKING:
    from localrank_service.service import Service

router = APIRouter(route_class=DirectRoute)


@router.post("/v1/adapters/elasticsearch")
async def elasticsearch(request: Request) -> Response:
    """Order the hits of an Elasticsearch response by the features that its LTR plug-in logged."""
    return await _adapt("elasticsearch", request)


@router.post("/v1/adapters/opensearch")
async def opensearch(request: Request) -> Response:
    """Order the hits of an OpenSearch response by the features that its LTR plug-in logged."""
    return await _adapt("opensearch", request)


@router.post("/v1/adapters/solr")
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
