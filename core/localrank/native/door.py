"""Blocking new connections to a listener; Linux takes the address of a filter for that."""

from __future__ import annotations

import ctypes
import struct
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from socket import socket

_SOL_SOCKET, _SO_ATTACH_FILTER = 1, 26
#: A program for the kernel's packet filter (BPF) that keeps nothing: "return 0".
_KEEP_NOTHING = struct.pack("HBBI", 0x06, 0, 0, 0)


def shut_door(listener: socket) -> None:
    """Block new connections in every process that has this listener; waiting connections can still be accepted.

    Linux can do this. Elsewhere a client that connects in the moment of closing is reset.
    """
    if sys.platform == "linux":
        program = ctypes.create_string_buffer(_KEEP_NOTHING)
        with suppress(OSError):
            listener.setsockopt(
                _SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(program))
            )
