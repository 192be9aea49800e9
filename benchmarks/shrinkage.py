"""How far the covariance of a query should be shrunk towards that within all queries: the default of [representation] shrink.

    python -m benchmarks.shrinkage [--data DIR]

Training queries of MQ2008 and OHSUMED (the official folds 1 to 3) with four documents or more, in two random halves each:
the normal distribution of one half, shrunk, gives the other half a log-likelihood per document. No label is looked at. The
settings are compared by the sum over both sets; 1 is one covariance for all queries. Short lists, as those of MQ2008, want
more, long ones less. The exit code is 1 if another setting than the default has the best sum.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from localrank.commands.output import print_table
from localrank.points.gaussian import GaussianRepresentation
from localrank_training.data.clouds import Clouds
from localrank_training.data.reading import read
from localrank_training.grouping.representations import pooled_covariance
from localrank_training.run.pipeline import learn_contract
from localrank_training.settings.config import TrainingConfig
from localrank_training.settings.steps import RepresentationSettings

SETS = ("MQ2008", "OHSUMED")
STRENGTHS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)


def likelihoods(folder: Path, strengths: tuple[float, ...]) -> list[float]:
    """Return the mean log-likelihood of an unseen document for each strength."""
    queries = read([folder / f"S{fold}.txt.gz" for fold in (1, 2, 3)])
    config = TrainingConfig()
    clouds = Clouds(queries, learn_contract(queries, config))
    pooled = pooled_covariance(clouds)
    random = np.random.default_rng(0)
    totals, count = np.zeros(len(strengths)), 0
    for cloud in clouds:
        n_docs = len(cloud)
        if n_docs < 4:
            continue
        places = random.permutation(n_docs)
        for seen, unseen in ((places[::2], places[1::2]), (places[1::2], places[::2])):
            # The whole list sets the scale, as in serving.
            part = FixedRows(cloud.normalised[seen])
            rows = cloud.normalised[unseen].astype(np.float64)
            for number, strength in enumerate(strengths):
                point = GaussianRepresentation(pooled, strength).of(part)  # type: ignore[arg-type]
                apart = rows - point.mean
                distances = np.vecdot(apart @ point.precision, apart)
                totals[number] -= (distances + point.log_determinant).sum() / 2
            count += len(rows)
    constant = len(pooled) / 2 * np.log(2 * np.pi)
    return [float(total / count - constant) for total in totals]


class FixedRows:
    """Documents that have been normalised already."""

    def __init__(self, normalised: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> None:
        self.normalised = normalised


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("LOCALRANK_DATA", "data")))
    options = parser.parse_args()
    default = RepresentationSettings().shrink
    assert default in STRENGTHS
    with threadpool_limits(1):
        found = {name: likelihoods(options.data / name, STRENGTHS) for name in SETS}
    sums = np.sum(list(found.values()), axis=0)
    print_table(
        ("shrink", *SETS, "sum"),
        [
            (f"{one:g}", *(f"{found[name][i]:.1f}" for name in SETS), f"{sums[i]:.1f}")
            for i, one in enumerate(STRENGTHS)
        ],
    )
    best = STRENGTHS[int(np.argmax(sums))]
    if best != default:
        print(f"{best:g} is better than the default {default:g}")
    return int(best != default)


if __name__ == "__main__":
    sys.exit(main())
