"""The comparison of the default with what a user would train instead: its gates, its log, its resuming."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from benchmarks import contestants, quality
from benchmarks.contestants import CONTESTANTS, Answer, figures_of
from benchmarks.folds import shuffled
from benchmarks.quality import MOST_OPENINGS, Outcome, answer_all, gates, opening, outcome_of, rows_of
from localrank_training.data.synthetic import Recipe, synthesize

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from localrank.arrays import Vector
    from localrank_training.data.queries import QuerySet

BASELINES = ("global", "lambdamart", "lightgbm", "catboost", "better")


def made_up(ahead: Mapping[str, float], n_queries: int = 400) -> dict[str, dict[str, Vector]]:
    """Return figures of two sets in which the default is so much ahead of each baseline."""
    rng = np.random.default_rng(0)
    sets = {}
    for name in ("one", "two"):
        mine = rng.normal(0.5, 0.2, (2, n_queries))
        noise = rng.normal(0, 0.01, (2, n_queries))
        sets[name] = {"auto": mine} | {
            baseline: mine - ahead.get(baseline, 0.01) + noise - noise.mean(axis=1, keepdims=True)
            for baseline in BASELINES
        }
    return sets


def missed(figures: Mapping[str, Mapping[str, Vector]]) -> list[str]:
    return [gate.text for gate in gates(figures) if not gate.holds]


def test_a_default_that_is_ahead_everywhere_passes() -> None:
    assert not missed(made_up({}))


@pytest.mark.parametrize(
    ("baseline", "ahead", "said"),
    [
        ("catboost", -0.004, "map against catboost: -0.0040"),
        ("global", 0.001, "at least +0.003"),
        ("better", -0.0005, "not below 0"),
        ("lightgbm", -0.01, "no set worse than lightgbm after Holm: one map -0.0100"),
    ],
)
def test_each_gate_can_be_missed(baseline: str, ahead: float, said: str) -> None:
    found = missed(made_up({baseline: ahead}))

    assert any(said in text for text in found)
    assert all(baseline in text for text in found)


def test_level_is_good_enough_beside_all_but_ranksvm() -> None:
    assert not missed(made_up(dict.fromkeys(("lambdamart", "lightgbm", "catboost", "better"), 1e-4)))


def test_who_has_not_answered_is_no_pass() -> None:
    figures = made_up({})
    del figures["two"]["catboost"]

    assert missed(figures) == ["catboost has answered on 1 of 2 sets"]


def test_shuffled_lists_hold_the_same_documents_in_an_order_that_says_nothing() -> None:
    queries = synthesize(60, Recipe(features=4))[0]
    by_label = np.lexsort((-queries.labels, queries.query_of))
    queries = replace(queries, documents=queries.documents[by_label], labels=queries.labels[by_label])

    found = shuffled(queries)

    for query in range(len(queries)):
        before = np.column_stack([queries.documents_of(query), queries.labels_of(query)])
        after = np.column_stack([found.documents_of(query), found.labels_of(query)])
        np.testing.assert_array_equal(np.unique(before, axis=0), np.unique(after, axis=0))
    alike = np.zeros(queries.n_docs)
    by_chance = figures_of(queries, np.random.default_rng(0).random(queries.n_docs)).mean()
    assert figures_of(queries, alike).mean() == 1.0
    assert figures_of(found, alike).mean() == pytest.approx(by_chance, abs=0.06)


def splits_of(queries: QuerySet) -> Iterator[quality.Split]:
    for first in (0, 3):
        parts = [queries.select(np.arange(12)[(np.arange(12) + first) % 3 == part]) for part in range(3)]
        yield quality.Split(*parts)


def test_answers_are_kept_and_asked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = synthesize(12, Recipe(features=4))[0]
    asked = []

    def knowing(_lesson: QuerySet, _validation: QuerySet, held_out: QuerySet) -> Answer:
        asked.append(len(held_out))
        return Answer(held_out.labels.copy(), 1.0, 0.5)

    def wrong(_lesson: QuerySet, _validation: QuerySet, held_out: QuerySet) -> Answer:
        return Answer(-held_out.labels, 1.0, 0.4)

    monkeypatch.setattr(quality, "splits", lambda *_: splits_of(queries))
    monkeypatch.setattr(
        quality, "CONTESTANTS", {"auto": knowing, "global": wrong, "lambdamart": knowing, "catboost": wrong}
    )

    for _ in range(2):
        answer_all("opened", ["OHSUMED"], ["auto", "global", "lambdamart"], tmp_path)

    assert asked == [4] * 4
    outcome = outcome_of(tmp_path, "opened", "OHSUMED")
    assert set(outcome.scores) == {"auto", "global", "lambdamart", "better"}
    np.testing.assert_array_equal(outcome.scores["better"], outcome.scores["lambdamart"])
    rows = {row["contestant"]: row for row in rows_of({"OHSUMED": outcome}) if row["set"] == "pooled"}
    assert rows["auto"]["map"] == 1.0
    assert rows["global"]["map difference"] == pytest.approx(1 - rows["global"]["map"])
    assert rows["better"]["ndcg@10 difference"] == 0.0


def test_an_exam_that_another_process_sits_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = synthesize(12, Recipe(features=4))[0]
    monkeypatch.setattr(quality, "splits", lambda *_: splits_of(queries))
    inside: list[str] = []

    def asks_again(_lesson: QuerySet, _validation: QuerySet, held_out: QuerySet) -> Answer:
        inside.append("sits")
        if len(inside) == 1:
            answer_all("opened", ["OHSUMED"], ["auto"], tmp_path)
        return Answer(held_out.labels.copy(), 1.0)

    monkeypatch.setattr(quality, "CONTESTANTS", {"auto": asks_again})

    answer_all("opened", ["OHSUMED"], ["auto"], tmp_path)

    assert inside == ["sits"] * 2


def test_only_queries_with_a_relevant_document_count() -> None:
    queries = synthesize(6, Recipe(features=4))[0]
    labels = queries.labels.copy()
    labels[queries.span(2)] = 0
    outcome = Outcome(replace(queries, labels=labels), {"auto": labels}, {})

    assert outcome.figures()["auto"].shape == (2, 5)
    np.testing.assert_array_equal(outcome.figures()["auto"], 1.0)


def test_every_query_of_a_sample_is_tested_once_by_what_has_not_seen_it() -> None:
    queries = synthesize(22, Recipe(features=4))[0]

    found = list(quality.crossed(queries))

    tested = [name for split in found for name in split.test.query_ids]
    assert sorted(queries.query_ids) == sorted(tested)
    for split in found:
        parts = (split.lesson, split.validation, split.test)
        assert sorted(queries.query_ids) == sorted(name for part in parts for name in part.query_ids)
        assert len(split.validation) in {5, 6}


def test_samples_have_figures_and_no_gates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    queries = synthesize(12, Recipe(features=4))[0]
    out = tmp_path / "quality.json"
    out.write_text('{"command": "c", "machine": {}, "quality": [{"set": "kept"}]}')
    monkeypatch.setattr(quality, "splits", lambda *_: splits_of(queries))
    answers = {"auto": 1.0, "global": -1.0}
    monkeypatch.setattr(
        quality,
        "CONTESTANTS",
        {
            name: lambda _lesson, _validation, held_out, sign=sign: Answer(sign * held_out.labels, 1.0)
            for name, sign in answers.items()
        },
    )
    answer_all("crossed", ["MSLR-sample"], list(answers), tmp_path)

    assert 0 == quality.report(tmp_path, "crossed", ["MSLR-sample"], out)

    assert "missed" not in capsys.readouterr().out.lower()
    found = json.loads(out.read_text())
    assert found["quality"] == [{"set": "kept"}]
    assert [row["contestant"] for row in found["samples"]] == ["auto", "global"] * 2
    assert found["samples"][1]["map difference"] > 0


def test_lightgbm_learns_from_labels_that_are_no_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contestants, "_LIGHTGBM_ROUNDS", 40)
    queries = synthesize(30, Recipe(features=5, kinds=1))[0]
    queries = replace(queries, labels=queries.labels + np.where(queries.labels > 0, 0.25, 0.0))
    lesson, validation, held_out = (
        queries.select(np.arange(*span)) for span in ((0, 14), (14, 20), (20, 30))
    )

    answer = CONTESTANTS["lightgbm"](lesson, validation, held_out)

    by_chance = figures_of(held_out, np.random.default_rng(0).random(held_out.n_docs)).mean()
    assert figures_of(held_out, answer.scores).mean() > by_chance + 0.1


def test_openings_are_written_before_and_counted(tmp_path: Path) -> None:
    log, state = tmp_path / "openings.md", tmp_path / "state"
    log.write_text("# Openings\n\n- long ago: once\n")

    opening("the first", state, log)
    opening("the first, gone on with", state, log)

    assert len([line for line in log.read_text().splitlines() if line.startswith("- ")]) == 2
    opening("another", tmp_path / "other", log)
    with pytest.raises(SystemExit, match=f"opened 3 times; {MOST_OPENINGS} is the most"):
        opening("too many", tmp_path / "third", log)


@pytest.mark.parametrize("name", ["global", "lightgbm"])
def test_a_contestant_learns_a_ranker(name: str) -> None:
    queries = synthesize(30, Recipe(features=5, kinds=1))[0]
    lesson, validation, held_out = (
        queries.select(np.arange(*span)) for span in ((0, 14), (14, 20), (20, 30))
    )

    answer = CONTESTANTS[name](lesson, validation, held_out)

    assert answer.scores.shape == (held_out.n_docs,)
    assert answer.seconds > 0
    assert np.isnan(answer.validation) == (name == "lightgbm")
    by_chance = figures_of(held_out, np.random.default_rng(0).random(held_out.n_docs)).mean()
    assert figures_of(held_out, answer.scores).mean() > by_chance + 0.15
