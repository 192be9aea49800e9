"""What the reports on multiple hyperplanes make of results, calculated another way from made-up results; and one small trial."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.errors import InvalidData
from localrank.metrics import Judgements
from localrank.scorers import BordaScorer, LinearScorer
from localrank_papers.figures import mhr
from localrank_papers.figures.folds import Fold, everything
from localrank_papers.figures.hyperplanes import graded, principal_plane, turned
from localrank_papers.figures.mhr import METRICS, RANKERS
from localrank_papers.figures.paired import Pair, verdict_of
from localrank_training.learners.seen import scores_of
from tests.papers.figures.made_up import mark, numbers_for, rows_of, small_data, study, table

if TYPE_CHECKING:
    from localrank_papers.figures.fits import Arrays, Fit
    from localrank_training.data.queries import QuerySet

FEATURES = 4
PAIRS = ["(2,3)", "(1,3)", "(1,2)"]
NAMES = [*RANKERS, *(f"base ranker {pair}" for pair in PAIRS)]


def made(fit: Fit) -> Arrays:
    """Return figures of three grades, in the shapes that the works have."""
    assert fit.fold is not None
    rng, n = numbers_for(fit), len(fit.fold.test)
    if fit.work is mhr.more_grades:
        count = fit.settings["grades"] * (fit.settings["grades"] - 1) // 2
        # The first of the ones before stay as they are; the last two are learned anew.
        normals = np.arange(count)[:, None] + np.zeros((1, FEATURES))
        normals[-2:] += 1000 * fit.settings["grades"]
        return {"RSVM": rng.random(n), "MHR-BC": rng.random(n), "normals": normals}
    return {
        "test": rng.random((7, 11, n)),
        "errors": rng.random((7, 3, 2)),
        "normals": rng.standard_normal((4, FEATURES)),
        "halves": rng.standard_normal((2, 4, FEATURES)),
        "weights": rng.random(3),
        "chosen": rng.random(4),
        "seconds": rng.random(4),
        "grades": np.array([0.0, 1.0, 2.0]),
    }


@pytest.fixture(autouse=True)
def few_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localrank_papers.figures.hyperplanes._QUERIES", 26)


STUDY = study(small_data((9, 6)), made)


def both() -> list[tuple[str, list[Arrays]]]:
    return [
        ("definition search, synthetic", [made(fit) for fit in mhr._of_definitions(STUDY)]),
        ("made up", [made(fit) for fit in mhr._of_data(STUDY)]),
    ]


# ------------------------------------------------------------------------------------------------ Figures 2, 3, Tables 3, 4


def test_accuracies_are_means_over_trials_and_gains_are_per_cent_of_ranksvm() -> None:
    fits = mhr._of_data(STUDY)
    found = mhr.accuracies(STUDY, fits)

    trials = [made(fit)["test"] for fit in fits]
    means = np.mean([[[q.mean() for q in metric] for metric in one] for one in trials], axis=0)
    accuracies, gains = rows_of(found.tables[0]), rows_of(found.tables[1])
    assert list(accuracies) == NAMES
    assert list(gains) == NAMES[1:]
    columns = [0, 9, 10]
    assert ["ndcg@1", "ndcg@10", "map of the highest grade"] == [METRICS[one] for one in columns]
    for number, name in enumerate(NAMES):
        assert pytest.approx(means[number]) == accuracies[name]
        if number:
            expected = [100 * (means[number, at] / means[0, at] - 1) for at in columns]
            assert pytest.approx(expected) == gains[name]
    for number, name in enumerate(RANKERS):
        line = mark(found.plots[0], name)
        assert pytest.approx(means[number, :10]) == line.y
        assert list(range(1, 11)) == list(line.x) == list(found.plots[0].x.ticks or ())
    assert list(RANKERS) == [one.name for one in found.plots[0].marks]


def test_every_ranker_is_compared_with_ranksvm_over_the_queries_of_all_trials() -> None:
    fits = mhr._of_data(STUDY)
    found = mhr.accuracies(STUDY, fits)

    pooled = np.concatenate([made(fit)["test"] for fit in fits], axis=2)
    beside = rows_of(table(found, "Beside RSVM"))
    assert 3 * 6 == len(beside)
    for at in (0, 9, 10):
        for number, name in enumerate(NAMES[1:], 1):
            row = beside[f"{name} beside RSVM, {METRICS[at]}"]
            assert pytest.approx([pooled[number, at].mean(), pooled[0, at].mean()]) == row[:2]
    first, second = found.sentences
    for number, name in ((1, "MHR-BC"), (2, "MHR-WBC")):
        assert verdict_of(Pair(f"{name}, ndcg@10", pooled[number, 9], pooled[0, 9])) in first
    assert "averaged" not in first
    assert "base ranker" not in first
    best = max(range(3), key=lambda base: float(pooled[4 + base, 9].mean()))
    assert f"base ranker {PAIRS[best]} is the best by NDCG@10" in second
    assert verdict_of(Pair("Borda count", pooled[1, 9], pooled[4 + best, 9])) in second


def test_weights_and_choices_stand_trial_by_trial() -> None:
    fits = mhr._of_data(STUDY)
    found = mhr.accuracies(STUDY, fits)

    for title, key in (("Weights", "weights"), ("C chosen", "chosen")):
        assert {number: made(fit)[key].tolist() for number, fit in enumerate(fits, 1)} == rows_of(
            table(found, title)
        )
    assert 4 == len(fits)


def test_a_gain_over_nothing_is_none() -> None:
    assert 0.0 == mhr._relative(0.5, 0.0)
    assert pytest.approx(25.0) == mhr._relative(0.5, 0.4)


# ------------------------------------------------------------------------------------------------ Tables 5, 6, 7


def cosine(one: Any, other: Any) -> float:
    return float(one @ other / np.sqrt((one @ one) * (other @ other)))


def test_cosines_are_of_every_two_hyperplanes_in_every_trial() -> None:
    found = mhr.directions(STUDY)

    names = ["RSVM", *PAIRS]
    for (which, trials), shown, one, sentence in zip(
        both(), found.tables, found.plots, found.sentences, strict=True
    ):
        assert which in shown.title
        rows = rows_of(shown)
        trial, half = mark(one, "trials"), mark(one, "two halves of the training queries")
        categories = list(one.x.categories or ())
        assert list(rows) == categories
        assert 6 + 4 == len(rows)
        for a, b in combinations(range(4), 2):
            name = f"{names[a]} and {names[b]}"
            each = [cosine(fit["normals"][a], fit["normals"][b]) for fit in trials]
            across = [
                (cosine(fit["halves"][0, a], fit["halves"][1, b]) + cosine(fit["halves"][0, b], fit["halves"][1, a])) / 2
                for fit in trials
            ]  # fmt: skip
            expected = [*each, np.mean(each), max(each) - min(each), np.mean(across)]
            assert pytest.approx(expected) == rows[name]
            at = categories.index(name)
            assert at == trial.x[at] == half.x[at]
            for dots, values in ((trial, each), (half, across)):
                shown_here = [dots.y[at], dots.low[at], dots.high[at]]
                assert pytest.approx([np.mean(values), min(values), max(values)]) == shown_here
        for a, name in enumerate(names):
            own = [cosine(fit["halves"][0, a], fit["halves"][1, a]) for fit in trials]
            assert pytest.approx([1, 1, 1, 1, 1, 0, np.mean(own)]) == rows[f"{name} with itself"]
            at = categories.index(f"{name} with itself")
            assert [1.0, 1.0, 1.0] == [trial.y[at], trial.low[at], trial.high[at]]
            assert pytest.approx([np.mean(own), min(own), max(own)]) == [
                half.y[at],
                half.low[at],
                half.high[at],
            ]
        extreme = rows["(2,3) and (1,2)"][-3]
        chance = (rows["(2,3) with itself"][-1] + rows["(1,2) with itself"][-1]) / 2
        assert f"have a cosine of {extreme:.2f}; each of them has {chance:.2f}" in sentence
        # A cosine of one is a dot that is still within the drawing.
        assert one.y.high is not None
        assert 1.0 < one.y.high < 1.1
        assert one.sideways
        assert [f"trial {number}" for number in range(1, 5)] == list(shown.header[1:5])


def test_errors_of_order_are_means_over_trials_on_training_and_on_test_queries() -> None:
    found = mhr.errors(STUDY)

    for (which, trials), shown, one, sentence in zip(
        both(), found.tables, found.plots, found.sentences, strict=True
    ):
        means = np.mean([fit["errors"] for fit in trials], axis=0)
        rows = rows_of(shown, keys=2)
        assert 2 * 8 == len(rows)
        for part, where in enumerate(("training", "test")):
            for number, name in enumerate(NAMES):
                assert pytest.approx(means[number, :, part]) == rows[where, name]
            each = [rows[where, f"base ranker {pair}"][at] for at, pair in enumerate(PAIRS)]
            assert each == rows[where, "each base ranker on its own pair"]
            assert pytest.approx(means[0, :, part]) == list(mark(one, f"RSVM, {where}").y)
            assert each == list(mark(one, f"base rankers, {where}").y)
            assert pytest.approx(means[1, :, part]) == list(mark(one, f"Borda count, {where}").y)
            apart = ", ".join(
                f"{a - b:+.3f} {pair}" for a, b, pair in zip(each, means[0, :, part], PAIRS, strict=True)
            )
            assert f"{apart} on {where} queries" in sentence
        borda = ", ".join(
            f"{a - b:+.3f} {p}" for a, b, p in zip(means[1, :, 1], means[0, :, 1], PAIRS, strict=True)
        )
        assert f"which is what ranks: {borda} on test queries" in sentence
        assert sentence.startswith(which)
        assert one.y.zero


def test_times_are_summed_over_base_rankers() -> None:
    found = mhr.times(STUDY)

    rows = rows_of(found.tables[0], keys=2)
    assert 8 == len(rows)
    for (which, trials), sentence in zip(both(), found.sentences, strict=True):
        sums, plain = [], []
        for number, fit in enumerate(trials, 1):
            own, *base = fit["seconds"].tolist()
            each = ", ".join(f"{pair} {one:.3f}" for pair, one in zip(PAIRS, base, strict=True))
            assert pytest.approx([sum(base), own]) == rows[which, number][1:]
            assert each == rows[which, number][0]
            sums.append(sum(base))
            plain.append(own)
        assert pytest.approx(sums) == list(mark(found.plots[0], f"MHR, {which}").y)
        assert pytest.approx(plain) == list(mark(found.plots[0], f"RSVM, {which}").y)
        ratio = np.median([a / b for a, b in zip(sums, plain, strict=True)])
        assert f"{which}: all hyperplanes together cost {ratio:.2f} times" in sentence
    assert found.plots[0].y.log
    assert ["trial 1", "trial 2", "trial 3", "trial 4"] == list(found.plots[0].x.categories or ())


# ------------------------------------------------------------------------------------------------ grades


def test_a_grade_more_is_compared_with_ranksvm_each_time() -> None:
    found = mhr.adding_a_grade(STUDY)

    rows, beside = rows_of(found.tables[0], keys=2), rows_of(found.tables[1])
    same, right = "every step the same way", "every step at right angles to the others"
    assert [(name, grades) for name in (same, right) for grades in (2, 3, 4, 5)] == list(rows)
    for name, turn in ((same, 0.0), (right, 1.0)):
        means: dict[str, list[float]] = {"RSVM": [], "MHR-BC": []}
        for grades in (2, 3, 4, 5):
            trials = [made(fit) for fit in mhr._grade_fits(STUDY, turn, grades)]
            for way, values in means.items():
                values.append(float(np.concatenate([one[way] for one in trials]).mean()))
            # As `made` has it: the first of three grades was not there before, one of four was, four of five were.
            row = rows[name, grades]
            assert pytest.approx([means["RSVM"][-1], means["MHR-BC"][-1]]) == row[:2]
            assert [{2: 1, 3: 3, 4: 6, 5: 10}[grades]] == row[2:3]
            assert {2: 1, 3: 3, 4: 6 - 1, 5: 10 - 4}[grades] == row[3]
            assert pytest.approx(row[:2][::-1]) == beside[f"MHR-BC, {grades} grades, {name}"][:2]
        for way, values in means.items():
            line = mark(found.plots[0], f"{way}, {name}")
            assert (way == "RSVM", [2, 3, 4, 5]) == (line.dashed, list(line.x))
            assert pytest.approx(values) == line.y
    assert [2, 3, 4, 5] == list(found.plots[0].x.ticks or ())
    assert ["MHR-BC, 5 grades" in sentence for sentence in found.sentences] == [True, True]


def test_grades_above_the_judged_ones_count_as_the_highest() -> None:
    """With one grade step the only hyperplane is RankSVM itself; with two, three of them rank by Borda count."""
    rng = np.random.default_rng(0)
    queries = graded(16, 8, 3.0 * turned(3, 1.0, rng, 4), (1, 1, 1, 1), rng)
    fold = Fold(1, queries.select(np.arange(10)), queries.select([]), queries.select(np.arange(10, 16)))

    two, three = mhr.more_grades(fold, 2), mhr.more_grades(fold, 3)

    train, test = (replace(part, labels=(part.labels > 0).astype(float)) for part in (fold.train, fold.test))
    alone = mhr._ranksvm(train, 10.0)
    judged = Judgements(test.labels, test.offsets)
    np.testing.assert_allclose(two["RSVM"], judged.per_query(test.documents @ alone.weights, "ndcg@10"))
    np.testing.assert_array_equal(two["RSVM"], two["MHR-BC"])
    assert (1, 4) == two["normals"].shape
    assert (3, 4) == three["normals"].shape
    np.testing.assert_allclose(two["normals"][0] / np.linalg.norm(two["normals"]), alone.weights / np.linalg.norm(alone.weights), rtol=1e-3)  # fmt: skip
    merged = replace(fold.test, labels=np.minimum(fold.test.labels, 2))
    votes = BordaScorer(tuple(LinearScorer(one, mhr._BLOCKS) for one in three["normals"]), np.ones(3))
    judged = Judgements(merged.labels, merged.offsets)
    expected = judged.per_query(scores_of(votes, mhr._lesson(merged)), "ndcg@10")
    np.testing.assert_allclose(three["MHR-BC"], expected)


def test_the_synthetic_grades_turn_as_their_names_say() -> None:
    """Steps are 1.5 long; between means of neighbouring grades they show, more or less."""
    for turn, expected in ((0.0, 1.0), (1.0, 0.0)):
        folds = mhr._grade_folds(turn, 0)
        queries = everything(folds)
        assert (200, 4000, 12) == (len(queries), queries.n_docs, queries.n_features)
        shares = np.bincount(queries.labels.astype(int)) / queries.n_docs
        np.testing.assert_allclose(shares, [0.4, 0.25, 0.15, 0.12, 0.08], atol=0.025)
        # Within queries, whose places differ.
        places = np.stack([queries.documents_of(q).mean(axis=0) for q in range(200)])[queries.query_of]
        apart = queries.documents - places
        means = np.stack([apart[queries.labels == grade].mean(axis=0) for grade in range(5)])
        steps = np.diff(means, axis=0)
        assert cosine(steps[0], steps[3]) == pytest.approx(expected, abs=0.15)
        assert np.linalg.norm(steps, axis=1) == pytest.approx([1.5] * 4, abs=0.2)


# ------------------------------------------------------------------------------------------------ Figure 1


def one_query(n_docs: int = 15) -> QuerySet:
    """Six queries, of which the one called 5 comes second."""
    rng = np.random.default_rng(4)
    queries = graded(6, n_docs, 3.0 * turned(2, 1.0, rng, 5), (1, 1, 1), rng)
    return replace(queries, query_ids=("9", "5", "1", "2", "3", "4"))


def figure_1_of(queries: QuerySet, **options: Any) -> Any:
    none = queries.select([])
    data = replace(small_data((1,)), folds=(Fold(1, none, none, queries),))
    return mhr.figure_1(study(data, **options))


def test_query_5_is_drawn_in_its_plane() -> None:
    queries = one_query()
    found = figure_1_of(queries)

    own = queries.select([1])
    plane = principal_plane(own.documents.astype(np.float64))
    drawn = found.plots[0]
    assert drawn.equal
    assert "query 5 in two principal coordinates" in drawn.title
    for grade in (0, 1, 2):
        dots = mark(drawn, f"label {grade}")
        np.testing.assert_allclose(np.column_stack([dots.x, dots.y]), plane.coordinates[own.labels == grade])
    lines = [one for one in drawn.marks if one.name.startswith("towards")]
    reach = np.abs(plane.coordinates).max()
    ends = []
    for line, (low, high) in zip(lines, [(0, 1), (0, 2), (1, 2)], strict=True):
        assert f"towards label {high} from {low}" == line.name
        assert not line.dots
        assert [0.0, 0.0] == [line.x[0], line.y[0]]
        ends.append(np.array([line.x[1], line.y[1]]))
        assert np.linalg.norm(ends[-1]) == pytest.approx(reach)
        # It points from the worse grade to the better one.
        means = [plane.coordinates[own.labels == one].mean(axis=0) for one in (low, high)]
        assert (means[1] - means[0]) @ ends[-1] > 0
    rows = rows_of(found.tables[0])
    for a, row in enumerate(rows.values()):
        assert pytest.approx([cosine(ends[a], ends[b]) for b in range(3)]) == row[:3]
        mean, least = row[3:]
        assert -1 <= least <= mean <= 1.0 + 1e-9
        assert mean > 0.5
    assert ["labels 0 and 1", "labels 0 and 2", "labels 1 and 2"] == list(rows)
    least = min(row[number] for row in rows.values() for number in range(3))
    assert f"least cosine between two directions is {least:.2f}" in found.sentences[1]
    average = np.mean([row[3] for row in rows.values()])
    assert f"a direction has {average:.2f} on average" in found.sentences[1]
    assert f"holds {plane.share:.0%} of the variance of the query's 15 documents" in found.sentences[0]
    assert "of 20 drawings" in found.tables[0].caption


@pytest.fixture
def given_normals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is learned."""
    monkeypatch.setattr(mhr, "_normals", lambda _query, _grades: np.array([[1.0, 0], [0, 1], [1, 1]]))


