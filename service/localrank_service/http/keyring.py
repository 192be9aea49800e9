"""The keys of one role: those of the settings, and those of a file that is read again while the service runs.

A key is 8 to 512 printable ASCII characters without comma and colon. It may have a label in front, ``search:the-key``;
logs and metrics show the label and never the key. Only digests of keys are kept.

Invariant: a role with a key or a file in its settings stays closed to everybody without a key, whatever becomes of the
file. A file that cannot be used leaves the keys as they were.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
from typing import TYPE_CHECKING, NamedTuple

from localrank.disk import read_plain
from localrank.errors import InvalidConfiguration

if TYPE_CHECKING:
    from pathlib import Path

#: Name of the file, in the runtime folder, that holds a generated admin key.
GENERATED = "admin.key"

_log = logging.getLogger("localrank.service")
_LARGEST_FILE = 64 * 1024
_MOST_KEYS = 1000
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
_KEY = re.compile(r"[!-~]{8,512}")


class Key(NamedTuple):
    """A key that is accepted."""

    label: str
    digest: bytes


def parse_keys(text: str, role: str) -> tuple[Key, ...]:
    """Read keys that are separated by commas or line ends; lines that start with ``#`` are comments.

    A key without a label gets the role and its position as label, such as ``serving-1``.

    Raises:
        ValueError: a key is not one. The message gives its position, never its text.
    """
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    entries = [entry.strip() for line in lines for entry in line.split(",") if entry.strip()]
    if not entries:
        raise ValueError("expected at least one key, found none")
    if len(entries) > _MOST_KEYS:
        raise ValueError(f"expected at most {_MOST_KEYS} keys, found {len(entries)}")
    keys = []
    for position, entry in enumerate(entries, start=1):
        label, colon, key = entry.partition(":")
        if not colon:
            label, key = f"{role}-{position}", entry
        if not _LABEL.fullmatch(label):
            raise ValueError(
                f"label of key {position}: expected 1 to 32 letters, digits, '.', '_' and '-', the first a letter or digit"
            )
        if ":" in key or not _KEY.fullmatch(key):
            raise ValueError(
                f"key {position}: expected 8 to 512 printable ASCII characters without comma and colon"
            )
        keys.append(Key(label, _digest(key.encode())))
    return tuple(keys)


class Keyring:
    """The keys of one role. Those of the file are there after the first `refresh`.

    Attributes:
        role: ``serving`` or ``admin``.
        configured: whether the settings name a key or a file.
    """

    def __init__(self, role: str, keys: str | None = None, file: Path | None = None) -> None:
        self.role = role
        self.configured = keys is not None or file is not None
        self._fixed = () if keys is None else parse_keys(keys, role)
        self._file = file
        self._content: bytes | None = None
        self._complaint: str | None = None
        self._keys = self._fixed

    @property
    def labels(self) -> list[str]:
        """The labels of all keys; several keys may share one."""
        return [key.label for key in self._keys]

    def find(self, sent: bytes) -> str | None:
        """Return the label of the key that was sent, or ``None``."""
        digest, found = _digest(sent), None
        # Every key is compared, each in constant time, so that the time tells nothing about them.
        for key in self._keys:
            if hmac.compare_digest(digest, key.digest):
                found = key.label
        return found

    def check(self) -> None:
        """Raise `InvalidConfiguration` if the file cannot be used."""
        if self._file is not None:
            try:
                parse_keys(read_plain(self._file, _LARGEST_FILE).decode(), self.role)
            except (OSError, ValueError) as error:
                raise InvalidConfiguration(f"{self.role} key file {self._file}: {_reason(error)}") from None

    def refresh(self) -> None:
        """Read the file if it changed; if it cannot be used, keep the keys and log it once."""
        if self._file is None:
            return
        try:
            text = read_plain(self._file, _LARGEST_FILE)
            content = _digest(text)
            keys = None if content == self._content else parse_keys(text.decode(), self.role)
        except (OSError, ValueError) as error:
            if (complaint := _reason(error)) != self._complaint:
                self._complaint = complaint
                kept = (
                    "no key was read yet"
                    if self._content is None
                    else "the keys from the last reading stay valid"
                )
                _log.error("%s key file %s: %s; %s", self.role, self._file, complaint, kept)
            return
        self._complaint = None
        if keys is not None:
            if self._content is not None:
                labels = ", ".join(key.label for key in keys)
                _log.info("%s key file %s: read again; its keys are now %s", self.role, self._file, labels)
            self._content, self._keys = content, self._fixed + keys


def generate(folder: Path) -> Path:
    """Return the file in the folder that holds a generated key, readable by this user only.

    Processes that share the folder get the same file; the one that makes it logs its path.
    """
    target = folder / GENERATED
    draft = folder / f".{GENERATED}-{secrets.token_hex(8)}"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{secrets.token_urlsafe(24)}\n")
        # A link appears as a whole and replaces nothing.
        target.hardlink_to(draft)
        _log.warning("no admin key is set; a new one was written to %s", target)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return target


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "expected text in UTF-8"
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
