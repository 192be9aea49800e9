"""``POST /v2/rerank``: request and answer of Cohere's rerank API, version 2, documents being objects with features.

``query`` and what concerns texts is taken and has no effect. Documents may have other members, which can be asked back.
Cohere's relevance scores are between 0 and 1: ours are the logistic function of the score, which stands beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from localrank_service.http.problems import Problem
from localrank_service.wire.answer import experiment_members, route_members, warnings_of
from localrank_service.wire.members import COHERE, by_name, check_names
from localrank_service.wire.numbers import plain_members
from localrank_service.wire.rerank_json import JsonQuery, members_of
from localrank_service.wire.text import Elements, refuse

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank_service.wire.answer import Ranked, Timing
    from localrank_service.wire.query import Limits
    from localrank_service.wire.text import Text

_TABLE = by_name(COHERE)
_RELEVANCE = "1 / (1 + exp(-score))"


class CohereQuery(JsonQuery):
    """A request whose documents are yet to be read."""

    __slots__ = ()

    table = _TABLE

    def returned(self) -> list[Text] | None:
        """Return the documents as they were sent, if the answer is to repeat them."""
        documents = self._members["documents"]
        return Elements(documents).texts() if self._members.get("return_documents") else None

    def _document(self, document: Any, position: int) -> tuple[Any, None]:
        at = f"/documents/{position}"
        if type(document) is str:
            raise Problem(
                422,
                f"documents[{position}] is a text; expected an object with features, because this service "
                "ranks by features",
                pointer=at,
            )
        if type(document) is not dict:
            refuse(f"documents[{position}]", "an object with features", document, at)
        if "features" not in document:
            raise Problem(422, f"documents[{position}] has no features", pointer=at)
        return document["features"], None


def read(body: bytes, limits: Limits) -> CohereQuery:
    """Check everything that needs no model."""
    members = plain_members(body, limits, described=True)
    plain = members is not None and not members.get("return_documents")
    if members is None or not plain:
        members = members_of(body, _TABLE, limits)
    else:
        check_names(members, _TABLE)
    if members.get("documents") is None:
        refuse("documents", "a list of objects with features", None, "/documents")
    return CohereQuery(body, members, limits, plain=plain)


def encode(ranked: Ranked, timing: Timing, request_id: str, returned: list[Text] | None) -> bytes:
    """Return the answer; ``encode`` covers the results, the timings are added after it."""
    options, ranking = ranked.options, ranked.ranking
    with timing("encode"):
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
                result["document"] = orjson.Fragment(returned[result["index"]].content)
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
                    "relevance_score": _RELEVANCE,
                    "route": route_members(ranking.route),
                    **({} if ranked.degraded is None else {"degraded": ranked.degraded._asdict()}),
                    **experiment_members(ranked, len(results)),
                    **({} if ranked.explanation is None else {"explanation": ranked.explanation}),
                    "timings_ms": timing.stop(),
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
