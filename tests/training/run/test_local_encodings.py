"""Local models of tables with categories: the encodings that score a part of the queries do not know its labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from localrank.features.feature import Feature
from localrank_training.data.clouds import Clouds
from localrank_training.data.queries import QuerySet
from localrank_training.grouping.prototypes import Locality
from localrank_training.learners.linear import LeastSquares
from localrank_training.learners.out_of_fold import Tried
from localrank_training.run.blended import LocalMembers
from localrank_training.run.pipeline import learn_contract, lesson_of
from localrank_training.settings.config import TrainingConfig

N_QUERIES, N_DOCS, PARTS = 40, 10, 4
PART_OF = np.arange(N_QUERIES) % PARTS
LEARNER = LeastSquares(ridge=0.1, blocks="zscore", balance="queries")


def shop() -> QuerySet:
    rng = np.random.default_rng(0)
    n = N_QUERIES * N_DOCS
    kind = np.repeat(np.arange(N_QUERIES) // PARTS % 2, N_DOCS)
    brand = rng.integers(0, 12, n)
    worth = rng.normal(size=(2, 12))
    return QuerySet(
        documents=np.column_stack([rng.normal(size=n), brand, kind]).astype(np.float32),
        labels=np.clip(np.round(worth[kind, brand] + 1), 0, 4),
        offsets=np.arange(N_QUERIES + 1) * N_DOCS,
        query_ids=tuple(map(str, range(N_QUERIES))),
        feature_names=("price", "brand", "kind"),
        lines=np.arange(n),
        special={
            "brand": Feature("brand", "category", tuple(f"b{number}" for number in range(12))),
            "kind": Feature("kind", "category", ("app", "web"), "query"),
        },
    )


def scores(queries: QuerySet) -> np.ndarray:
    """Return what local models of the other parts score each part, with all localities."""
    config = TrainingConfig.read()
    clouds = Clouds(queries, learn_contract(queries, config)).to_learn_from(PART_OF)
    lessons = [lesson_of(clouds.without(part), None, None, LEARNER) for part in range(PARTS)]
    members = LocalMembers(LEARNER, lesson_of(clouds, None, None, LEARNER), PART_OF, lessons)
    kinds = queries.documents[queries.offsets[:-1], 2].astype(int)
    globally = Tried(0, (LEARNER,), np.zeros((1, queries.n_docs)), np.ones(1), np.ones(1))
    near = (kinds[:, None] == np.arange(2)).astype(np.float64)
    return members.scored(globally, near, kinds, [Locality(None, 0.0), Locality(None, 0.5)]).scores


def test_the_labels_of_a_part_do_not_change_its_own_scores_but_those_of_all_others() -> None:
    queries = shop()
    changed = queries.labels.copy()
    first = np.repeat(PART_OF == 0, N_DOCS)
    changed[first] = 4 - changed[first]

    before, after = scores(queries), scores(replace(queries, labels=changed))

    np.testing.assert_array_equal(before[:, first], after[:, first])
    assert (np.abs(before - after)[:, ~first] > 1e-6).mean() > 0.9
