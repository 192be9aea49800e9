"""LocalRank beside what a user would serve the same model with: ``python -m benchmarks.peers --help`` explains."""

from __future__ import annotations

__all__ = ["main"]


def main() -> int:
    from benchmarks.peers.comparison import main

    return main()
