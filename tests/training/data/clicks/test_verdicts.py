"""Users whose taste is known click; the report finds out whom they prefer, in time, and nothing where there is nothing."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from benchmarks.users import Cascade, PositionBiased
from localrank.__main__ import main
from localrank.journal import FEEDBACK, IMPRESSIONS, file_name, frame
from localrank.rankings import METHODS
from localrank.sequential import Sample, log_wealth, needed
from localrank_training.data.clicks.joining import JudgedImpression
from localrank_training.data.clicks.outcomes import (
    ExperimentVerdict,
    Outcomes,
    outcomes_of,
    sentences,
    verdict,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.users import User
    from localrank.arrays import Indices, Vector

N_DOCUMENTS = 10
USERS: list[User] = [PositionBiased(1.0), Cascade(0.7)]
#: What stands between a ranker and what users like.
GOOD, WORSE = 0.3, 1.2


def rankings(noises: tuple[float, float], random: np.random.Generator) -> tuple[Vector, list[Indices]]:
    """The attractions of some documents, and two rankings that see them through noise."""
    likes = random.normal(size=N_DOCUMENTS)
    attractions = 0.8 / (1 + np.exp(-2 * likes))
    return attractions, [np.argsort(-(likes + noise * random.normal(size=N_DOCUMENTS))) for noise in noises]


def tosses(random: np.random.Generator) -> Iterator[bool]:
    while True:
        yield bool(random.random() < 0.5)


def shown(number: int, part: dict[str, Any], order: Indices, clicked: list[int]) -> JudgedImpression:
    places = np.zeros(N_DOCUMENTS, np.int64)
    places[order] = np.arange(1, N_DOCUMENTS + 1)
    impression = {"time": float(number), "pinned": 0, "experiment": {"name": "test", "share": 0.5, **part}}
    return JudgedImpression(impression, places, {int(order[rank]) for rank in clicked}, {})


def interleaved(
    user: User, noises: tuple[float, float], count: int, seed: int, method: str = "team_draft"
) -> list[JudgedImpression]:
    random = np.random.default_rng(seed)
    found = []
    for number in range(count):
        attractions, (first, second) = rankings(noises, random)
        mixed = METHODS[method](first, second, N_DOCUMENTS, tosses(random))
        part = {
            "arm": "interleaved",
            "unit": str(number),
            "teams": [("baseline", "candidate")[team] for team in mixed.teams],
            "ranks": [list(one) for one in mixed.ranks] if method == "balanced" else None,
        }
        clicked = user.clicks(attractions[mixed.order], random)
        found.append(shown(number, part, mixed.order, clicked))
    return found


def split(
    user: User, noises: tuple[float, float], sessions: int, seed: int, share: float = 0.5
) -> list[JudgedImpression]:
    """Sessions of one to three impressions, some of which belong to users who click more than others."""
    random = np.random.default_rng(seed)
    found: list[JudgedImpression] = []
    for session in range(sessions):
        candidate, eager = bool(random.random() < share), random.uniform(0.5, 1)
        for _ in range(random.integers(1, 4)):
            attractions, both = rankings(noises, random)
            order = both[candidate]
            part = {"arm": ("baseline", "candidate")[candidate], "unit": str(session), "share": share}
            found.append(shown(len(found), part, order, user.clicks(eager * attractions[order], random)))
    return found


@pytest.mark.parametrize("user", USERS, ids=str)
def test_interleaving_finds_the_better_ranker_with_the_stated_power(user: User) -> None:
    """As many impressions as are said to be needed for the effect find it in four of five experiments at least."""
    found = []
    for method in METHODS:
        judged = interleaved(user, (WORSE, GOOD), 6000, 1, method)
        sample = outcomes_of(judged)[0].sample
        enough = needed(sample.mean, sample.variance, 0.05, 0.8)
        for start in range(0, len(judged) - enough + 1, enough):
            [one] = outcomes_of(judged[start : start + enough])
            found.append(verdict(one, minimum=50).better)

    assert len(found) > 12
    assert found.count("candidate") >= 0.8 * len(found)
    assert "baseline" not in found


def test_looking_again_and_again_at_equal_rankers_finds_nothing() -> None:
    """Team draft and a cascade, judged after every 40 impressions: at a level of 0.1, in 40 experiments."""
    wrong = 0
    for seed in range(40):
        judged = interleaved(USERS[1], (GOOD, GOOD), 320, seed)
        looks = (outcomes_of(judged[:stop])[0] for stop in range(40, 321, 40))
        wrong += any(log_wealth(one.sample) >= -math.log(0.1) for one in looks)

    assert wrong <= 10  # 4 at most are expected; more than 10 would be one case in a thousand


def test_a_split_finds_the_better_ranker_and_its_effect() -> None:
    # Far more than the interleaving above needs: users of one version are compared with users of the other.
    judged = split(USERS[0], (3.0, 0.0), 1500, 3)
    [one] = outcomes_of(judged, metric="reciprocal_rank")

    found = verdict(one)

    assert "candidate" == found.better
    low, high = found.interval
    truth = np.mean(
        [
            np.mean([_reciprocal(USERS[0], noise, seed) for seed in range(3000)]) * np.array(sign)
            for noise, sign in ((0.0, 1), (3.0, -1))
        ]
    )
    assert low < 2 * truth < high
    assert found.effect == pytest.approx(found.means["candidate"] - found.means["baseline"], abs=0.03)


def _reciprocal(user: User, noise: float, seed: int) -> float:
    random = np.random.default_rng(90_000 + seed)
    attractions, (order, _) = rankings((noise, noise), random)
    clicked = user.clicks(random.uniform(0.5, 1) * attractions[order], random)
    return 1 / (1 + clicked[0]) if clicked else 0.0


def test_looking_again_and_again_at_a_split_of_equal_rankers_finds_nothing() -> None:
    """A canary's share, sessions of users who differ, judged after every 50 sessions."""
    wrong = 0
    for seed in range(40):
        judged = split(USERS[0], (GOOD, GOOD), 300, 500 + seed, share=0.1)
        looks = (outcomes_of(judged[:stop], metric="clicked")[0] for stop in range(60, len(judged), 60))
        wrong += any(log_wealth(one.sample) >= -math.log(0.1) for one in looks)

    assert wrong <= 10


