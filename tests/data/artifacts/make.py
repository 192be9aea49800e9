"""Make golden artifacts of the present format: ``python -m tests.data.artifacts.make`` from the project's root.

They are made once for each format and kept forever: what loads today must load tomorrow. It never replaces one.
"""

from __future__ import annotations

import sys
from pathlib import Path

from localrank import Registry
from localrank.artifact import FORMAT_VERSION
from tests.core.examples import ROUTER_EXAMPLES, SCORER_EXAMPLES, example_ranker, provenance


def main() -> int:
    registry = Registry(Path(__file__).parent / f"format-{FORMAT_VERSION}")
    known = registry.models()
    wanted = [("lsh", kind) for kind in SCORER_EXAMPLES] + [
        (strategy, "linear") for strategy in ROUTER_EXAMPLES
    ]
    for strategy, kind in wanted:
        name = f"{strategy}-{kind}"
        if name not in known and name not in registry.models():
            ranker = example_ranker(strategy, kind, seed=17)
            registry.publish(name, ranker, provenance(ranker, seed=17))
    return 0


if __name__ == "__main__":
    sys.exit(main())
