"""What would help most, and what more queries are worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localrank_training.learning_curve import METRIC as CURVE_METRIC
from localrank_training.removals import METRIC
from localrank_training.report import Axis, Dots, Line, Plot, Section, Table
from localrank_training.reporting.differences import called, differences, named, signed, within

if TYPE_CHECKING:
    from localrank_training.advice import Advice
    from localrank_training.learning_curve import LearningCurve
    from localrank_training.report import Part


def advised(advice: Advice | None, why_not: str = "") -> Section:
    """Return the section with the advice."""
    title = "What would help most"
    if advice is None:
        return Section(title, [why_not])
    whole = advice.removals[0].loss.candidate
    looked = f"{advice.queries:,} of {advice.of:,} queries and their {advice.documents:,} documents"
    parts: list[Part] = [
        *map(named, advice.sentences),
        differences(
            "What is lost without some of the data",
            f"A quick linear model reaches {called(METRIC)} {whole:.4f} with all data. Right of the line the "
            "model is worse without that part.",
            [("loss", [(f"without {one.text}", one.loss) for one in advice.removals])],
            unit=f"loss in {called(METRIC)}",
            names="",
        ),
        Table(
            "What is lost without some of the data",
            ("without", called(METRIC), "loss", "p (Holm)"),
            [
                (
                    one.text,
                    one.loss.baseline,
                    within(one.loss.difference, one.loss.interval),
                    one.loss.p_holm,
                )
                for one in advice.removals
            ],
            f"Measured on {looked}. The number after ± is half of the 95 % interval. Twice as much of "
            "something brings less than the loss without half of it, because gains shrink.",
        ),
    ]
    return Section(title, parts)


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
