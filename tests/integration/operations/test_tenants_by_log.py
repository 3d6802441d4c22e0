"""Tenants of `mode: binlog`: each is copied once, and then its server's log says what became of it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from mirrorlake.config import load_config
from mirrorlake.cuts.make import followed_of_cuts
from mirrorlake.errors import ConfigError
from mirrorlake.ledger import Ledger
from mirrorlake.operations.following.followed_tables import followed_tables
from mirrorlake.operations.loading.binlog import log_stream
from mirrorlake.operations.loading.binlog.log_stream import LogStream
from mirrorlake.operations.loading.sync_tables import sync_tables
from mirrorlake.operations.repairing.restore_ledger import rebuild_tables
from mirrorlake.operations.status.log_diagnosis import look_at_log
from mirrorlake.operations.status.status import status_of
from mirrorlake.operations.tenants import follow
from mirrorlake.operations.tenants.checks import check_tenants
from mirrorlake.operations.tenants.detect import REPLACED, detect_tenants
from mirrorlake.operations.tenants.logged_copies import LoggedCopies
from mirrorlake.operations.tenants.read_along import TenantsAlong
from mirrorlake.operations.tenants.results import TenantsSynced
from mirrorlake.operations.tenants.sync import sync_tenants
from mirrorlake.operations.tenants.verdicts import TenantsChecked
from mirrorlake.operations.upkeep.maintain import maintain_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.binlog.log_batches import BatchLimits
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.table.tenants import raw_of
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.tenants import Tenants
from tests.soak.runs import Order, Runner

COLUMNS = "id INT PRIMARY KEY, name VARCHAR(20), at DATETIME(3), amount DECIMAL(10,2)"
NAMES = ("id", "name", "amount")
LOG: dict[str, Any] = {"key": ["id"], "mode": "binlog"}


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


@pytest.fixture
def tenants(server: EmbeddedServer, place: Place) -> Iterator[Tenants]:
    made = Tenants(server, place, f"t{uuid.uuid4().hex[:8]}", contract={**LOG})
    yield made
    made.close()


def rows(*numbers: int) -> list[str]:
    return [f"({n}, 'n{n}', '2026-01-0{n % 9 + 1} 12:00:00.001', {n}.25)" for n in numbers]


def check(tenants: Tenants, *databases: str) -> TenantsChecked:
    with tenants.opened() as (workspace, table):
        return check_tenants(workspace, table, frozenset(databases))


def verdicts(found: TenantsChecked) -> dict[str, str]:
    return {one.database.rpartition("_")[2]: one.verdict for one in found.verdicts}


def kinds(tenants: Tenants) -> list[str]:
    with tenants.opened() as (workspace, table):
        return [one.window.kind for one in workspace.ledger.successful_loads(table.name)]


def assert_mirrored(tenants: Tenants, *columns: str) -> None:
    """Deduped is what MySQL has, by two roads: value by value, and by the check."""
    names = columns or NAMES
    expected = {name: found for name, found in tenants.mysql(*names).items() if found}
    assert tenants.deduped(*names) == expected
    found = check(tenants)
    assert found.verdict == "equal", [(v.database, v.verdict, v.words) for v in found.verdicts]


def assert_as_rebuilt(tenants: Tenants) -> None:
    """Deduped is what all of raw makes when it is folded as a whole."""
    before = tenants.rows().sort_by([("_mirror_database", "ascending"), ("id", "ascending")])
    with tenants.opened() as (workspace, table):
        name = f"tenants {deduped_of(table)}"
        made = json.loads(workspace.ledger.definition(name) or "")
        # As if somebody else had written to it.
        workspace.ledger.record_definition(name, json.dumps({**made, "heads": [1]}))
    tenants.sync()
    after = tenants.rows().sort_by([("_mirror_database", "ascending"), ("id", "ascending")])
    assert before.to_pylist() == after.to_pylist()


def replaced(done: TenantsSynced) -> dict[str, str]:
    return {name.rpartition("_")[2]: words for name, words in done.replaced.items()}


# --- rows ----------------------------------------------------------------------------------------


def test_each_change_of_each_tenant_arrives(tenants: Tenants) -> None:
    for tenant in "abc":
        tenants.make(tenant, COLUMNS, *rows(1, 2, 3))
    done = tenants.sync()
    assert (done.read, done.joined, done.rows) == (3, tuple(f"s.{n}" for n in tenants.made), 9)
    assert_mirrored(tenants)
    tenants.run(
        "a",
        "UPDATE orders SET name = 'x' WHERE id = 1",
        "DELETE FROM orders WHERE id = 2",
        "UPDATE orders SET id = 10 WHERE id = 3",
    )
    tenants.run(
        "b",
        "INSERT INTO orders VALUES (4, 'é', NULL, NULL)",
        "REPLACE INTO orders VALUES (1, 'y', 0, 1)",
    )
    done = tenants.sync()
    assert (done.read, done.unchanged, done.failed, done.folded) == (2, 1, {}, 2)
    assert kinds(tenants) == ["full", "log"]
    assert_mirrored(tenants)
    idle = tenants.sync()
    assert (idle.read, idle.unchanged, idle.rows, idle.folded) == (0, 3, 0, 0)
    tenants.run("a", "DELETE FROM orders")
    tenants.run(
        "b", "INSERT INTO orders VALUES (1, 'z', NULL, 0) ON DUPLICATE KEY UPDATE amount = 7"
    )
    assert tenants.sync().folded == 2
    assert_mirrored(tenants)
    assert_as_rebuilt(tenants)


def test_raw_has_what_the_log_says_of_each_row(tenants: Tenants) -> None:
    tenants.make("a", COLUMNS, *rows(1))
    tenants.sync()
    tenants.run(
        "a", "INSERT INTO orders VALUES (2, 'b', NULL, 1)", "UPDATE orders SET id = 3 WHERE id = 2"
    )
    tenants.sync()
    with tenants.opened() as (workspace, table):
        [version] = workspace.ledger.schema_versions(table.name)
        raw = workspace.lake.load(raw_of(table, version.raw_table))
        assert raw is not None
        found = [one for one in raw.scan().to_arrow().to_pylist() if one["_mirror_op"]]
    found.sort(key=lambda one: one["_mirror_event"])
    assert [(one["id"], one["_mirror_op"], one["_mirror_deleted"]) for one in found] == [
        (2, "insert", False),
        (2, "delete", True),
        (3, "update", False),
    ]
    assert {one["_mirror_database"] for one in found} == {tenants.name("a")}
    assert all(one["_mirror_position"] and one["_mirror_committed_at"] for one in found)
    assert len(tenants.shown("raw")) == 4


@pytest.mark.full
def test_small_batches_and_transactions_over_several_tenants(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [tenants.make(tenant, COLUMNS, *rows(1, 2)) for tenant in "abc"]
    tenants.sync()
    monkeypatch.setattr(log_stream, "LIMITS", BatchLimits(rows=3))
    statements = ["SET autocommit = 0"]
    for number in range(3, 9):
        statements += [f"INSERT INTO `{n}`.orders VALUES {rows(number)[0]}" for n in names]
        statements += [f"UPDATE `{names[number % 3]}`.orders SET amount = amount + 1"]
        statements += ["COMMIT"] if number % 2 else []
    tenants.sql(*statements, "COMMIT")
    done = tenants.sync()
    assert done.read == 3
    assert kinds(tenants).count("log") > 2
    assert_mirrored(tenants)
    assert_as_rebuilt(tenants)


def test_tenants_of_several_shapes_and_types(tenants: Tenants) -> None:
    tenants.make("a", COLUMNS, *rows(1, 2))
    tenants.make("b", f"{COLUMNS}, note TEXT", *[f"{row[:-1]}, 'n')" for row in rows(1, 2)])
    tenants.make("c", COLUMNS.replace("INT PRIMARY", "BIGINT PRIMARY"), *rows(1, 2))
    tenants.sync()
    for tenant in "abc":
        tenants.run(
            tenant,
            "UPDATE orders SET at = '0000-00-00' WHERE id = 1",
            "DELETE FROM orders WHERE id = 2",
        )
    done = tenants.sync()
    assert (done.read, done.failed) == (3, {})
    assert kinds(tenants) == ["full"] * 3 + ["log"] * 3
    assert_mirrored(tenants)
    originals = {
        tuple(map(tuple, (o.values() for o in row["_mirror_original"]))) for row in tenants.shown()
    }
    assert originals == {(("at", "0000-00-00 00:00:00.000"),)}
    assert_as_rebuilt(tenants)


# --- tenants come and go -------------------------------------------------------------------------


def test_a_tenant_joins_beside_those_that_are_followed(tenants: Tenants) -> None:
    tenants.make("a", COLUMNS, *rows(1))
    tenants.sync()
    tenants.run("a", "INSERT INTO orders VALUES (2, 'b', NULL, 1)")
    tenants.make("b", COLUMNS, *rows(1, 2))
    tenants.run("b", "DELETE FROM orders WHERE id = 1")
    done = tenants.sync()
    assert (done.read, len(done.joined)) == (2, 1)
    assert kinds(tenants) == ["full", "log", "full"]
    assert_mirrored(tenants)
    tenants.run("b", "INSERT INTO orders VALUES (5, 'v', NULL, 5)")
    assert tenants.sync().read == 1
    assert_mirrored(tenants)


@pytest.mark.parametrize("dropped", [pytest.param("keep", marks=pytest.mark.full), "remove"])
def test_a_tenant_that_is_gone(tenants: Tenants, dropped: str) -> None:
    tenants.group = {"dropped": dropped}
    for tenant in "abc":
        tenants.make(tenant, COLUMNS, *rows(1, 2))
    tenants.sync()
    tenants.run("a", "DELETE FROM orders WHERE id = 1")
    tenants.drop("a")
    tenants.run("b", "DELETE FROM orders WHERE id = 1")
    done = tenants.sync()
    assert len(done.gone) == 1
    left = {name: len(found) for name, found in tenants.deduped("id").items()}
    kept = {tenants.name("a"): 2} if dropped == "keep" else {}
    assert left == {tenants.name("b"): 1, tenants.name("c"): 2} | kept
    # One of its name is another, whatever its log said before.
    tenants.make("a", COLUMNS, *rows(7))
    assert tenants.sync().read == 1
    assert_mirrored(tenants)


ALTERED = {
    "altered": ("ALTER TABLE orders ADD COLUMN note INT NULL",),
    "truncated": ("TRUNCATE orders",),
    "made again": ("DROP TABLE orders", f"CREATE TABLE orders ({COLUMNS})"),
    "renamed": (
        f"CREATE TABLE other ({COLUMNS})",
        "INSERT INTO other VALUES (9, 'o', NULL, 9)",
        "RENAME TABLE orders TO old, other TO orders",
    ),
    "indexed": ("CREATE INDEX by_name ON orders (name)",),
}


@pytest.mark.parametrize(
    "how",
    ["altered", *(pytest.param(h, marks=pytest.mark.full) for h in ALTERED if h != "altered")],
)
def test_a_tenant_that_is_altered_is_copied_again_alone(tenants: Tenants, how: str) -> None:
    for tenant in "abc":
        tenants.make(tenant, COLUMNS, *rows(1, 2))
    tenants.sync()
    tenants.run("a", "DELETE FROM orders WHERE id = 1", *ALTERED[how])
    tenants.run("a", "INSERT INTO orders (id, name) VALUES (20, 'after')")
    tenants.run("b", "INSERT INTO orders VALUES (3, 'c', NULL, 1)")
    done = tenants.sync()
    assert (done.read, done.unchanged, done.failed) == (2, 1, {}), done
    assert set(replaced(done)) == {"a"}, done.replaced
    assert kinds(tenants) == ["full", "log", "full"]
    assert_mirrored(tenants)
    tenants.run("a", "DELETE FROM orders WHERE id = 20")
    assert kinds(tenants) == ["full", "log", "full"]
    tenants.sync()
    assert kinds(tenants)[3:] == ["log"]
    assert_mirrored(tenants)


@pytest.mark.full
def test_statements_about_other_databases_read_nothing_again(tenants: Tenants) -> None:
    for tenant in "ab":
        tenants.make(tenant, COLUMNS, *rows(1, 2))
    tenants.sync()
    a, b = tenants.name("a"), tenants.name("b")
    tenants.make("c", COLUMNS)
    tenants.run("c", "DROP TABLE orders", f"CREATE TABLE orders LIKE `{a}`.orders")
    tenants.sql(f"ALTER TABLE `{b}`.orders ADD COLUMN x INT", database=a)
    tenants.sql("CREATE TABLE orders_of_nobody (id INT)", database=a)
    done = tenants.sync()
    assert set(replaced(done)) == {"b"}
    assert_mirrored(tenants)


# --- what can't be followed -----------------------------------------------------------------------


def test_tenants_that_no_log_tells_of_are_refused_by_name(tenants: Tenants) -> None:
    for tenant in "abc":
        tenants.make(tenant, COLUMNS, *rows(1))
    tenants.run("b", "ALTER TABLE orders ENGINE = MyISAM")
    tenants.run(
        "c",
        "CREATE TABLE shops (id INT PRIMARY KEY)",
        "INSERT INTO shops VALUES (1)",
        "ALTER TABLE orders ADD FOREIGN KEY (id) REFERENCES shops (id) ON DELETE CASCADE",
    )
    done = tenants.sync()
    assert done.read == 1
    why = {name.rpartition("_")[2]: words for name, words in done.failed.items()}
    assert set(why) == {"b", "c"}
    assert "it is a table of MyISAM" in why["b"]
    assert "CASCADE" in why["c"]
    assert all("`mode: full`" in words for words in why.values())
    # They are followed as soon as they can be; the other one was not read again.
    tenants.run("b", "ALTER TABLE orders ENGINE = InnoDB")
    tenants.run("c", "ALTER TABLE orders DROP FOREIGN KEY orders_ibfk_1")
    tenants.run("a", "DELETE FROM orders")
    done = tenants.sync()
    assert (done.read, done.failed) == (3, {})
    assert kinds(tenants) == ["full", "log", "full"]
    assert_mirrored(tenants)


def test_a_key_is_needed(tenants: Tenants) -> None:
    tenants.contract.pop("key")
    with pytest.raises(ConfigError, match="follow the log by their key"):
        tenants.config()


def test_a_purged_log_has_all_tenants_copied_again(tenants: Tenants) -> None:
    for tenant in "ab":
        tenants.make(tenant, COLUMNS, *rows(1, 2))
    tenants.sync()
    tenants.run("a", "DELETE FROM orders WHERE id = 1")
    tenants.sql("FLUSH BINARY LOGS")
    newest = tenants.sql("SHOW BINARY LOGS")[-1][0]
    deadline = time.monotonic() + 20
    while len(tenants.sql("SHOW BINARY LOGS")) > 1:
        # A file that a closed reader's thread still has open stays.
        tenants.sql(f"PURGE BINARY LOGS TO '{newest}'")
        assert time.monotonic() < deadline
        time.sleep(0.2)
    done = tenants.sync()
    assert (done.read, done.failed) == (2, {})
    assert all("purged" in words for words in done.replaced.values()), done.replaced
    assert set(replaced(done)) == {"a", "b"}
    assert_mirrored(tenants)


def test_rows_that_were_logged_otherwise_have_their_tenants_copied_again(tenants: Tenants) -> None:
    for tenant in "ab":
        tenants.make(tenant, COLUMNS, *rows(1, 2))
    tenants.sync()
    tenants.run("a", "SET binlog_row_image = MINIMAL", "UPDATE orders SET name = 'x' WHERE id = 1")
    tenants.run("b", "UPDATE orders SET name = 'y' WHERE id = 1")
    done = tenants.sync()
    assert (set(replaced(done)), done.read, done.failed) == ({"a"}, 2, {})
    assert kinds(tenants) == ["full", "log", "full"]
    assert_mirrored(tenants)


def test_a_key_of_other_columns(tenants: Tenants) -> None:
    tenants.make(
        "a",
        COLUMNS.replace("id INT", "n INT NOT NULL UNIQUE, id INT"),
        "(1, 1, 'a', NULL, 1), (2, 2, 'b', NULL, 1)",
    )
    tenants.sync()
    tenants.run("a", "UPDATE orders SET n = 7 WHERE id = 1")
    tenants.contract["key"] = ["n"]
    done = tenants.sync()
    assert set(replaced(done)) == {"a"}
    tenants.run("a", "UPDATE orders SET n = 8 WHERE id = 1", "UPDATE orders SET id = 9 WHERE n = 2")
    tenants.sync()
    assert_mirrored(tenants, "n", "id", "name")


def test_from_copies_to_the_log_and_back(tenants: Tenants) -> None:
    tenants.contract["mode"] = "full"
    for tenant in "ab":
        tenants.make(tenant, COLUMNS, *rows(1, 2))
    tenants.sync()
    tenants.contract["mode"] = "binlog"
    assert tenants.sync().read == 2
    tenants.run("a", "DELETE FROM orders WHERE id = 1")
    assert tenants.sync().read == 1
    assert_mirrored(tenants)
    tenants.contract["mode"] = "full"
    tenants.run("b", "DELETE FROM orders WHERE id = 2")
    assert tenants.sync().read == 2
    assert_mirrored(tenants)
    assert kinds(tenants) == ["full", "full", "log", "full"]


# --- other tables of the source ------------------------------------------------------------------


def test_a_log_is_read_once_for_plain_tables_and_tenants(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tables of tenants and a plain one: one reading brings all of them to the log's end."""
    plain = f"{tenants.prefix}plain"
    tenants.sql(
        f"CREATE DATABASE `{plain}`", f"CREATE TABLE `{plain}`.t (id INT PRIMARY KEY, v INT)"
    )
    tables = {"orders": {**LOG}, "items": {**LOG}}
    tenants.file = {}
    for tenant in "ab":
        tenants.make(tenant, COLUMNS, *rows(1, 2))
        tenants.make(tenant, COLUMNS, *rows(1), table="items")
    path = tenants.write()
    text = yaml.safe_load(path.read_text("utf-8"))
    text["sources"]["s"]["databases"] = {plain: {"tables": {"t": {**LOG}}}}
    text["tenants"][tenants.prefix]["tables"] = tables
    path.write_text(yaml.safe_dump(text), "utf-8")
    config = load_config(path, environ=tenants.environment)
    starts: list[int] = []
    opened = LogStream._opened

    def count(stream: Any, start: Any, **terms: Any) -> Any:
        starts.append(len(stream._tables()))
        return opened(stream, start, **terms)

    monkeypatch.setattr(LogStream, "_opened", count)
    try:
        with Workspace.open(config, spark=tenants.place.spark) as workspace:
            _sync_together(workspace)
            tenants.sql(f"INSERT INTO `{plain}`.t VALUES (1, 1)")
            tenants.run(
                "a", "DELETE FROM orders WHERE id = 1", "INSERT INTO items VALUES (5, 'x', NULL, 5)"
            )
            tenants.run("b", "UPDATE items SET amount = 9")
            starts.clear()
            results = _sync_together(workspace)
            assert starts == [5]
            assert [(one.read, one.unchanged, one.folded) for one in results] == [
                (2, 0, 2),
                (1, 1, 1),
            ]
            for table in config.tenants:
                found = workspace.lake.load(deduped_of(table))
                assert found is not None
                for database in tenants.made:
                    ours = found.scan(f"_mirror_database = '{database}'").to_arrow().to_pylist()
                    theirs = tenants.sql(
                        f"SELECT id, name, amount FROM `{database}`.`{table.table}`"
                    )
                    assert sorted((r["id"], r["name"], r["amount"]) for r in ours) == sorted(theirs)
                assert check_tenants(workspace, table).verdict == "equal"
    finally:
        tenants.sql(f"DROP DATABASE `{plain}`")


