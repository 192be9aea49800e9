"""From another library's model to a version in the registry: checked against its origin, with contract and probe."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank import probe
from localrank.artifact import Provenance
from localrank.errors import InvalidData
from localrank.features.contract import FeatureContract
from localrank.points.representation import NoRepresentation
from localrank.ranker import Ranker
from localrank.routing.router import GlobalRouter
from localrank_training.data.preparing import aligned
from localrank_training.data.queries import default_names
from localrank_training.origins.asking import LIBRARIES, origin_scores
from localrank_training.origins.checking import check, expected_scores, made_queries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from localrank.arrays import Matrix, Vector
    from localrank.registry.versions import Reference, Registry
    from localrank_training.data.queries import QuerySet
    from localrank_training.origins.checking import Check
    from localrank_training.origins.model import OriginModel

_UNKNOWN_RANGES = "the training data of the original model are not known: the contract allows all of float32"
_MADE_LENGTHS = "the contract has the list lengths of synthetic queries"


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import; ``check`` is None if the scores could not be compared, and this was allowed."""

    reference: Reference
    check: Check | None
    notes: tuple[str, ...]


def publish(
    registry: Registry,
    name: str,
    model: OriginModel,
    path: Path,
    *,
    data: QuerySet | None = None,
    expected: Path | None = None,
    unverified: bool = False,
    created: str | None = None,
) -> Imported:
    """Check a model against its origin and publish it as the next version of ``name``; no alias moves.

    Args:
        registry: where to.
        name: what it will be called.
        model: as `localrank_training.origins.read_model` read it.
        path: its file.
        data: documents that it is compared on, whose ranges the contract learns; made from its splits by default.
        expected: a file with the origin's score of each document of ``data``, in their order.
        unverified: publish it even if there are no scores of the origin to compare with.
        created: when, as text; now by default.

    Raises:
        InvalidData: the scores differ, or nothing can be compared.
    """
    if expected is not None and data is None:
        raise InvalidData("--expected: expected the documents of these scores (--data), found none")
    ranker, queries = _ranker(model, data)
    scores = np.concatenate([ranker.rank(query).scores for query in queries])
    found: Check | None
    if expected is not None and data is not None:
        in_order = np.empty(len(scores))
        in_order[data.lines] = scores
        found = check(model, in_order, expected_scores(expected), str(expected), printed=True)
    else:
        found = _compared(model, path, np.concatenate(queries), scores)
    if found is None and not unverified:
        raise InvalidData(
            f"{path}: expected {_library(model)} to compare scores with, but it is not installed; give "
            "documents and their scores by that library (--data DATA --expected SCORES), or publish without "
            "a check (--unverified)"
        )
    notes = [*model.notes, *([] if found else ["scores were not compared with the original library"])]
    if model.offset:
        notes.append(
            f"the original model adds {model.offset:.6g} to every score; this is left out, because it changes "
            "no order"
        )
    if data is None:
        notes += [_MADE_LENGTHS, *([] if model.ranges and all(model.ranges) else [_UNKNOWN_RANGES])]
    reference = registry.publish(
        name,
        ranker,
        Provenance(
            created=created or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            source={"imported": _source(model, path, found)},
            probe=probe.choose(ranker, queries),
            notes=notes,
        ),
    )
    return Imported(reference, found, tuple(notes))


def _ranker(model: OriginModel, data: QuerySet | None) -> tuple[Ranker, list[Matrix]]:
    names = model.names or default_names(model.n_features)
    if data is None:
        queries = made_queries(model)
        lengths: Sequence[int] = [len(query) for query in queries]
        contract = FeatureContract.learn(
            np.concatenate(queries), lengths, features=model.features, missing=model.missing, normalise="none"
        )
        contract = replace(contract, quantiles=_widened(contract.quantiles, model))
        return Ranker(contract, NoRepresentation(), GlobalRouter(), (), model.scorer), queries
    if data.n_features != model.n_features and data.feature_names == default_names(data.n_features):
        raise InvalidData(
            f"expected {model.n_features} features per document, as the model has, found {data.n_features}"
        )
    contract = FeatureContract.learn(
        data.documents,
        data.lengths.tolist(),
        names=data.feature_names,
        missing=model.missing,
        normalise="none",
    )
    if contract.names != names or data.special or model.categories:
        data = aligned(data, replace(contract, features=model.features))
        contract = FeatureContract.learn(
            data.documents,
            data.lengths.tolist(),
            features=model.features,
            missing=model.missing,
            normalise="none",
        )
    ranker = Ranker(contract, NoRepresentation(), GlobalRouter(), (), model.scorer)
    return ranker, list(data.clouds())


def _compared(model: OriginModel, path: Path, documents: Matrix, scores: Vector) -> Check | None:
    """Compare with the library itself, which may not be installed."""
    if model.missing == "zero":
        documents = np.nan_to_num(documents, nan=0.0)
    try:
        answer = origin_scores(model, documents)
    except InvalidData as error:
        raise InvalidData(f"{path}: {error}") from None
    if answer is None:
        return None
    against, theirs = answer
    return check(model, scores, theirs, against)


def _widened(quantiles: Matrix, model: OriginModel) -> Matrix:
    """Return the quantiles with the training range as the origin knows it, else as wide as float32."""
    wide = quantiles.copy()
    largest = np.finfo(np.float32).max
    for feature in range(model.n_features):
        known = None if model.ranges is None else model.ranges[feature]
        low, high = (-largest, largest) if known is None else known
        with np.errstate(over="ignore"):
            wide[:, feature] = np.clip(wide[:, feature], np.float32(low), np.float32(high))
            wide[0, feature], wide[-1, feature] = low, high
    return np.clip(wide, -largest, largest)


def _source(model: OriginModel, path: Path, found: Check | None) -> dict[str, Any]:
    return {
        "format": model.format,
        "file": path.name,
        "sha256": hashlib.sha256(model.content).hexdigest(),
        "check": None if found is None else found.to_json(),
    }


def _library(model: OriginModel) -> str:
    return LIBRARIES.get(model.format, ("", "RankLib"))[1]
