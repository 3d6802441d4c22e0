"""Tables of tenants in the rounds of `mirrorlake follow`: what is committed is shown a moment later,
exactly once, whatever dies, and whoever else works on the table."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as _compute
import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.errors import ConfigError
from mirrorlake.failpoints import OF_SHOWN_TOGETHER
from mirrorlake.load.following.log_rows import LogRows
from mirrorlake.load.tenants import log_load
from mirrorlake.operations.following import tenant_rounds
from mirrorlake.operations.following.follower import FollowTerms
from mirrorlake.operations.following.lag import read_lag
from mirrorlake.operations.following.live_tenants import LiveTenants
from mirrorlake.operations.tenants.detect import detect_tenants
from mirrorlake.operations.tenants.results import SyncTerms
from mirrorlake.operations.tenants.sync import sync_tenants
from mirrorlake.proof.comparing.check import check_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.table.tenants import raw_of
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place, share_session
from tests.integration.operations.test_follower import Following, follow_once, following
from tests.integration.operations.test_tenants_by_log import (
    COLUMNS,
    FOLLOWING,
    LOG,
    NAMES,
    assert_as_rebuilt,
    assert_mirrored,
    assert_rows,
    check,
    kinds,
    rows,
    verdicts,
)
from tests.integration.tenants import Tenants
from tests.soak.runs import Order, Runner

pc: Any = _compute  # its functions are made at import: type checkers see none of them


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


@pytest.fixture
def tenants(tenants: Tenants) -> Tenants:
    tenants.contract = {**LOG}
    return tenants


@pytest.fixture(autouse=True)
def joins(monkeypatch: pytest.MonkeyPatch) -> list[LiveTenants]:
    """What followers took up, each time that they did."""
    found: list[LiveTenants] = []
    begin = LiveTenants.begin

    def noted(*parts: Any) -> LiveTenants:
        found.append(begin(*parts))
        return found[-1]

    monkeypatch.setattr(LiveTenants, "begin", noted)
    return found


@contextmanager
def followed(
    tenants: Tenants, joins: list[LiveTenants], terms: FollowTerms | None = None
) -> Iterator[Following]:
    """A follower whose rounds have begun with these tenants."""
    with tenants.opened() as (workspace, _), following(workspace, terms) as running:
        before = len(joins)
        running.until(lambda: len(joins) > before)
        yield running


def is_shown(tenants: Tenants, *names: str) -> bool:
    """Whether deduped is there, and is what MySQL has."""
    with tenants.opened() as (workspace, table):
        if workspace.lake.load(deduped_of(table)) is None:
            return False
    chosen = names or NAMES
    mysql = {name: found for name, found in tenants.mysql(*chosen).items() if found}
    return tenants.deduped(*chosen) == mysql


def inserted(tenants: Tenants) -> Counter[tuple[str, int]]:
    """How often raw has the insert of each row, in the logs of tenants."""
    found: Counter[tuple[str, int]] = Counter()
    with tenants.opened() as (workspace, table):
        for version in workspace.ledger.schema_versions(table.name):
            raw = workspace.lake.load(raw_of(table, version.raw_table))
            assert raw is not None
            for row in raw.scan("_mirror_op = 'insert'").to_arrow().to_pylist():
                found[row["_mirror_database"], row["id"]] += 1
    return found


# --- rows, and tenants that come and go -----------------------------------------------------------


def test_changes_arrive_while_it_runs(tenants: Tenants, joins: list[LiveTenants]) -> None:
    for tenant in "abc":
        tenants.make(tenant, COLUMNS, *rows(1, 2, 3))
    with followed(tenants, joins) as running:
        assert is_shown(tenants), "all were copied"
        name = joins[0].name
        tenants.run("a", "UPDATE orders SET name = 'x' WHERE id = 1", "DELETE FROM orders LIMIT 1")
        tenants.run("b", "INSERT INTO orders VALUES (4, 'é', NULL, NULL)")
        running.until(lambda: counted(running, "rows")[name] == 9 + 3)
        assert counted(running, "tenants")[name] >= 3 + 2
        assert len(joins) == 1, "no sync was needed"
    assert kinds(tenants)[0] == "full"
    assert set(kinds(tenants)[1:]) == {"log"}
    assert_rows(tenants)
    idle = tenants.sync()
    assert (idle.read, idle.unchanged) == (0, 3)


def counted(running: Following, what: str) -> Counter[str]:
    """What all rounds counted, by table."""
    found: Counter[str] = Counter()
    for one in running.rounds:
        found.update(getattr(one, what))
    return found


@pytest.mark.full
def test_tenants_that_join_are_altered_and_go(tenants: Tenants, joins: list[LiveTenants]) -> None:
    for tenant in "abc":
        tenants.make(tenant, COLUMNS, *rows(1, 2, 3))
    with followed(tenants, joins) as running:

        def said(words: str) -> None:
            running.until(lambda: words in str([one.changed for one in running.rounds]))

        tenants.make("d", COLUMNS, *rows(7, 8))
        said("1 tenant joined")
        tenants.run("a", "ALTER TABLE orders ADD COLUMN more INT DEFAULT 7")
        said(f"1 tenant could not be followed: s.{tenants.name('a')}: ")
        tenants.run("b", "TRUNCATE orders", f"INSERT INTO orders VALUES {rows(9)[0]}")
        said(f"1 tenant could not be followed: s.{tenants.name('b')}: ")
        running.until(lambda: is_shown(tenants))
        before = len(joins)
        tenants.run("a", "UPDATE orders SET more = 8")
        tenants.run("d", "DELETE FROM orders WHERE id = 7")
        running.until(lambda: is_shown(tenants, *NAMES))
        tenants.drop("c")
        said("1 tenant gone")
        assert len(joins) == before + 1
    assert all(not one.failed for one in running.rounds)
    gone = tenants.name("c")
    shown = tenants.deduped(*NAMES)
    assert len(shown.pop(gone)) == 3
    assert shown == tenants.mysql(*NAMES)
    assert verdicts(check(tenants)) == {"a": "equal", "b": "equal", "c": "gone", "d": "equal"}
    assert_as_rebuilt(tenants)


@pytest.fixture
def plain(tenants: Tenants) -> Iterator[str]:
    """The database of a plain table `t` beside them, which follows the same log."""
    name = f"{tenants.prefix}plain"
    tenants.sql(f"CREATE DATABASE `{name}`", f"CREATE TABLE `{name}`.t (id INT PRIMARY KEY, v INT)")
    tenants.databases = {name: {"tables": {"t": {**LOG}}}}
    yield name
    tenants.sql(f"DROP DATABASE `{name}`")


@pytest.mark.full
def test_beside_a_plain_table_of_one_log(
    tenants: Tenants,
    plain: str,
    joins: list[LiveTenants],
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One connection, one round, one step that shows both; what is printed; how far both are
    behind."""
    tenants.sql(f"INSERT INTO `{plain}`.t VALUES (1, 1)")
    for tenant in "ab":
        tenants.make(tenant, COLUMNS, *rows(1, 2))
    with tenants.opened() as (workspace, table):
        contract = workspace.config.table("t")
        with following(workspace) as running:
            running.until(lambda: bool(joins) and contract.name in counted(running, "rows"))
            both = f"INSERT INTO `{plain}`.t VALUES (2, 2)", "DELETE FROM orders WHERE id = 1"
            tenants.sql("BEGIN", *both, "COMMIT", database=tenants.name("a"))
            of_both = {contract.name, table.name}
            running.until(lambda: any(one.rows.keys() == of_both for one in running.rounds))
            assert (running.rounds[-1].shown, running.rounds[-1].left_out) == ("together", ())
            assert is_shown(tenants)
        assert check_table(workspace, contract, Ask("full")).verdict == "equal"
        source = workspace.config.sources["s"]
        with session(source) as connection:
            lag = read_lag(connection, source, [contract, table], workspace.ledger)
        assert lag is not None
        assert (lag.tables, lag.waiting) == (2, ())
        assert lag.seconds < 3_600
    share_session(place, monkeypatch)
    tenants.run("b", "UPDATE orders SET amount = 5")
    parts = ["follow", "s", "--once", "--config", str(tenants.write())]
    done = CliRunner().invoke(cli, [*parts, "--json"])
    [line] = [json.loads(text) for text in done.stdout.splitlines()]
    assert (line["tables"], line["tenants"]) == ({table.name: 2}, {table.name: 1})
    tenants.run("b", "UPDATE orders SET amount = 6")
    assert "2 rows of 1 table, 1 tenant · " in CliRunner().invoke(cli, parts).output
    assert_rows(tenants)


