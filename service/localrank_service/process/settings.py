"""Everything the service can be told; read once, then immutable.

Every field is the environment variable ``LOCALRANK_<NAME>`` and the flag ``--<name>`` of ``localrank serve``, and
stands in docs/operations.md. A variable that is no field is an error, so that a typo cannot go unnoticed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from localrank.errors import InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PREFIX", "Settings"]

PREFIX = "LOCALRANK_"

#: Variables with our prefix that are not the service's: where tests find real data sets, what the load test sends.
_ELSEWHERE = ("LOCALRANK_DATA", "LOCALRANK_LOAD_")


class Settings(BaseModel):
    """What an operator decides."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    models_dir: Path = Field(default=Path("models"), description="Folder of the published models.")
    model: str | None = Field(default=None, description="Model that answers requests which name none.")
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=8080, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    workers: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="Worker processes; 0 is one for each processor that the container's quota allows, 8 at most.",
    )
    api_key: SecretStr | None = Field(
        default=None, description="Key that requests to /v1 and /info must carry (Bearer or X-API-Key)."
    )
    admin_key: SecretStr | None = Field(
        default=None,
        description="Key for routes that change something; made and printed at start when unset.",
    )
    allow_anonymous: bool = Field(
        default=False, description="Listen beyond loopback although no api_key is set."
    )
    allowed_hosts: str = Field(
        default="",
        description="Host names, separated by commas, that admin requests may address, besides localhost and "
        "IP addresses.",
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
    extra_features: Literal["ignore", "refuse"] = Field(
        default="ignore",
        description="Named features the model does not know: ignored with a warning, or refused.",
    )
    extra_versions: int = Field(
        default=4,
        ge=0,
        le=1000,
        description="Versions without an alias kept loaded because requests named them.",
    )
    ready: Literal["all", "any"] = Field(
        default="all", description="Ready when all models with a champion verified, or when at least one did."
    )
    poll_seconds: float = Field(
        default=0.5, gt=0, le=3600, description="How often workers look for moved aliases, in seconds."
    )
    switch_timeout_seconds: float = Field(
        default=30.0, gt=0, le=3600, description="How long a promotion waits for all workers to switch."
    )
    drain_seconds: float = Field(
        default=0.0,
        ge=0,
        le=3600,
        description="Seconds after SIGTERM in which requests are still accepted, unready.",
    )
    hang_seconds: float = Field(
        default=10.0,
        gt=0,
        le=3600,
        description="One of several workers whose event loop stands still for so many seconds is replaced.",
    )
    log_format: Literal["auto", "json", "text"] = Field(
        default="auto", description="Log lines as JSON or text; auto is text on a terminal."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level logged."
    )
    access_log: bool = Field(default=False, description="Log every request.")
    runtime_dir: Path | None = Field(
        default=None,
        description="Where workers share their state; made and removed by the service when unset.",
    )

    @field_validator("api_key", "admin_key")
    @classmethod
    def _long_enough(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None and len(key.get_secret_value()) < 8:
            raise ValueError("a key has 8 characters at least")
        return key

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
            found = "" if "key" in name else f", found {first['input']!r}"
            raise InvalidConfiguration(f"{variable}: {first['msg'].lower()}{found}") from None

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
