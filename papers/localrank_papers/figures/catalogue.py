"""All experiments by name."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from localrank.errors import InvalidConfiguration
from localrank.spelling import did_you_mean
from localrank_papers.figures import adaptive, lgmml, local_rank, mhr, pca_query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank_papers.figures.role import Experiment

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