def _sync_together(workspace: Workspace) -> list[TenantsSynced]:
    """What `mirrorlake sync` does; of tenants their results."""
    config = workspace.config
    along = TenantsAlong(config.tenants)
    for one in sync_tables(workspace, config.tables, along=along.of(workspace)):
        assert one.error is None, one.error
    along.read_rest(workspace)
    return [
        sync_tenants(workspace, table, followed=along.followed.get(table.name))
        for table in config.tenants
    ]


# --- what was lost --------------------------------------------------------------------------------


@pytest.mark.full
def test_a_lost_ledger_has_all_tenants_copied_again(tenants: Tenants) -> None:
    file = tenants.place.folder / f"{tenants.prefix}.ledger.db"
    tenants.ledger = f"sqlite:///{file.name}"
    for tenant in "ab":
        tenants.make(tenant, COLUMNS, *rows(1, 2, 3))
    tenants.sync()
    tenants.run("a", "DELETE FROM orders WHERE id = 1", "UPDATE orders SET name = 'x'")
    tenants.sync()
    tenants.run("a", "DELETE FROM orders WHERE id = 2")
    file.unlink()
    config = tenants.config()
    rebuild_tables(config, Ledger(config.ledger.url), config.tables)
    done = tenants.sync()
    assert (done.read, done.failed) == (2, {})
    assert_mirrored(tenants)
    tenants.run("b", "DELETE FROM orders WHERE id = 2")
    assert tenants.sync().read == 1
    assert_mirrored(tenants)


