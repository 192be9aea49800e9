"""Categories and features of the query in judged data: the values that each category keeps, and their codes.

Readers give the values of a category codes as they meet them. `described` settles them when all is read. `recoded` gives data
the codes of a model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from localrank.errors import InvalidData, did_you_mean
from localrank.features.feature import MOST_VALUES, Feature, spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from localrank.arrays import Matrix, Vector
    from localrank_training.data.queries import QuerySet
    from localrank_training.data.tables import Columns, Values

#: A column of more texts than this is left out if most of them occur once: they are titles or ids.
_FEW = 100


def described(queries: QuerySet, columns: Columns, values: Values, say: Callable[[str], None]) -> QuerySet:
    """Return queries that were read, with what is known of their features.

    Args:
        queries: with the codes of `values`.
        columns: what the user said of the columns.
        values: that the readers met.
        say: told what was left out.

    Raises:
        InvalidData: a feature that the user names is not there, or a feature of the query differs within one.
    """
    met = {name: Feature(name, "category", values.of(name)) for name in values}
    queries = replace(queries, special={**queries.special, **met})
    for option, names in (
        ("--category", columns.category),
        ("--query-feature", columns.query_feature),
        ("--date", columns.date),
    ):
        for name in names:
            if name not in queries.feature_names:
                raise InvalidData(
                    f"{option}: expected a feature, found {name!r}{did_you_mean(name, queries.feature_names)}"
                )
    queries = _without_texts(queries, columns, [*met], say)
    known = {one.name for one in columns.known}
    wanted = [
        # A model may know values that are rare here.
        _kept(queries, name, say, None if name in known or columns.items else MOST_VALUES)
        for name in queries.feature_names
        if name in columns.categories or name in met
    ]
    return of_queries(recoded(queries, wanted), columns.query_feature)


def recoded(queries: QuerySet, wanted: Iterable[Feature]) -> QuerySet:
    """Return the queries with these categories' own codes.

    Args:
        queries: judged queries that have these features.
        wanted: the categories; a value that is not among theirs gets the code for it.

    Raises:
        InvalidData: numbers that are no codes cannot be read as values.
    """
    special = dict(queries.special)
    changed: dict[int, Vector] = {}
    for one in wanted:
        own = special.get(one.name)
        special[one.name] = replace(one, scope="document" if own is None else own.scope)
        if own is None or own.kind != "category" or own.values != one.values:
            at = queries.feature_names.index(one.name)
            changed[at] = _codes(queries.column(at), own, one)
    return replace(queries, documents=_with_columns(queries, changed), special=special)


def of_queries(queries: QuerySet, names: Iterable[str]) -> QuerySet:
    """Return the queries with these as features of the query. A document without a value has that of the others.

    Raises:
        InvalidData: the documents of a query have different values; it names the first that differs.
    """
    special = dict(queries.special)
    filled: dict[int, Vector] = {}
    for name in names:
        if name not in queries.feature_names:
            continue
        special[name] = replace(special.get(name, Feature(name)), scope="query")
        at = queries.feature_names.index(name)
        column = queries.column(at)
        value = _of_each_query(queries, column, special[name])
        if np.any(np.isnan(column) & ~np.isnan(value)):
            filled[at] = value
    return replace(queries, special=special, documents=_with_columns(queries, filled))


def _of_each_query(queries: QuerySet, column: Matrix, feature: Feature) -> Vector:
    """Return ``[n_docs]`` the value of the document's query."""
    there = queries.lengths > 0
    starts, lengths = queries.offsets[:-1][there], queries.lengths[there]
    least = np.repeat(np.fmin.reduceat(column, starts), lengths)
    differs = np.flatnonzero(least < np.repeat(np.fmax.reduceat(column, starts), lengths))
    if len(differs):
        query = int(queries.query_of[differs[0]])
        rows = np.arange(queries.offsets[query], queries.offsets[query + 1])
        rows = rows[~np.isnan(column[rows])]
        wrong = int(rows[column[rows] != column[rows[0]]][0])
        found, before = (_shown(feature, float(column[row])) for row in (wrong, int(rows[0])))
        raise InvalidData(
            f"{queries.where(wrong)}: expected one value of {feature.name!r} for all documents of a query, found "
            f"{found} after {before}"
        )
    return least


