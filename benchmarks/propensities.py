"""Whether estimated propensities are near planted ones, in logs of different density.

python -m benchmarks.propensities [--lists 20000] [--repeats 5]

Users of the position-based model: they look at place k with the planted chance and click what attracts them. More attractive
documents stand higher. What varies is how often each document is shown. Printed are the largest error of any place for the
estimate from counts, which is ours, and for the greatest likelihood of single clicks; and how often ours is accepted. It fails
if an accepted estimate is wrong by more than 10 % in more than one of ten repeats.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from localrank.errors import InvalidData
from localrank_training.data.clicks.propensities import Tally, fit, trusted


def log_of(looks: np.ndarray, lists: int, queries: int, seed: int) -> Tally:
    """Return what users did with lists of some queries."""
    rng = np.random.default_rng(seed)
    places = len(looks)
    attraction = rng.uniform(0.05, 0.6, (queries, places))
    tally = Tally()
    for query in rng.integers(0, queries, lists).tolist():
        order = np.argsort(-(attraction[query] + 0.15 * rng.standard_normal(places)))
        clicked = rng.random(places) < looks * attraction[query, order]
        for place, document in enumerate(order.tolist()):
            tally.add((query, document), place + 1, clicked=bool(clicked[place]))
    return tally


def of_single_clicks(tally: Tally, steps: int = 500) -> np.ndarray:
    """Return the ratios of greatest likelihood of single clicks, by expectation maximisation [wang2018]."""
    pairs, places, shown, clicks = tally.arrays()
    chosen = (np.bincount(pairs, clicks) > 0)[pairs]
    pairs, places, shown, clicks = pairs[chosen], places[chosen], shown[chosen], clicks[chosen]
    at_place, of_pair = np.bincount(places, shown), np.bincount(pairs, shown)
    look, attract = np.full(len(at_place), 0.5), np.full(len(of_pair), 0.3)
    for _ in range(steps):
        theta, gamma = look[places], attract[pairs]
        none = (shown - clicks) / (1 - theta * gamma)
        look = np.clip(np.bincount(places, clicks + none * theta * (1 - gamma)) / at_place, 1e-6, 1 - 1e-9)
        attract = np.bincount(pairs, clicks + none * gamma * (1 - theta)) / np.maximum(of_pair, 1)
        attract = np.clip(attract, 1e-6, 1 - 1e-9)
    ratios: np.ndarray = look / look[0]
    return ratios


def main() -> int:
    """Print a row for each density."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lists", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    looks = np.arange(1, 6) ** -1.0
    accepted = wrong = 0
    print("lists of a query  counts  single clicks  accepted")
    for each in (500, 50, 10, 3):
        ours, theirs, taken = [], [], 0
        for seed in range(asked.repeats):
            tally = log_of(looks, asked.lists, asked.lists // each, seed)
            found = fit(tally)
            ours.append(np.abs(found.ratios / looks - 1).max())
            theirs.append(np.abs(of_single_clicks(tally) / looks - 1).max())
            try:
                trusted(found, tally)
            except InvalidData:
                continue
            taken += 1
            wrong += bool(ours[-1] > 0.1)
        accepted += taken
        print(f"{each:16}  {np.mean(ours):6.1%}  {np.mean(theirs):13.1%}  {taken} of {asked.repeats}")
    print(f"{wrong} of {accepted} accepted estimates are wrong by more than 10 % at some place")
    return int(wrong > accepted / 10)


if __name__ == "__main__":
    sys.exit(main())