def test_raw_that_lost_changes_has_their_tenants_copied_again(tenants: Tenants) -> None:
    for tenant in "ab":
        tenants.make(tenant, COLUMNS, *rows(1, 2))
    tenants.sync()
    with tenants.opened() as (workspace, table):
        [version] = workspace.ledger.schema_versions(table.name)
        raw = raw_of(table, version.raw_table)
        head = workspace.lake.head(raw)
    tenants.run("a", "DELETE FROM orders WHERE id = 1")
    tenants.sync()
    with tenants.opened() as (workspace, table):
        found = workspace.lake.load(raw)
        assert found is not None
        with found.manage_snapshots() as change:
            change.set_current_snapshot(head)
    done = tenants.sync()
    assert done.put_right
    assert_mirrored(tenants)


@pytest.mark.full
def test_maintenance_keeps_what_a_log_says_since_the_copy(tenants: Tenants) -> None:
    for tenant in "ab":
        tenants.make(tenant, COLUMNS, *rows(1, 2))
    tenants.sync()
    for number in range(3, 6):
        tenants.run("a", f"INSERT INTO orders VALUES {rows(number)[0]}")
        tenants.sync()
    tenants.sync(again=True, databases=frozenset({tenants.name("b")}))
    tenants.run("b", "DELETE FROM orders WHERE id = 1")
    tenants.sync()
    with tenants.opened() as (workspace, table):
        assert not [one for one in maintain_table(workspace, table) if one.error]
    assert_mirrored(tenants)
    assert_as_rebuilt(tenants)
    tenants.sync(again=True)
    with tenants.opened() as (workspace, table):
        assert not [one for one in maintain_table(workspace, table) if one.error]
        [version] = workspace.ledger.schema_versions(table.name)
        found = workspace.lake.load(raw_of(table, version.raw_table))
        assert found is not None
        assert set(found.scan().to_arrow()["_mirror_op"].to_pylist()) == {None}
    assert_mirrored(tenants)


