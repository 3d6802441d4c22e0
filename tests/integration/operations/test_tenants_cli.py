"""Tenants by the command line, as a person runs it: what each command says of a table of them."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.errors import ConfigError
from mirrorlake.ledger import Ledger
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.table.lake_tables import clean_of, deduped_of
from tests.integration.conftest import Place
from tests.integration.operations.test_tenants_said import COLUMNS, ROWS, oneline, run
from tests.integration.operations.test_upkeep import shared_session  # noqa: F401 – one JVM for all commands
from tests.integration.tenants import Tenants

SETTLED_SECONDS = 3.2
"""After so long without a change, what a server shows says whether a table changed."""


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables as a wide screen has them: a worker of pytest-xdist says that its own is narrow."""
    monkeypatch.setattr("mirrorlake.cli.show.console.width", 200)


@pytest.fixture
def tenants(server: EmbeddedServer, place: Place) -> Iterator[Tenants]:
    made = Tenants(server, place, f"t{uuid.uuid4().hex[:8]}")
    yield made
    for source in ("s", "other"):  # the tests share a ledger
        Ledger(made.config().ledger.url).release(source)
    made.close()


def synced(tenants: Tenants, *arguments: str, code: int = 0) -> dict[str, Any]:
    done = run(tenants, "sync", "--json", *arguments)
    assert done.exit_code == code, done.output
    (found,) = json.loads(done.stdout)["tenants"]
    return found


# --- a source that is held ------------------------------------------------------------------------


def test_a_hold_stops_a_sync_and_is_no_failure(tenants: Tenants) -> None:
    tenants.make("a", COLUMNS, *ROWS)
    until, words = "2099-01-01T06:00", "source s is held until 2099-01-01 06:00 UTC (new disks)"
    for before in ("never read", "mirrored"):
        held = run(tenants, "hold", "s", "--until", until, "--reason", "new disks")
        assert held.exit_code == 0, held.output
        done = run(tenants, "sync")
        assert done.exit_code == 0, (before, done.output)
        assert f"held: {words}" in oneline(done.output)
        found = json.loads(run(tenants, "sync", "--json").stdout)
        assert (found["tenants"], found["errors"]) == ([], [])
        (waiting,) = found["held"]
        assert waiting["table"] == f"{tenants.prefix}.orders"
        assert words in waiting["reason"]
        (status,) = json.loads(run(tenants, "status", "orders", "--json").stdout)
        assert status["held_until"] == "2099-01-01T06:00+00:00"
        assert status["held_for"] == "new disks"
        shown = oneline(run(tenants, "status", "orders").output)
        assert "tenants held" in shown
        assert words in shown
        assert run(tenants, "hold", "s", "--release").exit_code == 0
        assert synced(tenants)["tenants"] == 1
    run(tenants, "hold", "s", "--until", until)
    failed = run(tenants, "check", "orders")
    assert words.partition(" (")[0] in str(failed.exception)


@pytest.mark.full
def test_a_hold_of_one_source_leaves_the_others(tenants: Tenants) -> None:
    tenants.others["other"] = 1  # nothing listens there: a held source is not even reached
    tenants.make("a", COLUMNS, *ROWS)
    assert run(tenants, "hold", "other", "--until", "2099-01-01T06:00").exit_code == 0
    done = run(tenants, "sync", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    (one,) = found["tenants"]
    words = "source other is held until 2099-01-01 06:00 UTC"
    assert (one["read"], one["failed"]) == (1, {})
    assert one["held"].keys() == {"other"}
    assert [words in waiting["reason"] for waiting in found["held"]] == [True]
    assert f"held: {words}" in oneline(run(tenants, "sync").output)
    (status,) = json.loads(run(tenants, "status", "orders", "--json").stdout)
    assert status["held_until"] is None
    assert words in status["checks"]


# --- commands that are not for tenants ------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        ("proof", "`mirrorlake tenants {table}` shows what the newest check found"),
        ("refold", "`mirrorlake sync {table}` folds"),
        ("repair", "`mirrorlake sync {table} --tenant DATABASE --again`"),
        ("rekey", "with `clean: table` and the new key"),
        ("publish", "`mirrorlake sync`, `tenants`, `status`, `check`, `schema`"),
        ("land", "`mirrorlake sync`, `tenants`, `status`, `check`, `schema`"),
    ],
)
@pytest.mark.parametrize("short", [True, False])
def test_a_command_that_does_not_take_tenants_says_what_does(
    command: str, instead: str, short: bool, tenants: Tenants
) -> None:
    table = f"{tenants.prefix}.orders"
    refused = run(tenants, command, "orders" if short else table)
    assert isinstance(refused.exception, ConfigError), refused.output
    words = str(refused.exception)
    assert f"{table} is a table of tenants, which this command does not take" in words
    assert instead.format(table=table) in words


