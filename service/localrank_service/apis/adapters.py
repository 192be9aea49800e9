"""``POST /v1/adapters/ENGINE``: a search engine's own response goes in, and comes back in the model's order.

The features are those that the engine logged: Elasticsearch's and OpenSearch's LTR plug-ins write them to each hit's
``fields._ltrlog``, Solr's ``[features]`` transformer to a field of each document. Options stand in the query string.
The adapters repeat unknown members unchanged; the score of a hit becomes the score of the model.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson
from fastapi import APIRouter, Request, Response

from localrank.letor import decimal
from localrank_service.apis.openapi import BODY, KEY, MODEL, NAMED, ROWS, Schema, operation, option
from localrank_service.http.body import media_type, read_body
from localrank_service.http.edge import Answer, DirectRoute
from localrank_service.http.problems import Problem, pointer
from localrank_service.ranking.reranking import Attempt
from localrank_service.wire.answer import experiment_members, route_members, server_timing, warnings_of
from localrank_service.wire.members import (
    FLAG,
    SHARED,
    TEXT,
    Member,
    by_name,
    check,
    plain_values,
    shared,
)
from localrank_service.wire.query import (
    SLOWER,
    Documents,
    Limits,
    Options,
    check_contract,
    check_count,
    to_float32,
    with_query,
)
from localrank_service.wire.text import Elements, Text, checked, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from localrank.features.contract import FeatureContract
    from localrank.features.feature import Feature
    from localrank.ranker import Stopwatch
    from localrank_service.ranking.service import Service
    from localrank_service.wire.answer import Ranked

#: Of the query string of ``POST /v1/adapters/ENGINE``; any other is refused by name.
ADAPTER = (
    *shared("model"),
    SHARED["query_id"]._replace(kind=TEXT),
    SHARED["session_id"]._replace(kind=TEXT),
    SHARED["top_n"]._replace(meaning="Answer only this many of the best hits."),
    *shared("offset", "pin", "boost", "query_features", "contract"),
    Member(
        "log",
        TEXT,
        "The name of the log entry (Elasticsearch, OpenSearch) or of the field (Solr) that holds the "
        "features, if there are several.",
    ),
    Member(
        "missing_as_zero",
        FLAG,
        "If true, a feature that a hit does not log is 0, as with the option of this name in the plug-ins; "
        "otherwise it is missing, as categories and features of the query always are.",
    ),
    *shared("timeout_ms", "allow_degraded"),
)

_TABLE = by_name(ADAPTER)
_ELASTIC_LOG = "_ltrlog"
#: What Java writes of a number that is none.
_NOT_FINITE = {sign + name: float(sign + name) for sign in ("", "+", "-") for name in ("Infinity", "NaN")}
_SOLR_FIELDS = ("[features]", "[fv]", "features", "fv")
#: Names in a sentence.
_MOST_NAMES = 5


class Engine(NamedTuple):
    """Where in an engine's response things are.

    Attributes:
        page: the member that holds the page of hits.
        hits: the list in it.
        best: the page's member with the highest score.
        score: of a hit.
        id: of a hit.
        logged: returns the features that a hit logged, by name, or None if it logged none.
        how: what to ask the engine for if it logged none.
    """

    page: str
    hits: str
    best: str
    score: str
    id: str
    logged: Callable[[dict[str, Any], str | None, str], dict[str, Any] | None]
    how: str


def _elastic_logged(hit: dict[str, Any], entry: str | None, at: str) -> dict[str, Any] | None:
    """Read ``{"fields": {"_ltrlog": [{"entry": [{"name": "bm25", "value": 1.5}]}]}}``; no value means missing."""
    fields = hit.get("fields")
    log = fields.get(_ELASTIC_LOG) if type(fields) is dict else None
    if type(log) is not list or not log:
        return None
    listed = [entry for part in log if type(part) is dict for entry in part.items()]
    entries = dict(listed)
    if len(entries) < len(listed):
        raise Problem(
            422,
            f"{at[1:]} has a log entry twice: {_listed([name for name, _ in listed])}",
            pointer=f"{at}/fields/{_ELASTIC_LOG}",
        )
    if entry is None and len(entries) > 1:
        raise Problem(
            422,
            f"{at[1:]} has the log entries {_listed(list(entries))}; choose one of them: "
            f"?log={next(iter(entries))}",
            pointer=f"{at}/fields/{_ELASTIC_LOG}",
        )
    values = entries.get(next(iter(entries), "") if entry is None else entry)
    if type(values) is not list:
        return None
    named = {}
    for value in values:
        if type(value) is not dict or type(value.get("name")) is not str:
            refuse(
                f"{at[1:]}: a logged feature",
                "an object with name and value",
                value,
                f"{at}/fields/{_ELASTIC_LOG}",
            )
        if value["name"] in named:
            raise _twice(value["name"], at, pointer("fields", _ELASTIC_LOG))
        named[value["name"]] = value.get("value")
    return named


def _solr_logged(hit: dict[str, Any], entry: str | None, at: str) -> dict[str, Any] | None:
    """Read ``"[features]": "bm25=1.5,pagerank=0.2"``, Solr's own form; an object of numbers is as good."""
    field = entry or next((name for name in _SOLR_FIELDS if name in hit), None)
    text = None if field is None else hit.get(field)
    if type(text) is dict:
        return text
    if type(text) is not str:
        return None
    named: dict[str, Any] = {}
    for part in text.split(",") if text else ():
        name, _, value = part.rpartition("=")
        number = _NOT_FINITE.get(value)
        number = decimal(value.encode()) if number is None else number
        if not name or number is None:
            refuse(f"{at[1:]}: a logged feature", "name=value", part, at + pointer(str(field)))
        if name in named:
            raise _twice(name, at, pointer(str(field)))
        named[name] = number
    return named


