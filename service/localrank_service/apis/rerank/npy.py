"""``POST /v1/rerank`` as ``application/x-npy``: the bytes of ``numpy.save``, options in the query string.

The header is matched, never evaluated, and nothing is allocated before its shape agrees with the body's length. An
array of little-endian float32 in C order is ranked where it lies in the body; any other is converted once.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.datastructures import QueryParams

from localrank_service.apis.rerank.reader import RERANK
from localrank_service.http.problems import Problem, pointer
from localrank_service.wire.members import by_name, check, plain_values
from localrank_service.wire.query import (
    AbsentColumns,
    Documents,
    Limits,
    Options,
    check_contract,
    check_count,
    check_options,
    columns_of,
    from_bytes,
    in_model_order,
    ordered,
    with_query,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Matrix
    from localrank.features.contract import FeatureContract

MEDIA_TYPE = "application/x-npy"

#: What the query string may hold; ``feature_names``, ``ids`` and ``pin`` stand there once for each, ``compare`` as ``3,7``.
OPTIONS = (
    "model",
    "query_id",
    "session_id",
    "top_n",
    "offset",
    "pin",
    "boost",
    "query_features",
    "answer",
    "explain",
    "compare",
    "contract",
    "feature_names",
    "ids",
    "timeout_ms",
    "allow_degraded",
    "fallback_feature",
)
_TABLE = by_name(member for member in RERANK if member.name in OPTIONS)

_MAGIC = b"\x93NUMPY"
#: Bytes of the header's length, by major version.
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
_LONGEST_HEADER = 4096
_MEMBER = (
    r"'descr'\s*:\s*(?P<descr>'[^']*'|\[[^\]]*\])"
    r"|'fortran_order'\s*:\s*(?P<fortran>True|False)"
    r"|'shape'\s*:\s*\((?P<shape>[0-9,\s]*)\)"
)
_ONE = re.compile(_MEMBER)
_ALL = re.compile(
    r"\{{\s*(?:{0})\s*,\s*(?:{0})\s*,\s*(?:{0})\s*(?:,\s*)?\}}\s*".format(re.sub(r"\?P<\w+>", "?:", _MEMBER))
)
#: Query strings up to this size in bytes are kept with what they say.
_SHORT = 512
#: As ``compare`` stands in the query string.
_TWO_POSITIONS = re.compile(r"[0-9]{1,18},[0-9]{1,18}")
_DTYPE = re.compile(r"'[<>]f[248]'")


class _Header(NamedTuple):
    dtype: str
    fortran: bool
    shape: tuple[int, ...]
    end: int


def read(body: bytes, query_string: bytes, limits: Limits) -> NpyQuery:
    """Check everything that needs no model."""
    settings, names, ids = (_known if len(query_string) <= _SHORT else _options)(query_string)
    header = _header(body)
    if len(header.shape) != 2:
        raise Problem(
            422, f"the array has shape {list(header.shape)}; expected [documents, features]", pointer=""
        )
    n_docs, n_features = header.shape
    needed = n_docs * n_features * int(header.dtype[-1])
    if len(body) - header.end != needed:
        raise Problem(
            400,
            f"the array holds {len(body) - header.end} bytes; shape [{n_docs}, {n_features}] of {header.dtype!r} "
            f"needs {needed}",
            pointer="",
        )
    if ids is not None and len(ids) != n_docs:
        raise Problem(422, f"{len(ids)} ids for {n_docs} documents")
    return NpyQuery(body, header, settings, limits, names=names, ids=ids)


class NpyQuery:
    """An array whose header was read."""

    __slots__ = ("_body", "_header", "_ids", "_limits", "_names", "options")

    def __init__(
        self,
        body: bytes,
        header: _Header,
        options: Options,
        limits: Limits,
        *,
        names: tuple[str, ...] | None,
        ids: tuple[str, ...] | None,
    ) -> None:
        self._body = body
        self._header = header
        self._limits = limits
        self._names = names
        self._ids = ids
        self.options = options

    @property
    def cost(self) -> int:
        header = self._header
        lies = (
            header.dtype == "<f4"
            and not header.fortran
            and header.end % 4 == 0
            and self._names is None
            and not self.options.query_features
        )
        return 0 if lies else len(self._body)

    def documents(self, contract: FeatureContract) -> Documents:
        """Return the documents in the order of the model's features."""
        limits = self._limits
        try:
            check_contract(self.options.contract, contract)
            names = self._names
            gap = AbsentColumns.of(contract, names, of_query=self.options.query_features is not None)
            if names is not None and gap is not None:
                names = (*names, *gap.names)
            columns, extra = (None, ()) if names is None else columns_of(names, contract, limits)
        except Problem as problem:
            problem.pointer = None  # these stand in the query string
            raise
        n_docs, n_features = self._header.shape
        check_count(n_docs, limits, "", width=n_features)
        width = contract.n_features if names is None else len(names)
        is_short = gap is not None and gap.is_short(n_features)
        if n_features != width and not is_short:
            raise Problem(
                422, f"the array has {n_features} features per document; expected {width}", pointer=""
            )
        matrix: Matrix = from_bytes(
            self._body,
            self._header.dtype,
            (n_docs, n_features),
            offset=self._header.end,
            fortran=self._header.fortran,
        )
        locate: Callable[[int, int | None], str] = _cell
        if gap is not None and is_short:
            matrix, locate = gap.filled(matrix), gap.located(_cell)
        documents = Documents(
            ordered(matrix, columns),
            self._ids,
            in_model_order(locate, columns),
            dict.fromkeys(extra, n_docs) if n_docs else {},
        )
        if contract.of_query or self.options.query_features:
            return with_query(documents, contract, self.options)
        return documents


