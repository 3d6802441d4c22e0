"""A table whose columns changed: rows that MySQL has as deduped holds them are not sent again, and
every other row is read, whatever the DDL did to it.

The server counts the bytes that it sent; the oracle, which shares no code with the engine, compares.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.ledger import Receipt
from mirrorlake.load.protocol import protocol
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.integration.mirrored import assert_equal, rows_of, shown
from tests.soak.runs import Order, Runner

ROOT = Path(__file__).parents[3]
ROWS, CHUNK = 3_000, 500
ROW_BYTES = 60
"""A row of `CREATE` takes about as many on its way, or more."""
CONTRACT: dict[str, Any] = {"mode": "incremental", "key": ["id"], "cursor": "at", "verify": True}
SLOW = {"rows_per_second": 50_000}
CREATE = (
    "CREATE TABLE t (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, name VARCHAR(20), n INT, "
    "price DECIMAL(30,10), born DATE, weight DOUBLE, at DATETIME(6) NOT NULL, KEY (at))"
)


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "CHUNK_ROWS", CHUNK)


@pytest.fixture
def workspace(engine_for: Callable[..., Workspace], sql: Callable[..., Any]) -> Workspace:
    """A table of some chunks, mirrored."""
    make(sql)
    workspace = engine_for({"t": CONTRACT}, SLOW)
    sync_table(workspace, workspace.config.table("t"))
    return workspace


def make(sql: Callable[..., Any], create: str = CREATE) -> None:
    sql(create)
    values = [
        f"({n}, 'n{n}', {n % 7}, {n}.5, '2020-01-0{n % 9 + 1}', {n} / 3, "
        "UTC_TIMESTAMP(6) - INTERVAL 3 DAY)"
        for n in range(1, ROWS + 1)
    ]
    sql(f"INSERT INTO t VALUES {', '.join(values)}", "ANALYZE TABLE t")
    # An ALTER within the second in which a table was made looks as if it had been truncated.
    time.sleep(1)


def receipt_of(workspace: Workspace) -> Receipt:
    found = workspace.ledger.newest_receipt(workspace.config.table("t").name)
    assert found is not None
    return found


def sent_by(server: EmbeddedServer) -> int:
    """Bytes that the server has sent since it started."""
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Bytes_sent'")
        return int(cursor.fetchone()[1])  # type: ignore[index]


DDL = {
    "nullable": "ADD note VARCHAR(9)",
    "default": "ADD note VARCHAR(9) NOT NULL DEFAULT 'x' AFTER name",
    "now": "ADD made DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)",
    "decimal": "ADD tax DECIMAL(30,10) DEFAULT 1.5",
    "dropped": "DROP COLUMN name",
    "longer": "MODIFY name VARCHAR(200)",
    "wider": "MODIFY n BIGINT",
    "several": "ADD a INT, ADD b INT DEFAULT 7, DROP COLUMN n, MODIFY name VARCHAR(30)",
}
OFTEN = ("default",)


@pytest.mark.parametrize(
    "kind", [k if k in OFTEN else pytest.param(k, marks=pytest.mark.full) for k in DDL]
)
def test_rows_that_ddl_left_alone_are_not_sent(
    kind: str,
    workspace: Workspace,
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    contract = workspace.config.table("t")
    sql(f"ALTER TABLE t {DDL[kind]}", "ANALYZE TABLE t")
    before = sent_by(server)
    sync_table(workspace, contract)
    sent = sent_by(server) - before
    assert receipt_of(workspace).carried == receipt_of(workspace).rows == ROWS
    assert sent < ROWS * ROW_BYTES / 2, "rows were sent that MySQL had digested"
    assert_equal(workspace, server, database)
    held = {row["id"]: row for row in shown(workspace, "raw") if row["_mirror_seq"] > 1}
    assert len(held) == ROWS, "the new version has no rows of its own in raw"
    refold_table(workspace, contract)
    assert_equal(workspace, server, database)


@pytest.mark.full
def test_rows_that_changed_without_their_cursor_are_read(
    workspace: Workspace, sql: Callable[..., Any], server: EmbeddedServer, database: str
) -> None:
    """An update that leaves the cursor, a row that is gone, one between others, and one at the
    end; and a value of the new column that is not its default."""
    contract = workspace.config.table("t")
    sql(
        "ALTER TABLE t ADD note VARCHAR(9) DEFAULT 'x'",
        "DELETE FROM t WHERE id = 1700",
        f"UPDATE t SET note = 'y' WHERE id = {ROWS - 1}",
        "INSERT INTO t (id, name, at) VALUES (9000, 'late', UTC_TIMESTAMP(6))",
        "ANALYZE TABLE t",
    )
    sync_table(workspace, contract)
    receipt = receipt_of(workspace)
    assert 0 < receipt.carried <= ROWS - 2 * CHUNK // 2
    assert receipt.rows == ROWS
    assert_equal_but_for(workspace, server, database, gone={1700})


def assert_equal_but_for(
    workspace: Workspace, server: EmbeddedServer, database: str, gone: set[int]
) -> None:
    """Deduped is MySQL's, but for rows whose deletion no window of this mode sees."""
    held = {row["id"]: row for row in rows_of(workspace).to_pylist()}
    assert gone <= held.keys()
    with server.admin(database) as admin, admin.cursor() as cursor:
        cursor.execute("SELECT id, name, n, price, born, weight, at, note FROM t")
        names = [column[0] for column in cursor.description or ()]
        found = {row[0]: dict(zip(names, row, strict=True)) for row in cursor.fetchall()}
    assert held.keys() == found.keys() | gone
    for key, row in found.items():
        assert {name: held[key][name] for name in names} == row


