from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.__main__ import main
from localrank_training.data.reading import read
from localrank_training.data.synthetic import Recipe, synthesize

if TYPE_CHECKING:
    from pathlib import Path

SMALL = ("data", "synthesize", "--queries", "12", "--documents", "3-9", "--features", "6")


@pytest.mark.parametrize("name", ["made.txt", "made.txt.gz", "made.parquet"])
def test_the_file_holds_the_queries_of_its_seed(tmp_path: Path, name: str) -> None:
    out = tmp_path / name

    assert 0 == main([*SMALL, "--seed", "3", "--missing", "0.1", "--kinds", "2", "--out", str(out)])

    expected, _ = synthesize(12, Recipe(documents=(3, 9), features=6, kinds=2, missing=0.1), seed=3)
    found = read([out])
    np.testing.assert_array_equal(expected.documents, found.documents)
    np.testing.assert_array_equal(expected.labels, found.labels)
    assert expected.query_ids == found.query_ids


def test_the_hidden_kind_stands_in_the_comments(tmp_path: Path) -> None:
    out = tmp_path / "made.txt"

    main([*SMALL, "--out", str(out)])

    made, kinds = synthesize(12, Recipe(documents=(3, 9), features=6))
    comments = [line.split("#")[1] for line in out.read_text().splitlines()]
    assert [f"kind={kinds[query]}" for query in made.query_of] == comments


def test_alike_is_shapes_of_zero(tmp_path: Path) -> None:
    main([*SMALL, "--alike", "--out", str(tmp_path / "alike.txt")])
    main([*SMALL, "--shapes", "0", "--out", str(tmp_path / "shapes.txt")])

    assert (tmp_path / "alike.txt").read_bytes() == (tmp_path / "shapes.txt").read_bytes()


def test_json_says_what_was_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "made.txt")

    main([*SMALL, "--documents", "4", "--json", "--out", out])

    assert {"out": out, "queries": 12, "documents": 48, "features": 6} == json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--documents", "many"], 2, "--documents: expected a number or a range such as 20-40, found 'many'"),
        (["--shares", "a,b"], 2, "--shares: expected numbers with commas between, found 'a,b'"),
        (["--separation", "2"], 2, "--separation: expected at most 1, found '2'"),
        (["--documents", "9-3"], 2, "localrank: --documents: expected the smaller number first, found 9, 3"),
        (["--shares", "1,1"], 2, "localrank: --shares: expected 5, one per level, found 2"),
        (["--documents", "99999999999999999999"], 2, "--documents: expected at most 1000000, found"),
        (["--levels", "5000"], 2, "--levels: expected at most 1001, found 5000"),
        (["--noise-features", "6"], 2, "--noise-features: expected fewer than the 6 features, found 6"),
        (["--noise", "inf"], 2, "--noise: expected a number, found inf"),
        (["--shares", "1,1,1,1,inf"], 2, "--shares: expected a list of numbers, found"),
        (
            ["--out", "made.csv"],
            1,
            "made.csv: expected a name in .txt, .txt.gz, .txt.zst, .parquet or .arrow",
        ),
        (["--out", ""], 2, "expected a path, found nothing"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: int, message: str
) -> None:
    assert code == main([*SMALL, "--out", str(tmp_path / "made.txt"), *options])

    assert message in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


def test_a_file_is_not_replaced_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "made.txt"
    out.write_text("precious")

    assert 1 == main([*SMALL, "--out", str(out)])
    assert "precious" == out.read_text()
    assert "made.txt" in capsys.readouterr().err

    assert 0 == main([*SMALL, "--overwrite", "--out", str(out)])
    assert out.read_text().startswith(("0 qid", "1 qid", "2 qid", "3 qid", "4 qid"))
