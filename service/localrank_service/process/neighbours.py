"""Connections move from a busy worker to one that has less to do.

All workers accept from one listener, and whichever is awake takes everything that waits there. So one of two workers may
have 15 of 16 connections, and keep them for as long as the clients do. While requests wait in one worker, the other idles.

Each worker shows the others how many requests it has in work, or how many clients ask while it refuses some. The busier
one hands over connections that were just answered: their sockets go through a channel between the processes
(SCM_RIGHTS), and the client notices nothing. What it sends meanwhile waits in the socket. The supervisor also holds the
channels, so the next worker takes up what was on its way to one that died.
"""

from __future__ import annotations

import asyncio
import logging
import mmap
import os
import socket
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank_service.http.admission import Admission, Connections

_log = logging.getLogger("localrank.service")
#: Seconds between two looks at the others.
_LOOK = 0.1
#: Weight of the newest look in the running mean of the clients that want an answer.
_NEWEST = 0.25
#: A worker is busier if this many more clients want an answer there, beside so many times those of the other.
_MORE, _TIMES = 1.25, 1.5
#: A worker that has not shown anything for so many seconds gets no connections.
_SILENT = 0.5


class Board:
    """What the workers of one service show each other, and the channels between them. Make it before they are forked.

    Args:
        workers: how many.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        #: For each worker: when it looked last, and how many clients want an answer.
        self.shown = memoryview(mmap.mmap(-1, 16 * workers)).cast("d")
        self.channels = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(workers)]
        for ends in self.channels:
            for end in ends:
                end.settimeout(0.0)

    def close(self) -> None:
        """Close the channels in this process."""
        for ends in self.channels:
            for end in ends:
                end.close()


class Neighbours:
    """The other workers, as one of them sees them.

    Args:
        board: of all.
        place: of this worker there.
        ending: tells whether all workers stop; then nothing is handed over.
        clock: the monotonic one, which all processes of a machine share.
    """

    def __init__(
        self, board: Board, place: int, ending: Callable[[], bool], clock: Callable[[], float] = monotonic
    ) -> None:
        self._board = board
        self._place = place
        self.ending = ending
        self._clock = clock
        self._load = 0.0
        self._target = place
        self._timer: asyncio.Handle | None = None

    def join(
        self, connections: Connections, admission: Admission, accept: Callable[[socket.socket], None]
    ) -> None:
        """Begin to hand connections over, and to accept those that come; the event loop runs."""
        self._connections, self._admission, self._accept = connections, admission, accept
        connections.hand_over = self._send
        loop = asyncio.get_running_loop()
        loop.add_reader(self._board.channels[self._place][0], self._receive)
        self._timer = loop.call_soon(self._look_again)

    def leave(self) -> None:
        """Hand over nothing more. What is on its way is still accepted."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._connections.spare = 0
        self._board.shown[2 * self._place] = 0.0

    def look(self) -> None:
        """Show how busy this worker is, and find out how many connections another should have instead."""
        shown, place, now = self._board.shown, self._place, self._clock()
        self._load += _NEWEST * (self._admission.demand() - self._load)
        shown[2 * place], shown[2 * place + 1] = now, self._load
        loads = {
            one: shown[2 * one + 1]
            for one in range(self._board.workers)
            if one == place or now - shown[2 * one] < _SILENT
        }
        self._target = min(loads, key=loads.__getitem__)
        more = self._load - loads[self._target]
        self._connections.spare = 0
        if self._load >= _MORE + _TIMES * loads[self._target] and not self.ending():
            # Others may hand over to the same worker now. Only the busiest does if it is about one connection.
            busiest = max(loads, key=loads.__getitem__) == place
            self._connections.spare = max(int(more / len(loads)), int(busiest))

    def _look_again(self) -> None:
        self.look()
        self._timer = asyncio.get_running_loop().call_later(_LOOK, self._look_again)

    def _send(self, descriptor: int) -> bool:
        """Hand over a connection; return whether it is gone."""
        if self.ending():
            return False
        try:
            socket.send_fds(self._board.channels[self._target][1], [b"c"], [descriptor])
        except OSError:  # the channel is full
            return False
        return True

    def _receive(self) -> None:
        with suppress(BlockingIOError):
            while True:
                _, descriptors, _, _ = socket.recv_fds(self._board.channels[self._place][0], 1, 1)
                if not descriptors:
                    _log.warning("a connection from another worker is lost: this one can open no more files")
                for descriptor in descriptors:
                    os.set_inheritable(descriptor, False)  # noqa: FBT003 - as Python spells it
                    self._accept(socket.socket(fileno=descriptor))
