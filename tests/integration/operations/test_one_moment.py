"""Tables that follow one log are shown at one moment: a bank whose sum is right in each read."""

from __future__ import annotations

import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from typing import Any

import pyarrow.compute as _compute
import pytest
from pyiceberg.table import StaticTable

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits import shown_together
from mirrorlake.errors import LakeError
from mirrorlake.failpoints import OF_SHOWN_TOGETHER
from mirrorlake.merge.staging import BRANCH
from mirrorlake.operations.following.followed_round import FollowedRound
from mirrorlake.operations.following.follower import FollowTerms, follow_source
from mirrorlake.operations.loading import staged_sync
from mirrorlake.operations.loading.fold import TableFold
from mirrorlake.operations.loading.sync_tables import sync_tables
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.binlog.log_batches import BatchLimits
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.cuts.test_cuts import BANK, LOG, TOTAL, bank, transfers
from tests.integration.hands import LakePart
from tests.integration.operations.test_follow_log import assert_equal, sync_all
from tests.integration.operations.test_follower import follow_once, following
from tests.soak.runs import Order, Runner
from tests.support.beside import beside

pc: Any = _compute
Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
__all__ = ["bank"]


class Reader:
    """Who takes what all tables show by one SELECT of the catalog, and adds it up."""

    def __init__(self, place: Place, workspace: Workspace) -> None:
        self._file = place.folder / place.database
        self._contracts = {c.table: c for c in workspace.config.tables}
        self.reads = 0
        self.torn: list[str] = []
        self._seen: set[tuple[str, ...]] = set()

    def heads(self) -> dict[tuple[str, str], str]:
        with closing(sqlite3.connect(self._file, timeout=30)) as catalog:
            rows = catalog.execute(
                "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables"
            ).fetchall()
        return {(space, name): at for space, name, at in rows}

    def sums(self, heads: dict[tuple[str, str], str] | None = None) -> list[Decimal]:
        """What deduped, and clean, add up to."""
        heads, found = heads or self.heads(), []
        for layer in ("deduped", "clean"):
            spaces = [getattr(self._contracts[name].namespaces, layer) for name in BANK]
            places = [heads[space, name] for space, name in zip(spaces, BANK, strict=True)]
            tables = [StaticTable.from_metadata(at).scan().to_arrow() for at in places]
            found.append(sum((pc.sum(one["amount"]).as_py() for one in tables), Decimal(0)))
        return found

    def look(self) -> None:
        """Files never change: the same heads, once added up, are the same sums."""
        heads = self.heads()
        spaces = [(c.namespaces.deduped, c.namespaces.clean) for c in self._contracts.values()]
        mine = {space for both in spaces for space in both}
        now = tuple(sorted(at for (space, _), at in heads.items() if space in mine))
        if now not in self._seen and (sums := self.sums(heads)) != [TOTAL, TOTAL]:
            self.torn.append(str(sums))
        self._seen.add(now)
        self.reads += 1


@contextmanager
def read_by(reader: Reader, *, least: int = 5) -> Iterator[None]:
    """Read all the time while the block runs."""
    errors = list[BaseException]()

    def run(stop: threading.Event) -> None:
        while not stop.wait(0.05):
            try:
                reader.look()
            except BaseException as error:  # noqa: BLE001 - the test's thread raises it
                errors.append(error)
                return

    with beside(run):
        yield
    assert errors == []
    assert reader.torn == []
    assert reader.reads >= least


def branches(workspace: Workspace) -> list[str]:
    """The staging branches that are left."""
    found: list[str] = []
    for contract in workspace.config.tables:
        for space in (contract.namespaces.deduped, contract.namespaces.clean):
            table = workspace.lake.load(Identifier(space, contract.table))
            refs = table.metadata.refs if table is not None else {}
            found += [name for name in refs if name.startswith(BRANCH)]
    return found


def synced(workspace: Workspace) -> list[str]:
    """What a sync says of how tables are shown."""
    return [one.shown for one in sync_all(workspace).values()]


@pytest.mark.full
def test_each_read_is_of_one_moment_while_the_bank_is_followed(
    server: EmbeddedServer, sql: Sql, database: str, place: Place, bank: Workspace
) -> None:
    sync_all(bank)
    reader = Reader(place, bank)
    with transfers(server, database), following(bank) as running, read_by(reader):
        running.caught_up(60)
        # One that is altered comes to where the others are first.
        sql("ALTER TABLE savings ADD COLUMN note INT DEFAULT 3")
        running.until(lambda: any(".savings" in str(one.changed) for one in running.rounds))
        running.caught_up(60)
    rounds = [one for one in running.rounds if len(one.rows) > 1]
    assert {one.shown for one in rounds} == {"together"}
    assert {one.left_out for one in rounds} == {()}
    assert branches(bank) == []
    follow_once(bank)
    assert_equal(bank, server, *BANK, "bookings")


