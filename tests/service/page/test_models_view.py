"""Models: versions, figures, contract, what changed; promoting and rolling back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.serving import serving
from tests.service.page.conftest import ADMIN, PHONE, publish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import httpx
    from playwright.sync_api import Page

    from tests.service.page.conftest import Visit


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service of two workers whose aliases move."""
    folder: Path = tmp_path_factory.mktemp("changing") / "models"
    publish(folder)
    with serving(folder, "--workers", "2", "--admin-key", ADMIN, "--model", "demo") as client:
        yield client


def opened(visit: Visit) -> Page:
    page = visit.open("models")
    page.get_by_role("heading", name="Versions of demo").wait_for()
    return page


def use_key(page: Page, key: str = ADMIN) -> None:
    page.get_by_role("button", name="Key").click()
    page.locator("#key").fill(key)
    page.get_by_role("button", name="Use it").click()
    page.get_by_role("button", name="Key: set").wait_for()


def promote(page: Page, version: int, alias: str = "champion", *, answer: str = "Promote") -> None:
    page.get_by_label("Alias").fill(alias)
    page.get_by_label("Version", exact=True).select_option(str(version))
    page.get_by_role("button", name="Promote…").click()
    page.get_by_role("dialog").get_by_role("button", name=answer, exact=True).click()


def champion(client: httpx.Client) -> int:
    version: int = client.get("/v1/models/demo/versions").json()["aliases"]["champion"]
    return version


def test_versions_are_listed_with_their_aliases_and_figures(visit: Visit, service: httpx.Client) -> None:
    page = opened(visit)

    rows = page.get_by_role("region", name="Versions, the newest first").locator("tbody tr")

    versions = service.get("/v1/models/demo/versions").json()["versions"]
    assert [str(one["version"]) for one in versions] == rows.locator("th").all_inner_texts()
    assert "champion" == rows.nth(2).locator(".chip").inner_text()
    assert "2026-02-01" == rows.nth(0).locator("time").inner_text()
    figure = next(one for one in versions[0]["metrics"]["figures"] if one["metric"] == "ndcg@10")
    assert f"ndcg@10 +{figure['difference']:.3f}" == rows.nth(0).locator("td").nth(3).inner_text()


def test_figures_have_their_intervals(visit: Visit, service: httpx.Client) -> None:
    page = opened(visit)
    page.get_by_role("button", name="Figures of version 2").click()
    page.get_by_role("heading", name="Figures of version 2").wait_for()

    rows = page.get_by_role("region", name="Held-out figures").locator("tbody tr")

    figures = service.get("/v1/models/demo/versions").json()["versions"][1]["metrics"]["figures"]
    assert [one["metric"] for one in figures] == rows.locator("th").all_inner_texts()
    for position, one in enumerate(figures):
        cells = rows.nth(position).locator("td").all_inner_texts()
        assert [one["model"], one["global"], one["difference"]] == pytest.approx(
            [float(text) for text in cells[:3]], abs=6e-4
        )
        assert [one["low"], one["high"]] == pytest.approx(
            [float(text) for text in cells[3].split(" to ")], abs=6e-4
        )


def test_the_contract_and_what_matters_are_shown(visit: Visit, service: httpx.Client) -> None:
    page = opened(visit)

    model = service.get("/v1/models/demo").json()
    rows = page.get_by_role("region", name="Features in the order of the contract").locator("tbody tr")
    assert [one["name"] for one in model["features"]] == rows.locator("th").all_inner_texts()
    page.get_by_text(model["contract"]).wait_for()
    first = page.locator(".importances li").first.inner_text()
    assert model["metrics"]["importances"][0]["feature"] in first


def test_what_changed_between_two_versions_is_told(visit: Visit) -> None:
    page = opened(visit)
    page.get_by_label("To", exact=True).select_option("2")

    page.get_by_role("button", name="Compare").click()

    settings = page.get_by_role("region", name="Settings").locator("tbody tr")
    settings.first.wait_for()
    changes = [row.split("\t") for row in settings.all_inner_texts()]
    assert "12.5" == next(change for change in changes if change[0] == "configuration.learner.C")[2]
    page.get_by_text("The contract is the same.").wait_for()
    page.get_by_label("To", exact=True).select_option("3")
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("1.00 on average").wait_for()
    page.get_by_text("The settings are the same.").wait_for()


def test_a_version_is_promoted_and_rolled_back(visits: Callable[..., Visit], changing: httpx.Client) -> None:
    page = opened(visits(changing))
    use_key(page)

    promote(page, 2)
    page.get_by_text("demo@champion is version 2 now; it was 1. 2 workers switched.").wait_for()
    assert 2 == champion(changing)
    page.locator("tr").filter(has_text="champion").locator("th").get_by_text("2", exact=True).wait_for()

    page.get_by_role("button", name="Roll back…").click()
    page.get_by_text("demo@champion will go back from version 2 to version 1 in every worker.").wait_for()
    page.get_by_role("dialog").get_by_role("button", name="Roll back", exact=True).click()
    page.get_by_text("demo@champion is version 1 now; it was 2. 2 workers switched.").wait_for()
    assert 1 == champion(changing)


