from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.__main__ import main
from localrank.artifact import load
from localrank.errors import InvalidData
from localrank.metrics import Judgements
from localrank.points.signature import choose_components
from localrank.scorers import SumScorer, TreesScorer
from localrank_training.data.queries import concatenated
from localrank_training.data.reading import read
from localrank_training.data.writing import write
from localrank_training.grouping import representations
from localrank_training.learners.ranksvm import RankSvm
from localrank_training.report.figures import report_of
from localrank_training.report.terminal import of_run
from localrank_training.run import choosing
from localrank_training.run.pipeline import Plan, build, plan_of
from localrank_training.run.train import journal_in, train
from localrank_training.settings.config import TrainingConfig
from localrank_training.settings.steps import SelectionSettings
from tests.training.kinds import two_kinds

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_training.data.queries import QuerySet


def config(**tables: object) -> TrainingConfig:
    plain = {
        "contract": {"normalise": "none"},
        "representation": {"components": 1},
        "clustering": {"clusters": 2},
        "learner": {"C": 1.0},
    }
    return TrainingConfig.from_tables({**plain, **tables})


def test_a_model_without_clusters_is_told_beside_the_clusters_that_were_tried() -> None:
    alike = two_kinds(40).select(range(0, 40, 2))
    learner = {"method": "linear", "ridge": 0.1}

    report = report_of(train(alike, config(clustering={"candidates": [1, 2]}, learner=learner)))

    one, two = (trial.value for trial in report.trials)
    assert one >= two
    expected = f"verdict: one global model; ndcg@10 {one:.4f}, the best model with clusters: {two:.4f}"
    assert expected == str(report.verdict)
    assert ("settings", "ndcg@10", "") in [table.header for table in of_run(report)]


def test_the_number_of_clusters_is_chosen_by_held_out_queries() -> None:
    trained = train(two_kinds(40), config(clustering={"candidates": [1, 2]}))

    assert 2 == trained.config.clustering.clusters
    assert 2 == len(trained.built.ranker.scorers)
    assert [("clusters = 1", False), ("clusters = 2", True)] == [
        (t.setting, t.chosen) for t in trained.trials
    ]
    assert trained.trials[1].value > trained.trials[0].value


def test_cross_validation_holds_every_query_out_once() -> None:
    queries = two_kinds(23)

    held_out = train(queries, config()).held_out

    assert sorted(queries.query_ids) == sorted(held_out.queries.query_ids)
    assert 23 == len(held_out.ranked.routes)
    assert len(held_out.ranked.scores) == len(held_out.ranked.global_scores) == queries.n_docs


def test_cross_validated_scores_come_from_models_that_did_not_see_the_query() -> None:
    queries = two_kinds(10)
    settings = config(selection={"folds": 2})

    held_out = train(queries, settings).held_out

    exam = held_out.queries.select(np.arange(5))
    lesson = queries.select([q for q in range(10) if queries.query_ids[q] not in exam.query_ids])
    ranker = build(lesson, settings, RankSvm(C=1.0)).ranker
    expected = np.concatenate([ranker.rank(documents).scores for documents in exam.clouds()])
    np.testing.assert_allclose(expected, held_out.ranked.scores[: exam.n_docs], rtol=1e-5)


@pytest.mark.parametrize("order", [1, -1])
def test_the_better_learner_is_chosen_wherever_it_stands(order: int) -> None:
    queries, validation = two_kinds(8), two_kinds(40, seed=5)
    values = {}
    for C in (0.01, 1.0):
        only = train(queries, config(learner={"C": C}), validation=validation).held_out
        judged = Judgements(only.queries.labels, only.queries.offsets)
        values[C] = judged.per_query(only.ranked.scores, "ndcg@10").mean()
    assert values[0.01] != values[1.0]

    choices = list(values)[::order]
    trained = train(queries, config(learner={"C": choices}), validation=validation)

    assert max(values, key=lambda C: values[C]) == trained.learner.C  # type: ignore[attr-defined]


