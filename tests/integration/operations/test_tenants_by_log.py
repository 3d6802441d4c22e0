"""Tenants of `mode: binlog`: each is copied once, and then its server's log says what became of it."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
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
from tests.integration.tenants import Tenants
from tests.soak.runs import Order, Runner

COLUMNS = "id INT PRIMARY KEY, name VARCHAR(20), at DATETIME(3), amount DECIMAL(10,2)"
NAMES = ("id", "name", "amount")
LOG: dict[str, Any] = {"key": ["id"], "mode": "binlog"}


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


@pytest.fixture
def tenants(tenants: Tenants) -> Tenants:
    tenants.contract = {**LOG}
    return tenants


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


def assert_rows(tenants: Tenants, *columns: str) -> None:
    """Deduped is what MySQL has, value by value."""
    names = columns or NAMES
    expected = {name: found for name, found in tenants.mysql(*names).items() if found}
    assert tenants.deduped(*names) == expected


def assert_mirrored(tenants: Tenants) -> None:
    """Deduped is what MySQL has, by two roads: value by value, and by the check."""
    assert_rows(tenants)
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


# --- what becomes of a tenant between two syncs -------------------------------------------------


@dataclass(frozen=True)
class Fate:
    """A tenant, what is written to it between two syncs, and what the second one does.

    Attributes:
        then: statements between the syncs.
        how: ``log`` (its changes alone), ``copied`` (again, as a whole), ``joined`` or ``unchanged``.
        later: statements behind the second sync, which the log alone brings.
        columns: its table's.
        first: statements before the first sync.
        ops: what raw says of the rows that the log brought by the second sync, in order.
    """

    then: tuple[str, ...]
    how: str = "log"
    later: tuple[str, ...] = ("DELETE FROM orders WHERE id = 20",)
    columns: str = COLUMNS
    first: tuple[str, ...] = ()
    ops: tuple[tuple[int, str, bool], ...] = ()


BEHIND = "INSERT INTO orders (id, name) VALUES (20, 'after')"
ZERO = ("UPDATE orders SET at = '0000-00-00' WHERE id = 1", "DELETE FROM orders WHERE id = 2")
FATES = {
    "changed": Fate(
        (
            "UPDATE orders SET name = 'a longer name' WHERE id = 1",
            "DELETE FROM orders WHERE id = 2",
            "INSERT INTO orders VALUES (4, 'b', NULL, 1)",
            "UPDATE orders SET id = 10 WHERE id = 4",
        ),
        later=("DELETE FROM orders",),
        ops=(
            *((1, "update", False), (2, "delete", True)),
            *((4, "insert", False), (4, "delete", True), (10, "update", False)),
        ),
    ),
    "put": Fate(
        (
            "INSERT INTO orders VALUES (4, 'é', NULL, 1)",
            "REPLACE INTO orders VALUES (1, 'y', NULL, 1)",
        ),
        later=("INSERT INTO orders VALUES (1, 'z', NULL, 0) ON DUPLICATE KEY UPDATE amount = 7",),
    ),
    "still": Fate((), "unchanged", later=("INSERT INTO orders VALUES (5, 'v', NULL, 5)",)),
    "zero": Fate(ZERO, later=()),
    "more": Fate(ZERO, columns=f"{COLUMNS}, note TEXT"),
    "wide": Fate(ZERO, columns=COLUMNS.replace("INT PRIMARY", "BIGINT PRIMARY")),
    "altered": Fate(
        ("DELETE FROM orders WHERE id = 1", "ALTER TABLE orders ADD COLUMN more INT NULL", BEHIND),
        "copied",
    ),
    "truncated": Fate(("TRUNCATE orders", BEHIND), "copied"),
    "remade": Fate(("DROP TABLE orders", f"CREATE TABLE orders ({COLUMNS})", BEHIND), "copied"),
    "renamed": Fate(
        (
            f"CREATE TABLE other ({COLUMNS})",
            "INSERT INTO other VALUES (9, 'o', NULL, 9)",
            *("RENAME TABLE orders TO old, other TO orders", BEHIND),
        ),
        "copied",
    ),
    "indexed": Fate(("CREATE INDEX by_name ON orders (name)", BEHIND), "copied"),
    "minimal": Fate(
        ("SET binlog_row_image = MINIMAL", "UPDATE orders SET name = 'x' WHERE id = 1"), "copied"
    ),
    "myisam": Fate(
        ("ALTER TABLE orders ENGINE = InnoDB", BEHIND),
        "joined",
        first=("ALTER TABLE orders ENGINE = MyISAM",),
    ),
    "cascade": Fate(
        ("ALTER TABLE orders DROP FOREIGN KEY orders_ibfk_1",),
        "joined",
        first=(
            *("CREATE TABLE shops (id INT PRIMARY KEY)", "INSERT INTO shops VALUES (1), (2), (3)"),
            "ALTER TABLE orders ADD FOREIGN KEY (id) REFERENCES shops (id) ON DELETE CASCADE",
        ),
    ),
}
REFUSED = {"myisam": "it is a table of MyISAM", "cascade": "CASCADE"}


def short(names: Iterable[str]) -> set[str]:
    return {name.rpartition("_")[2] for name in names}


def named(how: str) -> set[str]:
    return {name for name, fate in FATES.items() if fate.how == how}


def logged(tenants: Tenants) -> dict[str, list[dict[str, Any]]]:
    """What raw has from the log, by tenant and in its order."""
    found: list[dict[str, Any]] = []
    with tenants.opened() as (workspace, table):
        for version in workspace.ledger.schema_versions(table.name):
            raw = workspace.lake.load(raw_of(table, version.raw_table))
            assert raw is not None
            found += raw.scan("_mirror_op IS NOT NULL").to_arrow().to_pylist()
    by_tenant: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(found, key=lambda one: one["_mirror_event"]):
        by_tenant.setdefault(row["_mirror_database"].rpartition("_")[2], []).append(row)
    return by_tenant


def test_each_tenant_goes_its_own_way(tenants: Tenants) -> None:
    """Fourteen tenants and two that come and go: what one's log can't tell has that one copied again,
    and no other read."""
    tenants.group = {"dropped": "remove"}
    for name, fate in FATES.items():
        values = rows(1, 2, 3)
        if "note" in fate.columns:
            values = [f"{row[:-1]}, 'n')" for row in values]
        tenants.make(name, fate.columns, *values)
        tenants.run(name, *fate.first, "DO 1")
    tenants.make("gone", COLUMNS, *rows(1, 2))
    done = tenants.sync()
    assert short(done.failed) == set(REFUSED)
    for name, words in done.failed.items():
        assert REFUSED[name.rpartition("_")[2]] in words
        assert "`mode: full`" in words
    assert (done.read, done.rows) == (len(FATES) + 1 - len(REFUSED), 3 * (len(FATES) - 2) + 2)
    assert Counter(kinds(tenants)) == {"full": 3}, "one load for each shape"

    for name, fate in FATES.items():
        if fate.then:
            tenants.run(name, *fate.then)
    tenants.run("gone", "DELETE FROM orders WHERE id = 1")
    tenants.drop("gone")
    tenants.make("new", COLUMNS, *rows(1, 2))
    tenants.run("new", "DELETE FROM orders WHERE id = 1")
    done = tenants.sync()
    assert (done.failed, done.unchanged, short(done.gone)) == ({}, 1, {"gone"})
    assert set(replaced(done)) == named("copied"), done.replaced
    assert short(done.joined) == {"new", *named("joined")}
    assert done.read == len(FATES)
    assert_rows(tenants)
    found = logged(tenants)
    assert named("log") <= found.keys()
    assert not found.keys() & (named("unchanged") | named("joined"))
    changed = found["changed"]
    ops = [(one["id"], one["_mirror_op"], one["_mirror_deleted"]) for one in changed]
    assert tuple(ops) == FATES["changed"].ops
    assert all(one["_mirror_position"] and one["_mirror_committed_at"] for one in changed)
    originals = {
        (
            row["_mirror_database"].rpartition("_")[2],
            *(tuple(o.values()) for o in row["_mirror_original"]),
        )
        for row in tenants.shown()
        if row["_mirror_original"]
    }
    zero = ("at", "0000-00-00 00:00:00.000")
    assert originals == {(name, zero) for name in ("zero", "more", "wide")}

    before = len(kinds(tenants))
    for name, fate in FATES.items():
        tenants.run(name, *fate.later, "DO 1")
    tenants.run("new", "INSERT INTO orders VALUES (5, 'v', NULL, 5)")
    assert (tenants.sync().failed, set(kinds(tenants)[before:])) == ({}, {"log"})
    # One of its name is another, whatever its log said before.
    tenants.make("gone", COLUMNS, *rows(7))
    assert tenants.sync().read == 1
    assert_mirrored(tenants)
    idle = tenants.sync()
    assert (idle.read, idle.unchanged, idle.rows, idle.folded) == (0, len(FATES) + 2, 0, 0)
    assert_as_rebuilt(tenants)


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


@pytest.mark.full
def test_a_tenant_that_is_gone_stays_until_one_of_its_name_comes(tenants: Tenants) -> None:
    for tenant in "ab":
        tenants.make(tenant, COLUMNS, *rows(1, 2))
    tenants.sync()
    tenants.run("a", "DELETE FROM orders WHERE id = 1")
    tenants.drop("a")
    tenants.run("b", "DELETE FROM orders WHERE id = 1")
    assert len(tenants.sync().gone) == 1
    left = {name: len(found) for name, found in tenants.deduped("id").items()}
    assert left == {tenants.name("a"): 2, tenants.name("b"): 1}
    tenants.make("a", COLUMNS, *rows(7))
    assert tenants.sync().read == 1
    assert_mirrored(tenants)


# --- what can't be followed -----------------------------------------------------------------------


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
    assert_rows(tenants)


@pytest.mark.full
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
    assert_rows(tenants, "n", "id", "name")


@pytest.mark.full
def test_from_copies_to_the_log_and_back(tenants: Tenants) -> None:
    tenants.contract["mode"] = "full"
    for tenant in "ab":
        tenants.make(tenant, COLUMNS, *rows(1, 2))
    tenants.sync()
    tenants.contract["mode"] = "binlog"
    assert tenants.sync().read == 2
    tenants.run("a", "DELETE FROM orders WHERE id = 1")
    assert tenants.sync().read == 1
    assert_rows(tenants)
    tenants.contract["mode"] = "full"
    tenants.run("b", "DELETE FROM orders WHERE id = 2")
    assert tenants.sync().read == 2
    assert_rows(tenants)
    assert kinds(tenants) == ["full", "full", "log", "full"]


# --- other tables of the source ------------------------------------------------------------------


@pytest.mark.full
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


@pytest.mark.full
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
    assert_rows(tenants)


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
    # Not in the log: nothing follows it, and the check finds it, though others write.
    tenants.run("b", "SET sql_log_bin = 0", "UPDATE orders SET name = 'hidden' WHERE id = 1")
    tenants.run("c", "UPDATE orders SET name = 'seen' WHERE id = 1")
    found = check(tenants)
    assert verdicts(found) == {"a": "equal", "b": "different", "c": "undecided"}
    tenants.sync()
    assert verdicts(check(tenants)) == {"a": "equal", "b": "different", "c": "equal"}
    assert tenants.sync(again=True, databases=frozenset({tenants.name("b")})).read == 1
    assert_rows(tenants)
    with tenants.opened() as (workspace, table):
        spark, name = workspace.spark.get(), tenants.name("a")
        deduped = deduped_of(table).sql
        spark.sql(f"UPDATE {deduped} SET amount = 0 WHERE id = 1 AND _mirror_database = '{name}'")
    assert verdicts(check(tenants)) == {"a": "different", "b": "equal", "c": "equal"}
    tenants.sync()
    assert_rows(tenants)


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


SOME = ["commit.after", "log.progress", "tenants.folded"]


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


@pytest.mark.full
@pytest.mark.parametrize("dies", [False, True])
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
    assert_rows(tenants)
    assert_as_rebuilt(tenants)
