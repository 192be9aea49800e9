"""The blocks of the pages that no other test runs, typed from top to bottom as a reader does; `tests.pages` says what is left out.

A reader's files are made here and are small. `localrank train` without a learner would take minutes, so it learns one linear
model.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import threading
import tomllib
from contextlib import contextmanager, redirect_stdout
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import lightgbm
import numpy as np
import pandas as pd
import pytest

import localrank
from localrank import artifact
from localrank.__main__ import main
from localrank.artifact import Provenance
from localrank.client import Client
from localrank.registry.versions import Registry
from tests.end_to_end.serving import serving
from tests.pages import ROOT, Block, blocks, commands, reason
from tests.training.data.clicks.log import Log
from tests.training.origins.test_origins import LAMBDAMART

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow


PRINTED = "http://127.0.0.1:8080"
DEMO = ROOT / "models" / "demo" / "1"
ADMIN = "the-admin-key"
QUICK = ("--learner", "ranksvm")


class Page:
    """The blocks of a page, each of which is to be taken once."""

    def __init__(self, name: str) -> None:
        self.left = [block for block in blocks(name) if block.kind not in {"", "text", "jsonc", "http"}]

    def take(self, kind: str, begins: str = "") -> Block:
        """Take the first block of this language that has a line that begins like this."""
        found = next(
            block
            for block in self.left
            if block.kind == kind and re.search(f"^(?:\\$ )?{re.escape(begins)}", block.text, re.MULTILINE)
        )
        self.left.remove(found)
        return found

    def runnable(self) -> list[Block]:
        """What is left that should have been run."""
        return [
            block
            for block in self.left
            if (block.kind == "python" and reason(block.text) is None)
            or (block.kind in {"sh", "console", "bash"} and not all(map(reason, commands(block))))
        ]


def typed(block: Block, url: str | None = None, quick: tuple[str, ...] = QUICK) -> list[str]:
    """Run the commands of a block in the present folder, but those that `tests.pages` leaves out; return what each printed."""
    return [answered(one, url, quick) for one in commands(block) if reason(one) is None]


def answered(command: str, url: str | None, quick: tuple[str, ...]) -> str:
    words = shlex.split(command, comments=True)
    if words[0].rpartition("/")[2] != "localrank":
        return shell(command if url is None else command.replace(PRINTED, url))
    arguments = words[1:]
    assert "serve" != arguments[0], "a server is started by `served`"
    if arguments[0] == "train" and not {"--learner", "--warm", "--like", "--config"} & set(arguments):
        arguments += quick
    printed = io.StringIO()
    with redirect_stdout(printed):
        code = main(arguments)
    assert 0 == code, f"{command}\n{printed.getvalue()}"
    return printed.getvalue()


def shell(command: str) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        env=os.environ | {"LOCALRANK_ADMIN_KEY": ADMIN},
        check=False,
        capture_output=True,
        text=True,
    )
    assert 0 == done.returncode, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def synthetic(path: str, *more: str, queries: int = 24, features: int = 5) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    shape = ("--queries", str(queries), "--documents", "8", "--features", str(features))
    with redirect_stdout(io.StringIO()):
        assert 0 == main(["data", "synthesize", *shape, "--kinds", "2", "--out", path, *more])


def published(name: str, versions: int = 1) -> Registry:
    """Publish the demo model under another name in the folder ``models``."""
    demo = artifact.load(DEMO)
    registry = Registry(Path("models"))
    for _ in range(versions):
        provenance = Provenance("2026-01-01T00:00:00Z", source={}, probe=demo.probe.documents)
        registry.publish(name, demo.ranker, provenance)
    registry.promote(name, 1)
    return registry


def logged(folder: str, queries: int = 30, features: int = 5, **more: Any) -> None:
    """Write what a service logs while users look at the top first and click documents with a large first feature."""
    Path(folder).mkdir()
    log, random = Log(Path(folder), [f"f{one}" for one in range(1, features + 1)]), np.random.default_rng(0)
    for query in range(queries):
        documents = random.standard_normal((6, features)).astype("<f4")
        for visit in range(8):
            order = random.permutation(6).tolist()
            request = f"r{query}-{visit}"
            log.show(request, order, query_id=f"q{query}", features=documents, **more)
            for place, position in enumerate(order):
                if random.random() < (0.9 if documents[position, 0] > 0 else 0.1) / (1 + place):
                    log.say(request, index=position, click=True)


def clicked(file: str, lists: int = 20_000) -> None:
    """Write a log of clicks: five of a query's eight products in random order, looked at ever less often down the list."""
    random = np.random.default_rng(0)
    quality = random.random((20, 8))
    query = random.integers(0, 20, lists)
    shown = random.random((lists, 8)).argsort(axis=1)[:, :5]
    seen = random.random((lists, 5)) < 0.7 ** np.arange(5)
    liked = random.random((lists, 5)) < quality[query[:, None], shown]
    pd.DataFrame(
        {
            "query": np.repeat([f"q{one}" for one in query], 5),
            "product": shown.ravel(),
            "position": np.tile(np.arange(1, 6), lists),
            "click": (seen & liked).ravel(),
            "bm25": quality[query[:, None], shown].ravel(),
        }
    ).to_parquet(file)


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own, in which one is."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_data_page(at: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = Page("docs/use/data.md")
    frame = pd.DataFrame({"label": [1, 0], "qid": ["q", "q"], "bm25": [2.5, 1.5]})
    names: dict[str, Any] = {"frame": frame}
    logged("impressions")

    exec(page.take("python", "from localrank_training.data.reading").text, names)
    exported = typed(page.take("sh", "localrank data export"))
    for example in ("judgements.csv", "responses.jsonl"):
        shutil.copy(ROOT / "docs" / "examples" / example, at)
    lines = Path("responses.jsonl").read_text().splitlines(keepends=True)
    Path("responses.jsonl").write_text("".join(lines[:-1]))
    with Path("judgements.csv").open("a") as file:
        file.write("cheap red shoes,d99,3\n")
    joining = page.take("console", "localrank data join")
    joined = typed(joining)

    assert joining.text.splitlines()[1:] == joined[0].splitlines()
    for written in ("judgements.csv", "responses.jsonl", "engine.run", "judged.parquet"):
        Path(written).unlink()
    clicked("log.parquet")
    judged = typed(page.take("sh", "localrank data clicks"))

    assert ("bm25",) == names["queries"].feature_names
    made = {"clicks.parquet", "places.json", "impressions", "models", "log.parquet", "judged.parquet"}
    assert made == {path.name for path in at.iterdir()}
    said = "".join(exported + judged) + capsys.readouterr().err
    assert "published web version 1" in said
    assert "published web version 2" in said
    assert not page.runnable()


