"""Which versions of a model there are, and what differs between two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from localrank.registry.versions import Registry
from localrank_service.apis.models import versions
from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import httpx

pytestmark = pytest.mark.anyio


@pytest.fixture
async def served(connect: Any, loaded: Any, models_dir: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application that has loaded ``models_dir``: demo in two versions and web."""
    async with connect(Settings(models_dir=models_dir, poll_seconds=0.01, preload="demo@2")) as client:
        await loaded(client)
        yield client


async def test_every_published_version_is_listed_the_newest_first(
    served: httpx.AsyncClient, models_dir: Path
) -> None:
    Registry(models_dir).promote("demo", 2, "challenger", since="2026-02-01T00:00:00Z")

    answer = (await served.get("/v1/models/demo/versions")).json()

    newest, oldest = answer["versions"]
    assert (2, 1) == (newest["version"], oldest["version"])
    assert oldest["live"]
    assert {"champion": 1, "challenger": 2} == answer["aliases"]
    assert [{"version": 2, "since": "2026-02-01T00:00:00Z"}] == answer["history"]["challenger"]
    assert (3, 4, "exact", ["linear"]) == tuple(
        newest[name] for name in ("n_clusters", "n_features", "routing", "scorers")
    )
    folder = models_dir / "demo" / "2"
    assert newest["bytes"] == sum(path.stat().st_size for path in folder.glob("*.npy"))


async def test_old_versions_that_no_alias_needs_are_left_out(
    served: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "MOST", 1)

    demo, web = [(await served.get(f"/v1/models/{name}/versions")).json() for name in ("demo", "web")]

    # Version 1 is the champion.
    assert ([2, 1], 0) == ([one["version"] for one in demo["versions"]], demo["omitted"])
    assert ([1], 0) == ([one["version"] for one in web["versions"]], web["omitted"])


async def test_a_version_that_cannot_be_read_is_named(served: httpx.AsyncClient, models_dir: Path) -> None:
    (models_dir / "demo" / "2" / "manifest.json").write_text("{}")

    answer = (await served.get("/v1/models/demo/versions")).json()

    assert answer["versions"][0]["broken"].startswith("demo/2: manifest.json:")
    assert str(models_dir) not in str(answer)


async def test_a_model_that_was_given_to_the_process_has_the_version_that_is_live(
    client: httpx.AsyncClient,
) -> None:
    answer = (await client.get("/v1/models/tiny/versions")).json()

    assert [{"version": 3, "live": True}] == answer["versions"]


@pytest.mark.parametrize("path", ["versions", "diff?before=1&after=2", "map"])
async def test_what_there_is_not_is_404(path: str, served: httpx.AsyncClient) -> None:
    response = await served.get(f"/v1/models/nope/{path}")

    assert 404 == response.status_code


async def test_two_versions_that_rank_the_opposite_way_differ_in_that(served: httpx.AsyncClient) -> None:
    answer = (await served.get("/v1/models/demo/diff", params={"before": "champion", "after": "2"})).json()

    assert ("demo", 1, 2) == (answer["name"], answer["before"], answer["after"])
    assert ([], []) == (answer["settings"], answer["contract"])
    assert {-1.0} == {one["tau"] for one in answer["probe"]}
    assert len(answer["probe"]) == 6


async def test_a_version_does_not_differ_from_itself(served: httpx.AsyncClient) -> None:
    answer = (await served.get("/v1/models/demo/diff", params={"before": "1", "after": "1"})).json()

    assert {1.0} == {one["tau"] for one in answer["probe"]}


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ({"before": "1"}, 422, "after: expected a version or an alias, found ''"),
        ({"before": "1/../2", "after": "1"}, 422, "before: expected a version or an alias"),
        ({"before": "1", "after": "7"}, 404, "demo@7"),
        ({"before": "first", "after": "1"}, 404, "demo@first"),
    ],
)
async def test_a_comparison_with_nothing_is_refused(
    asked: dict[str, str], status: int, said: str, served: httpx.AsyncClient
) -> None:
    response = await served.get("/v1/models/demo/diff", params=asked)

    assert status == response.status_code
    assert said in response.json()["detail"]


async def test_models_without_a_manifest_do_not_compare(client: httpx.AsyncClient) -> None:
    response = await client.get("/v1/models/tiny/diff", params={"before": "3", "after": "3"})

    assert (409, True) == (response.status_code, "only published versions" in response.json()["detail"])
