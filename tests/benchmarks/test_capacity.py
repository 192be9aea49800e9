"""The fit finds what it was made of, its intervals hold it, and the calculator multiplies."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from benchmarks import capacity, results

ROOT = results.FOLDER.parents[1]
#: Milliseconds of a request, 1,000 documents, 1,000 documents of 100 features, 1,000 documents by 1,000 trees.
TRUE = np.array([0.3, 1.5, 2.5, 9.0])


def points(noise: float, seed: int, wire: str = "JSON") -> list[results.Row]:
    random = np.random.default_rng(seed)
    rows = []
    for documents, features, trees in capacity.POINTS:
        right = float(TRUE @ [1, documents / 1e3, documents * features / 1e5, documents * trees / 1e6])
        figures = right * (1 + noise * random.standard_normal(5))
        names = {"wire": wire, "documents": documents, "features": features, "trees": trees}
        rows.append({**names, "cpu_ms": figures.tolist()})
    return rows


def test_the_fit_finds_what_the_points_were_made_of() -> None:
    found = capacity.fit(points(0.0, 0))

    np.testing.assert_allclose(found.middle, TRUE, rtol=1e-9)
    assert found.spread < 1e-9


def test_the_fit_has_the_least_relative_squared_error() -> None:
    """As a general minimiser finds it."""
    rows = points(0.1, 1)
    medians = np.array([np.median(row["cpu_ms"]) for row in rows])
    matrix = capacity.terms(
        np.array([[row["documents"], row["features"], row["trees"]] for row in rows], float)
    )

    other = minimize(
        lambda x: float(np.sum((matrix @ x / medians - 1) ** 2)),
        np.ones(4),
        bounds=[(0, None)] * 4,
        tol=1e-14,
    )

    np.testing.assert_allclose(capacity.fit(rows).middle, other.x, rtol=1e-3)


def test_the_intervals_hold_the_truth_about_as_often_as_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "DRAWS", 100)
    held = []
    for seed in range(12):
        found = capacity.fit(points(0.08, seed))
        low, high = np.quantile(found.draws, (0.025, 0.975), axis=0)
        held.append(np.mean((low <= TRUE) & (high >= TRUE)))

    assert 0.8 <= np.mean(held) <= 1.0


def test_a_load_takes_its_rate_times_the_time_of_a_request() -> None:
    found = capacity.fit(points(0.0, 0))

    need = capacity.need(found, 2000, (100, 136, 0), 0.5)

    right = 0.3 + 0.15 + 0.136 * 2.5
    assert right == pytest.approx(need.milliseconds[0])
    assert 2 * right == pytest.approx(need.cores[0])
    assert 4 * right == pytest.approx(need.provided[0])
    assert need.cores[1] <= need.cores[0] <= need.cores[2]


def test_the_page_shows_what_the_calculator_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs/operate/capacity.md").read_text()
    command, _, printed = page.partition("```console\n$ ")[2].partition("```")[0].partition("\n")
    python, flag, module, *options = command.split()
    monkeypatch.setattr("sys.argv", [module, *options])

    code = capacity.main()

    assert ["python", "-m", "benchmarks.capacity"] == [python, flag, module]
    assert (0, printed.split()) == (code, capsys.readouterr().out.split())


def test_the_page_has_the_figures_of_the_file() -> None:
    """docs/operate/capacity.md is filled by hand; it must not lag behind."""
    found = results.read("capacity")
    page = (ROOT / "docs/operate/capacity.md").read_text()

    assert found is not None
    for row in found["coefficients"]:
        assert f"| {row['ms']:.3g} ({row['low']:.3g} to {row['high']:.3g}) |" in page, row
