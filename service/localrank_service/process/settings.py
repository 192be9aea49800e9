"""Everything the service can be told; read once, then immutable.

Every field is the environment variable ``LOCALRANK_<NAME>`` and the flag ``--<name>`` of ``localrank serve``, and
stands in docs/operations.md. A variable that is no field is an error, so that a typo cannot go unnoticed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from localrank.errors import InvalidConfiguration
from localrank.remote.address import check_url, without_password
from localrank_service.http.cors import parse_origins
from localrank_service.http.keyring import Keyring, parse_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PREFIX", "Settings"]

PREFIX = "LOCALRANK_"

#: Variables with our prefix that are not the service's: where tests find real data sets, what the load test sends.
_ELSEWHERE = ("LOCALRANK_COMPILER", "LOCALRANK_DATA", "LOCALRANK_LOAD_", "LOCALRANK_REQUIRE_NATIVE")


class Settings(BaseModel):
    """What an operator decides."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    models_dir: Path = Field(default=Path("models"), description="Folder of the published models.")
    models_url: str | None = Field(
        default=None,
        description="Folder of models at a URL, such as s3://bucket/models; the folder of models is then its copy here, and "
        "follows its aliases. Needs localrank[remote].",
    )
    models_url_seconds: float = Field(
        default=10.0,
        gt=0,
        le=86_400,
        description="How often the aliases at that URL are looked at, in seconds.",
    )
    require_signature: Path | None = Field(
        default=None,
        description="File with Ed25519 public keys (PEM); one of them must have signed each version that is served.",
    )
    model: str | None = Field(default=None, description="Model for requests that name no model.")
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=8080, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    workers: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="Worker processes; 0 is one for each processor that the container's quota allows, 8 at most.",
    )
    api_key: SecretStr | None = Field(
        default=None,
        description="Keys that requests to /v1, /v2 and /info must carry (Bearer or X-API-Key), separated by commas.",
    )
    api_key_file: Path | None = Field(
        default=None, description="File with such keys, one per line; it is read again when it changes."
    )
    admin_key: SecretStr | None = Field(
        default=None,
        description="Keys for routes that change something, separated by commas; one is generated if none is set.",
    )
    admin_key_file: Path | None = Field(
        default=None, description="File with such keys, one per line; it is read again when it changes."
    )
    allow_anonymous: bool = Field(default=False, description="Listen beyond loopback without a serving key.")
    allowed_hosts: str = Field(
        default="",
        description="Host names, separated by commas, that requests without a key and admin requests may address, "
        "besides localhost and IP addresses; * allows every name.",
    )
    cors_origins: str = Field(
        default="",
        description="Origins, separated by commas, whose pages may ask from a browser, such as https://shop.example; * "
        "allows every page.",
    )
    max_documents: int = Field(
        default=5000, gt=0, le=100_000, description="Documents of one request, at most."
    )
    max_body_bytes: int = Field(
        default=16 * 2**20,
        gt=0,
        le=2**31,
        description="Bytes of one request's body, at most, also when decompressed.",
    )
    max_concurrent_requests: int = Field(
        default=512,
        gt=0,
        le=1_000_000,
        description="Requests of one worker that are answered or wait for their turn, at most; more are refused, 429.",
    )
    max_documents_in_flight: int = Field(
        default=100_000,
        gt=0,
        le=2**31,
        description="Documents of all requests that a worker answers at the same time; more are refused, 429.",
    )
    max_queue_ms: float = Field(
        default=250.0,
        gt=0,
        le=600_000,
        description="Milliseconds that a request of a burst may wait for its turn; one that would wait longer is "
        "refused, 429.",
    )
    overload_queue_ms: float = Field(
        default=1.0,
        gt=0,
        le=600_000,
        description="Milliseconds that a request may wait for its turn while others are refused; four requests may "
        "always wait.",
    )
    overload_degrade: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of the longest wait beyond which a cheaper ranking answers, before requests are refused, 429; 0 "
        "never degrades for overload.",
    )
    max_connections: int = Field(
        default=4096,
        gt=0,
        le=1_000_000,
        description="Connections of one worker, at most, and never more than it may open; the one that has kept the "
        "worker waiting longest is closed for a new one.",
    )
    head_timeout_seconds: float = Field(
        default=10.0, gt=0, le=3600, description="Seconds in which a request's line and headers must arrive."
    )
    body_timeout_seconds: float = Field(
        default=30.0,
        gt=0,
        le=3600,
        description="Seconds in which a request's body must arrive, and in which a client must take its answer.",
    )
    min_body_rate: int = Field(
        default=1024,
        ge=0,
        le=2**31,
        description="Bytes a second that a body must arrive with on average, after its first 5 seconds.",
    )
    keep_alive_seconds: float = Field(
        default=75.0, gt=0, le=86_400, description="Seconds after which an idle connection is closed."
    )
    extra_features: Literal["ignore", "refuse"] = Field(
        default="ignore",
        description="Named features that the model does not know: ignore them with a warning, or refuse the request.",
    )
    extra_versions: int = Field(
        default=4,
        ge=0,
        le=1000,
        description="Versions without an alias that stay loaded after requests have named them, at most.",
    )
    ready: Literal["all", "any"] = Field(
        default="all", description="Ready when all champions are loaded (all), or when at least one is (any)."
    )
    experiments_file: Path | None = Field(
        default=None,
        description="JSON file with the experiments: canaries, splits, shadows, interleaving; it need not exist yet, is read "
        "again when it changes, and is written by the admin routes. Experiments are off if this is not set.",
    )
    poll_seconds: float = Field(
        default=0.5,
        gt=0,
        le=3600,
        description="How often workers look for moved aliases and changed experiments, in seconds.",
    )
    switch_timeout_seconds: float = Field(
        default=30.0, gt=0, le=3600, description="Seconds that a promotion waits for all workers to switch."
    )
    drain_seconds: float = Field(
        default=0.0,
        ge=0,
        le=3600,
        description="Seconds after SIGTERM in which the service still answers but is not ready.",
    )
    hang_seconds: float = Field(
        default=10.0,
        gt=0,
        le=3600,
        description="After this many seconds without a turn of its event loop, one of several workers is replaced.",
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
        description="Share of the requests that are logged, from 0 (none) to 1 (all).",
    )
    access_log_features: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="Documents of a logged request whose features the line shows, at most; 0 shows none.",
    )
    impression_log: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of the requests whose documents, with their features, and rankings are logged to learn from; "
        "0 logs none and refuses feedback.",
    )
    impression_log_dir: Path = Field(
        default=Path("impressions"), description="Folder of the impression log; all workers write there."
    )
    impression_log_bytes: int = Field(
        default=2**30,
        ge=2**20,
        description="Bytes of the impression log, at most; the oldest files are removed.",
    )
    evaluate_seconds: float = Field(
        default=10.0,
        ge=0,
        le=3600,
        description="Seconds that POST /v1/evaluate may take; 0 turns it off.",
    )
    evaluate_queries: int = Field(
        default=1000, gt=0, le=1_000_000, description="Queries of one POST /v1/evaluate, at most."
    )
    evaluate_documents: int = Field(
        default=50_000, gt=0, le=10_000_000, description="Documents of one POST /v1/evaluate, at most."
    )
    otel: bool = Field(
        default=False,
        description="Send traces by OpenTelemetry, as its variables OTEL_... say; needs localrank[otel].",
    )
    runtime_dir: Path | None = Field(
        default=None,
        description="Folder where workers share their state; the service makes and removes one if this is not set.",
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

    @field_validator("cors_origins")
    @classmethod
    def _are_origins(cls, origins: str) -> str:
        parse_origins(origins)
        return origins

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
            said = first["msg"].removeprefix("Value error, ")
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
