"""What ``localrank serve`` refuses before anything starts, and what it cleans up; tests/end_to_end has real servers."""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from localrank.__main__ import main
from localrank.artifact.manifest import MANIFEST, Manifest
from localrank.errors import InvalidConfiguration
from localrank.registry import Registry
from localrank_service.models.workers import Report
from localrank_service.process import command, cpus
from localrank_service.process.command import THREADS, _listening, run
from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

MODELS = ["--models-dir", str(Path(__file__).parents[3] / "models"), "--port", "1"]


@pytest.fixture(autouse=True)
def nothing_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(_settings: object) -> None:
        raise AssertionError("it went on")

    monkeypatch.setattr("localrank_service.process.command._listening", serve)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "ranker.example"])
def test_other_machines_need_a_key(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["serve", "--host", host, *MODELS])

    assert f"--host {host} accepts requests from other machines" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--host", "127.0.0.1"],
        ["--host", "localhost"],
        ["--host", "::1"],
        ["--host", "0.0.0.0", "--allow-anonymous"],
        ["--host", "0.0.0.0", "--api-key", "a-key-of-sixteen"],
    ],
)
def test_loopback_keys_and_permission_are_enough(arguments: list[str]) -> None:
    with pytest.raises(AssertionError, match="it went on"):
        main(["serve", *arguments, *MODELS])


def test_workers_are_limited_by_the_processors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("localrank_service.process.cpus.bound", lambda: 2)

    assert 2 == main(["serve", "--workers", "17", *MODELS])

    assert (
        "localrank: --workers 17: expected at most 16, 8 for each of 2 processors\n"
        == capsys.readouterr().err
    )
    with pytest.raises(AssertionError, match="it went on"):
        main(["serve", "--workers", "16", *MODELS])


def test_a_default_model_must_be_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert 1 == main(["serve", "--model", "absent", *MODELS])

    assert "--model absent: " in capsys.readouterr().err


def test_keys_to_trust_must_be_readable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["serve", "--require-signature", str(tmp_path / "none.pem"), *MODELS])

    assert "none.pem: cannot read keys" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--experiments-file", "folder"], "--experiments-file folder: expected a file, found a folder"),
        (["--experiments-file", "."], "--experiments-file .: expected a file, found a folder"),
        (["--experiments-file", "/"], "--experiments-file /: expected a file, found a folder"),
        (
            ["--experiments-file", "/dev/null"],
            "--experiments-file /dev/null: expected a file, found a pipe or a device",
        ),
        (
            ["--impression-log-dir", "file", "--impression-log", "0.1"],
            "--impression-log-dir file: expected a folder, found a file",
        ),
    ],
)
def test_a_folder_where_a_file_is_needed_is_refused_in_one_sentence_and_so_is_the_opposite(
    flags: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)

    assert 2 == main(["serve", *flags, *MODELS])

    assert f"localrank: {said}\n" == capsys.readouterr().err


@pytest.mark.parametrize(
    "flags",
    [
        ["--experiments-file", "file"],
        ["--experiments-file", "missing/file"],
        ["--experiments-file", "n" * 300],
        ["--impression-log-dir", "folder", "--impression-log", "0.1"],
        ["--impression-log-dir", "missing", "--impression-log", "0.1"],
        ["--impression-log-dir", "file"],
    ],
)
def test_what_is_missing_or_of_the_right_kind_is_no_obstacle(
    flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)

    with pytest.raises(AssertionError, match="it went on"):
        main(["serve", *flags, *MODELS])


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example", "\u00fc" * 70])
def test_a_host_that_is_no_name_is_refused_in_one_sentence(host: str) -> None:
    with (
        pytest.raises(InvalidConfiguration, match=r"--host \S+: expected an IP address or a host name"),
        _listening(Settings(host=host)),
    ):
        pass


def test_the_port_is_taken_before_anything_starts() -> None:
    with _listening(Settings(port=0)) as listener:
        assert listener.get_inheritable()
        assert listener.getsockname()[1] > 0
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
        with socket.create_connection(listener.getsockname(), timeout=5):
            pass


