"""The table, the picture and the long tables are made of what was measured, and of nothing else."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import report, results
from benchmarks.stages import PARTS

ROWS = [
    {"server": server, "wire": wire, "documents": n, "cpu_ms": n / speed, "cpu_ms_interval": [n / 900, n / 9]}
    for server, wire, speed in (
        ("fastapi", "JSON", 50),
        ("localrank", "npy", 400),
        ("localrank", "JSON", 200),
    )
    for n in (100, 1000)
]


@pytest.fixture
def found(tmp_path: Path) -> results.Results:
    results.write(tmp_path / "peers.json", cpu=ROWS, left_out=[])
    read = results.read("peers", tmp_path)
    assert read is not None
    return read


def test_results_come_back_as_they_were_written(tmp_path: Path) -> None:
    rows = [
        {"name": "a", "ms": 0.123456789, "each": [1.0, 2.5]},
        {"name": "b", "ms": float("nan"), "each": []},
    ]

    results.write(tmp_path / "deep" / "some.json", some=rows)

    found = results.read("some", tmp_path / "deep")
    assert found is not None
    assert [
        {"name": "a", "ms": 0.123457, "each": [1.0, 2.5]},
        {"name": "b", "ms": None, "each": []},
    ] == found["some"]
    assert {"processor", "cores", "memory_gib", "system", "python", "numpy"} == set(found["machine"])
    assert ["some.json"] == [path.name for path in (tmp_path / "deep").iterdir()]
    assert results.read("other", tmp_path) is None


@pytest.mark.parametrize(
    "arguments",
    [("--out", "/somewhere/f.json", "--repeats", "3"), ("--repeats", "3", "--cache=/somewhere/peers")],
)
def test_the_command_that_is_kept_names_no_place_on_this_machine(arguments: tuple[str, ...]) -> None:
    assert results.command(arguments).endswith(" --repeats 3")


def test_an_interval_of_the_median_holds_it_and_narrows_with_repeats() -> None:
    values = np.random.default_rng(0).normal(10.0, 1.0, 200).tolist()

    few, many = results.interval(values[:5]), results.interval(values)

    assert few[0] <= np.median(values[:5]) <= few[1]
    assert many[0] <= np.median(values) <= many[1]
    assert many[1] - many[0] < few[1] - few[0]
    assert (2.0, 2.0) == results.interval([2.0])


def test_the_table_has_the_least_cpu_first(found: results.Results) -> None:
    lines = report.table(found).splitlines()

    assert "| server | wire | 100 documents | 1,000 documents |" == lines[0]
    assert "| **LocalRank** | npy | 0.25 (0.11–11.11) | 2.50 (1.11–111.11) |" == lines[2]
    assert ["npy", "JSON", "JSON"] == [line.split(" | ")[1] for line in lines[2:]]


def test_filling_the_page_changes_its_table_and_nothing_else(found: results.Results) -> None:
    page = "before\n<!-- table -->\nold\n<!-- end -->\nafter\n"

    once = report.filled(page, found)

    assert "old" not in once
    assert once.startswith("before\n<!-- table -->\n`python -m ")
    assert once.endswith("<!-- end -->\nafter\n")
    assert report.filled(once, found) == once


def test_the_pages_show_the_results_that_are_committed() -> None:
    page, found = (report.DOCS / "operate" / "performance.md").read_text(), results.read("peers")

    assert found is not None
    assert report.filled(page, found) == page
    assert report.every_table() == (results.FOLDER / "tables.md").read_text()
    assert 60 > len(page.splitlines())


def test_every_row_of_every_result_is_in_a_table(tmp_path: Path, found: results.Results) -> None:
    tables = report.every_table(tmp_path)

    assert len(ROWS) == tables.count("| JSON |") + tables.count("| npy |")
    assert "| fastapi | JSON | 1,000 | 20 | 1.11–111 |" in tables
    assert report.about(found) in tables


def test_the_same_results_give_the_same_picture(tmp_path: Path, found: results.Results) -> None:
    for name in "ab":
        report.draw(found, tmp_path / f"{name}.svg")

    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    assert "LocalRank, npy" in text


def test_a_benchmark_writes_what_it_measured(tmp_path: Path) -> None:
    path = tmp_path / "stages.json"
    command = [sys.executable, "-m", "benchmarks.stages", "--documents", "1,20", "--features", "10"]

    subprocess.run([*command, "--queries", "100", "--out", path], check=True, capture_output=True)

    found = json.loads(path.read_text())
    assert "python -m benchmarks.stages --documents 1,20 --features 10 --queries 100" == found["command"]
    assert {(1, 10), (20, 10)} == {(row["documents"], row["features"]) for row in found["stages"]}
    assert all(row["us"] > 0 for row in [one for part in PARTS for one in found[part]])


def test_a_part_that_is_measured_later_stands_beside_the_others(tmp_path: Path) -> None:
    path = tmp_path / "stages.json"
    results.write(path, stages=[{"stage": "sign", "us": 1.0}], blocks=[{"block": "rank", "us": 2.0}])
    first = results.read("stages", tmp_path)
    assert first is not None

    results.write_beside(path, blocks=[{"block": "rank", "us": 3.0}])

    found = results.read("stages", tmp_path)
    assert found is not None
    assert [{"stage": "sign", "us": 1.0}] == found["stages"]
    assert [{"block": "rank", "us": 3.0}] == found["blocks"]
    assert first["command"] == found["command"]
    assert ["blocks"] == list(found["commands"])


def test_the_option_for_the_file_of_results_takes_a_path() -> None:
    parser = argparse.ArgumentParser()
    results.add_out(parser)
    assert parser.parse_args(["--out", "a/b.json"]).out == Path("a/b.json")
