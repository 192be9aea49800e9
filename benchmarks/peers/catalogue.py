"""The servers that are compared: what each needs, how it is started, and its wires.

Each runs the same model, a linear one or a forest, in an environment of its own, on the settings that its documentation recommends for
few cores: one worker, no access log, no second process where that is a setting. `apps` holds what a user of each would
write.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from benchmarks import served_models, servers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from localrank.arrays import Matrix

    #: Makes one whole HTTP request of a query's documents.
    Wire = Callable[[Matrix], bytes]

APPS = Path(__file__).parent / "apps"
#: The library that grew the forest, which the others score it with; it brings numpy.
LIGHTGBM = "lightgbm==4.7.0"


@dataclass(frozen=True)
class Place:
    """Where a peer is started.

    Attributes:
        python: of its environment.
        work: a folder for what it must write.
        model: a file, the weights of the features or LightGBM's text.
        port: to listen on; the two above it are free as well.
        n_features: of a document.
    """

    python: Path
    work: Path
    model: Path
    port: int
    n_features: int

    @property
    def environ(self) -> dict[str, str]:
        """What the applications read."""
        return {
            "PEER_MODEL": str(self.model),
            "PEER_PORT": str(self.port),
            "PEER_FEATURES": str(self.n_features),
        }


@dataclass(frozen=True)
class Peer:
    """One server.

    Attributes:
        requirements: what its environment holds; none means this interpreter.
        start: returns its command, after making what that needs.
        ready: a path that answers once it serves.
        wires: how documents are sent to it.
        stock_python: whether it must run on the system's own interpreter.
    """

    requirements: tuple[str, ...]
    start: Callable[[Place], Sequence[str | Path]]
    ready: str
    wires: Mapping[str, Wire]
    stock_python: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)


def _app(name: str) -> Callable[[Place], Sequence[str | Path]]:
    return lambda place: (place.python, APPS / f"{name}.py")


def _mlserver(place: Place) -> Sequence[str | Path]:
    settings = {
        "host": "127.0.0.1",
        "http_port": place.port,
        "grpc_port": place.port + 1,
        "metrics_port": place.port + 2,
        # Inference in the process itself; with a pool every request crosses to another one and back.
        "parallel_workers": 0,
        "metrics_endpoint": None,
    }
    (place.work / "settings.json").write_text(json.dumps(settings))
    model: dict[str, object] = {"name": "scorer", "implementation": "mlserver_model.Scorer"}
    if place.model.suffix != ".npy":
        # The runtime that comes with the server, whose one thread is that of the environment.
        uri = {"uri": str(place.model)}
        model |= {"implementation": "mlserver_lightgbm.LightGBMModel", "parameters": uri}
    (place.work / "model-settings.json").write_text(json.dumps(model))
    for app in ("mlserver_model.py", "scoring.py"):
        (place.work / app).write_text((APPS / app).read_text())
    return (place.python.parent / "mlserver", "start", place.work)


def _bentoml(place: Place) -> Sequence[str | Path]:
    command = (place.python.parent / "bentoml", "serve", "bentoml_service:Scorer", "--working-dir", APPS)
    return (*command, "--host", "127.0.0.1", "--port", str(place.port))


def _mlflow(place: Place) -> Sequence[str | Path]:
    model = place.work / "model"
    subprocess.run(
        [place.python, APPS / "mlflow_model.py", model],
        check=True,
        capture_output=True,
        env={**place.environ, "PATH": "/usr/bin:/bin", "HOME": str(place.work)},
    )
    command = (
        place.python,
        "-m",
        "mlflow",
        "models",
        "serve",
        "--model-uri",
        model,
        "--env-manager",
        "local",
    )
    return (*command, "--host", "127.0.0.1", "--port", str(place.port), "--workers", "1")


def as_rows(path: str, member: str = "features") -> Wire:
    """Send JSON of nested lists."""

    def wire(documents: Matrix) -> bytes:
        body = served_models.as_json(documents).replace(b"features", member.encode(), 1)
        return servers.post(path, body, "application/json")

    return wire


def as_bytes(path: str) -> Wire:
    return lambda documents: servers.post(path, documents.tobytes(), "application/octet-stream")


def as_npy(path: str) -> Wire:
    return lambda documents: servers.post(path, served_models.as_npy(documents), "application/x-npy")


def as_v2_json(model: str) -> Wire:
    """Send the Open Inference Protocol's JSON, the numbers in one flat list."""

    def wire(documents: Matrix) -> bytes:
        numbers = served_models.as_json(documents.reshape(1, -1))[len('{"features":[') : -2]
        shape = orjson.dumps(list(documents.shape))
        body = b'{"inputs":[{"name":"features","shape":' + shape + b',"datatype":"FP32","data":'
        return servers.post(f"/v2/models/{model}/infer", body + numbers + b"}]}", "application/json")

    return wire


