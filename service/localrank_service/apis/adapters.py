"""``POST /v1/adapters/ENGINE``: a search engine's own response goes in, and comes back in the model's order.

`localrank.responses` knows where each engine has hits and features. Options stand in the query string. The adapters repeat unknown
members unchanged; the score of a hit becomes the score of the model.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from fastapi import APIRouter, Request, Response

from localrank.errors import no_such
from localrank.responses import ENGINES, Engine, HitReader, WrongHitError, listed
from localrank_service.apis.openapi import BODY, KEY, MODEL, NAMED, ROWS, Schema, operation, option
from localrank_service.http.body import media_type, read_body
from localrank_service.http.edge import Answer, DirectRoute
from localrank_service.http.problems import Problem, pointer
from localrank_service.ranking.reranking import Attempt
from localrank_service.wire.answer import (
    experiment_members,
    route_members,
    server_timing,
    table_members,
    warnings_of,
)
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
    from collections.abc import Mapping, Sequence

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
        "sources",
        TEXT,
        "Where in a hit features are looked for, with commas: `_ltrlog`, `matched_queries`, `fields`, `_source` (Elasticsearch, "
        "OpenSearch); `matchfeatures`, `summaryfeatures`, `rankfeatures` (Vespa). If left out, everywhere.",
    ),
    Member(
        "score_feature",
        TEXT,
        "The feature of the model that is the engine's own score of a hit.",
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
#: Features that a sentence lists.
_MOST_KNOWN = 20


def read(engine: str, body: bytes, options: Sequence[tuple[str, str]], limits: Limits) -> AdaptedQuery:
    """Check everything that needs no model."""
    settings = _options(options)
    return AdaptedQuery(ENGINES[engine], body, settings, limits)


class AdaptedQuery:
    """A page of hits whose features are yet to be read."""

    __slots__ = (
        "_body",
        "_hits",
        "_limits",
        "_page",
        "_settings",
        "_zero",
        "engine",
        "hits",
        "options",
        "top",
    )

    def __init__(self, engine: Engine, body: bytes, settings: Mapping[str, Any], limits: Limits) -> None:
        self._body, self._limits, self.engine = body, limits, engine
        self._settings, self._zero = settings, bool(settings.get("missing_as_zero"))
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
        hits = self._page.get(engine.hits)
        if hits is None and engine.without_hits:
            hits = Text(b"[]", 0, 2, page.at + pointer(engine.hits))
        if hits is None or hits.kind != "[":
            where = f"{engine.page}.{engine.hits}"
            refuse(where, "a list of hits", hits, page.at + pointer(engine.hits))
        self._hits = Elements(hits)
        check_count(self._hits.count, limits, hits.at)
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
        engine = self.engine
        root = f"/{engine.page}/{engine.hits}"
        check_count(self._hits.count, self._limits, root, width=contract.n_features)
        reader = self._reader(contract)
        self.hits = self._hits.all()
        # Zero is a number; as a code it is the first value of a category, and the query may say its features elsewhere.
        zeros = [
            self._zero and one.kind == "number" and one.scope == "document" and one.table is None
            for one in contract.features
        ]
        matrix = np.tile(np.where(zeros, 0.0, np.nan), (len(self.hits), 1))
        unknown: Counter[str] = Counter()
        seen: set[str] = set()
        empty: str | None = None
        is_partial = False
        for position, hit in enumerate(self.hits):
            at = f"{root}/{position}"
            if type(hit) is not dict:
                refuse(at[1:], "an object", hit, at)
            try:
                found = reader.read(hit, at[1:])
            except WrongHitError as error:
                raise Problem(422, str(error), pointer=at + pointer(*error.steps)) from None
            if found is None:
                empty = empty or at
                continue
            is_partial |= found.partial
            seen |= found.values.keys()
            for name, value in found.values.items():
                column = contract.positions.get(name)
                if column is None:
                    unknown[name] += 1
                elif value is not None:
                    matrix[position, column] = _number(contract.features[column], value, at)
        # A hit without one named query that matches has none at all.
        if empty is not None and not is_partial:
            wanted = "" if reader.log is None else f" under {reader.log!r}"
            raise Problem(422, f"{empty[1:]} has no logged features{wanted}; {engine.how}", pointer=empty)
        if self.hits:
            self._check_names(seen, unknown, contract, root, is_partial=is_partial)
        ids = [hit.get(engine.id) for hit in self.hits]
        documents = Documents(to_float32(matrix), ids, partial(_locate, root), dict(unknown))
        return with_query(documents, contract, self.options)

    def _reader(self, contract: FeatureContract) -> HitReader:
        """Return what reads the features of the model from a hit."""
        settings = self._settings
        score, sources = settings.get("score_feature"), settings.get("sources")
        if score is not None and score not in contract.positions:
            raise Problem(422, f"score_feature: {no_such('feature', score, contract.names[:_MOST_KNOWN])}")
        try:
            return HitReader(
                self.engine,
                named=contract.positions.keys(),
                fields=contract.positions.keys(),
                log=settings.get("log"),
                score_feature=score,
                sources=None if sources is None else sources.split(","),
            )
        except ValueError as error:
            raise Problem(422, f"sources: {error}") from None

    def _check_names(
        self,
        seen: set[str],
        unknown: Mapping[str, int],
        contract: FeatureContract,
        at: str,
        *,
        is_partial: bool,
    ) -> None:
        """Refuse features that no hit logged, naming those beside them that the model does not know.

        A named query that no hit matches and a field that no hit has are no error, unless all features are so.
        """
        needed = () if self._zero else contract.features
        sent = self.options.query_features is not None
        absent = [
            one.name
            for one in needed
            if one.name not in seen and one.table is None and not (sent and one.scope == "query")
        ]
        if absent and not (is_partial and seen & contract.positions.keys()):
            others = f"; the hits log {listed(sorted(unknown))}, which it does not know" if unknown else ""
            raise Problem(422, f"no hit logs {listed(absent)}, which the model takes{others}", pointer=at)
        if unknown and self._limits.refuse_extra_features:
            raise Problem(
                422, f"the hits log {listed(sorted(unknown))}, which the model does not know", pointer=at
            )


def encode(query: AdaptedQuery, ranked: Ranked, timing: Stopwatch, request_id: str) -> bytes:
    """Return the response in the new order; ``localrank`` beside the engine's own members says how it came about."""
    engine, ranking = query.engine, ranked.ranking
    timing("encode")
    order = ranked.options.shown(ranking.order)
    scores = ranking.scores.tolist()
    hits = query.scored(order.tolist(), scores)
    page: dict[str, Any] = _as_sent(query.page)
    if hits or engine.hits in page:
        page[engine.hits] = hits
    if engine.best is not None and engine.best in page:
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
                **table_members(ranked),
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


