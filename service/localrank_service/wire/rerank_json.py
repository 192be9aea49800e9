"""``POST /v1/rerank`` as JSON: rows, columns, named features, flat and base64 forms; and its answer.

No number passes through a validation library: those of a plain body go straight into one buffer
(`localrank_service.wire.numbers`). Any other body is parsed into Python objects, its rows packed by one call, and only
what this call refuses (nulls, texts, booleans, ragged rows) is looked at value by value, to take its nulls as missing
values or to say what is wrong and where.
"""

from __future__ import annotations

import binascii
import json
import math
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import orjson

from localrank_service.describe.explanation import explain
from localrank_service.http.problems import Problem, pointer
from localrank_service.reranking import route_members, warnings_of
from localrank_service.wire.cells import pack, refuse
from localrank_service.wire.numbers import plain_members
from localrank_service.wire.query import (
    DTYPES,
    EXPLANATIONS,
    Documents,
    Limits,
    Options,
    check_contract,
    check_count,
    columns_of,
    in_model_order,
    ordered,
    to_float32,
)
from localrank_service.wire.results import results

if TYPE_CHECKING:
    from collections.abc import Callable

    from localrank.arrays import Array, Matrix
    from localrank.contract import FeatureContract
    from localrank_service.reranking import Attempt, Ranked

__all__ = ["MEDIA_TYPE", "MEMBERS", "JsonQuery", "encode", "explain_syntax", "read", "refuse_duplicates"]

MEDIA_TYPE = "application/json"

#: The members of a request; any other is refused by name.
MEMBERS = (
    "model",
    "query_id",
    "top_n",
    "explain",
    "contract",
    "feature_names",
    "documents",
    "ids",
    "features",
    "features_b64",
    "dtype",
    "shape",
)
_MEMBERS = frozenset(MEMBERS)
_FORMS = ("documents", "features", "features_b64")
_IDS = frozenset({str, int})


def read(body: bytes) -> JsonQuery:
    """Parse the body and check everything that needs no model."""
    members: Any = plain_members(body)
    plain = members is not None
    if not plain:
        try:
            members = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            explain_syntax(body, error)
    if type(members) is not dict:
        refuse("the body", "an object", members, "")
    if unknown := members.keys() - _MEMBERS:
        name = min(unknown)
        raise Problem(
            422, f"unknown member {name!r}; expected some of {', '.join(MEMBERS)}", pointer=pointer(name)
        )
    return JsonQuery(body, members, plain=plain)


def encode(ranked: Ranked, attempt: Attempt, request_id: str) -> bytes:
    """Return the answer; ``encode`` covers the results, the timings are added after it."""
    model, options, documents, ranking = ranked.model, ranked.options, ranked.documents, ranked.ranking
    with attempt.timing("encode"):
        listed = results(ranking, documents.ids, options.top_n)
    answer = {
        "request_id": request_id,
        "model": model.name,
        "version": model.version,
        "results": orjson.Fragment(listed),
        "route": route_members(ranking.route),
        "degraded": None,
        "warnings": warnings_of(model.ranker, documents, ranking),
    }
    if options.explain == "route":
        answer["explanation"] = explain(model.ranker, documents.matrix)
    answer["timings_ms"] = attempt.stop()
    return orjson.dumps(answer)


