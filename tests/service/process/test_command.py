"""What ``localrank serve`` refuses before anything starts, and what it starts; tests/end_to_end has real servers."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from localrank.__main__ import main
from localrank.artifact.manifest import MANIFEST, Manifest
from localrank.extras import installing
from localrank.settings import settings_of
from localrank_service.models.workers import Report
from localrank_service.process import command, server, supervisor
from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

DEMO = str(Path(__file__).parents[3] / "models")


class Started:
    """A server or a supervisor in place of the real one, with all that it was given; nothing is served."""

    def __init__(self) -> None:
        self.config: Any = None
        self.given: tuple[Any, ...] = ()
        self.announce: Any = None
        self.environ: dict[str, str] = {}
        self.runs = True
        self.announcing = threading.Event()

    def server(self, config: Any) -> Started:
        self.config = config
        return self

    def supervisor(self, config: Any, *given: Any, announce: Any) -> Started:
        self.config, self.given, self.announce = config, given, announce
        return self

    def run(self, sockets: Any = None) -> bool:
        self.environ = dict(os.environ)
        if sockets is None:
            return self.runs
        self.given = sockets
        assert all(one.get_inheritable() for one in sockets)
        assert self.announcing.wait(30)
        # As a server does that was stopped by SIGTERM.
        handler: Any = signal.getsignal(signal.SIGTERM)
        handler(signal.SIGTERM, None)
        return True

    @property
    def settings(self) -> Settings:
        """What the workers are told."""
        return Settings.from_environ(self.environ)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    found = Started()
    monkeypatch.setattr(server, "Server", found.server)
    monkeypatch.setattr(supervisor, "Supervisor", found.supervisor)
    monkeypatch.setattr("logging.config.dictConfig", lambda _: None)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr("localrank_service.process.cpus.workers", lambda: 3)
    before = signal.getsignal(signal.SIGTERM)
    yield found
    signal.signal(signal.SIGTERM, before)


def serve(*flags: str, models: Path | str = DEMO) -> int:
    return main(["serve", "--models-dir", str(models), "--port", "0", *flags])


# What is refused.


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a file, a folder, and folders of models that cannot be served."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    shutil.copytree(DEMO, tmp_path / "broken")
    (tmp_path / "broken" / "demo" / "aliases.json").write_text("{")
    shutil.copytree(DEMO, tmp_path / "unpromoted")
    (tmp_path / "unpromoted" / "demo" / "aliases.json").unlink()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (
            "--host 0.0.0.0",
            2,
            "--host 0.0.0.0 accepts requests from other machines: set LOCALRANK_API_KEY or",
        ),
        ("--host ::", 2, "--host :: accepts requests from other machines"),
        ("--host ranker.example", 2, "--host ranker.example accepts requests from other machines"),
        ("--host a..b --allow-anonymous", 2, "--host a..b: expected an IP address or a host name with parts"),
        ("--workers 17", 2, "--workers 17: expected at most 16, 8 for each of 2 processors"),
        ("--workers 1.5", 2, "--workers: expected a whole number, found '1.5'"),
        ("--nope", 2, "no option '--nope'"),
        ("--require-signature none.pem", 2, "none.pem: cannot read keys"),
        ("--experiments-file folder", 2, "--experiments-file folder: expected a file, found a folder"),
        (
            "--experiments-file /dev/null",
            2,
            "--experiments-file /dev/null: expected a file, found a pipe or a",
        ),
        (
            "--impression-log-dir file --impression-log 0.1",
            2,
            "--impression-log-dir file: expected a folder, found a file",
        ),
        ("--model absent", 1, "--model absent: "),
        ("--model demo@9", 1, "--model demo@9: "),
        ("--preload demo@9", 1, "--preload demo@9: "),
        ("--models-dir none", 1, "none: no such folder; 'localrank demo' publishes a model into ./models"),
        (
            "--models-dir folder",
            1,
            "folder: no published model; 'localrank demo' publishes one into ./models",
        ),
        ("--models-dir broken", 1, "broken/demo/aliases.json"),
        (
            "--models-dir unpromoted",
            1,
            "unpromoted: no model has a champion; 'localrank models promote demo 1' sets one",
        ),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_keeps_it_from_serving_is_one_line(
    *,
    flags: str,
    code: int,
    said: str,
    started: Started,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("localrank_service.process.cpus.bound", lambda: 2)

    assert code == serve(*flags.split())

    sentence = capsys.readouterr().err
    assert said in sentence
    assert sentence.startswith("localrank: ")
    assert 1 == sentence.count("\n")
    assert started.config is None


@pytest.mark.parametrize(
    "flags",
    [
        "--host localhost",
        "--host ::1",
        "--host 0.0.0.0 --allow-anonymous",
        "--host 0.0.0.0 --api-key a-key-of-sixteen",
        "--workers 16",
        "--model demo@1 --preload demo@1",
        "--experiments-file file",
        "--experiments-file missing/file",
        "--impression-log-dir folder --impression-log 0.1",
        "--impression-log-dir missing --impression-log 0.1",
        "--impression-log-dir file",
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_allowed_missing_or_of_the_right_kind_is_no_obstacle(
    flags: str, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localrank_service.process.cpus.bound", lambda: 2)

    assert 0 == serve(*flags.split())

    assert started.config is not None


def test_a_broken_model_beside_a_good_one_is_no_obstacle(started: Started, models_dir: Path) -> None:
    (models_dir / "web" / "aliases.json").write_text("{")

    assert 0 == serve(models=models_dir)

    assert started.config is not None


def test_help_has_every_setting_with_its_meaning_and_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["serve", "--help"])

    said = " ".join(capsys.readouterr().out.split())
    assert "Answer rerank requests over HTTP." in said
    assert "Example: localrank serve --models-dir models --port 8080 --workers 2" in said
    assert "Port to listen on; 0 chooses a free port. [LOCALRANK_PORT] (default 8080)" in said
    assert "--otel / --no-otel" in said
    for one in settings_of(Settings):
        assert f"[LOCALRANK_{one.name.upper()}]" in said


# What is started.


def test_flags_override_variables(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("OTEL", "true"), ("ACCESS_LOG", "1"), ("HOST", "::1"), ("OMP_NUM_THREADS", "2")):
        monkeypatch.setenv(name if "OMP" in name else f"LOCALRANK_{name}", text)

    code = serve("--no-otel", "--access-log", "0.25", "--allowed-hosts", "a.b", "--allowed-hosts", "c.d,e.f")

    settings = started.settings
    assert (0, "::1", False, 0.25) == (code, settings.host, settings.otel, settings.access_log)
    assert "a.b,c.d,e.f" == settings.allowed_hosts
    threads = [started.environ[f"{name}_NUM_THREADS"] for name in ("OPENBLAS", "OMP", "MKL")]
    assert ["1", "2", "1"] == threads


def test_one_worker_is_a_server_of_this_process(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = iter([[], [Report(0, {}, {"demo": "damaged"}, loaded=True)]])

    def living(_workers: object) -> list[Report]:
        found: list[Report] = next(asked)
        if found:
            started.announcing.set()
        return found

    monkeypatch.setattr("localrank_service.models.workers.Workers.living", living)

    assert 0 == serve("--workers", "1", "--log-format", "json", "--log-level", "error")

    config = started.config
    assert "localrank_service.app:app" == config.app
    assert (1, False, False, "on", "none") == (
        config.workers,
        config.access_log,
        config.server_header,
        config.lifespan,
        config.ws,
    )
    assert "json" == config.log_config["handlers"]["stderr"]["formatter"]
    assert "Http" == config.http.__name__
    assert started.settings.port > 0
    assert not started.settings.runtime_dir.exists()  # type: ignore[union-attr]


def test_several_workers_are_supervised(
    started: Started, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 0 == serve("--hang-seconds", "7", "--runtime-dir", str(tmp_path / "shared"))

    _, meters, hang_seconds = started.given
    assert (7.0, 3, 3) == (hang_seconds, started.config.workers, started.settings.workers)
    meters.worker_deaths.of("SIGKILL")[0] += 1.0
    assert list((tmp_path / "shared" / "metrics").glob("*.series"))
    started.runs = False
    assert 1 == serve()
    assert "localrank: no worker could start; the log says why\n" == capsys.readouterr().err


# What is announced.


@pytest.mark.parametrize(
    ("flags", "shown", "model"),
    [
        ("", "127.0.0.1", "demo"),
        ("--host 0.0.0.0 --allow-anonymous", "127.0.0.1", "demo"),
        ("--host ::1 --model web@1 --api-key the-serving-key", r"[::1]", "web"),
    ],
)
def test_the_announcement_comes_once_all_workers_have_loaded(
    *,
    flags: str,
    shown: str,
    model: str,
    started: Started,
    models_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def living(*serving: dict[str, dict[str, int]]) -> None:
        reports = [Report(number, one, {}, loaded=bool(one)) for number, one in enumerate(serving)]
        monkeypatch.setattr("localrank_service.models.workers.Workers.living", lambda _: reports)

    both = {"web": {"champion": 1}, "demo": {"champion": 2, "stable": 1}, "odd": {"stable": 1}}
    assert 0 == serve("--workers", "2", *flags.split(), models=models_dir)
    for loading in ([both], [both, {}]):
        living(*loading)
        assert not started.announce()
    assert "" == capsys.readouterr().out

    living(both, both)
    assert started.announce()

    first, *more = capsys.readouterr().out.splitlines()
    url, said = f"http://{shown}:{started.settings.port}", "\n".join(more)
    assert f"LocalRank serves demo@2, web@1 at {url}, documented at {url}/docs. Try:" == first
    assert f"{url}/v1/rerank" in said
    body = json.loads(shlex.split(said)[-1])
    contract = Manifest.parse((models_dir / model / "1" / MANIFEST).read_bytes()).contract
    assert (model, [contract.n_features] * 3) == (body["model"], [len(row) for row in body["features"]])
    assert bool(re.search("api-key|authorization", said, re.IGNORECASE)) == ("--api-key" in flags)
    assert "the-serving-key" not in said
    # Another worker could not load the model.
    living(both, {"odd": {"champion": 1}})
    assert started.announce()
    assert f"the service is not ready; {url}/readyz says why\n" == capsys.readouterr().err
    shutil.rmtree(models_dir / model)
    living(both, both)
    assert started.announce()
    assert 1 == capsys.readouterr().out.count("\n")


# Models at a URL.


class Pulled:
    """How ``localrank models pull`` ended."""

    def __init__(self, code: int, said: str = "") -> None:
        self.returncode, self.stderr = code, f"localrank: {said}\n".encode() if said else b""
        self.asked: list[str] = []

    def __call__(self, arguments: list[str], **_how: Any) -> Pulled:
        self.asked = arguments
        return self


def test_models_are_pulled_by_another_process_unless_there_is_a_copy(
    started: Started,
    models_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    checked: list[tuple[Path, str]] = []
    monkeypatch.setattr("localrank.registry.mirror.check_copy", lambda *given: checked.append(given))
    url, none = "file:///there", tmp_path / "none"

    def pulling(pulled: Pulled, models: Path) -> tuple[int, str]:
        monkeypatch.setattr(subprocess, "run", pulled)
        return serve("--models-url", url, models=models), capsys.readouterr().err

    # What is here is served, and nothing is pulled.
    idle = Pulled(1)
    said = f"localrank: serving the models in {models_dir}; {url} is read meanwhile\n"
    assert (0, said) == pulling(idle, models_dir)
    assert ([], [(models_dir, url)]) == (idle.asked, checked)
    assert started.config is not None
    pulled = Pulled(0)
    assert f"{none}: no such folder" in pulling(pulled, none)[1]
    assert [
        sys.executable,
        "-m",
        "localrank",
        "models",
        "pull",
        url,
        "--models-dir",
        str(none),
    ] == pulled.asked
    assert (1, "localrank: gone\n") == pulling(Pulled(1, "gone"), none)
    assert (1, f"localrank: {url}: cannot be read\n") == pulling(Pulled(-9), none)
    assert (2, "localrank: no such protocol\n") == pulling(Pulled(2, "no such protocol"), none)
    monkeypatch.setattr(command, "find_spec", lambda _name: None)
    needed = f"localrank: --models-url needs fsspec: {installing('remote')}\n"
    assert (2, needed) == pulling(Pulled(0), none)
