"""Everything the service can be told; read once, then immutable.

Every field is the environment variable ``LOCALRANK_<NAME>`` and the flag ``--<name>`` of ``localrank serve``, and
stands in docs/operate/operations.md. A variable that is no field is an error, so that a typo cannot go unnoticed.
"""

from __future__ import annotations

import re

# `settings_of` reads annotations when it runs.
from collections.abc import Mapping  # noqa: TC003
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from localrank.errors import InvalidConfiguration
from localrank.registry.remote import check_url, without_password
from localrank.settings import plain, read_texts, setting, settings_of, settle, values_of
from localrank_service.http.cors import parse_origins
from localrank_service.http.keyring import Keyring, parse_keys
from localrank_service.http.origin import parse_hosts

PREFIX = "LOCALRANK_"

#: Settings of several values, separated by commas. Their flags may be given several times.
LISTS = ("allowed_hosts", "cors_origins", "preload")

#: Variables with our prefix that are not the service's: where tests find real data sets, what the load test sends.
_ELSEWHERE = ("LOCALRANK_COMPILER", "LOCALRANK_DATA", "LOCALRANK_LOAD_", "LOCALRANK_REQUIRE_NATIVE")

#: What is shown of a key.
_HIDDEN = "**********"

#: A model's name, which is checked where it is looked up, and a version.
_VERSION = re.compile(r"[^@\s]+@[1-9][0-9]{0,8}")


def _check_keys(keys: str | None) -> None:
    if keys is not None:
        parse_keys(keys, "key")


def _check_url(url: str | None) -> None:
    try:
        if url is not None:
            check_url(url)
    except ValueError as error:
        raise InvalidConfiguration(f"{error}, found {without_password(repr(url))}") from None


