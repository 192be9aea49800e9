"""What `explain` adds to an answer, without a service."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pytest

from localrank.routing.router import GlobalRouter
from localrank_service.http.problems import Problem
from localrank_service.models.live import LiveModel
from localrank_service.ranking import explaining as explanation
from localrank_service.ranking import reranking
from localrank_service.ranking.explaining import NEIGHBOURS, explain
from localrank_service.wire.query import Options

if TYPE_CHECKING:
    import httpx

    from localrank.arrays import Matrix
    from localrank.ranker import Ranking


def explained(model: LiveModel, query: Matrix, **options: Any) -> tuple[dict[str, Any], Ranking]:
    ranking = model.ranker.rank(query)
    found = explain(model, model.ranker.contract.cloud(query), ranking, Options(**options))
    return json.loads(orjson.dumps(found, option=orjson.OPT_SERIALIZE_NUMPY)), ranking


@pytest.mark.parametrize("top_n", [None, 1, 5, 100])
def test_contributions_add_up_to_the_scores_in_the_order_of_the_results(
    top_n: int | None, tiny_model: LiveModel, queries: list[Matrix]
) -> None:
    found, ranking = explained(tiny_model, queries[0], explain="contributions", top_n=top_n)

    shown = ranking.order[:top_n]
    assert {"base", "features", "contributions"} == found.keys()
    assert list(tiny_model.ranker.contract.names) == found["features"]
    assert (len(shown), 4) == np.shape(found["contributions"])
    sums = found["base"] + np.sum(found["contributions"], axis=1)
    np.testing.assert_allclose(sums, ranking.scores[shown], atol=1e-9)
    assert ranking.scores.mean() == pytest.approx(found["base"])


def test_a_comparison_is_the_difference_of_two_rows(tiny_model: LiveModel, queries: list[Matrix]) -> None:
    all_of_it, ranking = explained(tiny_model, queries[0], explain="contributions")
    above, below = int(ranking.order[3]), int(ranking.order[7])

    found, _ = explained(tiny_model, queries[0], explain="contributions", top_n=2, compare=(above, below))

    comparison = found["comparison"]
    rows = np.array(all_of_it["contributions"])
    differences = dict(zip(all_of_it["features"], rows[3] - rows[7], strict=True))
    amounts = [one["difference"] for one in comparison["features"]]
    assert (above, below, 2) == (comparison["above"], comparison["below"], len(found["contributions"]))
    assert ranking.scores[above] - ranking.scores[below] == pytest.approx(comparison["difference"])
    assert differences == pytest.approx({one["feature"]: one["difference"] for one in comparison["features"]})
    assert sorted(amounts, key=abs, reverse=True) == amounts


@pytest.mark.parametrize(("compare", "place"), [((20, 0), 0), ((0, 20), 1), ((25, 30), 0)])
def test_a_comparison_is_of_documents_that_there_are(
    compare: tuple[int, int], place: int, tiny_model: LiveModel, queries: list[Matrix]
) -> None:
    with pytest.raises(Problem) as refused:
        explained(tiny_model, queries[0], explain="contributions", compare=compare)

    said = f"compare: expected positions below 20, the number of documents, found {compare[place]}"
    assert (422, said, f"/compare/{place}") == (
        refused.value.status,
        refused.value.detail,
        refused.value.pointer,
    )
    last, _ = explained(tiny_model, queries[0], explain="contributions", compare=(19, 0))
    assert 19 == last["comparison"]["above"]


def test_a_route_names_clusters_by_similarity_and_the_nearest_queries(
    tiny_model: LiveModel, queries: list[Matrix]
) -> None:
    found, ranking = explained(tiny_model, queries[0], explain="route")

    ranker = tiny_model.ranker
    point = ranker.representation.of(ranker.contract.cloud(queries[0]))
    nearest = ranker.router.nearest(point, 3)
    assert nearest is not None
    similarities = [one["similarity"] for one in found["clusters"]]
    assert sorted(nearest.tolist(), reverse=True) == pytest.approx(similarities)
    assert nearest.tolist() == pytest.approx(
        [one["similarity"] for one in sorted(found["clusters"], key=lambda one: int(one["cluster"]))]
    )
    assert NEIGHBOURS == 5 == len(found["neighbours"])
    assert {"query", "cluster", "similarity", "place"} == found["neighbours"][0].keys()
    assert [2, 2] == [len(found["place"]), len(found["neighbours"][0]["place"])]
    assert {"cluster": ranking.route.cluster, "kind": "linear"} == found["scorer"]
    assert found["signature"] == point.summary()


def test_the_global_scorer_has_no_cluster(tiny_model: LiveModel, queries: list[Matrix]) -> None:
    whole = replace(tiny_model.ranker, router=GlobalRouter(), scorers=())

    found, _ = explained(LiveModel("whole", 1, whole), queries[0], explain="route")

    assert {"cluster": None, "kind": "linear"} == found["scorer"]
    assert ([], False) == (found["neighbours"], "place" in found)
    assert found["clusters"] in (None, [])


@pytest.mark.parametrize(("rows", "pieces"), [(0, 0), (1, 1), (2, 1), (5, 3)])
def test_contributions_are_written_in_pieces(
    rows: int, pieces: int, tiny_model: LiveModel, queries: list[Matrix], monkeypatch: pytest.MonkeyPatch
) -> None:
    ways: list[int] = []
    monkeypatch.setattr(explanation, "_PIECE", 8)
    monkeypatch.setattr(explanation, "give_way", lambda: ways.append(1))

    found, _ = explained(tiny_model, queries[0], explain="contributions", top_n=rows)

    assert (rows, 4) == np.shape(found["contributions"]) or not rows
    assert (rows, pieces) == (len(found["contributions"]), len(ways))


@pytest.mark.anyio
async def test_no_answer_holds_more_contributions_than_fit(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, queries: list[Matrix]
) -> None:
    """The limit of the documentation, made small."""
    assert 2**18 == explanation.MOST_CELLS
    monkeypatch.setattr(reranking, "MOST_CELLS", 40)
    asked = {"features": queries[0].tolist(), "explain": "contributions"}

    refused = await client.post("/v1/rerank", json=asked)
    fewer = await client.post("/v1/rerank", json=asked | {"top_n": 10})
    batch = await client.post("/v1/rerank/batch", json={"queries": [asked | {"top_n": 6}] * 2})

    assert (413, "/explain") == (refused.status_code, refused.json()["pointer"])
    assert refused.json()["detail"] == (
        "explain: 20 documents with 4 contributions each are 80 numbers; this server answers 40 per request; ask for "
        "fewer documents with top_n"
    )
    assert 200 == fewer.status_code
    assert [200, 413] == [one["status"] for one in batch.json()["answers"]]
    assert ", and 16 are left; " in batch.json()["answers"][1]["problem"]["detail"]


@pytest.mark.anyio
async def test_a_batch_explains_a_few_routes(client: httpx.AsyncClient) -> None:
    asked = {"features": [[1, 2, 3, 4], [4, 3, 2, 1]], "explain": "route"}

    batch = await client.post("/v1/rerank/batch", json={"queries": [asked] * 33})

    assert [200] * 32 + [413] == [one["status"] for one in batch.json()["answers"]]
