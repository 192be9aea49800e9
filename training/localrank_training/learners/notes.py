"""Notes of a learner about a fit: how far it got, what it left out, why it fell back.

A learner returns a scorer and nothing else; whatever people should know besides goes to the log, and to whoever
collects it, such as the pipeline that writes it into the manifest::

    with collected() as notes:
        scorer = learner.fit(queries)
    manifest["notes"] = [asdict(note) for note in notes]

A collector sees what its own thread or task notes, so fits side by side do not mix.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_log = logging.getLogger("localrank_training.learners")
_collector: ContextVar[list[Note] | None] = ContextVar("_collector", default=None)


@dataclass(frozen=True, slots=True)
class Note:
    """One thing to know about a fit.

    Attributes:
        method: the learner's name in configuration.
        text: one sentence.
        figures: the numbers in it by name, as JSON values.
    """

    method: str
    text: str
    figures: dict[str, float | int] = field(default_factory=dict)


def note(method: str, text: str, **figures: float) -> None:
    """Say something about the fit under way."""
    said = Note(method, text, figures)
    _log.info("%s: %s", method, text)
    notes = _collector.get()
    if notes is not None:
        notes.append(said)


def figure(notes: Sequence[Note], name: str) -> float | None:
    """Return the mean of a figure over the notes that have it; `None` if none has."""
    found = [one.figures[name] for one in notes if name in one.figures]
    return sum(found) / len(found) if found else None


@contextmanager
def collected() -> Iterator[list[Note]]:
    """Collect the notes made inside; an outer collector does not get them, too."""
    notes: list[Note] = []
    token = _collector.set(notes)
    try:
        yield notes
    finally:
        _collector.reset(token)
