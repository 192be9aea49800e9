"""The Open Inference Protocol, version 2: tensors in and out, as JSON, as binary tensors, or one raw.

Inputs are ``features`` ``[n, d]``, ``doc_ids`` ``[n]`` and ``group`` ``[q]``, the number of documents of each query where
there are several in one call. Outputs are ``scores`` ``[n]`` in the order of the request, ``ranking``, the positions best
first, query by query, ``cluster`` ``[q]``, -1 being the global scorer, and ``doc_ids`` in the order of ``ranking``.
Scores are FP64, because they are the same bits on every wire, and ``ranking`` is what says the order.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import orjson

from localrank.native.lift import lift_numbers
from localrank_service.http.problems import Problem, pointer
from localrank_service.wire.members import BINARY_INPUT, BINARY_OUTPUT, INFER_PARAMETERS, by_name, check
from localrank_service.wire.query import (
    SLOWER,
    Documents,
    Limits,
    Options,
    check_contract,
    check_count,
    from_bytes,
)
from localrank_service.wire.rows import read_flat, read_rows
from localrank_service.wire.text import Elements, Text, checked, count_members, outline_members, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from localrank.arrays import Array, Matrix
    from localrank.contract import FeatureContract
    from localrank.ranker import Ranking
    from localrank_service.wire.answer import Part

__all__ = ["HEADER_LENGTH", "INPUTS", "OUTPUTS", "Call", "encode", "read"]

HEADER_LENGTH = "inference-header-content-length"

_FLOATS = {"FP16": "<f2", "FP32": "<f4", "FP64": "<f8"}
_INTEGERS = {"INT32": "<i4", "INT64": "<i8"}

#: ``name: datatypes`` that each input may have.
INPUTS: dict[str, tuple[str, ...]] = {
    "features": tuple(_FLOATS),
    "doc_ids": ("BYTES", "INT64"),
    "group": tuple(_INTEGERS),
}
OUTPUTS = ("scores", "ranking", "cluster", "doc_ids")

_PARAMETERS, _OF_INPUT, _OF_OUTPUT = map(by_name, (INFER_PARAMETERS, BINARY_INPUT, BINARY_OUTPUT))

_Ids: TypeAlias = "list[str] | list[bytes] | list[int]"


class _Tensor(NamedTuple):
    """One input: its numbers if they were lifted out of the JSON, else its JSON, or where its bytes stand in the body."""

    at: str
    datatype: str
    shape: list[int]
    data: Matrix | Text | list[Any] | None
    start: int
    size: int | None


class _Wanted(NamedTuple):
    name: str
    binary: bool


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A request, read as far as it can be without its model.

    Attributes:
        id: to be sent back.
        top_n: of each query.
        contract: to be checked.
        options: for ranking each query.
    """

    id: str | None
    top_n: int | None
    contract: str | None
    options: Options
    _outputs: list[_Wanted] | None
    _binary: bool
    _body: bytes
    _inputs: dict[str, _Tensor]
    _limits: Limits

    @property
    def cost(self) -> int:
        """How many bytes of plain JSON take as long to read as the documents."""
        texts = [one.data for one in self._inputs.values() if isinstance(one.data, Text)]
        features = self._inputs["features"]
        converted = (features.size or 0) if features.datatype != "FP32" or features.start % 4 else 0
        return converted + SLOWER * sum(text.end - text.begin for text in texts)

    @property
    def ids_datatype(self) -> str:
        return self._inputs["doc_ids"].datatype

    def queries(self, contract: FeatureContract) -> tuple[Iterator[Documents], _Ids | None]:
        """Return the documents of each query in order, and the ids of all documents."""
        try:
            check_contract(self.contract, contract)
        except Problem as problem:
            problem.pointer = "/parameters/contract"
            raise
        features = self._inputs["features"]
        matrix, locate = self._features(features, contract.n_features)
        n_docs = len(matrix)
        ids = self._ids(n_docs)
        sizes = self._sizes(n_docs)

        def queries() -> Iterator[Documents]:
            start = 0
            for size in sizes:
                yield Documents(
                    matrix[start : start + size],
                    ids if ids is None or size == n_docs else ids[start : start + size],
                    _from(start, locate),
                )
                start += size

        return queries(), ids

    def outputs(self, *, ids: bool) -> list[_Wanted]:
        """Return what is to be answered, in order."""
        if self._outputs is None:
            return [_Wanted(name, self._binary) for name in OUTPUTS if ids or name != "doc_ids"]
        if not ids and any(one.name == "doc_ids" for one in self._outputs):
            raise Problem(422, "the output doc_ids needs the input doc_ids, found none", pointer="/outputs")
        return self._outputs

    def _features(self, tensor: _Tensor, width: int) -> tuple[Matrix, Callable[[int, int | None], str]]:
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
        check_count(n_docs, self._limits, f"{at}/shape/0", width=n_features)
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
                self._body, dtype, (n_docs, n_features), offset=tensor.start
            ), lambda _document, _feature: at
        if tensor.datatype == "FP16":
            raise Problem(
                422, "features: JSON cannot hold FP16; send a binary tensor", pointer=f"{at}/datatype"
            )
        return _numbers(tensor, n_docs, n_features)

    def _ids(self, n_docs: int) -> _Ids | None:
        tensor = self._inputs.get("doc_ids")
        if tensor is None:
            return None
        if tensor.shape != [n_docs]:
            raise Problem(
                422, f"doc_ids has shape {tensor.shape}; expected [{n_docs}]", pointer=f"{tensor.at}/shape"
            )
        if tensor.size is not None:
            if tensor.datatype == "BYTES":
                return _texts(self._body, tensor, n_docs)
            _check_size(tensor, n_docs * 8)
            return _whole(self._body, "<i8", n_docs, tensor.start)
        kind: type = str if tensor.datatype == "BYTES" else int
        return _listed(tensor, n_docs, kind)

    def _sizes(self, n_docs: int) -> Sequence[int]:
        tensor = self._inputs.get("group")
        if tensor is None:
            return (n_docs,)
        at = tensor.at
        if len(tensor.shape) != 1:
            raise Problem(422, f"group has shape {tensor.shape}; expected [queries]", pointer=f"{at}/shape")
        n_queries = tensor.shape[0]
        if n_queries > (most := self._limits.max_documents):
            raise Problem(
                413, f"{n_queries} queries; this server takes {most} per request", pointer=f"{at}/shape/0"
            )
        if tensor.size is None:
            sizes: list[int] = _listed(tensor, n_queries, int)
        else:
            dtype = _INTEGERS[tensor.datatype]
            _check_size(tensor, n_queries * int(dtype[-1]))
            sizes = _whole(self._body, dtype, n_queries, tensor.start)
        if min(sizes, default=0) < 0 or sum(sizes) != n_docs:
            raise Problem(
                422,
                f"group sums up to {sum(sizes)}; expected sizes of 0 or more that sum up to {n_docs}",
                pointer=at,
            )
        return sizes


