"""What a query's point costs with each representation: the table ``representations`` of ``python -m benchmarks.stages``.

The bare call is numpy, or LAPACK, doing the same without looking at ties, constant features or ranks:

==============  =======================================
representation  bare
==============  =======================================
pca             centre, one product, ``ssyevr``
mean            ``numpy.mean``
variance        ``numpy.var``
skew            mean, deviation, a product, mean
top_documents   ``numpy.argpartition`` and a mean
top_scores_pca  ``numpy.sort``, a mean, a product
gaussian        ``numpy.cov`` and ``numpy.linalg.inv``
==============  =======================================
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import floor
from localrank.points.gaussian import GaussianRepresentation
from localrank.points.vectors import (
    MeanRepresentation,
    SkewRepresentation,
    TopDocumentsRepresentation,
    TopScoresPcaRepresentation,
    VarianceRepresentation,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from localrank.arrays import Matrix
    from localrank.ranker import Ranker

TOP, KEPT = 10, 5


def representation_calls(
    ranker: Ranker, documents: Matrix
) -> Iterator[tuple[str, Callable[[], object], Callable[[], object]]]:
    """Yield the name, the making of a point, and the bare call, of every representation."""
    n_docs, n_features = documents.shape
    cloud = ranker.contract.cloud(documents)
    view = cloud.normalised
    axes = np.linalg.qr(np.random.default_rng(0).standard_normal((n_features, n_features)))[0][:KEPT]
    top = min(TOP, n_docs)
    pooled = np.eye(n_features)

    def skew() -> object:
        apart = view - view.mean(axis=0)
        return (apart**3).mean(axis=0) / np.maximum(view.std(axis=0), np.float32(1e-10)) ** 3

    bare: dict[str, Callable[[], object]] = {
        "pca": lambda: directions(view),
        "mean": lambda: view.mean(axis=0),
        "variance": lambda: view.var(axis=0),
        "skew": skew,
        "top_documents": lambda: view[np.argpartition(view[:, 0], n_docs - top)[-top:]].mean(axis=0),
        "top_scores_pca": lambda: axes @ np.sort(view, axis=0)[-top:].mean(axis=0),
        "gaussian": lambda: np.linalg.inv(np.cov(view.T, bias=True) + pooled),
    }
    for made in (
        ranker.representation,
        MeanRepresentation(),
        VarianceRepresentation(),
        SkewRepresentation(),
        TopDocumentsRepresentation(0, TOP),
        TopScoresPcaRepresentation(np.zeros(n_features), axes, TOP),
        GaussianRepresentation(pooled, 0.5),
    ):
        yield made.method, partial(made.of, cloud), bare[made.method]


def directions(documents: Matrix) -> object:
    """Solve the smaller scatter of the documents by LAPACK."""
    if len(documents) < 2:
        return None
    centred = documents - documents.mean(axis=0)
    smaller = centred @ centred.T if len(centred) < documents.shape[1] else centred.T @ centred
    return floor.eigensolve(smaller)
