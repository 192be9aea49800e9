"""One line that a new user can paste into a terminal: a request to the served model."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from localrank.features.contract import FeatureContract

_QUANTILES = (3, 4, 5)


def example(contract: FeatureContract, model: str) -> dict[str, Any]:
    """Return a request for three documents of values that training saw often, in few digits."""
    rows = [
        [
            float(f"{contract.quantiles[_QUANTILES[(document + feature) % 3], feature]:.3g}")
            for feature in range(contract.n_features)
        ]
        for document in range(3)
    ]
    return {"model": model, "ids": ["a", "b", "c"], "features": rows}


def curl(contract: FeatureContract, model: str, url: str, *, key: bool) -> str:
    """Return a command that sends the example; with ``key``, it takes it from the environment."""
    body = orjson.dumps(example(contract, model)).decode()
    headers = "-H 'content-type: application/json'"
    if key:
        headers += ' -H "x-api-key: $LOCALRANK_API_KEY"'
    return f"curl -s {url}/v1/rerank {headers} -d {shlex.quote(body)}"
