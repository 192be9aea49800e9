"""The pages of `docs/research` and the experiments agree on what is tried, so that a run makes the tables that the pages show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from localrank_papers.figures import (
    adaptive,
    compact,
    lgmml,
    local_rank,
    mhr,
    pca_query,
    sweeps,
    synthetic,
    times,
)

PAGES = Path(__file__).parents[3] / "docs" / "research"


def section(page: str, title: str) -> str:
    """Return the part of a page below one title."""
    text = (PAGES / f"{page}.md").read_text()
    (found,) = [one for one in text.split("\n## ")[1:] if title in one.splitlines()[0]]
    return found


def column(page: str, title: str, header: str, place: int = 0) -> list[str]:
    """Return the different cells of a column, of the first table whose header begins so."""
    lines = section(page, title).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(header))
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append(line.strip("| ").split(" | ")[place].strip("| "))
    return list(dict.fromkeys(found))


def texts(values: Any) -> list[str]:
    return [str(value) for value in values]


def test_numbers_of_metrics_classes_and_dimensions_are_those_of_the_page() -> None:
    songs = column("lgmml", "Figure 2", "| classes |", 1)
    assert texts(lgmml.SONG_SIZES) == songs
    assert [f"Synthetic-{classes}" for classes, _ in lgmml.CLASSES] == column(
        "lgmml", "Figure 2", "| classes |"
    )
    dimensions = column("lgmml", "Figure 4", "| dimensions |")
    assert texts(lgmml.DIMENSIONS) == dimensions
    timed = column("lgmml", "Figure 4", "| dimensions |", 1)
    assert dimensions.index(str(lgmml.R_MLR_UP_TO)) == len([one for one in timed if one != "–"]) - 1
    names = column("lgmml", "Table 5", "| ranker | microseconds")
    assert [f"L-GMML, {size} metrics" for size in lgmml.SIZES] == names[3:]
    noise = re.search(r"\| ranker \| (\d+ columns.*) \|\n", section("lgmml", "Columns of noise"))
    assert noise is not None
    assert [f"{columns} columns" for columns in lgmml.NOISE] == noise[1].split(" | ")
    assert f"with {lgmml.SHOWN} metrics" in section("lgmml", "Table 4")
    assert f"of {lgmml.SPLITS} splits" in section("lgmml", "Figure 5")
    assert "least of three" in section("lgmml", "Table 5")
    assert 3 == lgmml._REPEATS


def test_the_songs_that_stand_for_cal10k_are_those_of_the_page() -> None:
    lines = [line.strip("| ").split(" | ") for line in section("lgmml", "Table 1").splitlines() if re.match(r"\| (Audio|Lyrics)", line)]  # fmt: skip

    assert {
        line[0]: (int(line[5]), int(line[4]) // int(line[5]), int(line[3])) for line in lines
    } == lgmml.REPRESENTATIONS


def test_candidates_and_strengths_of_local_rank_are_those_of_the_page() -> None:
    listed = ", ".join(map(str, local_rank.CANDIDATES))
    for title in ("Figure 9", "Figure 10", "ablation of equation 5"):
        assert f"Number of clusters ({listed}) and setting" in section("localrank", title)
    # The settings that the page names as chosen are among those that are tried.
    chosen = set(re.findall(r"\| C ([\d.e-]+) \|", (PAGES / "localrank.md").read_text()))
    assert chosen <= {f"{one['C']:g}" for one in local_rank.STRENGTHS}
    # The protocol says B is 10, 1 or 0.1; the paper's B go down to 0.001 by tenths.
    assert [10.0, 1.0, 0.1] == [one["C"] for one in local_rank.FEW]
    assert pytest.approx([1e1, 1e0, 1e-1, 1e-2, 1e-3]) == [one["C"] for one in local_rank.STRENGTHS]


@pytest.mark.parametrize(
    ("title", "ways"),
    [
        ("Figure 9", local_rank._moments),
        ("Figure 10", local_rank._distributions),
        ("ablation of Figure 2", local_rank._links),
        ("ablation of section 4.1.2", local_rank._shares),
        ("ablation of equation 5", local_rank._components),
        ("clouds with labels", local_rank._labelled),
    ],
)
def test_ways_to_cluster_are_those_of_the_page(title: str, ways: Any) -> None:
    made = ways()

    assert ["one model", *(one.name for one in made)] == column("localrank", title, "|  | map")
    assert len(made) == len({(one.models.geometry, one.by) for one in made})
    for one in made:
        # All have the settings of the comparison, and the models of all candidates.
        assert all(setting in one.models.settings for setting in local_rank.FEW)
        assert set(local_rank.CANDIDATES) <= set(one.models.cuts or local_rank.CANDIDATES)


def test_a_way_differs_from_the_papers_in_what_its_name_says() -> None:
    shares = {one.name: one.models.geometry for one in local_rank._shares()}
    assert pytest.approx([0.5, 0.65, 0.8, 0.9, 0.95]) == [one.share for one in shares.values()]
    # Without the bound of eight directions, but for the paper's own share.
    assert [64, 64, 8, 64, 64] == [one.most for one in shares.values()]
    components = [one.models.geometry for one in local_rank._components()]
    assert [(0.8, False), (0.95, False), (0.8, True), (0.95, True)] == [
        (one.share, one.own_components) for one in components
    ]
    assert [8, 64] == [one.most for one in components[:2]]
    shrunk = [one.models.geometry.shrink for one in local_rank._distributions()[1:]]
    assert pytest.approx([0.1, 0.5, 0.9] * 2) == shrunk
    links = [(one.models.geometry.link, one.by) for one in local_rank._links()]
    assert [
        (a, b) for a in ("complete", "average", "single") for b in ("nearest", "average", "farthest")
    ] == links
    assert all(one.models is local_rank.MODELS for one in local_rank._links()[:3])


def test_what_is_timed_is_that_of_the_page() -> None:
    learned = section("localrank", "Figure 13")
    assert f"LocalRank has {times.CLUSTERS} clusters, KNN the {times.NEIGHBOURS} nearest queries" in learned
    assert f"SVMmap with B {times.STRENGTH:g}, without" in learned
    asked = section("localrank", "Figure 12")
    assert f"over {times.QUERIES} test queries of fold 1 of the least of {times.ROUNDS} rounds" in asked
    assert f"median of {times.TRANSDUCED} queries" in asked
    sizes = [int(one) for one in column("localrank", "Figure 12", "| training queries |")]
    assert sizes == [round(share * 63) for share in times.SHARES]
    assert texts(times.SIZES) == column("localrank", "Figure 14", "| training queries |")


def test_synthetic_queries_are_those_of_the_page() -> None:
    text = section("localrank", "Clusters beside the true kinds")
    train, _, test = synthetic.QUERIES
    assert (
        f"{synthetic.SETS} sets of {train} training and {test} test queries, {synthetic.KIND_DOCUMENTS} documents each, {synthetic.KINDS} kinds"
        in text
    )
    assert [f"{one:.4f}" for one in synthetic.SHAPES] == column(
        "localrank", "true kinds", "| separation |", 1
    )
    assert [f"{one:.4f}" for one in synthetic.SEPARATIONS] == column(
        "localrank", "true kinds", "| separation |"
    )
    assert f"Shares of {synthetic.TRIPLES} triples" in section("localrank", "Figure 1: ")


def test_prototypes_and_ranks_are_those_of_the_page() -> None:
    shown = column("localrank", "compact clusters", "| compared with |")
    assert ["all training queries", *map(compact._named, compact.COUNTS), "mean directions"] == shown
    assert ["1 prototype", "2 prototypes"] == shown[1:3]
    # Every number of clusters up to the number of training queries of OHSUMED, which is below one hundred.
    assert 63 < sweeps._ALL_UP_TO == 100


def test_settings_of_pca_query_are_those_of_the_page() -> None:
    title = "Section 4, which prints no result"
    found = re.search(r"\| h \| directions \| (one model.*) \|\n", section("pca-query", title))
    assert found is not None
    assert ["one model", *(f"{count} clusters" for count in pca_query.CLUSTERS[1:])] == found[1].split(" | ")
    assert 1 == pca_query.CLUSTERS[0]
    assert texts(pca_query.SCORES) == column("pca-query", title, "| h | directions | one")
    assert texts(pca_query.COMPONENTS) == column("pca-query", title, "| h | directions | one", 1)
    assert f"in {pca_query.PARTS} parts" in section("pca-query", title)


def test_numbers_of_clusters_of_adaptive_training_are_those_of_the_page() -> None:
    text = section("adaptive", "Table 2")
    assert (
        f"validation queries choose from {', '.join(map(str, adaptive.CANDIDATES))}; 1 is the global model"
        in text
    )
    assert "flip rate of the route, 5 clusters" in text
    assert 5 == adaptive.COUNT


def test_trials_and_strengths_of_multiple_hyperplanes_are_those_of_the_page() -> None:
    text = (PAGES / "mhr.md").read_text()
    assert f"trial {mhr.TRIALS} |" in text
    assert f"trial {mhr.TRIALS + 1}" not in text
    assert pytest.approx([0.1, 1, 10, 100, 1000]) == mhr.STRENGTHS
    assert "200 queries of 20 documents in five grades" in text
    assert 5 == mhr._GRADES
