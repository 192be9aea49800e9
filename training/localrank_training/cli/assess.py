"""``localrank assess``: what judged queries are like, and what should be done about them, in a minute."""

from __future__ import annotations

import shlex

import typer

from localrank.commands.output import print_json
from localrank_training.cli.arguments import Judged, Workers, say
from localrank_training.cli.output import AsJson, Report, page_path, progress, write_page
from localrank_training.data.tables import Columns


def assess(
    context: typer.Context,
    data: Judged,
    *,
    columns: Columns,
    report: Report = None,
    workers: Workers = 0,
    as_json: AsJson = False,
) -> None:
    """Find out whether queries are of different kinds, whether local models are better, and what should be done.

    Three quick models run the same cross-validation over at most 300 queries. Nothing is published.

    Examples:
      localrank assess docs/examples/judged.csv
      localrank assess data/train.txt --json
      localrank assess data/train.txt --report assessment.html
    """
    from localrank_training.advice.assessment import assess as assess_queries
    from localrank_training.advice.helping import METRIC
    from localrank_training.data.inspection import inspect
    from localrank_training.data.reading import read
    from localrank_training.parallel.processes import available_cores
    from localrank_training.report.terminal import of_assessment, show

    page = page_path(report)
    with progress() as advance:
        queries = read(
            data,
            progress=advance,
            columns=columns,
            say=say,
        )
        command = f"localrank train {shlex.join(data)}{columns.options()}"
        found = assess_queries(
            queries, command=command, workers=workers or available_cores(), progress=advance
        )
    if page is not None:
        from localrank_training.report.pages import page_of_assessment

        write_page(page_of_assessment(found, inspect(queries), context.obj or ""), page)
    if as_json:
        print_json(found.to_json())
        return
    show(of_assessment(found, METRIC))
    if page is not None:
        typer.echo(f"\nreport: {page}")
