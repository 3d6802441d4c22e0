"""Tenants: what is no tenant though the contract names it, and drops that are refused, are said
until they are put right: by the sync, and by whoever asks later."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mirrorlake.cli.main import cli
from mirrorlake.errors import ConfigError
from mirrorlake.operations.tenants.checks import check_tenants
from mirrorlake.operations.tenants.looks import TenantLook, read_look
from mirrorlake.operations.tenants.survey import survey_tenants
from mirrorlake.operations.tenants.sync import sync_tenants
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.integration.conftest import PASSWORD, USER, Place
from tests.integration.operations.test_upkeep import shared_session  # noqa: F401 – one JVM for all commands
from tests.integration.tenants import Tenants
from tests.support.mysql8 import MySQL8

COLUMNS = "id INT PRIMARY KEY, name VARCHAR(20)"
ROWS = ("(1, 'a')", "(2, 'b')")


def run(tenants: Tenants, *arguments: str) -> Result:
    command = [*arguments, "--config", str(tenants.write())]
    return CliRunner().invoke(cli, command, env={"TEST_PASSWORD": PASSWORD, "COLUMNS": "200"})


def seen(tenants: Tenants) -> TenantLook:
    with tenants.opened() as (workspace, table):
        look = read_look(workspace.ledger, table)
    assert look is not None
    return look


def oneline(text: str) -> str:
    return " ".join(text.split())


# --- what is no tenant ----------------------------------------------------------------------------


@pytest.mark.full
def test_what_the_contract_names_and_is_no_tenant_is_said(tenants: Tenants) -> None:
    tenants.group |= {
        "databases": [f"{tenants.prefix}_%", "nothing_%"],
        "left_out": [tenants.name("typo")],
    }
    tenants.make("a", COLUMNS, *ROWS)
    tenants.make("view", COLUMNS, table="other")
    tenants.run("view", "CREATE VIEW orders AS SELECT * FROM other")
    tenants.make("none", COLUMNS, table="other")
    expected = {
        f"s.{tenants.name('view')}": "orders is a view there, and only tables are mirrored",
        "pattern nothing_%": "no database of any source is called so",
        f"left_out {tenants.name('typo')}": "no database of any source is called so",
    }
    done = run(tenants, "sync", "--json")
    assert done.exit_code == 0, done.output  # nothing of it keeps a tenant from being mirrored
    (said,) = json.loads(done.stdout)["tenants"]
    assert (said["read"], said["failed"], said["left_out"]) == (1, {}, expected)
    assert said["without"] == [f"s.{tenants.name('none')}"]
    for command in ("sync", "tenants"):  # and later, when no source is queried
        shown = oneline(run(tenants, command, "orders").output)
        for name, why in expected.items():
            assert f"left out: {name}: {why}" in shown, command
        assert f"1 database has no such table: s.{tenants.name('none')}" in shown
    with tenants.opened() as (workspace, table):
        checked = check_tenants(workspace, table)
    assert (checked.verdict, dict(checked.left_out)) == ("equal", expected)
    # What is put right is said no more.
    tenants.run("view", "DROP VIEW orders", f"CREATE TABLE orders ({COLUMNS})")
    tenants.group |= {
        "databases": [f"{tenants.prefix}_%"],
        "left_out": [tenants.name("none")],
    }
    assert json.loads(run(tenants, "sync", "--json").stdout)["tenants"][0]["left_out"] == {}
    assert (seen(tenants).left_out, seen(tenants).without) == ((), ())


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ("nothing", "s: no database that this account may see is called like"),
        ("a view", "orders is a view there"),
        ("no table", ": 1, and none has a table orders that this account may see"),
    ],
)
def test_a_table_that_no_source_has_is_an_error(there: str, words: str, tenants: Tenants) -> None:
    if there != "nothing":
        tenants.make("x", COLUMNS, table="other")
    if there == "a view":
        tenants.run("x", "CREATE VIEW orders AS SELECT * FROM other")
    failed = run(tenants, "sync", "--json")
    assert failed.exit_code == ConfigError.exit_code
    (error,) = json.loads(failed.stdout)["errors"]
    assert "has no tenant: " in error["error"]
    assert words in error["error"]
    assert words in oneline(run(tenants, "tenants").output)


@pytest.mark.full
def test_a_table_that_is_spelled_otherwise_is_said(place: Place, tmp_path: Path) -> None:
    """To a server that folds case both names are one table; a reader of the lake has two."""
    fold = ("--lower-case-table-names=1",)
    with MariaDB.start(tmp_path / "mysql", extra_args=fold) as server:
        server.create_user(USER, PASSWORD)
        tenants = Tenants(server, place, f"t{uuid.uuid4().hex[:8]}", table="Orders")
        tenants.make("a", COLUMNS, *ROWS)
        with pytest.raises(ConfigError) as refused:
            tenants.sync()
        words = f"s.{tenants.name('a')}: its table is spelled orders, and the contract says Orders"
        assert words in str(refused.value)


def test_a_server_under_two_names_is_refused(tenants: Tenants) -> None:
    """Each of its tenants would be there twice."""
    for number in range(4):
        tenants.make(f"{number}", "id INT PRIMARY KEY", "(1)")
    tenants.others["again"] = tenants.server.port
    first = tenants.name("0")
    words = rf"sources again and s are one server, and 4 databases of it \({first}, .* …\)"
    with tenants.opened() as (workspace, table):
        for look in (sync_tenants, survey_tenants):
            with pytest.raises(ConfigError, match=words):
                look(workspace, table)
        assert workspace.ledger.tenants(table.name) == {}
        assert workspace.ledger.refusals()[table.name]


@pytest.mark.full
def test_a_source_without_tenants_is_said(tenants: Tenants, mysql8: MySQL8) -> None:
    tenants.others["other"] = mysql8.port
    tenants.make("a", COLUMNS, *ROWS)
    done = tenants.sync()
    assert (done.read, done.failed) == (1, {})
    words = f"no database that this account may see is called like {tenants.prefix}_%"
    assert done.left_out == {"other": words}
    # One that can't be looked at keeps what was said of it.
    tenants.others["other"] = 1
    lost: Any = tenants.sync()
    assert list(lost.failed) == ["other"]
    assert lost.left_out == {"other": words}


# --- drops that are refused -----------------------------------------------------------------------


@pytest.mark.full
def test_a_drop_that_was_refused_is_said_until_it_is_confirmed(tenants: Tenants) -> None:
    tenants.group["dropped"] = "remove"
    for name in ("a", "b", "c"):
        tenants.make(name, COLUMNS, *ROWS)
    assert tenants.sync().failed == {}
    tenants.drop("b")
    tenants.drop("c")
    assert run(tenants, "sync").exit_code == 4
    (first,) = seen(tenants).drops
    assert (first.source, first.gone, first.of) == ("s", 2, 3)
    # Later, when no source is queried: it is refused, since then, by the same words everywhere.
    words = "2 of 3 tenants of source s are gone; their rows stay as they were until somebody"
    for command in ("tenants", "status"):
        shown = oneline(run(tenants, command, "orders").output)
        assert words in shown, command
        assert f"mirrorlake sync {tenants.prefix}.orders --accept-smaller" in shown, command
    (status,) = json.loads(run(tenants, "status", "orders", "--json").stdout)
    assert (status["mode"], status["state"], status["rows"]) == ("tenants", "refused", 6)
    assert {one["database"]: one["removal_refused"] for one in listed(tenants)} == {
        tenants.name("a"): False,
        tenants.name("b"): True,
        tenants.name("c"): True,
    }
    # That one tenant's copy may be smaller says nothing of those that are gone.
    tenants.sync(databases=frozenset({tenants.name("a")}), accept_smaller=True)
    assert len(tenants.deduped("id")) == 3
    assert seen(tenants).drops == (first,)
    tenants.sync(accept_smaller=True)
    assert set(tenants.deduped("id")) == {tenants.name("a")}
    assert seen(tenants).drops == ()
    assert "refused" not in run(tenants, "tenants").output
    (status,) = json.loads(run(tenants, "status", "orders", "--json").stdout)
    assert (status["state"], status["rows"], status["error"]) == ("mirrored", 2, None)


@pytest.mark.full
def test_a_drop_that_was_refused_is_forgotten_when_they_are_back(tenants: Tenants) -> None:
    tenants.group["dropped"] = "remove"
    for name in ("a", "b", "c"):
        tenants.make(name, COLUMNS, *ROWS)
    tenants.sync()
    tenants.drop("b")
    tenants.drop("c")
    tenants.sync()
    tenants.group["dropped"] = "keep"
    assert seen(tenants).drops == ()  # nothing would be removed
    tenants.group["dropped"] = "remove"
    tenants.make("b", COLUMNS, *ROWS)
    assert list(tenants.sync().failed) == []  # one of three is no loss of a privilege
    assert seen(tenants).drops == ()
    assert set(tenants.deduped("id")) == {tenants.name("a"), tenants.name("b")}


def listed(tenants: Tenants, *arguments: str) -> list[dict[str, Any]]:
    done = run(tenants, "tenants", "--json", *arguments)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


# --- tenants by name, and verdicts that are of then -----------------------------------------------


@pytest.mark.full
def test_tenants_are_listed_by_name_with_verdicts_of_now(tenants: Tenants) -> None:
    for name in ("north", "south"):
        tenants.make(name, COLUMNS, *ROWS)
    tenants.sync()
    with tenants.opened() as (workspace, table):
        assert check_tenants(workspace, table).verdict == "equal"
    north, south = tenants.name("north"), tenants.name("south")
    assert [one["database"] for one in listed(tenants, "--tenant", south)] == [south]
    both = ("--tenant", south, "--tenant", north)
    assert [one["database"] for one in listed(tenants, *both)] == [north, south]
    shown = oneline(run(tenants, "tenants", "--tenant", south).output)
    assert south in shown
    assert north not in shown
    for command in (["tenants", "orders"], ["sync", "orders"], ["check", "orders"]):
        refused = run(tenants, *command, "--tenant", tenants.name("nort"))
        assert refused.exit_code != 0
        said = oneline(f"{refused.output} {refused.exception}")
        assert f"did you mean '{north}'?" in said, command
    # Its verdict is of when it was there.
    tenants.drop("south")
    tenants.sync()
    (gone,) = listed(tenants, "--tenant", south)
    assert (gone["state"], gone["verdict"], gone["verdict_before_gone"]) == ("gone", None, "equal")
    assert "before it was gone" in oneline(run(tenants, "tenants", "--tenant", south).output)
    (there,) = listed(tenants, "--tenant", north)
    assert (there["verdict"], there["verdict_before_gone"]) == ("equal", None)
    # A check since then is about what it is now; another database of the name was never checked.
    with tenants.opened() as (workspace, table):
        check_tenants(workspace, table)
    assert listed(tenants, "--tenant", south)[0]["verdict"] == "gone"
    tenants.make("south", COLUMNS, *ROWS)
    tenants.sync()
    (back,) = listed(tenants, "--tenant", south)
    assert (back["state"], back["verdict"], back["checked_at"]) == ("mirrored", None, None)
