"""``POST /v1/rerank/batch``: many requests of ``POST /v1/rerank`` in one body.

The body is only cut into its queries here; each is then read as a body of its own, so that one which cannot be read
takes no other with it.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import orjson

from localrank_service.http.problems import Problem, pointer
from localrank_service.wire.rerank_json import explain_syntax, refuse_duplicates

__all__ = ["split"]

_HEAD = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"queries"[ \t\r\n]*:')
_CUT = msgspec.json.Decoder(list[msgspec.Raw])


def split(body: bytes, most: int) -> list[bytes]:
    """Return the JSON of each query, of which there may be so many."""
    head = _HEAD.match(body)
    end = body.rfind(b"}")
    if head is not None and not body[end + 1 :].strip(b" \t\r\n"):
        try:
            cut = _CUT.decode(memoryview(body)[head.end() : end])
        except (msgspec.MsgspecError, ValueError, RecursionError):
            pass
        else:
            _check_count(len(cut), most)
            return [bytes(query) for query in cut]
    queries = _queries(body)
    _check_count(len(queries), most)
    try:
        return [orjson.dumps(query) for query in queries]
    except orjson.JSONEncodeError:
        raise Problem(400, "the body is nested too deeply", pointer="") from None


def _check_count(count: int, most: int) -> None:
    if count > most:
        raise Problem(413, f"{count} queries; this server takes {most} per request", pointer="/queries")


def _queries(body: bytes) -> list[Any]:
    """Return the queries of a body that is written in an unusual way, or say what is wrong with it."""
    try:
        members = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        explain_syntax(body, error)
    if type(members) is not dict:
        raise Problem(422, "the body: expected an object", pointer="")
    if unknown := members.keys() - {"queries"}:
        name = min(unknown)
        raise Problem(422, f"unknown member {name!r}; expected queries", pointer=pointer(name))
    if type(queries := members.get("queries")) is not list:
        raise Problem(422, "queries: expected a list of rerank requests", pointer="/queries")
    refuse_duplicates(body)
    return queries
