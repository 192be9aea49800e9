"""Run in an environment that has ``kserve``: ask a server everything, and print what came back as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import httpx
import numpy as np
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig


async def infer(client: Any, url: str, model: str, documents: Any, *, binary: bool) -> Any:
    tensor = InferInput("features", list(documents.shape), "FP32")
    tensor.set_data_from_numpy(documents, binary_data=binary)
    try:
        answer = await client.infer(url, InferRequest(model, [tensor], request_id="the-id"), model_name=model)
    except httpx.HTTPStatusError as error:
        return {"status": error.response.status_code, "error": error.response.json()["error"]}
    outputs = {output.name: output.as_numpy().tolist() for output in answer.outputs}
    return {"model": answer.model_name, "id": answer.id, **outputs}


async def main(url: str, documents: Any) -> dict[str, Any]:
    client = InferenceRESTClient(RESTConfig(protocol="v2", timeout=20))
    return {
        "live": await client.is_server_live(url),
        "ready": await client.is_server_ready(url),
        "model": await client.is_model_ready(url, "demo"),
        "unknown model": await client.is_model_ready(url, "nope"),
        "json": await infer(client, url, "demo", documents, binary=False),
        "binary": await infer(client, url, "demo", documents, binary=True),
        "too few features": await infer(client, url, "demo", documents[:, :3], binary=False),
        "too few features, binary": await infer(client, url, "demo", documents[:, :3], binary=True),
        "no such model": await infer(client, url, "nope", documents, binary=True),
    }


if __name__ == "__main__":
    sent = np.array(json.load(sys.stdin), np.float32)
    print(json.dumps(asyncio.run(main(sys.argv[1], sent))))  # noqa: T201 - this is its answer