@pytest.mark.usefixtures("given_normals")
def test_there_are_as_many_drawings_as_are_asked_for_if_that_is_more_than_twenty() -> None:
    assert "of 25 drawings" in figure_1_of(one_query(), draws=25).tables[0].caption


@pytest.mark.usefixtures("given_normals")
def test_the_fifth_query_is_drawn_if_none_is_called_5_and_the_last_of_fewer() -> None:
    queries = one_query()

    fifth = figure_1_of(replace(queries, query_ids=("a", "b", "c", "d", "e", "f")))
    last = figure_1_of(replace(queries.select([0, 1, 2]), query_ids=("a", "b", "c")))

    assert "query e " in fifth.plots[0].title
    assert "query c " in last.plots[0].title


def test_a_query_of_one_grade_has_no_hyperplane_and_one_of_two_has_one() -> None:
    queries = one_query()
    with pytest.raises(
        InvalidData, match="query '5': expected documents of different grades, found one grade"
    ):
        figure_1_of(replace(queries, labels=np.zeros(queries.n_docs)))

    found = figure_1_of(replace(queries, labels=np.minimum(queries.labels, 1)))

    assert ["labels 0 and 1"] == list(rows_of(found.tables[0]))


def test_a_direction_that_no_drawing_shows_again_is_its_own() -> None:
    """Of one document of a grade among many, some drawings have none; of two documents, all may have one grade."""
    queries = one_query(2)
    labels = np.tile([0.0, 1.0], 6)
    (row,) = figure_1_of(replace(queries, labels=labels)).tables[0].rows

    assert pytest.approx([1.0, 1.0, 1.0]) == list(row[1:])


