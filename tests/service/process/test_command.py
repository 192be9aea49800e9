"""What ``localrank serve`` refuses before anything starts, and what it cleans up; tests/end_to_end has real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from localrank.__main__ import main
from localrank_service.process.command import _listening, _runtime_dir
from localrank_service.process.settings import Settings

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


def test_a_default_model_must_be_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert 1 == main(["serve", "--model", "absent", *MODELS])

    assert "--model absent: " in capsys.readouterr().err


def test_keys_to_trust_must_be_readable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["serve", "--require-signature", str(tmp_path / "none.pem"), *MODELS])

    assert "none.pem: cannot read keys" in capsys.readouterr().err


def test_the_runtime_folder_is_private_and_goes_with_the_service() -> None:
    with _runtime_dir(Settings()) as folder:
        (folder / "left").touch()
        mode = folder.stat().st_mode & 0o777

    assert 0o700 == mode
    assert not folder.exists()


def test_a_runtime_folder_of_the_operator_stays(tmp_path: Path) -> None:
    with _runtime_dir(Settings(runtime_dir=tmp_path)) as folder:
        assert tmp_path == folder

    assert tmp_path.is_dir()


def test_the_port_is_taken_before_anything_starts() -> None:
    with _listening(Settings(port=0)) as listener:
        assert listener.get_inheritable()
        assert listener.getsockname()[1] > 0
