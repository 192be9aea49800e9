"""Exported models are evaluated here as the engines' own sources evaluate them, in float32."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localrank.errors import ExportRefused
from localrank.exports.engines import _after, _without_slack, export
from localrank.features.contract import FeatureContract
from localrank.points.representation import NoRepresentation
from localrank.ranker import Ranker
from localrank.routing.router import GlobalRouter
from localrank.scorers import BlendScorer, LinearScorer, SumScorer, TreesScorer
from localrank.scorers.trees import CATEGORICAL, DEFAULT_LEFT, MISSING_NAN, MISSING_NONE, MISSING_ZERO

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Matrix
    from localrank.features.contract import Normalisation
    from localrank.features.feature import Missing
    from localrank.scorers import Scorer

NAMES = ("bm25", "pagerank", "clicks")
LARGEST = float(np.finfo(np.float32).max)


def grown(seed: int, decisions: list[int], n_trees: int = 5, n_splits: int = 6) -> TreesScorer:
    """Return random trees whose thresholds are doubles, some of them at the documents' values."""
    rng = np.random.default_rng(seed)
    left, right = [], []
    for _ in range(n_trees):
        open_ends = [(0, 0), (0, 1)]
        children = {}
        for number in range(1, n_splits):
            children[open_ends.pop(rng.integers(len(open_ends)))] = number
            open_ends += [(number, 0), (number, 1)]
        for leaf, end in enumerate(open_ends):
            children[end] = -1 - leaf
        left += [children[number, 0] for number in range(n_splits)]
        right += [children[number, 1] for number in range(n_splits)]
    n = n_trees * n_splits
    thresholds = np.where(rng.random(n) < 0.3, rng.integers(-2, 3, n), rng.standard_normal(n))
    return TreesScorer(
        splits=np.array([*[n_splits] * n_trees, 0], np.int32),
        features=rng.integers(0, 3, n).astype(np.int32),
        thresholds=thresholds.astype(np.float64),
        decisions=rng.choice(decisions, n).astype(np.uint8),
        left=np.array(left, np.int32),
        right=np.array(right, np.int32),
        values=rng.standard_normal(n + n_trees + 1),
        category_words=np.zeros(0, np.int32),
        category_bits=np.zeros(0, np.uint32),
    )


@pytest.fixture
def documents() -> Matrix:
    rng = np.random.default_rng(5)
    whole = rng.integers(-2, 3, (300, 3))
    return np.where(rng.random((300, 3)) < 0.4, whole, rng.standard_normal((300, 3))).astype(np.float32)


def ranker(
    documents: Matrix,
    scorer: Scorer,
    *,
    missing: Missing = "reject",
    normalise: Normalisation = "none",
    clusters: tuple[Scorer, ...] = (),
) -> Ranker:
    contract = FeatureContract.learn(
        documents, [len(documents)], names=NAMES, missing=missing, normalise=normalise
    )
    return Ranker(contract, NoRepresentation(), GlobalRouter(), clusters, scorer)


def elasticsearch_score(body: dict[str, Any], document: dict[str, float]) -> float:
    """As NaiveAdditiveDecisionTree and LinearRanker do: ``threshold > value`` goes left, NaN goes to ``missing``."""
    kind, definition = body["model"]["model"]["type"], json.loads(body["model"]["model"]["definition"])
    if kind == "model/linear":
        return float(
            sum(np.float32(weight) * np.float32(document[name]) for name, weight in definition.items())
        )
    assert "model/xgboost+json" == kind
    total = np.float32(0)
    for node in definition:
        at = node
        while "leaf" not in at:
            value = np.float32(document[at["split"]])
            assert [at["yes"], at["no"]] == [child["nodeid"] for child in at["children"]]
            if np.isnan(value):
                at = at["children"][0 if at["missing"] == at["yes"] else 1]
            else:
                at = at["children"][0 if np.float32(at["split_condition"]) > value else 1]
        total += np.float32(at["leaf"])
    return float(total)


def solr_score(body: dict[str, Any], document: dict[str, float]) -> float:
    """As MultipleAdditiveTreesModel and LinearModel do: ``value <= threshold + 1e-6`` goes left."""
    assert {name["name"] for name in body["features"]} == set(document)
    if body["class"].endswith(".LinearModel"):
        return float(
            sum(np.float32(w) * np.float32(document[name]) for name, w in body["params"]["weights"].items())
        )
    assert "org.apache.solr.ltr.model.MultipleAdditiveTreesModel" == body["class"]
    total = np.float32(0)
    for tree in body["params"]["trees"]:
        at = tree["root"]
        while "value" not in at:
            value = np.float32(document[at["feature"]])
            if np.isnan(value):
                at = at[at["missing"]]
            else:
                at = at["left" if value <= np.float32(at["threshold"]) + np.float32(1e-6) else "right"]
        total += np.float32(tree["weight"]) * np.float32(at["value"])
    return float(total)


