from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from localrank.errors import InvalidConfiguration
from localrank_service.http.keyring import Keyring, generate, parse_keys

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("the-key-1", ["serving-1"]),
        ("the-key-1,the-key-2", ["serving-1", "serving-2"]),
        ("search:the-key-1, the-key-2 ,", ["search", "serving-2"]),
        (
            "# who: the search team\nsearch:the-key-1\n\nshop:the-key-2\r\nshop:the-key-3",
            ["search", "shop", "shop"],
        ),
        ("a" * 512, ["serving-1"]),
        ("b64+/==secret", ["serving-1"]),
    ],
)
def test_keys_are_separated_by_commas_and_lines_and_may_have_labels(text: str, labels: list[str]) -> None:
    assert labels == [key.label for key in parse_keys(text, "serving")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "at least one key"),
        ("# none yet\n\n , \n", "at least one key"),
        ("seven77", "key 1: expected 8 to 512"),
        ("long-enough,secret", "key 2: expected 8 to 512"),
        ("secret with spaces", "key 1: expected"),
        ("schlüssel-secret", "key 1: expected"),
        ("a:secret:secret-key", "key 1: expected"),
        (":secret-key", "label of key 1: expected"),
        ("my label:secret-key", "label of key 1: expected"),
        ("s" * 513, "key 1: expected"),
        (",".join(f"secret-{i:04}" for i in range(1001)), "at most 1000 keys, found 1001"),
    ],
)
def test_what_is_no_key_is_refused_and_not_repeated(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        parse_keys(text, "serving")

    assert "secret" not in str(caught.value)


def test_only_a_whole_key_is_found() -> None:
    keyring = Keyring("serving", "search:the-key-1,the-key-2")

    found = [
        keyring.find(sent)
        for sent in (b"the-key-1", b"the-key-2", b"the-key-", b"the-key-11", b"", b"search")
    ]

    assert ["search", "serving-2", None, None, None, None] == found


def removed(path: Path) -> None:
    path.unlink()


def emptied(path: Path) -> None:
    path.write_text("")


def spoiled(path: Path) -> None:
    path.write_text("new-key-1\nshort")


def binary(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")


def enlarged(path: Path) -> None:
    path.write_text("new-key-1\n" * 10_000)


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


@pytest.mark.parametrize("change", [removed, emptied, spoiled, binary, enlarged, piped, a_folder, dangling])
def test_a_file_that_cannot_be_used_keeps_the_keys_and_is_logged_once(
    change: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys"
    path.write_text("old-key-1")
    keyring = Keyring("serving", file=path)
    keyring.refresh()

    change(path)
    for _ in range(3):
        keyring.refresh()

    assert ["serving-1", None] == [keyring.find(key) for key in (b"old-key-1", b"new-key-1")]
    assert keyring.configured
    [record] = caplog.records
    assert record.getMessage().startswith(f"serving key file {path}: ")
    assert record.getMessage().endswith("; the keys from the last reading stay valid")
    assert "key-1" not in caplog.text
    with pytest.raises(InvalidConfiguration, match=f"serving key file {path}: "):
        keyring.check()


def test_a_file_that_is_mended_is_read_and_its_next_fault_logged_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    path = tmp_path / "keys"
    path.write_text("old-key-1")
    keyring = Keyring("serving", "fixed-key", path)
    keyring.refresh()

    path.unlink()
    keyring.refresh()
    path.write_text("search:new-key-1")
    keyring.refresh()
    path.unlink()
    keyring.refresh()

    assert ["serving-1", None, "search"] == [
        keyring.find(key) for key in (b"fixed-key", b"old-key-1", b"new-key-1")
    ]
    said = [record.getMessage().partition(f"{path}: ")[2] for record in caplog.records]
    missing = "No such file or directory; the keys from the last reading stay valid"
    assert [missing, "read again; its keys are now search", missing] == said
    assert "new-key-1" not in caplog.text


def test_without_its_file_a_keyring_is_closed_and_not_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keyring = Keyring("serving", file=tmp_path / "none")
    keyring.refresh()

    assert keyring.configured
    assert [None, None] == [keyring.find(b""), keyring.find(b"anything")]
    assert "no key was read yet" in caplog.text


def test_a_file_of_the_same_length_and_time_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("old-key-1")
    keyring = Keyring("serving", file=path)
    keyring.refresh()
    before = path.stat()

    path.write_text("new-key-1")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    keyring.refresh()

    assert [None, "serving-1"] == [keyring.find(key) for key in (b"old-key-1", b"new-key-1")]


def test_a_mounted_secret_that_moves_its_link_is_followed(tmp_path: Path) -> None:
    """Kubernetes shows a secret through a link to a folder, and replaces the link."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "keys").write_text(f"key-of-{name}")
    (tmp_path / "data").symlink_to("one")
    keyring = Keyring("serving", file=tmp_path / "data" / "keys")
    keyring.refresh()

    (tmp_path / "new").symlink_to("two")
    (tmp_path / "new").replace(tmp_path / "data")
    keyring.refresh()

    assert [None, "serving-1"] == [keyring.find(key) for key in (b"key-of-one", b"key-of-two")]


def test_processes_that_share_a_folder_share_the_generated_key(tmp_path: Path) -> None:
    for folder in ("run", "other"):
        (tmp_path / folder).mkdir()

    first = generate(tmp_path / "run").read_text()
    second = generate(tmp_path / "run").read_text()

    assert first == second
    assert len(first.strip()) >= 32
    assert first != generate(tmp_path / "other").read_text()
    assert ["admin.key"] == [path.name for path in (tmp_path / "run").iterdir()]
