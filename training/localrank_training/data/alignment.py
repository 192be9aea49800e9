"""Judged queries as one model's feature contract wants them: the right columns in the right order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import InvalidData
from localrank_training.data.queries import default_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localrank.contract import FeatureContract
    from localrank_training.data.queries import QuerySet

__all__ = ["aligned"]


def aligned(queries: QuerySet, contract: FeatureContract) -> QuerySet:
    """Return the queries with the columns of the contract.

    Columns are found by their names, and further ones are left out. Data that name no features (LETOR text without
    names) are taken by position, and then must have as many as the contract.

    Raises:
        InvalidData: a feature of the contract is missing.
    """
    names = queries.feature_names
    if names == contract.names:
        return queries
    if names == default_names(len(names)):
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
    columns = [positions[name] for name in contract.names]
    documents = np.ascontiguousarray(queries.documents[:, columns])
    return replace(queries, documents=documents, feature_names=contract.names)


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    shown = ", ".join(map(repr, names[:5]))
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
