"""What every wire turns a request into: options that go together, and one matrix in the model's order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from localrank_service.http.problems import Problem
from localrank_service.wire.query import (
    Limits,
    Options,
    check_contract,
    check_count,
    check_options,
    columns_of,
    from_bytes,
    in_model_order,
    ordered,
    to_float32,
)
from tests.service.conftest import NAMES, three_kinds

CONTRACT = three_kinds().contract
OPEN, STRICT = Limits(5, refuse_extra_features=False), Limits(5, refuse_extra_features=True)


def refused(function: Any, *given: Any, **named: Any) -> tuple[int, str | None, str, str | None]:
    with pytest.raises(Problem) as caught:
        function(*given, **named)
    return caught.value.status, caught.value.pointer, caught.value.detail, caught.value.kind


def test_as_many_documents_and_numbers_as_allowed_are_taken() -> None:
    limits = Limits(5, refuse_extra_features=False, max_numbers=20)

    check_count(5, limits, "/at", width=4)
    check_count(5, limits, "/at")
    assert (413, "/at", "6 documents; this server takes 5 per request", None) == refused(
        check_count, 6, limits, "/at"
    )
    said = "3 documents of 7 features have 21 numbers; this server takes 20 per request"
    assert (413, "/at", said, None) == refused(check_count, 3, limits, "/at", width=7)


@pytest.mark.parametrize(
    ("options", "pointer", "said"),
    [
        (Options(fallback_feature="f"), "/fallback_feature", "fallback_feature: expected timeout_ms with it, found none"),
        (Options(timeout_ms=1.0, explain="route"), "/timeout_ms", "timeout_ms cannot be used with explain"),
        (Options(timeout_ms=1.0, explain="contributions"), "/timeout_ms", "timeout_ms cannot be used with explain"),
        (Options(compare=(0, 1)), "/compare", "compare: expected explain to be contributions, found none"),
        (
            Options(compare=(0, 1), explain="route"),
            "/compare",
            "compare: expected explain to be contributions, found route",
        ),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together_are_refused(options: Options, pointer: str, said: str) -> None:
    status, at, detail, _ = refused(check_options, options)

    assert (422, pointer) == (status, at)
    assert detail.startswith(said)


@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options(timeout_ms=1.0),
        Options(timeout_ms=1.0, fallback_feature="f"),
        Options(explain="route"),
        Options(explain="contributions"),
        Options(explain="contributions", compare=(0, 1)),
    ],
)
def test_other_options_go_together(options: Options) -> None:
    check_options(options)


def test_a_contract_is_the_model_s_or_none() -> None:
    check_contract(None, CONTRACT)
    check_contract(CONTRACT.digest, CONTRACT)

    said = f"contract 'sha256:0'; the model's is {CONTRACT.digest!r}"
    assert (409, "/contract", said, "contract-mismatch") == refused(check_contract, "sha256:0", CONTRACT)


def test_names_in_the_model_s_order_change_nothing() -> None:
    assert (None, ()) == columns_of(NAMES, CONTRACT, STRICT)
    assert (None, ()) == columns_of(list(NAMES), CONTRACT, OPEN)


def test_names_say_where_each_feature_stands_and_which_are_not_known() -> None:
    columns, extra = columns_of(["x", "age", "bm25", "y", "pagerank", "ctr:7d"], CONTRACT, OPEN)

    assert columns is not None
    assert ([2, 4, 5, 1], ("x", "y")) == (columns.tolist(), extra)
    assert ((), [3, 2, 1, 0]) == (
        columns_of(NAMES[::-1], CONTRACT, STRICT)[1],
        np.asarray(columns_of(NAMES[::-1], CONTRACT, STRICT)[0]).tolist(),
    )


@pytest.mark.parametrize(
    ("names", "limits", "expected"),
    [
        (
            ["age", "bm25", "age", "bm25"],
            OPEN,
            (422, "/feature_names/2", "feature 'age' is named twice", None),
        ),
        (
            ["bm25"],
            OPEN,
            (
                409,
                "/feature_names",
                "feature 'pagerank' is not among the names; the model takes 4 features",
                "contract-mismatch",
            ),
        ),
        (
            ["bm25", "x"],
            OPEN,
            (
                409,
                "/feature_names",
                "feature 'pagerank' is not among the names; the model takes 4 features, and does not know 'x'",
                "contract-mismatch",
            ),
        ),
        (
            ["y", "bm25", "x", "z"],
            STRICT,
            (
                409,
                "/feature_names",
                (
                    "feature 'pagerank' is not among the names; the model takes 4 features, and does not know 'y' "
                    "and 2 more"
                ),
                "contract-mismatch",
            ),
        ),
        (
            ["age", *NAMES[:3], "x"],
            STRICT,
            (409, "/feature_names/4", "the model does not know feature 'x'", "contract-mismatch"),
        ),
    ],
)
def test_wrong_names_are_named(names: list[str], limits: Limits, expected: tuple[Any, ...]) -> None:
    assert expected == refused(columns_of, names, CONTRACT, limits)


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


def test_a_place_is_that_of_the_column_that_was_sent() -> None:
    def cell(document: int, feature: int | None) -> str:
        return f"{document}:{feature}"

    turned = in_model_order(cell, np.array([2, 0]))

    assert in_model_order(cell, None) is cell
    assert ["7:2", "7:0", "7:None"] == [turned(7, 0), turned(7, 1), turned(7, None)]
