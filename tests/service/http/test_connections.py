"""Which connections are ended, when, and for whom; how much of their requests is kept."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
from typing import TYPE_CHECKING

import pytest

from localrank_service.http.admission import free_descriptors, raise_descriptors
from tests.service.http.scripted import Wire, Worker, echo, feed, request, settle

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from localrank_service.http.protocol import Http

pytestmark = pytest.mark.anyio

BEGUN = b"POST /echo HTTP/1.1\r\nHost: a\r\n"
SENDING = request(body=b"x", length=10_000)


def look(worker: Worker) -> None:
    worker.connections.start()
    worker.connections.stop()


async def silent(_scope: Scope, receive: Receive, _send: Send) -> None:
    """Read the request and never answer."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def connected(worker: Worker, *sent: bytes) -> list[tuple[Http, Wire]]:
    """Return connections that have sent this."""
    made = [worker.connect() for _ in sent]
    for (http, _), data in zip(made, sent, strict=True):
        if data:
            await feed(http, data)
    return made


# --- Broken ---


async def test_a_worker_that_refuses_everything_although_nothing_is_in_work_is_stuck() -> None:
    worker = Worker(max_concurrent_requests=1)
    http, wire = worker.connect()
    worker.admission.working = 1  # as if a request had not given back its place

    await feed(http, request())
    for _ in range(600):
        assert not worker.connections.stuck
        worker.clock.now += 0.1
        look(worker)
        await feed(http, request())
    worker.clock.now += 0.2
    await feed(http, request())

    assert worker.connections.stuck
    assert {429} == {answer.status for answer in wire.answers()}


@pytest.mark.parametrize("instead", ["work", "an answer", "silence"])
async def test_overload_is_not_taken_for_a_broken_worker(instead: str) -> None:
    worker = Worker(silent if instead == "work" else echo, max_concurrent_requests=1)
    http, _ = worker.connect()
    busy, _ = worker.connect()
    if instead == "work":
        await feed(busy, request(body=b"x"))
    else:
        worker.admission.working = 1
    await feed(http, request())
    for second in range(200):
        worker.clock.now += 1.0
        look(worker)
        if instead == "an answer" and second % 50 == 0:
            worker.admission.working = 0
            await feed(busy, request())
            worker.admission.working = 1
        if instead != "silence":
            await feed(http, request())

    assert not worker.connections.stuck


# --- Too many ---


@pytest.mark.parametrize(
    ("sent", "waited", "dropped"),
    [
        # Those that have sent nothing or a part come before one that had an answer a moment ago.
        ((request(), b"", BEGUN), 0.9, 1),
        ((request(), BEGUN, b""), 0.9, 1),
        ((request(), SENDING, b""), 0.9, 1),
        ((request(), b"", SENDING), 0.9, 1),
        # After a second, whoever has waited longest.
        ((request(), b"", BEGUN), 1.0, 0),
        ((SENDING, request(), b""), 1.0, 0),
        ((b"", SENDING, request()), 1.0, 0),
        # If there are no others.
        ((request(), request(), request()), 0.0, 0),
        # One that ends anyway, whoever waits longer.
        ((b"", request(), b"garbage\r\n\r\n"), 5.0, 2),
    ],
)
async def test_a_new_connection_replaces_the_one_that_has_kept_the_worker_waiting_longest(
    sent: tuple[bytes, ...], waited: float, dropped: int
) -> None:
    worker = Worker(max_connections=3)
    made = []
    for data in sent:
        made += await connected(worker, data)
        worker.clock.now += 1e-6
    worker.clock.now += waited

    _, wire = worker.connect()

    assert [["abort"] if place == dropped else [] for place in range(3)] == [
        [entry for entry in one.did if entry == "abort"] for _, one in made
    ]
    assert [] == wire.written
    assert (1.0, 3.0) == (worker.refused("connections"), worker.open)


