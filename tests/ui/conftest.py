"""A real browser over a real location. Where no browser is to be had, tests say so; in CI they
fail."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.ui.place import ROOT, Place, running_place

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZE = {"width": 1400, "height": 860}
# A machine with two cores that also runs what is looked at.
PATIENCE_MS = 60_000
# The UI shows some of the server's errors nowhere: every answer to it is looked at.
LISTEN = """
const asked = window.fetch;
window.fetch = async (...what) => {
  const answer = await asked(...what);
  if (String(what[0]?.url ?? what[0]).includes("/graphql")) {
    answer.clone().json().then((body) => {
      if (body.errors) window.complain(JSON.stringify(body.errors).slice(0, 500));
    }, () => undefined);
  }
  return answer;
};
"""


def find_browser() -> str:
    """``$MIRRORLAKE_CHROMIUM``, else the first of the usual names on PATH; '' where there is none."""
    if named := os.environ.get("MIRRORLAKE_CHROMIUM"):
        return named
    return next((found for name in BROWSERS if (found := shutil.which(name))), "")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    path = find_browser()
    if not path:
        reason = f"no browser: none of {', '.join(BROWSERS)} on PATH (or set MIRRORLAKE_CHROMIUM)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        # Root has no user namespaces to build the sandbox with in most containers; a graphics card
        # that software imitates takes longer than to draw without one.
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def place(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Place]:
    """The browser first: without one nothing else needs to start. What needs the daemon is `full`."""
    daemon = pytestconfig.getoption("-m") != "not full"
    with running_place(tmp_path_factory.mktemp("ui"), daemon=daemon) as place:
        yield place


@pytest.fixture(scope="package")
def new_page(browser: Browser, place: Place) -> Iterator[Callable[[], Page]]:
    """A page in a window of its own; whatever went wrong in any of them fails the tests."""
    wrong: list[str] = []
    context = browser.new_context(viewport=SIZE, base_url=place.url, timezone_id="UTC")
    context.set_default_timeout(PATIENCE_MS)

    context.expose_function("complain", lambda text: wrong.append(text))
    context.add_init_script(LISTEN)

    def open_page() -> Page:
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        return page

    yield open_page
    context.close()
    assert not wrong, wrong


@pytest.fixture
def page(new_page: Callable[[], Page]) -> Iterator[Page]:
    page = new_page()
    yield page
    page.close()


@pytest.fixture(scope="package")
def keep(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Page, str], None]:
    """Saves what a page shows: for the documents with ``MIRRORLAKE_KEEP_SCREENSHOTS=1``."""
    wanted = os.environ.get("MIRRORLAKE_KEEP_SCREENSHOTS") == "1"
    folder = ROOT / "docs" / "images" if wanted else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)

    def save(page: Page, name: str) -> None:
        complaints = page.locator(".bp5-toast.bp5-intent-danger, .bp4-toast.bp4-intent-danger")
        assert complaints.count() == 0, complaints.all_text_contents()
        path = Path(folder, f"{name}.png")
        page.screenshot(path=path, animations="disabled", caret="hide")
        assert path.stat().st_size > 20_000, "an empty page"

    return save
