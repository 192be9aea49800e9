"""All experiments by name, and a run of one from its plan to its files."""

from __future__ import annotations

import csv
import datetime as dt
import hashlib
import json
import math
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from localrank._version import __version__
from localrank.errors import InvalidConfiguration, InvalidData, PublishFailed, did_you_mean
from localrank_papers.figures import adaptive, lgmml, local_rank, mhr, pca_query
from localrank_training.data.writing import whole_file
from localrank_training.parallel.processes import silent
from localrank_training.report import Page, Section, Table, svg

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from localrank_papers.figures.folds import Data
    from localrank_papers.figures.study import Experiment, Findings, Mark, Study
    from localrank_training.parallel.processes import Progress

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for paper in (local_rank, adaptive, pca_query, lgmml, mhr)
    for experiment in paper.EXPERIMENTS
}


def named(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments of these names or patterns such as ``localrank-*``, each once.

    Raises:
        InvalidConfiguration: one of the names is unknown.
    """
    found: dict[str, Experiment] = {}
    for name in names:
        matching = {one: EXPERIMENTS[one] for one in EXPERIMENTS if fnmatchcase(one, name)}
        if not matching:
            raise InvalidConfiguration(
                f"no experiment {name!r}{did_you_mean(name, EXPERIMENTS)}; localrank papers list names all"
            )
        found |= matching
    return list(found.values())


# ------------------------------------------------------------------------------------------------
# The log of every run on test folds: a line is written before the first test query is scored.
#
# Nothing is chosen on test queries. But whoever looks at test folds often will finally choose by them. So every look is
# counted.


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """One run.

    Attributes:
        time: when it began, UTC.
        experiment: its name.
        data: name of the data set.
        fingerprint: of its folds.
        queries: test queries in all folds.
        draws, seed: of the run.
        version: of this package.
    """

    time: str
    experiment: str
    data: str
    fingerprint: str
    queries: int
    draws: int
    seed: int
    version: str


class RunLog:
    """The log in a file, a line of JSON for each run."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, experiment: str, data: Data, draws: int, seed: int) -> None:
        """Write down that test folds are about to be read."""
        prints = " ".join(fold.fingerprint for fold in data.folds)
        run = LoggedRun(
            time=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            experiment=experiment,
            data=data.name,
            fingerprint=hashlib.sha256(prints.encode()).hexdigest(),
            queries=sum(len(fold.test) for fold in data.folds),
            draws=draws,
            seed=seed,
            version=__version__,
        )
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(run)) + "\n")
        except OSError as error:
            raise PublishFailed(f"{self._path}: cannot be written: {error.strerror}") from None

    def runs(self) -> list[LoggedRun]:
        """Return all runs, the first first."""
        if not self._path.exists():
            return []
        found: list[LoggedRun] = []
        for number, line in enumerate(self._path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                entry: dict[str, Any] = json.loads(line)
                found.append(LoggedRun(**entry))
            except (ValueError, TypeError):
                raise InvalidData(
                    f"{self._path}:{number}: expected one logged run, found {line[:60]!r}"
                ) from None
        return found


# ------------------------------------------------------------------------------------------------
# Findings as files: ``NAME.csv`` (the figure's own table), ``NAME.json`` (everything), ``NAME.svg`` and ``NAME.html``.


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


# ------------------------------------------------------------------------------------------------
# A run of experiments from its plan to its files.

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