# --- checks ---------------------------------------------------------------------------------------


def test_checks_say_what_they_compared(tenants: Tenants) -> None:
    for tenant in "abc":
        tenants.make(tenant, COLUMNS, *rows(1, 2))
    tenants.sync()
    tenants.run("a", "UPDATE orders SET name = 'moved' WHERE id = 1")
    assert verdicts(check(tenants)) == {"a": "undecided", "b": "equal", "c": "equal"}
    tenants.sync()
    assert verdicts(check(tenants)) == {"a": "equal", "b": "equal", "c": "equal"}
    # Not in the log: nothing follows it, and the check finds it, though others write.
    tenants.run("b", "SET sql_log_bin = 0", "UPDATE orders SET name = 'hidden' WHERE id = 1")
    tenants.run("c", "UPDATE orders SET name = 'seen' WHERE id = 1")
    found = check(tenants)
    assert verdicts(found) == {"a": "equal", "b": "different", "c": "undecided"}
    tenants.sync()
    assert verdicts(check(tenants)) == {"a": "equal", "b": "different", "c": "equal"}
    assert tenants.sync(again=True, databases=frozenset({tenants.name("b")})).read == 1
    assert_mirrored(tenants)
    with tenants.opened() as (workspace, table):
        spark, name = workspace.spark.get(), tenants.name("a")
        deduped = deduped_of(table).sql
        spark.sql(f"UPDATE {deduped} SET amount = 0 WHERE id = 1 AND _mirror_database = '{name}'")
    assert verdicts(check(tenants)) == {"a": "different", "b": "equal", "c": "equal"}
    tenants.sync()
    assert_mirrored(tenants)


