"""Ready configurations: the tables that ``--method mhr`` and ``--method lgmml`` stand for, as their papers publish them."""

from __future__ import annotations

from typing import Any

#: Multiple hyperplanes [qin2007].
MHR: dict[str, dict[str, Any]] = {
    "clustering": {"method": "none"},
    "learner": {"method": "mhr", "C": [0.1, 1.0, 10.0, 100.0], "aggregate": ["borda", "weighted_borda"]},
    "selection": {"refit": False},
}

#: Local geometric mean metrics [su2017].
LGMML: dict[str, dict[str, Any]] = {
    "clustering": {"method": "none"},
    "learner": {
        "method": "lgmml",
        "candidate_sets": "documents",
        "t": [0.3, 0.5, 0.7, 0.9],
        "weights": ["uniform", "mean", "similarity"],
    },
    "selection": {"refit": False},
}
