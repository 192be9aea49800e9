from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ir_measures
import numpy as np
import pytest

from localrank.__main__ import main
from localrank.errors import InvalidData
from localrank_training.data.reading import read
from localrank_training.data.trec import (
    document_ids,
    judged_by,
    qrels_lines,
    read_qrels,
    read_run,
    run_lines,
    scores_of,
)

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """2 qid:q1 1:0.5 2:1 #docid = D1 inc = 1 prob = 0.5
0 qid:q1 1:0.75 2:2 #docid = D2 inc = 1 prob = 0.5
1 qid:q2 1:0.25 2:3 #docid = D1
0 qid:q2 1:0.125 2:4 #docid = D9
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "judged.txt"
    path.write_text(TEXT)
    return path


def test_labels_come_from_qrels_by_query_and_document(data: Path, tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("q1 0 D2 3\nq1 0 D7 1\nq2 0 D1 -2\nq2\t0\tD9\t1\n")

    judged, absent = judged_by(read(data), read_qrels(tmp_path / "qrels"))

    # D1 of q1 is not judged; D1 of q2 is judged below zero; D7 is not in the data.
    assert [0, 3, 0, 1] == judged.labels.tolist()
    assert 1 == absent


def test_a_run_is_its_scores_whatever_its_ranks_say(data: Path, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("q1 Q0 D2 2 7.5 x\nq1 Q0 D1 1 -3 x\nq2 Q0 D9 1 0.5 x\n")

    scores = scores_of(read(data), read_run(tmp_path / "run"))

    # D1 of q2 is not in the run, so it comes last.
    assert [-3, 7.5, -0.5, 0.5] == scores.tolist()


def test_what_is_written_reads_back_to_the_same_scores(data: Path, tmp_path: Path) -> None:
    queries, scores = read(data), np.array([1 / 3, 1e-300, -2.5, 7.0])
    (tmp_path / "run").write_text("".join(run_lines(queries, scores, "web@1")))

    found = scores_of(queries, read_run(tmp_path / "run"))

    np.testing.assert_array_equal(scores, found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q1 0 D1\n", "qrels:1: expected QUERY ITERATION DOCUMENT LABEL, found 3 fields"),
        ("q1 0 D1 1\nq1 0 D2 good\n", "qrels:2: expected a number, found 'good'"),
        (
            "q1 0 D1 1\nq1 0 D1 1\n",
            "qrels:2: expected each document of a query once, found 'D1' of query 'q1' again",
        ),
        ("\n", "qrels: expected QUERY ITERATION DOCUMENT LABEL on each line, found nothing"),
        ("q7 0 D1 1\n", "expected qrels of the queries q1, q2, …; found q7, …"),
    ],
)
def test_wrong_qrels_are_refused(data: Path, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "qrels").write_text(text)

    with pytest.raises(InvalidData, match=message):
        judged_by(read(data), read_qrels(tmp_path / "qrels"))


def test_documents_need_ids(data: Path, tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("q1 0 D2 3\n")
    data.write_text(TEXT.replace("D2", "D1"))
    with pytest.raises(
        InvalidData,
        match=r"judged.txt:2, query 'q1': expected a different id for each document, found 'D1' twice",
    ):
        judged_by(read(data), read_qrels(tmp_path / "qrels"))
    data.write_text("".join(line.split("#")[0] + "\n" for line in TEXT.splitlines()))
    with pytest.raises(
        InvalidData, match="expected document ids, because TREC files name documents by id; found none"
    ):
        judged_by(read(data), read_qrels(tmp_path / "qrels"))


def test_evaluate_agrees_with_trec_eval_on_the_files_that_it_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    lines = [
        f"{rng.integers(0, 3)} qid:{query} 1:{rng.random():.6f} 2:{rng.random():.6f} #doc{document}"
        for query in range(20)
        for document in range(12)
    ]
    data, models = tmp_path / "judged.txt", ["--models-dir", str(tmp_path / "models")]
    data.write_text("\n".join(lines) + "\n")
    assert 0 == main(["train", str(data), "--method", "global", "--set", "learner.C=1.0", *models])
    capsys.readouterr()
    other = tmp_path / "other.run"
    other.write_text(
        "".join(f"{q} Q0 doc{d} 1 {rng.random():.6f} other\n" for q in range(20) for d in range(12))
    )
    run, qrels = tmp_path / "web.run", tmp_path / "qrels.txt"
    written = ["--write-run", str(run), "--write-qrels", str(qrels)]
    arguments = ["evaluate", "model@1", str(data), "--metrics", "map,ndcg@10,mrr", *models]

    assert 0 == main([*arguments, *written, "--run", str(other), "--json"])

    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    measures = [ir_measures.AP, ir_measures.nDCG(dcg="exp-log2") @ 10, ir_measures.RR]
    for path, figures in ((run, answer["models"][0]["figures"]), (other, answer["run"])):
        expected = ir_measures.calc_aggregate(
            measures,
            list(ir_measures.read_trec_qrels(str(qrels))),
            list(ir_measures.read_trec_run(str(path))),
        )
        found = {figure["metric"]: figure["mean"] for figure in figures}
        np.testing.assert_allclose(
            [found["map"], found["ndcg@10"], found["mrr"]],
            [expected[measure] for measure in measures],
            atol=1e-6,
        )
    assert "other.run" == answer["comparison"]["baseline"]

    # The same labels, from the file: the same figures, in text.
    assert 0 == main([*arguments, "--qrels", str(qrels), "--run", str(other)])
    assert f"{answer['run'][0]['mean']:.4f}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("comment", "found"),
    [
        ("docid = D5 inc", "D5"),
        ("D5", "D5"),
        ("D5 docid = x", "D5"),
        ("docid D5", "docid"),
        ("docid = ", None),
        (" ", None),
    ],
)
def test_the_id_is_the_first_word_or_what_follows_docid(data: Path, comment: str, found: str | None) -> None:
    data.write_text(f"1 qid:1 1:2 #{comment}\n")

    if found is None:
        with pytest.raises(InvalidData, match="expected a different id for each document, found none"):
            document_ids(read(data))
    else:
        assert [found] == document_ids(read(data))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("q1 Q0 D1 1 2.5\n", "run:1: expected QUERY Q0 DOCUMENT RANK SCORE TAG, found 5 fields"),
        ("q1 Q0 D1 1 2.5 a b\n", "run:1: expected QUERY Q0 DOCUMENT RANK SCORE TAG, found 7 fields"),
        ("\nq1 Q0 D1 1 inf a\n", "run:2: expected a number, found 'inf'"),
        ("q7 Q0 D1 1 1 a\nq8 Q0 D1 1 1 a\nq9 Q0 D1 1 1 a\nq0 Q0 D1 1 1 a\n", "found q7, q8, q9, …"),
    ],
)
def test_wrong_runs_are_refused(data: Path, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "run").write_text(text)

    with pytest.raises(InvalidData, match=words):
        scores_of(read(data), read_run(tmp_path / "run"))


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for path, said in {
        tmp_path / "none": "cannot be read: No such file or directory",
        tmp_path: "cannot be read: Is a directory",
        tmp_path / "binary": "expected text in UTF-8, found bytes that are not text",
    }.items():
        for read_file in (read_qrels, read_run):
            with pytest.raises(InvalidData) as caught:
                read_file(path)
            assert f"{path}: {said}" == str(caught.value)


def test_a_document_that_a_run_lacks_comes_one_below_its_last(data: Path, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("q1 Q0 D2 1 5 x\nq1 Q0 D8 1 3 x\n")

    # Of q2 the run has nothing: all its documents are tied.
    assert [2, 5, -1, -1] == scores_of(read(data), read_run(tmp_path / "run")).tolist()


def test_the_lines_of_a_run_and_of_qrels_are_those_of_trec(data: Path) -> None:
    queries = read(data)

    lines = list(run_lines(queries, np.array([0.25, 1.5, 2.0, 2.0]), "tag"))

    # Ties keep the order of the input.
    assert [
        "q1 Q0 D2 1 1.5 tag\n",
        "q1 Q0 D1 2 0.25 tag\n",
        "q2 Q0 D1 1 2.0 tag\n",
        "q2 Q0 D9 2 2.0 tag\n",
    ] == lines
    assert ["q1 0 D1 2\n", "q1 0 D2 0\n", "q2 0 D1 1\n", "q2 0 D9 0\n"] == list(qrels_lines(queries))
    halved = replace(queries, labels=queries.labels / 2)
    with pytest.raises(
        InvalidData, match=r"judged\.txt:3, query 'q2': expected a whole label for qrels, found 0\.5"
    ):
        list(qrels_lines(halved))


def test_relevant_documents_that_are_not_there_are_counted(data: Path, tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("q1 0 D2 1\nq1 0 D7 1\nq1 0 D8 0\nq2 0 D3 2\nq9 0 D1 1\n")

    judged, absent = judged_by(read(data), read_qrels(tmp_path / "qrels"))

    assert [0, 1, 0, 0] == judged.labels.tolist()
    assert 2 == absent
