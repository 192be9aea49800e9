"""The order that a model must beat: the one that users see today, or the best single feature.

``--baseline`` names it: a column of the data, ``position`` (the places of ``--position``), a TREC run, or a file with one
number for each document, as ``localrank rank`` writes it. Its scores stay beside the documents (`QuerySet.present`), so
that they are compared on exactly the queries that a model was measured on.

Documents with equal values of a column are put in random order, so that a column earns nothing by the order of the input.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.errors import InvalidData
from localrank.metrics import measure
from localrank_training.data.queries import Present
from localrank_training.data.trec import read_run, scores_of
from localrank_training.evaluation.comparisons import compare_family
from localrank_training.evaluation.leaks import METRIC, best_alone, values_of, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Vector
    from localrank.metrics import Measured
    from localrank_training.data.queries import QuerySet
    from localrank_training.evaluation.comparisons import Comparison

#: What ``--baseline`` calls the places of ``--position``.
POSITION = "position"
#: Columns whose names have one of these words count from the top: small values come first.
_FROM_THE_TOP = {"position", "rank", "place"}


@dataclass(frozen=True, slots=True)
class AgainstBaseline:
    """A model beside an order that needs none.

    Attributes:
        name: of the order, for people.
        given: whether the user named it; otherwise it is the best single feature.
        comparisons: of all metrics, the model less the order, adjusted together.
    """

    name: str
    given: bool
    comparisons: tuple[Comparison, ...]

    @property
    def sentence(self) -> str:
        """One metric of both, and their difference: NDCG@10 if it was measured."""
        one = next((one for one in self.comparisons if one.metric == METRIC), self.comparisons[-1])
        return (
            f"{self.name} {one.metric} {one.baseline:.4f}, this model {one.candidate:.4f} "
            f"({one.difference:+.4f} {one.interval_text})"
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "name": self.name,
            "given": self.given,
            "sentence": self.sentence,
            "figures": [
                {
                    "metric": one.metric,
                    "model": one.candidate,
                    "baseline": one.baseline,
                    "difference": one.difference,
                    "low": None if one.interval is None else one.interval.low,
                    "high": None if one.interval is None else one.interval.high,
                    "p_holm": one.p_holm,
                }
                for one in self.comparisons
            ],
        }


def with_present(queries: QuerySet, text: str) -> QuerySet:
    """Return the queries with the scores of the order that a text names.

    Raises:
        InvalidData: it is no column, no place and no file.
    """
    if text == POSITION and queries.positions is not None:
        # Documents without a place come last.
        places = np.where(queries.positions > 0, queries.positions, queries.positions.max() + 1)
        return _with(queries, POSITION, -places.astype(np.float64))
    if text in queries.special and queries.special[text].kind == "category":
        raise InvalidData(f"--baseline {text}: expected numbers, found a category")
    if text in queries.feature_names:
        values = queries.column(queries.feature_names.index(text)).astype(np.float64)
        first = -1.0 if _FROM_THE_TOP & set(words_of(text)) else 1.0
        said = f"{text}, {'small' if first < 0 else 'large'} values first"
        return _with(queries, said, _untied(first * values))
    path = Path(text)
    if not path.is_file():
        raise InvalidData(
            f"--baseline {text}: expected a column of the data, 'position' with --position, or a file with a TREC run or "
            f"scores, found none of them (columns: {', '.join(queries.feature_names[:6])}, …)"
        )
    return _with(queries, path.name, _from_file(queries, path))


def without(queries: QuerySet, feature: str) -> QuerySet:
    """Return the queries without a feature, of which there is another one."""
    kept = [place for place, name in enumerate(queries.feature_names) if name != feature]
    if not kept:
        raise InvalidData(f"expected a feature besides {feature!r}, found none")
    return replace(
        queries,
        documents=np.ascontiguousarray(queries.documents[:, kept]),
        feature_names=tuple(queries.feature_names[place] for place in kept),
        special={name: one for name, one in queries.special.items() if name != feature},
    )


def against_baseline(measured: Sequence[Measured], queries: QuerySet, seed: int = 0) -> AgainstBaseline:
    """Compare a model's figures with the present order, or with the best single feature if nobody knows it.

    Args:
        measured: of the model, in one convention.
        queries: that it was measured on.
        seed: of the resampling.
    """
    present = queries.present
    if present is None:
        best = best_alone(queries)
        values = values_of(queries, queries.feature_names.index(best.name))
        name, scores = (
            f"best single feature {best.name!r}, {best.first} first,",
            _untied(values if best.descending else -values),
        )
    else:
        name, scores = f"your present order ({present.name})", present.scores
    theirs = measure(
        queries.labels,
        scores,
        queries.offsets,
        [str(one.metric) for one in measured],
        measured[0].convention,
    )
    return AgainstBaseline(name, present is not None, tuple(compare_family(measured, theirs, seed=seed)))


def _with(queries: QuerySet, name: str, scores: Vector) -> QuerySet:
    return replace(queries, present=Present(name, scores))


def _untied(values: Vector) -> Vector:
    """Return the ranks of values, equal ones in random order; missing ones are the least."""
    values = np.nan_to_num(values, nan=-np.inf, neginf=-np.inf, posinf=np.inf)
    ranks = np.empty(len(values))
    ranks[np.lexsort((np.random.default_rng(0).random(len(values)), values))] = np.arange(len(values))
    return ranks


def _from_file(queries: QuerySet, path: Path) -> Vector:
    """Read a TREC run, or one number for each document in the order of the input."""
    scores: list[float] = []
    number = 0
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                words = line.split()
                if number == 1 and len(words) != 1:
                    return scores_of(queries, read_run(path))
                scores += [float(line)] if words else []
    except UnicodeDecodeError:
        raise InvalidData(
            f"{path}: expected a TREC run or a number on each line, found a file that is no text (a column of the data is named by "
            "its name)"
        ) from None
    except (OSError, ValueError) as error:
        raise InvalidData(
            f"{path}:{number}: expected a TREC run or a number on each line, found {error}"
        ) from None
    if len(scores) != queries.n_docs or not np.isfinite(scores).all():
        raise InvalidData(
            f"{path}: expected a finite number for each of {queries.n_docs} documents, found {len(scores)} numbers"
        )
    return np.array(scores)[queries.lines]
