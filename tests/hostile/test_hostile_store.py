"""A folder of models at a URL that somebody else has: nothing is read without end, waited for without end, or followed elsewhere."""

from __future__ import annotations

import gzip
import http.server
import json
import resource
import shutil
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from localrank.disk import replace_file
from localrank.errors import StoreUnavailable
from localrank.registry.mirror import Mirror
from localrank.registry.remote import RemoteStore, push
from localrank.registry.versions import Registry
from tests.core.examples import example_ranker, provenance
from tests.hostile.folders import edit, listening_socket, pipe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Server(http.server.ThreadingHTTPServer):
    """A web server of a folder, with tricks by path.

    Attributes:
        asked: every path that was asked for.
        tricks: by path.
        over: set when the test is over, so that nothing waits any longer.
    """

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        self.tricks: dict[str, Any] = {}
        self.over = threading.Event()
        owner = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments, directory=str(folder))

            def do_GET(self) -> None:
                owner.asked.append(self.path)
                with suppress(ConnectionError):
                    owner.tricks.get(self.path, lambda handler: super(Handler, handler).do_GET())(self)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def sending_without_end(self, content: bytes) -> Any:
        def trick(handler: http.server.SimpleHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.end_headers()
            while not self.over.is_set():
                handler.wfile.write(content)

        return trick

    def stopping_after(self, content: bytes) -> Any:
        def trick(handler: http.server.SimpleHTTPRequestHandler) -> None:
            handler.wfile.write(content)
            self.over.wait()

        return trick

    def dripping(self, handler: http.server.SimpleHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not self.over.wait(0.02):
            handler.wfile.write(b"x")


def sending(content: bytes, **headers: str) -> Any:
    def trick(handler: http.server.SimpleHTTPRequestHandler) -> None:
        handler.send_response(200)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(content)

    return trick


def redirecting(where: str) -> Any:
    def trick(handler: http.server.SimpleHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", where)
        handler.end_headers()

    return trick


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models ``shop`` and ``web``, each with a champion."""
    registry = Registry(tmp_path_factory.mktemp("published"))
    for name in ("shop", "web"):
        ranker = example_ranker()
        registry.publish(name, ranker, provenance(ranker))
        registry.promote(name, 1)
    return registry.models_dir


@pytest.fixture
def there(published: Path, tmp_path: Path) -> Path:
    return shutil.copytree(published, tmp_path / "there")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path / "here"


@pytest.fixture
def server(there: Path) -> Iterator[Server]:
    with Server(there) as one:
        thread = threading.Thread(target=one.serve_forever, args=(0.01,))
        thread.start()
        yield one
        one.over.set()
        one.shutdown()
        thread.join()


def peak() -> int:
    """Return the largest memory that this process ever had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/web/aliases.json", "web/aliases.json: expected at most 16777216 bytes, found more"),
        ("/web/1/manifest.json", "web/1/manifest.json: expected at most 67108864 bytes, found more"),
        ("/web/1.signatures.json", "web/1.signatures.json: expected at most 65536 bytes, found more"),
        ("/web/1/probe.scores.npy", "web/1/probe.scores.npy: expected at most "),
    ],
)
def test_a_file_without_end_is_cut_short_and_breaks_one_model(
    server: Server, here: Path, path: str, said: str
) -> None:
    server.tricks[path] = server.sending_without_end(b"[" * 2**20)
    before = peak()

    pulled = Mirror(RemoteStore(server.url), here).pull()

    assert said in pulled.broken["web"]
    assert ["web"] == list(pulled.broken)
    assert {"champion": 1} == Registry(here).aliases("shop")
    assert ["shop"] == Registry(here).models()
    assert peak() - before < 256


def test_a_page_without_end_is_refused(server: Server, here: Path) -> None:
    server.tricks["/"] = server.sending_without_end(b'<a href="web/">web</a> <a ' * 2**12)

    with pytest.raises(StoreUnavailable, match="the list of models: expected at most 4194304 bytes"):
        Mirror(RemoteStore(server.url), here).pull()


def test_a_page_of_too_many_models_is_refused(server: Server, here: Path) -> None:
    server.tricks["/"] = sending(b"".join(b'<a href="m%d/">' % number for number in range(10_001)))

    with pytest.raises(StoreUnavailable, match="expected at most 10000 models, found 10001"):
        Mirror(RemoteStore(server.url), here).pull()


def test_only_folders_below_the_url_are_models(server: Server) -> None:
    links = (
        "web/",
        "./shop/",
        "/up/",
        f"{server.url}/whole/",
        "http://[/",
        "../x/",
        "http://else/y/",
        "f",
        "a/b/",
    )
    server.tricks["/models/"] = sending("".join(f"<a HREF={link!r}>" for link in links).encode())

    assert ["shop", "web"] == RemoteStore(f"{server.url}/models").models()


@pytest.mark.parametrize(
    "path", ["/", "/web/aliases.json", "/web/1/manifest.json", "/web/1/probe.scores.npy"]
)
@pytest.mark.parametrize(
    "sent",
    [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1", "drip"],
    ids=["nothing", "half a header", "half a body", "drops"],
)
def test_a_server_that_hangs_is_given_up(server: Server, here: Path, path: str, sent: bytes | str) -> None:
    server.tricks[path] = server.dripping if isinstance(sent, str) else server.stopping_after(sent)

    try:
        pulled = Mirror(RemoteStore(server.url, patience=0.2), here).pull()
    except StoreUnavailable as error:
        said = str(error)
    else:
        said = pulled.broken["web"]

    assert " within 0." in said
    assert "seconds" in said
    assert (path == "/") == (not here.joinpath("shop").is_dir())


def test_an_expansion_is_not_expanded(server: Server, here: Path) -> None:
    bomb = gzip.compress(b" " * 2**26)
    server.tricks["/web/aliases.json"] = sending(bomb, Content_Encoding="gzip", Content_Length=str(len(bomb)))

    pulled = Mirror(RemoteStore(server.url), here).pull()

    assert "web/aliases.json: expected UTF-8, found the byte 0x8b" in pulled.broken["web"]


@pytest.mark.parametrize("path", ["/", "/web/aliases.json", "/web/1/probe.scores.npy"])
def test_a_redirect_to_another_server_is_not_followed(
    server: Server, here: Path, path: str, tmp_path: Path
) -> None:
    with Server(tmp_path) as other:
        thread = threading.Thread(target=other.serve_forever, args=(0.01,))
        thread.start()
        server.tricks[path] = redirecting(f"{other.url}{path}")
        try:
            said = Mirror(RemoteStore(server.url), here).pull().broken["web"]
        except StoreUnavailable as error:
            said = str(error)
        other.shutdown()
        thread.join()

    assert f"expected no redirect to another server, found one to {other.url}" in said
    assert [] == other.asked


def test_a_redirect_within_the_server_is_followed(server: Server, here: Path) -> None:
    server.tricks["/web/aliases.json"] = redirecting("/shop/aliases.json")

    assert {} == Mirror(RemoteStore(server.url), here).pull().broken
    assert "/shop/aliases.json" in server.asked


def test_a_version_that_needs_more_than_the_disk_has_is_not_fetched(
    server: Server, there: Path, here: Path
) -> None:
    edit(there / "web" / "1", lambda manifest: manifest["files"]["probe.scores.npy"].update(size=2**62))

    pulled = Mirror(RemoteStore(server.url), here).pull()

    assert "as are free on the disk, found 46116860184" in pulled.broken["web"]
    assert not [path for path in server.asked if path.startswith("/web/1/") and path.endswith(".npy")]


def link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    "path", ["web/aliases.json", "web/1/manifest.json", "web/1/probe.scores.npy", "web/1.signatures.json"]
)
@pytest.mark.parametrize("kind", [pipe, link, device, listening_socket])
def test_only_plain_files_of_a_volume_are_read(
    there: Path, here: Path, path: str, kind: Callable[[Path], None]
) -> None:
    (there / path).unlink(missing_ok=True)
    kind(there / path)

    pulled = Mirror(RemoteStore(f"file://{there}"), here).pull()

    assert f"{path}: expected a plain file, found " in pulled.broken["web"]
    assert ["shop@1"] == pulled.fetched
    assert "root:" not in pulled.broken["web"]


def test_a_folder_of_a_volume_that_is_a_link_is_not_followed(there: Path, here: Path) -> None:
    (there / "web").rename(there.with_name("elsewhere"))
    (there / "web").symlink_to(there.with_name("elsewhere"))

    pulled = Mirror(RemoteStore(f"file://{there}"), here).pull()

    assert {"web": "web: expected a folder, found a symbolic link"} == pulled.broken


def test_pipes_in_the_way_of_a_push_do_not_stop_it_for_ever(published: Path, tmp_path: Path) -> None:
    there = tmp_path / "volume"
    (there / "web" / "1").mkdir(parents=True)
    pipe(there / "web" / "1" / "probe.scores.npy")

    with pytest.raises(StoreUnavailable, match="is a named pipe"):
        push(RemoteStore(f"file://{there}"), Registry(published), "web")


def test_a_pipe_that_is_replaced_is_not_read(tmp_path: Path) -> None:
    pipe(tmp_path / "aliases.json")

    replace_file(tmp_path / "aliases.json", json.dumps({}).encode())

    assert b"{}" == (tmp_path / "aliases.json").read_bytes()
