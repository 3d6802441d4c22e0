"""Reloads: past days are read again, small windows give way, and no key loses its newest state."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from demo.oracle import compare_table
from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import ConfigError, LakeError, SourceError
from mirrorlake.load.reloads import reload
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, reload_days, sync_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.workspace import Workspace

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
TODAY = datetime.now(UTC).date()
DAY = TODAY - timedelta(days=2)
"""The day that is reloaded: live windows of these tests reach back over it."""
REACH = {"overlap": "5d", "overlap_keys": 0, "verify": True}


def at(clock: str, day: date = DAY) -> str:
    return f"'{day} {clock}'"


def deduped_of(workspace: Workspace, contract: TableContract) -> Any:
    table = workspace.lake.load(Identifier(contract.namespaces.deduped, contract.table))
    assert table is not None
    return table


def assert_equal(server: MariaDB, workspace: Workspace, table: str) -> None:
    contract = workspace.config.table(table)
    with server.admin() as admin:
        verdict = compare_table(
            admin, contract.database, table, contract.key, deduped_of(workspace, contract)
        )
    assert verdict.equal, verdict.describe()


def raw_rows(workspace: Workspace, table: str, day: date | None = DAY) -> list[dict[str, Any]]:
    contract = workspace.config.table(table)
    version = workspace.ledger.schema_versions(contract.name)[-1]
    raw = workspace.lake.load(Identifier(contract.namespaces.raw, version.raw_table))
    assert raw is not None
    rows = raw.scan().to_arrow().to_pylist()
    return [r for r in rows if day is None or r["_mirror_day"] == day]


ORDERS = {"mode": "incremental", "key": ["id"], "cursor": "modified_at", **REACH}
ORDERS_SQL = """CREATE TABLE orders (id INT PRIMARY KEY, v VARCHAR(20),
    modified_at DATETIME(6) NOT NULL, KEY (modified_at))"""


@pytest.fixture
def orders(sql: Sql, engine_for: EngineFor) -> tuple[Workspace, TableContract]:
    """Six rows of the day, read by two live windows: row 2 in two versions."""
    sql(
        ORDERS_SQL, f"INSERT INTO orders VALUES (0, 'old', {at('01:00', DAY - timedelta(days=30))})"
    )
    workspace = engine_for({"orders": ORDERS})
    contract = workspace.config.table("orders")
    sync_table(workspace, contract)
    sql(*(f"INSERT INTO orders VALUES ({n}, 'first', {at(f'0{n}:00')})" for n in range(1, 7)))
    sync_table(workspace, contract)
    sql(f"UPDATE orders SET v = 'second', modified_at = {at('12:00')} WHERE id = 2")
    sync_table(workspace, contract)
    return workspace, contract


def move_on(sql: Sql) -> None:
    """What small windows have not seen: 3 left the day forwards, 5 backwards, 4 is gone, 7 came late."""
    sql(
        f"UPDATE orders SET v = 'later', modified_at = {at('00:30', TODAY)} WHERE id = 3",
        "DELETE FROM orders WHERE id = 4",
        f"UPDATE orders SET v = 'back', modified_at = {at('23:00', DAY - timedelta(days=20))} WHERE id = 5",
        f"INSERT INTO orders VALUES (7, 'late', {at('07:00')})",
    )


def test_a_reload_replaces_small_windows_and_looks_up_what_moved_on(
    orders: tuple[Workspace, TableContract], sql: Sql, server: MariaDB
) -> None:
    workspace, contract = orders
    assert len(raw_rows(workspace, "orders")) == 6 + 6
    move_on(sql)
    result = reload_days(workspace, contract, DAY, DAY)
    assert (result.window, result.looked_up, result.gone) == ("reload", 2, 1)
    assert result.replaced == 2
    receipt = workspace.ledger.newest_receipt(contract.name)
    assert receipt is not None
    assert receipt.all_proved  # what was looked up by its key, and beside tombstones, as well
    kept = raw_rows(workspace, "orders")
    assert sorted((r["id"], r["v"], r["_mirror_deleted"]) for r in kept) == [
        (1, "first", False),
        (2, "second", False),
        (4, None, True),
        (6, "first", False),
        (7, "late", False),
    ]
    assert fold_table(workspace, contract) == 1
    assert_equal(server, workspace, "orders")


def test_a_tombstone_that_the_storage_gives_back_as_another_is_never_shown(
    orders: tuple[Workspace, TableContract], sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, contract = orders
    before = raw_rows(workspace, "orders")
    move_on(sql)
    honest = reload.write_files

    def other_key(*told: Any) -> Any:
        *place, rows, schema = told
        ids = pa.array([2], rows.schema.field("id").type)
        return honest(*place, rows.set_column(0, rows.schema.field("id"), ids), schema)

    with monkeypatch.context() as patch:
        patch.setattr(reload, "write_files", other_key)
        with pytest.raises(LakeError, match="gives back other tombstones") as caught:
            reload_days(workspace, contract, DAY, DAY)
    assert caught.value.retryable
    assert raw_rows(workspace, "orders") == before
    assert reload_days(workspace, contract, DAY, DAY).gone == 1


@pytest.mark.full
def test_a_reload_before_any_fold_of_what_it_replaces(
    sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    """The replaced loads were never folded: what they alone held must not be missed."""
    sql(ORDERS_SQL)
    workspace = engine_for({"orders": ORDERS})
    contract = workspace.config.table("orders")
    sync_table(workspace, contract)
    sql(*(f"INSERT INTO orders VALUES ({n}, 'first', {at(f'0{n}:00')})" for n in range(1, 7)))
    load_table(workspace, contract)
    move_on(sql)
    reload_days(workspace, contract, DAY, DAY)
    fold_table(workspace, contract)
    assert_equal(server, workspace, "orders")


@pytest.mark.full
def test_a_second_reload_only_adds(
    orders: tuple[Workspace, TableContract], sql: Sql, server: MariaDB
) -> None:
    workspace, contract = orders
    reload_days(workspace, contract, DAY, DAY)
    before = raw_rows(workspace, "orders")
    sql("DELETE FROM orders WHERE id = 6", "UPDATE orders SET v = 'third' WHERE id = 1")
    again = reload_days(workspace, contract, DAY, DAY)
    assert (again.replaced, again.gone) == (0, 0)
    after = raw_rows(workspace, "orders")
    assert [r for r in before if r not in after] == []
    assert any(r["id"] == 6 for r in after)


def test_an_initial_load_of_an_ended_day_is_never_destroyed(
    sql: Sql, engine_for: EngineFor
) -> None:
    sql(ORDERS_SQL, f"INSERT INTO orders VALUES (1, 'kept', {at('01:00')})")
    workspace = engine_for({"orders": ORDERS})
    contract = workspace.config.table("orders")
    sync_table(workspace, contract)
    sql("DELETE FROM orders")
    result = reload_days(workspace, contract, DAY, DAY)
    assert (result.rows, result.replaced) == (0, 0)
    assert [r["v"] for r in raw_rows(workspace, "orders")] == ["kept"]


@pytest.mark.full
def test_many_days_are_one_commit(orders: tuple[Workspace, TableContract], server: MariaDB) -> None:
    workspace, contract = orders
    raw = Identifier(
        contract.namespaces.raw, workspace.ledger.schema_versions(contract.name)[-1].raw_table
    )
    before = len(workspace.lake.load(raw).snapshots())  # type: ignore[union-attr]
    reload_days(workspace, contract, DAY - timedelta(days=40), TODAY)
    assert len(workspace.lake.load(raw).snapshots()) == before + 1  # type: ignore[union-attr]
    fold_table(workspace, contract)
    assert_equal(server, workspace, "orders")


@pytest.mark.full
def test_the_next_live_window_is_not_moved_by_a_reload(
    orders: tuple[Workspace, TableContract], sql: Sql, server: MariaDB
) -> None:
    workspace, contract = orders
    last = workspace.ledger.last_load(contract.name, "success", moving=True)
    reload_days(workspace, contract, DAY, DAY)
    assert workspace.ledger.last_load(contract.name, "success", moving=True) == last
    sql("UPDATE orders SET v = 'x', modified_at = UTC_TIMESTAMP(6) WHERE id = 1")
    sync_table(workspace, contract)
    assert_equal(server, workspace, "orders")


@pytest.mark.full
def test_a_table_that_was_never_loaded_is_loaded_first(
    sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    sql(ORDERS_SQL, f"INSERT INTO orders VALUES (1, 'a', {at('01:00')})")
    workspace = engine_for({"orders": ORDERS})
    contract = workspace.config.table("orders")
    assert reload_days(workspace, contract, DAY, DAY).window == "initial"
    fold_table(workspace, contract)
    assert_equal(server, workspace, "orders")


@pytest.mark.full
@pytest.mark.parametrize(
    ("columns", "key", "values", "moved"),
    [
        ("k VARCHAR(9) COLLATE utf8mb4_general_ci", ["k"], ["'a'", "'b'", "'ß '"], "k = UPPER(k)"),
        pytest.param(
            "k BINARY(4)",
            ["k"],
            ["x'00ff2700'", "x'5c000000'", "x'00000000'"],
            "modified_at = modified_at",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "k DECIMAL(30,12), l DATETIME(3)",
            ["k", "l"],
            ["-0.5, '2020-02-29 23:59:59.999'", "1e17, '1000-01-01'", "0, '9999-12-31'"],
            "modified_at = modified_at",
            marks=pytest.mark.full,
        ),
        (
            "k TIMESTAMP(6) DEFAULT 0, l ENUM('x','y''z'), m TIME",
            ["k", "l", "m"],
            [
                "'2026-10-25 00:30:00.000001', 'x', '-838:59:59'",
                "'1970-01-01 00:00:01', 'y''z', '00:00:00'",
                "'2038-01-19 03:14:07', 'x', '100:00:00'",
            ],
            "modified_at = modified_at",
        ),
        pytest.param(
            "k VARCHAR(9) CHARACTER SET latin1, l BIGINT UNSIGNED, m YEAR",
            ["k", "l", "m"],
            ["'é€', 18446744073709551615, 2155", "'\\\\', 0, 0", "'''', 1, 1999"],
            "modified_at = modified_at",
            marks=pytest.mark.full,
        ),
    ],
)
def test_keys_of_every_kind_are_looked_up(
    sql: Sql,
    engine_for: EngineFor,
    server: MariaDB,
    columns: str,
    key: list[str],
    values: list[str],
    moved: str,
) -> None:
    sql(
        f"CREATE TABLE t ({columns}, v INT, modified_at DATETIME(6) NOT NULL, "
        f"PRIMARY KEY ({', '.join(key)}), KEY (modified_at))"
    )
    workspace = engine_for({"t": {**ORDERS, "key": key}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    first, second, third = values
    sql(*(f"INSERT INTO t VALUES ({v}, 1, {at('01:00')})" for v in values))
    sync_table(workspace, contract)
    names = ", ".join(key)
    sql(
        f"UPDATE t SET v = 2, {moved}, modified_at = {at('05:00', TODAY)} WHERE ({names}) = ({first})",
        f"DELETE FROM t WHERE ({names}) = ({second})",
        f"UPDATE t SET v = 3, {moved} WHERE ({names}) = ({third})",
    )
    result = reload_days(workspace, contract, DAY, DAY)
    assert (result.looked_up, result.gone) == (1, 1)
    fold_table(workspace, contract)
    assert_equal(server, workspace, "t")


@pytest.mark.full
def test_a_key_that_has_no_place_keeps_its_small_window(
    sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    """Zero and half dates in the key can't be looked up: their file stays; each is a key still."""
    sql(
        "CREATE TABLE t (k INT, l DATE, v INT, modified_at DATETIME(6) NOT NULL, "
        "PRIMARY KEY (k, l), KEY (modified_at))"
    )
    workspace = engine_for({"t": {**ORDERS, "key": ["k", "l"]}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    dates = ("0000-00-00", "2020-00-00", "2020-01-00", "2020-01-01")
    sql(*(f"INSERT INTO t VALUES (1, '{d}', 1, {at('01:00')})" for d in dates))
    sync_table(workspace, contract)
    assert_equal(server, workspace, "t")
    sql(f"UPDATE t SET v = 2, modified_at = {at('05:00', TODAY)} WHERE l <> '2020-01-00'")
    assert reload_days(workspace, contract, DAY, DAY).replaced == 0
    sync_table(workspace, contract)
    assert_equal(server, workspace, "t")


@pytest.mark.full
def test_a_collated_key_beside_a_zero_date(
    sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    """Two texts of one key, and two keys that only their zero dates tell apart."""
    sql(
        "CREATE TABLE t (k VARCHAR(9), l DATE, modified_at DATETIME(6) NOT NULL, "
        "PRIMARY KEY (k, l), KEY (modified_at)) COLLATE utf8mb4_general_ci",
        f"INSERT INTO t VALUES ('a', '0000-00-00', {at('01:00')}), ('a', '2020-00-00', {at('01:00')})",
    )
    workspace = engine_for({"t": {**ORDERS, "key": ["k", "l"]}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql(f"UPDATE t SET k = 'A', modified_at = {at('05:00', TODAY)} WHERE l = '2020-00-00'")
    sync_table(workspace, contract)
    assert_equal(server, workspace, "t")


@pytest.mark.full
def test_a_collated_key_that_has_no_place(sql: Sql, engine_for: EngineFor, server: MariaDB) -> None:
    """Half a surrogate can't be looked up, though the server tells its key from others."""
    sql(
        "CREATE TABLE t (k VARCHAR(5) CHARACTER SET ucs2, modified_at DATETIME(6) NOT NULL, "
        "PRIMARY KEY (k), KEY (modified_at))"
    )
    workspace = engine_for({"t": {**ORDERS, "key": ["k"]}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql(*(f"INSERT INTO t VALUES ({k}, {at('01:00')})" for k in ("'a'", "'b'", "x'd800'")))
    sync_table(workspace, contract)
    sql("DELETE FROM t WHERE k = 'b'", f"UPDATE t SET modified_at = {at('05:00', TODAY)}")
    assert reload_days(workspace, contract, DAY, DAY).replaced == 0
    sync_table(workspace, contract)
    assert_equal(server, workspace, "t")


@pytest.mark.full
def test_append_by_key_reloads_the_keys_that_the_day_was_given(
    sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    sql(
        "CREATE TABLE clicks (id BIGINT PRIMARY KEY, v INT)",
        "INSERT INTO clicks VALUES (1,1),(2,1)",
    )
    workspace = engine_for(
        {"clicks": {"mode": "append", "key": ["id"], "cursor": "id", "overlap_keys": 0}}
    )
    contract = workspace.config.table("clicks")
    sync_table(workspace, contract)
    sql("INSERT INTO clicks VALUES (3,1),(4,1)")
    sync_table(workspace, contract)
    sql("UPDATE clicks SET v = 2 WHERE id IN (1, 4)", "DELETE FROM clicks WHERE id = 2")
    result = reload_days(workspace, contract, TODAY, TODAY)
    assert (result.rows, result.gone) == (3 + 1, 1)
    fold_table(workspace, contract)
    assert_equal(server, workspace, "clicks")
    with pytest.raises(ConfigError, match="no load gave"):
        reload_days(workspace, contract, DAY, DAY)


VISITS = {"mode": "append", "cursor": "created_at", **REACH}


def test_without_a_key_days_are_replaced_whole_and_never_shrink(
    sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    sql("CREATE TABLE visits (page VARCHAR(20), created_at DATETIME(6) NOT NULL, KEY (created_at))")
    sql(
        f"INSERT INTO visits VALUES ('/', {at('01:00')}), ('/', {at('01:00')}), ('/a', {at('02:00')})"
    )
    workspace = engine_for({"visits": VISITS})
    contract = workspace.config.table("visits")
    sync_table(workspace, contract)
    sql(f"INSERT INTO visits VALUES ('/late', {at('03:00')})")
    reload_days(workspace, contract, DAY, DAY)
    fold_table(workspace, contract)
    assert_equal(server, workspace, "visits")
    assert len(raw_rows(workspace, "visits")) == 4
    sql("DELETE FROM visits WHERE page = '/late'")
    with pytest.raises(SourceError, match="came back with 3 rows, and the mirror holds 4"):
        reload_days(workspace, contract, DAY, DAY)
    assert len(raw_rows(workspace, "visits")) == 4


@pytest.mark.parametrize(
    ("contract", "days", "words"),
    [
        ({"mode": "full", "key": ["id"]}, (DAY, DAY), "mode full keeps copies"),
        (ORDERS, (TODAY, DAY), "ends before it begins"),
        (ORDERS, (TODAY + timedelta(days=3),) * 2, "is in the future"),
        ({**ORDERS, "start": str(TODAY)}, (DAY, DAY), "before the table's start"),
        (
            {"mode": "append", "key": ["id"], "cursor": "id", "created": "born"},
            (DAY, DAY),
            "no index begins with born",
        ),
    ],
)
def test_days_that_cannot_be_loaded_again(
    sql: Sql, engine_for: EngineFor, contract: dict[str, Any], days: tuple[date, date], words: str
) -> None:
    sql(ORDERS_SQL, "ALTER TABLE orders ADD born DATETIME NOT NULL DEFAULT '2020-01-01'")
    workspace = engine_for({"orders": contract})
    found = workspace.config.table("orders")
    load_table(workspace, found)
    before = workspace.ledger.loads(found.name)
    with pytest.raises(ConfigError, match=words):
        reload_days(workspace, found, *days)
    assert workspace.ledger.loads(found.name) == before


def test_a_failed_lookup_leaves_no_file_and_no_change(
    orders: tuple[Workspace, TableContract], sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, contract = orders
    move_on(sql)
    before = raw_rows(workspace, "orders", None)
    monkeypatch.setattr(reload, "key_condition", lambda *_: "no_such_column = 1")
    with pytest.raises(SourceError):
        reload_days(workspace, contract, DAY, DAY)
    monkeypatch.undo()
    assert raw_rows(workspace, "orders", None) == before
    version = workspace.ledger.schema_versions(contract.name)[-1]
    raw = workspace.lake.load(Identifier(contract.namespaces.raw, version.raw_table))
    assert raw is not None
    failed = [
        load.load_id for load in workspace.ledger.loads(contract.name) if load.state == "errored"
    ]
    assert len(failed) == 1
    folder = Path(raw.location().removeprefix("file://"))
    assert [p for p in folder.rglob("*.parquet") if p.name.startswith(failed[0])] == []
