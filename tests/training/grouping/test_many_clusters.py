"""One model for every training query, 784 of them as in MQ2008: small on disk, readable, served as it ranks offline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank import Registry, load
from localrank.__main__ import main
from localrank.artifact import Cluster, Provenance
from localrank.probe import choose
from localrank_training.data.queries import QuerySet
from localrank_training.learners.linear import LeastSquares
from localrank_training.run.pipeline import build
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_training.run.pipeline import Built

QUERIES = 784


def judged(n_docs: int = 5, n_features: int = 8) -> QuerySet:
    rng = np.random.default_rng(0)
    documents = rng.random((QUERIES * n_docs, n_features)).astype(np.float32)
    labels = rng.integers(0, 2, len(documents)).astype(float)
    return QuerySet(
        documents=documents,
        labels=labels,
        offsets=np.arange(QUERIES + 1) * n_docs,
        query_ids=tuple(f"q{number}" for number in range(QUERIES)),
        feature_names=tuple(f"f{number + 1}" for number in range(n_features)),
        lines=np.arange(len(documents)),
    )


@pytest.fixture(scope="module")
def built() -> Built:
    config = TrainingConfig.from_tables(
        {"clustering": {"clusters": QUERIES}, "representation": {"components": 3}}
    )
    return build(judged(), config, LeastSquares(ridge=1.0))


def test_every_query_has_a_model_of_its_own_or_none(built: Built) -> None:
    assert (QUERIES, QUERIES) == (len(built.ranker.scorers), len(set(built.clusters.tolist())))
    alone = [scorer is built.ranker.global_scorer for scorer in built.ranker.scorers]
    # In a few lists all documents have the same label.
    assert 0 < sum(alone) < 100
    for query, documents in list(enumerate(judged().clouds()))[:50]:
        route = built.ranker.rank(documents).route
        assert (built.clusters[query], not alone[built.clusters[query]]) == (route.cluster, route.local)


def test_it_is_published_in_few_files_and_shown_on_one_screen(
    built: Built, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry = Registry(tmp_path)
    queries = list(judged().clouds())
    clusters = [Cluster(1, exemplar, {}) for exemplar in built.exemplars]
    provenance = Provenance("", {}, choose(built.ranker, queries), clusters=clusters, notes=built.notes)

    reference = registry.publish("web", built.ranker, provenance)

    assert len(list(reference.path.iterdir())) < 20
    assert 0 == main(["models", "show", "web", "--models-dir", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 80
    own = sum(scorer is not built.ranker.global_scorer for scorer in built.ranker.scorers)
    assert f"clusters        784 of 1 to 1 queries, {own} with a scorer of their own" in lines
    assert "... and 759 more; --json prints all" in lines
    assert any(
        line.startswith("... and") and line.endswith("more notes; --json prints all") for line in lines
    )


def test_what_is_loaded_ranks_as_what_was_trained(built: Built, tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    queries = list(judged().clouds())
    registry.publish("web", built.ranker, Provenance("", {}, choose(built.ranker, queries[:20])))

    ranker = load(tmp_path / "web")

    for documents in queries[::40]:
        expected, found = built.ranker.rank(documents), ranker.rank(documents)
        assert expected.route == found.route
        np.testing.assert_array_equal(expected.scores, found.scores)
