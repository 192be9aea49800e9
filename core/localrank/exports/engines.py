"""Models for search engines: which models these can compute, and how each of them reads one.

They can compute a weighted sum of features, or a sum over trees that split numbers. They know nothing of a query's
other documents, of clusters or of this project's blocks. So a model is refused unless its scorer takes each document's
features as they are, or with a shift and a scale that weights can absorb.

**Elasticsearch and OpenSearch** create a model of their Learning to Rank plug-in from a body. ``POST
_ltr/_featureset/FEATURES/_createmodel`` takes a name, a type and a definition. Trees have the type
``model/xgboost+json``: XGBoost's dump, in which a value *below* the threshold goes to ``yes``. So thresholds here are
the float32 after ours. Linear models have the type ``model/linear``: a weight for each feature of the set.

**Solr**'s Learning to Rank module stores a model: ``PUT /schema/model-store``. Trees become a
`MultipleAdditiveTreesModel`, whose numbers are texts, weights a `LinearModel`. Solr compares a value with the threshold
*plus* 1e-6, in float32, so that is taken off here. ``missing`` says which way a feature goes that Solr has as NaN
(since 9.2, with ``"defaultValue": "NaN"`` on the feature); earlier versions refuse it, hence ``missing`` is optional.

**Vespa** deploys trees as a file of the application package, ``models/NAME.json``, for the rank feature ``lightgbm("NAME.json")``. The
file is LightGBM's ``dump_model``. Vespa reads its ``<=`` as ``<``, so thresholds are again the float32 after ours. ``default_left`` says
where NaN goes. Read in Vespa's LightGBMParser, and not tried on a live engine.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from localrank.errors import ExportRefused
from localrank.exports import ENGINES
from localrank.features.blocks import parse
from localrank.scorers import LinearScorer, SumScorer, TreesScorer
from localrank.scorers.trees import CATEGORICAL, DEFAULT_LEFT, MISSING_NONE, MISSING_TYPE, MISSING_ZERO
from localrank.scorers.walk import ForestLayout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from localrank.arrays import Vector
    from localrank.features.contract import FeatureContract
    from localrank.ranker import Ranker
    from localrank.scorers import Scorer

_MOST_TREES = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class PlainWeights:
    """``[n_features]`` weights; a constant is left out, which changes no order."""

    weights: Vector


@dataclass(frozen=True, slots=True, eq=False)
class PlainTrees:
    """Forests whose scores add up; all their splits compare a number with a threshold."""

    forests: tuple[TreesScorer, ...]


def plain_form(ranker: Ranker, *, global_scorer: bool = False) -> PlainWeights | PlainTrees:
    """Return what an engine can compute of a model.

    Args:
        ranker: the model.
        global_scorer: take its global scorer, leaving its clusters out.

    Raises:
        ExportRefused: it cannot; the message says what is in the way and what to do.
    """
    if ranker.scorers and not global_scorer:
        raise ExportRefused(
            f"expected one scorer for all queries, found {len(ranker.scorers)} clusters, which need routing; "
            "use --global-scorer to export only the global scorer, or let the service rank the hits (see its "
            "adapters)"
        )
    parts = list(_parts(ranker.global_scorer))
    if all(isinstance(part, TreesScorer) for part in parts):
        forests = tuple(part for part in parts if isinstance(part, TreesScorer))
        if (n_trees := sum(forest.n_trees for forest in forests)) > _MOST_TREES:
            raise ExportRefused(
                f"expected at most {_MOST_TREES} trees, a shared forest counted wherever it stands, found {n_trees}; "
                "search engines cannot run such models"
            )
        for forest in forests:
            _check_trees(forest, ranker.contract)
        return PlainTrees(forests)
    if len(parts) == 1 and isinstance(parts[0], LinearScorer):
        return PlainWeights(_weights(parts[0], ranker.contract))
    kinds = ", ".join(sorted({part.kind for part in parts}))
    raise ExportRefused(
        f"expected a linear scorer or trees, found {kinds}; search engines cannot run such models"
    )


def _parts(scorer: Scorer) -> Iterator[Scorer]:
    if isinstance(scorer, SumScorer):
        for member in scorer.rankers:
            yield from _parts(member)
    else:
        yield scorer


def _weights(scorer: LinearScorer, contract: FeatureContract) -> Vector:
    """Let the weights absorb the blocks' scales and a normalisation by what training saw."""
    terms = parse(scorer.blocks)
    weights = np.zeros(contract.n_features)
    for term, part in zip(terms, np.split(scorer.weights, len(terms)), strict=True):
        if term.name == "raw" or (term.name == "normalised" and contract.normalise == "none"):
            divisor: Vector | float = 1.0
        elif term.name == "normalised" and contract.normalise == "global_zscore":
            divisor = contract.scale
        elif term.name == "normalised" and contract.normalise == "column_norm":
            divisor = contract.norm
        else:
            raise _per_query(term.name, contract)
        weights += part * term.scale / divisor
    return weights


