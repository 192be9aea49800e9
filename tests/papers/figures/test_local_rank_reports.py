"""What the reports on LocalRank make of results: times, triples and known kinds, calculated another way from made-up results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pytest

from localrank_papers.figures import kinds, local_rank, times, triples
from tests.papers.figures.made_up import mark, numbers_for, rows_of, small_data, study

if TYPE_CHECKING:
    from localrank_papers.figures.fits import Arrays, Fit
    from localrank_papers.figures.role import Experiment

STAGES = ("sign", "route", "score", "total", "request")
TIMED = ("LocalRank", "KNN", "one model")


def named(name: str) -> Experiment:
    (found,) = [one for one in local_rank.EXPERIMENTS if one.name == name]
    return found


# ------------------------------------------------------------------------------------------------ Figures 12 to 14


def grown(fit: Fit) -> Arrays:
    rng = numbers_for(fit)
    found = {f"{name}, {stage}": 1 + rng.random(3) for name in TIMED for stage in (*STAGES, "learning")}
    return {"sizes": np.array([10.0, 20.0, 40.0]), "D&K, request": 100 + rng.random(3), **found}


def test_figure_12_has_every_stage_of_every_way() -> None:
    found = times.figure_12(study(small_data(), grown))

    (fit,) = times.plan(study(small_data()))
    arrays = grown(fit)
    rows = rows_of(found.tables[0], keys=2)
    assert [(size, name) for name in (*TIMED, "D&K") for size in (10, 20, 40)] == list(rows)
    drawn = found.plots[0]
    assert drawn.y.log
    for name in TIMED:
        for place, size in enumerate((10, 20, 40)):
            assert [arrays[f"{name}, {stage}"][place] for stage in STAGES] == rows[size, name]
        line = mark(drawn, name)
        assert arrays[f"{name}, total"].tolist() == line.y
        assert [10, 20, 40] == line.x
        assert (name == "one model") == line.dashed
    for place, size in enumerate((10, 20, 40)):
        assert [None] * 4 + [arrays["D&K, request"][place]] == rows[size, "D&K"]
    assert arrays["D&K, request"].tolist() == mark(drawn, "D&K").y
    last = {name: arrays[f"{name}, total"][2] for name in TIMED}
    for name in TIMED:
        assert f"{last[name]:.2f} ms by {name}" in found.sentences[0]
    slowest = arrays["D&K, request"][2]
    assert (
        f"with 40 training queries; D&K takes {slowest:.0f} ms, {slowest / last['LocalRank']:.0f} times"
        in (found.sentences[0])
    )


def test_figure_13_has_the_seconds_of_learning_and_how_they_grow() -> None:
    found = times.figure_13(study(small_data(), grown))

    arrays = grown(times.plan(study(small_data()))[0])
    seconds = {name: arrays[f"{name}, learning"] for name in TIMED}
    for place, size in enumerate((10, 20, 40)):
        assert [seconds[name][place] for name in TIMED] == rows_of(found.tables[0])[size]
    assert found.plots[0].y.log
    for name in TIMED:
        line = mark(found.plots[0], name)
        assert (seconds[name].tolist(), name == "one model") == (line.y, line.dashed)
    local, knn, one = (seconds[name][2] for name in TIMED)
    expected = f"With 40 training queries LocalRank learns in {local:.2f} s, KNN in {knn:.1f} s, {knn / local:.0f} times"
    assert expected in found.sentences[0]
    assert f"one model takes {one:.2f} s" in found.sentences[0]
    grows = [seconds[name][2] / seconds[name][0] for name in ("LocalRank", "KNN")]
    assert (
        f"From 10 to 40 queries the time grows {grows[0]:.1f} times for LocalRank and {grows[1]:.1f} times for"
        in (found.sentences[1])
    )


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ([0.3, 0.3, 0.3], "hash tables are faster from 300 training queries on"),
        ([0.2, 0.4, 0.9], "comparing all is faster up to 900 training queries"),
        ([0.1, 0.1, 0.1], "hash tables are faster from 100 training queries on"),
    ],
)
def test_figure_14_says_from_where_on_hash_tables_are_faster(tables: list[float], says: str) -> None:
    """As fast is not faster: at 100 queries both take .2 in the second row."""
    exact = [0.2, 0.35, 0.8]

    def made(_fit: Fit) -> Arrays:
        numbers = {"exact": exact, "lsh": tables, "agreement": [1.0, 0.5, 0.25]}
        return {"sizes": np.array([100, 300, 900]), **{name: np.array(one) for name, one in numbers.items()}}

    found = times.figure_14(study(small_data(), made))

    assert {100: [0.2, tables[0], 1.0], 300: [0.35, tables[1], 0.5], 900: [0.8, tables[2], 0.25]} == rows_of(
        found.tables[0]
    )
    assert says in found.sentences[0]
    expected = f"takes {0.8 / 0.2:.1f} times as long by comparing all, and {tables[2] / tables[0]:.1f} times by hash tables"
    assert expected in found.sentences[0]
    assert found.sentences[0].startswith("From 100 to 900 training queries")
    drawn = found.plots[0]
    assert (True, True) == (drawn.x.log, drawn.y.log)
    assert (exact, tables) == (mark(drawn, "comparing all").y, mark(drawn, "hash tables").y)


# ------------------------------------------------------------------------------------------------ Figure 1


def triple(fit: Fit) -> Arrays:
    """Four triples: the model serves q2 better in the first three."""
    rng = numbers_for(fit)
    served = np.array([[0.9, 0.5], [0.8, 0.7], [0.6, 0.5], [0.3, 0.4]])
    return {"map": served, "distances": rng.random((4, 4, 2))}


def test_figure_1_counts_how_often_the_nearer_query_is_the_one_that_is_served_better() -> None:
    found = triples.figure_1(study(small_data(), triple))

    means, right = rows_of(found.tables[0], keys=2), rows_of(found.tables[1])
    shares = {}
    for spread in get_args(triples.Spread):
        distances = triple(triples._triples(spread, 3))["distances"]
        for number, (query, served) in enumerate((("q2", 0.65), ("q3", 0.525))):
            assert pytest.approx([served, *distances[:, :, number].mean(axis=0)]) == means[spread, query]
        counted = [
            sum((distances[one, way, 0] < distances[one, way, 1]) == (one < 3) for one in range(4)) / 4
            for way in range(4)
        ]
        assert counted == right[spread]
        assert counted == list(mark(found.plots[0], f"documents differ most in {spread}").y)
        shares[spread] = counted
    first, second = shares["relevance"], shares["something else"]
    assert (
        f"in {first[0]:.0%} of the triples, and the other distances in at most {max(first[1:]):.0%}"
        in (found.sentences[0])
    )
    assert f"right in {second[0]:.0%}" in found.sentences[1]
    low, high = np.quantile([0.5, 0.7, 0.5, 0.4], [0.05, 0.95])
    assert f"between {low:.2f} and {high:.2f} in nine of ten" in found.tables[0].caption
    drawn = found.plots[0]
    assert 0.5 == mark(drawn, "guessing").at
    assert drawn.y.zero
    # A share of one is a dot that is still within the drawing.
    assert drawn.y.high is not None
    assert 1.0 < drawn.y.high < 1.2


@pytest.mark.parametrize("spread", get_args(triples.Spread))
def test_triples_are_as_far_apart_and_spread_as_they_are_described(spread: triples.Spread) -> None:
    """q2 lies eight away from q1 and q3 only a little; relevance, or something else, has the largest variance."""
    queries = triples.three_queries(spread, 5)

    clouds = [queries.documents_of(query).astype(float) for query in range(3)]
    assert [100, 100, 100] == queries.lengths.tolist()
    assert 6 == queries.n_features
    assert [50, 50, 50] == [int(queries.labels_of(query).sum()) for query in range(3)]
    near = clouds[2].mean(axis=0) - clouds[0].mean(axis=0)
    far = clouds[1].mean(axis=0) - clouds[0].mean(axis=0)
    assert np.linalg.norm(far) == pytest.approx(8.0, abs=2.5)
    assert np.linalg.norm(near) < 2.5 < np.linalg.norm(far)
    apart, widest = [], []
    for query in range(3):
        relevant = queries.labels_of(query) == 1
        apart.append(clouds[query][relevant].mean(axis=0) - clouds[query][~relevant].mean(axis=0))
        widest.append(np.linalg.svd(clouds[query] - clouds[query].mean(axis=0))[2][0])
    lengths = [float(np.linalg.norm(one)) for one in apart]
    units = [one / length for one, length in zip(apart, lengths, strict=True)]
    wanted = 12.0 if spread == "relevance" else 2.0
    assert lengths == pytest.approx([wanted] * 3, abs=1.6)
    if spread == "relevance":
        assert units[0] @ units[1] > 0.97
        assert abs(units[0] @ units[2]) < 0.2
        assert all(abs(one @ other) > 0.97 for one, other in zip(units, widest, strict=True))
    else:
        # q3 shares the widest direction with q1; q2 does not. None of them is that of relevance.
        assert abs(widest[0] @ widest[2]) > 0.97
        assert abs(widest[0] @ widest[1]) < 0.2
        spreads = [float(np.std(cloud @ one)) for cloud, one in zip(clouds, widest, strict=True)]
        assert spreads == pytest.approx([6.0] * 3, abs=1.5)


def test_every_triple_is_drawn_by_a_seed_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The triples of two seeds must not overlap."""
    asked: list[int] = []
    monkeypatch.setattr(triples, "TRIPLES", 3)
    monkeypatch.setattr(triples, "three_queries", lambda _spread, seed: asked.append(seed))
    monkeypatch.setattr(triples, "compared_triple", lambda _: (np.zeros(2), np.zeros((4, 2))))

    shapes = [triples.triples(None, "relevance", seed)["distances"].shape for seed in (0, 1)]

    assert [(3, 4, 2)] * 2 == shapes
    assert [0, 1, 2, 3, 4, 5] == asked


