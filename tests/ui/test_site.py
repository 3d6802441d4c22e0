"""The documents' site in a real browser: it fits, nothing is fetched from elsewhere, axe finds
nothing serious, the search finds, and light and dark can be read."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tools.site import build

SIZES = (390, 820, 1440)
QUICK = (390, "dark")
PAGES = (
    "index",
    *(
        pytest.param(name, marks=pytest.mark.full)
        for name in ("tutorial", "comparison", "concepts", "performance", "cli", "adr/index")
    ),
)
BROKEN = """[...document.images].filter((one) => one.complete && !one.naturalWidth)
    .map((one) => one.src)"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing: what was asked for, the browser says."""


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site")
    assert build(folder) == 0
    handler = functools.partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(
    params=[
        pytest.param((size, scheme), marks=[] if (size, scheme) == QUICK else [pytest.mark.full])
        for size in SIZES
        for scheme in ("light", "dark")
    ],
    ids=lambda given: f"{given[0]}-{given[1]}",
)
def page(request: pytest.FixtureRequest, browser: Browser, site: str) -> Iterator[Page]:
    """Nothing is asked of anybody else, and nothing is complained of."""
    size, scheme = request.param
    viewport = {"width": size, "height": 900}
    context = browser.new_context(viewport=viewport, color_scheme=scheme, base_url=site)
    page = context.new_page()
    asked: list[str] = []
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    yield page
    assert [url for url in asked if not url.startswith((site, "data:", "blob:"))] == []
    assert said == []
    context.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_and_shows_its_pictures(page: Page, name: str, tmp_path: Path) -> None:
    page.goto(f"/{name}.html")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(BROKEN) == []
    page.screenshot(path=tmp_path / "page.png", full_page=True)  # for who wants to look


@pytest.mark.full
def test_the_landing_page_is_accessible(page: Page) -> None:
    for name in ("index", "tutorial"):
        page.goto(f"/{name}.html")
        found = Axe().run(page)
        serious = [
            f"{one['id']}: {one['nodes'][0]['html'][:200]}"
            for one in found.response["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == [], name


@pytest.mark.full
def test_the_search_finds_a_page_without_any_service(page: Page) -> None:
    page.goto("/index.html")
    if (page.viewport_size or {"width": 0})["width"] < 960:
        page.locator("label[for=__search].md-header__button").click()
    page.locator("input.md-search__input").fill("tombstone")
    found = page.locator("a.md-search-result__link").first
    found.wait_for()
    assert page.locator("a.md-search-result__link[href*='concepts']").count()
