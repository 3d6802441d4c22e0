"""Copies that read keys and hashes first, and then the rows that changed: of one snapshot, whatever
is written meanwhile; and whatever befalls keys, hashes or rows on their way is seen.

MySQL is read and compared by the oracle, which shares no code with the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from demo.oracle import compare_table
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import SourceError
from mirrorlake.ledger import Receipt
from mirrorlake.load.chunks.statements import select_statement
from mirrorlake.load.copies import changed_rows, copies
from mirrorlake.load.row_hashes import delta, row_index
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.proof.sides.server_hashes import HASH
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.reading import route
from mirrorlake.workspace import Workspace
from tests.integration.sources.mysql.test_types import MODES, cases_of, name_of, quoted

ROWS = 600
CONTRACT = {"mode": "full", "key": ["a", "b"], "verify": True}
Sql = Callable[..., Any]


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "SMALL_ROWS", 10)
    monkeypatch.setattr(delta, "LOOKED_AT", 200)
    monkeypatch.setattr(changed_rows, "KEYS_AT_ONCE", 3)
    for name, value in {"NEAR": 4, "WIDE": 64, "PASSED": 16, "READ_AT_ONCE": 16}.items():
        monkeypatch.setattr(row_index, name, value)


def make_table(sql: Sql) -> None:
    sql(
        "CREATE TABLE t (a INT, b VARCHAR(20), v VARCHAR(200), n INT NOT NULL, PRIMARY KEY (a, b)) "
        "CHARACTER SET utf8mb4"
    )
    values = ", ".join(f"({n}, 'k{n % 7}', REPEAT('v{n}', 9), {n})" for n in range(ROWS))
    sql(f"INSERT INTO t VALUES {values}", "ANALYZE TABLE t")


@pytest.fixture
def workspace(engine_for: Callable[..., Workspace], sql: Sql) -> Workspace:
    """A table that was copied once."""
    make_table(sql)
    workspace = engine_for({"t": CONTRACT})
    sync(workspace)
    return workspace


def sync(workspace: Workspace) -> Receipt:
    sync_table(workspace, workspace.config.table("t"), accept_smaller=True)
    found = workspace.ledger.newest_receipt(workspace.config.table("t").name)
    assert found is not None
    return found


def assert_deduped(
    workspace: Workspace, server: EmbeddedServer, database: str, key: tuple[str, ...] = ("a", "b")
) -> None:
    namespaces = workspace.config.table("t").namespaces
    deduped = workspace.lake.load(Identifier(namespaces.deduped, "t"))
    with server.admin() as admin:
        verdict = compare_table(admin, database, "t", key, deduped)
    assert verdict.equal, verdict.describe()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that rows were read by."""
    found: list[str] = []

    def noted(*parts: Any) -> str:
        found.append(select_statement(*parts))
        return found[-1]

    monkeypatch.setattr(changed_rows, "select_statement", noted)
    return found


# --- what is read ---------------------------------------------------------------------------------


def test_few_rows_are_read_by_their_keys(
    workspace: Workspace, sql: Sql, server: EmbeddedServer, database: str, asked: list[str]
) -> None:
    sql(
        "UPDATE t SET n = n + 1 WHERE a IN (0, 299, 300, 599)",
        "INSERT INTO t VALUES (9000, 'K''\\\\ü', NULL, 1), (-1, '', '', 2)",
        "DELETE FROM t WHERE a IN (1, 301)",
        "UPDATE t SET b = 'K5' WHERE a = 5",
    )
    found = sync(workspace)
    assert (found.rows, found.written, found.gone) == (ROWS, 10, 3)
    assert len(asked) == 1 + 3, "keys and hashes, then seven rows, three at once"
    assert "REPEAT" not in asked[0]
    assert all(" WHERE " in statement for statement in asked[1:])
    assert_deduped(workspace, server, database)
    assert sync(workspace).written == 0
    assert len(asked) == 5, "nothing changed, and no row was read"


@pytest.mark.parametrize(
    "changed", [60, *(pytest.param(n, marks=pytest.mark.full) for n in (290, 400)), 600]
)
def test_many_rows_are_read_at_once(
    workspace: Workspace,
    sql: Sql,
    server: EmbeddedServer,
    database: str,
    asked: list[str],
    changed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changed_rows, "BATCH_ROWS", 50)
    sql(f"UPDATE t SET v = 'x' WHERE a >= {ROWS - changed}", "DELETE FROM t WHERE a = 3")
    found = sync(workspace)
    assert len(asked) == 2, "all rows were read once, in the same snapshot"
    assert " WHERE " not in asked[1]
    if 2 * changed < ROWS:
        assert (found.written, found.stands_on > 0) == (changed + 1, True)
    else:
        assert (found.written, found.stands_on, found.source_digest is None) == (None, 0, False)
    assert_deduped(workspace, server, database)
    sql("UPDATE t SET v = 'y' WHERE a = 7")
    assert (found := sync(workspace)).stands_on, "a complete copy has a row index, too"
    assert found.written == 1
    assert_deduped(workspace, server, database)