@pytest.mark.full
def test_each_read_is_of_one_moment_while_it_is_synced(
    server: EmbeddedServer,
    sql: Sql,
    database: str,
    place: Place,
    bank: Workspace,
    engine_for: EngineFor,
) -> None:
    """While a table is altered, and another one joins, which is copied meanwhile."""
    sync_all(bank)
    sql("CREATE TABLE late (id INT PRIMARY KEY)", "INSERT INTO late VALUES (1)")
    tables: dict[str, Any] = {name: LOG | {"clean": "table"} for name in BANK}
    written = LOG | {"write_mode": "copy-on-write"}
    more = engine_for(tables | {"bookings": written, "late": LOG})
    reader = Reader(place, bank)
    with transfers(server, database) as done, read_by(reader):
        assert "together" in synced(bank)
        sql("ALTER TABLE savings ADD COLUMN note INT DEFAULT 3")
        before = done[0]
        while done[0] < before + 5:
            time.sleep(0.05)
        found = sync_all(more)
        assert found["late"].window == "initial"
        assert found["savings"].shown == "together"
        assert "together" in synced(more)
    sync_all(more)
    assert_equal(more, server, *BANK, "bookings", "late")
    assert branches(more) == []


KILLS = [*OF_SHOWN_TOGETHER, "fold.committed", "show.written:3", "fold.recorded"]
QUICK_KILLS = ["show.before", "show.done"]
"""Around the step that moves all: those of `make test`."""


@pytest.mark.parametrize(
    ("act", "points"),
    [
        ("follow", QUICK_KILLS),
        pytest.param("sync", KILLS, marks=pytest.mark.full),
        pytest.param("follow", [p for p in KILLS if p not in QUICK_KILLS], marks=pytest.mark.full),
    ],
)
def test_who_is_killed_leaves_all_as_they_were_or_all_new(
    server: EmbeddedServer,
    sql: Sql,
    place: Place,
    bank: Workspace,
    runner: Runner,
    act: str,
    points: list[str],
) -> None:
    sync_all(bank)
    reader = Reader(place, bank)
    arguments = ("sync",) if act == "sync" else ("follow", "s", "--once")
    with read_by(reader):
        for number, point in enumerate(points):
            sql(
                "BEGIN",
                f"UPDATE current SET amount = amount - 5 WHERE id = {number}",
                f"UPDATE savings SET amount = amount + 5 WHERE id = {number}",
                "COMMIT",
            )
            before = reader.heads()
            parts = {"act": "command", "arguments": arguments, "failpoint": point}
            run = runner.run(Order(bank.config.path, **parts, lease_seconds=2))
            assert run.code == -signal.SIGKILL, (point, run.error)
            now = reader.heads()
            moved = [_shown(now[at]) != _shown(before[at]) for at in _tables(bank)]
            new = point in ("show.done", "show.recorded", "fold.recorded")
            assert moved == [new] * 4, point
            for one in sync_tables(bank, bank.config.tables):
                assert one.error is None
            assert_equal(bank, server, *BANK)
            assert branches(bank) == []


@pytest.mark.full
def test_nothing_is_shown_while_tables_are_at_several_places(
    server: EmbeddedServer, sql: Sql, place: Place, bank: Workspace, runner: Runner
) -> None:
    """One that a dead run loaded before the others, and rounds that end before these meet it."""
    sync_all(bank)
    for number in range(12):
        sql(
            "BEGIN",
            f"UPDATE current SET amount = amount - 5 WHERE id = {number}",
            f"UPDATE savings SET amount = amount + 5 WHERE id = {number}",
            "COMMIT",
        )
    arguments = ("follow", "s", "--once")
    order = {"act": "command", "arguments": arguments, "failpoint": "log.table"}
    run = runner.run(Order(bank.config.path, **order, lease_seconds=2))
    assert run.code == -signal.SIGKILL, run.error
    rounds: list[FollowedRound] = []
    terms = FollowTerms(limits=BatchLimits(rows=4), once=True)
    reader = Reader(place, bank)
    with read_by(reader):
        parts = (threading.Event(), rounds.append, lambda _: None, terms)
        follow_source(bank, "s", *parts)
    assert any(not one.reached for one in rounds)
    assert rounds[-1].left_out == ()
    assert_equal(bank, server, *BANK)


def _tables(workspace: Workspace) -> list[tuple[str, str]]:
    found = [workspace.config.table(name) for name in BANK]
    spaces = [(c.namespaces.deduped, c.namespaces.clean) for c in found]
    return [(s, c.table) for c, both in zip(found, spaces, strict=True) for s in both]