def _twice(name: str, at: str, member: str) -> Problem:
    return Problem(422, f"{at[1:]}: feature {name!r} is logged twice", pointer=at + member)


_ELASTIC = Engine(
    "hits",
    "hits",
    "max_score",
    "_score",
    "_id",
    _elastic_logged,
    'log them: "ext": {"ltr_log": {"log_specs": {...}}}',
)
ENGINES: dict[str, Engine] = {
    "elasticsearch": _ELASTIC,
    "opensearch": _ELASTIC,
    "solr": Engine(
        "response", "docs", "maxScore", "score", "id", _solr_logged, "ask for them: fl=...,[features]"
    ),
}


def read(engine: str, body: bytes, options: Sequence[tuple[str, str]], limits: Limits) -> AdaptedQuery:
    """Check everything that needs no model."""
    settings = _options(options)
    return AdaptedQuery(ENGINES[engine], body, settings, limits)


class AdaptedQuery:
    """A page of hits whose features are yet to be read."""

    __slots__ = ("_body", "_entry", "_hits", "_limits", "_page", "_zero", "engine", "hits", "options", "top")

    def __init__(self, engine: Engine, body: bytes, settings: Mapping[str, Any], limits: Limits) -> None:
        self._body, self._limits, self.engine = body, limits, engine
        self._entry, self._zero = settings.get("log"), bool(settings.get("missing_as_zero"))
        self.options = Options(
            settings.get("model"),
            settings.get("query_id"),
            settings.get("top_n"),
            contract=settings.get("contract"),
            timeout_ms=settings.get("timeout_ms"),
            allow_degraded=settings.get("allow_degraded", True),
            session_id=settings.get("session_id"),
            timeout_at=None,
            offset=settings.get("offset", 0),
            pin=tuple(settings.get("pin", ())),
            boost=settings.get("boost"),
            query_features=settings.get("query_features"),
        )
        self.top = _object(checked(body, limits), "the body")
        if engine.page not in self.top:
            raise Problem(422, f"expected a search response with {engine.page!r}; found none", pointer="")
        page = self.top[engine.page]
        if page.kind != "{":
            refuse(engine.page, "an object", page, page.at)
        self._page = page.members()
        listed = self._page.get(engine.hits)
        if listed is None or listed.kind != "[":
            where = f"{engine.page}.{engine.hits}"
            refuse(where, "a list of hits", listed, page.at + pointer(engine.hits))
        self._hits = Elements(listed)
        check_count(self._hits.count, limits, listed.at)
        self.hits: list[dict[str, Any]] = []

    @property
    def page(self) -> Mapping[str, Text]:
        return self._page

    def scored(self, order: Sequence[int], scores: Sequence[float]) -> list[orjson.Fragment]:
        """Return hits with their new scores; everything else in them as it was sent, number by number."""
        texts, name = self._hits.texts(), self.engine.score
        return [
            orjson.Fragment(texts[at].with_member(name, orjson.dumps(scores[at]), len(self.hits[at])))
            for at in order
        ]

    @property
    def cost(self) -> int:
        return len(self._body) * SLOWER

    def documents(self, contract: FeatureContract) -> Documents:
        """Return the logged features in the model's order."""
        try:
            check_contract(self.options.contract, contract)
        except Problem as problem:
            problem.pointer = None  # it stands in the query string
            raise
        engine, names = self.engine, contract.names
        root = f"/{engine.page}/{engine.hits}"
        check_count(self._hits.count, self._limits, root, width=len(names))
        self.hits = self._hits.all()
        # Zero is a number; as a code it is the first value of a category, and the query may say its features elsewhere.
        zeros = [self._zero and one.kind == "number" and one.scope == "document" for one in contract.features]
        matrix = np.tile(np.where(zeros, 0.0, np.nan), (len(self.hits), 1))
        unknown: Counter[str] = Counter()
        seen: set[str] = set()
        for position, hit in enumerate(self.hits):
            at = f"{root}/{position}"
            if type(hit) is not dict:
                refuse(at[1:], "an object", hit, at)
            logged = engine.logged(hit, self._entry, at)
            if logged is None:
                wanted = "" if self._entry is None else f" under {self._entry!r}"
                raise Problem(422, f"{at[1:]} has no logged features{wanted}; {engine.how}", pointer=at)
            seen |= logged.keys()
            for name, value in logged.items():
                column = contract.positions.get(name)
                if column is None:
                    unknown[name] += 1
                elif value is not None:
                    matrix[position, column] = _number(contract.features[column], value, at)
        if self.hits:
            self._check_names(seen, unknown, contract, root)
        ids = [hit.get(engine.id) for hit in self.hits]
        documents = Documents(to_float32(matrix), ids, partial(_locate, root), dict(unknown))
        return with_query(documents, contract, self.options)

    def _check_names(
        self, seen: set[str], unknown: Mapping[str, int], contract: FeatureContract, at: str
    ) -> None:
        """Refuse features that no hit logged, naming those beside them that the model does not know."""
        needed = () if self._zero else contract.features
        sent = self.options.query_features is not None
        absent = [one.name for one in needed if one.name not in seen and not (sent and one.scope == "query")]
        if absent:
            others = f"; the hits log {_listed(sorted(unknown))}, which it does not know" if unknown else ""
            raise Problem(422, f"no hit logs {_listed(absent)}, which the model takes{others}", pointer=at)
        if unknown and self._limits.refuse_extra_features:
            raise Problem(
                422, f"the hits log {_listed(sorted(unknown))}, which the model does not know", pointer=at
            )


