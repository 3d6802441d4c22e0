"""Tenants: many databases that hold the same table, mirrored as one.

Every fault that a tenant can have is its own: the others are mirrored all the same.
"""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.compute as _compute
import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.cli.tenants import print_synced
from mirrorlake.destinations.iceberg.model import history
from mirrorlake.destinations.iceberg.tables.tenants import bucket_of, count_opened
from mirrorlake.errors import (
    ConfigError,
    LakeDamaged,
    LakeError,
    LeaseHeld,
    SchemaError,
    SourceError,
)
from mirrorlake.failpoints import OF_TENANTS
from mirrorlake.load.chunks import select_rows
from mirrorlake.load.tenants import batches, protocol
from mirrorlake.operations.repairing.recover import recover_table
from mirrorlake.operations.status.doctor import diagnose_contract
from mirrorlake.operations.status.status import status_of
from mirrorlake.operations.tenants.checks import check_tenants
from mirrorlake.operations.tenants.verdicts import TenantsChecked
from mirrorlake.operations.upkeep.maintain import maintain_table
from mirrorlake.runtime.doctor import Diagnosis
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.table.lake_tables import clean_of, deduped_of
from mirrorlake.table.tenants import raw_of
from tests.integration.conftest import PASSWORD, USER
from tests.integration.tenants import Tenants
from tests.integration.type_cases import CASES
from tests.soak.runs import Order, Runner

pc: Any = _compute  # its functions are made at import: type checkers see none of them

COLUMNS = "id INT PRIMARY KEY, name VARCHAR(20), at TIMESTAMP(6) NULL, amount DECIMAL(10,2)"
NAMES = ("id", "name", "amount")
SETTLED_SECONDS = 3.2
"""After so long without a change, what a server shows says whether a table changed."""


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def rows(*numbers: int) -> list[str]:
    return [f"({n}, 'n{n}', '2026-01-0{n % 9 + 1} 12:00:00.000001', {n}.25)" for n in numbers]


def check(tenants: Tenants, *databases: str) -> TenantsChecked:
    with tenants.opened() as (workspace, table):
        return check_tenants(workspace, table, frozenset(databases))


def doctor(tenants: Tenants) -> list[Diagnosis]:
    with tenants.opened():
        return diagnose_contract(tenants.write())


def verdicts(found: TenantsChecked) -> dict[str, str]:
    return {one.database.rpartition("_")[2]: one.verdict for one in found.verdicts}


def assert_mirrored(tenants: Tenants, *columns: str) -> None:
    """Deduped is what MySQL has, by two roads: value by value, and by the proof."""
    names = columns or NAMES
    expected = {name: found for name, found in tenants.mysql(*names).items() if found}
    assert tenants.deduped(*names) == expected
    assert check(tenants).verdict == "equal"


# --- one table of many databases ------------------------------------------------------------------


def test_many_databases_are_one_table_and_only_what_moved_is_read(tenants: Tenants) -> None:
    for number in range(4):
        tenants.make(f"{number}", COLUMNS, *rows(1, 2))
    time.sleep(SETTLED_SECONDS)
    done = tenants.sync()
    assert (done.tenants, done.read, done.failed, done.rows) == (4, 4, {}, 8)
    assert {row["_mirror_source"] for row in tenants.shown()} == {"s"}
    assert len(tenants.shown("raw")) == 8
    assert (tenants.sync().read, tenants.sync().folded) == (0, 0)
    tenants.run("2", "UPDATE orders SET name = 'x' WHERE id = 1", "DELETE FROM orders WHERE id = 2")
    tenants.run("3", "INSERT INTO orders VALUES (9, 'nine', NULL, 9)")
    tenants.make("4", COLUMNS, *rows(7))
    done = tenants.sync()
    assert (done.read, done.unchanged, done.folded) == (3, 2, 3)
    assert done.joined == (f"s.{tenants.name('4')}",)
    assert_mirrored(tenants)
    tenants.run("3", "TRUNCATE orders")
    assert list(tenants.sync().failed) == [f"s.{tenants.name('3')}"]  # until a person says so
    assert tenants.sync(accept_smaller=True).read == 1
    assert_mirrored(tenants)


@pytest.mark.full
def test_a_tenant_that_nobody_writes_to_is_digested_and_not_read(tenants: Tenants) -> None:
    """The server forgets when it last changed; so does one of a table that is empty."""
    tenants.make("a", COLUMNS, *rows(1, 2))
    tenants.make("empty", COLUMNS)
    tenants.sync()
    tenants.sql("FLUSH TABLES")  # with its entry in the cache goes the time of its last change
    tenants.run("a", "CREATE TABLE other (id INT)", "INSERT INTO other VALUES (1)")
    shown = tenants.sql(
        "SELECT UPDATE_TIME FROM information_schema.TABLES WHERE TABLE_NAME = 'orders'"
        f" AND TABLE_SCHEMA = '{tenants.name('empty')}'"
    )
    assert shown == ((None,),)
    done = tenants.sync()
    assert f"s.{tenants.name('empty')}" not in done.joined
    assert done.unchanged >= 1
    tenants.run("empty", "INSERT INTO orders VALUES (1, 'a', NULL, 1)")
    assert tenants.sync().read >= 1
    assert_mirrored(tenants)


def versions(tenants: Tenants) -> set[str]:
    with tenants.opened() as (workspace, table):
        return {version.hash for version in workspace.ledger.schema_versions(table.name)}


