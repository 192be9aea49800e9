"""Map: the training queries, the present one among them, and what a cluster is like."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.service.page.conftest import PHONE

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx
    from playwright.sync_api import Page

    from tests.service.page.conftest import Visit


def drawn(page: Page) -> None:
    """Wait until the map stands."""
    page.locator(".canvas .point").first.wait_for()


def places(page: Page) -> np.ndarray:
    """Return where the points are on the screen."""
    moves = page.locator(".canvas .point").evaluate_all(
        "all => all.map((one) => one.getAttribute('transform'))"
    )
    return np.array([[float(x) for x in re.findall(r"-?[\d.]+", move)] for move in moves])


def on_screen(page: Page, client: httpx.Client) -> Callable[[list[float]], np.ndarray]:
    """Return how the map's coordinates become places: one scale for both axes, the second one upwards."""
    coordinates = np.array(client.get("/v1/models/demo/map").json()["coordinates"])
    found = places(page)
    centre, middle = coordinates.mean(axis=0), found.mean(axis=0)
    upwards = (coordinates - centre) * [1, -1]
    scale = (upwards * (found - middle)).sum() / (upwards**2).sum()
    np.testing.assert_allclose(found, middle + scale * upwards, atol=0.2)
    return lambda place: middle + scale * (np.array(place) - centre) * [1, -1]


def sample(client: httpx.Client, number: int) -> list[list[float]]:
    features: list[list[float]] = client.get(f"/v1/models/demo/sample?query={number}").json()["features"]
    return features


def explained(client: httpx.Client, number: int) -> dict[str, Any]:
    answer = client.post("/v1/rerank", json={"features": sample(client, number), "explain": "route"})
    found: dict[str, Any] = answer.json()
    return found


def cluster_button(page: Page, cluster: int) -> Any:
    return page.locator(f".clusters button[data-cluster='{cluster}']")


def detail(page: Page, name: str) -> str:
    return page.locator(".terms > div").filter(has_text=name).locator("dd").inner_text()


def test_every_training_query_stands_where_its_similarities_place_it(
    visit: Visit, service: httpx.Client
) -> None:
    page = visit.open("map")
    drawn(page)

    on_screen(page, service)

    answer = service.get("/v1/models/demo/map").json()
    classes = page.locator(".canvas .point").evaluate_all("all => all.map((one) => one.classList[1])")
    assert [f"mark-{cluster % 8}" for cluster in answer["clusters"]] == classes
    page.get_by_text(f"The two dimensions show {100 * answer['shown']:.0f}").wait_for()


def test_the_query_that_was_tried_is_shown_with_its_nearest_training_queries(
    visit: Visit, service: httpx.Client
) -> None:
    page = visit.open()
    page.locator(".ranking li").first.wait_for()
    page.get_by_role("button", name="Rank", exact=True).click()

    page.get_by_role("link", name="See it on the map").click()
    page.locator(".canvas .here").wait_for()

    answer = explained(service, 0)
    place = on_screen(page, service)
    here = page.locator(".canvas .here circle").first
    shown = [float(here.get_attribute(name) or "nan") for name in ("cx", "cy")]
    np.testing.assert_allclose(shown, place(answer["explanation"]["place"]), atol=0.5)
    near = page.locator(".near-list li").all_inner_texts()
    assert [
        f"Training query {one['query']} of cluster {one['cluster']}{one['similarity']:.3f}"
        for one in answer["explanation"]["neighbours"]
    ] == [text.replace("\n", "") for text in near]
    assert 5 == page.locator(".canvas .near").count()
    page.get_by_text(f"The query that you tried last goes to cluster {answer['route']['cluster']}").wait_for()


def test_sample_queries_are_placed_one_after_the_other(visit: Visit, service: httpx.Client) -> None:
    page = visit.open("map")
    drawn(page)
    page.get_by_text("Rank a query under Try").wait_for()

    for number in range(2):
        page.get_by_role("button", name="Place a sample query").click()
        cluster = explained(service, number)["route"]["cluster"]
        page.get_by_text(f"Sample query {number + 1} goes to cluster {cluster}").wait_for()

        assert page.locator(".chosen").inner_text().strip() == f"Cluster {cluster}"


