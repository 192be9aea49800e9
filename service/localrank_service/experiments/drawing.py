r"""Which units get the candidate: always the same ones, in every process, although nothing is stored about them.

The place of a unit :math:`u`, from 0 to 1, is its hash divided by the number of hashes. The hash has a key :math:`k` that
only the service knows, so nobody can choose a unit by its arm:

.. math:: h_k(s, u) = \mathrm{BLAKE2b}_{64}(k; s \,\|\, 0 \,\|\, u) / 2^{64}

Units get the candidate if their place is below the share. So if the share grows, its units stay in it. Places of
different salts :math:`s` are independent.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from localrank_service.experiments.definition import REQUEST, SESSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank_service.wire.query import Options


def place(key: bytes, salt: str, unit: str) -> float:
    """Return the place of a unit, from 0 to below 1."""
    digest = blake2b(_message(salt, unit), digest_size=8, key=key).digest()
    # 53 bits are what a float holds; more could round up to 1.
    return (int.from_bytes(digest, "big") >> 11) / 2**53


def coins(key: bytes, salt: str, unit: str) -> Iterator[bool]:
    """Yield tosses of a fair coin, always the same ones for a unit, independent of its place."""
    number = 0
    while True:
        digest = blake2b(_message(salt, unit), digest_size=16, key=key, person=b"coins%d" % number).digest()
        bits = int.from_bytes(digest, "big")
        for bit in range(128):
            yield bool(bits >> bit & 1)
        number += 1


def _message(salt: str, unit: str) -> bytes:
    # A text of JSON may hold half of a surrogate pair.
    return f"{salt}\0{unit}".encode("utf-8", "surrogatepass")


def unit_of(kind: str, options: Options, request: str) -> str | None:
    """Return the unit of a request, as text; ``None`` if the request does not name it."""
    if kind == REQUEST:
        return request
    found = options.session_id if kind == SESSION else options.query_id
    return None if found is None else str(found)