# --- what others say of it ------------------------------------------------------------------------


@pytest.mark.full
def test_what_is_due_and_what_its_state_is(tenants: Tenants) -> None:
    for tenant in "ab":
        tenants.make(tenant, COLUMNS, *rows(1, 2))
    tenants.sync()
    time.sleep(3.2)  # what a server shows says then whether a table changed
    tenants.sync()
    with tenants.opened() as (workspace, table):
        assert detect_tenants(workspace, table, None).due == {}
        tenants.run("a", "DELETE FROM orders WHERE id = 1")
        tenants.run("b", "TRUNCATE orders")
        due = detect_tenants(workspace, table, None).due
        assert {name.rpartition("_")[2]: why for (_, name), why in due.items()} == {
            "a": "moved",
            "b": REPLACED,
        }
        check_tenants(workspace, table)
        (status,) = status_of(workspace.config, workspace.ledger, [table])
        assert (status.state, status.rows) == ("mirrored", 4)
    tenants.sync(accept_smaller=True)
    assert check(tenants).verdict == "equal"
    with tenants.opened() as (workspace, table):
        (status,) = status_of(workspace.config, workspace.ledger, [table])
        assert (status.state, status.rows) == ("mirrored", 1)
        assert status.proved is not None
        assert status.proved.loads_since == 0
    tenants.run("a", "INSERT INTO orders VALUES (9, 'n', NULL, 1)")
    tenants.sync()
    with tenants.opened() as (workspace, table):
        (status,) = status_of(workspace.config, workspace.ledger, [table])
        assert status.proved is not None
        assert status.proved.loads_since == 1
        found = look_at_log(workspace.config, workspace.config.sources["s"])
        assert found
        assert all(one.optional or one.state == "ok" for one in found), found
        assert [*followed_tables(workspace.config, "s").tenants] == [table]
        with pytest.raises(ConfigError, match="only tables of tenants follow its log"):
            followed_of_cuts(workspace.config, "s")
    tenants.run("a", "DELETE FROM orders")
    assert tenants.sync().read == 1
    assert_mirrored(tenants)


