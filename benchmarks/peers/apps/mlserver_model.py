"""A runtime of MLServer."""

import os

import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Linear(MLModel):  # type: ignore[misc]
    """A weighted sum of the features."""

    async def load(self) -> bool:
        self.weights = np.load(os.environ["PEER_WEIGHTS"])
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        documents = NumpyCodec.decode_input(payload.inputs[0])
        scores = documents @ self.weights
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("scores", scores)])
