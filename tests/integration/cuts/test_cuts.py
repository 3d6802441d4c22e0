"""Cuts: all tables of a source at one moment, while it is written to."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow.compute as _compute
import pytest
from click.testing import Result

from mirrorlake.config import load_config
from mirrorlake.cuts import make, prove, tags
from mirrorlake.cuts.ledger import Cut, Cuts
from mirrorlake.cuts.make import CutTerms, make_cut
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import ConfigError, LakeError, LeaseHeld, LedgerError
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.loading.sync_tables import sync_tables
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.operations.upkeep import maintain
from mirrorlake.operations.upkeep.maintain import Ages
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.operations.test_follower import following
from tests.soak.runs import Order, Runner
from tests.support.beside import beside

pc: Any = _compute
Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
LOG: dict[str, Any] = {"mode": "binlog", "key": ["id"]}
BANK = ("current", "savings")
TOTAL = Decimal(20_000)
AT_OTHER_STEPS = ["cut.begun", "fold.recorded", "log.table"]
"""Those before a cut is listed; the others are passed by `test_bank`."""


@pytest.fixture
def bank(sql: Sql, engine_for: EngineFor) -> Workspace:
    """Accounts in two tables, the sum of which is constant; a booking refers to an account."""
    for name in BANK:
        sql(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, amount DECIMAL(12,2) NOT NULL, at DATETIME(6))",
            f"INSERT INTO {name} VALUES "
            + ", ".join(f"({number}, 100, NOW(6))" for number in range(100)),
        )
    sql(
        "CREATE TABLE bookings (id INT AUTO_INCREMENT PRIMARY KEY, account INT NOT NULL,"
        " amount DECIMAL(12,2), FOREIGN KEY (account) REFERENCES current (id))"
    )
    tables = {name: LOG | {"clean": "table"} for name in BANK} | {"bookings": LOG}
    return engine_for(tables)


@contextmanager
def transfers(
    server: EmbeddedServer, database: str, pause: float = 0.02, fresh: int = 1000
) -> Iterator[list[int]]:
    """Money moves between the tables while the block runs, each time in a transaction that books
    it; accounts come and go, new ones from id `fresh` on; how many transactions there were."""
    done = [0]

    def write(stop: threading.Event) -> None:
        rng, new = Random(7), fresh  # noqa: S311
        with contextlib.closing(server.admin(database)) as connection:
            cursor = connection.cursor()
            while not stop.wait(pause):
                connection.begin()
                here, there = rng.sample(BANK, 2)
                one, other, amount = rng.randrange(100), rng.randrange(100), rng.randrange(1, 50)
                book = f"UPDATE {{}} SET amount = amount {{}} {amount}, at = NOW(6) WHERE id = {{}}"
                cursor.execute(book.format(here, "-", one))
                cursor.execute(book.format(there, "+", other))
                if rng.random() < 0.2:
                    new += 1
                    cursor.execute(f"INSERT INTO current VALUES ({new}, 0, NOW(6))")
                    cursor.execute(
                        f"INSERT INTO bookings (account, amount) VALUES ({new}, {amount})"
                    )
                elif rng.random() < 0.1:
                    cursor.execute("DELETE FROM bookings ORDER BY id LIMIT 1")
                connection.commit()
                done[0] += 1

    with beside(write):
        yield done


def at_cut(workspace: Workspace, cut: Cut, table: str, layer: str = "deduped") -> Any:
    """The rows of a table at a cut, found by its tag alone."""
    (one,) = (o for o in cut.tables if o.table.endswith(f".{table}") and o.layer == layer)
    found = workspace.lake.load(Identifier(one.namespace, one.lake_table))
    assert found is not None
    return found.scan(snapshot_id=found.metadata.refs[cut.tag].snapshot_id).to_arrow()


def refuse_torn(workspace: Workspace, cut: Cut) -> None:
    """See that what tables have at a cut is of one moment."""
    for layer in ("deduped", "clean"):
        rows = [at_cut(workspace, cut, name, layer) for name in BANK]
        assert sum(pc.sum(one["amount"]).as_py() for one in rows) == TOTAL, (cut.name, layer)
    accounts = set(at_cut(workspace, cut, "current")["id"].to_pylist())
    booked = set(at_cut(workspace, cut, "bookings")["account"].to_pylist())
    assert booked <= accounts
    assert cut.foreign_keys is not None
    (key,) = cut.foreign_keys.keys
    assert (key.verdict, key.orphans, key.columns) == ("holds", 0, ("account",))


def said(_: str) -> None: ...


def mine(workspace: Workspace, *, made: bool = True) -> list[str]:
    """The names of the cuts of this test's tables: the ledger is many tests'."""
    database = workspace.config.tables[0].database
    cuts = Cuts(workspace.ledger).all(made=made)
    return [cut.name for cut in cuts if any(f".{database}." in name for name in cut.names)]


def test_cuts_are_of_one_moment_and_every_row_is_proved_while_rows_change(
    server: EmbeddedServer, database: str, bank: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuts: list[Cut] = []
    with transfers(server, database) as done:
        for number in range(2):
            before = done[0]
            made = make_cut(
                bank, "s", CutTerms(f"{database}_{number}", prove=True, lock=True), said
            )
            assert made.left_out == {}
            cuts.append(made.cut)
            assert done[0] > before
    for cut in cuts:
        deduped = [one for one in cut.tables if one.layer == "deduped"]
        assert [(one.table, one.proved) for one in deduped] == [
            (one.table, "equal") for one in deduped
        ], [one.words for one in deduped]
        assert (len(cut.names), bool(cut.gtid)) == (3, True)
        refuse_torn(bank, cut)
    # They are two moments, and stay readable after syncs and upkeep.
    assert len({cut.place for cut in cuts}) == 2
    monkeypatch.setattr(maintain, "RETAIN", 1)
    for contract in bank.config.tables:
        for done in maintain.maintain_table(bank, contract, Ages(keep=timedelta(0))):
            assert done.error is None
    for one in sync_tables(bank, bank.config.tables):
        assert one.error is None
    for cut in cuts:
        refuse_torn(bank, cut)
    assert mine(bank) == [f"{database}_{number}" for number in range(2)]


@pytest.mark.full
def test_a_cut_that_another_run_tore_is_found_different(
    server: EmbeddedServer, database: str, bank: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that is further than its cut: what `refuse_elsewhere` prevents, a proof finds."""
    follow = make.follow_tables
    monkeypatch.setattr(make, "follow_tables", lambda w, c, **_: follow(w, c))
    monkeypatch.setattr(make, "refuse_elsewhere", lambda *_: None)
    with transfers(server, database):
        made = make_cut(bank, "s", CutTerms(prove=True, lock=True), said)
    assert "different" in {one.proved for one in made.cut.tables}