@pytest.mark.full
def test_a_tenant_that_fails_is_named_and_stops_no_other(
    tenants: Tenants, joins: list[LiveTenants]
) -> None:
    tenants.make("a", COLUMNS, *rows(1, 2))
    tenants.make("b", COLUMNS)
    tenants.run("b", "ALTER TABLE orders ENGINE = MyISAM")
    a, b = tenants.name("a"), tenants.name("b")
    with followed(tenants, joins) as running:
        running.until(lambda: any(one.failed for one in running.rounds))
        [(name, error)] = next(one.failed for one in running.rounds if one.failed).items()
        assert f"1 tenant failed and is tried again, the others are followed: s.{b}" in str(error)
        assert "MyISAM" in str(error)
        tenants.run("a", "DELETE FROM orders WHERE id = 1")
        running.until(lambda: tenants.deduped(*NAMES) == {a: tenants.mysql(*NAMES)[a]})
        tenants.run(
            "b", "ALTER TABLE orders ENGINE = InnoDB", f"INSERT INTO orders VALUES {rows(5)[0]}"
        )
        running.until(lambda: is_shown(tenants))
        running.until(lambda: name not in running.rounds[-1].left_out)
    assert_rows(tenants)


@pytest.mark.full
def test_what_no_log_tells_is_found_by_the_next_look(
    tenants: Tenants, joins: list[LiveTenants], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant_rounds, "LOOK_EVERY", 2.0)
    tenants.make("a", COLUMNS, *rows(1, 2))
    with followed(tenants, joins) as running:
        hidden = f"t{uuid.uuid4().hex[:6]}"
        tenants.sql(
            "SET sql_log_bin = 0",
            f"CREATE DATABASE `{tenants.name(hidden)}`",
            f"CREATE TABLE `{tenants.name(hidden)}`.orders ({COLUMNS})",
            f"INSERT INTO `{tenants.name(hidden)}`.orders VALUES {rows(1)[0]}",
        )
        tenants.made.append(tenants.name(hidden))
        running.until(lambda: is_shown(tenants))
    assert_mirrored(tenants)


