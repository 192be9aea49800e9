"""The request that a new user can paste holds values of the training data, and asks with a key if one is needed."""

from __future__ import annotations

import json
import shlex

import numpy as np

from localrank.features.contract import FeatureContract
from localrank_service.wire.example import curl, example

DOCUMENTS = np.random.default_rng(0).normal(10.0, 3.0, (500, 4)).astype(np.float32)
CONTRACT = FeatureContract.learn(DOCUMENTS, [500])


def test_documents_differ_and_their_values_are_quantiles_of_training() -> None:
    asked = example(CONTRACT, "web")

    assert ("web", ["a", "b", "c"]) == (asked["model"], asked["ids"])
    rows = asked["features"]
    for document, row in enumerate(rows):
        for feature, value in enumerate(row):
            quantile = CONTRACT.quantiles[3 + (document + feature) % 3, feature]
            assert abs(value - quantile) <= 0.005 * abs(quantile)
    assert 3 == len({tuple(row) for row in rows})


def test_the_command_sends_the_example_and_takes_a_key_from_the_environment() -> None:
    plain = shlex.split(curl(CONTRACT, "web", "http://127.0.0.1:8080", key=False))
    keyed = shlex.split(curl(CONTRACT, "web", "http://127.0.0.1:8080", key=True))

    assert ["curl", "-s", "http://127.0.0.1:8080/v1/rerank"] == plain[:3]
    assert example(CONTRACT, "web") == json.loads(plain[-1])
    assert {"x-api-key: $LOCALRANK_API_KEY"} == set(keyed) - set(plain)
    assert len(plain) + 2 == len(keyed)
