"""Sends scorers to other processes and back, without copies of scorers that both sides already have.

A cluster's scorer may refer to members of the global one. If it were pickled unchanged, every cluster would come back
with its own copies of these members, and they would be stored and scored once per cluster. So a scorer that both sides
know is sent as its number.
"""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

from localrank.scorers import distinct

if TYPE_CHECKING:
    from localrank.scorers import Scorer


def packed(scorer: Scorer, known: Scorer) -> bytes:
    """Return a scorer as bytes that refer to ``known`` and whatever it is made of."""
    numbers = {id(one): number for number, one in enumerate(distinct([known]))}

    class Packer(pickle.Pickler):
        def persistent_id(self, obj: Any) -> int | None:
            return numbers.get(id(obj))

    file = io.BytesIO()
    Packer(file, pickle.HIGHEST_PROTOCOL).dump(scorer)
    return file.getvalue()


def unpacked(content: bytes, known: Scorer) -> Scorer:
    """Undo `packed`; what was sent as a number is the scorer itself that ``known`` is made of here."""
    scorers = distinct([known])

    class Unpacker(pickle.Unpickler):
        def persistent_load(self, pid: int) -> Scorer:
            return scorers[pid]

    found: Scorer = Unpacker(io.BytesIO(content)).load()
    return found
