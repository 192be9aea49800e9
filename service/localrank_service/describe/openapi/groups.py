"""The groups of operations, one module each, in the order of their schemas in the document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localrank_service.describe.openapi import (
    adapters,
    batches,
    cohere,
    comparison,
    evaluation,
    experiments,
    feedback,
    health,
    inference,
    model,
    model_list,
    problems,
    protocol,
    query_map,
    repository,
    request_schema,
    reranking,
    statistics,
    versions,
)

if TYPE_CHECKING:
    from localrank_service.describe.openapi.operation import Operation

GROUPS = (
    reranking,
    comparison,
    experiments,
    batches,
    adapters,
    cohere,
    inference,
    protocol,
    repository,
    model_list,
    statistics,
    model,
    feedback,
    evaluation,
    query_map,
    versions,
    health,
    request_schema,
)

SCHEMAS: dict[str, Any] = dict(problems.SCHEMAS)
#: By method and path.
OPERATIONS: dict[tuple[str, str], Operation] = {}
for group in GROUPS:
    SCHEMAS |= group.SCHEMAS
    OPERATIONS |= group.OPERATIONS
