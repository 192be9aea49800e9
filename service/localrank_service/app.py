"""The ASGI application.

``create_app`` makes one from settings; ``localrank_service.app:app`` is one from the environment, made when first
asked for, so that importing this module reads nothing.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from localrank import __version__
from localrank_service import problems
from localrank_service.edge import Edge
from localrank_service.keys import Keys
from localrank_service.live import LiveModels
from localrank_service.metrics import Metrics
from localrank_service.routes import health, rerank
from localrank_service.service import Service
from localrank_service.settings import Settings
from localrank_service.wire.query import Limits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localrank_service.live import LiveModel

__all__ = ["create_app"]


def create_app(settings: Settings | None = None, *, models: Iterable[LiveModel] | None = None) -> FastAPI:
    """Make an application that serves ``settings.models_dir``, or exactly the models given."""
    settings = settings or Settings.from_environ(os.environ)
    admin_key = settings.admin_key.get_secret_value() if settings.admin_key else secrets.token_urlsafe(24)
    service = Service(
        settings=settings,
        live=LiveModels(models or (), default=settings.model),
        keys=Keys(settings.api_key.get_secret_value() if settings.api_key else None, admin_key),
        metrics=Metrics(),
        limits=Limits(settings.max_documents, settings.extra_features == "refuse"),
    )
    app = FastAPI(
        title="LocalRank",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    app.add_middleware(Edge, keys=service.keys, metrics=service.metrics)
    problems.install(app)
    for module in (rerank, health):
        # Flat instead of included: an included router is matched anew below its own node for every request.
        app.router.routes.extend(module.router.routes)
    return app


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()["app"] = app = create_app()
    return app
