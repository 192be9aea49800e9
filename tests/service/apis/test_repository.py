"""Models are taken out of service and back, and every worker follows."""

from __future__ import annotations

import errno
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from localrank.registry.versions import Registry
from localrank_service.apis.v2.unloading import index, load, unload
from localrank_service.http.problems import Problem
from localrank_service.models.live import LiveModel, LiveModels, addresses_of
from localrank_service.models.workers import Report

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from localrank.ranker import Ranker

pytestmark = pytest.mark.anyio


class Workers:
    """What the workers say: one report after the other, the last again and again."""

    def __init__(self, *reports: list[Report]) -> None:
        self.reports = list(reports)
        self.marked: list[tuple[str, bool]] = []
        self.full = False

    def living(self) -> list[Report]:
        return self.reports.pop(0) if len(self.reports) > 1 else self.reports[0]

    def mark(self, name: str, *, unloaded: bool) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.marked.append((name, unloaded))


def serving(pid: int, **models: int) -> Report:
    return Report(pid, {name: {"champion": version} for name, version in models.items()}, {})


@pytest.fixture
def service(models_dir: Path, make_ranker: Callable[..., Ranker]) -> Callable[..., Any]:
    """A service of versions 1 of demo and of web; version 2 of demo is published."""

    def made(*reports: list[Report], timeout: float = 5.0) -> Any:
        refreshed: list[dict[str, bool]] = []

        async def refresh(_: str, **asked: bool) -> None:
            refreshed.append(asked)

        live = LiveModels()
        live.replace(addresses_of(LiveModel(name, 1, make_ranker()) for name in ("demo", "web")), {})
        return SimpleNamespace(
            live=live,
            loader=SimpleNamespace(
                registry=Registry(models_dir), refresh=refresh, refreshed=refreshed, told=nullcontext
            ),
            workers=Workers(*reports),
            settings=SimpleNamespace(switch_timeout_seconds=timeout),
        )

    return made


async def test_a_model_is_loaded_once_every_worker_serves_its_champion(service: Callable[..., Any]) -> None:
    old = serving(7, demo=2)
    one = service([serving(5), old], [serving(5, demo=1), old], [serving(5, demo=1), serving(7, demo=1)])

    found = await load(one, "demo")

    assert (5, 7) == found
    assert ([("demo", False)], [{"retry": True}]) == (one.workers.marked, one.loader.refreshed)


async def test_a_model_is_unloaded_once_no_worker_serves_it(service: Callable[..., Any]) -> None:
    one = service([serving(5, demo=1, web=1), serving(7)], [serving(5, web=1), serving(7)])

    found = await unload(one, "demo")

    assert (5, 7) == found
    assert ([("demo", True)], [{}]) == (one.workers.marked, one.loader.refreshed)


async def test_workers_that_do_not_follow_are_named(service: Callable[..., Any]) -> None:
    one = service([serving(5, web=1), serving(6, demo=1), serving(7, web=1)], timeout=0.0)

    with pytest.raises(Problem) as loading:
        await load(one, "demo")
    with pytest.raises(Problem) as unloading:
        await unload(one, "web")

    rest = ", but these workers have not done so yet: 5, 7"
    for problem, doing in (
        (loading.value, "'demo' is being loaded"),
        (unloading.value, "'web' is being unloaded"),
    ):
        assert (503, f"model {doing}{rest}", {"Retry-After": "1"}) == (
            problem.status,
            problem.detail,
            problem.headers,
        )


async def test_a_model_that_is_broken_is_not_waited_for(service: Callable[..., Any]) -> None:
    one = service([Report(5, {}, {"demo": "version 1: cut short"})])

    with pytest.raises(Problem) as broken:
        await load(one, "demo")

    assert (503, "model 'demo' is broken: version 1: cut short") == (broken.value.status, broken.value.detail)


async def test_a_model_without_a_champion_is_not_loaded(
    service: Callable[..., Any], models_dir: Path
) -> None:
    (models_dir / "demo" / "aliases.json").unlink()
    one = service([serving(5)])

    with pytest.raises(Problem) as missing:
        await load(one, "demo")

    assert (404, "model 'demo' has no champion; promote a version") == (
        missing.value.status,
        missing.value.detail,
    )
    assert [] == one.workers.marked


async def test_what_workers_cannot_be_told_is_not_done(service: Callable[..., Any]) -> None:
    one = service([serving(5)])
    one.workers.full = True

    for change in (load, unload):
        with pytest.raises(Problem) as full:
            await change(one, "demo")

        said = "nothing was changed: cannot tell the workers: No space left on device"
        assert (503, said) == (full.value.status, full.value.detail)
    assert [] == one.loader.refreshed


async def test_models_in_memory_have_no_registry(service: Callable[..., Any]) -> None:
    one = service([serving(5)])
    one.loader = None

    for change in (load, unload):
        with pytest.raises(Problem, match="this process was started with models in memory") as none:
            await change(one, "demo")

        assert 503 == none.value.status
    assert ["demo", "web"] == [entry["name"] for entry in await index(one, only_ready=False)]


async def test_a_model_that_is_served_but_gone_can_be_unloaded(service: Callable[..., Any]) -> None:
    one = service([serving(5)])
    one.loader.registry = Registry(one.loader.registry.models_dir / "nowhere")

    assert (5,) == await unload(one, "demo")
    with pytest.raises(Exception, match="expected a model 'other', found none"):
        await unload(one, "other")
    assert [("demo", True)] == one.workers.marked


async def test_the_index_says_how_every_version_is(
    service: Callable[..., Any], make_ranker: Callable[..., Ranker]
) -> None:
    one = service([serving(5)])
    live = addresses_of([LiveModel("web", 1, make_ranker())])

    async def entries(*, only_ready: bool = False) -> list[tuple[str, str, str, str]]:
        return [tuple(entry.values()) for entry in await index(one, only_ready=only_ready)]

    served = await entries()
    one.live.replace(live, {"demo": "version 2: cut short", "demo@stable": "version 1: gone"})
    broken = await entries()
    ready = await entries(only_ready=True)
    one.live.replace(live, {"web": "version 2: other"}, frozenset({"demo"}))
    unloaded = await entries()
    one.live.replace(live, {})
    one.live.loading = {"demo@stable": 2, "web": 1, "other": 1}
    loading = await entries()

    none, web = "it is not loaded: no alias stands for it", ("web", "1", "READY", "")
    assert [("demo", "1", "READY", ""), ("demo", "2", "UNAVAILABLE", none), web] == served
    assert [
        ("demo", "1", "UNAVAILABLE", "version 1: gone"),
        ("demo", "2", "UNAVAILABLE", "version 2: cut short"),
        web,
    ] == broken
    assert [web] == ready
    assert [
        ("demo", "1", "UNAVAILABLE", "unloaded"),
        ("demo", "2", "UNAVAILABLE", "unloaded"),
        web,
    ] == unloaded
    assert [
        ("demo", "1", "UNAVAILABLE", none),
        ("demo", "2", "LOADING", "it is being loaded"),
        web,
    ] == loading