def test_choices_of_the_same_clusters_share_one_plan_and_all_of_a_split_its_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned: list[Plan] = []
    represented: list[int] = []

    def counted(*arguments: Any) -> Plan:
        planned.append(plan_of(*arguments))
        return planned[-1]

    def choose(spectra: list[Any], *arguments: Any) -> int:
        represented.append(len(spectra))
        return choose_components(spectra, *arguments)

    monkeypatch.setattr(choosing, "plan_of", counted)
    monkeypatch.setattr(representations, "choose_components", choose)
    queries, folds = two_kinds(20), {"folds": 2}
    tables = {"clustering": {"candidates": [2, 3, 4]}, "selection": folds, "representation": {"share": 0.8}}

    trained = train(queries, config(learner={"C": [0.1, 1.0]}, **tables))

    assert [2, 2, 3, 3, 4, 4] == [len(plan.clustering) for plan in planned]
    assert [10, 10, 20] == represented
    for size in (2, 3, 4):
        alone = train(
            queries, config(learner={"C": [0.1, 1.0]}, **{**tables, "clustering": {"clusters": size}})
        )
        here = [trial.value for trial in trained.trials if trial.setting.endswith(f"clusters = {size}")]
        assert [trial.value for trial in alone.trials] == here


@pytest.mark.parametrize("validation", [None, two_kinds(8, seed=5)])
def test_the_global_scorer_is_learned_from_all_training_queries(validation: QuerySet | None) -> None:
    queries = two_kinds(12)

    trained = train(queries, config(selection={"refit": False}), validation=validation)

    expected = build(queries, config(), RankSvm(C=1.0)).ranker.global_scorer
    ranker = trained.built.ranker
    cloud = ranker.contract.cloud(queries.documents_of(0))
    np.testing.assert_allclose(expected.score(cloud), ranker.global_scorer.score(cloud), rtol=1e-9)


def test_the_result_does_not_depend_on_the_number_of_workers() -> None:
    settings = config(clustering={"candidates": [1, 2]}, learner={"C": [0.1, 1.0]}, selection={"folds": 3})

    alone, together = (train(two_kinds(), settings, workers=workers) for workers in (1, 2))

    assert alone.trials == together.trials
    np.testing.assert_array_equal(alone.held_out.ranked.scores, together.held_out.ranked.scores)


def test_validation_queries_need_the_same_features() -> None:
    queries = two_kinds()

    with pytest.raises(InvalidData, match="other features"):
        train(queries, config(), validation=queries.with_documents(queries.documents[:, :4]))


def test_validation_queries_that_were_learned_from_are_counted_and_told() -> None:
    queries, validation = two_kinds(), two_kinds(seed=1)
    mixed = replace(
        validation.select(range(6)),
        documents=np.concatenate([validation.documents[: 4 * 15], queries.documents[6 * 15 : 8 * 15]]),
        labels=np.concatenate([validation.labels[: 4 * 15], queries.labels[6 * 15 : 8 * 15]]),
    )

    apart, shared = (train(queries, config(), validation=others) for others in (validation, mixed))

    assert (0, 2) == (apart.held_out.learned_from, shared.held_out.learned_from)
    assert not [note for note in report_of(apart).notes if "also training queries" in note]
    assert report_of(shared).notes[0].startswith("2 of 6 validation queries are also training queries")


@pytest.mark.parametrize("learner", ["linear", "blend"])
def test_labels_that_are_equal_in_every_query_are_refused_before_any_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learner: str
) -> None:
    queries = two_kinds(12)
    write(replace(queries, labels=np.repeat(np.arange(12.0), queries.lengths)), tmp_path / "equal.txt")
    monkeypatch.setattr(choosing, "in_parallel", None)
    monkeypatch.setattr("localrank_training.run.blended.cross_fit", None)
    expected = (
        rf"equal\.txt: expected two documents of one query with different labels, found none in 12 queries of "
        rf"{queries.n_docs} documents$"
    )

    with pytest.raises(InvalidData, match=expected):
        train(read(tmp_path / "equal.txt"), TrainingConfig.from_tables({"learner": {"method": learner}}))


def test_a_single_query_cannot_be_cross_validated() -> None:
    with pytest.raises(InvalidData, match="at least 2 queries to train on, found 1"):
        train(two_kinds(1), config())


