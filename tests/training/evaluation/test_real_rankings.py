"""Metrics of real rankings: the known figures, and what other implementations say of the same rankings."""

from __future__ import annotations

import itertools
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.metrics import Judgements, Measured, measure
from localrank_training.data.reading import read

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.arrays import Indices, Vector
    from localrank_training.data.queries import QuerySet

pytestmark = pytest.mark.realdata


def least_squares(training: QuerySet, documents: Vector) -> Vector:
    """Return scores by regression on the labels; the constant is left out, as it changes no order."""
    features = training.documents.astype(np.float64)
    with_constant = np.hstack([features, np.ones((len(features), 1))])
    weights = np.linalg.lstsq(with_constant, training.labels, rcond=None)[0]
    return np.asarray(documents @ weights[:-1], np.float64)


def test_least_squares_on_ohsumed_has_its_known_figures(real_data: Path) -> None:
    """Means of the official folds' means, and over all queries: they differ, as the folds are unequal."""
    files = [real_data / "OHSUMED" / f"S{part}.txt.gz" for part in range(1, 6)]
    folds = []
    for fold in range(5):
        training = read([files[(fold + i) % 5] for i in range(3)])
        test = read(files[(fold + 4) % 5])
        scores = least_squares(training, test.documents.astype(np.float64))
        folds.append(measure(test.labels, scores, test.offsets, ["map", "ndcg@10"], "letor3"))

    for metric, of_folds, of_queries in ((0, 0.42199, 0.42082), (1, 0.41105, 0.41010)):
        parts = [fold[metric] for fold in folds]
        pooled = Measured.pooled(parts)
        assert np.mean([part.mean for part in parts]) == pytest.approx(of_folds, abs=5e-6)
        assert pooled.mean == pytest.approx(of_queries, abs=5e-6)
        assert (pooled.n_queries, pooled.n_empty) == (106, 1)


SETS = {
    "MQ2008": ("S5.txt.gz", 156),
    "OHSUMED": ("S5.txt.gz", 22),
    "MSLR-sample": ("data.txt.gz", 135),
}


def untied(scores: Vector, offsets: Indices) -> Vector:
    """Return scores of the same order without ties, for tools that break ties in another way."""
    distinct = np.empty_like(scores)
    for start, stop in itertools.pairwise(offsets):
        distinct[start + np.argsort(-scores[start:stop], kind="stable")] = np.arange(stop - start, 0, -1)
    return distinct


@pytest.mark.skipif(shutil.which("perl") is None, reason="gdeval.pl needs perl")
@pytest.mark.parametrize("name", SETS)
def test_trec_eval_and_gdeval_say_the_same_of_real_rankings(real_data: Path, name: str) -> None:
    import ir_measures

    file, n_queries = SETS[name]
    queries = read(real_data / name / file)
    assert n_queries == len(queries)
    scores = untied(least_squares(queries, queries.documents.astype(np.float64)), queries.offsets)
    rows = list(zip(queries.query_of.tolist(), queries.labels.tolist(), scores.tolist(), strict=True))
    run = [ir_measures.ScoredDoc(str(query), f"d{i}", score) for i, (query, _, score) in enumerate(rows)]
    qrels = [ir_measures.Qrel(str(query), f"d{i}", int(label)) for i, (query, label, _) in enumerate(rows)]
    gains = [ir_measures.Qrel(one.query_id, one.doc_id, 2**one.relevance - 1) for one in qrels]

    trec = {
        "map": ir_measures.AP,
        "mrr": ir_measures.RR,
        "p@10": ir_measures.P @ 10,
        "ndcg@5": ir_measures.nDCG @ 5,
        "ndcg@10": ir_measures.nDCG @ 10,
        "ndcg": ir_measures.nDCG,
    }
    theirs = ir_measures.calc_aggregate(list(trec.values()), gains, run)
    for measured in Judgements(queries.labels, queries.offsets).measure(scores, list(trec)):
        assert measured.mean == pytest.approx(theirs[trec[measured.name]], rel=1e-10)

    gdeval = {"ndcg@10": ir_measures.nDCG(dcg="exp-log2") @ 10, "err@20": ir_measures.ERR @ 20}
    values: dict[tuple[str, int], float] = {
        (str(one.measure), int(one.query_id)): one.value
        for one in ir_measures.iter_calc(list(gdeval.values()), qrels, run)
    }
    judgements = Judgements(queries.labels, queries.offsets, "standard-skip")
    for measured in judgements.measure(scores, list(gdeval)):
        expected = [values.get((str(gdeval[measured.name]), query), 0.0) for query in range(len(queries))]
        found = np.nan_to_num(measured.per_query)
        np.testing.assert_allclose(found, expected, atol=0.51e-5)


@pytest.mark.parametrize("name", ["MQ2008", "OHSUMED"])
def test_lightgbm_says_the_same_of_its_own_ranking(real_data: Path, name: str) -> None:
    """Tied scores included: few trees with few leaves give many documents the same."""
    import lightgbm

    training, test = (read(real_data / name / f"S{part}.txt.gz") for part in (1, 5))
    learning = {
        "objective": "lambdarank",
        "metric": ["ndcg", "map"],
        "eval_at": [1, 5, 10, int(test.lengths.max())],
        "num_leaves": 4,
        "verbosity": -1,
        "num_threads": 1,
        "deterministic": True,
    }
    lesson = lightgbm.Dataset(training.documents, training.labels, group=training.lengths)
    exam = lightgbm.Dataset(test.documents, test.labels, group=test.lengths, reference=lesson)
    booster = lightgbm.Booster(learning, lesson).add_valid(exam, "exam")
    for _ in range(5):
        booster.update()
    theirs = {metric: value for _, metric, value, _ in booster.eval_valid()}
    scores = booster.predict(test.documents, raw_score=True)
    assert len(np.unique(scores)) < test.n_docs / 4

    judgements = Judgements(test.labels, test.offsets, "standard-one")

    for measured in judgements.measure(scores, ["ndcg@1", "ndcg@5", "ndcg@10"]):
        assert measured.mean == pytest.approx(theirs[measured.name], rel=1e-9)
    (average,) = judgements.measure(scores, ["map"])
    assert average.mean == pytest.approx(theirs[f"map@{test.lengths.max()}"], rel=1e-9)
