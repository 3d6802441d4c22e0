"""Dagster's UI as a person meets it: lineage, checks, partitions, and a backfill from its dialog."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.support.command import COMMAND
from tests.ui.place import BACKFILL, DAYS, TODAY, Place, ask

Keep = Callable[[Page, str], None]
# A minute on two quiet cores; others may be at work on them too.
pytestmark = pytest.mark.timeout(900)


def open_lineage(page: Page, table: str) -> None:
    """A table's chain, from MySQL to clean."""
    page.goto(f"/assets/clean/{table}?view=lineage")
    page.get_by_role("button", name="Upstream").click()
    page.get_by_role("button", name="All", exact=True).click()
    expect(page.locator("foreignObject", has_text="Latest event")).to_have_count(4)


@pytest.fixture(scope="module")
def backfill(new_page: Callable[[], Page], keep: Keep) -> str:
    """Four days of the flights' chain, launched in the UI; returns the backfill's page.

    First of all: the daemon looks for backfills twice a minute, and the shop's pages are looked at
    meanwhile.
    """
    page = new_page()
    open_lineage(page, "nyc/nyc/flights")
    page.get_by_role("button", name="Materialize all").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Launch runs to materialize 3 assets")
    days = dialog.locator("input[type=text]").first
    days.fill(f"[{'...'.join(BACKFILL)}]")
    days.press("Enter")
    expect(dialog).to_contain_text("4 partitions")
    keep(page, "backfill-dialog")
    dialog.get_by_role("button", name="Launch backfill").click()
    toast = page.get_by_text("Created backfill")
    expect(toast).to_be_visible()
    expect(dialog).to_be_hidden()
    page.get_by_role("link", name="View", exact=True).or_(
        page.get_by_role("button", name="View", exact=True)
    ).click()
    page.wait_for_url("**/runs/b/*")
    where = page.url
    page.close()
    return where


def test_lineage_goes_from_the_mysql_table_to_clean(page: Page, keep: Keep) -> None:
    page.set_viewport_size({"width": 1400, "height": 560})
    for table in ("customers", "orders"):
        open_lineage(page, f"shop/shop/{table}")
        nodes = page.locator("foreignObject", has_text="Latest event")
        # All checks of raw, deduped and clean; those of days are of days.
        expect(nodes.filter(has_text=re.compile(r"\d+ / \d+ Passed"))).to_have_count(3)
        chain = nodes.filter(has_text=f"{table}Latest event").all()
        assert len(chain) == 4
        chain.sort(key=lambda node: (node.bounding_box() or {"x": -1.0})["x"])
        assert "MySQL" in (chain[0].text_content() or "")
        for node, layer in zip(chain[1:], ("raw", "deduped", "clean"), strict=True):
            links = node.locator(f"a[href^='/assets/{layer}/shop/shop/{table}']")
            expect(links.first).to_be_visible()
            assert "Iceberg" in (node.text_content() or "")
    keep(page, "lineage")


def test_both_sources_are_in_the_global_lineage(page: Page, keep: Keep) -> None:
    page.goto("/asset-groups")
    for group in ("nyc_nyc__raw", "shop_shop__mysql", "shop_shop__clean", "stores"):
        expect(page.locator("foreignObject", has_text=group).first).to_be_visible()
    # Three layers of three tables and of one of tenants, a cleanup for each source, the lake's
    # maintenance, a report.
    expect(page.get_by_text("Materialize all (17)")).to_be_visible()


