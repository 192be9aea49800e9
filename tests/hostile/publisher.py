"""A process that publishes and promotes without end, for a test to kill: ``python publisher.py MODELS SEED``.

It prints a line before and after each act, so that the test knows what had certainly happened.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from localrank import Registry
from localrank.errors import ArtifactNotFound
from tests.core.examples import example_ranker, provenance


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def main(models_dir: str, seed: int, rounds: int) -> None:
    registry = Registry(Path(models_dir))
    ranker = example_ranker("exact", seed=seed)
    said = provenance(ranker, seed)
    for _ in range(rounds):
        say("publishing")
        version = registry.publish("web", ranker, said).version
        say("published", version)
        registry.promote("web", version)
        say("promoted", version)
        if version % 3 == 0:
            # Another publisher may have rolled back in between, so that there is nothing earlier left.
            with suppress(ArtifactNotFound):
                registry.rollback("web")
            say("rolled back")
        if version % 4 == 0:
            registry.prune("web", keep=3)
            say("pruned")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
