"""Inputs of the Open Inference Protocol: tensors as JSON, or as bytes that follow the JSON in the body."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from localrank_service.http.problems import Problem, pointer
from localrank_service.wire.members import Member, by_name, check, integer
from localrank_service.wire.numbers import read_flat, read_rows
from localrank_service.wire.query import check_count, from_bytes
from localrank_service.wire.text import Elements, Text, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from localrank.arrays import Matrix
    from localrank_service.wire.query import AbsentColumns, Limits

#: Of ``parameters`` of an input, and of an output.
BINARY_INPUT = (Member("binary_data_size", integer(0), "The bytes of a tensor that follows the JSON."),)

_FLOATS = {"FP16": "<f2", "FP32": "<f4", "FP64": "<f8"}
_INTEGERS = {"INT32": "<i4", "INT64": "<i8"}

#: ``name: datatypes`` that each input may have.
INPUTS: dict[str, tuple[str, ...]] = {
    "features": tuple(_FLOATS),
    "doc_ids": ("BYTES", "INT64"),
    "group": tuple(_INTEGERS),
    "query_features": ("BYTES",),
}
#: Inputs of one request, at most: besides these, one for each category that comes as texts.
MOST_INPUTS = 64

_OF_INPUT = by_name(BINARY_INPUT)

Ids: TypeAlias = "list[str] | list[bytes] | list[int]"


class Tensor(NamedTuple):
    """One input.

    Attributes:
        at: its JSON pointer.
        datatype: as the protocol calls it.
        shape: empty if the whole body is the tensor.
        data: its numbers if they were lifted out of the JSON, else its JSON; or
        start: where its bytes begin in the body, and ``size``, their number.
    """

    at: str
    datatype: str
    shape: list[int]
    data: Matrix | Text | list[Any] | None
    start: int
    size: int | None


def parameters_of(members: dict[str, Any], at: str) -> dict[str, Any]:
    """Return the parameters of a request, an input or an output."""
    parameters = members.get("parameters")
    if parameters is None:
        return {}
    if type(parameters) is not dict:
        refuse("parameters", "an object", parameters, f"{at}/parameters")
    return parameters


def tensors_of(members: dict[str, Any], start: int, end: int) -> dict[str, Tensor]:
    """Return the inputs of a request by name; bytes of tensors stand in its body from ``start`` to ``end``."""
    inputs = members.get("inputs")
    if type(inputs) is not list:
        refuse("inputs", "a list of tensors", inputs, "/inputs")
    found: dict[str, Tensor] = {}
    for position, one in enumerate(inputs):
        at = f"/inputs/{position}"
        if type(one) is not dict:
            refuse(f"inputs[{position}]", "an object", one, at)
        name, datatype, shape = one.get("name"), one.get("datatype"), one.get("shape")
        if type(name) is not str or (name not in INPUTS and datatype != "BYTES"):
            refuse_name(name, position)
        if name in found:
            raise Problem(422, f"input {name!r} stands twice", pointer=f"{at}/name")
        kinds = INPUTS.get(name, ("BYTES",))
        if type(datatype) is not str or datatype not in kinds:
            refuse(f"{name}: datatype", f"one of {', '.join(kinds)}", datatype, f"{at}/datatype")
        if (
            type(shape) is not list
            or not all(type(extent) is int and extent >= 0 for extent in shape)
            or not shape
        ):
            refuse(f"{name}: shape", "a list of extents", shape, f"{at}/shape")
        parameters = parameters_of(one, at)
        check(parameters, _OF_INPUT, f"{at}/parameters")
        size = parameters.get("binary_data_size")
        if (size is None) != ("data" in one):
            raise Problem(422, f"{name}: expected either data or binary_data_size", pointer=at)
        found[name] = Tensor(at, datatype, shape, one.get("data"), start, size)
        start += size or 0
    if start != end:
        raise Problem(
            400, f"the binary tensors have {start} bytes with the header; the body has {end}", pointer=""
        )
    if "features" not in found:
        for position, name in enumerate(found):
            if name not in INPUTS:
                refuse_name(name, position)
        raise Problem(422, "inputs: expected the input 'features', found none", pointer="/inputs")
    return found


def refuse_name(name: Any, position: int | str) -> NoReturn:
    """Refuse an input that is none."""
    at = f"/inputs/{position}/name"
    refuse(f"inputs[{position}].name", f"one of {', '.join(INPUTS)}, or a category of the model", name, at)


def read_features(
    tensor: Tensor, body: bytes, width: int, limits: Limits, gap: AbsentColumns | None = None
) -> tuple[Matrix, Callable[[int, int | None], str]]:
    """Return the documents of a model of this width, and where a document or feature stands in the request."""
    at = tensor.at
    if not tensor.shape:  # the raw form
        row = width * 4
        if (tensor.size or 0) % row:
            raise Problem(
                400,
                f"the body has {tensor.size} bytes; expected a multiple of {row}, {width} FP32",
                pointer="",
            )
        tensor = tensor._replace(shape=[(tensor.size or 0) // row, width])
    if len(tensor.shape) != 2:
        raise Problem(
            422,
            f"features has shape {tensor.shape}; expected [documents, {width}]",
            pointer=f"{at}/shape",
        )
    n_docs, n_features = tensor.shape
    check_count(n_docs, limits, f"{at}/shape/0", width=n_features)
    if gap is not None and gap.is_short(n_features):
        short, locate = read_features(tensor, body, n_features, limits)
        return gap.filled(short), gap.located(locate)
    if n_features != width:
        raise Problem(
            422,
            f"features has {n_features} features per document; expected {width}",
            pointer=f"{at}/shape/1",
        )
    if tensor.size is not None:
        dtype = _FLOATS[tensor.datatype]
        _check_size(tensor, n_docs * n_features * int(dtype[-1]))
        return from_bytes(
            body, dtype, (n_docs, n_features), offset=tensor.start
        ), lambda _document, _feature: at
    if tensor.datatype == "FP16":
        raise Problem(422, "features: JSON cannot hold FP16; send a binary tensor", pointer=f"{at}/datatype")
    return _numbers(tensor, n_docs, n_features)


def read_ids(tensor: Tensor | None, body: bytes, n_docs: int) -> Ids | None:
    """Return the ids of the documents, if there are any."""
    if tensor is None:
        return None
    _check_shape(tensor, "doc_ids", n_docs)
    if tensor.size is not None:
        if tensor.datatype == "BYTES":
            return _texts(body, tensor, "doc_ids", n_docs)
        _check_size(tensor, n_docs * 8)
        return _whole(body, "<i8", n_docs, tensor.start)
    kind: type = str if tensor.datatype == "BYTES" else int
    return _listed(tensor, n_docs, kind)


def read_texts(tensor: Tensor, body: bytes, name: str, count: int) -> list[str]:
    """Return the texts of an input of BYTES."""
    _check_shape(tensor, name, count)
    if tensor.size is None:
        return _listed(tensor, count, str)
    found = []
    for position, text in enumerate(_texts(body, tensor, name, count)):
        try:
            found.append(text.decode())
        except UnicodeDecodeError:
            raise Problem(422, f"{name}[{position}] is not UTF-8", pointer=tensor.at) from None
    return found


def _check_shape(tensor: Tensor, name: str, count: int) -> None:
    if tensor.shape != [count]:
        raise Problem(
            422, f"{name} has shape {tensor.shape}; expected [{count}]", pointer=f"{tensor.at}/shape"
        )


def read_sizes(tensor: Tensor | None, body: bytes, n_docs: int, limits: Limits) -> Sequence[int]:
    """Return how many documents each query has."""
    if tensor is None:
        return (n_docs,)
    at = tensor.at
    if len(tensor.shape) != 1:
        raise Problem(422, f"group has shape {tensor.shape}; expected [queries]", pointer=f"{at}/shape")
    n_queries = tensor.shape[0]
    if n_queries > (most := limits.max_documents):
        raise Problem(
            413, f"{n_queries} queries; this server takes {most} per request", pointer=f"{at}/shape/0"
        )
    if tensor.size is None:
        sizes: list[int] = _listed(tensor, n_queries, int)
    else:
        dtype = _INTEGERS[tensor.datatype]
        _check_size(tensor, n_queries * int(dtype[-1]))
        sizes = _whole(body, dtype, n_queries, tensor.start)
    if (least := min(sizes, default=0)) < 0:
        raise Problem(422, f"group: expected sizes of 0 or more, found {least}", pointer=at)
    if sum(sizes) != n_docs:
        raise Problem(
            422,
            f"group sums up to {sum(sizes)}; expected sizes of 0 or more that sum up to {n_docs}",
            pointer=at,
        )
    return sizes


def _numbers(tensor: Tensor, n_docs: int, width: int) -> tuple[Matrix, Callable[[int, int | None], str]]:
    """Return ``features`` of JSON, nested or flat."""
    data, at = tensor.data, f"{tensor.at}/data"

    def nested(document: int, feature: int | None) -> str:
        return at + (pointer(document) if feature is None else pointer(document, feature))

    def flat(document: int, feature: int | None) -> str:
        return at + pointer(document * width + (feature or 0))

    lifted = data if isinstance(data, np.ndarray) else None
    if lifted is not None:
        count, rows = len(lifted), lifted.ndim == 2
    elif isinstance(data, Text) and data.kind == "[":
        elements = Elements(data)
        count, rows = elements.count, elements.kind == "["
    else:
        refuse("features: data", "a list of numbers", data, at)
    if rows and count != n_docs:
        raise Problem(422, f"features: data has {count} rows; expected {n_docs}", pointer=at)
    if not rows and count != n_docs * width:
        raise Problem(
            422,
            f"features: data holds {count} numbers; shape [{n_docs}, {width}] needs {n_docs * width}",
            pointer=at,
        )
    if lifted is not None:
        if rows and lifted.shape[1] != width:
            raise Problem(
                422,
                f"features: data[0] has {lifted.shape[1]} values; expected {width}",
                pointer=nested(0, None),
            )
        return lifted.reshape(n_docs, width), nested if rows else flat
    if rows:
        return read_rows(elements, (n_docs, width), "features: data[{}]", nested), nested
    values = read_flat(elements, count, "features: data", lambda place: at + pointer(place))
    return values.reshape(n_docs, width), flat


def _listed(tensor: Tensor, count: int, kind: type) -> list[Any]:
    """Return the texts or integers of JSON."""
    data, at = tensor.data, f"{tensor.at}/data"
    expected = "a text" if kind is str else "an integer of 64 bits"
    runs: Iterable[tuple[int, list[Any]]]
    if isinstance(data, Text) and data.kind == "[":
        runs = elements = Elements(data)
        size = elements.count
    elif isinstance(data, list):
        runs, size = [(0, data)], len(data)
    else:
        refuse("data", f"a list, each {expected}", data, at)
    if size != count:
        raise Problem(422, f"data holds {size} values; expected {count}", pointer=at)
    found: list[Any] = []
    for first, run in runs:
        for position, value in enumerate(run, first):
            if type(value) is not kind or (isinstance(value, int) and not -(2**63) <= value < 2**63):
                refuse(f"data[{position}]", expected, value, f"{at}/{position}")
        found += run
    return found


def _texts(body: bytes, tensor: Tensor, name: str, count: int) -> list[bytes]:
    """Return the elements of a binary BYTES tensor: each its length in four bytes, then itself."""
    texts: list[bytes] = []
    place, end = tensor.start, tensor.start + (tensor.size or 0)
    while place + 4 <= end and len(texts) < count:
        (length,) = struct.unpack_from("<I", body, place)
        place += 4 + length
        texts.append(body[place - length : place])
    if place != end or len(texts) != count:
        raise Problem(
            400,
            f"{name}: expected {count} texts, each after its length, found {tensor.size} other bytes",
            pointer=tensor.at,
        )
    return texts


def _whole(body: bytes, dtype: str, count: int, start: int) -> list[int]:
    # numpy refuses to read nothing at the end of a body.
    whole: list[int] = np.frombuffer(body, dtype, count, start).tolist() if count else []
    return whole


def _check_size(tensor: Tensor, needed: int) -> None:
    if tensor.size != needed:
        raise Problem(
            400,
            f"the tensor has {tensor.size} bytes; shape {tensor.shape} of {tensor.datatype} needs {needed}",
            pointer=tensor.at,
        )