async def test_connections_without_room_are_not_kept_until_they_end() -> None:
    """Eight of them have time to read why. Several are accepted before the first is made."""
    worker = Worker(silent, max_connections=1)
    await connected(worker, request(body=b"x"))

    accepted = [worker.accept() for _ in range(10)]
    wires = [worker.make(http) for http in accepted]

    assert [True, True, *[False] * 8] == ["abort" in wire.did for wire in wires]
    assert (1.0, 10.0) == (worker.open, worker.refused("connections"))


async def test_connections_that_were_refused_make_no_room_for_others() -> None:
    worker = Worker(silent, max_connections=1)
    await connected(worker, request(body=b"x"))

    for count in range(1, 6):
        newcomer, wire = worker.connect()
        await feed(newcomer, request(body=b"x"))

        assert [503] == [one.status for one in wire.answers()]
        assert (1.0, float(count)) == (worker.open, worker.refused("connections"))


@pytest.mark.parametrize(("descriptors", "replaced"), [(2, 1), (3, 0)])
async def test_the_limit_follows_the_descriptors(descriptors: int, replaced: int) -> None:
    """Those of open connections are taken already. They are counted once a second."""
    worker = Worker()
    await connected(worker, b"", b"")
    worker.free_descriptors = descriptors
    look(worker)

    await connected(worker, b"", b"", b"")

    assert replaced == worker.refused("connections")


async def test_descriptors_are_counted_once_a_second() -> None:
    worker = Worker(max_connections=5)
    look(worker)
    worker.free_descriptors = 0
    worker.clock.now += 0.99
    look(worker)
    await connected(worker, b"", b"")
    assert 0.0 == worker.refused("connections")

    worker.clock.now += 0.01
    look(worker)
    await connected(worker, b"")

    assert (1.0, 2.0) == (worker.refused("connections"), worker.open)


async def test_more_descriptors_do_not_raise_the_limit_of_the_settings() -> None:
    worker = Worker(max_connections=1)
    look(worker)

    await connected(worker, b"", b"")

    assert 1.0 == worker.refused("connections")


# --- Too slow ---


def passed(worker: Worker, seconds: float) -> None:
    worker.clock.now += seconds
    look(worker)


async def test_a_connection_is_idle_for_so_long() -> None:
    worker = Worker(keep_alive_seconds=75)
    [(_, first)] = await connected(worker, request())
    worker.clock.now += 1
    [(http, second)] = await connected(worker, request())

    passed(worker, 73.9)
    assert ([], []) == (first.did, second.did)
    passed(worker, 0.1)
    assert (["eof"], []) == (first.did, second.did)
    await feed(http, request())
    passed(worker, 74.9)
    assert [] == second.did
    passed(worker, 0.1)
    assert ["eof"] == second.did


async def test_a_head_has_to_arrive_in_time() -> None:
    """Counted from its first byte. Who sends nothing is not answered."""
    worker = Worker(head_timeout_seconds=10)
    [(late, wire), (_, nothing)] = await connected(worker, b"", b"")
    worker.clock.now += 4
    await feed(late, BEGUN)
    worker.clock.now += 1
    await feed(late, b"X: 1\r\n")

    passed(worker, 5)
    assert ([], ["abort"]) == (wire.did, nothing.did)
    assert [] == nothing.written
    assert 0.0 == worker.refused("head_timeout")
    passed(worker, 4)

    (answer,) = wire.answers()
    assert (408, "the request's head did not arrive within 10 s") == (answer.status, answer.detail)
    assert 1.0 == worker.refused("head_timeout")


async def test_a_head_that_was_begun_ahead_of_its_time_has_to_arrive_in_time() -> None:
    worker = Worker(head_timeout_seconds=10, keep_alive_seconds=75)
    [(_, wire)] = await connected(worker, request() + BEGUN)

    passed(worker, 9.9)
    assert [200] == [answer.status for answer in wire.answers()]
    passed(worker, 0.2)

    assert [200, 408] == [answer.status for answer in wire.answers()]


