"""The page of a training run says what was found, whatever is missing and whatever things are called."""

from __future__ import annotations

import re
import tomllib
from html import unescape
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats

from localrank_training.settings.config import TrainingConfig, to_toml
from tests.training.report.conftest import NASTY, RUNS
from tests.training.report.written import Written

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Vector
    from tests.training.report.conftest import Run

SECTIONS = [
    "How good it is",
    "What was chosen, and why",
    "Queries of different kinds",
    "Which features matter",
    "What should be done about the data",
    "What more queries are worth",
    "The data",
    "What the model expects",
    "How to make it again",
]


def ndcg_at_10(run: Run, scores: Vector) -> Vector:
    """NDCG@10 of each held-out query, from its definition."""
    queries = run.trained.held_out.queries
    found = []
    for query in range(len(queries)):
        labels, mine = queries.labels_of(query), scores[queries.span(query)]
        discounts = 1 / np.log2(np.arange(2, 12))[: len(labels)]
        gains = 2**labels - 1
        order = np.argsort(-mine, kind="stable")[:10]
        best = np.sort(gains)[::-1][:10] @ discounts
        found.append(gains[order] @ discounts / best if best else 0.0)
    return np.array(found)


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


@pytest.mark.parametrize("name", RUNS)
def test_every_page_is_whole_and_asks_nobody(name: str, runs: Callable[[str], Run]) -> None:
    html = runs(name).html
    page = Written(html)

    assert [] == page.open
    assert ["Training report: web, version 1", *SECTIONS] == page.headings
    assert not {"script", "link", "img", "iframe", "a"} & {tag for tag, _ in page.tags}
    assert "http" not in re.sub(r'http-equiv="Content-Security-Policy"', "", html)
    assert "nan" not in page.text.lower().replace("dominant", "")
    assert "None" not in page.text


@pytest.mark.parametrize("name", ["blend", "clustered", "validated"])
def test_quality_is_the_mean_over_held_out_queries(name: str, runs: Callable[[str], Run]) -> None:
    run = runs(name)
    page = Written(run.html)
    mine = ndcg_at_10(run, run.trained.held_out.ranked.scores)
    base = ndcg_at_10(run, run.trained.held_out.ranked.global_scores)

    assert f"{mine.mean():.4f}" == page.facts[page.facts.index("NDCG@10") + 1]
    gains = mine - base
    changed = np.count_nonzero(np.abs(gains) > 1e-12)
    half = stats.t.ppf(0.975, changed - 1) * gains.std(ddof=1) / len(gains) ** 0.5
    expected = f"{gains.mean():+.4f} ± {half:.4f}".replace("-", "−")
    if name == "blend":
        row = page.tables["This model and simpler ones"][2]
        assert ("without local models", f"{base.mean():.4f}", expected) == (row[0], row[2], row[4])
    else:
        table = "This model and its global scorer"
        row = page.tables[table][1 + page.column(table, "metric").index("NDCG@10")]
        assert ["NDCG@10", f"{mine.mean():.4f}", f"{base.mean():.4f}", expected] == row[:4]


@pytest.mark.parametrize("name", ["blend", "clustered"])
def test_each_cluster_gains_what_its_queries_gain(name: str, runs: Callable[[str], Run]) -> None:
    run = runs(name)
    page = Written(run.html)
    held = run.trained.held_out
    gains = ndcg_at_10(run, held.ranked.scores) - ndcg_at_10(run, held.ranked.global_scores)

    clusters = [int(cell) for cell in page.column("The clusters, largest first", "cluster")]
    said = page.column("The clusters, largest first", "gain")

    assert sorted(clusters) == list(range(len(run.report.clusters)))
    for cluster, cell in zip(clusters, said, strict=True):
        here = gains[held.clusters == cluster]
        assert here.mean() == pytest.approx(number(cell.split(" ± ")[0]), abs=6e-5)
    assert "Gain of each cluster" in page.plots


def test_members_have_their_settings_and_shares_of_the_weight(runs: Callable[[str], Run]) -> None:
    run = runs("blend")
    page = Written(run.html)

    rows = page.tables["Members and their weights"][1:]

    assert ["linear on zscore", "extra_trees on [raw, zscore]"] == [row[0] for row in rows]
    assert re.fullmatch(r"ridge = 0\.0?3 of 0\.03, 0\.3", rows[0][1])
    assert run.trained.cross_fitted is not None
    weighed = run.trained.cross_fitted.weighed
    assert weighed is not None
    shares = weighed.weights / weighed.weights.sum()
    assert [f"{share:.0%}" for share in shares] == [row[2] for row in rows]
    assert "The gain of local models" in page.plots
    assert "around random prototypes" in page.plots["The gain of local models"]


