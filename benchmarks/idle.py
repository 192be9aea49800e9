"""A FastAPI application that reads a body and does nothing: what a server written in it cannot go below."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response


def make() -> FastAPI:
    app = FastAPI()

    @app.get("/ready")
    @app.post("/empty")
    async def empty(request: Request) -> Response:
        await request.body()
        return Response(b"{}", media_type="application/json")

    return app
