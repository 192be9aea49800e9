"""What the service answers: every wire, every encoding, every kind of refusal, from real servers.

The models are fixed files: ``web`` of this folder (version 1: clusters with linear scorers and a policy for each missing
value; version 2: trees) and the artifacts of ``tests/data``, which hold every representation, router and scorer.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import shutil
import socket
import sys
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank import Registry
from tests.described import check
from tests.end_to_end.serving import serving
from tests.golden.command import run
from tests.golden.frame import DATA, HERE, MODELS, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import httpx

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ARTIFACTS = HERE.parent / "data" / "artifacts" / "format-1"
KEY, SERVING = "golden-admin-key", "golden-serving-key"
JSON, NPY, TEXT = "application/json", "application/x-npy", "text/plain"
NAMES = ("bm25", "pagerank", "age", "clicks", "length")
#: What frames bodies on a connection, or differs from run to run.
_NO_HEADERS = {"date", "x-request-id", "content-length", "server", "connection", "transfer-encoding"}
#: What each answer of the service says.
_USUAL = {"content-type": JSON}
_DATATYPES = {"FP64": "<f8", "FP32": "<f4", "INT32": "<i4", "INT64": "<i8"}


def queries(file: str) -> dict[str, tuple[list[list[float]], list[int]]]:
    """Return rows and labels of each query of a CSV file."""
    found: dict[str, tuple[list[list[float]], list[int]]] = {}
    with (DATA / file).open() as lines:
        for line in csv.DictReader(lines):
            rows, labels = found.setdefault(line["qid"], ([], []))
            rows.append([float(line[name]) for name in NAMES])
            labels.append(int(line["label"]))
    return found


TEST = queries("test.csv")
ROWS, LABELS = TEST["t1"]
IDS = [f"d{number}" for number in range(1, len(ROWS) + 1)]
FLAT, SHAPE = [value for row in ROWS for value in row], [len(ROWS), 5]
FEATURES: dict[str, Any] = {"name": "features", "datatype": "FP32", "shape": SHAPE, "data": ROWS}
INFER = "/v2/models/web/infer"
NAMED = [dict(zip(NAMES, row, strict=True)) for row in ROWS]


class Door:
    """A connection to a service that keeps what was answered."""

    def __init__(self, client: httpx.Client, file: str, key: str = "") -> None:
        self.client, self.file, self.key = client, file, key
        self.kept: list[tuple[str, str, Any]] = []

    def ask(
        self,
        case: str,
        path: str = "/v1/rerank",
        body: Any = None,
        *,
        method: str = "",
        file: str = "",
        only: tuple[str, ...] = (),
        **headers: Any,
    ) -> None:
        """Ask, and keep status, headers and body. A body of dicts is JSON; ``only`` keeps these members of an answer."""
        head = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.key:
            head.setdefault("x-api-key", self.key)
        if isinstance(body, dict):
            head.setdefault("content-type", JSON)
            body = json.dumps(body)
        method = method or ("GET" if body is None else "POST")
        answer = self.client.request(
            method, path, content=body, headers={"accept-encoding": "identity", **head}
        )
        check(answer)
        kept = answered(answer)
        if only:
            kept["body"] = {
                name: one for name, one in kept["body"].items() if name in only or answer.is_error
            }
        request = f"{method} {path}" + (f" {body}" if isinstance(body, str) and len(body) < 240 else "")
        self.keep(case, {"request": request, **kept}, file)

    def each(
        self, path: str, cases: Mapping[str, Any], base: Mapping[str, Any] | None = None, **arguments: Any
    ) -> None:
        """Ask each case: its members, and those of ``base``."""
        for case, members in cases.items():
            self.ask(case, path, {**(base or {}), **members}, **arguments)

    def keep(self, case: str, answer: Any, file: str = "") -> None:
        self.kept.append((f"http-{file or self.file}", case, answer))


def answered(answer: httpx.Response) -> dict[str, Any]:
    """Return status, the headers that are not as usual, and the body as values."""
    kept: dict[str, Any] = {"status": answer.status_code}
    head = {name: value for name, value in answer.headers.items() if name not in _NO_HEADERS}
    if "server-timing" in head:
        head["server-timing"] = re.sub(r";dur=[\d.]+", "", head["server-timing"])
    usual = {**_USUAL, **({"content-type": "application/problem+json"} if answer.is_error else {})}
    if head := {name: value for name, value in head.items() if usual.get(name) != value}:
        kept["headers"] = head
    if length := answer.headers.get("inference-header-content-length"):
        kept["headers"].pop("inference-header-content-length")
        kept["body"] = tensors(answer.content, int(length))
    elif not answer.content:
        pass
    elif "json" in answer.headers.get("content-type", ""):
        kept["body"] = answer.json()
        if answer.is_error and kept["body"].get("error") == kept["body"].get("detail"):
            kept["body"].pop("error")
    elif "html" in answer.headers.get("content-type", ""):
        kept["body"] = re.findall(r"<title>(.*?)</title>", answer.text)
    else:
        kept["body"] = answer.text.splitlines()
    return kept


def tensors(content: bytes, length: int) -> Any:
    """Return a binary answer of the Open Inference Protocol as values."""
    head, rest = json.loads(content[:length]), content[length:]
    for output in head["outputs"]:
        if (size := output.get("parameters", {}).get("binary_data_size")) is not None:
            mine, rest = rest[:size], rest[size:]
            kind = _DATATYPES.get(output["datatype"])
            output["read"] = np.frombuffer(mine, kind).tolist() if kind else mine.hex(" ")
    assert not rest
    return head


def gzipped(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzipped,
    "deflate": zlib.compress,
    "zstd": zstd.compress,
}


def npy(rows: Any, dtype: str = "<f4", order: Any = "C") -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array(rows, dtype, order=order))
    return buffer.getvalue()


@contextmanager
def service(folder: Path, *flags: str, every: bool = True) -> Iterator[httpx.Client]:
    """Serve a copy of ``web``, and of every other artifact, in one process."""
    models = folder / "models"
    shutil.copytree(MODELS, models)
    registry = Registry(models)
    registry.promote("web", 2, alias="challenger")
    for one in sorted(ARTIFACTS.iterdir()) if every else ():
        shutil.copytree(one, models / one.name)
        registry.promote(one.name, 1)
    with serving(models, "--workers", "1", *flags) as client:
        yield client


# ------------------------------------------------------------------------------------------------------- rankings


def rerank(door: Door) -> None:
    by_rows, by_name = {"features": ROWS}, [{"features": row} for row in NAMED]
    contract = door.client.get("/v1/models/web/schema").json()["x-contract"]
    missing = [[row[0], None, None, None, row[4]] for row in ROWS[:3]]
    door.each("/v1/rerank", {
        "rows": by_rows, "documents": {"documents": [{"id": one, "features": row} for one, row in zip(IDS, ROWS, strict=True)]}, "named": {"documents": by_name},
        "a missing name": {"documents": [{"features": {name: value for name, value in row.items() if name != "age"}} for row in NAMED]},
        "an unknown name": {"documents": [{"features": {**row, "colour": 3}} for row in NAMED[:2]]}, "no documents": {"documents": []}, "equal documents": {"features": ROWS[:1] * 3},
        "missing values": {"features": missing}, "missing values of trees": {"model": "web@2", "features": missing}, "out of range": {"features": [[1e6, *row[1:]] for row in ROWS[:3]]},
    }, {"model": "web"})  # fmt: skip
    whole = {"model": "web", "ids": IDS, "features": ROWS}
    door.each("/v1/rerank", {
        "rows with ids": {}, "columns in another order": {"feature_names": NAMES[::-1], "features": [row[::-1] for row in ROWS]}, "a column too many": {"feature_names": [*NAMES, "more"], "features": [[*row, 1] for row in ROWS]},
        "the first three": {"top_n": 3, "query_id": "q", "session_id": "s"}, **{f"model {model}": {"model": model} for model in ("web@1", "web@2", "web@champion", "web@challenger")},
        "one document": {"ids": IDS[:1], "features": ROWS[:1]}, "ids of every kind": {"ids": [7, "7", "a/b", "ü😀", "", -1, *IDS[6:]]}, "time enough": {"timeout_ms": 60_000}, "no time": {"timeout_ms": 1e-6},
        "no time, by a feature": {"timeout_ms": 1e-6, "fallback_feature": "clicks"}, "no time and nothing cheaper": {"timeout_ms": 1e-6, "allow_degraded": False},
        "the right contract": {"contract": contract, "top_n": 1}, "another contract": {"contract": "sha256:" + "0" * 64},
    }, whole)  # fmt: skip
    for model in ("web@1", "web@2"):
        parts = {"explain": "contributions"}
        cases = {
            f"route of {model}": {"explain": "route"},
            f"contributions of {model}": parts,
            f"two documents of {model}": {**parts, "compare": [2, 5], "top_n": 2},
        }
        door.each("/v1/rerank", cases, {**whole, "model": model}, file="explain")
    door.each(
        "/v1/rerank",
        {f"compare {two}": {"compare": two} for two in ([0], [0, 0], [0, 99])},
        {**whole, "explain": "contributions"},
        file="explain",
    )
    door.each("/v1/rerank", {"compare without contributions": {"compare": [0, 1]}}, whole, file="explain")
    names = "".join(f"&feature_names={name}" for name in NAMES[::-1])
    for case, body, query in (
        ("float32", npy(ROWS), ""), ("float64", npy(ROWS, "<f8"), ""), ("float16", npy(ROWS, "<f2"), ""), ("big-endian", npy(ROWS, ">f4"), ""),
        ("by column", npy(ROWS, order="F"), ""), ("options", npy(ROWS), "&top_n=2&query_id=q&explain=contributions&compare=3,1"),
        ("missing", npy([[1, np.nan, np.nan, np.nan, 1]] * 2), ""), ("names", npy(np.array(ROWS)[:, ::-1]), names),
        ("no documents", npy(np.zeros((0, 5))), ""), ("integers", npy(ROWS, "<i4"), ""), ("a list", npy(ROWS[0]), ""), ("too narrow", npy([row[:3] for row in ROWS]), ""),
        ("cut off", npy(ROWS)[:-3], ""), ("too long", npy(ROWS) + b"..", ""), ("not npy", b"features", ""), ("an unknown option", npy(ROWS), "&top=2"), ("a wrong option", npy(ROWS), "&top_n=x"),
        ("nothing", b"", ""), ("infinite", npy([[np.inf] * 5] * 2), ""),
    ):  # fmt: skip
        door.ask(case, f"/v1/rerank?model=web{query}", body, file="npy", content_type=NPY)


def components(door: Door) -> None:
    """Every representation, router and scorer."""
    rng = np.random.default_rng(3)
    for name in sorted(one.name for one in ARTIFACTS.iterdir()):
        rows = np.round(rng.normal(size=(7, 6)) * [0.3, 4, 0.3, 0.3, 2, 0.3], 3).tolist()
        cases = {
            f"{name}, route": {"explain": "route"},
            f"{name}, contributions": {"explain": "contributions", "top_n": 2},
        }
        door.each("/v1/rerank", cases, {"model": name, "features": rows})


def encodings(door: Door) -> None:
    body = json.dumps({"model": "web", "features": ROWS, "top_n": 2}).encode()
    infer = json.dumps({"inputs": [FEATURES]}).encode()
    cases = [(one, one, pack(body)) for one, pack in PACKED.items()]
    cases += [(f"{one}, cut off", one, pack(body)[:-9]) for one, pack in PACKED.items()]
    cases += [(f"{one}, not packed", one, body) for one in PACKED]
    cases += [("two members of gzip", "gzip", gzipped(body[:30]) + gzipped(body[30:])), ("more than the body may hold", "gzip", gzipped(b" " * 2**24 + b"{}")),
              ("an encoding that is not known", "br", body), ("two encodings", "gzip, zstd", body), ("identity", "identity", body)]  # fmt: skip
    for case, encoding, content in cases:
        door.ask(case, body=content, content_type=JSON, content_encoding=encoding)
    door.ask(
        "npy in gzip",
        "/v1/rerank?model=web&top_n=1",
        gzipped(npy(ROWS)),
        content_type=NPY,
        content_encoding="gzip",
    )
    for name in ("gzip", "deflate", "gzip, deflate", "zstd"):
        door.ask(f"V2 answered in {name}", INFER, infer, content_type=JSON, accept_encoding=name)
    door.ask("V2 asked in gzip", INFER, gzipped(infer), content_type=JSON, content_encoding="gzip")


def v2(door: Door) -> None:
    n, flat = len(ROWS), {**FEATURES, "data": FLAT}
    ids = {"name": "doc_ids", "datatype": "BYTES", "shape": [n], "data": IDS}
    door.each(INFER, {
        "rows": {}, "flat": {"inputs": [flat], "id": "42"}, "ids": {"inputs": [FEATURES, ids]}, "the first two": {"inputs": [FEATURES, ids], "parameters": {"top_n": 2}},
        "whole numbers as ids": {"inputs": [FEATURES, {**ids, "datatype": "INT64", "data": list(range(n))}]}, "some outputs": {"outputs": [{"name": "ranking"}, {"name": "cluster"}]},
        "two queries": {"inputs": [FEATURES, ids, {"name": "group", "datatype": "INT32", "shape": [2], "data": [4, n - 4]}]}, "doubles": {"inputs": [{**flat, "datatype": "FP64"}]},
        "missing values": {"inputs": [{**FEATURES, "shape": [2, 5], "data": [[1, None, None, None, 1]] * 2}]}, "JSON in, binary out": {"parameters": {"binary_data_output": True}},
        "refused: no inputs": {"inputs": []}, "refused: an unknown input": {"inputs": [FEATURES, {"name": "more", "datatype": "FP32", "shape": [1], "data": [1]}]},
        "refused: features twice": {"inputs": [FEATURES, FEATURES]}, "refused: no features": {"inputs": [ids]},
        "refused: another datatype": {"inputs": [{**FEATURES, "datatype": "INT8"}]}, "refused: another shape": {"inputs": [{**FEATURES, "shape": [3, 5]}]},
        "refused: one dimension": {"inputs": [{**flat, "shape": [5 * n]}]}, "refused: too few ids": {"inputs": [FEATURES, {**ids, "shape": [1], "data": ["a"]}]},
        "refused: groups of another sum": {"inputs": [FEATURES, {"name": "group", "datatype": "INT32", "shape": [1], "data": [3]}]}, "refused: an unknown output": {"outputs": [{"name": "logits"}]},
        "refused: a priority": {"parameters": {"priority": 3}}, "refused: a wrong parameter": {"parameters": {"top_n": "two"}},
    }, {"inputs": [FEATURES]})  # fmt: skip
    door.ask("a version", "/v2/models/web/versions/2/infer", {"inputs": [FEATURES]})
    door.ask("an alias", "/v2/models/web@challenger/infer", {"inputs": [FEATURES]})

    def binary(
        case: str,
        datatype: str,
        content: bytes,
        texts: bytes = b"",
        length: int | None = None,
        **members: Any,
    ) -> None:
        inputs = [{**FEATURES, "datatype": datatype, "parameters": {"binary_data_size": len(content)}}]
        inputs += [{**ids, "parameters": {"binary_data_size": len(texts)}}] if texts else []
        head = json.dumps(
            {"inputs": [{name: one[name] for name in one if name != "data"} for one in inputs], **members}
        ).encode()
        door.ask(
            case,
            INFER,
            head + content + texts,
            inference_header_content_length=str(length or len(head)),
            content_type="application/octet-stream",
        )

    single, double, half = (np.array(ROWS, kind).tobytes() for kind in ("<f4", "<f8", "<f2"))
    texts = b"".join(len(one).to_bytes(4, "little") + one.encode() for one in IDS)
    binary("binary in", "FP32", single)
    binary("binary in both directions", "FP32", single, texts, parameters={"binary_data_output": True})
    binary(
        "binary out, one output",
        "FP32",
        single,
        outputs=[{"name": "scores", "parameters": {"binary_data": True}}, {"name": "ranking"}],
    )
    binary("binary doubles", "FP64", double)
    binary("binary halves", "FP16", half)
    binary("refused: bytes cut off", "FP32", single[:-1])
    binary("refused: a wrong length of the head", "FP32", single, length=9999)
    door.ask("only bytes", INFER, single, inference_header_content_length="0")
    for path in ("", "/health/live", "/health/ready", "/models/web", "/models/web/versions/2", "/models/web/ready", "/models/web/versions/9/ready",
                 "/models/web/config", "/models/web/versions/1/config", "/models/none", "/models/none/ready"):  # fmt: skip
        door.ask(f"GET /v2{path}", f"/v2{path}")


def other_wires(door: Door) -> None:
    documents = [{"features": row, "text": f"text {number}"} for number, row in enumerate(ROWS)]
    cohere: dict[str, Any] = {"model": "web", "query": "cheap flights", "documents": documents}
    door.each("/v2/rerank", {
        "as Cohere's client asks": {}, "the first two, with documents": {"top_n": 2, "return_documents": True}, "explained": {"explain": "route", "top_n": 1},
        "contributions": {"explain": "contributions", "top_n": 1}, "named": {"documents": [{"features": row} for row in NAMED]}, "no documents": {"documents": []},
        "refused: texts": {"documents": ["a", "b"]}, "refused: a member": {"colour": 1}, "refused: ragged": {"documents": [{"features": [1, 2]}]},
        "refused: no such model": {"model": "none"}, "ignored members": {"max_tokens_per_doc": 5, "priority": 1, "rank_fields": ["x"], "top_n": 1},
    }, cohere, file="cohere")  # fmt: skip
    one, two = ({"model": model, "features": ROWS, "top_n": 2} for model in ("web", "web@2"))
    door.each("/v1/rerank/batch", {
        "two models": {"queries": [{**one, "query_id": "q1"}, two]}, "no queries": {"queries": []}, "refused: a member": {"queries": [], "model": "web"},
        "one of three fails": {"queries": [one, {"model": "web", "features": [[1, 2], [3]]}, {"model": "none", "features": []}]},
        "explained": {"queries": [{**one, "explain": "contributions"}]}, "refused: not queries": {"queries": [1]}, "refused: nothing": {},
    }, file="batch")  # fmt: skip
    both = {"baseline": "web@1", "candidate": "web@2", "ids": IDS, "features": ROWS}
    door.each("/v1/compare", {
        "two versions": {}, "the first three": {"top_n": 3, "query_id": "q"}, "the same version": {"candidate": "web@champion"}, "no documents": {"ids": [], "features": []},
        "refused: no such version": {"candidate": "web@9"}, "refused: a member": {"explain": "route"}, "refused: other features": {"candidate": "lsh-linear"},
    }, both, file="compare")  # fmt: skip
    judged = [{"query_id": name, "features": rows, "labels": labels} for name, (rows, labels) in TEST.items()]
    door.each("/v1/evaluate", {
        "as by default": {}, "every metric": {"metrics": ["map", "mean_ndcg", "mrr", "ndcg@10", "p@5", "err@20", "ndcg@1"], "model": "web@2"},
        "each query": {"per_query": True, "metrics": ["ndcg@5"]}, "another convention": {"convention": "letor4", "metrics": ["ndcg@10", "map"]},
        "refused: no such metric": {"metrics": ["ndgc@10"]}, "refused: no such convention": {"convention": "letor9"}, "refused: no queries": {"queries": []},
        "refused: a label too many": {"queries": [{"features": ROWS, "labels": [*LABELS, 1]}]}, "refused: a negative label": {"queries": [{"features": ROWS[:2], "labels": [-1, 0]}]},
    }, {"model": "web", "queries": judged}, file="evaluate")  # fmt: skip
    lines = "".join(
        f"{label} qid:{number} {' '.join(f'{i}:{value}' for i, value in enumerate(row, 1))}\n"
        for number, (rows, labels) in enumerate(TEST.values())
        for row, label in zip(rows, labels, strict=True)
    )
    door.ask(
        "text",
        "/v1/evaluate?model=web&metrics=ndcg@10&metrics=map",
        lines,
        file="evaluate",
        content_type=TEXT,
    )
    for case, text in {
        "no label": "qid:1 1:2", "no query": "1 1:2", "an index too large": "1 qid:1 9:1", "an index twice": "1 qid:1 1:1 1:2", "not a number": "1 qid:1 1:x",
        "two queries in turns": "1 qid:1 1:1\n1 qid:2 1:1\n1 qid:1 1:1", "nothing": "", "unknown values": "1 qid:1 1:nan 2:1\n0 qid:1 1:1 2:inf",
    }.items():  # fmt: skip
        door.ask(f"refused text: {case}", "/v1/evaluate?model=web", text, file="evaluate", content_type=TEXT)
    door.ask(
        "refused: a page of another site",
        "/v1/evaluate?model=web",
        lines,
        file="evaluate",
        content_type=TEXT,
        sec_fetch_site="cross-site",
        origin="http://elsewhere.example",
    )
    event = {"request_id": "0b0f7c31", "id": "d3", "click": True}
    events = {
        "clicks and grades": [event, {"request_id": "0b0f7c31", "index": 0, "grade": 2, "event_id": "e"}], "nothing": [], "refused: both": [{**event, "grade": 1}],
        "refused: neither": [{"request_id": "a", "id": "d"}], "refused: no document": [{"request_id": "a", "click": True}], "refused: a member": [{**event, "colour": 1}],
        "refused: a grade": [{"request_id": "a", "id": "d", "grade": "x"}], "refused: not a list": {},
    }  # fmt: skip
    door.each("/v1/feedback", {case: {"events": some} for case, some in events.items()}, file="feedback")


def adapters(door: Door) -> None:
    hits = [
        {"_id": f"h{number}", "_score": 9.5 - number, "_source": {"n": 12345678901234567890123, "x": -0.0},
         "fields": {"_ltrlog": [{"features": [{"name": name, "value": value} for name, value in row.items()]}]}}
        for number, row in enumerate(NAMED[:4])
    ]  # fmt: skip
    docs = [
        {"id": f"s{number}", "[features]": ",".join(f"{name}={value}" for name, value in row.items())}
        for number, row in enumerate(NAMED[:4])
    ]
    less = [{**hits[0], "fields": {"_ltrlog": [{"features": [{"name": "bm25", "value": 1.5}]}]}}, hits[1]]
    twice = [
        {
            **hits[0],
            "fields": {
                "_ltrlog": [{"features": [{"name": "bm25", "value": 1.5}, {"name": "bm25", "value": 2}]}]
            },
        }
    ]
    other = [{**hit, "fields": {"_ltrlog": [{"features": [{"name": "colour", "value": 1}]}]}} for hit in hits]
    engines = {
        "elasticsearch": {"took": 3, "hits": {"total": {"value": 4}, "max_score": 9.5, "hits": hits}},
        "solr": {"responseHeader": {"status": 0}, "response": {"numFound": 4, "start": 0, "docs": docs}},
    }
    for engine in ("elasticsearch", "opensearch", "solr"):
        url = f"/v1/adapters/{engine}?model=web"
        body = engines.get(engine, engines["elasticsearch"])
        door.ask(f"{engine}: all hits", url, body)
        door.ask(f"{engine}: the first two", f"{url}&top_n=2&query_id=q", body)
        door.ask(f"{engine}: refused, not an answer of it", url, {"found": 3})
        door.ask(f"{engine}: refused, an unknown option", f"{url}&colour=1", body)
    url = "/v1/adapters/elasticsearch?model=web"
    for case, found, more in (
        ("no hits", [], ""), ("missing values", less, ""), ("missing as zero", less, "&missing_as_zero=true"), ("refused, a feature twice", twice, ""),
        ("refused, other features", other, ""), ("refused, another log", hits, "&log=other"), ("refused, nothing logged", [{"_id": "h", "_score": 1}], ""),
    ):  # fmt: skip
        door.ask(f"elasticsearch: {case}", url + more, {"hits": {"hits": found}})
    named = [{"_id": f"h{number}", "_score": row.pop("bm25"), "matched_queries": {"pagerank": row.pop("pagerank")}, "fields": {"age": [row.pop("age")]},
              "_source": row} for number, row in enumerate(dict(row) for row in NAMED[:4])]  # fmt: skip
    door.ask("elasticsearch: named queries", f"{url}&score_feature=bm25", {"hits": {"hits": named}})
    children = [{"id": f"v{number}", "relevance": 0.5, "fields": {"matchfeatures": row}} for number, row in enumerate(NAMED[:4])]  # fmt: skip
    door.ask(
        "vespa: all hits", "/v1/adapters/vespa?model=web", {"root": {"relevance": 1, "children": children}}
    )
    door.ask("vespa: no hits", "/v1/adapters/vespa?model=web", {"root": {"fields": {"totalCount": 0}}})
    logged = {"a wrong number": "bm25=x", "no equals": "bm25", "nothing": ""}
    docs_of = {
        f"solr: refused, {case}": {"response": {"docs": [{"id": "a", "[features]": text}]}}
        for case, text in logged.items()
    }
    door.each("/v1/adapters/solr?model=web", docs_of)
    numbers = '{"hits":{"hits":[]},"numbers":[12345678901234567890123,1e2,-0,0.10]}'
    answer = door.client.post(url, content=numbers, headers={"content-type": JSON})
    door.keep("elasticsearch: numbers are not changed", answer.text.partition(',"localrank"')[0])


# -------------------------------------------------------------------------------------------------------- the rest


def descriptions(door: Door) -> None:
    for path in (
        "/web", "/web@2", "/web@challenger", "/web/schema", "/web@2/schema", "/web/clusters", "/web/map", "/web@2/map", "/web/versions", "/web/sample?query=1",
        "/web/diff?before=1&after=challenger", "/web/export", "/global-linear/map", "/global-linear/clusters", "/lsh-shared", "/none", "/web@9", "/web@nobody", "/web@",
        "/none/schema", "/web/sample?query=99", "/web/sample?query=x", "/web/diff?before=1", "/web/diff?before=1&after=9",
    ):  # fmt: skip
        door.ask(f"GET /v1/models{path}", f"/v1/models{path}", file="models")
    listed = door.client.get("/v1/models").json()
    web = [one for one in listed["models"] if one["name"] == "web"]
    door.keep(
        "GET /v1/models", {**listed, "models": [*web, *(one["name"] for one in listed["models"])]}, "models"
    )
    for path in ("/livez", "/readyz", "/startupz", "/info", "/", "/docs"):
        door.ask(f"GET {path}", path, file="health")
    for path in ("/v1/stats", "/v1/stats?series=true", "/v2/models/web/stats", "/v2/models/stats"):
        door.keep(f"shape of {path}", shape(plain(door.client.get(path).json())), "health")
    metrics = {
        tuple(line.split()[2:4])
        for line in door.client.get("/metrics").text.splitlines()
        if line.startswith("# TYPE")
    }
    door.keep("names and types of /metrics", sorted(" ".join(one) for one in metrics), "health")
    described = door.client.get("/openapi.json").json()
    door.keep(
        "routes of /openapi.json",
        {path: sorted(methods) for path, methods in described["paths"].items()},
        "health",
    )


def shape(value: Any) -> Any:
    """Return an answer with types instead of values, and one entry of each list; what traffic names is left out."""
    if isinstance(value, dict):
        traffic = {"no_signature", *(one.name for one in ARTIFACTS.iterdir())}
        return {key: shape(inner) for key, inner in value.items() if key not in traffic}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return (
        "a number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
    )


#: Bodies of ``/v1/rerank`` that are refused.
REFUSED: dict[str, Any] = {
    "an empty body": "", "not JSON": "features=1", "truncated": '{"features": [[1, 2', "two values": "{} {}", "a list": "[]", "a member twice": '{"features": [], "features": []}',
    "not UTF-8": b'{"model": "\xff"}', "a surrogate": '{"model": "\\ud800"}', "nested too deeply": "[" * 100, "NaN": '{"features": [[1, 2, 3, 4, NaN]]}',
    "a trailing comma": '{"features": [],}', "an infinite number": '{"model": "web", "features": [[1, 2, 3, 4, 1e999]]}', "beyond float32": '{"model": "web", "features": [[1, 2, 3, 4, 1e39]]}',
    "no documents at all": {}, "two forms": {"features": [], "documents": []}, "an unknown member": {"features": [], "colour": 1}, "ragged": {"features": [[1, 2, 3, 4, 5], [1]]},
    "too narrow": {"features": [[1, 2]]}, "texts": {"features": [["a"] * 5]}, "truth values": {"features": [[True] * 5]}, "a number for rows": {"features": 3}, "a number for a row": {"documents": [{"features": 3}]},
    "an unknown member of a document": {"documents": [{"features": ROWS[0], "colour": 1}]}, "a document without features": {"documents": [{"id": "a"}]}, "a text for a document": {"documents": ["a"]},
    "a missing value": {"features": [[None, 1, 1, 1, 1]]}, "a missing name": {"documents": [{"features": {"age": 1}}]}, "too few ids": {"features": ROWS[:2], "ids": ["a"]}, "an id of a kind": {"features": ROWS[:1], "ids": [1.5]},
    "a list for a model": {"model": [], "features": []}, "no such model": {"model": "wbe", "features": []}, "no such version": {"model": "web@9", "features": []}, "no such alias": {"model": "web@x", "features": []},
    "a name that cannot be": {"model": "../web", "features": []}, "no model among several": {"features": []}, "top_n 0": {"features": [], "top_n": 0}, "top_n a text": {"features": [], "top_n": "1"},
    "another explanation": {"features": [], "explain": "all"}, "a timeout of 0": {"features": [], "timeout_ms": 0}, "no such fallback": {"features": [], "timeout_ms": 5, "fallback_feature": "colour"},
    "names without one": {"feature_names": NAMES[1:], "features": [row[1:] for row in ROWS]}, "a name twice": {"feature_names": ["age"] * 5, "features": ROWS}, "numbers for rows": {"features": [1, 2, 3]},
    "a contract of a kind": {"features": [], "contract": 3},
}  # fmt: skip


def refusals(door: Door) -> None:
    for case, body in REFUSED.items():
        if isinstance(body, dict) and case != "no model among several":
            body = {"model": "web", **body}  # noqa: PLW2901
        door.ask(case, body=body, content_type=JSON)
    others: tuple[tuple[str, str, Any, dict[str, Any]], ...] = (
        ("no content type", "/v1/rerank", "{}", {}), ("another content type", "/v1/rerank", "<a/>", {"content_type": "application/xml"}),
        ("an option in the query string", "/v1/rerank?model=web", {"features": []}, {}), ("no such route", "/v1/rerankk", {}, {}),
        ("no such engine", "/v1/adapters/vespaa", {}, {}), ("a slash too many", "/v1/rerank/", {}, {}), ("no such page", "/v1/nothing", None, {}),
        ("a foreign host", "/v1/models", None, {"host": "evil.example"}), ("a change without a key", "/v1/models/web/promote", {"version": 2}, {}),
        ("a change with a wrong key", "/v1/models/web/promote", {"version": 2}, {"x_api_key": "wrong-key-here"}),
        ("a change from another page", "/v1/models/web/promote", {"version": 2}, {"x_api_key": KEY, "origin": "http://elsewhere.example"}),
        ("a change that is not JSON", "/v1/models/web/promote", "{}", {"x_api_key": KEY, "content_type": TEXT}),
    )  # fmt: skip
    for case, path, body, head in others:
        door.ask(case, path, body, **head)
    for method, path in (
        ("GET", "/v1/rerank"),
        ("PUT", "/v1/rerank/batch"),
        ("DELETE", "/v1/models"),
        ("POST", "/livez"),
        ("GET", "/v2/models/web/infer"),
        ("OPTIONS", "/v1/rerank"),
        ("HEAD", "/livez"),
        ("PATCH", "/"),
    ):
        door.ask(f"{method} {path}", path, method=method)


RAW: dict[str, bytes] = {
    "HTTP/1.0": b"GET /livez HTTP/1.0\r\nHost: localhost\r\n\r\n", "no host": b"GET /livez HTTP/1.1\r\n\r\n", "two hosts": b"GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "not HTTP": b"hello there\r\n\r\n", "HTTP/3.0": b"GET /livez HTTP/3.0\r\nHost: localhost\r\n\r\n", "a space in a name": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nx y: 1\r\n\r\n",
    "chunks": b"POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "a chunk of no length": b"POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n",
    "a length and chunks": b"POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "a negative length": b"POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "a length beyond the limit": b"POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n",
    "a head too long": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nx: " + b"a" * 70_000 + b"\r\n\r\n", "too many headers": b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"x%d: 1\r\n" % n for n in range(120)) + b"\r\n",
    "an upgrade": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n",
    "100-continue": b"POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
    "a whole address": b"GET http://localhost/livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "another method": b"BREW /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
}  # fmt: skip


def exchanged(client: httpx.Client, sent: bytes) -> dict[str, Any]:
    """Send bytes; return status, some headers and sentence of what comes back."""
    received = b""
    with socket.create_connection(
        (str(client.base_url.host), client.base_url.port or 80), timeout=20
    ) as connection:
        connection.sendall(sent)
        while part := connection.recv(65_536):
            received += part
            # The service may keep the connection open.
            found = re.search(rb"content-length: (\d+)\r\n.*?\r\n\r\n", received, re.DOTALL | re.IGNORECASE)
            if found and len(received) >= found.end() + int(found[1]):
                break
    head, _, body = received.decode().rpartition("\r\n\r\n")
    # Reasons beside a status are those of the Python that serves.
    lines = [line[:12] if line.startswith("HTTP/") else line for line in head.split("\r\n")]
    said = json.loads(body).get("detail") if body.startswith("{") else body
    return {
        "head": [line for line in lines if re.match("(?i)http/|connection|content-type|allow", line)],
        "detail": said,
    }


def raw(door: Door) -> None:
    for case, sent in RAW.items():
        door.keep(case, exchanged(door.client, sent))


def changes(door: Door) -> None:
    door.key = KEY
    web, moved = "/v1/models/web", ("alias", "previous", "version")
    ranked = {"model": "web", "features": ROWS, "top_n": 2}
    door.ask("promote", f"{web}/promote", {"version": 2}, only=moved)
    door.ask("promote the same again", f"{web}/promote", {"version": 2}, only=moved)
    door.ask("promoted version answers", body=ranked)
    door.ask("roll back", f"{web}/rollback", {}, only=moved)
    door.ask("promote another alias", f"{web}/promote", {"version": 1, "alias": "canary"}, only=moved)
    for case, path, body in (
        ("no such version", f"{web}/promote", {"version": 9}), ("no version", f"{web}/promote", {}), ("a text for a version", f"{web}/promote", {"version": "2"}), ("no such model", "/v1/models/none/promote", {"version": 1}),
        ("a name for an alias", f"{web}/promote", {"version": 1, "alias": "7"}), ("an unknown member", f"{web}/promote", {"version": 1, "colour": 1}), ("no earlier version", f"{web}/rollback", {"alias": "canary"}), ("no such alias", f"{web}/rollback", {"alias": "nobody"}),
    ):  # fmt: skip
        door.ask(f"refused: {case}", path, body)
    half = "/v1/experiments/half"
    split = {"kind": "split", "model": "web", "candidate": "web@2", "percent": 100, "unit": "query_id"}
    mixed = {"kind": "interleaving", "model": "web", "candidate": "web@2", "unit": "query_id"}
    door.ask("no experiments", "/v1/experiments", only=("experiments", "problem"))
    door.ask("begin an experiment", half, split, method="PUT", only=("name",))
    door.ask("an answer of the candidate", body={**ranked, "query_id": "q"})
    door.ask("a request without the unit", body=ranked)
    door.ask("begin interleaving", half, mixed, method="PUT", only=("name",))
    door.ask(
        "an interleaved answer", body={**ranked, "query_id": "q"}, only=("experiment", "model", "version")
    )
    refused = {
        "a kind": {"kind": "half"},
        "no candidate": {"candidate": "web@9"},
        "a percentage": {"percent": 101},
        "a member": {"colour": 1},
    }
    door.each(
        "/v1/experiments/other",
        {f"refused experiment: {case}": members for case, members in refused.items()},
        split,
        method="PUT",
    )
    door.ask("list experiments", "/v1/experiments", only=("problem",))
    door.ask("end an experiment", half, method="DELETE", only=("name",))
    door.ask("end it again", half, method="DELETE")
    index = door.client.post("/v2/repository/index", json={}, headers={"x-api-key": KEY}).json()
    door.keep("index of the repository", [one for one in index if one["name"] in {"web", "lsh-linear"}])
    repository = "/v2/repository/models/lsh-linear"
    door.ask("unload", f"{repository}/unload", {})
    door.ask("an unloaded model does not answer", body={"model": "lsh-linear", "features": []})
    door.ask("load", f"{repository}/load", {})
    door.ask("refused: a parameter of load", f"{repository}/load", {"parameters": {"config": "{}"}})
    door.ask("refused: load no such model", "/v2/repository/models/none/load", {})


def answers(folder: Path) -> Iterator[tuple[str, str, Any]]:
    """Ask a service with every feature on."""
    log = ("--impression-log", "1", "--impression-log-dir", str(folder / "log"))
    flags = (*log, "--experiments-file", str(folder / "experiments.json"), "--extra-versions", "4")
    parts = {
        "rerank": rerank, "components": components, "encodings": encodings, "v2": v2, "wires": other_wires, "adapters": adapters,
        "descriptions": descriptions, "refusals": refusals, "raw": raw, "changing": changes,
    }  # fmt: skip
    with service(folder, "--admin-key", KEY, *flags) as client:
        for file, cases in parts.items():
            door = Door(client, file)
            cases(door)
            yield from door.kept


def guarded(folder: Path) -> Iterator[tuple[str, str, Any]]:
    """Ask a service with keys and narrow limits, one of whose models is damaged."""
    shutil.copytree(MODELS, folder / "models")
    shutil.copytree(MODELS / "web", folder / "models" / "broken")
    array = folder / "models" / "broken" / "1" / "scorers.weights.npy"
    array.write_bytes(array.read_bytes()[:-1] + b"\1")
    log = folder / "log"
    flags = ("--max-documents", "6", "--max-body-bytes", "4096", "--extra-features", "refuse", "--ready", "any", "--body-timeout-seconds", "0.2", "--evaluate-queries", "2",
             "--cors-origins", "https://shop.example", "--api-key", SERVING, "--admin-key", KEY, "--impression-log", "1", "--impression-log-dir", str(log))  # fmt: skip
    with serving(folder / "models", "--workers", "1", *flags) as client:
        door = Door(client, "guarded")
        few: dict[str, Any] = {"model": "web", "features": ROWS[:2]}
        door.ask("no key", body=few)
        door.ask("a wrong key", body=few, authorization="Bearer other-key-entirely")
        door.ask("a bearer", body=few, authorization=f"Bearer {SERVING}")
        door.key = SERVING
        door.each("/v1/rerank", {
            "a key": {}, "too many documents": {"features": ROWS[:7]}, "too many bytes": {"features": ROWS * 20},
            "a damaged model": {"model": "broken"}, "a version that is not loaded": {"model": "web@2"},
        }, few)  # fmt: skip
        door.ask("a serving key changes nothing", "/v1/models/web/promote", {"version": 2})
        door.ask(
            "an unknown name", body={"model": "web", "documents": [{"features": {**NAMED[0], "colour": 3}}]}
        )
        door.ask("too many in a batch", "/v1/rerank/batch", {"queries": [few, few, few, few]})
        door.ask(
            "too many bytes of gzip", body=gzipped(b" " * 5000), content_type=JSON, content_encoding="gzip"
        )
        door.ask("too many rows of npy", "/v1/rerank?model=web", npy(ROWS[:7]), content_type=NPY)
        door.ask(
            "too many queries",
            "/v1/evaluate",
            {"model": "web", "queries": [{"features": ROWS[:2], "labels": [1, 0]}] * 3},
        )
        door.ask("what is broken", "/v1/models", only=("broken", "loading"))
        door.ask("ready", "/readyz")
        door.ask("a page that may ask", body=few, origin="https://shop.example")
        door.ask("a page that may not ask", body=few, origin="https://other.example")
        asked: dict[str, Any] = {
            "access_control_request_method": "POST",
            "access_control_request_headers": "content-type,x-api-key",
        }
        door.ask("a question before", method="OPTIONS", origin="https://shop.example", **asked)
        door.keep("metrics without a key", client.get("/metrics").status_code)
        slow = b"POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        door.keep("a body that does not come", exchanged(client, slow % SERVING.encode()))
        for number, (rows, labels) in enumerate(TEST.values()):
            said = f"golden-{number}"
            ids = [f"{said}-{row}" for row in range(6)]
            client.post(
                "/v1/rerank",
                json={"model": "web", "ids": ids, "features": rows[:6]},
                headers={"x-api-key": SERVING, "x-request-id": said},
            )
            events = [
                {"request_id": said, "id": one, "grade": label}
                for one, label in zip(ids, labels, strict=False)
            ]
            client.post("/v1/feedback", json={"events": events}, headers={"x-api-key": SERVING})
        yield from door.kept
    # What was logged is complete when the service has ended.
    done = run(folder, "data", "export", str(log), "--out", "judged.txt", "--json")
    lines = sorted((folder / "judged.txt").read_text().splitlines()) if done.code == 0 else done.err
    yield (
        "http-guarded",
        "judged queries of the log",
        {"printed": done.json if done.code == 0 else None, "lines": lines},
    )


def bare(folder: Path) -> Iterator[tuple[str, str, Any]]:
    """Ask a service of one model where everything else is off."""
    shutil.copytree(MODELS, folder / "models")
    with serving(folder / "models", "--workers", "1") as client:
        door = Door(client, "plain")
        door.ask("the only model needs no name", body={"features": ROWS, "top_n": 1})
        door.ask("the only model by column", "/v1/rerank?top_n=1", npy(ROWS), content_type=NPY)
        door.ask("off: feedback", "/v1/feedback", {"events": []})
        door.ask("off: experiments", "/v1/experiments")
        door.ask("off: keys", "/v1/models/web/promote", {"version": 2})
        door.ask("info", "/info")
        yield from door.kept
