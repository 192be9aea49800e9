"""Who vouches for a version: Ed25519 signatures over the bytes of its manifest.

The manifest names the version and lists every file with its SHA-256, so a signature of it covers the whole version. The
signatures stand beside the version, in ``<version>.signatures.json``, because a version is never modified.

Keys are PEM files as openssl writes them. ``cryptography`` does the arithmetic and is imported when it is needed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from localrank.artifact.arrays import names_in, open_file, read_up_to
from localrank.artifact.manifest import LARGEST_MANIFEST, MANIFEST, digest_in, parse_object
from localrank.disk import read_plain
from localrank.errors import ArtifactCorrupt, ArtifactUntrusted, InvalidConfiguration
from localrank.extras import installing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

#: Bytes of a file of signatures or of keys.
LARGEST_SIGNATURES = 64 * 1024
_ALGORITHM = "ed25519"
_BLOCK = re.compile(rb"-----BEGIN ([A-Z ]+)-----[^-]*-----END \1-----")


def signatures_name(folder: Path) -> str:
    """Return the name of the file with the signatures of a version; it stands beside the version's folder."""
    return f"{folder.resolve().name}.signatures.json"


def key_id(key: Ed25519PublicKey) -> str:
    """Return the name of a key: the SHA-256 of its 32 bytes, in hexadecimal digits."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()


class TrustedKeys:
    """The public keys whose signatures count."""

    def __init__(self, keys: Mapping[str, Ed25519PublicKey]) -> None:
        self._keys = dict(keys)

    @classmethod
    def read(cls, path: Path) -> TrustedKeys:
        """Read one or several Ed25519 public keys from a PEM file.

        Raises:
            InvalidConfiguration: the file cannot be read, or holds none, or something else.
        """
        _check_installed()
        content = _read(path)
        blocks = [(match[1].decode(), match[0]) for match in _BLOCK.finditer(content)]
        if not blocks:
            raise InvalidConfiguration(f"{path}: expected public keys in PEM, found none")
        keys = {}
        for kind, block in blocks:
            if kind != "PUBLIC KEY":
                raise InvalidConfiguration(f"{path}: expected public keys in PEM, found {kind.lower()}")
            key = _public_key(path, block)
            keys[key_id(key)] = key
        return cls(keys)

    @property
    def ids(self) -> list[str]:
        """The names of the keys."""
        return list(self._keys)

    def check(self, folder: Path, manifest: bytes) -> str:
        """Return the name of the trusted key that signed a version.

        Args:
            folder: of the version.
            manifest: its bytes; exactly these are used afterwards.

        Raises:
            ArtifactUntrusted: none did.
        """
        from cryptography.exceptions import InvalidSignature

        name = signatures_name(folder)
        found = _read_signatures(folder)
        if found is None:
            raise ArtifactUntrusted(f"{name}: expected a signature of a trusted key, found no such file")
        mine = {identifier: self._keys[identifier] for identifier in found if identifier in self._keys}
        for identifier, key in mine.items():
            with suppress(InvalidSignature):
                key.verify(found[identifier], manifest)
                return identifier
        if mine:
            raise ArtifactUntrusted(
                f"{name}: expected a signature of the present {MANIFEST}, found one of other content by "
                f"{_listed(mine)}"
            )
        raise ArtifactUntrusted(
            f"{name}: expected a signature of a trusted key ({_listed(self._keys)}), found signatures of "
            f"{_listed(found) or 'none'}"
        )


def read_private_key(path: Path, password: bytes | None = None) -> Ed25519PrivateKey:
    """Read the Ed25519 private key of a PEM file.

    Raises:
        InvalidConfiguration: it cannot be read, or is another kind of key, or is encrypted otherwise.
    """
    _check_installed()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(_read(path), password)
    except TypeError:
        found = "one that is encrypted" if password is None else "one that is not encrypted"
        raise InvalidConfiguration(f"{path}: expected an Ed25519 private key, found {found}") from None
    except (ValueError, UnsupportedAlgorithm):
        hint = "" if password is None else ", or another password"
        raise InvalidConfiguration(
            f"{path}: expected an Ed25519 private key in PEM, found something else{hint}"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidConfiguration(f"{path}: expected an Ed25519 private key, found another kind of key")
    return key


def signed(folder: Path, sha256: str, key: Ed25519PrivateKey) -> bytes:
    """Return the content of a version's signatures file with the signature of this key added; other signatures stay.

    Args:
        folder: of the version, which was verified.
        sha256: what the verified manifest says of itself.
        key: that signs.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with open_file(handle, MANIFEST) as file:
            manifest = read_up_to(file, LARGEST_MANIFEST + 1)
    finally:
        os.close(handle)
    if digest_in(manifest) != sha256:
        raise ArtifactCorrupt(f"{folder}: expected the version that was verified, found another")
    signatures = dict(_read_signatures(folder) or {})
    signatures[key_id(key.public_key())] = key.sign(manifest)
    document = {
        "signatures": [
            {"algorithm": _ALGORITHM, "key": identifier, "signature": base64.b64encode(one).decode()}
            for identifier, one in sorted(signatures.items())
        ]
    }
    return (json.dumps(document, indent=2) + "\n").encode()


def _read_signatures(folder: Path) -> dict[str, bytes] | None:
    """Return each key's signature, or ``None`` if there is no file."""
    folder = folder.resolve()
    name = signatures_name(folder)
    handle = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if name not in names_in(handle):
            return None
        with open_file(handle, name) as file:
            document = parse_object(read_up_to(file, LARGEST_SIGNATURES + 1), name, LARGEST_SIGNATURES)
    finally:
        os.close(handle)
    if document.keys() != {"signatures"} or not isinstance(document["signatures"], list):
        raise ArtifactCorrupt(f"{name}: expected a list of signatures, found {document!r:.60}")
    found = {}
    for entry in document["signatures"]:
        identifier, signature = _parse(name, entry)
        if identifier in found:
            raise ArtifactCorrupt(
                f"{name}: expected one signature of each key, found two of {identifier[:16]}"
            )
        found[identifier] = signature
    return found


def _parse(name: str, entry: Any) -> tuple[str, bytes]:
    try:
        if entry.keys() == {"algorithm", "key", "signature"} and entry["algorithm"] == _ALGORITHM:
            signature = base64.b64decode(entry["signature"], validate=True)
            if re.fullmatch("[0-9a-f]{64}", entry["key"]) and len(signature) == 64:
                return entry["key"], signature
    except (AttributeError, TypeError, binascii.Error, ValueError):
        pass
    raise ArtifactCorrupt(f"{name}: expected algorithm, key and signature of Ed25519, found {entry!r:.60}")


def _public_key(path: Path, block: bytes) -> Ed25519PublicKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(block)
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidConfiguration(
            f"{path}: expected public keys in PEM, found one that is damaged"
        ) from None
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidConfiguration(f"{path}: expected Ed25519 public keys, found another kind of key")
    return key


def _listed(identifiers: Iterable[str]) -> str:
    return ", ".join(identifier[:16] for identifier in identifiers)


def _check_installed() -> None:
    if find_spec("cryptography") is None:
        raise InvalidConfiguration(f"signatures need cryptography: {installing('sign')}")


def _read(path: Path) -> bytes:
    try:
        return read_plain(path, LARGEST_SIGNATURES)
    except OSError as error:
        raise InvalidConfiguration(f"{path}: cannot read keys: {error.strerror or error}") from None
