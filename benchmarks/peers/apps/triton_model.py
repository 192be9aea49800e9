"""Triton, as PyTriton starts it."""

import os
from typing import Any

import numpy as np
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig
from scoring import load

model = load()


@batch  # type: ignore[untyped-decorator]
def score(features: Any) -> dict[str, Any]:
    return {"scores": model(features).astype(np.float32, copy=False)[:, None]}


if __name__ == "__main__":
    port = int(os.environ["PEER_PORT"])
    config = TritonConfig(
        http_address="127.0.0.1",
        http_port=port,
        grpc_port=port + 1,
        metrics_port=port + 2,
        allow_metrics=False,
        log_verbose=0,
    )
    with Triton(config=config) as triton:
        triton.bind(
            model_name="scorer",
            infer_func=score,
            inputs=[Tensor(name="features", dtype=np.float32, shape=(int(os.environ["PEER_FEATURES"]),))],
            outputs=[Tensor(name="scores", dtype=np.float32, shape=(1,))],
            config=ModelConfig(max_batch_size=8192, batcher=DynamicBatcher(max_queue_delay_microseconds=0)),
            strict=False,
        )
        triton.serve()
