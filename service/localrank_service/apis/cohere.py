"""``POST /v2/rerank``: request and answer of Cohere's rerank API, version 2.

Documents are objects with features, or texts that are features (`localrank_service.wire.feature_texts`). ``query`` is taken and has
no effect. Documents may have other members, which can be asked back. Cohere's relevance scores are between 0 and 1: ours are the
logistic function of the score, if the request wants no other. The score stands beside them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
from fastapi import APIRouter, Request, Response

from localrank_service.apis.openapi import BODY, KEY, MODEL, NAMED, ROWS, operation, request_of
from localrank_service.apis.rerank.reader import JsonQuery
from localrank_service.http.body import media_type, read_body
from localrank_service.http.edge import Answer, DirectRoute
from localrank_service.http.problems import Problem
from localrank_service.ranking.reranking import Attempt
from localrank_service.wire.answer import (
    experiment_members,
    route_members,
    server_timing,
    table_members,
    warnings_of,
)
from localrank_service.wire.members import (
    ANYTHING,
    FEATURES,
    TEXT,
    TEXTUAL,
    Kind,
    Member,
    by_name,
    check_query_string,
    shared,
)
from localrank_service.wire.relevance import FORMULAS, relevance_of
from localrank_service.wire.text import refuse

if TYPE_CHECKING:
    from localrank.features.contract import FeatureContract
    from localrank.ranker import Stopwatch
    from localrank_service.ranking.service import Service
    from localrank_service.wire.answer import Ranked
    from localrank_service.wire.query import Documents, Limits

#: Of ``POST /v2/rerank``; any other is refused by name.
COHERE = (
    *shared("model"),
    Member("query", TEXT, "Has no effect, because the model ranks by features only."),
    Member(
        "documents",
        Kind(
            "a list of objects with features, or of texts",
            {
                "type": "array",
                "items": {
                    "anyOf": [
                        {
                            "title": "DocumentsItem",
                            "type": "object",
                            "properties": {"features": FEATURES, "text": TEXTUAL},
                            "if": {"not": {"required": ["text"]}},
                            "then": {"required": ["features"]},
                        },
                        TEXTUAL,
                    ]
                },
            },
        ),
        "One object per document: `features`, a list or an object. It may have other members. Or a text that is features, also as "
        "`text` in the object.",
        nullable=False,
    ),
    *shared("top_n", "offset", "pin", "boost", "query_features"),
    *shared("relevance", "return_documents"),
    *shared("contract", "explain", "compare", "timeout_ms", "allow_degraded", "query_id", "session_id"),
    Member("max_tokens_per_doc", ANYTHING, "Has no effect."),
    Member("priority", ANYTHING, "Has no effect."),
    Member("rank_fields", ANYTHING, "Has no effect."),
)

_TABLE = by_name(COHERE)


class CohereQuery(JsonQuery):
    """A request whose documents are yet to be read."""

    __slots__ = ()

    table = _TABLE
    described = True

    def __init__(self, body: bytes, members: dict[str, Any], limits: Limits, *, plain: bool) -> None:
        if members.get("documents") is None:
            refuse("documents", _TABLE["documents"].kind.expected, None, "/documents")
        super().__init__(body, members, limits, plain=plain)

    def _is_relevant(self, _members: dict[str, Any]) -> bool:
        return True

    def documents(self, contract: FeatureContract) -> Documents:
        """Return the documents; their ids are for tables alone, because Cohere's clients count positions."""
        found = super().documents(contract)
        return found if found.ids is None else replace(found, ids=None, items=found.ids)


def encode(ranked: Ranked, timing: Stopwatch, request_id: str) -> bytes:
    """Return the answer; its timings are added last."""
    options, ranking = ranked.options, ranked.ranking
    timing("encode")
    order = options.shown(ranking.order)
    scores = ranking.scores[order]
    columns = zip(order.tolist(), relevance_of(ranked).tolist(), scores.tolist(), strict=True)
    results: list[dict[str, Any]] = [
        {"index": index, "relevance_score": relevance, "score": score} for index, relevance, score in columns
    ]
    if ranked.ruled is not None:
        for result in results:
            result.update(ranked.ruled.of(result["index"]))
    if (sent := ranked.documents.sent) is not None:
        # Left out altogether otherwise: clients take a null for a document.
        for result in results:
            result["document"] = orjson.Fragment(sent[result["index"]])
    encoded = orjson.Fragment(orjson.dumps(results))
    warnings = [f"{one['code']}: {one['feature']} in {one['count']} documents" for one in warnings_of(ranked)]
    return orjson.dumps(
        {
            "id": request_id,
            "results": encoded,
            "meta": {
                "api_version": {"version": "2"},
                "billed_units": {},
                "warnings": warnings,
                "localrank": {
                    "model": ranked.name,
                    "version": ranked.version,
                    "relevance_score": FORMULAS[options.relevance or "sigmoid"],
                    "route": route_members(ranking.route),
                    **({} if ranked.degraded is None else {"degraded": ranked.degraded._asdict()}),
                    **experiment_members(ranked, len(results)),
                    **table_members(ranked),
                    **({} if ranked.explanation is None else {"explanation": ranked.explanation}),
                    "timings_ms": timing.stop(),
                },
            },
        }
    )


router = APIRouter(route_class=DirectRoute)

_REQUEST = request_of(
    "CohereRequest",
    COHERE,
    required=("documents",),
    examples=[
        {
            "model": "demo",
            "query": "cheap flights",
            "documents": [{"features": ROWS[0], "text": "…"}, {"features": NAMED}],
            "top_n": 1,
        }
    ],
)


@router.post("/v2/rerank")
@operation("CohereAnswer", {*KEY, *BODY, *MODEL, 409, 504}, reads=_REQUEST, name="rerank_as_cohere")
async def rerank(request: Request) -> Response:
    """Order the documents of one query; request and answer have the form of Cohere's rerank API."""
    service: Service = request.app.state.service
    request_id: str = request.scope["request_id"]
    try:
        with Attempt(service, "cohere", request.scope) as attempt:
            media_type(request.headers, ("application/json",))
            check_query_string(request.scope["query_string"], _TABLE)
            body = await read_body(request, service.settings.max_body_bytes)
            attempt.timing.start("decode")
            query = await attempt.run(CohereQuery.read, len(body), body, service.limits)
            model = await attempt.find(query.options.model)
            documents = await attempt.run(query.documents, query.cost, model.ranker.contract)
            ranked = await attempt.rank(model, documents, query.options)
            content = await attempt.run(encode, len(body), ranked, attempt.timing, request_id)
            return Answer(content, server_timing(attempt.timing.stop()))
    except Problem as problem:
        # What Cohere's own errors hold.
        problem.members["message"] = problem.detail
        raise
