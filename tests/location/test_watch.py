"""The decision which tables are due, over time: marks from the past, on a real MariaDB."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from mirrorlake.ledger import Ledger
from mirrorlake.operations.cursors import cursor_text, read_cursor
from mirrorlake.operations.loading.detect import Mark, find_moved, run_key
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.sources.mysql.sessions.connect import session
from tests.location.conftest import Location

TABLES = {
    "t": {"mode": "incremental", "key": ["id"], "cursor": "at"},
    "f": {"mode": "full", "key": ["id"]},
}


@pytest.fixture(scope="module")
def location(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Location:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE due")
        cursor.execute("CREATE TABLE due.t (id INT PRIMARY KEY, at DATETIME NOT NULL, KEY (at))")
        cursor.execute("CREATE TABLE due.f (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO due.t VALUES (1, UTC_TIMESTAMP())")
    return location_for({"due": {"tables": TABLES}})


Look = Callable[[dict[str, Mark]], dict[str, tuple[str, Mark]]]


@pytest.fixture
def look(location: Location) -> Look:
    config = location.config
    ledger = Ledger(config.ledger.url)

    def found(marks: dict[str, Mark]) -> dict[str, tuple[str, Mark]]:
        with session(config.sources["s"]) as connection:
            seen = find_moved(connection, config.sources["s"], config.tables, marks, ledger)
        assert seen.refused == {}
        return {m.contract.table: (m.reason, m.mark) for m in seen.moved}

    return found


def named(found: dict[str, tuple[str, Mark]]) -> dict[str, Mark]:
    return {f"s.due.{table}": mark for table, (_, mark) in found.items()}


def earlier(text: str, by: timedelta) -> str:
    return (datetime.fromisoformat(text) - by).isoformat()


def test_a_request_without_a_load_is_made_again_after_a_while(look: Look) -> None:
    marks = named(look({}))
    assert look(marks) == {}
    old = {
        n: replace(m, asked_at=earlier(m.asked_at, timedelta(minutes=16))) for n, m in marks.items()
    }
    again = look(old)
    assert {t: reason for t, (reason, _) in again.items()} == dict.fromkeys(
        ("f", "t"), "the last request brought no load"
    )
    assert run_key("s", []) != run_key("t", [])


def test_one_more_load_follows_the_last_movement(look: Look) -> None:
    """Once overlap + settle have passed, and once only: 90 minutes by default."""
    mark = named(look({}))["s.due.t"]
    moved = earlier(mark.moved_at, timedelta(minutes=91))
    reason, settled = look({"s.due.t": replace(mark, moved_at=moved)})["t"]
    assert reason == "settled"
    assert "t" not in look({"s.due.t": settled})
    early = earlier(mark.moved_at, timedelta(minutes=89))
    assert "t" not in look({"s.due.t": replace(mark, moved_at=early)})


def test_time_alone_moves_nothing(look: Look) -> None:
    """The anchor stands still: rows don't leave its range as the clock goes on."""
    mark = named(look({}))["s.due.t"]
    assert mark.rows == 1
    assert "t" not in look({"s.due.t": mark})
    with_gap = replace(mark, anchor=earlier(str(mark.anchor), timedelta(days=1)))
    assert "t" not in look({"s.due.t": with_gap})


def test_a_clock_that_was_set_back_is_no_rest(look: Look) -> None:
    """Rows that are written then lie before the mark's range, and would never be seen to move."""
    mark = named(look({}))["s.due.t"]
    ahead = timedelta(hours=-2)
    later = replace(
        mark,
        anchor=earlier(str(mark.anchor), ahead),
        moved_at=earlier(mark.moved_at, ahead),
        asked_at=earlier(mark.asked_at, ahead),
        rows=0,
        high=None,
        digest="0",
    )
    reason, now = look({"s.due.t": later})["t"]
    assert reason == "the source's clock was set back"
    assert now.rows == 1
    assert "t" not in look({"s.due.t": now})


def test_another_contract_is_due_whatever_its_mark_says(location: Location, look: Look) -> None:
    """Its mark was a range of another cursor."""
    mark = named(look({}))["s.due.t"]
    config = location.config
    edited = config.tables[1].model_copy(update={"mode": "append", "cursor": "id"})
    ledger, source = Ledger(config.ledger.url), config.sources["s"]
    with session(source) as connection:
        seen = find_moved(connection, source, [edited], {"s.due.t": mark}, ledger)
        [moved] = seen.moved
        assert moved.reason == "its contract changed"
        again = find_moved(connection, source, [edited], {"s.due.t": moved.mark}, ledger)
    assert again.moved == ()


