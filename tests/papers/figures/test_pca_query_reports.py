"""What the report on PCA query representation makes of results, calculated another way from made-up results."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank_papers.figures import pca_query
from localrank_papers.figures.folds import everything
from localrank_papers.figures.paired import Pair, verdict_of
from localrank_papers.figures.pca_clusters import METRICS, pooled_points
from localrank_papers.figures.pca_query import CLUSTERS, COMPONENTS, SCORES, STRENGTHS
from localrank_training.stability import CHANGES
from tests.papers.figures.made_up import mark, numbers_for, plot, rows_of, small_data, study, table

if TYPE_CHECKING:
    from localrank_papers.figures.findings import Findings
    from localrank_papers.figures.fits import Arrays, Fit

DATA = small_data((9, 6))
Settings = tuple[int, int, int, float]


def made(fit: Fit) -> Arrays:
    """Return figures within [0, 1) in the shapes that the works have."""
    assert fit.fold is not None
    rng, asked = numbers_for(fit), fit.settings
    if fit.work.__name__ == "crossed":
        shape = [len(asked[name]) for name in ("scores", "components", "clusters", "strengths")]
        return {"map": rng.random((*shape, 7))}
    n, count = len(fit.fold.test), asked["clusters"]
    return {
        "routed": rng.random((len(METRICS), n)),
        "models": rng.random((count, len(METRICS), n)),
        "flips": rng.random(len(CHANGES)),
    }


STUDY = study(DATA, made, draws=3)


@pytest.fixture(scope="module")
def found() -> Findings:
    return pca_query.quality(STUDY)


def chosen(fold: Any, least: int, draw: int | None = None) -> Settings:
    """Return the best settings, found one by one."""
    like = None if draw is None else pca_query._Choice(*chosen(fold, least))
    found = made(pca_query._crossed(fold, STUDY, draw, like))["map"]
    scores, components = (SCORES, COMPONENTS) if like is None else ((like.scores,), (like.components,))
    tried: dict[Any, float] = {}
    for (c, count), (a, h), (b, width), (d, strength) in product(
        *map(enumerate, (CLUSTERS, scores, components, STRENGTHS))
    ):
        if count >= least:
            tried[h, width, count, strength] = float(found[a, b, c, d].mean())
    best_: Settings = max(tried, key=lambda one: tried[one])
    return best_


def answers(choices: list[Settings], draw: int | None = None) -> list[Arrays]:
    return [
        made(pca_query._answered(fold, STUDY, pca_query._Choice(*choice), draw))
        for fold, choice in zip(DATA.folds, choices, strict=True)
    ]


def routed(choices: list[Settings], draw: int | None = None) -> np.ndarray:
    return np.concatenate([one["routed"] for one in answers(choices, draw)], axis=1)


def best(choices: list[Settings], draw: int | None = None) -> np.ndarray:
    """Return what the best model of each query reaches, metric by metric."""
    return np.concatenate([np.max(one["models"], axis=0) for one in answers(choices, draw)], axis=1)


def ones() -> list[Settings]:
    found = []
    for fold in DATA.folds:
        alone = made(pca_query._crossed(fold, STUDY))["map"][0, 0, CLUSTERS.index(1)].mean(axis=1)
        found.append((SCORES[0], COMPONENTS[0], 1, STRENGTHS[int(alone.argmax())]))
    return found


FREE, SPLIT = ([chosen(fold, least) for fold in DATA.folds] for least in (1, 2))


@pytest.mark.parametrize("least", [1, 2])
@pytest.mark.parametrize("draw", [None, 0, 2])
def test_settings_are_the_best_of_all(least: int, draw: int | None) -> None:
    for fold in DATA.folds:
        assert chosen(fold, least, draw) == tuple(pca_query._chosen(STUDY, fold, least, draw))


@pytest.mark.parametrize(("least", "clusters"), [(1, 1), (2, 2), (3, 3)])
def test_of_equals_the_fewest_clusters_and_the_first_settings_are_taken(least: int, clusters: int) -> None:
    equal = study(DATA, lambda _: {"map": np.full((2, 2, 4, 3, 7), 0.5)})

    assert (SCORES[0], COMPONENTS[0], clusters, STRENGTHS[0]) == pca_query._chosen(
        equal, DATA.folds[0], least
    )


def test_ways_are_means_over_the_queries_of_all_folds(found: Findings) -> None:
    of_all = np.concatenate([one["models"].mean(axis=0) for one in answers(SPLIT)], axis=1)
    ways = {
        "one model": routed(ones()),
        "clusters, one a candidate": routed(FREE),
        "clusters, two at least": routed(SPLIT),
        "random routing over these clusters": of_all,
        "oracle among these clusters": best(SPLIT),
    }
    rows = rows_of(found.tables[0])
    assert list(ways) == list(rows)
    for name, figures in ways.items():
        assert pytest.approx([row.mean() for row in figures]) == rows[name]
    beside = rows_of(table(found, "Beside one model"))
    assert 9 == len(beside)
    for name, metric in product(list(ways)[1:4], ("map", "ndcg@10", "p@10")):
        at = METRICS.index(metric)
        expected = [ways[name][at].mean(), ways["one model"][at].mean()]
        assert pytest.approx(expected) == beside[f"{name}, {metric}"][:2]
    said = [one for one in found.sentences if one.startswith("Beside one model")]
    assert [verdict_of(Pair(f"{name}, map", ways[name][20], ways["one model"][20])) in one
            for name, one in zip(list(ways)[1:4], said, strict=True)] == [True] * 3  # fmt: skip
    ones_chosen = sum(choice[2] == 1 for choice in FREE)
    assert any(f"One cluster was chosen in {ones_chosen} of 2 folds" in one for one in found.sentences)
    drawn = plot(found, "NDCG of one model")
    for name in ("one model", "clusters, one a candidate", "clusters, two at least"):
        line = mark(drawn, name)
        ndcg = [ways[name][METRICS.index(f"ndcg@{n}")].mean() for n in range(1, 11)]
        assert pytest.approx(ndcg) == line.y
        assert (name == "one model") == line.dashed
        assert list(range(1, 11)) == list(line.x) == list(drawn.x.ticks or ())


def test_one_cluster_is_counted_where_it_is_chosen() -> None:
    """One model has the best cross-validated MAP in the second fold only."""

    def one_is_better(fit: Fit) -> Arrays:
        found = made(fit)
        if "map" in found and fit.fold is not None:
            found["map"][:, :, CLUSTERS.index(1 if fit.fold.number == 2 else 3)] += 1
        return found

    found = pca_query.quality(study(DATA, one_is_better))

    assert any("One cluster was chosen in 1 of 2 folds" in one for one in found.sentences)
    rows = [row for row in table(found, "Chosen by").rows if row[0] == "one cluster a candidate"]
    assert [3, 1] == [row[4] for row in rows]
    # One model has no values and no directions.
    assert [(None, None)] == [tuple(row[2:4]) for row in rows if row[4] == 1]
    assert 5 == len(found.tables)


def test_what_is_chosen_cross_validated_and_flipped_is_shown(found: Findings) -> None:
    rows = [tuple(row) for row in table(found, "Chosen by").rows]
    expected = []
    for name, choices in (("one model", ones()), ("one cluster a candidate", FREE), ("two at least", SPLIT)):
        for number, (h, width, count, strength) in enumerate(choices, 1):
            shown = (None, None) if count == 1 else (h, width)
            expected.append((name, number, *shown, count, strength))
    assert expected == rows
    left_out = rows_of(table(found, "MAP of known queries"), keys=2)
    crossed = [made(pca_query._crossed(fold, STUDY))["map"].mean(axis=-1) for fold in DATA.folds]
    for (a, h), (b, width) in product(enumerate(SCORES), enumerate(COMPONENTS)):
        wanted = [np.mean([max(one[a, b, c]) for one in crossed]) for c in range(len(CLUSTERS))]
        assert pytest.approx(wanted) == left_out[h, width]
    assert ["one model", "2 clusters", "3 clusters", "5 clusters"] == list(
        table(found, "MAP of known").header[2:]
    )
    (flips,) = table(found, "Share of test queries").rows
    first, second = (one["flips"] for one in answers(SPLIT))
    assert pytest.approx(((9 * first + 6 * second) / 15).tolist()) == list(flips)


def test_random_clusters_choose_and_route_as_the_real_ones(found: Findings) -> None:
    dealt, by_chance = [], []
    for draw in range(3):
        choices = [chosen(fold, 2, draw) for fold in DATA.folds]
        dealt.append(routed(choices, draw))
        by_chance.append(best(choices, draw))
    beside = rows_of(found.tables[2])
    assert 8 == len(beside)
    for metric in ("p@1", "p@5", "p@10", "ndcg@1", "ndcg@5", "ndcg@10", "map"):
        at = METRICS.index(metric)
        expected = [routed(SPLIT)[at].mean(), np.mean(dealt, axis=0)[at].mean()]
        assert pytest.approx(expected) == beside[f"clusters beside random clusters, {metric}"][:2]
    oracle = beside["oracle beside oracle of random clusters, map"]
    assert pytest.approx([best(SPLIT)[20].mean(), np.mean(by_chance, axis=0)[20].mean()]) == oracle[:2]
    drawn = plot(found, "MAP beside random clusters")
    dots = mark(drawn, "")
    expected_low, expected_high, means = [], [], []
    for real, draws in ((routed(SPLIT), dealt), (best(SPLIT), by_chance)):
        value = float(real[20].mean())
        maps = [float(one[20].mean()) for one in draws]
        low, high = np.quantile(maps, [0.05, 0.95])
        means += [value, float(np.mean(maps))]
        expected_low += [value, low]
        expected_high += [value, high]
    assert pytest.approx(means) == dots.y
    assert pytest.approx(expected_low) == dots.low
    assert pytest.approx(expected_high) == dots.high
    assert [0, 1, 2, 3] == list(dots.x)
    assert pytest.approx(routed(ones())[20].mean()) == mark(drawn, "one model").at
    assert drawn.sideways
    last = found.sentences[-1]
    assert last.startswith("Clusters beside random clusters, map:")
    assert ". Oracle beside oracle of random clusters, map:" in last


def test_table_1_counts_queries_grades_and_how_many_have_at_least_so_many_documents() -> None:
    """Lists of 4 to 12 and of 4 to 9 documents."""
    found = pca_query.table_1(STUDY)

    lengths = [*range(4, 13), *range(4, 10)]
    assert ("measured here", "made up", 15, 3, 3, sum(lengths), 7.0) == tuple(found.tables[0].rows[-1])
    line = mark(found.plots[0], "")
    assert [1, 2, 5, 10, 12] == line.x
    assert pytest.approx([sum(one >= h for one in lengths) / 15 for h in (1, 2, 5, 10, 12)]) == line.y
    assert (True, True, 1.0) == (found.plots[0].x.log, found.plots[0].y.zero, found.plots[0].y.high)
    assert "15 queries, 3 grades and 3 features; half of the queries have 7 documents" in found.sentences[0]


def test_figure_3_measures_both_readings() -> None:
    found = pca_query.figure_3(STUDY)

    queries = [documents for fold in DATA.folds for documents in fold.test.clouds()]
    axes = []
    for documents in queries:
        rows = np.sort(documents.astype(float), axis=0)[::-1][: SCORES[-1]]
        axes.append(np.linalg.svd(rows - rows.mean(axis=0))[2][0])
    alike = [abs(float(a @ b)) for number, a in enumerate(axes) for b in axes[:number]]
    (row,) = table(found, "First axes").rows
    assert pytest.approx([15 * 14 / 2, np.mean(alike), min(alike), max(alike)], abs=1e-4) == list(row)
    literal, pooled = found.tables[0].rows
    points = pooled_points(everything(DATA.folds), SCORES[-1], 2)
    dots = mark(found.plots[0], "a query")
    np.testing.assert_allclose(np.column_stack([dots.x, dots.y]), points)
    assert pytest.approx([np.abs(points).max(), points.std(axis=0).max()]) == list(pooled[1:3])
    assert max(literal[1], literal[2]) < 1e-9  # type: ignore[call-overload]
    assert f"h = {SCORES[-1]}" in found.tables[0].title
    assert f"go up to {np.abs(points).max():.2f}" in found.sentences[0]
    assert f"cosine of {np.mean(alike):.2f} on average, {min(alike):.2f} at least" in found.sentences[1]
    crossing = [one for one in found.plots[0].marks if one.name == ""]
    assert [(0.0, "y"), (0.0, "x")] == [(one.at, one.of) for one in crossing]  # type: ignore[union-attr]
    assert not found.plots[0].numbers
