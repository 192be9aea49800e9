"""The JSON Schema of a request for one model: what ``GET /v1/models/{name}/schema`` answers.

If a request is valid by this schema and has one id for each row, it is answered with 200 (a test tries many). A schema
cannot count the ids. The service also answers some requests that the schema does not describe, such as rows in another
order of ``feature_names``, columns, texts, and what names ids of documents (``pin``, ``boost``).

Of a category the schema has the values with their codes, which npy and the Open Inference Protocol take. Of a number that was
trained with a direction it has that: ``x-monotone``, 1 or -1.

``/sample`` answers requests to try the model with: the queries of its probe, which come from held-out queries. A model
without a probe has one sample, of values that training saw often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localrank_service.wire.example import as_values, example
from localrank_service.wire.query import EXPLANATIONS

if TYPE_CHECKING:
    from localrank.arrays import Matrix
    from localrank.features.contract import FeatureContract
    from localrank_service.models.live import LiveModel
    from localrank_service.wire.query import Limits

#: Halfway between the largest float32 and the next power of two: below it, rounding stays finite.
_BOUND = 3.4028235677973366e38


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
            "answer": {"enum": ["ranking", "scores"]},
            "query": {"type": "string"},
            "relevance": {"enum": ["raw", "sigmoid", "rank"]},
            "explain": {"enum": list(EXPLANATIONS)},
            **_of_query(contract),
            "contract": {"const": contract.digest},
            "feature_names": {"const": list(contract.names)},
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
            "ids": {**ids, "description": "One id for each row."},
        },
        "oneOf": [
            {"required": ["documents"], "not": {"required": ["ids"]}},
            {"required": ["features"]},
        ],
        "if": {"properties": {"answer": {"const": "scores"}}, "required": ["answer"]},
        "then": {"not": {"anyOf": [{"required": [name]} for name in ("top_n", "offset", "relevance")]}},
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
                "required": [
                    name
                    for name, missing in zip(contract.names, contract.missing, strict=True)
                    if missing == "reject"
                    and contract.features[contract.positions[name]].scope == "document"
                    and contract.features[contract.positions[name]].table is None
                ],
                "additionalProperties": not limits.refuse_extra_features,
            },
        },
        "x-contract": contract.digest,
        "examples": [example(contract, model.name)],
    }


def _short_row(contract: FeatureContract) -> dict[str, Any]:
    """Return the definition of a row without the features that are looked up in tables, if there are some."""
    if not contract.looked_up:
        return {}
    kept = [at for at in range(contract.n_features) if at not in contract.looked_up]
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