def test_what_is_written_between_the_statements_is_the_next_copys(
    workspace: Workspace,
    sql: Sql,
    server: EmbeddedServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql("UPDATE t SET n = -1 WHERE a IN (7, 8)")
    honest = changed_rows._Reading._conditions

    def late(self: Any, keys: Any) -> Iterator[str]:
        sql("UPDATE t SET n = -2 WHERE a = 7", "DELETE FROM t WHERE a = 8")
        sql("INSERT INTO t VALUES (-7, '', '', 0)")
        return honest(self, keys)

    with monkeypatch.context() as patch:
        patch.setattr(changed_rows._Reading, "_conditions", late)
        load_table(workspace, workspace.config.table("t"))
    first = workspace.ledger.newest_receipt(workspace.config.table("t").name)
    assert first is not None
    assert (first.rows, first.written, first.stands_on > 0) == (ROWS, 2, True)
    second = sync(workspace)
    assert (second.rows, second.written, second.gone) == (ROWS, 3, 1)
    assert_deduped(workspace, server, database)


def test_another_session_is_refused(
    workspace: Workspace, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of another session would be of another state."""
    sql("UPDATE t SET n = -1 WHERE a = 7")
    monkeypatch.setattr(
        changed_rows,
        "select_statement",
        lambda plan, seen, session: select_statement(
            plan, seen, session + 1 if plan.where else session
        ),
    )
    with pytest.raises(SourceError, match="other settings"):
        sync(workspace)


@pytest.mark.full
@pytest.mark.parametrize("way", ["rate", "near"])
def test_with_a_brake(
    way: str,
    engine_for: Callable[..., Workspace],
    sql: Sql,
    server: EmbeddedServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if way == "near":
        opened = route.open_route
        monkeypatch.setattr(
            "mirrorlake.sources.mysql.reading.reader.open_route",
            lambda *a, **k: opened(*a, **{**k, "near": True}),
        )
    make_table(sql)
    workspace = engine_for({"t": CONTRACT}, {"rows_per_second": 5_000} if way == "rate" else {})
    sync(workspace)
    for changed, written in ((4, 4), (200, 200), (500, None)):
        sql(f"UPDATE t SET n = n + 1 WHERE a >= {ROWS - changed}")
        assert sync(workspace).written == written
        assert_deduped(workspace, server, database)


def test_an_index_of_an_older_release_is_read_no_more(
    engine_for: Callable[..., Workspace],
    sql: Sql,
    server: EmbeddedServer,
    database: str,
    asked: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_table(sql)
    workspace = engine_for({"t": CONTRACT})
    with monkeypatch.context() as patch:
        patch.setattr(copies, "ENTRY_BYTES", 32)
        sync(workspace)
    sql("UPDATE t SET n = -1 WHERE a = 7")
    assert (sync(workspace).stands_on, asked) == (0, []), "a complete copy"
    sql("UPDATE t SET n = -2 WHERE a = 7")
    assert sync(workspace).written == 1
    assert_deduped(workspace, server, database)


# --- faults ---------------------------------------------------------------------------------------


def moved(rows: pa.Table, name: str, by: Callable[[list[Any]], list[Any]]) -> pa.Table:
    """The rows with other values in a column."""
    number = rows.schema.get_field_index(name)
    values = pa.array(by(rows[name].to_pylist()), rows[name].type)
    return rows.set_column(number, rows.field(number), values)


Plant = Callable[[pa.Table], pa.Table]
OF_KEYS: dict[str, Plant] = {
    # Keys and hashes, as they came. The last row but one is one that changed.
    "lost": lambda rows: rows.slice(1),
    "doubled": lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]),
    "one lost, another doubled": lambda rows: pa.concat_tables([rows.slice(1), rows.slice(1, 1)]),
    "the one that changed is lost": lambda rows: pa.concat_tables(
        [rows.slice(0, rows.num_rows - 2), rows.slice(rows.num_rows - 1)]
    ),
    "key": lambda rows: moved(rows, "a", lambda found: [77_777, *found[1:]]),
    "hash": lambda rows: moved(rows, HASH, lambda found: [found[0] ^ 1, *found[1:]]),
    "no hash": lambda rows: moved(rows, HASH, lambda found: [None, *found[1:]]),
    "hash of the one that changed": lambda rows: moved(
        rows, HASH, lambda found: [*found[:-2], found[-2] ^ 1, found[-1]]
    ),
    "two hashes changed places": lambda rows: moved(
        rows, HASH, lambda found: [found[1], found[0], *found[2:]]
    ),
}
OF_ROWS: dict[str, Plant] = {
    # Rows that were read by their keys; as if one had changed between the statements, too.
    "row lost": lambda rows: rows.slice(1),
    "row doubled": lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]),
    "row changed": lambda rows: moved(rows, "n", lambda found: [found[0] + 1, *found[1:]]),
    "row's key changed": lambda rows: moved(rows, "a", lambda found: [4, *found[1:]]),
    "NULL": lambda rows: moved(rows, "v", lambda found: [None, *found[1:]]),
}
HARMLESS = ("doubled", "two hashes changed places")
"""Taken for changes, which are read; and their sum is right."""


@pytest.mark.parametrize(
    "fault",
    [
        f if f in ("hash", "lost", "row changed") else pytest.param(f, marks=pytest.mark.full)
        for f in (*OF_KEYS, *OF_ROWS)
    ],
)
def test_whatever_befalls_them_on_their_way_is_seen(
    workspace: Workspace,
    sql: Sql,
    server: EmbeddedServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
) -> None:
    sql(f"UPDATE t SET n = -1 WHERE a = {ROWS - 2}", "DELETE FROM t WHERE a = 30")
    honest, planted = changed_rows.exact_rows, list[str]()

    def plant(plan: Any, found: pa.Table, position: str) -> pa.Table:
        rows = honest(plan, found, position)
        by = (OF_KEYS if plan.hashes else OF_ROWS).get(fault)
        if by is None or not rows.num_rows:
            return rows
        planted.append(fault)
        return by(rows)

    with monkeypatch.context() as patch:
        patch.setattr(changed_rows, "exact_rows", plant)
        found = sync(workspace)
    assert planted
    assert found.rows == ROWS - 1
    if fault not in HARMLESS:
        assert (found.stands_on, found.written) == (0, None), "a complete copy was made"
    assert_deduped(workspace, server, database)


# --- types ----------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("few", [2, 10**9])
def test_a_change_of_every_type_at_its_boundaries(
    engine_for: Callable[..., Workspace],
    sql: Sql,
    server: EmbeddedServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    few: int,
) -> None:
    """Each value in three rows, one of which becomes the next value of its type."""
    monkeypatch.setattr(delta, "FEW", few)
    monkeypatch.setattr(changed_rows, "KEYS_AT_ONCE", 100)
    cases = cases_of(server)
    names = [quoted(name_of(number, case)) for number, case in enumerate(cases)]
    columns = ", ".join(f"{n} {c.ddl}" for n, c in zip(names, cases, strict=True))
    sql(f"CREATE TABLE t (id INT PRIMARY KEY, {columns}) ROW_FORMAT=DYNAMIC")
    changes: list[str] = []
    for name, case in zip(names, cases, strict=True):
        for place, value in enumerate(case.values):
            first = 4 * len(changes)
            rows = ", ".join(f"({first + n}, {value})" for n in range(3))
            sql(MODES, f"INSERT IGNORE INTO t (id, {name}) VALUES {rows}")
            value = (*case.values, "NULL")[place + 1]
            changes.append(f"UPDATE IGNORE t SET {name} = {value} WHERE id = {first + 1}")
    sql("ANALYZE TABLE t")
    workspace = engine_for({"t": {"mode": "full", "key": ["id"], "verify": True}})
    sync(workspace)
    assert_deduped(workspace, server, database, ("id",))
    sql(MODES, *changes)
    found = sync(workspace)
    assert found.stands_on, "rows that changed were written alone"
    assert 0.9 * len(changes) < (found.written or 0) <= len(changes)
    assert_deduped(workspace, server, database, ("id",))
    with server.admin(database) as admin, admin.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM t")
        assert cursor.fetchone() == (found.rows,)
    before = found.originals
    sql("DELETE FROM t WHERE id % 8 = 2")
    found = sync(workspace)
    assert found.stands_on
    assert 0 < found.originals < before
    load_table(workspace, workspace.config.table("t"), complete=True)
    complete = workspace.ledger.newest_receipt(workspace.config.table("t").name)
    assert complete is not None
    assert complete.original_columns == found.original_columns
