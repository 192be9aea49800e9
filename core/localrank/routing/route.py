"""How a query found its scorer, as values; the client returns them, too, so nothing heavy is imported here."""

from __future__ import annotations

from typing import NamedTuple


class Route(NamedTuple):
    """How a query found its scorer.

    A tuple, because one is made for every request and a frozen dataclass takes four times as long.

    Attributes:
        strategy: what was done: the router's name, but ``exact`` if hash tables were not used because it is faster to compare
            all training queries, or because they had no candidate.
        cluster: whose scorer answers; ``None`` is the global scorer.
        similarity: to the most similar training query that was compared; or what else the router compares clusters by,
            such as their probability.
        margin: lead of this similarity over the most similar query of any other cluster; ``None`` if only one cluster
            was compared. If not all training queries were compared, but the similarity is that of an exact scan, the
            margin is at least the margin of the exact scan.
        candidates: how many training queries were compared.
        fallback: why this is not what the strategy promises: ``no_signature``, ``no_candidates``, ``unknown_kind``, or
            ``None``.
        local: false if the cluster's scorer is the global one, or there is no cluster. `Ranker.rank` tells.
        shares: ``[n_clusters]`` the weight of each cluster's scorer, for fusion; empty if one cluster answers alone.
        standard: whether each cluster's scores get mean 0 and deviation 1 within the list before shares weigh them.
    """

    strategy: str
    cluster: int | None
    similarity: float | None = None
    margin: float | None = None
    candidates: int = 0
    fallback: str | None = None
    local: bool = True
    shares: tuple[float, ...] = ()
    standard: bool = False


class Neighbour(NamedTuple):
    """A training query that a query is similar to.

    Attributes:
        query: its position among the training queries.
        cluster: whose it is.
        similarity: to the query.
    """

    query: int
    cluster: int
    similarity: float
