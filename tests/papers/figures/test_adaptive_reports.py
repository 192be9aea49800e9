"""What the reports on adaptive training make of results, calculated another way from made-up results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pytest

from localrank_papers.figures import adaptive
from localrank_papers.figures.adaptive import CANDIDATES, METRICS, How
from localrank_papers.figures.adaptive_clusters import PUBLISHED, REPAIRED
from localrank_papers.figures.paired import Pair, verdict_of
from tests.papers.figures.made_up import mark, numbers_for, plot, rows_of, small_data, study, table

if TYPE_CHECKING:
    from localrank_papers.figures.findings import Findings
    from localrank_papers.figures.fits import Arrays, Fit

DATA = small_data((9, 6))
BY = METRICS.index("ndcg@5")
CALLED = {"kmeans": "k-means", "ward": "Ward"}
ANSWERS = ("selective", "fusion")


def made(fit: Fit) -> Arrays:
    """Return figures within [0, 1) in the shapes that the works have."""
    assert fit.fold is not None
    rng, n, held = numbers_for(fit), len(fit.fold.test), len(fit.fold.validation)
    if fit.work is adaptive.single:
        names = ("feature", "published", "published again", "ranksvm", "repaired")
        return {
            **{name: rng.random((9, n)) for name in names},
            "repaired, validation": rng.random((9, held)),
            "bins": np.arange(n) % 5,
        }
    if fit.work is adaptive.clustered:
        return {
            **{name: rng.random((9, n)) for name in ANSWERS},
            "models": rng.random((fit.settings["count"], 9, n)),
            **{f"{name}, validation": rng.random((9, held)) for name in ANSWERS},
            "flips": rng.random(1),
        }
    return {name: rng.random((fit.settings["draws"], 9, n)) for name in (*ANSWERS, "oracle")}


STUDY = study(DATA, made, draws=4)


@pytest.fixture(scope="module")
def found() -> Findings:
    return adaptive.table_2(STUDY)


def pooled(name: str, fit: Any) -> np.ndarray:
    return np.concatenate([made(fit(fold))[name] for fold in DATA.folds], axis=-1)


def alone(name: str) -> np.ndarray:
    return pooled(name, adaptive._single)


def of_clusters(how: Any, clusters: Any) -> dict[str, np.ndarray]:
    def fit(fold: Any) -> Fit:
        return adaptive._clustered(fold, how, clusters, 5)

    models = pooled("models", fit)
    return {
        "selective": pooled("selective", fit),
        "fusion": pooled("fusion", fit),
        "oracle": np.array([[max(models[:, m, q]) for q in range(15)] for m in range(9)]),
        "random routing": sum(models) / 5,
    }


def chosen(clusters: Any, answer: str) -> tuple[list[int], np.ndarray]:
    """Return the numbers of clusters, and the figures that come of them."""
    counts, parts = [], []
    for fold in DATA.folds:
        one = made(adaptive._single(fold))
        tried = {1: (one["repaired, validation"], one["repaired"])}
        for count in CANDIDATES[1:]:
            several = made(adaptive._clustered(fold, "repaired", clusters, count))
            tried[count] = several[f"{answer}, validation"], several[answer]
        counts.append(max(tried, key=lambda count, tried=tried: float(tried[count][0][BY].mean())))  # type: ignore[misc]
        parts.append(tried[counts[-1]][1])
    return counts, np.concatenate(parts, axis=1)


def test_table_2_has_means_and_deviations_of_every_way_to_answer(found: Findings) -> None:
    expected: dict[Any, np.ndarray] = {}
    for how in get_args(How):
        expected[how, "best feature"] = alone("feature")
        expected[how, "one global model"] = alone(how)
        for clusters in ("kmeans", "ward"):
            for answer, figures in of_clusters(how, clusters).items():
                expected[how, f"{CALLED[clusters]}, {answer}"] = figures
            if how == "repaired":
                for answer in ANSWERS:
                    expected[how, f"{CALLED[clusters]}, {answer}, clusters chosen"] = chosen(
                        clusters, answer
                    )[1]
    rows = rows_of(found.tables[0], keys=2)
    assert list(expected) == list(rows)
    for name, figures in expected.items():
        flat = [value for row in figures for value in (np.mean(row), np.std(row, ddof=1))]
        assert pytest.approx(flat) == rows[name]
    # Every way but the global model itself stands beside it, in one family for each protocol.
    for how in get_args(How):
        beside = rows_of(table(found, f"NDCG@5 beside one global model, {how}"))
        ways = {
            f"{name}, {how}": figures
            for (protocol, name), figures in expected.items()
            if protocol == how and not name.endswith("oracle") and name != "one global model"
        }
        assert sorted(ways) == sorted(beside)
        for called, figures in ways.items():
            assert pytest.approx([figures[BY].mean(), alone(how)[BY].mean()]) == beside[called][:2]
            said = verdict_of(Pair(called, figures[BY], alone(how)[BY])) in found.sentences[0]
            assert ("fusion" in called or "selective" in called) == said


def test_choices_are_counted_and_flips_averaged(found: Findings) -> None:
    rows = rows_of(table(found, "Clusters that validation queries choose"), keys=2)

    for clusters, name in CALLED.items():
        flips = [made(adaptive._clustered(fold, "repaired", clusters))["flips"][0] for fold in DATA.folds]  # type: ignore[arg-type]
        for answer in ANSWERS:
            counts, _ = chosen(clusters, answer)
            assert [", ".join(map(str, counts)), counts.count(1), pytest.approx(sum(flips) / 2)] == rows[
                name, answer
            ]


def test_the_smaller_of_equally_good_numbers_of_clusters_is_taken_and_one_is_the_global_model() -> None:
    def equal(fit: Fit) -> Arrays:
        return {name: one * 0 + 0.5 if "validation" in name else one for name, one in made(fit).items()}

    over = study(DATA, equal)

    assert [1, 1] == adaptive.chosen_counts(over, "ward", "fusion")
    np.testing.assert_array_equal(alone("repaired"), adaptive._with_chosen(over, "ward", "fusion"))
    counted = rows_of(table(adaptive.table_2(over), "Clusters that validation"), keys=2)
    assert {2} == {row[1] for row in counted.values()}


def test_the_oracles_are_compared_by_the_two_metrics_of_the_paper(found: Findings) -> None:
    beside = rows_of(table(found, "The test of the two oracles"))
    assert 4 == len(beside)
    for how in get_args(How):
        for metric in ("ndcg@5", "mrr@100"):
            at = METRICS.index(metric)
            ours, theirs = (of_clusters(how, clusters)["oracle"][at] for clusters in ("kmeans", "ward"))
            name = f"oracle of k-means beside oracle of Ward, {metric}, {how}"
            assert pytest.approx([ours.mean(), theirs.mean()]) == beside[name][:2]
            assert verdict_of(Pair(name, ours, theirs)) in found.sentences[1]


def of_draws(how: Any, clusters: Any, answer: str) -> np.ndarray:
    figures = pooled(answer, lambda fold: adaptive._random(STUDY, fold, how, clusters))
    return np.array([draw[BY].mean() for draw in figures])


def test_real_clusters_stand_beside_the_draws_of_random_ones(found: Findings) -> None:
    assert "4 draws" in found.tables[1].title
    rows = rows_of(found.tables[1], keys=3)
    assert 2 * 2 * 3 == len(rows)
    within = dict.fromkeys(("selective", "fusion", "oracle"), 0)
    for (how, name, answer), row in rows.items():
        (clusters,) = [one for one, called in CALLED.items() if called == name]
        real, draws = of_clusters(how, clusters)[answer][BY].mean(), of_draws(how, clusters, answer)
        low, high = np.quantile(draws, [0.05, 0.95])
        assert pytest.approx([real, draws.mean(), low, high, sum(draws < real)]) == row
        within[answer] += bool(low <= real <= high)
    said = ", ".join(f"{count} of 4 cases ({answer})" for answer, count in within.items())
    assert said in found.sentences[-1]


@pytest.mark.parametrize("draws", [0, 4])
def test_every_way_to_answer_is_drawn_with_its_random_clusters(found: Findings, draws: int) -> None:
    if not draws:
        found = adaptive.table_2(study(DATA, made))

    assert (3 if draws else 2) == len(found.sentences)
    drawn = plot(found, "NDCG@5 of every way")
    assert drawn.sideways
    categories = list(drawn.x.categories or ())
    assert ["best feature", "global model", "selective", "fusion", "oracle", "random routing"] == categories
    assert bool(draws) == bool(drawn.intervals)
    assert (8 if draws else 4) == len(drawn.marks)
    for how in get_args(How):
        for clusters, name in CALLED.items():
            worth = {"best feature": alone("feature"), "global model": alone(how)} | of_clusters(
                how, clusters
            )
            dots = mark(drawn, f"{name}, {how}")
            shown = {categories[int(x)]: y for x, y in zip(dots.x, dots.y, strict=True)}
            assert pytest.approx({way: figures[BY].mean() for way, figures in worth.items()}) == shown
            if draws:
                random = mark(drawn, f"random clusters for {name}, {how}")
                for place, answer in enumerate(("selective", "fusion", "oracle")):
                    each = of_draws(how, clusters, answer)
                    low, high = np.quantile(each, [0.05, 0.95])
                    assert categories.index(answer) == random.x[place]
                    shown_here = [random.y[place], random.low[place], random.high[place]]
                    assert pytest.approx([each.mean(), low, high]) == shown_here


def test_a_single_query_has_no_deviation() -> None:
    assert (0.25, 0.0, 0.5, 0.0) == adaptive._means(np.array([[0.25], [0.5]]))


# ------------------------------------------------------------------------------------------------ Figures 4 and 5


def in_tenths(fit: Fit) -> Arrays:
    """Return figures of which the baseline and the feature are whole tenths, so that levels are exact."""
    found = made(fit)
    for name in ("feature", "published", "published again"):
        if name in found:
            found[name] = np.round(found[name], 1)
    return found


@pytest.mark.parametrize("metric", ["ndcg@5", "mrr@100"])
def test_levels_are_those_of_the_baseline_of_another_run_and_of_the_documents(metric: str) -> None:
    found = adaptive.figure(study(DATA, in_tenths), metric)

    at = METRICS.index(metric)
    base, again, feature = (
        np.round(alone(name)[at], 1) for name in ("published", "published again", "feature")
    )
    rankings = {"baseline": base, "best feature": feature, "baseline, another run": again}
    rankings["RankSVM"] = alone("ranksvm")[at]
    for clusters, name in CALLED.items():
        for answer in ("selective", "fusion", "oracle"):
            rankings[f"{name}, {answer}"] = of_clusters("published", clusters)[answer][at]
    places = {
        "as published": np.round(base - feature, 1),
        "level by another run of the baseline": np.round(again - feature, 1),
        "predicted from the query's documents (0 worst, 4 best)": alone("bins"),
    }
    rows = rows_of(found.tables[0], keys=2)
    shown: dict[Any, Any] = {
        (row[0], row[1], round(float(str(row[2])), 1)): row[3:] for row in found.tables[0].rows
    }
    assert {(how, name) for how in places for name in rankings} == set(rows)
    for how, where in places.items():
        for name, figures in rankings.items():
            for level in np.unique(where + 0.0):
                here = figures[where == level]
                queries, mean, low, high = shown[how, name, round(float(level), 1)]
                assert (len(here), pytest.approx(here.mean())) == (queries, mean)
                assert low <= mean <= high
    assert len(shown) == sum(len(np.unique(where + 0.0)) for where in places.values()) * len(rankings)
    # Where it fails: levels of -0.1 and below, or the worst fifth of the predicted ones.
    beside = rows_of(table(found, f"{metric} beside the baseline where it fails"))
    others = [name for name in rankings if name not in {"baseline", "best feature"} and "oracle" not in name]
    assert [f"{name}, {how}" for how in places for name in others] == list(beside)
    for (how, where), sentence in zip(places.items(), found.sentences, strict=True):
        low = where == 0 if "predicted" in how else where <= -0.1
        for name in others:
            assert (
                pytest.approx([rankings[name][low].mean(), base[low].mean()]) == beside[f"{name}, {how}"][:2]
            )
        gains = ", ".join(
            f"{name} {rankings[name][low].mean() - base[low].mean():+.3f}"
            for name in ("k-means, selective", "k-means, fusion", "baseline, another run", "RankSVM")
        )
        assert f"Where the baseline fails ({how}; {low.sum()} queries), beside it: {gains}." == sentence


def test_lines_of_levels_show_their_means_and_only_the_baseline_its_intervals() -> None:
    found = adaptive.figure(study(DATA, in_tenths), "ndcg@5")

    for how in ("as published", "level by another run", "predicted"):
        drawn = plot(found, f"ndcg@5, {how}")
        rows = [row for row in found.tables[0].rows if str(row[0]).startswith(how)]
        for line in (mark(drawn, one.name) for one in drawn.marks):
            mine = [row for row in rows if row[1] == line.name]
            assert [row[2] for row in mine] == list(line.x)
            assert [row[4] for row in mine] == list(line.y)
            assert (line.name == "baseline") == (line.low is not None)
            assert (line.name in {"baseline, another run", "RankSVM"}) == line.dashed
        base = mark(drawn, "baseline")
        assert [(row[5], row[6]) for row in rows if row[1] == "baseline"] == list(
            zip(base.low, base.high, strict=True)
        )
        assert ("predicted" in how) == ("predicted" in drawn.x.label)


def test_nothing_is_said_where_the_baseline_never_fails() -> None:
    def ahead(fit: Fit) -> Arrays:
        found = made(fit)
        for name in ("published", "published again"):
            if name in found:
                found[name] = np.ones_like(found[name])
        return found

    found = adaptive.figure(study(DATA, ahead), "ndcg@5")

    assert ["predicted from" in sentence for sentence in found.sentences] == [True]


# ------------------------------------------------------------------------------------------------ plans


@pytest.mark.parametrize("draws", [0, 4])
def test_plans_name_every_fit_that_a_report_reads(draws: int) -> None:
    for one in adaptive.EXPERIMENTS:
        read: set[tuple[Any, ...]] = set()

        def known(fit: Fit) -> tuple[Any, ...]:
            assert fit.fold is not None
            return (fit.work.__name__, fit.fold.number, str(sorted(fit.settings.items())))

        def watched(fit: Fit, read: set[tuple[Any, ...]] = read) -> Arrays:
            read.add(known(fit))
            return made(fit)

        one.find(study(DATA, watched, draws=draws))

        planned = {known(fit) for fit in one.plan(study(DATA, made, draws=draws))}
        assert planned == read, one.name


def test_random_clusters_are_drawn_by_seeds_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    class Dealt:
        def ask(self, queries: Any) -> Any:
            return queries

    def dealt(_fold: Any, like: Any, learner: Any, seed: int) -> Dealt:
        asked.append((like, learner, seed))
        return Dealt()

    monkeypatch.setattr(adaptive, "_learned", lambda *_: "like")
    monkeypatch.setattr(adaptive, "dealt_at_random", dealt)
    monkeypatch.setattr(
        adaptive, "_answered", lambda _: dict.fromkeys((*ANSWERS, "oracle"), np.zeros((9, 2)))
    )

    found = adaptive.random_clusters(DATA.folds[0], "published", "ward", 5, draws=3, seed=7)

    assert [("like", PUBLISHED, seed) for seed in (7, 8, 9)] == asked
    assert {(3, 9, 2)} == {one.shape for one in found.values()}
    assert adaptive._learner("repaired") is REPAIRED


def test_documents_of_equal_scores_are_ranked_worst_first_but_for_the_last_metric() -> None:
    """The notebooks rank relevant documents first among equals; every query has two of them at least."""
    queries = DATA.folds[0].test

    measured = adaptive._measured(queries, np.zeros(queries.n_docs))

    assert (9, 9) == measured.shape
    first = [1 + int((queries.labels_of(query) == 0).sum()) for query in range(9)]
    assert pytest.approx([1 / one for one in first]) == measured[METRICS.index("mrr@100")]
    assert [1.0] * 9 == measured[-1].tolist()
