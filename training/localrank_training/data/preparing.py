"""Judged queries made ready for a model, and checked before the work begins, with file and line in the message.

They get the columns of its feature contract, and no value that it cannot take. `with_shorter_lists` adds shorter lists,
so that a model learned from full lists is not surprised by twenty documents: a served model only sees the documents that
an earlier stage lets through, the first twenty, or fifty. Their cloud has another shape than the full list, and features
that are normalised within the query get other values. All lists of a query together count as much as any other query.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import InvalidConfiguration, InvalidData
from localrank.features.columns import portions
from localrank.features.feature import special
from localrank_training.data.categories import check_kinds, of_queries, recoded
from localrank_training.data.queries import QuerySet, default_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from localrank.arrays import Indices, Vector
    from localrank.features.contract import FeatureContract
    from localrank.features.feature import Feature

#: Values looked at at a time, so that a mapped set is not held in memory.
_CELLS = 1 << 22


def aligned(
    queries: QuerySet, contract: FeatureContract, say: Callable[[str], None] = lambda _: None
) -> QuerySet:
    """Return the queries with the columns of the contract.

    Columns are found by their names, and further ones are left out. Data that name no features (LETOR text without
    names) are taken by position, and then must have as many as the contract.

    Args:
        queries: as they were read.
        contract: of the model.
        say: told which columns were left out, and how many values training did not know.

    Raises:
        InvalidData: a feature of the contract is missing, or a value that the contract does not replace.
    """
    queries = with_kinds(_with_columns(queries, contract, say), contract.features)
    refuse_missing(
        queries, contract.missing, "the model was trained without missing values and does not replace them"
    )
    say_unseen(queries, contract, say)
    return queries


def say_unseen(queries: QuerySet, contract: FeatureContract, say: Callable[[str], None]) -> None:
    """Say in one note how many values of each category training did not know, if there are any.

    The queries have the columns of the contract.
    """
    if unseen := contract.unseen(queries.documents):
        shown = ", ".join(f"{count} of {contract.names[at]!r}" for at, count in unseen.items())
        say(f"values that training did not know, each counts as one more value: {shown}")


def with_kinds(queries: QuerySet, features: Sequence[Feature]) -> QuerySet:
    """Return the queries, which have these features, with the codes of their categories.

    Raises:
        InvalidData: data have categories instead of numbers, or several values of a feature of the query in one query.
    """
    wanted = special(features)
    if not wanted and not queries.special:
        return queries
    check_kinds(features, queries.special)
    queries = recoded(queries, [one for one in features if one.kind == "category"])
    queries = of_queries(queries, [one.name for one in features if one.scope == "query"])
    return replace(queries, special=wanted)


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
    """Refuse missing values of numbers whose policy is ``reject``; an absent category is a value of its own.

    Args:
        queries: with the features of the model.
        policies: what a missing value becomes, for all features or for each (`localrank.features.contract.Missing`).
        advice: what to do about it.

    Raises:
        InvalidData: names the first such document, and how many more there are.
    """
    features = queries.features
    columns = [
        column
        for column in range(queries.n_features)
        if (policies if isinstance(policies, str) else policies[column]) == "reject"
        and features[column].kind == "number"
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


def with_shorter_lists(
    queries: QuerySet, lengths: Sequence[int], *, by: str = "random", seed: int = 0
) -> tuple[QuerySet, Vector]:
    """Return the queries followed by shorter lists of those that are longer, and what each list counts.

    Args:
        queries: full lists; they stay at their positions.
        lengths: documents of the shorter lists.
        by: ``random`` keeps a seeded sample; the name of a feature keeps the documents in which it is largest, as an
            earlier stage would. Documents keep their order. Missing values are the smallest.
        seed: of the sample.

    Returns:
        The lists, and ``[n_lists]`` weights: the weight of the query, divided by the number of its lists.
    """
    if by != "random" and by not in queries.feature_names:
        near = ", ".join(queries.feature_names[:5])
        raise InvalidConfiguration(f"[lists] by: expected 'random' or a feature ({near}, …), found {by!r}")
    rng = np.random.default_rng(seed)
    column = None if by == "random" else queries.feature_names.index(by)
    kept: list[Indices] = []
    owners: list[int] = []
    for length in lengths:
        for query in np.flatnonzero(queries.lengths > length).tolist():
            span = queries.span(query)
            if column is None:
                order = rng.permutation(span.stop - span.start)
            else:
                values = np.nan_to_num(queries.documents[span, column], nan=-np.inf)
                order = np.argsort(-values, kind="stable")
            kept.append(span.start + np.sort(order[:length]))
            owners.append(query)
    if not kept:
        return queries, np.ones(len(queries)) if queries.weights is None else queries.weights
    rows = np.concatenate([np.arange(queries.n_docs), *kept])
    sizes = np.concatenate([queries.lengths, [len(chosen) for chosen in kept]])
    owner = np.concatenate([np.arange(len(queries)), owners])
    lists = QuerySet(
        documents=np.ascontiguousarray(queries.documents[rows]),
        labels=queries.labels[rows],
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        query_ids=tuple(queries.query_ids[query] for query in owner),
        feature_names=queries.feature_names,
        lines=queries.lines[rows],
        special=queries.special,
    )
    weights = 1.0 / np.bincount(owner)[owner]
    return lists, weights if queries.weights is None else weights * queries.weights[owner]