class JsonQuery:
    """A parsed request."""

    __slots__ = ("_body", "_members", "_plain", "_strict_cells", "form", "options")

    def __init__(self, body: bytes, members: dict[str, Any], *, plain: bool) -> None:
        self._body = body
        self._members = members
        self._plain = plain
        # Packing takes a boolean for a number; a body with none of these words cannot hold one.
        self._strict_cells = not plain and (b"true" in body or b"false" in body)
        self.options = _options(members)
        forms = [name for name in _FORMS if name in members]
        if len(forms) != 1:
            found = " and ".join(forms) or "none of them"
            raise Problem(422, f"expected one of {', '.join(_FORMS)}; found {found}", pointer="")
        self.form = forms[0]
        for name in ("dtype", "shape"):
            flat = self.form == "features_b64" or (self.form == "features" and name == "shape")
            if name in members and not flat:
                raise Problem(422, f"member {name!r} does not go with {self.form!r}", pointer=pointer(name))
        if "ids" in members and self.form == "documents":
            raise Problem(422, "ids stand in the documents, or beside features", pointer="/ids")

    def documents(self, contract: FeatureContract, limits: Limits) -> Documents:
        """Return the documents in the order of the model's features."""
        check_contract(self.options.contract, contract)
        names = self._feature_names()
        columns, extra = (None, ()) if names is None else columns_of(names, contract, limits)
        width = contract.n_features if names is None else len(names)
        if self._plain:
            if (documents := self._of_plain(limits, columns, width, extra)) is not None:
                return documents
            # It does not fit: find out where.
            self._members, self._plain = self._parsed(), False
        if self.form == "documents":
            return self._rows(contract, limits, columns, width, extra)
        matrix, locate = self._columns(width, limits)
        self._refuse_duplicate_members(len(self._members), ())
        return Documents(
            ordered(matrix, columns),
            self._ids(len(matrix)),
            in_model_order(locate, columns),
            dict.fromkeys(extra, len(matrix)),
        )

    def _parsed(self) -> dict[str, Any]:
        """Return the members without what `plain_members` makes of them."""
        members: dict[str, Any] = orjson.loads(self._body)
        return members

    def _of_plain(
        self, limits: Limits, columns: Array | None, width: int, extra: tuple[str, ...]
    ) -> Documents | None:
        """Return the documents of members that `plain_members` has read, if they fit."""
        if self.form == "documents":
            values, ids = self._members["documents"]
            locate: Callable[[int, int | None], str] = _in_row
        elif "shape" in self._members:
            n_docs, n_features = self._shape(width, limits)
            values, ids = self._members["features"], None
            if values.shape != (n_docs * n_features,):
                return None
            values = values.reshape(n_docs, n_features)
            locate = _in_flat(n_features)
        else:
            values, ids = self._members["features"], None
            locate = _in_column
        n_docs = len(values)
        if values.ndim != 2 or values.shape[1] != width or n_docs > limits.max_documents:
            return None
        if self.form == "features":
            ids = self._ids(n_docs)
        return Documents(
            ordered(values, columns),
            ids,
            in_model_order(locate, columns),
            dict.fromkeys(extra, n_docs),
        )

    def _rows(
        self,
        contract: FeatureContract,
        limits: Limits,
        columns: Array | None,
        width: int,
        extra: tuple[str, ...],
    ) -> Documents:
        documents = self._members["documents"]
        if type(documents) is not list:
            refuse("documents", "a list of objects", documents, "/documents")
        check_count(len(documents), limits, "/documents")
        rows, ids = [], []
        named: dict[int, dict[str, Any]] = {}
        for position, document in enumerate(documents):
            if type(document) is not dict:
                refuse(
                    f"documents[{position}]", "an object with features", document, f"/documents/{position}"
                )
            if "features" not in document or len(document) != 1 + ("id" in document):
                _refuse_members(document, position)
            features = document["features"]
            if type(features) is dict:
                named[position] = features
            rows.append(features)
            ids.append(document.get("id"))
        present = any("id" in document for document in documents)
        if present:
            _check_ids(
                [document.get("id", "") for document in documents],
                lambda position: f"/documents/{position}/id",
            )
        ignored: Counter[str] = Counter()
        if named:
            order = contract.names if columns is None else self._members["feature_names"]
            known = contract.positions
            for position, features in named.items():
                if features.keys() != known.keys():
                    unknown = [name for name in features if name not in known]
                    if unknown and limits.refuse_extra_features:
                        raise Problem(
                            422,
                            f"documents[{position}] has feature {unknown[0]!r}, which the model does not know",
                            pointer=pointer("documents", position, "features", unknown[0]),
                        )
                    for name in unknown:
                        if isinstance(features[name], list | dict):
                            refuse(
                                f"documents[{position}].features[{name!r}]",
                                "a number or null",
                                features[name],
                                pointer("documents", position, "features", name),
                            )
                    ignored.update(unknown)
                rows[position] = list(map(features.get, order))

        def cell(document: int, column: int | None) -> str:
            steps: tuple[str | int, ...] = ("documents", document, "features")
            if column is None:
                return pointer(*steps)
            if document in named:
                name = (contract.names if columns is None else self._members["feature_names"])[column]
                return pointer(*steps, name) if name in named[document] else pointer(*steps)
            return pointer(*steps, column)

        matrix = pack(rows, width, "documents[{}].features", cell, strict=self._strict_cells)
        members = len(self._members) + sum(map(len, documents)) + sum(map(len, named.values()))
        self._refuse_duplicate_members(members, chain(ids, chain.from_iterable(named.values())))
        ignored.update(dict.fromkeys(extra, len(rows) - len(named)))
        return Documents(
            ordered(matrix, columns),
            ids if present else None,
            in_model_order(cell, columns),
            {name: count for name, count in ignored.items() if count},
        )

    def _columns(self, width: int, limits: Limits) -> tuple[Matrix, Callable[[int, int | None], str]]:
        """Return the matrix of the forms that hold nothing else, in the order of the request."""
        members = self._members
        if self.form == "features_b64":
            return self._decoded(width, limits), _whole("features_b64")
        rows = members["features"]
        if type(rows) is not list:
            refuse("features", "a list of rows, or a flat list with shape", rows, "/features")
        if "shape" not in members:
            check_count(len(rows), limits, "/features")
            return pack(rows, width, "features[{}]", _in_column, strict=self._strict_cells), _in_column
        n_docs, n_features = self._shape(width, limits)
        if len(rows) != n_docs * n_features:
            raise Problem(
                422,
                f"features holds {len(rows)} numbers; shape [{n_docs}, {n_features}] needs {n_docs * n_features}",
                pointer="/features",
            )
        packed = pack(
            [rows],
            len(rows),
            "features",
            lambda _, at: pointer("features", at or 0),
            strict=self._strict_cells,
        )
        return packed.reshape(n_docs, n_features), _in_flat(n_features)

    def _decoded(self, width: int, limits: Limits) -> Matrix:
        text, dtype = self._members["features_b64"], self._members.get("dtype", "float32")
        if type(text) is not str:
            refuse("features_b64", "a text in base64", text, "/features_b64")
        if type(dtype) is not str or dtype not in DTYPES:
            refuse("dtype", f"one of {', '.join(DTYPES)}", dtype, "/dtype")
        n_docs, n_features = self._shape(width, limits)
        try:
            buffer = binascii.a2b_base64(text, strict_mode=True)
        except (binascii.Error, ValueError) as error:
            raise Problem(422, f"features_b64 is not base64: {error}", pointer="/features_b64") from None
        kind = np.dtype(DTYPES[dtype])
        if len(buffer) != n_docs * n_features * kind.itemsize:
            raise Problem(
                422,
                f"features_b64 holds {len(buffer)} bytes; shape [{n_docs}, {n_features}] of {dtype} needs "
                f"{n_docs * n_features * kind.itemsize}",
                pointer="/features_b64",
            )
        return to_float32(np.frombuffer(buffer, kind).reshape(n_docs, n_features))

    def _shape(self, width: int, limits: Limits) -> tuple[int, int]:
        shape = self._members.get("shape")
        if (
            type(shape) is not list
            or len(shape) != 2
            or any(type(extent) is not int or extent < 0 for extent in shape)
        ):
            refuse("shape", "[documents, features]", shape, "/shape")
        n_docs, n_features = shape
        check_count(n_docs, limits, "/shape/0")
        if n_features != width:
            raise Problem(422, f"shape has {n_features} features; expected {width}", pointer="/shape/1")
        return n_docs, n_features

    def _feature_names(self) -> list[str] | None:
        names = self._members.get("feature_names")
        if names is None:
            return None
        if type(names) is not list:
            refuse("feature_names", "a list of texts", names, "/feature_names")
        for position, name in enumerate(names):
            if type(name) is not str:
                refuse(f"feature_names[{position}]", "a text", name, pointer("feature_names", position))
        return names

    def _ids(self, n_docs: int) -> list[str | int] | None:
        ids = self._members.get("ids")
        if ids is None:
            return None
        if type(ids) is not list:
            refuse("ids", "a list of texts or integers", ids, "/ids")
        if len(ids) != n_docs:
            raise Problem(422, f"{len(ids)} ids for {n_docs} documents", pointer="/ids")
        _check_ids(ids, lambda position: pointer("ids", position))
        return ids

    def _refuse_duplicate_members(self, members: int, texts: Any) -> None:
        """Refuse a body in which an object has a member twice; the parser keeps the last silently.

        Outside of texts a colon stands after every member's name and nowhere else. So a body with as many colons as
        parsed members and texts have cannot hold a member that was dropped; any other is parsed again, slowly.
        """
        colons = self._body.count(b":")
        if colons == members:
            return
        top = self._members
        known = chain(
            texts,
            top.get("ids") or (),
            top.get("feature_names") or (),
            (top.get("model"), top.get("query_id"), top.get("contract")),
        )
        texts_colons = "".join(text for text in known if type(text) is str).count(":")
        # A colon in a text may be written \\u003a, and would make room for one that is not in a text.
        if colons == members + texts_colons and b"\\u" not in self._body:
            return

        refuse_duplicates(self._body)


