"""What commands print of figures: lines and tables, in the order of reading."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from localrank.arrays import html_table
from localrank.commands.output import print_table
from localrank_training.evaluation.latency import DOCUMENTS
from localrank_training.evaluation.stability import IN_WORDS
from localrank_training.grouping.kinds import SHAPE
from localrank_training.report.figures import (
    BLEND_METRICS,
    CONVENTION,
    METRICS,
    against_best,
    setting_name,
)
from localrank_training.report.html import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from localrank.metrics import Convention, Measured
    from localrank_training.data.inspection import Inspection
    from localrank_training.evaluation.baselines import AgainstBaseline
    from localrank_training.evaluation.comparisons import Comparison
    from localrank_training.evaluation.evaluating import Evaluation
    from localrank_training.evaluation.leaks import Leaks
    from localrank_training.report.assessment import Assessment
    from localrank_training.report.figures import BlendReport, Sides, TrainingReport
    from localrank_training.run.blended import Localised
    from localrank_training.run.tables import TablesTrial
    from localrank_training.run.tune import Tuned

#: More clusters than this are summed up in a line.
_CLUSTERS = 20
#: Settings of a tuning; all of them are in its file.
_SETTINGS = 12


def show(parts: Iterable[str | Table], most: int | None = None) -> None:
    """Print lines and tables; of each table this many rows."""
    for part in parts:
        if isinstance(part, str):
            print(part)
            continue
        if part.title:
            print(f"\n{part.title}")
        print_table(part.header, part.rows, most)


def notebook(report: TrainingReport) -> str:
    """Return the tables of a training run and its verdict as HTML for a notebook."""
    tables = (html_table(one.title, one.header, one.rows) for one in of_run(report))
    return "\n".join([*tables, f"<p>{escape(str(report.verdict))}</p>"])


def of_run(report: TrainingReport) -> Iterator[Table]:
    """Return the tables of a training run."""
    yield _baseline(report.baseline)
    if report.blend is not None:
        yield from _of_blend(report.blend)
    yield _held_out(report)
    if report.trials:
        tried = [(one.setting, one.value, "chosen" if one.chosen else "") for one in report.trials]
        yield Table(f"Choices ({report.how})", ("settings", report.chosen_by, ""), tried)
    if report.clusters:
        yield _clusters(report)
    if report.stability:
        changes = [(IN_WORDS.get(change, change), rate) for change, rate in report.stability.items()]
        yield Table("Stability: share of the queries that change their cluster", ("if", "share"), changes)


def _clusters(report: TrainingReport) -> Table:
    """Return the table of clusters: beside the global scorer's figures if any cluster's differ."""
    local = report.differs
    rows = [
        (number, one.size, one.exemplar, one.figures["queries"], one.figures["local"])
        + ((one.figures["global"],) if local else ())
        for number, one in enumerate(report.clusters)
    ]
    header = ("cluster", "queries", "typical query", "held out", METRICS[-1])
    if local:
        return Table("Clusters", (*header, "global scorer's"), rows)
    return Table("Kinds of queries, all answered by the global scorer", header, rows)


def _held_out(report: TrainingReport) -> Table:
    """Return the table of all metrics: beside the global scorer's if the model is anything else."""
    title = f"Held out: {report.how}; {report.local[0].basis}"
    if not report.differs:
        return Table(title, ("metric", "model"), [(mine.name, mine.mean) for mine in report.local])
    rows = [
        (
            one.metric,
            one.candidate,
            one.baseline,
            f"{one.difference:+.4f}",
            one.interval_text,
            one.p_holm,
            one.hurt,
        )
        for one in report.comparisons
    ]
    header = ("metric", "model", "global", "difference", "95 % interval", "p (Holm)", "hurt by > 0.1")
    return Table(title, header, rows)


def _baseline(found: AgainstBaseline) -> Table:
    rows = [
        (one.metric, one.candidate, one.baseline, f"{one.difference:+.4f}", one.interval_text, one.p_holm)
        for one in found.comparisons
    ]
    header = ("metric", "model", "baseline", "difference", "95 % interval", "p (Holm)")
    return Table(f"Against {found.name}".removesuffix(","), header, rows)


