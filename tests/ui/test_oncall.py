"""A damaged table as a person on call meets it: the check goes red, says why, leads to the job that
repairs it, and goes green."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pyarrow as pa
import pytest
from playwright.sync_api import Page, expect

from demo.runs import RunLines
from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.table.lake_tables import deduped_of
from tests.ui.place import Place, ask

CHECKS = "/assets/deduped/shop/shop/customers?view=checks"
Keep = Callable[[Page, str], None]
pytestmark = pytest.mark.timeout(900)


def damage(place: Place) -> tuple[int, int]:
    """A customer is lost in deduped, and another has a country that MySQL has not; their ids."""
    path = place.folder / "mirrorlake.yaml"
    config = load_config(path, environ=place.environment)
    table = Lake(config.lake).load(deduped_of(config.table("customers")))
    assert table is not None
    rows = table.scan().to_arrow().sort_by("modified_at").slice(0, 2)
    lost, altered = rows["id"].to_pylist()
    row = rows.slice(1, 1)
    place_of = row.schema.get_field_index("country")
    field = row.schema.field(place_of)
    wrong = row.set_column(place_of, field, pa.array(["XX"], field.type))
    table.delete(f"id = {lost} or id = {altered}")
    table.append(wrong.cast(table.schema().as_arrow()))
    return lost, altered


def wait_for_run(place: Place, job: str) -> str:
    """How the newest run of a job ended."""
    query = '{ runsOrError(filter: {pipelineName: "%s"}, limit: 1) { ... on Runs { results { status } } } }'
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        runs = ask(place, query % job)["runsOrError"]["results"]
        if runs and runs[0]["status"] in ("SUCCESS", "FAILURE", "CANCELED"):
            return runs[0]["status"]
        time.sleep(1)
    raise AssertionError(f"no run of {job} ended")


@pytest.mark.full
def test_a_damaged_table_is_found_and_repaired_by_pressing(
    place: Place, page: Page, keep: Keep
) -> None:
    lost, altered = damage(place)
    page.set_viewport_size({"width": 1400, "height": 1100})
    page.goto(CHECKS)
    page.get_by_text("exact_match", exact=True).first.click()
    page.get_by_role("button", name="Execute").last.click()
    expect(page.get_by_text("Failed", exact=True).first).to_be_visible(timeout=240_000)
    expect(page.get_by_text("2 rows differ between MySQL and the lake")).to_be_visible()
    link = page.locator("a[href^='/locations/mirrorlake/jobs/repair/']").first
    expect(link).to_be_visible()
    keep(page, "failed-check")
    expect(page.get_by_text(f"id={lost}", exact=True).first).to_be_visible()
    expect(page.get_by_text(f"id={altered}", exact=True).first).to_be_visible()

    # A label, above all else that the verdict shows; its address is on the page nowhere.
    assert link.inner_text() == "Put it right: repair"
    expect(page.get_by_text("playground/setup")).to_have_count(0)
    first = page.get_by_text("compared", exact=True).first.bounding_box()
    top = link.bounding_box()
    assert top is not None
    assert first is not None
    assert top["y"] < first["y"]
    launchpad = page.context.new_page()
    launchpad.set_viewport_size({"width": 1400, "height": 700})
    launchpad.goto(str(link.get_attribute("href")))
    launchpad.wait_for_url("**/jobs/repair/playground")
    expect(launchpad.get_by_text("dry_run")).to_be_visible()
    expect(launchpad.get_by_text("source: shop")).to_be_visible()
    keep(launchpad, "repair-launchpad")
    launchpad.get_by_role("button", name="Launch Run").click()
    assert wait_for_run(place, "repair") == "SUCCESS"
    launchpad.close()

    page.goto(CHECKS)
    page.get_by_text("exact_match", exact=True).first.click()
    expect(page.get_by_text("Passed", exact=True).first).to_be_visible()
    expect(page.get_by_text("Failed", exact=True)).to_have_count(0)
    keep(page, "repaired-check")


@pytest.mark.full
def test_the_demos_terminal_has_a_line_for_each_start_and_end_of_a_run(place: Place) -> None:
    asked = (
        'mutation { launchRun(executionParams: {selector: {repositoryLocationName: "mirrorlake", '
        'repositoryName: "__repository__", jobName: "release"}, runConfigData: '
        '{ops: {release: {config: {source: "nobody"}}}}}) { __typename } }'
    )
    assert ask(place, asked)["launchRun"]["__typename"] == "LaunchRunSuccess"
    assert wait_for_run(place, "release") == "FAILURE"
    told: list[str] = []
    lines = RunLines(place.url, told.append)
    lines.print_changes()
    lines.print_changes()
    begun, ended = [line for line in told if line.split(" run ")[1][:8] in told[-1]]
    assert begun.endswith("starts: job release")
    assert re.search(
        r"FAILED after \d+ s: there is no source 'nobody'\. Sources are: nyc, shop", ended
    )
