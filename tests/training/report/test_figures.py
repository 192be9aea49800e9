"""The report of a training run, made by hand: its tables, its JSON, and what it measures of what was held out."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.metrics import measure
from localrank_training.evaluation.baselines import AgainstBaseline
from localrank_training.evaluation.comparisons import Comparison, Interval, compare_family
from localrank_training.report import figures
from localrank_training.report.figures import CONVENTION, METRICS, ClusterReport, TrainingReport, report_of
from localrank_training.report.terminal import of_run
from localrank_training.report.verdict import Verdict
from localrank_training.run.choosing import Trial
from tests.training.kinds import two_kinds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Vector
    from localrank.metrics import Measured

HELD = two_kinds(12, seed=4)
RANKER = SimpleNamespace(router=SimpleNamespace(chooses=True))
NOISE = np.random.default_rng(0).standard_normal(HELD.n_docs)
GOOD, BAD = HELD.labels + 0.5 * NOISE, NOISE


def measured(scores: Vector) -> tuple[Measured, ...]:
    return tuple(measure(HELD.labels, scores, HELD.offsets, METRICS, CONVENTION))


def compared(
    metric: str = "map", wins: int = 3, losses: int = 1, interval: Interval | None = None
) -> Comparison:
    return Comparison(
        metric, "standard", 0.75, 0.5, 12, 0, 0.25, interval, 0.01, 0.04, 0.02, wins, losses, 12 - wins - losses, 2, 1, 0.125
    )  # fmt: skip


def report(**changes: Any) -> TrainingReport:
    plain = TrainingReport(
        how="12 queries",
        local=measured(GOOD),
        global_=measured(BAD),
        comparisons=(),
        clusters=(),
        fallbacks={},
        stability={},
        trials=(),
        notes=(),
        verdict=Verdict("same", "verdict: same & sound"),
        baseline=AgainstBaseline(
            "your present order (price)", given=True, comparisons=(compared("ndcg@10"),)
        ),
    )
    return replace(plain, **changes)


def tables(found: TrainingReport) -> list[tuple[str, Sequence[str], Sequence[Any]]]:
    """Return the tables after that of the baseline, which every run has."""
    return [(table.title, table.header, table.rows) for table in list(of_run(found))[1:]]


def test_a_global_model_has_one_table_of_its_own_figures() -> None:
    found = report()

    [(title, header, rows)] = tables(found)

    assert f"Held out: 12 queries; {found.local[0].basis}" == title
    assert ("metric", "model") == header
    assert [(one.name, one.mean) for one in found.local] == list(rows)


@pytest.mark.parametrize(("wins", "losses", "beside"), [(0, 0, False), (1, 0, True), (0, 1, True)])
def test_figures_stand_beside_the_global_scorers_if_any_query_differs(
    wins: int, losses: int, *, beside: bool
) -> None:
    clusters = (ClusterReport(9, "q3", {"queries": 5, "local": 0.5, "global": 0.25, "metric": "m"}),)
    found = report(
        comparisons=(compared(wins=0, losses=0), compared("ndcg@10", wins, losses, Interval(0.1, 0.4))),
        clusters=clusters,
    )

    (_, header, rows), (title, columns, [cluster]) = tables(found)

    assert ("model" in header, "global" in header) == (True, beside)
    if beside:
        assert (
            "metric",
            "model",
            "global",
            "difference",
            "95 % interval",
            "p (Holm)",
            "hurt by > 0.1",
        ) == header
        assert ("ndcg@10", 0.75, 0.5, "+0.2500", "[+0.1000, +0.4000]", 0.04, 1) == rows[1]
    assert title == ("Clusters" if beside else "Kinds of queries, all answered by the global scorer")
    expected = ("cluster", "queries", "typical query", "held out", "ndcg@10")
    assert columns == (*expected, *(["global scorer's"] if beside else []))
    assert cluster == (0, 9, "q3", 5, 0.5, *((0.25,) if beside else ()))


def test_choices_and_stability_have_tables_if_there_are_any() -> None:
    found = report(
        trials=(Trial("C = 1", 0.5, chosen=True), Trial("C = 2", 0.25, chosen=False)),
        chosen_by="map",
        stability={"drop_10_percent": 0.125, "something": 0.5},
    )

    _, (choices, header, tried), (stability, columns, changes) = tables(found)

    assert ("Choices (12 queries)", ("settings", "map", "")) == (choices, header)
    assert [("C = 1", 0.5, "chosen"), ("C = 2", 0.25, "")] == tried
    assert "Stability: share of the queries that change their cluster" == stability
    assert ("if", "share") == columns
    assert [("a tenth of the documents left out", 0.125), ("something", 0.5)] == changes


def test_a_notebook_shows_the_tables_and_the_verdict() -> None:
    html = report()._repr_html_()

    assert html.count("<table") == 2
    assert html.endswith("\n<p>verdict: same &amp; sound</p>")


def test_the_manifest_has_a_row_for_each_metric() -> None:
    found = report(
        comparisons=(compared("map", interval=Interval(0.1, 0.4)), compared("ndcg@1")),
        fallbacks={"no_signature": 2},
    ).metrics_json()

    local, base = measured(GOOD), measured(BAD)
    plain = [
        {"metric": one.name, "model": one.mean, "global": other.mean}
        for one, other in zip(local, base, strict=True)
    ]
    more = {"difference": 0.25, "detectable": 0.125, "queries": 12, "p_holm": 0.04, "helped": 2, "hurt": 1}
    assert found == {
        "held_out": "12 queries",
        "basis": local[0].basis,
        "figures": [
            plain[0] | more | {"low": 0.1, "high": 0.4},
            plain[1] | more | {"low": None, "high": None},
            *plain[2:],
        ],
        "fallbacks": {"no_signature": 2},
        "baseline": {
            "name": "your present order (price)",
            "given": True,
            "sentence": "your present order (price) ndcg@10 0.5000, this model 0.7500 (+0.2500 4 of 12 queries differ: too few for an interval)",
            "figures": [
                {
                    "metric": "ndcg@10",
                    "model": 0.75,
                    "baseline": 0.5,
                    "difference": 0.25,
                    "low": None,
                    "high": None,
                    "p_holm": 0.04,
                }
            ],
        },
    }


def test_json_has_everything() -> None:
    found = report(
        trials=(Trial("C = 1", 0.5, chosen=True),),
        clusters=(ClusterReport(9, "q3", {"queries": 5}),),
        stability={"drop_10_percent": 0.125},
        notes=("a note",),
    )

    assert found.to_json() == {
        "trials": [{"setting": "C = 1", "value": 0.5, "chosen": True}],
        "clusters": [{"size": 9, "exemplar": "q3", "queries": 5}],
        "metrics": found.metrics_json(),
        "stability": {"drop_10_percent": 0.125},
        "notes": ["a note"],
        "verdict": {"outcome": "same", "sentence": "verdict: same & sound"},
    }


# ------------------------------------------------------------------------------------------- of what was trained


def trained(exemplars: Sequence[str] = ("q1", "q2"), trials: Sequence[Trial] = (), learned: int = 0) -> Any:
    """A run whose first five held-out queries came to cluster 0, the rest to cluster 1; two fell back."""
    routes = [SimpleNamespace(fallback=one) for one in ["far", "far", "alone", *[None] * 9]]
    return SimpleNamespace(
        held_out=SimpleNamespace(
            queries=HELD,
            how="12 queries",
            ranked=SimpleNamespace(scores=GOOD, global_scores=BAD, routes=routes),
            clusters=np.repeat([0, 1], [5, 7]) if exemplars else np.full(12, -1),
            learned_from=learned,
        ),
        built=SimpleNamespace(
            exemplars=tuple(exemplars), clusters=np.array([0, 0, 0, 1, -1]), notes=("built",), ranker=RANKER
        ),
        cross_fitted=None,
        config=SimpleNamespace(selection=SimpleNamespace(metric="ndcg@10")),
        trials=tuple(trials),
        warnings=("warned",),
        queries=two_kinds(8),
    )


@pytest.fixture
def flips(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Any, ...]]:
    """What the flip rates were asked of."""
    asked: dict[str, tuple[Any, ...]] = {}

    def of(name: str) -> Any:
        def rates(*arguments: Any) -> dict[str, float]:
            asked[name] = arguments
            return {"drop_10_percent": 0.5}

        return rates

    monkeypatch.setattr(figures, "flip_rates", of("new"))
    monkeypatch.setattr(figures, "flip_rates_of_known", of("known"))
    return asked


def test_clusters_are_measured_on_the_queries_that_came_to_them(flips: dict[str, tuple[Any, ...]]) -> None:
    run = trained()

    found = report_of(run, seed=3)

    ndcg = [one.per_query for one in (found.local[-1], found.global_[-1])]
    assert found.clusters == (
        ClusterReport(
            3,
            "q1",
            {
                "queries": 5,
                "metric": "ndcg@10 (standard)",
                "local": pytest.approx(ndcg[0][:5].mean()),
                "global": pytest.approx(ndcg[1][:5].mean()),
            },
        ),
        ClusterReport(
            1,
            "q2",
            {
                "queries": 7,
                "metric": "ndcg@10 (standard)",
                "local": pytest.approx(ndcg[0][5:].mean()),
                "global": pytest.approx(ndcg[1][5:].mean()),
            },
        ),
    )
    assert [one.mean for one in measured(GOOD)] == [one.mean for one in found.local]
    assert [one.mean for one in measured(BAD)] == [one.mean for one in found.global_]
    assert tuple(compare_family(measured(GOOD), measured(BAD), seed=3)) == found.comparisons
    assert {"alone": 1, "far": 2} == found.fallbacks
    assert ["alone", "far"] == list(found.fallbacks)
    assert ("warned", "built") == found.notes
    assert ("12 queries", "ndcg@10", None) == (found.how, found.chosen_by, found.blend)
    assert {"drop_10_percent": 0.5} == found.stability
    # Names of held-out queries are among those that were trained on: these are the same ones.
    assert (RANKER, run.queries, run.built.clusters, 3) == flips["known"]


def test_queries_that_are_new_are_changed_themselves(flips: dict[str, tuple[Any, ...]]) -> None:
    run = trained()
    run.queries = replace(run.queries, query_ids=tuple("abcdefgh"))

    report_of(run, seed=3)

    assert (RANKER, HELD, 3) == flips["new"]


@pytest.mark.usefixtures("flips")
def test_a_cluster_to_which_no_query_came_has_no_figures() -> None:
    found = report_of(trained(("q1", "q2", "q3")))

    assert {"queries": 0, "metric": "ndcg@10 (standard)", "local": None, "global": None} == found.clusters[
        2
    ].figures


@pytest.mark.parametrize(
    ("trials", "said"),
    [
        ([], f"ndcg@10 {measured(GOOD)[-1].mean:.4f}, without a local model to compare with"),
        (
            [Trial("C = 1", 0.5, chosen=True)],
            f"ndcg@10 {measured(GOOD)[-1].mean:.4f}, without a local model to compare with",
        ),
        (
            [
                Trial("clusters = 1, C = 1", 0.5, chosen=True),
                Trial("clusters = 2, C = 1", 0.25, chosen=False),
                Trial("clusters = 12, C = 1", 0.375, chosen=False),
            ],
            "ndcg@10 0.5000, the best model with clusters: 0.3750",
        ),
        (
            [Trial("clusters = 1", 0.5, chosen=True), Trial("clusters = 1", 0.25, chosen=False)],
            f"ndcg@10 {measured(GOOD)[-1].mean:.4f}, without a local model to compare with",
        ),
    ],
)
def test_a_global_model_is_told_beside_the_clusters_that_were_tried(trials: list[Trial], said: str) -> None:
    found = report_of(trained((), trials))

    assert f"verdict: one global model; {said}" == str(found.verdict)
    assert ((), (), {}) == (found.comparisons, found.clusters, found.stability)


@pytest.mark.usefixtures("flips")
def test_queries_of_both_sides_are_a_warning() -> None:
    assert (
        "3 of 12 validation queries are also training queries: the figures are too good for this model and its choices"
        == report_of(trained(learned=3)).notes[0]
    )
