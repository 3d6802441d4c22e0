"""Loads that are proved before they are visible: published if every row is as MySQL said, kept on a
branch and never shown if not; whatever changes in MySQL meanwhile.

Faults are planted in the way of the rows, between the server's answer and the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from demo.oracle import compare_table
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.branches import list_branches
from mirrorlake.destinations.iceberg.commits.commit import LOAD_ID
from mirrorlake.errors import CommitConflict, NotProved
from mirrorlake.load.chunks import select_rows
from mirrorlake.load.protocol import protocol, verify
from mirrorlake.operations.loading.resolve import resolve_table
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.operations.repairing.recover import recover_table
from mirrorlake.operations.upkeep.orphans import OrphanTerms, remove_orphans
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.reading import reader
from mirrorlake.sources.mysql.reading.route import Route
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.workspace import Workspace
from tests.integration.conftest import lake_rows

TABLES: dict[str, dict[str, Any]] = {
    "copies": {"mode": "full", "key": ["id"], "verify": True},
    "firsts": {"mode": "append", "key": ["id"], "cursor": "id", "verify": True},
    "plain": {"mode": "full", "verify": True},
}
COLUMNS = "v VARCHAR(20), d DOUBLE, z DATETIME, n DECIMAL(20,3), b BLOB"
ROWS = "(NULL, -0e0, '0000-00-00', NULL, ''), ('', 0, '2024-05-01', 1.5, x'00ff'), ('a ', 1e300, NULL, 0, NULL)"


@pytest.fixture
def workspace(engine_for: Callable[..., Workspace], sql: Callable[..., Any]) -> Workspace:
    for table in ("copies", "firsts"):
        sql(f"CREATE TABLE {table} (id INT AUTO_INCREMENT PRIMARY KEY, {COLUMNS})")
    sql(f"CREATE TABLE plain ({COLUMNS})")
    for table in TABLES:
        sql(f"INSERT INTO {table} (v, d, z, n, b) VALUES {ROWS}")
    return engine_for(TABLES)


def raw(workspace: Workspace, table: str) -> Identifier:
    contract = workspace.config.table(table)
    with session(workspace.config.sources["s"], contract.database) as connection:
        return resolve_table(workspace, contract, connection).raw


def assert_exact(workspace: Workspace, server: EmbeddedServer, database: str, table: str) -> None:
    contract = workspace.config.table(table)
    deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, table))
    with server.admin() as admin:
        verdict = compare_table(admin, database, table, contract.key, deduped)
    assert verdict.equal, verdict.describe()


def test_copies_and_first_loads_are_proved_and_published(
    workspace: Workspace, sql: Callable[..., Any], server: EmbeddedServer, database: str
) -> None:
    for table in TABLES:
        sync_table(workspace, workspace.config.table(table))
        sql(f"INSERT INTO {table} (v) VALUES ('late'), (NULL)", f"DELETE FROM {table} WHERE v = ''")
        sync_table(workspace, workspace.config.table(table))
        if table != "firsts":  # a window brings no deletes
            assert_exact(workspace, server, database, table)
        name = workspace.config.table(table).name
        for load in workspace.ledger.successful_loads(name):
            assert load.receipt is not None
            assert load.receipt.source_digest is not None
        assert set(list_branches(workspace.lake, raw(workspace, table))) == {"main"}


def test_an_empty_table_and_one_that_became_empty(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    sql("CREATE TABLE e (id INT PRIMARY KEY, v TEXT)")
    workspace = engine_for({"e": {"mode": "full", "key": ["id"], "verify": True}})
    contract = workspace.config.table("e")
    sync_table(workspace, contract)
    sql("INSERT INTO e VALUES (1, 'a')")
    sync_table(workspace, contract)
    assert_exact(workspace, server, database, "e")
    sql("DELETE FROM e")
    sync_table(workspace, contract, accept_smaller=True)
    assert_exact(workspace, server, database, "e")


def test_a_key_of_doubles_beside_dates_that_are_none(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    """Rows with originals are compared by Spark, which sums up no number of chance."""
    sql(
        "CREATE TABLE p (k DOUBLE PRIMARY KEY, d DATE, at TIMESTAMP(6) NOT NULL"
        " DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (at))",
        "INSERT INTO p (k, d) VALUES (1.5, '0000-00-00'), (-2e300, NULL)",
    )
    table = {"mode": "incremental", "key": ["k"], "cursor": "at", "verify": True}
    workspace = engine_for({"p": table})
    sync_table(workspace, workspace.config.table("p"))
    assert_exact(workspace, server, database, "p")


def lose(rows: pa.Table) -> pa.Table:
    return rows.slice(1)


def double(rows: pa.Table) -> pa.Table:
    return pa.concat_tables([rows, rows.slice(0, 1)])


def alter(column: str, values: list[Any]) -> Callable[[pa.Table], pa.Table]:
    def altered(rows: pa.Table) -> pa.Table:
        number = rows.schema.get_field_index(column)
        return rows.set_column(number, rows.field(number), pa.array(values, rows[column].type))

    return altered


FAULTS: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "a lost row": (lose, "missing"),
    "a doubled row": (double, "second row"),
    "-0.0": (alter("d", [0.0, 0.0, 1e300]), "`d` does not match"),
    "NULL for ''": (alter("v", [None, None, "a "]), "`v` does not match"),
    "a trailing space": (alter("v", [None, "", "a"]), "`v` does not match"),
    "empty bytes": (alter("b", [None, b"\0\xff", None]), "`b` does not match"),
}


@pytest.mark.parametrize(
    "faults", [["a lost row", "NULL for ''"], pytest.param(list(FAULTS), marks=pytest.mark.full)]
)
def test_what_is_not_as_mysql_said_is_never_shown(
    faults: list[str],
    workspace: Workspace,
    server: EmbeddedServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    contract, name = workspace.config.table("copies"), raw(workspace, "copies")
    sync_table(workspace, contract)
    before = lake_rows(workspace, name.namespace, name.name)
    honest, branches = select_rows.exact_rows, set[str]()
    for plant, words in (FAULTS[fault] for fault in faults):
        with monkeypatch.context() as patch:
            patch.setattr(
                select_rows, "exact_rows", lambda *told, plant=plant: plant(honest(*told))
            )
            with pytest.raises(NotProved) as caught:
                load_table(workspace, contract)
        error = caught.value
        branches.add(error.branch)
        assert any(words in line for line in error.differences), error.differences
        assert error.branch in str(error)
        assert "'a '" not in str(error)  # no values where they are logged
        assert not error.retryable
        failed = workspace.ledger.last_load(contract.name)
        assert failed is not None
        assert failed.state == "errored"
        assert lake_rows(workspace, name.namespace, name.name) == before
    heads = list_branches(workspace.lake, name)
    assert set(heads) == {"main", *branches}
    assert len(branches) == len(faults)
    # The next copy is as it must be; the branches can still be looked at, with their files.
    sync_table(workspace, contract)
    assert_exact(workspace, server, database, "copies")
    recover_table(workspace, contract, timedelta(hours=1))
    table = workspace.lake.load(name)
    assert table is not None
    kept = table.scan(snapshot_id=heads[error.branch]).to_arrow()
    assert failed.load_id in kept["_mirror_load"].to_pylist()
    recover_table(workspace, contract, timedelta(0))
    assert set(list_branches(workspace.lake, name)) == {"main"}
    assert_exact(workspace, server, database, "copies")


def test_a_first_load_of_which_every_row_is_lost(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = workspace.config.table("firsts")
    monkeypatch.setattr(select_rows, "gathered", lambda batches: iter(list(batches)[:0]))
    with pytest.raises(NotProved, match="3 rows in MySQL and 0 in the lake"):
        sync_table(workspace, contract)
    table = workspace.lake.load(raw(workspace, "firsts"))
    assert table is not None
    assert table.current_snapshot() is None


def test_the_digest_is_of_the_very_state_that_is_read(
    workspace: Workspace,
    sql: Callable[..., Any],
    database: str,
    server: EmbeddedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows change before they are read, and before the server counts them: neither may see it, or
    both must."""
    contract = workspace.config.table("copies")
    opened, ask = reader.open_route, Route.ask
    done = list[str]()

    @contextmanager
    def disturbed(*args: Any, **options: Any) -> Iterator[Any]:
        with opened(*args, **options) as route:
            if route.session is not None:
                sql("UPDATE copies SET v = 'moved'", "DELETE FROM copies LIMIT 1")
                done.append("read")
            yield route

    def counted(route: Route, *args: Any) -> Any:
        sql("DELETE FROM copies LIMIT 1", "UPDATE copies SET id = id + 100")
        done.append("counted")
        return ask(route, *args)

    with monkeypatch.context() as patch:
        patch.setattr(reader, "open_route", disturbed)
        patch.setattr(Route, "ask", counted)
        sync_table(workspace, contract)
    assert done == ["read", "counted"]
    assert len(lake_rows(workspace, contract.namespaces.deduped, "copies")) == 3
    sync_table(workspace, contract)
    assert_exact(workspace, server, database, "copies")


