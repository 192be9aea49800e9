"""The address of an array's numbers, as numpy itself says it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from localrank.native import library as addresses


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0),
        np.arange(6.0)[2:],
        np.frombuffer(b"abcd", np.uint8),
        np.empty((0, 3), np.float32),
        np.asfortranarray(np.ones((3, 4))),
        np.ones((3, 4))[:, 1:].T,
        np.array(1.0),
    ],
)
def test_the_address_is_the_one_that_numpy_says(array: np.ndarray[Any, Any]) -> None:
    assert array.ctypes.data == addresses.address_of(array)


def test_numpy_is_asked_if_its_arrays_begin_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert addresses._fastest() is addresses._by_header
    monkeypatch.setattr(addresses, "_HEADER", addresses._HEADER + 8)

    assert addresses._fastest() is addresses._by_numpy
