"""Connections that go from a busy worker to one that has less to do."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from localrank_service.process.neighbours import Board, Neighbours
from tests.service.http.scripted import Clock, Worker, request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localrank_service.http.protocol import Http


@pytest.fixture
def board() -> Iterator[Board]:
    board = Board(3)
    yield board
    board.close()


class Place:
    """One worker with real sockets, and what it sees of the others."""

    def __init__(self, board: Board, number: int, clock: Clock) -> None:
        self.ending = False
        self.worker = Worker()
        self.neighbours = Neighbours(board, number, lambda: self.ending, clock)
        self.accepted: list[socket.socket] = []
        self.protocols: list[Http] = []

    async def serve(self, connection: socket.socket) -> Http:
        connection.settimeout(0.0)
        loop = asyncio.get_running_loop()
        _, protocol = await loop.connect_accepted_socket(self.worker.accept, connection)
        self.protocols.append(protocol)
        return protocol

    def join(self) -> None:
        self.neighbours.join(self.worker.connections, self.worker.admission, self.accepted.append)

    @property
    def spare(self) -> int:
        return self.worker.connections.spare

    async def look(self, working: int) -> int:
        """Look at the others until nothing changes, with so many requests in work; return what is to spare."""
        self.worker.admission.working = working
        for _ in range(40):
            self.neighbours.look()
        return self.spare


class Client:
    """The other end of a connection."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.theirs.settimeout(0.0)

    async def ask(self, body: bytes) -> bytes:
        """Send a request and return its answer's body."""
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self.theirs, request(body=body))
        answer = b""
        async with asyncio.timeout(10):
            while not answer.endswith(body):
                part = await loop.sock_recv(self.theirs, 4096)
                assert part, "the connection ended"
                answer += part
        assert answer.startswith(b"HTTP/1.1 200")
        return answer.partition(b"\r\n\r\n")[2]


async def until(ask: Any) -> None:
    async with asyncio.timeout(10):
        while not ask():  # noqa: ASYNC110 - a socket that is only looked at has no event
            await asyncio.sleep(0.001)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("working", "spare"),
    [
        ((16, 1, 0), (5, 0, 0)),
        ((100, 50, 64), (16, 0, 0)),
        ((2, 0, 0), (1, 0, 0)),
        ((1, 0, 0), (0, 0, 0)),
        ((2, 1, 1), (0, 0, 0)),
        ((14, 9, 10), (0, 0, 0)),
        # Of those that are equally busy, one hands over a single connection.
        ((3, 3, 1), (1, 0, 0)),
        ((0, 2, 2), (0, 1, 0)),
    ],
)
async def test_who_is_much_busier_hands_over_a_share_of_the_difference(
    board: Board, working: tuple[int, ...], spare: tuple[int, ...]
) -> None:
    clock = Clock()
    places = [Place(board, number, clock) for number in range(3)]
    for place in places:
        place.join()
    for _ in range(2):
        found = [await place.look(count) for place, count in zip(places, working, strict=True)]

    assert spare == tuple(found)
    for place in places:
        place.neighbours.leave()
        assert 0 == place.spare


@pytest.mark.anyio
async def test_nothing_is_handed_to_a_worker_that_left_or_is_silent_nor_when_all_stop(board: Board) -> None:
    clock = Clock()
    busy, idle = Place(board, 0, clock), Place(board, 2, clock)
    busy.join()
    idle.join()
    await idle.look(0)
    assert await busy.look(10) > 0
    clock.now += 0.6
    assert 0 == await busy.look(10)
    await idle.look(0)
    assert await busy.look(10) > 0
    busy.ending = True
    assert 0 == await busy.look(10)
    busy.ending = False
    idle.neighbours.leave()
    assert 0 == await busy.look(10)
    busy.neighbours.leave()


@pytest.mark.anyio
async def test_a_connection_goes_to_the_other_worker_after_its_answer_and_the_client_notices_nothing(
    board: Board,
) -> None:
    clock = Clock()
    busy, idle = Place(board, 0, clock), Place(board, 1, clock)
    for place in (busy, idle):
        place.join()
    clients = [Client() for _ in range(2)]
    for client in clients:
        await busy.serve(client.ours)
        assert b"before" == await client.ask(b"before")
    await idle.look(0)
    await busy.look(2)
    busy.worker.admission.working = 0
    assert 1 == busy.spare

    assert b"first" == await clients[0].ask(b"first")
    await until(lambda: idle.accepted)
    assert b"second" == await clients[1].ask(b"second")
    # What is sent while the connection is between two workers waits in it.
    late = asyncio.create_task(clients[0].ask(b"late"))
    await asyncio.sleep(0)
    protocol = await idle.serve(idle.accepted.pop())
    idle.worker.connections.welcome(protocol)

    assert b"late" == await late
    assert (1, 1) == (busy.worker.open, idle.worker.open)
    assert [b"again"] * 2 == [await client.ask(b"again") for client in clients]
    assert not idle.accepted
    assert protocol.place is idle.worker.connections.idle
    for place in (busy, idle):
        place.neighbours.leave()
    for client in clients:
        client.theirs.close()
    await until(lambda: not (busy.worker.open or idle.worker.open))


@pytest.mark.anyio
async def test_a_connection_stays_where_its_next_request_has_begun_or_no_worker_takes_it(
    board: Board,
) -> None:
    clock = Clock()
    busy, idle = Place(board, 0, clock), Place(board, 1, clock)
    for place in (busy, idle):
        place.join()
    await idle.look(0)
    await busy.look(30)
    client = Client()
    await busy.serve(client.ours)
    # Two requests at once: the second is read before the first one's connection could go.
    client.theirs.send(request(body=b"one") + request(body=b"two")[:30])
    await until(
        lambda: b"one" in client.theirs.recv(4096, socket.MSG_PEEK) if _readable(client.theirs) else False
    )
    await asyncio.sleep(0.02)

    assert busy.spare > 0
    assert (1, []) == (busy.worker.open, idle.accepted)
    client.theirs.close()
    await until(lambda: not busy.worker.open)
    asyncio.get_running_loop().remove_reader(board.channels[1][0])
    with suppress(BlockingIOError):
        while True:
            board.channels[1][1].send(b"c")
    client = Client()
    await busy.serve(client.ours)
    busy.worker.admission.working = 0
    for body in (b"three", b"four"):
        assert body == await client.ask(body)
    assert busy.spare > 0
    assert 1 == busy.worker.open
    client.theirs.close()
    await until(lambda: not busy.worker.open)
    for place in (busy, idle):
        place.neighbours.leave()


def test_a_refusal_is_sent_before_its_connection_goes(board: Board) -> None:
    """It is written while the event loop reads, and uvloop sends that later than other answers."""
    uvloop = pytest.importorskip("uvloop")

    async def refuse() -> bytes:
        busy = Place(board, 0, Clock())
        busy.join()
        busy.worker.admission.working = 512
        client = Client()
        await busy.serve(client.ours)
        await asyncio.sleep(0.01)
        busy.neighbours._target = 1
        busy.worker.connections.spare = 1
        client.theirs.send(request(body=b"body"))
        await until(lambda: not busy.worker.open)
        received, [descriptor], _, _ = socket.recv_fds(board.channels[1][0], 1, 1)
        assert b"c" == received
        busy.neighbours.leave()
        answer = b""
        with socket.socket(fileno=descriptor), client.theirs, suppress(BlockingIOError):
            answer = client.theirs.recv(4096)
        return answer

    assert uvloop.run(refuse()).startswith(b"HTTP/1.1 429")


def _readable(client: socket.socket) -> bool:
    try:
        return bool(client.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