@pytest.mark.full
def test_schema_shows_the_versions_of_tenants_side_by_side(tenants: Tenants) -> None:
    tenants.contract["columns"] = {"email": {"pii": "null", "renamed_from": "mail"}}
    tenants.make("a", "id INT PRIMARY KEY, mail VARCHAR(20)", "(1, 'a')")
    tenants.make("b", "id BIGINT PRIMARY KEY, email VARCHAR(20), extra INT", "(1, 'b', 7)")
    tenants.make("c", "id INT PRIMARY KEY, mail VARCHAR(20)", "(1, 'c')")
    synced(tenants)
    found = json.loads(run(tenants, "schema", "orders", "--json").stdout)
    assert found["table"] == f"{tenants.prefix}.orders"
    by_tenants = {one["tenants"]: one["number"] for one in found["versions"]}
    assert by_tenants.keys() == {2, 1}
    assert all("CREATE TABLE" in one["ddl"] for one in found["versions"])
    columns = {one["name"]: one for one in found["columns"]}
    assert columns.keys() == {"id", "email", "extra"}
    assert (columns["id"]["lake"], columns["id"]["versions"]) == ("long", [1, 2])
    assert columns["email"]["former"] == ["mail"]
    assert columns["extra"]["versions"] == [by_tenants[1]]
    shown = oneline(run(tenants, "schema", "orders", "--ddl").output)
    assert "CREATE TABLE" in shown
    assert "gone" not in shown
    changes = [one["changes"] for one in found["versions"]]
    assert changes[0] == []
    assert any(part in str(changes[1]) for part in ("with extra", "without extra"))
    tenants.run("c", "ALTER TABLE orders ADD note TEXT")
    assert "note: new in MySQL, and held out of clean" in oneline(run(tenants, "sync").output)
    assert "held out of clean: note" in oneline(run(tenants, "status").output)
    assert "note: new in MySQL" in oneline(run(tenants, "tenants").output)
    tenants.contract["columns"]["note"] = {"pii": "show"}
    assert "held out of clean" not in oneline(run(tenants, "status").output)
    found = json.loads(run(tenants, "schema", "orders", "--json").stdout)
    assert found["versions"][2]["changes"] == [f"as {by_tenants[2]}, with note"]


# --- what a sync says that it did -----------------------------------------------------------------


def table_of(output: str) -> dict[str, str]:
    """The one row of the table that a command printed, by its columns."""
    lines = output.splitlines()
    rule = next(number for number, line in enumerate(lines) if set(line.strip()) == {"─"})
    head, row = (re.split(r"\s{2,}", lines[n].strip()) for n in (rule - 1, rule + 1))
    return dict(zip(head, row, strict=True))