def vespa_score(
    body: dict[str, Any], document: dict[str, float], number: Callable[[Any], Any] = float
) -> float:
    """As the expression that LightGBMParser writes: ``<``, and ``!(value >= threshold)`` where NaN goes left.

    Vespa, model-integration/src/main/java/ai/vespa/rankingexpression/importer/lightgbm/LightGBMParser.java (commit 089e174).
    """
    assert not body["objective"].startswith("binary")
    assert [] == body["pandas_categorical"]
    total = 0.0
    for tree in body["tree_info"]:
        at = tree["tree_structure"]
        while "leaf_value" not in at:
            assert "<=" == at["decision_type"]
            value = number(document[body["feature_names"][at["split_feature"]]])
            threshold = number(at["threshold"])
            left = not value >= threshold if at["default_left"] else value < threshold
            at = at["left_child" if left else "right_child"]
        total += at["leaf_value"]
    return total


SCORES = {"elasticsearch": elasticsearch_score, "opensearch": elasticsearch_score, "solr": solr_score}
#: Vespa takes no weights.
TREES: dict[str, Callable[[dict[str, Any], dict[str, float]], float]] = {
    **SCORES,
    "vespa": vespa_score,
    "vespa in float32": lambda body, document: vespa_score(body, document, np.float32),
}


@pytest.mark.parametrize("engine", TREES)
@pytest.mark.parametrize(
    ("missing", "decisions"),
    [("reject", [MISSING_NONE]), ("nan", [MISSING_NAN, MISSING_NAN | DEFAULT_LEFT, MISSING_NONE])],
)
def test_an_engine_scores_exported_trees_alike(
    documents: Matrix, engine: str, missing: Missing, decisions: list[int]
) -> None:
    model = ranker(documents, SumScorer((grown(0, decisions), grown(1, decisions))), missing=missing)
    if missing == "nan":
        documents[np.random.default_rng(2).random(documents.shape) < 0.2] = np.nan

    body = json.loads(json.dumps(export(model, engine.split(maxsplit=1)[0], "web").body, allow_nan=False))

    found = [TREES[engine](body, dict(zip(NAMES, row, strict=True))) for row in documents.tolist()]
    np.testing.assert_allclose(found, model.rank(documents).scores, atol=1e-5)


@pytest.mark.parametrize("engine", SCORES)
@pytest.mark.parametrize("normalise", ["none", "global_zscore", "column_norm"])
def test_an_engine_orders_by_exported_weights_alike(
    documents: Matrix, engine: str, normalise: Normalisation
) -> None:
    scorer = LinearScorer(np.array([1.0, -0.5, 0.25, 3.0, 0.0, 1.0]), "[normalised * 2, raw]")
    rows = documents * np.array([1, 100, 0.01], np.float32)
    model = ranker(rows, scorer, normalise=normalise)

    body = export(model, engine, "web").body

    found = np.array([SCORES[engine](body, dict(zip(NAMES, row, strict=True))) for row in rows.tolist()])
    # Equal up to a constant, which changes no order.
    constant = found - model.rank(rows).scores
    np.testing.assert_allclose(constant, constant[0], rtol=1e-4, atol=1e-4)


@given(st.floats(-1e6, 1e6, width=32))
def test_solr_compares_with_the_threshold_that_was_meant(threshold: float) -> None:
    wanted = np.float32(threshold)

    stored = _without_slack(wanted)

    added = stored + np.float32(1e-6)
    assert added >= wanted
    if added != wanted:  # no float32 gives it
        assert np.nextafter(stored, np.float32(-np.inf)) + np.float32(1e-6) < wanted
        assert added - wanted <= np.spacing(max(abs(wanted), np.float32(1e-6))) * 2


def test_what_an_engine_cannot_compute_is_refused(documents: Matrix) -> None:
    trees, linear = grown(0, [MISSING_NAN]), LinearScorer(np.ones(3))
    for model, message in (
        (
            ranker(documents, linear, normalise="query_minmax"),
            r"found the block 'normalised' \(query_minmax\); search engines",
        ),
        (ranker(documents, LinearScorer(np.ones(3), "rank")), "found the block 'rank'"),
        (ranker(documents, replace(trees, blocks="minmax")), "found the block 'minmax'"),
        (
            ranker(documents, BlendScorer((trees, linear), np.ones(2))),
            "expected a linear scorer or trees, found blend",
        ),
        (ranker(documents, SumScorer((trees, linear))), "found linear, trees"),
        (
            ranker(documents, linear, clusters=(linear, linear)),
            "found 2 clusters, which need routing; use --global-scorer",
        ),
        (ranker(documents, grown(0, [MISSING_ZERO])), "found trees that treat it as missing"),
    ):
        with pytest.raises(ExportRefused, match=message):
            export(model, "solr", "web")
    categorical = replace(
        trees,
        decisions=np.full(30, CATEGORICAL, np.uint8),
        thresholds=np.zeros(30),
        category_words=np.ones(1, np.int32),
        category_bits=np.ones(1, np.uint32),
    )
    with pytest.raises(ExportRefused, match="found splits on categories"):
        export(ranker(documents, categorical), "solr", "web")
    assert export(ranker(documents, linear, clusters=(linear, trees)), "solr", "web", global_scorer=True)
    with pytest.raises(
        ExportRefused, match="expected one of elasticsearch, opensearch, solr, vespa, found 'lucene'"
    ):
        export(ranker(documents, linear), "lucene", "web")
    with pytest.raises(ExportRefused, match="expected trees for Vespa, found weights"):
        export(ranker(documents, linear), "vespa", "web")


