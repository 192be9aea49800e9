"""Products with documents that are converted at once or in blocks."""

from __future__ import annotations

import numpy as np
import pytest

from localrank_training.learners import linear as products
from localrank_training.learners.linear import Products


@pytest.mark.parametrize(("block", "converted"), [(60, True), (59, False), (25, False), (1, False)])
def test_products_are_those_of_doubles_however_they_are_read(
    block: int, monkeypatch: pytest.MonkeyPatch, *, converted: bool
) -> None:
    """Single precision would lose the 1 beside 2^24."""
    monkeypatch.setattr(products, "BLOCK", block)
    rng = np.random.default_rng(0)
    documents = rng.integers(-9, 9, (12, 5)).astype(np.float32)
    documents[:, 0] = 2**24
    weights = np.array([1.0, 1.0, -2.0, 0.5, 3.0])
    coefficients = np.array([1.0, 0.0, 2.0, 1.0, 1.0, 4.0, 1.0, 1.0, -1.0, 1.0, 2.0, 0.5])

    made = Products.of(documents)

    assert (np.float64 if converted else np.float32) == made.documents.dtype
    exact = documents.astype(np.float64)
    assert [float(sum(row * weights)) for row in exact] == made.scores(weights).tolist()
    assert [float(sum(column * coefficients)) for column in exact.T] == made.combination(
        coefficients
    ).tolist()