@pytest.mark.full
def test_what_became_of_tenants_adds_up(tenants: Tenants) -> None:
    for name in ("a", "b", "c", "d", "e"):
        tenants.make(name, COLUMNS, *ROWS)
    time.sleep(SETTLED_SECONDS)
    first = table_of(run(tenants, "sync").output)
    assert [first[n] for n in ("tenants", "read", "joined", "rows read")] == ["5", "5", "5", "10"]
    tenants.drop("b")
    tenants.run("c", "ALTER TABLE orders DROP PRIMARY KEY")
    tenants.run("d", "UPDATE orders SET name = 'x' WHERE id = 1")
    done = run(tenants, "sync")
    found = table_of(done.output.split("tenant s.")[0])
    names = ("tenants", "read", "unchanged", "failed", "gone", "rows read")
    assert [found[name] for name in names] == ["5", "1", "2", "1", "1", "2"]
    assert "removed" not in found
    one = run(tenants, "sync", "orders", "--tenant", tenants.name("a"), "--json")
    (said,) = json.loads(one.stdout)["tenants"]
    expected = {"read": 0, "unchanged": 1, "failed": 0, "gone": 1, "not looked at": 3}
    assert (said["counts"], said["tenants"]) == (expected, 5)
    assert table_of(run(tenants, "sync", "orders", "--tenant", tenants.name("a")).output)[
        "not looked at"
    ] == str(expected["not looked at"])


@pytest.mark.full
@pytest.mark.parametrize("clean", ["view", pytest.param("table", marks=pytest.mark.full)])
def test_tenants_that_are_removed_are_counted_with_their_rows(clean: str, tenants: Tenants) -> None:
    tenants.contract["clean"] = clean
    for name in ("a", "b", "c", "d", "e"):
        tenants.make(name, COLUMNS, *ROWS)
    synced(tenants)
    tenants.drop("b")
    tenants.run("c", "DROP TABLE orders")
    kept = synced(tenants)
    assert (kept["counts"]["gone"], kept["removed"], kept["rows_removed"]) == (2, {}, 0)
    tenants.group["dropped"] = "remove"
    done = run(tenants, "sync")
    found = table_of(done.output.split("orders, left out")[0])
    names = ("tenants", "gone", "removed", "rows removed")
    assert [found[name] for name in names] == ["3", "0", "2", "4"]
    assert len(tenants.deduped("id")) == 3
    tenants.drop("d")
    said = synced(tenants)
    assert (said["removed"], said["rows_removed"]) == ({f"s.{tenants.name('d')}": 2}, 2)
    assert sum(said["counts"].values()) == said["tenants"] == 2
    assert len(tenants.shown()) == 4


@pytest.mark.full
def test_a_tenant_leaves_though_all_are_folded_again(tenants: Tenants) -> None:
    """Another type has deduped written from scratch: who left is not in it, and is forgotten."""
    tenants.group["dropped"] = "remove"
    for name in ("a", "b", "c"):
        tenants.make(name, COLUMNS, *ROWS)
    synced(tenants)
    tenants.drop("b")
    tenants.run("c", "ALTER TABLE orders MODIFY name DATETIME NULL, ADD x INT")
    tenants.run("c", "UPDATE orders SET name = '2026-01-01'")
    said = synced(tenants, code=10)  # x waits for a rule
    assert said["removed"] == {f"s.{tenants.name('b')}": 2}
    assert sum(said["counts"].values()) == said["tenants"] == 2
    assert set(tenants.deduped("id")) == {tenants.name("a"), tenants.name("c")}


# --- what stays known after a command -------------------------------------------------------------


def status_of(tenants: Tenants) -> dict[str, Any]:
    (found,) = json.loads(run(tenants, "status", "orders", "--json").stdout)
    return found


@pytest.mark.full
def test_a_sync_that_was_refused_is_shown_until_one_is_not(tenants: Tenants) -> None:
    tenants.make("a", COLUMNS, *ROWS)
    synced(tenants)
    assert (status_of(tenants)["state"], status_of(tenants)["refused_since"]) == ("mirrored", None)
    # A name that a person mistyped says nothing of the table.
    assert run(tenants, "sync", "orders", "--tenant", "nobody").exit_code == ConfigError.exit_code
    assert status_of(tenants)["state"] == "mirrored"
    tenants.contract["columns"] = {"nmae": {"pii": "null"}}
    assert run(tenants, "sync").exit_code == 5
    first = status_of(tenants)
    words = "the contract has a rule for 'nmae', and no tenant has such a column"
    assert first["state"] == "refused"
    assert words in first["error"]
    tenants.run("a", "UPDATE orders SET name = 'x'")  # the refused sync may load what moved
    assert run(tenants, "sync").exit_code == 5
    assert status_of(tenants)["refused_since"] == first["refused_since"] is not None
    for command, begin in (("status", "refused (first"), ("tenants", "sync refused, first")):
        shown = oneline(run(tenants, command, "orders").output)
        assert words in shown, command
        assert begin in shown, command
    tenants.contract["columns"] = {"name": {"pii": "null"}}
    synced(tenants)
    assert (status_of(tenants)["state"], status_of(tenants)["error"]) == ("mirrored", None)
    assert "refused" not in run(tenants, "tenants").output


