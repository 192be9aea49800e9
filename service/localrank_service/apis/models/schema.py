"""The JSON Schema of a request for one model: what ``GET /v1/models/{name}/schema`` answers.

If a request is valid by this schema, it is answered with 200 (a test tries many), unless it has another number of ids than of
rows, columns of different lengths, or pins or boosts a document that it does not have: a schema cannot compare these. The
service also answers some requests that the schema does not describe, such as rows in another order of ``feature_names``,
and texts.

Of a category the schema has the values with their codes, which npy and the Open Inference Protocol take. Of a number that was
trained with a direction it has that: ``x-monotone``, 1 or -1.

``/sample`` answers requests to try the model with: the queries of its probe, which come from held-out queries. A model
without a probe has one sample, of values that training saw often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localrank_service.wire.example import as_values, example
from localrank_service.wire.members import SHARED
from localrank_service.wire.query import ANSWERS, EXPLANATIONS
from localrank_service.wire.relevance import RELEVANCES

if TYPE_CHECKING:
    from localrank.arrays import Matrix
    from localrank.features.contract import FeatureContract
    from localrank_service.models.live import LiveModel
    from localrank_service.wire.query import Limits

#: Halfway between the largest float32 and the next power of two: below it, rounding stays finite.
_BOUND = 3.4028235677973366e38
#: Scores of all documents have no order that could be cut or changed.
_SCORES = {
    "if": {"properties": {"answer": {"const": "scores"}}, "required": ["answer"]},
    "then": {"properties": dict.fromkeys(("pin", "offset", "top_n", "relevance"), False)},
}


def request_schema(model: LiveModel, limits: Limits) -> dict[str, Any]:
    """Return the schema, with an example; ``$defs/row/prefixItems`` holds the features in order."""
    contract = model.ranker.contract
    most = limits.max_documents
    row: dict[str, Any] = {"$ref": "#/$defs/row"}
    short = _short_row(contract)
    if short:
        row = {"anyOf": [row, {"$ref": "#/$defs/short_row"}]}
    ids = {"type": "array", "items": {"$ref": "#/$defs/id"}, "maxItems": most}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Rerank request for {model.name}@{model.version}",
        "type": "object",
        "properties": {
            "model": {"enum": [model.name, f"{model.name}@{model.version}"]},
            "query_id": {"$ref": "#/$defs/id"},
            "session_id": {"$ref": "#/$defs/id"},
            "top_n": {"type": "integer", "minimum": 1, "maximum": 2**53},
            "offset": {"type": "integer", "minimum": 0, "maximum": 2**53},
            "pin": {**SHARED["pin"].kind.schema, "uniqueItems": True},
            "boost": SHARED["boost"].kind.schema,
            "answer": {"enum": list(ANSWERS)},
            "query": {"type": "string"},
            "relevance": {"enum": list(RELEVANCES)},
            "explain": {"enum": list(EXPLANATIONS)},
            **_of_query(contract),
            "contract": {"const": contract.digest},
            "feature_names": _names(contract),
            "documents": {
                "type": "array",
                "maxItems": most,
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"$ref": "#/$defs/id"},
                        "features": {"anyOf": [row, {"$ref": "#/$defs/named"}]},
                        "text": {"type": "string", "description": "Kept for `return_documents`; not read."},
                    },
                    "required": ["features"],
                    "additionalProperties": False,
                },
            },
            "features": {"type": "array", "items": row, "maxItems": most},
            "columns": _columns(contract, limits),
            "ids": {**ids, "description": "One id for each row, or for each value of a column."},
        },
        "oneOf": [
            {"required": ["documents"], "not": {"required": ["ids"]}},
            {"required": ["features"]},
            {"required": ["columns"], "not": {"required": ["feature_names"]}},
        ],
        "allOf": [_SCORES, *_widths(contract)],
        "additionalProperties": False,
        "$defs": {
            "id": {
                "anyOf": [
                    {"type": "string"},
                    {"type": "integer", "minimum": -(2**53), "maximum": 2**53},
                ]
            },
            "row": {
                "description": "One document's features in the model's order.",
                "type": "array",
                "prefixItems": [_feature(contract, position) for position in range(contract.n_features)],
                "minItems": contract.n_features,
                "maxItems": contract.n_features,
            },
            **short,
            "named": {
                "description": "The features of one document by name; a feature that is left out is a missing value.",
                "type": "object",
                "properties": {
                    name: _feature(contract, position) for position, name in enumerate(contract.names)
                },
                "required": _required(contract),
                "additionalProperties": not limits.refuse_extra_features,
            },
        },
        "x-contract": contract.digest,
        "examples": [example(contract, model.name)],
    }


def _required(contract: FeatureContract) -> list[str]:
    """Return the features of documents that may not be left out."""
    return [
        one.name
        for one, missing in zip(contract.features, contract.missing, strict=True)
        if missing == "reject" and one.scope == "document" and one.table is None
    ]


def _columns(contract: FeatureContract, limits: Limits) -> dict[str, Any]:
    """Return what ``columns`` hold: a list for each feature, or a value for one of the query."""
    properties: dict[str, Any] = {}
    for at, one in enumerate(contract.features):
        feature = _feature(contract, at)
        listed = {"type": "array", "items": feature, "maxItems": limits.max_documents}
        properties[one.name] = listed if one.scope == "document" else {"anyOf": [listed, feature]}
    # Lists count the documents, unless ids do.
    of_documents = [one.name for one in contract.features if one.scope == "document"]
    some = {} if contract.looked_up else {"anyOf": [{"required": [name]} for name in of_documents]}
    return {
        "description": "By the name of each feature a list with one value for each document; all lists are equally long.",
        "type": "object",
        "properties": properties,
        "required": _required(contract),
        "additionalProperties": not limits.refuse_extra_features and {"type": "array"},
        **some,
    }


def _kept(contract: FeatureContract) -> list[int]:
    return [at for at in range(contract.n_features) if at not in contract.looked_up]


def _names(contract: FeatureContract) -> dict[str, Any]:
    """Return what ``feature_names`` may be: all in the model's order, or those that are not looked up."""
    every = list(contract.names)
    return (
        {"enum": [every, [every[at] for at in _kept(contract)]]} if contract.looked_up else {"const": every}
    )