router = APIRouter(route_class=DirectRoute)

_STATUSES = {*KEY, *BODY, *MODEL, 409, 504}
_OPTIONS = tuple(option(member) for member in ADAPTER)


def _page(
    page: str, hits: str, hit: dict[str, Any], *, answered: bool = False, without_hits: bool = False
) -> dict[str, Any]:
    """Return the schema of a response of a search engine, which may have any further members."""
    one = {"type": "object", "properties": hit, "required": list(hit) if answered else []}
    found = {
        "type": "object",
        "properties": {hits: {"type": "array", "items": one}},
        "required": [] if without_hits else [hits],
    }
    added = {"localrank": {"$ref": "#/components/schemas/Adapted"}} if answered else {}
    return {"type": "object", "properties": {page: found, **added}, "required": [page, *added]}


def _logged(row: list[float]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in zip(NAMED, row, strict=True)]


_SEARCH = Schema(
    "SearchResponse",
    _page(
        "hits",
        "hits",
        {
            "fields": {
                "type": "object",
                "description": "`_ltrlog` holds the features of the LTR plug-in; other members are fields of the document.",
            },
            # A list holds only names.
            "matched_queries": {"description": "The scores of the named queries that match, by name."},
        },
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
_VESPA = Schema(
    "VespaResponse",
    _page(
        "root",
        "children",
        {"fields": {"type": "object", "description": "`matchfeatures` holds the features."}},
        without_hits=True,
    )
    | {
        "examples": [
            {
                "root": {
                    "id": "toplevel",
                    "relevance": 1.0,
                    "fields": {"totalCount": 2},
                    "children": [
                        {
                            "id": f"id:shop:product::{number}",
                            "relevance": 0.5,
                            "fields": {"matchfeatures": dict(zip(NAMED, row, strict=True))},
                        }
                        for number, row in enumerate(ROWS, 1)
                    ],
                }
            }
        ]
    },
)
_VESPA_RERANKED = Schema(
    "VespaReranked",
    _page("root", "children", {"relevance": {"type": "number"}}, answered=True, without_hits=True),
    ("Adapted",),
)


@router.post("/v1/adapters/elasticsearch")
@operation(_SEARCH_RERANKED, _STATUSES, reads=_SEARCH, name="rerank_elasticsearch", parameters=_OPTIONS)
async def elasticsearch(request: Request) -> Response:
    """Order the hits of an Elasticsearch response by named queries, fields, and what its LTR plug-in logged."""
    return await _adapt("elasticsearch", request)


@router.post("/v1/adapters/opensearch")
@operation(_SEARCH_RERANKED, _STATUSES, reads=_SEARCH, name="rerank_opensearch", parameters=_OPTIONS)
async def opensearch(request: Request) -> Response:
    """Order the hits of an OpenSearch response by named queries, fields, and what its LTR plug-in logged."""
    return await _adapt("opensearch", request)


@router.post("/v1/adapters/solr")
@operation(_SOLR_RERANKED, _STATUSES, reads=_SOLR, name="rerank_solr", parameters=_OPTIONS)
async def solr(request: Request) -> Response:
    """Order the documents of a Solr response by the features that its [features] transformer logged."""
    return await _adapt("solr", request)


@router.post("/v1/adapters/vespa")
@operation(_VESPA_RERANKED, _STATUSES, reads=_VESPA, name="rerank_vespa", parameters=_OPTIONS)
async def vespa(request: Request) -> Response:
    """Order the hits of a Vespa response by the match features of its rank profile."""
    return await _adapt("vespa", request)


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