def test_a_table_that_no_source_has_is_refused_in_its_status(tenants: Tenants) -> None:
    assert run(tenants, "sync").exit_code == ConfigError.exit_code
    found = status_of(tenants)
    assert (found["state"], found["last_load"]) == ("refused", None)
    assert "has no tenant: s: no database that this account may see" in found["error"]


def test_what_waits_for_a_person_says_what_to_do(tenants: Tenants) -> None:
    """A column that one tenant got, and a copy that is far smaller than the last one."""
    for name in ("a", "b"):
        tenants.make(name, COLUMNS, *ROWS)
    synced(tenants)
    tenants.run("a", "ALTER TABLE orders ADD mail VARCHAR(20)")
    assert run(tenants, "sync").exit_code == 10
    shown = oneline(run(tenants, "tenants").output)
    assert "mail: new in MySQL, and held out of clean: give each a rule under" in shown, shown
    tenants.run("b", "TRUNCATE orders")
    assert run(tenants, "sync").exit_code == 4
    done = run(tenants, "check", "orders", "--json")
    assert done.exit_code == 10
    assert "--accept-smaller" in done.stdout


@pytest.mark.full
def test_why_a_check_could_not_decide_is_kept(tenants: Tenants) -> None:
    for name in ("a", "b"):
        tenants.make(name, COLUMNS, *ROWS)
    synced(tenants)
    tenants.run("b", "UPDATE orders SET name = 'x' WHERE id = 1")
    assert run(tenants, "check", "orders").exit_code == 10
    words = "MySQL changed since it was read: sync, then check again"
    b = tenants.name("b")
    (found,) = json.loads(run(tenants, "tenants", "--tenant", b, "--json").stdout)
    assert (found["verdict"], found["verdict_words"]) == ("undecided", words)
    assert words in oneline(run(tenants, "tenants", "--tenant", b).output)
    assert words not in oneline(run(tenants, "tenants", "--tenant", tenants.name("a")).output)
    synced(tenants)
    assert run(tenants, "check", "orders").exit_code == 0
    (found,) = json.loads(run(tenants, "tenants", "--tenant", b, "--json").stdout)
    assert (found["verdict"], found["verdict_words"]) == ("equal", None)


# --- what a check says that it compared -----------------------------------------------------------