def read(body: bytes, header_length: str | None, limits: Limits) -> Call:
    """Read a request whose JSON has this length in bytes; 0 means one raw tensor, ``None`` means JSON only."""
    if header_length is None:
        length = len(body)
    elif header_length.isascii() and header_length.isdecimal() and len(header_length) < 12:
        length = int(header_length)
    else:
        raise Problem(400, f"Inference-Header-Content-Length {header_length[:40]!r}; expected a number")
    if length > len(body):
        raise Problem(
            400,
            f"Inference-Header-Content-Length is {length}, but the body has {len(body)} bytes",
            pointer="",
        )
    if header_length is not None and not length:
        raw = _Tensor("", "FP32", [], None, 0, len(body))
        return Call(None, None, None, Options(), None, False, body, {"features": raw}, limits)  # noqa: FBT003
    members = _members(body if length == len(body) else body[:length], limits)
    parameters = _parameters(members, "")
    check(parameters, _PARAMETERS, "/parameters")
    request_id = members.get("id")
    if request_id is not None and type(request_id) is not str:
        refuse("id", "a text", request_id, "/id")
    binary = bool(parameters.get("binary_data_output"))
    return Call(
        request_id,
        parameters.get("top_n"),
        parameters.get("contract"),
        Options(
            query_id=parameters.get("query_id"),
            session_id=parameters.get("session_id"),
            timeout_ms=(parameters.get("timeout") or 0) / 1e3 or None,
            allow_degraded=parameters.get("allow_degraded") is not False,
            timeout_at="/parameters/timeout",
        ),
        _wanted(members, binary=binary),
        binary,
        body,
        _inputs(members, length, len(body)),
        limits,
    )


