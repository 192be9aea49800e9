r"""Songs that are alike: the query-dependent mode of L-GMML on classes whose truth is known [su2017, section 4.4].

A query is a point among the documents; relevant are those of its class. Each class has its own centre. It spreads
widely in some directions of its own, which do not show the class, and narrowly in the others. So the best metric
differs from class to class, and as many metrics as classes are enough if each is learned from its own.

What GMML learns needs no query: differences of two documents do not change if the query is subtracted from both. The ways to use
``m`` metrics for a query ``q``:

``anchors at the query``
    Section 4.4 to the letter: all anchors are the query, :math:`f(x) = -\sum_r d_{M_r}(q, x)\, e^{-d_{M_r}(q, x)}`.
``equations 2 and 3``
    :math:`f(x) = -\|x - q\|_{M(q)}` with :math:`M(q) = \sum_r w_r(q) M_r`, :math:`w_r(q) \propto e^{-\rho \|q - a_r\|_{M_r}}`.

Candidate sets are sampled, a query each, as in the paper; or ``m`` groups of training songs by k-means, which part them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.metrics import Judgements
from localrank.scorers.anchored import bent
from localrank_papers.learners.gmml import PairScatter, metric_transform
from localrank_papers.learners.rmlr import RobustMetric
from localrank_training.data.queries import QuerySet, default_names
from localrank_training.grouping.clustering import kmeans
from localrank_training.learners.lesson import Lesson

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.arrays import Indices, Vector
    from localrank_papers.figures.fits import Arrays
    from localrank_papers.figures.folds import Fold

#: In the order of `local_metrics`.
WAYS = ("groups, equations 2 and 3", "sampled sets, equations 2 and 3", "sampled sets, anchors at the query")
_REGULARISATION = 0.1
#: Validation songs choose the sharpness of the weights from these.
_RHO = (1.0, 4.0, 16.0)
#: Standard deviations: of centres, and within a class along its wide and its narrow directions.
_CENTRES, _WIDE, _NARROW = 2.0, 3.0, 0.6


@dataclass(frozen=True, slots=True, eq=False)
class Songs:
    """Points in classes, in three parts (40, 30 and 30 %).

    Attributes:
        points: ``[n, n_features]``.
        classes: ``[n]``.
        parts: which of them are of training, validation and test.
    """

    points: Vector
    classes: Indices
    parts: tuple[Indices, Indices, Indices]


def drawn(classes: int, per_class: int, n_features: int, *, split: int, seed: int) -> Songs:
    """Draw songs; the split is drawn by itself, so that all splits are of the same songs."""
    rng = np.random.default_rng([seed, classes, n_features])
    points, labels = [], []
    for number in range(classes):
        frame = np.linalg.qr(rng.standard_normal((n_features, n_features)))[0]
        spread = np.where(np.arange(n_features) < n_features // 2, _WIDE, _NARROW)
        points.append(
            _CENTRES * rng.standard_normal(n_features)
            + (rng.standard_normal((per_class, n_features)) * spread) @ frame.T
        )
        labels.append(np.full(per_class, number))
    n = classes * per_class
    order = np.random.default_rng([seed, split]).permutation(n)
    cuts = [round(0.4 * n), round(0.7 * n)]
    parts = (np.sort(order[: cuts[0]]), np.sort(order[cuts[0] : cuts[1]]), np.sort(order[cuts[1] :]))
    return Songs(np.concatenate(points), np.concatenate(labels), parts)


def shown_to(songs: Songs, part: int) -> QuerySet:
    """Return each song of a part as a query over the training songs but itself, these as differences from it."""
    train, asked = songs.parts[0], songs.parts[part]
    lists = [train[train != song] for song in asked]
    documents = [songs.points[rows] - songs.points[song] for song, rows in zip(asked, lists, strict=True)]
    labels = [songs.classes[rows] == songs.classes[song] for song, rows in zip(asked, lists, strict=True)]
    offsets = np.concatenate([[0], np.cumsum([len(rows) for rows in lists])])
    return QuerySet(
        documents=np.concatenate(documents).astype(np.float32),
        labels=np.concatenate(labels).astype(np.float64),
        offsets=offsets.astype(np.int64),
        query_ids=tuple(str(song) for song in asked),
        feature_names=default_names(songs.points.shape[1]),
        lines=np.arange(offsets[-1]),
    )


def local_metrics(
    _: Fold | None,
    *,
    classes: int,
    per_class: int,
    n_features: int,
    sizes: Sequence[int],
    split: int,
    seed: int,
) -> Arrays:
    """Measure MAP of test songs for several numbers of metrics.

    Returns:
        ``local [n_ways, n_sizes, n_songs]``; ``single [n_songs]`` of one metric of all training songs; ``truth [n_songs]`` of one
        for each class, if classes are known; ``euclidean [n_songs]``;
        ``seconds [n_sizes]`` to learn sampled sets.
    """
    songs = drawn(classes, per_class, n_features, split=split, seed=seed)
    train, held, test = (shown_to(songs, part) for part in range(3))
    rng = np.random.default_rng([seed, split, 1])
    single = _transform(train, np.arange(len(train)))
    most = max(sizes)
    # A song whose class has no two others to learn from makes no set.
    usable = np.flatnonzero(np.bincount(train.query_of[train.labels > 0], minlength=len(train)) > 1)
    sampled = rng.permutation(usable)[:most]
    before = time.process_time()
    alone = np.stack([_transform(train, np.array([query])) for query in sampled])
    each = (time.process_time() - before) / len(sampled)
    mine = songs.points[songs.parts[0]]
    found = np.empty((len(WAYS), len(sizes), len(test)))
    for number, size in enumerate(sizes):
        groups = kmeans(mine.astype(np.float32), min(size, len(mine)), seed)
        means = np.stack([mine[groups == one].mean(axis=0) for one in range(groups.max() + 1)])
        of_groups = _of_groups(train, groups)
        some, anchors = alone[:size], mine[sampled[:size]]
        found[0, number] = _by_equations(songs, held, test, of_groups, means)
        found[1, number] = _by_equations(songs, held, test, some, anchors)
        found[2, number] = _map(test, _at_the_query(test, some))
    names, own = np.unique(songs.classes[songs.parts[0]], return_inverse=True)
    centres = np.stack([mine[own == one].mean(axis=0) for one in range(len(names))])
    return {
        "local": found,
        "truth": _by_equations(songs, held, test, _of_groups(train, own), centres),
        "single": _map(test, _near(test, single)),
        "euclidean": _map(test, _near(test, np.eye(n_features))),
        "seconds": np.minimum(np.array(sizes), len(sampled)) * each,
    }


def metric_rankers(
    _: Fold | None,
    *,
    classes: int,
    per_class: int,
    n_features: int,
    metrics: int,
    structural: Mapping[str, Any] | None,
    split: int,
    seed: int,
) -> Arrays:
    """Measure MAP of test songs by MLR, R-MLR, GMML and L-GMML, and the seconds to learn each.

    Without settings for them (``structural``), MLR and R-MLR are left out.
    """
    songs = drawn(classes, per_class, n_features, split=split, seed=seed)
    train, held, test = (shown_to(songs, part) for part in range(3))
    mine = songs.points[songs.parts[0]]
    found, seconds = {}, {}
    found["Euclidean"] = _map(test, _near(test, np.eye(n_features)))
    before = time.process_time()
    single = _transform(train, np.arange(len(train)))
    found["GMML"], seconds["GMML"] = _map(test, _near(test, single)), time.process_time() - before
    before = time.process_time()
    groups = kmeans(mine.astype(np.float32), metrics, seed)
    some = _of_groups(train, groups)
    seconds["L-GMML"] = time.process_time() - before
    means = np.stack([mine[groups == one].mean(axis=0) for one in range(len(some))])
    found["L-GMML"] = _by_equations(songs, held, test, some, means)
    if structural is not None:
        for name, size in (("MLR", "trace"), ("R-MLR", "rows")):
            before = time.process_time()
            scorer = RobustMetric(anchor="origin", size=size, blocks="raw", **structural).fit(Lesson(train))  # type: ignore[arg-type]
            seconds[name] = time.process_time() - before
            found[name] = _map(test, scorer.score_rows(test.documents))
    return found | {f"seconds of {name}": np.array(took) for name, took in seconds.items()}


def _transform(queries: QuerySet, chosen: Indices) -> Vector:
    """Return the geometric mean metric of some queries."""
    some = queries.select(chosen)
    scatter = PairScatter.of(some, some.labels > 0, np.full(len(some), 1.0 / len(some)))
    return metric_transform(scatter, regularisation=_REGULARISATION)


def _of_groups(queries: QuerySet, groups: Indices) -> Vector:
    """Return the metric of each group; one that has no two songs of a class to learn from has that of all."""
    n_relevant = np.bincount(queries.query_of[queries.labels > 0], minlength=len(queries))
    found = []
    for group in range(groups.max() + 1):
        members = np.flatnonzero((groups == group) & (n_relevant > 1))
        found.append(_transform(queries, members if len(members) else np.flatnonzero(n_relevant > 1)))
    return np.stack(found)


def _near(queries: QuerySet, transform: Vector) -> Vector:
    """Return ``[n_docs]`` nearness in one metric; documents are differences from the query."""
    apart = queries.documents @ transform.T
    return np.asarray(-np.vecdot(apart, apart), np.float64)


def _at_the_query(queries: QuerySet, transforms: Vector) -> Vector:
    distances = np.stack([np.sqrt(-_near(queries, one)) for one in transforms], axis=1)
    # Scaled as in `LocalGeometricMeanMetrics`: all distances are within 1, where the curve rises.
    return np.asarray(-bent(distances / distances.max(axis=0), "turning").sum(axis=1), np.float64)


def _by_equations(
    songs: Songs, held: QuerySet, test: QuerySet, transforms: Vector, anchors: Vector
) -> Vector:
    """Return MAP ``[n_songs]`` of test songs; the sharpness of the weights is chosen on validation songs."""
    points = [songs.points[part] for part in songs.parts]
    worth = [_map(held, _mixed(points[1], held, transforms, anchors, rho)).mean() for rho in _RHO]
    return _map(test, _mixed(points[2], test, transforms, anchors, _RHO[int(np.argmax(worth))]))


def _mixed(points: Vector, queries: QuerySet, transforms: Vector, anchors: Vector, rho: float) -> Vector:
    distances = np.stack(
        [
            np.linalg.norm((points - anchor) @ one.T, axis=1)
            for one, anchor in zip(transforms, anchors, strict=True)
        ],
        axis=1,
    )
    nearest = distances.min(axis=1, keepdims=True)
    weights = np.exp(-rho * (distances - nearest) / np.median(nearest))
    weights /= weights.sum(axis=1, keepdims=True)
    metrics = np.matmul(transforms.transpose(0, 2, 1), transforms)
    scores = np.empty(queries.n_docs)
    for query in range(len(queries)):
        documents = queries.documents_of(query).astype(np.float64)
        mixed = np.tensordot(weights[query], metrics, axes=1)
        scores[queries.span(query)] = -np.vecdot(documents @ mixed, documents)
    return scores


def _map(queries: QuerySet, scores: Vector) -> Vector:
    return Judgements(queries.labels, queries.offsets).per_query(scores, "map")