def test_a_held_out_query_belongs_to_the_cluster_of_the_final_ranker() -> None:
    queries = two_kinds(23)

    trained = train(queries, config())

    positions = [queries.query_ids.index(query_id) for query_id in trained.held_out.queries.query_ids]
    np.testing.assert_array_equal(trained.built.clusters[positions], trained.held_out.clusters)


class TestRefit:
    """After choosing, validation queries are learned from as well."""

    def test_the_ranker_is_that_of_all_queries(self) -> None:
        queries, validation = two_kinds(12), two_kinds(8, seed=5)

        trained = train(queries, config(), validation=validation)

        everything = concatenated([queries, validation])
        expected = build(everything, config(), RankSvm(C=1.0))
        assert everything.query_ids == trained.queries.query_ids
        np.testing.assert_array_equal(expected.clusters, trained.built.clusters)
        np.testing.assert_array_equal(expected.clusters[12:], trained.held_out.clusters)
        for documents in everything.clouds():
            np.testing.assert_array_equal(
                expected.ranker.rank(documents).scores, trained.built.ranker.rank(documents).scores
            )

    def test_the_figures_are_of_models_that_had_not_seen_the_validation_queries(self) -> None:
        queries, validation = two_kinds(12), two_kinds(8, seed=5)

        refitted, published = (
            train(queries, config(selection={"refit": refit}), validation=validation)
            for refit in (True, False)
        )

        np.testing.assert_array_equal(refitted.held_out.ranked.scores, published.held_out.ranked.scores)
        (said,) = [
            note for note in report_of(refitted).notes if note.startswith("the figures come from models")
        ]
        assert "8 validation queries" in said
        assert not [
            note for note in report_of(published).notes if note.startswith("the figures come from models")
        ]

    @pytest.mark.parametrize("both", [[0, 1], [3, 8]])
    def test_a_query_that_is_in_both_is_learned_from_once(self, both: list[int]) -> None:
        queries = two_kinds(12)
        validation = concatenated([two_kinds(6, seed=5), queries.select(both)])

        trained = train(queries, config(), validation=validation)

        assert 18 == len(trained.queries)
        np.testing.assert_array_equal(trained.held_out.clusters[-2:], trained.built.clusters[both])

    def test_boosting_repeats_the_rounds_that_validation_queries_chose(self) -> None:
        queries, validation = two_kinds(12), two_kinds(12, seed=5)
        settings = config(
            clustering={"method": "none"},
            learner={"method": "lambdamart", "members": 2, "num_iterations": 40, "min_data_in_leaf": 5},
        )

        trained = train(queries, settings, validation=validation)

        scorer = trained.built.ranker.global_scorer
        assert isinstance(scorer, TreesScorer)
        (stopped,) = [
            train(queries, settings.replace(selection=SelectionSettings(refit=False)), validation=validation)
        ]
        early = stopped.built.ranker.global_scorer
        assert isinstance(early, TreesScorer)
        assert 0 < early.n_trees < 80
        assert 2 * round(early.n_trees / 2) == scorer.n_trees

    def test_clusters_repeat_their_own_rounds(self) -> None:
        queries, validation = two_kinds(24), two_kinds(40, seed=5)
        settings = config(
            clustering={"clusters": 2, "continuation": True},
            learner={"method": "gbrt", "members": 1, "num_iterations": 60, "min_data_in_leaf": 5},
        )

        refitted, stopped = (
            train(
                queries,
                settings.replace(selection=SelectionSettings(refit=refit)),
                validation=validation,
            )
            for refit in (True, False)
        )

        rounds = [note.figures["rounds"] for note in stopped.built.learned]
        assert 2 == len(rounds)
        for scorer in refitted.built.ranker.scorers:
            assert isinstance(scorer, SumScorer)
            correction = scorer.rankers[1]
            assert isinstance(correction, TreesScorer)
            assert max(1, round(sum(rounds) / 2)) == correction.n_trees