# What is asked for.


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings that the command would serve with."""
    found: list[Settings] = []
    monkeypatch.setattr(command, "_serve", found.append)
    return found


def test_every_setting_is_a_flag_with_its_description_and_default(served: list[Settings]) -> None:
    parameters = inspect.signature(command._command()).parameters

    assert list(Settings.model_fields) == list(parameters)
    assert {None} == {one.default for one in parameters.values()}
    options = {name: one.annotation.__metadata__[0] for name, one in parameters.items()}
    assert options["port"].help == (
        "Port to listen on; 0 chooses a free port. [LOCALRANK_PORT] (default 8080)"
    )
    assert options["drain_seconds"].help.endswith("[LOCALRANK_DRAIN_SECONDS] (default 0.0)")
    for name in ("model", "cors_origins", "otel"):
        assert options[name].help.endswith(f"[LOCALRANK_{name.upper()}]")
    declared = {name: one.param_decls or (one.default,) for name, one in options.items()}
    assert "--otel/--no-otel" in declared["otel"]
    assert "--max-body-bytes" in declared["max_body_bytes"]
    assert [] == served


def test_flags_override_variables_and_have_the_kinds_of_their_settings(
    served: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCALRANK_OTEL", "true")
    monkeypatch.setenv("LOCALRANK_PORT", "1")
    monkeypatch.setenv("LOCALRANK_HOST", "::1")

    code = run(["serve", "--port", "9000", "--no-otel", "--access-log", "0.25", "--allow-anonymous"])
    wrong = [run(["serve", "--port", "http"]), run(["serve", "--nope"])]

    [settings] = served
    assert (0, [2, 2]) == (code, wrong)
    assert (9000, "::1", False, 0.25, True) == (
        settings.port,
        settings.host,
        settings.otel,
        settings.access_log,
        settings.allow_anonymous,
    )


def test_help_is_no_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == run(["serve", "--help"])

    said = capsys.readouterr().out
    assert "Answer rerank requests over HTTP." in said
    assert "Example: localrank serve --models-dir models --port 8080 --workers 2" in said


# What can be served.


def test_models_must_have_a_champion(models_dir: Path, tmp_path: Path) -> None:
    def said(folder: Path, default: str | None = None) -> str:
        with pytest.raises(command._CannotServe) as found:
            command._check_models(folder, default)
        return str(found.value)

    command._check_models(models_dir, None)
    command._check_models(models_dir, "demo@2")
    (tmp_path / "empty").mkdir()
    assert f"{tmp_path / 'none'}: no such folder" in said(tmp_path / "none")
    assert f"{tmp_path / 'empty'}: no published model" in said(tmp_path / "empty")
    assert "--model demo@9: " in said(models_dir, "demo@9")
    (models_dir / "web" / "aliases.json").write_text("{")
    command._check_models(models_dir, None)
    (models_dir / "demo" / "aliases.json").unlink()
    broken = said(models_dir)
    assert "web/aliases.json" in broken
    assert "champion" not in broken
    shutil.rmtree(models_dir / "web")
    hint = "no model has a champion; 'localrank models promote demo 2' sets one"
    assert f"{models_dir}: {hint}" == said(models_dir)


class Listener:
    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", 4711


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, Any]]:
    """What is done for a service that is started, in its order."""
    done: list[tuple[str, Any]] = []

    class Given:
        def __init__(self, value: Any) -> None:
            self.value = value

        def __enter__(self) -> Any:
            return self.value

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(command, "_listening", lambda _settings: Given(Listener()))
    monkeypatch.setattr(
        command, "_sharing", lambda settings: Given(settings.model_copy(update={"runtime_dir": tmp_path}))
    )
    monkeypatch.setattr(command, "_run", lambda settings, _: done.append(("run", settings)))
    monkeypatch.setattr(command, "_pull", lambda *given: done.append(("pull", given)))
    monkeypatch.setattr(command, "check_installed", lambda: done.append(("otel", None)))
    monkeypatch.setattr(command, "_check_trusted_keys", lambda path: done.append(("keys", path)))
    monkeypatch.setattr(cpus, "workers", lambda: 3)
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    return done


def test_a_service_runs_with_what_was_found_out(
    started: list[tuple[str, Any]], models_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")

    command._serve(Settings(models_dir=models_dir, port=0))

    [(what, settings)] = started
    assert ("run", 4711, tmp_path, 3) == (what, settings.port, settings.runtime_dir, settings.workers)
    threads = {name: os.environ[name] for name in THREADS}
    assert {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "1"} == threads


def test_what_is_asked_for_is_checked_before_it_runs(
    started: list[tuple[str, Any]], models_dir: Path, tmp_path: Path
) -> None:
    url, keys = f"file://{tmp_path}", tmp_path / "keys.pem"

    command._serve(
        Settings(models_dir=models_dir, models_url=url, otel=True, require_signature=keys, workers=2)
    )

    assert [("otel", None), ("pull", (url, models_dir, None, [])), ("keys", keys)] == started[:3]
    assert ("run", 2) == (started[3][0], started[3][1].workers)


# Models at a URL.


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, str]]:
    """The folders that were checked for being the copy of a URL."""
    found: list[tuple[Path, str]] = []
    monkeypatch.setattr("localrank.remote.mirror.check_copy", lambda *given: found.append(given))
    return found


class Pulled:
    """How ``localrank models pull`` ended."""

    def __init__(self, code: int, said: str = "") -> None:
        self.returncode, self.stderr = code, f"localrank: {said}\n".encode()
        self.asked: list[Any] = []

    def __call__(self, arguments: list[str], **how: Any) -> Pulled:
        self.asked += [arguments, how]
        return self


def test_models_are_pulled_by_another_process(
    models_dir: Path, checked: list[tuple[Path, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled = Pulled(0)
    monkeypatch.setattr(subprocess, "run", pulled)

    command._pull("file:///there", models_dir, "demo@9")

    arguments, how = pulled.asked
    assert [sys.executable, "-m", "localrank", "models", "pull", "file:///there"] == arguments[:6]
    assert ["--models-dir", str(models_dir)] == arguments[6:]
    assert (False, subprocess.DEVNULL, subprocess.PIPE) == (how["check"], how["stdin"], how["stderr"])
    assert [(models_dir, "file:///there")] == checked


@pytest.mark.usefixtures("checked")
def test_a_copy_that_is_here_is_served_and_the_url_is_read_meanwhile(
    models_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(subprocess, "run", Pulled(1, "file:///there: gone"))

    command._pull("file:///there", models_dir, "demo@2")

    said = f"localrank: serving the models in {models_dir}; file:///there is read meanwhile\n"
    assert said == capsys.readouterr().err
    with pytest.raises(command._CannotServe, match=r"^file:///there: gone$"):
        command._pull("file:///there", tmp_path / "none", None)
    killed = Pulled(-9)
    killed.stderr = b""
    monkeypatch.setattr(subprocess, "run", killed)
    with pytest.raises(command._CannotServe, match=r"^file:///there: cannot be read$"):
        command._pull("file:///there", tmp_path / "none", None)


@pytest.mark.usefixtures("checked")
def test_a_wrong_url_and_a_missing_library_are_wrong_use(
    models_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", Pulled(2, "no such protocol"))
    with pytest.raises(InvalidConfiguration, match=r"^no such protocol$"):
        command._pull("file:///there", models_dir, "demo@9")

    monkeypatch.setattr(command, "find_spec", lambda _name: None)
    with pytest.raises(InvalidConfiguration, match=r"needs fsspec: pip install"):
        command._pull("file:///there", models_dir, "demo@9")


# What runs.


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What a service is run with; nothing of this process is changed."""
    found: dict[str, Any] = {"supervised": True}

    class Server:
        def __init__(self, config: Any) -> None:
            found["config"] = config

        def run(self, sockets: list[Any]) -> None:
            found["sockets"] = sockets
            # As a server does that was stopped by SIGTERM.
            handler: Any = signal.getsignal(signal.SIGTERM)
            handler(signal.SIGTERM, None)

    class Supervisor:
        def __init__(self, config: Any, *given: Any, announce: Any) -> None:
            found.update(config=config, given=given, announced=announce())

        def run(self) -> bool:
            return bool(found["supervised"])

    announced = threading.Event()
    found["announcing"] = announced
    monkeypatch.setattr("localrank_service.process.server.Server", Server)
    monkeypatch.setattr("localrank_service.process.supervisor.Supervisor", Supervisor)
    monkeypatch.setattr("logging.config.dictConfig", lambda config: found.update(logging=config))
    monkeypatch.setattr(command, "_announce_once", lambda _settings: announced.set())
    monkeypatch.setattr(command, "_announce", lambda settings: f"at {settings.port}")
    monkeypatch.setattr(os, "environ", dict(os.environ))
    before = signal.getsignal(signal.SIGTERM)
    yield found
    signal.signal(signal.SIGTERM, before)


