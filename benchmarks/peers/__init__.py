"""LocalRank beside what a user would serve the same model with; see ``python -m benchmarks.peers --help``."""