# ------------------------------------------------------------------------------------------------ known kinds


def kind(fit: Fit) -> Arrays:
    rng, draws = numbers_for(fit), fit.settings["draws"]
    found = {name: rng.random(12) for name in ("one model", "clusters", "kinds")}
    found |= {"rand": rng.random(1), "routed": rng.random(1), "rand, random": rng.random(draws)}
    return found | ({"random clusters": rng.random(12)} if draws else {})


@pytest.mark.parametrize("draws", [0, 4])
def test_clusters_are_compared_with_kinds_at_every_setting(draws: int) -> None:
    over = study(small_data(()), kind, draws=draws)
    found = kinds.figure(over)

    ways = ["one model", "clusters", "kinds", *(["random clusters"] if draws else [])]
    rows = rows_of(found.tables[0], keys=2)
    beside = rows_of(found.tables[1])
    rand, gains = {}, {}
    for separation in kinds.SEPARATIONS:
        for shapes in kinds.SHAPES:
            sets = [kind(fit) for fit in kinds._fits(over, shapes, separation)]
            assert 3 == len(sets)
            row = rows[separation, shapes]
            rand[separation, shapes] = np.mean([one["rand"][0] for one in sets])
            means = {way: np.concatenate([one[way] for one in sets]).mean() for way in ways}
            by_chance = np.concatenate([one["rand, random"] for one in sets])
            ends = np.quantile(by_chance, [0.05, 0.95]).tolist() if draws else [None, None]
            routed = np.mean([one["routed"][0] for one in sets])
            expected: list[Any] = [rand[separation, shapes], *ends, routed, *means.values()]
            assert [None if one is None else pytest.approx(one) for one in expected] == row
            name = f"clusters − one model, separation {separation:g}, shapes {shapes:g}"
            assert pytest.approx([means["clusters"], means["one model"]]) == beside[name][:2]
            gains[separation, shapes] = {way: means[way] - means["one model"] for way in ways}
    clusters, wins = found.plots
    assert (True, 1.0) == (clusters.y.zero, clusters.y.high)
    assert 0.0 == mark(clusters, "chance").at == mark(wins, "one model").at
    for separation in kinds.SEPARATIONS:
        line = mark(clusters, f"separation {separation:g}")
        assert pytest.approx([rand[separation, shapes] for shapes in kinds.SHAPES]) == line.y
        for way in ways[1:]:
            line = mark(wins, f"{way}, separation {separation:g}")
            assert pytest.approx([gains[separation, shapes][way] for shapes in kinds.SHAPES]) == line.y
            assert (way != "clusters") == line.dashed
    both, relevant, shape = found.sentences[:3]
    assert f"(adjusted Rand index {rand[1.0, 1.0]:.2f}) and win {gains[1.0, 1.0]['clusters']:+.3f}" in both
    assert f"knowing the kinds wins {gains[1.0, 1.0]['kinds']:+.3f}" in both
    assert f"({rand[1.0, 0.0]:.2f}) and win {gains[1.0, 0.0]['clusters']:+.3f}" in relevant
    assert f"knowing the kinds {gains[1.0, 0.0]['kinds']:+.3f}" in relevant
    assert f"({rand[0.0, 1.0]:.2f}) and win {gains[0.0, 1.0]['clusters']:+.3f}" in shape


