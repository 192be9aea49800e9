from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.__main__ import main
from localrank.metrics import measure
from localrank.registry.versions import Registry
from localrank_training.evaluation.comparisons import Comparison
from localrank_training.grouping.prototypes import Locality
from localrank_training.report.figures import BlendReport, Rival
from localrank_training.report.verdict import against_served, of_blend, of_clusters
from localrank_training.run.blended import Gain, Localised
from localrank_training.settings.config import TrainingConfig

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.metrics import Measured


def figures(quality: float, seed: int = 0, n_queries: int = 60) -> tuple[Measured, ...]:
    """Figures of a ranking that is the labels plus noise."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 10 * n_queries).astype(float)
    noise = np.random.default_rng(seed + 1).standard_normal(len(labels))
    return measure(labels, quality * labels + noise, np.arange(0, len(labels) + 1, 10), ("map", "ndcg@10"))


def test_without_comparisons_there_is_one_global_model() -> None:
    assert "verdict: one global model; no local model to compare with" == str(of_clusters((), 60))
    assert "verdict: one global model; map 0.5" == str(of_clusters((), 60, alone="map 0.5"))


def test_training_ends_with_a_verdict_and_promotes_if_better(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, models = tmp_path / "judged.txt", str(tmp_path / "models")
    options = ["--queries", "40", "--documents", "10", "--features", "4", "--kinds", "1", "--seed", "3"]
    assert 0 == main(["data", "synthesize", *options, "--out", str(data)])
    train = ["train", str(data), "--name", "web", "--models-dir", models, "--promote-if-better"]
    poor = [*train, "--learner", "best_feature"]
    good = [*train, "--learner", "ranksvm", "--set", "learner.C=1.0"]

    assert 0 == main(poor)
    first = capsys.readouterr().out
    assert 0 == main([*good, "--json"])
    second = json.loads(capsys.readouterr().out)
    assert 0 == main(poor)
    third = capsys.readouterr().out

    assert "promoted: web had no champion" in first
    assert "verdict: one global model" in first
    assert second["promoted"]
    assert second["decision"].startswith("promoted: better than web@1")
    assert "not promoted: worse than web@2" in third
    assert f"localrank models promote web 3 --models-dir {models}" in third
    assert 2 == Registry(tmp_path / "models").resolve("web").version


def test_other_libraries_names_of_settings_are_translated() -> None:
    with pytest.raises(Exception, match="unknown setting 'n_estimators'; it is called 'num_iterations' here"):
        TrainingConfig.read(learner="lambdamart", overrides=["learner.n_estimators=5"])
    with pytest.raises(Exception, match="unknown setting 'reg_lambda'; it is called 'lambda_l2' here"):
        TrainingConfig.read(learner="gbrt", overrides=["learner.reg_lambda=5"])


def test_the_name_alone_shows_three_lines_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 2 == main([])
    assert "Usage:" in capsys.readouterr().out

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)

    assert 0 == main([])
    assert 3 == len(capsys.readouterr().out.splitlines())


def compared(
    difference: float, p_holm: float, metric: str = "map", *, detectable: float | None = 0.02, p: float = 0.5
) -> Comparison:
    better = int(difference > 0)
    return Comparison(
        metric=metric, convention="standard", candidate=0.5 + difference, baseline=0.5, n_queries=40, n_left_out=0,
        difference=difference, interval=None, p=p, p_holm=p_holm, p_t=None, wins=better, losses=int(difference < 0),
        ties=39, helped=0, hurt=0, detectable=detectable,
    )  # fmt: skip


CLEAR, CLEARER = compared(0.1, 0.05), compared(0.05, 0.001, "ndcg@10")
WORSE, CLEARLY_WORSE = compared(-0.1, 0.04), compared(-0.05, 0.0123, "ndcg@10")
CHANCE, EQUAL = compared(0.2, 0.0501), compared(0.0, 0.0)


@pytest.mark.parametrize(
    ("comparisons", "said"),
    [
        (
            [CLEAR],
            "better than its global scorer: map 0.6000 instead of 0.5000 (+0.1000, p = 0.05); promote it",
        ),
        (
            [CHANCE, CLEAR, CLEARER, EQUAL],
            "better than its global scorer: ndcg@10 0.5500 instead of 0.5000 (+0.0500, p = 0.001); promote it",
        ),
        (
            [CLEARER, WORSE],
            "worse than its global scorer: map 0.4000 instead of 0.5000 (-0.1000, p = 0.04); go back",
        ),
        (
            [WORSE, CLEARLY_WORSE],
            "worse than its global scorer: ndcg@10 0.4500 instead of 0.5000 (-0.0500, p = 0.012); go back",
        ),
        (
            [CHANCE],
            "no better than its global scorer on any metric (40 queries, enough to find a difference of 0.0200); go back",
        ),
        (
            [CHANCE, compared(-0.1, 0.9, detectable=0.0123), compared(0.1, 0.9, detectable=None)],
            "no better than its global scorer on any metric (40 queries, enough to find a difference of 0.0123); go back",
        ),
        (
            [compared(0.1, 0.9, detectable=None)],
            "no better than its global scorer on any metric (40 queries); go back",
        ),
        (
            [EQUAL, compared(0.1, 0.9, detectable=None)],
            "no better than its global scorer on any metric (40 queries, enough to find a difference of 0.0200); go back",
        ),
        ([EQUAL, EQUAL], "ranks every query as its global scorer does; go back"),
    ],
)
def test_the_clearest_difference_is_said_and_a_worse_metric_outweighs_better_ones(
    comparisons: list[Comparison], said: str
) -> None:
    verdict = of_clusters(comparisons, 40, smaller="go back")

    assert f"verdict: {said}" == str(verdict) == verdict.sentence
    expected = said.split(" ", maxsplit=1)[0]
    assert (expected if expected in {"better", "worse"} else "same") == verdict.outcome
    assert {"outcome": verdict.outcome, "sentence": verdict.sentence} == verdict.to_json()


@pytest.mark.parametrize(("wins", "losses"), [(1, 0), (0, 1)])
def test_local_models_of_a_blend_are_judged_if_they_change_a_single_query(wins: int, losses: int) -> None:
    blend = BlendReport(99, (Rival("a", 1.0, 1.0, ()),), None, ())
    changed = replace(compared(0.0, 1.0, detectable=None), wins=wins, losses=losses)

    verdict = of_blend(blend, [EQUAL, changed], 40)

    assert (
        "verdict: no better than the same blend without local models on any metric (40 queries, enough to find a "
        "difference of 0.0200); train with --set clustering.method='none', which is smaller"
    ) == str(verdict)


@pytest.mark.parametrize(
    ("ways", "advice"),
    [
        (("segment",), "leave --kind out and add --query-feature segment"),
        (("shape", "segment"), "train with --set clustering.method='none'"),
    ],
)
def test_who_named_the_kinds_is_told_to_leave_the_option_out(ways: tuple[str, ...], advice: str) -> None:
    gain = Gain(0.0, None, 99)
    localised = Localised("segment", Locality(None, 0.0), gain, gain, 1.0, tuple((one, gain) for one in ways))
    changed = replace(compared(0.0, 1.0, detectable=None), wins=1)

    verdict = of_blend(BlendReport(99, (Rival("a", 1.0, 1.0, ()),), localised, ()), [EQUAL, changed], 40)

    assert advice in str(verdict)


def test_a_blend_of_one_member_has_nothing_to_be_compared_with() -> None:
    one = of_blend(BlendReport(99, (Rival("a", 1.0, 1.0, (CLEAR,)),), None, ()), [EQUAL], 40)

    assert "same" == one.outcome
    assert "verdict: a blend of one member, with nothing to compare it with" == str(one)


def test_the_metrics_of_the_best_member_are_one_family() -> None:
    """By Holm, twice the smaller p of two: .06 is chance."""
    rival = (compared(0.1, 0.0, p=0.03), compared(0.1, 0.0, "ndcg@10", p=0.2))
    surer = (compared(0.1, 0.9, p=0.02), compared(0.1, 0.9, "ndcg@10", p=0.2))

    chance, better = (
        of_blend(
            BlendReport(99, (Rival("linear on raw", 1.0, 1.0, one), Rival("b", None, 1.0, one)), None, ()),
            [],
            40,
        )
        for one in (rival, surer)
    )

    assert "same" == chance.outcome
    assert (
        "verdict: no better than the best of its members alone (linear on raw) on any metric (99 queries, enough to find "
        "a difference of 0.0200); promote it, or train that member alone, which is smaller"
    ) == str(chance)
    assert (
        "verdict: better than the best of its members alone (linear on raw): map 0.6000 instead of 0.5000 "
        "(+0.1000, p = 0.04); promote it"
    ) == str(better)


def test_the_sentences_about_a_served_version() -> None:
    good, same, bad = figures(2.0), figures(1.0), figures(0.3)

    better, equal, worse = (against_served(one, same, "web 3") for one in (good, same, bad))

    assert ("better", "same", "worse") == (better.outcome, equal.outcome, worse.outcome)
    assert str(better).startswith("promoted: better than web 3: ")
    assert "not promoted: no metric differs from web 3 by more than chance" == str(equal)
    assert str(worse).startswith("not promoted: worse than web 3: ")