def test_the_page_of_a_shop(at: Path) -> None:
    page = Page("docs/use/shop.md")
    names: dict[str, Any] = {}

    exec(page.take("python", "import csv").text, names)
    [inspected] = typed(page.take("console", "localrank data inspect"))
    [trained] = typed(page.take("console", "localrank train shop.csv"))
    [again] = typed(page.take("console", "localrank train october.csv"))
    serve = page.take("console", "localrank serve")
    with serving(Path("models"), *shlex.split(serve.text)[3:], log=at / "server.log") as client:
        url = str(client.base_url).rstrip("/")
        answer = json.loads(typed(page.take("sh", "curl"), url)[0])
        exec(page.take("python", "import io").text.replace(PRINTED, url), names)
        gap = client.post(
            "/v1/rerank", json={"model": "shop", "documents": [{"features": {"brand": "sony"}}]}
        )
        refused = client.post(
            "/v1/rerank",
            json={"model": "shop", "query_features": {"segment": "tv"}, "features": [["", 1, 1, 1, "true"]]},
        )
    exec(page.take("python", "with open").text, names)
    clicks = typed(page.take("console", "localrank data clicks"))

    shown = json.loads(page.take("json").text)
    assert "2 of 6 features with missing values: brand, price" in inspected
    assert all("verdict: your present order (position) ndcg@10" in said for said in (trained, again))
    assert (at / "shop.html").exists()
    assert [{**one, "score": 0} for one in shown["results"]] == [
        {**one, "score": 0} for one in answer["results"]
    ]
    assert (shown["route"], shown["warnings"]) == (answer["route"], answer["warnings"])
    assert 2 == len(names["answer"].json()["results"])
    assert 422 == gap.status_code
    assert "unknown_kind" == refused.json()["route"]["fallback"]
    assert "published clicks version 1" in clicks[-1]
    assert not page.runnable()


