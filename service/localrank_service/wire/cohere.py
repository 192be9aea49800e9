"""``POST /v2/rerank``: request and answer of Cohere's rerank API, version 2, documents being objects with features.

``query`` and what concerns texts is taken and has no effect. Documents may have other members, which can be asked back.
Cohere's relevance scores are between 0 and 1: ours are the logistic function of the score, which stands beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from localrank_service.http.problems import Problem, pointer
from localrank_service.reranking import route_members, warnings_of
from localrank_service.wire.cells import refuse
from localrank_service.wire.numbers import plain_members
from localrank_service.wire.rerank_json import JsonQuery, explain_syntax

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank_service.reranking import Attempt, Ranked

__all__ = ["MEMBERS", "CohereQuery", "encode", "read"]

#: The members of a request; any other is refused by name.
MEMBERS = (
    "model",
    "query",
    "documents",
    "top_n",
    "return_documents",
    "contract",
    "max_tokens_per_doc",
    "priority",
    "rank_fields",
)
_OURS = ("model", "top_n", "contract", "documents")
_RELEVANCE = "1 / (1 + exp(-score))"


class CohereQuery(JsonQuery):
    """A parsed request; ``returned`` are the documents that the answer is to repeat."""

    __slots__ = ("returned",)

    returned: list[orjson.Fragment] | None

    def _parsed(self) -> dict[str, Any]:
        return _ours(super()._parsed())


def read(body: bytes) -> CohereQuery:
    """Parse the body and check everything that needs no model."""
    members: Any = plain_members(body, described=True)
    plain = members is not None and not members.get("return_documents")
    if not plain:
        try:
            members = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            explain_syntax(body, error)
    if type(members) is not dict:
        refuse("the body", "an object", members, "")
    if unknown := members.keys() - set(MEMBERS):
        name = min(unknown)
        raise Problem(
            422, f"unknown member {name!r}; expected some of {', '.join(MEMBERS)}", pointer=pointer(name)
        )
    query = members.get("query")
    if query is not None and type(query) is not str:
        refuse("query", "a text", query, "/query")
    returning = members.get("return_documents", False)
    if type(returning) is not bool:
        refuse("return_documents", "true or false", returning, "/return_documents")
    documents = members.get("documents")
    if documents is None:
        refuse("documents", "a list of objects with features", None, "/documents")
    found = CohereQuery(body, _ours(members), plain=plain)
    found.returned = None
    if returning and type(documents) is list:
        try:
            found.returned = [orjson.Fragment(orjson.dumps(document)) for document in documents]
        except orjson.JSONEncodeError:
            raise Problem(
                422, "a document is nested too deeply to be returned", pointer="/documents"
            ) from None
    return found


def encode(
    ranked: Ranked, attempt: Attempt, request_id: str, returned: list[orjson.Fragment] | None
) -> bytes:
    """Return the answer; ``encode`` covers the results, the timings are added after it."""
    model, options, documents, ranking = ranked.model, ranked.options, ranked.documents, ranked.ranking
    with attempt.timing("encode"):
        order = ranking.order if options.top_n is None else ranking.order[: options.top_n]
        scores = ranking.scores[order]
        columns = zip(order.tolist(), logistic(scores).tolist(), scores.tolist(), strict=True)
        results: list[dict[str, Any]] = [
            {"index": index, "relevance_score": relevance, "score": score}
            for index, relevance, score in columns
        ]
        if returned is not None:
            # Left out altogether otherwise: clients take a null for a document.
            for result in results:
                result["document"] = returned[result["index"]]
        encoded = orjson.Fragment(orjson.dumps(results))
    warnings = [
        f"{one['code']}: {one['feature']} in {one['count']} documents"
        for one in warnings_of(model.ranker, documents, ranking)
    ]
    return orjson.dumps(
        {
            "id": request_id,
            "results": encoded,
            "meta": {
                "api_version": {"version": "2"},
                "billed_units": {},
                "warnings": warnings,
                "localrank": {
                    "model": model.name,
                    "version": model.version,
                    "relevance_score": _RELEVANCE,
                    "route": route_members(ranking.route),
                    "timings_ms": attempt.stop(),
                },
            },
        }
    )


def logistic(scores: Vector) -> Vector:
    r"""Return :math:`1 / (1 + e^{-s})`, which keeps the order and is between 0 and 1; exact at both ends."""
    with np.errstate(over="ignore", under="ignore"):
        smaller = np.exp(-np.abs(scores))
    relevance: Vector = np.where(scores >= 0, 1.0, smaller) / (1.0 + smaller)
    return relevance


def _ours(members: dict[str, Any]) -> dict[str, Any]:
    """Return what there is to rank with of a request, and of its documents."""
    ours = {name: members[name] for name in _OURS if name in members}
    if type(documents := ours.get("documents")) is list:
        ours["documents"] = [_features(document, position) for position, document in enumerate(documents)]
    return ours


def _features(document: Any, position: int) -> Any:
    """Return what there is to rank of a document."""
    if type(document) is str:
        raise Problem(
            422,
            f"documents[{position}] is a text; expected an object with features, which is what this service ranks",
            pointer=f"/documents/{position}",
        )
    if type(document) is dict and "features" in document:
        return {"features": document["features"]}
    return document if type(document) is not dict else {}
