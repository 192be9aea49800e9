"""Tensors of the Open Inference Protocol: what each may be, and where it is wrong."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from localrank_service.apis.v2.tensors import (
    INPUTS,
    Tensor,
    read_features,
    read_ids,
    read_sizes,
    tensors_of,
)
from localrank_service.http.problems import Problem
from localrank_service.wire.query import Limits

pytestmark = pytest.mark.usefixtures("arithmetic")

LIMITS = Limits(5, refuse_extra_features=False, max_numbers=40)


def tensor(
    name: str = "features", datatype: str = "FP32", shape: Any = (2, 4), **more: Any
) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": list(shape), **more}


def binary(size: int, **more: Any) -> dict[str, Any]:
    return tensor(**more) | {"parameters": {"binary_data_size": size}}


def refused(inputs: Any, start: int = 0, end: int = 0) -> Problem:
    with pytest.raises(Problem) as caught:
        tensors_of({"inputs": inputs}, start, end)
    return caught.value


def test_bytes_of_tensors_follow_each_other() -> None:
    inputs = [
        binary(32),
        tensor("doc_ids", "INT64", [2], data=[7, 8]),
        binary(8, name="group", datatype="INT64", shape=[1]),
    ]

    found = tensors_of({"inputs": inputs}, 100, 140)

    assert {"features": (100, 32), "doc_ids": (132, None), "group": (132, 8)} == {
        name: (one.start, one.size) for name, one in found.items()
    }
    assert ["/inputs/0", "/inputs/1", "/inputs/2"] == [one.at for one in found.values()]
    assert ([7, 8], None) == (found["doc_ids"].data, found["features"].data)
    assert ("FP32", [2, 4]) == (found["features"].datatype, found["features"].shape)


@pytest.mark.parametrize(("start", "end"), [(100, 131), (100, 133), (0, 0)])
def test_the_body_ends_where_the_last_tensor_does(start: int, end: int) -> None:
    problem = refused([binary(32)], start, end)

    assert (400, "") == (problem.status, problem.pointer)
    assert f"the binary tensors have {start + 32} bytes with the header; the body has {end}" == problem.detail


@pytest.mark.parametrize("name", INPUTS)
def test_every_input_has_its_number_types(name: str) -> None:
    for datatype in {one for types in INPUTS.values() for one in types}:
        inputs = [tensor(name, datatype, [1], data=[])]
        if name != "features":
            inputs.append(tensor(data=[]))
        if datatype in INPUTS[name]:
            assert datatype == tensors_of({"inputs": inputs}, 0, 0)[name].datatype
        else:
            problem = refused(inputs)
            assert (422, "/inputs/0/datatype") == (problem.status, problem.pointer)
            assert f"{name}: datatype: expected one of {', '.join(INPUTS[name])}" in problem.detail


@pytest.mark.parametrize(
    ("one", "at", "said"),
    [
        (tensor(), "/inputs/0", "features: expected either data or binary_data_size"),
        (binary(4, data=[]), "/inputs/0", "features: expected either data or binary_data_size"),
        (binary(-1), "/inputs/0/parameters/binary_data_size", "an integer of at least 0, found -1"),
        (tensor(parameters=[]), "/inputs/0/parameters", "parameters: expected an object"),
        (tensor(shape=[]), "/inputs/0/shape", "features: shape: expected a list of extents"),
        (tensor(shape=[True, 4]), "/inputs/0/shape", "features: shape: expected a list of extents"),
        (tensor(shape=[1, -1]), "/inputs/0/shape", "features: shape: expected a list of extents"),
        (tensor(name="x"), "/inputs/0/name", "inputs[0].name: expected one of features, doc_ids, group"),
        (7, "/inputs/0", "inputs[0]: expected an object, found 7"),
    ],
)
def test_a_wrong_tensor_is_pointed_at(one: Any, at: str, said: str) -> None:
    problem = refused([one])

    assert (422, at) == (problem.status, problem.pointer)
    assert said in problem.detail


@pytest.mark.parametrize(("datatype", "kind"), [("FP16", "<f2"), ("FP32", "<f4"), ("FP64", "<f8")])
@pytest.mark.parametrize("start", [0, 3])
def test_features_of_every_number_type_are_read_where_they_stand(
    datatype: str, kind: str, start: int
) -> None:
    values = np.arange(8).reshape(2, 4).astype(kind)
    body = b"x" * start + values.tobytes()
    one = Tensor("/inputs/0", datatype, [2, 4], None, start, values.nbytes)

    matrix, locate = read_features(one, body, 4, LIMITS)

    assert values.astype(np.float32).tolist() == matrix.tolist()
    assert "/inputs/0" == locate(1, 2) == locate(0, None)
    with pytest.raises(Problem) as caught:
        read_features(one._replace(size=values.nbytes - 1), body, 4, LIMITS)
    assert (
        f"the tensor has {values.nbytes - 1} bytes; shape [2, 4] of {datatype} needs {values.nbytes}"
        == caught.value.detail
    )


def test_a_whole_body_is_as_many_documents_as_it_has_room_for() -> None:
    raw = Tensor("", "FP32", [], None, 0, 48)

    matrix, _ = read_features(raw, np.arange(12, dtype="<f4").tobytes(), 4, LIMITS)
    with pytest.raises(Problem) as caught:
        read_features(raw._replace(size=50), bytes(50), 4, LIMITS)

    assert np.arange(12).reshape(3, 4).tolist() == matrix.tolist()
    assert (400, "the body has 50 bytes; expected a multiple of 16, 4 FP32") == (
        caught.value.status,
        caught.value.detail,
    )


@pytest.mark.parametrize(
    ("shape", "status", "at", "said"),
    [
        ([8], 422, "/i/shape", "features has shape [8]; expected [documents, 4]"),
        ([1, 2, 4], 422, "/i/shape", "features has shape [1, 2, 4]"),
        ([2, 3], 422, "/i/shape/1", "features has 3 features per document; expected 4"),
        ([6, 4], 413, "/i/shape/0", "6 documents; this server takes 5 per request"),
        ([5, 9], 413, "/i/shape/0", "5 documents of 9 features have 45 numbers"),
    ],
)
def test_a_wrong_shape_is_refused_before_its_numbers_are_read(
    shape: list[int], status: int, at: str, said: str
) -> None:
    with pytest.raises(Problem) as caught:
        read_features(Tensor("/i", "FP32", shape, None, 0, 0), b"", 4, LIMITS)

    assert (status, at) == (caught.value.status, caught.value.pointer)
    assert said in caught.value.detail


def lifted(values: Any, shape: list[int]) -> Tensor:
    return Tensor("/i", "FP32", shape, np.array(values, np.float32), 0, None)


def test_numbers_that_were_lifted_out_know_their_places() -> None:
    flat, of_flat = read_features(lifted(range(8), [2, 4]), b"", 4, LIMITS)
    nested, of_rows = read_features(lifted([range(4), range(4, 8)], [2, 4]), b"", 4, LIMITS)

    assert flat.tolist() == nested.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert ["/i/data/6", "/i/data/4", "/i/data/0"] == [of_flat(1, 2), of_flat(1, None), of_flat(0, 0)]
    assert ["/i/data/1/2", "/i/data/1", "/i/data/0/0"] == [of_rows(1, 2), of_rows(1, None), of_rows(0, 0)]


@pytest.mark.parametrize(
    ("values", "at", "said"),
    [
        (range(7), "/i/data", "features: data holds 7 numbers; shape [2, 4] needs 8"),
        ([[1, 2, 3, 4]], "/i/data", "features: data has 1 rows; expected 2"),
        ([[1, 2, 3]] * 2, "/i/data/0", "features: data[0] has 3 values; expected 4"),
    ],
)
def test_lifted_numbers_have_the_shape_that_was_said(values: Any, at: str, said: str) -> None:
    with pytest.raises(Problem) as caught:
        read_features(lifted(values, [2, 4]), b"", 4, LIMITS)

    assert (422, at, said) == (caught.value.status, caught.value.pointer, caught.value.detail)


def test_ids_are_texts_or_integers() -> None:
    texts = b"".join(struct.pack("<I", len(one)) + one for one in (b"", b"ab"))
    numbers = np.array([-(2**63), 2**63 - 1], "<i8").tobytes()

    assert read_ids(None, b"", 2) is None
    assert [b"", b"ab"] == read_ids(Tensor("/i", "BYTES", [2], None, 1, len(texts)), b"x" + texts + b"y", 2)
    assert [-(2**63), 2**63 - 1] == read_ids(Tensor("/i", "INT64", [2], None, 1, 16), b"x" + numbers, 2)
    assert ["a", ""] == read_ids(Tensor("/i", "BYTES", [2], ["a", ""], 0, None), b"", 2)
    assert [-(2**63), 2**63 - 1] == read_ids(
        Tensor("/i", "INT64", [2], [-(2**63), 2**63 - 1], 0, None), b"", 2
    )


@pytest.mark.parametrize(
    ("one", "status", "at", "said"),
    [
        (Tensor("/i", "BYTES", [3], [], 0, None), 422, "/i/shape", "doc_ids has shape [3]; expected [2]"),
        (Tensor("/i", "BYTES", [2, 1], [], 0, None), 422, "/i/shape", "doc_ids has shape [2, 1]; expected [2]"),
        (Tensor("/i", "BYTES", [2], ["a"], 0, None), 422, "/i/data", "data holds 1 values; expected 2"),
        (Tensor("/i", "BYTES", [2], ["a", 1], 0, None), 422, "/i/data/1", "data[1]: expected a text, found 1"),
        (Tensor("/i", "INT64", [2], ["a", 1], 0, None), 422, "/i/data/0", "expected an integer of 64 bits"),
        (Tensor("/i", "INT64", [2], [0, 2**63], 0, None), 422, "/i/data/1", "expected an integer of 64 bits"),
        (Tensor("/i", "INT64", [2], [-(2**63) - 1, 0], 0, None), 422, "/i/data/0", "expected an integer"),
        (Tensor("/i", "INT64", [2], [True, 0], 0, None), 422, "/i/data/0", "expected an integer of 64 bits"),
        (Tensor("/i", "INT64", [2], None, 0, 15), 400, "/i", "the tensor has 15 bytes; shape [2] of INT64 needs 16"),
        (Tensor("/i", "BYTES", [2], None, 0, 8), 400, "/i", "expected 2 texts, each after its length, found 8 other"),
        (Tensor("/i", "BYTES", [2], None, 4, 8), 400, "/i", "expected 2 texts, each after its length, found 8 other"),
    ],
)  # fmt: skip
def test_wrong_ids_are_pointed_at(one: Tensor, status: int, at: str, said: str) -> None:
    body = struct.pack("<II", 0, 1) + b"a" + bytes(20)

    with pytest.raises(Problem) as caught:
        read_ids(one, body, 2)

    assert (status, at) == (caught.value.status, caught.value.pointer)
    assert said in caught.value.detail


@pytest.mark.parametrize(("datatype", "kind"), [("INT32", "<i4"), ("INT64", "<i8")])
def test_sizes_of_queries_add_up_to_the_documents(datatype: str, kind: str) -> None:
    data = np.array([1, 0, 2], kind).tobytes()

    assert (3,) == tuple(read_sizes(None, b"", 3, LIMITS))
    assert [1, 0, 2] == read_sizes(Tensor("/i", datatype, [3], None, 2, len(data)), b"xx" + data, 3, LIMITS)
    assert [1, 0, 2] == read_sizes(Tensor("/i", datatype, [3], [1, 0, 2], 0, None), b"", 3, LIMITS)
    assert [] == read_sizes(Tensor("/i", datatype, [0], None, 2, 0), b"xx", 0, LIMITS)


@pytest.mark.parametrize(
    ("sizes", "shape", "status", "at", "said"),
    [
        ([1, 1], [2], 422, "/i", "group sums up to 2; expected sizes of 0 or more that sum up to 3"),
        ([4, -1], [2], 422, "/i", "group: expected sizes of 0 or more, found -1"),
        ([3], [1, 1], 422, "/i/shape", "group has shape [1, 1]; expected [queries]"),
        ([1] * 6, [6], 413, "/i/shape/0", "6 queries; this server takes 5 per request"),
        ([], [0], 422, "/i", "group sums up to 0"),
        ([3, 0, 0, 0], [5], 422, "/i/data", "data holds 4 values; expected 5"),
    ],
)
def test_wrong_sizes_are_pointed_at(
    sizes: list[int], shape: list[int], status: int, at: str, said: str
) -> None:
    with pytest.raises(Problem) as caught:
        read_sizes(Tensor("/i", "INT64", shape, sizes, 0, None), b"", 3, LIMITS)

    assert (status, at) == (caught.value.status, caught.value.pointer)
    assert said in caught.value.detail