def encode(
    call: Call,
    address: tuple[str, int],
    rankings: Sequence[Ranking],
    ids: _Ids | None,
    rungs: Sequence[str] = (),
    *,
    part: Part | None = None,
) -> tuple[bytes, int | None]:
    """Return the answer, and how many bytes of it are JSON where not all are.

    Args:
        call: the request.
        address: name and version of the model.
        rankings: of the queries.
        ids: of all documents.
        rungs: how each query was degraded, empty for one that was not; none if none was.
        part: that the request took in an experiment.
    """
    orders, start = [], 0
    for ranking in rankings:
        orders.append(ranking.order[: call.top_n] + start)
        start += len(ranking.order)
    order = np.concatenate(orders) if orders else np.zeros(0, np.intp)
    clusters = [-1 if ranking.route.cluster is None else ranking.route.cluster for ranking in rankings]
    outputs, tails = [], []
    for name, binary in call.outputs(ids=ids is not None):
        datatype = "INT32"
        data: Any = np.array(clusters, "<i4")
        if name == "scores":
            scores = [ranking.scores for ranking in rankings]
            datatype, data = "FP64", np.concatenate(scores) if scores else np.zeros(0)
        elif name == "ranking":
            data = order.astype("<i4")
        elif name == "doc_ids" and ids is not None:
            datatype, data = call.ids_datatype, _ranked_ids(ids, order, binary=binary)
        output: dict[str, Any] = {"name": name, "datatype": datatype, "shape": [len(data)]}
        if binary:
            tail = _bytes(data) if isinstance(data, list) else np.ascontiguousarray(data).tobytes()
            tails.append(tail)
            output["parameters"] = {"binary_data_size": len(tail)}
        else:
            output["data"] = data
        outputs.append(output)
    answer: dict[str, Any] = {"model_name": address[0], "model_version": str(address[1])}
    if call.id is not None:
        answer["id"] = call.id
    parameters = {"degraded": ",".join(rungs)} if rungs else {}
    if part is not None:
        parameters |= {"experiment": part.experiment, "arm": part.arm}
    if parameters:
        answer["parameters"] = parameters
    answer["outputs"] = outputs
    content = orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY)
    return (b"".join((content, *tails)), len(content)) if tails else (content, None)


def _members(content: bytes, limits: Limits) -> dict[str, Any]:
    """Return the members of the JSON; ``data`` of an input is an array or a `Text`."""
    if (members := _plain(content, limits)) is not None:
        return members
    text = checked(content, limits)
    if text.kind != "{":
        refuse("the body", "an object", text, "")
    members = {
        name: member if name == "inputs" else member.value() for name, member in text.members().items()
    }
    inputs = members.get("inputs")
    if isinstance(inputs, Text):
        if inputs.kind != "[":
            refuse("inputs", "a list of tensors", inputs, "/inputs")
        if (count := Elements(inputs).count) > len(INPUTS):
            raise Problem(
                422, f"inputs has {count} tensors; expected at most {len(INPUTS)}", pointer="/inputs"
            )
        members["inputs"] = [_input(one) for one in Elements(inputs).texts()]
    return members


def _input(text: Text) -> Any:
    """Return the members of a tensor."""
    if text.kind != "{":
        refuse(f"inputs[{text.at.rpartition('/')[2]}]", "an object", text, text.at)
    return {name: member if name == "data" else member.value() for name, member in text.members().items()}


def _plain(content: bytes, limits: Limits) -> dict[str, Any] | None:
    """Return the members if no member stands twice, and the arrays in tensors are of numbers."""
    lifted = lift_numbers(content, b"data", numbers=limits.max_numbers, arrays=len(INPUTS))
    if lifted is None or (members := outline_members(lifted.outline)) is None:
        return None
    inputs = members.get("inputs")
    if count_members(members) != lifted.members or type(inputs) is not list or len(inputs) > len(INPUTS):
        return None
    if not {dict}.issuperset(map(type, inputs)):
        return None
    holders = [position for position, tensor in enumerate(inputs) if tensor.get("data", inputs) is None]
    if len(holders) != len(lifted.spans):
        return None
    for number, (position, (begin, end, _, _)) in enumerate(zip(holders, lifted.spans.tolist(), strict=True)):
        if inputs[position].get("name") == "features":
            inputs[position]["data"] = lifted.array(number)
        else:  # integers
            inputs[position]["data"] = Text(content, begin, end, pointer("inputs", position, "data"))
    # An array of something else than numbers is the slow path's, which says what is wrong.
    if any(type(one.get("data")) is list and one.get("name") == "features" for one in inputs):
        return None
    return members


def _parameters(members: dict[str, Any], at: str) -> dict[str, Any]:
    parameters = members.get("parameters")
    if parameters is None:
        return {}
    if type(parameters) is not dict:
        refuse("parameters", "an object", parameters, f"{at}/parameters")
    return parameters


