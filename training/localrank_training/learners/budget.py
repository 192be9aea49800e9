"""The plan of a cross-fitted blend: what it fits, how many processor seconds that takes, and what is cut to save time.

The seconds are counted from documents, columns, rounds and trees, not timed: the same data and the same budget make the
same plan on every machine, so the same seed gives the same model. One core of 2020 needs about as long as the plan says.

Cuts are made in the order of what they cost in quality, the cheapest first, until the plan fits: one seed instead of
several, two values of every choice, half the rounds, a third of the trees; then the members that take longest go, one by one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from localrank.features.blocks import parse
from localrank_training.learners.settings import LearnerSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from localrank_training.learners.blend import Blend
    from localrank_training.learners.role import Learner

#: Seconds of a boosting round: once, per document, per number looked at.
_ROUND, _ROUND_DOCUMENT, _ROUND_NUMBER = 4.5e-4, 2.5e-7, 5e-10
#: Seconds per number: of a tree whose splits look at a tenth of the columns, and of a linear model.
_TREE_NUMBER, _LINEAR_NUMBER = 8e-9, 1e-7
#: Routes, local models, weights and figures, as a share of the fits.
_ELSE = 0.2


@dataclass(frozen=True, slots=True)
class Fits:
    """What one member of a blend fits: each candidate once per part, and the chosen one on everything."""

    member: str
    candidates: int
    fits: int
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class FitPlan:
    """What will be fitted.

    Attributes:
        blend: with the members that are left.
        members: one entry for each.
        seconds: of everything, rounded up; more than the budget if not even one member fits into it.
        cuts: what was cut, in this order.
    """

    blend: Blend
    members: tuple[Fits, ...]
    seconds: float
    cuts: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return what the manifest keeps."""
        return {
            "budget": self.blend.budget,
            "seconds": self.seconds,
            "members": [asdict(one) for one in self.members],
            "cuts": list(self.cuts),
        }

    def table(self) -> tuple[str, Sequence[str], Sequence[Sequence[object]]]:
        """Return a title, a header and rows for a terminal."""
        title = f"Plan: about {self.seconds:.0f} processor seconds"
        if self.blend.budget is not None:
            title += f" of {self.blend.budget:g}"
        if self.cuts:
            title += f"; cut: {', '.join(self.cuts)}"
        rows = [(one.member, one.candidates, one.fits, f"{one.seconds:.1f}") for one in self.members]
        return title, ("member", "candidates", "fits", "CPU s"), rows


def seconds_of(learner: Learner, n_docs: int, n_features: int) -> float:
    """Return what one fit takes, counted."""
    width = n_features * max(sum(block.name not in {"list", "route"} for block in parse(learner.blocks)), 1)
    rounds = getattr(learner, "num_iterations", None)
    if rounds is not None:
        each = _ROUND + n_docs * (_ROUND_DOCUMENT + width * _ROUND_NUMBER)
        return float(each * rounds * getattr(learner, "members", 1))
    trees = getattr(learner, "trees", None)
    if trees is not None:
        return float(trees * n_docs * width * _TREE_NUMBER)
    return n_docs * width * _LINEAR_NUMBER


def plan_fits(blend: Blend, n_docs: int, n_features: int) -> FitPlan:
    """Return the parts that are fitted on this many documents within the blend's budget."""
    n_docs = min(n_docs, blend.documents)
    plan = _plan(blend, n_docs, n_features, ())
    if blend.budget is None:
        return plan
    for text, cut in _CUTS:
        if plan.seconds <= blend.budget:
            return plan
        members = tuple(_cut(one, cut) for one in plan.blend.members)
        if members != plan.blend.members:
            plan = _plan(replace(plan.blend, members=members), n_docs, n_features, (*plan.cuts, text))
    while plan.seconds > blend.budget and len(plan.members) > 1:
        longest = max(range(len(plan.members)), key=lambda number: plan.members[number].seconds)
        plan = _plan(
            without(plan.blend, longest),
            n_docs,
            n_features,
            (*plan.cuts, f"without {plan.members[longest].member}"),
        )
    return plan


def without(blend: Blend, position: int) -> Blend:
    """Return the blend without one of its members; if it is the local one, no member is local."""
    members = blend.members[:position] + blend.members[position + 1 :]
    number = position + 1
    local = 0 if blend.local == number else blend.local - (blend.local > number)
    return replace(blend, members=members, local=local)


def _plan(blend: Blend, n_docs: int, n_features: int, cuts: tuple[str, ...]) -> FitPlan:
    found = []
    share = (blend.parts - 1) / blend.parts
    for member in blend.members:
        learners = member.candidates()
        each = [seconds_of(learner, n_docs, n_features) for learner in learners]
        found.append(
            Fits(
                f"{member.method} on {learners[0].blocks}",
                len(learners),
                len(learners) * blend.parts + 1,
                sum(each) * blend.parts * share + max(each),
            )
        )
    return FitPlan(blend, tuple(found), (1 + _ELSE) * sum(one.seconds for one in found), cuts)


def _cut(
    member: LearnerSettings, cut: Callable[[dict[str, Any], LearnerSettings], dict[str, Any]]
) -> LearnerSettings:
    """Return the member with cut settings; those that nobody wrote have the learner's defaults."""
    learner = member.candidates()[0]
    defaults = {
        name: getattr(learner, name)
        for name in ("members", "num_iterations", "trees")
        if name not in member.settings and hasattr(learner, name)
    }
    found = cut({**defaults, **member.settings}, member)
    return LearnerSettings(
        member.method,
        {name: value for name, value in found.items() if name in member.settings or value != defaults[name]},
    )


def _one_seed(settings: dict[str, Any], _member: LearnerSettings) -> dict[str, Any]:
    return settings | ({"members": 1} if "members" in settings else {})


def _two_values(settings: dict[str, Any], member: LearnerSettings) -> dict[str, Any]:
    """Keep the two values in the middle of every choice."""
    combinations = member.combinations()
    for name, value in member.settings.items():
        if any(isinstance(one[name], list | tuple) for one in combinations):
            continue
        if isinstance(value, list | tuple) and len(value) > 2:
            middle = (len(value) - 2) // 2
            settings[name] = list(value[middle : middle + 2])
    return settings


def _half_the_rounds(settings: dict[str, Any], _member: LearnerSettings) -> dict[str, Any]:
    rounds = settings.get("num_iterations")
    if isinstance(rounds, int) and rounds > 1:
        settings["num_iterations"] = rounds // 2
        if settings.get("averaged"):
            settings["averaged"] = sorted({max(one // 2, 1) for one in settings["averaged"]})
    return settings


def _a_third_of_the_trees(settings: dict[str, Any], _member: LearnerSettings) -> dict[str, Any]:
    trees = settings.get("trees")
    return settings | ({"trees": max(trees // 3, 1)} if isinstance(trees, int) else {})


_CUTS: tuple[tuple[str, Callable[[dict[str, Any], LearnerSettings], dict[str, Any]]], ...] = (
    ("one seed", _one_seed),
    ("two values of every choice", _two_values),
    ("half the rounds", _half_the_rounds),
    ("a third of the trees", _a_third_of_the_trees),
)