def runs(arguments: list[str]) -> str:
    done = CliRunner().invoke(cli, arguments, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.full
def test_a_query_of_one_tenant_opens_its_bucket(tenants: Tenants) -> None:
    for number in range(12):
        tenants.make(f"{number}", COLUMNS, *rows(1, 2))
    tenants.sync()
    with tenants.opened() as (workspace, table):
        deduped = workspace.lake.load(deduped_of(table))
        assert deduped is not None
        name = tenants.name("7")
        chosen = list(deduped.scan(f"_mirror_database = '{name}'").plan_files())
        files = len(list(deduped.scan().plan_files()))
        assert len(chosen) == 1 < files
        assert count_opened(workspace.lake, deduped_of(table), name) == (1, files)
    arguments = ["tenants", "--config", str(tenants.write()), "--tenant", name]
    assert f"a query of {name} opens 1 of {files} files of deduped" in runs(arguments)
    (one,) = json.loads(runs([*arguments, "--json"]))
    assert (one["files_opened"], one["files"]) == (1, files)


@pytest.mark.full
def test_every_type_is_read_from_many_databases_as_from_one(
    tenants: Tenants, server: EmbeddedServer
) -> None:
    """In a UNION a server may give a column another type: the digests are of each table alone."""
    kind = "mysql8" if type(server).__name__ == "MySQL8" else "mariadb"
    cases = [case for case in CASES if case.server in (None, kind)]
    columns = ", ".join(f"c{n} {case.ddl}" for n, case in enumerate(cases))
    most = max(len(case.values) for case in cases)
    for number in range(3):
        tenants.make(f"{number}", f"id INT PRIMARY KEY, {columns}")
        for row in range(most + 1):  # each value of each type, and NULL, in rows of other values
            filled = {
                f"c{n}": [*case.values, "NULL"][(row + number) % (len(case.values) + 1)]
                for n, case in enumerate(cases)
                if case.values
            }
            names, values = ", ".join(filled), ", ".join(filled.values())
            tenants.run(
                f"{number}",
                "SET sql_mode = 'ALLOW_INVALID_DATES'",
                f"INSERT IGNORE INTO orders (id, {names}) VALUES ({row}, {values})",
            )
    done = tenants.sync()
    assert (done.failed, done.read) == ({}, 3)
    found = check(tenants)
    assert found.verdict == "equal", found


@pytest.mark.full
def test_values_without_a_place_are_kept_of_each_tenant(tenants: Tenants) -> None:
    """Tenants that share a file: of the second one, the rows begin in its middle."""
    first = "1"
    second = next(
        f"{n}"
        for n in range(2, 1_000)
        if bucket_of(tenants.name(f"{n}")) == bucket_of(tenants.name(first))
    )
    for tenant in (first, second):
        values = [f"({n}, '2026-01-0{n}')" for n in range(1, 6)]
        tenants.make(tenant, "id INT PRIMARY KEY, at DATETIME(3)", *values, "(7, '0000-00-00')")
    assert tenants.sync().failed == {}
    found = [
        (row["_mirror_database"], row["_mirror_original"])
        for row in tenants.shown()
        if row["at"] is None
    ]
    kept = [{"column": "at", "text": "0000-00-00 00:00:00.000"}]
    assert sorted(found) == sorted((tenants.name(one), kept) for one in (first, second))
    assert check(tenants).verdict == "equal"


# --- shapes ---------------------------------------------------------------------------------------


@pytest.mark.full
def test_shapes_are_read_in_one_table(tenants: Tenants) -> None:
    tenants.make("a", "id INT PRIMARY KEY, full_name VARCHAR(20), n INT", "(1, 'Ann', 5)")
    tenants.make("b", "id BIGINT PRIMARY KEY, email VARCHAR(20), n VARCHAR(9)", "(2, 'b@x', '05')")
    tenants.make("c", "id INT PRIMARY KEY, n DECIMAL(5,2)", "(3, 1.50)", "(4, NULL)")
    done = tenants.sync()
    assert (done.failed, done.shapes) == ({}, 3)
    names = ("id", "full_name", "email", "n")
    assert tenants.deduped(*names) == {
        tenants.name("a"): [(1, "Ann", None, "5")],
        tenants.name("b"): [(2, None, "b@x", "05")],
        tenants.name("c"): [(3, None, None, "1.50"), (4, None, None, None)],
    }
    assert check(tenants).verdict == "equal"
    versions = {row["_mirror_database"]: row["_mirror_version"] for row in tenants.shown()}
    assert len(set(versions.values())) == 3
    seen = {(r["_mirror_database"], r["id"]): r["n"] for r in tenants.shown("raw")}
    assert seen[tenants.name("c"), 3] == "1.50"


@pytest.mark.full
def test_a_new_shape_changes_a_type_with_its_values(tenants: Tenants) -> None:
    tenants.make("a", "id INT PRIMARY KEY, n INT", "(1, 7)")
    tenants.sync()
    assert tenants.rows().column("n").to_pylist() == [7]
    tenants.make("b", "id INT PRIMARY KEY, n BIGINT, more TEXT", f"(1, {2**40}, 'm')")
    tenants.sync()  # wider: in place
    assert sorted(tenants.rows().column("n").to_pylist()) == [7, 2**40]
    tenants.make("c", "id INT PRIMARY KEY, n VARCHAR(9)", "(1, '1e5')")
    done = tenants.sync()  # another type: all of it is written again
    assert done.failed == {}
    assert sorted(tenants.rows().column("n").to_pylist()) == [str(2**40), "1e5", "7"]
    assert check(tenants).verdict == "equal"
    tenants.run("a", "ALTER TABLE orders ADD extra INT DEFAULT 3, DROP n")
    assert tenants.sync().failed == {}
    assert dict(tenants.deduped("n", "extra"))[tenants.name("a")] == [(None, 3)]
    assert check(tenants).verdict == "equal"


@pytest.mark.full
@pytest.mark.parametrize("change", ["MODIFY n BIGINT", "MODIFY n VARCHAR(9)", "CHANGE n m INT"])
def test_readers_of_clean_meet_no_error_while_a_shape_comes(
    change: str, tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark takes no BIGINT for the INT that a view declares; and nobody sees a NULL meanwhile."""
    tenants.make("a", "id INT PRIMARY KEY, n INT", "(1, 7)")
    tenants.make("b", "id INT PRIMARY KEY, n INT", "(1, 7)")
    tenants.sync()
    tenants.run("a", f"ALTER TABLE orders {change}")
    if "m INT" in change:
        tenants.contract["columns"] = {"m": {"pii": "show", "renamed_from": "n"}}
    seen: list[object] = []

    def look(*_: object) -> None:
        rows = tenants.shown()
        assert len(rows) == 2
        seen.extend(row.get("m", row.get("n")) for row in rows)

    for module in ("tenants", "tenant_layer"):
        monkeypatch.setattr(f"mirrorlake.merge.{module}.failpoint", look)
    assert tenants.sync().failed == {}
    look()
    assert set(map(str, seen)) == {"7"}
    assert check(tenants).verdict == "equal"


@pytest.mark.full
def test_a_shape_that_is_not_to_come_stops_its_tenant_alone(tenants: Tenants) -> None:
    tenants.contract["schema_changes"] = "fail"
    for name in ("a", "b", "c"):
        tenants.make(name, COLUMNS, *rows(1))
    tenants.run("c", "ALTER TABLE orders ADD more INT")
    assert (tenants.sync().failed, tenants.sync().shapes) == ({}, 2)
    before = tenants.deduped("id", "name")
    tenants.run("a", "ALTER TABLE orders ADD more INT", "UPDATE orders SET name = 'known'")
    tenants.run("b", "ALTER TABLE orders ADD new INT", "UPDATE orders SET name = 'waits'")
    tenants.make("d", COLUMNS + ", new INT", "(9, 'nine', NULL, 9, 9)")
    done = tenants.sync()
    assert set(done.failed) == {f"s.{tenants.name(name)}" for name in ("b", "d")}
    words = done.failed[f"s.{tenants.name('b')}"]
    assert "`schema_changes` is fail; it is orders_v_" in words
    assert " with new. " in words
    expected = before | {tenants.name("a"): [(1, "known")]}
    assert (tenants.deduped("id", "name"), done.shapes) == (expected, 2)
    tenants.run("b", "ALTER TABLE orders DROP new")
    assert set(tenants.sync().failed) == {f"s.{tenants.name('d')}"}
    tenants.contract["schema_changes"] = "evolve"
    assert tenants.sync().failed == {}
    assert_mirrored(tenants)


@pytest.mark.full
def test_a_column_that_some_tenants_call_otherwise(tenants: Tenants) -> None:
    """A migration that is half way through the tenants: one column, by both names, and its rule."""
    rule = {"pii": "null", "renamed_from": ["mail"]}
    tenants.contract["columns"] = {"email": rule}
    tenants.make("old", "id INT PRIMARY KEY, mail VARCHAR(20)", "(1, 'old@x')")
    tenants.make("new", "id INT PRIMARY KEY, email VARCHAR(20)", "(1, 'new@x')")
    tenants.sync()
    assert tenants.deduped("email") == {
        tenants.name("old"): [("old@x",)],
        tenants.name("new"): [("new@x",)],
    }
    assert [row["email"] for row in tenants.shown()] == [None, None]
    assert "mail" not in tenants.shown()[0]
    # One that has both: there each is itself, and of the others nothing is lost.
    tenants.make("both", "id INT PRIMARY KEY, mail VARCHAR(20), email VARCHAR(20)", "(1, 'm', 'e')")
    done = tenants.sync()
    assert (done.failed, done.held_columns) == ({}, ("mail",))
    with tenants.opened() as (workspace, table):
        assert status_of(workspace.config, workspace.ledger, [table])[0].held_columns == ("mail",)
    assert tenants.deduped("email", "mail") == {
        tenants.name("old"): [("old@x", None)],
        tenants.name("new"): [("new@x", None)],
        tenants.name("both"): [("e", "m")],
    }
    assert not [row for row in tenants.shown() if row.get("mail") or row["email"]]
    assert check(tenants).verdict == "equal"


@pytest.mark.full
@pytest.mark.parametrize("later", ["a tenant", "the contract"])
def test_a_rename_that_is_known_later_loses_no_value(later: str, tenants: Tenants) -> None:
    columns = {"email": {"pii": "show", "renamed_from": ["mail", "e_mail"]}}
    tenants.contract["columns"] = columns if later == "a tenant" else {}
    tenants.make("old", "id INT PRIMARY KEY, mail VARCHAR(20), e_mail VARCHAR(20)", "(1, 'm', 'e')")
    time.sleep(SETTLED_SECONDS)
    tenants.sync()
    tenants.contract["columns"] = columns
    tenants.make("new", "id INT PRIMARY KEY, email VARCHAR(20)", "(1, 'new@x')")
    assert tenants.sync().failed == {}
    assert tenants.deduped("email", "e_mail") == {
        tenants.name("old"): [("m", "e")],
        tenants.name("new"): [("new@x", None)],
    }
    assert check(tenants).verdict == "equal"


@pytest.mark.full
def test_a_new_column_stays_private(tenants: Tenants) -> None:
    tenants.make("a", COLUMNS, *rows(1))
    tenants.sync()
    tenants.run("a", "ALTER TABLE orders ADD secret VARCHAR(20) DEFAULT 'deep'")
    tenants.sync()
    assert tenants.rows().column("secret").to_pylist() == ["deep"]
    assert "secret" not in tenants.shown()[0]
    tenants.contract["columns"] = {"secret": {"pii": "show"}}
    tenants.sync()
    assert tenants.shown()[0]["secret"] == "deep"


def test_a_rule_for_a_mistyped_column_shows_nothing(tenants: Tenants) -> None:
    tenants.make("a", COLUMNS, *rows(1))
    tenants.contract["columns"] = {"nmae": {"pii": "null"}}
    with pytest.raises(SchemaError, match="no tenant has such a column; did you mean 'name'"):
        tenants.sync()
    tenants.contract["columns"] = {"name": {"pii": "null"}}
    tenants.sync()
    assert [row["name"] for row in tenants.shown()] == [None]


@pytest.mark.full
def test_a_column_that_is_never_read(tenants: Tenants) -> None:
    tenants.contract["columns"] = {"card": {"pci": "never", "renamed_from": ["pan"]}}
    tenants.make("a", "id INT PRIMARY KEY, card VARCHAR(20)", "(1, '4111')")
    tenants.make("b", "id INT PRIMARY KEY, pan VARCHAR(20)", "(1, '4222')")
    tenants.make("c", "id INT PRIMARY KEY", "(1)")
    assert tenants.sync().failed == {}
    assert {"card", "pan"}.isdisjoint(tenants.rows().column_names)
    assert {"card", "pan"}.isdisjoint(tenants.shown("raw")[0])


@pytest.mark.full
def test_what_was_read_cant_be_unread(tenants: Tenants) -> None:
    tenants.make("a", "id INT PRIMARY KEY, card VARCHAR(20)", "(1, '4111')")
    tenants.sync()
    tenants.contract["columns"] = {"card": {"pci": "never"}}
    with pytest.raises(SchemaError, match="its mirror holds it already"):
        tenants.sync()


@pytest.mark.full
def test_rules_reach_clean_though_no_tenant_can_be_read(tenants: Tenants) -> None:
    tenants.make("a", COLUMNS, *rows(1))
    tenants.sync()
    tenants.drop("a")
    tenants.contract["columns"] = {"name": {"pii": "null"}}
    tenants.sync()
    assert [row["name"] for row in tenants.shown()] == [None]
    with tenants.opened() as (workspace, table):
        workspace.spark.get().sql(f"UPDATE {deduped_of(table).sql} SET amount = 0")
    assert verdicts(check(tenants)) == {"a": "different"}
    tenants.sync()
    assert verdicts(check(tenants)) == {"a": "gone"}


@pytest.mark.full
def test_a_ledger_that_was_lost(tenants: Tenants) -> None:
    """Rows of tenants that can't be read again stay, and columns that were held stay so."""
    for name in ("a", "b", "c"):
        tenants.make(name, COLUMNS, *rows(1, 2))
    tenants.sync()
    tenants.run("a", "ALTER TABLE orders ADD secret INT DEFAULT 7")
    tenants.sync()
    tenants.drop("b")
    tenants.run("c", "ALTER TABLE orders DROP PRIMARY KEY")
    before = tenants.deduped(*NAMES)
    with tenants.opened() as (workspace, table):
        ledger = workspace.ledger
        ledger.forget_tenants(table.name, ledger.tenants(table.name))
        for name in (f"tenants {deduped_of(table)}", f"view {clean_of(table)}"):
            ledger.forget_definition(name)
        ledger.record_known_columns(table.name, ())
    done = tenants.sync()
    assert done.read == 1
    assert tenants.deduped(*NAMES) == before
    assert "secret" not in tenants.shown()[0]


# --- a tenant's faults are its own ----------------------------------------------------------------


def test_a_tenant_that_cant_be_kept_stops_no_other(tenants: Tenants) -> None:
    tenants.make("good", COLUMNS, *rows(1, 2))
    tenants.make("also", COLUMNS, *rows(3))
    tenants.make("keyless", "id INT, name VARCHAR(20), at TIMESTAMP(6) NULL, amount DECIMAL(10,2)")
    tenants.make("texts", COLUMNS.replace("id INT", "id VARCHAR(9)"), *rows(5))
    tenants.make("ours", COLUMNS + ", _mirror_x INT", "(1, 'a', NULL, 1, 2)")
    done = tenants.sync()
    words = {name.rpartition("_")[2]: text for name, text in done.failed.items()}
    assert done.read == 2
    assert set(words) == {"keyless", "texts", "ours"}
    assert "does not keep (id) unique" in words["keyless"]
    assert "key id is string, and int in the other tenants" in words["texts"]
    assert "called as Mirrorlake's own are" in words["ours"]
    assert set(tenants.deduped("id")) == {tenants.name("good"), tenants.name("also")}
    assert verdicts(check(tenants))["good"] == "equal"
    # One that is put right joins; its error is forgotten.
    tenants.run("keyless", "ALTER TABLE orders ADD PRIMARY KEY (id)")
    assert f"s.{tenants.name('keyless')}" in tenants.sync().joined
    with tenants.opened() as (workspace, table):
        known = workspace.ledger.tenants(table.name)
        assert known["s", tenants.name("keyless")].error is None


@pytest.mark.full
def test_a_tenant_of_which_some_columns_are_hidden_fails_alone(
    tenants: Tenants, server: EmbeddedServer
) -> None:
    """What the account sees of it is a shape of its own, whose definition it may not read."""
    for name in ("partly", "whole"):
        tenants.make(name, COLUMNS, *rows(1, 2))
    user = f"u{uuid.uuid4().hex[:8]}"
    grants = {
        f"{tenants.name('whole')}.*": "SELECT",
        f"{tenants.name('partly')}.orders": "SELECT (id, name)",
        "*.*": "PROCESS, REPLICATION CLIENT",
    }
    server.create_user(user, PASSWORD, grants)
    tenants.user = user
    [found] = [d for d in doctor(tenants) if d.name.endswith(": tenant")]
    assert tenants.name("partly") in found.detail
    assert "may not read every column" in found.detail
    done = tenants.sync()
    [(name, words)] = done.failed.items()
    assert (name, done.read) == (f"s.{tenants.name('partly')}", 1)
    assert "may not read every column" in words
    assert "Grant SELECT on the whole table" in words
    assert set(tenants.deduped("id")) == {tenants.name("whole")}
    # The others go on.
    tenants.run("whole", "INSERT INTO orders VALUES (9, 'n', NULL, 1)")
    tenants.make("new", COLUMNS, *rows(3))
    server.create_user(user, PASSWORD, {**grants, f"{tenants.name('new')}.*": "SELECT"})
    assert tenants.sync().read == 2
    assert set(tenants.deduped("id")) == {tenants.name("whole"), tenants.name("new")}


@pytest.mark.full
def test_a_tenant_that_is_locked_fails_alone(
    tenants: Tenants, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirrorlake.sources.mysql.sessions.connect.LOCK_SECONDS", 1)
    for name in ("locked", "one", "two"):
        tenants.make(name, COLUMNS, *rows(1, 2))
    before = tenants.sync()
    assert before.read == 3
    for name in ("locked", "one"):
        tenants.run(name, "INSERT INTO orders VALUES (9, 'n', NULL, 1)")
    with server.admin(tenants.name("locked")) as other, other.cursor() as cursor:
        cursor.execute("LOCK TABLES orders WRITE")
        done = tenants.sync()
        [(name, words)] = done.failed.items()
        assert (name, done.counts["read"]) == (f"s.{tenants.name('locked')}", done.read)
        assert len(tenants.deduped("id")[tenants.name("one")]) == 3
        assert f"{tenants.name('locked')}.orders: another session holds it locked" in words
        assert "SHOW PROCESSLIST" in words
    assert tenants.sync().failed == {}
    assert_mirrored(tenants)


@pytest.mark.full
def test_a_tenant_of_which_columns_are_hidden_later_keeps_its_rows(
    tenants: Tenants, server: EmbeddedServer
) -> None:
    """What the account still sees of it is the shape of another tenant; the others go on."""
    for name, columns in {
        "narrow": "id INT PRIMARY KEY, name VARCHAR(20)",
        "partly": COLUMNS,
    }.items():
        tenants.make(name, columns, *(["(1, 'a')"] if name == "narrow" else rows(1, 2)))
    tenants.make("whole", COLUMNS, *rows(1, 2))
    user = f"u{uuid.uuid4().hex[:8]}"
    grants = {f"{tenants.name(name)}.*": "SELECT" for name in ("narrow", "whole")}
    grants["*.*"] = "PROCESS, REPLICATION CLIENT"
    partly = f"{tenants.name('partly')}.orders"
    server.create_user(user, PASSWORD, {**grants, partly: "SELECT"})
    tenants.user = user
    assert tenants.sync().read == 3
    before = tenants.deduped("id", "name", "amount")[tenants.name("partly")]
    tenants.run("partly", "UPDATE orders SET name = 'hidden'")
    tenants.run("whole", "INSERT INTO orders VALUES (9, 'n', NULL, 1)")
    tenants.make("new", COLUMNS, *rows(3))
    grants[f"{tenants.name('new')}.*"] = "SELECT"
    server.create_user(user, PASSWORD, {**grants, partly: "SELECT (id, name)"})
    for _ in range(2):
        [(name, words)] = tenants.sync().failed.items()
        assert name == f"s.{tenants.name('partly')}"
        assert "may not read every column" in words
    found = tenants.deduped("id", "name", "amount")
    assert found[tenants.name("partly")] == before
    assert {name: len(of) for name, of in found.items()} == {
        tenants.name(name): count
        for name, count in {"narrow": 1, "partly": 2, "whole": 3, "new": 1}.items()
    }
    server.create_user(user, PASSWORD, {**grants, partly: "SELECT"})
    assert tenants.sync().failed == {}
    assert {name for _, name in tenants.deduped("id", "name")[tenants.name("partly")]} == {"hidden"}


@pytest.mark.full
def test_one_of_three_hundred_tenants_is_locked(
    tenants: Tenants, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When they are read first, and when they moved: it is named, and every other one is read."""
    monkeypatch.setattr("mirrorlake.sources.mysql.sessions.connect.LOCK_SECONDS", 1)
    names = [f"n{number:03}" for number in range(300)]
    with server.admin() as admin, admin.cursor() as cursor:
        for name in names:
            database = tenants.name(name)
            cursor.execute(f"CREATE DATABASE {database}")
            tenants.made.append(database)
            cursor.execute(f"CREATE TABLE {database}.orders ({COLUMNS})")
            cursor.execute(f"INSERT INTO {database}.orders VALUES {rows(1)[0]}")
    for locked, moved in (("n150", names), ("n007", names[:20])):
        with server.admin(tenants.name(locked)) as other, other.cursor() as cursor:
            for name in moved:
                tenants.run(name, "INSERT INTO orders (id) SELECT MAX(id) + 1 FROM orders")
            cursor.execute("LOCK TABLES orders WRITE")
            done = tenants.sync()
        [(name, words)] = done.failed.items()
        assert name == f"s.{tenants.name(locked)}"
        assert f"{tenants.name(locked)}.orders: another session holds it locked" in words
        expected = {name: rows for name, rows in tenants.mysql("id").items() if name not in words}
        found = tenants.deduped("id")
        assert {name: found.get(name) for name in expected} == expected
    assert tenants.sync().failed == {}
    assert tenants.deduped("id") == tenants.mysql("id")


@pytest.mark.full
def test_a_tenant_that_fails_later_keeps_its_rows(tenants: Tenants) -> None:
    for name in ("a", "b", "c"):
        tenants.make(name, COLUMNS, *rows(1, 2))
    tenants.sync()
    before = tenants.deduped(*NAMES)[tenants.name("b")]
    tenants.run("a", "UPDATE orders SET name = 'moved'")
    tenants.run("b", "UPDATE orders SET name = 'moved'", "ALTER TABLE orders DROP PRIMARY KEY")
    done = tenants.sync()
    assert list(done.failed) == [f"s.{tenants.name('b')}"]
    found = tenants.deduped(*NAMES)
    assert found[tenants.name("b")] == before
    assert {name for _, name, _ in found[tenants.name("a")]} == {"moved"}


def while_it_is_read(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch, name: str, statement: str
) -> None:
    """Let somebody else's statement run between each read of a tenant's batch and its commit."""
    real = protocol.read_batch

    def and_then(batch: Any, *rest: Any) -> Any:
        found = real(batch, *rest)
        if tenants.name(name) in batch.databases:
            tenants.run(name, statement)
        return found

    monkeypatch.setattr(protocol, "read_batch", and_then)


@pytest.mark.full
def test_a_table_that_changes_while_it_is_read(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        tenants.make(name, COLUMNS, *rows(1, 2))
    while_it_is_read(tenants, monkeypatch, "b", "ALTER TABLE orders MODIFY name VARCHAR(99)")
    done = tenants.sync()
    assert list(done.failed) == [f"s.{tenants.name('b')}"]
    assert "changed in MySQL while it was read" in done.failed[f"s.{tenants.name('b')}"]
    assert set(tenants.deduped("id")) == {tenants.name("a"), tenants.name("c")}
    assert {r["_mirror_database"] for r in tenants.shown("raw")} == set(tenants.deduped("id"))
    monkeypatch.undo()
    assert tenants.sync().failed == {}
    assert_mirrored(tenants)


@pytest.mark.full
def test_a_partition_that_is_exchanged_while_it_is_read(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows were committed long before the read began: only InnoDB's numbers tell."""
    parts = " PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10))"
    for name in ("a", "b"):
        database = tenants.make(name, "id INT PRIMARY KEY", table="other")
        tenants.sql(f"CREATE TABLE orders (id INT PRIMARY KEY) {parts}", database=database)
        tenants.run(name, "INSERT INTO orders VALUES (1)", "INSERT INTO other VALUES (2)")
    while_it_is_read(
        tenants, monkeypatch, "b", "ALTER TABLE orders EXCHANGE PARTITION p0 WITH TABLE other"
    )
    done = tenants.sync()
    assert list(done.failed) == [f"s.{tenants.name('b')}"]
    assert "a partition was exchanged" in done.failed[f"s.{tenants.name('b')}"]
    assert tenants.deduped("id") == {tenants.name("a"): [(1,)]}
    monkeypatch.undo()
    assert tenants.sync().failed == {}
    assert_mirrored(tenants, "id")


@pytest.mark.full
def test_a_table_that_goes_while_it_is_read(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        tenants.make(name, COLUMNS, *rows(1, 2))
    real = protocol.read_batch

    def dropped(batch: Any, *rest: Any) -> Any:
        if len(batch.plans) == 3:
            tenants.run("b", "DROP TABLE orders")
        return real(batch, *rest)

    monkeypatch.setattr(protocol, "read_batch", dropped)
    done = tenants.sync()
    assert list(done.failed) == [f"s.{tenants.name('b')}"]
    assert set(tenants.deduped("id")) == {tenants.name("a"), tenants.name("c")}


@pytest.mark.full
def test_a_server_that_is_lost_is_given_up_soon(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        tenants.make(f"{number}", COLUMNS, *rows(1))
    tried: list[Any] = []

    def lost(batch: Any, *rest: Any) -> Any:
        tried.append(batch)
        raise SourceError("lost connection", retryable=True)

    monkeypatch.setattr(batches, "MOST", 1)
    monkeypatch.setattr("mirrorlake.load.chunks.runner.PAUSE_SECONDS", 0)
    monkeypatch.setattr(protocol, "read_batch", lost)
    assert len(tenants.sync().failed) == 4
    assert len(tried) == protocol.ATTEMPTS + 1
    monkeypatch.undo()
    assert tenants.sync().read == 4


@pytest.mark.full
def test_rows_that_are_lost_on_their_way_are_seen(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is lost between MySQL and the files: that tenant is left out, and said."""
    for name in ("a", "b"):
        tenants.make(name, COLUMNS, *rows(1, 2))
    real = select_rows.exact_rows

    def cut(chunk: Any, found: Any, position: str) -> Any:
        rows = real(chunk, found, position)
        lost = pc.replace_substring(rows.column("name"), "n2", "")
        return rows.set_column(1, rows.schema.field(1), lost)

    monkeypatch.setattr(select_rows, "exact_rows", cut)
    done = tenants.sync()
    assert len(done.failed) == 2
    assert all("not what MySQL said" in words for words in done.failed.values())
    with tenants.opened() as (workspace, table):
        assert workspace.lake.load(deduped_of(table)) is None
    monkeypatch.setattr(select_rows, "exact_rows", real)
    assert tenants.sync().failed == {}
    assert_mirrored(tenants)


@pytest.mark.full
def test_names_that_differ_in_case(tenants: Tenants, server: EmbeddedServer) -> None:
    tenants.make("a", COLUMNS, *rows(1))
    tenants.make("x", COLUMNS, *rows(2))
    tenants.make("X", COLUMNS, *rows(3))
    tenants.make("a", COLUMNS, *rows(9), table="Orders")
    done = tenants.sync()
    assert {name.rpartition("_")[2] for name in done.failed} == {"x", "X"}
    assert tenants.deduped("id") == {tenants.name("a"): [(1,)]}


@pytest.mark.full
def test_names_to_quote(tenants: Tenants) -> None:
    hostile = "x`y'z\\ %s ü${env:HOME}"
    database = f"{tenants.prefix}_{hostile}"
    quoted = database.replace("`", "``")
    tenants.sql(f"CREATE DATABASE `{quoted}` CHARACTER SET utf8mb4")
    try:
        tenants.sql(
            f"CREATE TABLE `{quoted}`.orders (id INT PRIMARY KEY, `a``b.c` TEXT, `${{env:X}}` INT)",
            f"INSERT INTO `{quoted}`.orders VALUES (1, 'v', 2)",
        )
        tenants.make("plain", COLUMNS, *rows(1))
        done = tenants.sync()
        assert done.failed == {}
        assert tenants.deduped("a`b.c", "${env:X}")[database] == [("v", 2)]
        assert check(tenants, database).verdict == "equal"
        tenants.sql(f"UPDATE `{quoted}`.orders SET `a``b.c` = 'w'")
        tenants.sync()
        assert tenants.deduped("a`b.c", "${env:X}")[database] == [("w", 2)]
    finally:
        tenants.sql(f"DROP DATABASE `{quoted}`")


# --- tenants come and go --------------------------------------------------------------------------


@pytest.mark.full
def test_two_servers_with_databases_of_one_name(tenants: Tenants, tmp_path: Path) -> None:
    """They are two tenants: their rows, failures and verdicts stay apart."""
    with MariaDB.start(tmp_path / "other") as other:
        other.create_user(USER, PASSWORD)
        tenants.others["o"] = other.port
        name = tenants.make("a", COLUMNS, *rows(1, 2))
        with other.admin() as admin, admin.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE `{name}`")
            cursor.execute(f"CREATE TABLE `{name}`.orders ({COLUMNS})")
            cursor.execute(f"INSERT INTO `{name}`.orders VALUES (1, 'other', NULL, 9)")
            done = tenants.sync()
            assert (done.tenants, done.read, done.failed) == (2, 2, {})
            cells = [(r["_mirror_source"], r["id"], r["name"]) for r in tenants.rows().to_pylist()]
            assert sorted(cells) == [("o", 1, "other"), ("s", 1, "n1"), ("s", 2, "n2")]
            tenants.run("a", "DELETE FROM orders WHERE id = 1")
            cursor.execute(f"ALTER TABLE `{name}`.orders DROP PRIMARY KEY")
            done = tenants.sync()
            assert list(done.failed) == [f"o.{name}"]
            cells = [(r["_mirror_source"], r["id"], r["name"]) for r in tenants.rows().to_pylist()]
            assert sorted(cells) == [("o", 1, "other"), ("s", 2, "n2")]


@pytest.mark.full
def test_a_tenant_that_is_dropped_is_kept(
    tenants: Tenants, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        tenants.make(name, COLUMNS, *rows(1, 2))
    tenants.sync()
    tenants.drop("b")
    done = tenants.sync()
    assert done.gone == (f"s.{tenants.name('b')}",)
    again = tenants.sync()
    assert (again.gone, again.kept) == ((), {f"s.{tenants.name('b')}": 2})
    print_synced([again])
    assert (
        "1 tenant is gone from MySQL or left out, and still in every total"
        in capsys.readouterr().out
    )
    assert tenants.name("b") in tenants.deduped("id")
    found = check(tenants)
    assert (found.verdict, verdicts(found)) == ("equal", {"a": "equal", "b": "gone"})
    # Another database of the name is read, whatever it shows.
    tenants.make("b", COLUMNS, *rows(8))
    tenants.sync(accept_smaller=True)
    assert_mirrored(tenants)


def test_a_tenant_that_is_dropped_is_removed(tenants: Tenants) -> None:
    tenants.group["dropped"] = "remove"
    for name in ("a", "b", "c", "d", "e"):
        tenants.make(name, COLUMNS, *rows(1, 2))
    time.sleep(SETTLED_SECONDS)
    tenants.sync()
    tenants.drop("b")
    tenants.run("c", "DROP TABLE orders")
    assert len(tenants.sync().gone) == 2
    with tenants.opened() as (workspace, table):
        head = workspace.lake.head(deduped_of(table))
    assert tenants.sync().folded == 0
    with tenants.opened() as (workspace, table):
        assert workspace.lake.head(deduped_of(table)) == head
    assert set(tenants.deduped("id")) == {tenants.name(n) for n in ("a", "d", "e")}
    with tenants.opened() as (workspace, table):
        assert len(workspace.ledger.tenants(table.name)) == 3
    # Most of them at once: a lost privilege, more often.
    tenants.drop("d")
    tenants.drop("e")
    done = tenants.sync()
    assert "2 of 3 tenants of source s are gone; their rows stay" in done.failed["s.*"]
    assert len(tenants.deduped("id")) == 3
    tenants.sync(accept_smaller=True)
    assert set(tenants.deduped("id")) == {tenants.name("a")}


@pytest.mark.full
def test_one_tenant_alone(tenants: Tenants) -> None:
    for name in ("a", "b"):
        tenants.make(name, COLUMNS, *rows(1))
    tenants.sync()
    for name in ("a", "b"):
        tenants.run(name, "UPDATE orders SET name = 'moved'")
    done = tenants.sync(databases=frozenset({tenants.name("b")}), again=True)
    assert done.read == 1
    found = tenants.deduped("name")
    assert (found[tenants.name("a")], found[tenants.name("b")]) == ([("n1",)], [("moved",)])
    with pytest.raises(ConfigError, match="has no tenant nobody"):
        tenants.sync(databases=frozenset({"nobody"}))


# --- whatever dies, whenever ----------------------------------------------------------------------


def wait_until_stopped(pid: int) -> None:
    """Wait until a process was stopped at its failpoint."""
    deadline = time.monotonic() + 90
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.full
def test_readers_see_each_tenant_as_it_was_or_as_it_is(tenants: Tenants, runner: Runner) -> None:
    """Whatever step a run stands at or dies at: stream views read deduped of tenants, too."""
    for name in ("a", "b", "c"):
        tenants.make(name, COLUMNS, *rows(1, 2))
    time.sleep(SETTLED_SECONDS)
    tenants.sync()
    order = Order(tenants.write(), "orders", "tenants")
    for number, step in enumerate(STEPS, start=3):
        before = tenants.mysql(*NAMES)
        for name in ("a", "b"):
            tenants.run(
                name,
                f"INSERT INTO orders (id, name) VALUES ({number}, '{step}')",
                f"UPDATE orders SET name = '{step}' WHERE id = 2",
                f"DELETE FROM orders WHERE id = {number - 2} AND id <> 2",
            )
        now = tenants.mysql(*NAMES)
        stalled = runner.start(replace(order, failpoint=f"{step}!stop"))
        wait_until_stopped(stalled.pid)
        shown = tenants.deduped(*NAMES)
        os.kill(stalled.pid, signal.SIGKILL)
        assert runner.wait(stalled) == -9
        assert tenants.deduped(*NAMES) == shown
        for name, found in shown.items():
            assert found in (before[name], now[name]), (step, name)
        assert shown.keys() == now.keys()
        tenants.sync()
        assert_mirrored(tenants)


STEPS = tuple(step for step in OF_TENANTS if step != "tenants.shown")


@pytest.mark.full
@pytest.mark.parametrize("step", STEPS)
def test_a_run_that_is_killed_at_any_step(step: str, tenants: Tenants, runner: Runner) -> None:
    """The next run finds what is there and goes on; while it was dead, another shape came."""
    for name in ("a", "b", "c"):
        tenants.make(name, COLUMNS, *rows(1, 2))
    for name in ("a", "b"):  # all is new, then some moved
        order = Order(tenants.write(), "orders", "tenants", failpoint=step)
        assert runner.run(order).code == -9
        tenants.run(name, "UPDATE orders SET name = 'x', amount = amount + 1 WHERE id = 2")
    tenants.run("c", "ALTER TABLE orders ADD more INT DEFAULT 4, MODIFY amount VARCHAR(20)")
    assert runner.run(order).code == -9
    assert tenants.sync().failed == {}
    assert_mirrored(tenants, "id", "name")
    with tenants.opened() as (workspace, table):
        assert not [n for n in workspace.lake.branches(deduped_of(table)) if n != "main"]
        recover_table(workspace, table, timedelta())
    assert_mirrored(tenants, "id", "name")


@pytest.mark.full
def test_a_run_that_dies_is_seen(tenants: Tenants, runner: Runner) -> None:
    """Its tenants are missed, and nothing says that they are mirrored; what it committed is shown."""
    tenants.make("a", COLUMNS, *rows(1, 2))
    order = Order(tenants.write(), "orders", "tenants", failpoint="tenants.pending")
    assert runner.run(order).code == -9
    with tenants.opened() as (workspace, table):
        (status,) = status_of(workspace.config, workspace.ledger, [table])
        known = workspace.ledger.tenants(table.name)
        assert status.state == "pending"
        assert [one.state for one in known.values()] == ["new"]
    assert tenants.sync().joined == (f"s.{tenants.name('a')}",)
    tenants.make("b", f"{COLUMNS}, more INT", "(1, 'n1', NULL, 1, 4)")
    order = Order(tenants.write(), "orders", "tenants", failpoint="tenants.before_fold")
    assert runner.run(order).code == -9
    assert {row["more"] for row in tenants.shown("raw")} == {None, 4}
    assert tenants.sync().failed == {}
    with tenants.opened() as (workspace, table):
        assert status_of(workspace.config, workspace.ledger, [table])[0].state == "mirrored"


@pytest.mark.full
def test_a_run_that_dies_before_a_rename_is_shown(tenants: Tenants, runner: Runner) -> None:
    """It said to the ledger what it was about to show: it did not show it."""
    tenants.make("old", "id INT PRIMARY KEY, mail VARCHAR(20)", "(1, 'old@x')")
    time.sleep(SETTLED_SECONDS)
    tenants.sync()
    tenants.contract["columns"] = {"email": {"pii": "show", "renamed_from": ["mail"]}}
    tenants.make("new", "id INT PRIMARY KEY, email VARCHAR(20)", "(1, 'new@x')")
    order = Order(tenants.write(), "orders", "tenants", failpoint="tenants.marked")
    assert runner.run(order).code == -9
    assert tenants.sync().failed == {}
    assert tenants.deduped("email") == {
        tenants.name("old"): [("old@x",)],
        tenants.name("new"): [("new@x",)],
    }


@pytest.mark.full
def test_a_second_run_waits_or_stops(tenants: Tenants, runner: Runner) -> None:
    tenants.make("a", COLUMNS, *rows(1, 2))
    order = Order(tenants.write(), "orders", "tenants", failpoint="tenants.before_commit!stop")
    first = runner.start(order)
    assert runner.wait(first, 20) is None
    with (
        tenants.opened() as (workspace, table),
        pytest.raises(LeaseHeld),
        workspace.leased(table, wait=False),
    ):
        pass
    os.kill(first.pid, signal.SIGCONT)
    assert runner.wait(first) == 0
    assert_mirrored(tenants)


# --- checks find what is wrong --------------------------------------------------------------------


@pytest.mark.full
def test_checks_say_what_they_compared(tenants: Tenants) -> None:
    for name in ("a", "b", "c"):
        tenants.make(name, COLUMNS, *rows(1, 2))
    time.sleep(SETTLED_SECONDS)
    tenants.sync()
    assert verdicts(check(tenants)) == {"a": "equal", "b": "equal", "c": "equal"}
    tenants.run("a", "UPDATE orders SET name = 'moved'")
    assert verdicts(check(tenants)) == {"a": "undecided", "b": "equal", "c": "equal"}
    time.sleep(SETTLED_SECONDS)  # or the sync after the next reads it again
    tenants.sync()
    with tenants.opened() as (workspace, table):
        spark = workspace.spark.get()
        deduped, name = deduped_of(table).sql, tenants.name("b")
        spark.sql(f"UPDATE {deduped} SET amount = 0 WHERE id = 1 AND _mirror_database = '{name}'")
    found = check(tenants)
    assert verdicts(found) == {"a": "equal", "b": "different", "c": "equal"}
    assert [one.differing for one in found.verdicts] == [0, 2, 0]
    # Somebody wrote there: all of it is folded again.
    assert tenants.sync().read == 0
    assert_mirrored(tenants)


@pytest.mark.full
def test_rows_of_nobody_and_an_older_head_are_put_right(tenants: Tenants) -> None:
    for name in ("a", "b"):
        tenants.make(name, COLUMNS, *rows(1, 2))
    tenants.sync()
    with tenants.opened() as (workspace, table):
        spark, deduped = workspace.spark.get(), workspace.lake.load(deduped_of(table))
        assert deduped is not None
        columns = ", ".join(field.name for field in deduped.schema().fields)
        invented = columns.replace("_mirror_database", "'nobody' AS _mirror_database")
        spark.sql(
            f"INSERT INTO {deduped_of(table).sql} SELECT {invented} FROM {deduped_of(table).sql}"
        )
    assert check(tenants).verdict == "different"
    tenants.sync()
    assert_mirrored(tenants)
    with tenants.opened() as (workspace, table):
        deduped = workspace.lake.load(deduped_of(table))
        assert deduped is not None
        [newest, *_] = [s for s in history(deduped) if s.parent_snapshot_id is not None]
        head, lake = newest.snapshot_id, workspace.lake
        lake.roll_back(deduped_of(table), newest.parent_snapshot_id or 0, head)
    tenants.sync()
    assert_mirrored(tenants)


@pytest.mark.full
def test_raw_that_was_damaged_is_read_again(tenants: Tenants) -> None:
    tenants.make("a", COLUMNS, *rows(1, 2))
    tenants.make("b", COLUMNS, *rows(3))
    time.sleep(SETTLED_SECONDS)
    tenants.sync()
    with tenants.opened() as (workspace, table):
        [version] = workspace.ledger.schema_versions(table.name)
        raw = workspace.lake.load(raw_of(table, version.raw_table))
        assert raw is not None
        path = next(iter(raw.scan(f"_mirror_database = '{tenants.name('a')}'").plan_files())).file
        local = path.file_path.removeprefix("file://")
        with open(local, "r+b") as file:  # noqa: PTH123
            file.seek(200)
            file.write(b"\0\1\2\3")
        workspace.lake.drop(deduped_of(table))  # so that all of it is folded again
    with pytest.raises(LakeDamaged, match="Sync again"):
        tenants.sync()
    assert tenants.sync().read >= 1
    assert_mirrored(tenants)


@pytest.mark.full
def test_a_shape_that_was_edited_by_hand_is_set_back(tenants: Tenants) -> None:
    """A column that somebody took away would be folded as NULL."""
    tenants.make("a", COLUMNS, *rows(1))
    tenants.make("b", COLUMNS + ", more INT", "(2, 'n2', NULL, 2.25, 7)")
    tenants.sync()
    for name in ("a", "b"):
        tenants.run(name, "UPDATE orders SET name = 'moved'")
    with tenants.opened() as (workspace, table):
        versions = workspace.ledger.schema_versions(table.name)
        [edited] = [raw_of(table, v.raw_table) for v in versions if len(v.columns) == 5]
        workspace.spark.get().sql(f"ALTER TABLE {edited.sql} DROP COLUMN more")
    done = tenants.sync()
    [said] = done.put_right
    assert (done.failed, said.endswith("left: its columns are as they were")) == ({}, True)
    assert_mirrored(tenants)
    assert tenants.deduped("more")[tenants.name("b")] == [(7,)]


@pytest.mark.full
def test_rows_stay_whose_raw_table_is_gone(tenants: Tenants) -> None:
    tenants.make("a", COLUMNS, *rows(1, 2))
    tenants.make("b", "id INT PRIMARY KEY, name VARCHAR(20)", "(3, 'c')")
    tenants.sync()
    tenants.drop("b")
    tenants.sync()
    with tenants.opened() as (workspace, table):
        tenant = workspace.ledger.tenants(table.name)["s", tenants.name("b")]
        versions = workspace.ledger.schema_versions(table.name)
        [name] = [v.raw_table for v in versions if v.hash == tenant.version]
        workspace.lake.drop(raw_of(table, name))
    tenants.run("a", "UPDATE orders SET name = 'x'")
    assert tenants.sync().failed == {}
    assert tenants.deduped("id")[tenants.name("b")] == [(3,)]
    with tenants.opened() as (workspace, table):
        workspace.spark.get().sql(f"DELETE FROM {deduped_of(table).sql} WHERE id = 1")
    with pytest.raises(LakeError, match="raw has no rows of 1 of them any more"):
        tenants.sync()


@pytest.mark.full
def test_maintenance_takes_old_copies_out(tenants: Tenants) -> None:
    for name in ("a", "b"):
        tenants.make(name, COLUMNS, *rows(1, 2))
    for number in range(4):
        tenants.run("a", f"UPDATE orders SET name = 'x{number}'")
        tenants.sync()
    with tenants.opened() as (workspace, table):
        found = maintain_table(workspace, table)
        assert [one.error for one in found] == [None] * len(found)
        [version] = workspace.ledger.schema_versions(table.name)
        raw = workspace.lake.load(raw_of(table, version.raw_table))
        assert raw is not None
        assert raw.scan().to_arrow().num_rows == 4
        assert recover_table(workspace, table).orphans == 0
    assert_mirrored(tenants)
    tenants.run("b", "UPDATE orders SET amount = 5")
    tenants.sync()
    assert_mirrored(tenants)


@pytest.mark.full
def test_an_empty_table_and_many_rows(tenants: Tenants) -> None:
    tenants.make("empty", COLUMNS)
    assert tenants.sync().failed == {}
    assert check(tenants).verdict == "equal"
    tenants.make("many", COLUMNS)
    tenants.run(
        "many",
        "INSERT INTO orders SELECT a.n * 1000 + b.n * 100 + c.n * 10 + d.n, 'x', NULL, 1 FROM "
        + ", ".join(
            f"({' UNION '.join(f'SELECT {n} AS n' for n in range(10))}) {t}" for t in "abcd"
        ),
    )
    done = tenants.sync()
    assert (done.failed, done.rows >= 10_000) == ({}, True)
    assert_mirrored(tenants)
    assert {type(v) for v in tenants.rows().column("amount").to_pylist()} == {Decimal}


@pytest.mark.full
def test_more_shapes_than_one_view_has_branches(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirrorlake.serving.many_views.BRANCHES", 2)
    for number in range(5):
        tenants.make(f"{number}", f"{COLUMNS}, c{number} INT", f"(1, 'a', NULL, 1, {number})")
    tenants.sync()
    shown = [
        {n for n in range(5) if row[f"c{n}"] is not None}
        for row in sorted(tenants.shown("raw"), key=lambda row: row["_mirror_database"])
    ]
    assert shown == [{0}, {1}, {2}, {3}, {4}]
    tenants.run("0", "ALTER TABLE orders ADD late INT DEFAULT 9")
    tenants.sync()
    assert [row["late"] for row in tenants.shown("raw") if row["late"]] == [9]
    assert {row["_mirror_version"] for row in tenants.shown("raw")} == versions(tenants)