def test_an_alias_may_be_new(visits: Callable[..., Visit], changing: httpx.Client) -> None:
    page = opened(visits(changing))
    use_key(page)

    promote(page, 3, "challenger")

    page.get_by_text("demo@challenger is version 3 now. 2 workers switched.").wait_for()
    page.locator(".chip.strong", has_text="challenger").wait_for()
    assert 1 == champion(changing)


def test_who_cancels_changes_nothing(visits: Callable[..., Visit], changing: httpx.Client) -> None:
    page = opened(visits(changing))
    use_key(page)

    promote(page, 2, answer="Cancel")

    page.get_by_role("dialog").wait_for(state="hidden")
    assert 1 == champion(changing)


@pytest.mark.parametrize(("key", "said"), [("", "Enter a key under “Key”."), ("wrong", "Check the key")])
def test_without_an_admin_key_nothing_moves(
    key: str, said: str, visits: Callable[..., Visit], changing: httpx.Client
) -> None:
    visit = visits(changing)
    visit.expected += ["401", "403"]
    page = opened(visit)
    if key:
        use_key(page, key)
    else:
        page.get_by_text("This takes an admin key").wait_for()

    promote(page, 2)

    page.locator("#view-models [role=alert]").filter(has_text=said).wait_for()
    assert 1 == champion(changing)


def test_what_cannot_be_done_is_said_before_it_is_tried(
    visits: Callable[..., Visit], changing: httpx.Client
) -> None:
    page = opened(visits(changing))
    alert = page.locator("#view-models [role=alert]")

    page.get_by_label("Version", exact=True).select_option("1")
    page.get_by_role("button", name="Promote…").click()
    alert.filter(has_text="demo@champion is version 1 already. Choose another version.").wait_for()
    page.get_by_label("Alias").fill("candidate")
    page.get_by_role("button", name="Roll back…").click()
    alert.filter(has_text="demo@candidate never named another version.").wait_for()


def test_a_wrong_alias_is_refused_with_a_sentence(
    visits: Callable[..., Visit], changing: httpx.Client
) -> None:
    visit = visits(changing)
    visit.expected.append("422")
    page = opened(visit)
    use_key(page)

    promote(page, 2, "9th <b>try</b>")

    alert = page.locator("#view-models [role=alert]")
    alert.filter(has_text="expected 1 to 64 letters, digits").wait_for()


def test_the_key_is_kept_in_memory_only(visits: Callable[..., Visit], changing: httpx.Client) -> None:
    page = opened(visits(changing))
    use_key(page)

    kept = page.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
    )
    assert ADMIN not in kept
    assert [] == page.context.cookies()
    page.reload()
    page.get_by_role("button", name="Key", exact=True).wait_for()


def test_promoting_works_with_the_keyboard_alone(
    visits: Callable[..., Visit], changing: httpx.Client
) -> None:
    page = opened(visits(changing))

    def tab_to(matches: str) -> None:
        for _ in range(80):
            page.keyboard.press("Tab")
            if page.evaluate(f"document.activeElement.matches({matches!r})"):
                return
        raise AssertionError(f"no {matches} within reach of the keyboard")

    tab_to("#key-button")
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for()
    page.keyboard.insert_text(ADMIN)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Key: set").wait_for()
    tab_to("#promote-alias")
    page.keyboard.press("Control+A")
    page.keyboard.insert_text("shadow")
    tab_to("#promote-version")
    page.keyboard.press("2")
    tab_to("button[type=submit]")
    page.keyboard.press("Enter")
    page.get_by_text("demo@shadow becomes version 2").wait_for()
    page.keyboard.press("Enter")

    page.get_by_text("demo@shadow is version 2 now").wait_for()


def test_a_model_of_one_version_has_nothing_to_compare(visit: Visit) -> None:
    page = opened(visit)

    page.locator("#model").select_option("old")

    page.get_by_text("There is one version only.").wait_for()


@pytest.mark.parametrize("colour", ["light", "dark"])
@pytest.mark.parametrize("size", [None, PHONE], ids=["desk", "phone"])
def test_nothing_stands_in_the_way_of_anybody(
    colour: str, size: dict[str, int] | None, visits: Callable[..., Visit], service: httpx.Client
) -> None:
    visit = visits(service, colour=colour, size=size)
    page = opened(visit)
    page.get_by_label("To", exact=True).select_option("2")
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("region", name="Settings").wait_for()
    assert [] == visit.violations()

    page.get_by_label("Version", exact=True).select_option("2")
    page.get_by_role("button", name="Promote…").click()
    page.get_by_role("dialog").wait_for()

    assert [] == visit.violations()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
