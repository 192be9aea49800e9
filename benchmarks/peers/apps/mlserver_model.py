"""A runtime of MLServer."""

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse
from scoring import load


class Scorer(MLModel):  # type: ignore[misc]
    """Scores documents."""

    async def load(self) -> bool:
        self.model = load()
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        documents = NumpyCodec.decode_input(payload.inputs[0])
        scores = self.model(documents)
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("scores", scores)])
