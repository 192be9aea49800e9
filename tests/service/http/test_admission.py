"""Which requests are refused, and in which order the others have their turn."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from localrank_service.http.admission import (
    WHY,
    Admission,
    Claim,
    Kind,
    LoadLimits,
    PeerState,
    Pressure,
    Refusal,
    overloaded,
)
from localrank_service.http.aside import RANKER, READER, Lane
from localrank_service.http.problems import Problem, Reason
from localrank_service.process.settings import Settings
from localrank_service.telemetry.meters import Meters
from tests.service.http.scripted import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


def pressed(mean: float, *, burst: float = 0.25, overload: float = 0.001, least: int = 4) -> Pressure:
    pressure = Pressure(burst, overload, least, burst, Clock().now)
    pressure.mean = mean
    return pressure


def admissions_with(meters: Meters, clock: Clock | None = None, **settings: Any) -> Admission:
    return Admission(LoadLimits.of(Settings(**settings)), meters, clock or Clock())


def admissions(clock: Clock | None = None, **settings: Any) -> Admission:
    return admissions_with(Meters(), clock, **settings)


class Connection:
    """Stands for a connection."""

    due = 0.0
    period = 0


KIND = (b"/v1/rerank", b"application/json", 10)


def admitted(admission: Admission, client: PeerState | None = None, kind: Kind = KIND) -> Claim:
    claim = admission.admit(client or Connection(), kind)
    if isinstance(claim, Refusal):
        raise overloaded(claim)
    return claim


def arrived(admission: Admission, client: PeerState | None = None) -> Claim:
    claim = admitted(admission, client)
    claim.arrive()
    return claim


def test_a_burst_may_wait_longer_than_a_queue_that_stands(clock: Clock) -> None:
    pressure = pressed(1e-4)

    assert 0.25 == pressure.most(clock.now, 1)
    clock.now += 0.099
    assert 0.25 == pressure.most(clock.now, 1)
    clock.now += 0.002
    assert pytest.approx(128e-4) == pressure.most(clock.now, 1)
    assert pytest.approx(300e-4) == pressure.most(clock.now, 300)
    assert 0.25 == pressure.most(clock.now, 3000)
    pressure.empty = clock.now
    assert 0.25 == pressure.most(clock.now, 1)


def test_once_something_is_refused_the_queue_is_short_for_a_while(clock: Clock) -> None:
    """An overloaded queue is empty now and then; that must not let the next burst in."""
    pressure = pressed(1e-4)
    pressure.refuse(clock.now, 0.01)
    pressure.empty = clock.now

    assert 0.001 == pressure.most(clock.now + 0.4, 100)
    assert 0.0005 == pressure.most(clock.now + 0.4, 100, patience=0.5)
    pressure.empty = clock.now + 0.5
    assert 0.25 == pressure.most(clock.now + 0.51, 1)


def test_while_requests_are_refused_each_client_may_wait_now_and_then_later_and_later(clock: Clock) -> None:
    """If the clients wait for their answers before they ask again, nobody is refused from then on."""
    pressure = pressed(1e-4)
    short = []
    for milliseconds in range(40_000):
        pressure.empty = clock.now
        if (most := pressure.most(clock.now, 50)) == 0.001:
            short.append(milliseconds)
        else:
            assert pytest.approx(50e-4) == most or not milliseconds
        pressure.refuse(clock.now, most)
        clock.now += 0.001

    tries = [0, *(after for before, after in pairwise(short) if after > before + 1)]
    between = [after - before for before, after in pairwise(tries)]
    assert [1000, 2000, 4000, *[8000] * (len(between) - 3)] == [
        pytest.approx(found, abs=10) for found in between
    ]


def test_a_few_requests_may_always_wait(clock: Clock) -> None:
    pressure = pressed(0.05)

    assert pytest.approx(4 * 4 * 0.05) == pressure.most(clock.now + 1.0, 1)
    pressure.refuse(clock.now, 1.0)
    assert pytest.approx(4 * 0.05) == pressure.most(clock.now, 1)


def test_nobody_is_asked_to_wait_longer_than_half_a_minute() -> None:
    """The time now and half a minute may add up to a little more than that."""
    for now in [k * 1e3 + k / 7 for k in range(1, 400, 7)]:
        pressure = pressed(0.01)

        assert [30, 30] == [pressure.refuse(now, wait) for wait in (40.0, 30.0)]


def test_refused_clients_are_asked_to_come_back_one_after_the_other(clock: Clock) -> None:
    """950 requests of 10 ms that come at once on top of half a second of work need ten seconds."""
    pressure = pressed(0.01)

    told = [pressure.refuse(clock.now, 0.5) for _ in range(950)]

    assert sorted(told) == told
    assert (1, 10) == (told[0], told[-1])
    for second in range(2, 10):
        assert 99 <= told.count(second) <= 101
    clock.now += 10.0
    assert 1 == pressure.refuse(clock.now, 0.01)


@pytest.mark.anyio
async def test_turns_are_given_in_order_and_one_at_a_time() -> None:
    admission = admissions()
    order: list[str] = []
    turns_of_the_loop = 0

    async def request(name: str) -> None:
        claim = arrived(admission)
        if not claim.begin():
            await claim.turn()
        order.append(f"{name} at {turns_of_the_loop}")
        claim.finish()

    tasks = [asyncio.create_task(request(name)) for name in "abc"]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        turns_of_the_loop += 1

    assert list("abc") == [entry[0] for entry in order]
    assert 3 == len({entry[1:] for entry in order}), order
    assert (0, 0) == (admission.working, admission.waiting)


@pytest.mark.anyio
async def test_connections_are_accepted_before_the_next_turn_for_as_long_as_the_last_one_took(
    clock: Clock,
) -> None:
    """uvloop accepts one in each turn of the event loop; a health check's may be behind many."""
    admission = admissions(clock)
    accepted_by = []
    accepted = 0

    async def request() -> None:
        claim = arrived(admission)
        if not claim.begin():
            await claim.turn()
        clock.now += 0.010
        accepted_by.append(accepted)
        claim.finish()

    tasks = [asyncio.create_task(request()) for _ in range(3)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        if accepted < 1000:
            clock.now += 0.001
            accepted += 1
            admission.accepted = True

    first, second, third = accepted_by
    assert 0 == first
    assert 8 <= second - first <= 16
    assert 8 <= third - second <= 16


async def turn(claim: Claim) -> None:
    if not claim.begin():
        await claim.turn()


@pytest.mark.anyio
async def test_who_hangs_up_gives_the_turn_to_the_next() -> None:
    admission = admissions()
    first, second, third = claims = [arrived(admission) for _ in range(3)]
    waits = [asyncio.create_task(turn(claim)) for claim in claims]
    asyncio.get_running_loop().call_soon(second.give_up)

    with pytest.raises(ClientDisconnect):
        await waits[1]
    second.finish()
    await waits[2]

    assert (2, 0) == (admission.working, admission.waiting)
    first.finish()
    third.finish()
    assert 0 == admission.working


@pytest.mark.anyio
async def test_the_time_in_a_queue_is_bounded_however_wrong_the_estimate_was(clock: Clock) -> None:
    """A hundred requests are taken on because they should take a millisecond each; they take ten."""
    admission = admissions(clock, max_queue_ms=100)
    waited, refused = [], []

    async def request() -> None:
        claim = arrived(admission)
        try:
            await turn(claim)
        except Problem as problem:
            refused.append(problem)
        else:
            waited.append(clock.now - claim.arrived)
            clock.now += 0.010
        claim.finish()

    await asyncio.gather(*(request() for _ in range(100)))

    assert 100 == len(waited) + len(refused)
    assert 0.09 < max(waited) < 0.25
    assert len(waited) > 10
    assert {429} == {problem.status for problem in refused}
    assert all(int(problem.headers["Retry-After"]) >= 1 for problem in refused)


@pytest.mark.anyio
async def test_after_the_process_stood_still_the_few_who_wait_are_answered(clock: Clock) -> None:
    admission = admissions(clock, max_queue_ms=100)
    waits = [asyncio.create_task(turn(arrived(admission))) for _ in range(3)]
    asyncio.get_running_loop().call_soon(lambda: setattr(clock, "now", clock.now + 0.5))

    await asyncio.gather(*waits)

    assert 0 == admission.waiting


def test_a_request_that_would_wait_too_long_is_refused_at_its_head() -> None:
    admission = admissions(max_queue_ms=20, max_concurrent_requests=1000)
    # A request takes a millisecond as long as nothing else is known.
    claims = [arrived(admission) for _ in range(21)]

    with pytest.raises(Problem) as caught:
        admitted(admission)

    assert 429 == caught.value.status
    for claim in claims:
        claim.finish()
    arrived(admission).finish()


def test_so_many_documents_are_answered_at_once() -> None:
    """As many as usual are counted from the head on, and those that there are once they are decoded."""
    admission = admissions(max_documents_in_flight=100)
    for _ in range(50):
        usual = arrived(admission)
        usual.hold(40)
        usual.finish()

    one, two = arrived(admission), arrived(admission)
    assert pytest.approx(80, rel=0.01) == admission.documents
    with pytest.raises(Problem, match="overloaded"):
        arrived(admission)
    one.hold(10)
    three = arrived(admission)
    two.hold(40)
    with pytest.raises(Problem, match="overloaded"):
        three.hold(60)
    for claim in (one, two, three):
        claim.finish()
    assert pytest.approx(0, abs=1e-9) == admission.documents


def test_one_request_may_have_more_documents_than_all_may_have() -> None:
    admission = admissions(max_documents_in_flight=100)

    arrived(admission).hold(200)

    assert 200 == admission.documents


def test_what_usually_needs_a_thread_is_refused_at_its_head_when_the_thread_is_busy() -> None:
    admission = admissions()
    for _ in range(20):
        usual = arrived(admission)
        usual.use(RANKER, 1.0)
        usual.finish()
    small = (b"/v1/rerank", b"application/json", 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lane, "wait", lambda lane: 10.0 if lane is RANKER else 0.0)
        running = admitted(admission, kind=small)
        running.arrive()

        with pytest.raises(Problem) as caught:
            arrived(admission)
        admitted(admission, kind=small).arrive()
        with pytest.raises(Problem):
            running.use(RANKER, 1.0)

    assert 429 == caught.value.status
    # Nothing is known to be shorter than ten seconds.
    assert 10 <= int(caught.value.headers["Retry-After"]) <= 12


def test_what_is_ranked_is_written_however_busy_the_thread_is() -> None:
    admission = admissions()
    claim = arrived(admission)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lane, "wait", lambda lane: 10.0 if lane is READER else 0.0)
        with pytest.raises(Problem):
            arrived(admission).use(READER, 1.0)

        claim.hold(10)
        claim.use(RANKER, 1.0)
        claim.use(READER, 1.0)


