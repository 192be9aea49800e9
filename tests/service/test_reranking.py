"""From a query to its ranking: what is done in a thread, what is counted, and how much time is left."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.errors import ArtifactNotFound, InvalidDocuments, ScoringFailed
from localrank.ladder import Degraded
from localrank.ranker import Stopwatch
from localrank_service.http.aside import PERMIT
from localrank_service.http.problems import Problem
from localrank_service.ranking import reranking
from localrank_service.ranking.reranking import Attempt, rank_plainly, under_pressure
from localrank_service.telemetry.observing import OBSERVATION
from localrank_service.wire.query import Documents, Options

if TYPE_CHECKING:
    from localrank.arrays import Matrix
    from localrank_service.models.live import LiveModel

pytestmark = pytest.mark.anyio

ROW = np.array([[1, 2, 3, 4]], np.float32)
SCOPE = {"request_id": "id", "trial": False}


def documents(matrix: Matrix = ROW) -> Documents:
    return Documents(matrix, None, lambda document, feature: f"/at/{document}/{feature}")


class Meters:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def refused(self, api: str, model: Any, status: int, seconds: float) -> None:
        self.told.append(("refused", api, model, status, 0 <= seconds < 1))

    def ranked(
        self, api: str, model: Any, ranking: Any, beyond: int, timing: Any, *, degraded: Any, live: bool
    ) -> None:
        self.told.append(("ranked", api, model, ranking, beyond, "total" in timing, degraded, live))


class Lane:
    """Notes the work that would go to a thread, and does it at once."""

    def __init__(self, wait: float = 0.0) -> None:
        self.units: list[float] = []
        self._wait = wait

    def wait(self) -> float:
        return self._wait

    async def run(self, units: float, function: Any, *arguments: Any, **named: Any) -> Any:
        self.units.append(units)
        return function(*arguments, **named)


@pytest.fixture
def lanes(monkeypatch: pytest.MonkeyPatch) -> dict[str, Lane]:
    found = {"RANKER": Lane(), "READER": Lane()}
    for name, lane in found.items():
        monkeypatch.setattr(reranking, name, lane)
    return found


def service(rank: Any = rank_plainly, **more: Any) -> Any:
    found: dict[str, Any] = {"meters": Meters(), "impressions": None, "experiments": None, "rank": rank}
    return SimpleNamespace(**found | more)


async def test_work_goes_to_a_thread_from_half_a_million_numbers_on(lanes: dict[str, Lane]) -> None:
    given: list[Any] = []

    def rank(*arguments: Any) -> Any:
        given.append(arguments)
        return len(given)

    attempt = Attempt(service(rank), "rerank", dict(SCOPE))
    few, many = (documents(np.zeros((count, 4), np.float32)) for count in (99_999, 100_000))
    ranker = SimpleNamespace(contract=SimpleNamespace(n_features=4), router=SimpleNamespace(compares=None))
    model: Any = SimpleNamespace(work=5, ranker=ranker, query_map=None, tables=None, watched=False)
    contributions = Options(explain="contributions")
    some, more = (documents(np.zeros((count, 4), np.float32)) for count in (9_999, 10_000))

    found: list[Any] = [
        await attempt.rank(model, few),
        await attempt.rank(model, many),
        await attempt.rank(model, some, contributions),
        await attempt.rank(model, more, contributions),
        await attempt.rank(model, more, Options(explain="route")),
    ]

    assert [1, 2, 3, 4, 5] == found
    assert [500_000, 500_000] == lanes["RANKER"].units
    assert (model, more, contributions, attempt.timing) == given[3]


@pytest.mark.parametrize(("cost", "aside"), [(2**20 - 1, []), (2**20, [2**20])])
async def test_a_body_goes_to_a_thread_from_a_mebibyte_on(
    lanes: dict[str, Lane], cost: int, aside: list[int]
) -> None:
    attempt = Attempt(service(), "rerank", SCOPE)

    assert (1, 2) == await attempt.run(lambda *given, more: (*given, more), cost, 1, more=2)

    assert aside == lanes["READER"].units


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Problem(413, "x"), 413),
        (InvalidDocuments("x"), 422),
        (ArtifactNotFound("x"), 404),
        (ScoringFailed("x"), 500),
        (ValueError("x"), 500),
    ],
)
async def test_a_failure_is_counted_with_its_status(error: Exception, status: int) -> None:
    one = service()

    with pytest.raises(type(error)), Attempt(one, "v2", SCOPE):
        raise error

    assert [("refused", "v2", None, status, True)] == one.meters.told


async def test_who_hangs_up_and_what_was_not_ranked_is_not_counted() -> None:
    one = service()

    with pytest.raises(asyncio.CancelledError), Attempt(one, "v2", SCOPE):
        raise asyncio.CancelledError
    with Attempt(one, "v2", SCOPE):
        pass

    assert [] == one.meters.told


@pytest.mark.parametrize("alone", [False, True])
async def test_a_ranking_is_counted_and_shown_unless_it_is_for_comparison(
    tiny_model: LiveModel, *, alone: bool
) -> None:
    shown: list[Any] = []
    log = SimpleNamespace(show=lambda *given: shown.append(given))
    one = service(impressions=log)

    with Attempt(one, "rerank", SCOPE, 3) as attempt:
        ranked = await attempt.rank(tiny_model, documents(), alone=alone)

    assert [
        ("ranked", "rerank", tiny_model, ranked.ranking, ranked.out_of_range, True, None, not alone)
    ] == one.meters.told
    assert ([] if alone else [("rerank", SCOPE, 3, ranked)]) == shown


async def test_documents_are_held_before_they_are_ranked(tiny_model: LiveModel) -> None:
    held: list[int] = []
    token = PERMIT.set(SimpleNamespace(hold=held.append))
    try:
        await Attempt(service(), "rerank", SCOPE).rank(tiny_model, documents(np.ones((7, 4), np.float32)))
    finally:
        PERMIT.reset(token)

    assert [7] == held


@pytest.mark.parametrize("count", [1, 2])
async def test_explaining_a_route_reads_all_training_queries_which_is_work(
    count: int, tiny_model: LiveModel, lanes: dict[str, Lane], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four passes over the numbers of the training queries, besides the ranking."""
    points = tiny_model.ranker.router.queries
    assert points is not None
    numbers = 4 * sum(getattr(points, name).size for name in points.layout)
    monkeypatch.setattr(reranking, "LARGE", numbers + 4 * count)
    for rows in (count, count - 1):
        if rows:
            given = documents(np.ones((rows, 4), np.float32))
            await Attempt(service(), "rerank", dict(SCOPE)).rank(tiny_model, given, Options(explain="route"))

    assert [numbers + 4 * count] == lanes["RANKER"].units