def _shown(location: str) -> int | None:
    return StaticTable.from_metadata(location).metadata.current_snapshot_id


def test_a_table_whose_fold_fails_is_left_out_by_name(
    server: EmbeddedServer,
    sql: Sql,
    bank: Workspace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync_all(bank)
    sql(*(f"UPDATE {name} SET amount = amount + 1 WHERE id = 1" for name in BANK))
    sql("INSERT INTO bookings (account, amount) VALUES (1, 1)")
    write = TableFold.write

    def fail(self: Any) -> None:
        write(self)
        if self._plan.table.name == "savings":
            raise LakeError("planted")

    with monkeypatch.context() as patched:
        patched.setattr(TableFold, "write", fail)
        found = {one.name.rpartition(".")[2]: one for one in sync_tables(bank, bank.config.tables)}
    assert str(found["savings"].error) == "planted"
    others = [found[name].result for name in ("current", "bookings")]
    assert [one.shown for one in others if one is not None] == ["together"] * 2
    assert_equal(bank, server, "current", "bookings")
    assert branches(bank) == []
    with pytest.raises(AssertionError):
        assert_equal(bank, server, "savings")
    sync_all(bank)
    assert_equal(bank, server, *BANK)


@pytest.mark.full
def test_a_head_that_was_moved_by_hand_is_found_and_put_back(
    server: EmbeddedServer, sql: Sql, place: Place, bank: Workspace
) -> None:
    sync_all(bank)
    reader, contract = Reader(place, bank), bank.config.table("savings")
    part = LakePart(place, Identifier(contract.namespaces.deduped, "savings"))
    old = part.metadata_location
    sql(
        "BEGIN",
        "UPDATE current SET amount = amount - 5 WHERE id = 1",
        "UPDATE savings SET amount = amount + 5 WHERE id = 1",
        "COMMIT",
    )
    sync_all(bank)
    assert reader.sums() == [TOTAL, TOTAL]
    head = StaticTable.from_metadata(old).metadata.current_snapshot_id
    part.load().manage_snapshots().set_current_snapshot(snapshot_id=head).commit()
    assert reader.sums() == [TOTAL - 5, TOTAL]
    sync_all(bank)
    assert reader.sums() == [TOTAL, TOTAL]
    assert_equal(bank, server, *BANK)


def test_a_catalog_that_can_not_says_so_and_the_reader_would_see_it(
    server: EmbeddedServer,
    sql: Sql,
    place: Place,
    bank: Workspace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reader of these tests finds tables that are shown one after the other."""
    sync_all(bank)
    sql(
        "BEGIN",
        "UPDATE current SET amount = amount - 5 WHERE id = 1",
        "UPDATE savings SET amount = amount + 5 WHERE id = 1",
        "COMMIT",
    )
    reader = Reader(place, bank)

    def look(point: str) -> None:
        if point == "show.one":
            reader.look()

    monkeypatch.setattr(shown_together, "shows_together", lambda _: False)
    monkeypatch.setattr(shown_together, "failpoint", look)
    assert [one for one in synced(bank) if one] == ["one by one"] * 2
    assert len(reader.torn) > 1
    assert reader.sums() == [TOTAL, TOTAL]
    assert_equal(bank, server, *BANK)


@pytest.mark.full
def test_a_table_that_another_run_took_over_is_left_out(
    server: EmbeddedServer, sql: Sql, bank: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After it was staged: its branch goes with the next fold."""
    sync_all(bank)
    sql(*(f"UPDATE {name} SET amount = amount + 1 WHERE id = 1" for name in BANK))
    sql("INSERT INTO bookings (account, amount) VALUES (1, 1)")
    name, taken = bank.config.table("savings").name, list[str]()

    def take_over(point: str) -> None:
        if point == "show.staged" and not taken:
            taken.append(point)
            with bank.ledger.database.begin() as connection:
                connection.exec_driver_sql(
                    "UPDATE leases SET token = token + 1, owner = 'another' WHERE table_name = ?",
                    (name,),
                )

    monkeypatch.setattr(staged_sync, "failpoint", take_over)
    found = {one.name.rpartition(".")[2]: one for one in sync_tables(bank, bank.config.tables)}
    assert "savings is being written by" in str(found["savings"].error)
    assert_equal(bank, server, "current", "bookings")
    with bank.ledger.database.begin() as connection:
        connection.exec_driver_sql("UPDATE leases SET owner = '' WHERE table_name = ?", (name,))
    sync_all(bank)
    assert_equal(bank, server, *BANK)
    assert branches(bank) == []
