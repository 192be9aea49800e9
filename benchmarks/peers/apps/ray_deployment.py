"""A deployment of Ray Serve that reads the body itself."""

import os
import signal
from typing import Any

import numpy as np
import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import Response


@serve.deployment(num_replicas=1, max_ongoing_requests=64)
class Linear:
    """A weighted sum of the features."""

    def __init__(self, path: str) -> None:
        self.weights = np.load(path)

    async def __call__(self, request: Request) -> Any:
        body = await request.body()
        if request.headers["content-type"] == "application/json":
            import orjson

            return {"scores": (np.array(orjson.loads(body)["features"]) @ self.weights).tolist()}
        documents = np.frombuffer(body, np.float32).reshape(-1, len(self.weights))
        return Response((documents @ self.weights).tobytes(), media_type="application/octet-stream")


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
    serve.start(
        http_options={"host": "127.0.0.1", "port": int(os.environ["PEER_PORT"])},
        logging_config={"enable_access_log": False, "log_level": "ERROR"},
    )
    bound = Linear.bind(os.environ["PEER_WEIGHTS"])  # type: ignore[attr-defined]
    serve.run(bound, name="linear", route_prefix="/")
    signal.pause()
