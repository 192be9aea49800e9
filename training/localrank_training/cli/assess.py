"""``localrank assess``: what judged queries are like, and what should be done about them, in a minute."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from localrank.commands.output import print_json
from localrank_training.cli.arguments import Baseline, Judged, Workers, read_with
from localrank_training.cli.output import AsJson, Report, page_path, progress, write_page
from localrank_training.data.tables import Columns


def assess(
    context: typer.Context,
    data: Judged,
    *,
    baseline: Baseline = None,
    columns: Columns,
    budget: Annotated[
        float, typer.Option(metavar="SECONDS", help="Processor time of the quick run, as it is planned.")
    ] = 60.0,
    report: Report = None,
    workers: Workers = 0,
    as_json: AsJson = False,
) -> None:
    """Find out whether queries are of different kinds, what a model would be worth, and what should be done about the data.

    The default method trains quickly, on as many queries as the budget affords. Nothing is published.

    Examples:
      localrank assess docs/examples/judged.csv
      localrank assess data/train.txt --json
      localrank assess log.csv --query-feature segment --baseline position --position place
      localrank assess data/train.txt --report assessment.html
    """
    from localrank_training.data.inspection import inspect
    from localrank_training.parallel.processes import available_cores
    from localrank_training.report.assessment import assess as assess_queries
    from localrank_training.report.terminal import of_assessment, show

    if not budget > 0:
        raise typer.BadParameter(f"expected more than 0, found {budget:g}", param_hint="--budget")
    page = page_path(report)
    with progress() as advance:
        queries = read_with(baseline, data, columns, progress=advance)
        told = "" if baseline is None else f" --baseline {shlex.quote(baseline)}"
        found = assess_queries(
            queries,
            command=f"localrank train {shlex.join(data)}{columns.options()}{told}",
            budget=budget,
            workers=workers or available_cores(),
            progress=advance,
        )
    if page is not None:
        from localrank_training.report.pages import page_of_assessment

        write_page(page_of_assessment(found, inspect(queries), context.obj or ""), page)
    if as_json:
        print_json(found.to_json())
        return
    show(of_assessment(found))
    if page is not None:
        typer.echo(f"\nreport: {page}")