@pytest.mark.full
def test_main_that_moved_without_a_load_is_built_upon_anew(
    workspace: Workspace, server: EmbeddedServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = workspace.config.table("copies")
    sync_table(workspace, contract)
    honest, proved = verify._prove, list[int]()

    def moving(attempt: Any, unseen: Any, branch: str, **more: Any) -> None:
        honest(attempt, unseen, branch, **more)
        proved.append(unseen.snapshot)
        table = workspace.lake.load(raw(workspace, "copies"))
        assert table is not None
        if len(proved) == 1:
            table.append(table.scan().to_arrow().slice(0, 0), {"moved-by": "maintenance"})

    monkeypatch.setattr(verify, "_prove", moving)
    sync_table(workspace, contract)
    assert len(proved) == 2
    assert set(list_branches(workspace.lake, raw(workspace, "copies"))) == {"main"}
    assert_exact(workspace, server, database, "copies")


def test_main_that_another_load_moved_is_a_conflict(
    workspace: Workspace, server: EmbeddedServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = workspace.config.table("copies")
    sync_table(workspace, contract)
    honest = verify._prove

    def moving(*told: Any, **more: Any) -> None:
        honest(*told, **more)
        table = workspace.lake.load(raw(workspace, "copies"))
        assert table is not None
        table.append(table.scan().to_arrow().slice(0, 0), {LOAD_ID: "of another run"})

    with monkeypatch.context() as patch:
        patch.setattr(verify, "_prove", moving)
        with pytest.raises(CommitConflict):
            load_table(workspace, contract)
    assert set(list_branches(workspace.lake, raw(workspace, "copies"))) == {"main"}


@pytest.mark.full
def test_a_load_of_several_chunks_names_the_one_that_differs(
    workspace: Workspace, sql: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("INSERT INTO firsts (v) SELECT seq FROM seq_1_to_400")
    monkeypatch.setattr(protocol, "ROWS_PER_CHUNK", 100)
    honest = select_rows.exact_rows

    def plant(plan: Any, *rest: Any) -> pa.Table:
        rows = honest(plan, *rest)
        return lose(rows) if plan.number == 1 else rows

    contract = workspace.config.table("firsts")
    with monkeypatch.context() as patch:
        patch.setattr(select_rows, "exact_rows", plant)
        with pytest.raises(NotProved, match="1 of its chunks differ") as caught:
            sync_table(workspace, contract)
    assert len(caught.value.differences) == 1
    sync_table(workspace, contract)
    [load] = workspace.ledger.successful_loads(contract.name)
    assert load.receipt is not None
    assert load.receipt.rows == 403
    assert load.receipt.moments is not None


# --- small loads, which are proved as they are staged -------------------------------------------


@pytest.fixture
def tidy(engine_for: Callable[..., Workspace], sql: Callable[..., Any]) -> Workspace:
    sql("CREATE TABLE tidy (id INT PRIMARY KEY, v VARCHAR(20))")
    sql("INSERT INTO tidy VALUES (1, 'a'), (2, NULL), (3, '')")
    return engine_for({"tidy": {"mode": "full", "key": ["id"], "verify": True}})


def leftovers(workspace: Workspace, table: str) -> list[int]:
    """Sizes of files that no snapshot of raw names."""
    found = workspace.lake.load(raw(workspace, table))
    assert found is not None
    return remove_orphans(
        workspace.lake, found, OrphanTerms(datetime.now(UTC) + timedelta(hours=1))
    )


def test_a_small_load_takes_one_commit(
    tidy: Workspace, sql: Callable[..., Any], server: EmbeddedServer, database: str
) -> None:
    for number in (1, 2):
        sync_table(tidy, tidy.config.table("tidy"))
        assert_exact(tidy, server, database, "tidy")
        table = tidy.lake.load(raw(tidy, "tidy"))
        assert table is not None
        # The table as it was made, and one file of metadata for each load.
        assert len(table.metadata.metadata_log) == len(table.snapshots()) == number
        assert set(list_branches(tidy.lake, raw(tidy, "tidy"))) == {"main"}
        sql("UPDATE tidy SET v = 'b' WHERE id = 1", "DELETE FROM tidy WHERE id = 3")
    assert leftovers(tidy, "tidy") == []


@pytest.mark.full
def test_what_was_staged_and_needs_a_branch_leaves_nothing_behind(
    workspace: Workspace, server: EmbeddedServer, database: str
) -> None:
    """Rows with originals are Spark's to compare."""
    sync_table(workspace, workspace.config.table("copies"))
    assert_exact(workspace, server, database, "copies")
    assert leftovers(workspace, "copies") == []


def test_a_small_load_that_is_not_as_mysql_said_is_never_shown(
    tidy: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract, name = tidy.config.table("tidy"), raw(tidy, "tidy")
    sync_table(tidy, contract)
    before = lake_rows(tidy, name.namespace, name.name)
    honest, plant = select_rows.exact_rows, double
    monkeypatch.setattr(select_rows, "exact_rows", lambda *told: plant(honest(*told)))
    with pytest.raises(NotProved) as caught:
        load_table(tidy, contract)
    assert lake_rows(tidy, name.namespace, name.name) == before
    assert set(list_branches(tidy.lake, name)) == {"main", caught.value.branch}


@pytest.mark.parametrize("mover", ["maintenance", "load"])
def test_main_that_moves_while_a_small_load_is_staged(
    tidy: Workspace,
    server: EmbeddedServer,
    database: str,
    mover: str,
    sql: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody's commit is lost, and none is rebased: what maintenance moved is built upon again,
    what another load moved is a conflict."""
    contract, honest = tidy.config.table("tidy"), verify.publish_staged
    sync_table(tidy, contract)
    sql("DELETE FROM tidy WHERE id = 2")
    moved = {LOAD_ID: "of another run"} if mover == "load" else {"moved-by": mover}

    def moving(lake: Any, staged: Any) -> int:
        table = tidy.lake.load(raw(tidy, "tidy"))
        assert table is not None
        table.append(table.scan().to_arrow().slice(0, 0), moved)
        return honest(lake, staged)

    monkeypatch.setattr(verify, "publish_staged", moving)
    if mover == "load":
        with pytest.raises(CommitConflict):
            load_table(tidy, contract)
    else:
        sync_table(tidy, contract)
        assert_exact(tidy, server, database, "tidy")
    table = tidy.lake.load(raw(tidy, "tidy"))
    assert table is not None
    assert any(
        set(moved.items()) <= set(s.summary.additional_properties.items())
        for s in table.snapshots()
    )
    assert set(list_branches(tidy.lake, raw(tidy, "tidy"))) == {"main"}
