"""The sign of zero: the same whichever code reads it. Both ways of reading run, as for all tests of wires."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank_service.apis.rerank import reader as rerank_json
from localrank_service.wire.query import Limits

if TYPE_CHECKING:
    from localrank_service.models.live import LiveModel

BODIES: dict[str, bytes] = {
    "columns": b'{"features": [[-0.0, 0.0, -1e-400, 1e-400], [-0.0e5, 0, 0.0e5, 1]]}',
    "rows": b'{"documents": [{"features": [-0.0, 0.0, -1e-400, 1e-400]}, {"features": [-0.0e5, 0, 0.0e5, 1]}]}',
    "unusual": b'{"features": [[-0.0, 0.0, -1e-400, 1e-400], [-0.0e5, 0, 0.0e5, 1]], "query_id": "\\u0041"}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_zero_keeps_its_sign(body: bytes, tiny_model: LiveModel) -> None:
    limits = Limits(5000, refuse_extra_features=False)

    documents = rerank_json.JsonQuery.read(body, limits).documents(tiny_model.ranker.contract)

    expected = np.array([[-0.0, 0.0, -0.0, 0.0], [-0.0, 0.0, 0.0, 1.0]], np.float32)
    assert expected.view(np.uint32).tolist() == documents.matrix.view(np.uint32).tolist()