@pytest.mark.anyio
async def test_a_connection_that_asks_rarely_is_hardly_ever_refused(clock: Clock) -> None:
    """Twenty connections ask again at once, whatever they are answered; another asks now and then."""
    admission = admissions(clock, overload_queue_ms=8)
    greedy, modest = [Connection() for _ in range(20)], Connection()
    answered, refused = {"greedy": 0, "modest": 0}, {"greedy": 0, "modest": 0}
    each = [0] * len(greedy)
    random = Random(1)
    queue: list[Claim] = []

    def ask(client: Connection, name: str) -> bool:
        try:
            queue.append(arrived(admission, client))
        except Problem:
            refused[name] += 1
            return False
        answered[name] += 1
        return True

    for millisecond in range(20_000):
        for number in random.sample(range(len(greedy)), 3):
            each[number] += ask(greedy[number], "greedy")
        if millisecond % 97 == 0:
            ask(modest, "modest")
        # One request is answered in each millisecond.
        if queue:
            queue.pop(0).finish()
        clock.now += 0.001

    assert refused["modest"] <= 0.05 * answered["modest"]
    assert refused["greedy"] > answered["greedy"]
    assert answered["greedy"] + answered["modest"] > 0.95 * 20_000
    # Those that ask alike are answered alike.
    assert max(each) < 1.2 * min(each)


