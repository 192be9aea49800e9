"""A real server on this machine plays the engine: busy, slow, cut off, redirecting, curious about credentials."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from localrank.__main__ import main
from localrank.locks import hold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import TypeAlias

    Collect: TypeAlias = Callable[..., tuple[dict[str, Any], str]]

pytestmark = pytest.mark.slow

SECRET = "elastic:s3cret-pass"
BASIC = "Basic " + base64.b64encode(SECRET.encode()).decode()
FOUND = {"hits": {"hits": [{"_id": "d1", "_score": 1.10, "matched_queries": {"bm25": 1e-3}}]}}
QUERIES = ["red shoes", 'say "ü"\\', "50% off"]


class Engine:
    """What a server has been asked, and what it answers.

    Attributes:
        url: of the search.
        asked: bodies, in the order in which they came.
        headers: of each.
        answers: of the next requests: a status with headers and a body, ``cut`` or ``wait``; then all is found.
        released: ends the waiting.
        most: requests at a time.
    """

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[Any] = []
        self.arrived, self.released = threading.Event(), threading.Event()
        self.most = self.running = 0
        self.lock = threading.Lock()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        with self.lock:
            self.asked.append(body)
            self.headers.append({name.lower(): value for name, value in handler.headers.items()})
            self.running += 1
            self.most = max(self.most, self.running)
            next_one = self.answers.pop(0) if self.answers else (200, {}, FOUND)
        if next_one == "wait":
            self.arrived.set()
            self.released.wait(60)
            next_one = (200, {}, FOUND)
        with self.lock:
            self.running -= 1
        if next_one == "cut":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
            handler.close_connection = True
            return
        status, headers, said = next_one
        text = said.encode() if isinstance(said, str) else json.dumps(said, indent=1).encode()
        handler.send_response(status)
        for name, value in ({"content-length": str(len(text))} | headers).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(text)


@contextmanager
def playing() -> Iterator[Engine]:
    engine = Engine()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            # Whoever has gone away hears nothing.
            with suppress(OSError):
                engine.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        engine.url = f"http://127.0.0.1:{server.server_port}/products/_search?typed_keys=true"
        try:
            yield engine
        finally:
            engine.released.set()
            server.shutdown()
            thread.join()


@pytest.fixture
def engine() -> Iterator[Engine]:
    with playing() as one:
        yield one


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENGINE_AUTH", SECRET)
    (tmp_path / "queries.txt").write_text("\n".join(QUERIES) + "\n\n" + QUERIES[0] + "\n")
    (tmp_path / "search.json").write_text(
        '{"size": 3, "query": {"match": {"title": "{{query}}"}}, "x": [1.5, null]}'
    )
    return tmp_path


def arguments(engine: Engine | str, *more: str) -> list[str]:
    url = engine if isinstance(engine, str) else engine.url
    files = ("--queries", "queries.txt", "--template", "search.json", "--out", "responses.jsonl")
    return ["data", "collect", "--engine", url, *files, "--rate", "10000", "--concurrency", "1", *more]


@pytest.fixture
def collected(capsys: pytest.CaptureFixture[str]) -> Collect:
    """Collect; return what ``--json`` says, and the sentence of an error."""

    def run(engine: Engine | str, *more: str, code: int = 0) -> tuple[dict[str, Any], str]:
        assert code == main(arguments(engine, "--json", *more)), capsys.readouterr().err
        out, err = capsys.readouterr()
        assert SECRET.partition(":")[2] not in out + err
        return (json.loads(out) if out else {}), err

    return run


def searched(engine: Engine) -> list[str]:
    return [body["query"]["match"]["title"] for body in engine.asked]


def stored(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "responses.jsonl").read_text().splitlines()]


def test_each_query_is_asked_once_and_stored(at: Path, engine: Engine, collected: Collect) -> None:
    first, _ = collected(engine)
    with (at / "queries.txt").open("a") as file:
        file.write("hats")
    again, _ = collected(engine)

    assert [*QUERIES, "hats"] == searched(engine)
    assert {"size": 3, "query": {"match": {"title": QUERIES[1]}}, "x": [1.5, None]} == engine.asked[1]
    assert [*QUERIES, "hats"] == [line["query"] for line in stored(at)]
    assert all(FOUND == line["response"] for line in stored(at))
    assert {"out": "responses.jsonl", "stored": 3, "before": 0, "failed": {}} == first
    assert (1, 3) == (again["stored"], again["before"])
    assert 0o600 == (at / "responses.jsonl").stat().st_mode & 0o777
    assert "authorization" not in engine.headers[0]


def test_columns_of_a_table_fill_the_template(at: Path, engine: Engine, collected: Collect) -> None:
    (at / "queries.txt").write_text(
        "docid,query_text,query_id,größe\nd1,shoes,7,de\nd2,shoes,7,de\nd3,shoes,8,at\n,,9,at\n"
    )
    (at / "search.json").write_text(
        '{"q": "{{ query }} in {{größe}}", "x": {"a": ["{{größe}}{{größe}}"]}}', encoding="utf-8"
    )

    collected(engine)

    assert [("shoes in de", "dede"), ("shoes in at", "atat")] == [
        (body["q"], body["x"]["a"][0]) for body in engine.asked
    ]
    assert [("7", "shoes"), ("8", "shoes")] == [(line["query_id"], line["query"]) for line in stored(at)]


def test_a_search_whose_other_values_changed_is_asked_again(
    at: Path, engine: Engine, collected: Collect
) -> None:
    (at / "search.json").write_text('{"query": {"match": {"title": "{{query}} {{shop}}"}}}')
    for shop in ("de", "at", "at"):
        (at / "queries.txt").write_text(f"query,shop\nshoes,{shop}\nhats,de\n")
        collected(engine)

    assert ["shoes de", "hats de", "shoes at"] == searched(engine)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("qid,docid,rating\n1,d1,2\n", ":1: expected a column query or query_text, found 'qid', 'docid', 'rating'"),
        ("Query;Docid;Rating\na;d1;2\n", ":1: expected a column query or query_text, found 'Query', 'Docid'"),
        ("3 qid:1 # d0 star wars\n", ": expected a query on each line, or CSV with a column query or query_text; found LETOR"),
        ("suche|artikel\nrote schuhe|7\n", ":1: expected a column query or query_text, found 'suche', 'artikel'"),
        ("Query\nshoes\n", ":1: expected a column query or query_text, found 'Query'"),
        ("51 0 GX008 2\n", "; found qrels"),
        ('\n{"judgmentRatings": []}', "; found JSON"),
        ("query,shop\nred,a\nred,b\n", ": the searches for 'red' differ in 'shop' ('a', 'b'), and nothing"),
        ("query,qid,shop\nred,7,a\nred,7,b\n", "; expected other ids than '7'"),
    ],
)  # fmt: skip
def test_a_file_of_other_things_is_not_searched_for(
    at: Path, engine: Engine, collected: Collect, text: str, said: str
) -> None:
    (at / "queries.txt").write_text(text)
    (at / "search.json").write_text('{"q": "{{query}}", "shop": "{{shop}}"}')

    _, err = collected(engine, code=1)

    assert f"queries.txt{said}" in err or (said.startswith(";") and said in err)
    assert [] == engine.asked


@pytest.mark.usefixtures("at")
def test_queries_with_commas_are_queries(at: Path, engine: Engine, collected: Collect) -> None:
    (at / "queries.txt").write_text("red shoes, size 40\nshoes; hats\niphone 12 vs 13\n[a] hat\n")

    collected(engine)

    assert ["red shoes, size 40", "shoes; hats", "iphone 12 vs 13", "[a] hat"] == searched(engine)


def test_what_is_stored_joins_with_judgements(at: Path, engine: Engine, collected: Collect) -> None:
    (at / "judged.csv").write_text("query,docid,rating\nred shoes,d1,2\n")

    collected(engine)

    asked = ["--judgements", "judged.csv", "--responses", "responses.jsonl", "--out", "out.csv"]
    assert 0 == main(["data", "join", *asked])
    assert '"bm25"\n2,"red%20shoes","d1",0.001\n' in (at / "out.csv").read_text()


def test_a_line_that_a_crash_cut_off_is_asked_again(at: Path, engine: Engine, collected: Collect) -> None:
    collected(engine)
    whole = (at / "responses.jsonl").read_bytes()
    (at / "responses.jsonl").write_bytes(whole[:-20])

    again, _ = collected(engine)

    assert [*QUERIES, QUERIES[-1]] == searched(engine)
    assert whole == (at / "responses.jsonl").read_bytes()
    assert (1, 2) == (again["stored"], again["before"])


@pytest.mark.parametrize(
    "trouble",
    [
        (429, {"retry-after": "0"}, "slow down"),
        (503, {"retry-after": "0"}, ""),
        "cut",
        (200, {}, FOUND | {"timed_out": True}),
        (200, {}, FOUND | {"_shards": {"failed": 1}}),
        (200, {}, {"response": {"docs": []}, "responseHeader": {"partialResults": True}}),
        (200, {}, {"root": {"errors": [{"code": 12}]}}),
    ],
)
def test_a_search_is_repeated_if_the_engine_is_in_trouble(
    at: Path, engine: Engine, collected: Collect, trouble: Any
) -> None:
    engine.answers = [trouble]

    said, _ = collected(engine)

    assert [QUERIES[0], *QUERIES] == searched(engine)
    assert (3, 3) == (said["stored"], len(stored(at)))


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ((429, {"retry-after": "0"}, "slow down"), "429 slow down, 2 times for 'red shoes'"),
        ("wait", "no answer within 0.2 seconds, 2 times"),
        ((200, {}, FOUND | {"timed_out": True}), "the response is incomplete: timed_out, 2 times"),
    ],
)
def test_a_run_ends_if_the_engine_stays_in_trouble(
    at: Path, engine: Engine, collected: Collect, trouble: Any, said: str
) -> None:
    (at / "queries.txt").write_text("\n".join(["before", *QUERIES]))
    engine.answers = [(200, {}, FOUND), trouble, trouble]

    _, err = collected(engine, "--retries", "1", "--timeout", "0.2", code=1)
    engine.released.set()
    again, _ = collected(engine)

    assert said in err
    assert "1 response is stored, and the same command goes on" in err
    assert 1 == err.count("\n")
    assert (3, 1) == (again["stored"], again["before"])


@pytest.mark.usefixtures("at")
def test_an_engine_that_is_not_there_is_one_sentence(collected: Collect) -> None:
    _, err = collected("http://127.0.0.1:9/_search", "--retries", "0", code=1)

    assert "http://127.0.0.1:9/_search: " in err
    assert "1 times for 'red shoes'; 0 responses are stored" in err


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((400, {}, {"error": "no\n  such field"}), '400 { "error": "no\\n such field" }'),
        ((500, {}, "boom"), "500 boom"),
        ((200, {}, "<html>"), "(char 0); it begins with '<html>'"),
        ((200, {}, {"error": 1}), "found an object with 'error'"),
        ((200, {}, FOUND | {"_source": "\ud800"}), "expected text, found half of a character, \\ud800"),
        ((200, {}, '{"hits": {"hits": [], "max_score": 1e999}}'), "response: expected finite numbers"),
        ((200, {"content-encoding": "gzip"}, "{}"), "incorrect header check"),
    ],
)
def test_a_search_that_the_engine_refuses_is_named_and_the_others_are_stored(
    engine: Engine, collected: Collect, answer: Any, said: str
) -> None:
    engine.answers = [answer]

    found, err = collected(engine, code=1)
    again, _ = collected(engine)

    assert "1 of 3 searches failed, such as 'red shoes': " in err
    assert said in found["failed"]["red shoes"].replace("\\n  ", "\\n ")
    assert (2, 1, 2) == (found["stored"], again["stored"], again["before"])
    assert [*QUERIES, QUERIES[0]] == searched(engine)


@pytest.mark.parametrize(("status", "times"), [(400, 10), (401, 1), (403, 1), (404, 1)])
def test_a_run_ends_if_nothing_can_succeed(
    at: Path, engine: Engine, collected: Collect, status: int, times: int
) -> None:
    (at / "queries.txt").write_text("\n".join(map(str, range(100))))
    engine.answers = [(status, {}, "no")] * 100

    _, err = collected(engine, code=1)

    assert times == len(engine.asked)
    assert f"{status} no; 0 responses are stored" in err


# ------------------------------------------------------------------------------------------------- credentials


@pytest.mark.parametrize(
    ("text", "header"), [(SECRET, BASIC), (f"{SECRET}\n", BASIC), ("ApiKey abc:def==", "ApiKey abc:def==")]
)
@pytest.mark.parametrize("asked", [("--credentials-file", "auth"), ("--credentials-env", "ENGINE_AUTH")])
def test_credentials_come_from_the_environment_or_a_private_file(
    at: Path, engine: Engine, collected: Collect, *, text: str, header: str, asked: tuple[str, str]
) -> None:
    (at / "auth").write_text(text)
    (at / "auth").chmod(0o600)

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ENGINE_AUTH", text)
        collected(engine, *asked)

    assert [header] * 3 == [headers["authorization"] for headers in engine.headers]
    kept = (at / "responses.jsonl").read_text()
    assert not any(part in kept for part in (text.strip(), header, header.split()[1]))


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_file_that_others_can_read_is_refused(
    at: Path, engine: Engine, collected: Collect, mode: int
) -> None:
    (at / "auth").write_text(SECRET)
    (at / "auth").chmod(mode)

    _, err = collected(engine, "--credentials-file", "auth", code=2)

    assert f"only its owner can read (mode 0600), found mode {mode:04o}" in err
    assert [] == engine.asked


@pytest.mark.usefixtures("at")
def test_credentials_are_sent_to_no_other_server(engine: Engine, collected: Collect) -> None:
    with playing() as other:
        for host in ("127.0.0.1", "localhost"):
            engine.answers = [(307, {"location": other.url.replace("127.0.0.1", host)}, "")]

            _, err = collected(engine, "--credentials-env", "ENGINE_AUTH", code=1)

            port = other.url.split("/")[2].partition(":")[2]
            assert f"expected no redirect to another server, found one to http://{host}:{port}" in err
        engine.answers = [(308, {"location": engine.url.replace("http:", "https:")}, "")]
        assert "another server" in collected(engine, "--credentials-env", "ENGINE_AUTH", code=1)[1]
        engine.answers = [(307, {"location": engine.url.replace("//", "//u:p@")}, "")]
        assert "another server" in collected(engine, "--credentials-env", "ENGINE_AUTH", code=1)[1]

        assert [] == other.headers


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_on_the_same_server_is_followed_with_the_search(
    at: Path, engine: Engine, collected: Collect, status: int
) -> None:
    engine.answers = [(status, {"location": "/other/_search"}, "")]

    collected(engine, "--credentials-env", "ENGINE_AUTH")

    assert [QUERIES[0], *QUERIES] == searched(engine)
    assert [BASIC] * 4 == [headers["authorization"] for headers in engine.headers]
    assert 3 == len(stored(at))


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((303, {"location": "/login"}, ""), "found a redirect to /login"),
        ((307, {"location": "http://x:port/"}, ""), "Invalid URL in location header"),
        ((307, {"location": "/products/_search"}, ""), "at most 3 redirects, found more"),
    ],
)
def test_other_redirects_end_the_run(engine: Engine, collected: Collect, answer: Any, said: str) -> None:
    engine.answers = [answer] * 4

    _, err = collected(engine, "--retries", "1", code=1)

    assert said in err


@pytest.mark.parametrize("echoed", [SECRET, BASIC, BASIC.split()[1], SECRET.partition(":")[2]])
def test_credentials_that_an_engine_repeats_are_not_stored_or_shown(
    at: Path, engine: Engine, collected: Collect, echoed: str
) -> None:
    engine.answers = [(400, {}, f"you sent {echoed}"), (200, {}, FOUND | {"request": echoed})]

    _, err = collected(engine, "--credentials-env", "ENGINE_AUTH", code=1)

    assert "found one that repeats them" in err
    assert echoed not in (at / "responses.jsonl").read_text()


def test_proxies_and_netrc_of_the_environment_are_not_used(
    at: Path, engine: Engine, collected: Collect, monkeypatch: pytest.MonkeyPatch
) -> None:
    (at / "netrc").write_text("machine 127.0.0.1 login elastic password s3cret-pass\n")
    monkeypatch.setenv("NETRC", str(at / "netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")

    collected(engine)

    assert not any("authorization" in headers for headers in engine.headers)


# ------------------------------------------------------------------------------------------------------ manners


def test_searches_are_sent_at_a_bounded_rate(at: Path, engine: Engine, collected: Collect) -> None:
    (at / "queries.txt").write_text("\n".join(map(str, range(8))))
    begun = time.monotonic()

    collected(engine, "--rate", "40", "--concurrency", "4")

    assert time.monotonic() - begun >= 7 / 40


def test_so_many_searches_run_at_a_time(at: Path, engine: Engine, collected: Collect) -> None:
    (at / "queries.txt").write_text("\n".join(map(str, range(12))))
    engine.answers = ["wait"] * 3
    watching = threading.Thread(target=lambda: _release_at(engine, 3))
    watching.start()

    collected(engine, "--concurrency", "3")
    watching.join()

    assert 3 == engine.most
    assert 12 == len(stored(at))


def _release_at(engine: Engine, running: int) -> None:
    """Let the waiting requests go when so many are there."""
    until = time.monotonic() + 60
    while engine.running < running and time.monotonic() < until:
        time.sleep(0.005)
    engine.released.set()


def test_one_command_at_a_time_writes_a_file(at: Path, engine: Engine, collected: Collect) -> None:
    descriptor = hold(at / "responses.jsonl")

    _, err = collected(engine, code=1)
    os.close(descriptor)

    assert "expected a file that no other command writes, found one that does" in err
    assert [] == engine.asked


def test_responses_to_another_search_are_kept_apart(at: Path, engine: Engine, collected: Collect) -> None:
    collected(engine)
    (at / "search.json").write_text('{"query": {"match": {"title": "{{query}}"}}}')

    _, err = collected(engine, code=1)
    anew, _ = collected(engine, "--overwrite")

    assert "responses.jsonl:1: expected responses to this template and URL" in err
    assert (3, 0, 3) == (anew["stored"], anew["before"], len(stored(at)))


def test_what_is_not_a_response_is_not_overwritten(at: Path, engine: Engine, collected: Collect) -> None:
    (at / "responses.jsonl").write_text('{"query": "a", "response": {}}\n{"a": 1}\n')

    _, err = collected(engine, code=1)

    assert "responses.jsonl:2: expected a response that was collected" in err
    assert '{"query": "a", "response": {}}\n{"a": 1}\n' == (at / "responses.jsonl").read_text()


@pytest.mark.parametrize(
    "content", ['{"my":"only copy"}', "query,docid\na,b", '{"query": "a", "response', '{"query": "a"}']
)
def test_a_file_of_something_else_is_kept(at: Path, engine: Engine, collected: Collect, content: str) -> None:
    (at / "responses.jsonl").write_text(content)

    _, err = collected(engine, code=1)

    assert "responses.jsonl:1: expected " in err
    assert content == (at / "responses.jsonl").read_text()
    assert [] == engine.asked


def test_a_last_line_without_its_end_is_kept(at: Path, engine: Engine, collected: Collect) -> None:
    collected(engine)
    whole = (at / "responses.jsonl").read_bytes()
    (at / "responses.jsonl").write_bytes(whole[:-1])

    again, _ = collected(engine)

    assert (0, 3) == (again["stored"], again["before"])
    assert whole == (at / "responses.jsonl").read_bytes()


def test_responses_are_replaced_when_the_engine_has_answered(
    at: Path, engine: Engine, collected: Collect
) -> None:
    collected(engine)
    whole = (at / "responses.jsonl").read_bytes()

    collected("http://127.0.0.1:9/_search", "--retries", "0", "--overwrite", code=1)
    kept = (at / "responses.jsonl").read_bytes()
    engine.answers = [(400, {}, "no"), (200, {}, {"hits": {"hits": []}})]
    collected(engine, "--overwrite", code=1)

    assert whole == kept
    assert [{"hits": {"hits": []}}, FOUND] == [line["response"] for line in stored(at)]


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"--engine": "http://127.0.0.1:abc/"}, 2, "--engine: expected the URL of a search"),
        ({"--engine": "http://127.0.0.1:99999/"}, 2, "--engine: expected the URL of a search"),
        ({"--engine": "http://xn--/"}, 2, "--engine: expected the URL of a search"),
        ({"--engine": "http://[::1/"}, 2, "--engine: expected the URL of a search"),
        ({"--engine": "localhost:9200"}, 2, "--engine: expected the URL of a search"),
        ({"--engine": "http://u:p@localhost/_search"}, 2, "expected a URL without user and password"),
        ({"--credentials-env": "NOT_SET"}, 2, "environment variable NOT_SET: expected user:password"),
        ({"--credentials-env": "ONE_WORD"}, 2, "found one word"),
        ({"--credentials-env": "TWO_LINES"}, 2, "found other characters"),
        ({"--credentials-env": "ENGINE_AUTH", "--credentials-file": "queries.txt"}, 2, "found both"),
        ({"--credentials-file": "none"}, 2, "none: cannot be read: No such file"),
        ({"--ca-file": "queries.txt"}, 2, "queries.txt: expected certificates"),
        ({"--template": "queries.txt"}, 1, "queries.txt: expected JSON"),
        (
            {"--template": "plain.json"},
            1,
            "plain.json: expected {{query}} in a text of the search, found none",
        ),
        ({"--template": "other.json"}, 1, "expected placeholders of the columns 'query', found {{shop}}"),
        (
            {"--template": "name.json"},
            1,
            "expected placeholders in texts only, found {{query}} in the name of",
        ),
        ({"--template": "none"}, 1, "none: cannot be read"),
        ({"--queries": "empty"}, 1, "empty: expected queries, found none"),
        ({"--queries": "none"}, 1, "none: no such file or folder"),
        ({"--engine": "ftp://localhost/"}, 2, "--engine: expected the URL of a search"),
        ({"--rate": "0"}, 2, "--rate: "),
        ({"--out": "no/folder"}, 1, "no/folder: cannot be written"),
    ],
)
def test_wrong_use_is_one_sentence_before_anything_is_sent(
    at: Path,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    change: dict[str, str],
    code: int,
    said: str,
) -> None:
    monkeypatch.setenv("ONE_WORD", "word")
    monkeypatch.setenv("TWO_LINES", "a: b\nc: d")
    (at / "plain.json").write_text('{"query": "query"}')
    (at / "name.json").write_text('{"{{query}}": "{{query}}"}')
    (at / "other.json").write_text('{"query": "{{shop}}"}')
    (at / "empty").write_text("\n")

    found = main(arguments(engine, *(word for pair in change.items() for word in pair)))

    err = capsys.readouterr().err
    assert (code, 1) == (found, err.count("\n")), err
    assert said in err
    assert [] == engine.asked


@pytest.mark.parametrize(("ending", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped_goes_on(
    at: Path, engine: Engine, collected: Collect, ending: signal.Signals, code: int
) -> None:
    engine.answers = [(200, {}, FOUND), "wait"]
    command = [sys.executable, "-m", "localrank", *arguments(engine, "--credentials-env", "ENGINE_AUTH")]
    with subprocess.Popen(command, cwd=at, stderr=subprocess.PIPE, text=True) as running:
        assert engine.arrived.wait(60)
        running.send_signal(ending)
        err = running.communicate(timeout=60)[1]
    kept = stored(at)
    engine.released.set()

    again, _ = collected(engine)

    assert code == running.returncode, err
    assert (
        "stopped: responses.jsonl holds the responses so far, and the same command goes on"
        == err.splitlines()[0]
    )
    assert [QUERIES[0]] == [line["query"] for line in kept]
    assert (2, 1) == (again["stored"], again["before"])
