"""A model beside the present order, or the best single feature."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.__main__ import main
from localrank.errors import InvalidData
from localrank.metrics import measure, ndcg
from localrank_training import TrainingConfig, read_table, train
from localrank_training.data.queries import concatenated
from localrank_training.data.tables import Columns
from localrank_training.evaluation.baselines import against_baseline, with_present, without
from localrank_training.report.figures import report_of

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_training.data.queries import QuerySet

RNG = np.random.default_rng(5)
N_QUERIES, N_DOCS = 40, 10
QID = np.repeat(np.arange(N_QUERIES), N_DOCS)
LABELS = RNG.integers(0, 3, len(QID)).astype(float)
GOOD, POOR = (LABELS + noise * RNG.standard_normal(len(QID)) for noise in (1.0, 4.0))
#: Places by the poor feature; the last document of each query was not shown.
PLACES = np.concatenate([1 + np.argsort(np.argsort(-one)) for one in POOR.reshape(N_QUERIES, N_DOCS)]).astype(
    float
)
PLACES[N_DOCS - 1 :: N_DOCS] = np.nan


def judged(**more: object) -> QuerySet:
    table = {
        "label": LABELS,
        "qid": QID,
        "good": GOOD,
        "poor": POOR,
        "other": GOOD[::-1].copy(),
        "place": PLACES,
    }
    return read_table(table | more, columns=Columns(position="place"))


def test_a_column_ranks_by_large_values_and_a_rank_by_small_ones() -> None:
    queries = judged(old_rank=-POOR)

    large, small = (with_present(queries, name).present for name in ("poor", "old_rank"))

    assert large is not None
    assert small is not None
    assert ("poor, large values first", "old_rank, small values first") == (large.name, small.name)
    for present in (large, small):
        np.testing.assert_array_equal(np.argsort(POOR.astype(np.float32)), np.argsort(present.scores))


def test_places_rank_from_the_top_and_what_was_not_shown_comes_last() -> None:
    present = with_present(judged(), "position").present

    assert present is not None
    expected = np.where(np.isnan(PLACES), 11, PLACES)
    np.testing.assert_array_equal(-expected, present.scores)


def test_equal_values_earn_nothing_by_the_order_of_the_input() -> None:
    order = np.lexsort((-LABELS, QID))
    queries = read_table({"label": LABELS[order], "qid": QID, "flat": np.ones(len(QID)), "good": GOOD[order]})
    present = with_present(queries, "flat").present

    assert present is not None
    found = ndcg(queries.labels, present.scores, queries.offsets, 10).mean()
    by_chance = [ndcg(LABELS, RNG.random(len(QID)), queries.offsets, 10).mean() for _ in range(50)]
    assert min(by_chance) <= found <= max(by_chance)


def test_files_of_scores_and_runs_are_matched_to_their_documents(tmp_path: Path) -> None:
    shuffled = RNG.permutation(len(QID))
    names = [f"d{row}" for row in range(len(QID))]
    table = {
        "label": LABELS[shuffled],
        "qid": QID[shuffled],
        "doc_id": [names[row] for row in shuffled],
        "good": GOOD[shuffled],
    }
    queries = read_table(table)
    (tmp_path / "scores.txt").write_text("\n".join(repr(float(POOR[row])) for row in shuffled))
    (tmp_path / "old.run").write_text(
        "\n".join(f"{QID[row]} Q0 d{row} 1 {float(POOR[row])!r} old" for row in RNG.permutation(len(QID)))
    )

    scores, run = (with_present(queries, str(tmp_path / name)).present for name in ("scores.txt", "old.run"))

    assert scores is not None
    assert run is not None
    assert queries.comments is not None
    expected = [POOR[names.index(name)] for name in queries.comments]
    assert expected == scores.scores.tolist() == run.scores.tolist()


def test_what_is_no_column_and_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("1\n2\n")
    (tmp_path / "words.txt").write_text("1\n\none\n")
    (tmp_path / "scores.parquet").write_bytes(b"PAR1\xff\xfe")

    for text, said in (
        (
            "nothing",
            "--baseline nothing: expected a column of the data, 'position' with --position, or a file",
        ),
        (str(tmp_path / "short.txt"), "expected a finite number for each of 400 documents, found 2 numbers"),
        (
            str(tmp_path / "words.txt"),
            "words.txt:3: expected a TREC run or a number on each line, found could not convert",
        ),
        (
            str(tmp_path / "scores.parquet"),
            "expected a TREC run or a number on each line, found a file that is no text",
        ),
    ):
        with pytest.raises(InvalidData) as refused:
            with_present(judged(), text)
        assert said in str(refused.value)


def test_the_order_stays_with_its_documents() -> None:
    queries = with_present(judged(), "poor")

    some = queries.select(np.array([7, 3]))
    both = concatenated([some, queries.select(np.array([1]))])

    assert both.present is not None
    expected = [queries.present.scores[queries.span(query)] for query in (7, 3, 1)]  # type: ignore[union-attr]
    np.testing.assert_array_equal(np.concatenate(expected), both.present.scores)
    assert concatenated([some, judged()]).present is None


def test_a_model_is_compared_on_the_queries_that_it_was_measured_on() -> None:
    config = TrainingConfig.read(learner="linear", overrides=["selection.folds=3"])

    report = report_of(train(without(with_present(judged(), "poor"), "poor"), config))

    found = report.baseline
    assert found.given
    mine, theirs = (ndcg(LABELS, scores, judged().offsets, 10) for scores in (GOOD, POOR.astype(np.float32)))
    one = found.comparisons[-1]
    assert pytest.approx(theirs.mean()) == one.baseline
    assert one.interval is not None
    # The model can do little better than its good feature.
    assert one.interval.low < (mine - theirs).mean() < one.interval.high
    assert str(report.verdict).startswith(
        f"verdict: your present order (poor, large values first) ndcg@10 {one.baseline:.4f}, "
    )
    assert "): better. Besides: " in str(report.verdict)
    assert found.to_json() == report.metrics_json()["baseline"]


def test_without_a_baseline_the_best_single_feature_stands_beside_the_model() -> None:
    queries = read_table({"label": LABELS, "qid": QID, "poor": POOR, "good": -GOOD})
    measured = measure(LABELS, LABELS, queries.offsets, ("map", "ndcg@10"))

    found = against_baseline(measured, queries)

    assert (False, "best single feature 'good', small values first,") == (found.given, found.name)
    theirs = ndcg(LABELS, GOOD.astype(np.float32), queries.offsets, 10).mean()
    assert 1.0 == found.comparisons[-1].candidate
    assert pytest.approx(theirs) == found.comparisons[-1].baseline


def test_a_category_counts_by_its_labels_and_not_by_its_codes() -> None:
    names = np.array(["worst", "best", "middle"])[np.argsort([0, 2, 1])][np.clip(LABELS, 0, 2).astype(int)]
    queries = read_table({"label": LABELS, "qid": QID, "poor": POOR, "brand": names})
    measured = measure(LABELS, LABELS, queries.offsets, ("map", "ndcg@10"))

    found = against_baseline(measured, queries)

    assert "best single feature 'brand', values with the best labels first," == found.name
    assert found.comparisons[-1].baseline > 0.8


def write(path: Path) -> str:
    rows = [
        f"{label},{qid},{good},{poor}" for label, qid, good, poor in zip(LABELS, QID, GOOD, POOR, strict=True)
    ]
    path.write_text("\n".join(["label,qid,good,poor", *rows]))
    return str(path)


def test_the_baseline_stands_in_every_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, models = write(tmp_path / "judged.csv"), ["--models-dir", str(tmp_path / "models")]
    common = [data, *models, "--learner", "linear", "--json"]

    assert 0 == main(["train", *common, "--ignore", "poor", "--baseline", "poor", "--promote-if-better"])
    trained = json.loads(capsys.readouterr().out)
    sentence = trained["metrics"]["baseline"]["sentence"]
    assert sentence.startswith("your present order (poor, large values first) ndcg@10 0.")
    assert trained["promoted"]
    assert 0 == main(["models", "show", "model", *models])
    assert sentence in capsys.readouterr().out
    assert 0 == main(["evaluate", "model", data, *models, "--ignore", "poor", "--baseline", "poor", "--json"])
    evaluated = json.loads(capsys.readouterr().out)["comparison"]
    assert "poor, large values first" == evaluated["baseline"]
    # A model of the poor feature alone is worse than the present order, which is the good one.
    assert 0 == main(["train", *common, "--ignore", "good", "--baseline", "good", "--promote-if-better"])
    worse = json.loads(capsys.readouterr().out)
    assert not worse["promoted"]
    assert worse["decision"].startswith(
        "not promoted: your present order (good, large values first) ndcg@10 0."
    )
    assert worse["verdict"]["sentence"].endswith(": worse; keep your present order")
