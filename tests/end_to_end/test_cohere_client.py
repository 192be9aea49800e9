"""Cohere's own client, pointed at a real server."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest

import localrank
from tests.end_to_end.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

# Without their types: what is called wrongly on purpose is what is tested.
cohere: Any = import_module("cohere")
errors: Any = import_module("cohere.core.api_error")

ROOT = Path(__file__).parents[2]
RANKER = localrank.load(ROOT / "models" / "demo")
DOCUMENTS = np.random.default_rng(3).random((20, RANKER.contract.n_features)).astype(np.float32)
KEY = "a-serving-key"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("cohere") / "server.log"
    with serving(ROOT / "models", "--api-key", KEY, "--max-documents", "50", log=log) as client:
        yield str(client.base_url).rstrip("/")


def rerank(url: str, key: str = KEY, version: str = "ClientV2", **arguments: Any) -> Any:
    # Its own connections it leaves open.
    with httpx.Client() as connections:
        client = getattr(cohere, version)(api_key=key, base_url=url, httpx_client=connections)
        return client.rerank(**arguments)


def test_documents_are_reranked(url: str) -> None:
    expected = RANKER.rank(DOCUMENTS)

    answer = rerank(
        url,
        model="demo",
        query="cheap flights",
        documents=[{"id": f"d{i}", "features": row} for i, row in enumerate(DOCUMENTS.tolist())],
        top_n=5,
    )

    assert expected.order[:5].tolist() == [result.index for result in answer.results]
    relevance = [result.relevance_score for result in answer.results]
    np.testing.assert_allclose(relevance, 1 / (1 + np.exp(-expected.scores[expected.order[:5]])), rtol=1e-12)
    assert expected.scores[expected.order[:5]].tolist() == [result.score for result in answer.results]
    assert "2" == answer.meta.api_version.version
    assert answer.id
    assert all(getattr(result, "document", None) is None for result in answer.results)


def test_features_may_be_named(url: str) -> None:
    named = [dict(zip(RANKER.contract.names, row, strict=True)) for row in DOCUMENTS.tolist()]

    answer = rerank(url, model="demo@champion", query="x", documents=[{"features": one} for one in named])

    assert RANKER.rank(DOCUMENTS).order.tolist() == [result.index for result in answer.results]


NAMED = [dict(zip(RANKER.contract.names, row, strict=True)) for row in DOCUMENTS.tolist()]
#: As LlamaIndex's CohereRerank makes them of nodes (run-llama/llama_index, postprocessor/cohere_rerank and MetadataMode.EMBED
#: of llama_index.core.schema), and Haystack's CohereRanker of documents (deepset-ai/haystack-core-integrations).
TEXTS = {
    "JSON": [json.dumps(one) for one in NAMED],
    "LlamaIndex": [
        "\n".join(f"{name}: {value}" for name, value in {"file_name": "a.pdf", **one}.items())
        + "\n\nCheap flights"
        for one in NAMED
    ],
    "Haystack": [f"{json.dumps(one)}\nCheap flights" for one in NAMED],
}


@pytest.mark.parametrize("program", TEXTS)
@pytest.mark.parametrize("version", ["Client", "ClientV2"])
def test_documents_may_be_texts(url: str, program: str, version: str) -> None:
    expected = RANKER.rank(DOCUMENTS)

    answer = rerank(
        url, version=version, model="demo", query="cheap flights", documents=TEXTS[program], top_n=5
    )

    assert expected.order[:5].tolist() == [result.index for result in answer.results]
    relevance = [result.relevance_score for result in answer.results]
    np.testing.assert_allclose(relevance, 1 / (1 + np.exp(-expected.scores[expected.order[:5]])), rtol=1e-12)


def test_the_first_version_of_the_client_gets_its_documents_back(url: str) -> None:
    documents = TEXTS["JSON"]

    answer = rerank(
        url, version="Client", model="demo", query="x", documents=documents, return_documents=True
    )

    assert [documents[result.index] for result in answer.results] == [
        result.document.text for result in answer.results
    ]


@pytest.mark.parametrize(
    ("model", "documents", "status", "said"),
    [
        ("rerank-v4.0", [{"features": [1.0]}], 404, "no model 'rerank-v4.0'"),
        ("demo", ["a text"], 422, "documents[0] is a text that holds no features of the model"),
        ("demo", [{"features": [1.0]}], 422, "has 1 values; expected 10"),
        ("demo", [{"features": [0.0] * 10}] * 51, 413, "51 documents; this server takes 50"),
    ],
)
def test_errors_are_raised_with_the_service_s_words(
    url: str, model: str, documents: Any, status: int, said: str
) -> None:
    with pytest.raises(errors.ApiError) as caught:
        rerank(url, model=model, query="x", documents=documents)

    assert status == caught.value.status_code
    assert said in caught.value.body["message"]


def test_another_key_is_refused(url: str) -> None:
    with pytest.raises(cohere.ForbiddenError):
        rerank(url, "another-key", model="demo", query="x", documents=[{"features": [0.0] * 10}])
