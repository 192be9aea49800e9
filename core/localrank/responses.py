"""Search engines' responses: where the hits are, and which features they hold.

The service reads the response that an application posts with it, and ``localrank data join`` the responses that were stored. So a
model learns from the values that it will see.

    Elasticsearch, OpenSearch   {"hits": {"hits": [{"_id", "_score", "matched_queries": {name: score}, "fields": {name: [value]},
                                 "_source": {…}}]}}; the Learning to Rank plug-in writes fields._ltrlog
    Solr                        {"response": {"docs": [{"id", "score", "[features]": "name=value,…"}]}}
    Vespa                       {"root": {"children": [{"id", "relevance", "fields": {"matchfeatures": {name: value}}}]}}

A place of a hit that holds features is a *source*. Some sources say all features that there are (the logs of the plug-ins, the
feature objects of Vespa). Others leave out what a document has not: a named query that does not match, a field without a value.
Such a feature is missing. Docs: docs/use/search-engines.md.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from localrank.errors import shown
from localrank.letor import decimal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    #: Names and values, and the steps from the hit to them.
    Part: TypeAlias = tuple[tuple[str, ...], Mapping[str, Any]]

_LTR_LOG = "_ltrlog"
_MATCHED, _FIELDS, _SOURCE = "matched_queries", "fields", "_source"
_RANK_FEATURES = "rankfeatures"
#: Solr's own names of the field that holds the features.
_SOLR_FIELDS = ("[features]", "[fv]", "features", "fv")
#: What Java writes of a number that is none.
_NOT_FINITE = {sign + name: float(sign + name) for sign in ("", "+", "-") for name in ("Infinity", "NaN")}
#: Vespa says with it whether the features are from the cache.
_NO_FEATURE = "vespa.summaryFeatures.cached"
#: Types of ids; a hit may have none.
_IDS = frozenset({str, int, type(None)})
#: Names in a sentence.
_MOST_NAMES = 5


class WrongHitError(ValueError):
    """A hit is not as it should be.

    Attributes:
        steps: where in the hit.
    """

    def __init__(self, message: str, *steps: str) -> None:
        super().__init__(message)
        self.steps = steps


class Engine(NamedTuple):
    """Where in an engine's response things are.

    Attributes:
        page: the member that holds the page of hits.
        hits: the list in it.
        best: the page's member with the highest score; None if it has none.
        score: of a hit.
        id: of a hit.
        sources: where a hit holds features, in the order in which they are read.
        how: what to ask the engine for if a hit holds none.
        without_hits: whether the list may be absent, which means that there are no hits.
    """

    page: str
    hits: str
    best: str | None
    score: str
    id: str
    sources: tuple[str, ...]
    how: str
    without_hits: bool = False


_ELASTIC = Engine(
    "hits",
    "hits",
    "max_score",
    "_score",
    "_id",
    (_LTR_LOG, _MATCHED, _FIELDS, _SOURCE),
    'log them: "ext": {"ltr_log": {"log_specs": {...}}}, or name queries and ask with include_named_queries_score=true',
)
ENGINES: dict[str, Engine] = {
    "elasticsearch": _ELASTIC,
    "opensearch": _ELASTIC,
    "solr": Engine(
        "response", "docs", "maxScore", "score", "id", ("[features]",), "ask for them: fl=...,[features]"
    ),
    "vespa": Engine(
        "root",
        "children",
        None,
        "relevance",
        "id",
        ("matchfeatures", "summaryfeatures", _RANK_FEATURES),
        "name them in the rank profile: match-features { ... }",
        without_hits=True,
    ),
}


def engine_of(response: Mapping[str, Any]) -> Engine | None:
    """Return the engine that answers so; None if none does."""
    return next((one for one in ENGINES.values() if type(response.get(one.page)) is dict), None)


class HitFeatures(NamedTuple):
    """The features that a hit holds.

    Attributes:
        values: by name, as the engine wrote them; None is missing.
        partial: whether features that are not here are missing, because a source leaves them out.
    """

    values: dict[str, Any]
    partial: bool


class HitReader:
    """Reads the features of hits.

    Args:
        engine: that answered.
        named: features that named queries and Vespa's ``rankfeatures`` may hold; None takes all.
        fields: features that ``fields`` and ``_source`` may hold, which hold much else; a dot leads into an object.
        log: the entry of the log, or the field of Solr, that holds the features, if there are several.
        score_feature: the feature that is the engine's own score of the hit.
        sources: of the engine that are read; None reads all.

    Raises:
        ValueError: the engine has no such source.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        named: Collection[str] | None,
        fields: Collection[str],
        log: str | None = None,
        score_feature: str | None = None,
        sources: Collection[str] | None = None,
    ) -> None:
        if unknown := set(sources or ()) - {*engine.sources}:
            raise ValueError(f"expected some of {', '.join(engine.sources)}, found {min(unknown)!r}")
        self.engine, self.log, self.score_feature = engine, log, score_feature
        self.named = None if named is None else frozenset(named)
        self.fields = frozenset(fields)
        self.paths = {name: name.split(".") for name in self.fields if "." in name}
        self.sources = tuple(one for one in engine.sources if sources is None or one in sources)

    def read(self, hit: Mapping[str, Any], at: str) -> HitFeatures | None:
        """Return the features of a hit, None if it holds none.

        Args:
            hit: as the engine wrote it.
            at: what a sentence calls it.

        Raises:
            WrongHitError: the id or a source is of another form, or two of them hold the same feature.
        """
        name = self.engine.id
        if type(one := hit.get(name)) not in _IDS:
            raise WrongHitError(f"{at}: {name}: expected a text or an integer, found {shown(one)}", name)
        values: dict[str, Any] = {}
        parts: list[tuple[str, Mapping[str, Any]]] = []
        is_partial = has_log = False
        for source in self.sources:
            part = _SOURCES[source](self, hit, at)
            if part is None:
                continue
            steps, found = part
            if parts and (twice := values.keys() & found.keys()):
                name = min(twice)
                raise WrongHitError(
                    f"{at}: feature {name!r} stands in {_first(name, parts)} and in {source}; leave one of them out with "
                    "sources=…",
                    *steps,
                )
            values.update(found)
            parts.append((source, found))
            if source in _PARTIAL:
                # Fields without features say nothing of features that are absent.
                is_partial |= source == _MATCHED or bool(found)
            else:
                has_log = True
        if (score := self.score_feature) is not None:
            if score in values:
                raise WrongHitError(
                    f"{at}: feature {score!r} stands in {_first(score, parts)}, and score_feature says that it is the score"
                )
            values[score] = hit.get(self.engine.score)
        return HitFeatures(values, is_partial) if values or is_partial or has_log else None