def _cell(document: int, feature: int | None) -> str:
    """Return the place in the array as if it were nested lists."""
    return pointer(document) if feature is None else pointer(document, feature)


def _header(body: bytes) -> _Header:
    if not body.startswith(_MAGIC):
        raise Problem(
            400, "the body is not what numpy.save writes: it does not start with \\x93NUMPY", pointer=""
        )
    major = body[6] if len(body) > 6 else 0
    if major not in _LENGTH_BYTES:
        raise Problem(400, f"the npy format has version {major}; expected 1, 2 or 3", pointer="")
    start = 8 + _LENGTH_BYTES[major]
    length = int.from_bytes(body[8:start], "little")
    if length > _LONGEST_HEADER:
        raise Problem(
            400, f"the npy header has {length} bytes; expected at most {_LONGEST_HEADER}", pointer=""
        )
    end = start + length
    if len(body) < end:
        raise Problem(400, "the npy header is truncated", pointer="")
    return _Header(*_described(body[start:end]), end)


@lru_cache(256)  # queries have a few sizes
def _described(header: bytes) -> tuple[str, bool, tuple[int, ...]]:
    """Return dtype, order and shape."""
    text = header.decode("latin-1")
    members = {
        str(found.lastgroup): str(found[found.lastgroup or ""])
        for found in (_ONE.finditer(text) if _ALL.fullmatch(text) else ())
    }
    if members.keys() != {"descr", "fortran", "shape"}:
        raise Problem(
            400,
            f"the npy header cannot be read: expected descr, fortran_order and shape, found {text[:80]!r}",
            pointer="",
        )
    descr = members["descr"]
    if not _DTYPE.fullmatch(descr):
        raise Problem(
            422,
            f"the array's dtype is {descr[:40]}; expected float16, float32 or float64, such as '<f4'",
            pointer="",
        )
    # The length of a body never needs twenty digits.
    extents = [extent.strip() for extent in members["shape"].split(",")]
    if extents[-1] == "":
        extents.pop()
    if not all(extent.isdecimal() and len(extent) <= 20 for extent in extents):
        raise Problem(400, f"the npy header has shape ({members['shape'][:40]})", pointer="")
    return descr.strip("'"), members["fortran"] == "True", tuple(map(int, extents))


def _options(query_string: bytes) -> tuple[Options, tuple[str, ...] | None, tuple[str, ...] | None]:
    """Return the options, the names of the columns and the ids of the documents."""
    pairs = QueryParams(query_string).multi_items()
    if not pairs:
        return Options(), None, None
    found: dict[str, str] = {}
    listed: dict[str, list[str]] = {"feature_names": [], "ids": [], "pin": []}
    for name, text in pairs:
        if name not in OPTIONS:
            raise Problem(
                422, f"unknown option {name!r} in the query string; expected some of {', '.join(OPTIONS)}"
            )
        if name in listed:
            listed[name].append(text)
        elif name in found:
            raise Problem(400, f"option {name!r} stands twice in the query string")
        else:
            found[name] = text
    members: dict[str, Any] = {}
    if _TWO_POSITIONS.fullmatch(compare := found.get("compare", "")):
        members["compare"] = [int(position) for position in compare.split(",")]
    try:
        members = plain_values(found, _TABLE) | members | ({"pin": listed["pin"]} if listed["pin"] else {})
        check(members, _TABLE)
        members |= {name: tuple(members[name]) for name in ("compare", "pin") if name in members}
        options = Options(**{"explain": "none", "timeout_at": None, **members})
        check_options(options)
    except Problem as problem:
        problem.pointer = None  # it stands in the query string
        raise
    return options, tuple(listed["feature_names"]) or None, tuple(listed["ids"]) or None


_known = lru_cache(256)(_options)  # callers ask for the same again and again
