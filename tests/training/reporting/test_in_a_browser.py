"""Reports in Chromium: readable on a screen and on a phone, light and dark, with nothing that axe objects to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.training.reporting.conftest import RUNS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser

    from tests.training.reporting.conftest import Run

pytestmark = pytest.mark.slow

WINDOWS = [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)]


@pytest.mark.parametrize("name", RUNS)
def test_nothing_is_in_the_way_of_a_reader(
    name: str, runs: Callable[[str], Run], browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text(runs(name).html, encoding="utf-8")
    wrong: list[str] = []
    for colour, width in WINDOWS:
        context = browser.new_context(color_scheme=colour, viewport={"width": width, "height": 900})  # type: ignore[arg-type]
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on(
            "request", lambda request: wrong.append(request.url) if request.url != path.as_uri() else None
        )
        page.goto(path.as_uri())
        # What is folded is judged too.
        for number in range(page.locator("details").count()):
            page.locator("details").nth(number).evaluate("one => { one.open = true; }")

        wrong += [
            f"{colour} {width} {violation['id']}: {node['html'][:120]} {node['failureSummary'][:200]}"
            for violation in Axe().run(page).response["violations"]
            for node in violation["nodes"]
        ]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (colour, width)
        plots = page.locator("svg.plot[role=img]:visible")
        letters = plots.evaluate_all(
            "all => all.flatMap(one => [...one.querySelectorAll('text')].filter(text => {"
            " const box = text.getBoundingClientRect(), whole = one.getBoundingClientRect();"
            " return box.left < whole.left - 1 || box.right > whole.right + 1; }).map(text => text.textContent))"
        )
        assert [] == letters, (colour, width)
        context.close()

    assert [] == wrong