def _first(name: str, parts: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return the source that holds a feature."""
    return next(source for source, found in parts if name in found)


def features_of_entry(entry: Sequence[Any], at: str, *steps: str) -> dict[str, Any]:
    """Return the features of an entry of a log, ``[{"name": "bm25", "value": 1.5}]``; no value means missing.

    Raises:
        WrongHitError: it has another form, or a feature twice.
    """
    named: dict[str, Any] = {}
    for one in entry:
        if type(one) is not dict or type(one.get("name")) is not str:
            raise WrongHitError(
                f"{at}: a logged feature: expected an object with name and value, found {shown(one)}", *steps
            )
        if one["name"] in named:
            raise WrongHitError(f"{at}: feature {one['name']!r} is logged twice", *steps)
        named[one["name"]] = one.get("value")
    return named


def value_at(document: Mapping[str, Any], path: Sequence[str]) -> tuple[bool, Any]:
    """Return whether a document has a value at the end of a path of names, and the value."""
    value: Any = document
    for name in path:
        if type(value) is not dict or name not in value:
            return False, None
        value = value[name]
    return True, value


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence lists them."""
    few = ", ".join(map(repr, names[:_MOST_NAMES]))
    return few if len(names) <= _MOST_NAMES else f"{few} and {len(names) - _MOST_NAMES} more"


def _of_log(reader: HitReader, hit: Mapping[str, Any], at: str) -> Part | None:
    """Read ``{"fields": {"_ltrlog": [{"entry": [{"name": "bm25", "value": 1.5}]}]}}``."""
    fields = hit.get(_FIELDS)
    log = fields.get(_LTR_LOG) if type(fields) is dict else None
    if type(log) is not list or not log:
        return None
    steps = (_FIELDS, _LTR_LOG)
    parts = [entry for part in log if type(part) is dict for entry in part.items()]
    entries = dict(parts)
    if len(entries) < len(parts):
        raise WrongHitError(f"{at} has a log entry twice: {listed([name for name, _ in parts])}", *steps)
    if reader.log is None and len(entries) > 1:
        raise WrongHitError(
            f"{at} has the log entries {listed([*entries])}; choose one of them: ?log={next(iter(entries))}",
            *steps,
        )
    values = entries.get(next(iter(entries), "") if reader.log is None else reader.log)
    return (steps, features_of_entry(values, at, *steps)) if type(values) is list else None


def _of_named_queries(reader: HitReader, hit: Mapping[str, Any], _at: str) -> Part | None:
    """Read ``{"matched_queries": {"title_bm25": 6.1}}``; a list holds names without scores, which are no features."""
    matched = hit.get(_MATCHED)
    return ((_MATCHED,), _known(reader, matched)) if type(matched) is dict else None


def _of_fields(reader: HitReader, hit: Mapping[str, Any], at: str) -> Part | None:
    """Read ``{"fields": {"rating": [4.2]}}``."""
    fields = hit.get(_FIELDS)
    if type(fields) is not dict:
        return None
    wanted = fields.keys() & reader.fields
    return (_FIELDS,), {name: _single(fields[name], name, at, _FIELDS) for name in wanted}


def _of_source(reader: HitReader, hit: Mapping[str, Any], at: str) -> Part | None:
    """Read ``{"_source": {"price": 12, "stats": {"clicks": 3}}}``; the second is the feature ``stats.clicks``."""
    document = hit.get(_SOURCE)
    if type(document) is not dict:
        return None
    wanted = document.keys() & reader.fields
    found = {name: _single(document[name], name, at, _SOURCE) for name in wanted}
    for name, path in reader.paths.items():
        held, value = value_at(document, path)
        if held and name in found:
            raise WrongHitError(f"{at}: feature {name!r} stands in {_SOURCE} twice", _SOURCE)
        if held:
            found[name] = _single(value, name, at, _SOURCE)
    return (_SOURCE,), found


def _of_solr(reader: HitReader, hit: Mapping[str, Any], at: str) -> Part | None:
    """Read ``"[features]": "bm25=1.5,pagerank=0.2"``, Solr's own form; an object of numbers is as good."""
    field = reader.log or next((name for name in _SOLR_FIELDS if name in hit), None)
    logged = None if field is None else hit.get(field)
    if field is None or type(logged) not in {dict, str}:
        return None
    if isinstance(logged, dict):
        return (field,), logged
    named: dict[str, Any] = {}
    for part in str(logged).split(",") if logged else ():
        name, _, value = part.rpartition("=")
        number = _NOT_FINITE.get(value)
        number = decimal(value.encode()) if number is None else number
        if not name or number is None:
            raise WrongHitError(f"{at}: a logged feature: expected name=value, found {shown(part)}", field)
        if name in named:
            raise WrongHitError(f"{at}: feature {name!r} is logged twice", field)
        named[name] = number
    return (field,), named


def _of_vespa(source: str, reader: HitReader, hit: Mapping[str, Any], _at: str) -> Part | None:
    """Read ``{"fields": {"matchfeatures": {"bm25(title)": 1.5}}}``."""
    fields = hit.get(_FIELDS)
    found = fields.get(source) if type(fields) is dict else None
    if type(found) is not dict:
        return None
    # All features that Vespa has are among the rank features.
    values = _known(reader, found) if source == _RANK_FEATURES else found
    return (_FIELDS, source), {name: value for name, value in values.items() if name != _NO_FEATURE}


def _known(reader: HitReader, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return those values that are features."""
    if reader.named is None:
        return values
    return {name: values[name] for name in values.keys() & reader.named}


def _single(value: Any, name: str, at: str, source: str) -> Any:
    """Return the one value of a field, None if it has none; engines put them into lists."""
    if type(value) is not list:
        return value
    if len(value) > 1:
        raise WrongHitError(
            f"{at}: feature {name!r}: expected one value, found {len(value)} in {source}", source, name
        )
    return value[0] if value else None


#: Sources that leave out what a document has not.
_PARTIAL = frozenset({_MATCHED, _FIELDS, _SOURCE})
_SOURCES: dict[str, Callable[[HitReader, Mapping[str, Any], str], Part | None]] = {
    _LTR_LOG: _of_log,
    _MATCHED: _of_named_queries,
    _FIELDS: _of_fields,
    _SOURCE: _of_source,
    "[features]": _of_solr,
    **{source: partial(_of_vespa, source) for source in ENGINES["vespa"].sources},
}
