"""Live: what both workers count, read again without reload."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.end_to_end.serving import serving
from tests.service.page.conftest import PHONE, publish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.service.page.conftest import Visit

ROW = [18.0, 0.5, 0.5, 69, 0.5, 6.0, 0.5, 0.5, 91, 0.5]


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service of two workers that no other test asks."""
    folder: Path = tmp_path_factory.mktemp("counting") / "models"
    publish(folder)
    with serving(folder, "--workers", "2", "--model", "demo", "--preload", "demo@2") as client:
        yield client


def opened(visit: Visit) -> Page:
    page = visit.open("live")
    page.locator(".tile").first.wait_for()
    return page


def tile(page: Page, name: str) -> str:
    text: str = (
        page.locator(".tile").filter(has=page.locator("dt", has_text=name)).locator("dd").first.inner_text()
    )
    return text


def until(page: Page, name: str, value: str) -> None:
    """Wait until a tile shows a value."""
    found = page.locator(".tile").filter(has=page.locator("dt", has_text=name)).locator("dd").first
    found.filter(has_text=value).wait_for()


def rerank(client: httpx.Client, **members: Any) -> int:
    """Ask over a connection of its own, so that either worker may answer."""
    with httpx.Client(base_url=client.base_url, trust_env=False) as other:
        return other.post("/v1/rerank", json={"features": [ROW, [2 * x for x in ROW]], **members}).status_code


def total(client: httpx.Client, outcome: str) -> int:
    count: int = client.get("/v1/stats").json()["windows"]["15m"]["requests"][outcome]
    return count


def rows(page: Page, region: str) -> list[list[str]]:
    return [
        line.split("\t")
        for line in page.get_by_role("region", name=region).first.locator("tbody tr").all_inner_texts()
    ]


def test_requests_to_both_workers_are_counted_without_reload(
    visits: Callable[..., Visit], counting: httpx.Client
) -> None:
    page = opened(visits(counting))
    page.get_by_label("last 15 minutes").check()
    page.evaluate("window.mark = 1")
    before = total(counting, "invalid")

    for _ in range(8):
        rerank(counting, features=[[1.0]])

    until(page, "Invalid", str(before + 8))
    assert "2" == tile(page, "Workers")
    assert 1 == page.evaluate("window.mark")


def test_the_quantiles_of_the_stages_are_those_of_the_service(
    visits: Callable[..., Visit], counting: httpx.Client
) -> None:
    for _ in range(10):
        rerank(counting)
    page = opened(visits(counting))
    page.get_by_label("last 15 minutes").check()
    page.get_by_role("button", name="Pause").click()
    page.get_by_text("Paused").wait_for()

    shown = {stage: figures for stage, *figures in rows(page, "Milliseconds by quantile")}

    assert ["decode", "sign", "route", "score", "order"] == list(shown)[:5]
    told = page.evaluate("fetch('v1/stats').then((answer) => answer.json())")
    expected = told["windows"]["15m"]["milliseconds"]
    assert expected.keys() == shown.keys()
    for stage, figures in shown.items():
        assert [expected[stage][name] for name in ("p50", "p90", "p95", "p99")] == pytest.approx(
            [float(figure) for figure in figures[:4]], rel=0.01
        )


def test_the_charts_tell_their_latest_figures_in_words(
    visits: Callable[..., Visit], counting: httpx.Client
) -> None:
    rerank(counting)
    page = opened(visits(counting))

    labels = page.locator("svg.plot").evaluate_all("all => all.map((one) => one.getAttribute('aria-label'))")

    assert [True, True] == [
        label.startswith(begin)
        for label, begin in zip(
            labels, ("Requests per second. Latest of ranked: ", "Time of a request, ms."), strict=True
        )
    ]


def test_routes_fallbacks_and_drift_are_shown_by_version(
    visits: Callable[..., Visit], counting: httpx.Client
) -> None:
    rerank(counting, features=[ROW])
    rerank(counting, model="demo@2")
    page = opened(visits(counting))
    page.get_by_role("heading", name="Version 2").wait_for()

    counted = counting.get("/v1/stats").json()["models"]["demo"]["versions"]["1"]

    shown = {name.strip(): figures for name, *figures in rows(page, "Share of the requests since the start")}
    expected = {
        "global scorer" if one["cluster"] is None else f"cluster {one['cluster']}": one["requests"]
        for one in counted["clusters"]
    }
    assert {name: str(expected[name]) for name in shown} == {
        name: figures[0] for name, figures in shown.items()
    }
    assert ["no signature: one document, or all alike", str(counted["fallbacks"]["no_signature"])] in rows(
        page, "Requests that were not routed as usual"
    )
    page.get_by_text(f"it takes {counted['drift_missing']} more requests to tell").first.wait_for()