def test_the_page_about_tables(at: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = Page("docs/use/tables.md")
    names: dict[str, Any] = {}

    exec(page.take("python", "import csv").text, names)
    published = typed(page.take("sh", "localrank tables publish"))
    trained = typed(page.take("sh", "localrank train judged.csv"))
    with serving(Path("models"), "--poll-seconds", "0.05", log=at / "server.log") as client:
        url = str(client.base_url).rstrip("/")
        answer = json.loads(typed(page.take("sh", "curl"), url)[0])
        exec(page.take("python", "from localrank.client").text.replace(PRINTED, url), names)
        renewed = typed(page.take("sh", "localrank tables publish"))
    exec(page.take("python", "import localrank").text, names)

    assert "200 items, 2 columns" in published[0]
    assert "published shop version 1" in trained[0]
    assert "the model learns what it will not know" in capsys.readouterr().err
    assert {"items": 1} == answer["tables"]
    assert {"code": "id_unknown", "feature": "items", "count": 1} in answer["warnings"]
    assert 720 == len((at / "scores.txt").read_text().splitlines())
    scores = {one["id"]: one["score"] for one in answer["results"]}
    assert names["ranker"].rank(names["found"].documents).scores[0] == scores["s001"]
    assert "published items generation 2" in renewed[0]
    assert not page.runnable()


def test_the_page_about_growing(at: Path) -> None:
    page = Page("docs/use/growing.md")
    synthetic("data/train.txt")
    synthetic("data/october.txt", "--sample", "1", queries=6)
    first = "localrank train data/train.txt --name web --promote --set clustering.clusters=2"
    answered(f"{first} --method localrank", None, QUICK)

    typed(page.take("sh", "localrank extend"))
    promoted = Registry(at / "models").resolve("web").version
    typed(page.take("sh", "localrank train"))

    assert (2, 3) == (promoted, Registry(at / "models").versions("web")[-1])

    typed(page.take("sh", "localrank data convert data/"))

    assert 4 == Registry(at / "models").versions("web")[-1]
    assert not page.runnable()


def test_the_page_about_what_a_service_does_online(at: Path) -> None:
    page = Page("docs/use/online.md")
    synthetic("data/train.txt")
    [_, shown] = typed(page.take("sh", "localrank train data/train.txt"))
    shutil.rmtree("models")
    published("web", 5)
    shutil.copytree(ROOT / "models" / "demo", "models/demo")
    Path("experiments.json").write_text(page.take("json").text)
    serve = shlex.split(page.take("sh", "localrank serve").text)
    assert ["localrank", "serve", "--models-dir", "models"] == serve[:4]
    flags = ("--model", "demo", "--admin-key", ADMIN, "--experiments-file", "experiments.json")

    with serving(Path("models"), *serve[4:], *flags, log=at / "server.log") as client:
        url = str(client.base_url).rstrip("/")
        from_file = client.get("/v1/experiments").json()
        [degraded] = typed(page.take("sh", "curl -s http://127.0.0.1:8080/v1/rerank"), url)
        [begun] = typed(page.take("sh", "curl -s -X PUT"), url)
        share = client.get("/v1/stats").json()["impressions"]["share"]

    assert "web@1" in shown
    assert (None, ["web-4", "web-5-beside"]) == (
        from_file["problem"],
        [one["name"] for one in from_file["experiments"]],
    )
    assert {"rung": "feature_order", "reason": "timeout"} == json.loads(degraded)["degraded"]
    assert "detail" not in json.loads(begun)
    assert 0.1 == share
    shutil.rmtree("impressions", ignore_errors=True)
    shutil.rmtree("models")
    _the_loop(page)
    assert not page.runnable()


def _the_loop(page: Page) -> None:
    synthetic("judged.txt", "--seed", "1", queries=10)
    part = {"name": "web-mixed", "arm": "interleaved", "unit": "u", "share": 0.5, "ranks": None}
    teams = ["baseline", "candidate"] * 3
    logged("impressions", experiment=part | {"teams": teams})
    answered("localrank train judged.txt --name web", None, QUICK)

    [reported] = typed(page.take("sh", "localrank experiments report"))
    evaluated = typed(page.take("sh", "localrank data export"))[-1]
    typed(page.take("sh", "localrank models promote"))

    assert reported.startswith("web-mixed (interleaving): 240 impressions; impressions: interleaved 240\n")
    assert "ndcg@10" in evaluated
    assert 2 == Registry(Path("models")).resolve("web").version


@pytest.mark.usefixtures("at")
def test_the_page_about_models_from_elsewhere() -> None:
    page = Page("docs/use/models-from-elsewhere.md")
    random = np.random.default_rng(0)
    documents = random.standard_normal((200, 3)).astype(np.float32)
    learned = lightgbm.Dataset(
        documents, documents[:, 0] > 0, group=[20] * 10, params={"verbosity": -1, "num_threads": 1}
    )
    lightgbm.train({"objective": "lambdarank", "verbosity": -1, "num_threads": 1}, learned, 5).save_model(
        "model.txt"
    )
    Path("lambdamart.txt").write_text(LAMBDAMART)
    rows = documents[:20]
    Path("test.txt").write_text(
        "".join(f"0 qid:1 1:{a!r} 2:{b!r} 3:{c!r}\n" for a, b, c in rows.tolist()),
    )
    # What RankLib answers, evaluated from the text of its model: two trees of weight 0.1.
    scores = (
        0.1 * np.where(rows[:, 2] <= 0.5, -1.25, np.where(rows[:, 0] <= np.float32(-2.1), 0.3, 2.0)) + 0.07
    )
    Path("scores.txt").write_text("".join(f"1\t{n}\t{score!r}\n" for n, score in enumerate(scores.tolist())))
    shown = page.take("console", "localrank models import model.txt")

    [imported] = typed(shown)
    typed(page.take("console", "localrank models export"))
    body = json.loads(Path("web.json").read_text())
    typed(page.take("console", "java -jar RankLib.jar"))

    expected = [line for line in shown.text.splitlines() if not line.startswith("$ ")]
    assert [without_numbers(line) for line in expected] == [
        without_numbers(line) for line in imported.splitlines()
    ]
    assert "org.apache.solr.ltr.model.MultipleAdditiveTreesModel" == body["class"]
    np.testing.assert_allclose(scores, localrank.load("models/web/2").rank(rows).scores, rtol=1e-6)
    assert not page.runnable()


def without_numbers(line: str) -> str:
    return re.sub(r"\d+", "N", line)


@contextmanager
def engine(answer: bytes) -> Iterator[tuple[str, list[Any]]]:
    """Play a search engine that finds the same for every search; yield its URL and the searches."""
    searches: list[Any] = []

    class Engine(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            searches.append((self.path, json.loads(self.rfile.read(int(self.headers["content-length"])))))
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Engine) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", searches
        server.shutdown()
        thread.join()


def test_the_page_about_search_engines(at: Path) -> None:
    page = Page("docs/use/search-engines.md")
    lines = (ROOT / "docs" / "examples" / "responses.jsonl").read_text().splitlines()
    # Whatever is learned: a model of what this engine logs, by the names of the page.
    names = ("engine", "title_bm25", "body_bm25", "rating", "stats.clicks", "age")
    rows = [
        [
            dict(
                zip(names, [one.get("value") for one in hit["fields"]["_ltrlog"][0]["features"]], strict=True)
            )
            for hit in json.loads(line)["response"]["hits"]["hits"]
        ]
        for line in lines
    ]
    pd.DataFrame(
        {"label": rank % 3, "qid": f"q{number}"} | row
        for number, some in enumerate(rows)
        for rank, row in enumerate(some)
    ).to_csv("judged.csv", index=False)
    answered("localrank train judged.csv --name web --promote --set contract.missing=zero", None, QUICK)
    plain = [
        {
            "_id": f"d{at}",
            "_score": row["engine"],
            "matched_queries": {name: row[name] for name in ("title_bm25", "body_bm25")[: 1 + at % 2]},
            "fields": {"rating": [row["rating"]]},
            "_source": {"stats": {"clicks": row["stats.clicks"]}},
        }
        for at, row in enumerate(rows[0])
    ]
    log = [[{"name": name, "value": value} for name, value in row.items()] for row in rows[0]]
    logged = [{"_id": f"d{at}", "fields": {"_ltrlog": [{"features": one}]}} for at, one in enumerate(log)]

    with serving(Path("models"), log=at / "server.log") as client:
        service = str(client.base_url).rstrip("/")
        for begins, hits, asked in (
            ('{"size"', plain, "?include_named_queries_score=true"),
            ('{"query"', logged, ""),
        ):
            known: dict[str, Any] = {"httpx": httpx, "search": json.loads(page.take("json", begins).text)}
            program = page.take("python").text.replace("http://localhost:8080", service)
            with engine(json.dumps({"hits": {"hits": hits}}).encode()) as (url, searches):
                exec(program.replace("http://localhost:9200", url), known)
            assert "hits" in known["page"], known["page"]
            found = known["page"]["hits"]["hits"]
            assert [("/products/_search" + asked, known["search"])] == searches
            assert 10 == len(found)
            assert {hit["_id"] for hit in hits} >= {hit["_id"] for hit in found}
            assert sorted((hit["_score"] for hit in found), reverse=True) == [hit["_score"] for hit in found]

    shutil.copy(ROOT / "docs" / "examples" / "judgements.csv", at)
    Path("search.json").write_text(page.take("json", '{"size"').text)
    collecting = page.take("console", "localrank data collect")
    command, joining = commands(collecting)
    with engine(json.dumps({"hits": {"hits": plain}}).encode()) as (url, searches):
        said = answered(command.replace("http://localhost:9200", url), None, QUICK)
    answered(joining, None, QUICK)

    assert f"{said.strip()}\n" in collecting.text
    assert 40 == len({search["query"]["bool"]["must"]["multi_match"]["query"] for _, search in searches})
    assert not page.runnable()


CONFIGURATIONS = [block for block in blocks("docs/use/configuration.md") if block.kind == "toml"]


def test_the_example_of_a_configuration_trains(at: Path) -> None:
    random = np.random.default_rng(0)
    for name in ("train", "valid"):
        values = random.standard_normal((60, 2))
        frame = pd.DataFrame(values, columns=["bm25", "age"])
        frame.loc[3, "bm25"] = None
        frame.insert(0, "qid", [f"q{row // 6}" for row in range(60)])
        frame.insert(0, "label", (values[:, 0] > 0).astype(int))
        frame.to_csv(f"{name}.csv", index=False)
    Path("mine.toml").write_text(CONFIGURATIONS[0].text)

    with redirect_stdout(io.StringIO()):
        code = main(
            ["train", "train.csv", "--validation", "valid.csv", "--config", "mine.toml", "--name", "web"]
        )

    contract = localrank.load(at / "models" / "web" / "1").contract
    assert (0, ("median", "zero")) == (code, contract.missing)


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize("block", CONFIGURATIONS[1:], ids=lambda block: str(block.line))
def test_a_ready_configuration_is_what_its_method_sets(block: Block) -> None:
    above = (ROOT / block.page).read_text().splitlines()[: block.line - 1]
    method = re.findall(r"^### `--method (\w+)`$", "\n".join(above), re.MULTILINE)[-1]
    Path("printed.toml").write_text(block.text)
    synthetic("data.txt", queries=2)

    by_name, by_file = (
        answered(f"localrank train data.txt {how} --print-config", None, ())
        for how in (f"--method {method}", "--config printed.toml")
    )

    assert tomllib.loads(by_name) == tomllib.loads(by_file)


def test_the_readme_s_own_queries(at: Path) -> None:
    page = Page("README.md")
    (at / "docs").mkdir()
    shutil.copytree(ROOT / "docs" / "examples", at / "docs" / "examples")
    block = page.take("console", ".venv/bin/pip install -e")
    *others, serve = commands(block)
    assert ".venv/bin/localrank serve" == serve

    printed = typed(block._replace(text="\n".join(f"$ {one}" for one in others)))

    assert "ndcg@10" in printed[-1]
    with serving(Path("models"), log=at / "server.log") as client, Client(str(client.base_url)) as asking:
        assert ["web"] == [one.name for one in asking.models()]


def test_the_notebook_lines_of_the_training_package(at: Path) -> None:
    page = Page("training/README.md")
    random = np.random.default_rng(0)
    first, second = random.standard_normal((2, 120, 3))
    names: dict[str, Any] = {"X": first, "X_test": second, "qid": np.repeat(np.arange(12), 10)}
    names |= {"y": (first[:, 0] > 0).astype(int), "y_test": (second[:, 0] > 0).astype(int)}

    exec(page.take("python").text, names | {"qid_test": names["qid"]})

    assert 1 == Registry(at / "models").resolve("web").version
    assert not page.runnable()


def test_models_are_signed_as_the_operations_page_says(at: Path) -> None:
    page = Page("docs/operate/operations.md")
    shutil.copytree(ROOT / "models" / "demo", "models/demo")
    block = page.take("sh", "openssl genpkey")
    *others, serve = commands(block)
    words = shlex.split(serve)
    assert ["localrank", "serve", "--models-dir", "models"] == [*words[:2], *words[-2:]]

    typed(block._replace(text="\n".join(others)))

    with serving(Path("models"), *words[2:-2], log=at / "server.log") as client:
        assert 200 == client.post("/v1/rerank", json={"documents": []}).status_code
