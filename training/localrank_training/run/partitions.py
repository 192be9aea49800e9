"""Ways to part the queries into those that may share a model: by their shape, and by features of the query."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from localrank.errors import InvalidData
from localrank_training.grouping.kinds import SHAPE
from localrank_training.grouping.prototypes import similarities_to
from localrank_training.run.pipeline import own_routes, plan_of
from localrank_training.settings.steps import ClusteringSettings, RoutingSettings, SimilaritySettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank.arrays import Indices, Vector
    from localrank.routing.route import Route
    from localrank_training.data.clouds import Clouds
    from localrank_training.grouping.prototypes import Locality
    from localrank_training.run.pipeline import Plan
    from localrank_training.settings.config import TrainingConfig

#: A number with more values than this names no kinds.
_MOST_KINDS = 50


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """One way to part the queries, with a router.

    Attributes:
        by: `SHAPE`, the feature whose values are the kinds, or the numbers whose nearness counts.
        config: the run with this clustering and routing.
        plan: its clusters and router.
        routes: of the queries, each by a router that does not know it.
        similarities: ``[n_queries, n_clusters]`` to the prototype of each cluster; of kinds 1 and 0.
        localities: how local its models may be.
    """

    by: str
    config: TrainingConfig
    plan: Plan
    routes: tuple[Route, ...]
    similarities: Vector
    localities: tuple[Locality, ...]

    @classmethod
    def of(cls, by: str, clouds: Clouds, config: TrainingConfig) -> Self:
        """Part the queries.

        Args:
            by: what by, for the report.
            clouds: the queries.
            config: the run with this clustering and routing; the number of clusters is the largest that it names.

        Raises:
            InvalidData: no two of them can be compared, or no kind has enough queries.
        """
        settings = config.clustering
        if settings.method == "prototypes":
            config = config.with_clusters(max(settings.sizes), **settings.options[0])
        plan = plan_of(clouds, config)
        if settings.method == "kind":
            near = (plan.clustering.labels[:, None] == np.arange(len(plan.clustering))).astype(np.float64)
        else:
            near = similarities_to(plan.points, plan.clustering.prototypes, config.similarity.name)
        return cls(by, config, plan, tuple(own_routes(plan, config)), near, settings.localities)

    @property
    def clusters(self) -> Indices:
        """``[n_queries]`` where each query is sent; -1 is nowhere."""
        return np.array([-1 if route.cluster is None else route.cluster for route in self.routes], np.int64)

    def settled(self, locality: Locality) -> TrainingConfig:
        """Return the run with models that are as local as this."""
        if locality.share is None:
            return self.config.with_clusters(None, shrink=locality.shrink)
        return self.config.with_clusters(len(self.plan.clustering), **asdict(locality))


def partitions_of(clouds: Clouds, config: TrainingConfig) -> tuple[tuple[Partition, ...], tuple[str, ...]]:
    """Part the queries in every way that the configuration asks for; also return why one is left out.

    Raises:
        InvalidData: the one feature that was named parts nothing.
    """
    if config.clustering.column is not None:
        return (Partition.of(config.clustering.column, clouds, config),), ()
    found, notes = [], []
    for by, way in _ways(clouds, config):
        try:
            found.append(Partition.of(by, clouds, way))
        except InvalidData as error:
            notes.append(f"local models by {by} were not tried: {error}")
    return tuple(found), tuple(notes)


def _ways(clouds: Clouds, config: TrainingConfig) -> Iterator[tuple[str, TrainingConfig]]:
    settings = config.clustering
    if settings.method == "none":
        return

    yield SHAPE, config
    if not settings.kinds:
        return
    told = [(at, one) for at, one in enumerate(clouds.contract.features) if one.scope == "query"]
    for at, one in told:
        values = np.unique(
            clouds.queries.documents[clouds.queries.offsets[:-1][clouds.queries.lengths > 0], at]
        )
        if one.kind == "category" or len(values) <= _MOST_KINDS:
            kinds = ClusteringSettings(
                "kind", column=one.name, least=settings.least, shrink=settings.shrink, gate=settings.gate
            )
            yield one.name, config.replace(clustering=kinds)
    numbers = tuple(one.name for _, one in told if one.kind == "number")
    if numbers:
        yield (
            f"nearness in {', '.join(numbers)}",
            config.replace(
                representation=replace(config.representation, method="query", features=numbers),
                similarity=SimilaritySettings("euclidean"),
                routing=RoutingSettings("exact"),
            ),
        )
