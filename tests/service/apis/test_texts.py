"""Documents that are texts: what rerank clients send that know only texts, and what they read of the answer.

The requests of other programs were read in their public code, named beside each; they are not tried with live programs.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank_service.models.live import LiveModel
from localrank_service.process.settings import Settings
from tests.described import validator
from tests.service.apis.test_categories import NAMES as SHOP_NAMES
from tests.service.apis.test_categories import QUERY, VALUES, coded, made
from tests.service.conftest import NAMES, connected, queries_of_three_kinds

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx

    from localrank.ranker import Ranker

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("arithmetic")]

DOCUMENTS = queries_of_three_kinds(seed=7)[0]
ROWS = [[float(str(value)) for value in row] for row in DOCUMENTS]
V1, V2 = "/v1/rerank", "/v2/rerank"


def named(row: list[Any]) -> dict[str, Any]:
    return dict(zip(NAMES, row, strict=True))


def java(row: list[Any]) -> str:
    return "{main=[" + ", ".join(f"{{name={n}, value={v}}}" for n, v in named(row).items()) + "]}"


def llama_index(row: list[Any]) -> str:
    """``node.get_content(MetadataMode.EMBED)``: DEFAULT_METADATA_TMPL and DEFAULT_TEXT_NODE_TMPL of llama_index.core.schema."""
    metadata = "\n".join(f"{name}: {value}" for name, value in {"file": "a: b.pdf", **named(row)}.items())
    return f"{metadata}\n\nA man: he comes home.\nbm25: 3"


FORMS: dict[str, Callable[[list[Any]], Any]] = {
    "lists": json.dumps,
    "objects": lambda row: json.dumps(named(row)),
    "features": lambda row: json.dumps({"features": named(row)}),
    "logged": java,
    "numbers": lambda row: " ".join(map(str, row)),
    "SVMlight": lambda row: " ".join(f"{at}:{value}" for at, value in enumerate(row, 1)),
    "lines": llama_index,
    "text in objects": lambda row: {"text": json.dumps(row)},
    # Haystack's rankers join ``meta_fields_to_embed`` and the content by line feeds (haystack_integrations, CohereRanker).
    "first line": lambda row: f"{json.dumps(named(row))}\nA man comes home.",
    "mixed": lambda row: json.dumps(row) if row[0] > 0 else {"features": row},
}


@pytest.mark.parametrize("path", [V1, V2])
@pytest.mark.parametrize("form", FORMS)
async def test_texts_are_ranked_as_the_features_that_they_are(
    client: httpx.AsyncClient, tiny_ranker: Ranker, form: str, path: str
) -> None:
    expected = tiny_ranker.rank(DOCUMENTS)
    body = {"model": "tiny", "query": "rambo", "documents": list(map(FORMS[form], ROWS)), "top_n": 7}
    validator("RerankRequest" if path == V1 else "CohereRequest").validate(body)

    answer = (await client.post(path, json=body)).json()

    results = answer["results"]
    assert expected.order[:7].tolist() == [one["index"] for one in results]
    assert expected.scores[expected.order[:7]].tolist() == [one["score"] for one in results]
    relevance = 1 / (1 + np.exp(-expected.scores[expected.order[:7]]))
    np.testing.assert_allclose([one["relevance_score"] for one in results], relevance, rtol=1e-12)
    ignored = ["feature_ignored: file in 20 documents"] if form == "lines" else []
    said = answer["meta"]["warnings"] if path == V2 else answer["warnings"]
    assert ignored == [
        one if path == V2 else f"{one['code']}: {one['feature']} in {one['count']} documents" for one in said
    ]


async def test_ids_stand_beside_texts(client: httpx.AsyncClient) -> None:
    documents = [{"id": f"d{at}", "text": json.dumps(row)} for at, row in enumerate(ROWS)]

    results = (await client.post(V1, json={"documents": documents})).json()["results"]

    assert [f"d{one['index']}" for one in results] == [one["id"] for one in results]
    assert not any("relevance_score" in one for one in results)


@pytest.mark.parametrize("path", [V1, V2])
async def test_documents_come_back_as_texts(client: httpx.AsyncClient, path: str) -> None:
    documents: list[Any] = [json.dumps(ROWS[0]), {"text": json.dumps(ROWS[1])}, {"features": ROWS[2]}]

    body = {"documents": documents, "return_documents": True}
    results = (await client.post(path, json=body)).json()["results"]

    sent = [{"text": documents[0]}, *documents[1:]]
    assert [sent[one["index"]] for one in results] == [one["document"] for one in results]


async def test_missing_values_are_those_of_the_contract(
    client: httpx.AsyncClient, tiny_ranker: Ranker
) -> None:
    holes = DOCUMENTS.copy()
    holes[::2, 1:3] = np.nan
    rows = [[None if np.isnan(one) else float(str(one)) for one in row] for row in holes]
    expected = tiny_ranker.rank(holes).scores[tiny_ranker.rank(holes).order].tolist()
    forms: list[Callable[[list[Any]], str]] = [
        json.dumps,
        lambda row: json.dumps({name: one for name, one in named(row).items() if one is not None}),
        lambda row: "\n".join(f"{name}: {one}" for name, one in named(row).items()),
        lambda row: " ".join("null" if one is None else str(one) for one in row),
        lambda row: " ".join(f"{at}:{'?' if one is None else one}" for at, one in enumerate(row, 1)),
        lambda row: java(row).replace(", value=None", ""),
    ]
    for form in forms:
        answer = (await client.post(V2, json={"documents": list(map(form, rows))})).json()
        assert expected == [one["score"] for one in answer["results"]]
        assert "feature_imputed: pagerank in 10 documents" in answer["meta"]["warnings"]


async def test_what_svmlight_leaves_out_is_zero(client: httpx.AsyncClient, tiny_ranker: Ranker) -> None:
    expected = tiny_ranker.rank(np.array([[1, 0, 0, 3], [0, 2, 0, 0]], np.float32))

    answer = (await client.post(V2, json={"documents": ["1:1 4:3", "2:2"]})).json()

    assert expected.scores[expected.order].tolist() == [one["score"] for one in answer["results"]]


REFUSED: list[tuple[list[Any], str, str]] = [
    (
        ["a text"],
        "/documents/0",
        "documents[0] is a text that holds no features of the model; expected a JSON list or object",
    ),
    (["[1, 2, 3, 4]", "a text"], "/documents/1", "documents[1] is a text that holds no features"),
    (
        [{"text": "a: b\nc: d"}],
        "/documents/0/text",
        "found the names 'a', 'c', which the model does not know",
    ),
    (["{}"], "/documents/0", "holds no features of the model"),
    (["[1, 2, 3]"], "/documents/0", "has 3 values; expected 4"),
    (["[1, 2, 3, 4]", "[1, 2, 3]"], "/documents/1", "has 3 values; expected 4"),
    (["[1, 2, 3, 4]", "[1, 2, 3, 4],[5]"], "/documents/1", "holds no features"),
    (["[1, 2", "3, 4]"], "/documents/0", "holds no features"),
    (['[1, 2, 3, "x"]'], "/documents/0", 'expected a number or null, found "x"'),
    (["bm25: high\nage: 3"], "/documents/0", '(bm25): expected a number or null, found "high"'),
    (["bm25: 1\nbm25: 2"], "/documents/0", "documents[0] holds the feature 'bm25' twice"),
    (["1:1 5:2"], "/documents/0", "documents[0] holds the index 5; the model takes 4 features"),
    (
        ["{a=[{name=bm25}], b=[{name=bm25}]}"],
        "/documents/0",
        'holds several logged entries, "a" first; expected one',
    ),
    (['{"bm25": 1, "bm25": 1}'], "/documents/0", "holds JSON in which a name stands twice"),
    (['{"bm25": 1e999}'], "/documents/0", "infinite or beyond float32"),
    (["null 1 2 3"], "/documents/0", "'bm25' of document 0 is missing"),
]


@pytest.mark.parametrize("path", [V1, V2])
@pytest.mark.parametrize(("documents", "at", "said"), REFUSED)
async def test_a_text_that_is_wrong_is_named(
    client: httpx.AsyncClient, documents: list[Any], at: str, said: str, path: str
) -> None:
    response = await client.post(path, json={"documents": documents})

    problem = response.json()
    assert (422, at) == (response.status_code, problem["pointer"]), response.text
    assert said in problem["detail"]


@pytest.mark.parametrize(
    ("members", "at"),
    [
        ({"features": [ROWS[0]], "return_documents": True}, "/return_documents"),
        ({"documents": ["[1, 2, 3, 4]"], "relevance": "softmax"}, "/relevance"),
        ({"documents": ["[1, 2, 3, 4]"], "relevance": "raw", "answer": "scores"}, "/relevance"),
        ({"documents": ["[1, 2, 3, 4]"], "return_documents": True, "answer": "scores"}, "/return_documents"),
        ({"documents": [{"text": "[1, 2, 3, 4]", "title": "x"}]}, "/documents/0/title"),
        ({"documents": [{"text": "[1, 2, 3, 4]", "id": 1.5}]}, "/documents/0/id"),
    ],
)
async def test_members_that_do_not_go_together_are_refused(
    client: httpx.AsyncClient, members: dict[str, Any], at: str
) -> None:
    response = await client.post(V1, json=members)

    assert (422, at) == (response.status_code, response.json()["pointer"]), response.text


async def test_unknown_names_are_refused_if_the_service_refuses_them(tiny_ranker: Ranker) -> None:
    async with connected(
        Settings(extra_features="refuse"), models=[LiveModel("tiny", 3, tiny_ranker)]
    ) as client:
        response = await client.post(V2, json={"documents": [llama_index(ROWS[0])]})

    assert (422, "/documents/0") == (response.status_code, response.json()["pointer"])


# Relevance.


@pytest.mark.parametrize("path", [V1, V2])
@pytest.mark.parametrize("relevance", ["raw", "rank", "sigmoid"])
async def test_relevance_is_what_was_asked_for(
    client: httpx.AsyncClient, tiny_ranker: Ranker, relevance: str, path: str
) -> None:
    ranking = tiny_ranker.rank(DOCUMENTS)
    scores = ranking.scores[ranking.order]
    expected = {"raw": scores, "rank": (20 - np.arange(20)) / 20, "sigmoid": 1 / (1 + np.exp(-scores))}[
        relevance
    ]

    body = {"documents": list(map(json.dumps, ROWS)), "relevance": relevance, "offset": 2, "top_n": 9}
    answer = (await client.post(path, json=body)).json()

    found = [one["relevance_score"] for one in answer["results"]]
    np.testing.assert_allclose(found, expected[2:11], rtol=1e-12)


@pytest.mark.parametrize("path", [V1, V2])
async def test_a_relevance_is_always_written_as_a_double(
    client: httpx.AsyncClient, tiny_ranker: Ranker, path: str
) -> None:
    """OpenSearch's post-processing takes a Double, and Java reads ``1`` as an Integer.

    Read in opensearch-project/ml-commons, CohereRerankPostProcessFunction.
    """
    rows = [[0, 0, 0, 0], [1, 1, 1, 1], [500, 500, 500, 500]]
    assert {0.0} < set(tiny_ranker.rank(np.array(rows, np.float32)).scores.tolist())
    for relevance in ("raw", "rank", "sigmoid"):
        body = {"documents": list(map(json.dumps, rows)), "relevance": relevance}
        text = (await client.post(path, json=body)).text
        found = json.loads(text, parse_int=lambda _: "an integer")
        assert [float] * 3 == [type(one["relevance_score"]) for one in found["results"]]


def test_a_sigmoid_that_is_stored_as_float32_has_ties() -> None:
    """The figures in docs/use/search-engines.md: ties from 17.33 on, and steps of 0.23 at 16."""

    def stored(score: float) -> np.float32:
        return np.float32(1 / (1 + np.exp(-score)))

    first = next(score for score in np.arange(10, 20, 0.01) if stored(score) == 1)
    following = next(score for score in np.arange(16, 17, 0.001) if stored(score) > stored(16))

    assert 17.33 == pytest.approx(first, abs=0.01)
    assert 0.23 == pytest.approx(following - 16, abs=0.01)


# Categories, and features of the query.


def shop_lines(row: list[Any]) -> str:
    return "\n".join(
        f"{name}: {value}" for name, value in zip(SHOP_NAMES, row, strict=True) if value is not None
    )


def shop_list(row: list[Any]) -> str:
    return json.dumps(row)


@pytest.fixture(scope="module")
def shop_ranker() -> Ranker:
    return made()


@pytest.fixture
async def shop(shop_ranker: Ranker) -> Any:
    async with connected(models=[LiveModel("shop", 1, shop_ranker)]) as one:
        yield one


@pytest.mark.parametrize("written", [shop_lines, shop_list])
@pytest.mark.parametrize("beside", [False, True])
async def test_texts_hold_values_of_categories_and_of_the_query(
    shop: httpx.AsyncClient, shop_ranker: Ranker, written: Callable[[list[Any]], str], *, beside: bool
) -> None:
    ranking = shop_ranker.rank(coded())
    body: dict[str, Any] = {"documents": list(map(written, VALUES))}
    if beside:
        body["query_features"] = QUERY

    answer = (await shop.post(V2, json=body)).json()

    assert ranking.order.tolist() == [one["index"] for one in answer["results"]]
    assert ranking.scores[ranking.order].tolist() == [one["score"] for one in answer["results"]]


async def test_a_value_of_the_query_must_be_the_same_in_all_texts(shop: httpx.AsyncClient) -> None:
    texts = [shop_lines(row) for row in VALUES]
    texts[3] = texts[3].replace("hour: 14.5", "hour: 15")

    differs = await shop.post(V2, json={"documents": texts})
    stated = await shop.post(V2, json={"documents": [shop_lines(VALUES[0])], "query_features": {"hour": 3}})

    assert (422, "/documents/3") == (differs.status_code, differs.json()["pointer"])
    assert (422, "/documents/0") == (stated.status_code, stated.json()["pointer"])


async def test_a_value_of_the_query_in_one_text_is_that_of_all(
    shop: httpx.AsyncClient, shop_ranker: Ranker
) -> None:
    ranking = shop_ranker.rank(coded())
    texts = [shop_lines([*row[:2], None, None, *row[4:]]) for row in VALUES]
    texts[2] = shop_lines(VALUES[2])

    answer = (await shop.post(V2, json={"documents": texts})).json()

    assert ranking.scores[ranking.order].tolist() == [one["score"] for one in answer["results"]]


# Requests of other programs.


def configured(word: str) -> Any:
    """The last configuration in docs/use/search-engines.md that holds this word."""
    page = (Path(__file__).parents[3] / "docs" / "use" / "search-engines.md").read_text()
    return [json.loads(text) for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL) if word in text][
        -1
    ]


def elasticsearch(texts: list[str]) -> str:
    """The request that Elasticsearch's ``custom`` inference service makes of the page's template.

    Read in elastic/elasticsearch-specification, specification/inference/put_custom: ``${input}`` is a list of texts,
    ``${query}`` a text in quotes.
    """
    template: str = configured("${input}")["service_settings"]["request"]
    filled = template.replace("${input}", json.dumps(texts)).replace("${query}", json.dumps("rambo"))
    return filled.replace('"web"', '"tiny"')


def opensearch(texts: list[str]) -> str:
    """The request that OpenSearch makes of the page's template.

    Read in opensearch-project/ml-commons, CohereRerankPreProcessFunction: ``documents`` is a list of texts, ``top_n`` all of
    them; ``${parameters.query}`` stands in the quotes of the template.
    """
    [action] = configured("post_process_function")["actions"]
    filled: str = action["request_body"]
    values = {"documents": json.dumps(texts), "query": "rambo", "model": "tiny", "top_n": str(len(texts))}
    for name, value in values.items():
        filled = filled.replace(f"${{parameters.{name}}}", value)
    return filled


def weaviate(texts: list[str]) -> str:
    """``RankInput`` of weaviate's modules/reranker-cohere/clients: sent to ``/v1/rerank``."""
    return json.dumps({"documents": texts, "query": "rambo", "model": "tiny", "return_documents": False})


