"""Every two components that go together: trained, published, verified and served, equal to the bit to offline.

The runs are those of a covering array (`tools.combinations`). A new component is in them by itself; if it needs
settings to be quick, they stand in `QUICK`.
"""

from __future__ import annotations

import io
import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import localrank
from localrank import Registry, artifact
from localrank.errors import InvalidConfiguration
from localrank_training.learners.catalogue import LEARNERS
from localrank_training.learners.settings import LearnerSettings
from localrank_training.publishing.publish import publish
from localrank_training.run.train import train
from localrank_training.settings.steps import MODEL_PER_QUERY, SelectionSettings
from tests.end_to_end.serving import serving
from tests.training.kinds import named, two_kinds
from tools.combinations import (
    Combination,
    accepted,
    clustered,
    components,
    config_of,
    covering,
    every,
    page,
    pairs_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx

    from localrank.arrays import Matrix
    from localrank_training.settings.config import TrainingConfig

pytestmark = pytest.mark.slow

#: Settings with which a learner is quick; others have one value of their grid.
QUICK: dict[str, dict[str, Any]] = {
    "svmmap": {"tolerance": 0.1},
    "rankboost": {"rounds": 5},
    "gbrt": {"num_iterations": 5, "members": 1, "num_threads": 1},
    "lambdamart": {"num_iterations": 5, "members": 1, "num_threads": 1},
    "extra_trees": {"trees": 5, "num_threads": 1},
    "random_forest": {"trees": 5, "num_threads": 1},
    "lgmml": {"metrics": 3, "rounds": 2},
    "rmlr": {"tolerance": 0.1, "max_cuts": 20},
    "blend": {
        "members": [{"method": "linear", "ridge": 0.1}, {"method": "extra_trees", "trees": 5}],
        "parts": 2,
    },
}
ROWS = covering()
#: The first rows of the array hold the most pairs.
IN_EVERY_RUN = 8


def settled(combination: Combination) -> TrainingConfig:
    """Return a configuration of quick settings that leaves nothing to choose."""
    method = combination.learner
    grid = {name: values[0] for name, values in LEARNERS[method].grid.items()}
    clusters = {} if combination.clustering in MODEL_PER_QUERY else {"clusters": 3}
    learner = LearnerSettings(method, {**grid, **QUICK.get(method, {})})
    return config_of(combination, learner, **clusters).replace(selection=SelectionSettings(refit=False))


def refusal(combination: Combination) -> str | None:
    try:
        config_of(combination)
    except InvalidConfiguration as error:
        return str(error)
    return None


def test_the_check_accepts_or_refuses_every_combination_and_says_why() -> None:
    seen = set()
    refused = 0
    for combination in every():
        message = refusal(combination)
        if message is None:
            seen |= set(zip(Combination._fields, combination, strict=True))
        else:
            refused += 1
            assert re.match(r"\[(similarity|clustering|routing)\] ", message), combination

    assert refused
    everything = {(step, name) for step, names in components().items() for name in names}
    assert everything == seen


@pytest.mark.parametrize(
    ("combination", "message"),
    [
        (("pca", "eq5", "complete_link", "routing", "svmmap", "lsh"), None),
        (("mean", "euclidean", "kmeans", "relevant_mean", "lambdamart", "fusion"), None),
        (("pca", "eq5", "ward", "relevant_mean", "ranksvm", "exact"), None),
        (("pca", "covariance", "knn", "routing", "ranksvm", "overlap"), None),
        (("mean", "euclidean", "none", "routing", "blend", "global"), None),
        (
            ("pca", "euclidean", "complete_link", "routing", "ranksvm", "exact"),
            (
                "[similarity] method 'euclidean' does not compare what [representation] method 'pca' makes; set [similarity] "
                "method = 'pca_cosine'"
            ),
        ),
        (
            ("pca", "eq5", "kmeans", "routing", "ranksvm", "exact"),
            (
                "[clustering] method 'kmeans' clusters vectors, which [representation] method 'pca' does not make; set "
                "[clustering] representation = 'relevant_mean', or method = 'complete_link'"
            ),
        ),
        (
            ("mean", "euclidean", "kmeans", "routing", "ranksvm", "lsh"),
            (
                "[routing] method 'lsh' takes Signatures, which [representation] method 'mean' does not make; set [routing] "
                "method = 'exact' or 'medoid'"
            ),
        ),
        (
            ("pca", "eq5", "complete_link", "routing", "ranksvm", "centroid"),
            (
                "[routing] method 'centroid' takes VectorPoints, which [representation] method 'pca' does not make; set "
                "[routing] method = 'exact' or 'medoid'"
            ),
        ),
        (
            ("mean", "euclidean", "per_query", "routing", "ranksvm", "fusion"),
            (
                "[routing] method 'fusion' needs several queries in each cluster, but [clustering] method 'per_query' has "
                "a model for each query; set [routing] method = 'exact'"
            ),
        ),
        (
            ("pca", "eq5", "per_query", "routing", "ranksvm", "overlap"),
            (
                "[routing] method 'overlap' needs models of neighbours: expected [clustering] method 'knn', found "
                "'per_query'; set [routing] method = 'exact'"
            ),
        ),
        (
            ("pca", "eq5", "complete_link", "routing", "ranksvm", "global"),
            (
                "[routing] method 'global' never uses the clusters of [clustering] method 'complete_link'; set [clustering] "
                "method = 'none', or another router"
            ),
        ),
    ],
)
def test_what_does_not_go_together_is_said_with_a_way_out(
    combination: tuple[str, ...], message: str | None
) -> None:
    asked = Combination(*combination)

    assert (message is None) == accepted(asked)
    assert message == refusal(asked)


def test_the_array_holds_every_two_components_that_go_together() -> None:
    held = {pair for row in ROWS for pair in pairs_of(row)}

    for one in clustered():
        for learner in LEARNERS:
            assert pairs_of(one._replace(learner=learner)) <= held
    assert all(map(accepted, ROWS))
    assert len(set(ROWS)) == len(ROWS)
    largest = max(len(a) * len(b) for a, b in itertools.combinations(components().values(), 2))
    assert len(ROWS) <= 1.6 * largest


def test_the_page_is_made_from_the_check() -> None:
    """It is made by ``python -m tools.combinations > docs/use/combinations.md``."""
    assert page() == (Path(__file__).parents[2] / "docs" / "use" / "combinations.md").read_text()


def strategies(row: Any) -> set[str]:
    """What a route may say: a router with hash tables compares all training queries if that takes less time."""
    return {"lsh", "exact"} if row.routing == "lsh" else {str(row.routing)}


@pytest.mark.parametrize(
    "rows",
    [ROWS[:IN_EVERY_RUN], pytest.param(ROWS[IN_EVERY_RUN:], marks=pytest.mark.soak)],
    ids=["some", "others"],
)
def test_what_is_served_is_what_was_trained(rows: Sequence[Combination], tmp_path: Path) -> None:
    models = tmp_path / "models"
    registry = Registry(models)
    queries, validation = named(two_kinds(40, n_docs=12)), named(two_kinds(12, n_docs=12, seed=1))
    asked = [*named(two_kinds(3, n_docs=12, seed=2)).clouds(), np.ones((1, 6), np.float32)]
    for number, row in enumerate(rows):
        with threadpool_limits(1):
            trained = train(queries, settled(row), validation=validation)
            reference = publish(registry, f"model-{number}", trained, queries, validation=validation)
            before = [trained.built.ranker.rank(documents) for documents in asked]
        registry.promote(f"model-{number}", reference.version)
        artifact.verify(reference.path)
        loaded = localrank.load(reference.path)
        for documents, expected in zip(asked, before, strict=True):
            with threadpool_limits(1):
                found = loaded.rank(documents)
            assert expected.route == found.route, row
            np.testing.assert_array_equal(expected.scores, found.scores, err_msg=str(row))
            assert found.route.strategy in strategies(row)

    with serving(models) as client:
        for number, row in enumerate(rows):
            ranker = localrank.load(models / f"model-{number}")
            for documents in asked:
                with threadpool_limits(1):
                    expected = ranker.rank(documents)
                for answer in answers(client, f"model-{number}", documents):
                    order = [result["index"] for result in answer["results"]]
                    scores = [result["score"] for result in answer["results"]]
                    assert expected.order.tolist() == order, row
                    assert expected.scores[expected.order].tolist() == scores, row
                    route = answer["route"]
                    assert (expected.route.cluster, expected.route.strategy) == (
                        route["cluster"],
                        route["strategy"],
                    )
                    near = {
                        one["cluster"]: one["similarity"] for one in answer["explanation"]["clusters"] or ()
                    }
                    assert expected.route.cluster is None or near[expected.route.cluster] == max(
                        near.values()
                    )


def answers(client: httpx.Client, model: str, documents: Matrix) -> list[dict[str, Any]]:
    """Return the answers to the same query on two wires, each with its route explained."""
    body = io.BytesIO()
    np.save(body, documents)
    asked = {"model": model, "features": documents.astype(np.float64).tolist(), "explain": "route"}
    responses = [
        client.post("/v1/rerank", json=asked),
        client.post(
            "/v1/rerank",
            params={"model": model, "explain": "route"},
            content=body.getvalue(),
            headers={"Content-Type": "application/x-npy"},
        ),
    ]
    for response in responses:
        assert 200 == response.status_code, response.text
    return [response.json() for response in responses]
