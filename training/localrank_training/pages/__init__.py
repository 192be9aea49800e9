"""The names of `localrank_training.report` for the papers, until these are a package of their own."""

from dataclasses import dataclass

from localrank_training.report import *  # noqa: F403
from localrank_training.report import Plot, svg


@dataclass(frozen=True)
class Drawing:
    """A file with plots."""

    svg: str


def drawing(*plots: Plot) -> Drawing:
    """Draw plots into one file."""
    return Drawing(svg(*plots))
