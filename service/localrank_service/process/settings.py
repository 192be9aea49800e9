"""Everything the service can be told; read once, then immutable.

Every field is the environment variable ``LOCALRANK_<NAME>`` and the flag ``--<name>`` of ``localrank serve``, and
stands in docs/operate/operations.md. A variable that is no field is an error, so that a typo cannot go unnoticed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from localrank.errors import InvalidConfiguration
from localrank.remote.address import check_url, without_password
from localrank_service.http.cors import parse_origins
from localrank_service.http.keyring import Keyring, parse_keys
from localrank_service.http.origin import parse_hosts

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "LOCALRANK_"

#: Settings of several values, separated by commas. Their flags may be given several times.
LISTS = ("allowed_hosts", "cors_origins", "preload")

#: Variables with our prefix that are not the service's: where tests find real data sets, what the load test sends.
_ELSEWHERE = ("LOCALRANK_COMPILER", "LOCALRANK_DATA", "LOCALRANK_LOAD_", "LOCALRANK_REQUIRE_NATIVE")


#: Pydantic's types of errors, in the words of the other messages.
_PLAIN = {
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_parsing": "expected a number",
    "bool_parsing": "expected true or false",
    "finite_number": "expected a finite number",
    "literal_error": "expected {expected}",
    "greater_than": "expected more than {gt:.12g}",
    "greater_than_equal": "expected at least {ge:.12g}",
    "less_than_equal": "expected at most {le:.12g}",
}

#: A model's name, which is checked where it is looked up, and a version.
_VERSION = re.compile(r"[^@\s]+@[1-9][0-9]{0,8}")


class Settings(BaseModel):
    """What an operator decides."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    models_dir: Path = Field(default=Path("models"), description="Folder of the published models.")
    models_url: str | None = Field(
        default=None,
        description="URL of a folder of models, such as s3://bucket/models. The service copies its models to "
        "--models-dir and follows its aliases. Needs localrank[remote].",
    )
    models_url_seconds: float = Field(
        default=10.0,
        ge=0.01,
        le=86_400,
        description="Seconds between two checks of the aliases at that URL.",
    )
    require_signature: Path | None = Field(
        default=None,
        description="File with Ed25519 public keys (PEM); one of them must have signed each version that is served.",
    )
    model: str | None = Field(default=None, description="Model for requests that name no model.")
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=8080, ge=0, le=65535, description="Port to listen on; 0 chooses a free port.")
    workers: int = Field(
        default=0,
        ge=0,
        le=256,
        description="Number of worker processes; 0 starts one per processor within the container's quota, at most 8.",
    )
    api_key: SecretStr | None = Field(
        default=None,
        description="Serving keys, separated by commas. Requests to /v1, /v2 and /info must send one of them (Bearer "
        "or X-API-Key).",
    )
    api_key_file: Path | None = Field(
        default=None, description="File with such keys, one per line; it is read again when it changes."
    )
    admin_key: SecretStr | None = Field(
        default=None,
        description="Admin keys, for routes that change something, separated by commas. The service generates one if "
        "none is set.",
    )
    admin_key_file: Path | None = Field(
        default=None, description="File with such keys, one per line; it is read again when it changes."
    )
    allow_anonymous: bool = Field(default=False, description="Listen beyond loopback without a serving key.")
    allowed_hosts: str = Field(
        default="",
        description="Host names of the service, separated by commas. Requests without a key and admin requests must "
        "use one of these names, localhost or an IP address; * allows every name.",
    )
    cors_origins: str = Field(
        default="",
        description="Origins whose pages may send requests from a browser, separated by commas, such as "
        "https://shop.example; * allows every page.",
    )
    max_documents: int = Field(
        default=5000, gt=0, le=100_000, description="Largest number of documents in one request."
    )
    max_body_bytes: int = Field(
        default=16 * 2**20,
        gt=0,
        le=2**30,
        description="Largest number of bytes in the body of one request, before and after decompression.",
    )
    max_concurrent_requests: int = Field(
        default=512,
        gt=0,
        le=1_000_000,
        description="Largest number of requests in flight in one worker, waiting ones included; further requests get "
        "429.",
    )
    max_documents_in_flight: int = Field(
        default=100_000,
        gt=0,
        le=2**31,
        description="Largest number of documents in all requests in flight in one worker; further requests get 429.",
    )
    max_queue_ms: float = Field(
        default=250.0,
        ge=0.01,
        le=600_000,
        description="Milliseconds that a request may wait for its turn during a burst; a request that would wait "
        "longer gets 429.",
    )
    overload_queue_ms: float = Field(
        default=1.0,
        ge=0.01,
        le=600_000,
        description="Milliseconds that a request may wait for its turn while the worker refuses other requests. Four "
        "requests may always wait.",
    )
    overload_degrade: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of the longest allowed wait, from 0 to 1. If requests wait longer than that, a cheaper "
        "ranking answers; at the longest wait requests get 429. 0 turns this off.",
    )
    max_connections: int = Field(
        default=4096,
        gt=0,
        le=1_000_000,
        description="Largest number of connections of one worker, within the limit of open files. If a new one "
        "comes, the worker closes the one that it has waited for longest.",
    )
    head_timeout_seconds: float = Field(
        default=10.0,
        ge=0.1,
        le=3600,
        description="Seconds within which the request line and headers must arrive.",
    )
    body_timeout_seconds: float = Field(
        default=30.0,
        ge=0.1,
        le=3600,
        description="Seconds within which the body of a request must arrive, and within which the client must read "
        "the answer.",
    )
    min_body_rate: int = Field(
        default=1024,
        ge=0,
        le=2**20,
        description="Lowest average speed of an arriving body in bytes per second; the first 5 seconds do not count.",
    )
    keep_alive_seconds: float = Field(
        default=75.0, ge=0.1, le=86_400, description="Seconds until the service closes an idle connection."
    )
    extra_features: Literal["ignore", "refuse"] = Field(
        default="ignore",
        description="If a request names features that the model does not have: ignore them with a warning, or refuse "
        "the request.",
    )
    preload: str = Field(
        default="",
        description="Versions that are loaded although no alias stands for them, such as web@3, separated by commas. "
        "Requests may name every version that is loaded.",
    )
    extra_versions: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="Largest number of further versions that one worker loads because requests with an admin key name "
        "them. 0 loads none.",
    )
    extra_versions_bytes: int = Field(
        default=2**30,
        gt=0,
        le=2**40,
        description="Largest number of bytes of those versions' files.",
    )
    ready: Literal["all", "any"] = Field(
        default="all",
        description="When the service is ready: if all champions are loaded (all), or if at least one is (any).",
    )
    experiments_file: Path | None = Field(
        default=None,
        description="JSON file with the experiments: canaries, splits, shadows, interleaving. It may be missing at "
        "first. The service reads it again when it changes, and the admin routes write it. Experiments "
        "are off if this is not set.",
    )
    poll_seconds: float = Field(
        default=0.5,
        ge=0.01,
        le=3600,
        description="Seconds between two checks for moved aliases and changed experiments.",
    )
    load_timeout_seconds: float = Field(
        default=120.0,
        gt=0,
        le=3600,
        description="Seconds after which a version that is still being loaded is given up and named as broken.",
    )
    switch_timeout_seconds: float = Field(
        default=30.0,
        ge=0.1,
        le=3600,
        description="Seconds that a promotion waits until all workers have switched.",
    )
    drain_seconds: float = Field(
        default=0.0,
        ge=0,
        le=3600,
        description="Seconds that the service still answers after SIGTERM, while it reports that it is not ready.",
    )
    hang_seconds: float = Field(
        default=10.0,
        ge=0.5,
        le=3600,
        description="Seconds until a worker whose event loop does not respond is replaced; only with several "
        "workers.",
    )
    log_format: Literal["auto", "json", "text"] = Field(
        default="auto", description="Log lines as JSON or text; auto is text on a terminal."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Lowest level of log lines."
    )
    access_log: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of the requests with a line in the access log, from 0 (none) to 1 (all).",
    )
    access_log_features: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="Largest number of documents whose features a line of the access log shows; 0 shows none.",
    )
    impression_log: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of the rankings in the impression log, from 0 to 1. It holds documents, features and "
        "rankings, to learn from. 0 logs none and refuses feedback.",
    )
    impression_log_dir: Path = Field(
        default=Path("impressions"), description="Folder of the impression log; all workers write there."
    )
    impression_log_bytes: int = Field(
        default=2**30,
        ge=2**20,
        le=2**44,
        description="Largest number of bytes of the impression log, a quarter of them for feedback; beyond that the oldest files are removed.",
    )
    evaluate_seconds: float = Field(
        default=10.0,
        ge=0,
        le=3600,
        description="Seconds that POST /v1/evaluate may take; 0 turns it off.",
    )
    evaluate_queries: int = Field(
        default=1000, gt=0, le=1_000_000, description="Largest number of queries in one POST /v1/evaluate."
    )
    evaluate_documents: int = Field(
        default=50_000,
        gt=0,
        le=10_000_000,
        description="Largest number of documents in one POST /v1/evaluate.",
    )
    otel: bool = Field(
        default=False,
        description="Send traces by OpenTelemetry; its variables OTEL_... say where. Needs localrank[otel].",
    )
    runtime_dir: Path | None = Field(
        default=None,
        description="Folder where workers share their state. If this is not set, the service makes one and removes "
        "it at the end.",
    )

    @field_validator("api_key", "admin_key")
    @classmethod
    def _are_keys(cls, keys: SecretStr | None) -> SecretStr | None:
        if keys is not None:
            parse_keys(keys.get_secret_value(), "key")
        return keys

    @field_validator("models_url")
    @classmethod
    def _is_url(cls, url: str | None) -> str | None:
        return None if url is None else check_url(url)

    @field_validator("preload")
    @classmethod
    def _are_versions(cls, preload: str) -> str:
        for address in _parts(preload):
            if not _VERSION.fullmatch(address):
                raise ValueError("expected versions such as web@3, separated by commas")
        return preload

    @field_validator("allowed_hosts")
    @classmethod
    def _are_hosts(cls, hosts: str) -> str:
        parse_hosts(hosts)
        return hosts

    @field_validator("cors_origins")
    @classmethod
    def _are_origins(cls, origins: str) -> str:
        parse_origins(origins)
        return origins

    def preloaded(self) -> list[str]:
        """Return the versions that are loaded although no alias may stand for them, the default model's among them."""
        default = [self.model] if self.model is not None and _VERSION.fullmatch(self.model) else []
        return _parts(self.preload) + default

    def keyrings(self) -> tuple[Keyring, Keyring]:
        """Return the serving keys and the admin keys."""

        def keyring(role: str, keys: SecretStr | None, file: Path | None) -> Keyring:
            return Keyring(role, None if keys is None else keys.get_secret_value(), file)

        return (
            keyring("serving", self.api_key, self.api_key_file),
            keyring("admin", self.admin_key, self.admin_key_file),
        )

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], **flags: Any) -> Self:
        """Read the variables, let the flags override them; name what is wrong."""
        members: dict[str, Any] = {
            name.removeprefix(PREFIX).lower(): text
            for name, text in environ.items()
            # Compose files and unit files cannot leave a variable out, only empty.
            if text and name.startswith(PREFIX) and not name.startswith(_ELSEWHERE)
        }
        members |= flags
        try:
            return cls.model_validate(members)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0])
            variable = f"--{name.replace('_', '-')}" if name in flags else PREFIX + name.upper()
            if first["type"] == "extra_forbidden":
                known = ", ".join(PREFIX + field.upper() for field in cls.model_fields)
                raise InvalidConfiguration(f"{variable}: no such setting; expected one of {known}") from None
            found = "" if "key" in name else f", found {without_password(repr(first['input']))}"
            plain = _PLAIN.get(first["type"])
            said = (
                plain.format_map(first.get("ctx", {}))
                if plain
                else first["msg"].removeprefix("Value error, ")
            )
            raise InvalidConfiguration(f"{variable}: {said[0].lower()}{said[1:]}{found}") from None

    def to_environ(self) -> dict[str, str]:
        """Return the variables that make the same settings in another process."""
        return {
            PREFIX + name.upper(): value.get_secret_value() if isinstance(value, SecretStr) else str(value)
            for name, value in self
            if value is not None
        }

    def public(self) -> dict[str, Any]:
        """Return the settings as JSON values, keys hidden."""
        return self.model_dump(mode="json")


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
