"""The APIs, one room each: what it reads, what it answers, and its routes with what OpenAPI says of them.

A new API is a module or folder here and its routers in the list below.
"""

from __future__ import annotations

from localrank_service.apis import adapters, batch, cohere, compare, experiments, feedback, health, pages
from localrank_service.apis.evaluate import route as evaluate
from localrank_service.apis.models import route as models
from localrank_service.apis.rerank import route as rerank
from localrank_service.apis.v2 import repository
from localrank_service.apis.v2 import route as v2

ROUTERS = (
    rerank.router,
    batch.router,
    cohere.router,
    adapters.router,
    compare.router,
    v2.inference,
    feedback.router,
    evaluate.router,
    models.router,
    v2.router,
    repository.router,
    health.router,
    experiments.router,
    pages.router,
)
