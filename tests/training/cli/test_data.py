from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from localrank.__main__ import main
from localrank_training.data.reading import read

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def letor(tmp_path: Path) -> Path:
    path = tmp_path / "data.txt"
    path.write_text(
        "".join(
            f"{i % 3} qid:{i // 4} 1:{i * 0.37 % 1:.3f} 2:{i * 0.11 % 1:.3f} 3:7 # d{i}\n" for i in range(40)
        )
    )
    return path


def test_inspect_prints_tables_and_what_looks_wrong(letor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["data", "inspect", str(letor), "--features", "2"])

    out = capsys.readouterr().out
    assert "     10         40         3             3" in out
    assert "… and 1 more" in out
    assert "1 of 3 constant features: f3" in out


def test_inspect_answers_json(letor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["data", "inspect", str(letor), "--json"])

    answer = json.loads(capsys.readouterr().out)
    assert (10, 40, 3) == (answer["n_queries"], answer["n_docs"], answer["n_features"])
    assert {"0": 14, "1": 13, "2": 13} == answer["labels"]
    assert ["f1", "f2", "f3"] == [feature["name"] for feature in answer["features"]]
    assert ["constant features"] == [entry["what"] for entry in answer["suspicions"]]


def test_convert_goes_round(letor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["data", "convert", str(letor), "--out", str(tmp_path / "a.parquet")])
    assert 0 == main(["data", "convert", str(tmp_path / "a.parquet"), "--out", str(tmp_path / "b") + "/"])
    assert 0 == main(["data", "convert", str(tmp_path / "b"), "--out", str(tmp_path / "c"), "--to", "zst"])

    assert f"{tmp_path / 'a.parquet'}: 40 documents" in capsys.readouterr().out
    assert letor.read_text().split() != []
    before, after = read([letor]), read([tmp_path / "c"])
    assert before.documents.tolist() == after.documents.tolist()
    assert before.comments == after.comments


def test_convert_keeps_what_is_there(letor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = letor.read_bytes()

    assert 1 == main(["data", "convert", str(letor), "--out", str(letor)])

    assert "expected a name that is not in use" in capsys.readouterr().err
    assert before == letor.read_bytes()
    assert 0 == main(["data", "convert", str(letor), "--out", str(letor), "--overwrite"])
    assert 40 == read([letor]).n_docs


def test_split_reports_the_sizes(letor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "parts")

    assert 0 == main(["data", "split", str(letor), "--out", out, "--fractions", "0.6,0.2,0.2", "--json"])

    assert {
        "train.txt": {"queries": 6, "documents": 24},
        "validation.txt": {"queries": 2, "documents": 8},
        "test.txt": {"queries": 2, "documents": 8},
    } == json.loads(capsys.readouterr().out)


def test_split_makes_folds(letor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "folds"

    assert 0 == main(["data", "split", str(letor), "--out", str(out), "--folds", "5", "--to", "gz"])

    assert "Fold5/validation.txt.gz        2          8" in capsys.readouterr().out
    assert 6 == len(read([out / "Fold3" / "train.txt.gz"]))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["inspect", "no.txt"], 1, "localrank: no.txt: no such file or folder"),
        (["inspect"], 2, "expected argument DATA, found none"),
        (["convert", "x"], 2, "expected option --out, found none"),
        (["convert", "x", "--out", "y", "--to", "csv"], 2, "'csv'"),
        (
            ["convert", "x", "--out", "y.csv"],
            1,
            "y.csv: expected a name in .txt, .txt.gz, .txt.zst, .parquet or .arrow, ",
        ),
        (["convert", "x", "--out", "y.TSV.gz"], 1, "found .TSV, which can be read but not written"),
        (["convert", "x", "--out", "y.csv", "--to", "text"], 1, "localrank: x: no such file or folder"),
        (["split", "x", "--out", "y", "--fractions", "a,b"], 2, "expected numbers with commas between"),
    ],
)
def test_wrong_use_ends_in_its_code(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code == main(["data", *arguments])

    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error


@pytest.mark.parametrize("command", ["inspect", "convert", "split", "synthesize"])
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["data", command, "--help"])

    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if line.startswith(f"localrank data {command} ")]
