"""The way of one query through an experiment: who answers, who is counted, and who is to blame."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from starlette.requests import ClientDisconnect

from localrank.ladder import Degraded
from localrank.ranker import Stopwatch
from localrank.rankings import METHODS
from localrank_service.http.problems import Problem
from localrank_service.models.live import LiveModel
from localrank_service.online.arms import Taking, coins
from localrank_service.online.definition import defined
from localrank_service.online.experiments import DrawnPart, Running
from localrank_service.ranking.reranking import rank_plainly
from localrank_service.wire.answer import BASELINE, CANDIDATE, INTERLEAVED, Part
from localrank_service.wire.query import Documents, Options

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.ranker import Ranker
    from localrank_service.wire.answer import Ranked

pytestmark = pytest.mark.anyio

MATRIX = np.array([[1, 2, 3, 4], [4, 3, 2, 1], [2, 2, 2, 2], [0, 5, 0, 1]], np.float32)
DOCUMENTS = Documents(MATRIX, None, lambda *_: "")


class Counting:
    """What is counted of an experiment, in its order."""

    def __init__(self) -> None:
        self.counted: list[tuple[str, str]] = []
        self.seconds: list[float] = []
        self.key = b""
        self.left: list[float | None] = []
        self.fair = True

    def is_fair(self, _running: Running, documents: int, left: float | None) -> bool:
        assert len(MATRIX) == documents
        self.left.append(left)
        return self.fair

    def ranked(self, _running: Running, arm: str, ranked: Ranked, seconds: float, *, fair: bool) -> None:
        if not fair:
            return
        self.counted.append((arm, "ok" if ranked.degraded is None else "degraded"))
        self.seconds.append(seconds)

    def count(self, _running: Running, arm: str, outcome: str) -> None:
        self.counted.append((arm, outcome))


class Trial:
    """Two versions that rank the opposite way, of which each may fail or answer more cheaply."""

    def __init__(self, one: LiveModel, other: LiveModel, **members: Any) -> None:
        self.experiments = Counting()
        self.timing: Any = SimpleNamespace(milliseconds={})
        self.one = one
        self.errors: dict[int, Exception] = {}
        self.degraded: dict[int, Degraded] = {}
        self.asked: list[int] = []
        kind = {"name": "e", "kind": "split", "model": "tiny", "candidate": "tiny@2"}
        self.running = Running(defined(kind | members), "run", other)
        self.taking = Taking(self.experiments, self.rank, self.timing)  # type: ignore[arg-type]

    async def rank(self, model: LiveModel, documents: Documents, options: Options) -> Ranked:
        self.asked.append(model.version)
        # A second for each version, and two in stages that are not ranking.
        for stage in ("sign", "route", "score", "order"):
            spent = self.timing.milliseconds.get(stage, 0.0)
            self.timing.milliseconds[stage] = spent + 250.0 * model.version
        self.timing.milliseconds["decode"] = self.timing.milliseconds.get("decode", 0.0) + 2000.0
        if (error := self.errors.get(model.version)) is not None:
            raise error
        ranked = rank_plainly(model, documents, options, Stopwatch())
        return replace(ranked, degraded=self.degraded.get(model.version))

    async def part(self, arm: str, options: Options = Options()) -> Ranked:  # noqa: B008
        drawn = DrawnPart(self.running, Part("e", arm, "u", 0.5))
        return await self.taking.part(drawn, self.one, DOCUMENTS, options, request="r-1")


@pytest.fixture
def trial(make_ranker: Callable[..., Ranker]) -> Callable[..., Trial]:
    one = LiveModel("tiny", 1, make_ranker())
    other = LiveModel("tiny", 2, make_ranker(weights_sign=-1.0))

    def made(**members: Any) -> Trial:
        return Trial(one, other, **members)

    return made


@pytest.mark.parametrize(("arm", "version"), [(BASELINE, 1), (CANDIDATE, 2)])
async def test_the_arm_that_was_drawn_answers_and_is_counted(
    arm: str, version: int, trial: Callable[..., Trial]
) -> None:
    one = trial()

    ranked = await one.part(arm)

    assert (version, Part("e", arm, "u", 0.5)) == (ranked.version, ranked.experiment)
    assert ([version], [(arm, "ok")]) == (one.asked, one.experiments.counted)
    assert (arm == CANDIDATE) == one.taking.by_candidate
    # The four stages of ranking, in seconds.
    assert [1.0 * version] == one.experiments.seconds


@pytest.mark.parametrize(
    "error", [Problem(500, "broken"), Problem(422, "missing"), Problem(404, "gone"), ValueError("broken")]
)
async def test_if_the_candidate_fails_the_baseline_answers_and_the_candidate_is_to_blame(
    error: Exception, trial: Callable[..., Trial]
) -> None:
    one = trial()
    one.errors[2] = error

    ranked = await one.part(CANDIDATE)

    assert (1, Part("e", CANDIDATE, "u", 0.5)) == (ranked.version, ranked.experiment)
    assert ([2, 1], [(CANDIDATE, "error")]) == (one.asked, one.experiments.counted)
    assert not one.taking.by_candidate


@pytest.mark.parametrize(
    ("error", "counted"),
    [
        (Problem(429, "busy"), []),
        (Problem(503, "loading"), []),
        (Problem(504, "late"), [(CANDIDATE, "error")]),
        (ClientDisconnect(), []),
    ],
)
async def test_what_the_baseline_cannot_do_better_is_not_tried(
    error: Exception, counted: list[tuple[str, str]], trial: Callable[..., Trial]
) -> None:
    one = trial()
    one.errors[2] = error

    with pytest.raises(type(error)) as raised:
        await one.part(CANDIDATE)

    assert error is raised.value
    assert ([2], counted) == (one.asked, one.experiments.counted)
    assert not one.taking.by_candidate


async def test_what_both_refuse_is_the_callers_fault(trial: Callable[..., Trial]) -> None:
    one = trial()
    one.errors = {1: Problem(422, "no"), 2: Problem(422, "no")}

    with pytest.raises(Problem, match="no"):
        await one.part(CANDIDATE)

    assert ([2, 1], []) == (one.asked, one.experiments.counted)


@pytest.mark.parametrize(
    ("error", "counted"),
    [
        (Problem(500, "broken"), [(BASELINE, "error")]),
        (Problem(501, "broken"), [(BASELINE, "error")]),
        (ValueError("broken"), [(BASELINE, "error")]),
        (Problem(504, "late"), [(BASELINE, "error")]),
        (Problem(499, "gone"), []),
        (Problem(422, "missing"), []),
        (Problem(429, "busy"), []),
        (Problem(503, "loading"), []),
        (ClientDisconnect(), []),
    ],
)
async def test_the_baseline_is_to_blame_for_its_own_failures_only(
    error: Exception, counted: list[tuple[str, str]], trial: Callable[..., Trial]
) -> None:
    one = trial()
    one.errors[1] = error

    with pytest.raises(type(error)) as raised:
        await one.part(BASELINE)

    assert error is raised.value
    assert ([1], counted) == (one.asked, one.experiments.counted)


@pytest.mark.parametrize(("method", "depth"), [("team_draft", 3), ("balanced", 2)])
async def test_interleaving_mixes_both_rankings(method: str, depth: int, trial: Callable[..., Trial]) -> None:
    one = trial(kind="interleaving", method=method, depth=depth, salt="s")
    first, second = (
        rank_plainly(model, DOCUMENTS, Options(), Stopwatch()).ranking.order
        for model in (one.one, one.running.candidate)
    )
    expected = METHODS[method](first, second, depth, coins(b"", "s", "r-1"))

    ranked = await one.part(INTERLEAVED)

    assert ranked.experiment is not None
    assert (1, [1, 2]) == (ranked.version, one.asked)
    assert expected.order.tolist() == ranked.ranking.order.tolist()
    assert tuple((BASELINE, CANDIDATE)[team] for team in expected.teams) == ranked.experiment.teams
    assert (expected.ranks if method == "balanced" else None) == ranked.experiment.ranks
    assert [(BASELINE, "ok"), (CANDIDATE, "ok")] == one.experiments.counted
    assert [1.0, 2.0] == one.experiments.seconds
    assert not one.taking.by_candidate


@pytest.mark.parametrize("method", METHODS)
async def test_pinned_documents_stand_before_what_is_interleaved(
    method: str, trial: Callable[..., Trial], make_ranker: Callable[..., Ranker]
) -> None:
    one = trial(kind="interleaving", method=method, depth=2, salt="s")

    ranked = await one.part(INTERLEAVED, Options(pin=(1,), boost={"0": 0.25}))

    free = np.array([0, 2, 3])
    rankings = []
    for sign in (1.0, -1.0):
        scores = make_ranker(weights_sign=sign).rank(MATRIX).scores + 0.25 * (np.arange(4) == 0)
        rankings.append(np.argsort(-scores[free], kind="stable"))
    mixed = METHODS[method](rankings[0], rankings[1], 2, coins(b"", "s", "r-1"))
    assert [1, *free[mixed.order].tolist()] == ranked.ranking.order.tolist()
    assert ranked.experiment is not None
    assert tuple((BASELINE, CANDIDATE)[team] for team in mixed.teams) == ranked.experiment.teams
    assert (None, *(ranked.experiment.teams or ())) == ranked.teams


@pytest.mark.parametrize(
    ("error", "counted"),
    [
        (Problem(500, "broken"), [(CANDIDATE, "error")]),
        (Problem(422, "missing"), [(CANDIDATE, "error")]),
        (ValueError("broken"), [(CANDIDATE, "error")]),
        (Problem(504, "late"), [(CANDIDATE, "error")]),
        (Problem(429, "busy"), []),
        (Problem(503, "loading"), []),
        (ClientDisconnect(), []),
    ],
)
async def test_if_the_candidate_fails_nothing_is_mixed(
    error: Exception, counted: list[tuple[str, str]], trial: Callable[..., Trial]
) -> None:
    one = trial(kind="interleaving")
    one.errors[2] = error

    ranked = await one.part(INTERLEAVED)

    assert (1, None) == (ranked.version, ranked.experiment)
    assert [(BASELINE, "ok"), *counted] == one.experiments.counted


@pytest.mark.parametrize(("version", "asked"), [(1, [1]), (2, [1, 2])])
async def test_a_cheaper_ranking_is_not_mixed(
    version: int, asked: list[int], trial: Callable[..., Trial]
) -> None:
    one = trial(kind="interleaving")
    one.degraded[version] = Degraded("global", "timeout")

    ranked = await one.part(INTERLEAVED)

    assert (1, None, asked) == (ranked.version, ranked.experiment, one.asked)
    arms = (BASELINE, CANDIDATE)[: len(asked)]
    assert [(arm, "degraded" if number == version else "ok") for number, arm in enumerate(arms, 1)] == (
        one.experiments.counted
    )


async def test_a_cheaper_ranking_of_one_arm_is_counted_as_such(trial: Callable[..., Trial]) -> None:
    one = trial()
    one.degraded[2] = Degraded("global", "timeout")

    ranked = await one.part(CANDIDATE)

    assert (2, [(CANDIDATE, "degraded")]) == (ranked.version, one.experiments.counted)
    assert ranked.degraded == Degraded("global", "timeout")


@pytest.mark.parametrize(
    ("error", "counted"),
    [(None, []), (Problem(504, "late"), []), (ValueError("broken"), [(BASELINE, "error")])],
)
async def test_what_the_caller_decides_is_not_counted(
    error: Exception | None, counted: list[tuple[str, str]], trial: Callable[..., Trial]
) -> None:
    one = trial()
    one.experiments.fair = False
    if error is not None:
        one.errors[1] = error

    with nullcontext() if error is None else pytest.raises(type(error)):
        await one.part(BASELINE)

    assert counted == one.experiments.counted


@pytest.mark.parametrize("arm", [BASELINE, CANDIDATE, INTERLEAVED])
async def test_the_own_ranking_of_the_baseline_is_kept_for_shadows(
    arm: str, trial: Callable[..., Trial]
) -> None:
    one = trial(kind="interleaving") if arm == INTERLEAVED else trial()
    own = rank_plainly(one.one, DOCUMENTS, Options(), Stopwatch()).ranking.order.tolist()

    await one.part(arm)

    kept = one.taking.baseline
    assert (None if arm == CANDIDATE else own) == (None if kept is None else kept.ranking.order.tolist())
