"""Of a table whose rows other hands moved in the lake no day is called proved."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mirrorlake.destinations.iceberg.warehouse.lake_location import place_of
from mirrorlake.ledger.lake.lake_heads import LakeHead
from mirrorlake.operations.status.all_tables import named_tables
from mirrorlake.report.collect import make_report
from mirrorlake.report.figures import ReportedTable
from mirrorlake.schema.versions import schema_version
from tests.support.recorded_mirror import DAY, RecordedMirror, at, windows

TODAY = datetime.now(UTC).date()
INCREMENTAL = {"mode": "incremental", "key": ["id"], "cursor": "modified_at"}


@pytest.mark.parametrize("contract", [INCREMENTAL, {"mode": "full", "key": ["id"]}])
def test_no_day_is_proved_once_deduped_is_gone(tmp_path: Path, contract: dict[str, object]) -> None:
    mirror = RecordedMirror(tmp_path, {"orders": contract})
    name = "shop.shop.orders"
    if contract is INCREMENTAL:
        windows(mirror, name, TODAY - 20 * DAY, TODAY)
        mirror.proof(name, at(TODAY), before=TODAY - DAY)
    else:
        mirror.lease(name)
        mirror.load(name, at(TODAY - DAY), "full")
        mirror.proof(name, at(TODAY - DAY, 7))
    config, ledger = mirror.write()
    (table,) = config.tables
    ledger.claim_lake("one", place_of(config.lake))
    version = schema_version(table.table, [("id", "int")])
    ledger.record_schema_version(name, version)
    raw, deduped = table.namespaces.raw, table.namespaces.deduped
    lake_tables = {raw: version.raw_table, deduped: table.table}
    warehouse = tmp_path / "lake"
    warehouse.mkdir()
    heads = [LakeHead(*one, name, "uuid", 43, 1, f"at/{one[0]}") for one in lake_tables.items()]
    with sqlite3.connect(warehouse / "catalog.db") as catalog:
        catalog.execute(
            "CREATE TABLE iceberg_tables (catalog_name, table_namespace, table_name,"
            " metadata_location, previous_metadata_location, iceberg_type)"
        )
        for space, lake_table in lake_tables.items():
            row = ("lake", space, lake_table, f"at/{space}", None, "TABLE")
            catalog.execute("INSERT INTO iceberg_tables VALUES (?, ?, ?, ?, ?, ?)", row)
    ledger.record_lake_heads(heads)
    ledger.record_counts({name: (f"at/{deduped}", 1000)})

    def reported() -> ReportedTable:
        report = make_report(config, ledger, named_tables(config, ()), days=14, besides=True)
        return report.tables[0]

    before = reported()
    assert before.proof == "proved"
    assert "proved" in {run.state for run in before.days}
    with sqlite3.connect(warehouse / "catalog.db") as catalog:
        catalog.execute("DELETE FROM iceberg_tables WHERE table_namespace = ?", (deduped,))
    after = reported()
    assert after.proof == "unknown"
    assert "proved" not in {run.state for run in after.days}
    (unknown,) = [run for run in after.days if run.state == "unknown"]
    assert "its deduped table" in unknown.words
    assert unknown.words.endswith("is not in the catalog any more")