def test_a_change_of_columns_is_a_movement_once(server: MariaDB, look: Look) -> None:
    mark = named(look({}))["s.due.t"]
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("ALTER TABLE due.t ADD COLUMN note TEXT")
        try:
            reason, changed = look({"s.due.t": mark})["t"]
            assert reason == "its columns changed"
            assert "t" not in look({"s.due.t": changed})
            # A mark of an earlier release knows none.
            assert "t" not in look({"s.due.t": replace(mark, shape="", identity="")})
        finally:
            cursor.execute("ALTER TABLE due.t DROP COLUMN note")


def test_another_table_of_the_name_is_a_movement_once(server: MariaDB, look: Look) -> None:
    """With as many rows, of the same keys and times: no mark of rows would tell."""
    mark = named(look({}))["s.due.t"]
    with server.admin("due") as admin, admin.cursor() as cursor:
        cursor.execute("CREATE TABLE other LIKE t")
        cursor.execute("INSERT INTO other SELECT * FROM t")
        cursor.execute("RENAME TABLE t TO was, other TO t")
        try:
            reason, changed = look({"s.due.t": mark})["t"]
            assert reason == "it was altered, emptied or made again"
            assert "t" not in look({"s.due.t": changed})
            cursor.execute("ANALYZE TABLE t")
            assert "t" not in look({"s.due.t": changed})
            # A mark of an earlier release knows none.
            assert "t" not in look({"s.due.t": replace(mark, identity="")})
        finally:
            cursor.execute("RENAME TABLE t TO other, was TO t")
            cursor.execute("DROP TABLE other")


def test_marks_survive_as_text(look: Look) -> None:
    marks = named(look({}))
    assert read_cursor(dict[str, Mark], cursor_text(marks), {}) == marks
    assert read_cursor(dict[str, Mark], None, {}) == {}


@pytest.mark.parametrize(("minutes", "due"), [(0, False), (14, False), (15, True), (-1, True)])
def test_what_moves_within_every_shares_the_next_run(
    location: Location, look: Look, minutes: int, due: bool
) -> None:
    """A table that was never seen does not wait; nor does a source whose clock was set back."""
    config = location.config
    source = config.sources["s"]
    every = {"every": timedelta(minutes=15)}
    tables = [table.model_copy(update=every) for table in config.tables]
    mark = replace(named(look({}))["s.due.t"], rows=99)  # it moved
    mark = replace(mark, asked_at=earlier(mark.asked_at, timedelta(minutes=minutes)))
    ledger = Ledger(config.ledger.url)
    with session(source) as connection:
        seen = find_moved(connection, source, tables, {"s.due.t": mark}, ledger)
    assert {m.contract.table for m in seen.moved} == ({"f", "t"} if due else {"f"})
    if due:
        assert seen.until is None
    else:
        assert seen.until is not None
        left = seen.until - seen.clock
        assert timedelta() < left <= timedelta(minutes=15 - minutes)


def test_a_table_with_an_every_of_its_own_waits_for_that(location: Location, look: Look) -> None:
    """Not for another one's, nor is another one looked at because of it."""
    config = location.config
    source, ledger = config.sources["s"], Ledger(config.ledger.url)
    (table,) = [one for one in config.tables if one.table == "t"]
    mark = replace(named(look({}))["s.due.t"], rows=99)
    mark = replace(mark, asked_at=earlier(mark.asked_at, timedelta(minutes=3)))
    slow, quick = (
        table.model_copy(update={"every": timedelta(minutes=m), "database": "due", "source": name})
        for name, m in (("s", 60), ("quick", 2))
    )
    marks = {slow.name: mark, quick.name: mark}
    with session(source) as connection:
        seen = find_moved(connection, source, [slow, quick], marks, ledger)
    assert [m.contract.name for m in seen.moved] == [quick.name]
    assert seen.until is not None
    assert timedelta(minutes=56) < seen.until - seen.clock <= timedelta(minutes=57)


@pytest.mark.parametrize(("minutes", "due"), [(14, {}), (15, {"f", "t"})])
def test_a_lake_that_is_not_as_it_was_left_is_requested_again_in_a_while(
    location: Location, look: Look, minutes: int, due: set[str]
) -> None:
    """MySQL need not move for it: a restore, or another's write, changes the lake alone."""
    config = location.config
    source, ledger = config.sources["s"], Ledger(config.ledger.url)
    ago = timedelta(minutes=minutes)
    marks = {n: replace(m, asked_at=earlier(m.asked_at, ago)) for n, m in named(look({})).items()}
    quick = {"every": timedelta(seconds=1)}
    tables = [table.model_copy(update=quick) for table in config.tables]
    with session(source) as connection:
        seen = find_moved(connection, source, tables, marks, ledger, {*marks})
    assert {m.contract.table for m in seen.moved} == set(due)
    assert {m.reason for m in seen.moved} <= {"its lake tables are not as they were left"}
