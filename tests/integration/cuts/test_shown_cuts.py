"""Cuts under names of their own: namespaces that show the newest one, and clones that stay."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow.compute as _compute
import pytest
from click.testing import Result
from pyiceberg.table import StaticTable

from mirrorlake.config import load_config
from mirrorlake.cuts.ledger import Cuts
from mirrorlake.cuts.make import CutTerms, make_cut
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.tables import shown_clones
from mirrorlake.destinations.iceberg.tables.shown_clones import KEPT
from mirrorlake.errors import ConfigError, LakeError
from mirrorlake.operations.loading.sync_tables import sync_tables
from mirrorlake.operations.upkeep import maintain
from mirrorlake.operations.upkeep.maintain import Ages
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.cuts.test_cuts import transfers
from tests.integration.lakes import by_duckdb
from tests.soak.runs import Order, Runner

pc: Any = _compute
Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
LOG: dict[str, Any] = {"mode": "binlog", "key": ["id"]}
BANK = ("current", "savings")


def said(_: str) -> None: ...


@pytest.fixture
def bank(sql: Sql, engine_for: EngineFor) -> Workspace:
    """Two tables whose sums add up to a constant, one of them masked for readers; and one that
    never had a row."""
    for name in BANK:
        rows = ", ".join(f"({number}, 100, NOW(6))" for number in range(100))
        sql(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, amount DECIMAL(12,2) NOT NULL, at DATETIME(6))",
            f"INSERT INTO {name} VALUES {rows}",
        )
    sql("CREATE TABLE bookings (id INT AUTO_INCREMENT PRIMARY KEY, account INT, amount INT)")
    sql("CREATE TABLE bare (id INT PRIMARY KEY)")
    tables = {name: LOG | {"clean": "table"} for name in BANK} | {"bookings": LOG, "bare": LOG}
    workspace = engine_for(tables)
    path = workspace.config.path
    path.write_text(path.read_text() + "\ncuts: {sources: {s: {at_cut: true}}}\n")
    for cut in Cuts(workspace.ledger).all("s"):  # of other tests
        Cuts(workspace.ledger).forget(cut.name)
    return replace(workspace, config=load_config(path))


def at_cut(workspace: Workspace, table: str, layer: str = "deduped") -> Identifier:
    contract = next(c for c in workspace.config.tables if c.table == table)
    return Identifier(f"{getattr(contract.namespaces, layer)}__at_cut", table)


def sums(workspace: Workspace, layer: str = "deduped") -> tuple[Any, ...]:
    """By PyIceberg, of what the catalog names at one moment."""
    tables = [workspace.lake.load(at_cut(workspace, name, layer)) for name in BANK]
    return tuple(pc.sum(t.scan().to_arrow()["amount"]).as_py() for t in tables if t is not None)


@pytest.mark.full
def test_the_newest_cut_is_shown_to_every_engine_and_moves(
    server: EmbeddedServer, database: str, sql: Sql, place: Place, bank: Workspace
) -> None:
    spark, shown = place.spark.get(), []
    with transfers(server, database):
        for _ in range(2):
            made = make_cut(bank, "s", CutTerms(keep=timedelta(0)), said)
            assert (made.not_shown, made.shown and made.shown.together) == (None, True)
            shown.append(made.cut)
            for layer in ("deduped", "clean"):
                names = [at_cut(bank, name, layer) for name in BANK]
                queries = [f"SELECT sum(amount) FROM {name.sql}" for name in names]
                assert sum(spark.sql(query).collect()[0][0] for query in queries) == 20_000
                assert sum(sums(bank, layer)) == 20_000
                tables = [bank.lake.load(name) for name in names]
                found = [by_duckdb(table)["amount"] for table in tables if table is not None]
                assert sum(pc.sum(amounts).as_py() for amounts in found) == 20_000
    # The same tables to whoever knows them, and of the last cut.
    assert spark.sql(f"SELECT count(*) FROM {at_cut(bank, 'bare').sql}").collect()[0][0] == 0
    before = sums(bank)
    sql("UPDATE current SET amount = amount + 1")
    for one in sync_tables(bank, bank.config.tables):
        assert one.error is None
    assert sums(bank) == before
    # The cut that is shown is kept, though its time is over; the others went.
    assert [one.name for one in Cuts(bank.ledger).all("s")] == [shown[-1].name]


def test_what_is_shown_outlives_upkeep_and_is_no_work_of_other_hands(
    sql: Sql, bank: Workspace, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_cut(bank, "s", CutTerms(), said)
    before = sums(bank)
    sql("UPDATE current SET amount = amount + 1")
    monkeypatch.setattr(maintain, "RETAIN", 1)
    for one in sync_tables(bank, bank.config.tables):
        assert one.error is None
    for contract in bank.config.tables:
        for done in maintain.maintain_table(
            bank, contract, Ages(keep=timedelta(0), grace=timedelta(0))
        ):
            assert done.error is None
    assert sums(bank) == before
    synced = json.loads(command("sync", "--json", workspace=bank).stdout)
    assert synced["attention"] == []
    (name,) = (cut.name for cut in Cuts(bank.ledger).all("s"))
    refused = command("cuts", "--drop", name, workspace=bank)
    assert isinstance(refused.exception, ConfigError)
    held = json.loads(command("cuts", "--held", "--json", workspace=bank).stdout)
    assert [one["held_bytes"] > 0 for one in held] == [True]
    assert command("clone", "--drop", "at_cut", workspace=bank).exit_code == 0
    assert bank.lake.load(at_cut(bank, "current")) is None
    assert command("cuts", "--drop", name, workspace=bank).exit_code == 0


def test_readers_keep_the_cut_before_one_that_is_not_whole(
    sql: Sql, bank: Workspace, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_cut(bank, "s", CutTerms(), said)
    before = sums(bank)
    sql("UPDATE current SET amount = amount + 1", "ALTER TABLE bookings ENGINE = MyISAM")
    made = command("cut", "s", "--json", workspace=bank)
    found = json.loads(made.stdout)
    assert (made.exit_code, "bookings is not in it" in found["not_shown"]) == (10, True)
    assert sums(bank) == before


@pytest.mark.full
def test_a_table_of_such_a_name_is_left_alone(bank: Workspace) -> None:
    make_cut(bank, "s", CutTerms(), said)
    table, taken = bank.lake.load(at_cut(bank, "current")), at_cut(bank, "savings")
    assert table is not None
    before = sums(bank)
    bank.lake.catalog.drop_table(taken.path)
    bank.lake.catalog.create_table(taken.path, table.schema())
    made = make_cut(bank, "s", CutTerms(), said)
    assert made.not_shown is not None
    assert "is there, and is no clone" in made.not_shown
    assert sums(bank)[0] == before[0]


@pytest.mark.full
def test_only_some_metadata_files_of_what_is_shown_stay(
    bank: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that a reader may have begun with do: who began with the first reads on."""
    cut = make_cut(bank, "s", CutTerms(), said).cut
    from mirrorlake.cuts.shown import show_newest
    from mirrorlake.destinations.iceberg.storage.listing import list_files

    table = bank.lake.load(at_cut(bank, "current"))
    assert table is not None
    for _ in range(KEPT + 2):
        show_newest(bank, cut)
    assert len(StaticTable.from_metadata(table.metadata_location).scan().to_arrow()) == 100
    monkeypatch.setattr(shown_clones, "KEPT_FOR", timedelta(0))
    show_newest(bank, cut)
    found = list_files(table, f"{table.location()}/metadata").files
    assert len([one for one in found if one.path.endswith(".metadata.json")]) == KEPT
    assert sum(sums(bank)) == 20_000


