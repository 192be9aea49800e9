"""Signing what is published: the same for models and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.registry.versions import Reference, Registry


def sign_with(
    registry: Registry, address: str, key: Path, password_file: Path | None
) -> tuple[Reference, str]:
    """Sign a version that verifies with the key in a file; return it and the name of the key.

    Raises:
        InvalidConfiguration: the key or its password cannot be read.
    """
    from localrank.artifact.signing import LARGEST_SIGNATURES, key_id, read_private_key
    from localrank.disk import read_plain
    from localrank.errors import InvalidConfiguration

    try:
        password = None if password_file is None else read_plain(password_file, LARGEST_SIGNATURES).strip()
    except OSError as error:
        raise InvalidConfiguration(
            f"{password_file}: cannot read the password: {error.strerror or error}"
        ) from None
    private = read_private_key(key, password)
    reference = registry.resolve(address)
    registry.sign(reference, private)
    return reference, key_id(private.public_key())
