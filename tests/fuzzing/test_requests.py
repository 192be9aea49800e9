"""Requests of all routes, right, odd and damaged: every answer is the one that a plain calculation gives, or a refusal.

The application is called without a network. What LETOR text says, what a page of hits becomes and what a ranking is
worth is worked out in `tests.fuzzing.oracles` and here, value by value; the order of documents is that of the model
itself, outside the service. ``LOCALRANK_FUZZED_REQUESTS`` sets how many requests the long form sends.
"""

from __future__ import annotations

import json
import math
import os
import random
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from localrank.errors import LocalRankError
from localrank_service.app import create_app
from localrank_service.models.live import LiveModel
from localrank_service.process.settings import Settings
from tests.fuzzing.oracles import figures, float32, letor_lines
from tests.fuzzing.targets import TARGETS
from tests.service.conftest import NAMES, three_kinds

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.ranker import Ranker, Ranking

pytestmark = pytest.mark.anyio

MANY = int(os.environ.get("LOCALRANK_FUZZED_REQUESTS", "100000"))
JSON, TEXT = "application/json", "text/plain"
METRICS = ("ndcg@3", "mrr", "p@2", "map")
MARK = b"\xef\xbb\xbf"
#: Values as texts: what JSON and LETOR text both take, and what only text takes.
NUMBERS = (
    "0",
    "1",
    "-0",
    "2.5",
    "-3",
    "1e2",
    "1E-3",
    "0.1",
    "7e-46",
    "12345678901234567890123",
    "3.4028235e38",
    "1e39",
)
ODD = (
    "?",
    "+.5",
    "5.",
    "007",
    "1e-400",
    "nan",
    "inf",
    "1_0",
    "0x1",
    "",
    "1,2",
    "1:1",
    "--1",
    "1e",
    "١",
    "1e999",
)
LABELS = ("0", "1", "2", "4", "0.5", "-0", "1e-9", "1000", "1001", "-1", "x", "nan", "?")