async def test_a_large_answer_is_written_in_a_thread_however_small_its_request(
    tiny_model: LiveModel, lanes: dict[str, Lane]
) -> None:
    many = documents(np.random.default_rng(0).standard_normal((2**14, 4)).astype(np.float32))
    attempt = Attempt(service(), "rerank_npy", dict(SCOPE))
    await attempt.rank(tiny_model, many, Options(explain="contributions"))

    await attempt.run(lambda: b"", 0)

    assert [20 * 4 * 2**14] == lanes["READER"].units


async def test_a_model_is_looked_for_once_in_a_request(tiny_model: LiveModel) -> None:
    asked: list[Any] = []

    async def resolve(address: str | None, _: Any, *, at: str | None) -> LiveModel:
        asked.append((address, at))
        return tiny_model

    one = service(live=SimpleNamespace(find=lambda _: None), resolve=resolve)
    found: dict[str | None, LiveModel | None] = {}

    models = [await Attempt(one, "x", SCOPE).find("a", found=found) for _ in range(2)]
    models += [await Attempt(one, "x", SCOPE).find("a", at=None), await Attempt(one, "x", SCOPE).find(None)]

    assert [tiny_model] * 4 == models
    assert [("a", "/model"), ("a", None), (None, "/model")] == asked
    assert {"a": tiny_model} == found


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Two clocks that have nothing to do with each other."""
    now = {"monotonic": 1000.0, "perf_counter": 50.0}
    monkeypatch.setattr(reranking, "monotonic", lambda: now["monotonic"])
    monkeypatch.setattr(reranking, "perf_counter", lambda: now["perf_counter"])
    return now


@pytest.mark.parametrize(
    ("arrived", "deadline"), [(None, 1000.0 - 0.25 + 2), (0.0, 1000.0 - 0.25 + 2), (990.0, 992.0)]
)
def test_the_time_for_a_ranking_begins_when_its_whole_request_has_arrived(
    clocks: dict[str, float], lanes: dict[str, Lane], arrived: float | None, deadline: float
) -> None:
    attempt = Attempt(service(), "rerank", SCOPE)
    attempt.timing.begun = clocks["perf_counter"] - 0.25
    token = PERMIT.set(None if arrived is None else SimpleNamespace(arrived=arrived))
    try:
        work, rank = attempt._in_time(7.0, 2000.0)
    finally:
        PERMIT.reset(token)

    assert (7.0, {"deadline": deadline}) == (work, rank.keywords)  # type: ignore[attr-defined]
    assert [] == lanes["RANKER"].units


@pytest.mark.parametrize(
    ("work", "wait", "left"),
    [
        (500_000.0, 1.0, 500_000.0),
        (500_000.0, 1.001, 0.0),
        (499_999.0, 1.001, 499_999.0),
        (600_000.0, 9.0, 0.0),
    ],
)
def test_no_work_is_sent_to_a_thread_that_is_free_too_late(
    clocks: dict[str, float], monkeypatch: pytest.MonkeyPatch, work: float, wait: float, left: float
) -> None:
    monkeypatch.setattr(reranking, "RANKER", Lane(wait))
    attempt = Attempt(service(), "rerank", SCOPE)
    attempt.timing.begun = clocks["perf_counter"]

    found, rank = attempt._in_time(work, 1000.0)

    assert (left, {"deadline": 0.0 if left == 0 else 1001.0}) == (found, rank.keywords)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("strain", "lowest"), [(0.5, None), (0.501, False), (0.75, False), (0.751, True), (3.0, True)]
)
def test_overload_lowers_a_ranking_beyond_its_share_only(
    tiny_model: LiveModel, monkeypatch: pytest.MonkeyPatch, *, strain: float, lowest: bool | None
) -> None:
    taken: list[bool] = []

    def lower(model: LiveModel, matrix: Matrix, timing: Stopwatch, *, lowest: bool) -> Any:
        taken.append(lowest)
        return model.ranker.rank(matrix, stage=timing), Degraded("global", "overload")

    monkeypatch.setattr(reranking, "rank_lower", lower)
    rank = under_pressure(SimpleNamespace(strain=lambda: strain), 0.5)  # type: ignore[arg-type]

    found = rank(tiny_model, documents(), Options(), Stopwatch())
    strict = rank(tiny_model, documents(), Options(allow_degraded=False), Stopwatch())
    explained = rank(tiny_model, documents(), Options(explain="route"), Stopwatch())

    assert ([] if lowest is None else [lowest]) == taken
    assert (None if lowest is None else Degraded("global", "overload")) == found.degraded
    assert strict.degraded is explained.degraded is None
    assert explained.explanation is not None
    assert found.explanation is None


def test_what_was_ranked_is_told_in_full(tiny_model: LiveModel) -> None:
    matrix = np.array([[1, 2, 3, 4], [1e9, 2, 3, 4]], np.float32)
    given, options = documents(matrix), Options(top_n=1)

    found = rank_plainly(tiny_model, given, options, Stopwatch())

    assert ("tiny", 3, tiny_model.ranker, options, given, None) == (
        found.name,
        found.version,
        found.ranker,
        found.options,
        found.documents,
        found.explanation,
    )
    assert tiny_model.ranker.contract.out_of_range(matrix) == found.out_of_range > 0
    assert tiny_model.ranker.rank(matrix).scores.tolist() == found.ranking.scores.tolist()


@pytest.mark.parametrize("way", ["plainly", "under pressure", "in time"])
def test_an_error_says_where_in_the_request_the_document_is(tiny_model: LiveModel, way: str) -> None:
    rank = {
        "plainly": rank_plainly,
        "under pressure": under_pressure(SimpleNamespace(strain=lambda: 1.0), 0.5),  # type: ignore[arg-type]
        "in time": lambda *given: reranking._rank_in_time(*given, deadline=float("inf")),
    }[way]
    missing = np.array([[1, 2, 3, 4], [np.nan, 2, 3, 4]], np.float32)

    with pytest.raises(Problem) as caught:
        rank(tiny_model, documents(missing), Options(timeout_ms=1.0), Stopwatch())

    assert (422, "/at/1/0", "invalid-documents") == (
        caught.value.status,
        caught.value.pointer,
        caught.value.kind,
    )


def test_an_error_of_no_document_points_nowhere() -> None:
    problem = reranking._located(ScoringFailed("x"), documents())

    assert (500, None) == (problem.status, problem.pointer)
    assert None is reranking._located(InvalidDocuments("x"), documents()).pointer


async def test_a_request_that_is_recorded_learns_of_each_query_once(tiny_model: LiveModel) -> None:
    noted: list[Any] = []
    token = OBSERVATION.set(SimpleNamespace(add=noted.append))  # type: ignore[arg-type]
    try:
        refused = Attempt(service(), "rerank", SCOPE)
        refused.timing.start("decode")
        with pytest.raises(Problem), refused:
            raise Problem(400, "x")
        with Attempt(service(), "rerank", SCOPE) as attempt:
            attempt.timing.start("decode")
            ranked = await attempt.rank(tiny_model, documents())
    finally:
        OBSERVATION.reset(token)

    first, second = noted
    assert (None, None, None, ["decode"]) == (*first[:3], [lap.stage for lap in first.laps])
    assert (tiny_model, ranked.ranking) == second[:2]
    assert ["decode", "sign", "route", "score", "order"] == [lap.stage for lap in second.laps]
    assert attempt.timing.stop() == second.milliseconds


async def test_waiting_for_a_thread_is_no_stage(tiny_model: LiveModel, lanes: dict[str, Lane]) -> None:
    many = documents(np.random.default_rng(0).standard_normal((2**17, 4)).astype(np.float32))
    attempt = Attempt(service(), "rerank", SCOPE)
    attempt.timing.start("decode")

    await attempt.rank(tiny_model, many)

    decoded, signed, *_ = attempt.timing.laps()
    assert 1 == len(lanes["RANKER"].units)
    assert decoded.begun + decoded.milliseconds / 1e3 < signed.begun