def test_a_query_of_one_document_has_no_place(visit: Visit) -> None:
    page = visit.open()
    page.get_by_label("Rows").fill("[[1,2,3,4,5,6,7,8,9,10]]")
    page.get_by_role("button", name="Rank", exact=True).click()
    page.get_by_role("heading", name="Order of the model").wait_for()

    page.get_by_role("link", name="See it on the map").click()

    page.get_by_text("goes to the global scorer. It has no place: a query of one document").wait_for()
    assert 0 == page.locator(".canvas .here").count()


@pytest.mark.parametrize("way", ["list", "map"])
def test_a_cluster_tells_what_it_is_like(way: str, visit: Visit, service: httpx.Client) -> None:
    service.post("/v1/rerank", json={"features": sample(service, 0)})
    clusters = service.get("/v1/models/demo/clusters").json()["clusters"]
    page = visit.open("map")
    drawn(page)

    if way == "list":
        cluster_button(page, 2).click()
    else:
        page.locator(".canvas .point.mark-2").first.click(force=True)

    assert "true" == cluster_button(page, 2).get_attribute("aria-pressed")
    validation = clusters[2]["validation"]
    assert detail(page, "Training queries").startswith(f"{clusters[2]['size']} of ")
    assert f"query {clusters[2]['exemplar']}" == detail(page, "Typical query")
    assert validation["features"] == page.locator(".chip").all_inner_texts()
    shown = page.locator(".versus .number").all_inner_texts()
    assert [f"{validation['local']:.3f}", f"{validation['global']:.3f}"] == shown
    counts = service.get("/v1/stats").json()["models"]["demo"]["versions"]["1"]["clusters"]
    share = counts[2]["requests"] / sum(one["requests"] for one in counts)
    row = page.get_by_role("region", name="Share of the traffic").locator("tbody tr")
    assert [f"{100 * share:.1f}", "25.0"] == [
        text.replace("\u00a0%", "") for text in row.locator("td.number").all_inner_texts()
    ]
    # The others stand back, until it is chosen a second time.
    assert 150 == page.locator(".canvas .point.faint").count()
    cluster_button(page, 2).click()
    assert 0 == page.locator(".canvas .point.faint").count()


def test_a_model_without_a_map_says_so_and_what_to_do(visit: Visit) -> None:
    page = visit.open("map")
    drawn(page)

    page.locator("#model").select_option("old")

    page.get_by_text("Model old, version 1, has no map").filter(has_text="Train it again").wait_for()
    assert not page.locator(".canvas").is_visible()
    page.locator("#model").select_option("demo")
    drawn(page)


def test_a_query_of_another_model_is_not_shown(visit: Visit) -> None:
    page = visit.open()
    page.locator("#model").select_option("old")
    page.get_by_text("Press Rank to reorder").wait_for()
    page.get_by_role("button", name="Rank", exact=True).click()
    page.get_by_role("heading", name="Order of the model").wait_for()
    page.locator("#model").select_option("demo")

    page.get_by_role("link", name="Map", exact=True).click()

    page.get_by_text("The query that you tried last went to model old.").wait_for()


def test_the_map_is_read_with_the_keyboard_alone(visit: Visit) -> None:
    page = visit.open("map")
    drawn(page)

    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.cluster === '1'"):
            break
    page.keyboard.press("Enter")

    assert "Cluster 1" == page.locator(".chosen").inner_text().strip()
    assert "true" == cluster_button(page, 1).get_attribute("aria-pressed")
    assert "200 training queries in 4 clusters" in (
        page.locator(".canvas svg").get_attribute("aria-label") or ""
    )


@pytest.mark.parametrize("colour", ["light", "dark"])
@pytest.mark.parametrize("size", [None, PHONE], ids=["desk", "phone"])
def test_nothing_stands_in_the_way_of_anybody(
    colour: str, size: dict[str, int] | None, visits: Callable[..., Visit], service: httpx.Client
) -> None:
    visit = visits(service, colour=colour, size=size)
    page = visit.open("map")
    drawn(page)
    page.get_by_role("button", name="Place a sample query").click()
    page.locator(".canvas .here").wait_for()

    assert [] == visit.violations()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    box = page.locator(".canvas svg").bounding_box()
    assert box is not None
    assert (places(page) >= 0).all()
    assert (places(page) <= [box["width"], box["height"]]).all()
