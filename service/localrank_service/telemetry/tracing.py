"""Which trace a request belongs to: W3C Trace Context, as the request says it and as the answer passes it on.

``traceparent`` is ``00-<trace id>-<span id of the caller>-<flags>``. The answer says the same of this request, as
``traceresponse`` (an editor's draft of the W3C) and as an entry of ``Server-Timing``, which pages can read.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

# A later version may say more behind the flags; what stands before has the meaning that it has here.
_TRACEPARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 0x01


class Trace(NamedTuple):
    """A request's place in a trace.

    Attributes:
        trace_id: of the whole trace; 32 hexadecimal digits.
        span_id: of this request; 16 hexadecimal digits.
        parent_id: of the caller's request, which made this one; ``None`` if this is the first.
        sampled: whether the caller, or this service for a new trace, records it.
        state: the ``tracestate`` of the caller.
    """

    trace_id: str
    span_id: str
    parent_id: str | None = None
    sampled: bool = False
    state: str = ""


def trace_of(headers: Iterable[tuple[bytes, bytes]]) -> Trace:
    """Return the trace that the request's headers name, else a new one.

    As W3C Trace Context, section 3.2 and 4.3, has it: a ``traceparent`` that is malformed or repeated is ignored, and
    ``tracestate`` with it.
    """
    parents = [value for name, value in headers if name == b"traceparent"]
    found = _TRACEPARENT.fullmatch(parents[0].strip()) if len(parents) == 1 else None
    if found is not None:
        version, trace_id, parent_id, flags, more = found.groups()
        known = version != b"ff" and not (version == b"00" and more is not None)
        if known and int(trace_id, 16) and int(parent_id, 16):
            states = [value.decode("latin-1").strip() for name, value in headers if name == b"tracestate"]
            return Trace(
                trace_id.decode(),
                _identifier(64),
                parent_id.decode(),
                bool(int(flags, 16) & _SAMPLED),
                ",".join(state for state in states if state),
            )
    return Trace(_identifier(128), _identifier(64))


def answer_headers(trace: Trace) -> list[tuple[bytes, bytes]]:
    """Return the headers that tell the caller its trace and the span of this request."""
    said = f"00-{trace.trace_id}-{trace.span_id}-{trace.sampled:02x}".encode()
    return [(b"traceresponse", said), (b"server-timing", b'traceparent;desc="' + said + b'"')]


def _identifier(bits: int) -> str:
    # Identifiers are to be different, not secret.
    return f"{random.getrandbits(bits) or 1:0{bits // 4}x}"
