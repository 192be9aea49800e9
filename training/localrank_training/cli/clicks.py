"""``localrank data clicks``: any log of clicks becomes weighted judgements."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from localrank.commands.output import print_json
from localrank_training.cli.arguments import Overwrite, say
from localrank_training.cli.output import AsJson, given

if TYPE_CHECKING:
    from localrank_training.data.clicks.table import JudgedClicks


def clicks(
    log: Annotated[
        list[str],
        typer.Argument(
            help="A row for each document that was shown: CSV, JSON lines, Parquet, Arrow, or a folder of these; or events "
            "of UBI (ubi_events).",
            show_default=False,
        ),
    ],
    *,
    out: Annotated[
        str, typer.Option(help="The file to write: .parquet or .csv.", show_default=False, callback=given)
    ],
    position: Annotated[str, typer.Option(help="Column of the place of the document, from 1.")] = "position",
    clicked: Annotated[str, typer.Option(help="Column that says whether it was clicked.")] = "clicked",
    qid: Annotated[str, typer.Option(help="Column of what was searched for, the same each time.")] = "qid",
    document: Annotated[
        str | None, typer.Option("--id", help="Column of the document ids.", show_default=False)
    ] = None,
    shown: Annotated[
        str | None,
        typer.Option(
            "--list",
            help="Column that tells the lists of a query apart. Without it, a new list begins where the places do not rise.",
            show_default=False,
        ),
    ] = None,
    propensities: Annotated[
        str | None,
        typer.Option(
            help="Correct clicks for the place of a document in the list, by how likely users look at it: em "
            "estimates that from the log, power:ETA is 1 / place^ETA, anything else is a file from "
            "--write-propensities."
        ),
    ] = None,
    max_weight: Annotated[
        float, typer.Option(min=1.0, help="The largest weight of a corrected click.")
    ] = 10.0,
    write_propensities: Annotated[
        str | None, typer.Option(help="Write the propensities to this file.", callback=given)
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Make judged queries for localrank train from any log of clicks; columns that are not named stay as they are.

    Examples:
      localrank data clicks log.csv --out judged.parquet --qid query --id product --position rank --clicked click
      localrank data clicks log.parquet --out judged.parquet --id product --propensities em
      localrank data clicks ubi_events.jsonl --out judged.csv --propensities em --write-propensities places.json
    """
    from localrank_training.data.clicks.export import propensities_of
    from localrank_training.data.clicks.propensities import trusted
    from localrank_training.data.clicks.table import Names, judgements_of, read_log, write_table

    if write_propensities is not None and propensities is None:
        raise typer.BadParameter(
            "expected --propensities with it, found none", param_hint="--write-propensities"
        )
    if Path(out).suffix not in {".parquet", ".csv"}:
        raise typer.BadParameter(f"expected a name in .parquet or .csv, found {out}", param_hint="--out")
    if Path(out).exists() and not overwrite:
        raise typer.BadParameter(
            f"expected a new file, found {out}; --overwrite replaces it", param_hint="--out"
        )
    read = read_log(log, Names(qid, position, clicked, document, shown), say)
    found = None
    if propensities is not None:
        tally = read.tally() if propensities == "em" else None
        found = propensities_of(propensities, tally)
        if tally is not None:
            found = trusted(found, tally)
        if write_propensities is not None:
            Path(write_propensities).write_text(json.dumps(found.to_json(), indent=1) + "\n")
    made = judgements_of(read, found, max_weight)
    write_table(made.table, Path(out))
    weighted = " --weight weight" * (found is not None)
    marked = f"{weighted} --position position" * (Path(out).suffix == ".csv")
    then = f"localrank train {shlex.quote(out)}{marked}"
    if as_json:
        print_json(
            {
                "out": out,
                "queries": made.queries,
                "documents": made.table.num_rows,
                "columns": made.table.column_names,
                "lists": made.lists,
                "clicks": made.clicks,
                "without_click": made.without_click,
                "not_shown": read.not_shown,
                "propensities": None if found is None else found.to_json(),
                "next": then,
            }
        )
        return
    _print(made, out)
    if read.not_shown:
        typer.echo(f"  {read.not_shown} rows without a place: left out")
    if found is not None:
        typer.echo(f"  propensities ({found.source}): {', '.join(f'{one:.3g}' for one in found.ratios[:10])}")
        if found.known < len(found.ratios):
            typer.echo(f"  places after {found.known} are rare; they get the propensity of that place")
    typer.echo(
        f"  train with: {then}"
        if read.table.column_names
        else "  no other columns: join the features of the documents by doc_id, and train with these"
    )


def _print(made: JudgedClicks, out: str) -> None:
    typer.echo(
        f"{out}: {made.queries} queries, {made.table.num_rows} documents, from {made.lists} lists with {made.clicks} clicks"
    )
    if made.without_click:
        typer.echo(f"  {made.without_click} lists without a click: left out")
