"""What holds for every request, over the whole space of requests."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import httpx
import jsonschema
import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from localrank_service.apis.models.schema import request_schema
from localrank_service.app import create_app
from localrank_service.models.live import LiveModel
from localrank_service.process.settings import Settings
from localrank_service.wire.query import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from localrank.ranker import Ranker

NAMES = ("bm25", "pagerank", "ctr:7d", "age")
few = settings(max_examples=60)
many = settings(few, max_examples=150)


@pytest.fixture(scope="module")
def post(make_ranker: Any) -> Iterator[Callable[..., httpx.Response]]:
    """Post a body to ``/v1/rerank`` of an application that serves two models; ``scaled`` normalises."""
    models = [
        LiveModel("tiny", 3, make_ranker()),
        LiveModel("scaled", 1, make_ranker(normalise="query_minmax", missing="zero")),
    ]
    app = create_app(Settings(model="tiny"), models=models)
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost")
    with asyncio.Runner() as runner:

        def send(body: Any, **headers: str) -> httpx.Response:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            return runner.run(
                client.post(
                    "/v1/rerank", content=content, headers={"content-type": "application/json"} | headers
                )
            )

        yield send
        runner.run(client.aclose())


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
tame = st.floats(-1000, 1000, width=32).map(lambda value: round(value, 3))


def clouds(cells: st.SearchStrategy[float], least: int = 0, most: int = 12) -> st.SearchStrategy[Any]:
    return st.integers(least, most).flatmap(lambda n: arrays(np.float32, (n, 4), elements=cells))


def order(response: httpx.Response) -> list[int]:
    assert 200 == response.status_code, response.text
    return [result["index"] for result in response.json()["results"]]


@many
@given(documents=clouds(finite | st.sampled_from([0.0, -0.0, 3.4028235e38, -3.4028235e38, 1e-45])))
def test_a_ranking_is_a_permutation_with_finite_descending_scores(
    documents: Any, post: Callable[..., httpx.Response]
) -> None:
    response = post({"features": documents.tolist()})

    results = response.json()["results"]
    scores = [result["score"] for result in results]
    assert sorted(order(response)) == list(range(len(documents)))
    assert np.isfinite(scores).all()
    assert scores == sorted(scores, reverse=True)
    for above, below in pairwise(results):
        assert above["score"] > below["score"] or above["index"] < below["index"]
    assert [result["rank"] for result in results] == list(range(1, len(documents) + 1))


@few
@given(documents=clouds(st.just(float("nan")) | finite))
def test_missing_values_are_imputed_or_refused_never_guessed(
    documents: Any, post: Callable[..., httpx.Response]
) -> None:
    rows = [[None if np.isnan(value) else value for value in row] for row in documents.tolist()]

    response = post({"features": rows})

    lacking = [position for position, row in enumerate(rows) if row[0] is None]
    if lacking:
        assert (422, f"/features/{lacking[0]}/0") == (response.status_code, response.json()["pointer"])
    else:
        counts = {warning["feature"]: warning["count"] for warning in response.json()["warnings"]}
        assert counts == {
            name: missing
            for column, name in enumerate(NAMES)
            if (missing := sum(row[column] is None for row in rows))
        }


@many
@given(data=st.data(), documents=clouds(tame, least=1))
def test_permuting_documents_permutes_the_answer(
    data: st.DataObject, documents: Any, post: Callable[..., httpx.Response]
) -> None:
    permutation = data.draw(st.permutations(range(len(documents))))

    straight = post({"features": documents.tolist()}).json()
    permuted = post({"features": documents[permutation].tolist()}).json()

    margin = straight["route"]["margin"]
    if margin is not None and margin < 1e-4:
        return  # two clusters are equally near: rounding may choose either
    assert straight["route"]["cluster"] == permuted["route"]["cluster"]
    scores = {result["index"]: result["score"] for result in straight["results"]}
    for result in permuted["results"]:
        assert scores[permutation[result["index"]]] == result["score"]
    if len(set(scores.values())) == len(scores):
        assert order_of(straight) == [permutation[index] for index in order_of(permuted)]


def order_of(answer: Any) -> list[int]:
    return [result["index"] for result in answer["results"]]


@many
@given(
    documents=arrays(np.int16, (8, 4), elements=st.integers(-50, 50)),
    shift=arrays(np.int16, 4, elements=st.integers(-1000, 1000)),
    scale=st.sampled_from([0.25, 1.0, 8.0]),
)
def test_shift_and_scale_do_not_change_a_route_that_is_free_of_them(
    documents: Any, shift: Any, scale: float, post: Callable[..., httpx.Response]
) -> None:
    # Small integers and powers of two: float32 holds all of these exactly, so only the method is tested.
    plain = post({"features": documents.tolist(), "model": "scaled"}).json()
    moved = post({"features": (documents * scale + shift).tolist(), "model": "scaled"}).json()

    assert plain["route"]["fallback"] == moved["route"]["fallback"]
    if plain["route"]["margin"] is not None and plain["route"]["margin"] > 1e-4:
        assert plain["route"]["cluster"] == moved["route"]["cluster"]
        assert plain["route"]["similarity"] == pytest.approx(moved["route"]["similarity"], abs=1e-5)


@few
@given(documents=clouds(finite))
def test_the_same_request_gets_the_same_answer(documents: Any, post: Callable[..., httpx.Response]) -> None:
    first, second = [post({"features": documents.tolist()}).json() for _ in range(2)]

    for answer in (first, second):
        del answer["request_id"], answer["timings_ms"]
    assert first == second


@few
@given(documents=clouds(finite, least=1))
def test_every_form_gives_the_ranker_s_own_bits(
    documents: Any, post: Callable[..., httpx.Response], make_ranker: Callable[[], Ranker]
) -> None:
    expected = make_ranker().rank(documents)
    rows = documents.tolist()
    forms: list[dict[str, Any]] = [
        {"features": rows},
        {"documents": [{"features": dict(zip(NAMES, row, strict=True))} for row in rows]},
        {"features": documents[:, ::-1].tolist(), "feature_names": NAMES[::-1]},
    ]

    answers = [post(form).json()["results"] for form in forms]

    assert expected.order.tolist() == [result["index"] for result in answers[0]]
    assert expected.scores[expected.order].tolist() == [result["score"] for result in answers[0]]
    for answer in answers[1:]:
        assert answers[0] == answer


ids = st.text(max_size=5) | st.integers(-(2**60), 2**60)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ids
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
)
cell = finite | st.none() | scalars
row = st.lists(cell, min_size=3, max_size=5) | st.lists(finite, min_size=4, max_size=4)
features = row | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), cell, max_size=5)
likely = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from(["tiny", "scaled", "tiny@3", "nope"]) | anything,
        "query_id": ids | anything,
        "top_n": st.integers(-1, 20) | anything,
        "explain": st.sampled_from(["none", "route", "all"]) | anything,
        "contract": anything,
        "feature_names": st.permutations(NAMES) | st.lists(st.text(max_size=3), max_size=5) | anything,
        "documents": st.lists(
            st.fixed_dictionaries({"features": features | anything}, optional={"id": ids | anything}),
            max_size=4,
        )
        | anything,
        "ids": st.lists(ids, max_size=4) | anything,
        "features": st.lists(features, max_size=4) | anything,
        "more": anything,
    },
)


def is_allowed(members: Any, ranker: Ranker) -> bool:
    """Whether the schema of ``tiny`` allows the request, which JSON may hold otherwise."""
    schema = request_schema(LiveModel("tiny", 3, ranker), Limits(5000, refuse_extra_features=False))
    sent = json.loads(json.dumps(members))
    paired = len(sent.get("ids", ())) == len(sent.get("features", ())) if "ids" in sent else True
    return paired and jsonschema.Draft202012Validator(schema).is_valid(sent)


options = {
    "model": st.sampled_from(["tiny", "tiny@3"]),
    "top_n": st.integers(0, 5),
    "explain": st.sampled_from(["none", "route"]),
    "query_id": ids,
    "feature_names": st.permutations(NAMES) | st.just(list(NAMES)),
}
rows = st.lists(
    st.tuples(finite, finite | st.none(), finite | st.none(), finite | st.none()).map(list), max_size=3
)
named = st.fixed_dictionaries(
    {"bm25": finite}, optional={"age": finite | st.none(), "ctr:7d": finite, "new": st.integers() | st.text()}
)
documents = st.lists(st.fixed_dictionaries({"features": named | features}, optional={"id": ids}), max_size=3)
allowed = st.fixed_dictionaries({"features": rows}, optional=options | {"ids": st.lists(ids, max_size=3)}) | (
    st.fixed_dictionaries({"documents": documents}, optional=options)
)


@many
@given(members=allowed)
def test_what_the_schema_allows_is_answered(
    members: dict[str, Any], post: Callable[..., httpx.Response], tiny_ranker: Ranker
) -> None:
    response = post(members)

    check_any(response)
    event(f"status {response.status_code}")
    if is_allowed(members, tiny_ranker):
        event("allowed")
        assert 200 == response.status_code, response.text


def check_any(response: httpx.Response) -> None:
    assert response.status_code in {200, 400, 404, 409, 413, 422}, response.text
    if response.status_code != 200:
        problem = response.json()
        assert problem["status"] == response.status_code
        assert problem["detail"]
        pointer = problem["pointer"]
        assert pointer is None or pointer == "" or pointer.startswith("/")


@settings(many, max_examples=250)
@given(members=likely)
def test_whatever_is_sent_is_ranked_or_refused(
    members: dict[str, Any], post: Callable[..., httpx.Response]
) -> None:
    response = post(members)

    check_any(response)
    if response.status_code == 200:
        assert all(np.isfinite(result["score"]) for result in response.json()["results"])


@many
@given(members=anything)
def test_any_json_is_answered_without_failure(members: Any, post: Callable[..., httpx.Response]) -> None:
    check_any(post(members))


@many
@given(junk=st.binary(max_size=300), encoding=st.sampled_from(["identity", "gzip", "deflate", "zstd"]))
def test_junk_is_never_a_failure(junk: bytes, encoding: str, post: Callable[..., httpx.Response]) -> None:
    response = post(junk, **{"content-encoding": encoding})

    assert response.status_code in {400, 422}, response.text


@many
@given(data=st.data())
def test_a_damaged_request_is_never_a_failure(
    data: st.DataObject, post: Callable[..., httpx.Response]
) -> None:
    body = bytearray(
        b'{"model":"tiny","ids":["a","b"],"features":[[1.5,-2e3,null,4],[0.25,1,2,3]],"top_n":1,"explain":"route"}'
    )
    for _ in range(data.draw(st.integers(1, 3))):
        if not body:
            break
        position = data.draw(st.integers(0, len(body) - 1))
        kind = data.draw(st.sampled_from(["flip", "cut", "repeat", "drop"]))
        if kind == "flip":
            body[position] = data.draw(st.integers(0, 255))
        elif kind == "drop":
            del body[position]
        elif kind == "repeat":
            body[position:position] = body[position : position + 20]
        elif position:
            del body[position:]

    check_any(post(bytes(body)))
