"""``localrank serve --models-url``: real processes behind a real web server."""

from __future__ import annotations

import functools
import http.server
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from localrank import artifact
from localrank.artifact import Provenance
from localrank.registry.remote import RemoteStore, push
from localrank.registry.versions import Registry
from tests.end_to_end.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

DEMO = Path(__file__).parents[2] / "models" / "demo" / "1"


class Handler(http.server.SimpleHTTPRequestHandler):
    asked: list[str]
    #: Cleared, the server takes requests and answers none.
    answering = threading.Event()

    def do_GET(self) -> None:
        self.answering.wait()
        super().do_GET()

    def log_message(self, *_: object) -> None:
        self.asked.append(self.path)


@pytest.fixture
def origin(tmp_path: Path) -> Registry:
    registry = Registry(tmp_path / "origin")
    demo = artifact.load(DEMO)
    for _ in range(2):
        registry.publish("demo", demo.ranker, Provenance("", source={}, probe=demo.probe.documents))
    registry.promote("demo", 1)
    return registry


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """A web server of an empty folder ``there``; what it was asked for."""
    (tmp_path / "there").mkdir()
    asked: list[str] = []
    kind = type("Asked", (Handler,), {"asked": asked})
    handler: Any = functools.partial(kind, directory=str(tmp_path / "there"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        Handler.answering.set()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        Handler.answering.set()
        server.shutdown()
        thread.join()


def until_it_serves(client: httpx.Client, version: int) -> None:
    deadline = time.monotonic() + 60
    while client.get("/readyz").json()["models"] != {"demo": version}:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_services_that_share_a_folder_follow_one_url_and_fetch_each_version_once(
    origin: Registry, web: tuple[str, list[str]], tmp_path: Path
) -> None:
    url, asked = web
    store = RemoteStore(f"file://{tmp_path / 'there'}")
    push(store, origin, "demo")
    flags = ("--models-url", url, "--models-url-seconds", "0.2", "--workers", "2")
    here = tmp_path / "here"

    with (
        serving(here, *flags, log=tmp_path / "one.log") as one,
        serving(here, *flags, log=tmp_path / "two.log") as two,
    ):
        origin.promote("demo", 2)
        push(store, origin, "demo")
        for client in (one, two):
            until_it_serves(client, 2)
        # The URL is away: both serve on.
        (tmp_path / "there").rename(tmp_path / "gone")
        deadline = time.monotonic() + 60
        while one.get("/readyz").json()["remote"]["error"] is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        answers = [client.get("/readyz") for client in (one, two)]

    arrays = [path for path in asked if path.endswith(".npy")]
    assert arrays
    assert sorted(set(arrays)) == sorted(arrays)
    assert [200, 200] == [answer.status_code for answer in answers]
    # An instance starts with a URL that does not answer as well, from what it fetched before.
    Handler.answering.clear()
    with serving(here, *flags, log=tmp_path / "three.log") as three:
        assert {"demo": 2} == three.get("/readyz").json()["models"]
    assert f"serving the models in {here}" in (tmp_path / "three.log").read_text()


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("file:///nowhere/at/all", 1, "file:///nowhere/at/all: expected a folder of models: there is none"),
        ("nothing://bucket/models", 2, "expected a URL that fsspec can read"),
        ("models", 2, "--models-url: expected a URL such as"),
    ],
)
def test_a_service_that_can_have_no_model_does_not_start(
    url: str, code: int, said: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "localrank", "serve", "--port", "0", "--models-url", url]

    ended = subprocess.run(
        [*command, "--models-dir", str(tmp_path / "here")], check=False, capture_output=True, text=True
    )

    assert (code, 1) == (ended.returncode, ended.stderr.count("\n")), ended.stderr
    assert said in ended.stderr


def test_a_folder_of_other_models_is_not_taken_for_a_copy(origin: Registry, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "localrank",
        "serve",
        "--port",
        "0",
        "--models-url",
        f"file://{tmp_path}",
    ]

    ended = subprocess.run(
        [*command, "--models-dir", str(origin.models_dir)], check=False, capture_output=True, text=True
    )

    assert 2 == ended.returncode
    assert "found the models demo; choose another folder" in ended.stderr


def test_serving_without_a_url_does_not_import_what_reads_one() -> None:
    probe = "import sys, localrank_service.app; sys.exit(bool({'fsspec', 'aiohttp'} & set(sys.modules)))"

    assert 0 == subprocess.run([sys.executable, "-c", probe], check=False).returncode
