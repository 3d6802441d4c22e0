"""Every row of every demo table, judged by the oracle: after the first copy, and after live changes.

`make demo` has all flights of a year, and judges them as here: so these are in the full run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from demo import nyc
from demo.contract import demo_contract
from demo.oracle import check_clean, compare_table, find_leaks
from demo.oracle_text import read_source
from demo.writer import LiveWriter
from mirrorlake.config import TableContract, load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.operations.loading.results import SyncResult
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.status.status import status_of
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.trial.shop import create_shop
from mirrorlake.workspace import Workspace
from tests.integration.conftest import HASH_KEY, PASSWORD, Place, connected

pytestmark = pytest.mark.full
CHANGES = 800
FEW = 4_000
"""Rows of each real table: five days of flights."""


@dataclass
class Mirrored:
    """The demo after one sync, live changes of the shop, and another sync of it."""

    server: MariaDB
    workspace: Workspace
    writer: LiveWriter
    first: dict[str, SyncResult]
    after_first: dict[str, str]

    def surplus(self, contract: TableContract) -> list[tuple[str, ...]]:
        if contract.source != "shop" or contract.mode in ("full", "binlog"):
            return []
        return sorted(self.writer.journal.surplus[contract.table])


@pytest.fixture(scope="module")
def mirrored(server: MariaDB, place: Place) -> Iterator[Mirrored]:
    patch, read = pytest.MonkeyPatch(), nyc.read_nyc
    patch.setattr(nyc, "read_nyc", lambda table: read(table).slice(0, FEW))
    with server.admin() as admin:
        nyc.load_nyc(admin)
        create_shop(admin, customers=600)
    patch.setenv("MIRRORLAKE_DEMO_PASSWORD", PASSWORD)
    patch.setenv("MIRRORLAKE_HASH_KEY", HASH_KEY)
    path = place.folder / "demo.yaml"
    where = "lake: {warehouse: lake}\nledger: {url: sqlite:///ledger.db}\n"
    contract = demo_contract(server.port).replace("defaults:", "defaults:\n  verify: false", 1)
    path.write_text(contract + where, encoding="utf-8")
    workspace = Workspace.open(load_config(path), spark=place.spark)
    first = {c.name: sync_table(workspace, c) for c in workspace.config.tables}
    after_first = {
        c.name: verdict(server, workspace, c).describe()
        for c in workspace.config.tables
        if not verdict(server, workspace, c).equal
    }
    writer = LiveWriter(server.admin)
    writer.journal.mark()
    writer.run(CHANGES)
    for contract in workspace.config.tables:
        if contract.source == "shop":
            sync_table(workspace, contract)
    yield Mirrored(server, workspace, writer, first, after_first)
    patch.undo()


def verdict(server: MariaDB, workspace: Workspace, contract: TableContract) -> Any:
    table = workspace.lake.load(Identifier(contract.namespaces.deduped, contract.table))
    assert table is not None
    with server.admin() as admin:
        return compare_table(
            admin, contract.database, contract.table, contract.key, table, contract.excluded
        )


def test_the_first_copy_is_exact(mirrored: Mirrored) -> None:
    assert mirrored.after_first == {}
    with mirrored.server.admin("nyc") as admin, admin.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM flights")
        assert cursor.fetchall() == ((mirrored.first["nyc.nyc.flights"].rows,),)


def test_live_changes_arrive_and_deletes_alone_are_surplus(mirrored: Mirrored) -> None:
    assert mirrored.writer.changes == CHANGES
    assert mirrored.writer.late_commits > 0
    assert any(mirrored.writer.journal.surplus.values())
    for contract in mirrored.workspace.config.tables:
        if contract.source != "shop":
            continue  # nothing changed there since it was judged
        found = verdict(mirrored.server, mirrored.workspace, contract)
        assert found.equal_but_for(mirrored.surplus(contract)), found.describe()


def test_every_clean_row_shows_its_masks(mirrored: Mirrored, place: Place) -> None:
    for contract in mirrored.workspace.config.tables:
        if contract.table == "flights":
            continue  # a view without rules, of many rows
        clean = clean_rows(place, contract)
        gone = mirrored.surplus(contract)
        kept = without_keys(clean, contract.key, gone)
        assert clean.num_rows - kept.num_rows == len(gone)
        with connected(mirrored.server, contract.database) as connection:
            source = read_source(connection, contract.database, contract.table, contract.excluded)
        found = check_clean(
            source, contract.key, kept, contract.rules, HASH_KEY.encode(), contract.excluded
        )
        assert found.equal, found.describe()


def clean_rows(place: Place, contract: TableContract) -> pa.Table:
    """All rows of clean: a view's through Spark, a table's through PyIceberg."""
    identifier = Identifier(contract.namespaces.clean, contract.table)
    if contract.clean == "view":
        return place.spark.get().table(identifier.sql).toArrow()
    table = place.lake.load(identifier)
    assert table is not None
    return table.scan().to_arrow()


def without_keys(rows: pa.Table, key: tuple[str, ...], gone: list[tuple[str, ...]]) -> pa.Table:
    columns = [rows[name].to_pylist() for name in key]
    keep = [tuple(str(v) for v in values) not in set(gone) for values in zip(*columns, strict=True)]
    return rows.filter(pa.array(keep, pa.bool_()))


def test_deduped_equals_a_rebuild_from_raw(mirrored: Mirrored) -> None:
    """The rebuild is plain Python over PyIceberg: the last observation of each key, in any
    order."""
    for contract in mirrored.workspace.config.tables:
        if contract.mode == "full" or contract.source == "nyc":
            continue
        version = mirrored.workspace.ledger.schema_versions(contract.name)[-1]
        lake = mirrored.workspace.lake
        raw = lake.load(Identifier(contract.namespaces.raw, version.raw_table))
        deduped = lake.load(Identifier(contract.namespaces.deduped, contract.table))
        assert raw is not None
        assert deduped is not None
        latest: dict[tuple[Any, ...], dict[str, Any]] = {}
        for row in raw.scan().to_arrow().to_pylist():
            key = tuple(row[k] for k in contract.key)
            if key not in latest or _order(row) > _order(latest[key]):
                latest[key] = row
        left = [row for row in latest.values() if not row["_mirror_deleted"]]
        names = [f.name for f in deduped.schema().fields]
        rebuilt = sorted(repr([row[n] for n in names]) for row in left)
        current = deduped.scan().to_arrow().select(names).to_pylist()
        assert sorted(repr([row[n] for n in names]) for row in current) == rebuilt


def _order(row: dict[str, Any]) -> tuple[int, int]:
    return row["_mirror_seq"], row.get("_mirror_event") or 0


def test_metadata_stays_in_raw(mirrored: Mirrored) -> None:
    for contract in mirrored.workspace.config.tables:
        for namespace in (contract.namespaces.deduped, contract.namespaces.clean):
            table = mirrored.workspace.lake.load(Identifier(namespace, contract.table))
            names = [f.name for f in table.schema().fields] if table else []
            meta = {n for n in names if n.startswith("_mirror_")}
            assert meta <= {"_mirror_original"}


def test_card_data_is_nowhere_in_the_lake(mirrored: Mirrored) -> None:
    contract = mirrored.workspace.config.table("payments")
    version = mirrored.workspace.ledger.schema_versions(contract.name)[-1]
    for namespace, name in (
        (contract.namespaces.raw, version.raw_table),
        (contract.namespaces.deduped, contract.table),
    ):
        table = mirrored.workspace.lake.load(Identifier(namespace, name))
        assert table is not None
        assert find_leaks(table, contract.excluded) == ()


def test_a_second_sync_of_an_unchanged_table_changes_no_row(mirrored: Mirrored) -> None:
    contract = mirrored.workspace.config.table("orders")
    identifier = Identifier(contract.namespaces.deduped, contract.table)
    before = mirrored.workspace.lake.load(identifier)
    sync_table(mirrored.workspace, contract)
    after = mirrored.workspace.lake.load(identifier)
    assert before is not None
    assert after is not None
    old, new = before.scan().to_arrow(), after.scan().to_arrow()
    assert pc.sum(old["id"]) == pc.sum(new["id"])
    assert data_files(before) == data_files(after)


def data_files(table: Any) -> set[str]:
    return {task.file.file_path for task in table.scan().plan_files()}


def test_raw_days_are_the_cursors_days(mirrored: Mirrored) -> None:
    contract = mirrored.workspace.config.table("flights")
    version = mirrored.workspace.ledger.schema_versions(contract.name)[-1]
    raw = mirrored.workspace.lake.load(Identifier(contract.namespaces.raw, version.raw_table))
    assert raw is not None
    rows = raw.scan(selected_fields=("time_hour", "_mirror_day")).to_arrow()
    assert pc.all(
        pc.equal(rows["time_hour"].cast(pa.date32(), safe=False), rows["_mirror_day"])
    ).as_py()
    assert len(set(rows["_mirror_day"].to_pylist())) == 5


def test_the_raw_view_holds_every_version(mirrored: Mirrored, place: Place) -> None:
    contract = mirrored.workspace.config.table("orders")
    version = mirrored.workspace.ledger.schema_versions(contract.name)[-1]
    raw = Identifier(contract.namespaces.raw, version.raw_table)
    view = Identifier(contract.namespaces.raw, contract.table)
    spark = place.spark.get()
    assert spark.table(view.sql).count() == spark.table(raw.sql).count()


def test_status_tells_rows_and_freshness(mirrored: Mirrored) -> None:
    status = status_of(
        mirrored.workspace.config,
        mirrored.workspace.ledger,
        [mirrored.workspace.config.table("flights")],
    )[0]
    assert (status.state, status.rows, status.mode) == (
        "success",
        mirrored.first["nyc.nyc.flights"].rows,
        "append",
    )
    assert status.freshness is not None
    assert status.checks.startswith("folded")
