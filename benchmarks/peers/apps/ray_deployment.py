"""A deployment of Ray Serve that reads the body itself."""

import os
import signal
from typing import Any

import numpy as np
import ray
from ray import serve
from scoring import load
from starlette.requests import Request
from starlette.responses import Response


@serve.deployment(num_replicas=1, max_ongoing_requests=64)
class Scorer:
    """Scores documents."""

    def __init__(self, width: int) -> None:
        self.model, self.width = load(), width

    async def __call__(self, request: Request) -> Any:
        body = await request.body()
        if request.headers["content-type"] == "application/json":
            import orjson

            return {"scores": self.model(np.array(orjson.loads(body)["features"])).tolist()}
        documents = np.frombuffer(body, np.float32).reshape(-1, self.width)
        return Response(self.model(documents).tobytes(), media_type="application/octet-stream")


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
    serve.start(
        http_options={"host": "127.0.0.1", "port": int(os.environ["PEER_PORT"])},
        logging_config={"enable_access_log": False, "log_level": "ERROR"},
    )
    bound = Scorer.bind(int(os.environ["PEER_FEATURES"]))  # type: ignore[attr-defined]
    serve.run(bound, name="scorer", route_prefix="/")
    signal.pause()