def _with_columns(queries: QuerySet, columns: Mapping[int, Vector]) -> Matrix:
    """Return the documents with other values in some columns."""
    if not columns:
        return queries.documents
    documents = np.array(queries.documents, np.float32, order="C")
    for at, values in columns.items():
        documents[:, at] = values
    return documents


def _shown(feature: Feature, value: float) -> str:
    return f"{value:g}" if feature.kind == "number" else repr(feature.value_of(value))


def _codes(column: Matrix, own: Feature | None, wanted: Feature) -> Vector:
    """Return ``[n_docs]`` the codes of a column of codes of other values, or of numbers."""
    if own is not None and own.kind == "category":
        new = np.array([*map(wanted.code_of, own.values), wanted.unseen, np.nan])
        found: Vector = new[
            np.where(np.isnan(column), own.absent, np.minimum(column, own.unseen)).astype(np.intp)
        ]
        return found
    return wanted.codes_of_numbers(column)


def kept(queries: QuerySet, name: str, *, known: bool) -> QuerySet:
    """Return the queries with those values of a feature from a table that occur, if it is a category.

    Args:
        queries: with this feature.
        name: of the feature.
        known: whether a model knows it, so that its number of values has no limit.
    """
    one = queries.special[name]
    if one.kind == "number":
        return queries
    found = _kept(queries, name, lambda _: None, None if known else MOST_VALUES)
    queries = recoded(queries, [found])
    return replace(
        queries, special={**queries.special, name: replace(queries.special[name], table=one.table)}
    )


def _kept(queries: QuerySet, name: str, say: Callable[[str], None], most: int | None) -> Feature:
    """Return the category with the values that occur, the most frequent ones if there are too many."""
    own = queries.special.get(name, Feature(name))
    column = queries.column(queries.feature_names.index(name))
    column = column[~np.isnan(column)]
    if own.kind == "category":
        codes = np.minimum(column, own.unseen).astype(np.intp)
        counts = np.bincount(codes, minlength=len(own.values))[: len(own.values)]
        values: Sequence[str] = own.values
    else:
        distinct, first, counts = np.unique(column, return_index=True, return_counts=True)
        order = np.argsort(first)
        counts = counts[order]
        values = [str(spelled(number)) for number in distinct[order]]
    kept = np.flatnonzero(counts)
    if most is not None and len(kept) > most:
        kept = np.sort(kept[np.argsort(-counts[kept], kind="stable")[:most]])
        others = int(counts.sum() - counts[kept].sum())
        say(
            f"{name!r} has {np.count_nonzero(counts)} values: the {most} most frequent ones are kept, the others, of {others} "
            "documents, count as one"
        )
    return Feature(name, "category", tuple(values[at] for at in kept.tolist()))


def _without_texts(
    queries: QuerySet, columns: Columns, met: Iterable[str], say: Callable[[str], None]
) -> QuerySet:
    """Leave out columns of texts that mostly occur once, unless somebody names them."""
    named = columns.categories | {*columns.query_feature} | {one.name for one in columns.known}
    out = []
    for name in met:
        column = queries.column(queries.feature_names.index(name))
        counts = np.bincount(column[~np.isnan(column)].astype(np.intp))
        single, distinct = int((counts == 1).sum()), int((counts > 0).sum())
        if name not in named and distinct > _FEW and 2 * single > counts.sum():
            out.append(name)
    if not out or len(out) == queries.n_features:
        return queries
    say(
        f"left out, because most of their texts occur once: {', '.join(map(repr, out))} (--category {','.join(out)} uses "
        "them)"
    )
    kept = [at for at, name in enumerate(queries.feature_names) if name not in out]
    return replace(
        queries,
        documents=np.ascontiguousarray(queries.documents[:, kept]),
        feature_names=tuple(queries.feature_names[at] for at in kept),
        special={name: one for name, one in queries.special.items() if name not in out},
    )


def check_kinds(features: Iterable[Feature], special: Mapping[str, Feature]) -> None:
    """Refuse categories where a model has numbers.

    Raises:
        InvalidData: names the first.
    """
    for one in features:
        own = special.get(one.name)
        if one.kind == "number" and own is not None and own.kind == "category":
            shown = ", ".join(map(repr, own.values[:3]))
            raise InvalidData(
                f"expected numbers as {one.name!r}, as the model has, found categories ({shown})"
            )