def _check_versions(preload: str) -> None:
    if not all(map(_VERSION.fullmatch, _parts(preload))):
        raise ValueError("expected versions such as web@3, separated by commas")


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator decides."""

    models_dir: Path = setting(Path("models"), meaning="Folder of the published models.")
    models_url: str | None = setting(
        None,
        check=_check_url,
        meaning="URL of a folder of models, such as s3://bucket/models. The service copies its models to "
        "--models-dir and follows its aliases. Needs localrank[remote].",
    )
    models_url_seconds: float = setting(
        10.0,
        low=0.01,
        high=86_400,
        meaning="Seconds between two checks of the aliases at that URL.",
    )
    require_signature: Path | None = setting(
        None,
        meaning="File with Ed25519 public keys (PEM); one of them must have signed each version that is served.",
    )
    model: str | None = setting(
        None,
        meaning="Model for requests that name no model. If it is not set and there is only one model, that one answers.",
    )
    host: str = setting("127.0.0.1", meaning="Address to listen on.")
    port: int = setting(8080, low=0, high=65535, meaning="Port to listen on; 0 chooses a free port.")
    workers: int = setting(
        0,
        low=0,
        high=256,
        meaning="Number of worker processes; 0 starts one per processor within the container's quota, at most 8.",
    )
    api_key: str | None = setting(
        None,
        check=_check_keys,
        secret=True,
        meaning="Serving keys, separated by commas. Requests to /v1, /v2 and /info must send one of them (Bearer "
        "or X-API-Key).",
    )
    api_key_file: Path | None = setting(
        None, meaning="File with such keys, one per line; it is read again when it changes."
    )
    admin_key: str | None = setting(
        None,
        check=_check_keys,
        secret=True,
        meaning="Admin keys, for routes that change something, separated by commas. The service generates one if "
        "none is set.",
    )
    admin_key_file: Path | None = setting(
        None, meaning="File with such keys, one per line; it is read again when it changes."
    )
    allow_anonymous: bool = setting(False, meaning="Listen beyond loopback without a serving key.")
    allowed_hosts: str = setting(
        "",
        check=parse_hosts,
        meaning="Host names of the service, separated by commas. Requests without a key and admin requests must "
        "use one of these names, localhost or an IP address; * allows every name.",
    )
    cors_origins: str = setting(
        "",
        check=parse_origins,
        meaning="Origins whose pages may send requests from a browser, separated by commas, such as "
        "https://shop.example; * allows every page.",
    )
    max_documents: int = setting(
        5000, above=0, high=100_000, meaning="Largest number of documents in one request."
    )
    max_body_bytes: int = setting(
        16 * 2**20,
        above=0,
        high=2**30,
        meaning="Largest number of bytes in the body of one request, before and after decompression.",
    )
    max_concurrent_requests: int = setting(
        512,
        above=0,
        high=1_000_000,
        meaning="Largest number of requests in flight in one worker, waiting ones included; further requests get "
        "429.",
    )
    max_documents_in_flight: int = setting(
        100_000,
        above=0,
        high=2**31,
        meaning="Largest number of documents in all requests in flight in one worker; further requests get 429.",
    )
    max_queue_ms: float = setting(
        250.0,
        low=0.01,
        high=600_000,
        meaning="Milliseconds that a request may wait for its turn during a burst; a request that would wait "
        "longer gets 429.",
    )
    overload_queue_ms: float = setting(
        1.0,
        low=0.01,
        high=600_000,
        meaning="Milliseconds that a request may wait for its turn while the worker refuses other requests. Four "
        "requests may always wait.",
    )
    overload_degrade: float = setting(
        0.0,
        low=0,
        high=1,
        meaning="Share of the longest allowed wait, from 0 to 1. If requests wait longer than that, a cheaper "
        "ranking answers; at the longest wait requests get 429. 0 turns this off.",
    )
    max_connections: int = setting(
        4096,
        above=0,
        high=1_000_000,
        meaning="Largest number of connections of one worker, within the limit of open files. If a new one "
        "comes, the worker closes the one that it has waited for longest.",
    )
    head_timeout_seconds: float = setting(
        10.0,
        low=0.1,
        high=3600,
        meaning="Seconds within which the request line and headers must arrive.",
    )
    body_timeout_seconds: float = setting(
        30.0,
        low=0.1,
        high=3600,
        meaning="Seconds within which the body of a request must arrive, and within which the client must read "
        "the answer.",
    )
    min_body_rate: int = setting(
        1024,
        low=0,
        high=2**20,
        meaning="Lowest average speed of an arriving body in bytes per second; the first 5 seconds do not count.",
    )
    keep_alive_seconds: float = setting(
        75.0, low=0.1, high=86_400, meaning="Seconds until the service closes an idle connection."
    )
    extra_features: Literal["ignore", "refuse"] = setting(
        "ignore",
        meaning="If a request names features that the model does not have: ignore them with a warning, or refuse "
        "the request.",
    )
    preload: str = setting(
        "",
        check=_check_versions,
        meaning="Versions that are loaded although no alias stands for them, such as web@3, separated by commas. "
        "Requests may name every version that is loaded.",
    )
    extra_versions: int = setting(
        0,
        low=0,
        high=1000,
        meaning="Largest number of further versions that one worker loads because requests with an admin key name "
        "them. 0 loads none.",
    )
    extra_versions_bytes: int = setting(
        2**30,
        above=0,
        high=2**40,
        meaning="Largest number of bytes of those versions' files.",
    )
    ready: Literal["all", "any"] = setting(
        "all",
        meaning="When the service is ready: if all champions are loaded (all), or if at least one is (any).",
    )
    experiments_file: Path | None = setting(
        None,
        meaning="JSON file with the experiments: canaries, splits, shadows, interleaving. It may be missing at "
        "first. The service reads it again when it changes, and the admin routes write it. Experiments "
        "are off if this is not set.",
    )
    poll_seconds: float = setting(
        0.5,
        low=0.01,
        high=3600,
        meaning="Seconds between two checks for moved aliases and changed experiments.",
    )
    load_timeout_seconds: float = setting(
        120.0,
        above=0,
        high=3600,
        meaning="Seconds after which a version that is still being loaded is given up and named as broken.",
    )
    switch_timeout_seconds: float = setting(
        30.0,
        low=0.1,
        high=3600,
        meaning="Seconds that a promotion waits until all workers have switched.",
    )
    drain_seconds: float = setting(
        0.0,
        low=0,
        high=3600,
        meaning="Seconds that the service still answers after SIGTERM, while it reports that it is not ready.",
    )
    hang_seconds: float = setting(
        10.0,
        low=0.5,
        high=3600,
        meaning="Seconds until a worker whose event loop does not respond is replaced; only with several "
        "workers.",
    )
    log_format: Literal["auto", "json", "text"] = setting(
        "auto", meaning="Log lines as JSON or text; auto is text on a terminal."
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info", meaning="Lowest level of log lines."
    )
    access_log: float = setting(
        0.0,
        low=0,
        high=1,
        meaning="Share of the requests with a line in the access log, from 0 (none) to 1 (all).",
    )
    access_log_features: int = setting(
        0,
        low=0,
        high=1000,
        meaning="Largest number of documents whose features a line of the access log shows; 0 shows none.",
    )
    impression_log: float = setting(
        0.0,
        low=0,
        high=1,
        meaning="Share of the rankings in the impression log, from 0 to 1. It holds documents, features and "
        "rankings, to learn from. 0 logs none and refuses feedback.",
    )
    impression_log_dir: Path = setting(
        Path("impressions"), meaning="Folder of the impression log; all workers write there."
    )
    impression_log_bytes: int = setting(
        2**30,
        low=2**20,
        high=2**44,
        meaning="Largest number of bytes of the impression log, a quarter of them for feedback; beyond that the oldest files are removed.",
    )
    evaluate_seconds: float = setting(
        10.0,
        low=0,
        high=3600,
        meaning="Seconds that POST /v1/evaluate may take; 0 turns it off.",
    )
    evaluate_queries: int = setting(
        1000, above=0, high=1_000_000, meaning="Largest number of queries in one POST /v1/evaluate."
    )
    evaluate_documents: int = setting(
        50_000,
        above=0,
        high=10_000_000,
        meaning="Largest number of documents in one POST /v1/evaluate.",
    )
    otel: bool = setting(
        False,
        meaning="Send traces by OpenTelemetry; its variables OTEL_... say where. Needs localrank[otel].",
    )
    sign_every: int = setting(
        50,
        low=0,
        high=1_000_000,
        meaning="One request in this many of a version without clusters is signed, to tell whether the traffic is like the "
        "training queries (drift); no answer depends on it. 0 signs none.",
    )
    runtime_dir: Path | None = setting(
        None,
        meaning="Folder where workers share their state. If this is not set, the service makes one and removes "
        "it at the end.",
    )

    def __post_init__(self) -> None:
        settle(self)
        if self.models_url is not None:
            object.__setattr__(self, "models_url", check_url(self.models_url))

    def preloaded(self) -> list[str]:
        """Return the versions that are loaded although no alias may stand for them, the default model's among them."""
        default = [self.model] if self.model is not None and _VERSION.fullmatch(self.model) else []
        return _parts(self.preload) + default

    def keyrings(self) -> tuple[Keyring, Keyring]:
        """Return the serving keys and the admin keys."""
        return (
            Keyring("serving", self.api_key, self.api_key_file),
            Keyring("admin", self.admin_key, self.admin_key_file),
        )

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], flags: Mapping[str, str] | None = None) -> Self:
        """Read the variables, let the flags override them; name what is wrong."""
        flags = flags or {}
        texts = {
            name.removeprefix(PREFIX).lower(): text
            for name, text in environ.items()
            # Compose files and unit files cannot leave a variable out, only empty.
            if text and name.startswith(PREFIX) and not name.startswith(_ELSEWHERE)
        }
        return read_texts(
            cls,
            {**texts, **flags},
            lambda name: f"--{name.replace('_', '-')}" if name in flags else PREFIX + name.upper(),
        )

    def to_environ(self) -> dict[str, str]:
        """Return the variables that make the same settings in another process."""
        return {
            PREFIX + name.upper(): str(value) for name, value in values_of(self).items() if value is not None
        }

    def public(self) -> dict[str, Any]:
        """Return the settings as JSON values, keys hidden."""
        hidden = {one.name for one in settings_of(type(self)) if one.secret}
        return {
            name: _HIDDEN if name in hidden and value is not None else plain(value)
            for name, value in values_of(self).items()
        }


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
