"""``localrank serve``: checks everything that can be checked before the start, reports an error in one line, and then
serves.

Numpy reads its number of threads when it is imported, so nothing here imports it before that number is set.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from localrank.__main__ import complain
from localrank.commands.options import with_options
from localrank.commands.wrong_use import run_typer
from localrank.errors import ArtifactNotFound, InvalidConfiguration, LocalRankError
from localrank.extras import installing
from localrank_service.process import cpus
from localrank_service.process.settings import LISTS, PREFIX, Settings
from localrank_service.telemetry.spans import check_installed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

#: Workers use one thread for linear algebra; with this setting, the libraries start no others.
THREADS = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

#: Workers that may be started for each processor; more than one helps only if requests wait for something else.
_WORKERS_EACH = 8

_EPILOG = "Example: localrank serve --models-dir models --port 8080 --workers 2"


class _CannotServe(Exception):
    """What keeps the service from starting, in one sentence."""


def run(arguments: Sequence[str]) -> int:
    """Run the command; return 0 once it was told to stop, 1 if it could not serve."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command("serve", epilog=_EPILOG)(
        with_options(
            serve,
            prefix=PREFIX,
            several=LISTS,
            read=lambda _, flags: Settings.from_environ(os.environ, flags),
        )
    )
    app.callback()(lambda: None)
    try:
        return run_typer(app, arguments)
    except _CannotServe as error:
        return complain(str(error), 1)


def serve(settings: Settings) -> None:
    """Answer rerank requests over HTTP.

    Every flag can also be set by the environment variable that stands beside it.
    """
    _check_keys(settings)
    _check_paths(settings)
    _check_workers(settings.workers)
    if settings.otel:
        check_installed()
    for name, count in THREADS.items():
        os.environ.setdefault(name, count)
    if settings.models_url is not None:
        _pull(settings.models_url, settings.models_dir, settings.model, settings.preloaded())
    _check_models(settings.models_dir, settings.model, settings.preloaded())
    if settings.require_signature is not None:
        _check_trusted_keys(settings.require_signature)
    settings = replace(settings, workers=settings.workers or cpus.workers())
    with _listening(settings) as listener:
        settings = replace(settings, port=listener.getsockname()[1])
        with _sharing(settings) as shared:
            _run(shared, listener)


def _run(settings: Settings, listener: socket.socket) -> None:
    """Serve until told to stop."""
    import uvicorn

    from localrank_service.process import logs
    from localrank_service.process.server import Server
    from localrank_service.process.supervisor import Supervisor
    from localrank_service.telemetry.meters import Meters

    log_config = logs.config(settings)
    # The application is made from the environment, however it was started.
    os.environ.update(settings.to_environ())
    config = uvicorn.Config(
        "localrank_service.app:app",
        workers=settings.workers,
        log_config=log_config,
        access_log=False,
        server_header=False,
        lifespan="on",
        ws="none",
        http=_http(),
    )
    signal.signal(signal.SIGTERM, _stop)
    try:
        if settings.workers == 1:
            threading.Thread(target=_announce_once, args=(settings,), daemon=True).start()
            server = Server(config)
            server.run(sockets=[listener])
            if server.stuck:
                raise _CannotServe("the service refused every request although it had none in work")
            return
        meters = Meters(settings.runtime_dir / "metrics" if settings.runtime_dir else None)
        supervisor = Supervisor(
            config, listener, meters, settings.hang_seconds, announce=lambda: _announce(settings)
        )
        if not supervisor.run():
            raise _CannotServe("no worker could start; the log says why")
    except (KeyboardInterrupt, _Stopped):
        pass


def _http() -> Any:
    """Return the protocol that reads requests: uvicorn's own where the fast parser has no build."""
    try:
        from localrank_service.http.protocol import Http
    except ModuleNotFoundError:
        return "auto"
    return Http


class _Stopped(Exception):
    """SIGTERM, once the server has finished."""


def _stop(_number: int, _frame: object) -> NoReturn:
    raise _Stopped


def _check_keys(settings: Settings) -> None:
    """Refuse key files that cannot be used, and to be reachable by others without a key."""
    serving, admin = settings.keyrings()
    serving.check()
    admin.check()
    try:
        loopback = settings.host == "localhost" or ip_address(settings.host).is_loopback
    except ValueError:
        loopback = False
    if not (loopback or serving.configured or settings.allow_anonymous):
        raise InvalidConfiguration(
            f"--host {settings.host} accepts requests from other machines: set LOCALRANK_API_KEY or "
            "LOCALRANK_API_KEY_FILE, or use --allow-anonymous to answer everybody"
        )


def _check_workers(count: int) -> None:
    """Refuse more workers than the processors can use: each takes the memory of a process."""
    processors = cpus.bound()
    if count > (most := _WORKERS_EACH * processors):
        raise InvalidConfiguration(
            f"--workers {count}: expected at most {most}, {_WORKERS_EACH} for each of {processors} processors"
        )


def _check_paths(settings: Settings) -> None:
    """Refuse a folder where a file is needed, and a file where a folder is needed; both may be missing."""
    file = settings.experiments_file
    if file is not None and os.path.exists(file) and not os.path.isfile(file):  # noqa: PTH110, PTH113 - never raise
        found = "a folder" if os.path.isdir(file) else "a pipe or a device"  # noqa: PTH112
        raise InvalidConfiguration(f"--experiments-file {file}: expected a file, found {found}")
    folder = settings.impression_log_dir
    if settings.impression_log and os.path.exists(folder) and not os.path.isdir(folder):  # noqa: PTH110, PTH112
        raise InvalidConfiguration(f"--impression-log-dir {folder}: expected a folder, found a file")