@pytest.mark.full
def test_a_renamed_column_and_another_under_its_old_name(
    workspace: Workspace, sql: Callable[..., Any], server: EmbeddedServer, database: str
) -> None:
    """By its columns alone this is ``ADD first VARCHAR(20)``: the digests tell."""
    sql("ALTER TABLE t CHANGE name first VARCHAR(20), ADD name VARCHAR(20) DEFAULT 'none' AFTER id")
    sync_table(workspace, workspace.config.table("t"))
    assert receipt_of(workspace).carried == 0
    assert_equal(workspace, server, database)


@pytest.mark.full
def test_what_somebody_wrote_into_deduped_is_not_carried_over(
    workspace: Workspace, sql: Callable[..., Any], server: EmbeddedServer, database: str
) -> None:
    contract = workspace.config.table("t")
    name = f"lake.{contract.namespaces.deduped}.t"
    spark = workspace.spark.get()
    spark.sql(f"UPDATE {name} SET name = 'harmed' WHERE id = 10")
    spark.sql(f"DELETE FROM {name} WHERE id = {ROWS - 10}")
    sql("ALTER TABLE t ADD note VARCHAR(9)", "ANALYZE TABLE t")
    sync_table(workspace, contract)
    assert 0 < receipt_of(workspace).carried < ROWS
    assert {row["name"] for row in shown(workspace, "raw") if row["id"] == 10} == {"n10"}
    refold_table(workspace, contract)
    assert_equal(workspace, server, database)


