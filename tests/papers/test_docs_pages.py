"""The pages of docs/research/ are what `localrank papers run` wrote, and a row comes out of its command again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from localrank_papers import pages as papers_pages
from localrank_papers.figures import pca_query
from localrank_papers.figures.fits import Fits
from localrank_papers.figures.folds import read_folds
from localrank_papers.figures.running import EXPERIMENTS
from localrank_papers.figures.study import Study

DOCS = Path(__file__).parents[2] / "docs"


def written(folder: Path, name: str, rows: list[list[object]], data: str = "the paper's: OHSUMED") -> None:
    one = {
        "name": name,
        "paper": EXPERIMENTS[name].paper,
        "figure": EXPERIMENTS[name].figure,
        "title": EXPERIMENTS[name].title,
        "marks": {"data": data, "protocol": "ours: as told", "not_run": ""},
        "sentences": ["It rains."],
        "tables": [
            {"title": "What falls", "header": ["|cosine|", "b"], "rows": rows, "caption": "All of it."}
        ],
    }
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(one))


def test_a_page_holds_marks_sentences_and_tables_of_every_set(tmp_path: Path) -> None:
    written(tmp_path / "a", "mhr-table6", [["x", 0.25], [None, -1e-9]])
    written(tmp_path / "b", "mhr-table6", [["y", 1]], data="another: MQ2008")
    written(tmp_path / "a", "mhr-fig1", [["z", 2]])
    (tmp_path / "a" / "other.json").write_text("{}")

    found = papers_pages.pages([tmp_path / "a", tmp_path / "b"])

    assert ["mhr"] == list(found)
    page = found["mhr"]
    assert page.index("## Figure 1") < page.index("## Table 6")
    assert 1 == page.count("## Table 6")
    assert "| \\|cosine\\| | b |\n| --- | --- |\n| x | 0.2500 |\n| – | -1e-09 |" in page
    assert (
        page.index("## Table 6")
        < page.index("Data: another: MQ2008")
        < page.rindex("Data: the paper's: OHSUMED")
    )
    assert "It rains." in page
    assert "Not run: nothing." in page


def test_what_an_earlier_figure_has_is_not_repeated(tmp_path: Path) -> None:
    written(tmp_path, "mhr-fig1", [["x", 2]])
    written(tmp_path, "mhr-table6", [["x", 2]])
    written(tmp_path, "mhr-table7", [["y", 3]])

    page = papers_pages.pages([tmp_path])["mhr"]

    assert (1, 1) == (page.count("| x | 2 |"), page.count("| y | 3 |"))
    _, _, sixth = page.partition("## Table 6")[2].partition("Protocol")
    assert ": as under Figure 1.\n\n*What falls*: as under Figure 1.\n\n## Table 7" in sixth


def test_long_tables_stay_in_their_files(tmp_path: Path) -> None:
    written(tmp_path, "mhr-table6", [[n, n] for n in range(papers_pages.MOST_ROWS + 1)])

    assert "*What falls*: 41 rows, in `NAME.json`." in papers_pages.pages([tmp_path])["mhr"]


def test_every_paper_of_the_catalogue_is_in_the_summary() -> None:
    summary = (DOCS / "research" / "papers.md").read_text()

    for name in EXPERIMENTS:
        assert f"{name.rpartition('-')[0]}-" in summary


@pytest.mark.realdata
def test_what_the_literal_steps_come_to_on_ohsumed_comes_out_again(real_data: Path) -> None:
    page = (DOCS / "research" / "pca-query.md").read_text()
    _, _, page = page.partition("## Figure 3")[2].partition("Data: the paper's: OHSUMED")
    data = read_folds(real_data / "OHSUMED")

    found = pca_query.figure_3(Study(data, Fits(Path("unused")), 0, 0))

    (_, pooled) = found.tables[0].rows
    shown = next(line for line in page.splitlines() if line.startswith("| rows of all queries"))
    cells = [float(cell) for cell in shown.split("|")[2:4]]
    assert cells == pytest.approx(pooled[1:3], abs=1e-3)
