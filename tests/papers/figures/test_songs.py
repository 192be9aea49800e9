"""Classes of songs whose best metrics are known: what is drawn, and what local metrics make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.metrics import Judgements
from localrank_papers.figures import songs as songs_module
from localrank_papers.figures.songs import drawn, local_metrics, metric_rankers, shown_to

if TYPE_CHECKING:
    from localrank_training.data.queries import QuerySet


def test_every_song_is_asked_for_once_and_never_finds_itself() -> None:
    songs = drawn(3, 10, 4, split=0, seed=0)

    parts = [shown_to(songs, part) for part in range(3)]

    assert list(range(30)) == sorted(int(song) for part in parts for song in part.query_ids)
    assert [11] * 12 + [12] * 9 + [12] * 9 == [int(n) for part in parts for n in part.lengths]
    assert all(np.abs(parts[0].documents_of(query)).sum(axis=1).min() > 0 for query in range(12))


def test_documents_are_differences_from_the_query_and_relevant_in_its_class() -> None:
    songs = drawn(2, 10, 3, split=1, seed=0)

    asked = shown_to(songs, 2)

    song = int(asked.query_ids[0])
    np.testing.assert_allclose(
        asked.documents_of(0), songs.points[songs.parts[0]] - songs.points[song], rtol=1e-4, atol=1e-5
    )
    assert (songs.classes[songs.parts[0]] == songs.classes[song]).tolist() == (
        asked.labels_of(0) > 0
    ).tolist()


def test_as_many_metrics_as_classes_are_enough_and_better_than_one() -> None:
    found = local_metrics(None, classes=5, per_class=30, n_features=10, sizes=[1, 5, 40], split=0, seed=0)

    one, right, many = found["local"][0].mean(axis=1)
    assert one == pytest.approx(found["single"].mean(), abs=1e-9)
    assert right > one + 0.03
    assert many < right + 0.02
    assert found["truth"].mean() > one + 0.03


def test_with_anchors_at_the_query_more_metrics_hardly_matter() -> None:
    found = local_metrics(None, classes=5, per_class=30, n_features=10, sizes=[5, 40], split=0, seed=0)

    few, many = found["local"][2].mean(axis=1)
    assert abs(many - few) < 0.05


def test_one_metric_is_that_of_the_known_formula() -> None:
    """Written out for every pair: M solves M S M = D with both scatters scaled to a mean variance of one."""
    songs = drawn(2, 12, 3, split=0, seed=1)
    train, test = shown_to(songs, 0), shown_to(songs, 2)
    similar, dissimilar = np.zeros((3, 3)), np.zeros((3, 3))
    for query in range(len(train)):
        documents, relevant = train.documents_of(query).astype(float), train.labels_of(query) > 0
        for scatter, others in ((similar, relevant), (dissimilar, ~relevant)):
            pairs = [
                (a, b)
                for a in np.flatnonzero(relevant)
                for b in np.flatnonzero(others)
                if a < b or others is not relevant
            ]
            for a, b in pairs:
                np.add(
                    scatter,
                    np.outer(documents[a] - documents[b], documents[a] - documents[b]) / len(pairs),
                    out=scatter,
                )
    similar, dissimilar = (one * 3 / np.trace(one) + 0.1 * np.eye(3) for one in (similar, dissimilar))
    values, axes = np.linalg.eigh(similar)
    root = (axes * np.sqrt(values)) @ axes.T
    inner, turned = np.linalg.eigh(root @ dissimilar @ root)
    metric = np.linalg.inv(root) @ (turned * np.sqrt(inner)) @ turned.T @ np.linalg.inv(root)
    apart = test.documents.astype(float)
    expected = Judgements(test.labels, test.offsets).per_query(-np.vecdot(apart @ metric, apart), "map")

    found = local_metrics(None, classes=2, per_class=12, n_features=3, sizes=[1], split=0, seed=1)["single"]

    np.testing.assert_allclose(found, expected)


def test_structural_metrics_take_the_query_as_the_origin() -> None:
    found = metric_rankers(
        None,
        classes=3,
        per_class=16,
        n_features=6,
        metrics=3,
        structural={"C": 100.0, "tolerance": 0.1, "max_cuts": 20},
        split=0,
        seed=0,
    )

    for name in ("MLR", "R-MLR", "GMML", "L-GMML"):
        assert found[name].mean() > 0.4
        assert found[f"seconds of {name}"] >= 0


@pytest.mark.parametrize("best", [1.0, 4.0, 16.0])
def test_the_sharpness_that_ranks_validation_songs_best_is_used_for_test_songs(
    best: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = drawn(3, 10, 4, split=0, seed=0)
    _, held, test = (shown_to(three, part) for part in range(3))
    asked: list[tuple[bool, float]] = []

    def mixed(
        points: np.ndarray, queries: QuerySet, _transforms: object, _anchors: object, rho: float
    ) -> object:
        assert len(points) == len(queries)
        asked.append((queries is test, rho))
        return queries.labels if rho == best else -queries.labels

    monkeypatch.setattr(songs_module, "_mixed", mixed)

    found = songs_module._by_equations(three, held, test, np.eye(4)[None], np.zeros((1, 4)))

    assert [(False, 1.0), (False, 4.0), (False, 16.0), (True, best)] == asked
    assert [1.0] * len(test) == found.tolist()