@pytest.mark.full
def test_original_texts_go_along(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    make(sql)
    sql("SET sql_mode = ''", "UPDATE t SET born = '0000-00-00' WHERE id % 100 = 3")
    workspace = engine_for({"t": CONTRACT}, SLOW)
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql("ALTER TABLE t ADD note VARCHAR(9) DEFAULT 'x'", "ANALYZE TABLE t")
    sync_table(workspace, contract)
    assert receipt_of(workspace).carried == ROWS
    assert receipt_of(workspace).original_columns == {"born": ROWS // 100}
    assert_equal(workspace, server, database)


RENAMES = {
    "one": ("CHANGE born birth DATE", {"birth": "born"}, {"birth": 30, "seen": 60}),
    "behind": ("CHANGE born zz DATE", {"zz": "born"}, {"zz": 30, "seen": 60}),
    "dropped": ("DROP COLUMN born, CHANGE seen birth DATE", {"birth": "seen"}, {"birth": 60}),
    "taken": ("DROP COLUMN born, CHANGE seen born DATE", {"born": "seen"}, {"born": 60}),
}
"""A DDL, what the contract says of it, and how many original texts each column then has."""


@pytest.mark.full
@pytest.mark.parametrize(
    "kind", [k if k == "behind" else pytest.param(k, marks=pytest.mark.full) for k in RENAMES]
)
def test_original_texts_go_along_with_a_renamed_column(
    kind: str,
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    make(sql)
    sql(
        "ALTER TABLE t ADD seen DATE AFTER born",
        "UPDATE t SET seen = '2020-01-01', born = IF(id % 100 = 3, '0000-00-00', born)",
        "UPDATE t SET seen = '2020-00-01' WHERE id % 50 = 3",
    )
    workspace = engine_for({"t": CONTRACT}, SLOW)
    sync_table(workspace, workspace.config.table("t"))
    ddl, names, originals = RENAMES[kind]
    sql(f"ALTER TABLE t {ddl}", "ANALYZE TABLE t")
    columns = {now: {"pii": "show", "renamed_from": then} for now, then in names.items()}
    workspace = engine_for({"t": {**CONTRACT, "columns": columns}}, SLOW)
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    assert receipt_of(workspace).carried == ROWS
    assert receipt_of(workspace).original_columns == originals
    assert_equal(workspace, server, database)
    refold_table(workspace, contract)
    assert_equal(workspace, server, database)


@pytest.mark.full
@pytest.mark.parametrize(
    ("create", "key"),
    [
        (CREATE.replace("id BIGINT UNSIGNED", "id VARCHAR(20)"), ["id"]),
        (CREATE.replace("PRIMARY KEY", "").replace("KEY (at)", "PRIMARY KEY (at, id)"), None),
    ],
)
def test_keys_that_the_lake_orders_otherwise_are_read(
    create: str,
    key: list[str] | None,
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    make(sql, create)
    workspace = engine_for({"t": {**CONTRACT, "key": key or ["at", "id"]}}, SLOW)
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql("ALTER TABLE t ADD note VARCHAR(9) DEFAULT 'x'", "ANALYZE TABLE t")
    sync_table(workspace, contract)
    assert receipt_of(workspace).carried == 0
    assert_equal(workspace, server, database)


@pytest.mark.full
def test_a_source_that_may_be_read_fast_is_read(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    make(sql)
    workspace = engine_for({"t": CONTRACT})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql("ALTER TABLE t ADD note VARCHAR(9) DEFAULT 'x'", "ANALYZE TABLE t")
    sync_table(workspace, contract)
    assert receipt_of(workspace).carried == 0


# --- killed on the way ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fork(runner: Runner) -> Callable[[Path, str], int | None]:
    """Run a load in a process that a failpoint kills; its exit code."""

    def order(config: Path, failpoint: str) -> int | None:
        asked = Order(config, "t", failpoint=failpoint, spark=False, rows_per_chunk=CHUNK)
        return runner.run(asked).code

    return order


@pytest.mark.parametrize(
    "failpoint",
    [
        pytest.param("chunks.recorded:3", marks=pytest.mark.full),
        pytest.param("chunk.carried:2", marks=pytest.mark.full),
        pytest.param("commit.before", marks=pytest.mark.full),
    ],
)
def test_a_load_that_died_is_resumed(
    failpoint: str,
    place: Place,
    server: EmbeddedServer,
    database: str,
    sql: Callable[..., Any],
    engine_for: Callable[..., Workspace],
    fork: Callable[[Path, str], int | None],
) -> None:
    make(sql)
    config = place.folder / f"{database}.yaml"
    ledger = {"url": f"sqlite:///{database}.db", "wait": "1s"}
    write_contract(
        config, server.port, {database: {"tables": {"t": CONTRACT}}}, source=SLOW, ledger=ledger
    )
    workspace = Workspace.open(load_config(config), spark=place.spark)
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql("ALTER TABLE t ADD note VARCHAR(9) DEFAULT 'x'", "ANALYZE TABLE t")
    assert fork(config, failpoint) == -signal.SIGKILL
    # What was carried over before the death shows an earlier moment than this change.
    sql("UPDATE t SET note = 'y', at = UTC_TIMESTAMP(6) WHERE id IN (10, 2990)")
    sync_table(workspace, contract)
    assert receipt_of(workspace).rows == ROWS
    sync_table(workspace, contract)
    assert_equal(workspace, server, database)
    seen = [row["id"] for row in shown(workspace, "raw") if row["_mirror_load"] is not None]
    assert set(seen) == set(range(1, ROWS + 1))
    deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, "t"))
    assert deduped is not None
    assert {r["note"] for r in deduped.scan().to_arrow().to_pylist()} == {"x", "y"}
