"""What the reports on L-GMML make of results: every number of a table or plot, calculated another way from made-up results."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from localrank_papers.figures import lgmml
from localrank_papers.figures.lgmml import NOISE, SIZES, SONG_SIZES, SPLITS
from localrank_papers.figures.lgmml_variants import METRICS, RELEASED, VARIANTS
from localrank_papers.figures.songs import WAYS
from tests.papers.figures.made_up import (
    mark,
    numbers_for,
    plot,
    rows_of,
    small_data,
    study,
    table,
)

if TYPE_CHECKING:
    from localrank_papers.figures.fits import Arrays, Fit

DATA = small_data((9, 6))
SONGS = 12
ON_SONGS = {"lgmml-fig2", "lgmml-fig4", "lgmml-fig5", "lgmml-table1", "lgmml-table3"}


def made(fit: Fit) -> Arrays:
    """Return figures within [0, 1) in the shapes that the works have."""
    rng, settings = numbers_for(fit), fit.settings
    work, n = fit.work.__name__, 0 if fit.fold is None else len(fit.fold.test)
    if work == "sweep":
        assert fit.fold is not None
        return {
            "figures": rng.random((len(VARIANTS), len(settings["sizes"]), len(METRICS), n)),
            "training": rng.random((2, len(fit.fold.train))),
            "seconds": rng.random(len(settings["sizes"])),
        }
    if work in {"alone", "noisy"}:
        return {"figures": rng.random((len(METRICS), n)), "seconds": rng.random(1)}
    if work == "scoring_seconds":
        return {"lgmml": 3e-6 * np.array(SIZES) ** 1.5, "others": np.array([1e-6, 2e-6, 4e-6])}
    if work == "local_metrics":
        return {
            "local": rng.random((len(WAYS), len(SONG_SIZES), SONGS)),
            **{name: rng.random(SONGS) for name in ("single", "truth", "euclidean")},
        }
    assert work == "metric_rankers"
    names = ("Euclidean", "MLR", "R-MLR", "GMML", "L-GMML")
    robust = names if settings["structural"] else ("Euclidean", "GMML", "L-GMML")
    return {
        **{name: rng.random(SONGS) for name in robust},
        **{f"seconds of {name}": np.array(1.0 + rng.random()) for name in robust[1:]},
    }


STUDY = study(DATA, made)


def pooled(work: Any, column: tuple[Any, ...], key: str = "figures") -> np.ndarray:
    """Return figures of all test queries, fold after fold."""
    return np.array([value for fold in DATA.folds for value in made(work(fold))[key][column].tolist()])


def of_sweep(variant: int, size: int, metric: int) -> np.ndarray:
    return pooled(lambda fold: lgmml._sweep(fold, STUDY), (variant, size, metric))


def of_learner(learner: str, metric: int) -> np.ndarray:
    return pooled(lambda fold: lgmml._alone(fold, STUDY, learner), (metric,))


def test_figure_3_has_means_over_the_queries_of_all_folds() -> None:
    found = lgmml.figure_3(STUDY)

    rows = {tuple(row[:2]): row[2:] for row in table(found, "Means over test queries").rows}
    for variant, name in enumerate(VARIANTS):
        for at, size in enumerate(SIZES):
            expected = [of_sweep(variant, at, metric).mean() for metric in range(len(METRICS))]
            assert pytest.approx(expected) == rows[name, size]
    for row in table(found, "NDCG@10: many metrics").rows:
        variant = VARIANTS.index(str(row[0]).removesuffix(": 50 metrics beside one"))
        assert pytest.approx(of_sweep(variant, len(SIZES) - 1, METRICS.index("ndcg@10")).mean()) == row[1]
        assert pytest.approx(of_sweep(variant, 0, METRICS.index("ndcg@10")).mean()) == row[2]


@pytest.mark.parametrize("metric", ["map", "ndcg@10"])
def test_figure_3_draws_all_variants_but_those_of_equal_weights_and_dashes_the_leaks(metric: str) -> None:
    found = lgmml.figure_3(STUDY)
    drawn = plot(found, metric.upper())

    assert (True, SIZES) == (drawn.x.log, drawn.x.ticks)
    assert [name for name in VARIANTS if "equal" not in name] == [one.name for one in drawn.marks]
    for name in [one.name for one in drawn.marks]:
        line = mark(drawn, name)
        expected = [
            of_sweep(VARIANTS.index(name), at, METRICS.index(metric)).mean() for at in range(len(SIZES))
        ]
        assert pytest.approx(expected) == list(line.y)
        assert name.startswith("label leak") == line.dashed
        assert SIZES == tuple(line.x)


def test_figure_3_names_the_best_number_of_metrics_and_what_the_released_code_prints() -> None:
    best, prints = lgmml.figure_3(STUDY).sentences

    for name in ("paper, algorithm 2, mean weights", "paper, section 3, mean weights", "released code"):
        means = [
            of_sweep(VARIANTS.index(name), at, METRICS.index("ndcg@10")).mean() for at in range(len(SIZES))
        ]
        assert f"{name}: {max(means):.4f} with {SIZES[int(np.argmax(means))]}" in best
    parts = [made(lgmml._sweep(fold, STUDY))["training"] for fold in DATA.folds]
    trained, equal = (np.concatenate([part[which] for part in parts]).mean() for which in (0, 1))
    assert f"{trained:.4f} with the weights" in prints
    assert f"{equal:.4f} with those of a query" in prints


def test_table_4_compares_everything_with_lambdamart_at_fifty_metrics() -> None:
    found = lgmml.table_4(STUDY)

    ndcg, at = METRICS.index("ndcg@10"), SIZES.index(50)
    figures = {
        lgmml._CALLED[name]: [of_learner(name, metric) for metric in range(4)] for name in lgmml.LEARNERS
    }
    figures |= {
        name: [of_sweep(number, at, metric) for metric in range(4)] for number, name in enumerate(VARIANTS)
    }
    rows = rows_of(found.tables[0])
    assert list(figures) == list(rows)
    for name, by_metric in figures.items():
        assert pytest.approx([one.mean() for one in by_metric]) == rows[name][:4]
        # Of two folds: half of the difference of their means, times the root of two.
        apart = by_metric[ndcg][:9].mean() - by_metric[ndcg][9:].mean()
        assert pytest.approx(abs(apart) / 2**0.5) == rows[name][4]
    assert "with 50 metrics" in found.tables[0].title
    base = figures["λ-MART"][ndcg]
    beside = rows_of(table(found, "NDCG@10 beside λ-MART"))
    assert [name for name in figures if name != "λ-MART"] == list(beside)
    drawn = plot(found, "NDCG@10 beside λ-MART")
    dots = mark(drawn, "")
    assert 0.0 == mark(drawn, "λ-MART").at
    assert drawn.sideways
    assert list(beside) == drawn.x.categories
    for place, name in enumerate(beside):
        apart_ = figures[name][ndcg] - base
        half = stats.t.ppf(0.975, len(apart_) - 1) * apart_.std(ddof=1) / len(apart_) ** 0.5
        assert pytest.approx([apart_.mean(), apart_.mean() - half, apart_.mean() + half]) == [
            dots.y[place], dots.low[place], dots.high[place],
        ]  # fmt: skip
        assert pytest.approx(base.mean()) == beside[name][1]
        assert place == dots.x[place]


def test_table_4_has_the_seconds_of_our_learners_and_of_one_variant() -> None:
    rows = rows_of(lgmml.table_4(STUDY).tables[0])

    for learner in lgmml.LEARNERS:
        each = [float(made(lgmml._alone(fold, STUDY, learner))["seconds"][0]) for fold in DATA.folds]
        assert pytest.approx(sum(each) / 2) == rows[lgmml._CALLED[learner]][-1]
    each = [float(made(lgmml._sweep(fold, STUDY))["seconds"][SIZES.index(50)]) for fold in DATA.folds]
    assert pytest.approx(sum(each) / 2) == rows["paper, algorithm 2, mean weights"][-1]
    assert {name for name, row in rows.items() if row[-1] is None} == set(VARIANTS) - {VARIANTS[1]}


def test_table_4_says_the_figures_of_what_could_be_served_and_of_the_leaks() -> None:
    first, *others = lgmml.table_4(STUDY).sentences

    at, ndcg = SIZES.index(50), METRICS.index("ndcg@10")
    shown = ["paper, algorithm 2, mean weights", "released code", *VARIANTS[-2:]]
    for name in shown:
        assert f"{name} {of_sweep(VARIANTS.index(name), at, ndcg).mean():.4f}" in first
    for learner in ("lambdamart", "ranksvm", "lgmml"):
        assert f"{lgmml._CALLED[learner]} {of_learner(learner, ndcg).mean():.4f}" in first
    assert {name for name in VARIANTS if f"Beside λ-MART: {name}:" in " ".join(others)} == set(shown)
    assert "Beside λ-MART: GBRT" not in " ".join(others)


def test_table_2_counts_the_first_fold_and_the_documents_of_every_grade() -> None:
    found = lgmml.table_2(study(DATA))

    fold = DATA.folds[0]
    ours = (
        "measured here, first fold",
        "made up",
        len(fold.train),
        len(fold.validation),
        len(fold.test),
        3,
        3,
    )
    assert ours == tuple(found.tables[0].rows[-1])
    labels = np.concatenate([fold.test.labels for fold in DATA.folds])
    drawn = found.plots[0]
    dots = mark(drawn, "")
    assert ["0", "1", "2"] == drawn.x.categories
    assert pytest.approx([float((labels == grade).mean()) for grade in (0, 1, 2)]) == list(dots.y)
    assert drawn.y.zero
    assert f"has 15 queries with {len(labels)} documents of 3 features" in found.sentences[0]


def test_table_5_is_in_microseconds_and_tells_how_they_grow() -> None:
    """Three microseconds times the number of metrics to the power of 1.5; the others take one, two and four."""
    found = lgmml.table_5(STUDY)

    rows = rows_of(found.tables[0])
    assert pytest.approx({"GBRT": 1.0, "λ-MART": 2.0, "RankSVM": 4.0}) == {
        name: rows[name][0] for name in ("GBRT", "λ-MART", "RankSVM")
    }
    own = [3 * size**1.5 for size in SIZES]
    assert pytest.approx(own) == [rows[f"L-GMML, {size} metrics"][0] for size in SIZES]
    assert f"L-GMML with 50 metrics takes {own[-1] / 2:.1f} times what λ-MART takes" in found.sentences[0]
    assert "the power 1.50 of" in found.sentences[0]
    drawn = found.plots[0]
    assert (True, True, SIZES) == (drawn.x.log, drawn.y.log, drawn.x.ticks)
    assert pytest.approx(own) == list(mark(drawn, "L-GMML").y)
    assert pytest.approx([1.0, 2.0, 4.0]) == [mark(drawn, name).at for name in ("GBRT", "λ-MART", "RankSVM")]


def test_the_power_is_that_of_the_three_largest_numbers_of_metrics() -> None:
    """A level of 3 up to ten metrics, in proportion to the number from there on."""
    own = 1e-6 * np.array([3.0, 3, 3, 10, 20, 50])

    (said, _) = lgmml.table_5(study(DATA, lambda _: {"lgmml": own, "others": np.full(3, 1e-6)})).sentences

    assert "the power 1.00 of" in said


def test_noise_is_compared_with_none() -> None:
    found = lgmml.noise(STUDY)

    rows = rows_of(found.tables[0])
    beside = rows_of(found.tables[1])
    for learner in ("ranksvm", "lambdamart", "lgmml"):
        called = lgmml._CALLED[learner]
        by_columns = [
            pooled(lambda fold, one=learner, c=c: lgmml._noise(fold, STUDY, one, c), (0,)) for c in NOISE
        ]
        means = [one.mean() for one in by_columns]
        assert pytest.approx(means) == rows[called]
        assert pytest.approx(means) == list(mark(found.plots[0], called).y)
        for columns, mean in zip(NOISE[1:], means[1:], strict=True):
            row = beside[f"{called}: {columns} columns of noise beside none"]
            assert pytest.approx([mean, means[0]]) == row[:2]
    assert 6 == len(beside) == len(found.sentences)
    assert NOISE == found.plots[0].x.ticks


@pytest.mark.parametrize(("classes", "per_class"), lgmml.CLASSES)
def test_figure_2_pools_the_songs_of_all_splits(classes: int, per_class: int) -> None:
    found = lgmml.figure_2(STUDY)

    fits = [made(lgmml._local(STUDY, classes, per_class, split)) for split in range(SPLITS)]
    local = np.concatenate([fit["local"] for fit in fits], axis=2)
    single, truth, euclidean = (
        np.concatenate([fit[name] for fit in fits]) for name in ("single", "truth", "euclidean")
    )
    rows = {row[1]: list(row[2:]) for row in found.tables[0].rows if row[0] == f"Synthetic-{classes}"}
    assert list(SONG_SIZES) == list(rows)
    for at, size in enumerate(SONG_SIZES):
        expected = [*local[:, at].mean(axis=1), single.mean(), truth.mean(), euclidean.mean()]
        assert pytest.approx(expected) == rows[size]
    drawn = plot(found, f"Synthetic-{classes}:")
    assert (True, SONG_SIZES) == (drawn.x.log, drawn.x.ticks)
    groups = mark(drawn, WAYS[0])
    for at in range(len(SONG_SIZES)):
        apart = local[0, at] - single
        half = stats.t.ppf(0.975, len(apart) - 1) * apart.std(ddof=1) / len(apart) ** 0.5
        assert pytest.approx([local[0, at].mean() - half, local[0, at].mean() + half]) == [
            groups.low[at], groups.high[at],
        ]  # fmt: skip
    for number, way in enumerate(WAYS):
        assert pytest.approx(local[number].mean(axis=1)) == list(mark(drawn, way).y)
    assert pytest.approx(single.mean()) == mark(drawn, "GMML").at
    assert pytest.approx(truth.mean()) == mark(drawn, "a metric for each class, classes known").at
    of_classes = mark(drawn, "true number of classes")
    assert (classes, "x") == (of_classes.at, of_classes.of)


def test_figure_2_says_where_groups_are_best_and_from_where_on_within_a_hundredth() -> None:
    """MAP rises by .006 from one number of metrics to the next up to the fifth, and falls by .1 after that."""
    rising = np.array([0.500, 0.506, 0.512, 0.518, 0.524, 0.424, 0.324])
    noise = np.linspace(-0.05, 0.05, SONGS)

    def groups(fit: Fit) -> Arrays:
        return made(fit) | {
            "local": np.stack([rising[:, None] + noise, *np.zeros((2, len(rising), SONGS))]),
            "single": np.full(SONGS, 0.25),
        }

    found = lgmml.figure_2(study(DATA, groups))

    assert "10 classes: groups reach their best MAP 0.524 at 20 metrics" in found.sentences[1]
    assert "are within .01 of it from 10 on; GMML has 0.250" in found.sentences[1]
    beside = rows_of(found.tables[1])
    assert ["2 classes, groups beside GMML", "10 classes, groups beside GMML", "50 classes, groups beside GMML",
            "100 classes, groups beside GMML"] == list(beside)  # fmt: skip
    assert pytest.approx([0.524, 0.25]) == beside["10 classes, groups beside GMML"][:2]


def of_songs(name: str, ranker: str) -> list[np.ndarray]:
    return [made(lgmml._rankers(STUDY, name, split))[ranker] for split in range(SPLITS)]


def test_figure_5_and_table_1_have_the_means_over_songs() -> None:
    found = lgmml.figure_5(STUDY)

    rows, beside = rows_of(found.tables[0]), rows_of(found.tables[1])
    for name, row in rows.items():
        means = {
            ranker: np.concatenate(of_songs(name, ranker)).mean() for ranker in found.tables[0].header[1:]
        }
        assert pytest.approx(list(means.values())) == row
        for ranker in ("MLR", "R-MLR", "GMML"):
            assert (
                pytest.approx([means["L-GMML"], means[ranker]])
                == beside[f"{name}: L-GMML beside {ranker}"][:2]
            )
            place = list(rows).index(name)
            assert pytest.approx(means[ranker]) == mark(found.plots[0], ranker).y[place]
    assert 9 == len(beside)
    assert found.plots[0].y.zero
    first = lgmml.table_1(STUDY).plots[0]
    assert pytest.approx([of_songs(name, "Euclidean")[0].mean() for name in rows]) == list(mark(first, "").y)
    assert first.y.zero


def test_table_3_has_mean_seconds_and_how_much_longer_r_mlr_takes() -> None:
    found = lgmml.table_3(STUDY)

    ratios = []
    for name, row in rows_of(found.tables[0]).items():
        expected = [
            np.mean(of_songs(name, f"seconds of {one}")) for one in ("MLR", "R-MLR", "GMML", "L-GMML")
        ]
        assert pytest.approx(expected) == row
        ratios.append(expected[1] / expected[3])
    assert f"takes {min(ratios):.1f} to {max(ratios):.1f} times as long" in found.sentences[0]
    assert found.plots[0].y.log


def test_figure_4_times_r_mlr_up_to_forty_dimensions() -> None:
    found = lgmml.figure_4(STUDY)

    times = {d: made(lgmml._timed(STUDY, d)) for d in (10, 20, 40, 80, 160, 320)}
    expected = {d: [one.get("seconds of R-MLR"), one["seconds of L-GMML"]] for d, one in times.items()}
    assert expected == rows_of(found.tables[0])
    assert [None] * 3 == [row[0] for row in list(expected.values())[3:]]
    ratio = times[40]["seconds of R-MLR"] / times[40]["seconds of L-GMML"]
    assert re.match(rf"At 40 dimensions R-MLR takes {ratio:.1f} times", found.sentences[0])
    assert f"takes {times[320]['seconds of L-GMML']:.2f} s at 320" in found.sentences[0]
    drawn = found.plots[0]
    assert (True, True) == (drawn.x.log, drawn.y.log)
    assert [10, 20, 40] == list(mark(drawn, "R-MLR").x)
    assert [one["seconds of L-GMML"] for one in times.values()] == list(mark(drawn, "L-GMML").y)
    assert {(10, 12, 10, 0)} == {
        tuple(lgmml._timed(STUDY, d).settings[name] for name in ("classes", "per_class", "metrics", "split"))
        for d in times
    }


def test_plans_name_every_fit_that_a_report_reads() -> None:
    """Nothing is left to be run after the plan, and nothing is run that no report reads."""
    experiments = {one.name: one for one in lgmml.EXPERIMENTS}
    for name, one in experiments.items():
        read: set[str] = set()

        def watched(fit: Fit, read: set[str] = read) -> Arrays:
            read.add(fit.address)
            return made(fit)

        one.find(study(DATA, watched))

        assert {fit.address for fit in one.plan(STUDY)} == read, name
        assert (name not in ON_SONGS) == one.needs_data


def test_the_sets_and_classes_are_those_that_the_pages_name() -> None:
    """Of the paper: classes of Figure 2, a split of songs for each, and t = 1/2; of ours: see the reports' captions."""
    assert (10, 50, 100) == tuple(classes for classes, _ in lgmml.CLASSES)[1:]
    # 40 % of the songs are to learn from, which must leave two of each class to a test song.
    assert all(0.4 * per_class >= 4 for _, per_class in lgmml.CLASSES)
    assert RELEASED == 6
    assert 50 == lgmml.SHOWN == SIZES[-1]
