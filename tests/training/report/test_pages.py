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
from localrank.features.feature import Feature
from localrank_training.report import Table
from localrank_training.report.pages import page_of_tuning
from localrank_training.report.parts import advised, data
from localrank_training.report.quality import features, locality, quality
from localrank_training.report.training_run import chosen, contract_of, curved
from localrank_training.run.tune import Tuned
from tests.training.golden import agree, described
from tests.training.report.conftest import RUNS
from tests.training.report.made_up import (
    CONFIG,
    choice,
    compared,
    differs,
    drawn,
    gain,
    held,
    importances,
    in_clusters,
    inspection,
    loss,
    model,
    of_quality,
    page_of,
    planned,
    rival,
    run_of_choice,
    setting,
    sizes,
    trial,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.training.report.conftest import Run

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
    "nothing-to-compare": lambda: page_of([]),
    "one-global-model": lambda: page_of([compared("map", 0.04, 0.1)], model()),
    "two-models": lambda: page_of(
        [
            compared("map", 0.04, 0.1),
            compared("ndcg@10", 0.012, -0.1),
            compared("map", 0.3, 0.2, "letor4"),
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

    section = features(importances(overall.tolist(), clusters, [0.01] * 17 + [0.3]), sizes(3, 7, 5))

    agree(GOLDEN / "features.json", section)


def with_clusters(sizes: list[int], own: list[int] | None, **more: Any) -> Any:
    rng = np.random.default_rng(sizes)
    held = rng.integers(-1, len(sizes), 60).tolist()
    return in_clusters(sizes, held, rng.random(60).tolist(), rng.random(60).tolist(), own, **more)


LIKENESS = SimpleNamespace(
    localised=SimpleNamespace(
        by="shape",
        gain=gain(0.02, (0.01, 0.03)),
        random=gain(-0.005, None),
        locality=object(),
        agreement=0.345,
        ways=(),
    )
)
MAP = drawn([0, 3, 4, 8, 9, 11], [0, 1, 2] * 4)
STABILITY = {"a_tenth_dropped": 0.25, "first_20_documents": 0.0, "another": 1.0}


@pytest.mark.parametrize(
    ("name", "clusters"),
    [
        ("all-local", with_clusters([5, 9, 7], None)),
        ("some-local", with_clusters([4, 8, 12, 3], [1, 2], blend=LIKENESS, stability=STABILITY)),
        ("none-local", with_clusters([6, 6], [], stability={"a_tenth_dropped": 0.5})),
        ("many", with_clusters(list(range(1, 31)), [3, 4, 29])),
        ("one", with_clusters([6], None)),
    ],
)
def test_clusters_are_the_golden_ones(name: str, clusters: Any) -> None:
    agree(
        GOLDEN / f"clusters-{name}.json", locality(clusters[0], clusters[1], MAP if name != "one" else None)
    )


@pytest.mark.parametrize(
    ("name", "section"),
    [
        ("alone", quality(of_quality([0.5, 0.25, 0.75, 0.0]), held(1, 2, 3, 0))),
        (
            "clusters",
            quality(
                of_quality(
                    np.linspace(1, 0, 10).tolist(),
                    (differs("map", -0.01), differs("ndcg@10", 0.01), differs("ndcg@5", None)),
                ),
                held(1, 2, 3, 0, 1, 1, 1, 1, 1, 0, learned_from=3),
            ),
        ),
    ],
)
def test_the_quality_of_a_run_is_the_golden_one(name: str, section: Any) -> None:
    agree(GOLDEN / f"quality-{name}.json", section)


def test_what_was_chosen_is_the_golden_one() -> None:
    weights: list[tuple[list[float | None], float | None, tuple[str, ...]]] = [
        ([3.0, 1.0, 0.0], None, ()),
        ([0.0, 0.0], 10.0, ("members on 3 folds", "fewer settings")),
        ([1.0, None, None, 2.5], 20.0, ("rounds",)),
    ]
    sections = []
    for members, budget, cuts in weights:
        frontier = [
            SimpleNamespace(members=range(count), microseconds=3.6 * count, value=0.3 + 0.1 * (count == 2))
            for count in range(1, len(members))
        ]
        blend = SimpleNamespace(
            rivals=[rival(name, weight) for name, weight in zip("abcd", members, strict=False)],
            frontier=frontier,
        )
        trials = [
            trial(f"setting {number}", np.cos(number), taken=number == 9)
            for number in range(20 + len(members))
        ]
        notes = [f"note {number}." for number in range(22 + len(members))]
        sections.append(
            chosen(
                choice(blend=blend, trials=trials, notes=notes),
                run_of_choice(planned(budget=budget, cuts=cuts)),
            )
        )
    trials = [trial("C = 1", 0.5)]
    sections += [
        chosen(choice(trials=trials), run_of_choice(method=method))
        for method in ("global", "auto", "localrank")
    ]

    agree(GOLDEN / "chosen.json", sections)


def test_advice_and_curves_are_the_golden_ones() -> None:
    advice = SimpleNamespace(
        sentences=("4 of 9 documents: ndcg@10 0.1.", "Nothing else."), queries=1200, of=3400, documents=56_000
    )
    points = [
        SimpleNamespace(queries=queries, mean=mean, behind=behind)
        for queries, mean, behind in ((12.6, 0.3, loss(0.05, 0.1)), (25.0, 0.38, loss(None, 0.02)), (50.0, 0.4, None))
    ]  # fmt: skip
    curve = SimpleNamespace(points=points, examined=40, sentence="Twice as many queries bring ndcg@10 0.01.")

    found = [advised(advice), advised(None, "Too few."), curved(curve), curved(None, "Not asked for.")]  # type: ignore[arg-type]

    agree(GOLDEN / "helping.json", found)


def contract(count: int) -> Any:
    return SimpleNamespace(
        names=tuple(f"f{number}" for number in range(count)),
        features=tuple(
            Feature(f"f{number}", "category", ("nike", "kobo")) if number == 2 else Feature(f"f{number}")
            for number in range(count)
        ),
        quantiles=np.arange(9)[:, None] * 1000.0 + np.arange(count),
        missing=["zero", *["reject"] * (count - 1)],
        normalise="none",
        digest="abc",
    )


def test_the_data_and_the_contract_are_the_golden_ones() -> None:
    wrong = SimpleNamespace(what="constant features", count=2, of=9, examples=["f1", "f2"])
    found = inspection(features=[SimpleNamespace(name="f1", missing=7, zeros=0.256)], suspicions=(wrong,))
    labels = {"label_levels": 1500, "labels": {"least": 0.5, "most": 2.25}}

    sections = [data(found), data(inspection(**labels)), contract_of(contract(3), found)]

    agree(GOLDEN / "data.json", sections)


def test_a_category_has_values_instead_of_a_range() -> None:
    [table] = contract_of(contract(3), inspection()).parts[1].parts  # type: ignore[union-attr]

    assert isinstance(table, Table)
    assert [("0", "4000", "8000"), ("1", "4001", "8001"), ("2 values", "", "")] == [
        tuple(row[1:4]) for row in table.rows
    ]


def test_three_hundred_features_have_their_ranges() -> None:
    [table] = contract_of(contract(302), inspection()).parts[1].parts  # type: ignore[union-attr]

    assert isinstance(table, Table)
    assert (300, "2 more features are in the manifest.") == (len(table.rows), table.caption)


@pytest.mark.parametrize(
    ("comparisons", "said"),
    [
        ([], "web@2: MAP 0.5000, with nothing to compare."),
        ([compared("map", 0.051, 0.1)], "No figure of web@2 differs from that of web@1 by more than chance."),
        # A twentieth is enough.
        ([compared("map", 0.05, 0.1)], "web@2 is better than web@1: MAP 0.5000 instead of 0.4000 (p = 0.05); 1 of 1 "),
        (
            [compared("map", 0.04, 0.1), compared("ndcg@10", 0.012, -0.1), compared("map", 0.3, 0.1, "letor4")],
            "web@2 is worse than web@1, but not in every figure: NDCG@10 0.5000 instead of 0.4000 (p = 0.012); 2 of 3 ",
        ),
        (
            [compared("map", 0.04, -0.1), compared("ndcg@10", 0.01, -0.1), compared("map", 0.3, 0.1, "letor4")],
            "web@2 is worse than web@1: NDCG@10 0.5000",
        ),
    ],
)  # fmt: skip
def test_the_lead_names_the_clearest_difference(comparisons: list[Any], said: str) -> None:
    found = page_of(comparisons)

    assert found.lead.startswith(said)
    assert ("Evaluation of web@2 beside web@1" if comparisons else "Evaluation of web@2") == found.title
