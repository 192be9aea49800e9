"""``localrank serve`` as an operator meets it: real processes, real sockets, real signals."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from localrank import artifact
from localrank.artifact import Provenance
from localrank.registry.versions import Registry
from localrank_service.process import runtime_folder
from localrank_service.process.command import THREADS, run
from tests.end_to_end.serving import free_port
from tests.service.telemetry.collector import collecting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
ADMIN = {"x-api-key": "the-admin-key"}


class Server:
    """A running ``localrank serve``; ``lines`` is what it has printed."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process = process
        self.lines: list[str] = []
        self.folder = folder
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines += iter(self.process.stdout.readline, "")

    def wait_for(self, start: str) -> str:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            for line in list(self.lines):
                if line.startswith(start):
                    return line
            time.sleep(0.02)
        raise AssertionError(f"it never printed {start!r}: {''.join(self.lines)}")

    def until(self, true: Callable[[], object]) -> None:
        deadline = time.monotonic() + 60
        while not true():
            assert time.monotonic() < deadline, "".join(self.lines)
            time.sleep(0.02)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(timeout=30)
        self._reader.join(timeout=10)
        return code


def environment(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("LOCALRANK_")} | more


@contextmanager
def serve(folder: Path, *flags: str, **more: str) -> Iterator[Server]:
    (folder / "tmp").mkdir(exist_ok=True)
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "localrank",
            "serve",
            "--models-dir",
            str(folder / "models"),
            "--port",
            "0",
            *flags,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(**{"TMPDIR": str(folder / "tmp"), "LOCALRANK_ADMIN_KEY": ADMIN["x-api-key"]} | more),
    )
    try:
        yield Server(process, folder)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the demo model in two versions, the first its champion."""
    shutil.copytree(ROOT / "models", tmp_path / "models")
    first = artifact.load(tmp_path / "models" / "demo" / "1")
    Registry(tmp_path / "models").publish(
        "demo", first.ranker, Provenance("2026-01-02T00:00:00Z", source={}, probe=first.probe.documents)
    )
    return tmp_path


def url_of(line: str) -> str:
    found = re.search(r"http://[\w.:\[\]]+", line)
    assert found is not None
    return found.group().rstrip(":")


def refuses(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def counted(metrics: str) -> float:
    return sum(
        float(line.rpartition(" ")[2])
        for line in metrics.splitlines()
        if line.startswith("localrank_requests_total{")
    )


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_curl_it_prints_works_as_printed(folder: Path) -> None:
    with serve(folder) as server:
        command = server.wait_for("curl")

        answer = subprocess.run(["bash", "-ec", command], capture_output=True, text=True, check=True).stdout

        results = json.loads(answer)["results"]
        assert {"a", "b", "c"} == {result["id"] for result in results}
        assert max(len(number) for number in re.findall(r"[\d.]+(?=[,\]])", command)) <= 7
        assert 0 == server.stop()
    assert "Traceback" not in "".join(server.lines)


def test_two_workers_count_together_switch_together_and_survive_each_other(folder: Path) -> None:
    with serve(folder, "--workers", "2") as server:
        # A connection for each request, eight at a time, so that both workers get some.
        client = httpx.Client(
            base_url=url_of(server.wait_for("LocalRank serves")),
            headers=ADMIN | {"connection": "close"},
            timeout=60,
        )
        body = {"features": [[0.5] * 10]}

        def rank(times: int) -> list[httpx.Response]:
            with ThreadPoolExecutor(8) as pool:
                return list(pool.map(lambda _: client.post("/v1/rerank", json=body), range(times)))

        def switch(action: str, **members: Any) -> httpx.Response:
            return client.post(f"/v1/models/demo/{action}", json=members)

        assert {200} == {response.status_code for response in rank(60)}
        assert {60.0} == {counted(client.get("/metrics").text) for _ in range(6)}

        promoted = switch("promote", version=2)
        assert 200 == promoted.status_code, promoted.text
        workers = set(promoted.json()["workers"])
        assert 2 == len(workers)
        assert {2} == {response.json()["version"] for response in rank(30)}

        victim = min(workers)
        os.kill(victim, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                again = switch("promote", version=2, alias="challenger")
            except httpx.TransportError:
                continue  # the dead worker had accepted it
            now = set(again.json().get("workers", ()))
            if len(now) == 2 and victim not in now:
                break
        assert (2, False) == (len(now), victim in now)
        # A worker counts a request as answered a moment after its client has the answer.
        while "localrank_inflight_requests 1.0" not in (metrics := client.get("/metrics").text):
            assert time.monotonic() < deadline
        assert counted(metrics) >= 90
        rolled_back = switch("rollback")
        assert 200 == rolled_back.status_code, rolled_back.text
        assert now == set(rolled_back.json()["workers"])
        assert {1} == {response.json()["version"] for response in rank(30)}
        client.close()
        assert 0 == server.stop()
    assert [] == list((folder / "tmp").glob("localrank-*"))


def test_a_generated_admin_key_is_in_a_file_and_nowhere_else(folder: Path) -> None:
    with serve(folder, LOCALRANK_ADMIN_KEY="") as server:
        url = url_of(server.wait_for("LocalRank serves"))
        [line] = [line for line in server.lines if "no admin key is set" in line]
        path = Path(json.loads(line)["message"].rpartition(" ")[2])
        key, mode = path.read_text().strip(), path.stat().st_mode & 0o777
        promoted = httpx.post(
            f"{url}/v1/models/demo/promote", json={"version": 2}, headers={"x-api-key": key}, timeout=60
        )
        server.stop()

    assert 200 == promoted.status_code, promoted.text
    assert 0o600 == mode
    assert not path.exists()
    assert key not in "".join(server.lines)


def test_a_key_in_a_file_is_rotated_in_every_worker(folder: Path) -> None:
    keys = folder / "keys"
    keys.write_text("search:the-old-key")
    with serve(folder, "--workers", "2", "--api-key-file", str(keys), "--poll-seconds", "0.05") as server:
        url = url_of(server.wait_for("LocalRank serves"))

        def statuses(key: str) -> set[int]:
            # Each on a connection of its own, so that both workers get some.
            return {httpx.get(f"{url}/v1/models", headers={"x-api-key": key}).status_code for _ in range(12)}

        assert ({200}, {403}) == (statuses("the-old-key"), statuses("the-new-key"))
        draft = folder / "draft"
        draft.write_text("search:the-new-key")
        draft.replace(keys)
        server.until(lambda: {200} == statuses("the-new-key"))
        assert ({403}, {200}) == (statuses("the-old-key"), statuses("the-new-key"))
        keys.unlink()
        server.until(lambda: "".join(server.lines).count("the keys from the last reading stay valid") == 2)
        assert {200} == statuses("the-new-key")
        server.stop()
    output = "".join(server.lines)
    assert 2 == output.count("the keys from the last reading stay valid")
    assert '-key"' not in output


def test_every_worker_sends_its_spans_and_logs_its_sample(folder: Path) -> None:
    body = {"features": [[0.5] * 10]}
    with collecting() as collector:
        flags = ("--workers", "2", "--otel", "--access-log", "1")
        # The framework would send spans of its own, which hold query strings.
        asked = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "FASTAPI_OTEL_AUTO_CONFIGURE": "true"}
        with serve(folder, *flags, **asked) as server:
            url = url_of(server.wait_for("LocalRank serves"))
            for _ in range(20):
                # Each on a connection of its own, so that both workers get some.
                assert 200 == httpx.post(f"{url}/v1/rerank", json=body).status_code
            assert 422 == httpx.post(f"{url}/v1/rerank?key=a-secret-key", json=body).status_code
            # What is not sent yet is sent at the end.
            assert 0 == server.stop()
    requests = [(resource, span) for resource, span in collector.spans if span.name == "POST /v1/rerank"]
    logged = [json.loads(line) for line in server.lines if '"localrank.access"' in line]
    logged = [line for line in logged if line["route"] == "/v1/rerank"]

    assert (21, 21) == (len(requests), len(logged))
    assert {line["trace_id"] for line in logged} == {span.trace_id.hex() for _, span in requests}
    assert {line["pid"] for line in logged} == {resource["process.pid"] for resource, _ in requests}
    # Six stages each, and the refused request was being decoded.
    assert 20 * 6 + 1 == sum(span.name in logged[0]["timings_ms"] for _, span in collector.spans)
    assert "a-secret-key" not in "".join([*server.lines, *(str(span) for _, span in collector.spans)])


def test_sigterm_drains(folder: Path) -> None:
    with serve(folder, "--drain-seconds", "1.5") as server:
        url = url_of(server.wait_for("LocalRank serves"))
        host, port = url.removeprefix("http://").split(":")
        body = b'{"features": [[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5]]}'
        with socket.create_connection((host, int(port)), timeout=30) as slow:
            slow.sendall(
                b"POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
            )
            slow.sendall(body[:10])
            assert 200 == httpx.get(f"{url}/readyz").status_code

            begun = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            # A busy machine may hand the signal over late, but within the pause it is known.
            while (
                unready := httpx.get(f"{url}/readyz")
            ).status_code == 200 and time.monotonic() - begun < 1.2:
                time.sleep(0.02)
            still = httpx.post(f"{url}/v1/rerank", content=body, headers={"content-type": "application/json"})
            server.until(lambda: refuses((host, int(port))))
            slow.sendall(body[10:])
            answer = b"".join(iter(lambda: slow.recv(65536), b""))
            code = server.process.wait(timeout=30)

        assert 503 == unready.status_code
        assert "shutting down" in unready.json()["detail"]
        assert 200 == still.status_code
        assert answer.startswith(b"HTTP/1.1 200")
        assert 0 == code
        assert time.monotonic() - begun >= 1.5


class Asking(threading.Thread):
    """A client that asks one request after the other until there is no server.

    Attributes:
        answered: requests that were answered with 200.
        lost: what happened to those that were sent and not answered.
    """

    def __init__(self, address: tuple[str, int], *, keeps: bool, pause: float) -> None:
        super().__init__(daemon=True)
        self.address, self.keeps, self.pause = address, keeps, pause
        self.answered = 0
        self.lost: list[str] = []
        body = b'{"features": [[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5]]}'
        self.request = (
            b"POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Connection: %b\r\nContent-Length: %d\r\n\r\n%b"
            % (b"keep-alive" if keeps else b"close", len(body), body)
        )

    def run(self) -> None:
        while True:
            try:
                wire = socket.create_connection(self.address, timeout=20)
            except ConnectionRefusedError:
                return
            begun, before = time.monotonic(), self.answered
            with wire:
                wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                try:
                    while self.ask(wire):
                        time.sleep(self.pause)
                except OSError as error:
                    age, answers = time.monotonic() - begun, self.answered - before
                    self.lost.append(f"{error!r} after {answers} answers and {age:.3f} s, {vars(self)}")
                    return

    def ask(self, wire: socket.socket) -> bool:
        """Ask once; return whether the connection may be used again."""
        wire.sendall(self.request)
        answer = b""
        while not (answer.endswith(b"}") and b"\r\n\r\n" in answer):
            part = wire.recv(1 << 16)
            if not part:
                raise ConnectionError(f"closed after {answer[:40]!r}")
            answer += part
        if not answer.startswith(b"HTTP/1.1 200"):
            raise ConnectionError(answer[:40])
        self.answered += 1
        return self.keeps and b"connection: close" not in answer


@pytest.mark.parametrize("workers", ["1", "2"])
def test_nobody_is_cut_off_when_it_stops(workers: str, folder: Path) -> None:
    """Clients that keep their connections, pause on them, or have one for each request: every request is answered."""
    flags = ("--workers", workers, "--max-queue-ms", "10000", "--overload-queue-ms", "10000")
    with serve(folder, *flags) as server:
        host, port = url_of(server.wait_for("LocalRank serves")).removeprefix("http://").split(":")
        clients = [
            Asking((host, int(port)), keeps=keeps, pause=pause)
            for keeps, pause, count in ((True, 0.0, 12), (True, 0.4, 12), (False, 0.0, 4))
            for _ in range(count)
        ]
        for client in clients:
            client.start()
        server.until(lambda: all(client.answered > 2 for client in clients))

        begun = time.monotonic()
        assert 0 == server.stop()
        seconds = time.monotonic() - begun
        for client in clients:
            client.join(30)

    assert [] == [lost for client in clients for lost in client.lost]
    assert all(client.answered for client in clients)
    assert not any(client.is_alive() for client in clients)
    assert seconds < 10


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_second_sigterm_skips_the_pause(workers: str, folder: Path) -> None:
    with serve(folder, "--drain-seconds", "60", "--workers", workers) as server:
        url = url_of(server.wait_for("LocalRank serves"))
        server.process.send_signal(signal.SIGTERM)
        server.until(lambda: 503 == httpx.get(f"{url}/readyz").status_code)
        assert server.process.poll() is None

        assert 0 == server.stop()


def test_limits_hold_on_a_real_socket(folder: Path) -> None:
    with serve(folder, "--max-body-bytes", "1000") as server:
        url = url_of(server.wait_for("LocalRank serves"))
        with httpx.Client(base_url=url, headers={"content-type": "application/json"}) as client:
            declared = client.post("/v1/rerank", content=b" " * 1001)
            chunked = client.post("/v1/rerank", content=iter([b" " * 600, b" " * 600]))
            after = client.get("/livez")
            wrong = client.put("/v1/rerank")

    for response in (declared, chunked):
        assert (413, "application/problem+json") == (response.status_code, response.headers["content-type"])
    assert 200 == after.status_code
    assert (405, "POST") == (wrong.status_code, wrong.headers["allow"])


def fails(folder: Path, *flags: str, **more: str) -> tuple[int, str]:
    """Run a service that cannot start; return its exit code and what it says."""
    answer = subprocess.run(
        [sys.executable, "-m", "localrank", "serve", *flags],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment(**more),
        timeout=60,
    )
    return answer.returncode, answer.stderr + answer.stdout


def test_what_keeps_it_from_starting_is_one_line(folder: Path) -> None:
    (folder / "empty").mkdir()
    shutil.copytree(folder / "models", folder / "unpromoted")
    (folder / "unpromoted" / "demo" / "aliases.json").unlink()
    (folder / "blank").touch()
    port = free_port()
    cases: list[tuple[tuple[str, ...], dict[str, str], int, str]] = [
        (("--models-dir", "nowhere"), {}, 1, "nowhere: no such folder; 'localrank demo' publishes"),
        (("--models-dir", "empty"), {}, 1, "empty: no published model"),
        (("--models-dir", "unpromoted"), {}, 1, "no model has a champion; 'localrank models promote demo 2'"),
        (("--port", str(port)), {}, 1, f"127.0.0.1:{port}: Address already in use"),
        (("--host", "no.such.host.invalid", "--allow-anonymous"), {}, 1, "no.such.host.invalid:8080: "),
        (
            ("--host", "0.0.0.0"),
            {},
            2,
            "--host 0.0.0.0 accepts requests from other machines: set LOCALRANK_API_KEY",
        ),
        (("--port", "99999"), {}, 2, "--port: "),
        (("--model", "nope"), {}, 1, "--model nope: "),
        (("--model", "demo@7"), {}, 1, "--model demo@7: "),
        ((), {"LOCALRANK_MAX_DOCS": "3"}, 2, "LOCALRANK_MAX_DOCS: no such setting"),
        ((), {"LOCALRANK_API_KEY_FILE": "gone"}, 2, "serving key file gone: No such file or directory"),
        (("--require-signature", "blank"), {}, 2, "blank: expected public keys in PEM, found none"),
        (("--admin-key-file", "blank"), {}, 2, "admin key file blank: expected at least one key, found none"),
    ]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        for flags, more, code, said in cases:
            found, text = fails(folder, *flags, **more)

            assert (code, 1) == (found, text.count("\n")), text
            assert text.startswith("localrank: ")
            assert said in text
    code, text = fails(folder, "--nope")
    assert 2 == code
    assert "--nope" in text


def test_without_room_for_its_runtime_folder_it_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def full() -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/localrank-x")

    monkeypatch.setattr(runtime_folder, "make", full)
    for name in THREADS:
        monkeypatch.setenv(name, "1")

    code = run(["serve", "--models-dir", str(folder / "models"), "--port", "0"])

    assert 1 == code
    assert (
        "localrank: /tmp/localrank-x: cannot make the runtime folder: No space left on device; "
        "set LOCALRANK_RUNTIME_DIR to a folder that can be written\n"
    ) == capfd.readouterr().err


def test_a_model_that_is_broken_is_not_announced(folder: Path) -> None:
    shutil.copytree(folder / "models" / "demo", folder / "models" / "aaa")
    (folder / "models" / "aaa" / "1" / "more.npy").touch()

    with serve(folder) as server:
        announced = server.wait_for("LocalRank serves")
        command = server.wait_for("curl")
        ready = httpx.get(f"{url_of(announced)}/readyz")

    assert "serves demo@1 at" in announced
    assert '"model":"demo"' in command
    assert 503 == ready.status_code
    assert "model 'aaa' is broken" in ready.json()["detail"]


@pytest.mark.slow
def test_one_service_has_the_runtime_folder_and_the_next_one_can_use_it(folder: Path) -> None:
    given = ("--runtime-dir", str(folder / "run"), "--experiments-file", str(folder / "experiments.json"))
    models = ("--models-dir", str(folder / "models"), "--port", "0")
    with serve(folder, "--workers", "2", *given) as server:
        url = url_of(server.wait_for("LocalRank serves"))
        definition = {"kind": "split", "model": "demo", "candidate": "demo@2"}
        put = httpx.put(f"{url}/v1/experiments/one", json=definition, headers=ADMIN)
        second = fails(folder, *models, *given)
        server.stop(signal.SIGKILL)

    assert (200, 2) == (put.status_code, second[0])
    said = "expected a folder that no other service uses, found one in use"
    assert f"localrank: runtime folder {folder / 'run'}: {said}\n" == second[1]

    # Workers of a supervisor that was killed end by themselves; until then the folder is theirs.
    deadline = time.monotonic() + 60
    while said in (again := _tried(folder, *given)):
        assert time.monotonic() < deadline
    assert "LocalRank serves demo@1" in again


def _tried(folder: Path, *flags: str) -> str:
    """Start a service; return what it says until it serves or ends."""
    with serve(folder, "--workers", "1", *flags) as server:
        server.until(
            lambda: any(line.startswith(("LocalRank serves", "localrank: ")) for line in server.lines)
        )
        return "".join(server.lines)


@pytest.mark.slow
def test_workers_of_another_server_share_the_runtime_folder(folder: Path) -> None:
    port = free_port()
    more = {"LOCALRANK_MODELS_DIR": str(folder / "models"), "LOCALRANK_RUNTIME_DIR": str(folder / "run")}
    command = ["-m", "uvicorn", "localrank_service.app:app", "--workers", "2", "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(**more),
    )
    server = Server(process, folder)

    def workers() -> int:
        with suppress(httpx.TransportError):
            answer = httpx.get(f"http://127.0.0.1:{port}/info")
            return int(answer.json()["workers"])
        return 0

    try:
        server.until(lambda: 2 == workers())
        key = (folder / "run" / "admin.key").read_text().strip()
        promoted = httpx.post(
            f"http://127.0.0.1:{port}/v1/models/demo/promote", json={"version": 2}, headers={"x-api-key": key}
        )
    finally:
        server.stop()
        assert process.stdout is not None
        process.stdout.close()

    assert (200, 2) == (promoted.status_code, len(promoted.json()["workers"]))
