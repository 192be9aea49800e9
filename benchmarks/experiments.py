"""What experiments cost a request, and how often their statistics are right.

    python -m benchmarks.experiments [--repeats 20] [--requests 400] [--documents 100] [--features 136] [--kinds KINDS]
                                     [--beside PYTHON]
    python -m benchmarks.experiments --statistics [--runs 200]

The same service is run without experiments, with a file that has none, and with each kind. All are asked in turn, interleaved, in an order
drawn anew each time; what counts is the CPU time of all threads, shadows included. ``--beside`` also runs the service of another
installation, such as that of an earlier version, which has to cost the same as this one without experiments. The exit code is 1 if the
median of the ratios to the service without experiments is off by more than `SAME` with an empty file, or with ``--beside``.

``--statistics`` simulates users who click (`benchmarks.users`), and looks at every experiment after each twentieth of
it: how often there is a verdict although both rankers are equally good, and how often the better one is found if there is one, with as
many impressions as are said to be needed for a power of 0.8. The exit code is 1 if the first is significantly above the level, or the
second below the power.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import results, served_models, servers
from benchmarks.impressions import served
from benchmarks.users import Cascade, PositionBiased
from localrank.commands.output import print_table
from localrank.rankings import METHODS, balanced_preference, team_preference
from localrank.sequential import Sample, log_wealth, needed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.users import User
    from localrank.arrays import Vector

#: How far a service that does the same may be off.
SAME = 0.03
ALPHA, POWER = 0.05, 0.8
_N_DOCUMENTS, _LOOKS = 10, 20
_USERS: dict[str, User] = {"position-biased": PositionBiased(1.0), "cascade": Cascade(0.7)}
#: Noise between what users like and what the rankers see.
_GOOD, _WORSE = 0.3, 1.2


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--features", type=int, default=136)
    parser.add_argument("--beside", metavar="PYTHON", help="interpreter of another installation")
    parser.add_argument("--kinds", default="canary,split,shadow,interleaving", help="separated by commas")
    parser.add_argument("--statistics", action="store_true", help="simulate users instead")
    parser.add_argument("--runs", type=int, default=200)
    options = parser.parse_args()
    return statistics(options.runs) if options.statistics else costs(options)


def costs(options: argparse.Namespace) -> int:
    body = served_models.as_json(served_models.documents(options.documents, options.features))
    request = servers.post("/v1/rerank", body[:-1] + b',"session_id":"s1"}', "application/json")
    plain = servers.post("/v1/rerank", body, "application/json")
    drawn: dict[str, dict[str, Any] | None] = {
        "no file": None,
        "no experiments": {},
        **{
            kind: {"kind": kind, **({"percent": 50} if kind in {"split", "canary"} else {})}
            for kind in filter(None, options.kinds.split(","))
        },
    }
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        models = folder / "models"
        models.mkdir()
        for _ in range(2):
            served_models.publish(models, served_models.ranker(1000, options.features))
        running = {}
        for name, members in drawn.items():
            environ: dict[str, Any] = {}
            if members is not None:
                file = folder / f"{name}.json"
                one = {"name": "one", "model": "bench", "candidate": "bench@1", **members}
                file.write_text(json.dumps({"experiments": [one] if members else []}))
                environ["LOCALRANK_EXPERIMENTS_FILE"] = str(file)
            running[name] = stack.enter_context(servers.localrank(models, **environ))
        if options.beside:
            port = servers.free_port()
            command = [options.beside, "-m", "localrank", "serve", "--models-dir", str(models)]
            command += ["--port", str(port), "--workers", "1"]
            running["beside"] = stack.enter_context(servers.running(command, port, servers.get("/readyz")))
        found: dict[str, list[float]] = {name: [] for name in running}
        order = list(running)
        for repeat in range(options.repeats + 1):
            random.shuffle(order)
            for name in order:
                # An earlier version may not know sessions.
                sent = plain if name in {"beside", "no file", "no experiments"} else request
                milliseconds = served(running[name], sent, options.requests)
                if repeat:  # the first warms caches
                    found[name].append(milliseconds)
    rows, missed = [], False
    for name, values in found.items():
        ratios = [one / off for one, off in zip(values, found["no file"], strict=True)]
        ratio, (low, high) = float(np.median(ratios)), results.interval(ratios)
        good = name not in {"no experiments", "beside"} or abs(ratio - 1) <= SAME
        missed |= not good
        interval = f"{low:.3f} to {high:.3f}"
        rows.append((name, f"{np.median(values):.3f}", f"{ratio:.3f}", interval, "yes" if good else "NO"))
    print(
        f"{options.documents} documents of {options.features} features, JSON, median of {options.repeats}:\n"
    )
    print_table(("experiment", "CPU ms", "times no file", "interval", "ok"), rows)
    return int(missed)


def statistics(runs: int) -> int:
    rows, missed = [], False
    for user, method in ((user, method) for user in _USERS for method in METHODS):
        pilot = preferences(_USERS[user], method, (_WORSE, _GOOD), 10_000, seed=1)
        enough = needed(float(pilot.mean()), float(pilot.var()), ALPHA, POWER)
        for noises, said in (((_GOOD, _GOOD), "equal"), ((_WORSE, _GOOD), "candidate is better")):
            stopped = []
            for seed in range(runs):
                values = preferences(_USERS[user], method, noises, enough, seed=100 + seed)
                looks = range(enough // _LOOKS, enough + 1, enough // _LOOKS)
                stopped.append(
                    next(
                        (
                            stop
                            for stop in looks
                            if log_wealth(Sample.of(values[:stop], -1, 1)) >= -math.log(ALPHA)
                        ),
                        math.inf,
                    )
                )
            share = float(np.isfinite(stopped).mean())
            promised = ALPHA if said == "equal" else POWER
            slack = NormalDist().inv_cdf(0.999) * math.sqrt(promised * (1 - promised) / runs)
            good = share <= promised + slack if said == "equal" else share >= promised - slack
            missed |= not good
            median = f"{np.median(stopped):.0f}" if share > 0.5 else ""
            rows.append((user, method, said, str(enough), f"{share:.3f}", median, "yes" if good else "NO"))
    print(f"level {ALPHA}, power {POWER}, {_LOOKS} looks at each of {runs} experiments:\n")
    print_table(("users", "method", "rankers", "impressions", "verdicts", "median", "ok"), rows)
    return int(missed)


def preferences(user: User, method: str, noises: tuple[float, float], count: int, *, seed: int) -> Vector:
    """Return whom users prefer, impression by impression: 1 is the second ranker, -1 the first."""
    drawn = np.random.default_rng(seed)
    found = np.empty(count)
    for number in range(count):
        likes = drawn.normal(size=_N_DOCUMENTS)
        first, second = (np.argsort(-(likes + noise * drawn.normal(size=_N_DOCUMENTS))) for noise in noises)
        mixed = METHODS[method](first, second, _N_DOCUMENTS, coins(drawn))
        clicks = user.clicks(0.8 / (1 + np.exp(-2 * likes[mixed.order])), drawn)
        if method == "balanced":
            found[number] = balanced_preference(mixed.ranks, clicks)
        else:
            found[number] = team_preference(mixed.teams, clicks)
    return found


def coins(drawn: np.random.Generator) -> Iterator[bool]:
    while True:
        yield bool(drawn.random() < 0.5)


if __name__ == "__main__":
    sys.exit(main())