@pytest.mark.full
def test_a_table_that_another_hand_moves_meanwhile(
    bank: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them show the cut before: none was moved."""
    make_cut(bank, "s", CutTerms(), said)
    before = {name: bank.lake.load(at_cut(bank, name)) for name in BANK}
    written = shown_clones._written  # pyright: ignore[reportPrivateUsage]

    def meddle(lake: Any, one: Any, there: Any) -> str:
        if one.name == at_cut(bank, "savings"):
            table = lake.load(one.name)
            table.transaction().set_properties({"x": "1"}).commit_transaction()
        return written(lake, one, there)

    monkeypatch.setattr(shown_clones, "_written", meddle)
    made = make_cut(bank, "s", CutTerms(), said)
    assert made.not_shown is not None
    assert "somebody else moved it" in made.not_shown
    after = bank.lake.load(at_cut(bank, "current"))
    assert after is not None
    assert before["current"] is not None
    assert after.metadata_location == before["current"].metadata_location


@pytest.mark.full
@pytest.mark.parametrize("point", ["cut.made", "cut.clone_written"])
def test_a_run_that_dies_before_it_shows_its_cut(
    sql: Sql, bank: Workspace, runner: Runner, point: str
) -> None:
    make_cut(bank, "s", CutTerms(), said)
    before = sums(bank)
    sql("UPDATE current SET amount = amount - 1", "UPDATE savings SET amount = amount + 1")
    parts = {"act": "command", "arguments": ("cut", "s"), "failpoint": point}
    run = runner.run(Order(bank.config.path, **parts, lease_seconds=2))
    assert run.code == -signal.SIGKILL, run.error
    assert sums(bank) == before
    made = make_cut(bank, "s", CutTerms(), said)
    assert made.shown is not None
    assert sums(bank) == (before[0] - 100, before[1] + 100)


@pytest.mark.full
def test_a_clone_of_a_cut_stays_when_the_cut_goes(
    sql: Sql, place: Place, bank: Workspace, command: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    first = make_cut(bank, "s", CutTerms(), said).cut
    sql(
        "ALTER TABLE current ADD COLUMN later INT DEFAULT 7",
        "UPDATE current SET amount = amount + 1",
    )
    second = make_cut(bank, "s", CutTerms(), said).cut
    cloned = command("clone", "--cut", first.name, "audit", workspace=bank)
    assert cloned.exit_code == 0, cloned.exception or cloned.output
    again = command("clone", "--cut", first.name, "audit", workspace=bank)
    assert isinstance(again.exception, LakeError)
    assert command("cuts", "--drop", first.name, workspace=bank).exit_code == 0
    monkeypatch.setattr(maintain, "RETAIN", 1)
    for contract in bank.config.tables:
        for done in maintain.maintain_table(bank, contract, Ages(keep=timedelta(0))):
            assert done.error is None
    spark, spaces = place.spark.get(), bank.config.tables[0].namespaces
    name = Identifier(f"{spaces.deduped}__audit", "current").sql
    assert spark.sql(f"SELECT sum(amount) FROM {name}").collect()[0][0] == 10_000
    assert "later" not in spark.table(name).columns  # as it was then
    spark.sql(f"DELETE FROM {name} WHERE id = 1")  # seen in the clone alone
    assert spark.sql(f"SELECT count(*) FROM {name}").collect()[0][0] == 99
    assert sums(bank)[0] == 10_100
    for wrong in ((), ("audit",), ("--cut", first.name), ("--cut", first.name, "--drop", "audit"),
                  ("--cut", second.name, "a", "b"), ("current", "--drop", "audit", "--cut", "x")):  # fmt: skip
        refused = command("clone", *wrong, workspace=bank)
        assert isinstance(refused.exception, ConfigError), (wrong, refused.output)
    # One table, as before.
    name, other = bank.config.table("current").name, f"{spaces.deduped}.copy"
    cloned = json.loads(command("clone", name, other, "--json", workspace=bank).stdout)
    assert cloned["table"] == other
    dropped = json.loads(command("clone", name, "--drop", other, "--json", workspace=bank).stdout)
    assert dropped == {"dropped": [other]}
    before = bank.lake.load(Identifier(spaces.deduped, "savings"))
    assert before is not None
    for wrong in ("at_cut", "No", "x" * 40, "raw", "clean"):
        for arguments in (("--cut", second.name, wrong), ("--drop", wrong)):
            if wrong != "at_cut":
                refused = command("clone", *arguments, workspace=bank)
                assert isinstance(refused.exception, ConfigError), (arguments, refused.output)
    after = bank.lake.load(Identifier(spaces.deduped, "savings"))
    assert after is not None
    assert after.metadata_location == before.metadata_location
    dropped = command("clone", "--drop", "audit", "--json", workspace=bank)
    assert f"{spaces.deduped}__audit" in json.loads(dropped.stdout)["dropped"]
    table = bank.lake.load(Identifier(spaces.deduped, "current"))
    assert table is not None
    assert "clone_audit" not in table.metadata.refs
    assert isinstance(command("clone", "--drop", "audit", workspace=bank).exception, ConfigError)
