"""The report in a real browser: at three sizes, light and dark, by its letters alone, by axe."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from mirrorlake.operations.status.all_tables import named_tables
from mirrorlake.report.collect import make_report
from mirrorlake.report.figures import MirrorReport, ReportedTable
from mirrorlake.report.page.write import write_report
from tests.support.recorded_mirror import DAY, RecordedMirror, at, windows
from tests.ui.place import ROOT

TODAY = datetime.now(UTC).date()
INCREMENTAL = {"mode": "incremental", "key": ["id"], "cursor": "modified_at"}
FULL = {"mode": "full", "key": ["id"]}
TABLES = {
    **{"orders": INCREMENTAL, "order_lines": INCREMENTAL, "customers": INCREMENTAL},
    **{"events": {"mode": "append", "key": ["id"], "cursor": "at"}, "products": FULL},
    **{"refunds": INCREMENTAL, "a_table_with_a_name_that_is_longer_than_a_phone_is_wide": FULL},
    **{"ledger": {"mode": "binlog", "key": ["id"]}, "never_loaded": INCREMENTAL},
}
SIZES = (390, 820, 1440)
QUICK = (390, "dark")


def of(table: str) -> str:
    return f"shop.shop.{table}"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with every state of a day, and of a table."""
    folder = tmp_path_factory.mktemp("report") / "shop-mirror"
    folder.mkdir()
    mirror = RecordedMirror(folder, TABLES)
    evidence = folder / "evidence.json"
    evidence.write_text("{}")
    windows(mirror, of("orders"), TODAY - 80 * DAY, TODAY, 900)
    ended = {"through": mirror.seq, "before": TODAY - DAY, "rows": 81_000}
    found = at(TODAY - 20 * DAY, 3)
    mirror.proof(of("orders"), found, "different", differences=3, evidence=str(evidence))
    mirror.repair(of("orders"), at(TODAY - 20 * DAY, 4), "equal", 3, str(evidence))
    mirror.proof(of("orders"), at(TODAY, 7), **ended)
    windows(mirror, of("customers"), TODAY - 60 * DAY, TODAY, 120)
    mirror.proof(of("customers"), at(TODAY - 4 * DAY, 7), before=TODAY - 5 * DAY)
    bounds = {"lo": str(TODAY - 9 * DAY), "hi": str(TODAY - 7 * DAY)}
    mirror.load(of("customers"), at(TODAY, 8), "reload", **bounds, rows=40)
    windows(mirror, of("order_lines"), TODAY - 60 * DAY, TODAY - 9 * DAY, 2500)
    failed = {"lo": str(TODAY - 9 * DAY), "error": "source shop: the connection was refused"}
    mirror.load(of("order_lines"), at(TODAY - 8 * DAY), **failed)
    windows(mirror, of("events"), TODAY - 85 * DAY, TODAY, 5000)
    day = TODAY - 12 * DAY
    ends = {"day": day, "first": day, "before": day + DAY, "differences": 17}
    mirror.proof(of("events"), at(TODAY, 7), "different", asked="partition", **ends)
    mirror.lease(of("products"))
    for age in range(70, -1, -1):
        mirror.load(of("products"), at(TODAY - age * DAY), "full", rows=2400 + 3 * (70 - age))
    mirror.proof(of("products"), at(TODAY, 7))
    windows(mirror, of("refunds"), TODAY - 50 * DAY, TODAY, 70)
    mirror.mark(of("refunds"), at(TODAY, 2), "ALTER TABLE: rows have a value that no load read")
    mirror.lease(of("ledger"))
    mirror.load(of("ledger"), at(TODAY - 20 * DAY), "initial", rows=1000)
    for age in range(19, -1, -1):
        mirror.load(of("ledger"), at(TODAY - age * DAY), "log", rows=50 + age, lag=2.0)
    config, ledger = mirror.write()
    tables = named_tables(config, ())
    path = folder / "report.html"
    made = make_report(config, ledger, tables, days=90, besides=True)
    write_report(path, counted(made), "--output")
    return path


def counted(report: MirrorReport) -> MirrorReport:
    """The report, as if there were a lake: without one no row is counted."""

    def with_rows(one: ReportedTable, rows: int) -> ReportedTable:
        if one.status is None or one.status.last_load is None:
            return one
        wrong = [x for x in one.not_right if "can't be counted" not in x.words]
        return replace(one, status=replace(one.status, rows=rows), not_right=wrong)

    tables = [with_rows(one, 81_000 + 7 * n) for n, one in enumerate(report.tables)]
    return replace(report, tables=tables, not_right=[x for t in tables for x in t.not_right])


@pytest.fixture(
    params=[
        pytest.param((size, scheme), marks=[] if (size, scheme) == QUICK else [pytest.mark.full])
        for size in SIZES
        for scheme in ("light", "dark")
    ]
)
def page(request: pytest.FixtureRequest, browser: Browser, report: Path) -> object:
    """The page with everything open; nothing is asked for, and nothing is complained of."""
    size, scheme = request.param
    viewport = {"width": size, "height": 900}
    context = browser.new_context(viewport=viewport, color_scheme=scheme)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url))
    page.goto(report.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    yield page
    assert said == [report.as_uri()]
    context.close()


def test_it_fits_and_is_accessible(page: Page, tmp_path: Path) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    # Each day has its letter, and each word of a state is there in letters.
    cells = page.locator(".cal tbody td[class]").all_text_contents()
    assert {*cells} == {"P", "L", "S", "D", "E", "N", "·"}, {*cells}


def test_without_colours_every_state_can_be_told(browser: Browser, report: Path) -> None:
    """Shapes in strips: no two states are drawn alike."""
    page = browser.new_page()
    page.goto(report.as_uri())
    page.locator("details.signs > summary").click()
    drawn = page.locator(".signs td.strip path").evaluate_all(
        "(some) => some.map((one) => one.getAttribute('d'))"
    )
    assert len({*drawn}) == len(drawn) == 7
    page.close()


def test_names_and_states_are_chosen_and_links_open(browser: Browser, report: Path) -> None:
    page = browser.new_page()
    page.goto(report.as_uri())
    tables = page.locator("details.table")
    assert tables.count() == len(TABLES)
    page.get_by_label("Name").fill("ORDER")
    assert tables.locator("visible=true").count() == 2
    page.get_by_label("Name").fill("")
    page.get_by_label("State").select_option("different")
    assert page.locator("details.table:not([hidden]) bdi").all_text_contents() == [of("events")]
    page.get_by_label("State").select_option("")
    page.locator(".look a", has_text="events").first.click()
    assert page.locator("details.table[open] > summary bdi").all_text_contents() == [of("events")]
    page.close()


def test_it_is_read_without_a_script(browser: Browser, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert not page.locator("form").is_visible()
    page.locator("details.table > summary").first.click()
    assert page.locator("details.table .cal").first.is_visible()
    context.close()


@pytest.mark.full
def test_a_picture_for_the_documents(browser: Browser, report: Path, tmp_path: Path) -> None:
    wanted = os.environ.get("MIRRORLAKE_KEEP_SCREENSHOTS") == "1"
    path = (ROOT / "docs" / "images" if wanted else tmp_path) / "report.png"
    context = browser.new_context(viewport={"width": 1280, "height": 1000}, color_scheme="light")
    page = context.new_page()
    page.goto(report.as_uri())
    one = page.locator("details.table", has_text="shop.shop.orders").first
    one.evaluate("(one) => { one.open = true; }")
    page.locator("#all").evaluate("(one) => one.scrollIntoView()")
    page.screenshot(path=path)
    assert path.stat().st_size > 20_000
    context.close()