def _check_trees(forest: TreesScorer, contract: FeatureContract) -> None:
    terms = parse(forest.blocks)
    term = terms[0]
    plain = term.name == "raw" or (term.name == "normalised" and contract.normalise == "none")
    if len(terms) > 1 or not plain or term.scale != 1:
        raise _per_query(forest.blocks, contract)
    if ((forest.decisions & CATEGORICAL) > 0).any():
        raise ExportRefused(
            "expected splits of numbers, found splits on categories; search engines cannot run these"
        )
    if ((forest.decisions & MISSING_TYPE) == MISSING_ZERO).any():
        raise ExportRefused(
            "expected trees that treat zero as a value, found trees that treat it as missing; search engines "
            "cannot run these"
        )


def _per_query(blocks: str, contract: FeatureContract) -> ExportRefused:
    how = f" ({contract.normalise})" if blocks == "normalised" else ""
    return ExportRefused(
        f"expected features as they are, found the block {blocks!r}{how}; search engines cannot compute this "
        'block; train with [learner] blocks = "raw", or [contract] normalise = "none"'
    )


@dataclass(frozen=True, slots=True)
class PlainLeaf:
    """A value; ``number`` counts the nodes of the tree, parents first."""

    number: int
    value: float


@dataclass(frozen=True, slots=True)
class PlainSplit:
    """A document goes left if its feature is not above ``threshold``, a float32."""

    number: int
    depth: int
    feature: int
    threshold: np.float32
    missing_left: bool


def nested(
    forest: TreesScorer, leaf: Callable[[PlainLeaf], Any], split: Callable[[PlainSplit, Any, Any], Any]
) -> Iterator[Any]:
    """Yield each tree, built from the leaves up: ``leaf(Leaf)`` and ``split(Split, left, right)``.

    A threshold becomes the greatest float32 that is not above it. Every float32 value then goes the same way as with
    the double.
    """
    with np.errstate(over="ignore"):
        near = forest.thresholds.astype(np.float32)
        thresholds = np.where(near > forest.thresholds, np.nextafter(near, np.float32(-np.inf)), near)
    none_missing = (forest.decisions & MISSING_TYPE) == MISSING_NONE
    # Where nothing is missing, NaN is taken for zero.
    missing_left = np.where(none_missing, forest.thresholds >= 0, (forest.decisions & DEFAULT_LEFT) > 0)
    for tree, n_splits in enumerate(forest.splits.tolist()):
        begin, first_leaf = int(forest.split_begins[tree]), int(forest.split_begins[tree]) + tree
        if not n_splits:
            yield leaf(PlainLeaf(0, float(forest.values[first_leaf])))
            continue
        depths = np.zeros(n_splits, np.int64)
        built: list[Any] = [None] * n_splits
        for number in range(n_splits):
            for child in (forest.left[begin + number], forest.right[begin + number]):
                if child >= 0:
                    depths[child] = depths[number] + 1
        # A child stands after its parent, so that going backwards finds children built.
        for number in reversed(range(n_splits)):
            at = begin + number
            sides = [
                built[child]
                if child >= 0
                else leaf(PlainLeaf(n_splits - 1 - child, float(forest.values[first_leaf - 1 - child])))
                for child in (int(forest.left[at]), int(forest.right[at]))
            ]
            built[number] = split(
                PlainSplit(
                    number,
                    int(depths[number]),
                    int(forest.features[at]),
                    thresholds[at],
                    bool(missing_left[at]),
                ),
                *sides,
            )
        yield built[0]


