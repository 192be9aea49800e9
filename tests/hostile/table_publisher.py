"""A process that publishes generations of a table without end, for a test to kill: ``python table_publisher.py MODELS SEED ROUNDS``.

All values of a generation are its seed, so that a torn generation would show.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from localrank.features.feature import Feature
from localrank.registry.tables import publish, tables_in

ITEMS = 2000


def main(models_dir: str, seed: int, rounds: int) -> None:
    tables = tables_in(Path(models_dir))
    ids = [f"item {number}" for number in range(ITEMS)]
    for _ in range(rounds):
        values = np.full((ITEMS, 2), seed, np.float32)
        columns = (Feature("x"), Feature("y"))
        made = publish(
            tables, "items", columns, ids, values, created="2026-01-01T00:00:00Z", source={"seed": seed}
        )
        sys.stdout.write(f"published {made.version}\n")
        sys.stdout.flush()
        if made.version % 4 == 0:
            tables.prune("items", keep=3, force=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
