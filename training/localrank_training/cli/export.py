"""``localrank data export``: what a service has logged becomes judged queries."""

from __future__ import annotations

import datetime as dt
import json
import math
import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localrank.commands.output import print_json
from localrank_training.cli.arguments import Overwrite
from localrank_training.cli.output import AsJson, given
from localrank_training.data.tables import Columns

if TYPE_CHECKING:
    from localrank_training.data.clicks.export import ExportedClicks


class Unjudged(StrEnum):
    """What becomes of documents that were shown and not judged."""

    zero = "zero"
    drop = "drop"


def export(
    log: Annotated[
        list[str],
        typer.Argument(help="Folders or files of the impression log.", show_default=False),
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
    model: Annotated[str | None, typer.Option(help="Use only the rankings of this model.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Use only answers from this time on: a date, or a date and time such as 2026-10-01T12:00, in "
            "UTC if it has no offset.",
            metavar="TIME",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Use only answers before this time.", metavar="TIME")
    ] = None,
    unjudged: Annotated[
        Unjudged,
        typer.Option(
            help="Documents that were shown but got no click and no grade: zero gives them label 0, drop leaves "
            "them out."
        ),
    ] = Unjudged.zero,
    click_label: Annotated[
        float, typer.Option(help="The label of a clicked document; a grade counts more than a click.")
    ] = 1.0,
    propensities: Annotated[
        str | None,
        typer.Option(
            help="Correct clicks for the place of a document in the list, by how likely users look at it: em "
            "estimates that from the log, power:ETA is 1 / place^ETA, anything else is a file from "
            "--write-propensities."
        ),
    ] = None,
    max_weight: Annotated[float, typer.Option(help="The largest weight of a corrected click.")] = 10.0,
    write_propensities: Annotated[
        str | None, typer.Option(help="Write the propensities to this file.", callback=given)
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Make judged queries for localrank train from the rankings and the feedback in the log of a service.

    Examples:
      localrank data export impressions --out judged.parquet
      localrank data export impressions --out october.parquet --since 2026-10-01 --until 2026-11-01
      localrank data export impressions --out clicks.parquet --propensities em --write-propensities places.json
    """
    from localrank_training.data.clicks.export import export as write
    from localrank_training.data.clicks.joining import Which

    if write_propensities is not None and propensities is None:
        raise typer.BadParameter(
            "expected --propensities with it, found none", param_hint="--write-propensities"
        )
    first, last = _time(since, "--since", -math.inf), _time(until, "--until", math.inf)
    if first >= last:
        raise typer.BadParameter(
            f"expected a time after --since {since}, found {until}", param_hint="--until"
        )
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
            f"expected a date such as 2026-10-01, or a date and time such as 2026-10-01T12:00, found {text!r}",
            param_hint=option,
        ) from None
    return (when if when.tzinfo is not None else when.replace(tzinfo=dt.UTC)).timestamp()


def _of(count: int, one: str, several: str = "") -> str:
    return f"{count} {one if count == 1 else several or one + 's'}"


def _figures(done: ExportedClicks, out: str) -> dict[str, Any]:
    joined = done.joined
    names = (
        "impressions",
        "repeated",
        "unjudged",
        "degraded",
        "events",
        "repeated_events",
        "unmatched",
        "unplaced",
        "clicks",
        "grades",
        "unseen",
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


def _print(done: ExportedClicks, out: str) -> None:
    joined, queries = done.joined, done.joined.queries
    counts = [
        _of(len(queries), "query", "queries"),
        _of(queries.n_docs, "document"),
        _of(queries.n_features, "feature"),
    ]
    judgements = f"{_of(joined.clicks, 'click')} and {_of(joined.grades, 'grade')}"
    typer.echo(f"{out}: {', '.join(counts)}, from {_of(joined.impressions, 'impression')} with {judgements}")
    for count, what, sentence in (
        (joined.unjudged, "impression", "without feedback: left out"),
        (joined.repeated, "impression", "with the request id of another one: left out"),
        (joined.degraded, "impression", "from a cheaper ranking: used"),
        (joined.repeated_events, "event", "with the event_id of another one: each event_id counts once"),
        (joined.unmatched, "event", "for requests or documents that are not in the log: left out"),
        (
            joined.unplaced,
            "click",
            "on documents that were not shown, whose place cannot be corrected: left out",
        ),
        (
            joined.unseen,
            "value",
            "of categories that the model did not know, which the log does not hold: missing",
        ),
        (done.damaged, "record", "that cannot be read: left out"),
        (done.torn, "file", "cut off in the middle of a record, as after a crash"),
        (len(done.foreign), "file", "with a name like files of the log but other content: left out"),
    ):
        if count:
            typer.echo(f"  {_of(count, what)} {sentence}")
    if done.propensities is not None:
        ratios = ", ".join(f"{one:.3g}" for one in done.propensities.ratios[:10])
        typer.echo(f"  propensities ({done.propensities.source}): {ratios}")
        if done.propensities.known < len(done.propensities.ratios):
            typer.echo(
                f"  places after {done.propensities.known} could not be compared; they get the propensity of "
                "that place"
            )
    is_csv = Path(out).suffix == ".csv"
    of_query = [one.name for one in queries.features if one.scope == "query"]
    # A column of CSV that holds only numbers is read as numbers.
    categories = [one.name for one in queries.features if is_csv and one.kind == "category"]
    if is_csv or of_query:
        told = Columns(
            weight="weight" if is_csv and queries.weights is not None else None,
            position="position" if is_csv else None,
            category=tuple(categories),
            query_feature=tuple(of_query),
        )
        typer.echo(f"  train with: localrank train {shlex.quote(out)}{told.options()}")