# --- whoever else works on the table --------------------------------------------------------------


@pytest.mark.full
def test_a_sync_beside_it_adds_nothing_twice(tenants: Tenants, joins: list[LiveTenants]) -> None:
    for tenant in "ab":
        tenants.make(tenant, COLUMNS, *rows(1, 2))
    with followed(tenants, joins) as running:
        for number in range(20, 26):
            for tenant in "ab":
                tenants.run(tenant, f"INSERT INTO orders VALUES ({number}, 'n', NULL, 1)")
            if number % 2:
                tenants.sync()
        running.until(lambda: is_shown(tenants))
    assert set(inserted(tenants).values()) == {1}
    assert kinds(tenants).count("full") == 1
    assert_mirrored(tenants)
    assert_as_rebuilt(tenants)


@pytest.mark.full
def test_followers_of_two_sources_take_turns(
    tenants: Tenants, joins: list[LiveTenants], mysql8: EmbeddedServer, mariadb: EmbeddedServer
) -> None:
    """Tenants of one table on two servers, each with a follower of its own, which reads its own
    source alone."""
    other = mariadb if tenants.server is mysql8 else mysql8
    tenants.others = {"two": other.port}
    there = Tenants(other, tenants.place, tenants.prefix, contract=tenants.contract)
    for tenant in "ab":
        tenants.make(tenant, COLUMNS, *rows(1, 2))
        there.make(f"{tenant}2", COLUMNS, *rows(1, 2))
    try:
        with (
            tenants.opened() as (workspace, table),
            Workspace.open(workspace.config, spark=workspace.spark) as beside,
            following(workspace) as one,
            following(beside, source="two") as two,
        ):
            one.until(lambda: {live.source.name for live in joins} == {"s", "two"})
            before = len(joins)
            for number in range(30, 36):
                for tenant in "ab":
                    insert = f"INSERT INTO orders VALUES ({number}, 'n', NULL, 1)"
                    tenants.run(tenant, insert)
                    there.run(f"{tenant}2", insert, f"DELETE FROM orders WHERE id = {number - 1}")

            def all_there() -> bool:
                mysql = tenants.mysql(*NAMES) | there.mysql(*NAMES)
                return tenants.deduped(*NAMES) == mysql

            one.until(all_there)
            assert len(joins) == before, "neither had to begin again for the other"
            assert not [r for r in (*one.rounds, *two.rounds) if r.failed]
        with Workspace.open(workspace.config, spark=workspace.spark) as again:
            done = sync_tenants(again, table, SyncTerms())
            assert (done.read, done.unchanged, done.failed) == (0, 4, {})
            seen = detect_tenants(again, table, None, sources=["two"])
            assert {source for source, _ in seen.due} <= {"two"}
            assert (seen.tenants, seen.lost) == (2, {})
        assert set(inserted(tenants).values()) == {1}
        assert check(tenants).verdict == "equal"
    finally:
        there.close()


