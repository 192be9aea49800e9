"""A run of experiments from its plan to its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localrank_papers.figures.log import RunLog
from localrank_papers.figures.writing import write
from localrank_training.progress import silent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from localrank_papers.figures.findings import Findings
    from localrank_papers.figures.role import Experiment, Study
    from localrank_training.progress import Progress

#: The log's name in the folder that a run writes to.
LOG = "test-runs.jsonl"


def run(
    experiment: Experiment,
    study: Study,
    out: Path,
    *,
    say: Callable[[str], None] = lambda _: None,
    progress: Progress = silent,
) -> Findings:
    """Run one experiment: print the plan, log the run, run what is missing, write the files."""
    plan = list(experiment.plan(study))
    say(f"{experiment.name}: {study.fits.planned(plan)}")
    log = RunLog(out / LOG)
    if experiment.needs_data:
        log.add(experiment.name, study.data, study.draws, study.seed)
    study.fits.run(plan, progress)
    findings = experiment.find(study)
    runs = [one for one in log.runs() if one.data == study.data.name] if experiment.needs_data else []
    paths = write(out, experiment, experiment.mark(study.data), findings, runs)
    say(f"{experiment.name}: wrote {', '.join(map(str, paths))}")
    return findings
