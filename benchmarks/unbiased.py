"""What LambdaMART on clicks gains if it leaves out what places add: its own setting against weighted clicks.

python -m benchmarks.unbiased [--queries 500] [--repeats 2]

Lists are ordered by a feature that means nothing, and users look at place k with chance 1 / k. Four models learn from the same
lists: from clicks; from clicks with `unbiased`; from clicks weighted by the true propensities (`localrank data clicks`); from the
grades themselves. Printed are NDCG@10 by the grades of other queries and the difference from plain clicks, with a 95 % interval.
It fails if `unbiased` is not better than plain clicks.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from localrank.metrics import ndcg
from localrank_training.data.clicks.joining import corrected
from localrank_training.data.clicks.propensities import from_power
from localrank_training.data.queries import QuerySet
from localrank_training.evaluation.comparisons import interval_of
from localrank_training.evaluation.evaluating import rank_all
from localrank_training.run.pipeline import build
from localrank_training.settings.config import TrainingConfig

N_DOCS, N_FEATURES = 10, 8
SETTINGS = ("num_iterations=50", "members=1", "early_stopping_rounds=0", "num_leaves=15")


def drawn(seed: int, n_queries: int) -> tuple[Any, Any, Any, Any]:
    """Return documents, grades, places and clicks, ``[n_queries, N_DOCS]`` each."""
    rng = np.random.default_rng(seed)
    documents = rng.normal(size=(n_queries, N_DOCS, N_FEATURES)).astype(np.float32)
    first, second, third, fourth = (documents[..., column] for column in range(4))
    worth = first + 0.7 * second * third + 0.8 * np.tanh(2 * fourth)
    grades = np.digitize(worth, [0.5, 1.2, 2])
    order = documents[..., 4] + 0.5 * first + 0.3 * rng.normal(size=worth.shape)
    places = 1 + np.argsort(np.argsort(-order, axis=1), axis=1)
    clicks = rng.random(worth.shape) < (0.05 + 0.9 * (2.0**grades - 1) / 7) / places
    return documents, grades, places, clicks


def judged(documents: Any, labels: Any, lengths: Any, **more: Any) -> QuerySet:
    """Return queries of these lengths."""
    flat = np.asarray(labels, np.float64).ravel()
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    names = tuple(f"f{column}" for column in range(N_FEATURES))
    ids = tuple(map(str, range(len(lengths))))
    return QuerySet(
        np.reshape(documents, (-1, N_FEATURES)), flat, offsets, ids, names, np.arange(len(flat)), **more
    )


def weighted(documents: Any, places: Any, clicks: Any) -> QuerySet:
    """Return a query for each click, weighted by the true propensity of its place."""
    rows: list[int] = []
    labels: list[float] = []
    lengths, weights = [], []
    propensities = from_power(1.0, N_DOCS)
    for query in range(len(clicks)):
        shown = list(range(query * N_DOCS, (query + 1) * N_DOCS))
        clicked = {shown[one] for one in np.flatnonzero(clicks[query])}
        for document, _, kept, weight in corrected(shown, clicked, places.ravel(), propensities, 10.0):
            rows += kept
            labels += [float(row == document) for row in kept]
            lengths.append(len(kept))
            weights.append(weight)
    return judged(documents.reshape(-1, N_FEATURES)[rows], labels, lengths, weights=np.array(weights))


def main() -> int:
    """Print a row for each model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=2)
    asked = parser.parse_args()
    documents, grades, *_ = drawn(99, 300)
    test = judged(documents, grades, [N_DOCS] * 300)
    found: dict[str, list[Any]] = {}
    for seed in range(asked.repeats):
        documents, grades, places, clicks = drawn(seed, asked.queries)
        lengths = [N_DOCS] * asked.queries
        seen = judged(documents, clicks, lengths, positions=places.ravel())
        for name, queries, more in (
            ("clicks", seen, ()),
            ("clicks, unbiased", seen, ("unbiased=true",)),
            ("weighted clicks", weighted(documents, places, clicks), ()),
            ("grades", judged(documents, grades, lengths), ()),
        ):
            settings = [f"learner.{one}" for one in (*SETTINGS, *more)]
            config = TrainingConfig.read(method="global", learner="lambdamart", overrides=settings)
            ranker = build(queries, config, config.learner.candidates()[0]).ranker
            scores = rank_all(ranker, test).scores
            found.setdefault(name, []).append(ndcg(test.labels, scores, test.offsets, 10))
    means = {name: np.mean(values, axis=0) for name, values in found.items()}
    for name, values in means.items():
        gain = values - means["clicks"]
        print(f"{name:18} {values.mean():.4f}  {gain.mean():+.4f} {interval_of(gain) or ''}")
    return int(means["clicks, unbiased"].mean() <= means["clicks"].mean())


if __name__ == "__main__":
    sys.exit(main())