def jina(texts: list[str]) -> str:
    """What LlamaIndex's JinaRerank sends: llama_index.postprocessor.jinaai_rerank."""
    return json.dumps({"query": "rambo", "documents": texts, "model": "tiny", "top_n": len(texts)})


PROGRAMS: dict[str, tuple[str, Callable[[list[str]], str]]] = {
    "Elasticsearch": (V2, elasticsearch),
    "OpenSearch": (V2, opensearch),
    "Weaviate": (V1, weaviate),
    "Jina": (V1, jina),
}


async def test_ml_inference_deals_scores_out_to_the_hits(
    shop: httpx.AsyncClient, shop_ranker: Ranker
) -> None:
    """A list of all hits' fields goes in (``one_to_one: false``), a list as long comes out.

    Read in opensearch-project/ml-commons, MLInferenceSearchResponseProcessor.
    """
    [processor, by_field] = configured('ml_inference": {"model_id')["response_processors"]
    template: str = configured("${parameters.user}")["request_body"]
    hits = [{"_source": {"ltr": {"features": [row[0], row[1], row[4]]}}} for row in VALUES]
    collected = [hit["_source"]["ltr"]["features"] for hit in hits]
    filled = template.replace("${parameters.features}", json.dumps(collected))
    filled = filled.replace("${parameters.user}", json.dumps(QUERY)).replace('"web"', '"shop"')

    response = await shop.post(V1, content=filled, headers={"content-type": "application/json"})

    assert {"features", "user"} == processor["ml_inference"]["input_map"][0].keys()
    [(target, source)] = processor["ml_inference"]["output_map"][0].items()
    assert by_field["rerank"]["by_field"]["target_field"] == target
    assert shop_ranker.rank(coded()).scores.tolist() == response.json()[source]


@pytest.mark.parametrize("program", PROGRAMS)
async def test_what_other_programs_send_is_ranked(
    client: httpx.AsyncClient, tiny_ranker: Ranker, program: str
) -> None:
    path, written = PROGRAMS[program]

    response = await client.post(
        path, content=written(list(map(java, ROWS))), headers={"content-type": "application/json"}
    )

    results = response.json()["results"]
    assert tiny_ranker.rank(DOCUMENTS).order.tolist() == [one["index"] for one in results]
    assert all({"index", "relevance_score", "score"} <= one.keys() for one in results)
