"""One line that a new user can paste into a terminal: a request to the served model."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

if TYPE_CHECKING:
    from localrank.arrays import Matrix
    from localrank.features.contract import FeatureContract

_QUANTILES = (3, 4, 5)


def example(contract: FeatureContract, model: str) -> dict[str, Any]:
    """Return a request for three documents of values that training saw often, in few digits."""

    def value(document: int, at: int) -> Any:
        feature = contract.features[at]
        place = document if feature.scope == "document" else 0
        if feature.kind == "category":
            return feature.values[place % len(feature.values)] if feature.values else None
        return float(f"{contract.quantiles[_QUANTILES[(place + at) % 3], at]:.3g}")

    rows = [[value(document, at) for at in range(contract.n_features)] for document in range(3)]
    return {"model": model, "ids": ["a", "b", "c"], "features": rows}


def as_values(documents: Matrix, contract: FeatureContract) -> Matrix | list[list[Any]]:
    """Return documents as JSON has them: values instead of the codes of categories."""
    if not contract.categories:
        return np.ascontiguousarray(documents)
    rows = []
    for document in documents.tolist():
        row = [None if math.isnan(number) else number for number in document]
        for at in contract.categories:
            row[at] = contract.features[at].value_of(document[at])
        rows.append(row)
    return rows


def curl(contract: FeatureContract, model: str, url: str, *, key: bool) -> str:
    """Return a command that sends the example; with ``key``, it takes it from the environment."""
    body = orjson.dumps(example(contract, model)).decode()
    headers = "-H 'content-type: application/json'"
    if key:
        headers += ' -H "x-api-key: $LOCALRANK_API_KEY"'
    return f"curl -s {url}/v1/rerank {headers} -d {shlex.quote(body)}"