def checked(tenants: Tenants, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """A check's exit code, its JSON, and what it prints for people."""
    done = run(tenants, "check", "orders", "--json", *arguments)
    return (
        done.exit_code,
        json.loads(done.stdout),
        oneline(run(tenants, "check", "orders", *arguments).output),
    )


@pytest.mark.full
def test_a_tenant_that_is_gone_has_one_verdict_alone_and_with_others(tenants: Tenants) -> None:
    for name in ("a", "b"):
        tenants.make(name, COLUMNS, *ROWS)
    synced(tenants)
    tenants.drop("b")
    synced(tenants)
    alone = ("--tenant", tenants.name("b"))
    for arguments in ((), alone):
        code, found, shown = checked(tenants, *arguments)
        assert (code, found["verdict"]) == (0, "equal"), shown
        assert "1 gone" in shown
    with tenants.opened() as (workspace, table):
        deduped = deduped_of(table).sql
        where = f"_mirror_database = '{tenants.name('b')}' AND id = 1"
        workspace.spark.get().sql(f"DELETE FROM {deduped} WHERE {where}")
    for arguments in ((), alone):
        code, found, shown = checked(tenants, *arguments)
        assert (code, found["verdict"]) == (9, "different"), shown


@pytest.mark.full
def test_a_tenant_that_went_before_it_was_read_is_forgotten(tenants: Tenants) -> None:
    tenants.make("a", COLUMNS, *ROWS)
    tenants.make("b", "id INT, name VARCHAR(20)", "(1, 'x')")
    assert run(tenants, "sync").exit_code == 4
    tenants.drop("b")
    assert synced(tenants)["tenants"] == 1


@pytest.mark.full
def test_clean_is_compared_and_its_change_of_kind_is_said(tenants: Tenants) -> None:
    tenants.contract |= {"clean": "view", "columns": {"name": {"pii": "null"}}}
    for name in ("a", "b"):
        tenants.make(name, COLUMNS, *ROWS)
    first = synced(tenants)
    assert (first["clean"], first["clean_made"], first["clean_written"]) == ("view", True, 0)
    code, found, shown = checked(tenants)
    assert (code, found["clean"]["kind"], found["clean"]["verdict"]) == (0, "view", "equal")
    assert "clean (a view): equal (the view's definition with the contract's rules)" in shown
    # Somebody's own view shows what the rules hide.
    with tenants.opened() as (workspace, table):
        clean, deduped = clean_of(table).sql, deduped_of(table).sql
        workspace.spark.get().sql(f"CREATE OR REPLACE VIEW {clean} AS SELECT * FROM {deduped}")
    code, found, shown = checked(tenants)
    assert (code, found["clean"]["verdict"]) == (9, "different")
    assert "has another definition than the contract's" in shown
    synced(tenants, code=10)  # and says that it was put right
    tenants.contract["clean"] = "table"
    words = f"{tenants.prefix}.orders: clean was made as a table, with the rows of 2 tenants"
    assert words in oneline(run(tenants, "sync").output)
    assert "clean was made" not in run(tenants, "sync").output
    code, found, shown = checked(tenants)
    assert (code, found["clean"]["kind"], found["clean"]["verdict"]) == (0, "table", "equal")
    assert "clean (a table): equal (every row with what the contract's rules make" in shown
    tenants.contract["clean"] = "view"
    assert "clean was made as a view" in run(tenants, "sync").output


def test_one_tenant_is_read_as_the_page_shows(tenants: Tenants) -> None:
    for name in ("a", "b"):
        tenants.make(name, COLUMNS, *ROWS)
    synced(tenants)
    page = (Path(__file__).parents[3] / "docs" / "tenants.md").read_text("utf-8")
    ((code),) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    code = code.replace(".mirrorlake/lake", str(tenants.place.folder / "lake"))
    code = code.replace('"shops.orders"', f'"{tenants.prefix}.orders"')
    code = code.replace("shop_17", tenants.name("b"))
    found: dict[str, Any] = {}
    exec(code, found)  # noqa: S102 - the page's own example
    assert found["rows"].column("_mirror_database").to_pylist() == [tenants.name("b")] * 2


@pytest.mark.full
def test_doctor_looks_at_sources_and_patterns_of_tenants(tenants: Tenants) -> None:
    def looked() -> tuple[int, dict[str, tuple[str, str]]]:
        done = run(tenants, "doctor", "--json")
        name = f"tenants {tenants.prefix}.orders"
        pieces = [one for one in json.loads(done.stdout) if one["name"].startswith(name)]
        found = {one["name"].removeprefix(name): (one["state"], one["detail"]) for one in pieces}
        return done.exit_code, found

    code, found = looked()
    assert (code, found[""]) == (3, ("broken", "0 of 0 tenants can be kept"))
    assert "no database of any source is called so" in found[": left out"][1]
    tenants.make("a", COLUMNS, *ROWS)
    code, found = looked()
    assert found == {"": ("ok", "1 of 1 tenants can be kept")}
    tenants.make("b", "id INT, name VARCHAR(20)")
    tenants.group["databases"] = [f"{tenants.prefix}_%", "nothing_%"]
    code, found = looked()
    assert code == 3
    assert found[""] == ("broken", "1 of 2 tenants can be kept")
    assert f"s.{tenants.name('b')}: " in found[": tenant"][1]
    words = "pattern nothing_%: no database of any source is called so"
    assert found[": left out"] == ("missing", words)
