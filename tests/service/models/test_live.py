"""What an address finds, and what is said of one that finds nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from localrank_service.models.live import LiveModel, LiveModels, addresses_of

if TYPE_CHECKING:
    from localrank.ranker import Ranker


@pytest.fixture
def web(tiny_ranker: Ranker) -> list[LiveModel]:
    """Two versions of one model."""
    return [LiveModel("web", version, tiny_ranker) for version in (3, 2)]


def test_the_first_of_each_name_is_its_champion(web: list[LiveModel], tiny_ranker: Ranker) -> None:
    demo = LiveModel("demo", 1, tiny_ranker)

    found = addresses_of([*web, demo])

    assert {
        "web": web[0], "web@champion": web[0], "web@3": web[0], "web@2": web[1],
        "demo": demo, "demo@champion": demo, "demo@1": demo,
    } == found  # fmt: skip


def test_a_request_without_a_model_gets_the_only_one_or_the_default(web: list[LiveModel]) -> None:
    addresses = addresses_of(web)
    alone, chosen = LiveModels(), LiveModels("web@2")
    alone.replace(addresses, {})
    chosen.replace(addresses, {"demo": "damaged"})
    found = alone.find(None), chosen.find(None)
    alone.replace(addresses, {"demo@stable": "damaged"})
    broken = alone.find(None)
    alone.replace(addresses, {}, frozenset({"demo"}))

    assert (web[0], web[1]) == found
    assert broken is None
    assert alone.find(None) is None
    assert {"web": web[0]} == alone.champions
    assert addresses == alone.addresses


def test_before_the_models_are_loaded_everything_waits_for_them() -> None:
    live = LiveModels()
    looking = live.missing("web", "/model")
    live.loading = {"web": 3, "demo@stable": 1}

    loading = live.missing(None, "/model")

    assert (503, "looking for models", {"Retry-After": "1"}) == (
        looking.status,
        looking.detail,
        looking.headers,
    )
    assert "models are being loaded: web (version 3), demo@stable (version 1)" == loading.detail
    assert {"loading": {"web": 3, "demo@stable": 1}} == loading.members


def test_what_is_not_there_is_said(web: list[LiveModel]) -> None:
    live = LiveModels()
    empty = LiveModels()
    empty.replace({}, {})
    live.replace(addresses_of(web), {"demo": "damaged", "demo@stable": "gone"}, frozenset({"old"}))

    def said(address: str | None) -> tuple[int, str, str | None]:
        problem = live.missing(address, "/model")
        return problem.status, problem.detail, problem.pointer

    assert (422, "the request names no model; expected one of: web", "/model") == said(None)
    assert (503, "model 'demo' is broken: damaged", "/model") == said("demo")
    assert (503, "model 'demo@champion' is broken: damaged", "/model") == said("demo@champion")
    assert (503, "model 'demo@stable' is broken: gone", "/model") == said("demo@stable")
    assert (404, "model 'old' is unloaded", "/model") == said("old@2")
    known = "web@2, web@3, web@champion"
    assert (404, f"no model 'web@9'; expected one of: {known}", "/model") == said("web@9")
    assert (404, f"no model '{'x' * 100}'; expected one of: web", "/model") == said("x" * 200)
    assert empty.missing("web", None).detail.endswith("expected one of: none")
    named = LiveModels("shop")
    named.replace(addresses_of(web), {})
    assert (404, "no model 'shop'; expected one of: web") == (
        named.missing(None, None).status,
        named.missing(None, None).detail,
    )