@pytest.mark.parametrize(("clients", "refused_for"), [(8, 0.0), (120, 0.0), (200, 1.2)])
def test_clients_that_ask_again_once_they_are_answered_are_not_refused(
    clock: Clock, clients: int, refused_for: float
) -> None:
    """More than 128 are refused until they are known; a request takes a millisecond, a refusal a hundredth."""
    admission = admissions(clock)
    asking = [Connection() for _ in range(clients)]
    queue: list[tuple[Claim, Connection]] = []
    begun, last, answers = clock.now, clock.now, 0
    while clock.now < begun + 10.0:
        for client in asking:
            claim = admission.admit(client, KIND)
            if isinstance(claim, Refusal):
                last = clock.now
            else:
                claim.arrive()
                queue.append((claim, client))
        waits = {client for _, client in queue}
        asking = [client for client in asking if client not in waits]
        claim, client = queue.pop(0)
        claim.finish()
        asking.append(client)
        answers += 1
        clock.now += 0.001

    assert last - begun <= refused_for
    assert answers == pytest.approx(10_000, rel=0.01)


def test_those_who_want_an_answer_are_the_requests_in_work_or_all_who_ask_while_some_are_refused(
    clock: Clock,
) -> None:
    admission = admissions(clock, max_concurrent_requests=3)
    clients = [Connection() for _ in range(9)]
    claims = [arrived(admission, client) for client in clients[:3]]
    assert 3 == admission.demand()
    for _ in range(2):
        for client in clients:
            assert isinstance(admission.admit(client, KIND), Refusal)
        clock.now += 0.5

    admission.admit(clients[0], KIND)
    assert 9 == admission.demand()
    clock.now += 0.6
    assert 3 == admission.demand()
    for claim in claims:
        claim.finish()
    assert 0 == admission.demand()


