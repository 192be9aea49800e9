"""Is the default better than what a user would train instead, on five public sets and the same judged queries?

    LOCALRANK_DATA=… python -m benchmarks.quality develop [--sets …] [--contestants …]
    LOCALRANK_DATA=… python -m benchmarks.quality open --because TEXT [--sets …] [--contestants …]
    LOCALRANK_DATA=… python -m benchmarks.quality cross [--contestants global lambdamart lightgbm auto]
    LOCALRANK_DATA=… python -m benchmarks.quality report [--developed | --crossed] [--out benchmarks/results/quality.json]

`develop` looks at the partitions S1 to S4 only: each is scored by what was learned from the other three, the last of
which is for validation. That is for development. `open` scores the test partition of each of the five official folds.
Test folds are opened at most three times: each opening is a line of ``benchmarks/openings.md``, written before the first
test fold is read. `cross` does the same by four folds of three samples that have no official ones. All keep what each
contestant scored (``--state``), and go on where they stopped; several may run at once. `report` reads that, prints the tables and the gates, and its
exit status is 1 if a gate is missed or a contestant has not answered. The samples have no gates.

The documents of every list come in random order, for every contestant the same one. In the files of three sets the order
shows the labels: ranking by it alone has MAP .62 on answer-selection, .46 on OHSUMED and .50 on table-search, a random order
.39, .34 and .33. A ranker that gives many documents the same score would be paid for that.

Conventions: MAP (label 1 and above is relevant) and NDCG@10 (gains 2^label - 1, discount 1/log2(1 + p)), over the queries
with a relevant document, paired over queries and pooled over sets; one-sided bounds and intervals are Student's. The aims
are in the official conventions. `better` is `global` or `lambdamart`, per fold, whichever has the higher mean of
both metrics on the validation queries.
"""

from __future__ import annotations

import argparse
import datetime as dt
import fcntl
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import results
from benchmarks.contestants import CONTESTANTS, METRICS, Answer, figures_of
from benchmarks.folds import data_dir, folds, shuffled
from localrank.errors import InvalidData
from localrank.metrics import measure
from localrank_training.data.queries import concatenated
from localrank_training.data.reading import read
from localrank_training.evaluation.comparisons import holm, interval_of, lower_bound, sign_flip_test

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from localrank.arrays import Vector
    from localrank_training.data.queries import QuerySet

SETS = ("OHSUMED", "MQ2008", "table-search", "querywise", "answer-selection")
#: Sets without folds, and the files of each.
SAMPLES = {
    "lightgbm-example": ("train.txt.gz", "test.txt.gz"),
    "imat2009-sample": ("data.txt.gz",),
    "MSLR-sample": ("data.txt.gz",),
}
_FOLDS = 4
BASELINES = ("global", "lambdamart", "lightgbm", "catboost", "better")
OPENINGS = Path(__file__).parent / "openings.md"
MOST_OPENINGS = 3

#: The gates: how much worse the default may be, and how much better than RankSVM it has to be.
MARGIN, AHEAD, LEVEL = 0.002, 0.003, 0.05
#: What is aimed at, never tuned for: set, metric, convention, figure.
AIMS = (
    ("MQ2008", "map", "standard", 0.488),
    ("MQ2008", "ndcg@5", "letor4", 0.490),
    ("OHSUMED", "map", "standard", 0.452),
    ("OHSUMED", "ndcg@10", "letor3", 0.460),
)


@dataclass(frozen=True, eq=False)
class Split:
    """One fold of one set: what is learned from, and what is scored."""

    lesson: QuerySet
    validation: QuerySet
    test: QuerySet


@dataclass(frozen=True)
class Gate:
    """One condition, and whether it holds."""

    text: str
    holds: bool


def development_splits(name: str) -> Iterator[Split]:
    """Yield four splits over the partitions S1 to S4, which hold the training queries of the first fold."""
    for first in range(4):
        parts = [data_dir() / name / f"S{(first + i) % 4 + 1}.txt.gz" for i in range(4)]
        yield Split(*(shuffled(read(some)) for some in (parts[:2], parts[2], parts[3])))


