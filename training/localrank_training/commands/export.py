"""``localrank data export``: what a service has logged becomes judged queries."""

from __future__ import annotations

import datetime as dt
import json
import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localrank.commands.output import print_json
from localrank_training.commands.output import AsJson, given

if TYPE_CHECKING:
    from localrank_training.clicks.export import Exported

__all__ = ["export"]


class Unjudged(StrEnum):
    """What becomes of documents that were shown and not judged."""

    zero = "zero"
    drop = "drop"


def export(
    log: Annotated[
        list[str],
        typer.Argument(help="Folders of the impression log, or files of it.", show_default=False),
    ],
    *,
    out: Annotated[
        str,
        typer.Option(
            help="The file to write: .parquet, .csv, or LETOR text (.txt, .gz, .zst).",
            show_default=False,
            callback=given,
        ),
    ],
    model: Annotated[str | None, typer.Option(help="Use only what this model has ranked.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Use only what was answered from then on: a date, or a date and time such as 2026-10-01T12:00. Without an offset it is UTC.",
            metavar="TIME",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Use only what was answered before then.", metavar="TIME")
    ] = None,
    unjudged: Annotated[
        Unjudged,
        typer.Option(help="Documents that were shown without click or grade: label 0, or left out."),
    ] = Unjudged.zero,
    click_label: Annotated[float, typer.Option(help="The label of a click; a grade beats it.")] = 1.0,
    propensities: Annotated[
        str | None,
        typer.Option(
            help="Correct clicks for the places of documents: em estimates how likely each place is looked at from the log, "
            "power:ETA is 1 / place^ETA, else a file that --write-propensities wrote."
        ),
    ] = None,
    max_weight: Annotated[float, typer.Option(help="The greatest weight of a corrected click.")] = 10.0,
    write_propensities: Annotated[
        str | None, typer.Option(help="Write the propensities to this file.", callback=given)
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Join what a service has logged of rankings and feedback into judged queries for localrank train.

    Examples:
      localrank data export impressions --out judged.parquet
      localrank data export impressions --out october.parquet --since 2026-10-01 --until 2026-11-01
      localrank data export impressions --out clicks.parquet --propensities em --write-propensities places.json
    """
    from localrank_training.clicks.export import export as write
    from localrank_training.clicks.joining import Which

    if write_propensities is not None and propensities is None:
        raise typer.BadParameter("--write-propensities goes with --propensities")
    first, last = _time(since, "--since", -math.inf), _time(until, "--until", math.inf)
    if first >= last:
        raise typer.BadParameter(f"--until: expected a time after --since {since}, found {until}")
    done = write(
        log,
        out,
        which=Which(model, first, last),
        rest=unjudged.value,
        click_label=click_label,
        propensities=propensities,
        max_weight=max_weight,
        overwrite=overwrite,
    )
    if write_propensities is not None and done.propensities is not None:
        Path(write_propensities).write_text(json.dumps(done.propensities.to_json(), indent=1) + "\n")
    if as_json:
        print_json(_figures(done, out))
    else:
        _print(done, out)


def _time(text: str | None, option: str, default: float) -> float:
    if text is None:
        return default
    try:
        when = dt.datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{option}: expected a date such as 2026-10-01, or a date and time such as 2026-10-01T12:00, found {text!r}"
        ) from None
    return (when if when.tzinfo is not None else when.replace(tzinfo=dt.UTC)).timestamp()


def _figures(done: Exported, out: str) -> dict[str, Any]:
    joined = done.joined
    names = (
        "impressions",
        "repeated",
        "unjudged",
        "degraded",
        "events",
        "repeated_events",
        "unmatched",
        "clicks",
        "grades",
    )
    return {
        "out": out,
        "queries": len(joined.queries),
        "documents": joined.queries.n_docs,
        "features": joined.queries.n_features,
        **{name: getattr(joined, name) for name in names},
        "damaged": done.damaged,
        "torn": done.torn,
        "foreign": [str(path) for path in done.foreign],
        "propensities": None if done.propensities is None else done.propensities.to_json(),
    }


def _print(done: Exported, out: str) -> None:
    joined, queries = done.joined, done.joined.queries
    typer.echo(
        f"{out}: {len(queries)} queries, {queries.n_docs} documents, {queries.n_features} features, from "
        f"{joined.impressions} impressions with {joined.clicks} clicks and {joined.grades} grades"
    )
    for count, what in (
        (joined.unjudged, "impressions have no feedback and are left out"),
        (joined.repeated, "impressions have the request id of another one and are left out"),
        (joined.degraded, "impressions were answered by a cheaper ranking"),
        (joined.repeated_events, "events have the event_id of another one and count once"),
        (joined.unmatched, "events are of requests or documents that are not in the log"),
        (done.damaged, "records are damaged and left out"),
        (done.torn, "files end in the middle of a record, as after a crash"),
        (len(done.foreign), "files are named like files of the log and are none"),
    ):
        if count:
            typer.echo(f"  {count} {what}")
    if done.propensities is not None:
        ratios = ", ".join(f"{one:.3g}" for one in done.propensities.ratios[:10])
        typer.echo(f"  propensities ({done.propensities.source}): {ratios}")
        if done.propensities.known < len(done.propensities.ratios):
            typer.echo(
                f"  places after {done.propensities.known} could not be compared and count as that one"
            )
    if Path(out).suffix == ".csv":
        weight = "" if queries.weights is None else "--weight weight "
        typer.echo(f"  train with: localrank train {out} {weight}--position position")
