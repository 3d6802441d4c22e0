"""Three sources in one location, one of them of 500 tables: what its pages say is what the lake
has."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser, Page, expect

from dagster_mirrorlake.table import LAYERS, MirroredTable
from mirrorlake.config import Config, load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.ledger import Ledger
from mirrorlake.operations.days.partitions import held_partitions, look_at_raw
from tests.ui.conftest import LISTEN, PATIENCE_MS, SIZE
from tests.ui.place import Place, ask, running_place

Keep = Callable[[Page, str], None]
TABLES = 500
pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def place(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with running_place(tmp_path_factory.mktemp("many"), TABLES) as place:
        wait_for_reports(place)
        yield place


@pytest.fixture(scope="module")
def page(browser: Browser, place: Place) -> Iterator[Page]:
    wrong: list[str] = []
    context = browser.new_context(viewport=SIZE, base_url=place.url, timezone_id="UTC")
    context.set_default_timeout(PATIENCE_MS)
    context.expose_function("complain", lambda text: wrong.append(text))
    context.add_init_script(LISTEN)
    page = context.new_page()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    yield page
    context.close()
    assert not wrong, wrong


def config_of(place: Place) -> Config:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TEST_PASSWORD", "MIRRORLAKE_HASH_KEY"):
            patch.setenv(name, place.environment[name])
        return load_config(place.folder / "mirrorlake.yaml")


def wait_for_reports(place: Place) -> None:
    """Until the sensor has reported all that the command line synced."""
    query = """{ sensorsOrError(repositorySelector: {repositoryName: "__repository__",
        repositoryLocationName: "mirrorlake"}) { ... on Sensors { results { name sensorState {
        ticks(limit: 1) { status skipReason } } } } } }"""
    deadline = time.monotonic() + 900
    while True:
        sensors = ask(place, query)["sensorsOrError"]["results"]
        [ticks] = [s["sensorState"]["ticks"] for s in sensors if s["name"] == "partitions"]
        if ticks and "is reported" in str(ticks[0]["skipReason"]):
            return
        assert time.monotonic() < deadline, ticks
        time.sleep(2)


def shown(place: Place, table: MirroredTable, layer: str) -> dict[str, int]:
    """Partition → rows, by what the server says of an asset's materialisations."""
    path = ", ".join(f'"{part}"' for part in table.key(layer).path)  # type: ignore[arg-type]
    query = f"""{{ assetOrError(assetKey: {{path: [{path}]}}) {{ ... on Asset {{
        assetMaterializations {{ partition metadataEntries {{ label
        ... on IntMetadataEntry {{ intValue }} }} }} }} }} }}"""
    found: dict[str, int] = {}
    for one in ask(place, query)["assetOrError"]["assetMaterializations"]:
        values = {m["label"]: m.get("intValue") for m in one["metadataEntries"]}
        name = "dagster/partition_row_count" if layer == "raw" else "row versions folded"
        found.setdefault(one["partition"], int(values[name]))
    return found


def test_every_partition_of_every_table_has_the_lakes_rows(place: Place) -> None:
    config, today = config_of(place), datetime.now(UTC).date()
    lake, ledger = Lake(config.lake), Ledger(config.ledger.url)
    assert len(config.tables) > TABLES
    for contract in config.tables:
        table = MirroredTable(contract)
        held = held_partitions(contract, look_at_raw(lake, ledger, contract, today), today)
        expected = {table.partition_of(partition): held[partition] for partition in held}
        assert expected
        for layer in LAYERS:
            assert shown(place, table, layer) == expected, (contract.name, layer)


def test_the_catalog_lists_them(page: Page, keep: Keep) -> None:
    page.goto("/assets")
    expect(page.get_by_text("many_many__clean").first).to_be_visible()
    expect(page.get_by_role("link", name="clean / many / many / t0").first).to_be_visible()
    expect(page.get_by_text("11 partitions").first).to_be_visible()
    keep(page, "catalog-500")


def test_the_global_lineage_opens_onto_groups(page: Page, keep: Keep) -> None:
    page.goto("/asset-groups")
    for group in ("many_many__raw", "many_many__clean", "shop_shop__clean", "nyc_nyc__raw"):
        expect(page.locator("foreignObject", has_text=group)).to_be_visible()
    keep(page, "groups-500")


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_tables_partitions_are_green(page: Page, keep: Keep, number: int) -> None:
    """Copies, days, hours; the hour that runs is missing if the clock struck since the sync."""
    page.goto(f"/assets/raw/many/many/t{number}?view=partitions")
    expect(page.get_by_text("Materialized (").first).to_be_visible()
    missing = page.get_by_text("Missing (0)")
    expect(missing.or_(page.get_by_text("Missing (1)")) if number == 2 else missing).to_be_visible()
    if number == 2:
        keep(page, "partitions-hours")


def test_the_checks_of_one_of_them_are_listed(page: Page) -> None:
    page.goto("/assets/deduped/many/many/t1?view=checks")
    for name in ("contract", "unique_key", "row_count", "exact_match"):
        expect(page.get_by_text(name, exact=True).first).to_be_visible()


def test_a_backfill_of_missing_offers_nothing(page: Page) -> None:
    page.goto("/assets/raw/many/many/t1")
    page.get_by_role("button", name="Materialize").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Missing", exact=True).click()
    expect(dialog.get_by_text("0 partitions", exact=True)).to_be_visible()
    expect(dialog.get_by_role("button", name="Launch")).to_be_disabled()