def test_one_worker_is_a_server_of_this_process(ran: dict[str, Any]) -> None:
    listener: Any = Listener()

    command._run(Settings(workers=1, port=4711, log_format="json", log_level="error"), listener)

    config = ran["config"]
    assert ("localrank_service.app:app", [listener]) == (config.app, ran["sockets"])
    assert (1, False, False, "on", "none") == (
        config.workers,
        config.access_log,
        config.server_header,
        config.lifespan,
        config.ws,
    )
    assert ran["logging"] == config.log_config
    assert ("json", "ERROR") == (
        config.log_config["handlers"]["stderr"]["formatter"],
        config.log_config["root"]["level"],
    )
    assert "Http" == config.http.__name__
    assert "4711" == os.environ["LOCALRANK_PORT"]
    assert ran["announcing"].wait(30)


def test_several_workers_are_supervised(ran: dict[str, Any], tmp_path: Path) -> None:
    listener: Any = Listener()
    settings = Settings(workers=2, port=4711, hang_seconds=7.0, runtime_dir=tmp_path)

    command._run(settings, listener)

    given, meters, hang_seconds = ran["given"]
    assert (listener, 7.0, 2, "at 4711") == (given, hang_seconds, ran["config"].workers, ran["announced"])
    meters.worker_deaths.of("SIGKILL")[0] += 1.0
    assert list((tmp_path / "metrics").glob("*.series"))
    assert not ran["announcing"].is_set()
    ran["supervised"] = False
    with pytest.raises(command._CannotServe, match="no worker could start; the log says why"):
        command._run(settings.model_copy(update={"runtime_dir": None}), listener)