def _of_blend(blend: BlendReport) -> Iterator[Table]:
    yield from _members(blend)
    yield Table(
        f"Fewer members: CPU against quality (mean of {' and '.join(BLEND_METRICS)})",
        ("members", "CPU µs", "value"),
        [(len(one.members), round(one.microseconds), one.value) for one in blend.frontier],
    )


def _members(blend: BlendReport) -> Iterator[Table]:
    first = blend.rivals[0].comparisons
    rows: list[tuple[object, ...]] = [
        ("this model", None, *(one.candidate for one in first), "", "", None),
        *(
            (
                rival.name,
                rival.weight,
                *(one.baseline for one in rival.comparisons),
                *(f"{one.difference:+.4f} {one.interval_text}" for one in rival.comparisons),
                round(rival.microseconds),
            )
            for rival in blend.rivals
        ),
    ]
    better = (f"this model is better: {name}" for name in BLEND_METRICS)
    yield Table(
        f"Against each of its members alone: {blend.n_queries} queries, each scored by models that had not seen it "
        f"({CONVENTION}; CPU for {DOCUMENTS} documents, counted)",
        ("ranker", "weight", *BLEND_METRICS, *better, "CPU µs"),
        rows,
    )
    if blend.localised is not None:
        yield _locality(blend.localised)


def _locality(found: Localised) -> Table:
    way = "" if found.by == SHAPE else f"by {found.by}, "
    used = (
        "not used: their gain is below the gate" if found.locality is None else f"used: {way}{found.locality}"
    )
    several = [(f"gain by {by}", str(gain)) for by, gain in found.ways] if len(found.ways) > 1 else []
    rows = [
        ("gain of local models", str(found.gain)),
        *several,
        ("gain with random prototypes", str(found.random)),
        *(
            [("nearest query has the same prototype", f"{found.agreement:.1%} of queries")]
            if found.by == SHAPE
            else []
        ),
    ]
    return Table(f"Locality ({used})", ("what", "found"), rows)


def of_tuning(tuned: Tuned, tables: tuple[TablesTrial, ...], agreement: float) -> Iterator[str | Table]:
    """Return what a tuning has found: settings, best first, what mattered, and the numbers of hash tables."""
    queries = len(tuned.best.local)
    yield f"{tuned.metric} (standard) over {queries} queries, each examined by models that had not seen it\n"
    rows = [
        (
            setting_name(setting),
            setting.mean,
            float(setting.global_.mean()),
            f"{compared.difference:+.4f}",
            str(compared.interval or ""),
        )
        for setting, compared in zip(tuned.settings[:_SETTINGS], against_best(tuned), strict=False)
    ]
    yield Table("", ("settings", tuned.metric, "its global", "less than best", "95 % interval"), rows)
    if len(tuned.settings) > _SETTINGS:
        yield f"… and {len(tuned.settings) - _SETTINGS} more"
    effects = [
        (effect.name, value, mean, best)
        for effect in tuned.effects()
        for value, mean, best in zip(effect.values, effect.means, effect.best, strict=True)
    ]
    if effects:
        header = ("setting", "value", "mean over the others", "best")
        yield Table("What mattered, the most important first", header, effects)
    if tables:
        yield Table(
            f"Hash tables, for an agreement of {agreement:g} with the exact scan on held-out queries",
            ("tables", "planes", "ms", "recall", "agreement", "compared", ""),
            [
                (
                    str(trial.tables) if trial.tables else "exact scan",
                    str(trial.planes or ""),
                    trial.milliseconds,
                    trial.recall,
                    trial.agreement,
                    trial.candidates,
                    "chosen" if trial.chosen else "",
                )
                for trial in tables
            ],
        )