# --- deaths ---------------------------------------------------------------------------------------

FOLLOWING = [
    *("tenants.log_due", "ledger.created", "ledger.pending", "chunk.written", "commit.before"),
    *("commit.after", "ledger.success", "tenants.log_loaded", "log.progress", "tenants.log_ended"),
    *("tenants.before_fold", "tenants.branched", "tenants.staged", "tenants.marked"),
    *("tenants.folded", "tenants.recorded"),
]
COPYING = [
    *("tenants.created", "tenants.pending", "tenants.written", "tenants.before_commit"),
    *("tenants.committed", "tenants.success", "tenants.log_ended:2"),
]


def killed(tenants: Tenants, runner: Runner, step: str) -> None:
    run = runner.run(Order(tenants.write(), "orders", "tenants", failpoint=step))
    assert run.code == -9, (step, run.code, run.error)


def change(tenants: Tenants, number: int, *, log_goes_on: bool = False) -> None:
    """Something in each tenant; and in one what its log can't tell."""
    for tenant in "ab":
        tenants.run(
            tenant,
            f"INSERT INTO orders VALUES ({100 + number}, 'i{number}', NULL, 1)",
            f"UPDATE orders SET amount = {number}, name = 'u{number}' WHERE id IN (2, {99 + number})",
            f"DELETE FROM orders WHERE id = {98 + number}",
        )
    if not log_goes_on:
        tenants.run("b", "TRUNCATE orders", f"INSERT INTO orders VALUES {rows(1)[0]}")