def test_clients_that_do_not_wait_for_answers_do_not_fill_the_queue(clock: Clock) -> None:
    """At three times what can be answered, nearly every answer comes soon, and none waits for too long."""
    admission = admissions(clock)
    idle: list[Connection] = []
    queue: list[tuple[Claim, Connection, float]] = []
    waited = []
    for _ in range(60_000):
        for _ in range(3):
            client = idle.pop() if idle else Connection()
            claim = admission.admit(client, KIND)
            if isinstance(claim, Refusal):
                idle.append(client)
            else:
                claim.arrive()
                queue.append((claim, client, clock.now))
        claim, client, since = queue.pop(0)
        claim.finish()
        idle.append(client)
        waited.append(clock.now - since)
        clock.now += 0.001

    assert max(waited) < 0.3
    assert sorted(waited)[int(0.99 * len(waited))] <= 0.016
    assert sorted(waited)[len(waited) // 2] <= 0.004


def test_so_many_requests_are_answered_at_once() -> None:
    admission = admissions(max_concurrent_requests=5)
    claims = [arrived(admission) for _ in range(5)]

    with pytest.raises(Problem) as caught:
        admitted(admission)

    assert 429 == caught.value.status
    claims[0].finish()
    admitted(admission)


def test_the_settings_say_how_long_requests_may_wait(clock: Clock) -> None:
    """A quarter of a second in a burst, 128 requests of a millisecond in between, 6 ms under overload."""
    admission = admissions(clock, max_queue_ms=250, overload_queue_ms=6)
    for _ in range(120):
        arrived(admission)

    assert pytest.approx(0.120 / 0.250) == admission.strain()
    clock.now += 0.2
    assert pytest.approx(0.120 / 0.128) == admission.strain()
    for _ in range(9):
        arrived(admission)
    assert isinstance(admission.admit(Connection(), KIND), Refusal)
    assert pytest.approx(0.129 / 0.006) == admission.strain()


@pytest.mark.parametrize(
    ("wait", "most"), [(0.0, 0.25), (0.2, 0.1), (0.6, 0.1)], ids=["burst", "standing", "later"]
)
def test_strain_is_that_of_the_thread_if_more_waits_there(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, wait: float, most: float
) -> None:
    admission = admissions(clock, max_queue_ms=250, overload_queue_ms=6)
    monkeypatch.setattr(Lane, "wait", lambda lane: 0.5 if lane is RANKER else 7.0)
    clock.now += wait

    assert pytest.approx(0.5 / most) == admission.strain()


def test_a_refused_client_is_told_whole_seconds_that_are_enough(clock: Clock) -> None:
    pressure = pressed(0.5)

    assert [3, 3, 4, 4, 5] == [pressure.refuse(clock.now, 2.0) for _ in range(5)]
    assert 10 == pressure.refuse(clock.now, 9.5)
    clock.now += 100
    assert 1 == pressure.refuse(clock.now, 0.0)


def test_the_mean_time_of_a_request_follows_slowly() -> None:
    pressure = pressed(1.0)

    pressure.learn(3.0)

    assert pytest.approx(0.95 * 1.0 + 0.05 * 3.0) == pressure.mean


def usual(admission: Admission, kind: Kind) -> int:
    """Return how many documents a request of this kind is expected to have."""
    claim = admitted(admission, kind=kind)
    claim.arrive()
    documents = admission.documents
    claim.finish()
    return documents


def test_what_is_usual_follows_a_fifth_of_the_way() -> None:
    admission = admissions()
    for documents in (100, 200, 0):
        admission.learn(KIND, documents, None)

    assert round(0.8 * (0.8 * 20 + 0.2 * 200)) == usual(admission, KIND)


def test_a_kind_beyond_the_512th_makes_all_others_forgotten() -> None:
    """Clients make kinds up."""
    admission = admissions()
    kinds = [(b"/%d" % number, b"", 0) for number in range(513)]
    for kind in kinds[:512]:
        admission.learn(kind, 100, None)
    before = [usual(admission, kind) for kind in kinds]
    admission.learn(kinds[512], 100, None)

    assert [20] * 512 + [0] == before
    assert [0] * 512 + [20] == [usual(admission, kind) for kind in kinds]


def test_each_connection_gets_twice_its_share_before_it_comes_after_the_others(clock: Clock) -> None:
    """The share is that of the connections that asked in the last half second."""
    admission = admissions(clock, max_concurrent_requests=1000)
    arrived(admission)
    clients = [Connection() for _ in range(4)]
    clock.now = 1000.0

    for client in clients:
        admitted(admission, client)
        admitted(admission, client)
    before = [client.due - 1000.0 for client in clients]
    clock.now = 1000.5
    for client in clients[:2]:
        admitted(admission, client)
    during = [client.due - 1000.5 for client in clients[:2]]
    clock.now = 1001.0
    admitted(admission, clients[0])

    assert [pytest.approx(2 * 1e-3 / 2)] * 4 == before
    assert [pytest.approx(4 * 1e-3 / 2)] * 2 == during
    assert pytest.approx(2 * 1e-3 / 2) == clients[0].due - 1001.0


def test_what_is_refused_is_counted_by_its_reason() -> None:
    meters = Meters()
    refused = meters.refused_requests

    few = admissions_with(meters, max_concurrent_requests=1)
    arrived(few)
    assert isinstance(few.admit(Connection(), KIND), Refusal)
    assert (1.0, 0.0, 0.0) == tuple(refused.of(reason)[0] for reason in ("requests", "queue", "documents"))
    lists = admissions_with(meters, max_documents_in_flight=10)
    arrived(lists).hold(8)
    with pytest.raises(Problem):
        arrived(lists).hold(8)
    assert (1.0, 0.0, 1.0) == tuple(refused.of(reason)[0] for reason in ("requests", "queue", "documents"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lane, "wait", lambda _: 10.0)
        with pytest.raises(Problem):
            arrived(lists).use(READER, 1.0)
    assert (1.0, 1.0, 1.0) == tuple(refused.of(reason)[0] for reason in ("requests", "queue", "documents"))
    lists.show()
    assert 16.0 == meters.documents_in_flight.of()[0]


@pytest.mark.anyio
async def test_a_request_is_counted_from_its_arrival_to_its_end_and_once() -> None:
    admission = admissions()
    claim = admitted(admission)
    counts = [(admission.working, admission.waiting)]
    for step in (claim.arrive, claim.arrive, claim.begin, claim.finish, claim.finish):
        step()
        counts.append((admission.working, admission.waiting))
    unread = admitted(admission)
    unread.finish()
    unread.arrive()

    assert [(0, 0), (1, 1), (1, 1), (1, 0), (0, 0), (0, 0)] == counts
    assert (0, 0) == (admission.working, admission.waiting)


@pytest.mark.anyio
async def test_the_time_in_the_queue_is_measured(clock: Clock) -> None:
    meters = Meters()
    admission = admissions_with(meters, clock)
    waits = [asyncio.create_task(turn(arrived(admission))) for _ in range(2)]
    asyncio.get_running_loop().call_soon(lambda: setattr(clock, "now", clock.now + 0.25))

    await asyncio.gather(*waits)

    exposed = meters.expose().decode()
    [count] = [line for line in exposed.splitlines() if "queue" in line and "_count" in line]
    [total] = [line for line in exposed.splitlines() if "queue" in line and "_sum" in line]
    assert [2.0, pytest.approx(0.25)] == [float(line.split()[-1]) for line in (count, total)]


@pytest.mark.parametrize("reason", WHY)
def test_who_is_overloaded_says_why_and_when_to_come_back(reason: Reason) -> None:
    problem = overloaded(Refusal(reason, 7))

    assert (503 if reason == "connections" else 429, {"Retry-After": "7"}, reason) == (
        problem.status,
        problem.headers,
        problem.reason,
    )
    assert problem.detail.endswith("; try again in 7 s")