# What is announced.


def living(
    monkeypatch: pytest.MonkeyPatch, *reports: tuple[dict[str, dict[str, int]], dict[str, str]]
) -> None:
    found = [Report(number, *one, loaded=any(one)) for number, one in enumerate(reports)]
    monkeypatch.setattr("localrank_service.models.workers.Workers.living", lambda _workers: found)


def test_what_all_workers_serve_is_known_once_all_have_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(workers=2)
    both: tuple[dict[str, dict[str, int]], dict[str, str]] = (
        {"web": {"champion": 3}, "demo": {"champion": 2, "stable": 1}, "odd": {"stable": 1}},
        {},
    )

    living(monkeypatch, both)
    one = command._served(settings)
    living(monkeypatch, both, ({}, {}))
    loading = command._served(settings)
    living(monkeypatch, both, ({"demo": {"champion": 2}}, {"web": "damaged"}))
    all_of_them = command._served(settings)
    living(monkeypatch, ({}, {"demo": "damaged"}), ({}, {"demo": "damaged"}))
    none = command._served(settings)

    assert (None, None, {"demo": 2}, {}) == (one, loading, all_of_them, none)


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),
        ("::", "[::1]"),
        ("::1", "[::1]"),
        ("ranker.example", "ranker.example"),
    ],
)
def test_the_announcement_names_models_and_where_they_are(
    host: str,
    shown: str,
    models_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "_served", lambda _settings: {"web": 1, "demo": 2})
    settings = Settings(host=host, port=4711, models_dir=models_dir)

    assert command._announce(settings)

    first, *more = capsys.readouterr().out.splitlines()
    url = f"http://{shown}:4711"
    assert f"LocalRank serves web@1, demo@2 at {url}, documented at {url}/docs. Try:" == first
    contract = Manifest.parse((models_dir / "demo" / "2" / MANIFEST).read_bytes()).contract
    said = "\n".join(more)
    assert f"{url}/v1/rerank" in said
    body = json.loads(shlex.split(said)[-1])
    assert ("demo", [contract.n_features] * 3) == (body["model"], [len(row) for row in body["features"]])
    assert not re.search("api-key|authorization", said, re.IGNORECASE)


def test_the_announcement_shows_the_default_model_and_that_a_key_is_needed(
    models_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "_served", lambda _settings: {"web": 1, "demo": 2})
    settings = Settings.model_validate(
        {"models_dir": models_dir, "model": "web@1", "api_key": "the-serving-key"}
    )

    assert command._announce(settings)
    keyed = capsys.readouterr().out
    shutil.rmtree(models_dir / "web")
    assert command._announce(settings)
    gone = capsys.readouterr().out

    assert '"model":"web"' in keyed
    assert re.search("api-key|authorization", keyed, re.IGNORECASE)
    assert "the-serving-key" not in keyed
    assert gone.startswith("LocalRank serves web@1, demo@2")
    assert "curl" not in gone


def test_the_announcement_waits_for_all_models_and_says_if_none_is_served(
    models_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    states: Iterator[dict[str, int] | None] = iter([None, None, {}])
    monkeypatch.setattr(command, "_served", lambda _settings: next(states))

    command._announce_once(Settings(models_dir=models_dir, port=4711))

    said = capsys.readouterr()
    assert ("", "the service is not ready; http://127.0.0.1:4711/readyz says why\n") == (said.out, said.err)
    assert next(states, "none left") == "none left"


def test_every_published_model_of_this_project_can_be_served() -> None:
    command._check_models(Path(MODELS[1]), None)

    assert ["demo"] == Registry(Path(MODELS[1])).models()