# ------------------------------------------------------------------------------------------------ one trial


@pytest.fixture(scope="module")
def fold() -> Fold:
    rng = np.random.default_rng(1)
    queries = graded(24, 9, 2.0 * turned(2, 1.0, rng, 5), (5, 3, 2), rng)
    return Fold(1, queries.select(np.arange(18)), queries.select([]), queries.select(np.arange(18, 24)))


@pytest.fixture(scope="module")
def trial(fold: Fold) -> Arrays:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mhr, "STRENGTHS", (1.0,))
        return mhr.trial(fold)


def ordered_wrongly(queries: QuerySet, scores: Any, low: float, high: float) -> float:
    wrong = []
    for query in range(len(queries)):
        labels, own = queries.labels_of(query), scores[queries.span(query)]
        wrong += [0.5 * (a == b) + (a > b) for a in own[labels == low] for b in own[labels == high]]
    return float(np.mean(wrong))


def test_a_trial_measures_what_its_normals_rank(fold: Fold, trial: Arrays) -> None:
    """RSVM and the base rankers are linear on features scaled within every query."""
    train, test = mhr._seen(fold)
    assert (7, 11, 6) == trial["test"].shape
    assert (7, 3, 2) == trial["errors"].shape
    assert [0.0, 1.0, 2.0] == trial["grades"].tolist()
    for number, normal in zip((0, 4, 5, 6), trial["normals"], strict=True):
        for part, queries in enumerate((train, test)):
            scores = queries.documents @ normal
            expected = [ordered_wrongly(queries, scores, *pair) for pair in combinations((0.0, 1.0, 2.0), 2)]
            np.testing.assert_allclose(trial["errors"][number, :, part], expected)
        judged = Judgements(test.labels, test.offsets)
        for at in (0, 9):
            expected_ = judged.per_query(test.documents @ normal, METRICS[at])
            np.testing.assert_allclose(trial["test"][number, at], expected_)
    assert (4,) == trial["seconds"].shape
    assert (trial["seconds"] >= 0).all()
    assert pytest.approx(1.0) == trial["weights"].sum()