def test_it_refuses_to_conclude_early_and_says_how_many_more_it_takes() -> None:
    judged = interleaved(USERS[1], (WORSE, GOOD), 3000, 4)
    few, more, many = (outcomes_of(judged[:count])[0] for count in (20, 60, 3000))

    early = verdict(few, minimum=100)
    later = verdict(more, minimum=50)

    assert (None, True) == (early.better, (early.more or 0) >= 80)
    assert "candidate" == verdict(many).better
    if later.better is None:
        assert later.more is None or later.more > 0
    assert 0 == verdict(many).more
    assert early.units_for_effect is not None
    assert early.units_for_effect > 1000  # an effect of 0.05 is small


def test_a_unit_that_changes_its_arm_counts_where_it_was_first() -> None:
    order = np.arange(N_DOCUMENTS)
    judged = [
        shown(1, {"arm": "baseline", "unit": "s"}, order, [0]),
        shown(2, {"arm": "candidate", "unit": "s"}, order, []),
        shown(3, {"arm": "candidate", "unit": "t"}, order, []),
    ]

    [found] = outcomes_of(reversed(judged))

    assert {"baseline": 1.0, "candidate": 0.0} == found.means
    assert ({"baseline": 1, "candidate": 2}, 2) == (found.impressions, found.units)


@pytest.mark.parametrize(
    "part",
    [
        None,
        3,
        {"name": 3},
        {"arm": "both"},
        {"arm": "candidate"},
        {"arm": "baseline", "unit": "s", "share": 1.0},
    ],
)
def test_what_is_no_part_is_left_out(part: Any) -> None:
    one = shown(1, {"arm": "baseline", "unit": "s"}, np.arange(N_DOCUMENTS), [])
    one.impression["experiment"] = part if not isinstance(part, dict) else {"name": "test"} | part

    assert [] == outcomes_of([one])