@pytest.mark.parametrize(
    ("name", "is_taken"),
    [
        *((name, True) for name in ("bm25(title)", "closeness(field,embedding)", "popularity", "fieldMatch(t).proximity", "rankingExpression(a)")),
        *((name, False) for name in ("a-b", "f(a(b))", "a b", "bm25(title", "1st", "x)+(y", 'a"', "")),
    ],
)  # fmt: skip
def test_vespa_takes_names_of_rank_features(documents: Matrix, name: str, *, is_taken: bool) -> None:
    """Anything else would be an expression."""
    contract = FeatureContract.learn(
        documents, [len(documents)], names=(name, "b", "c"), missing="reject", normalise="none"
    )
    model = Ranker(contract, NoRepresentation(), GlobalRouter(), (), grown(0, [MISSING_NONE]))

    if is_taken:
        assert name == export(model, "vespa", "web").body["feature_names"][0]
    else:
        with pytest.raises(ExportRefused, match="names that Vespa takes"):
            export(model, "vespa", "web")


def chain(levels: int) -> TreesScorer:
    """One tree, whose left children are splits and whose right ones are leaves."""
    return TreesScorer(
        splits=np.array([levels], np.int32),
        features=np.zeros(levels, np.int32),
        thresholds=-np.arange(levels, dtype=np.float64),
        decisions=np.zeros(levels, np.uint8),
        left=np.array([*range(1, levels), -1], np.int32),
        right=-2 - np.arange(levels, dtype=np.int32),
        values=np.zeros(levels + 1),
        category_words=np.zeros(0, np.int32),
        category_bits=np.zeros(0, np.uint32),
    )


def test_trees_of_400_levels_are_written_and_deeper_ones_refused(documents: Matrix) -> None:
    assert export(ranker(documents, chain(400)), "solr", "web")
    with pytest.raises(ExportRefused, match="expected trees of at most 400 levels, found 401"):
        export(ranker(documents, SumScorer((chain(3), chain(401)))), "solr", "web")


@pytest.mark.parametrize(
    ("engine", "missing", "said"),
    [
        ("solr", "reject", []),
        ("solr", "zero", []),
        ("solr", "median", ["the model replaces missing values (median)"]),
        ("solr", "nan", ["missing values need Solr 9.2"]),
        ("elasticsearch", "nan", ["Elasticsearch LTR uses 0 for a missing feature"]),
        ("opensearch", "nan", ["some versions of OpenSearch LTR ignore 'missing'"]),
        ("opensearch", "constant", ["the model replaces missing values (constant)"]),
        ("vespa", "nan", ["the trees decide where NaN goes"]),
    ],
)
def test_what_an_engine_does_otherwise_is_said(
    documents: Matrix, engine: str, missing: Missing, said: list[str]
) -> None:
    exported = export(ranker(documents, grown(0, [MISSING_NAN]), missing=missing), engine, "web")

    rounding, *others = exported.notes
    assert "scores may differ in the seventh digit" in rounding
    assert len(said) == len(others)
    assert all(note.startswith(expected) for note, expected in zip(others, said, strict=True))
    if engine == "solr":
        assert (missing == "nan") == ("missing" in exported.body["params"]["trees"][0]["root"])


def test_weights_say_nothing_of_missing_values(documents: Matrix) -> None:
    """NaN reaches trees only."""
    assert 1 == len(export(ranker(documents, LinearScorer(np.ones(3)), missing="nan"), "solr", "web").notes)


@pytest.mark.parametrize(
    ("threshold", "least_above"), [(1.0, 1.0 + 2.0**-23), (-1.0, -1.0 + 2.0**-24), (LARGEST, LARGEST)]
)
def test_elasticsearch_splits_below_the_next_number(threshold: float, least_above: float) -> None:
    """Elasticsearch goes left if a value is less than the threshold, and the trees do if it is equal, too."""
    assert least_above == float(_after(np.float32(threshold)))
