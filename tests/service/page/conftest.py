"""The page at ``/`` in Debian's Chromium, against a real service of two workers.

Every test fails if the page writes an error to the console, throws, or sends a request to another host.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from localrank import artifact
from localrank.artifact import Provenance
from localrank.registry.versions import Registry
from localrank.scorers import LinearScorer
from tests.end_to_end.serving import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import httpx
    from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

    from localrank.arrays import Vector
    from localrank.scorers import Scorer

DEMO = Path(__file__).parents[3] / "models" / "demo"
ADMIN = "page-tests-admin-key"
#: Names under which distributions install it.
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
DESK: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # The others need no browser.
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, or a skipped test; in CI it must be there.

    One for each module, because Playwright's event loop is in the way of asynchronous tests as long as it is open.
    """
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        if os.environ.get("CI"):
            pytest.fail("there is no Chromium: make test-deps installs it")
        pytest.skip("there is no Chromium: make test-deps installs it")
    with sync_playwright() as playwright:
        # Containers have no namespaces for its sandbox; it sees nothing but this service.
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of the page's tests.

    ``demo`` has three versions: the champion; one that ranks differently, learned with another setting; and an equal one.
    ``old`` has no map.
    """
    folder = tmp_path_factory.mktemp("page") / "models"
    publish(folder)
    return folder


def publish(folder: Path) -> Registry:
    """Publish the models of the page's tests."""
    shutil.copytree(DEMO, folder / "demo")
    registry = Registry(folder)
    demo = artifact.load(folder / "demo" / "1")
    manifest = demo.manifest
    said = Provenance(
        created="2026-02-01T09:30:00Z",
        source=manifest.source,
        probe=demo.probe.documents,
        clusters=manifest.clusters,
        metrics=manifest.metrics,
        query_map=demo.query_map,
    )
    flipped = tuple(LinearScorer(-weights_of(scorer), "normalised") for scorer in demo.ranker.scorers)
    configuration = {
        **manifest.source["configuration"],
        "learner": {**manifest.source["configuration"]["learner"], "C": 12.5},
    }
    registry.publish(
        "demo",
        replace(demo.ranker, scorers=flipped),
        replace(said, source={**manifest.source, "configuration": configuration}),
    )
    registry.publish("demo", demo.ranker, said)
    registry.publish("old", demo.ranker, replace(said, query_map=None))
    registry.promote("old", 1)
    return registry


def weights_of(scorer: Scorer) -> Vector:
    assert isinstance(scorer, LinearScorer)
    return scorer.weights


@pytest.fixture(scope="session")
def service(models: Path) -> Iterator[httpx.Client]:
    """A service of two workers that anybody may ask."""
    with serving(
        models,
        "--workers",
        "2",
        "--admin-key",
        ADMIN,
        "--model",
        "demo",
        "--preload",
        "demo@2",
        "--preload",
        "demo@3",
    ) as client:
        yield client


class Visit:
    """One page in one window, and what went wrong in it."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base
        self.wrong: list[str] = []
        #: What the page may say because a test provokes it, such as a refused request.
        self.expected: list[str] = []
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.wrong.append(f"threw {error}"))
        page.on("request", lambda request: self._check(request.url))

    def _note(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.wrong.append(text)

    def _check(self, url: str) -> None:
        if not url.startswith((self.base, "blob:", "data:")):
            self.wrong.append(f"asked {url}")

    def open(self, view: str = "try") -> Page:
        """Go to a view and wait until it has a model."""
        self.page.goto(f"{self.base}/#{view}")
        self.wait("document.querySelector('#model').value !== ''")
        return self.page

    def wait(self, condition: str) -> None:
        """Wait until a condition of the page holds.

        `wait_for_function` evaluates its text again at each look, which the page's security policy forbids.
        """
        looks = (
            f"async () => {{ for (let looks = 0; looks < 750 && !({condition}); looks++)"
            f" await new Promise((go) => setTimeout(go, 20)); return {condition}; }}"
        )
        assert self.page.evaluate(looks), condition

    def violations(self) -> list[str]:
        """Return what axe finds, one line for each element."""
        # A run of its own for what is moving or not yet drawn would judge half a page.
        self.wait("document.getAnimations().length === 0")
        return [
            f"{violation['id']}: {node['html'][:120]} {node['failureSummary'][:200]}"
            for violation in Axe().run(self.page).response["violations"]
            for node in violation["nodes"]
        ]

    def finish(self) -> None:
        """Fail if anything went wrong that was not expected."""
        left = [one for one in self.wrong if not any(part in one for part in self.expected)]
        assert [] == left


@pytest.fixture
def visits(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """Open a window on a service: ``visits(client, colour="dark", size=PHONE)``."""
    contexts: list[BrowserContext] = []
    opened: list[Visit] = []

    def visit(
        client: httpx.Client, *, colour: Any = "light", size: Any = None, motion: Any = "reduce"
    ) -> Visit:
        context = browser.new_context(
            color_scheme=colour,
            viewport=size or DESK,
            reduced_motion=motion,
            permissions=["clipboard-read", "clipboard-write"],
        )
        context.set_default_timeout(15_000)
        contexts.append(context)
        opened.append(Visit(context.new_page(), str(client.base_url).rstrip("/")))
        return opened[-1]

    yield visit
    for context, one in zip(contexts, opened, strict=True):
        if not one.page.is_closed():
            # pytest shows it if the test has failed.
            sys.stdout.write(one.page.evaluate("document.body.innerText"))
        context.close()
    for one in opened:
        one.finish()


@pytest.fixture
def visit(visits: Callable[..., Visit], service: httpx.Client) -> Visit:
    """A window on the service that anybody may ask."""
    return visits(service)
