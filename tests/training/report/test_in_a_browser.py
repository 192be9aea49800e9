"""Reports in Chromium: readable on a screen and on a phone, light and dark, with nothing that axe objects to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser

    from tests.training.report.conftest import Run

pytestmark = pytest.mark.slow

#: Pages with every part there is, and with few; the others have no part of their own.
NAMES = ("blend", "clustered", "few", "hostile")
WINDOWS = [("light", 1280), ("dark", 390)]


#: Letters that are drawn beyond their picture.
OUTSIDE = """all => all.flatMap(one => [...one.querySelectorAll('text')].filter(text => {
    const box = text.getBoundingClientRect(), whole = one.getBoundingClientRect();
    return box.left < whole.left - 1 || box.right > whole.right + 1;
}).map(text => text.textContent))"""


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_in_the_way_of_a_reader(
    name: str, runs: Callable[[str], Run], browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text(runs(name).html, encoding="utf-8")

    wrong = [problem for colour, width in WINDOWS for problem in problems(browser, path, colour, width)]

    assert [] == wrong


def problems(browser: Browser, path: Path, colour: Any, width: int) -> list[str]:
    """What is wrong with a page in one window."""
    found: list[str] = []
    context = browser.new_context(color_scheme=colour, viewport={"width": width, "height": 900})
    page = context.new_page()
    page.on("console", lambda message: found.append(message.text))
    page.on("request", lambda request: found.append(request.url))
    page.goto(path.as_uri())
    # What is folded is judged too.
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
    found += [
        f"{violation['id']}: {node['html'][:120]} {node['failureSummary'][:200]}"
        for violation in Axe().run(page).response["violations"]
        for node in violation["nodes"]
    ]
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        found.append("the page scrolls sideways")
    found += page.locator("svg.plot[role=img]:visible").evaluate_all(OUTSIDE)
    context.close()
    return [f"{colour}, {width} pixels: {one}" for one in found if one != path.as_uri()]
