"""An API of LitServe."""

import os
from typing import Any

import litserve
import numpy as np


class Linear(litserve.LitAPI):  # type: ignore[misc]
    """A weighted sum of the features."""

    def setup(self, device: str) -> None:  # noqa: ARG002 - a name that LitServe looks for
        self.weights = np.load(os.environ["PEER_WEIGHTS"])

    def decode_request(self, request: dict[str, Any]) -> Any:
        return np.asarray(request["features"])

    def predict(self, x: Any) -> Any:
        return x @ self.weights

    def encode_response(self, output: Any) -> dict[str, Any]:
        return {"scores": output.tolist()}


if __name__ == "__main__":
    server = litserve.LitServer(Linear(), accelerator="cpu", workers_per_device=1, timeout=30)
    server.run(
        host="127.0.0.1",
        port=int(os.environ["PEER_PORT"]),
        generate_client_file=False,
        log_level="warning",
        access_log=False,
    )
