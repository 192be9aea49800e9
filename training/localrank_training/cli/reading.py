"""The options that say how judged queries are to be read, on every command that reads them."""

from __future__ import annotations

from typing import Annotated

import typer

from localrank_training.data.columns import Columns

Label = Annotated[str, typer.Option("--label", help="Column of the labels (CSV, Parquet).")]
Qid = Annotated[str, typer.Option("--qid", help="Column of the query ids (CSV, Parquet).")]
Id = Annotated[
    str | None,
    typer.Option(
        "--id",
        help="Column of the document ids (CSV, Parquet; default: comment, document_id, doc_id, docid or "
        "docno).",
    ),
]
Weight = Annotated[
    str | None,
    typer.Option(
        "--weight", help="Column of the query weights: how much each query counts in training (CSV, Parquet)."
    ),
]
Position = Annotated[
    str | None,
    typer.Option(
        "--position", help="Column of the place at which each document was shown, from 1 (CSV, Parquet)."
    ),
]
Ignore = Annotated[
    str | None,
    typer.Option("--ignore", help="Columns that are not features, separated by commas (CSV, Parquet)."),
]
Sparse = Annotated[
    bool, typer.Option("--sparse", help="A feature that a line of text leaves out is always zero.")
]


SkipBadFiles = Annotated[
    bool,
    typer.Option(
        "--skip-bad-files",
        help="Leave out files with errors, and name them. Without this option the first error ends the run.",
    ),
]


def columns_of(
    label: str,
    qid: str,
    id_column: str | None,
    *,
    weight: str | None,
    position: str | None,
    ignore: str | None,
    sparse: bool,
) -> Columns:
    """Put the options together."""
    ignored = () if ignore is None else tuple(name.strip() for name in ignore.split(",") if name.strip())
    return Columns(label, qid, id_column, weight, position, ignored, sparse)


def say(text: str) -> None:
    """Tell the user what was taken from a table."""
    typer.echo(text, err=True)
