"""Golden files of pages, part by part: of training runs, and of figures that are made up (`tests.training.golden`)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank._version import __version__
from localrank_training.reporting.features import features
from localrank_training.reporting.helping import advised, curved
from localrank_training.reporting.tuned import page_of_tuning
from localrank_training.tuning import Tuned
from tests.training.golden import agree, described
from tests.training.reporting.conftest import RUNS
from tests.training.reporting.test_evaluated import comparison as evaluated
from tests.training.reporting.test_evaluated import model
from tests.training.reporting.test_evaluated import page as of_evaluation
from tests.training.reporting.test_features import importances
from tests.training.reporting.test_features import report as of_sizes
from tests.training.reporting.test_helping import loss
from tests.training.reporting.test_tuned import CONFIG, setting

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.training.reporting.conftest import Run

GOLDEN = Path(__file__).parent / "golden"


def timeless(page: Any) -> Any:
    """Return a page without times, versions and hashes."""
    text = json.dumps(described(page)).replace(f"LocalRank {__version__}", "LocalRank VERSION")
    for pattern, word in (
        (r"\d{4}-\d\d-\d\dT[\d:]+Z", "TIME"),
        (r"sha256:[0-9a-f]{64}", "HASH"),
        (r'"\d+\.\d+(\.\d+)*([a-z]+\d*)?"', '"VERSION"'),
    ):
        text = re.sub(pattern, word, text)
    return json.loads(text)


@pytest.mark.parametrize("name", RUNS)
def test_the_page_of_a_run_is_the_golden_one(name: str, runs: Callable[[str], Run]) -> None:
    agree(GOLDEN / f"{name}.json", timeless(runs(name).page))


def clusters_of_models() -> list[Any]:
    ranked = [(0, 30), (2, 50), (None, 20), (1, 1)]
    return [SimpleNamespace(cluster=one, queries=n, local=0.5, global_=0.25 + n / 1000) for one, n in ranked]


EVALUATIONS: dict[str, Callable[[], Any]] = {
    "nothing-to-compare": lambda: of_evaluation([]),
    "one-global-model": lambda: of_evaluation([evaluated("map", 0.04, 0.1)], model()),
    "two-models": lambda: of_evaluation(
        [
            evaluated("map", 0.04, 0.1),
            evaluated("ndcg@10", 0.012, -0.1),
            evaluated("map", 0.3, 0.2, "letor4"),
        ],
        model(clusters_of_models(), [30, 1, 50, 0], 20),
        model(clusters_of_models()[:1], [30], 0),
    ),
}


@pytest.mark.parametrize("name", EVALUATIONS)
def test_the_page_of_an_evaluation_is_the_golden_one(name: str) -> None:
    agree(GOLDEN / f"evaluation-{name}.json", timeless(EVALUATIONS[name]()))


def test_the_page_of_a_tuning_is_the_golden_one() -> None:
    settings = [
        setting(0.6, 2.0, 1),
        setting(0.55, 1.0, 1, spread=0.3),
        setting(0.3, 2.0, 2),
        setting(0.2, 1.0, 2, spread=0.05),
    ]

    page = page_of_tuning(Tuned(tuple(settings), "ndcg@10", 5), CONFIG, "localrank tune")

    agree(GOLDEN / "tuning.json", timeless(page))


def test_importances_are_the_golden_ones() -> None:
    overall = np.array([0.3, 0.0, 0.2, 0.25, 0.15, 0.1, *[0.0] * 12])
    clusters = [overall[::-1].tolist(), overall.tolist(), [1.0, *[0.0] * 17]]

    section = features(importances(overall.tolist(), clusters, [0.01] * 17 + [0.3]), of_sizes(3, 7, 5))

    agree(GOLDEN / "features.json", section)


def test_gains_losses_and_curves_are_the_golden_ones() -> None:
    losses = [("half of the queries", loss(-0.02, 0.01)), ("features of one kind", loss(None, 0.0)), ("a tenth", loss(0.01, 0.2))]  # fmt: skip
    advice = SimpleNamespace(
        removals=[SimpleNamespace(text=text, loss=one) for text, one in losses],
        sentences=("More queries help most: ndcg@10 0.1.", "Nothing else does."),
        queries=1200,
        of=3400,
        documents=56_000,
    )
    points = [
        SimpleNamespace(queries=queries, mean=mean, behind=behind)
        for queries, mean, behind in ((12.6, 0.3, loss(0.05, 0.1)), (25.0, 0.38, loss(None, 0.02)), (50.0, 0.4, None))
    ]  # fmt: skip
    curve = SimpleNamespace(points=points, examined=40, sentence="Twice as many queries bring ndcg@10 0.01.")

    found = [advised(advice), advised(None, "Too few."), curved(curve), curved(None, "Not asked for.")]  # type: ignore[arg-type]

    agree(GOLDEN / "helping.json", found)
