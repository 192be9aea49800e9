"""A feature that holds the label leads to a warning, never to advice to promote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.__main__ import main
from localrank.errors import ArtifactNotFound
from localrank.metrics import measure
from localrank.registry.versions import Registry
from localrank_training import read_table
from localrank_training.advice.assessment import assess
from localrank_training.evaluation.features import suspicion

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.arrays import Vector
    from localrank_training.data.queries import QuerySet

RNG = np.random.default_rng(0)
N_QUERIES, N_DOCS = 30, 8
LABELS = RNG.integers(0, 3, N_QUERIES * N_DOCS).astype(float)
#: Says something about the label, with mistakes.
HONEST = LABELS + RNG.standard_normal(len(LABELS))


def judged(**features: Vector) -> QuerySet:
    qid = np.repeat(np.arange(N_QUERIES), N_DOCS)
    return read_table({"label": LABELS, "qid": qid, "bm25": HONEST, **features})


def said_of(queries: QuerySet, scores: Vector) -> str | None:
    return suspicion(queries, measure(queries.labels, scores, queries.offsets, ("map", "ndcg@10")))


def test_a_feature_that_is_the_label_is_named_whatever_the_figures_are() -> None:
    said = "feature 'grade' is the label of every held-out document; leave it out and train again"

    assert said == said_of(judged(grade=LABELS), HONEST)
    assert said_of(judged(), HONEST) is None


@pytest.mark.parametrize("leak", [3 * LABELS - 1, -np.exp(LABELS)])
def test_a_feature_that_orders_as_the_label_does_is_named_if_nothing_is_ranked_wrong(leak: Vector) -> None:
    queries = judged(sold=leak)

    assert said_of(queries, LABELS) == (
        "ndcg@10 1.0000 is too good to be true: feature 'sold' alone orders every query as the labels do, so it probably "
        "holds the label; leave it out and train again"
    )
    assert said_of(queries, HONEST) is None


def test_a_perfect_ranking_is_doubted_even_if_no_single_feature_holds_the_label() -> None:
    said = said_of(judged(half=LABELS - HONEST), LABELS)

    assert said is not None
    assert said.startswith("ndcg@10 1.0000 is too good to be true: the features probably hold the label; ")


def test_a_few_queries_may_be_ranked_without_a_mistake() -> None:
    few = judged(sold=3 * LABELS).select(range(9))

    assert said_of(few, few.labels) is None


def test_training_with_a_leak_does_not_advise_to_promote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, models = tmp_path / "judged.csv", str(tmp_path / "models")
    rows = [
        f"{label:g},{row // N_DOCS},{bm25!r},{3 * label:g}"
        for row, (label, bm25) in enumerate(zip(LABELS.tolist(), HONEST.tolist(), strict=True))
    ]
    data.write_text("\n".join(["label,qid,bm25,sold", *rows]))
    train = ["train", str(data), "--name", "web", "--models-dir", models, "--promote-if-better"]

    assert 0 == main([*train, "--learner", "best_feature"])
    printed = capsys.readouterr().out

    assert "verdict: ndcg@10 1.0000 is too good to be true: feature 'sold' alone orders" in printed
    assert "not promoted, because of the verdict" in printed
    assert "promote it" not in printed
    assert "models promote" not in printed
    with pytest.raises(ArtifactNotFound):
        Registry(tmp_path / "models").resolve("web@champion")


def test_an_assessment_of_data_with_a_leak_advises_no_model() -> None:
    *_, conclusion = assess(judged(grade=LABELS)).sentences

    assert (
        conclusion == "Feature 'grade' is the label of every held-out document; leave it out and train again."
    )
