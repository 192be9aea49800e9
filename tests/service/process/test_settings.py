from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from localrank.errors import InvalidConfiguration
from localrank_service.process.settings import Settings

OPERATIONS = Path(__file__).parents[3] / "docs" / "operations.md"


def test_settings_come_from_the_environment_and_flags_override_them() -> None:
    environ = {
        "LOCALRANK_PORT": "9000",
        "LOCALRANK_HOST": "::1",
        "LOCALRANK_ALLOW_ANONYMOUS": "true",
        "PORT": "1",
    }

    settings = Settings.from_environ(environ, host="127.0.0.2")

    assert (9000, "127.0.0.2", True) == (settings.port, settings.host, settings.allow_anonymous)


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        (
            {"LOCALRANK_MAX_DOCS": "5"},
            "LOCALRANK_MAX_DOCS: no such setting; expected one of LOCALRANK_MODELS_DIR",
        ),
        ({"LOCALRANK_": "5"}, "LOCALRANK_: no such setting"),
        ({"LOCALRANK_PORT": "http"}, "LOCALRANK_PORT: .* found 'http'"),
        ({"LOCALRANK_PORT": "70000"}, "LOCALRANK_PORT: .* 65535, found '70000'"),
        ({"LOCALRANK_WORKERS": "-1"}, "LOCALRANK_WORKERS: .* greater than or equal to 0"),
        ({"LOCALRANK_EXTRA_FEATURES": "warn"}, "LOCALRANK_EXTRA_FEATURES: .*'ignore' or 'refuse'"),
        ({"LOCALRANK_API_KEY": "short"}, "LOCALRANK_API_KEY: key 1: expected 8 to 512 printable ASCII"),
    ],
)
def test_a_wrong_variable_is_named(environ: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidConfiguration, match=said) as caught:
        Settings.from_environ(environ)

    assert "\n" not in str(caught.value)


def test_a_wrong_key_is_not_repeated() -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        Settings.from_environ({"LOCALRANK_ADMIN_KEY": "secret"})

    assert "secret" not in str(caught.value)


def test_variables_of_the_tests_and_the_load_test_are_no_settings() -> None:
    elsewhere = {"LOCALRANK_DATA": "/data", "LOCALRANK_LOAD_KEY": "key", "LOCALRANK_REQUIRE_NATIVE": "1"}

    assert Settings() == Settings.from_environ(elsewhere)


def test_an_empty_variable_is_none() -> None:
    assert Settings() == Settings.from_environ({"LOCALRANK_API_KEY": "", "LOCALRANK_PORT": ""})


@pytest.mark.parametrize(
    "members",
    [{}, {"api_key": "a-long-key", "model": "demo@3", "allow_anonymous": True, "drain_seconds": 2.5}],
)
def test_settings_survive_the_way_to_a_worker(members: dict[str, Any]) -> None:
    settings = Settings.model_validate(members)

    assert settings == Settings.from_environ(settings.to_environ())


def test_settings_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().port = 1


def test_every_setting_is_described_and_documented() -> None:
    documented = OPERATIONS.read_text()

    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert f"`LOCALRANK_{name.upper()}`" in documented, name


def test_importing_the_application_reads_no_environment() -> None:
    probe = "import os; os.environ['LOCALRANK_NOPE'] = '1'; import localrank_service.app"

    assert 0 == subprocess.run([sys.executable, "-c", probe], check=False).returncode


def test_but_asking_for_it_does() -> None:
    probe = "import os; os.environ['LOCALRANK_NOPE'] = '1'; from localrank_service.app import app"

    answer = subprocess.run([sys.executable, "-c", probe], check=False, capture_output=True, text=True)

    assert 1 == answer.returncode
    assert "LOCALRANK_NOPE: no such setting" in answer.stderr


def test_the_module_has_no_other_surprises() -> None:
    import localrank_service.app

    with pytest.raises(AttributeError, match="application"):
        _ = localrank_service.app.application
