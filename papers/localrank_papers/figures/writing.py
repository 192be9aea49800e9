"""Findings as files: ``NAME.csv`` (the figure's own table), ``NAME.json`` (everything), ``NAME.svg`` and ``NAME.html``."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from localrank._version import __version__
from localrank_training.files import whole_file
from localrank_training.report import Page, Section, Table, svg

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from localrank_papers.figures.findings import Findings
    from localrank_papers.figures.log import LoggedRun
    from localrank_papers.figures.role import Experiment, Mark


def write(
    folder: Path, experiment: Experiment, mark: Mark, findings: Findings, runs: Sequence[LoggedRun]
) -> list[Path]:
    """Write the four files; return where they are."""
    described = _plain(_described(experiment, mark, findings, runs))
    texts = {
        "json": json.dumps(described, indent=1, ensure_ascii=False) + "\n",
        "svg": svg(*findings.plots),
        "html": page_of(experiment, mark, findings, runs).html(),
    }
    paths = [folder / f"{experiment.name}.{ending}" for ending in ("csv", *texts)]
    with whole_file(paths[0]) as file:
        table = findings.tables[0]
        csv.writer(file).writerows([table.header, *table.rows])
    for path, text in zip(paths[1:], texts.values(), strict=True):
        with whole_file(path) as file:
            file.write(text)
    return paths


def page_of(experiment: Experiment, mark: Mark, findings: Findings, runs: Sequence[LoggedRun]) -> Page:
    """Return the page of an experiment: what it says, its marks, plots and tables, and the log."""
    lead, *others = findings.sentences
    marks = [("Data", mark.data), ("Protocol", mark.protocol), ("Not run", mark.not_run or "nothing")]
    logged = [
        Section(
            "Runs on test folds",
            [
                "Nothing is chosen on test queries, and every run that scores them is logged.",
                Table(
                    f"Every run on the test folds of {run.data} so far",
                    ("time (UTC)", "experiment", "test queries", "draws", "seed", "version"),
                    [
                        (one.time, one.experiment, one.queries, one.draws, one.seed, one.version)
                        for one in runs
                    ],
                ),
            ],
        )
        for run in runs[:1]
    ]
    return Page(
        f"{experiment.figure}: {experiment.title}",
        lead,
        [
            *others,
            *(f"{name}: {text.rstrip('.')}." for name, text in marks),
            *findings.plots,
            *findings.tables,
            *logged,
        ],
        foot=f"{experiment.paper}. Made by `localrank papers run {experiment.name}`, version {__version__}.",
    )


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


def _plain(value: object) -> object:
    """Return JSON values; NaN and infinity become null."""
    if isinstance(value, dict):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
