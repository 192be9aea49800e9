"""A feature that holds the label leads to a warning, never to advice to promote."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.__main__ import main
from localrank.errors import ArtifactNotFound
from localrank.metrics import measure
from localrank.registry.versions import Registry
from localrank_training import read_table
from localrank_training.evaluation.leaks import leaks_of, suspicion
from localrank_training.report.assessment import assess

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
    assert "not promoted: feature 'sold' has a rank correlation of +1.000 with the label; " in printed
    assert "promote it" not in printed
    assert "models promote" not in printed
    with pytest.raises(ArtifactNotFound):
        Registry(tmp_path / "models").resolve("web@champion")


def test_an_assessment_of_data_with_a_leak_advises_no_model() -> None:
    *_, conclusion = assess(judged(grade=LABELS)).sentences

    assert (
        conclusion == "Feature 'grade' is the label of every held-out document; leave it out and train again."
    )


#: Known before, and nearly the label: the ranks of half a grade of noise.
NEAR = LABELS + 0.1 * RNG.standard_normal(len(LABELS))


def test_the_rank_correlation_is_the_share_of_the_most_that_any_order_reaches() -> None:
    queries = judged(near=NEAR, other=RNG.integers(0, 3, len(LABELS)).astype(float))

    found = {one.name: one for one in (leaks_of(queries).best, *leaks_of(queries, exempt=()).holding)}

    def centred(values: Vector) -> Vector:
        """Return mid-ranks by counting the documents before each and as good as each."""
        table = values.reshape(N_QUERIES, N_DOCS)
        below = (table[:, :, None] > table[:, None, :]).sum(axis=2)
        equal = (table[:, :, None] == table[:, None, :]).sum(axis=2)
        ranks = (below + (equal + 1) / 2) / N_DOCS
        centred_ranks: Vector = (ranks - ranks.mean(axis=1, keepdims=True)).ravel()
        return centred_ranks

    most = centred(LABELS) @ centred(LABELS)
    assert {"near"} == found.keys()
    # Values are kept as float32.
    near = NEAR.astype(np.float32).astype(float)
    assert pytest.approx(centred(near) @ centred(LABELS) / most) == found["near"].correlation
    assert found["near"].correlation > 0.95


@pytest.mark.parametrize("leak", [LABELS, -np.exp(LABELS), NEAR])
def test_a_feature_that_follows_the_label_holds_it_whichever_way(leak: Vector) -> None:
    leaks = leaks_of(judged(sold=leak))

    (one,) = leaks.holding
    assert ("sold", leak is LABELS, bool(leak[0] <= leak[1]) == bool(LABELS[0] <= LABELS[1])) == (
        one.name, one.is_label, one.descending
    )  # fmt: skip
    assert leaks.sentences[0].startswith("feature 'sold' ")
    assert () == leaks_of(judged(sold=leak), exempt=["sold"]).holding


def test_a_strong_feature_is_named_with_its_figures_and_is_no_reason_to_refuse() -> None:
    noise = RNG.standard_normal(len(LABELS))

    leaks = leaks_of(judged(noise=noise))

    (strong,) = leaks.strong
    assert "bm25" == strong.name
    (ndcg,) = measure(*((queries := judged()).labels, HONEST, queries.offsets, ("ndcg@10",)))
    assert pytest.approx(ndcg.mean) == strong.ndcg
    assert leaks.linear is not None
    assert strong.ndcg >= leaks.linear - 0.02
    assert f"ranks nearly alone: ndcg@10 {strong.ndcg:.4f} with large values first" in leaks.sentences[0]
    assert () == leaks.holding


def test_of_noise_no_feature_is_strong() -> None:
    noise = {f"n{place}": RNG.standard_normal(len(LABELS)) for place in range(5)}
    queries = judged(**noise)
    queries.labels[:] = RNG.permutation(queries.labels)

    assert () == leaks_of(queries).strong


def test_names_are_matched_by_whole_words() -> None:
    said = ["last_click", "clickRate", "rank2", "Position", "score-old", "grade"]
    innocent = ["crank", "underscore", "upgrade", "positions_n", "clickbait", "rankine"]
    queries = judged(**dict.fromkeys([*said, *innocent], HONEST))

    assert said == [one.name for one in leaks_of(queries).named]
    assert said[1:] == [one.name for one in leaks_of(queries, exempt=["last_click"]).named]


def test_lists_of_one_document_ids_and_wrong_twins_are_said() -> None:
    numbers: Vector = RNG.permutation(np.arange(len(LABELS)) * 3.0)
    queries = judged(product=numbers)
    alone = replace(
        queries, offsets=np.arange(len(LABELS) + 1), query_ids=tuple(map(str, range(len(LABELS))))
    )

    assert leaks_of(alone).sentences == (
        "240 of 240 queries have one document: is --qid the column of the queries, and not of the documents?",
    )
    assert ["product"] == [one.name for one in leaks_of(queries).ids]
    twins = read_table({"label": LABELS, "qid": queries.query_of, "a": np.round(HONEST)})
    assert leaks_of(twins).near > 0
    assert "are nearly equal to a document of their query with another label" in leaks_of(twins).sentences[-1]


@pytest.mark.parametrize("leak", [LABELS, NEAR], ids=["label", "near"])
def test_a_model_with_a_leak_is_promoted_only_if_allowed(
    leak: Vector, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, models = tmp_path / "judged.csv", tmp_path / "models"
    columns = zip(LABELS.tolist(), HONEST.tolist(), leak.tolist(), strict=True)
    rows = [f"{label},{row // N_DOCS},{bm25},{sold}" for row, (label, bm25, sold) in enumerate(columns)]
    data.write_text("\n".join(["label,qid,bm25,sold", *rows]))
    train = ["train", str(data), "--models-dir", str(models), "--learner", "best_feature"]

    assert 1 == main([*train, "--promote"])
    refused = capsys.readouterr().err
    assert "localrank: --promote: feature 'sold' " in refused
    assert "--allow-suspicious" in refused
    assert not models.exists()
    assert 0 == main([*train, "--promote-if-better"])
    assert "not promoted: feature 'sold' " in capsys.readouterr().out
    assert 0 == main([*train, "--promote-if-better", "--allow-suspicious"])
    assert 2 == Registry(models).resolve("model@champion").version
    assert 0 == main([*train, "--promote", "--ignore", "sold"])
    assert 3 == Registry(models).resolve("model@champion").version


def test_a_category_that_names_the_grade_holds_the_label_and_one_that_does_not_is_innocent() -> None:
    words = np.array(["poor", "fair", "good"])[LABELS.astype(int)]
    names = np.array([f"p{number}" for number in RNG.integers(0, 100, len(LABELS))])
    queries = read_table(
        {
            "label": LABELS,
            "qid": np.repeat(np.arange(N_QUERIES), N_DOCS),
            "a": HONEST,
            "words": words,
            "names": names,
        }
    )

    leaks = leaks_of(queries)

    assert ["words"] == [one.name for one in leaks.holding]
    assert () == leaks.ids
    # Each value's mean comes from other queries, so many values seem to say nothing.
    assert "names" not in {one.name for one in leaks.strong}