class Sent(NamedTuple):
    """A request, and what its answer must be: a check of status, text and JSON, or nothing but a proper answer."""

    method: str
    target: str
    kind: str
    body: bytes
    check: Callable[[int, str], None] | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Maker:
    """Makes requests, the same ones for the same seed."""

    def __init__(self, seed: int, ranker: Ranker) -> None:
        self.random = random.Random(seed)
        self.ranker = ranker
        self.right = 0

    def request(self) -> Sent:
        makers = (
            self.text,
            self.text,
            self.text,
            self.judged,
            self.hits,
            self.hits,
            self.ranked,
            *[self.other] * 4,
        )
        return self.random.choice(makers)()

    # ------------------------------------------------------------------------------------------- LETOR, evaluate

    def line(self) -> str:
        rng = self.random
        odd = rng.random() < 0.04
        label = rng.choice(LABELS) if odd else rng.choice(LABELS[:6])
        pairs = []
        for index in range(1, 5):
            if index == 1 or rng.random() < 0.7:
                values = (
                    ODD
                    if rng.random() < 0.02
                    else (*NUMBERS[:10], "?", "+.5", "5.")
                    if index > 1
                    else NUMBERS[:10]
                )
                zeros = "0" * rng.choice((0, 0, 0, 1, 12))
                pairs.append(f"{zeros}{index}:{rng.choice(values)}")
        if rng.random() < 0.03:
            pairs.insert(
                rng.randrange(len(pairs) + 1),
                rng.choice(("0:1", "5:1", "1:1", "x", ":", "a:1", "-1:1", "9" * 30 + ":1")),
            )
        query = rng.choice(("a", "b", "é", "a:b", "7", "q" * 40))
        head = (
            f"{label} qid:{query}"
            if rng.random() < 0.99
            else rng.choice((label, f"{label} qid:", f"qid:{query}"))
        )
        gap = rng.choice((" ", " ", "  ", "\t", "\v"))
        end = rng.choice(("\n", "\n", "\r\n", " \n", "\r\r\n", " # c\n", "#é # c\r\n", "\n\n", "\n# only\n"))
        return gap.join([head, *pairs]) + end

    def text(self) -> Sent:
        rng = self.random
        body = "".join(self.line() for _ in range(rng.choice((0, 1, 2, 5, 9)))).encode()
        if rng.random() < 0.15:
            body = damaged(rng, body)
        if rng.random() < 0.2:
            body = body.rstrip(b"\n")
        if rng.random() < 0.1:
            body = MARK + body
        target = "/v1/evaluate?per_query=true&" + "&".join(f"metrics={name}" for name in METRICS)
        return Sent("POST", target, TEXT, body, lambda status, text: self.check_text(body, status, text))

    def check_text(self, body: bytes, status: int, text: str) -> None:
        said = letor_lines(body.removeprefix(MARK) + (b"" if body.endswith(b"\n") else b"\n"), 4)
        if isinstance(said, int):
            assert 422 == status
            assert json.loads(text)["detail"].startswith(f"line {said}, column "), said
            return
        queries: dict[str, tuple[list[float], list[list[float]]]] = {}
        for one in said:
            labels, rows = queries.setdefault(one.query_id, ([], []))
            labels.append(one.label)
            row = [0.0] * 4
            for index, value in one.values:
                row[index - 1] = value
            rows.append(row)
        self.check_figures(list(queries.items()), status, text)

    def judged(self) -> Sent:
        rng = self.random
        queries = []
        for _ in range(rng.choice((0, 1, 3))):
            count = rng.choice((0, 1, 2, 6))
            rows = [[rng.choice(NUMBERS[:11]) for _ in NAMES] for _ in range(count)]
            for row in rows:
                row[2] = rng.choice((row[2], "null"))
                row[0] = "null" if rng.random() < 0.02 else row[0]
                row[1] = "1e39" if rng.random() < 0.02 else row[1]
            queries.append((rng.choice(("a", "b")), [rng.choice(LABELS[:8]) for _ in rows], rows))
        written = [
            f'{{"query_id": "{name}", "labels": [{", ".join(labels)}], "features": [{", ".join(map(listed, rows))}]}}'
            for name, labels, rows in queries
        ]
        body = f'{{"per_query": true, "metrics": {json.dumps(METRICS)}, "queries": [{", ".join(written)}]}}'
        parsed = [
            (name, ([float(label) for label in labels], [[number(cell) for cell in row] for row in rows]))
            for name, labels, rows in queries
        ]
        return self.perhaps_damaged(
            "/v1/evaluate", body, lambda status, text: self.check_figures(parsed, status, text)
        )

    def check_figures(
        self, queries: list[tuple[str, tuple[list[float], list[list[float]]]]], status: int, text: str
    ) -> None:
        rankings = [self.ranking(rows) for _, (_, rows) in queries]
        if None in rankings or any(label > 1000 for _, (labels, _) in queries for label in labels):
            assert 422 == status, text
            return
        assert 200 == status, text
        answer = json.loads(text)
        self.right += 1
        assert len(queries) == answer["queries"]
        assert sum(len(labels) for _, (labels, _) in queries) == answer["documents"]
        found = [(one["query_id"], one["metrics"]) for one in answer["per_query"]]
        expected = [
            (name, figures(labels, ranking.order.tolist()))
            for (name, (labels, _)), ranking in zip(queries, rankings, strict=True)
            if ranking is not None
        ]
        assert [name for name, _ in expected] == [name for name, _ in found]
        for (_, wanted), (_, measured) in zip(expected, found, strict=True):
            assert wanted == pytest.approx(measured, rel=1e-9, abs=1e-12)
        for one in answer["metrics"] if queries else ():
            mean = math.fsum(wanted[one["metric"]] for _, wanted in expected) / len(expected)
            assert mean == pytest.approx(one["mean"], rel=1e-9, abs=1e-12)

    def ranking(self, rows: list[list[float]]) -> Ranking | None:
        """What the model makes of the rows; None if it refuses them."""
        matrix = np.array([[float32(value) for value in row] for row in rows], np.float32).reshape(-1, 4)
        try:
            return self.ranker.rank(matrix)
        except LocalRankError:
            return None

    # ------------------------------------------------------------------------------------------- adapters

    def hits(self) -> Sent:
        """A page of an engine, in which the features of each hit are logged."""
        rng = self.random
        engine = rng.choice(("elasticsearch", "opensearch", "solr"))
        solr, zero = engine == "solr", rng.random() < 0.5
        rows: list[dict[str, str]] = []
        for _ in range(rng.choice((0, 1, 2, 5))):
            row = {name: rng.choice(NUMBERS[:11]) for name in NAMES if rng.random() < 0.97}
            if rng.random() < 0.1:
                row[rng.choice((*NAMES, "more"))] = rng.choice(
                    ("Infinity", "NaN") if solr else ("null", "1e39")
                )
            rows.append(row)
        score, best = ("score", "maxScore") if solr else ("_score", "max_score")
        written = []
        for at, row in enumerate(rows):
            other = (
                f'"n": [{", ".join(rng.choice(NUMBERS) for _ in range(3))}], "é\\u0041": {{"{score}": -0}}'
            )
            parts = [f'"id": "{at}"', other]
            if solr:
                parts.append(f'"[features]": "{",".join(f"{name}={value}" for name, value in row.items())}"')
            else:
                log = ", ".join(f'{{"name": "{name}", "value": {value}}}' for name, value in row.items())
                parts.append(f'"fields": {{"_ltrlog": [{{"e": [{log}]}}]}}')
            if rng.random() < 0.8:
                parts.append(
                    rng.choice((f'"{score}": 1.50', f'"{score}" : null ', f'"{score[:-1]}\\u0065": 7'))
                )
            rng.shuffle(parts)
            written.append("{" + ", ".join(parts) + rng.choice((" }", "}")))
        page, listed_as = ("response", "docs") if solr else ("hits", "hits")
        body = f'{{"took": 1e1, "{page}": {{"total": -0, "{best}": 9.90, "{listed_as}": [{", ".join(written)}]}}, "z": {rng.choice(NUMBERS)}}}'

        def check(status: int, text: str) -> None:
            absent = (
                [] if zero or not rows else [name for name in NAMES if not any(name in row for row in rows)]
            )
            cells = [[number(row.get(name, "0" if zero else "null")) for name in NAMES] for row in rows]
            # Zeros stand for what was not logged, not for a logged null.
            if zero:
                cells = [
                    [0.0 if row.get(name) == "null" else cell for name, cell in zip(NAMES, line, strict=True)]
                    for row, line in zip(rows, cells, strict=True)
                ]
            ranking = self.ranking(cells)
            if absent or ranking is None:
                assert 422 == status, text
                return
            assert 200 == status, text
            self.right += 1
            answer, before = raw(text), raw(body)
            del answer["localrank"]
            found, hits = answer[page].pop(listed_as), before[page].pop(listed_as)
            order, scores = ranking.order.tolist(), ranking.scores.tolist()
            assert scores_of(found, score) == [scores[at] for at in order]
            assert [without(hits[at], score) for at in order] == [without(hit, score) for hit in found]
            assert (max(scores) if scores else None) == scores_of([answer[page]], best)[0]
            assert without(before[page], best) == without(answer[page], best)
            assert before | {page: 0} == answer | {page: 0}

        return self.perhaps_damaged(f"/v1/adapters/{engine}?missing_as_zero={str(zero).lower()}", body, check)

    # ------------------------------------------------------------------------------------------- the other routes

    def ranked(self) -> Sent:
        rng = self.random
        rows = [[rng.choice(NUMBERS[:11]) for _ in NAMES] for _ in range(rng.choice((0, 1, 3, 8)))]
        for row in rows:
            row[3] = "null" if rng.random() < 0.2 else row[3]
        body = (
            f'{{"ids": {json.dumps(list(range(len(rows))))}, "features": [{", ".join(map(listed, rows))}]}}'
        )

        def check(status: int, text: str) -> None:
            ranking = self.ranking([[number(cell) for cell in row] for row in rows])
            assert (422 if ranking is None else 200) == status, text
            if ranking is not None:
                self.right += 1
                results = json.loads(text)["results"]
                assert ranking.order.tolist() == [one["id"] for one in results]
                assert ranking.scores[ranking.order].tolist() == [one["score"] for one in results]

        return self.perhaps_damaged("/v1/rerank", body, check)

    def other(self) -> Sent:
        rng = self.random
        target, kind, bodies = rng.choice(OTHERS)
        body = rng.choice(bodies).replace(b'"web"', b'"tiny"')
        headers: tuple[tuple[bytes, bytes], ...] = ()
        if target.endswith("/infer"):
            (length,) = struct.unpack_from("<H", body)
            body = body[2:]
            if length != 0xFFFF:
                headers = ((b"inference-header-content-length", str(length).encode()),)
        if rng.random() < 0.7:
            body = damaged(rng, body)
        if rng.random() < 0.2:
            target = damaged(rng, target.encode()).decode("latin-1")
        if rng.random() < 0.1:
            kind = rng.choice(
                (JSON, TEXT, "", "application/x-npy", "image/png", "application/json; charset=x")
            )
        if rng.random() < 0.1:
            headers += (rng.choice(HEADERS),)
        method = "POST" if bodies != (b"",) else "GET"
        if rng.random() < 0.1:
            method = rng.choice(("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "X"))
        return Sent(method, target, kind, body, None, headers)

    def perhaps_damaged(self, target: str, body: str, check: Callable[[int, str], None]) -> Sent:
        content = body.encode()
        if self.random.random() < 0.2:
            return Sent("POST", target, JSON, damaged(self.random, content))
        return Sent("POST", target, JSON, content, check)


HEADERS = (
    (b"content-encoding", b"gzip"),
    (b"content-encoding", b"zstd"),
    (b"origin", b"https://evil.example"),
    (b"sec-fetch-site", b"cross-site"),
    (b"content-length", b"-1"),
    (b"x-request-id", b"\xff"),
    (b"traceparent", b"00-" + b"0" * 32 + b"-" + b"1" * 16 + b"-01"),
    (b"authorization", b"Bearer x"),
    (b"host", b"evil.example"),
)
EVALUATED = (
    b'{"queries": [{"features": [[1, 2, 3, 4], [2, 2, 2, 2]], "labels": [1, 0]}], "metrics": ["err@2"]}',
)
OTHERS: tuple[tuple[str, str, tuple[bytes, ...]], ...] = (
    ("/v1/rerank", JSON, TARGETS["rerank"].examples),
    ("/v1/rerank?explain=contributions&top_n=1", "application/x-npy", TARGETS["npy"].examples),
    ("/v1/rerank/batch", JSON, TARGETS["batch"].examples),
    ("/v2/rerank", JSON, TARGETS["cohere"].examples),
    ("/v2/models/tiny/infer", JSON, TARGETS["inference"].examples),
    ("/v1/compare", JSON, (b'{"a": "tiny", "b": "tiny@3", "features": [[1, 2, 3, 4], [2, 2, 2, 2]]}',)),
    ("/v1/evaluate", JSON, EVALUATED),
    ("/v1/evaluate?metrics=err@3&top_grade=4&convention=letor4", TEXT, (b"1 qid:1 1:1 2:2\n0 qid:1 1:2\n",)),
    ("/v1/feedback", JSON, (b'{"request_id": "a", "events": [{"index": 0, "click": true}]}',)),
    ("/v2/repository/index", JSON, (b"{}", b'{"ready": true}')),
    ("/v1/models/tiny/promote", JSON, (b'{"version": 3}',)),
    ("/v1/experiments/tiny", JSON, (b'{"kind": "split"}',)),
    *((path, "", (b"",)) for path in ("/v1/models", "/v1/models/tiny", "/v1/models/tiny/schema", "/v1/models/tiny/clusters", "/v1/models/tiny/map", "/v1/models/tiny/versions", "/v1/models/tiny/versions/diff?a=3&b=3", "/v1/stats?series=true", "/v1/experiments", "/v2", "/v2/health/ready", "/v2/models/tiny", "/v2/models/tiny/stats", "/livez", "/readyz", "/startupz", "/metrics", "/", "/docs", "/openapi.json")),
)  # fmt: skip


def listed(cells: list[str]) -> str:
    return f"[{', '.join(cells)}]"


def number(text: str) -> float:
    return math.nan if text in {"null", "NaN"} else float(text)


def raw(text: str) -> Any:
    """JSON whose numbers are kept as they were written."""
    return json.loads(text, parse_int=str, parse_float=str)


def without(members: dict[str, Any], name: str) -> dict[str, Any]:
    return {one: value for one, value in members.items() if one != name}


def scores_of(objects: list[dict[str, Any]], name: str) -> list[float | None]:
    return [None if one[name] is None else float(one[name]) for one in objects]


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Change a few bytes."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(found) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            found[at : at + rng.choice((0, 1, 3))] = rng.choice(PARTS)
        elif kind == 1 and at < len(found):
            found[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del found[at : at + rng.randrange(1, 20)]
        elif kind == 3:
            found[at:at] = found[at : at + rng.randrange(1, 30)]
        elif kind == 4 and rng.random() < 0.3:
            del found[at:]
    return bytes(found)


PARTS = (
    *(b"", b"\0", b"\xff", b"\n", b"\r", b" ", b"#", b":", b",", b'"', b"\\", b"[", b"]", b"{", b"}", b"?"),
    *(b"null", b"true", b"-0", b"1e999", b"9" * 30, b"nan", b"qid:", b"\\ud800", b"1:1,2:1", b"111:" * 40, b"@", b"%ff", b"&a=b"),
)  # fmt: skip


async def ask(app: Any, sent: Sent) -> tuple[int, dict[bytes, bytes], bytes]:
    path, _, query = sent.target.partition("?")
    headers = [(b"host", b"localhost"), *sent.headers]
    if sent.kind:
        headers.append((b"content-type", sent.kind.encode()))
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": "",
        "method": sent.method, "path": path, "raw_path": path.encode(), "query_string": query.encode("latin-1"),
        "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8080),
    }  # fmt: skip
    answer: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": sent.body, "more_body": False}

    async def send(message: Any) -> None:
        answer.append(message)

    await app(scope, receive, send)
    begun = answer[0]
    return begun["status"], dict(begun["headers"]), b"".join(one.get("body", b"") for one in answer[1:])


def check_answer(sent: Sent, status: int, headers: dict[bytes, bytes], body: bytes) -> None:
    """What holds for every answer: no failure of the service, and a refusal says what is wrong."""
    assert 200 <= status < 500 or status in {501, 503}, body
    assert headers[b"x-request-id"]
    if status >= 400 and sent.method != "HEAD":
        problem = json.loads(body)
        if headers[b"content-type"] == b"application/problem+json":
            assert problem["status"] == status
        assert len(problem.get("detail") or problem.get("message") or problem.get("error")) > 5
    if sent.check is not None:
        sent.check(status, body.decode())


#: What once was a failure of the service.
FOUND = (
    Sent("GET", "/nowhere?metrics=\xc0", "", b""),
    Sent("POST", "/v1/evaluate", TEXT, b"1 qid:1 1:1,2:1"),
    Sent("POST", "/v1/evaluate?metrics=\xc0", TEXT, b"1 qid:1 1:1"),
)


@pytest.mark.parametrize("sent", FOUND, ids=lambda sent: sent.target)
async def test_what_was_found_is_refused(sent: Sent) -> None:
    app = create_app(Settings(), models=[LiveModel("tiny", 3, three_kinds())])
    async with app.router.lifespan_context(app):
        status, headers, body = await ask(app, sent)

    assert 400 <= status < 500
    check_answer(sent, status, headers, body)


@pytest.mark.parametrize("count", [600, pytest.param(MANY, marks=pytest.mark.soak)])
async def test_every_answer_is_the_right_one(count: int, tmp_path: Any) -> None:
    ranker = three_kinds()
    maker = Maker(count, ranker)
    app = create_app(Settings(runtime_dir=tmp_path / "run"), models=[LiveModel("tiny", 3, ranker)])

    async with app.router.lifespan_context(app):
        for at in range(count):
            sent = maker.request()
            try:
                check_answer(sent, *await ask(app, sent))
            except Exception as error:
                raise AssertionError(f"request {at}: {sent[:4]} {sent.headers}") from error
        admission = app.state.service.admission
        assert (0, 0) == (admission.working, admission.waiting)
        assert 200 == (await ask(app, Sent("GET", "/readyz", "", b"")))[0]

    assert maker.right > count / 5
