from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

import httpx
import numpy as np
import pytest

from localrank.artifact import Provenance
from localrank.features.contract import FeatureContract, Normalisation
from localrank.points.signature import PcaRepresentation
from localrank.ranker import Ranker
from localrank.registry.versions import Registry
from localrank.routing.router import ExactRouter
from localrank.scorers import LinearScorer
from localrank_service.app import create_app
from localrank_service.models.live import LiveModel
from localrank_service.process.settings import Settings
from localrank_training.report.query_map import query_map
from tests.described import check_async

if TYPE_CHECKING:
    from pathlib import Path

    from localrank.arrays import Matrix
    from localrank.features.feature import Missing

N_FEATURES = 4
NAMES = ("bm25", "pagerank", "ctr:7d", "age")


def queries_of_three_kinds(seed: int = 0, n_queries: int = 12) -> list[Matrix]:
    """Queries of three kinds: each spreads along its own feature."""
    rng = np.random.default_rng(seed)
    queries = []
    for query in range(n_queries):
        spread = np.ones(N_FEATURES)
        spread[query % 3] = 10
        queries.append((rng.standard_normal((20, N_FEATURES)) * spread).astype(np.float32))
    return queries


def three_kinds(
    *,
    missing: tuple[Missing, ...] | Missing = ("reject", "zero", "median", "nan"),
    normalise: Normalisation = "none",
    weights_sign: float = 1.0,
) -> Ranker:
    queries = queries_of_three_kinds()
    contract = FeatureContract.learn(
        np.concatenate(queries),
        [len(query) for query in queries],
        names=NAMES,
        missing=missing,
        normalise=normalise,
    )
    representation = PcaRepresentation(2)
    signatures = representation.sign_all([contract.cloud(query).normalised for query in queries])
    clusters = np.arange(len(queries)) % 3
    scorers = tuple(LinearScorer(weights_sign * np.roll([4.0, 3.0, 2.0, 1.0], kind)) for kind in range(3))
    return Ranker(
        contract,
        representation,
        ExactRouter(signatures, clusters),
        scorers,
        LinearScorer(np.array([1.0, 1.0, 1.0, 1.0])),
    )


Connect = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@asynccontextmanager
async def connected(
    settings: Settings | None = None, **arguments: object
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application that has started."""
    app = create_app(settings or Settings(), **arguments)  # type: ignore[arg-type]
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app),
            base_url="http://localhost",
            event_hooks={"response": [check_async]},
        ) as client,
    ):
        yield client


async def until_loaded(client: httpx.AsyncClient) -> None:
    for _ in range(10_000):
        if 200 == (await client.get("/startupz")).status_code:
            return
        await asyncio.sleep(0.002)
    raise TimeoutError


@pytest.fixture(scope="session")
def loaded() -> Callable[[httpx.AsyncClient], Awaitable[None]]:
    """Wait until every model was tried."""
    return until_loaded


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def tiny_ranker() -> Ranker:
    return three_kinds()


@pytest.fixture(scope="session")
def tiny_model(tiny_ranker: Ranker) -> LiveModel:
    router = tiny_ranker.router
    assert isinstance(router, ExactRouter)
    return LiveModel(
        "tiny", 3, tiny_ranker, query_map=query_map(router.points, router.clusters, router.similarity)
    )


@pytest.fixture
async def client(tiny_model: LiveModel) -> AsyncIterator[httpx.AsyncClient]:
    async with connected(models=[tiny_model]) as one:
        yield one


@pytest.fixture(scope="session")
def make_ranker() -> Callable[..., Ranker]:
    return three_kinds


@pytest.fixture(scope="session")
def queries() -> list[Matrix]:
    return queries_of_three_kinds(seed=7)


@pytest.fixture(scope="session")
def connect() -> Connect:
    return connected


def publish(models_dir: Path, name: str, *signs: float) -> Registry:
    """Publish a version for each sign of the weights; the first is the champion."""
    registry = Registry(models_dir)
    for sign in signs:
        registry.publish(
            name,
            three_kinds(weights_sign=sign),
            Provenance("2026-01-01T00:00:00Z", source={"seed": 0}, probe=queries_of_three_kinds()[:3]),
        )
    registry.promote(name, 1)
    return registry


@pytest.fixture(scope="session")
def publisher() -> Callable[..., Registry]:
    return publish


@pytest.fixture(scope="session")
def _published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    models_dir = tmp_path_factory.mktemp("published")
    publish(models_dir, "demo", 1.0, -1.0)
    publish(models_dir, "web", 2.0)
    return models_dir


@pytest.fixture
def models_dir(_published: Path, tmp_path: Path) -> Path:
    """Models ``demo``, of two versions that rank the opposite way, and ``web``, of one; all may be changed."""
    copy = tmp_path / "models"
    shutil.copytree(_published, copy)
    return copy