SOME = ["ledger.pending", "commit.after", "log.progress", "tenants.staged", "tenants.folded"]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(SOME, id="some"),
        *(
            pytest.param(steps, marks=pytest.mark.full, id=name)
            for name, steps in {
                "load": FOLLOWING[:8],
                "fold": FOLLOWING[8:],
                "copy": COPYING,
            }.items()
        ),
    ],
)
def test_runs_that_are_killed_between_any_two_steps(
    steps: list[str], tenants: Tenants, runner: Runner
) -> None:
    for tenant in "abc":
        tenants.make(tenant, COLUMNS, *rows(1, 2))
    tenants.sync()
    for number, step in enumerate(steps):
        copying = steps is COPYING
        change(tenants, number, log_goes_on=not copying)
        killed(tenants, runner, step)
        if number % 2:  # what comes then is loaded behind what was, or is not doubled
            change(tenants, number + 50, log_goes_on=True)
        assert tenants.sync().failed == {}, step
        names = {name: found for name, found in tenants.mysql(*NAMES).items() if found}
        assert tenants.deduped(*NAMES) == names, step
    assert_mirrored(tenants)
    assert_as_rebuilt(tenants)


class _Died(BaseException):
    """As a process that is killed: nothing follows."""


@pytest.mark.parametrize("dies", [pytest.param(False, marks=pytest.mark.full), True])
def test_changes_that_come_while_tenants_are_copied(
    dies: bool, tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is behind them in the end; a run that dies before that shows nothing of them."""
    for tenant in "ab":
        tenants.make(tenant, COLUMNS, *rows(1, 2, 3))
    tenants.sync()
    tenants.run("a", "TRUNCATE orders", f"INSERT INTO orders VALUES {', '.join(rows(4, 5, 6))}")
    tenants.make("c", COLUMNS, *rows(1, 2))
    before = tenants.deduped(*NAMES)
    end, point = LoggedCopies.end, follow.failpoint

    def later(copies: LoggedCopies, made: Any) -> Any:
        tenants.run(
            "a", "DELETE FROM orders WHERE id = 4", "UPDATE orders SET id = 40 WHERE id = 5"
        )
        tenants.run("b", "UPDATE orders SET name = 'later' WHERE id = 1")
        tenants.run("c", "UPDATE orders SET name = 'later' WHERE id = 1")
        return end(copies, made)

    passed: list[str] = []

    def die(name: str) -> None:
        passed.append(name)
        if len(passed) == 2 and dies:
            raise _Died
        point(name)

    with monkeypatch.context() as patch:
        patch.setattr(LoggedCopies, "end", later)
        patch.setattr(follow, "failpoint", die)
        if dies:
            with pytest.raises(_Died):
                tenants.sync()
            assert tenants.deduped(*NAMES) == before
        else:
            done = tenants.sync()
            assert (done.read, done.failed, set(replaced(done))) == (3, {}, {"a"})
    assert tenants.sync().failed == {}
    assert_mirrored(tenants)
    assert_as_rebuilt(tenants)
