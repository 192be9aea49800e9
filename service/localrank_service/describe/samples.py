"""Queries to try a model with: those of its probe, which come from held-out queries.

A model without a probe has one sample, of values that training saw often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from localrank_service.describe.next_step import example

if TYPE_CHECKING:
    from localrank.arrays import Matrix
    from localrank_service.models.live import LiveModel


def count_samples(model: LiveModel) -> int:
    """Return how many samples there are, at least one."""
    return len(_queries(model)) or 1


def sample(model: LiveModel, position: int) -> dict[str, Any]:
    """Return the request for one sample; its features stand in the model's order, NaN where one is missing."""
    queries = _queries(model)
    address = f"{model.name}@{model.version}"
    if not queries:
        return example(model.ranker.contract, address) | {"query_id": "example"}
    return {
        "model": address,
        "query_id": f"probe-{position}",
        "features": np.ascontiguousarray(queries[position]),
    }


def _queries(model: LiveModel) -> list[Matrix]:
    """Return the probe's queries whose documents can be reordered."""
    return [] if model.probe is None else [one for one in model.probe.documents if len(one) > 1]