def crossed(queries: QuerySet) -> Iterator[Split]:
    """Yield four splits: a seeded quarter of the queries is the test, the next one is for validation."""
    part_of = np.random.default_rng(0).permutation(np.arange(len(queries)) % _FOLDS)
    for test in range(_FOLDS):
        validation = (test + 1) % _FOLDS
        lesson = (part_of != test) & (part_of != validation)
        picked = (lesson, part_of == validation, part_of == test)
        yield Split(*(queries.select(np.flatnonzero(some)) for some in picked))


def splits(name: str, kind: str) -> Iterator[Split]:
    """Yield the splits of a set: `developed`, `crossed`, or the official folds if `opened`."""
    if kind == "developed":
        yield from development_splits(name)
    elif kind == "crossed":
        yield from crossed(shuffled(read([data_dir() / name / file for file in SAMPLES[name]])))
    else:
        yield from (Split(*map(shuffled, parts)) for parts in folds(name))


# ------------------------------------------------------------------------------------------------ answers


def answer_all(kind: str, sets: Sequence[str], contestants: Sequence[str], state: Path) -> None:
    """Let every contestant learn from and score every split that it has not yet."""
    for contestant in contestants:
        for name in sets:
            for number, split in enumerate(splits(name, kind)):
                path = _path(state, kind, name, number, contestant)
                with _worked_alone(path) as alone:
                    if not alone or path.exists():
                        continue
                    try:
                        answer = CONTESTANTS[contestant](split.lesson, split.validation, split.test)
                    except InvalidData as error:
                        # Boosted trees take no labels that are fractions.
                        print(f"{name} {number + 1}: {contestant} refuses it: {error}", flush=True)
                        continue
                    partial = path.with_suffix(".partial.npz")
                    np.savez(partial, scores=answer.scores, about=[answer.seconds, answer.validation])
                    partial.replace(path)
                    print(f"{name} {number + 1}: {contestant}, {answer.seconds:.0f} s", flush=True)


