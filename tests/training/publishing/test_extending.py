"""New judged queries join a published model; it is compared with one that has learned from everything."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from localrank.artifact import Artifact, load
from localrank.errors import InvalidConfiguration, InvalidData
from localrank.points.similarity import all_pairs
from localrank.registry.versions import Registry
from localrank.routing.route import Route
from localrank.routing.router import AmongQueries
from localrank.routing.routers import LshRouter
from localrank_training.journal import fingerprint
from localrank_training.publishing.extend import (
    _cluster_of,
    _learned_from,
    _mean_tau,
    _similarities,
    against_retraining,
    extend,
    publish_extended,
)
from localrank_training.publishing.publish import described, known_as, publish
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig
from tests.training.kinds import two_kinds

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_training.data.queries import QuerySet

#: On their own scale the kinds differ by the direction in which they are spread.
KINDS = {
    "contract": {"normalise": "none"},
    "representation": {"components": 1},
    "clustering": {"clusters": 2},
    "learner": {"method": "ranksvm", "C": 10.0},
}


def published(folder: Path, queries: QuerySet, tables: dict[str, Any] | None = None) -> Artifact:
    registry = Registry(folder)
    trained = train(queries, TrainingConfig.from_tables(tables or KINDS))
    return load(publish(registry, "web", trained, queries).path)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return published(tmp_path_factory.mktemp("known"), two_kinds())


def lone_document(queries: QuerySet) -> QuerySet:
    """Return the queries with all but one document of the first left out."""
    n_docs = int(queries.lengths[0])
    rows = np.r_[0, n_docs : queries.n_docs]
    return replace(
        queries,
        documents=queries.documents[rows],
        labels=queries.labels[rows],
        offsets=np.r_[0, queries.offsets[1:] - n_docs + 1],
        lines=np.arange(len(rows)),
    )


def test_new_queries_join_the_cluster_that_would_answer_them(known: Artifact) -> None:
    new = two_kinds(10, seed=5)

    extended = extend(known, new)

    routes = [known.ranker.rank(documents).route.cluster for documents in new.clouds()]
    assert routes == extended.clusters.tolist()
    before = known.ranker.router.sizes(2)
    np.testing.assert_array_equal(
        before + np.bincount(extended.clusters, minlength=2), extended.ranker.router.sizes(2)
    )
    for query, documents in enumerate(new.clouds()):
        ranking, earlier = extended.ranker.rank(documents), known.ranker.rank(documents)
        assert ranking.route.similarity == pytest.approx(1.0)
        assert extended.clusters[query] == ranking.route.cluster
        np.testing.assert_array_equal(earlier.scores, ranking.scores)


def test_a_query_without_a_signature_joins_no_cluster(known: Artifact) -> None:
    extended = extend(known, lone_document(two_kinds(4, seed=6)))

    assert -1 == extended.clusters[0]
    assert 3 == extended.joined.sum()


def test_the_next_version_verifies_and_can_be_extended_again(tmp_path: Path) -> None:
    registry, first = Registry(tmp_path), published(tmp_path, two_kinds())

    for version in (2, 3):
        new = two_kinds(6, seed=version)
        reference = publish_extended(registry, first, extend(first, new))
        found = load(reference.path)

        assert version == reference.version
        assert sum(cluster.size for cluster in first.manifest.clusters) + 6 == sum(
            cluster.size for cluster in found.manifest.clusters
        )
        record = found.manifest.source["extended"][-1]
        assert (version - 1, 6, new.n_docs) == (record["version"], record["queries"], record["documents"])
        assert found.manifest.metrics == first.manifest.metrics
        first = found
    assert 2 == len(first.manifest.source["extended"])
    assert {} == registry.aliases("web")


def test_ranges_count_all_documents_learned_from_so_far(tmp_path: Path) -> None:
    """Fifteen documents of twenty-four queries, then of six: the mean length lies on the same line for all quantiles."""
    first = published(tmp_path, two_kinds())
    new = two_kinds(8, n_docs=40, seed=2)

    extended = extend(first, new)

    # 24 lists of 15 and 8 of 40: three quarters are short.
    assert (15, 15, 40, 40) == tuple(extended.ranker.contract.list_lengths[at] for at in (0, 4, 6, 8))


def test_unlike_queries_are_named(tmp_path: Path) -> None:
    known = published(tmp_path, two_kinds())
    usual, strange = two_kinds(10, seed=5), two_kinds(10, seed=5)
    turned = strange.documents[:, [2, 3, 4, 0, 1]].copy()

    assert not [note for note in extend(known, usual).notes if "less similar" in note]
    assert [
        note for note in extend(known, replace(strange, documents=turned)).notes if "less similar" in note
    ]


@pytest.mark.parametrize(
    ("tables", "kept"),
    [
        ({**KINDS, "routing": {"method": "medoid"}}, "'medoid' holds no training queries"),
        (
            {
                **KINDS,
                "representation": {"method": "mean"},
                "similarity": {"method": "euclidean"},
                "clustering": {"method": "kmeans", "clusters": 2},
                "routing": {"method": "classifier"},
            },
            "'classifier' holds no training queries",
        ),
    ],
)
def test_a_router_without_training_queries_says_so(tmp_path: Path, tables: dict[str, Any], kept: str) -> None:
    extended = extend(published(tmp_path, two_kinds(), tables), two_kinds(6, seed=3))

    assert any(kept in note for note in extended.notes)
    assert 6 == extended.joined.sum()


def test_a_guarded_model_keeps_its_guard_and_counts_the_cluster_that_a_query_belongs_to(
    tmp_path: Path,
) -> None:
    first = published(tmp_path, two_kinds(), {**KINDS, "guard": {"learn": True}})

    extended = extend(first, two_kinds(6, seed=3))

    assert type(first.ranker) is type(extended.ranker)


def test_one_global_model_is_refused(tmp_path: Path) -> None:
    alone = published(tmp_path, two_kinds(), {"clustering": {"method": "none"}})

    with pytest.raises(InvalidConfiguration, match="web@1: expected a model with clusters, found one global"):
        extend(alone, two_kinds(4))


def test_other_features_and_missing_values_are_refused_by_name(known: Artifact) -> None:
    narrow = two_kinds(4)
    narrow = replace(narrow, documents=narrow.documents[:, :4].copy(), feature_names=narrow.feature_names[:4])
    missing = two_kinds(4)
    missing.documents[17, 2] = np.nan

    with pytest.raises(InvalidData, match="5"):
        extend(known, narrow)
    with pytest.raises(InvalidData, match="query 'q1': expected a value of 'f3', found none"):
        extend(known, missing)


def test_it_is_compared_with_a_model_that_has_learned_from_everything(known: Artifact) -> None:
    found = against_retraining(known, two_kinds(), two_kinds(60, seed=9))

    assert 12 == found.queries
    assert found.tau > 0.5
    assert {"map", "ndcg@1", "ndcg@5", "ndcg@10"} == {one.metric for one in found.comparisons}


def test_too_few_new_queries_are_not_compared(known: Artifact) -> None:
    with pytest.raises(InvalidData, match=r"expected 40 new queries or more .* found 12"):
        against_retraining(known, two_kinds(), two_kinds(12, seed=9))


def test_queries_that_a_version_knows_are_refused_and_taken_again_only_if_told(known: Artifact) -> None:
    with pytest.raises(InvalidData, match=r"new to web@1, found those that it learned from; .*--again"):
        extend(known, two_kinds())

    twice = extend(known, two_kinds(), again=True)

    assert [2 * cluster.size for cluster in known.manifest.clusters] == [
        cluster.size + more
        for cluster, more in zip(known.manifest.clusters, twice.joined.tolist(), strict=True)
    ]
    assert "clients that send the hash must fetch the new one" in extend(known, two_kinds(6, seed=2)).notes[0]


@pytest.mark.parametrize(("refit", "expected"), [(True, "learned from"), (False, None)])
def test_validation_queries_are_known_if_the_model_learned_from_them(
    *, refit: bool, expected: str | None
) -> None:
    source = {
        "data": {"training": described(two_kinds()), "validation": described(two_kinds(6, seed=2))},
        "configuration": {"selection": {"refit": refit}},
        "extended": [described(two_kinds(6, seed=3))],
    }

    assert "learned from" == known_as(source, fingerprint(two_kinds()))
    assert expected == known_as(source, fingerprint(two_kinds(6, seed=2)))
    assert "was extended by" == known_as(source, fingerprint(two_kinds(6, seed=3)))
    assert known_as(source, fingerprint(two_kinds(6, seed=4))) is None
    assert known_as({"imported": {}}, fingerprint(two_kinds())) is None


def test_similarities_of_new_and_of_known_queries_are_medians(
    known: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, ranker = two_kinds(9, seed=5), known.ranker
    assert isinstance(ranker.router, AmongQueries)
    among = np.array(all_pairs(ranker.router.points, ranker.router.similarity), float)
    np.fill_diagonal(among, -np.inf)
    nearest = among.max(axis=1)

    whole = extend(known, new)
    monkeypatch.setattr("localrank_training.publishing.extend._LOOKED_AT", 10)
    some = extend(known, new)

    assert (
        whole.near
        == some.near
        == pytest.approx(np.median([ranker.rank(one).route.similarity for one in new.clouds()]))
    )
    assert whole.usual == pytest.approx(np.median(nearest), abs=1e-5)
    # Every third of the 24: no more than ten are looked at.
    assert some.usual == pytest.approx(np.median(nearest[::3]), abs=1e-5)


@pytest.mark.parametrize("more", [1, 2])
def test_hash_tables_of_two_planes_too_few_want_a_new_training(
    known: Artifact, more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = known.ranker.router
    assert isinstance(router, LshRouter)
    planes = int(router.tables.planes.shape[1])
    asked: list[int] = []

    def wanted(n_queries: int) -> int:
        asked.append(n_queries)
        return planes + more

    monkeypatch.setattr("localrank_training.publishing.extend.automatic_planes", wanted)
    notes = extend(known, two_kinds(6, seed=3)).notes

    assert [30] == asked
    told = [note for note in notes if note.startswith(f"the hash tables have {planes} planes")]
    assert (more == 2) == bool(told)
    assert all(f"now {planes + 2} would be better" in note for note in told)
    assert not [note for note in notes if "holds no training queries" in note]


def test_what_was_joined_becomes_json(known: Artifact) -> None:
    extended = extend(known, lone_document(two_kinds(5, seed=6)))

    found = extended.to_json()

    counts = [int((extended.clusters == cluster).sum()) for cluster in range(2)]
    assert (5, 61, counts, 1) == (
        found["queries"],
        found["documents"],
        found["joined"],
        found["in_no_cluster"],
    )
    assert (extended.near, extended.usual) == (found["median_similarity"], found["usual_similarity"])
    assert list(extended.notes) == found["notes"]


def test_kendalls_tau_is_the_mean_over_queries_that_both_sides_order() -> None:
    queries = two_kinds(4, n_docs=4)
    ours = np.array([1.0, 2, 3, 4, 1, 2, 3, 4, 5, 5, 5, 5, 1, 2, 3, 4])
    theirs = np.array([1.0, 2, 3, 4, 1, 2, 4, 3, 1, 2, 3, 4, 7, 7, 7, 7])

    # All pairs agree in the first query, five of six in the second; one side says nothing of the others.
    assert _mean_tau(ours, theirs, queries) == pytest.approx((1 + (5 - 1) / 6) / 2)
    assert np.isnan(_mean_tau(np.zeros(16), theirs, queries))


def test_a_cluster_is_where_most_of_the_shares_are() -> None:
    assert 2 == _cluster_of(Route("exact", 0, 0.5, 0.1, shares=(0.2, 0.3, 0.5)))
    assert 1 == _cluster_of(Route("exact", 1, 0.5, 0.1))
    assert -1 == _cluster_of(Route("exact", None, 0.5, 0.1))


def written(source: dict[str, Any]) -> Artifact:
    return cast("Artifact", SimpleNamespace(manifest=SimpleNamespace(source=source)))


@pytest.mark.parametrize(
    ("refit", "expected"), [(True, (100 + 30 + 7 + 9, 10 + 3 + 2 + 1)), (False, (116, 13))]
)
def test_ranges_come_from_everything_that_a_version_has_seen(
    *, refit: bool, expected: tuple[int, int]
) -> None:
    source = {
        "data": {
            "training": {"documents": 100, "queries": 10},
            "validation": {"documents": 30, "queries": 3},
        },
        "configuration": {"selection": {"refit": refit}},
        "extended": [{"documents": 7, "queries": 2}, {"documents": 9, "queries": 1}],
    }

    assert expected == _learned_from(written(source), "web@1")


def test_a_version_without_validation_queries_has_seen_its_training_queries() -> None:
    source = {
        "data": {"training": {"documents": 100, "queries": 10}},
        "configuration": {"selection": {"refit": True}},
    }

    assert (100, 10) == _learned_from(written(source), "web@1")


@pytest.mark.parametrize("source", [{}, {"data": None}, {"data": {"training": {"documents": "many"}}}])
def test_a_version_that_does_not_say_what_it_has_seen_is_refused(source: dict[str, Any]) -> None:
    with pytest.raises(
        InvalidConfiguration, match=r"^web@1: expected a model that 'localrank train' has published"
    ):
        _learned_from(written(source), "web@1")


@pytest.mark.parametrize(("size", "enough"), [(39, False), (40, True), (44, True)])
def test_a_fifth_of_the_new_queries_is_held_out_if_that_is_eight(
    known: Artifact, size: int, monkeypatch: pytest.MonkeyPatch, *, enough: bool
) -> None:
    """39 queries would hold out seven; of 40 eight are held out and 32 extend the model, where the test stops it."""
    asked: list[int] = []

    def stop(_artifact: Artifact, rest: QuerySet, **_: Any) -> None:
        asked.append(len(rest))
        raise KeyboardInterrupt

    monkeypatch.setattr("localrank_training.publishing.extend.extend", stop)

    with pytest.raises(KeyboardInterrupt if enough else InvalidData):
        against_retraining(known, two_kinds(), two_kinds(size, seed=9))
    assert ([size - size // 5] if enough else []) == asked


@pytest.mark.parametrize(("near", "unlike"), [(0.24, True), (0.25, False), (0.5, False)])
def test_queries_below_the_twentieth_of_the_usual_similarities_are_unlike(
    known: Artifact, near: float, monkeypatch: pytest.MonkeyPatch, *, unlike: bool
) -> None:
    """Of twenty-four training queries one has 0, one 0.2 and the others 0.5: the quantile lies in between."""
    usual = iter([0.0, 0.2, *[0.5] * 22])

    def similar(*_: Any) -> list[Any]:
        return [SimpleNamespace(query=-1, similarity=next(usual))]

    monkeypatch.setattr("localrank_training.publishing.extend.similar_queries", similar)
    routes = [Route("exact", 0, near, 0.1)] * 3

    found, median, notes = _similarities(known.ranker, routes)

    # The place of the quantile is 0.05 * 23 = 1.15: from 0.2 on the way to 0.5.
    assert 0.2 + 0.15 * 0.3 == pytest.approx(np.quantile([0.0, 0.2, *[0.5] * 22], 0.05))
    assert (near, 0.5) == (found, median)
    assert unlike == bool(notes)
