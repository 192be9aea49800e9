"""Load for a running service: queries of the lengths and values that the model was trained on.

    locust --locustfile deploy/locustfile.py --host http://127.0.0.1:8080 \
        --headless --users 50 --spawn-rate 50 --run-time 30s

Every user asks once a second whether or not the last answer was slow (`constant_pacing`), so ``--users`` is the rate
per second up to saturation, and a slow server is not asked less. Requests are made beforehand and users start spread
over a second, so that what is measured is not the client. Beside the latency that the client sees, the stage
times that the server reports are listed as rows of type ``stage``, which *Aggregated* leaves out.

Environment: LOCALRANK_LOAD_MODEL (default: the only one), LOCALRANK_LOAD_DOCUMENTS (default: the training lengths),
LOCALRANK_LOAD_KEY (a serving key).
"""

from __future__ import annotations

import json
import os
import random
from functools import cache
from typing import Any, NamedTuple

import gevent
from locust import FastHttpUser, constant_pacing, task

MODEL = os.environ.get("LOCALRANK_LOAD_MODEL")
DOCUMENTS = os.environ.get("LOCALRANK_LOAD_DOCUMENTS")
KEY = os.environ.get("LOCALRANK_LOAD_KEY")
#: Different queries, which all users share.
QUERIES = 50


class Query(NamedTuple):
    """One request."""

    body: bytes
    documents: int


@cache
def queries(name: str, lengths: tuple[int, ...], ranges: tuple[tuple[float, float], ...]) -> list[Query]:
    """Make requests of random queries."""
    made = []
    for _ in range(QUERIES):
        length = int(DOCUMENTS) if DOCUMENTS else random.choice(lengths)
        documents = [[round(random.uniform(*ends), 4) for ends in ranges] for _ in range(length)]
        body = {"model": name, "features": documents, "ids": list(range(length))}
        made.append(Query(json.dumps(body).encode(), length))
    return made


class Reranker(FastHttpUser):
    """Sends one query after another."""

    wait_time = constant_pacing(1)

    def on_start(self) -> None:
        """Learn from the service what its model takes."""
        self.headers = {"Content-Type": "application/json"}
        if KEY:
            self.headers["Authorization"] = f"Bearer {KEY}"
        name = MODEL or self.told("/v1/models", "/v1/models")["models"][0]["name"]
        model = self.told(f"/v1/models/{name}", "/v1/models/{name}")
        ranges = tuple((feature["lowest"], feature["highest"]) for feature in model["features"])
        self.queries = queries(name, tuple(map(int, model["list_lengths"].values())), ranges)
        gevent.sleep(random.random())

    def told(self, path: str, name: str) -> Any:
        """Return what the service answers to a question."""
        return self.client.get(path, name=name, headers=self.headers).json()

    @task
    def rerank(self) -> None:
        """Rerank one query and check that every document came back."""
        query = random.choice(self.queries)
        with self.client.post(
            "/v1/rerank", data=query.body, headers=self.headers, catch_response=True
        ) as response:
            if response.status_code != 200:
                response.failure(f"{response.status_code}: {(response.text or '')[:200]}")
                return
            answer = response.json()
            if len(answer["results"]) != query.documents:
                response.failure(f"expected {query.documents} results, found {len(answer['results'])}")
                return
        # Rows of their own that no total counts: they are no requests.
        for stage, milliseconds in answer["timings_ms"].items():
            self.environment.stats.get(stage, "stage").log(milliseconds, 0)
