from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from localrank.errors import InvalidConfiguration
from localrank.settings import settings_of
from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path


def test_settings_come_from_the_environment_and_flags_override_them() -> None:
    environ = {
        "LOCALRANK_PORT": "9000",
        "LOCALRANK_HOST": "::1",
        "LOCALRANK_ALLOW_ANONYMOUS": "true",
        "LOCALRANK_MODEL": "",
        "PORT": "1",
        # These are of the tests and the load test.
        "LOCALRANK_DATA": "/data",
        "LOCALRANK_LOAD_KEY": "key",
        "LOCALRANK_REQUIRE_NATIVE": "1",
    }

    settings = Settings.from_environ(environ, {"host": "127.0.0.2"})

    assert Settings(port=9000, host="127.0.0.2", allow_anonymous=True) == settings


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"MAX_DOCS": "5"}, "MAX_DOCS: no such setting; did you mean 'LOCALRANK_MAX_DOCUMENTS'? (expected: "),
        ({"": "5"}, ": no such setting"),
        ({"PORT": "http"}, "PORT: expected a whole number, found 'http'"),
        ({"PORT": "70000"}, "PORT: expected at most 65535, found 70000"),
        ({"READY": "x"}, "READY: expected one of 'all', 'any', found 'x'"),
        ({"API_KEY": "short"}, "API_KEY: key 1: expected 8 to 512 printable ASCII"),
        ({"ADMIN_KEY": ","}, "ADMIN_KEY: expected at least one key, found none"),
        (
            {"MODELS_URL": "s3"},
            "MODELS_URL: expected a URL such as s3://bucket/models or file:///srv/models, f",
        ),
        ({"MODELS_URL": "s3://me:secret@b"}, "MODELS_URL: expected a URL without a password"),
        ({"ALLOWED_HOSTS": "a/b"}, "ALLOWED_HOSTS: expected host names such as rank.example, without scheme"),
        ({"CORS_ORIGINS": "a,*"}, "CORS_ORIGINS: expected origins"),
        (
            {"PRELOAD": "web@3,web"},
            "PRELOAD: expected versions such as web@3, separated by commas, found 'web",
        ),
    ],
)
def test_a_wrong_variable_is_named(environ: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        Settings.from_environ({f"LOCALRANK_{name}": text for name, text in environ.items()})

    sentence = str(caught.value)
    assert sentence.startswith(f"LOCALRANK_{said}")
    assert "\n" not in sentence
    assert "short" not in sentence
    assert "secret" not in sentence


@pytest.mark.parametrize(
    "members",
    [{}, {"api_key": "a-long-key", "model": "demo@3", "allow_anonymous": True, "drain_seconds": 2.5}],
)
def test_settings_survive_the_way_to_a_worker(members: dict[str, Any]) -> None:
    settings = Settings(**members)

    assert settings == Settings.from_environ(settings.to_environ())


def test_settings_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().port = 1  # type: ignore[misc]


@pytest.mark.slow
def test_only_asking_for_the_application_reads_the_environment() -> None:
    def imported(statement: str) -> subprocess.CompletedProcess[str]:
        probe = f"import os; os.environ['LOCALRANK_NOPE'] = '1'; {statement}"
        return subprocess.run([sys.executable, "-c", probe], check=False, capture_output=True, text=True)

    assert 0 == imported("import localrank_service.app").returncode
    asked = imported("from localrank_service.app import app")
    assert 1 == asked.returncode
    assert "LOCALRANK_NOPE: no such setting" in asked.stderr
    assert "AttributeError" in imported("from localrank_service import app; app.application").stderr


def test_every_number_has_limits() -> None:
    numbers = [one for one in settings_of(Settings) if one.hint in {int, float}]

    assert len(numbers) > 20
    for one in numbers:
        low, high, above = (one.bounds[bound] for bound in ("low", "high", "above"))
        assert (low is None) != (above is None), one.name
        for wrong in (low - 1 if above is None else above, high + 1):
            with pytest.raises(InvalidConfiguration, match=f"^--{one.name.replace('_', '-')}: .*, found "):
                Settings.from_environ({}, {one.name: str(wrong)})


def test_keys_of_both_roles_come_from_their_own_settings(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("the-filed-key")

    serving, admin = Settings(api_key="search:the-serving-key", admin_key_file=tmp_path / "keys").keyrings()

    assert ("serving", "admin", True, True) == (
        serving.role,
        admin.role,
        serving.configured,
        admin.configured,
    )
    assert [False, False] == [ring.configured for ring in Settings().keyrings()]


def test_what_is_shown_of_the_settings_holds_no_key() -> None:
    settings = Settings(api_key="the-serving-key", admin_key="the-admin-key", port=1)

    shown = settings.public()

    assert [one.name for one in settings_of(Settings)] == list(shown)
    assert (1, "models", None) == (shown["port"], shown["models_dir"], shown["model"])
    assert "-key" not in f"{shown} {settings}"
