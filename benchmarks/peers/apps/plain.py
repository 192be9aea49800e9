"""What somebody writes in an afternoon: FastAPI with pydantic models, a handler of raw bytes, one that does nothing."""

from __future__ import annotations

import os

import numpy as np
import uvicorn
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel
from scoring import load

score = load()
width = int(os.environ["PEER_FEATURES"])
app = FastAPI()


class Query(BaseModel):
    """Documents as lists of numbers."""

    features: list[list[float]]


class Result(BaseModel):
    """One document."""

    index: int
    score: float


class Answer(BaseModel):
    """Documents, best first."""

    results: list[Result]


@app.post("/pydantic")
async def pydantic(query: Query) -> Answer:
    scores = score(np.array(query.features))
    return Answer(results=[Result(index=int(i), score=float(scores[i])) for i in np.argsort(-scores)])


@app.post("/binary")
async def binary(request: Request) -> Response:
    documents = np.frombuffer(await request.body(), np.float32).reshape(-1, width)
    return Response(score(documents).tobytes(), media_type="application/octet-stream")


@app.post("/empty")
async def empty(request: Request) -> Response:
    await request.body()
    return Response(b"{}", media_type="application/json")


@app.get("/ready")
async def ready() -> Response:
    return Response(b"{}")


if __name__ == "__main__":
    uvicorn.run(
        app, host="127.0.0.1", port=int(os.environ["PEER_PORT"]), access_log=False, log_level="warning"
    )
