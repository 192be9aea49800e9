"""One query as the caller has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

__all__ = ["Options", "Query"]


class Options(TypedDict, total=False):
    """What `Query` takes besides the documents, by name."""

    model: str | None
    top_n: int | None
    explain: str | None
    contract: str | None
    feature_names: Sequence[str] | None
    compare: tuple[int, int] | None
    timeout_ms: float | None
    allow_degraded: bool
    fallback_feature: str | None
    query_id: str | int | None
    session_id: str | int | None


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One query of a batch.

    Attributes:
        features: ``[n, d]``; NaN is a missing value. Or one mapping of feature names to numbers per document.
        ids: of the documents, anything; they stay with the caller.
        model: ``name``, ``name@version`` or ``name@alias``.
        top_n: give only the best.
        explain: ``route`` asks why the query went where it went, ``contributions`` what each feature adds to each score.
        contract: hash of the feature contract that the caller was written for.
        feature_names: of the columns, if they are not in the model's order.
        compare: positions of two documents; with contributions, why the first is above the second.
        timeout_ms: milliseconds in which the service should rank; a cheaper ranking answers if that is too little.
        allow_degraded: false asks for an error instead of a cheaper ranking.
        fallback_feature: with a timeout, the feature whose order is answered if there is no time to rank at all.
        query_id: the caller's name for the query, for the service's log and experiments.
        session_id: the caller's name for the user's session.
    """

    features: npt.ArrayLike | Sequence[Mapping[str, Any]]
    ids: Sequence[Any] | None = None
    model: str | None = None
    top_n: int | None = None
    explain: str | None = None
    contract: str | None = None
    feature_names: Sequence[str] | None = None
    compare: tuple[int, int] | None = None
    timeout_ms: float | None = None
    allow_degraded: bool = True
    fallback_feature: str | None = None
    query_id: str | int | None = None
    session_id: str | int | None = None

    def options(self, model: str | None) -> dict[str, Any]:
        """Return everything but the documents."""
        options = {
            "model": self.model or model,
            "top_n": self.top_n,
            "explain": self.explain,
            "contract": self.contract,
            "timeout_ms": self.timeout_ms,
            "allow_degraded": None if self.allow_degraded else False,
            "fallback_feature": self.fallback_feature,
            "query_id": self.query_id,
            "session_id": self.session_id,
            "compare": None if self.compare is None else list(self.compare),
            "feature_names": None if self.feature_names is None else list(self.feature_names),
        }
        return {name: value for name, value in options.items() if value is not None}

    def named(self) -> list[dict[str, Any]] | None:
        """Return the documents by name, if they are."""
        if (
            isinstance(self.features, list | tuple)
            and self.features
            and isinstance(self.features[0], Mapping)
        ):
            documents: Any = self.features
            return [
                {"features": {name: _number(value) for name, value in document.items()}}
                for document in documents
            ]
        return None

    def array(self) -> np.ndarray[Any, np.dtype[Any]]:
        """Return the documents as the service wants them: float32, or float16 as it is."""
        values = np.asarray(self.features)
        if values.dtype not in (np.float16, np.float32):
            with np.errstate(over="ignore"):  # what float32 cannot hold is refused by name over there
                values = values.astype(np.float32)
        if values.size == 0 and values.ndim == 1:
            values = values.reshape(0, 0)
        return np.ascontiguousarray(values)

    def check_ids(self) -> None:
        """Refuse ids that are not as many as documents."""
        documents: Any = self.features
        if self.ids is not None and len(self.ids) != len(documents):
            raise ValueError(f"{len(self.ids)} ids for {len(documents)} documents")


def _number(value: float | None) -> float | None:
    """Return what JSON has for a number; NaN is missing."""
    return None if value is None or value != value else float(value)  # noqa: PLR0124
