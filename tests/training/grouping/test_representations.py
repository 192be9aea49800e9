from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.decomposition import PCA

from localrank import artifact
from localrank.errors import InvalidConfiguration
from localrank.metrics import Judgements
from localrank.points.vectors import TopDocumentsRepresentation, TopScoresPcaRepresentation
from localrank.probe import choose
from localrank_training.data.clouds import Clouds
from localrank_training.grouping.representations import (
    make_representation,
    performance_profiles,
    pooled_covariance,
)
from localrank_training.run.pipeline import build, learn_contract
from localrank_training.settings.config import TrainingConfig
from tests.training.kinds import two_kinds

if TYPE_CHECKING:
    from pathlib import Path

SIMILARITIES = {"pca": ("pca_cosine",), "gaussian": ("kl", "bhattacharyya")}
METHODS = ("pca", "mean", "variance", "skew", "top_documents", "top_scores_pca", "gaussian")


def config(method: str, similarity: str = "", **settings: Any) -> TrainingConfig:
    return TrainingConfig.from_tables(
        {
            "contract": {"normalise": "none"},
            "representation": {"method": method, **settings},
            "similarity": {"method": similarity or SIMILARITIES.get(method, ("euclidean",))[0]},
            "clustering": {"clusters": 2},
            "routing": {"method": "exact"},
            "learner": {"C": 1.0},
        }
    )


def clouds_of(settings: TrainingConfig, n_queries: int = 12) -> Clouds:
    queries = two_kinds(n_queries)
    return Clouds(queries, learn_contract(queries, settings))


def test_the_pooled_covariance_is_that_of_the_documents_around_their_query_s_mean() -> None:
    clouds = clouds_of(config("gaussian"))
    rows = [row - cloud.normalised.mean(axis=0, dtype=float) for cloud in clouds for row in cloud.normalised]

    found = pooled_covariance(clouds)

    expected = sum(np.outer(row, row) for row in rows) / len(rows)
    expected = expected + 1e-3 * np.mean(np.diag(expected)) * np.eye(5)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_features_that_never_differ_leave_the_pooled_covariance_positive_definite() -> None:
    queries = two_kinds(6)
    queries.documents[:, 1:] = 3.0
    alike = two_kinds(6)
    alike.documents[:] = 3.0
    settings = config("gaussian")

    for one in (queries, alike):
        clouds = Clouds(one, learn_contract(one, settings))
        assert np.linalg.eigvalsh(pooled_covariance(clouds)).min() > 0
        assert make_representation(clouds, settings).of_all(clouds).known.all()


@pytest.mark.parametrize("components", [1, 3, 99])
def test_the_directions_of_top_scores_are_those_of_sklearn(components: int) -> None:
    settings = config("top_scores_pca", components=components, scores=4)
    clouds = clouds_of(settings)
    rows = np.concatenate([-np.sort(-cloud.normalised.astype(float), axis=0)[:4] for cloud in clouds])

    made = make_representation(clouds, settings)

    reference = PCA(min(components, 5)).fit(rows)
    assert isinstance(made, TopScoresPcaRepresentation)
    np.testing.assert_allclose(made.centre, reference.mean_, rtol=1e-9)
    np.testing.assert_allclose(np.abs(np.vecdot(made.axes, reference.components_)), 1.0, rtol=1e-9)
    np.testing.assert_allclose(
        np.abs(made.of(next(iter(clouds))).values),
        np.abs(reference.transform(rows[:4]).mean(axis=0)),
        rtol=1e-4,
        atol=1e-5,
    )


def test_as_many_directions_of_top_scores_are_kept_as_cover_the_share() -> None:
    settings = config("top_scores_pca", share=0.9)
    clouds = clouds_of(settings)
    rows = np.concatenate([-np.sort(-cloud.normalised.astype(float), axis=0)[:10] for cloud in clouds])
    shares = np.cumsum(PCA().fit(rows).explained_variance_ratio_)

    made = make_representation(clouds, settings)

    assert isinstance(made, TopScoresPcaRepresentation)
    assert 1 + sum(share < 0.9 for share in shares) == len(made.axes)


