"""How settings become the parts of an application."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.routing import APIRoute

import localrank_service.app
from localrank import __version__
from localrank_service.app import create_app
from localrank_service.process.settings import Settings
from localrank_service.ranking.reranking import rank_plainly
from localrank_service.wire.query import Limits

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_service.models.live import LiveModel
    from localrank_service.ranking.service import Service


def made(models: list[LiveModel] | None = None, **settings: Any) -> Service:
    service: Service = create_app(Settings(**settings), models=models).state.service
    return service


@pytest.mark.parametrize(
    ("settings", "limits"),
    [
        ({}, Limits(5000, refuse_extra_features=False, max_numbers=2**22)),
        (
            {"max_documents": 7, "extra_features": "refuse", "max_body_bytes": 2**18 + 4},
            Limits(7, refuse_extra_features=True, max_numbers=2**16 + 1),
        ),
        ({"max_body_bytes": 1000}, Limits(5000, refuse_extra_features=False, max_numbers=2**16)),
    ],
)
def test_limits_follow_from_the_settings(settings: dict[str, Any], limits: Limits) -> None:
    assert limits == made([], **settings).limits


def test_rankings_are_lowered_under_overload_only_if_that_is_set() -> None:
    assert made([]).rank is rank_plainly
    assert made([], overload_degrade=0.5).rank is not rank_plainly


def test_what_is_not_asked_for_is_not_there(tmp_path: Path) -> None:
    plain = made([])
    full = made(
        [],
        experiments_file=tmp_path / "experiments.json",
        cors_origins="https://shop.example",
        impression_log=0.5,
        impression_log_dir=tmp_path / "log",
    )

    assert (None, None, None) == (plain.experiments, plain.cors, plain.impressions)
    assert None not in {full.experiments, full.cors, full.impressions}
    assert not plain.draining


def test_models_that_are_given_are_served_at_once_and_nothing_else(tiny_model: LiveModel) -> None:
    given, searched = made([tiny_model]), made()

    assert (None, {"tiny", "tiny@3", "tiny@champion"}) == (given.loader, set(given.live.addresses))
    assert (True, {}) == (given.live.loaded, given.live.broken)
    assert searched.loader is not None
    assert not searched.live.loaded
    assert 'model="tiny"' in given.meters.expose().decode()


def test_a_model_that_is_the_default_answers_requests_without_one(tiny_model: LiveModel) -> None:
    assert "b" == made([tiny_model], model="b").live.default
    assert made([tiny_model], model="b").live.find(None) is None
    assert tiny_model is made([tiny_model], model="tiny").live.find(None)


def test_an_admin_key_is_generated_if_there_is_a_folder_for_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written = made([], runtime_dir=tmp_path)
    made([], runtime_dir=tmp_path / "given", admin_key="the-admin-key")
    assert [0o600] == [path.stat().st_mode & 0o777 for path in tmp_path.glob("*key*")]
    assert written.keys is not None
    [said] = caplog.messages
    assert "a new one was written to" in said


def test_the_application_says_what_it_is() -> None:
    app = create_app(Settings(), models=[])

    assert ("LocalRank", __version__, None, None) == (app.title, app.version, app.docs_url, app.redoc_url)
    assert not app.router.redirect_slashes
    routes = [route.path for route in app.router.routes if isinstance(route, APIRoute)]
    assert routes.index("/v2/models/{name}/infer") < routes.index("/v2/models/{name}")
    assert routes.index("/v2/models/stats") < routes.index("/v2/models/{name}")


def test_settings_come_from_the_environment_unless_they_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALRANK_MAX_DOCUMENTS", "77")

    assert 77 == create_app(models=[]).state.service.settings.max_documents
    assert 5000 == create_app(Settings(), models=[]).state.service.settings.max_documents


def test_the_module_has_an_application_and_nothing_else_that_it_does_not_define(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(vars(localrank_service.app), "app", raising=False)

    app = localrank_service.app.app

    assert app is localrank_service.app.app
    assert "LocalRank" == app.title
    with pytest.raises(AttributeError, match=r"module 'localrank_service\.app' has no attribute 'nope'"):
        getattr(localrank_service.app, "nope")  # noqa: B009 - an expression would be one without effect
    monkeypatch.delitem(vars(localrank_service.app), "app")


@pytest.mark.anyio
async def test_what_an_application_began_ends_with_it(tmp_path: Path, tiny_model: LiveModel) -> None:
    """Threads and tasks would go on, and what they hold would be lost."""
    app = create_app(
        Settings(
            experiments_file=tmp_path / "experiments.json",
            impression_log=1.0,
            impression_log_dir=tmp_path / "log",
            poll_seconds=0.01,
        ),
        models=[tiny_model],
    )
    service: Service = app.state.service
    closed: list[str] = []

    def noting(name: str, close: Any) -> Any:
        def called(_self: object) -> Any:
            closed.append(name)
            return close()

        return called

    assert service.experiments is not None
    assert service.impressions is not None
    parts: dict[str, tuple[Any, str]] = {
        "connections": (service.connections, "stop"),
        "shadow": (service.experiments.shadow, "close"),
        "workers": (service.workers, "leave"),
        "impressions": (service.impressions, "close"),
        "observer": (service.observer, "close"),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, (part, method) in parts.items():
            patch.setattr(type(part), method, noting(name, getattr(part, method)))

        before = len(asyncio.all_tasks())
        async with app.router.lifespan_context(app) as given:
            during = len(asyncio.all_tasks())
        after = len(asyncio.all_tasks())

    assert list(parts) == closed
    assert (before + 2, before) == (during, after)
    assert given is not None
    assert {"connections", "admission", "keys", "cors"} == given.keys()
    assert given["connections"] is service.connections
    assert given["admission"] is service.admission
