"""The page of a training run: what the model is worth, what was chosen, what would help, how to make it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from localrank_training.advice.learning_curve import METRIC as CURVE_METRIC
from localrank_training.report.html import Facts, Folded, Items, Page, Pre, Section, Table
from localrank_training.report.parts import (
    advised,
    called,
    data,
    mean_of,
    named,
    sentence,
    signed,
)
from localrank_training.report.plots import Axis, Dots, Line, Plot
from localrank_training.report.quality import features, locality, quality
from localrank_training.settings.config import to_toml, value_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localrank.artifact import Manifest
    from localrank.features.contract import FeatureContract
    from localrank_training.advice.learning_curve import LearningCurve
    from localrank_training.data.inspection import Inspection
    from localrank_training.learners.settings import LearnerSettings
    from localrank_training.report.background import Background
    from localrank_training.report.figures import BlendReport, TrainingReport
    from localrank_training.report.html import Part
    from localrank_training.run.blended import CrossFitted
    from localrank_training.run.train import Trained
    from localrank_training.settings.config import TrainingConfig

#: Trials and notes that are listed, the best first.
_TRIALS, _NOTES = 20, 25
#: Features that are listed; a page of thousands would be no page.
_FEATURES = 300


@dataclass(frozen=True, slots=True)
class VersionOrigin:
    """Where a version comes from.

    Attributes:
        command: as it was typed; empty if there was none.
        manifest: of the version.
        asked: the configuration that the run began with, choices left open.
        megabytes: of the version.
    """

    command: str
    manifest: Manifest
    asked: TrainingConfig
    megabytes: float


def page_of_run(
    trained: Trained, report: TrainingReport, background: Background, origin: VersionOrigin
) -> Page:
    """Return the page of a version that has just been published."""
    name, version = origin.manifest.name, origin.manifest.version
    missing = background.missing
    return Page(
        f"Training report: {name}, version {version}",
        sentence(named(report.verdict.sentence.removeprefix("verdict: "))),
        [
            _facts(trained, report),
            quality(report, trained.held_out),
            chosen(report, trained),
            locality(report, trained, background.map),
            features(background.importances, report),
            advised(background.advice, missing.get("advice", "")),
            curved(background.curve, missing.get("curve", "")),
            data(background.inspection),
            contract_of(trained.built.ranker.contract, background.inspection),
            made(origin),
        ],
        foot=f"LocalRank {origin.manifest.source['libraries']['localrank']}, {origin.manifest.created}. This file asks no other "
        "host for anything.",
    )


def _facts(trained: Trained, report: TrainingReport) -> Facts:
    measured = report.local[-1]
    mean, interval = mean_of(measured.per_query)
    within = "" if interval is None else f"{interval.low:.4f} to {interval.high:.4f}; "
    found: list[tuple[str, object, str]] = [(called(measured.name), mean, f"{within}on held-out queries")]
    baseline = report.baseline.comparisons[-1]
    found.append(
        (
            f"{called(baseline.metric)} against {'your present order' if report.baseline.given else 'the best feature'}",
            signed(baseline.difference),
            named(report.baseline.sentence),
        )
    )
    if report.blend is not None:
        rival = report.blend.best
        against = rival.comparisons[-1]
        found.append(
            (
                f"{called(against.metric)} against its best member",
                signed(against.difference),
                f"`{rival.name}` alone",
            )
        )
    elif report.comparisons:
        against = report.comparisons[-1]
        found.append((f"{called(against.metric)} against its global scorer", signed(against.difference), ""))
    queries = trained.queries
    found.append(
        (
            "judged queries",
            len(queries),
            f"{queries.n_docs:,} documents, {queries.n_features:,} features",
        )
    )
    if report.clusters:
        ranker = trained.built.ranker
        own = sum(scorer is not ranker.global_scorer for scorer in ranker.scorers)
        found.append(
            (
                "clusters",
                len(report.clusters),
                f"{own} with a scorer of their own"
                if own
                else "not in the version: the global scorer answers all",
            )
        )
    return Facts(found)


def chosen(report: TrainingReport, trained: Trained) -> Section:
    """Return the section."""
    parts: list[Part] = []
    found = trained.cross_fitted
    if found is not None and report.blend is not None:
        parts += _members(report.blend, found)
        parts += _cheaper(report.blend)
    elif found is not None:
        parts.append(
            f"A blend of {len(found.learner.members)} members with equal weights. There were too few queries "
            "to hold some out, so no setting was chosen by figures."
        )
    else:
        parts.append(_recipe(trained.config))
    if found is not None:
        parts += _plan(found)
    parts += _trials(report)
    if report.notes:
        shown = list(report.notes[:_NOTES])
        more = len(report.notes) - len(shown)
        said = [sentence(note) for note in shown]
        parts += ["To know:", Items([*said, *([f"{more} more notes are in the manifest."] if more else [])])]
    return Section("What was chosen, and why", parts)


def _recipe(config: TrainingConfig) -> str:
    learner, clusters = config.learner.method, config.clustering
    if clusters.method == "none":
        return f"One model for all queries, learned by `{learner}`."
    parts = [
        f"Queries are represented by `{config.representation.method}`, compared by `{config.similarity.name}`",
        f"clustered by `{clusters.method}` and routed by `{config.routing.method}`",
        f"each cluster's scorer is learned by `{learner}`",
    ]
    return f"{parts[0]}, {parts[1]}; {parts[2]}."


def _members(blend: BlendReport, found: CrossFitted) -> list[Part]:
    settled = _settled(found)
    total = sum(rival.weight or 0.0 for rival in blend.rivals)
    rows = []
    for number, rival in enumerate(blend.rivals):
        weight = rival.weight
        share = "left out" if weight is None else f"{weight / total:.0%}" if total else "equal"
        rows.append((f"`{rival.name}`", settled.get(number, ""), share, round(rival.microseconds)))
    unused = sum(rival.weight == 0 for rival in blend.rivals)
    out = sum(rival.weight is None for rival in blend.rivals)
    n_weighed = len(blend.rivals) - unused - out
    sum_of = (
        "that of one member," if n_weighed == 1 else f"the weighted sum of {n_weighed} members' scores, each"
    )
    said = [
        (
            f"The score of a document is {sum_of} standardised within the list. The chosen settings and weights have "
            "the best mean of MAP and NDCG@10 on queries that the members had not seen."
        )
    ]
    if unused:
        said.append(
            f"{unused} members have weight 0: they add nothing to the others."
            if unused > 1
            else "One member has weight 0: it adds nothing to the others."
        )
    if out:
        were = "members were" if out > 1 else "member was"
        said.append(f"{out} {were} left out to stay within the latency budget.")
    return [
        " ".join(said),
        Table("Members and their weights", ("member", "chosen settings", "weight", "CPU µs"), rows),
    ]


def _settled(found: CrossFitted) -> dict[int, str]:
    """Return the settings that were choices, by number of the member among those that were tried."""
    if found.tried is None or found.out_of_fold is None:
        return {}
    planned = found.plan.blend.members
    learners = {
        one.position: member
        for one, member in zip(found.out_of_fold.tried, found.learner.members, strict=True)
    }
    said = {}
    for number, one in enumerate(found.tried.tried):
        if one.position in learners:
            said[number] = _choices(planned[one.position], learners[one.position])
    return said


def _choices(planned: LearnerSettings, settled: LearnerSettings) -> str:
    combinations = planned.combinations()
    names = [name for name in combinations[0] if len({repr(one[name]) for one in combinations}) > 1]
    values = settled.settings
    return "; ".join(
        f"{name} = {_text(values[name])} of {', '.join(dict.fromkeys(_text(one[name]) for one in combinations))}"
        for name in names
        if name in values
    )


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else value_text(value)


def _cheaper(blend: BlendReport) -> list[Part]:
    if len(blend.frontier) < 2:
        return []
    rows = [(len(one.members), round(one.microseconds), one.value) for one in blend.frontier]
    best = max(blend.frontier, key=lambda one: one.value)
    return [
        Folded(
            "Fewer members: their costs and their quality",
            [
                Table(
                    "Processor time against quality",
                    ("members", "CPU µs", "mean of MAP and NDCG@10"),
                    rows,
                    f"{len(best.members)} members have the best value; differences this small are often "
                    "chance. `--latency-budget MICROSECONDS` trains with fewer.",
                )
            ],
        )
    ]


def _plan(found: CrossFitted) -> list[Part]:
    plan = found.plan
    said = f"The run was planned to take about {plan.seconds:.0f} processor seconds"
    budget = plan.blend.budget
    said += (
        ", without a budget."
        if budget is None
        else f" of a budget of {budget:g}."
        if plan.seconds <= budget
        else f", more than its budget of {budget:g}: less cannot be fitted."
    )
    said += (
        f" To fit, this was cut: {', '.join(f'`{cut}`' if ' on ' in cut else cut for cut in plan.cuts)}."
        if plan.cuts
        else " Nothing was cut."
    )
    title, header, rows = plan.table()
    return [said, Folded("The plan", [Table(title, header, [(f"`{row[0]}`", *row[1:]) for row in rows])])]


def _trials(report: TrainingReport) -> list[Part]:
    if not report.trials:
        return []
    best = sorted(report.trials, key=lambda one: -one.value)[:_TRIALS]
    best += [one for one in report.trials if one.chosen and one not in best]
    rows = [(one.setting, one.value, "chosen" if one.chosen else "") for one in best]
    more = len(report.trials) - len(best)
    caption = f"How they were measured: {report.how}." + (f" The {more} worst are left out." if more else "")
    return [
        Table(
            "What was tried, best first",
            ("settings", report.chosen_by.replace("map", "MAP").replace("ndcg", "NDCG"), ""),
            rows,
            caption,
        )
    ]


def curved(curve: LearningCurve | None, why_not: str = "") -> Section:
    """Return the section with the learning curve."""
    title = "What more queries are worth"
    if curve is None:
        return Section(title, [why_not])
    metric = called(CURVE_METRIC)
    queries = [point.queries for point in curve.points]
    means = [point.mean for point in curve.points]
    last = means[-1]
    within = [None if point.behind is None else point.behind.interval for point in curve.points]
    plot = Plot(
        "Learning curve",
        "Each point is a whole training run on fewer queries, measured on queries that it had not seen.",
        x=Axis("queries in training", zero=True),
        y=Axis(metric),
        marks=[
            Line("", queries, means, dots=False, tone=0),
            Dots(
                "",
                queries,
                means,
                [None if one is None else last - one.high for one in within],
                [None if one is None else last - one.low for one in within],
                tone=0,
            ),
        ],
        intervals=f"95 % intervals of the difference from the last point, over {curve.examined} queries",
        numbers=False,
    )
    rows = [
        (
            round(point.queries),
            point.mean,
            "" if point.behind is None else signed(-point.behind.difference),
            "" if one is None or point.behind is None else f"[{signed(-one.high)}, {signed(-one.low)}]",
        )
        for point, one in zip(curve.points, within, strict=True)
    ]
    return Section(
        title,
        [
            named(curve.sentence),
            plot,
            Table("The learning curve", ("queries", metric, "against the last", "95 % interval"), rows),
        ],
    )


def contract_of(contract: FeatureContract, found: Inspection) -> Section:
    """Return the section with the contract."""
    known = {one.name: one for one in found.features}
    rows: list[tuple[object, ...]] = []
    for place, name in enumerate(contract.names[:_FEATURES]):
        one = known.get(name)
        feature = contract.features[place]
        values = "value" if len(feature.values) == 1 else "values"
        rows.append(
            (
                name,
                *(
                    (f"{len(feature.values)} {values}", "", "")
                    if feature.kind == "category"
                    else (f"{contract.quantiles[row, place]:.4g}" for row in (0, 4, -1))
                ),
                contract.missing[place],
                None if one is None else one.missing,
                None if one is None else f"{one.zeros:.0%}",
            )
        )
    more = len(contract.names) - len(rows)
    return Section(
        "What the model expects",
        [
            (
                f"{len(contract.names):,} features, by name or in this order, normalised by "
                f"`{contract.normalise}`. A document that does not fit is refused with an error message. The "
                f"hash of the contract is `{contract.digest}`."
            ),
            Folded(
                "The features",
                [
                    Table(
                        "Features, their range in training and how missing values are replaced",
                        ("feature", "least", "median", "greatest", "if missing", "missing", "zeros"),
                        rows,
                        f"{more} more features are in the manifest." if more else "",
                    )
                ],
            ),
        ],
    )


def made(origin: VersionOrigin) -> Section:
    """Return the section."""
    manifest = origin.manifest
    source: Mapping[str, Any] = manifest.source
    parts: list[Part] = []
    if origin.command:
        parts += ["The same command on the same data makes the same model.", Pre(origin.command)]
    rows: list[tuple[object, ...]] = [
        ("model", f"{manifest.name}, version {manifest.version}"),
        ("made", manifest.created),
        ("size on disk", f"{origin.megabytes:.1f} MB"),
        ("seed", source["configuration"].get("seed", 0)),
    ]
    for name, one in source["data"].items():
        rows += [
            (f"{name} data", f"{one['queries']:,} queries, {one['documents']:,} documents"),
            (f"fingerprint of the {name} data", one["fingerprint"]),
        ]
    rows += [("contract", manifest.contract.digest), ("Python", source["python"])]
    rows += list(source["libraries"].items())
    parts += [
        Table("Versions and seeds", ("what", "which"), [(name, str(value)) for name, value in rows]),
        Folded("The configuration at the start of the run", [Pre(to_toml(origin.asked.to_json()))]),
        Folded("The configuration with every choice made", [Pre(to_toml(source["configuration"]))]),
    ]
    return Section("How to make it again", parts)
