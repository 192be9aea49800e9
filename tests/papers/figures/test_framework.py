"""What every experiment owes to whoever runs it: a plan, results that are kept, a log, four files, one sentence for mistakes."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.__main__ import main
from localrank.errors import InvalidData
from localrank_papers.figures.fits import Fit, Fits
from localrank_papers.figures.folds import Data, Fold, read_folds
from localrank_papers.figures.running import LOG, RunLog, run
from localrank_papers.figures.study import Experiment, Findings, Protocol, Study
from localrank_training.report import Axis, Line, Plot, Table

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_papers.figures.fits import Arrays

CALLS: list[str] = []


def test_queries_of(fold: Fold | None, times: int) -> Arrays:
    """Count the test queries of a fold, times a number."""
    CALLS.append(f"{None if fold is None else fold.number} {times}")
    return {"count": np.array([0 if fold is None else times * len(fold.test)])}


test_queries_of.__test__ = False  # type: ignore[attr-defined]


def fits_of(study: Study) -> list[Fit]:
    return [Fit(test_queries_of, fold, {"times": 2}) for fold in study.data.folds]


def counted(study: Study) -> Findings:
    counts = tuple(float(study.of(fit)["count"][0]) for fit in fits_of(study))
    numbers = tuple(float(fold.number) for fold in study.data.folds)
    return Findings(
        (Table("counts", ("fold", "queries"), tuple(zip(numbers, counts, strict=True))),),
        (Plot("counts", "All are alike.", Axis("fold"), Axis("queries"), [Line("twice", numbers, counts)]),),
        ("There are 24 in each & all <of them>.",),
    )


COUNTING = Experiment(
    "count", "A paper", "Table 0", "How many", Protocol("ours", "counting"), "", ("OHSUMED",), fits_of, counted
)  # fmt: skip


@pytest.fixture
def study(folds_folder: Path, tmp_path: Path) -> Study:
    CALLS.clear()
    return Study(read_folds(folds_folder), Fits(tmp_path / "fits"), 0, 0)


def test_every_partition_is_tested_once_and_never_learned_from_in_its_fold(folds_folder: Path) -> None:
    data = read_folds(folds_folder)

    assert (folds_folder.name, "standard", 5) == (data.name, data.convention, len(data.folds))
    assert 60 == len({one for fold in data.folds for one in fold.test.query_ids})
    for fold in data.folds:
        ids = [set(part.query_ids) for part in (fold.train, fold.validation, fold.test)]
        assert (36, 12, 12, 60) == (*map(len, ids), len(set.union(*ids)))


def test_folds_may_be_folders(folds_folder: Path, tmp_path: Path) -> None:
    expected = read_folds(folds_folder)
    for fold in (1, 2):
        (tmp_path / f"Fold{fold}").mkdir()
        for name, part in (("train", fold), ("vali", fold + 1), ("test", fold + 2)):
            content = (folds_folder / f"S{part}.txt.gz").read_bytes()
            (tmp_path / f"Fold{fold}" / f"{name}.txt.gz").write_bytes(content)

    first, second = read_folds(tmp_path).folds

    assert expected.folds[3].test.query_ids == first.test.query_ids
    assert expected.folds[4].test.query_ids == second.test.query_ids
    assert second.train.query_ids == first.validation.query_ids


def test_folds_that_the_command_line_makes_are_read(folds_folder: Path, tmp_path: Path) -> None:
    parts = [str(folds_folder / f"S{part}.txt.gz") for part in range(1, 6)]
    assert 0 == main(["data", "split", *parts, "--folds", "3", "--out", str(tmp_path / "folds")])

    folds = read_folds(tmp_path / "folds").folds

    assert [(20, 20, 20)] * 3 == [(len(one.train), len(one.validation), len(one.test)) for one in folds]
    assert 60 == len({name for fold in folds for name in fold.test.query_ids})


@pytest.mark.realdata
def test_a_known_data_set_is_recognised_by_what_it_holds(real_data: Path) -> None:
    data = read_folds(real_data / "MQ2008")

    assert ("MQ2008", "letor4") == (data.name, data.convention)


def test_what_was_fitted_is_not_fitted_again(study: Study, tmp_path: Path) -> None:
    said: list[str] = []
    first = run(COUNTING, study, tmp_path, say=said.append)
    again = run(COUNTING, study, tmp_path, say=said.append)

    assert first == again
    assert [f"{number} 2" for number in range(1, 6)] == CALLS
    assert "count: 5 fits: 0 on disk, 5 to do" == said[0]
    assert "count: 5 fits: 5 on disk, 0 to do" == said[2]


def test_an_interrupted_run_goes_on(study: Study, tmp_path: Path) -> None:
    study.fits.run(fits_of(study)[:3])

    run(COUNTING, study, tmp_path)

    assert [f"{number} 2" for number in range(1, 6)] == CALLS


def test_another_setting_or_fold_is_another_fit(study: Study) -> None:
    folds = study.data.folds
    fits = [Fit(test_queries_of, folds[0], {"times": 1}), Fit(test_queries_of, folds[0], {"times": 2})]
    fits += [Fit(test_queries_of, folds[1], {"times": 1}), Fit(test_queries_of, None, {"times": 1})]

    assert 4 == len({fit.address for fit in fits})
    assert fits[0].address == Fit(test_queries_of, folds[0], {"times": 1}).address


def test_a_damaged_result_is_named(study: Study, tmp_path: Path) -> None:
    study.fits.run(fits_of(study)[:1])
    (path,) = (tmp_path / "fits").rglob("*.npz")
    path.write_bytes(path.read_bytes()[:40])

    with pytest.raises(InvalidData, match="expected the result of a fit, found a damaged file; delete it"):
        study.of(fits_of(study)[0])


def test_every_run_on_test_folds_is_logged_before_they_are_scored(study: Study, tmp_path: Path) -> None:
    class Stopped(Exception):
        pass

    def stop(_study: Study) -> Findings:
        raise Stopped

    stopped = Experiment(**{f: getattr(COUNTING, f) for f in COUNTING.__slots__} | {"find": stop})
    with pytest.raises(Stopped):
        run(stopped, study, tmp_path)
    run(COUNTING, study, tmp_path)

    runs = RunLog(tmp_path / LOG).runs()
    assert ["count", "count"] == [one.experiment for one in runs]
    assert [60, 60] == [one.queries for one in runs]
    assert 2 == _Page((tmp_path / "count.html").read_text()).cells.count("count")


def test_the_four_files_hold_the_same_findings(study: Study, tmp_path: Path) -> None:
    run(COUNTING, study, tmp_path)

    with (tmp_path / "count.csv").open(newline="") as file:
        assert [["fold", "queries"], *([f"{n}.0", "24.0"] for n in range(1, 6))] == list(csv.reader(file))
    described = json.loads((tmp_path / "count.json").read_text())
    assert [[float(n), 24.0] for n in range(1, 6)] == described["tables"][0]["rows"]
    assert "ours: counting" == described["marks"]["protocol"]
    assert described["marks"]["data"].startswith("another than the paper's (OHSUMED): two-kinds")
    texts = [element.text for element in ET.parse(tmp_path / "count.svg").iter()]
    assert {"counts", "fold", "queries"} <= set(texts)
    page = _Page((tmp_path / "count.html").read_text())
    assert "There are 24 in each & all <of them>." in page.text
    assert "ours: counting" in page.text


class _Page(HTMLParser):
    """A page's text and the cells of its tables; nothing on it comes from elsewhere."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.text, self.cells, self._tag = "", list[str](), ""
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not {"src", "href"} & {name for name, value in attrs if not (value or "").startswith("#")}
        self._tag = tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._tag == "td":
            self.cells.append(data)


