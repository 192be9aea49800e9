"""What the page at ``/`` shows in Chromium: the words, links and controls of each view."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

from tests.golden.http import IDS, NAMES, ROWS, service

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
KEY = "golden-admin-key"


def browser() -> str | None:
    """Return the path of a browser, if there is one."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


class Settled:
    """Waits until a page has asked for everything and shows it."""

    def __init__(self, page: Page) -> None:
        self.page, self.pending = page, set[Any]()
        page.on("request", self.began)
        page.on("requestfinished", self.ended)
        page.on("requestfailed", self.ended)

    def began(self, request: Any) -> None:
        self.pending.add(request)

    def ended(self, request: Any) -> None:
        self.pending.discard(request)

    def __call__(self) -> None:
        for _ in range(3):
            self.page.evaluate("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")
            while self.pending:
                self.page.wait_for_event("requestfinished")


def seen(page: Page) -> dict[str, Any]:
    """Return what a user sees, and can press; times, and numbers that count requests, are left out."""
    text = page.locator("body").inner_text()
    text = re.sub(r"\d[\d.,]*\s?(ms|µs|s|minutes?|hours?|MB|kB)\b", r"… \1", text)
    controls = page.locator("a:visible, button:visible, input:visible, select:visible, textarea:visible")
    named = controls.evaluate_all(
        "all => all.map((one) => [one.tagName.toLowerCase(), one.getAttribute('href') || one.type || '',"
        " one.getAttribute('aria-label') || (one.labels && one.labels[0] ? one.labels[0].innerText : one.innerText)])"
    )
    return {
        "text": [line.strip() for line in text.splitlines() if line.strip()],
        "controls": [" | ".join(re.sub(r"\s+", " ", part).strip()[:60] for part in one) for one in named],
    }


def answers(folder: Path) -> Iterator[tuple[str, str, Any]]:
    path = browser()
    assert path is not None, "there is no Chromium: make test-deps installs it"
    given = "\n".join(
        [
            ",".join(["id", *NAMES]),
            *(",".join(map(str, [one, *row])) for one, row in zip(IDS, ROWS, strict=True)),
        ]
    )
    with (
        service(folder, "--admin-key", KEY, "--model", "web", every=False) as client,
        sync_playwright() as playwright,
    ):
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = chromium.new_context(
            reduced_motion="reduce", viewport={"width": 1280, "height": 900}, locale="en-GB"
        ).new_page()
        page.set_default_timeout(20_000)
        wrong: list[str] = []
        page.on(
            "console",
            lambda message: wrong.append(message.text) if message.type in {"error", "warning"} else None,
        )
        page.on("pageerror", lambda error: wrong.append(str(error)))
        settled = Settled(page)
        page.goto(f"{str(client.base_url).rstrip('/')}/#try")
        page.locator(".ranking li").first.wait_for()
        settled()
        yield "page", "try, at first", seen(page)
        page.get_by_label("Rows").fill(given)
        page.get_by_role("button", name="Rank", exact=True).click()
        page.get_by_role("heading", name="Order of the model").wait_for()
        settled()
        yield "page", "try, ranked", seen(page)
        page.get_by_label("Rows").fill("bm25,pagerank\n1,x")
        page.get_by_role("button", name="Rank", exact=True).click()
        page.get_by_role("alert").first.wait_for()
        yield "page", "try, refused", seen(page)
        for view, shown in (("map", ".canvas .point"), ("models", "tbody tr"), ("live", ".tile")):
            page.goto(f"{str(client.base_url).rstrip('/')}/#{view}")
            page.locator(f"{shown}:visible").first.wait_for()
            settled()
            found = seen(page)
            if view == "live":
                # Its numbers are of this moment, and so is what it shows only if there is something to show.
                found["text"] = sorted(
                    set(page.locator("h1:visible, h2:visible, h3:visible, dt:visible").all_inner_texts())
                )
            yield "page", view, found
        yield "page", "errors of the console", wrong
        chromium.close()