@contextmanager
def _worked_alone(path: Path) -> Iterator[bool]:
    """Tell whether no other process works on this split, and keep others from it; a process that ends lets go."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def answer_of(state: Path, kind: str, name: str, number: int, contestant: str) -> Answer | None:
    """Return what a contestant scored, if it has."""
    path = _path(state, kind, name, number, contestant)
    if not path.exists():
        return None
    with np.load(path) as stored:
        seconds, validation = stored["about"].tolist()
        return Answer(stored["scores"], seconds, validation)


def _path(state: Path, kind: str, name: str, number: int, contestant: str) -> Path:
    return state / kind / name / f"{number + 1}-{contestant}.npz"


@dataclass(frozen=True, eq=False)
class Outcome:
    """All answers to the splits of one set.

    Attributes:
        queries: of all held-out sets.
        scores: ``{contestant: [n_docs]}`` of those that scored every held-out set.
        seconds: ``{contestant: processor seconds}``, the mean over the splits.
    """

    queries: QuerySet
    scores: Mapping[str, Vector]
    seconds: Mapping[str, float]

    def figures(self) -> dict[str, Vector]:
        """Return ``{contestant: [2, n_queries]}`` of the queries with a relevant document."""
        found = {name: figures_of(self.queries, scores) for name, scores in self.scores.items()}
        return {name: figures[:, ~np.isnan(figures[0])] for name, figures in found.items()}


def outcome_of(state: Path, kind: str, name: str) -> Outcome:
    """Put the answers to the splits of a set together."""
    tests, answers = [], []
    for number, split in enumerate(splits(name, kind)):
        tests.append(split.test)
        row = {one: answer_of(state, kind, name, number, one) for one in CONTESTANTS}
        answers.append({one: answer for one, answer in row.items() if answer is not None})
    complete = [one for one in CONTESTANTS if all(one in row for row in answers)]
    scores = {one: np.concatenate([row[one].scores for row in answers]) for one in complete}
    seconds = {one: float(np.mean([row[one].seconds for row in answers])) for one in complete}
    if {"global", "lambdamart"} <= set(complete):
        chosen = [
            max(("global", "lambdamart"), key=lambda one, row=row: row[one].validation)  # type: ignore[misc]
            for row in answers
        ]
        scores["better"] = np.concatenate([row[one].scores for row, one in zip(answers, chosen, strict=True)])
    return Outcome(concatenated(tests), scores, seconds)


# -------------------------------------------------------------------------------------------------- gates


def gates(figures: Mapping[str, Mapping[str, Vector]], rival: str = "auto") -> Iterator[Gate]:
    """Yield every gate.

    Args:
        figures: ``{set: {contestant: [2, n_queries]}}``; a contestant that has not answered is left out.
        rival: who has to pass.
    """
    for baseline in BASELINES:
        sets = [some for some in figures.values() if rival in some and baseline in some]
        if len(sets) < len(figures) or not sets:
            yield Gate(f"{baseline} has answered on {len(sets)} of {len(figures)} sets", holds=False)
            continue
        differences = [some[rival] - some[baseline] for some in sets]
        pooled = np.concatenate(differences, axis=1)
        for metric, values in zip(METRICS, pooled, strict=True):
            low, mean = lower_bound(values), float(values.mean())
            shown = "no bound" if low is None else f"bound {low:+.4f}"
            found = f"{metric} against {baseline}: {mean:+.4f}, {shown}"
            yield Gate(f"{found}, above {-MARGIN:+.3f}", low is not None and low > -MARGIN)
            if baseline == "global":
                yield Gate(f"{found}, at least {AHEAD:+.3f}", mean >= AHEAD)
            if baseline == "better":
                yield Gate(f"{found}, not below 0", mean >= 0.0)
        rows = [(name, metric) for name in figures for metric in METRICS]
        every = [values for one in differences for values in one]
        adjusted = holm([sign_flip_test(values) for values in every])
        worse = [
            f"{name} {metric} {values.mean():+.4f} (p {p:.3f})"
            for (name, metric), values, p in zip(rows, every, adjusted, strict=True)
            if values.mean() < 0 and p < LEVEL
        ]
        yield Gate(": ".join([f"no set worse than {baseline} after Holm", *worse]), not worse)


# ----------------------------------------------------------------------------------------------- the report


def rows_of(outcomes: Mapping[str, Outcome]) -> list[results.Row]:
    """Return one row per set, baseline and metric, and those of all sets together."""
    figures = {name: outcome.figures() for name, outcome in outcomes.items()}
    rows: list[results.Row] = []
    for name in (*figures, "pooled"):
        some = list(figures.values()) if name == "pooled" else [figures[name]]
        answered = [one for one in ("auto", *BASELINES) if all(one in each for each in some)]
        if "auto" not in answered:
            continue
        together = {one: np.concatenate([each[one] for each in some], axis=1) for one in answered}
        for one in answered:
            row: results.Row = {"set": name, "contestant": one, "queries": together[one].shape[1]}
            if name != "pooled" and one in outcomes[name].seconds:
                row["seconds"] = round(outcomes[name].seconds[one], 1)
            for metric, mine, theirs in zip(METRICS, together["auto"], together[one], strict=True):
                row[metric] = float(theirs.mean())
                if one != "auto":
                    interval = interval_of(mine - theirs)
                    row[f"{metric} difference"] = float((mine - theirs).mean())
                    row[f"{metric} interval"] = None if interval is None else [interval.low, interval.high]
            rows.append(row)
    return rows


def aims_of(outcomes: Mapping[str, Outcome]) -> list[results.Row]:
    """Return what was aimed at, and what was reached."""
    rows: list[results.Row] = []
    for name, metric, convention, aim in AIMS:
        outcome = outcomes.get(name)
        if outcome is not None and "auto" in outcome.scores:
            queries = outcome.queries
            (found,) = measure(queries.labels, outcome.scores["auto"], queries.offsets, (metric,), convention)
            rows.append(
                {"set": name, "metric": metric, "convention": convention, "aim": aim, "reached": found.mean}
            )
    return rows


def lines(rows: Sequence[results.Row]) -> Iterator[str]:
    """Yield the table as Markdown."""
    yield "| set | queries | ranker | MAP | NDCG@10 | default − it: MAP | NDCG@10 | CPU s |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        differences = [_difference(row, metric) for metric in METRICS]
        cells = [row["set"], row["queries"], row["contestant"], *(f"{row[metric]:.4f}" for metric in METRICS)]
        yield "| " + " | ".join(map(str, [*cells, *differences, row.get("seconds", "")])) + " |"


def _difference(row: results.Row, metric: str) -> str:
    if f"{metric} difference" not in row:
        return ""
    interval = row[f"{metric} interval"]
    within = "" if interval is None else f" [{interval[0]:+.4f}, {interval[1]:+.4f}]"
    return f"{row[f'{metric} difference']:+.4f}{within}"


def report(state: Path, kind: str, sets: Sequence[str], out: Path | None) -> int:
    """Print the tables, the gates and the aims; return 1 if a gate is missed."""
    outcomes = {name: outcome_of(state, kind, name) for name in sets}
    rows, aims = rows_of(outcomes), aims_of(outcomes)
    print("\n".join(lines(rows)))
    if kind == "crossed":
        results.write_beside(out, samples=rows)
        return 0
    found = list(gates({name: outcome.figures() for name, outcome in outcomes.items()}))
    print()
    for gate in found:
        print(f"{'passed' if gate.holds else 'MISSED'}: {gate.text}")
    print()
    for aim in aims:
        print(f"aim: {aim['set']} {aim['metric']} ({aim['convention']}) {aim['aim']}: {aim['reached']:.4f}")
    checked: list[results.Row] = [{"gate": gate.text, "holds": gate.holds} for gate in found]
    results.write_beside(out, quality=rows, gates=checked, aims=aims)
    return int(not all(gate.holds for gate in found))


# ------------------------------------------------------------------------------------------------ openings


def opening(because: str, state: Path, log: Path = OPENINGS) -> None:
    """Write an opening of the test folds into the log, unless it is the one that the state belongs to.

    Raises:
        SystemExit: they have been opened too often.
    """
    written = state / "opening.txt"
    entries = [line for line in log.read_text().splitlines() if line.startswith("- ")]
    if written.exists() and written.read_text() in entries:
        return
    if len(entries) >= MOST_OPENINGS:
        sys.exit(f"{log.name}: the test folds were opened {len(entries)} times; {MOST_OPENINGS} is the most")
    entry = f"- {dt.datetime.now(dt.UTC):%Y-%m-%d}: {because}"
    with log.open("a") as file:
        file.write(entry + "\n")
    state.mkdir(parents=True, exist_ok=True)
    written.write_text(entry)


def main() -> int:
    """Do what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("develop", "open", "cross", "report"))
    parser.add_argument("--sets", nargs="+", choices=(*SETS, *SAMPLES), help="all of a kind by default")
    parser.add_argument("--contestants", nargs="+", default=list(CONTESTANTS), choices=list(CONTESTANTS))
    parser.add_argument("--because", help="what the opening is for")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--developed", action="store_true", help="report what `develop` scored")
    kinds.add_argument("--crossed", action="store_true", help="report the samples")
    parser.add_argument("--state", type=Path, default=Path("reports/quality"), metavar="FOLDER")
    results.add_out(parser)
    asked = parser.parse_args()
    kind = {"develop": "developed", "open": "opened", "cross": "crossed"}.get(asked.what, "opened")
    if asked.what == "report":
        kind = "developed" if asked.developed else "crossed" if asked.crossed else kind
    sets = asked.sets or list(SAMPLES if kind == "crossed" else SETS)
    if asked.what == "report":
        return report(asked.state, kind, sets, asked.out)
    if asked.what == "open":
        if not asked.because:
            parser.error("open: expected --because")
        opening(asked.because, asked.state)
    answer_all(kind, sets, asked.contestants, asked.state)
    return 0


if __name__ == "__main__":
    sys.exit(main())