def test_halves_are_every_other_training_query(fold: Fold, trial: Arrays) -> None:
    train, _ = mhr._seen(fold)

    for which, start in enumerate((0, 1)):
        half = train.select(list(range(start, 18, 2)))
        expected = mhr._ranksvm(half, trial["chosen"][0]).weights
        np.testing.assert_allclose(trial["halves"][which, 0], expected)
        base = mhr._hyperplanes(half, trial["chosen"][1])
        np.testing.assert_allclose(trial["halves"][which, 1:], [one.weights for one in base])


def test_the_strength_is_that_of_the_best_ndcg_on_queries_left_out(
    fold: Fold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one of three strengths ranks by the feature that is relevance; of equal ones the smaller is taken."""
    train = replace(
        fold.train, documents=np.column_stack([fold.train.labels, 2 - fold.train.labels]).astype(np.float32)
    )
    monkeypatch.setattr(mhr, "STRENGTHS", (0.1, 1.0, 10.0))

    def plain(_queries: QuerySet, strength: float) -> LinearScorer:
        return LinearScorer(np.array([0.0, 1.0] if strength == 0.1 else [1.0, 0.0]), mhr._BLOCKS)

    def planes(_queries: QuerySet, strength: float) -> list[LinearScorer]:
        return [LinearScorer(np.array([1.0, 0.0] if strength == 10 else [0.0, 1.0]), mhr._BLOCKS)]

    monkeypatch.setattr(mhr, "_ranksvm", plain)
    monkeypatch.setattr(mhr, "_hyperplanes", planes)

    chosen = mhr._chosen(train)

    assert {"RSVM": 1.0, "MHR-BC": 10.0, "MHR-WBC": 10.0, "MHR, scores averaged": 10.0} == chosen


def test_rankers_are_aggregated_by_places_by_fitted_weights_and_by_scores(fold: Fold) -> None:
    train, _ = mhr._seen(fold)
    base = mhr._hyperplanes(train, 1.0)

    borda, weighted, averaged = (mhr._aggregated(train, name, base) for name in RANKERS[1:])

    assert isinstance(borda, BordaScorer)
    assert isinstance(weighted, BordaScorer)
    assert isinstance(averaged, BordaScorer)
    np.testing.assert_allclose(borda.weights, [1 / 3] * 3)
    np.testing.assert_allclose(averaged.weights, [1 / 3] * 3)
    assert ["borda", "borda", "scores"] == [one.rule for one in (borda, weighted, averaged)]
    assert base[0] is mhr._aggregated(train, "MHR-WBC", base[:1])


def test_no_pairs_have_no_share_and_seconds_are_the_median_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 5.0, 5.0, 6.0, 6.0, 8.0])
    monkeypatch.setattr("time.process_time", lambda: next(clock))
    done: list[int] = []

    assert 2.0 == mhr._median_seconds(lambda: done.append(1))

    assert [1, 1, 1] == done
    assert np.isnan(mhr._share((0.0, 0)))
    assert 0.25 == mhr._share((1.0, 4))


# ------------------------------------------------------------------------------------------------ catalogue


def test_plans_name_every_fit_that_a_report_reads() -> None:
    for one in mhr.EXPERIMENTS:
        read: set[tuple[Any, ...]] = set()

        def known(fit: Fit) -> tuple[Any, ...]:
            assert fit.fold is not None
            return (fit.work.__name__, fit.fold.number, fit.fold.test.n_docs, str(fit.settings))

        def watched(fit: Fit, read: set[tuple[Any, ...]] = read) -> Arrays:
            read.add(known(fit))
            return made(fit)

        if one.name != "mhr-fig1":
            one.find(study(small_data((9, 6)), watched))

        assert {known(fit) for fit in one.plan(STUDY)} == read, one.name
        assert (one.name not in {"mhr-fig3", "mhr-table4", "mhr-grades"}) == one.needs_data
        assert bool(one.synthetic) != one.needs_data