def refuse_duplicates(body: bytes) -> None:
    """Refuse JSON in which an object has a member twice; slow, as everything is parsed again."""
    try:
        json.loads(body, object_pairs_hook=_once)
    except RecursionError:
        raise Problem(400, "the body is nested too deeply", pointer="") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise Problem(400, f"member {twice!r} stands twice in one object", pointer="")
    return found


def _options(members: dict[str, Any]) -> Options:
    for name in ("model", "contract"):
        if (text := members.get(name)) is not None and type(text) is not str:
            refuse(name, "a text", text, pointer(name))
    query_id = members.get("query_id")
    if query_id is not None and type(query_id) not in _IDS:
        refuse("query_id", "a text or an integer", query_id, "/query_id")
    top_n = members.get("top_n")
    if top_n is not None and (type(top_n) is not int or top_n < 1):
        refuse("top_n", "an integer of at least 1", top_n, "/top_n")
    explain = members.get("explain")
    if explain is not None and explain not in EXPLANATIONS:
        refuse("explain", f"one of {', '.join(EXPLANATIONS)}", explain, "/explain")
    return Options(members.get("model"), query_id, top_n, explain or "none", members.get("contract"))


def _check_ids(ids: list[Any], locate: Callable[[int], str]) -> None:
    if set(map(type, ids)) <= _IDS:
        return
    position = next(i for i, one in enumerate(ids) if type(one) not in _IDS)
    refuse(f"the id of document {position}", "a text or an integer", ids[position], locate(position))


