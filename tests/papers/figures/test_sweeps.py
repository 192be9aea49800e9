"""What sweeps over the number of clusters come to, calculated query by query from made-up figures of every node."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage

from localrank_papers.figures import sweeps
from localrank_papers.figures.geometry import Dendrogram, Geometry
from localrank_papers.figures.transfer import METRICS, Models
from localrank_training.stability import CHANGES
from tests.papers.figures.made_up import mark, numbers_for, rows_of, small_data, study, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank_papers.figures.fits import Arrays, Fit
    from localrank_papers.figures.folds import Fold
    from localrank_papers.figures.study import Findings

DATA = small_data((9, 8))
LEAVES = {1: 6, 2: 5}
MODELS = Models(Geometry(), "svmmap", ({"C": 10.0}, {"C": 1.0}))
CANDIDATES = (1, 2, 4)


def near(fold: Fold) -> Arrays:
    """Return a tree of some training queries, and how alike all others are to these; one query cannot be compared."""
    rng, n = np.random.default_rng(fold.number), LEAVES[fold.number]
    found = {
        "queries": np.arange(n),
        "merges": linkage(rng.random((n, 2)), "complete"),
        "train": rng.random((n, n)),
    }
    for name, part in (("validation", fold.validation), ("test", fold.test)):
        found[name] = rng.random((len(part), n))
        found[f"{name} known"] = np.arange(len(part)) != 3
    return found


def tree_of(fold: Fold, draw: int | None = None) -> Dendrogram:
    arrays = near(fold)
    tree = Dendrogram(arrays["merges"], arrays["queries"])
    return tree if draw is None else tree.shuffled(3, draw)


def made(fit: Fit) -> Arrays:
    assert fit.fold is not None
    if fit.work.__name__ == "nearness":
        return near(fit.fold)
    if fit.work.__name__ == "flips":
        return {name: np.array(0.25) for name in CHANGES}
    rng, settings = numbers_for(fit), fit.settings
    tree = tree_of(fit.fold, settings["draw"])
    within = [one for one in settings["cuts"] if one <= len(tree)]
    nodes = np.union1d(tree.nodes_of(within), [tree.root]) if within else np.arange(tree.root + 1)
    shape = (len(settings["settings"]), len(nodes))
    return {
        "nodes": nodes,
        "global_": np.zeros(len(nodes), bool),
        **{name: rng.random((*shape, len(part), 4)) for name, part in (("validation", fit.fold.validation), ("test", fit.fold.test))},
    }  # fmt: skip


@cache
def ranked(fold: Fold, draw: int | None) -> Arrays:
    models = MODELS if draw is None else replace(MODELS, cuts=CANDIDATES, draw=draw, seed=3)
    return made(models.fit(fold, "standard"))


def by_node(fold: Fold, draw: int | None, part: str, setting: int, node: int) -> np.ndarray:
    """Return the figures of all queries by the model of one node."""
    arrays = ranked(fold, draw)
    return np.asarray(arrays[part][setting, arrays["nodes"].tolist().index(node)])


def routed(fold: Fold, draw: int | None, part: str, clusters: int, setting: int) -> list[np.ndarray]:
    """Return the figures of each query by the model of the cluster in which its most similar training query is."""
    arrays, tree = near(fold), tree_of(fold, draw)
    nodes = np.unique(tree.cut(clusters)).tolist()
    found = []
    for query, row in enumerate(arrays[part]):
        node = next(one for one in nodes if int(row.argmax()) in tree.members(one))
        found.append(by_node(fold, draw, part, setting, node if query != 3 else tree.root)[query])
    return found


def chosen(fold: Fold, draw: int | None, sizes: Sequence[int]) -> tuple[int, int]:
    tried = {
        (size, setting): float(np.mean([one[0] for one in routed(fold, draw, "validation", size, setting)]))
        for size in sizes
        for setting in (0, 1)
    }
    return max(tried, key=lambda one: tried[one])


def local(sizes: Sequence[int], draw: int | None = None) -> np.ndarray:
    """Return the figures of all test queries by what validation queries choose, ``[n_queries, n_metrics]``."""
    return np.array(
        [one for fold in DATA.folds for one in routed(fold, draw, "test", *chosen(fold, draw, sizes))]
    )


def clairvoyant(size: int) -> np.ndarray:
    found = []
    for fold in DATA.folds:
        _, setting = chosen(fold, None, [size])
        nodes = np.unique(tree_of(fold).cut(size)).tolist()
        found.append(np.max([by_node(fold, None, "test", setting, node) for node in nodes], axis=0))
    return np.concatenate(found)


@pytest.fixture(scope="module")
def found() -> Findings:
    return sweeps.by_clusters(study(DATA, made, draws=3), MODELS, "ndcg@5", CANDIDATES, "The paper says so.")


def test_a_metric_against_the_number_of_clusters_up_to_one_per_query(found: Findings) -> None:
    from localrank_training.comparisons import interval_of

    at = METRICS.index("ndcg@5")
    rows = rows_of(found.tables[0])
    assert [1, 2, 3, 4, 5] == list(rows)
    one = local([1])[:, at]
    above = below = 0
    means, ends = [], []
    for size, row in rows.items():
        values = local([size])[:, at]
        interval = interval_of(values - one)
        if interval is None:
            low = high = values.mean()
        else:
            low, high = one.mean() + interval.low, one.mean() + interval.high
            above += interval.low > 0
            below += interval.high < 0
        assert pytest.approx([values.mean(), low, high]) == row[:3]
        assert pytest.approx(clairvoyant(size)[:, at].mean()) == row[4]
        draws = [float(local([size], draw)[:, at].mean()) for draw in range(3)] if size in CANDIDATES else []
        if draws:
            assert pytest.approx([np.mean(draws), *np.quantile(draws, [0.05, 0.95])]) == row[5:]
        else:
            assert [None] * 3 == row[5:]
        means.append(values.mean())
        ends.append((low, high))
    drawn = found.plots[0]
    line = mark(drawn, "clusters")
    assert pytest.approx(means) == line.y
    np.testing.assert_allclose(np.column_stack([line.low, line.high]), ends)
    assert pytest.approx([row[4] for row in rows.values()]) == mark(drawn, "clairvoyant choice among them").y
    assert pytest.approx(means[0]) == mark(drawn, "one model").at
    random = mark(drawn, "random clusters of the same sizes")
    assert [1, 2, 4] == random.x
    assert pytest.approx([rows[size][5] for size in CANDIDATES]) == random.y
    np.testing.assert_allclose(
        np.column_stack([random.low, random.high]), [rows[size][6:] for size in CANDIDATES]
    )
    peak = int(np.argmax(means))
    assert f"reaches {means[0]:.4f}, one per query {means[-1]:.4f}; the highest point is {means[peak]:.4f} at {peak + 1}." in drawn.caption  # fmt: skip
    assert f"Of 5 numbers of clusters, {above} are above one model by an interval that leaves out zero, {below} below" in found.sentences[1]  # fmt: skip
    assert [False, False, True, True] == [one.dots for one in (line, mark(drawn, "clairvoyant choice among them"), random, random)]  # fmt: skip
    assert mark(drawn, "clairvoyant choice among them").dashed
    assert (False, False) == (drawn.x.log, drawn.numbers)


@pytest.mark.parametrize(("shift", "above", "below"), [(0.5, 4, 0), (-0.5, 0, 4)])
def test_numbers_of_clusters_above_and_below_one_model_are_counted(
    shift: float, above: int, below: int
) -> None:
    """Every model but that of all queries is better, or worse, by about a half."""

    def shifted(fit: Fit) -> Arrays:
        arrays = made(fit)
        if "nodes" in arrays:
            rest = arrays["nodes"] != arrays["nodes"].max()
            arrays["test"] = 1 + arrays["test"] / 10
            arrays["test"][:, rest] += shift
        return arrays

    said = sweeps.by_clusters(study(DATA, shifted), MODELS, "map", CANDIDATES, "").sentences

    assert f"Of 5 numbers of clusters, {above} are above one model by an interval that leaves out zero, {below} below it" in said[1]  # fmt: skip
    assert said[0].startswith(
        "The best number of clusters in hindsight" if above else "No number of clusters is better"
    )


def test_up_to_a_hundred_every_number_is_looked_at_and_then_forty_at_equal_factors() -> None:
    class Tree:
        def __init__(self, leaves: int) -> None:
            self.tree = range(leaves)

    few, hundred, many = (sweeps.sizes_of([Tree(n), Tree(2 * n)]) for n in (7, 100, 1600))  # type: ignore[list-item]

    assert list(range(1, 8)) == few
    assert list(range(1, 101)) == hundred
    assert list(range(1, 101)) == many[:100]
    # One hundred is the first of the forty.
    assert 100 + 39 == len(many)
    assert 1600 == many[-1]
    factors = np.array(many[100:]) / many[99:-1]
    assert factors == pytest.approx([16 ** (1 / 39)] * 39, rel=0.01)


def test_one_model_per_query_by_likeness_and_by_a_clairvoyant() -> None:
    found = sweeps.clairvoyant_queries(study(DATA, made), MODELS)

    likest = np.array([one for fold in DATA.folds for one in routed(fold, None, "test", *chosen(fold, None, [LEAVES[fold.number]]))])  # fmt: skip
    best = []
    for fold in DATA.folds:
        n = LEAVES[fold.number]
        _, setting = chosen(fold, None, [n])
        best.append(np.max([by_node(fold, None, "test", setting, leaf) for leaf in range(n)], axis=0))
    ways = {"one model": local([1]), "most similar query": likest, "clairvoyant query": np.concatenate(best)}
    rows = rows_of(found.tables[0])
    for name, values in ways.items():
        assert pytest.approx(values.mean(axis=0).tolist()) == rows[name]
        assert pytest.approx(values.mean(axis=0).tolist()) == list(mark(found.plots[0], name).y)
    apart = rows_of(table(found, "Differences"), keys=2)
    for name in ("most similar query", "clairvoyant query"):
        for column, metric in enumerate(METRICS):
            expected = (ways[name] - ways["one model"])[:, column].mean()
            assert pytest.approx(expected) == apart[name, metric][0]
    assert found.plots[0].y.zero


def test_the_best_query_is_ranked_by_likeness() -> None:
    found = sweeps.ranks_of_clairvoyant(study(DATA, made), MODELS)

    ranks = []
    for fold in DATA.folds:
        n = LEAVES[fold.number]
        _, setting = chosen(fold, None, [n])
        for query, row in enumerate(near(fold)["test"]):
            if query != 3:
                values = [by_node(fold, None, "test", setting, leaf)[query][0] for leaf in range(n)]
                ranks.append(1 + sum(row > row[int(np.argmax(values))]))
    rows = rows_of(found.tables[0])
    assert [1, 2, 3, 5] == list(rows)
    for rank, (share, chance) in rows.items():
        assert pytest.approx(np.mean([one <= rank for one in ranks])) == share
        # Of six queries in one fold and five in the other, as many test queries of each known: eight and seven.
        assert pytest.approx((8 * rank / 6 + 7 * rank / 5) / 15) == chance
    likeness = mark(found.plots[0], "by likeness")
    order = mark(found.plots[0], "in random order")
    assert [1, 2, 3, 4, 5] == likeness.x == order.x
    assert pytest.approx([np.mean([one <= rank for one in ranks]) for rank in range(1, 6)]) == likeness.y
    assert pytest.approx([(8 * rank / 6 + 7 * rank / 5) / 15 for rank in range(1, 6)]) == order.y
    assert [(False, False), (True, False)] == [(one.dashed, one.dots) for one in (likeness, order)]
    assert (True, 1.0, False) == (found.plots[0].y.zero, found.plots[0].y.high, found.plots[0].numbers)
    assert f"{len(ranks)} test queries." in found.tables[0].caption
    assert f"for {likeness.y[0]:.1%} of the test queries; in random order it would be for {order.y[0]:.1%}" in found.sentences[0]  # fmt: skip


def test_of_queries_that_serve_equally_well_the_most_similar_counts() -> None:
    def equal(fit: Fit) -> Arrays:
        return {
            name: one * 0 + 0.5 if name == "test" and one.ndim == 4 else one
            for name, one in made(fit).items()
        }

    found = sweeps.ranks_of_clairvoyant(study(DATA, equal), MODELS)

    assert {(1.0, 1.0)} == {tuple(row) for row in rows_of(found.tables[0]).values()}


def test_fits_of_a_sweep_are_those_of_its_draws_too() -> None:
    over = study(DATA, made, draws=3)

    assert [2 + 2, 2 + 2 * (1 + 3)] == [len(sweeps.fits_of(over, MODELS, some)) for some in ((), CANDIDATES)]
    geometry: Any = sweeps.fits_of(over, MODELS)[0].settings
    assert asdict(MODELS.geometry) == geometry
