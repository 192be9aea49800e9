"""LocalRank: rank each query's documents with the model of its own kind.

Here is what a model *is*: signature, similarity, hash tables, routing, scorers, feature contract, artifact, registry
and metrics. Nothing here trains and nothing here speaks HTTP; numpy and scipy's LAPACK are all it imports.
"""

from __future__ import annotations

from localrank._version import __version__

__all__ = ["__version__"]
