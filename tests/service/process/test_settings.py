from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from localrank.errors import InvalidConfiguration
from localrank_service.process.settings import Settings

OPERATIONS = Path(__file__).parents[3] / "docs" / "operate" / "operations.md"


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
        ({"LOCALRANK_WORKERS": "-1"}, "^LOCALRANK_WORKERS: expected at least 0, found '-1'$"),
        ({"LOCALRANK_WORKERS": "1.5"}, "^LOCALRANK_WORKERS: expected a whole number, found '1.5'$"),
        (
            {"LOCALRANK_MAX_DOCUMENTS": "1" + "0" * 11},
            "^LOCALRANK_MAX_DOCUMENTS: expected at most [0-9]+, found '1",
        ),
        ({"LOCALRANK_PORT": "65536"}, "^LOCALRANK_PORT: expected at most 65535, found '65536'$"),
        ({"LOCALRANK_POLL_SECONDS": "0"}, "^LOCALRANK_POLL_SECONDS: expected at least 0.01, found '0'$"),
        ({"LOCALRANK_DRAIN_SECONDS": "x"}, "^LOCALRANK_DRAIN_SECONDS: expected a number, found 'x'$"),
        ({"LOCALRANK_OTEL": "maybe"}, "^LOCALRANK_OTEL: expected true or false, found 'maybe'$"),
        ({"LOCALRANK_READY": "x"}, "^LOCALRANK_READY: expected 'all' or 'any', found 'x'$"),
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


@pytest.mark.slow
def test_but_asking_for_it_does() -> None:
    probe = "import os; os.environ['LOCALRANK_NOPE'] = '1'; from localrank_service.app import app"

    answer = subprocess.run([sys.executable, "-c", probe], check=False, capture_output=True, text=True)

    assert 1 == answer.returncode
    assert "LOCALRANK_NOPE: no such setting" in answer.stderr


def test_the_module_has_no_other_surprises() -> None:
    import localrank_service.app

    with pytest.raises(AttributeError, match="application"):
        _ = localrank_service.app.application


def documented_defaults() -> dict[str, str]:
    """The default of each variable in the table of docs/operate/operations.md, if it names one."""
    rows = re.findall(r"^\| `LOCALRANK_(\w+)` \|([^|]*)\|", OPERATIONS.read_text(), re.MULTILINE)
    return {name.lower(): text.strip().strip("`") for name, text in rows}


def test_defaults_are_the_documented_ones() -> None:
    documented = documented_defaults()
    made_at_start = {"admin_key", "runtime_dir"}

    for name, default in Settings():
        text = documented[name]
        if not text or name in made_at_start:
            assert default in (None, ""), name
        else:
            assert default == getattr(Settings.model_validate({name: text}), name), name
            assert type(default) is type(getattr(Settings.model_validate({name: text}), name))


@pytest.mark.parametrize(
    ("name", "least", "below", "most", "above"),
    [
        ("port", 0, -1, 65535, 65536),
        ("workers", 0, -1, 256, 257),
        ("models_url_seconds", 0.01, 0.009, 86_400, 86_401),
        ("max_documents", 1, 0, 100_000, 100_001),
        ("max_body_bytes", 1, 0, 2**30, 2**30 + 1),
        ("max_concurrent_requests", 1, 0, 1_000_000, 1_000_001),
        ("max_documents_in_flight", 1, 0, 2**31, 2**31 + 1),
        ("max_queue_ms", 0.01, 0.009, 600_000, 600_001),
        ("overload_queue_ms", 0.01, 0.009, 600_000, 600_001),
        ("overload_degrade", 0, -0.1, 1, 1.1),
        ("max_connections", 1, 0, 1_000_000, 1_000_001),
        ("head_timeout_seconds", 0.1, 0.09, 3600, 3601),
        ("body_timeout_seconds", 0.1, 0.09, 3600, 3601),
        ("min_body_rate", 0, -1, 2**20, 2**20 + 1),
        ("keep_alive_seconds", 0.1, 0.09, 86_400, 86_401),
        ("extra_versions", 0, -1, 1000, 1001),
        ("poll_seconds", 0.01, 0.009, 3600, 3601),
        ("switch_timeout_seconds", 0.1, 0.09, 3600, 3601),
        ("drain_seconds", 0, -0.1, 3600, 3601),
        ("hang_seconds", 0.5, 1e-9, 3600, 3601),
        ("access_log", 0, -0.1, 1, 1.1),
        ("access_log_features", 0, -1, 1000, 1001),
        ("impression_log", 0, -0.1, 1, 1.1),
        ("impression_log_bytes", 2**20, 2**20 - 1, 2**44, 2**44 + 1),
        ("evaluate_seconds", 0, -0.1, 3600, 3601),
        ("evaluate_queries", 1, 0, 1_000_000, 1_000_001),
        ("evaluate_documents", 1, 0, 10_000_000, 10_000_001),
    ],
)
def test_numbers_have_limits(name: str, least: float, below: float, most: float, above: float) -> None:
    for value in (least, most):
        assert value == getattr(Settings.model_validate({name: value}), name)
    for wrong in (below, above):
        with pytest.raises(InvalidConfiguration, match=f"LOCALRANK_{name.upper()}: .*, found "):
            Settings.from_environ({f"LOCALRANK_{name.upper()}": str(wrong)})


def test_a_wrong_flag_is_named_as_a_flag() -> None:
    with pytest.raises(InvalidConfiguration, match=r"^--max-documents: .* found '0'$"):
        Settings.from_environ({}, max_documents="0")


def test_keys_of_both_roles_come_from_their_own_settings(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("the-filed-key")
    settings = Settings.model_validate(
        {"api_key": "search:the-serving-key", "admin_key_file": tmp_path / "keys"}
    )
    neither = Settings()

    serving, admin = settings.keyrings()

    assert ("serving", "admin", True, True) == (
        serving.role,
        admin.role,
        serving.configured,
        admin.configured,
    )
    assert [False, False] == [ring.configured for ring in neither.keyrings()]


def test_what_is_shown_of_the_settings_holds_no_key() -> None:
    settings = Settings.model_validate(
        {"api_key": "the-serving-key", "admin_key": "the-admin-key", "port": 1}
    )

    shown = settings.public()

    assert Settings.model_fields.keys() == shown.keys()
    assert (1, "models") == (shown["port"], shown["models_dir"])
    assert "-key" not in str({shown["api_key"], shown["admin_key"]})