def test_where_no_cluster_is_local_the_page_says_so(runs: Callable[[str], Run]) -> None:
    page = Written(runs("alike").html)

    assert "the version has no clusters: the global scorer answers every query" in page.text
    assert "Quality of each cluster" in page.plots
    assert ["cluster", "queries", "typical query", "held out", "NDCG@10"] == page.tables[
        "The clusters, largest first"
    ][0]
    assert "without local models" not in page.text


def test_one_model_for_all_has_no_clusters_and_no_map(runs: Callable[[str], Run]) -> None:
    page = Written(runs("alone").html)

    assert "This is one model for all queries: there are no clusters." in page.text
    assert "The training queries, by similarity" not in page.plots
    assert "Quality on held-out queries" in page.plots
    tried = page.tables["What was tried, best first"]
    assert 1 == sum(row[-1] == "chosen" for row in tried)


def test_too_few_queries_are_a_sentence_and_no_error(runs: Callable[[str], Run]) -> None:
    tiny, few = Written(runs("tiny").html), Written(runs("few").html)

    assert "What should be done about the data is not known: expected at least 10 queries" in tiny.text
    assert "There are too few queries for a learning curve." in tiny.text
    assert "A blend of 2 members with equal weights" in few.text
    assert "Attention: the model was trained on 6 of 6 of these queries" in few.text


def test_the_learning_curve_is_drawn_if_it_was_asked_for(runs: Callable[[str], Run]) -> None:
    run = runs("clustered")
    page = Written(run.html)
    curve = run.background.curve

    assert curve is not None
    assert [f"{point.mean:.4f}" for point in curve.points] == page.column("The learning curve", "NDCG@10")
    assert "Learning curve" in page.plots
    assert "There is no learning curve" in Written(runs("blend").html).text


def test_without_contributions_importances_are_a_sentence(runs: Callable[[str], Run]) -> None:
    page = Written(runs("opaque").html)

    assert "There are no importances" in page.text
    assert "Importance of features" not in page.plots


def test_validation_queries_are_what_figures_are_of(runs: Callable[[str], Run]) -> None:
    page = Written(runs("validated").html)

    assert "How it was measured: 10 validation queries." in page.text
    rows = dict(page.tables["Versions and seeds"][1:])
    assert "10 queries, 150 documents" == rows["validation data"]


def test_importances_are_those_of_the_manifest(runs: Callable[[str], Run]) -> None:
    run = runs("clustered")
    page = Written(run.html)
    found = run.background.importances
    assert found is not None

    names = page.column("Importance of features", "feature")
    shares = page.column("Importance of features", "share of what features add to scores, %")

    assert [row["feature"] for row in found.table(15)] == names
    assert [f"{100 * float(str(row['importance'])):.4f}" for row in found.table(15)] == shares


def test_names_stay_text_whatever_they_are(runs: Callable[[str], Run]) -> None:
    page = Written(runs("hostile").html)

    assert "script" not in {tag for tag, _ in page.tags}
    shown = NASTY.replace("\x00", "\ufffd").replace("`", "")
    assert any(
        cell.replace("`", "").startswith(shown)
        for cell in page.column("The queries that it ranks worst", "query")
    )
    assert shown in page.text.replace("`", "")


def test_the_configurations_on_the_page_are_read_back(runs: Callable[[str], Run]) -> None:
    run = runs("blend")

    pieces = re.findall(r"<pre[^>]*>(.*?)</pre>", run.html, re.DOTALL)
    command, asked, settled = map(unescape, pieces)

    assert "localrank train 'a b.txt'" == command
    assert run.trained.config.to_json() == TrainingConfig.from_tables(tomllib.loads(settled)).to_json()
    assert to_toml(TrainingConfig.from_tables(tomllib.loads(asked)).to_json()) == asked
    assert asked != settled


def test_every_plot_has_axes_and_a_sentence(runs: Callable[[str], Run]) -> None:
    for name in RUNS:
        page = Written(runs(name).html)
        for title, caption in page.plots.items():
            assert caption.endswith("."), title
            if title != "The training queries, by similarity":
                assert "interval" in caption, title