def _pull(url: str, models_dir: Path, default: str | None, preload: Sequence[str] = ()) -> None:
    """Fetch the models of a URL, unless there is a copy here: the service follows the URL while it runs.

    In a process of its own: the libraries that read URLs start threads, and this process may fork.
    """
    if find_spec("fsspec") is None:
        raise InvalidConfiguration(f"--models-url needs fsspec: {installing('remote')}")
    from localrank.registry.mirror import check_copy

    check_copy(models_dir, url)
    with suppress(_CannotServe):
        _check_models(models_dir, default, preload)
        print(f"localrank: serving the models in {models_dir}; {url} is read meanwhile", file=sys.stderr)  # noqa: T201
        return
    command = [sys.executable, "-m", "localrank", "models", "pull", url, "--models-dir", str(models_dir)]
    done = subprocess.run(  # noqa: S603 - this very program
        command, check=False, stdin=subprocess.DEVNULL, stdout=sys.stderr, stderr=subprocess.PIPE
    )
    said = done.stderr.decode(errors="replace").strip().removeprefix("localrank: ")
    if done.returncode == 2:
        raise InvalidConfiguration(said)
    if done.returncode:
        raise _CannotServe(said or f"{url}: cannot be read")


def _check_models(models_dir: Path, default: str | None = None, preload: Sequence[str] = ()) -> None:
    """Refuse to start if no model can be served. Whether a model is complete is checked later."""
    from localrank.registry.versions import CHAMPION, Registry

    if not models_dir.is_dir():
        raise _CannotServe(f"{models_dir}: no such folder; 'localrank demo' publishes a model into ./models")
    registry = Registry(models_dir)
    names = registry.models()
    if not names:
        raise _CannotServe(f"{models_dir}: no published model; 'localrank demo' publishes one into ./models")
    named = [("--model", default)] if default is not None else []
    for flag, address in [*named, *(("--preload", one) for one in preload)]:
        try:
            registry.resolve(address)
        except ArtifactNotFound as error:
            raise _CannotServe(f"{flag} {address}: {error}") from None
    broken = []
    for name in names:
        try:
            if CHAMPION in registry.aliases(name):
                return
        except LocalRankError as error:
            broken.append(str(error))
    hint = f"'localrank models promote {names[0]} {registry.versions(names[0])[-1]}' sets one"
    raise _CannotServe("; ".join(broken) or f"{models_dir}: no model has a champion; {hint}")


def _check_trusted_keys(path: Path) -> None:
    from localrank.artifact.signing import TrustedKeys

    TrustedKeys.read(path)


def _announce_once(settings: Settings) -> None:
    while not _announce(settings):
        time.sleep(0.05)


def _announce(settings: Settings) -> bool:
    """Print what to try next, once every worker has tried every model; return whether it was printed."""
    if (models := _served(settings)) is None:
        return False
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104
    url = f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"
    name = settings.model.partition("@")[0] if settings.model else min(models, default="")
    if name not in models:
        print(f"the service is not ready; {url}/readyz says why", file=sys.stderr, flush=True)  # noqa: T201
        return True
    from localrank.artifact.manifest import LARGEST_MANIFEST, MANIFEST, Manifest
    from localrank.disk import read_plain
    from localrank_service.wire.example import curl

    served = ", ".join(f"{name}@{version}" for name, version in models.items())
    print(f"LocalRank serves {served} at {url}, documented at {url}/docs. Try:", flush=True)  # noqa: T201
    path = settings.models_dir / name / str(models[name]) / MANIFEST
    # The version may be gone already, although it is served.
    with suppress(OSError, LocalRankError):
        contract = Manifest.parse(read_plain(path, LARGEST_MANIFEST)).contract
        print(curl(contract, name, url, key=settings.keyrings()[0].configured), flush=True)  # noqa: T201
    return True


def _served(settings: Settings) -> dict[str, int] | None:
    """Return the champions that all workers serve, or ``None`` as long as one is still loading."""
    from localrank.registry.versions import CHAMPION
    from localrank_service.models.workers import Workers

    reports = Workers(settings.runtime_dir).living()
    if len(reports) < settings.workers or not all(one.loaded for one in reports):
        return None
    everywhere = set.intersection(*(set(report.serving) for report in reports))
    champions = {name: reports[0].serving[name].get(CHAMPION) for name in sorted(everywhere)}
    return {name: version for name, version in champions.items() if version is not None}


@contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    """Bind before anything else starts, so that a taken port is one line and no half-started service."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _cannot_listen(settings, error) from None
    except UnicodeError:
        raise InvalidConfiguration(
            f"--host {settings.host}: expected an IP address or a host name with parts of 1 to 63 characters"
        ) from None
    with listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(2048)
        except OSError as error:
            raise _cannot_listen(settings, error) from None
        listener.set_inheritable(True)
        yield listener


def _cannot_listen(settings: Settings, error: OSError) -> _CannotServe:
    return _CannotServe(f"{settings.host}:{settings.port}: {error.strerror or error}")


@contextmanager
def _sharing(settings: Settings) -> Iterator[Settings]:
    """Give the workers a folder to share: the one in the settings, else a new one that is removed afterwards."""
    from localrank_service.process import runtime_folder

    if settings.runtime_dir is not None:
        place = runtime_folder.join(settings.runtime_dir, settings)
        yield settings
        del place
        return
    runtime_folder.sweep()
    try:
        folder = runtime_folder.make()
    except OSError as error:
        raise _CannotServe(
            f"{error.filename or tempfile.gettempdir()}: cannot make the runtime folder: {error.strerror or error}; "
            "set LOCALRANK_RUNTIME_DIR to a folder that can be written"
        ) from None
    try:
        with _sharing(replace(settings, runtime_dir=folder)) as shared:
            yield shared
    finally:
        shutil.rmtree(folder, ignore_errors=True)
