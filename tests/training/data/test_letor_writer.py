"""Numbers and lines of LETOR text."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from localrank_training.data.letor_writer import _numerals

FINITE32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(hnp.arrays(np.float32, 50, elements=FINITE32))
def test_a_written_number_goes_through_a_double_and_comes_back(
    values: np.ndarray[tuple[int], np.dtype[np.float32]],
) -> None:
    texts = _numerals(values).to_pylist()

    assert values.tobytes() == np.array([float(text) for text in texts]).astype(np.float32).tobytes()


def test_a_number_whose_shortest_text_does_not_come_back_is_written_longer() -> None:
    """7.038531e-26 is the shortest text of a float32, but the double nearest to it rounds to that one's neighbour."""
    value = np.array([0x15AE43FD], np.uint32).view(np.float32)

    (text,) = _numerals(value).to_pylist()

    assert np.float32(float("7.038531e-26")) != value[0]
    assert np.float32(float(text)) == value[0]
