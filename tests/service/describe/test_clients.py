"""What generators of clients need of the OpenAPI document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localrank_service.app import create_app
from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator


def described() -> dict[str, Any]:
    return create_app(Settings()).openapi()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for operation in methods.values():
            yield path, operation


def arrays(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        kind = value.get("type")
        if kind == "array" or (isinstance(kind, list) and "array" in kind):
            yield value
        for inner in value.values():
            yield from arrays(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from arrays(inner)


def test_operations_have_names_that_people_would_choose() -> None:
    names = {operation["operationId"]: path for path, operation in operations(described())}

    assert len(names) == len(list(operations(described())))
    assert all(
        name.isidentifier() and "__" not in name and not name.endswith(("_get", "_post")) for name in names
    )
    expected = {
        "rerank": "/v1/rerank",
        "rerank_batch": "/v1/rerank/batch",
        "rerank_as_cohere": "/v2/rerank",
        "rerank_opensearch": "/v1/adapters/opensearch",
        "list_models": "/v1/models",
        "infer_of_version": "/v2/models/{name}/versions/{version}/infer",
        "load_model": "/v2/repository/models/{name}/load",
    }
    assert expected.items() <= names.items()


def test_operations_have_tags_and_there_is_a_server() -> None:
    document = described()

    assert [{"url": "/", "description": "Where this document comes from"}] == document["servers"]
    assert all(len(operation["tags"]) == 1 for _, operation in operations(document))


def test_parts_of_paths_are_texts_and_arrays_have_items() -> None:
    document = described()
    parts = [
        parameter["schema"]
        for _, operation in operations(document)
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "path"
    ]

    assert len(parts) > 10
    assert all(part == {"type": "string"} for part in parts)
    assert all("items" in array for array in arrays(document))