def test_what_is_out_of_the_ordinary_is_listed(visits: Callable[..., Visit], counting: httpx.Client) -> None:
    address = (counting.base_url.host, counting.base_url.port or 80)
    with socket.create_connection(address) as nonsense:
        nonsense.sendall(b"nonsense\r\n\r\n")
        nonsense.recv(1000)
    rerank(counting, timeout_ms=0.001)
    rerank(counting, features=[ROW, [1e6] * 10])
    page = opened(visits(counting))

    listed = rows(page, "Out of the ordinary")

    assert ["Refused", "what was not HTTP"] in [row[:2] for row in listed]
    assert {"Refused", "Degraded", "Values out of range"} == {row[0] for row in listed}
    assert int(tile(page, "Degraded")) >= 1
    assert int(tile(page, "Refused")) >= 1


def test_one_model_is_shown_alone(visits: Callable[..., Visit], counting: httpx.Client) -> None:
    page = opened(visits(counting))
    rerank(counting, model="old")
    page.locator("#model").select_option("old")

    page.get_by_label("only old").check()

    page.locator(".tile").first.filter(has_text="1 request").wait_for()
    page.get_by_role("heading", name="Routes of old").wait_for()


def test_an_outage_is_said_and_passes(visits: Callable[..., Visit], counting: httpx.Client) -> None:
    visit = visits(counting)
    visit.expected.append("ERR_FAILED")
    page = opened(visit)

    page.route("**/v1/stats*", lambda route: route.abort())
    alert = page.locator("#view-live [role=alert]")
    alert.filter(has_text="The service does not answer.").filter(has_text="tries again").wait_for()
    assert page.locator(".tile").first.is_visible()
    page.unroute("**/v1/stats*")

    alert.wait_for(state="hidden")


def test_it_asks_only_while_it_is_looked_at(visits: Callable[..., Visit], counting: httpx.Client) -> None:
    visit = visits(counting)
    visit.page.clock.install()
    page = opened(visit)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "v1/stats" in request.url else None)

    with page.expect_response("**/v1/stats*"):
        page.clock.fast_forward(4000)
    page.get_by_role("button", name="Pause").click()
    page.get_by_text("Paused").wait_for()
    paused = len(asked)
    page.clock.fast_forward(60_000)
    with page.expect_response("**/v1/stats*"):
        page.get_by_role("button", name="Go on").click()
    resumed = len(asked)
    page.get_by_role("link", name="Try", exact=True).click()
    page.get_by_role("heading", name="Try a ranking").wait_for()
    page.clock.fast_forward(60_000)
    page.evaluate("fetch('livez').then((answer) => answer.text())")

    assert (paused + 1, resumed) == (resumed, len(asked))


def test_learning_from_traffic_says_how_to_turn_it_on(
    visits: Callable[..., Visit], counting: httpx.Client
) -> None:
    page = opened(visits(counting))

    page.get_by_text("off. Set LOCALRANK_IMPRESSION_LOG to a share of the requests").wait_for()
    page.get_by_text("off. Set LOCALRANK_EXPERIMENTS_FILE").wait_for()


def test_the_impression_log_and_experiments_are_shown(visits: Callable[..., Visit], tmp_path: Path) -> None:
    publish(tmp_path / "models")
    split = {
        "name": "turned",
        "kind": "split",
        "model": "demo",
        "candidate": "demo@2",
        "percent": 50,
        "unit": "request",
    }
    (tmp_path / "experiments.json").write_text(json.dumps({"experiments": [split]}))
    log = ("--impression-log", "1", "--impression-log-dir", str(tmp_path / "log"))
    flags = ("--experiments-file", str(tmp_path / "experiments.json"), "--workers", "2", "--model", "demo")
    with serving(tmp_path / "models", *log, *flags) as client:
        visit = visits(client)
        page = opened(visit)
        for _ in range(20):
            rerank(client)

        page.get_by_text("100.0\u00a0% of the rankings: 20 logged").wait_for()
        row = page.get_by_role("region", name="Experiments").locator("tbody tr")
        arms = client.get("/v1/experiments").json()["experiments"][0]["arms"]
        counts = [sum(arms[arm]["requests"].values()) for arm in ("baseline", "candidate")]
        assert 20 == sum(counts)
        row.filter(has_text="running").wait_for()
        assert ["demo@1", "demo@2"] == row.locator("td").nth(1).inner_text().split()
        assert [str(count) for count in counts] == row.locator("td").nth(3).inner_text().split()
        assert [] == visit.violations()
        # Before the service ends: the page keeps asking.
        page.close()


@pytest.mark.parametrize("colour", ["light", "dark"])
@pytest.mark.parametrize("size", [None, PHONE], ids=["desk", "phone"])
def test_nothing_stands_in_the_way_of_anybody(
    colour: str, size: dict[str, int] | None, visits: Callable[..., Visit], counting: httpx.Client
) -> None:
    rerank(counting)
    visit = visits(counting, colour=colour, size=size)
    page = opened(visit)

    assert [] == visit.violations()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_the_figures_are_read_with_the_keyboard_alone(
    visits: Callable[..., Visit], counting: httpx.Client
) -> None:
    page = opened(visits(counting))

    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name === 'window'"):
            break
    page.keyboard.press("ArrowRight")

    assert page.get_by_label("last 15 minutes").is_checked()
