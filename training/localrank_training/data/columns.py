"""How to read the input, if the data alone do not say it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of a table hold, and what an absent feature of a text line is.

    Attributes:
        label: the column of the labels.
        qid: the column of the query ids.
        id: the column of the document ids; None takes the first of the usual names that is there.
        weight: the column that says how much a query counts; None without one.
        position: the column that says at which place a document was shown; None without one.
        ignore: columns that are no features.
        sparse: text lines leave zeros out, even if they look dense.
        judged: labels are wanted; otherwise a table may lack them, and all are 0.
    """

    label: str = "label"
    qid: str = "qid"
    id: str | None = None
    weight: str | None = None
    position: str | None = None
    ignore: tuple[str, ...] = ()
    sparse: bool = False
    judged: bool = True


#: The usual names.
AS_NAMED = Columns()
