"""What the parts of a service say together: whether it is ready, and which model is meant."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from localrank_service.http.problems import Problem
from localrank_service.models.live import LiveModels, addresses_of
from localrank_service.models.workers import Report, Workers
from localrank_service.ranking.service import Service

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from localrank_service.models.live import LiveModel

pytestmark = pytest.mark.anyio


def service(
    models: Mapping[str, LiveModel] | None,
    *,
    broken: Mapping[str, str] | None = None,
    unloaded: tuple[str, ...] = (),
    ready: str = "all",
    loader: Any = None,
    default: str | None = None,
) -> Service:
    live = LiveModels(default)
    if models is not None:
        live.replace(models, broken or {}, frozenset(unloaded))
    parts: dict[str, Any] = dict.fromkeys(
        ("hosts", "cors", "meters", "observer", "limits", "admission", "rank")
    )
    workers = Workers(None)
    workers.report({}, {}, loaded=models is not None)
    return Service(
        settings=SimpleNamespace(ready=ready, workers=1),  # type: ignore[arg-type]
        live=live,
        keys=SimpleNamespace(is_admin=lambda scope: "key" in scope),  # type: ignore[arg-type]
        workers=workers,
        loader=loader,
        connections=SimpleNamespace(draining=False),  # type: ignore[arg-type]
        **parts,
    )


def reason(one: Service) -> str | None:
    problem = one.unready()
    if problem is None:
        return None
    assert (503, {"Retry-After": "1"}) == (problem.status, problem.headers)
    return problem.detail


def test_a_service_is_ready_when_its_models_answer(tiny_model: LiveModel) -> None:
    models = addresses_of([tiny_model])

    assert None is reason(service(models))
    assert "looking for models" == reason(service(None))
    assert "no model has a champion" == reason(service({}))


@pytest.mark.parametrize(
    ("broken", "ready", "said"),
    [
        ({"other": "why"}, "all", "model 'other' is broken: why"),
        ({"other": "why"}, "any", None),
        ({"a": "1", "b": "2"}, "all", "model 'a' is broken: 1; model 'b' is broken: 2"),
        # An earlier version answers, or only a version besides the champion is broken.
        ({"tiny": "why"}, "all", None),
        ({"other@challenger": "why"}, "all", None),
    ],
)
def test_broken_models_keep_requests_away_if_all_are_needed(
    tiny_model: LiveModel, broken: dict[str, str], ready: str, said: str | None
) -> None:
    assert said == reason(service(addresses_of([tiny_model]), broken=broken, ready=ready))


def test_without_any_champion_all_reasons_are_told() -> None:
    away = SimpleNamespace(remote=SimpleNamespace(error=lambda: "404"))
    reached = SimpleNamespace(remote=SimpleNamespace(error=lambda: None))

    assert "model 'x' is broken: why; model 'a' is unloaded; model 'b' is unloaded" == reason(
        service({}, broken={"x": "why", "y@2": "no"}, unloaded=("b", "a"), ready="any")
    )
    assert "no model has a champion; its URL cannot be read: 404" == reason(service({}, loader=away))
    for loader in (reached, SimpleNamespace(remote=None)):
        assert "no model has a champion" == reason(service({}, loader=loader))


def test_a_service_that_drains_is_not_ready(tiny_model: LiveModel) -> None:
    one = service(addresses_of([tiny_model]))
    unloaded = service(None)

    one.drain()
    unloaded.drain()

    assert "the server is shutting down" == reason(one) == reason(unloaded)
    assert one.connections.draining


def test_it_starts_with_all_workers_and_stays_ready_with_one(tiny_model: LiveModel, tmp_path: Path) -> None:
    one = service(addresses_of([tiny_model]), loader=SimpleNamespace(remote=None))
    one.settings = SimpleNamespace(ready="all", workers=2)  # type: ignore[assignment]
    one.workers = Workers(tmp_path)
    found: list[str | None] = []

    def tell(*reports: Report) -> None:
        one.workers.living = lambda: [Report(os.getpid(), {}, {}, loaded=True), *reports]  # type: ignore[method-assign]
        found.append(reason(one))

    serving = Report(71, {"tiny": {"champion": 3}}, {}, loaded=True)
    tell()
    tell(Report(71, {}, {}))
    tell(serving)
    tell()
    tell(Report(71, {}, {}))
    one.live.replace({}, {"tiny": "cut short"})
    tell(serving)
    told = one.unready_workers()
    tell(Report(71, {}, {"tiny": "cut short"}, loaded=True))

    waits = "1 of 2 workers are still loading their models"
    assert [waits, waits, None, None, None, None, "model 'tiny' is broken: cut short"] == found
    assert {str(os.getpid()): "model 'tiny' is broken: cut short"} == told


class Loader:
    """Fetches one address."""

    def __init__(self, found: Any) -> None:
        self.asked: list[tuple[str, bool]] = []
        self._found = found

    async def fetch(self, address: str, *, admin: bool) -> Any:
        self.asked.append((address, admin))
        if isinstance(self._found, Problem):
            raise self._found
        return self._found


async def test_a_model_that_is_there_is_not_fetched(tiny_model: LiveModel) -> None:
    loader = Loader(None)
    one = service(addresses_of([tiny_model]), loader=loader)

    assert [tiny_model] * 3 == [await one.resolve(name, {}) for name in ("tiny", "tiny@3", None)]
    assert [] == loader.asked


async def test_a_model_that_is_not_there_is_fetched(tiny_model: LiveModel) -> None:
    loader = Loader(tiny_model)

    assert tiny_model is await service({}, loader=loader).resolve("a@2", {})
    assert tiny_model is await service({}, loader=loader).resolve("a@2", {"key": "admin"})
    assert [("a@2", False), ("a@2", True)] == loader.asked


async def test_an_address_that_leads_nowhere_is_pointed_at(tiny_model: LiveModel) -> None:
    models, nothing = addresses_of([tiny_model]), Loader(None)
    refused = Loader(Problem(503, "broken", pointer="elsewhere"))
    cases: list[tuple[Service, str | None, int, str]] = [
        (service(models), "x", 404, "no model 'x'; expected one of: tiny"),
        (service(models, loader=nothing), "tiny@9", 404, "expected one of: tiny@3, tiny@champion"),
        (service(models, loader=refused), "tiny@9", 503, "broken"),
        (service({}, loader=nothing), None, 422, "the request names no model; expected one of: none"),
        (service(None), "tiny", 503, "looking for models"),
    ]

    for one, address, status, said in cases:
        for at in ("/baseline", None):
            with pytest.raises(Problem) as caught:
                await one.resolve(address, {}, at=at)
            assert status == caught.value.status
            assert said in caught.value.detail
            assert (at if status != 503 or "broken" in said else None) == caught.value.pointer
    assert [("tiny@9", False)] * 2 == nothing.asked
