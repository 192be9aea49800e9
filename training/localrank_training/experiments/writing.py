"""Findings as files: ``NAME.csv`` (the figure's own table), ``NAME.json`` (everything), ``NAME.svg`` and ``NAME.html``."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING, Any

from localrank.brief import html_table
from localrank_training.experiments.drawing import svg_of
from localrank_training.files import whole_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from localrank_training.experiments.findings import Findings
    from localrank_training.experiments.log import LoggedRun
    from localrank_training.experiments.role import Experiment, Mark

__all__ = ["write"]

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 0 auto; padding: 1rem; color: #1a1a1a; }
h1 { font-size: 1.4rem; line-height: 1.25; } h2 { font-size: 1.1rem; margin-top: 2rem; }
figure { margin: 1.5rem 0; } svg { width: 100%; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; margin: 1rem 0; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
th, td { padding: .2rem .7rem .2rem 0; text-align: left; border-bottom: 1px solid #ddd; }
dt { font-weight: 600; } dd { margin: 0 0 .5rem; }
"""


def write(
    folder: Path, experiment: Experiment, mark: Mark, findings: Findings, runs: Sequence[LoggedRun]
) -> list[Path]:
    """Write the four files; return where they are."""
    texts = {
        "json": json.dumps(_plain(_described(experiment, mark, findings, runs)), indent=1, ensure_ascii=False)
        + "\n",
        "svg": svg_of(findings.plots),
        "html": _page(experiment, mark, findings, runs),
    }
    paths = [folder / f"{experiment.name}.{ending}" for ending in ("csv", *texts)]
    with whole_file(paths[0]) as file:
        table = findings.tables[0]
        csv.writer(file).writerows([table.header, *table.rows])
    for path, text in zip(paths[1:], texts.values(), strict=True):
        with whole_file(path) as file:
            file.write(text)
    return paths


def _described(
    experiment: Experiment, mark: Mark, findings: Findings, runs: Sequence[LoggedRun]
) -> dict[str, Any]:
    return {
        "name": experiment.name,
        "paper": experiment.paper,
        "figure": experiment.figure,
        "title": experiment.title,
        "marks": asdict(mark),
        **findings.to_json(),
        "test_runs": [asdict(run) for run in runs],
    }


def _page(experiment: Experiment, mark: Mark, findings: Findings, runs: Sequence[LoggedRun]) -> str:
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(experiment.name)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(experiment.title)}</h1>",
        f"<p>{escape(experiment.figure)} of {escape(experiment.paper)}</p>",
        *(f"<p>{escape(sentence)}</p>" for sentence in findings.sentences),
        "<h2>Marks</h2><dl>",
        f"<dt>Data</dt><dd>{escape(mark.data)}</dd>",
        f"<dt>Protocol</dt><dd>{escape(mark.protocol)}</dd>",
        f"<dt>Not run</dt><dd>{escape(mark.not_run or 'nothing: all of the figure was run')}</dd></dl>",
    ]
    lines += [
        f"<figure>{svg_of([plot])}<figcaption>{escape(plot.says)}</figcaption></figure>"
        for plot in findings.plots
    ]
    for table in findings.tables:
        lines.append(f'<div class="wide">{html_table(table.title, table.header, table.rows)}</div>')
        lines.append(f"<p>{escape(table.says)}</p>" if table.says else "")
    if runs:
        rows = [(run.time, run.experiment, run.queries, run.draws, run.seed, run.version) for run in runs]
        header = ("time (UTC)", "experiment", "test queries", "draws", "seed", "version")
        title = f"Every run on the test folds of {runs[0].data}"
        lines.append(f'<div class="wide">{html_table(title, header, rows)}</div>')
    return "\n".join([*lines, "</body></html>"]) + "\n"


def _plain(value: object) -> object:
    """Return JSON values; a number that is none becomes null."""
    if isinstance(value, dict):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
