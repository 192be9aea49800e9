"""LocalRank's experiments on small synthetic data whose answer is known."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.__main__ import main
from localrank_papers.figures import local_rank, synthetic
from localrank_papers.figures.geometry import Geometry
from localrank_papers.figures.sweeps import chance_of_ranks
from localrank_papers.figures.synthetic import compared_triple, three_queries
from localrank_papers.figures.transfer import Models

if TYPE_CHECKING:
    from pathlib import Path


def test_figure_1_finds_what_its_triples_were_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(synthetic, "TRIPLES", 12)

    assert 0 == main(["papers", "run", "localrank-fig1", "--out", str(tmp_path), "--workers", "1", "--json"])

    found = json.loads(capsys.readouterr().out)["localrank-fig1"]
    rows = {(row[0], row[1]): row[2:] for row in found["tables"][0]["rows"]}
    for spread in ("relevance", "something else"):
        far, other = rows[spread, "q2"], rows[spread, "q3"]
        assert far[0] > other[0] + 0.1
        # Symmetric KL, Bhattacharyya and the means say that q3 is nearer, whatever it is that spreads.
        assert all(np.array(far[2:]) > np.array(other[2:]))
    assert rows["relevance", "q2"][1] < 0.1 < rows["relevance", "q3"][1]
    assert rows["something else", "q2"][1] > 0.5 > rows["something else", "q3"][1]
    assert 1.0 == found["tables"][1]["rows"][0][1]
    assert sorted(path.name for path in tmp_path.glob("localrank-fig1.*")) == [
        f"localrank-fig1.{ending}" for ending in ("csv", "html", "json", "svg")
    ]


def test_distances_are_those_of_the_papers_formulas() -> None:
    """Equations 1, 2, 4 and 5 written out on the documents."""
    queries = three_queries("relevance", 3)
    clouds = [documents.astype(np.float64) for documents in queries.clouds()]
    means = [cloud.mean(axis=0) for cloud in clouds]
    spreads = [np.cov(cloud.T, bias=True) for cloud in clouds]

    _, distances = compared_triple(queries)

    def divergence(a: int, b: int) -> float:
        inverse, apart = np.linalg.inv(spreads[b]), means[b] - means[a]
        logarithm = np.log(np.linalg.det(spreads[b]) / np.linalg.det(spreads[a]))
        return float(logarithm + np.trace(inverse @ spreads[a]) + apart @ inverse @ apart - len(apart)) / 2

    for column, other in enumerate((1, 2)):
        inverses = [np.linalg.inv(spreads[one]) for one in (0, other)]
        middle = np.linalg.inv(sum(inverses) / 2)
        point = (inverses[0] @ means[0] + inverses[1] @ means[other]) / 2
        kernel = (
            (np.linalg.det(spreads[0]) * np.linalg.det(spreads[other])) ** -0.25
            * np.linalg.det(middle) ** 0.5
            * np.exp(
                -means[0] @ inverses[0] @ means[0] / 4
                - means[other] @ inverses[1] @ means[other] / 4
                + point @ middle @ point / 2
            )
        )  # fmt: skip
        axes = [np.linalg.eigh(spreads[one])[1][:, -1] for one in (0, other)]
        expected = [
            1 - abs(axes[0] @ axes[1]),
            (divergence(0, other) + divergence(other, 0)) / 2,
            1 - kernel,
            np.linalg.norm(means[0] - means[other]),
        ]
        np.testing.assert_allclose(distances[:, column], expected, rtol=1e-3, atol=1e-4)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer settings and candidates."""
    monkeypatch.setattr(local_rank, "MODELS", Models(Geometry(), "svmmap", ({"C": 100.0},)))
    monkeypatch.setattr(local_rank, "CANDIDATES", (1, 2, 3))


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder, so that figures share their fits."""
    return tmp_path_factory.mktemp("out")


def found(name: str, data: Path, out: Path, draws: int = 0) -> Any:
    options = ["--data", str(data), "--out", str(out), "--draws", str(draws), "--workers", "1"]
    assert 0 == main(["papers", "run", name, *options])
    return json.loads((out / f"{name}.json").read_text())


@pytest.mark.usefixtures("small")
def test_queries_of_two_kinds_want_two_clusters(folds_folder: Path, out: Path) -> None:
    """One model for both kinds cannot be right, one for each can; random clusters hold both kinds."""
    answer = found("localrank-fig6", folds_folder, out, draws=3)

    curve = {row[0]: row[1:] for row in answer["tables"][0]["rows"]}
    assert list(range(1, 37)) == list(curve)
    one, two = curve[1], curve[2]
    assert two[0] > one[0] + 0.2
    assert two[1] > one[0]
    assert pytest.approx(two[0], abs=0.02) == two[4]
    assert two[5] < two[0] - 0.2
    means = {row[0]: row[1] for row in answer["tables"][1]["rows"]}
    assert means["clusters, one cluster a candidate"] > means["one model"] + 0.2
    assert any("Clusters: better than one model" in sentence for sentence in answer["sentences"])
    assert any("Clusters: better than random clusters of the same sizes" in s for s in answer["sentences"])
    assert any("One cluster was chosen in 0 of 5 folds" in sentence for sentence in answer["sentences"])
    assert {fold["title"] for fold in answer["tables"]} >= {"Controls, 3 draws", "Paired differences"}


@pytest.mark.usefixtures("small")
def test_figures_share_their_fits(folds_folder: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found("localrank-fig7", folds_folder, out)
    capsys.readouterr()

    found("localrank-fig8", folds_folder, out)

    assert "10 fits: 10 on disk, 0 to do" in capsys.readouterr().err


@pytest.mark.usefixtures("small")
def test_the_most_similar_query_is_of_the_same_kind(folds_folder: Path, out: Path) -> None:
    means = {row[0]: row[1] for row in found("localrank-fig4", folds_folder, out)["tables"][0]["rows"]}

    assert means["one model"] + 0.1 < means["most similar query"] <= means["clairvoyant query"]


@pytest.mark.usefixtures("small")
def test_likeness_ranks_the_clairvoyant_query_above_chance(folds_folder: Path, out: Path) -> None:
    rows = found("localrank-fig5", folds_folder, out)["tables"][0]["rows"]

    for rank, share, chance in rows:
        if rank < 18:
            assert share > chance
    assert rows[-1][1] <= 1.0


def test_chance_of_ranks_is_that_of_all_orders() -> None:
    """By listing every place that the best ones can have."""
    total, best = 6, 2
    places = list(itertools.combinations(range(1, total + 1), best))

    expected = [np.mean([min(one) <= rank for one in places]) for rank in range(1, total + 1)]

    np.testing.assert_allclose(chance_of_ranks(total, best, total), expected)