async def answering(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a body that does not arrive, as the application does."""
    from localrank_service.http.problems import Problem, respond

    try:
        while (await receive())["more_body"]:
            pass
    except Problem as problem:
        await respond(scope, problem)(scope, receive, send)


@pytest.mark.parametrize("rate", [0, 1000])
async def test_a_body_has_to_arrive_in_time(rate: int) -> None:
    """Bytes of the body that came with the head count as well."""
    worker = Worker(answering, body_timeout_seconds=8, min_body_rate=rate)
    [(http, wire)] = await connected(worker, request(body=bytes(50_000), length=60_000))
    worker.clock.now += 7
    await feed(http, bytes(1000))

    passed(worker, 1)
    await settle()
    assert [] == wire.written
    passed(worker, 0.1)
    await settle()

    (answer,) = wire.answers()
    assert (408, "the request's body did not arrive within 8 s") == (answer.status, answer.detail)
    assert answer.last
    assert 1.0 == worker.refused("body_timeout")


async def test_a_body_may_be_slow_at_first_but_not_on_average() -> None:
    """The first five seconds do not count: at 7.1 s, 2.1 s at 100 bytes a second are due."""
    worker = Worker(answering, min_body_rate=100)
    made = await connected(worker, *[request(body=bytes(size), length=1000) for size in (1, 200, 210)])

    passed(worker, 5.0)
    await settle()
    assert [[], [], []] == [wire.written for _, wire in made]
    passed(worker, 2.0)
    await settle()
    assert [1, 0, 0] == [len(wire.written) for _, wire in made]
    worker.clock.now += 0.1 - 1e-9
    look(worker)
    await settle()

    (slowest, slow, quick) = (wire.answers() for _, wire in made)
    assert [] == quick
    for (answer,) in (slowest, slow):
        assert (408, "the request's body arrives at less than 100 bytes a second") == (
            answer.status,
            answer.detail,
        )
    assert 2.0 == worker.refused("body_timeout")


async def test_a_body_that_nobody_reads_has_to_arrive_in_time() -> None:
    worker = Worker(body_timeout_seconds=8, min_body_rate=0)
    [(_, wire)] = await connected(worker, request(b"/deaf", b"x", length=1000))

    passed(worker, 8.1)

    assert ["abort"] == wire.did
    assert 1.0 == worker.refused("body_timeout")


async def test_a_request_that_is_complete_may_take_as_long_as_it_likes() -> None:
    worker = Worker(silent)
    [(_, wire)] = await connected(worker, request(body=b"x"))

    passed(worker, 4000)

    assert ([], []) == (wire.did, wire.written)


@pytest.mark.parametrize(("unsent", "seconds"), [(0, 0.9), (100, 8.0)])
async def test_a_client_has_a_second_to_close_its_side_and_longer_to_take_the_end_of_an_answer(
    unsent: int, seconds: float
) -> None:
    worker = Worker(body_timeout_seconds=8)
    [(_, wire)] = await connected(worker, b"garbage\r\n\r\n")
    wire.unsent = unsent

    passed(worker, seconds)
    assert ["eof"] == wire.did
    passed(worker, 0.1)

    assert ["eof", "abort"] == wire.did


async def test_a_client_has_to_take_its_answers() -> None:
    worker = Worker(body_timeout_seconds=8)
    [(stalled, wire), (again, other)] = await connected(worker, request(), request())
    for http in (stalled, again):
        http.pause_writing()
    again.resume_writing()
    passed(worker, 8.0)
    assert [] == wire.did

    passed(worker, 0.1)

    assert (["abort"], []) == (wire.did, other.did)
    assert 1.0 == worker.refused("slow_reader")
    stalled.connection_lost(None)
    passed(worker, 0.1)
    assert 1.0 == worker.refused("slow_reader")


async def test_when_the_server_stops_idle_clients_have_a_second() -> None:
    """Counted from the first goodbye. Who sends just then may finish."""
    worker = Worker(keep_alive_seconds=0.5)
    [(idle, idle_wire), (_, silent_wire), (_, sending)] = await connected(worker, request(), b"", BEGUN)
    idle.shutdown()
    worker.clock.now += 0.5
    idle.shutdown()

    passed(worker, 0.4)
    assert ([], [], []) == (idle_wire.did, silent_wire.did, sending.did)
    passed(worker, 0.1)

    assert (["eof"], ["eof"], []) == (idle_wire.did, silent_wire.did, sending.did)


async def test_until_the_server_stops_who_has_sent_nothing_is_not_closed() -> None:
    worker = Worker()
    [(_, wire)] = await connected(worker, b"")

    passed(worker, 2.0)

    assert [] == wire.did


async def test_a_worker_looks_again_and_again_until_it_stops() -> None:
    worker = Worker(keep_alive_seconds=1)
    made = []
    worker.connections.start()
    for _ in range(2):
        made += await connected(worker, request())
        worker.clock.now += 1
        for _ in range(10_000):
            if made[-1][1].did:
                break
            await asyncio.sleep(0.001)
    worker.connections.stop()
    made += await connected(worker, request())
    worker.clock.now += 1
    await asyncio.sleep(0.02)

    assert [["eof"], ["eof"], []] == [wire.did[:1] for _, wire in made]
    worker.connections.stop()


async def test_the_log_has_one_line_in_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "localrank.service")
    worker = Worker()
    for seconds, reasons in ((0.0, "baa"), (1.0, "c"), (8.9, "c"), (0.1, ""), (10.0, ""), (0.0, "d")):
        worker.clock.now += seconds
        for reason in reasons:
            worker.connections.note(reason)
        look(worker)

    assert [
        f"requests and connections ended early: {said}" for said in ("a 2, b 1", "c 2", "d 1")
    ] == caplog.messages


# --- Too much ---


async def test_requests_that_arrive_take_so_much_memory_together() -> None:
    """Eight of the largest. The largest unfinished one is given up, and room is made by that."""
    worker = Worker(silent, max_body_bytes=1000)
    sizes = (2999, 3000, 2000)
    made = await connected(worker, *[request(body=bytes(size), length=5000) for size in sizes])
    assert [2999, 3000, 2000] == [http.held for http, _ in made]
    [(head, head_wire)] = await connected(worker, b"P")
    assert [[], [], []] == [wire.written for _, wire in made]

    await feed(head, b"O")

    assert [2999, 0, 2000] == [http.held for http, _ in made]
    assert 1.0 == worker.refused("bytes")
    assert ([], 2) == (head_wire.written, head.held)
    await feed(made[0][0], bytes(2000))
    assert 1.0 == worker.refused("bytes")
    made[0][0].connection_lost(None)
    await feed(made[2][0], bytes(2999))
    assert 1.0 == worker.refused("bytes")


async def test_a_head_is_given_up_if_it_is_the_largest() -> None:
    worker = Worker(silent, max_body_bytes=1)
    await connected(worker, request(body=b"abc", length=10))

    [(http, wire)] = await connected(worker, BEGUN)

    (answer,) = wire.answers()
    assert (429, True, b"1") == (answer.status, answer.last, answer.headers[b"retry-after"])
    assert "bytes" == json.loads(answer.body)["reason"]
    assert 0 == http.held


# --- Descriptors ---


@pytest.mark.parametrize(("soft", "expected"), [(60, 4), (56, 0), (50, 0), (resource.RLIM_INFINITY, 2**31)])
async def test_some_descriptors_are_kept_for_everything_else(
    monkeypatch: pytest.MonkeyPatch, soft: int, expected: int
) -> None:
    """Sixteen of them; forty are open here."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))
    monkeypatch.setattr(os, "listdir", lambda _: ["0"] * 40)

    assert expected == free_descriptors()


@pytest.mark.parametrize(("soft", "asked"), [(64, [(4096, 4096)]), (4096, [])])
async def test_the_process_may_open_as_many_descriptors_as_it_is_allowed_to(
    monkeypatch: pytest.MonkeyPatch, soft: int, asked: list[tuple[int, int]]
) -> None:
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: found.append(limits))

    raise_descriptors()

    assert asked == found
