"""How far imported scores may be from their origin's, and what is said of it."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.errors import InvalidData
from localrank.scorers import LinearScorer
from localrank_training.origins.asking import origin_scores
from localrank_training.origins.checking import Check, check, expected_scores
from localrank_training.origins.model import OriginModel

if TYPE_CHECKING:
    from pathlib import Path


def model(tolerance: float = 0.0, offset: float = 0.0) -> OriginModel:
    return OriginModel(
        "ranklib", LinearScorer(np.ones(2), "raw"), 2, None, "zero", offset=offset, tolerance=tolerance
    )


@pytest.mark.parametrize(
    ("tolerance", "printed", "passes", "fails"),
    [
        (0.0, False, 0.0, 2**-40),
        (2**-10, False, 2**-10, 2**-9),
        # Printed scores have been rounded: a hundred-thousandth is allowed, or more if the model is allowed more.
        (0.0, True, 0.9e-5, 1.1e-5),
        (2**-10, True, 2**-10, 2**-9),
    ],
)
def test_a_deviation_is_a_share_of_the_largest_score(
    tolerance: float,
    printed: bool,  # noqa: FBT001
    passes: float,
    fails: float,
) -> None:
    """The largest is 8 here, so a share is eight times as much in the score."""
    scores = np.array([1.0, -8.0, 2.0])

    found = check(model(tolerance), scores, scores + np.array([0, 0, 8 * passes]), "it", printed=printed)

    assert ("it", 3) == (found.against, found.documents)
    assert found.deviation == pytest.approx(passes, rel=1e-6)
    assert found.tolerance == (max(tolerance, 1e-5) if printed else tolerance)
    with pytest.raises(
        InvalidData, match=r"^it: expected the score .* for document 3, found .*2\.0.*; give raw"
    ):
        check(model(tolerance), scores, scores + np.array([0, 0, 8 * fails]), "it", printed=printed)


def test_the_largest_score_may_be_the_origin_s() -> None:
    scores, expected = np.array([0.5, 1.0]), np.array([0.5, -4.0])

    with pytest.raises(InvalidData, match="for document 2"):
        check(model(1.24), scores, expected, "it")
    assert 1.25 == check(model(1.25), scores, expected, "it").deviation


def test_scores_of_zero_agree_and_none_need_be_there() -> None:
    for n in (1, 3):
        assert 0.0 == check(model(), np.zeros(n), np.zeros(n), "it").deviation


def test_what_the_origin_adds_is_added_before_scores_are_compared() -> None:
    scores = np.array([1.0, -2.0])

    assert 0.0 == check(model(offset=0.5), scores, scores + 0.5, "it").deviation
    with pytest.raises(InvalidData, match="for document 1"):
        check(model(offset=0.5), scores, scores, "it")


@pytest.mark.parametrize("n", [2, 4])
def test_each_document_needs_a_score(n: int) -> None:
    with pytest.raises(InvalidData, match=f"^it: expected a score for each of 3 documents, found {n}$"):
        check(model(), np.zeros(3), np.zeros(n), "it")


def test_a_score_that_is_no_number_does_not_pass() -> None:
    with pytest.raises(InvalidData, match="for document 2"):
        check(model(1.0), np.array([1.0, np.nan]), np.array([1.0, 2.0]), "it")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_expected_score_that_is_no_number_is_refused(bad: float) -> None:
    with pytest.raises(InvalidData, match=rf"^it: expected a finite score for document 2, found .*{bad}\)?$"):
        check(model(1.0), np.array([1.0, 2.0, 5.0]), np.array([1.0, bad, 2.0]), "it")


def test_the_comparison_is_told_in_a_sentence_and_as_json() -> None:
    assert "12 scores are equal to the bit, compared with it" == str(Check("it", 12, 0.0, 0.0))
    near = Check("it", 12, 2.5e-7, 1e-5)
    assert "12 scores are within 2.5e-07 of the largest score, compared with it" == str(near)
    assert {"against": "it", "documents": 12, "deviation": 2.5e-7, "tolerance": 1e-5} == near.to_json()


def test_printed_scores_are_the_last_column_of_lines_that_are_not_blank(tmp_path: Path) -> None:
    path = tmp_path / "scores.txt"
    path.write_text("q1\t0\t1.5\n\n  \nq1 1 -2e-3\n0.25")

    assert [1.5, -2e-3, 0.25] == expected_scores(path).tolist()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1\n\nx\n", r"scores\.txt:3: expected a score, found 'x'"),
        ("1\n2 inf\n", r"scores\.txt:2: expected a score, found 'inf'"),
        ("nan\n", r"scores\.txt:1: expected a score, found 'nan'"),
    ],
)
def test_a_line_without_a_score_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "scores.txt"
    path.write_text(text)

    with pytest.raises(InvalidData, match=words):
        expected_scores(path)


def test_scores_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")

    for name in ("none", "binary"):
        with pytest.raises(InvalidData, match=f"{name}: expected a score on each line: "):
            expected_scores(tmp_path / name)


@pytest.mark.parametrize(
    ("form", "library"), [("lightgbm", "lightgbm"), ("xgboost", "xgboost"), ("catboost-json", "catboost")]
)
def test_a_library_that_is_not_installed_cannot_be_asked(
    form: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)

    assert origin_scores(replace(model(), format=form), np.zeros((1, 2), np.float32)) is None
    assert origin_scores(model(), np.zeros((1, 2), np.float32)) is None
