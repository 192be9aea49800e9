"""A custom model of KServe."""

import logging
import os
from typing import Any

import kserve
from kserve import InferOutput, InferRequest, InferResponse
from kserve.utils.numpy_codec import from_np_dtype
from scoring import load


class Scorer(kserve.Model):  # type: ignore[misc]
    """Scores documents."""

    def __init__(self) -> None:
        super().__init__("scorer")
        self.model = load()
        self.ready = True

    def predict(self, payload: InferRequest, _headers: Any = None, _parameters: Any = None) -> InferResponse:
        scores = self.model(payload.inputs[0].as_numpy())
        output = InferOutput(name="scores", shape=list(scores.shape), datatype=from_np_dtype(scores.dtype))
        output.set_data_from_numpy(scores, binary_data=False)
        return InferResponse(response_id=payload.id or "none", model_name=self.name, infer_outputs=[output])


if __name__ == "__main__":
    logging.disable(logging.INFO)
    port = int(os.environ["PEER_PORT"])
    kserve.ModelServer(http_port=port, workers=1, enable_grpc=False, access_log_format=None).start([Scorer()])