def write(folder: Path, records: list[tuple[dict[str, Any], list[Any]]]) -> None:
    for kind in (IMPRESSIONS, FEEDBACK):
        with (folder / file_name(1, 1, kind)).open("wb") as file:
            for members, arrays in records:
                if (members["kind"] == "feedback") == (kind == FEEDBACK):
                    file.writelines(
                        frame(json.dumps(members).encode(), [array.tobytes() for array in arrays])
                    )


def test_the_report_reads_the_log_of_a_service(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """200 impressions of two documents; the candidate's first result is clicked in three of four that are."""
    records: list[tuple[dict[str, Any], list[Any]]] = []
    for number in range(200):
        request = f"r{number}"
        records.append(
            (
                {
                    "kind": "impression", "time": float(number), "request_id": request, "query": 0, "query_id": None,
                    "session_id": None, "model": "web", "version": 1, "contract": "c", "shown": 2, "degraded": None,
                    "ids": None, "experiment": {
                        "name": "mixed", "arm": "interleaved", "unit": request, "share": 1.0,
                        "teams": ["candidate", "baseline"], "ranks": None,
                    },
                    "arrays": {"features": ["<f4", [2, 1]], "scores": ["<f8", [2]], "order": ["<i4", [2]]},
                },
                [np.zeros((2, 1), "<f4"), np.zeros(2), np.array([1, 0], "<i4")],
            )
        )  # fmt: skip
        if number % 2:
            event = {
                "query": 0,
                "id": None,
                "index": 0 if number % 8 == 1 else 1,
                "click": True,
                "grade": None,
            }
            records.append(
                ({"kind": "feedback", "time": 1e3, "event_id": None, "request_id": request, **event}, [])
            )
    write(tmp_path, records)

    code = main(["experiments", "report", str(tmp_path), "--json"])
    [found] = json.loads(capsys.readouterr().out)
    told = main(["experiments", "report", str(tmp_path)])
    text = capsys.readouterr().out
    missing = main(["experiments", "report", str(tmp_path), "--experiment", "other"])

    assert (0, 0, 1) == (code, told, missing)
    assert ("candidate", 200, 0.25) == (found["better"], found["units"], found["effect"])
    assert {"baseline": 0.125, "candidate": 0.375} == found["means"]
    assert "the candidate is better, at level 0.05" in text
    assert "experiment 'other', found none" in capsys.readouterr().err


def preferences(*values: float) -> Outcomes:
    """An interleaved experiment with these preferences."""
    sample = Sample.of(np.array(values), -1.0, 1.0)
    means = {
        "baseline": float(np.mean(np.array(values) < 0)),
        "candidate": float(np.mean(np.array(values) > 0)),
    }
    return Outcomes("mixed", "interleaving", {"interleaved": len(values)}, len(values), means, sample)


@pytest.mark.parametrize(("sign", "better"), [(1.0, "candidate"), (-1.0, "baseline")])
def test_there_is_a_verdict_from_the_minimum_on(sign: float, better: str) -> None:
    """All prefer the same version, which is certain long before; 100 is the minimum unless another is set."""
    assert (None, 1) == (verdict(preferences(*[sign] * 99)).better, verdict(preferences(*[sign] * 99)).more)
    assert (better, 0) == (
        verdict(preferences(*[sign] * 100)).better,
        verdict(preferences(*[sign] * 100)).more,
    )
    assert better == verdict(preferences(*[sign] * 99), minimum=99).better
    assert 60 == verdict(preferences(*[sign] * 40)).more


def test_a_verdict_needs_a_wealth_of_one_over_alpha() -> None:
    """Twelve of twelve: the wealth is what all bets of the half that bets on the right side have won, on average."""
    bets = 0.5 * 2.0 ** (-0.5 * np.arange(17))
    wealth = 0.5 * np.mean((1 + bets) ** 12) + 0.5 * np.mean((1 - bets) ** 12)
    few = preferences(*[1.0] * 12)

    found = verdict(few, minimum=1)

    assert found.p == pytest.approx(1 / wealth)
    assert verdict(few, alpha=1.001 / wealth, minimum=1).better == "candidate"
    assert verdict(few, alpha=0.999 / wealth, minimum=1).better is None


def test_what_says_nothing_has_the_highest_p_and_no_expected_end() -> None:
    nothing, even = preferences(*[0.0] * 10), preferences(*[1.0, -1.0] * 50)

    assert (1.0, 90, None) == (verdict(nothing).p, verdict(nothing).more, verdict(nothing, minimum=10).more)
    assert verdict(nothing).units_for_effect is None
    assert (1.0, None, None) == (verdict(even).p, verdict(even).better, verdict(even).more)


def test_a_verdict_tells_what_was_counted_and_what_was_asked() -> None:
    """The effect is that of 30 for and 10 against; the units for an effect follow from the variance."""
    outcomes = preferences(*[1.0] * 30, *[-1.0] * 10)

    found = verdict(outcomes)
    asked = verdict(outcomes, alpha=0.2, power=0.5, effect=0.3)

    variance = 1 - 0.5**2
    assert ("mixed", "interleaving", 40, 0.5) == (found.experiment, found.kind, found.units, found.effect)
    assert ({"interleaved": 40}, {"baseline": 0.25, "candidate": 0.75}) == (found.impressions, found.means)
    assert (0.05, 0.8, 0.05) == (found.alpha, found.power, found.effect_asked)
    assert (0.2, 0.5, 0.3) == (asked.alpha, asked.power, asked.effect_asked)
    assert needed(0.05, variance, 0.05, 0.8) == found.units_for_effect
    assert needed(0.3, variance, 0.2, 0.5) == asked.units_for_effect
    assert found.interval[0] < asked.interval[0] < 0.5 < asked.interval[1] < found.interval[1]


@pytest.mark.parametrize(
    ("changes", "last"),
    [
        (
            {"better": "baseline", "more": 0},
            ["  the baseline is better, at level 0.05"],
        ),
        (
            {"more": 1200},
            [
                "  no conclusion yet: about 1,200 more impressions will probably be needed if this continues",
                "  a true effect of 0.1 is found with probability 0.8 after 2,345 impressions in all",
            ],
        ),
        (
            {},
            [
                "  no conclusion yet, and no sign of a difference: the impressions so far favour neither version",
                "  a true effect of 0.1 is found with probability 0.8 after 2,345 impressions in all",
            ],
        ),
        (
            {"kind": "split", "units_for_effect": None},
            ["  no conclusion yet, and no sign of a difference: the sessions so far favour neither version"],
        ),
    ],
)
def test_the_report_says_what_is_known_and_what_is_still_needed(
    changes: dict[str, Any], last: list[str]
) -> None:
    plain = ExperimentVerdict(
        "shop", "interleaving", {"interleaved": 1234}, 1234, {"baseline": 0.25, "candidate": 0.5}, 0.25, (-0.125, 0.5),
        0.25, 0.05, None, None, 0.1, 2345, 0.8,
    )  # fmt: skip

    first, second, *rest = sentences(replace(plain, **changes))

    unit, said = ("sessions", "metric") if "kind" in changes else ("impressions", "preferred by")
    assert (
        f"shop ({changes.get('kind', 'interleaving')}): 1,234 {unit}; impressions: interleaved 1,234" == first
    )
    assert second == (
        f"  {said}: baseline 0.2500, candidate 0.5000; the candidate is ahead: +0.2500 [-0.1250, +0.5000], p "
        "0.25, valid at any time"
    )
    assert last == rest
    behind = sentences(replace(plain, **changes, effect=-0.0896, interval=(-0.17, -0.01)))[1]
    assert "the candidate is behind: -0.0896 [-0.1700, -0.0100], p " in behind
