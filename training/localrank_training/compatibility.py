"""Which components can be combined, by the configuration alone.

A representation makes one kind of points. Similarities, routers and clusterings accept some kinds; each class or entry
says which (`localrank.measures`, `localrank.routers`, `VECTOR_CLUSTERINGS`), so that a new component is checked without
a word here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localrank.artifact.parts import REPRESENTATIONS
from localrank.blocks import parse
from localrank.errors import InvalidConfiguration
from localrank.measures import MEASURES
from localrank.routers import ROUTERS
from localrank.similarity import SIMILARITIES
from localrank.vectors import VectorPoints

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localrank.representation import Points
    from localrank_training.config import TrainingConfig

#: Clusterings of vectors by squared Euclidean distance, which mean nothing for other points.
VECTOR_CLUSTERINGS = ("kmeans", "ward", "bisecting_kmeans")
#: Clusterings with one model for each query.
MODEL_PER_QUERY = ("per_query", "knn")
#: Routers that predict the cluster. They need several queries of each cluster.
_PREDICTING = ("classifier", "fusion")
#: Routers that take any points, but also need something else.
_SPECIAL = ("global", "overlap")


def check(config: TrainingConfig) -> None:
    """Check a run that has clusters.

    Raises:
        InvalidConfiguration: two steps do not go together.
    """
    made = REPRESENTATIONS[config.representation.method].points
    _check_similarity(config, made)
    _check_clustering(config, made)
    _check_routing(config, made)


def _check_similarity(config: TrainingConfig, made: type[Points]) -> None:
    if not issubclass(made, MEASURES[config.similarity.name].takes):
        fitting = dict.fromkeys(
            "pca_cosine" if name in SIMILARITIES else name
            for name, measure in MEASURES.items()
            if issubclass(made, measure.takes)
        )
        raise InvalidConfiguration(
            f"[similarity] method {config.similarity.method!r} does not compare what [representation] method "
            f"{config.representation.method!r} makes; set [similarity] method = {_either(fitting)}"
        )


def _check_clustering(config: TrainingConfig, made: type[Points]) -> None:
    settings = config.clustering
    if settings.method in MODEL_PER_QUERY and settings.clusters is not None:
        raise InvalidConfiguration(
            f"[clustering] clusters: expected none with method {settings.method!r}, which has a model per query, found "
            f"{settings.clusters}"
        )
    if (
        settings.method in VECTOR_CLUSTERINGS
        and settings.representation == "routing"
        and not issubclass(made, VectorPoints)
    ):
        raise InvalidConfiguration(
            f"[clustering] method {settings.method!r} clusters vectors, which [representation] method "
            f"{config.representation.method!r} does not make; set [clustering] representation = 'relevant_mean', or "
            "method = 'complete_link'"
        )
    if settings.rounds and settings.method == "random":
        raise InvalidConfiguration(
            "[clustering] rounds: expected 0 for random clusters, because they do not depend on the scores "
            "of models"
        )
    if settings.rounds and any(
        block.name == "route" for learner in config.learner.candidates() for block in parse(learner.blocks)
    ):
        raise InvalidConfiguration(
            f"[clustering] rounds: learner {config.learner.method!r} uses the block 'route', which exists "
            "only after clustering; set rounds = 0, or use other blocks"
        )


def _check_routing(config: TrainingConfig, made: type[Points]) -> None:
    method = config.routing.method
    takes = ROUTERS[method].takes
    if takes is not None and not issubclass(made, takes):
        others = [name for name, router in ROUTERS.items() if router.takes is None and name not in _SPECIAL]
        raise InvalidConfiguration(
            f"[routing] method {method!r} takes {takes.__name__}, which [representation] method "
            f"{config.representation.method!r} does not make; set [routing] method = {_either(others)}"
        )
    if method in _PREDICTING and config.clustering.method in MODEL_PER_QUERY:
        raise InvalidConfiguration(
            f"[routing] method {method!r} needs several queries in each cluster, but [clustering] method "
            f"{config.clustering.method!r} has a model for each query; set [routing] method = 'exact'"
        )
    if method == "overlap" and config.clustering.method != "knn":
        raise InvalidConfiguration(
            "[routing] method 'overlap' needs models of neighbours: expected [clustering] method 'knn', "
            f"found {config.clustering.method!r}; set [routing] method = 'exact'"
        )
    if config.routing.member != "nearest" and method != "exact":
        raise InvalidConfiguration(
            f"[routing] member {config.routing.member!r} needs all members of a cluster; expected method "
            f"'exact', found {method!r}"
        )


def _either(names: Iterable[str]) -> str:
    return " or ".join(map(repr, names))
