"""The most work that a body of a given size can ask for, on every wire."""

from __future__ import annotations

import gzip
import io
import json
import struct
import sys
import zlib
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

JSON = {"content-type": "application/json"}
NPY = {"content-type": "application/x-npy"}

ENCODE: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": lambda content: gzip.compress(content, 1, mtime=0),
    "deflate": lambda content: zlib.compress(content, 1),
    "zstd": lambda content: zstd.compress(content, 1),
}


class Case(NamedTuple):
    """One request; most bodies are made when they are wanted."""

    name: str
    path: str
    headers: dict[str, str]
    made: bytes | Callable[[], bytes]

    @property
    def body(self) -> bytes:
        return self.made if isinstance(self.made, bytes) else self.made()


def _filled(
    before: str | bytes, part: str | bytes, after: str | bytes, size: int, last: str | bytes = ""
) -> bytes:
    """Repeat a part until the body is as large as it may be; the last may be another."""
    texts = [one.encode() if isinstance(one, str) else one for one in (before, part, after, last)]
    before, part, after, last = texts
    count = (size - len(before) - len(after) - len(last)) // len(part)
    body = before + part * count
    if last:
        return body + last + after
    return body.removesuffix(b",") + after


def _fill(
    before: str | bytes, part: str | bytes, after: str | bytes, size: int, last: str | bytes = ""
) -> Callable[[], bytes]:
    return partial(_filled, before, part, after, size, last)


def _names(before: str, part: str, after: str, size: int) -> Callable[[], bytes]:
    """Repeat a part that holds a number until the body is as large as it may be."""

    def made() -> bytes:
        count = (size - len(before) - len(after)) // (len(part) + 4)
        return f"{before}{''.join(part % at for at in range(count))}{after}".encode()

    return made


#: Texts in the place of which anything may stand, and what is worst there: name, part, last.
FILLINGS: dict[str, tuple[str, str]] = {
    "lists": ("[],", ""),
    "objects": ("{},", ""),
    "ones": ("1,", ""),
    "ones and one beyond double": ("1,", "1e999"),
    "nulls": ("null,", ""),
    "deep": ("[" * 58 + "]" * 58 + ",", ""),
    "texts": ('"",', ""),
    "escapes": ('"\\u0041\\n",', ""),
    "members": ('{"a":1,"b":2},', ""),
    "long numbers": ("0.12345678901234567890123456789,", ""),
    "trues": ("true,", ""),
}


def numbers(size: int, cell: str = "1.5") -> str:
    return ",".join([cell] * size)