def elasticsearch_body(
    model: PlainTrees | PlainWeights, name: str, features: Sequence[str]
) -> dict[str, Any]:
    """Return the body of the request; the feature set must have features of these names."""
    if isinstance(model, PlainWeights):
        kind = "model/linear"
        definition: Any = dict(zip(features, model.weights.tolist(), strict=True))
    else:
        kind = "model/xgboost+json"
        definition = [tree for forest in model.forests for tree in _elasticsearch_trees(forest, features)]
    # The definition is a text within the JSON.
    text = json.dumps(definition, separators=(",", ":"))
    return {"model": {"name": name, "model": {"type": kind, "definition": text}}}


def _elasticsearch_trees(forest: TreesScorer, features: Sequence[str]) -> Iterator[dict[str, Any]]:
    def leaf(one: PlainLeaf) -> dict[str, Any]:
        return {"nodeid": one.number, "leaf": _shortest(np.float32(one.value))}

    def split(one: PlainSplit, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        return {
            "nodeid": one.number,
            "depth": one.depth,
            "split": features[one.feature],
            "split_condition": _shortest(_after(one.threshold)),
            "yes": left["nodeid"],
            "no": right["nodeid"],
            "missing": (left if one.missing_left else right)["nodeid"],
            "children": [left, right],
        }

    return nested(forest, leaf, split)


def _after(threshold: np.float32) -> np.float32:
    """Return the next float32; the largest one unchanged, because every document is below it."""
    largest = np.finfo(np.float32).max
    return np.float32(largest if threshold >= largest else np.nextafter(threshold, np.float32(np.inf)))


def _shortest(value: np.float32) -> float:
    """Return the number with the fewest digits that read back to the same float32."""
    return float(str(value))


_PACKAGE = "org.apache.solr.ltr.model"
#: Solr's NODE_SPLIT_SLACK.
_SLACK = np.float32(1e-6)


def solr_body(
    model: PlainTrees | PlainWeights, name: str, features: Sequence[str], *, missing: bool = False
) -> dict[str, Any]:
    """Return the model; the feature store must have features of these names.

    Args:
        model: what to write.
        name: under which Solr stores it.
        features: in the order of the columns.
        missing: whether splits say where a missing feature goes.
    """
    params: dict[str, Any]
    if isinstance(model, PlainWeights):
        kind = "LinearModel"
        params = {"weights": dict(zip(features, model.weights.tolist(), strict=True))}
    else:
        kind = "MultipleAdditiveTreesModel"
        params = {
            "trees": [
                {"weight": "1", "root": root}
                for forest in model.forests
                for root in _solr_trees(forest, features, missing=missing)
            ]
        }
    return {
        "class": f"{_PACKAGE}.{kind}",
        "name": name,
        "features": [{"name": feature} for feature in features],
        "params": params,
    }


def _solr_trees(forest: TreesScorer, features: Sequence[str], *, missing: bool) -> Iterator[dict[str, Any]]:
    def leaf(one: PlainLeaf) -> dict[str, Any]:
        return {"value": str(np.float32(one.value))}

    def split(one: PlainSplit, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        side = {"missing": "left" if one.missing_left else "right"} if missing else {}
        threshold = str(_without_slack(one.threshold))
        return {
            "feature": features[one.feature],
            "threshold": threshold,
            **side,
            "left": left,
            "right": right,
        }

    return nested(forest, leaf, split)


def _without_slack(threshold: np.float32) -> np.float32:
    """Return a float32 that becomes the threshold when Solr adds its slack, or the smallest possible number above it.

    Usually the sum is the threshold. Sometimes no float32 has this sum. Then the sum is one of the next numbers above
    the threshold, so that values at the threshold, which are common, still go left.
    """
    down, up = np.float32(-np.inf), np.float32(np.inf)
    stored = threshold - _SLACK
    while stored + _SLACK < threshold:
        stored = np.nextafter(stored, up)
    while stored + _SLACK > threshold and (lower := np.nextafter(stored, down)) + _SLACK >= threshold:
        stored = lower
    return stored


#: What a rank feature of Vespa, or a function of a rank profile, is called: ``bm25(title)``, ``closeness(field,embedding)``, ``popularity``.
_RANK_FEATURE = re.compile(r"[A-Za-z_][A-Za-z0-9_.$@]*(\([A-Za-z0-9_.,$@{}]*\)(\.[A-Za-z0-9_.]+)?)?")


def vespa_body(model: PlainTrees | PlainWeights, name: str, features: Sequence[str]) -> dict[str, Any]:
    """Return the file of the application package; the features must be rank features, or functions of the rank profile.

    Raises:
        ExportRefused: Vespa reads no weights, or could not read a feature's name as one.
    """
    if isinstance(model, PlainWeights):
        raise ExportRefused(
            "expected trees for Vespa, found weights, which no file of Vespa holds; write the weighted sum as an expression of the "
            "rank profile"
        )
    for feature in features:
        if _RANK_FEATURE.fullmatch(feature) is None:
            raise ExportRefused(
                f"expected features with names that Vespa takes for a rank feature or a function, found {feature!r}"
            )
    trees = [tree for forest in model.forests for tree in _vespa_trees(forest)]
    return {
        "name": name,
        "version": "v4",
        "num_class": 1,
        "num_tree_per_iteration": 1,
        "label_index": 0,
        "max_feature_idx": len(features) - 1,
        # An objective whose sum Vespa leaves as it is.
        "objective": "lambdarank",
        "feature_names": list(features),
        "feature_infos": {},
        "tree_info": [
            {"tree_index": number, "num_cat": 0, "shrinkage": 1, "tree_structure": tree}
            for number, tree in enumerate(trees)
        ],
        "pandas_categorical": [],
    }


def _vespa_trees(forest: TreesScorer) -> Iterator[dict[str, Any]]:
    def leaf(one: PlainLeaf) -> dict[str, Any]:
        return {"leaf_value": one.value}

    def split(one: PlainSplit, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        return {
            "split_feature": one.feature,
            # All digits, because Vespa reads a double.
            "threshold": float(_after(one.threshold)),
            "decision_type": "<=",
            "default_left": one.missing_left,
            "missing_type": "NaN",
            "left_child": left,
            "right_child": right,
        }

    return nested(forest, leaf, split)


#: Nested deeper than this, an engine's or a client's JSON reader may give up.
_DEEPEST = 400


class Exported(NamedTuple):
    """The body for an engine, and notes for the person who uploads it."""

    body: dict[str, Any]
    notes: tuple[str, ...]


def export(ranker: Ranker, engine: str, name: str, *, global_scorer: bool = False) -> Exported:
    """Write a model for an engine.

    Raises:
        ExportRefused: it cannot compute the model.
    """
    if engine not in ENGINES:
        raise ExportRefused(f"expected one of {', '.join(ENGINES)}, found {engine!r}")
    model = plain_form(ranker, global_scorer=global_scorer)
    contract = ranker.contract
    if isinstance(model, PlainTrees):
        depth = max(int(ForestLayout.of(forest).depths.max()) for forest in model.forests)
        if depth > _DEEPEST:
            raise ExportRefused(f"expected trees of at most {_DEEPEST} levels, found {depth}")
    takes_missing = isinstance(model, PlainTrees) and "nan" in contract.missing
    notes = [
        (
            "the engine adds in float32: scores may differ in the seventh digit, so documents with nearly equal "
            "scores may change places"
        )
    ]
    others = sorted(set(contract.missing) - {"nan", "zero", "reject"})
    if others:
        notes.append(
            f"the model replaces missing values ({', '.join(others)}), but the engine does not: log a value "
            "for every feature"
        )
    if engine == "solr":
        if takes_missing:
            notes.append('missing values need Solr 9.2 and features with "defaultValue": "NaN"')
        return Exported(solr_body(model, name, contract.names, missing=takes_missing), tuple(notes))
    if engine == "vespa":
        if takes_missing:
            notes.append(
                "the trees decide where NaN goes; a rank feature that does not match is mostly 0 in Vespa, not NaN"
            )
        return Exported(vespa_body(model, name, contract.names), tuple(notes))
    if takes_missing:
        notes.append(
            "Elasticsearch LTR uses 0 for a missing feature, so the trees may give such documents other "
            "scores"
            if engine == "elasticsearch"
            else "some versions of OpenSearch LTR ignore 'missing' and use 0 for a missing feature, so the "
            "trees may give such documents other scores"
        )
    return Exported(elasticsearch_body(model, name, contract.names), tuple(notes))
