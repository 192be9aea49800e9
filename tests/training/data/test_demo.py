"""The demo's queries are the same for everybody."""

from __future__ import annotations

import numpy as np
import pytest

from localrank_training.data.demo import FEATURES, demo_queries, hidden_kinds

#: Our own output, rounded to four decimals. To write it anew, print the same things.
FIRST = {
    0: [11.81, 0.308, 0.421, 76.0, 0.5775, 6.02, 0.406, 0.498, 109.1, 0.658],
    1: [11.78, 0.467, 0.515, 75.0, 0.3032, 8.03, 0.55, 0.421, 124.4, 0.562],
}
LABELS = [[3095, 1563, 784, 403, 224], [1492, 765, 349, 187, 94], [3044, 1496, 758, 437, 181]]
KINDS_OF_FIRST = [[1, 2, 1, 1, 0, 0, 3, 1], [0, 2, 1, 3, 2, 2, 0, 3], [0, 0, 1, 1, 1, 3, 2, 0]]


def test_the_seed_is_zero_by_default() -> None:
    queries, kinds = demo_queries(), hidden_kinds()

    assert np.array_equal(queries[0].documents, demo_queries(0)[0].documents)
    assert np.array_equal(kinds[0], hidden_kinds(0)[0])
    assert LABELS == [np.bincount(part.labels.astype(int)).tolist() for part in queries]
    assert KINDS_OF_FIRST == [part[:8].tolist() for part in kinds]


@pytest.mark.parametrize("seed", [0, 1])
def test_the_first_document_is_known(seed: int) -> None:
    train, _, _ = demo_queries(seed)

    np.testing.assert_allclose(train.documents[0], FIRST[seed], rtol=1e-6)


def test_values_deviate_by_about_three_units_of_their_spread_and_are_so_round() -> None:
    train, validation, test = demo_queries()

    assert (20, 40) == (train.lengths.min(), train.lengths.max())
    documents = np.concatenate([train.documents, validation.documents, test.documents]).astype(np.float64)
    for column, feature in zip(documents.T, FEATURES, strict=True):
        assert 2.5 < column.std() / feature.spread < 3.0
        scaled = column * 10**feature.decimals
        np.testing.assert_allclose(np.round(scaled), scaled, atol=0.01)
        assert np.abs(scaled / 10 - np.round(scaled / 10)).max() > 0.05
        assert 0.95 < column.mean() / feature.mean < 1.05
