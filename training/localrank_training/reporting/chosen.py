"""What a training run chose, and why: members and their weights, the plan of fits, the trials, what was left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localrank_training.report import Folded, Items, Section, Table
from localrank_training.toml_text import value_text

if TYPE_CHECKING:
    from localrank_training.blend_report import BlendReport
    from localrank_training.config import TrainingConfig
    from localrank_training.cross_fitting import CrossFitted
    from localrank_training.learners.settings import LearnerSettings
    from localrank_training.report import Part
    from localrank_training.reports import TrainingReport
    from localrank_training.training import Trained

#: Trials that are listed, the best first.
_TRIALS = 20
_NOTES = 25


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
    parts += _trials(report, trained)
    if report.notes:
        shown = list(report.notes[:_NOTES])
        more = len(report.notes) - len(shown)
        said = [_sentence(note) for note in shown]
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
    said = [
        (
            f"The score of a document is the weighted sum of {len(blend.rivals) - unused - out} members' "
            "scores, each standardised within the list. The chosen settings and weights have the best mean "
            "of MAP and NDCG@10 on queries that the members had not seen."
        )
    ]
    if unused:
        said.append(
            f"{unused} members have weight 0: they add nothing to the others."
            if unused > 1
            else "One member has weight 0: it adds nothing to the others."
        )
    if out:
        said.append(f"{out} members were left out to stay within the latency budget.")
    return [
        " ".join(said),
        Table("Members and their weights", ("member", "chosen settings", "weight", "CPU µs"), rows),
    ]


def _settled(found: CrossFitted) -> dict[int, str]:
    """Return the settings that were choices, by number of the member among those that were tried."""
    if found.tried is None or found.rehearsal is None:
        return {}
    planned = found.plan.blend.members
    learners = {
        one.position: member for one, member in zip(found.rehearsal.tried, found.learner.members, strict=True)
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


def _trials(report: TrainingReport, trained: Trained) -> list[Part]:
    if not report.trials:
        return []
    best = sorted(report.trials, key=lambda one: -one.value)[:_TRIALS]
    taken = next((one for one in report.trials if one.chosen), None)
    if taken is not None and taken not in best:
        best.append(taken)
    rows = [(one.setting, one.value, "chosen" if one.chosen else "") for one in best]
    metric = trained.config.selection.metric.upper()
    more = len(report.trials) - len(best)
    caption = f"How they were measured: {report.how}." + (f" The {more} worst are left out." if more else "")
    return [Table("What was tried, best first", ("settings", metric, ""), rows, caption)]


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."
