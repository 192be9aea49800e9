"""What runs, evaluations and tunings find, made up for pages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from localrank.points.similarity import QueryMap
from localrank_training.evaluation.comparisons import Interval
from localrank_training.evaluation.features import Importances
from localrank_training.report.figures import Sides
from localrank_training.report.pages import page_of_evaluation
from localrank_training.run.tune import TriedCombination
from localrank_training.settings.config import TrainingConfig

# What was chosen.


def choice(**more: Any) -> Any:
    return SimpleNamespace(
        **{
            "blend": None,
            "trials": (),
            "notes": (),
            "how": "5-fold cross-validation",
            "chosen_by": "ndcg@10",
            **more,
        }
    )


def run_of_choice(found: Any = None, method: str = "global") -> Any:
    return SimpleNamespace(config=TrainingConfig.read(method=method), cross_fitted=found)


def planned(seconds: float = 12.4, budget: float | None = None, cuts: tuple[str, ...] = ()) -> Any:
    plan = SimpleNamespace(
        seconds=seconds,
        blend=SimpleNamespace(budget=budget),
        cuts=cuts,
        table=lambda: ("Plan", ("a", "b"), [("x", 1)]),
    )
    return SimpleNamespace(
        plan=plan, tried=None, out_of_fold=None, learner=SimpleNamespace(members=[1, 2, 3])
    )


def rival(name: str, weight: float | None) -> Any:
    return SimpleNamespace(name=name, weight=weight, microseconds=7.6)


def trial(setting: str, value: float, *, taken: bool = False) -> Any:
    return SimpleNamespace(setting=setting, value=value, chosen=taken)


# Evaluations.


def evaluated(name: str, convention: str = "standard", mean: float = 0.5) -> Any:
    ways = SimpleNamespace(name=convention, empty_text="counted 0")
    values = np.array([mean - 0.1, mean + 0.1, np.nan])
    return SimpleNamespace(name=name, convention=ways, mean=mean, n_queries=1200, n_empty=7, per_query=values)


def compared(metric: str, p: float, difference: float, convention: str = "standard") -> Any:
    interval = SimpleNamespace(low=difference - 0.01, high=difference + 0.01)
    return SimpleNamespace(
        metric=metric, convention=convention, p_holm=p, difference=difference, candidate=0.5, baseline=0.4,
        interval=interval, n_queries=1200, wins=5, ties=3, losses=2,
    )  # fmt: skip


def model(clusters: list[Any] | None = None, sizes: list[int] | None = None, to_global: int = 0) -> Any:
    routing = SimpleNamespace(
        clusters=sizes or [], to_global=to_global, fallbacks={"outlier": 1500}, strategy="lsh"
    )
    return SimpleNamespace(
        name="web@2", routing=routing, clusters=clusters or [], local=[evaluated("ndcg@10")]
    )


def page_of(comparisons: list[Any], *models: Any) -> Any:
    figures = [evaluated("map"), evaluated("ndcg@10"), evaluated("map", "letor4")]
    theirs = [evaluated("map", mean=0.3), evaluated("ndcg@10", mean=0.2), evaluated("map", "letor4", 0.1)]
    return page_of_evaluation(
        models or (model(),), Sides(figures, theirs, comparisons, ("web@2", "web@1")), "command"
    )


# Importances.


def importances(overall: list[float], clusters: list[list[float]], errors: list[float]) -> Importances:
    names = tuple(f"f{number}" for number in range(len(overall)))
    return Importances(names, np.array(overall), np.array(clusters), np.array(errors))


def sizes(*sizes: int) -> Any:
    return SimpleNamespace(clusters=[SimpleNamespace(size=size) for size in sizes])


# Losses.


def loss(low: float | None, difference: float) -> Any:
    interval = None if low is None else SimpleNamespace(low=low, high=2 * difference - low)
    return SimpleNamespace(
        candidate=0.6,
        baseline=0.6 - difference,
        difference=difference,
        interval=interval,
        p_holm=0.04,
        n_queries=30,
    )


# Judged queries.


def inspection(**more: Any) -> Any:
    found = {
        "n_queries": 1200, "n_docs": 8000, "n_features": 3, "label_levels": 2, "labels": {"0": 6000.0, "1": 2000.0},
        "lengths": {"least": 3.0, "median": 123.456, "most": 40.0}, "suspicions": (), "features": [],
    }  # fmt: skip
    return SimpleNamespace(**{**found, **more})


# Clusters.

GLOBAL = object()


class Queries:
    """As many queries."""

    def __init__(self, count: int) -> None:
        self.query_ids = tuple(f"q{number}" for number in range(count))

    def __len__(self) -> int:
        return len(self.query_ids)


def figures(values: list[float]) -> Any:
    return SimpleNamespace(name="ndcg@10", per_query=np.array(values))


def in_clusters(
    sizes: list[int],
    held: list[int],
    local: list[float],
    base: list[float],
    own: list[int] | None = None,
    **more: Any,
) -> tuple[Any, Any]:
    """Return a report and a run of clusters with these sizes; ``own`` have scorers of their own."""
    clusters = [
        SimpleNamespace(size=size, exemplar=f"q{number}", figures={"queries": held.count(number), "local": 0.5 + number, "global": 0.25})
        for number, size in enumerate(sizes)
    ]  # fmt: skip
    scorers = [object() if own is None or number in own else GLOBAL for number in range(len(sizes))]
    report: dict[str, Any] = {
        "clusters": clusters,
        "blend": None,
        "stability": {},
        "local": [None, figures(local)],
    }
    report |= {"global_": [None, figures(base)], **more}
    trained = SimpleNamespace(
        built=SimpleNamespace(
            ranker=SimpleNamespace(global_scorer=GLOBAL, scorers=scorers),
            clusters=np.arange(sum(sizes)) % max(len(sizes), 1),
        ),
        held_out=SimpleNamespace(clusters=np.array(held), queries=range(len(held))),
        queries=Queries(sum(sizes)),
    )
    return SimpleNamespace(**report), trained


def gain(mean: float, interval: tuple[float, float] | None) -> Any:
    ends = None if interval is None else SimpleNamespace(low=interval[0], high=interval[1])
    return SimpleNamespace(mean=mean, interval=ends, n_queries=50)


def drawn(queries: list[int], clusters: list[int]) -> QueryMap:
    count = len(queries)
    coordinates = np.column_stack([np.arange(count), -np.arange(count)]).astype(np.float32)
    return QueryMap(
        queries=np.array(queries, np.int32),
        clusters=np.array([clusters[query] for query in queries], np.int32),
        coordinates=coordinates,
        means=np.ones(count, np.float32),
        similarity="eq5",
        shown=0.756,
        points=None,
    )


# Quality.


def differs(metric: str, low: float | None, *, difference: float = 0.02, wins: int = 3, **more: Any) -> Any:
    interval = None if low is None else SimpleNamespace(low=low, high=2 * difference - low)
    found = {
        "metric": metric,
        "interval": interval,
        "difference": difference,
        "wins": wins,
        "losses": 0,
        "n_queries": 40,
    }
    return SimpleNamespace(
        **{**found, "candidate": 0.5, "baseline": 0.4, "p_holm": 0.03, "helped": 4, "hurt": 2, **more}
    )


class Judged:
    """Queries of four documents each, with so many relevant ones."""

    def __init__(self, *relevant: int) -> None:
        self.labels = np.array([float(place < count) for count in relevant for place in range(4)])
        self.offsets = np.arange(0, len(self.labels) + 1, 4)
        self.lengths = np.diff(self.offsets)
        self.query_ids = tuple(f"q{number}" for number in range(len(relevant)))

    def __len__(self) -> int:
        return len(self.query_ids)


def held(*relevant: int, learned_from: int = 0) -> Any:
    return SimpleNamespace(queries=Judged(*relevant), learned_from=learned_from)


def of_quality(values: list[float], comparisons: tuple[Any, ...] = (), blend: Any = None) -> Any:
    measured = [
        SimpleNamespace(name=name, per_query=np.array(values), n_queries=len(values))
        for name in ("map", "ndcg@10")
    ]
    differs = any(one.wins or one.losses for one in comparisons)
    against = SimpleNamespace(metric="ndcg@10", candidate=0.75, baseline=0.5, interval=Interval(0.125, 0.375))
    against.difference, against.p_holm = 0.25, 0.01
    return SimpleNamespace(
        how="10 validation queries",
        local=measured,
        comparisons=comparisons,
        blend=blend,
        differs=differs,
        baseline=SimpleNamespace(name="your present order (price)", given=True, comparisons=(against,)),
    )


# Tunings.

CONFIG = TrainingConfig.read(method="global")


def setting(mean: float, C: float, rounds: int | None = None, spread: float = 0.02) -> TriedCombination:
    """Nine queries, all of which differ from those of the others but for the middle one."""
    local = mean + np.linspace(-spread, spread, 9)
    choices: dict[str, Any] = {"learner.C": C} | ({} if rounds is None else {"learner.rounds": rounds})
    return TriedCombination(choices, CONFIG, local, np.full(9, 0.25))
