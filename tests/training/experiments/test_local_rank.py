"""LocalRank's experiments on small synthetic data whose answer is known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from localrank.__main__ import main
from localrank_training.experiments import local_rank
from localrank_training.experiments.local_rank import compared_triple, three_queries

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_figure_1_finds_what_its_triples_were_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local_rank, "TRIPLES", 12)

    assert 0 == main(["experiment", "localrank-fig1", "--out", str(tmp_path), "--workers", "1", "--json"])

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
