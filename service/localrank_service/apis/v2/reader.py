"""The Open Inference Protocol, version 2: tensors in and out, as JSON, as binary tensors, or one raw.

Inputs are ``features`` ``[n, d]``, ``doc_ids`` ``[n]``, ``group`` ``[q]``, the number of documents of each query where there are
several in one call, and ``query_features`` ``[q]``, objects of JSON. An input with the name of a category ``[n]`` holds its values
as texts; ``features`` holds codes. Outputs are ``scores`` ``[n]`` in the order of the request, ``ranking``, the positions best
first, query by query, ``cluster`` ``[q]``, -1 being the global scorer, and ``doc_ids`` in the order of ``ranking``.
Scores are FP64, because they are the same bits on every wire, and ``ranking`` is what says the order.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson

from localrank.native.texts import lift_numbers
from localrank_service.apis.v2.tensors import (
    INPUTS,
    MOST_INPUTS,
    Ids,
    Tensor,
    parameters_of,
    read_features,
    read_ids,
    read_sizes,
    read_texts,
    refuse_name,
    tensors_of,
)
from localrank_service.http.problems import Problem, pointer
from localrank_service.wire.members import (
    FLAG,
    SHARED,
    Kind,
    Member,
    by_name,
    check,
    integer,
    object_of,
    shared,
)
from localrank_service.wire.query import (
    SLOWER,
    AbsentColumns,
    Documents,
    Limits,
    Options,
    check_contract,
    with_query,
)
from localrank_service.wire.text import Elements, Text, checked, count_members, outline_members, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from localrank.arrays import Array, Matrix
    from localrank.features.contract import FeatureContract
    from localrank.ranker import Ranking
    from localrank_service.wire.answer import Part

#: Of ``parameters`` of the Open Inference Protocol; others are the business of other servers.
INFER_PARAMETERS = (
    SHARED["top_n"]._replace(meaning="Answer only this many of the best documents of each query."),
    *shared("contract"),
    Member(
        "timeout",
        integer(0),
        "Microseconds for the ranking, from the arrival of the whole request, as `timeout_ms` of "
        "`/v1/rerank`; 0 is no limit.",
    ),
    *shared("allow_degraded"),
    Member(
        "priority",
        Kind(
            "0, as requests are answered in the order in which they come",
            {"const": 0},
            lambda value: value == 0,
        ),
        "Only 0: requests are answered in the order in which they come.",
    ),
    *shared("query_id", "session_id"),
    Member("binary_data_output", FLAG, "Answer binary tensors, unless an output says otherwise."),
)

BINARY_OUTPUT = (Member("binary_data", FLAG, "Answer this output as a binary tensor."),)

HEADER_LENGTH = "inference-header-content-length"

OUTPUTS = ("scores", "ranking", "cluster", "doc_ids")

_PARAMETERS, _OF_OUTPUT = map(by_name, (INFER_PARAMETERS, BINARY_OUTPUT))


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
    _inputs: dict[str, Tensor]
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

    def queries(self, contract: FeatureContract) -> tuple[Iterator[Documents], Ids | None]:
        """Return the documents of each query in order, and the ids of all documents."""
        try:
            check_contract(self.contract, contract)
        except Problem as problem:
            problem.pointer = "/parameters/contract"
            raise
        features, body = self._inputs["features"], self._body
        texts = {name: tensor for name, tensor in self._inputs.items() if name not in INPUTS}
        sent = self._inputs.get("query_features")
        gap = None
        if texts or sent is not None or contract.looked_up:
            gap = self._gap(contract, texts, of_query=sent is not None)
        matrix, locate = read_features(features, body, contract.n_features, self._limits, gap)
        n_docs = len(matrix)
        matrix = self._with_texts(matrix, texts, contract)
        ids = read_ids(self._inputs.get("doc_ids"), body, n_docs)
        sizes = read_sizes(self._inputs.get("group"), body, n_docs, self._limits)
        options = self._options(sent, len(sizes))

        def queries() -> Iterator[Documents]:
            start = 0
            for size, of_query in zip(sizes, options, strict=True):
                documents = Documents(
                    matrix[start : start + size],
                    ids if ids is None or size == n_docs else ids[start : start + size],
                    _from(start, locate),
                )
                yield with_query(documents, contract, of_query)
                start += size

        return queries(), ids

    def _gap(
        self, contract: FeatureContract, texts: Mapping[str, Tensor], *, of_query: bool
    ) -> AbsentColumns | None:
        """Return the columns that ``features`` need not have, because other inputs hold them."""
        for name, tensor in texts.items():
            if name not in contract.positions or contract.positions[name] not in contract.categories:
                refuse_name(name, tensor.at.rpartition("/")[2])
        places = {contract.positions[name] for name in texts} | {*contract.looked_up}
        places |= {*contract.of_query} if of_query else set()
        names = tuple(contract.names[at] for at in sorted(places))
        return AbsentColumns(tuple(sorted(places)), contract.n_features, names) if places else None

    def _with_texts(self, matrix: Matrix, texts: Mapping[str, Tensor], contract: FeatureContract) -> Matrix:
        """Return the documents with the codes of values that came as texts."""
        if not texts:
            return matrix
        matrix = matrix.copy()
        for name, tensor in texts.items():
            at = contract.positions[name]
            values = read_texts(tensor, self._body, name, len(matrix))
            codes = np.array(contract.features[at].codes_of(values), np.float32)
            wrong = np.flatnonzero((matrix[:, at] != codes) & ~np.isnan(matrix[:, at]))
            if len(wrong):
                raise Problem(
                    422,
                    f"features has another code of {name!r} for document {wrong[0]} than the value in its own input",
                    pointer=tensor.at,
                )
            matrix[:, at] = codes
        return matrix

    def _options(self, sent: Tensor | None, count: int) -> list[Options]:
        """Return the options for reading each query: its own features."""
        if sent is None:
            return [self.options] * count
        found = []
        for position, text in enumerate(read_texts(sent, self._body, "query_features", count)):
            value = object_of(text)
            kind = SHARED["query_features"].kind
            # Its JSON stands in a tensor, so that no pointer leads into it.
            if kind.accepts is not None and not kind.accepts(value):
                try:
                    kind.refuse(f"query_features[{position}]", value, sent.at)
                except Problem as problem:
                    problem.pointer = sent.at
                    raise
            found.append(replace(self.options, query_features=value, timeout_at=None))
        return found

    def outputs(self, *, ids: bool) -> list[_Wanted]:
        """Return what is to be answered, in order."""
        if self._outputs is None:
            return [_Wanted(name, self._binary) for name in OUTPUTS if ids or name != "doc_ids"]
        if not ids and any(one.name == "doc_ids" for one in self._outputs):
            raise Problem(422, "the output doc_ids needs the input doc_ids, found none", pointer="/outputs")
        return self._outputs


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
        raw = Tensor("", "FP32", [], None, 0, len(body))
        return Call(None, None, None, Options(), None, False, body, {"features": raw}, limits)  # noqa: FBT003
    members = _members(body if length == len(body) else body[:length], limits)
    parameters = parameters_of(members, "")
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
        tensors_of(members, length, len(body)),
        limits,
    )


def encode(
    call: Call,
    address: tuple[str, int],
    rankings: Sequence[Ranking],
    ids: Ids | None,
    rungs: Sequence[str] = (),
    *,
    part: Part | None = None,
    tables: Collection[tuple[str, int]] = (),
) -> tuple[bytes, int | None]:
    """Return the answer, and how many bytes of it are JSON where not all are.

    Args:
        call: the request.
        address: name and version of the model.
        rankings: of the queries.
        ids: of all documents.
        rungs: how each query was degraded, empty for one that was not; none if none was.
        part: that the request took in an experiment.
        tables: that documents were looked up in, with their generations.
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
    if tables:
        parameters["tables"] = ",".join(f"{name}@{number}" for name, number in sorted(tables))
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
        if (count := Elements(inputs).count) > MOST_INPUTS:
            raise Problem(
                422, f"inputs has {count} tensors; expected at most {MOST_INPUTS}", pointer="/inputs"
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
    lifted = lift_numbers(content, b"data", numbers=limits.max_numbers, arrays=MOST_INPUTS)
    if lifted is None or (members := outline_members(lifted.outline)) is None:
        return None
    inputs = members.get("inputs")
    if count_members(members) != lifted.members or type(inputs) is not list or len(inputs) > MOST_INPUTS:
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
        parameters = parameters_of(one, at)
        if "classification" in parameters:
            raise Problem(422, f"{name} has no classes", pointer=f"{at}/parameters/classification")
        check(parameters, _OF_OUTPUT, f"{at}/parameters")
        own = parameters.get("binary_data")
        wanted.append(_Wanted(name, binary if own is None else own))
    return wanted


def _ranked_ids(ids: Ids, order: Array, *, binary: bool) -> Any:
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
