"""Checks that judged queries fit the task, with file and line in the message, before the work begins."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import InvalidData
from localrank.features.columns import portions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from localrank_training.data.queries import QuerySet

#: Values looked at at a time, so that a mapped set is not held in memory.
_CELLS = 1 << 22


@contextmanager
def placed(queries: QuerySet) -> Iterator[None]:
    """Add file, line and query to an error about the label of one of these documents."""
    try:
        yield
    except InvalidData as error:
        if error.document is None:
            raise
        raise InvalidData(f"{queries.where(error.document)}: {error}") from error


def refuse_missing(queries: QuerySet, policies: str | Sequence[str], advice: str) -> None:
    """Refuse missing values of features whose policy is ``reject``.

    Args:
        queries: with the features of the model.
        policies: what a missing value becomes, for all features or for each (`localrank.features.contract.Missing`).
        advice: what to do about it.

    Raises:
        InvalidData: names the first such document, and how many more there are.
    """
    columns = [
        column
        for column in range(queries.n_features)
        if (policies if isinstance(policies, str) else policies[column]) == "reject"
    ]
    if not columns:
        return
    first: tuple[int, int] | None = None
    documents = 0
    for rows in portions(queries.documents, _CELLS):
        missing = np.isnan(queries.documents[rows])
        if not missing.any() or not (lacking := missing[:, columns].any(axis=1)).any():
            continue
        documents += int(lacking.sum())
        if first is None:
            at = int(np.argmax(lacking))
            first = rows.start + at, columns[int(np.argmax(missing[at, columns]))]
    if first is None:
        return
    document, column = first
    more = "1 more document lacks" if documents == 2 else f"{documents - 1} more documents lack"
    others = f", and {more} values" if documents > 1 else ""
    raise InvalidData(
        f"{queries.where(document)}: expected a value of {queries.feature_names[column]!r}, found none{others}; {advice}"
    )