def rerank(n_docs: int, width: int, size: int) -> Iterator[Case]:
    path = "/v1/rerank"

    def of(name: str, body: bytes | Callable[[], bytes]) -> Case:
        return Case(name, path, JSON, body)

    row = numbers(width)
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((n_docs, width))
    fits = size // (n_docs * width) - 1
    texts = [",".join(f"{value:.{max(fits - 4, 1)}f}" for value in one) for one in matrix[:100].tolist()]
    rows = (texts * (n_docs // len(texts) + 1))[:n_docs]
    for name, (part, last) in FILLINGS.items():
        yield of(f"rows: documents are {name}", _fill('{"documents":[', part, "]}", size, last))
        yield of(f"rows: features are {name}", _fill('{"documents":[{"features":[', part, "]}]}", size, last))
        yield of(f"columns: rows are {name}", _fill('{"features":[', part, "]}", size, last))
        yield of(f"columns: one row of {name}", _fill('{"features":[[', part, "]]}", size, last))
        yield of(f"named columns: a list of {name}", _fill('{"columns":{"f0":[', part, "]}}", size, last))
        yield of(f"ids are {name}", _fill(f'{{"features":[[{row}]],"ids":[', part, "]}", size, last))
        yield of(
            f"feature_names are {name}", _fill('{"features":[],"feature_names":[', part, "]}", size, last)
        )
    documents = [f'{{"id":"{at}","features":[{one}]}}' for at, one in enumerate(rows)]
    yield of("rows: the largest that is answered", f'{{"documents":[{",".join(documents)}]}}'.encode())
    yield of("columns: the largest that is answered", f'{{"features":[[{"],[".join(rows)}]]}}'.encode())
    lists = [f'"f{at}":[{",".join(f"{one:.4f}" for one in matrix[:, at].tolist())}]' for at in range(width)]
    yield of("named columns: the largest", f'{{"columns":{{{",".join(lists)}}}}}'.encode())
    lists[-1] = lists[-1].rpartition(",")[0] + ',"x"]'
    yield of("named columns: the last number a text", f'{{"columns":{{{",".join(lists)}}}}}'.encode())
    lists[-1] = lists[-1].replace(',"x"]', "]")
    yield of("named columns: the last too short", f'{{"columns":{{{",".join(lists)}}}}}'.encode())
    yield of(
        "named columns: as many as there may be", _names('{"columns":{"f0":[1]', ',"x%d":[1]', "}}", size)
    )
    yield of("named columns: bare values", _names('{"columns":{"f0":[1]', ',"x%d":1', "}}", size))
    wrong = [*rows[:-1], rows[-1].rpartition(",")[0]]
    yield of("columns: the last row too short", f'{{"features":[[{"],[".join(wrong)}]]}}'.encode())
    wrong = [*rows[:-1], rows[-1].rpartition(",")[0] + ",1e999"]
    yield of("columns: the last number beyond double", f'{{"features":[[{"],[".join(wrong)}]]}}'.encode())
    wrong = [*rows[:-1], rows[-1].rpartition(",")[0] + ',"x"']
    yield of("columns: the last number a text", f'{{"features":[[{"],[".join(wrong)}]]}}'.encode())
    one = '{"features":{' + ",".join(f'"f{at}":{at}' for at in range(width)) + "}},"
    yield of("rows: named features", _fill('{"documents":[', one, "]}", min(size, n_docs * len(one))))
    one = '{"features":{' + ",".join(f'"\\u0066{at}":null' for at in range(width)) + "}},"
    yield of("rows: named with escapes", _fill('{"documents":[', one, "]}", min(size, n_docs * len(one))))
    one = '{"features":{"x":1}},'
    yield of("rows: unknown names", _fill('{"documents":[', one, "]}", min(size, n_docs * len(one))))
    text = "a" * (size // n_docs - 8 - len(row))
    listed = ",".join([f'"{text}"'] * n_docs)
    yield of(
        "long ids", f'{{"ids":[{listed}],"features":[{",".join([f"[{row}]"] * n_docs)}]}}'.encode()[:size]
    )
    escaped = "\\u00e9" * (len(text) // 6)
    listed = ",".join([f'"{escaped}"'] * n_docs)
    yield of(
        "long ids with escapes",
        f'{{"ids":[{listed}],"features":[{",".join([f"[{row}]"] * n_docs)}]}}'.encode(),
    )
    before = f'{{"features":[[{row}]],'
    for name in ("boost", "query_features"):
        yield of(f"{name}: many members", partial(_many_members, f'{before}"{name}":{{', size))
        yield of(f"{name}: a long text", _fill(f'{before}"{name}":{{"a":"', "a", '"}}', size))
    yield of("pin: many ids", _fill(f'{before}"pin":[', "1,", "]}", size))
    yield of("rows of texts", _fill('{"features":[[', '"a",', "]]}", size))
    yield of("rows of escapes", _fill('{"features":[["', "\\u00e9", '"]]}', size))
    yield of("a long text", _fill('{"features":[],"query_id":"', "a", '"}', size))
    yield of("a long text with escapes", _fill('{"features":[],"query_id":"', "\\u00e9", '"}', size))
    yield of("a long name", _fill('{"', "a", '":1}', size))
    yield of("escaped names", _fill("{", '"\\u0066\\u0065":1,', '"a":1}', size))
    yield of("many names", lambda: b"{" + b",".join(b'"%x":1' % at for at in range(size // 11)) + b"}")
    yield of("a long number", _fill('{"features":[[', "9", "]]}", size))
    yield of("spaces", _fill('{"features":[[', " ", "]]}", size))
    yield of("brackets", b"[" * size)
    yield of("quotes", b'["' + b'\\"' * (size // 2 - 2) + b'"]')
    yield of("characters of four bytes", b'["' + "😀".encode() * (size // 4 - 2) + b'"]')
    yield of("nothing closed", _fill('{"features":[[1', ",1", "", size))


def _many_members(before: str, size: int) -> bytes:
    members = b",".join(b'"%x":1' % at for at in range((size - len(before)) // 11))
    return before.encode() + members + b"}}"


def arrays(n_docs: int, width: int, size: int) -> Iterator[Case]:
    def saved(array: np.ndarray) -> bytes:
        buffer = io.BytesIO()
        np.save(buffer, array)
        return buffer.getvalue()

    rng = np.random.default_rng(0)
    for name, dtype, order in (
        ("float32", "<f4", "C"),
        ("float64", "<f8", "C"),
        ("float16 as Fortran has it", ">f2", "F"),
        ("float64 as Fortran has it", ">f8", "F"),
    ):
        most = min(n_docs, (size - 256) // (width * int(dtype[-1])))
        array = np.asarray(rng.standard_normal((most, width)), dtype)
        array = np.asfortranarray(array) if order == "F" else array
        yield Case(f"npy {name}", "/v1/rerank", NPY, saved(array))
    full = np.zeros((size - 256) // 2, "<f2")
    yield Case("npy: one document", "/v1/rerank", NPY, saved(full.reshape(1, -1)))
    yield Case("npy: one feature", "/v1/rerank", NPY, saved(full.reshape(-1, 1)))
    yield Case("npy: a header of spaces", "/v1/rerank", NPY, saved(full)[:10] + b" " * (size - 10))


def batch(n_docs: int, width: int, size: int) -> Iterator[Case]:
    path = "/v1/rerank/batch"
    row = numbers(width)
    for name, (part, last) in FILLINGS.items():
        yield Case(f"batch of {name}", path, JSON, _fill('{"queries":[', part, "]}", size, last))
        yield Case(
            f"batch of escaped {name}", path, JSON, _fill('{"\\u0071ueries":[', part, "]}", size, last)
        )
        yield Case(f"batch, one query of {name}", path, JSON, _fill('{"queries":[[', part, "]]}", size, last))
    for name, one in {
        "queries": f'{{"features":[[{row}]]}},',
        "queries that are wrong": '{"features":[[1,2,3]],"model":"nobody","top_n":' + " " * 3000 + "0},",
        "queries of one member": "{},",
        "numbers": "1,",
        "named features": '{"documents":[{"features":{"f0":1,"f1":2}}]},',
        "lists": '{"documents":[{"features":[' + "[]," * 1000 + "[]]}]},",
    }.items():
        room = min(size, n_docs * len(one))
        yield Case(
            f"batch of as many {name} as are taken", path, JSON, _fill('{"queries":[', one, "]}", room)
        )


def cohere(n_docs: int, width: int, size: int) -> Iterator[Case]:
    path = "/v2/rerank"
    row = numbers(width)
    for name, (part, last) in FILLINGS.items():
        yield Case(
            f"Cohere: documents are {name}", path, JSON, _fill('{"documents":[', part, "]}", size, last)
        )
        yield Case(
            f"Cohere: a document holds {name}",
            path,
            JSON,
            _fill(f'{{"documents":[{{"features":[{row}],"x":[', part, "]}]}", size, last),
        )
        yield Case(
            f"Cohere: rank_fields are {name}",
            path,
            JSON,
            _fill('{"documents":[],"rank_fields":[', part, "]}", size, last),
        )
    for name, text in {
        "lines": "\\n".join(f"f{at}: 1.5" for at in range(width)),
        "logged entries": "{main=[" + ", ".join(f"{{name=f{at}, value=1.5}}" for at in range(width)) + "]}",
        "SVMlight": " ".join(f"{at}:1.5" for at in range(1, width + 1)),
        "lists": f"[{row}]",
        "lists of which the last is none": f"[{row}]",
        "lines of no feature": "f0: 1\\n" + "x: a\\n" * (size // n_docs // 6 - 2),
        "long words": "a" * (size // n_docs - 4),
        "brackets": "[" * (size // n_docs - 4),
        "entries": "{a=[" * (size // n_docs // 4 - 1),
    }.items():
        one = f'"{text}",'
        last = '"x"' if "none" in name else ""
        before = '{"documents":['
        yield Case(
            f"Cohere: texts, {name}", path, JSON, _fill(before, one, "]}", min(size, n_docs * len(one)), last)
        )
    one = '"f0: 1' + "\\nx: a" * (2**17 // 6) + '",'
    yield Case("Cohere: few long texts", path, JSON, _fill('{"documents":[', one, "]}", size))
    for name, more in {
        "texts": '"text":"' + "a" * (size // n_docs - len(row) - 40) + '"',
        "texts with escapes": '"text":"' + "\\u00e9" * ((size // n_docs - len(row) - 40) // 6) + '"',
        "lists": '"x":[' + "[]," * ((size // n_docs - len(row) - 40) // 3) + "[]]",
        "members": ",".join(f'"x{at}":{at}' for at in range((size // n_docs - len(row) - 40) // 14))
        or '"x":1',
    }.items():
        one = f'{{"features":[{row}],{more}}},'
        for returned in ("true", "false"):
            before = f'{{"return_documents":{returned},"documents":['
            size = min(size, len(before) + n_docs * len(one))
            yield Case(
                f"Cohere: documents with {name}, returned {returned}",
                path,
                JSON,
                _fill(before, one, "]}", size),
            )


def inference(n_docs: int, width: int, size: int) -> Iterator[Case]:
    path = "/v2/models/wide/infer"
    row = numbers(width)

    def tensor(name: str, kind: str, shape: list[int], data: str) -> str:
        return f'{{"name":"{name}","datatype":"{kind}","shape":{json.dumps(shape)},"data":{data}}}'

    features = tensor("features", "FP32", [1, width], f"[{row}]")
    before = f'{{"inputs":[{{"name":"features","datatype":"FP32","shape":[{n_docs},{width}],"data":['
    for name, (part, last) in FILLINGS.items():
        yield Case(f"V2: data are {name}", path, {}, _fill(before, part, "]}]}", size, last))
        yield Case(f"V2: inputs are {name}", path, {}, _fill('{"inputs":[', part, "]}", size, last))
        ids = f'{{"inputs":[{features},{{"name":"doc_ids","datatype":"INT64","shape":[1],"data":['
        yield Case(f"V2: doc_ids are {name}", path, {}, _fill(ids, part, "]}]}", size, last))
        given = f'{{"inputs":[{features}],"parameters":{{"x":['
        yield Case(f"V2: a parameter holds {name}", path, {}, _fill(given, part, "]}}", size, last))
        given = f'{{"inputs":[{features}],"outputs":['
        yield Case(f"V2: outputs are {name}", path, {}, _fill(given, part, "]}", size, last))
        shape = '{"inputs":[{"name":"features","datatype":"FP32","data":[],"shape":['
        yield Case(f"V2: a shape of {name}", path, {}, _fill(shape, part, "]}]}", size, last))
    most = min(n_docs, size // (4 * width + 40))
    cells = numbers(most * width)
    groups = numbers(n_docs - 1, "0") + f",{most}"
    both = (
        tensor("features", "FP32", [most, width], f"[{cells}]")
        + ","
        + tensor("group", "INT32", [n_docs], f"[{groups}]")
    )
    yield Case("V2: as many queries as are taken", path, {}, f'{{"inputs":[{both}]}}'.encode())


def tensors(n_docs: int, width: int, size: int) -> Iterator[Case]:
    path = "/v2/models/wide/infer"

    def binary(name: str, *parts: tuple[str, str, list[int], bytes]) -> Case:
        inputs = [
            {"name": one, "datatype": kind, "shape": shape, "parameters": {"binary_data_size": len(data)}}
            for one, kind, shape, data in parts
        ]
        head = json.dumps({"inputs": inputs}).encode()
        body = head + b"".join(data for *_, data in parts)
        return Case(name, path, {"inference-header-content-length": str(len(head))}, body)

    most = min(n_docs, (size - 1000) // (8 * width))
    matrix = np.random.default_rng(0).standard_normal((most, width))
    for kind, dtype in (("FP16", "<f2"), ("FP32", "<f4"), ("FP64", "<f8")):
        yield binary(f"V2 binary {kind}", ("features", kind, [most, width], matrix.astype(dtype).tobytes()))
    one = ("features", "FP32", [1, width], bytes(4 * width))
    texts = struct.pack("<I", 0) * ((size - 2000) // 4)
    yield binary("V2 binary: empty ids", one, ("doc_ids", "BYTES", [1], texts))
    yield binary("V2 binary: as many ids as bytes", one, ("doc_ids", "BYTES", [len(texts) // 4], texts))
    queries = np.zeros((size - 2000) // 8, "<i8")
    yield binary("V2 binary: empty queries", one, ("group", "INT64", [len(queries)], queries.tobytes()))
    long = (size - 4 * width * n_docs - 4000) // n_docs - 4
    if long > 0:
        given = ("features", "FP32", [n_docs, width], bytes(4 * width * n_docs))
        ids = (struct.pack("<I", long) + b"a" * long) * n_docs
        yield binary("V2 binary: long ids", given, ("doc_ids", "BYTES", [n_docs], ids))
    raw = bytes(4 * width * min(n_docs, size // (4 * width)))
    yield Case("V2 binary: raw", path, {"inference-header-content-length": "0"}, raw)
    head = _filled('{"inputs":[', "[],", "]}", size)
    yield Case(
        "V2 binary: all of it a header", path, {"inference-header-content-length": str(len(head))}, head
    )


def letor(n_docs: int, width: int, size: int) -> Iterator[Case]:
    path, kind = "/v1/evaluate?metrics=ndcg@10", {"content-type": "text/plain"}
    pairs = " ".join(f"{index}:0.25" for index in range(1, width + 1))
    for name, part, last in (
        ("comments", "#\n", "x\n"),
        ("comments of comments", "# " * 6000 + "\n", "x\n"),
        ("blank lines", "\n", ""),
        ("as many documents as are taken", "0 qid:1\n", ""),
        ("all features", f"0 qid:1 {pairs}\n", ""),
        ("one line of pairs", "1:1 ", "\n"),
        ("one line of digits", "1", "\n"),
        ("carriage returns", "\r", "x\n"),
        ("zeros before indices", f"# \n0 qid:1 {'0' * 5000}1:1\n", ""),
        ("digits of values", f"#\n0 qid:1 1:0.{'1' * 5000}\n", ""),
        ("colons of queries", f"#\n0 qid:{':' * 5000}\n", ""),
        ("no UTF-8 at the end", "# é\n", b"\xff\n"),
    ):
        yield Case(f"LETOR: {name}", path, kind, _fill("", part, "", size, last))
    many = "\n".join(f"0 qid:{at % 1000} {pairs}" for at in range(min(n_docs, 4 * size // width // 20)))
    yield Case("LETOR: queries in turns", path, kind, many.encode()[:size])


WIRES: dict[str, Callable[[int, int, int], Iterator[Case]]] = {
    "v1": rerank,
    "npy": arrays,
    "batch": batch,
    "cohere": cohere,
    "v2": inference,
    "v2 binary": tensors,
    "letor": letor,
}


def empty_members(size: int) -> Iterator[Case]:
    """Bodies that hold next to nothing, and cost to be decompressed."""
    for encoding in ("gzip", "zstd"):
        one = ENCODE[encoding](b"")
        yield Case(
            f"empty members of {encoding}",
            "/v1/rerank",
            JSON | {"content-encoding": encoding},
            one * (size // len(one)),
        )
        full = ENCODE[encoding](b" " * (size // 1024)) * 1024
        yield Case(f"1024 members of {encoding}", "/v1/rerank", JSON | {"content-encoding": encoding}, full)
    frame = b"\x50\x2a\x4d\x18\0\0\0\0"
    yield Case(
        "skippable frames of zstd",
        "/v1/rerank",
        JSON | {"content-encoding": "zstd"},
        frame * (size // len(frame)),
    )
    deflate = JSON | {"content-encoding": "deflate"}
    end = zlib.compress(b"")[2:]
    yield Case(
        "empty stored blocks", "/v1/rerank", deflate, b"\x78\x9c" + b"\0\0\0\xff\xff" * (size // 5 - 4) + end
    )
    yield Case(
        "empty blocks with codes", "/v1/rerank", deflate, b"\x78\x9c" + _coded_blocks(size - 100) + end
    )
    for encoding in ("gzip", "deflate", "zstd"):
        for name, content in (("more than allowed", b" " * (8 * size)), ("as much as allowed", b" " * size)):
            yield Case(
                f"{encoding} of {name}",
                "/v1/rerank",
                JSON | {"content-encoding": encoding},
                ENCODE[encoding](content),
            )
        random = np.random.default_rng(0).bytes(size - size // 100)
        yield Case(
            f"{encoding} of noise",
            "/v1/rerank",
            JSON | {"content-encoding": encoding},
            ENCODE[encoding](random)[:size],
        )


def _coded_blocks(size: int) -> bytes:
    """Deflate blocks that bring their own Huffman codes and hold nothing: the dearest bytes that there are."""
    bits: list[int] = []

    def put(value: int, count: int) -> None:
        bits.extend(value >> at & 1 for at in range(count))

    for _ in range(8):  # together whole bytes
        put(0, 1)
        put(2, 2)  # a block with codes of its own
        put(0, 5)  # 257 literals and lengths
        put(0, 5)  # one distance
        put(14, 4)  # 18 lengths of codes of lengths
        lengths = {18: 1, 1: 2, 0: 2}  # code of 18: 0; of 0: 01; of 1: 11, as they stand in the stream
        for symbol in (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1):
            put(lengths.get(symbol, 0), 3)
        put(0, 1)
        put(138 - 11, 7)  # 138 zeros
        put(0, 1)
        put(118 - 11, 7)  # 118 zeros
        put(0b11, 2)  # symbol 256: one bit
        put(0b11, 2)  # the distance: one bit
        put(0, 1)  # end of block
    packed = np.packbits(np.array(bits, np.uint8), bitorder="little").tobytes()
    return packed * (size // len(packed))


def cases(wire: str, n_docs: int, width: int, size: int) -> Iterator[Case]:
    yield from WIRES[wire](n_docs, width, size)