@pytest.mark.full
def test_one_server_under_two_names_is_refused_by_a_look_at_one_of_them(
    tenants: Tenants,
) -> None:
    tenants.make("a", COLUMNS, *rows(1))
    tenants.sync()
    tenants.run("a", "DELETE FROM orders")
    tenants.sync()
    tenants.others = {"two": tenants.server.port}
    with tenants.opened() as (workspace, table):
        terms = SyncTerms(sources=frozenset({"two"}))
        with pytest.raises(ConfigError, match="sources s and two are one server"):
            sync_tenants(workspace, table, terms)
        with pytest.raises(ConfigError, match="sources s and two are one server"):
            detect_tenants(workspace, table, None, sources=["two"])


# --- deaths ---------------------------------------------------------------------------------------

STEPS = ["tenants.log_loaded", "show.done"]
MORE_STEPS = [
    *(step for step in FOLLOWING if step not in (*STEPS, "log.progress")),
    *("follow.loaded", "follow.folded", "log.table"),
    *(step for step in OF_SHOWN_TOGETHER if step not in STEPS),
]


@pytest.mark.full
@pytest.mark.parametrize("steps", [STEPS, MORE_STEPS])
def test_one_that_is_killed_at_any_step_loses_nothing_and_adds_nothing_twice(
    steps: list[str], tenants: Tenants, plain: str, runner: Runner
) -> None:
    """Each time a transaction over two tenants and a plain table."""
    for tenant in "abc":
        tenants.make(tenant, COLUMNS, *rows(1, 2))
    with tenants.opened() as (workspace, _):
        follow_once(workspace)
    for number, step in enumerate(steps):
        run = runner.start(Order(tenants.write(), "s", "follow", failpoint=step))
        run.until_joined()
        write(tenants, plain, number)
        assert runner.wait(run) == -9, (step, run.code, run.error)
        if number % 2:  # what comes then is loaded behind what was, or is not doubled
            write(tenants, plain, number + 50)
        with tenants.opened() as (workspace, _):
            assert not [one.failed for one in follow_once(workspace) if one.failed], step
            contract = workspace.config.table("t")
            assert check_table(workspace, contract, Ask("full")).verdict == "equal", step
        assert is_shown(tenants), step
    assert set(inserted(tenants).values()) == {1}
    assert kinds(tenants).count("full") == 1
    assert_mirrored(tenants)
    assert_as_rebuilt(tenants)


