"""Flip rates against queries whose flips are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from localrank.features.contract import FeatureContract
from localrank.points.signature import PcaRepresentation
from localrank.ranker import Ranker
from localrank.routing.router import ExactRouter, GlobalRouter
from localrank.routing.routers import MedoidRouter
from localrank.scorers import LinearScorer
from localrank_training.data.queries import QuerySet
from localrank_training.evaluation.stability import CHANGES, flip_rates, flip_rates_of_known

N_FEATURES = 4


def query_set(clouds: list[np.ndarray]) -> QuerySet:
    lengths = [len(cloud) for cloud in clouds]
    total = sum(lengths)
    return QuerySet(
        documents=np.concatenate(clouds).astype(np.float32),
        labels=np.zeros(total),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        query_ids=tuple(f"q{number}" for number in range(len(clouds))),
        feature_names=tuple(f"f{number}" for number in range(N_FEATURES)),
        lines=np.arange(total),
    )


def line(axis: int, length: float, count: int) -> np.ndarray:
    """Return documents along one feature."""
    documents = np.zeros((count, N_FEATURES))
    documents[:, axis] = np.linspace(-length, length, count)
    return documents


@pytest.fixture
def ranker() -> Ranker:
    """A ranker with a cluster for queries that are long in the first feature, and one for the second."""
    representation = PcaRepresentation(1)
    contract = FeatureContract.learn(np.eye(N_FEATURES, dtype=np.float32), [N_FEATURES], normalise="none")
    medoids = representation.sign_all([line(0, 1, 5).astype(np.float32), line(1, 1, 5).astype(np.float32)])
    scorer = LinearScorer(np.ones(N_FEATURES))
    return Ranker(contract, representation, MedoidRouter(medoids), (scorer, scorer), scorer)


def test_a_query_far_from_any_border_never_flips(ranker: Ranker) -> None:
    rates = flip_rates(ranker, query_set([line(0, 1, 40), line(1, 1, 30)]))

    assert dict.fromkeys(CHANGES, 0.0) == rates


def test_a_query_whose_first_twenty_documents_are_of_another_kind_flips(ranker: Ranker) -> None:
    turning = np.concatenate([line(0, 1, 20), line(1, 9, 20)])
    steady = np.concatenate([line(1, 9, 20), line(0, 1, 20)])

    rates = flip_rates(ranker, query_set([turning, steady, line(0, 1, 15)]))

    assert 1 / 3 == rates["first_20"]
    assert 0 == rates["jitter"]


def test_dropping_flips_as_often_as_the_one_document_that_matters_is_dropped(ranker: Ranker) -> None:
    """Ten documents along the second feature, one far out along the first: without it the cluster changes."""
    deciding = np.concatenate([line(1, 1, 9), [[8.0, 0, 0, 0]]])
    count = 1500

    rates = flip_rates(ranker, query_set([deciding] * count))

    # One of ten documents is dropped, three times: 1/10, with four standard deviations to either side.
    assert abs(rates["drop_10_percent"] - 1 / 10) < 4 * np.sqrt(0.1 * 0.9 / (3 * count))


def test_flips_are_the_same_for_the_same_seed(ranker: Ranker) -> None:
    random = np.random.default_rng(0)
    queries = query_set([random.standard_normal((8, N_FEATURES)) for _ in range(60)])

    assert flip_rates(ranker, queries, seed=3) == flip_rates(ranker, queries, seed=3)
    assert flip_rates(ranker, queries, seed=3)["drop_10_percent"] > 0


def test_queries_of_one_document_and_rankers_of_one_model_never_flip(ranker: Ranker) -> None:
    alone = query_set([line(0, 1, 1)])
    scorer = LinearScorer(np.ones(N_FEATURES))
    one_model = Ranker(ranker.contract, ranker.representation, GlobalRouter(), (), scorer)

    assert not any(flip_rates(ranker, alone).values())
    assert not any(flip_rates(one_model, query_set([line(0, 1, 9)])).values())


def test_known_queries_are_not_compared_with_themselves(ranker: Ranker) -> None:
    """Each query is alone with its direction: known to the router it never flips, among the others it may."""
    random = np.random.default_rng(1)
    queries = query_set([random.standard_normal((12, N_FEATURES)) for _ in range(100)])
    signatures = PcaRepresentation(1).sign_all(list(queries.clouds()))
    clusters = np.arange(100) % 2
    known = replace(ranker, router=ExactRouter(signatures, clusters))

    as_known, as_new = flip_rates(known, queries), flip_rates_of_known(known, queries, clusters)
    assert as_known["drop_10_percent"] < as_new["drop_10_percent"]
    assert as_known["duplicate_10_percent"] < as_new["duplicate_10_percent"]


def test_a_router_of_medoids_is_taken_as_it_is(ranker: Ranker) -> None:
    random = np.random.default_rng(2)
    queries = query_set([random.standard_normal((12, N_FEATURES)) for _ in range(20)])

    assert flip_rates(ranker, queries) == flip_rates_of_known(ranker, queries, np.zeros(20, np.int64))
