"""An alias is moved while the service runs, and the answer is true for every worker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from localrank.errors import ArtifactCorrupt
from localrank.registry.versions import Registry
from localrank_service.apis.models.promoting import Switched, promote, rollback
from localrank_service.http.problems import Problem
from localrank_service.models.loading import Loader
from localrank_service.models.workers import Report

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.anyio


def serving(pid: int, version: int, alias: str = "champion", **broken: str) -> Report:
    return Report(pid, {"demo": {alias: version}}, broken)


@pytest.fixture
def service(models_dir: Path) -> Callable[..., Any]:
    """A service of the model demo whose workers report one after the other; the last again and again."""

    def made(*reports: list[Report], timeout: float = 5.0, remote: object = None) -> Any:
        left = list(reports)
        refreshed: list[str] = []

        async def refresh(_: str) -> None:
            refreshed.append("refreshed")

        return SimpleNamespace(
            loader=SimpleNamespace(
                registry=Registry(models_dir),
                refresh=refresh,
                remote=remote,
                refreshed=refreshed,
                told=lambda refused: Loader.told(SimpleNamespace(shown=str), refused=refused),  # type: ignore[arg-type]
            ),
            workers=SimpleNamespace(
                living=lambda: left.pop(0) if len(left) > 1 else left[0], unloaded=lambda: frozenset({"old"})
            ),
            settings=SimpleNamespace(switch_timeout_seconds=timeout, load_timeout_seconds=30.0),
        )

    return made


async def test_an_alias_has_moved_once_every_worker_serves_it(service: Callable[..., Any]) -> None:
    one = service(
        [serving(5, 1), serving(7, 1)], [serving(5, 2), serving(7, 1)], [serving(5, 2), serving(7, 2)]
    )

    there = await promote(one, "demo", 2, "champion")
    back = await rollback(service([serving(5, 1)]), "demo", "champion")
    new = await promote(service([serving(5, 1, "stable")]), "demo", 1, "stable")

    assert Switched("demo", "champion", 2, 1, (5, 7)) == there
    assert Switched("demo", "champion", 1, 2, (5,)) == back
    assert Switched("demo", "stable", 1, None, (5,)) == new
    assert ["refreshed"] == one.loader.refreshed


async def test_workers_that_do_not_follow_are_named_with_their_reason(
    service: Callable[..., Any],
) -> None:
    reports = [
        serving(5, 1, demo="version 2: cut short"),
        serving(6, 2),
        serving(7, 1, **{"demo@champion": "version 2: no memory"}),
        Report(8, {}, {}),
    ]
    one = service(reports, timeout=0.0)

    with pytest.raises(Problem) as late:
        await promote(one, "demo", 2, "champion")

    assert (503, {"Retry-After": "1"}) == (late.value.status, late.value.headers)
    assert (
        "demo@champion is version 2 now, but these workers do not serve it yet: 5 (version 2: cut short), "
        "7 (version 2: no memory), 8 (no reason known)"
    ) == late.value.detail
    assert 2 == one.loader.registry.aliases("demo")["champion"]


async def test_somebody_else_may_move_the_alias_meanwhile(service: Callable[..., Any]) -> None:
    one = service([serving(5, 7)])
    refresh = one.loader.refresh

    async def moved(name: str) -> None:
        await refresh(name)
        one.loader.registry.promote("demo", 1)

    one.loader.refresh = moved

    with pytest.raises(Problem) as other:
        await promote(one, "demo", 2, "champion")

    assert (409, "demo@champion was moved to version 1 meanwhile") == (other.value.status, other.value.detail)


async def test_an_alias_that_is_gone_meanwhile_was_moved_to_none(
    service: Callable[..., Any], models_dir: Path
) -> None:
    one = service([serving(5, 1)])

    async def removed(_: str) -> None:
        (models_dir / "demo" / "aliases.json").unlink()

    one.loader.refresh = removed

    with pytest.raises(Problem, match="demo@champion was moved to version 0 meanwhile"):
        await promote(one, "demo", 2, "champion")


async def test_aliases_that_cannot_be_read_meanwhile_are_taken_for_unmoved(
    service: Callable[..., Any], models_dir: Path
) -> None:
    one = service([serving(5, 1)], [serving(5, 2)])

    async def damaged() -> None:
        (models_dir / "demo" / "aliases.json").write_text("{")

    one.loader.refresh = damaged

    assert Switched("demo", "champion", 2, 1, (5,)) == await promote(one, "demo", 2, "champion")


async def test_if_loading_fails_now_the_workers_are_waited_for(
    service: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    one = service([serving(5, 1)], [serving(5, 2)])

    async def failing() -> None:
        raise RuntimeError("anything")

    one.loader.refresh = failing

    found = await promote(one, "demo", 2, "champion")

    assert (2, ["cannot load demo@champion now; trying again"]) == (found.version, caplog.messages)
    assert caplog.records[0].exc_info


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        (
            {"loader": None},
            503,
            "this process was started with models in memory; it has no registry to change",
        ),
        ({"remote": object()}, 409, "this service follows the aliases of a folder of models at a URL; "),
        ({"name": "old"}, 409, "model 'old' is unloaded; load it first"),
    ],
)
async def test_what_cannot_be_moved_here_is_said(
    change: dict[str, Any], status: int, said: str, service: Callable[..., Any]
) -> None:
    one = service([serving(5, 2)], remote=change.get("remote"))
    if "loader" in change:
        one.loader = None

    for move in (
        promote(one, change.get("name", "demo"), 2, "champion"),
        rollback(one, change.get("name", "demo"), "champion"),
    ):
        with pytest.raises(Problem) as refused:
            await move

        assert status == refused.value.status
        assert refused.value.detail.startswith(said)


async def test_a_version_that_does_not_verify_is_a_conflict_and_one_that_is_not_there_is_not(
    service: Callable[..., Any], models_dir: Path
) -> None:
    def corrupt(_folder: Path) -> None:
        raise ArtifactCorrupt("demo/2: cut short")

    one = service([serving(5, 1)])
    one.loader.registry = Registry(models_dir, verify=corrupt)

    with pytest.raises(Problem) as refused:
        await promote(one, "demo", 2, "champion")
    with pytest.raises(Problem) as missing:
        await promote(one, "demo", 9, "champion")

    assert (404, "demo: expected version 9, found 1, 2") == (missing.value.status, missing.value.detail)
    assert (409, "demo/2: cut short") == (refused.value.status, refused.value.detail)
    assert refused.value.kind != Problem(409, "").kind
    assert ([], 1) == (one.loader.refreshed, one.loader.registry.aliases("demo")["champion"])