@pytest.mark.parametrize(
    ("by", "feature", "order"), [("f2", 1, "largest"), ("-f4", 3, "smallest"), ("best", None, None)]
)
def test_documents_are_at_the_top_by_a_feature_or_the_best_one(
    by: str, feature: int | None, order: str | None
) -> None:
    settings = config("top_documents", by=by, documents=3)
    clouds = clouds_of(settings)

    made = make_representation(clouds, settings)

    if feature is None:
        judged = Judgements(clouds.queries.labels, clouds.queries.offsets)
        means = {
            (column, name): judged.measure(
                sign * clouds.queries.documents[:, column].astype(float), ["ndcg@10"], ties="pessimistic"
            )[0].per_query.mean()
            for column in range(5)
            for name, sign in (("largest", 1), ("smallest", -1))
        }
        feature, order = max(means, key=lambda one: means[one])
    assert isinstance(made, TopDocumentsRepresentation)
    assert (feature, order, 3) == (made.feature, made.order, made.documents)


def test_a_feature_that_there_is_not_gets_one_sentence() -> None:
    settings = config("top_documents", by="f11")

    with pytest.raises(
        InvalidConfiguration, match=r"\[representation\] by: no feature 'f11'; did you mean 'f1'"
    ):
        make_representation(clouds_of(settings), settings)


def test_a_profile_holds_every_metric_of_every_feature_in_both_directions() -> None:
    clouds = clouds_of(config("mean"), 4)
    metrics = ("ndcg@3", "ndcg@5", "ndcg@10", "map@100", "mrr@100", "p@3", "p@5", "p@10")

    found = performance_profiles(clouds)

    for query in range(4):
        documents, labels = next(
            (cloud.normalised, clouds.queries.labels_of(i)) for i, cloud in enumerate(clouds) if i == query
        )
        judged = Judgements(labels, np.array([0, len(labels)]))
        expected = [
            float(
                judged.measure(sign * documents[:, feature].astype(float), [metric], ties="pessimistic")[
                    0
                ].mean
            )
            for feature in range(5)
            for sign in (1, -1)
            for metric in metrics
        ]
        np.testing.assert_allclose(found.values[query], expected, rtol=1e-6)
    assert found.known.all()


def test_a_query_with_nothing_relevant_has_no_profile() -> None:
    queries = two_kinds(4)
    queries.labels[:15] = 0.0
    clouds = Clouds(queries, learn_contract(queries, config("mean")))

    assert [False, True, True, True] == performance_profiles(clouds).known.tolist()


@pytest.mark.parametrize("method", ["relevant_mean", "performance_profile"])
def test_queries_cannot_be_routed_by_what_needs_labels_but_can_be_clustered(method: str) -> None:
    with pytest.raises(
        InvalidConfiguration, match=f"method '{method}' needs labels, but a new query has none"
    ):
        TrainingConfig.from_tables({"representation": {"method": method}})
    settings = TrainingConfig.from_tables(
        {"clustering": {"clusters": 2, "representation": method}, "learner": {"C": 1.0}}
    )
    queries = two_kinds(12)

    (learner,) = settings.learner.candidates()
    built = build(queries, settings, learner)

    assert (2, 12) == (len(built.ranker.scorers), int((built.clusters >= 0).sum()))


@pytest.mark.parametrize(
    ("method", "similarity"),
    [(method, one) for method in METHODS for one in SIMILARITIES.get(method, ("euclidean",))],
)
def test_a_model_of_every_representation_is_saved_and_verified_and_ranks_with_the_same_bits(
    method: str, similarity: str, tmp_path: Path
) -> None:
    settings = config(method, similarity)
    queries = two_kinds(12)
    (learner,) = settings.learner.candidates()
    built = build(queries, settings, learner).ranker
    probe = choose(built, list(two_kinds(5, seed=1).clouds()))
    (tmp_path / "web").mkdir()

    artifact.save(tmp_path / "web" / "1", built, artifact.Provenance("", {}, probe))

    artifact.verify(tmp_path / "web" / "1")
    loaded = artifact.load(tmp_path / "web" / "1").ranker
    for documents in (*two_kinds(6, seed=2).clouds(), queries.documents[:1], queries.documents[:0]):
        one, two = built.rank(documents), loaded.rank(documents)
        assert one.route == two.route
        assert one.scores.tobytes() == two.scores.tobytes()
    assert built.representation.settings() == loaded.representation.settings()