def test_one_global_model_wins_if_there_is_one_kind() -> None:
    """With equal values the fewer clusters are taken, and then there is nothing to route."""
    queries = two_kinds(20)
    easy = replace(
        queries, labels=(queries.documents[:, 0] > np.median(queries.documents[:, 0])).astype(float)
    )

    trained = train(easy, config(clustering={"candidates": [1, 2]}, learner={"C": 1000.0}))

    assert trained.trials[0].value == trained.trials[1].value
    assert "none" == trained.config.clustering.method
    assert () == trained.built.ranker.scorers


class Stop(Exception):
    """What stops a run."""


LINEAR = {"method": "linear", "blocks": "zscore", "ridge": [0.03, 0.3]}
BLEND = {
    "clustering": {"method": "none"},
    "learner": {"method": "blend", "members": [LINEAR, {"method": "ranksvm", "blocks": "minmax"}]},
}
OPEN = {"clustering": {"candidates": [1, 2]}, "learner": {"C": [0.1, 1.0]}, "selection": {"folds": 3}}


@pytest.mark.parametrize("tables", [OPEN, {**OPEN, "guard": {"learn": True}}, BLEND])
@pytest.mark.parametrize("validation", [None, two_kinds(8, seed=5)])
@pytest.mark.parametrize("after", [1, 4, 7])
def test_a_stopped_run_goes_on_where_it_was(
    tmp_path: Path, tables: dict[str, Any], validation: QuerySet | None, after: int
) -> None:
    """The same bits, and nothing that is known is done again."""
    queries, settings = two_kinds(), config(**tables)
    whole = train(queries, settings, validation=validation)
    done = 0

    def stop(task: str, *_: int) -> None:
        nonlocal done
        done += task in {"held-out models", "members, in planned CPU seconds"}
        if done > after:
            raise Stop

    with suppress(Stop):
        train(
            queries,
            settings,
            validation=validation,
            journal=journal_in(tmp_path, queries, settings, validation),
            progress=stop,
        )
    journal = journal_in(tmp_path, queries, settings, validation)
    before = journal.path.read_text()

    resumed = train(queries, settings, validation=validation, journal=journal)

    assert min(after, len(before.splitlines())) <= journal.known
    kept = journal.path.read_text()
    assert kept.startswith(before)
    assert len(kept.splitlines()) == len(set(kept.splitlines()))
    assert whole.trials == resumed.trials
    assert whole.config.to_json() == resumed.config.to_json()
    np.testing.assert_array_equal(whole.held_out.ranked.scores, resumed.held_out.ranked.scores)
    assert whole.held_out.ranked.routes == resumed.held_out.ranked.routes
    for documents in queries.clouds():
        np.testing.assert_array_equal(
            whole.built.ranker.rank(documents).scores, resumed.built.ranker.rank(documents).scores
        )


def test_other_data_and_other_settings_have_another_journal(tmp_path: Path) -> None:
    queries, validation, settings = two_kinds(), two_kinds(8, seed=5), config()

    paths = {
        journal_in(tmp_path, *parts).path
        for parts in (
            (queries, settings),
            (two_kinds(seed=1), settings),
            (queries, config(seed=1)),
            (queries, settings, validation),
            (queries, settings, two_kinds(9, seed=5)),
        )
    }

    assert 5 == len(paths)
    assert not any(tmp_path.iterdir())


def test_a_killed_process_is_continued_by_the_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(two_kinds(40), tmp_path / "data.txt")
    arguments = ["train", str(tmp_path / "data.txt"), "--method", "localrank", "--workers", "1"]
    killed, whole = ([*arguments, "--models-dir", str(tmp_path / name)] for name in ("killed", "whole"))
    process = subprocess.Popen([sys.executable, "-m", "localrank", *killed])
    try:
        while not (found := [*(tmp_path / "killed").rglob(".training-*")]) or not found[0].stat().st_size:
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    assert not [*(tmp_path / "killed").rglob("manifest.json")]

    assert (0, 0) == (main(killed), main(whole))

    assert capsys.readouterr().err.startswith("continuing a run that was stopped: ")
    assert not [*(tmp_path / "killed").rglob(".training-*")]
    one, two = (load(tmp_path / name / "model" / "1").ranker for name in ("killed", "whole"))
    for documents in two_kinds(6, seed=2).clouds():
        assert one.rank(documents).scores.tolist() == two.rank(documents).scores.tolist()
