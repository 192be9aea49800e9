"""``localrank experiments``: what users prefer, from the log of a service."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from localrank.commands.output import print_json
from localrank.errors import InvalidData
from localrank_training.cli.arguments import add
from localrank_training.cli.output import AsJson

app = typer.Typer(name="experiments", help="Results of canaries, splits and interleaving.")
app.callback()(lambda: None)


class SplitMetric(StrEnum):
    """What is asked of an impression of a split."""

    clicked = "clicked"
    reciprocal_rank = "reciprocal_rank"


def report(
    log: Annotated[
        list[str],
        typer.Argument(help="Folders or files of the impression log.", show_default=False),
    ],
    *,
    experiment: Annotated[str | None, typer.Option(help="Report only the experiment with this name.")] = None,
    metric: Annotated[
        SplitMetric,
        typer.Option(
            help="How to measure a split: whether anything was clicked, or 1 / rank of the first click."
        ),
    ] = SplitMetric.clicked,
    alpha: Annotated[
        float,
        typer.Option(
            min=1e-6,
            max=0.5,
            help="Probability of a wrong verdict, at any time, if both versions are equally good.",
        ),
    ] = 0.05,
    power: Annotated[
        float, typer.Option(min=0.5, max=0.999, help="Probability of finding the effect of --effect.")
    ] = 0.8,
    effect: Annotated[
        float, typer.Option(min=1e-4, max=1.0, help="The smallest effect that matters.")
    ] = 0.05,
    minimum: Annotated[
        int,
        typer.Option(
            min=1, help="Smallest number of interleaved impressions, or of sessions, before a verdict."
        ),
    ] = 100,
    as_json: AsJson = False,
) -> None:
    """Find out which version users prefer, or how many more impressions are needed.

    You can look as often as you like and stop when there is a verdict: early looks do not make wrong verdicts more
    frequent.

    Examples:
      localrank experiments report impressions
      localrank experiments report impressions --experiment web-mixed --effect 0.02 --json
    """
    from localrank.journal import Logged
    from localrank_training.data.clicks.joining import judged
    from localrank_training.data.clicks.outcomes import outcomes_of, sentences, verdict

    found = [
        verdict(one, alpha=alpha, power=power, effect=effect, minimum=minimum)
        for one in outcomes_of(judged(Logged(log)), metric=metric.value, experiment=experiment)
    ]
    if not found:
        wanted = "an experiment" if experiment is None else f"the experiment {experiment!r}"
        raise InvalidData(f"{', '.join(log)}: expected impressions that took part in {wanted}, found none")
    if as_json:
        print_json([one.to_json() for one in found])
        return
    for one in found:
        for line in sentences(one):
            typer.echo(line)


add(app, report)
