"""Numbers of a request become one matrix, which is copied only if it must be; there are limits of documents and numbers."""

from __future__ import annotations

import numpy as np
import pytest

from localrank_service.http.problems import Problem
from localrank_service.wire.query import (
    Limits,
    check_count,
    from_bytes,
    ordered,
    to_float32,
)


def test_as_many_documents_and_numbers_as_allowed_are_taken() -> None:
    limits = Limits(5, refuse_extra_features=False, max_numbers=20)

    check_count(5, limits, "/at", width=4)
    check_count(5, limits, "/at")
    for count, width, said in (
        (6, 0, "6 documents; this server takes 5 per request"),
        (3, 7, "3 documents of 7 features have 21 numbers; this server takes 20 per request"),
    ):
        with pytest.raises(Problem) as caught:
            check_count(count, limits, "/at", width=width)
        assert (413, "/at", said) == (caught.value.status, caught.value.pointer, caught.value.detail)


def test_a_matrix_is_copied_only_if_it_must_be() -> None:
    lies = np.zeros((2, 4), np.float32)

    assert to_float32(lies) is lies
    turned = to_float32(np.arange(6, dtype=np.float32).reshape(2, 3).T)
    assert turned.flags.c_contiguous
    assert [[0, 3], [1, 4], [2, 5]] == turned.tolist()
    assert [np.inf, -np.inf, 1.5] == to_float32(np.array([1e39, -1e39, 1.5])).tolist()
    assert np.float32 == to_float32(np.zeros(1)).dtype
    assert ordered(lies, None) is lies
    assert [[2.0, 0.0]] == ordered(np.array([[0, 1, 2]], np.float32), np.array([2, 0])).tolist()
    assert ordered(lies, np.array([3, 1])).flags.c_contiguous


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4"])
@pytest.mark.parametrize("offset", [0, 1, 4])
@pytest.mark.parametrize("fortran", [False, True])
def test_numbers_are_read_where_they_stand(dtype: str, offset: int, *, fortran: bool) -> None:
    values = np.arange(6).reshape(2, 3).astype(dtype)
    body = b"x" * offset + values.tobytes("F" if fortran else "C") + b"rest"

    matrix = from_bytes(body, dtype, (2, 3), offset=offset, fortran=fortran)

    assert [[0, 1, 2], [3, 4, 5]] == matrix.tolist()
    assert (True, True, "float32") == (matrix.flags.c_contiguous, matrix.flags.aligned, matrix.dtype.name)
    # Read-only memory is that of the body: nothing was copied.
    assert (dtype == "<f4" and not fortran and offset % 4 == 0) == (not matrix.flags.writeable)


def test_nothing_is_read_at_the_end_of_a_body() -> None:
    assert (0, 4) == from_bytes(b"", "<f4", (0, 4)).shape
    assert (3, 0) == from_bytes(b"abc", "<f8", (3, 0), offset=3).shape