def encode(query: AdaptedQuery, ranked: Ranked, timing: Stopwatch, request_id: str) -> bytes:
    """Return the response in the new order; ``localrank`` beside the engine's own members says how it came about."""
    engine, ranking = query.engine, ranked.ranking
    timing("encode")
    order = ranked.options.shown(ranking.order)
    scores = ranking.scores.tolist()
    hits = query.scored(order.tolist(), scores)
    page: dict[str, Any] = _as_sent(query.page)
    page[engine.hits] = hits
    if engine.best in page:
        page[engine.best] = max(scores, default=None)
    answer = _as_sent(query.top)
    answer[engine.page] = page
    encoded = {name: orjson.Fragment(orjson.dumps(value)) for name, value in answer.items()}
    return orjson.dumps(
        encoded
        | {
            "localrank": {
                "request_id": request_id,
                "model": ranked.name,
                "version": ranked.version,
                "route": route_members(ranking.route),
                **({} if ranked.degraded is None else {"degraded": ranked.degraded._asdict()}),
                **experiment_members(ranked, len(hits)),
                **({} if ranked.ruled is None else ranked.ruled.named(ranked.documents)),
                "warnings": warnings_of(ranked),
                "timings_ms": timing.stop(),
            }
        }
    )


def _as_sent(members: Mapping[str, Text]) -> dict[str, Any]:
    return {name: orjson.Fragment(text.content) for name, text in members.items()}


def _object(text: Text, name: str) -> dict[str, Text]:
    if text.kind != "{":
        refuse(name, "an object", text, text.at)
    return text.members()


def _options(given: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Read the query string."""
    found: dict[str, Any] = {}
    for name, text in given:
        if name not in _TABLE:
            raise Problem(422, f"unknown option {name!r}; expected some of {', '.join(_TABLE)}")
        if name == "pin":
            found.setdefault(name, []).append(text)
        elif name in found:
            raise Problem(422, f"option {name!r} stands twice")
        else:
            found[name] = text
    try:
        found = plain_values(found, _TABLE)
        check(found, _TABLE)
    except Problem as problem:
        problem.pointer = None  # it stands in the query string
        raise
    return found


def _number(feature: Feature, value: Any, at: str) -> float:
    if feature.kind == "category" and type(value) not in {list, dict}:
        return feature.code_of(value)
    if type(value) not in {int, float}:
        refuse(f"{at[1:]}: feature {feature.name!r}", "a number or null", value, at)
    return math.nan if math.isnan(value) else float(value)


def _locate(root: str, document: int, _feature: int | None) -> str:
    return f"{root}/{document}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_MOST_NAMES]))
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"


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
    _page("response", "docs", {"[features]": dict(TEXT.schema)})
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
        attempt.timing.start("decode")
        asked = request.query_params.multi_items() if request.scope["query_string"] else ()
        query = await attempt.run(read, len(body), engine, body, asked, service.limits)
        model = await attempt.find(query.options.model, at=None)
        documents = await attempt.run(query.documents, query.cost, model.ranker.contract)
        ranked = await attempt.rank(model, documents, query.options)
        content = await attempt.run(encode, len(body), query, ranked, attempt.timing, request_id)
        return Answer(content, server_timing(attempt.timing.stop()))
