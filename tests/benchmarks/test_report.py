"""Tables and plots of the page are made of what was measured, and of nothing else."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import plots, report, results
from tests.benchmarks.measured import MEASURED


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, rows in MEASURED.items():
        results.write(tmp_path / f"{name}.json", **rows)
    return tmp_path


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


def test_every_table_and_plot_that_can_be_made_has_its_place_on_the_page() -> None:
    marked = re.findall(r"<!-- (table|plot) (\S+) -->", report.PAGE.read_text())

    assert sorted(
        [*(("table", name) for name in report.TABLES), *(("plot", name) for name in report.PLOTS)]
    ) == (sorted(marked))
    assert set(report.PLOTS) == set(plots.PLOTS)
    assert [measured for measured, _ in report.PLOTS.values()] == [
        plots.PLOTS[name][0][0] for name in report.PLOTS
    ]


def test_the_page_shows_the_results_that_are_committed() -> None:
    page = report.PAGE.read_text()

    assert report.filled(page) == page


def test_tables_are_filled_and_filling_them_again_changes_nothing(folder: Path) -> None:
    outside = re.compile(r"(<!-- (?:table|plot) \S+ -->).*?<!-- end -->", re.DOTALL)
    page = outside.sub(r"\1\n<!-- end -->", report.PAGE.read_text())

    once = report.filled(page, folder)

    assert "| **LocalRank** | npy | 0.25 (0.20–0.30) | 1.00 (0.80–1.20) |" in once
    # 2 documents per millisecond would be too much for it: it answered 40 %.
    assert "| FastAPI + pydantic | JSON | 3.00 (2.00–4.00) / 9.00 (8.00–10.0) | cannot |" in once
    assert "| 1,000,000 | 700 | does not fit into memory | – | – |" in once
    assert "![Latency against training queries](images/growth.svg)" in once
    assert once.count("python -m ") > page.count("python -m ")
    assert report.filled(once, folder) == once
    assert outside.sub(r"\1", page) == outside.sub(r"\1", once)


def test_without_results_the_page_stays_as_it_is(tmp_path: Path) -> None:
    page = report.PAGE.read_text()

    assert report.filled(page, tmp_path) == page
    with pytest.raises(KeyError, match="unheard"):
        report.filled("<!-- table unheard -->\n<!-- end -->", tmp_path)


def test_the_same_results_give_the_same_images(folder: Path, tmp_path: Path) -> None:
    first, second = plots.draw(folder, tmp_path / "a"), plots.draw(folder, tmp_path / "b")

    assert {f"{name}.svg" for name in report.PLOTS} == {path.name for path in first}
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert "LocalRank, npy" in (tmp_path / "a" / "cpu.svg").read_text()
    assert [] == plots.draw(tmp_path / "nothing", tmp_path / "c")


def test_a_benchmark_writes_what_it_measured(tmp_path: Path) -> None:
    path = tmp_path / "stages.json"
    command = [sys.executable, "-m", "benchmarks.stages", "--documents", "1,20", "--features", "10"]

    subprocess.run([*command, "--queries", "100", "--out", path], check=True, capture_output=True)

    found = json.loads(path.read_text())
    assert "python -m benchmarks.stages --documents 1,20 --features 10 --queries 100" == found["command"]
    assert {(1, 10), (20, 10)} == {(row["documents"], row["features"]) for row in found["stages"]}
    assert all(row["us"] > 0 for row in [*found["stages"], *found["blocks"], *found["routes"]])


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
