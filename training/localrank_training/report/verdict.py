"""The conclusion of a training run, in one sentence that says what to do.

Local models cost memory, routing and attention, so they must be better than the model's own global scorer by more than
chance: some metric's difference is above zero with a p value of at most `LEVEL`, adjusted for all metrics (Holm). A blend
without local models must be better than the best of its members alone; that member was chosen by these figures, so the
comparison is a little too strict. If the user names the present order, the verdict speaks of that first: a model that is
not better than it should not be served.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from localrank_training.evaluation.comparisons import compare_family, holm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.metrics import Measured
    from localrank_training.evaluation.baselines import AgainstBaseline
    from localrank_training.evaluation.comparisons import Comparison
    from localrank_training.report.figures import BlendReport

#: Of the adjusted p value.
LEVEL = 0.05

#: ``suspect``: the figures are too good to be true.
Outcome: TypeAlias = Literal["better", "worse", "same", "suspect"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision and its reason.

    Attributes:
        outcome: of the candidate beside what it is compared with.
        sentence: for people.
    """

    outcome: Outcome
    sentence: str

    def __str__(self) -> str:
        return self.sentence

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"outcome": self.outcome, "sentence": self.sentence}


def of_clusters(
    comparisons: Sequence[Comparison],
    n_queries: int,
    *,
    against: str = "its global scorer",
    smaller: str = "train with --method global, which is smaller",
    alone: str = "",
) -> Verdict:
    """Judge local models beside their own global scorer, on queries that neither has learned from.

    Args:
        comparisons: of all metrics.
        n_queries: how many queries.
        against: what stands for the global scorer, in words.
        smaller: what to do if nothing is gained.
        alone: what is known of a model without clusters.
    """
    if not comparisons:
        said = alone or "no local model to compare with"
        return Verdict("same", f"verdict: one global model; {said}")
    outcome, most = _outcome(comparisons)
    if outcome == "better":
        return Verdict(outcome, f"verdict: better than {against}: {_said(most)}; promote it")
    if outcome == "worse":
        return Verdict(outcome, f"verdict: worse than {against}: {_said(most)}; {smaller}")
    if all(one.wins == one.losses == 0 for one in comparisons):
        return Verdict("same", f"verdict: ranks every query as {against} does; {smaller}")
    detectable = [one.detectable for one in comparisons if one.detectable is not None]
    power = f", enough to find a difference of {min(detectable):.4f}" if detectable else ""
    return Verdict(
        "same",
        f"verdict: no better than {against} on any metric ({n_queries} queries{power}); {smaller}",
    )


def of_blend(blend: BlendReport, comparisons: Sequence[Comparison], n_queries: int) -> Verdict:
    """Judge a blend: with local models beside the same blend without them, else beside the best of its members alone."""
    if any(one.wins or one.losses for one in comparisons):
        smaller = "train with --set clustering.method='none', which is smaller"
        if blend.localised is not None and blend.localised.named:
            smaller = (
                f"leave --kind out and add --query-feature {blend.localised.by}, which uses local models only if they are "
                "clearly better"
            )
        return of_clusters(
            comparisons, n_queries, against="the same blend without local models", smaller=smaller
        )
    if len(blend.rivals) == 1:
        return Verdict("same", "verdict: a blend of one member, with nothing to compare it with")
    best = blend.best
    adjusted = holm([one.p for one in best.comparisons])
    family = [replace(one, p_holm=float(p)) for one, p in zip(best.comparisons, adjusted, strict=True)]
    return of_clusters(
        family,
        blend.n_queries,
        against=f"the best of its members alone ({best.name})",
        smaller="promote it, or train that member alone, which is smaller",
    )


def of_baseline(baseline: AgainstBaseline, inner: Verdict) -> Verdict:
    """Judge a model beside the present order first, then as ``inner`` says.

    Args:
        baseline: what the user named.
        inner: the verdict on the model beside simpler ones of its own.
    """
    outcome, _ = _outcome(baseline.comparisons)
    if outcome == "better":
        rest = inner.sentence.removeprefix("verdict: ")
        return Verdict(inner.outcome, f"verdict: {baseline.sentence}: better. Besides: {rest}")
    said = "worse" if outcome == "worse" else "no better on any metric"
    return Verdict(outcome, f"verdict: {baseline.sentence}: {said}; keep your present order")


def against_served(new: Sequence[Measured], served: Sequence[Measured], name: str) -> Verdict:
    """Judge a new version beside the one that is served, on the queries that the new one held out.

    The served version may have learned from some of them; then its figure is too good.
    """
    outcome, most = _outcome(compare_family(new, served))
    if outcome == "same":
        return Verdict("same", f"not promoted: no metric differs from {name} by more than chance")
    if outcome == "worse":
        return Verdict("worse", f"not promoted: worse than {name}: {_said(most)}")
    return Verdict("better", f"promoted: better than {name}: {_said(most)}")


def is_better(comparisons: Sequence[Comparison]) -> bool:
    """Whether a candidate is better on some metric by more than chance, and worse on none."""
    return _outcome(comparisons)[0] == "better"


def _outcome(comparisons: Sequence[Comparison]) -> tuple[Outcome, Comparison]:
    """Return better if some metric is and none is worse, worse if some metric is, and the clearest of them."""
    clear = sorted(
        (one for one in comparisons if one.p_holm <= LEVEL and one.difference), key=lambda one: one.p_holm
    )
    worse = [one for one in clear if one.difference < 0]
    if worse:
        return "worse", worse[0]
    return ("better", clear[0]) if clear else ("same", comparisons[0])


def _said(one: Comparison) -> str:
    return f"{one.metric} {one.candidate:.4f} instead of {one.baseline:.4f} ({one.difference:+.4f}, p = {one.p_holm:.2g})"