def _in_row(document: int, column: int | None) -> str:
    steps = ("documents", document, "features")
    return pointer(*steps) if column is None else pointer(*steps, column)


def _in_column(document: int, column: int | None) -> str:
    return pointer("features", document) if column is None else pointer("features", document, column)


def _in_flat(n_features: int) -> Callable[[int, int | None], str]:
    return lambda document, column: pointer("features", document * n_features + (column or 0))


def _whole(member: str) -> Callable[[int, int | None], str]:
    return lambda _document, _feature: pointer(member)


def _refuse_members(document: dict[str, Any], position: int) -> NoReturn:
    if unknown := document.keys() - {"id", "features"}:
        name = min(unknown)
        raise Problem(
            422,
            f"documents[{position}]: unknown member {name!r}; expected id and features",
            pointer=pointer("documents", position, name),
        )
    raise Problem(422, f"documents[{position}] has no features", pointer=pointer("documents", position))


def explain_syntax(body: bytes, error: orjson.JSONDecodeError) -> NoReturn:
    """Say what is wrong with a body that could not be parsed."""
    if not body.strip():
        raise Problem(400, "the body is empty; expected a JSON object", pointer="") from None
    if "infinity" in str(error):
        at = _first_infinite(body)
        raise Problem(
            422, "a number is beyond the range of float32; expected a finite number", pointer=at
        ) from None
    text = body[: 4 * (error.pos + 1)].decode("utf-8", "replace")[error.pos :]
    for constant in ("NaN", "Infinity", "-Infinity"):
        if text.lower().startswith(constant.lower()) or (constant == "Infinity" and text.startswith("inf")):
            raise Problem(
                400,
                f"the body is not JSON: {constant} at character {error.pos}; a missing value is null",
                pointer="",
            ) from None
    raise Problem(400, f"the body is not JSON: {error}", pointer="") from None


def _first_infinite(body: bytes) -> str:
    """Return the pointer of the first number that no double can hold."""

    def find(value: Any, at: str) -> str | None:
        if isinstance(value, float):
            return at if math.isinf(value) else None
        members = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        return next((hit for name, one in members if (hit := find(one, at + pointer(name)))), None)

    try:
        return find(json.loads(body, parse_int=float), "") or ""
    except (ValueError, RecursionError):
        return ""
