"""Judged queries with the columns of a model's feature contract, in its order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import InvalidData
from localrank_training.data.queries import default_names
from localrank_training.data.usable import refuse_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from localrank.features.contract import FeatureContract
    from localrank_training.data.queries import QuerySet


def aligned(
    queries: QuerySet, contract: FeatureContract, say: Callable[[str], None] = lambda _: None
) -> QuerySet:
    """Return the queries with the columns of the contract.

    Columns are found by their names, and further ones are left out. Data that name no features (LETOR text without
    names) are taken by position, and then must have as many as the contract.

    Args:
        queries: as they were read.
        contract: of the model.
        say: told which columns were left out.

    Raises:
        InvalidData: a feature of the contract is missing, or a value that the contract does not replace.
    """
    queries = _with_columns(queries, contract, say)
    refuse_missing(
        queries, contract.missing, "the model was trained without missing values and does not replace them"
    )
    return queries


def _with_columns(queries: QuerySet, contract: FeatureContract, say: Callable[[str], None]) -> QuerySet:
    names = queries.feature_names
    if names == contract.names:
        return queries
    # A model may have these names too, in another order.
    if names == default_names(len(names)) and set(names) != set(contract.names):
        if len(names) != contract.n_features:
            raise InvalidData(
                f"expected {contract.n_features} features per document, as the model has, found {len(names)}"
            )
        return replace(queries, feature_names=contract.names)
    positions = {name: position for position, name in enumerate(names)}
    missing = [name for name in contract.names if name not in positions]
    if missing:
        raise InvalidData(
            f"the model needs the features {_listed(missing)}, which the data do not have; they have {_listed(names)}"
        )
    known = set(contract.names)
    if further := [name for name in names if name not in known]:
        say(f"left out, because the model does not know them: {_listed(further)}")
    columns = [positions[name] for name in contract.names]
    documents = np.ascontiguousarray(queries.documents[:, columns])
    return replace(queries, documents=documents, feature_names=contract.names)


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    shown = ", ".join(map(repr, names[:5]))
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