def _widths(contract: FeatureContract) -> list[dict[str, Any]]:
    """Return the conditions by which rows have the features that ``feature_names`` say."""
    if not contract.looked_up:
        return []
    found = []
    for row, names in zip(("row", "short_row"), _names(contract)["enum"], strict=True):
        rows = {"$ref": f"#/$defs/{row}"}
        either = {"anyOf": [rows, {"type": "object"}]}
        found.append(
            {
                "if": {"properties": {"feature_names": {"const": names}}, "required": ["feature_names"]},
                "then": {
                    "properties": {
                        "features": {"items": rows},
                        "documents": {"items": {"properties": {"features": either}}},
                    }
                },
            }
        )
    return found


def _short_row(contract: FeatureContract) -> dict[str, Any]:
    """Return the definition of a row without the features that are looked up in tables, if there are some."""
    if not contract.looked_up:
        return {}
    kept = _kept(contract)
    return {
        "short_row": {
            "description": "The same without the features that are looked up by the ids of the documents (`x-from`).",
            "type": "array",
            "prefixItems": [_feature(contract, at) for at in kept],
            "minItems": len(kept),
            "maxItems": len(kept),
        }
    }


def _feature(contract: FeatureContract, position: int) -> dict[str, Any]:
    missing, known = contract.missing[position], contract.features[position]
    scope = {} if known.scope == "document" else {"x-scope": "query"}
    if known.table is not None:
        scope["x-from"] = f"table:{known.table}"
    if known.kind == "category":
        codes = {value: code for code, value in enumerate(known.values)}
        return {
            "title": known.name,
            "description": f"A category of {len(codes)} values, which training knew; any other value counts as one more.",
            "type": ["string", "number", "boolean", "null"],
            "x-kind": "category",
            **scope,
            "x-codes": codes,
            "x-code-of-others": known.unseen,
        }
    lowest, highest = (float(f"{contract.quantiles[edge, position]:.6g}") for edge in (0, -1))
    return {
        "title": contract.names[position],
        "description": f"Training saw {lowest:g} to {highest:g}. "
        + ("It may not be missing." if missing == "reject" else f"Missing (null): {missing}."),
        "type": "number" if missing == "reject" and known.table is None else ["number", "null"],
        "exclusiveMinimum": -_BOUND,
        "exclusiveMaximum": _BOUND,
        **({"x-monotone": known.monotone} if known.monotone else {}),
        **scope,
    }


def _of_query(contract: FeatureContract) -> dict[str, Any]:
    """Return the member for features of the query, if the model has some."""
    if not contract.of_query:
        return {}
    properties = {contract.names[at]: _feature(contract, at) for at in contract.of_query}
    return {"query_features": {"type": "object", "properties": properties, "additionalProperties": False}}


def count_samples(model: LiveModel) -> int:
    """Return how many samples there are, at least one."""
    return len(_queries(model)) or 1


def sample(model: LiveModel, position: int) -> dict[str, Any]:
    """Return the request for one sample; its features stand in the model's order, NaN or null where one is missing."""
    queries = _queries(model)
    address = f"{model.name}@{model.version}"
    if not queries:
        return example(model.ranker.contract, address) | {"query_id": "example"}
    return {
        "model": address,
        "query_id": f"probe-{position}",
        "features": as_values(queries[position], model.ranker.contract),
    }


def _queries(model: LiveModel) -> list[Matrix]:
    """Return the probe's queries whose documents can be reordered."""
    return [] if model.probe is None else [one for one in model.probe.documents if len(one) > 1]
