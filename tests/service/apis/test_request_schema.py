"""The JSON Schema of a request for one model says what the model takes."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from localrank import load
from localrank_service.apis.models.schema import request_schema
from localrank_service.models.live import LiveModel
from localrank_service.wire.query import EXPLANATIONS, Limits

ROOT = Path(__file__).parents[3]


@pytest.fixture
def schema(tiny_model: LiveModel) -> dict[str, Any]:
    return request_schema(tiny_model, Limits(77, refuse_extra_features=False))


def test_it_names_the_model_its_features_and_the_limits(
    schema: dict[str, Any], tiny_model: LiveModel
) -> None:
    contract, properties = tiny_model.ranker.contract, schema["properties"]

    assert "https://json-schema.org/draft/2020-12/schema" == schema["$schema"]
    assert ("Rerank request for tiny@3", "object", False) == (
        schema["title"],
        schema["type"],
        schema["additionalProperties"],
    )
    assert contract.digest == schema["x-contract"] == properties["contract"]["const"]
    assert ["tiny", "tiny@3"] == properties["model"]["enum"]
    assert list(contract.names) == properties["feature_names"]["const"]
    assert list(EXPLANATIONS) == properties["explain"]["enum"]
    assert {"type": "integer", "minimum": 1, "maximum": 2**53} == properties["top_n"]
    assert [77] * 3 == [properties[name]["maxItems"] for name in ("documents", "features", "ids")]
    assert {"$ref": "#/$defs/id"} == properties["query_id"] == properties["session_id"]
    assert ["features"] == properties["documents"]["items"]["required"]
    assert not properties["documents"]["items"]["additionalProperties"]
    text, number = schema["$defs"]["id"]["anyOf"]
    assert ({"type": "string"}, -(2**53), 2**53) == (text, number["minimum"], number["maximum"])


def test_a_row_has_each_feature_in_its_place(schema: dict[str, Any], tiny_model: LiveModel) -> None:
    """Missing values: bm25 may not be missing, pagerank is 0 then, ctr:7d the median, age NaN."""
    quantiles = tiny_model.ranker.contract.quantiles
    row, named = schema["$defs"]["row"], schema["$defs"]["named"]

    assert (4, 4, "array") == (row["minItems"], row["maxItems"], row["type"])
    for position, (name, missing) in enumerate(
        {"bm25": "reject", "pagerank": "zero", "ctr:7d": "median", "age": "nan"}.items()
    ):
        feature = row["prefixItems"][position]
        lowest, highest = (f"{float(f'{quantiles[edge, position]:.6g}'):g}" for edge in (0, -1))
        said = "It may not be missing." if missing == "reject" else f"Missing (null): {missing}."
        assert name == feature["title"]
        assert f"Training saw {lowest} to {highest}. {said}" == feature["description"]
        assert ("number" if missing == "reject" else ["number", "null"]) == feature["type"]
        assert feature == named["properties"][name]
    assert ["bm25"] == named["required"]
    assert named["additionalProperties"]


def test_numbers_are_those_that_round_to_a_float32(schema: dict[str, Any]) -> None:
    """The bound is halfway between the largest float32 and the next power of two."""
    largest = float(np.finfo(np.float32).max)
    halfway = (largest + 2.0**128) / 2

    for feature in schema["$defs"]["row"]["prefixItems"]:
        assert (-halfway, halfway) == (feature["exclusiveMinimum"], feature["exclusiveMaximum"])
    with np.errstate(over="ignore"):
        assert np.isinf(np.float32(halfway))
    assert np.float32(math.nextafter(halfway, 0)) == np.float32(largest)


def test_unknown_features_are_refused_if_the_service_refuses_them(tiny_model: LiveModel) -> None:
    schema = request_schema(tiny_model, Limits(77, refuse_extra_features=True))

    assert not schema["$defs"]["named"]["additionalProperties"]


def test_the_example_is_for_the_champion(schema: dict[str, Any]) -> None:
    [example] = schema["examples"]

    assert ("tiny", 3) == (example["model"], len(example["features"]))
    assert [
        {"required": ["documents"], "not": {"required": ["ids"]}},
        {"required": ["features"]},
        {"required": ["columns"], "not": {"required": ["feature_names"]}},
    ] == schema["oneOf"]


def test_the_requests_of_the_docs_are_valid() -> None:
    folder = ROOT / "models" / "demo"
    schema = request_schema(LiveModel("demo", 1, load(folder)), Limits(1000, refuse_extra_features=False))
    page = (ROOT / "docs" / "use" / "http.md").read_text()
    bodies = re.findall(r"^curl -s \S+/v1/rerank -H \S+ \S+ -d '\n(.*?)'$", page, re.DOTALL | re.MULTILINE)
    sent = [one for one in map(json.loads, bodies) if one.get("model") == "demo"]

    assert {"columns", "pin", "boost", "offset"} <= {name for one in sent for name in one}
    for one in sent:
        Draft202012Validator(schema).validate(one)


def test_members_that_do_not_go_together_are_not_valid(schema: dict[str, Any]) -> None:
    valid = Draft202012Validator(schema).is_valid
    columns = {"bm25": [1, 2]}

    assert valid({"columns": columns, "answer": "scores", "query": "shoes", "boost": {"0": 1}})
    assert valid({"columns": columns, "relevance": "rank", "pin": [1], "offset": 1})
    for wrong in (
        {"columns": columns, "answer": "scores", "pin": [1]},
        {"columns": columns, "features": []},
        {"columns": {"bm25": [None]}},
        {"columns": {"bm25": 1}},
        {"columns": {"age": [1]}},
        {"columns": columns, "relevance": "best"},
        {"columns": columns, "pin": [1, 1]},
    ):
        assert not valid(wrong), wrong