def as_v2_binary(model: str) -> Wire:
    """Send the Open Inference Protocol's binary tensors, and ask for such."""

    def wire(documents: Matrix) -> bytes:
        body, header = served_models.as_v2_binary(documents)
        return servers.post(
            f"/v2/models/{model}/infer",
            body,
            "application/octet-stream",
            Inference_Header_Content_Length=header,
        )

    return wire


def ours(place: Place) -> Sequence[str | Path]:
    command = (place.python, "-m", "localrank", "serve", "--models-dir", place.work / "models")
    return (*command, "--port", str(place.port), "--workers", "1")


OURS = "localrank"
PLAIN = "fastapi"

PEERS: dict[str, Peer] = {
    OURS: Peer(
        (),
        ours,
        "/readyz",
        {"JSON": as_rows("/v1/rerank"), "npy": as_npy("/v1/rerank"), "V2 binary": as_v2_binary("bench")},
    ),
    PLAIN: Peer((), _app("plain"), "/ready", {"JSON": as_rows("/pydantic")}),
    "by hand": Peer((), _app("plain"), "/ready", {"binary": as_bytes("/binary")}),
    "mlserver": Peer(
        ("mlserver==1.7.1", "mlserver-lightgbm==1.7.1", "uvloop<0.22", LIGHTGBM),
        _mlserver,
        "/v2/health/ready",
        {"V2 JSON": as_v2_json("scorer")},
    ),
    "kserve": Peer(
        ("kserve==0.21.0", LIGHTGBM),
        _app("kserve_model"),
        "/v2/health/ready",
        {"V2 JSON": as_v2_json("scorer"), "V2 binary": as_v2_binary("scorer")},
    ),
    "triton": Peer(
        ("nvidia-pytriton==0.7.0", LIGHTGBM),
        _app("triton_model"),
        "/v2/models/scorer/ready",
        {"V2 binary": as_v2_binary("scorer")},
        stock_python=True,
    ),
    "bentoml": Peer(("bentoml==1.4.39", LIGHTGBM), _bentoml, "/readyz", {"JSON": as_rows("/score")}),
    "litserve": Peer(
        ("litserve==0.2.19", LIGHTGBM), _app("litserve_api"), "/health", {"JSON": as_rows("/predict")}
    ),
    "ray": Peer(
        ("ray[serve]==2.60.0", "orjson", LIGHTGBM),
        _app("ray_deployment"),
        "/-/healthz",
        {"JSON": as_rows("/"), "binary": as_bytes("/")},
        environ={"RAY_USAGE_STATS_ENABLED": "0", "RAY_SERVE_ENABLE_HA_PROXY": "0"},
    ),
    "mlflow": Peer(
        ("mlflow==3.17.2", LIGHTGBM), _mlflow, "/health", {"JSON": as_rows("/invocations", member="inputs")}
    ),
}


class NotInstalled(Exception):
    """A peer whose environment could not be made."""


def environment(name: str, peer: Peer, cache: Path) -> Path:
    """Return the interpreter of a peer's environment; make that where it is missing.

    Raises:
        NotInstalled: with the installer's last line.
    """
    if not peer.requirements:
        return Path(sys.executable)
    folder = cache.resolve() / name
    python, stamp = folder / "bin" / "python", folder / ".complete"
    wanted = "\n".join(peer.requirements)
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"installing {', '.join(peer.requirements)}", flush=True)
    base = "/usr/bin/python3.11" if peer.stock_python else sys.executable
    for command in (
        [base, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", *peer.requirements],
    ):
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr]
            raise NotInstalled(lines[-1].strip())
    stamp.write_text(wanted)
    return python