def of_assessment(found: Assessment) -> Iterator[str | Table]:
    """Return what an assessment has found: the quick run, what it says, what should be done about the data."""
    yield f"{found.queries} of {found.of} queries, {found.documents} documents"
    if found.leaks.sentences:
        yield "\n".join(["\nWhat looks wrong", *(f"  {said}" for said in found.leaks.sentences)])
    yield _baseline(found.report.baseline)
    if found.report.blend is not None:
        yield from _members(found.report.blend)
    yield "\n" + "\n".join(found.sentences)
    if found.advice.sentences:
        yield "\n" + "\n".join(found.advice.sentences)


def of_inspection(found: Inspection, leaks: Leaks, rows: int) -> Iterator[str | Table]:
    """Return what judged queries are like, with this many features."""
    sizes = (found.n_queries, found.n_docs, found.n_features, found.label_levels)
    yield Table("", ("queries", "documents", "features", "label levels"), [sizes])
    yield _in_a_row("Documents per query", found.lengths)
    if found.label_levels == len(found.labels):
        shares = [(label, int(count), count / found.n_docs) for label, count in found.labels.items()]
        yield Table("Labels", ("label", "documents", "share"), shares)
    else:
        yield _in_a_row("Labels", found.labels)
    if found.weights is not None:
        yield _in_a_row("Query weights", found.weights)
    if found.positions is not None:
        yield _in_a_row("Positions", found.positions)
    numbers = [one for one in found.features if not one.distinct]
    categories = [one for one in found.features if one.distinct]
    if rows and numbers:
        yield Table(
            "Features (r: correlation with the label within queries)",
            ("feature", "min", "median", "max", "mean", "deviation", "missing", "zeros", "r"),
            [
                (
                    one.name,
                    *(
                        f"{value:.6g}"
                        for value in (one.minimum, one.median, one.maximum, one.mean, one.deviation)
                    ),
                    one.missing,
                    f"{one.zeros:.1%}",
                    one.label_correlation,
                )
                for one in numbers[:rows]
            ],
        )
    if rows and categories:
        yield Table(
            "Categories",
            ("feature", "values", "most frequent, and their documents", "missing"),
            [
                (
                    one.name,
                    one.distinct,
                    ", ".join(f"{value} {count}" for value, count in one.values.items()),
                    one.missing,
                )
                for one in categories[:rows]
            ],
        )
    most = max(len(numbers), len(categories))
    if rows and most > rows:
        yield f"… and {sum(max(len(some) - rows, 0) for some in (numbers, categories))} more (--features {most}, or --json)"
    best = sorted(numbers, key=lambda one: -abs(one.label_correlation))[:5]
    correlations = [(one.name, one.label_correlation) for one in best]
    if correlations:
        yield Table("Strongest with the label", ("feature", "r"), correlations)
    if found.correlations:
        pairs = [(pair.first, pair.second, pair.correlation) for pair in found.correlations]
        yield Table("Strongest between features", ("feature", "feature", "r"), pairs)
    yield "\nWhat looks wrong"
    for one in found.suspicions:
        yield f"  {one.count} of {one.of} {one.what}: {', '.join(one.examples)}"
    for said in leaks.sentences:
        yield f"  {said}"
    if not found.suspicions and not leaks.sentences:
        yield "  nothing"


def _in_a_row(title: str, figures: Mapping[str, float]) -> Table:
    return Table(title, tuple(figures), [tuple(f"{value:g}" for value in figures.values())])


def of_evaluation(evaluations: Iterable[Evaluation], sides: Sides) -> Iterator[str | Table]:
    """Return figures by convention with their comparisons; then ties, the best clusters and the routes of each model."""
    for convention in dict.fromkeys(measured.convention for measured in sides.candidate):
        yield from _figures(convention, sides)
    for one in evaluations:
        yield from _ties(one)
        yield from _oracle(one)
        yield from _routing(one, with_figures=sides.alone)