def test_sets_of_two_seeds_do_not_overlap() -> None:
    seeds = [
        [fit.settings["seed"] for fit in kinds._fits(study(small_data(()), seed=seed), 0.0, 1.0)]
        for seed in (0, 1)
    ]

    assert [[0, 1, 2], [3, 4, 5]] == seeds
    assert 2 * 4 * 3 == len(kinds.fits_of(study(small_data(()))))


def test_the_commonest_kind_of_a_cluster_is_that_of_most_of_its_queries() -> None:
    of, labels = np.array([0, 1, 1, 2, 2, 2, 0]), np.array([5, 5, 5, 8, 8, 8, 8])

    assert [1, 2, 2] == kinds._commonest(of, labels, np.array([5, 8, 8])).tolist()


# ------------------------------------------------------------------------------------------------ catalogue


def test_experiments_that_make_their_own_data_say_so() -> None:
    own = {one.name for one in local_rank.EXPERIMENTS if not one.needs_data}

    assert {"localrank-fig1", "localrank-kinds"} == own
    assert own == {one.name for one in local_rank.EXPERIMENTS if one.synthetic}
    assert {f"Figure {number}" for number in (1, *range(4, 16))} == {
        one.figure for one in local_rank.EXPERIMENTS if one.figure.startswith("Figure")
    }


@pytest.mark.parametrize(
    ("number", "axis"), [(12, "time of one query"), (13, "processor time"), (14, "time to select")]
)
def test_figures_of_times_have_their_number(number: int, axis: str) -> None:
    one = named(f"localrank-fig{number}")

    def made(fit: Fit) -> Arrays:
        more = {name: np.ones(3) for name in ("exact", "lsh", "agreement")}
        return grown(fit) | more

    (fit,) = one.plan(study(small_data(), made))
    found = one.find(study(small_data(), made))

    assert axis == found.plots[0].y.label
    assert f"Figure {number}" == one.figure
    assert found.tables[0].title.startswith(f"Figure {number}:")
    assert fit.work is (times.selection if number == 14 else times.grown)
