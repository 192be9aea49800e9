"""Synthetic models and requests for benchmarks of serving: any number of training queries, features and clusters."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.routing import draw
from localrank import Registry
from localrank.artifact import Provenance
from localrank.features.contract import FeatureContract
from localrank.points.signature import PcaRepresentation
from localrank.probe import choose
from localrank.ranker import Ranker
from localrank.routing.routers import LshRouter
from localrank.routing.search import HyperplaneTables, automatic_planes, draw_planes
from localrank.scorers import LinearScorer, TreesScorer

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.arrays import Matrix
    from localrank.features.contract import Normalisation
    from localrank.scorers import Scorer

COMPONENTS = 5


def documents(n_docs: int, n_features: int, seed: int = 0) -> Matrix:
    """Return a query's documents: values in [0, 1] whose variance falls from one direction to the next."""
    random = np.random.default_rng(1000 * n_docs + n_features + seed)
    turn = np.linalg.qr(random.standard_normal((n_features, n_features)))[0]
    cloud = random.standard_normal((n_docs, n_features)) * 0.93 ** np.arange(n_features) @ turn
    low, high = cloud.min(axis=0), cloud.max(axis=0)
    return np.asarray((cloud - low) / np.where(high > low, high - low, 1.0), np.float32)


def forest(n_trees: int, depth: int, n_features: int) -> TreesScorer:
    """Return a forest of full trees whose splits and leaves are random."""
    random = np.random.default_rng(0)
    n_splits = 2**depth - 1
    children = np.arange(1, 2 * n_splits + 1).reshape(n_splits, 2)
    children = np.where(children < n_splits, children, n_splits - 1 - children)
    left, right = np.tile(children, (n_trees, 1)).T.astype(np.int32)
    return TreesScorer(
        splits=np.full(n_trees, n_splits, np.int32),
        features=random.integers(0, n_features, n_trees * n_splits, np.int32),
        thresholds=random.random(n_trees * n_splits),
        decisions=np.zeros(n_trees * n_splits, np.uint8),
        left=np.ascontiguousarray(left),
        right=np.ascontiguousarray(right),
        values=random.standard_normal(n_trees * (n_splits + 1)),
        category_words=np.zeros(0, np.int32),
        category_bits=np.zeros(0, np.uint32),
    )


def ranker(
    n_queries: int,
    n_features: int,
    kind: str = "spread",
    *,
    normalise: Normalisation = "query_minmax",
    scorer: Scorer | None = None,
) -> Ranker:
    """Make a model with the settings that training ships: linear, a scorer for each cluster, or one scorer for all."""
    random = np.random.default_rng(0)
    components = min(COMPONENTS, n_features)
    signatures, clusters = draw(kind, n_queries, components, n_features, seed=1)
    n_clusters = int(clusters.max()) + 1
    exemplars = np.unique(clusters, return_index=True)[1]
    planes = draw_planes(n_features, 16, automatic_planes(n_queries), seed=0)
    seen = np.concatenate([documents(100, n_features, seed) for seed in range(10)])
    return Ranker(
        contract=FeatureContract.learn(seen, [100] * 10, normalise=normalise),
        representation=PcaRepresentation(components),
        router=LshRouter(
            signatures,
            clusters,
            HyperplaneTables.build(signatures, planes),
            exemplars=tuple(map(int, exemplars)),
        ),
        scorers=tuple(scorer or LinearScorer(random.standard_normal(n_features)) for _ in range(n_clusters)),
        global_scorer=scorer or LinearScorer(random.standard_normal(n_features)),
    )


def grow(path: Path, n_features: int, *, trees: int = 300, leaves: int = 31) -> None:
    """Grow a forest with LightGBM's LambdaMART on synthetic judgements and write its text."""
    import lightgbm

    random = np.random.default_rng(n_features)
    queries = np.concatenate([documents(100, n_features, seed) for seed in range(300)])
    gains = np.tanh(queries @ random.standard_normal(n_features)) + np.sin(9 * queries[:, 0]) * queries[:, 1]
    grades = np.digitize(gains, np.quantile(gains, [0.5, 0.75, 0.9, 0.97]))
    settings = {"objective": "lambdarank", "num_leaves": leaves, "learning_rate": 0.05, "verbosity": -1}
    settings |= {"seed": 0, "num_threads": 1}
    lightgbm.train(settings, lightgbm.Dataset(queries, grades, group=[100] * 300), trees).save_model(path)


def publish(folder: Path, made: Ranker, name: str = "bench") -> None:
    """Publish a model and make it the champion."""
    n_features = made.contract.n_features
    probe = choose(made, [documents(60, n_features, 100 + seed) for seed in range(20)])
    registry = Registry(folder)
    reference = registry.publish(name, made, Provenance("", {}, probe))
    registry.promote(name, reference.version)


def as_json(matrix: Matrix) -> bytes:
    """Return a body of ``/v1/rerank`` with numbers as short as float32 has them."""
    rows = ",".join("[" + ",".join(map(str, row)) + "]" for row in matrix)
    return b'{"features":[' + rows.encode() + b"]}"


def as_npy(matrix: Matrix) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, matrix)
    return buffer.getvalue()


def as_v2_binary(matrix: Matrix, name: str = "features") -> tuple[bytes, int]:
    """Return a body of the Open Inference Protocol's binary form, and the length of its JSON part."""
    header = json.dumps(
        {
            "inputs": [
                {
                    "name": name,
                    "shape": list(matrix.shape),
                    "datatype": "FP32",
                    "parameters": {"binary_data_size": matrix.nbytes},
                }
            ],
            "parameters": {"binary_data_output": True},
        }
    ).encode()
    return header + matrix.tobytes(), len(header)
