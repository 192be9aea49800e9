"""The search engines, and notes for their users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from localrank.errors import ExportRefused
from localrank.exports import elasticsearch, solr
from localrank.exports.names import ENGINES
from localrank.exports.plain_form import PlainTrees, plain_form
from localrank.scorers.walk import Layout

if TYPE_CHECKING:
    from localrank.ranker import Ranker

#: Nested deeper than this, an engine's or a client's JSON reader may give up.
_DEEPEST = 400


class Exported(NamedTuple):
    """The body for an engine, and notes for the person who uploads it."""

    body: dict[str, Any]
    notes: tuple[str, ...]


def export(ranker: Ranker, engine: str, name: str, *, global_scorer: bool = False) -> Exported:
    """Write a model for an engine.

    Raises:
        ExportRefused: it cannot compute the model.
    """
    if engine not in ENGINES:
        raise ExportRefused(f"expected one of {', '.join(ENGINES)}, found {engine!r}")
    model = plain_form(ranker, global_scorer=global_scorer)
    contract = ranker.contract
    if isinstance(model, PlainTrees):
        depth = max(int(Layout.of(forest).depths.max()) for forest in model.forests)
        if depth > _DEEPEST:
            raise ExportRefused(f"expected trees of at most {_DEEPEST} levels, found {depth}")
    takes_missing = isinstance(model, PlainTrees) and "nan" in contract.missing
    notes = [
        (
            "the engine adds in float32: scores may differ in the seventh digit, so documents with nearly equal "
            "scores may change places"
        )
    ]
    others = sorted(set(contract.missing) - {"nan", "zero", "reject"})
    if others:
        notes.append(
            f"the model replaces missing values ({', '.join(others)}), but the engine does not: log a value "
            "for every feature"
        )
    if engine == "solr":
        if takes_missing:
            notes.append('missing values need Solr 9.2 and features with "defaultValue": "NaN"')
        return Exported(solr.body(model, name, contract.names, missing=takes_missing), tuple(notes))
    if takes_missing:
        notes.append(
            "Elasticsearch LTR uses 0 for a missing feature, so the trees may give such documents other "
            "scores"
            if engine == "elasticsearch"
            else "some versions of OpenSearch LTR ignore 'missing' and use 0 for a missing feature, so the "
            "trees may give such documents other scores"
        )
    return Exported(elasticsearch.body(model, name, contract.names), tuple(notes))