def _inputs(members: dict[str, Any], start: int, end: int) -> dict[str, _Tensor]:
    inputs = members.get("inputs")
    if type(inputs) is not list:
        refuse("inputs", "a list of tensors", inputs, "/inputs")
    found: dict[str, _Tensor] = {}
    for position, one in enumerate(inputs):
        at = f"/inputs/{position}"
        if type(one) is not dict:
            refuse(f"inputs[{position}]", "an object", one, at)
        name, datatype, shape = one.get("name"), one.get("datatype"), one.get("shape")
        if type(name) is not str or name not in INPUTS:
            refuse(f"inputs[{position}].name", f"one of {', '.join(INPUTS)}", name, f"{at}/name")
        if name in found:
            raise Problem(422, f"input {name!r} stands twice", pointer=f"{at}/name")
        if type(datatype) is not str or datatype not in INPUTS[name]:
            refuse(f"{name}: datatype", f"one of {', '.join(INPUTS[name])}", datatype, f"{at}/datatype")
        if (
            type(shape) is not list
            or not all(type(extent) is int and extent >= 0 for extent in shape)
            or not shape
        ):
            refuse(f"{name}: shape", "a list of extents", shape, f"{at}/shape")
        parameters = _parameters(one, at)
        check(parameters, _OF_INPUT, f"{at}/parameters")
        size = parameters.get("binary_data_size")
        if (size is None) != ("data" in one):
            raise Problem(422, f"{name}: expected either data or binary_data_size", pointer=at)
        found[name] = _Tensor(at, datatype, shape, one.get("data"), start, size)
        start += size or 0
    if start != end:
        raise Problem(
            400, f"the binary tensors have {start} bytes with the header; the body has {end}", pointer=""
        )
    if "features" not in found:
        raise Problem(422, "inputs: expected the input 'features', found none", pointer="/inputs")
    return found


def _wanted(members: dict[str, Any], *, binary: bool) -> list[_Wanted] | None:
    outputs = members.get("outputs")
    if outputs is None or outputs == []:
        return None
    if type(outputs) is not list:
        refuse("outputs", "a list", outputs, "/outputs")
    wanted: list[_Wanted] = []
    for position, one in enumerate(outputs):
        at = f"/outputs/{position}"
        if type(one) is not dict:
            refuse(f"outputs[{position}]", "an object", one, at)
        name = one.get("name")
        if type(name) is not str or name not in OUTPUTS:
            refuse(f"outputs[{position}].name", f"one of {', '.join(OUTPUTS)}", name, f"{at}/name")
        parameters = _parameters(one, at)
        if "classification" in parameters:
            raise Problem(422, f"{name} has no classes", pointer=f"{at}/parameters/classification")
        check(parameters, _OF_OUTPUT, f"{at}/parameters")
        own = parameters.get("binary_data")
        wanted.append(_Wanted(name, binary if own is None else own))
    return wanted


def _numbers(tensor: _Tensor, n_docs: int, width: int) -> tuple[Matrix, Callable[[int, int | None], str]]:
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


def _listed(tensor: _Tensor, count: int, kind: type) -> list[Any]:
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


def _texts(body: bytes, tensor: _Tensor, count: int) -> list[bytes]:
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
            f"doc_ids: expected {count} texts, each after its length, found {tensor.size} other bytes",
            pointer=tensor.at,
        )
    return texts


def _whole(body: bytes, dtype: str, count: int, start: int) -> list[int]:
    # numpy refuses to read nothing at the end of a body.
    whole: list[int] = np.frombuffer(body, dtype, count, start).tolist() if count else []
    return whole


def _check_size(tensor: _Tensor, needed: int) -> None:
    if tensor.size != needed:
        raise Problem(
            400,
            f"the tensor has {tensor.size} bytes; shape {tensor.shape} of {tensor.datatype} needs {needed}",
            pointer=tensor.at,
        )


def _ranked_ids(ids: _Ids, order: Array, *, binary: bool) -> Any:
    """Return the ids by rank: integers, texts for JSON, or the bytes of texts."""
    ranked: list[Any] = [ids[index] for index in order.tolist()]
    if ranked and type(ranked[0]) is int:
        return np.array(ranked, "<i8")
    if binary:
        return ranked
    try:
        return [one if isinstance(one, str) else one.decode() for one in ranked]
    except UnicodeDecodeError:
        raise Problem(
            422,
            "doc_ids: not all are UTF-8, as JSON needs; ask for them with binary_data",
            pointer="/outputs",
        ) from None


def _bytes(texts: list[Any]) -> bytes:
    encoded = [text.encode() if isinstance(text, str) else text for text in texts]
    return b"".join(part for text in encoded for part in (struct.pack("<I", len(text)), text))


def _from(start: int, locate: Callable[[int, int | None], str]) -> Callable[[int, int | None], str]:
    if not start:
        return locate
    return lambda document, feature: locate(document + start, feature)
