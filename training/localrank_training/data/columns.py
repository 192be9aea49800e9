"""How to read the input, if the data alone do not say it."""

from __future__ import annotations

from dataclasses import dataclass

from localrank.settings import setting


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of a table hold, and what an absent feature of a text line is.

    The command line has an option for each setting.

    Attributes:
        judged: labels are wanted; otherwise a table may lack them, and all are 0.
    """

    label: str = setting("label", meaning="Column of the labels (CSV, Parquet).")
    qid: str = setting("qid", meaning="Column of the query ids (CSV, Parquet).")
    id: str | None = setting(
        None,
        meaning="Column of the document ids (CSV, Parquet; default: comment, document_id, doc_id, docid or docno).",
    )
    weight: str | None = setting(
        None,
        meaning="Column of the query weights: how much each query counts in training (CSV, Parquet).",
    )
    position: str | None = setting(
        None, meaning="Column of the place at which each document was shown, from 1 (CSV, Parquet)."
    )
    ignore: tuple[str, ...] = setting(
        (), meaning="Columns that are not features, separated by commas (CSV, Parquet)."
    )
    sparse: bool = setting(False, meaning="A feature that a line of text leaves out is always zero.")
    judged: bool = True


#: The usual names.
AS_NAMED = Columns()