def test_tenants_are_shown_as_the_ledger_has_them(place: Place, page: Page, keep: Keep) -> None:
    """Two are mirrored, in two shapes; one has no key; a view and a pattern were left out."""
    command = [*COMMAND, "tenants", "--json", "--config", str(place.folder / "mirrorlake.yaml")]
    listed = subprocess.run(command, env=place.environment, capture_output=True, check=True)
    tenants = json.loads(listed.stdout)
    states = Counter(one["state"] for one in tenants)
    assert states == {"mirrored": 2, "failed": 1}
    page.goto("/assets/raw/stores/visits")
    of_run = {"tenants": len(tenants), "tenants failed": states["failed"], "rows read": 30}
    for label, count in of_run.items():
        row = page.get_by_role("row").filter(has=page.get_by_text(label, exact=True))
        expect(row.first).to_contain_text(str(count))
    for one in tenants:
        if one["version"] is not None:
            expect(page.get_by_text(f"({one['version']})").first).to_be_visible()
    expect(page.get_by_text("visits is a view there, and only tables").first).to_be_visible()
    page.goto("/assets/deduped/stores/visits")
    expect(page.get_by_text("tenants mirrored", exact=True)).to_be_visible()
    rows = sum(one["rows"] or 0 for one in tenants)
    expect(page.get_by_text("Row count").locator("..").get_by_text(str(rows))).to_be_visible()
    page.goto("/assets/deduped/stores/visits?view=checks")
    page.get_by_text("tenants_mirrored", exact=True).first.click()
    expect(page.get_by_text("1 of 3 tenants; left out: shop.store_4")).to_be_visible()
    keep(page, "tenants")


def test_a_tables_checks_show_their_verdicts(page: Page, keep: Keep) -> None:
    page.goto("/assets/deduped/shop/shop/orders?view=checks")
    for name in ("contract", "unique_key", "row_count"):
        expect(page.get_by_text(name, exact=True).first).to_be_visible()
    page.get_by_text("row_count", exact=True).first.click()
    expect(page.get_by_text("Passed", exact=True).first).to_be_visible()
    rows = page.get_by_role("row", name="rows in MySQL")
    expect(rows.first).to_contain_text("1500")
    expect(page.get_by_role("row", name="rows in the mirror").first).to_contain_text("1500")
    keep(page, "checks")


def test_a_tables_days_show_what_each_holds(page: Page, keep: Keep) -> None:
    page.goto(f"/assets/raw/shop/shop/orders?view=partitions&partition={DAYS[0]}")
    expect(page.get_by_text("Materialized (").first).to_be_visible()
    expect(page.get_by_text(str(TODAY), exact=True).first).to_be_visible()
    expect(page.get_by_text("dagster/partition_row_count").first).to_be_visible()
    keep(page, "partitions")


@pytest.mark.full
def test_the_backfill_succeeds_as_one_run(
    backfill: str, place: Place, page: Page, keep: Keep
) -> None:
    deadline = time.monotonic() + 150
    page.set_viewport_size({"width": 1400, "height": 400})
    page.goto(f"{backfill}?tab=runs")
    while not page.get_by_text("Success", exact=True).is_visible():
        assert not page.get_by_text("Failure", exact=True).is_visible(), failure(place)
        assert time.monotonic() < deadline, failure(place)
        page.wait_for_timeout(1_500)
        page.reload()
        page.get_by_text("Launched by").wait_for()
    expect(page.get_by_text("3 assets")).to_have_count(1)
    expect(page.get_by_text("...".join(BACKFILL))).to_be_visible()
    keep(page, "backfill-run")
    found = ask(place, "{ runsOrError { ... on Runs { results { status tags { key value } } } } }")
    runs = [
        run["status"]
        for run in found["runsOrError"]["results"]
        if any(tag["key"] == "dagster/backfill" for tag in run["tags"])
    ]
    assert runs == ["SUCCESS"]
    page.goto(f"/assets/raw/nyc/nyc/flights?view=partitions&partition={BACKFILL[0]}")
    expect(page.get_by_text("Materialized (11)")).to_be_visible()


def failure(place: Place) -> str:
    return (place.folder / "dagster.log").read_text("utf-8", errors="replace")[-4000:]


@pytest.mark.full
def test_the_exact_check_tells_its_evidence_and_how_far_it_is(backfill: str, page: Page) -> None:
    page.goto("/assets/deduped/shop/shop/orders?view=checks")
    page.get_by_text("exact_match", exact=True).first.click()
    expect(page.get_by_role("row", name="evidence").first).to_contain_text(".mirrorlake/evidence")
    expect(page.get_by_role("row", name="proved of this round (%)").first).to_contain_text("100")
