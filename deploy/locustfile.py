"""Load for a running service: queries of the lengths and values that the model was trained on.

    locust --locustfile deploy/locustfile.py --host http://127.0.0.1:8080 \
        --headless --users 50 --spawn-rate 50 --run-time 30s

Every user asks once a second whether or not the last answer was slow (`constant_pacing`), so ``--users`` is the rate
per second up to saturation, and a slow server is not asked less. Beside the latency that the client sees, the stage
times that the server reports are listed as requests of type ``stage``.

Environment: LOCALRANK_LOAD_MODEL (default: the only one), LOCALRANK_LOAD_DOCUMENTS (default: the training lengths),
LOCALRANK_LOAD_KEY (a serving key).
"""

from __future__ import annotations

import os
import random
from typing import Any

from locust import HttpUser, constant_pacing, events, task

MODEL = os.environ.get("LOCALRANK_LOAD_MODEL")
DOCUMENTS = os.environ.get("LOCALRANK_LOAD_DOCUMENTS")
KEY = os.environ.get("LOCALRANK_LOAD_KEY")


class Reranker(HttpUser):
    """Sends one query after another."""

    wait_time = constant_pacing(1)

    def on_start(self) -> None:
        """Learn from the service what its model takes."""
        if KEY:
            self.client.headers["Authorization"] = f"Bearer {KEY}"
        name = MODEL or self.client.get("/v1/models").json()["models"][0]["name"]
        model = self.client.get(f"/v1/models/{name}", name="/v1/models/{name}").json()
        self.model = name
        self.lengths = [int(length) for length in model["list_lengths"].values()]
        self.ranges = [(feature["lowest"], feature["highest"]) for feature in model["features"]]

    def query(self) -> dict[str, Any]:
        """Return a request of a random query."""
        length = int(DOCUMENTS) if DOCUMENTS else random.choice(self.lengths)
        documents = [[round(random.uniform(*ends), 4) for ends in self.ranges] for _ in range(length)]
        return {"model": self.model, "features": documents, "ids": list(range(length))}

    @task
    def rerank(self) -> None:
        """Rerank one query and check that every document came back."""
        query = self.query()
        with self.client.post("/v1/rerank", json=query, catch_response=True) as response:
            if response.status_code != 200:
                response.failure(f"{response.status_code}: {response.text[:200]}")
                return
            answer = response.json()
            if len(answer["results"]) != len(query["ids"]):
                response.failure(f"expected {len(query['ids'])} results, found {len(answer['results'])}")
                return
        for stage, milliseconds in answer["timings_ms"].items():
            events.request.fire(
                request_type="stage",
                name=stage,
                response_time=milliseconds,
                response_length=0,
                exception=None,
                context={},
            )