@pytest.mark.full
def test_a_table_that_another_run_moves_on_is_tried_again(
    server: EmbeddedServer,
    sql: Sql,
    database: str,
    bank: Workspace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether the other run followed it, or repaired it: it has rows of after the cut's place."""
    fold, meddled = make.fold_table, []

    def meddle(workspace: Workspace, contract: Any, then: Any) -> int:
        if contract.table == "savings" and len(meddled) < 2:
            meddled.append(contract.name)
            sql("INSERT INTO savings VALUES (7777, 0, NOW(6)) ON DUPLICATE KEY UPDATE at = NOW(6)")
            if len(meddled) == 1:
                sync_table(workspace, contract)
            else:
                # Of the lake's row alone: MySQL's is read now, at a later place.
                sql("UPDATE savings SET amount = 0 WHERE id = 7777")
                from mirrorlake.proof.comparing.report import Ask

                repair_table(workspace, contract, Ask("full"))
        return fold(workspace, contract, then)

    for one in sync_tables(bank, bank.config.tables):
        assert one.error is None
    monkeypatch.setattr(make, "fold_table", meddle)
    with transfers(server, database):
        made = make_cut(bank, "s", CutTerms(prove=True, lock=True), said)
    assert len(meddled) == 2
    assert made.tries > 1
    assert (made.left_out, {o.proved for o in made.cut.tables if o.layer == "deduped"}) == (
        {},
        {"equal"},
    )
    refuse_torn(bank, made.cut)
    assert mine(bank) == [made.cut.name]
    assert mine(bank, made=False) == []


def test_commands(
    sql: Sql, place: Place, database: str, bank: Workspace, command: Callable[..., Result]
) -> None:
    first, third = f"{database}_1", f"{database}_3"
    made = command("cut", "s", "--name", first, "--prove", "--lock", workspace=bank)
    assert (made.exit_code, "equal" in made.output) == (0, True), made.exception or made.output
    assert "1 foreign key: 1 without an orphan." in made.output
    again = command("cut", "s", "--name", first, workspace=bank)
    assert isinstance(again.exception, LedgerError)
    sql("UPDATE current SET amount = amount + 1 WHERE id = 1")
    second = command("cut", "s", "--keep", "0s", "--json", workspace=bank)
    found = json.loads(second.stdout)
    assert (second.exit_code, found["left_out"], found["keep_until"] is None) == (0, {}, False)
    # A row that changed stands twice in the files, once as deleted.
    rows = {one["table"].rsplit(".", 1)[1]: one["rows"] for one in found["tables"]}
    assert (rows["current"], rows["savings"]) == (100, 100)
    listed = json.loads(command("cuts", "--json", workspace=bank).stdout)
    assert [one["name"] for one in listed][:2] == [found["name"], first]
    shown = command("at", first, f"s.{database}.current", workspace=bank)
    assert f"(account) → {database}.current (id): holds" in shown.output
    read, _ = (line for line in shown.output.splitlines() if "  Spark" in line)
    query = read.split("Spark", 1)[1].strip().replace("*", "sum(amount)")
    assert f"VERSION AS OF 'cut_{first}'" in query
    now = query.partition(" VERSION")[0]
    spark = place.spark.get()
    assert [spark.sql(one).collect()[0][0] for one in (query, now)] == [10_000, 10_001]
    for refused in (("at", "nothing"), ("cut", "s", "--name", "No!"), ("cut", "nowhere")):
        assert isinstance(command(*refused, workspace=bank).exception, ConfigError)
    made = command("cut", "s", "--name", third, workspace=bank)
    assert (made.exit_code, "Nothing was compared" in made.output) == (0, True), made.output
    names = [one["name"] for one in json.loads(command("cuts", "--json", workspace=bank).stdout)]
    assert names[:2] == [third, first]  # the second was kept no longer
    assert command("cuts", "--drop", first, workspace=bank).exit_code == 0
    contract = bank.config.tables[0]
    table = bank.lake.load(Identifier(contract.namespaces.deduped, contract.table))
    assert table is not None
    assert sorted(table.metadata.refs) == [f"cut_{third}", "main"]
    # What a cut tags is no work of other hands, and its tables are unchanged.
    synced = json.loads(command("sync", "--json", workspace=bank).stdout)
    assert {one["unchanged"] for one in synced["tables"]} == {"log"}
    assert (synced["attention"], load_config(bank.config.path).path.exists()) == ([], True)


def test_what_is_not_in_a_cut_is_said(
    sql: Sql, bank: Workspace, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in sync_tables(bank, bank.config.tables):
        assert one.error is None
    sql("ALTER TABLE savings ENGINE = MyISAM")
    made = command("cut", "s", "--json", workspace=bank)
    found = json.loads(made.stdout)
    assert made.exit_code == 10
    assert [*found["left_out"]] == [c.name for c in bank.config.tables if c.table == "savings"]
    monkeypatch.setattr(make, "WAITS", 0.1)
    with bank.ledger.lease("the log of s", "another"):
        refused = command("cut", "s", workspace=bank)
    assert isinstance(refused.exception, LeaseHeld)
    assert "Stop `mirrorlake follow`" in str(refused.exception)


@pytest.mark.full
def test_a_follower_leaves_the_log_to_a_cut_and_goes_on(
    server: EmbeddedServer, database: str, bank: Workspace
) -> None:
    with following(bank) as running, transfers(server, database):
        running.caught_up(220)
        made = make_cut(bank, "s", CutTerms(prove=True, lock=True), said)
        assert made.left_out == {}
        assert {o.proved for o in made.cut.tables if o.layer == "deduped"} == {"equal"}
        refuse_torn(bank, made.cut)
        running.caught_up(1)
    assert any("takes the log" in words for words in running.waits)


@pytest.mark.full
@pytest.mark.parametrize("point", ["cut.tagged", *AT_OTHER_STEPS])
def test_a_cut_that_dies_is_none_and_the_next_one_is_whole(
    sql: Sql, bank: Workspace, runner: Runner, point: str
) -> None:
    for one in sync_tables(bank, bank.config.tables):
        assert one.error is None
    sql("UPDATE current SET amount = amount - 1 WHERE id = 1")
    sql("UPDATE savings SET amount = amount + 1 WHERE id = 1")
    arguments = ("cut", "s", "--prove", "--lock")
    parts = {"act": "command", "arguments": arguments, "failpoint": point}
    run = runner.run(Order(bank.config.path, **parts, lease_seconds=2))
    assert run.code == -signal.SIGKILL, run.error
    assert mine(bank) == []
    made = make_cut(bank, "s", CutTerms(prove=True, lock=True), said)
    assert {o.proved for o in made.cut.tables if o.layer == "deduped"} == {"equal"}
    refuse_torn(bank, made.cut)
    assert mine(bank, made=False) == []
    for contract in bank.config.tables:
        table = bank.lake.load(Identifier(contract.namespaces.deduped, contract.table))
        assert table is not None
        assert sorted(table.metadata.refs) == [made.cut.tag, "main"]


@pytest.mark.full
def test_a_table_that_could_not_be_tagged_is_in_no_cut(
    bank: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its deduped has a tag by then, its clean has none."""
    create = tags.tag_version

    def fail(lake: Any, identifier: Identifier, *rest: Any) -> None:
        if identifier.name == "savings" and identifier.namespace.endswith("__clean"):
            raise LakeError("the catalog failed")
        create(lake, identifier, *rest)

    monkeypatch.setattr(tags, "tag_version", fail)
    made = make_cut(bank, "s", CutTerms(), said)
    (left,) = made.left_out
    assert left.endswith(".savings")
    (listed,) = (cut for cut in Cuts(bank.ledger).all() if cut.name == made.cut.name)
    assert sorted(listed.names) == sorted({c.name for c in bank.config.tables} - {left})
    contract = bank.config.table(left)
    table = bank.lake.load(Identifier(contract.namespaces.deduped, contract.table))
    assert table is not None
    assert list(table.metadata.refs) == ["main"]


@pytest.mark.full
def test_rows_that_only_the_mirror_keeps_are_no_difference(
    sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large table it is not known which these are: nothing is said of it."""
    sql("CREATE TABLE kept (id INT PRIMARY KEY)", "INSERT INTO kept VALUES (1), (2), (3)")
    workspace = engine_for({"kept": LOG | {"deletes": "ignore"}})
    for one in sync_tables(workspace, workspace.config.tables):
        assert one.error is None
    sql("DELETE FROM kept WHERE id = 2")
    (one,) = make_cut(workspace, "s", CutTerms(prove=True, lock=True), said).cut.tables
    assert (one.proved, "1 are only in the mirror" in one.words) == ("equal", True)
    monkeypatch.setattr(prove, "MOST_ROWS", 1)
    (one,) = make_cut(workspace, "s", CutTerms(prove=True, lock=True), said).cut.tables
    assert one.proved == "not compared"