def _figures(convention: Convention, sides: Sides) -> Iterator[str | Table]:
    compared = {one.metric: one for one in sides.comparisons if one.convention == convention.name}
    some = next(iter(compared.values()), None)
    header = ["metric", "empty", sides.names[0]]
    if some is not None:
        header += [sides.names[1], "difference", "95 % interval", "p", "p (Holm)", "better/equal/worse"]
        header += ["helped/hurt > 0.1"]
        if some.non_inferiority is not None:
            header.append(f"at most {some.non_inferiority.margin:g} worse")
    rows = []
    for ours, theirs in zip(sides.candidate, sides.baseline, strict=True):
        if ours.convention == convention:
            cells = _cells(compared[ours.name], theirs) if ours.name in compared else []
            row = [ours.name, ours.n_empty, ours.mean, *cells]
            rows.append(row + ["-"] * (len(header) - len(row)))
    less = f"; differences are {sides.names[0]} less {sides.names[1]}" if compared else ""
    yield Table(f"{convention.name}: empty queries {convention.empty_text}{less}", header, rows)
    if some is not None:
        significant = sum(one.p_holm < 0.05 for one in compared.values())
        sizes = [f"{one.metric} {one.detectable:.4f}" for one in compared.values() if one.detectable is not None]  # fmt: skip
        yield (
            f"{significant} of {len(compared)} differences are significant at 5 % (Holm). These "
            f"{some.n_queries} queries find a true difference of this size four times in five: "
            + (", ".join(sizes) or "none, because too few of them differ")
        )


def _cells(one: Comparison, baseline: Measured) -> list[object]:
    cells: list[object] = [
        baseline.mean,
        f"{one.difference:+.4f}",
        one.interval_text,
        _probability(one.p),
        _probability(one.p_holm),
        f"{one.wins}/{one.ties}/{one.losses}",
        f"{one.helped}/{one.hurt}",
    ]
    if one.non_inferiority is not None:
        low = one.non_inferiority.low
        bound = "no bound" if low is None else f"{low:+.4f}"
        cells.append(f"{'yes' if one.non_inferiority.holds else 'not shown'} ({bound})")
    return cells


def _probability(p: float) -> str:
    return f"{p:.4f}" if p >= 0.0001 else f"{p:.1e}"


def _ties(evaluation: Evaluation) -> Iterator[str]:
    moved = [
        f"{measured.name} ({measured.convention.name}) {low:.4f} … {high:.4f}"
        for measured, (low, high) in zip(evaluation.local, evaluation.ties, strict=True)
        if high - low >= 0.00005
    ]
    if moved:
        yield (
            f"\n{evaluation.name}: another order of documents with equal scores would give {', '.join(moved)}"
        )


def _oracle(evaluation: Evaluation) -> Iterator[Table]:
    if evaluation.oracle:
        yield Table(
            f"{evaluation.name}: with the best cluster of each query, which is chosen by the labels",
            ("metric", "convention", "routed", "global", "best cluster"),
            [
                (ours.name, ours.convention.name, ours.mean, theirs.mean, best.mean)
                for ours, theirs, best in zip(
                    evaluation.local, evaluation.global_, evaluation.oracle, strict=True
                )
            ],
        )


def _routing(evaluation: Evaluation, *, with_figures: bool) -> Iterator[str | Table]:
    routing = evaluation.routing
    if not routing.clusters:
        yield f"\n{evaluation.name}: one global model, no clusters"
        return
    n = sum(routing.clusters) + routing.to_global
    fallbacks = "".join(f", {reason} {queries}" for reason, queries in routing.fallbacks.items())
    said = (
        f"{evaluation.name}: routed by {routing.strategy} to {sum(map(bool, routing.clusters))} of "
        f"{len(routing.clusters)} clusters, largest {max(routing.clusters) / n:.1%}, "
        f"global scorer {routing.to_global / n:.1%}{fallbacks}"
    )
    if not with_figures or len(evaluation.clusters) > _CLUSTERS:
        yield f"\n{said}"
        return
    figure = evaluation.local[0]
    yield Table(
        said,
        ("cluster", "queries", "share", f"{figure.name} ({figure.convention.name})", "its global"),
        [
            (
                "global" if one.cluster is None else str(one.cluster),
                one.queries,
                f"{one.queries / n:.1%}",
                one.local,
                one.global_,
            )
            for one in evaluation.clusters
        ],
    )