def test_findings_that_could_not_be_read_are_refused() -> None:
    plot = Plot("t", "", Axis("x"), Axis("y"), [Line("l", [1.0], [1.0])])
    with pytest.raises(ValueError, match="expected rows of 2 cells"):
        Findings([Table("t", ("a", "b"), [("x",)])], [plot], ["s"])
    with pytest.raises(ValueError, match="expected a table, a plot and a sentence at least"):
        Findings([], [plot], ["s"])


def test_wrong_folders_are_named(folds_folder: Path, tmp_path: Path) -> None:
    expected = "expected partitions S1.txt to S5.txt or folders Fold1, Fold2, … with train.txt"
    with pytest.raises(InvalidData, match=f"{expected}.*found no folder"):
        read_folds(tmp_path / "nowhere")
    with pytest.raises(InvalidData, match=f"{expected}.*found neither"):
        read_folds(tmp_path)
    (tmp_path / "S1.txt.gz").write_bytes((folds_folder / "S1.txt.gz").read_bytes())
    with pytest.raises(InvalidData, match=f"{expected}.*found no S2, S3, S4, S5"):
        read_folds(tmp_path)
    (tmp_path / "more" / "Fold1").mkdir(parents=True)
    with pytest.raises(InvalidData, match="Fold1: expected train, vali and test, found no train"):
        read_folds(tmp_path / "more")


def test_no_data_is_needed_to_compare_two_of_the_same(study: Study) -> None:
    """Folds of the same queries are the same data wherever they come from."""
    fold = study.data.folds[0]
    again = Fold(fold.number, fold.train, fold.validation, fold.test)

    assert fold.fingerprint == again.fingerprint
    assert Data.of("x", [fold]).name == "x"
