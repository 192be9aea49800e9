"""What a model learns from stored responses is what it sees when the service gets them: the same bits from every engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import localrank
from localrank.__main__ import main
from localrank_training.data.reading import read
from localrank_training.data.tables import Columns
from tests.end_to_end.serving import serving

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.arrays import Array

pytestmark = pytest.mark.slow

QUERIES, HITS = 24, 9


def elasticsearch(row: dict[str, Any], at: int) -> dict[str, Any]:
    """Named queries that may not match, fields and a document that may lack values, the score."""
    present = {name: value for name, value in row.items() if value is not None}
    return {
        "_id": str(at),
        "_score": row["engine"],
        "matched_queries": {name: present[name] for name in present if name == "bm25"},
        "fields": {"brand": [row["brand"]]},
        "_source": {"stats": {"age": row["stats.age"]}},
    }


def opensearch(row: dict[str, Any], at: int) -> dict[str, Any]:
    log = [
        {"name": name} | ({} if value is None else {"value": value})
        for name, value in row.items()
        if name != "engine"
    ]
    return {"_id": str(at), "_score": row["engine"], "fields": {"_ltrlog": [{"main": log}]}}


def solr(row: dict[str, Any], at: int) -> dict[str, Any]:
    return {
        "id": at,
        "score": row["engine"],
        "features": {name: one for name, one in row.items() if name != "engine"},
    }


def vespa(row: dict[str, Any], at: int) -> dict[str, Any]:
    some = {name: one for name, one in row.items() if name != "engine"}
    return {"id": f"id:s:p::{at}", "relevance": row["engine"], "fields": {"matchfeatures": some}}


ENGINES = {
    "elasticsearch": (elasticsearch, "hits", "hits", "_id", "_score"),
    "opensearch": (opensearch, "hits", "hits", "_id", "_score"),
    "solr": (solr, "response", "docs", "id", "score"),
    "vespa": (vespa, "root", "children", "id", "relevance"),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_offline_and_online_read_the_same_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(3)
    made, page, listed, identifier, score = ENGINES[engine]
    responses, judgements = [], ["query,docid,rating"]
    for query in range(QUERIES):
        rows: list[dict[str, Any]] = [
            {
                "bm25": None if at % 4 == 3 else random.normal() * 0.1,
                "engine": random.normal(),
                "stats.age": None if at == 5 else int(random.integers(0, 2**40)),
                "brand": str(random.choice(["nike", "kobo", "sony"])),
            }
            for at in range(HITS)
        ]
        hits = [made(row, at) for at, row in enumerate(rows)]
        responses.append({page: {listed: hits}})
        judgements += [f"q {query},{hit[identifier]},{int(random.integers(0, 3))}" for hit in hits]
    lines = [{"query": f"q {query}", "response": one} for query, one in enumerate(responses)]
    (tmp_path / "responses.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "judged.csv").write_text("\n".join(judgements))
    asked = ["--score-feature", "engine"]
    asked += ["--fields", "brand,stats.age"] if engine == "elasticsearch" else []

    files = ("--judgements", "judged.csv", "--responses", "responses.jsonl", "--out", "judged.parquet")
    assert 0 == main(["data", "join", *files, *asked]), capsys.readouterr().err
    trained = (
        "--name",
        "web",
        "--learner",
        "lambdamart",
        "--set",
        "learner.num_iterations=5",
        "--set",
        'contract.missing="nan"',
    )
    assert 0 == main(["train", "judged.parquet", *trained, "--promote"]), capsys.readouterr().err

    ranker = localrank.load("models/web")
    queries = read(["judged.parquet"], columns=Columns().of(ranker.contract.features))
    offline = {
        name: ranker.rank(queries.documents[queries.span(at)]).scores.tolist()
        for at, name in enumerate(queries.query_ids)
    }
    with serving(tmp_path / "models", log=tmp_path / "server.log") as client:
        for query, response in enumerate(responses):
            answer = client.post(f"/v1/adapters/{engine}", params={"score_feature": "engine"}, json=response)
            assert 200 == answer.status_code, answer.text
            found = {hit[identifier]: hit[score] for hit in answer.json()[page][listed]}
            order = [hit[identifier] for hit in response[page][listed]]
            assert offline[f"q%20{query}"] == [found[one] for one in order]
    documents: Array = queries.documents
    assert np.isnan(documents).any()
    assert len({score for scores in offline.values() for score in scores}) > HITS
