"""An API of LitServe."""

import os
from typing import Any

import litserve
import numpy as np
from scoring import load


class Scorer(litserve.LitAPI):  # type: ignore[misc]
    """Scores documents."""

    def setup(self, device: str) -> None:  # noqa: ARG002 - a name that LitServe looks for
        self.model = load()

    def decode_request(self, request: dict[str, Any]) -> Any:
        return np.asarray(request["features"])

    def predict(self, x: Any) -> Any:
        return self.model(x)

    def encode_response(self, output: Any) -> dict[str, Any]:
        return {"scores": output.tolist()}


if __name__ == "__main__":
    server = litserve.LitServer(Scorer(), accelerator="cpu", workers_per_device=1, timeout=30)
    server.run(
        host="127.0.0.1",
        port=int(os.environ["PEER_PORT"]),
        generate_client_file=False,
        log_level="warning",
        access_log=False,
    )
