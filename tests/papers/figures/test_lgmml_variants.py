"""What is timed of L-GMML and of other learners: every list of the test queries, in every round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank_papers.figures import lgmml_variants
from localrank_papers.figures.folds import Fold
from localrank_papers.figures.lgmml_variants import by_column_norm, scoring_seconds
from localrank_training.learners.catalogue import make
from localrank_training.learners.seen import scores_of
from tests.training.kinds import two_kinds

if TYPE_CHECKING:
    from localrank_training.learners.lesson import Lesson

QUERIES = two_kinds(14, 8)
FOLD = Fold(
    1,
    QUERIES.select(np.arange(8)),
    QUERIES.select(np.arange(8, 11)),
    QUERIES.select(np.arange(11, 14)),
)


def test_scoring_takes_the_least_time_of_all_rounds_per_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list takes 8 s in the first round, 4 in the second and 16 in the third; there are three lists of 8 documents."""
    clock, scored = [0.0], [0]

    def slowly(scorer: Any, exam: Lesson) -> Any:
        if len(exam.queries) == 1:
            clock[0] += (8.0, 4.0, 16.0)[scored[0] // 3]
            scored[0] += 1
        return scores_of(scorer, exam)

    monkeypatch.setattr(lgmml_variants, "scores_of", slowly)
    monkeypatch.setattr("time.process_time", lambda: clock[0])

    found = scoring_seconds(FOLD, sizes=[1, 2], learners={"ranksvm": {"C": 1.0}}, repeats=3, seed=0)

    assert 9 == scored[0]
    assert [3 * 4.0 / 24] == found["others"].tolist()
    assert [0.0, 0.0] == found["lgmml"].tolist()


def test_a_learner_without_settings_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="settings: expected at least one"):
        lgmml_variants.alone(FOLD, learner="ranksvm", settings=[], convention="standard")


def test_of_equally_good_settings_the_first_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []

    def noted(learner: str, values: Any) -> Any:
        made.append(dict(values))
        return make(learner, values)

    monkeypatch.setattr(lgmml_variants, "make", noted)
    monkeypatch.setattr(lgmml_variants, "scores_of", lambda _scorer, exam: np.zeros(exam.queries.n_docs))

    scorer, _, _ = lgmml_variants._best(FOLD, "ranksvm", [{"C": 0.1}, {"C": 10.0}])
    alone, _, _ = lgmml_variants._best(FOLD, "ranksvm", [{"C": 0.1}])

    np.testing.assert_array_equal(alone.weights, scorer.weights)  # type: ignore[attr-defined]
    assert {"C": 10.0} in made


def test_noise_is_drawn_by_seed_columns_and_fold() -> None:
    learned: list[Any] = []

    class Stopped(Exception):
        pass

    def keep(fold: Fold, **_settings: Any) -> None:
        learned.append([part.documents for part in (fold.train, fold.validation, fold.test)])
        raise Stopped

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lgmml_variants, "alone", keep)
        for number, columns, seed in ((1, 2, 0), (1, 2, 0), (2, 2, 0), (1, 2, 1)):
            fold = Fold(number, FOLD.train, FOLD.validation, FOLD.test)
            with pytest.raises(Stopped):
                lgmml_variants.noisy(
                    fold, learner="ranksvm", settings=[{}], columns=columns, convention="standard", seed=seed
                )

    first, again, fold_2, seed_1 = learned
    for one, other, part in zip(first, again, (FOLD.train, FOLD.validation, FOLD.test), strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(part.documents, one[:, :5])
        assert 7 == one.shape[1]
        assert (0 <= one[:, 5:]).all()
        assert (one[:, 5:] < 1).all()
    for other in (fold_2, seed_1):
        assert not np.array_equal(first[0], other[0])


def test_columns_are_divided_by_the_norms_of_other_queries() -> None:
    test, train = FOLD.test, FOLD.train
    norms = np.sqrt((train.documents.astype(np.float64) ** 2).sum(axis=0))

    np.testing.assert_allclose(test.documents / norms, by_column_norm(test, train).documents, rtol=1e-6)

    empty = test.with_documents(np.zeros_like(test.documents))
    np.testing.assert_array_equal(empty.documents, by_column_norm(empty).documents)
