"""Make golden artifacts of the present format: ``python -m tests.data.artifacts.make`` from the project's root.

What loads today must load tomorrow, so it never replaces one. Until the first release there is one format.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from localrank import Registry
from localrank.artifact import FORMAT_VERSION
from tests.core.examples import (
    REPRESENTATION_EXAMPLES,
    ROUTER_EXAMPLES,
    SCORER_EXAMPLES,
    example_ranker,
    provenance,
    representing_ranker,
    sharing_ranker,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.ranker import Ranker


def main() -> int:
    registry = Registry(Path(__file__).parent / f"format-{FORMAT_VERSION}")
    known = registry.models()
    wanted: dict[str, Callable[..., Ranker]] = {
        **{f"lsh-{kind}": partial(example_ranker, "lsh", kind) for kind in SCORER_EXAMPLES},
        **{f"{strategy}-linear": partial(example_ranker, strategy, "linear") for strategy in ROUTER_EXAMPLES},
        "lsh-shared": sharing_ranker,
        "lsh-map": partial(example_ranker, "lsh", "linear"),
        "medoid-map": partial(example_ranker, "medoid", "linear"),
        **{f"exact-{name}": partial(representing_ranker, name) for name in REPRESENTATION_EXAMPLES},
    }
    for name, make in wanted.items():
        if name not in known:
            ranker = make(seed=17)
            registry.publish(name, ranker, provenance(ranker, seed=17))
    return 0


if __name__ == "__main__":
    sys.exit(main())
