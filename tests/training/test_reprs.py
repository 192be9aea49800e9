"""What is seen when an object is the last line of a notebook's cell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import localrank
from localrank.artifact import read_manifest
from localrank_training.evaluation.evaluating import evaluate
from localrank_training.report.figures import report_of
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig
from tests.training.kinds import two_kinds

DEMO = Path(__file__).parents[2] / "models" / "demo" / "1"


def test_every_public_object_prints_as_one_short_line() -> None:
    queries = two_kinds()
    trained = train(queries, TrainingConfig.read(method="global", overrides=["learner.C=1.0"]))
    ranker = localrank.load(DEMO)
    ranking = ranker.rank(np.zeros((5, 10), np.float32))
    objects = [
        ranker,
        ranking,
        ranking.route,
        ranker.contract,
        ranker.router,
        ranker.representation,
        ranker.router.points,  # type: ignore[attr-defined]
        ranker.router.points.of(0),  # type: ignore[attr-defined]
        ranker.router.tables,  # type: ignore[attr-defined]
        *ranker.scorers,
        read_manifest(DEMO),
        queries,
        trained,
        trained.built,
        trained.held_out,
        report_of(trained),
        evaluate(trained.built.ranker, queries),
    ]
    for one in objects:
        text = repr(one)
        assert "\n" not in text
        assert len(text) < 1000, text
        assert text.startswith(type(one).__name__)
    assert "scores=float64[5]" in repr(ranking)
    assert f"documents=float32[{queries.n_docs}, {queries.n_features}]" in repr(queries)


def test_a_report_and_a_ranking_are_tables_in_a_notebook() -> None:
    trained = train(two_kinds(), TrainingConfig.read(method="global", overrides=["learner.C=1.0"]))
    html = report_of(trained)._repr_html_()
    ranking = localrank.load(DEMO).rank(np.arange(50, dtype=np.float32).reshape(5, 10))._repr_html_()

    assert "<td>ndcg@10</td>" in html
    assert "verdict: one global model" in html
    assert 6 == ranking.count("<tr>")


def test_html_of_names_is_text() -> None:
    from localrank.arrays import html_table

    assert "<td>&lt;b&gt;</td>" in html_table("t", ("a",), [("<b>",)])
    assert "<td>0.3333</td>" in html_table("t", ("a",), [(1 / 3,)])
    with pytest.raises(ValueError, match="zip"):
        html_table("t", ("a", "b"), [(1,)])