def write(tenants: Tenants, plain: str, number: int) -> None:
    """One transaction over two tenants and a plain table."""
    statements = [
        f"INSERT INTO `{plain}`.t VALUES ({number}, 1)",
        f"UPDATE `{plain}`.t SET v = v + 1",
    ]
    for name in (tenants.name("a"), tenants.name("b")):
        statements += [
            f"INSERT INTO `{name}`.orders VALUES ({100 + number}, 'i{number}', NULL, 1)",
            f"UPDATE `{name}`.orders SET amount = {number} WHERE id IN (2, {99 + number})",
            f"DELETE FROM `{name}`.orders WHERE id = {98 + number}",
        ]
    tenants.sql("BEGIN", *statements, "COMMIT")


# --- planted faults -------------------------------------------------------------------------------


def dropped(patch: pytest.MonkeyPatch) -> None:
    """The last image of each piece is lost."""
    kept = LogRows._kept

    def without(rows: LogRows, *parts: Any) -> Any:
        found = kept(rows, *parts)
        found[np.flatnonzero(found)[-1]] = False
        return found

    patch.setattr(LogRows, "_kept", without)


def doubled(patch: pytest.MonkeyPatch) -> None:
    """The first image of each piece comes again behind the others."""
    raw = LogRows._raw

    def twice(rows: LogRows, part: Any, changes: Any, kept: Any, first: int) -> pa.Table:
        found = raw(rows, part, changes, kept, first)
        again = raw(rows, part, changes, kept[:1], first + len(kept))
        return pa.concat_tables([found, again])

    patch.setattr(LogRows, "_raw", twice)


def of_another_tenant(patch: pytest.MonkeyPatch) -> None:
    """What b gets is taken for a's."""
    with_tenant = log_load._OfTenants._with_tenant

    def others(rows: Any, part: Any, found: pa.Table) -> pa.Table:
        return with_tenant(rows, replace(part, database=f"{part.database[:-1]}a"), found)

    patch.setattr(log_load._OfTenants, "_with_tenant", others)


def cut(patch: pytest.MonkeyPatch) -> None:
    """One column loses its last letter."""
    raw = LogRows._raw

    def shorter(rows: LogRows, *parts: Any) -> pa.Table:
        found = raw(rows, *parts)
        at = found.schema.get_field_index("name")
        return found.set_column(
            at, found.schema.field(at), pc.utf8_slice_codeunits(found["name"], 0, 3)
        )

    patch.setattr(LogRows, "_raw", shorter)


@pytest.mark.full
@pytest.mark.parametrize("spoil", [doubled, cut, of_another_tenant, dropped])
def test_a_check_finds_what_was_spoilt_on_the_way(
    spoil: Callable[[pytest.MonkeyPatch], None],
    tenants: Tenants,
    joins: list[LiveTenants],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for tenant in "ab":
        tenants.make(tenant, COLUMNS, *rows(1, 2, 3))
    with followed(tenants, joins) as running:
        running.until(lambda: counted(running, "rows")[joins[0].name] == 6)
        spoil(monkeypatch)
        # The second change of a row undoes the first; the last one is of another row.
        changes = [
            "INSERT INTO orders VALUES (9, 'gone', NULL, 1)",
            "DELETE FROM orders WHERE id = 9",
        ]
        tenants.run(
            "b", "BEGIN", *changes, "UPDATE orders SET name = 'others' WHERE id = 2", "COMMIT"
        )
        running.until(lambda: counted(running, "rows")[joins[0].name] > 6)
    assert len(joins) == 1
    assert not is_shown(tenants)
    found = verdicts(check(tenants))
    assert found["b"] == "different", found
    assert tenants.sync(again=True).failed == {}
