"""Which rows are old enough to be compared: as late as can be, and never one that may still come."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.errors import ConfigError
from mirrorlake.proof.ranges.scope import ALL, UNKNOWN, Scope, both, day_condition, settled_scope
from tests.unit.plans import contract

SETTLE = timedelta(minutes=10)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")


def scope_of(moment: datetime, zone: str, kind: str = "datetime") -> Scope:
    """The scope of an incremental table whose newest load shows this moment (UTC)."""
    column = SimpleNamespace(name="modified_at", sql="`modified_at`", data_type=kind)
    asked = contract(cursor="modified_at", settle=SETTLE, overlap_keys=0)
    told = moment.replace(tzinfo=None).isoformat(sep=" ")
    load: Any = SimpleNamespace(receipt=SimpleNamespace(moment=told, oldest_open=None))
    table: Any = SimpleNamespace(column=lambda _: column)
    source: Any = SimpleNamespace(zone=ZoneInfo(zone))
    return settled_scope(table, asked, source, load, still=False)


def bound_of(moment: datetime, zone: str, kind: str = "datetime") -> datetime:
    return datetime.fromisoformat(scope_of(moment, zone, kind).below.strip("'"))


@pytest.mark.parametrize(
    ("moment", "zone", "bound"),
    [
        # No clock is turned near: settle alone waits, an hour more would be a check of nothing.
        ((2026, 7, 1, 12), "UTC", (2026, 7, 1, 11, 50)),
        ((2026, 7, 1, 12), "Europe/Berlin", (2026, 7, 1, 13, 50)),
        ((2026, 1, 5, 12), "America/New_York", (2026, 1, 5, 6, 50)),
        # Turned back at 01:00 UTC on 2026-10-25: from 02:59:59 to 02:00:00.
        ((2026, 10, 25, 0, 55), "Europe/Berlin", (2026, 10, 25, 1, 45)),
        ((2026, 10, 25, 1, 30), "Europe/Berlin", (2026, 10, 25, 2, 20)),
        # Nor is it near two days before.
        ((2026, 10, 23, 12), "Europe/Berlin", (2026, 10, 23, 13, 50)),
        # Turned forward at 01:00 UTC on 2026-03-29: no time comes twice.
        ((2026, 3, 29, 0, 55), "Europe/Berlin", (2026, 3, 29, 1, 45)),
    ],
)
def test_what_waits_is_what_settle_says(
    moment: tuple[int, ...], zone: str, bound: tuple[int, ...]
) -> None:
    at = datetime(*moment, tzinfo=UTC)  # type: ignore[misc, arg-type]
    assert bound_of(at, zone) == datetime(*bound)  # type: ignore[misc, arg-type]


def test_a_timestamp_knows_no_zone() -> None:
    at = datetime(2026, 10, 25, 0, 55, tzinfo=UTC)
    assert bound_of(at, "Europe/Berlin", "timestamp") == datetime(2026, 10, 25, 0, 45)


@given(
    st.datetimes(datetime(2020, 1, 1), datetime(2027, 1, 1)),
    st.timedeltas(timedelta(0), timedelta(days=3)),
    st.sampled_from(ZONES),
)
def test_no_row_that_may_still_come_is_compared(
    moment: datetime, later: timedelta, zone: str
) -> None:
    """Whatever is written once the settle time has begun is stamped at the bound, or above it."""
    written = (moment.replace(tzinfo=UTC) - SETTLE + later).astimezone(ZoneInfo(zone))
    assert written.replace(tzinfo=None) >= bound_of(moment, zone)


@given(st.integers(-200, 200), st.integers(0, 200), st.sampled_from(ZONES))
def test_nor_around_the_turn_of_a_clock(before: int, later: int, zone: str) -> None:
    for year in (2025, 2026):
        for turn in ((10, 26, 1), (10, 25, 1), (11, 2, 6), (11, 1, 6), (4, 5, 15), (4, 4, 15)):
            moment = datetime(year, *turn, tzinfo=UTC) + timedelta(minutes=before)
            written = moment - SETTLE + timedelta(minutes=later)
            stamped = written.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
            assert stamped >= bound_of(moment, zone)


# --- which rows are compared how ------------------------------------------------------------------

MOMENT, OPEN = datetime(2026, 7, 1, 12), "2026-07-01 11:00:30"
SETTLED, READ = "'2026-07-01 11:50:00'", "'2026-07-01 11:59:55'"


def scoped(kind: str = "datetime", *, still: bool = False, receipt: Any = True, **more: Any) -> Any:
    """The scope of a table whose newest load shows noon, or ended at key 500."""
    column = SimpleNamespace(name="c", sql="`c`", data_type=kind)
    told = SimpleNamespace(moment=str(MOMENT), oldest_open=None, hi="500")
    said = {"mode": "append", "cursor": "c", "settle": SETTLE, "overlap_keys": 100, **more}
    load: Any = SimpleNamespace(receipt=told if receipt is True else receipt)
    table: Any = SimpleNamespace(column=lambda _: column)
    source: Any = SimpleNamespace(zone=ZoneInfo("UTC"))
    return settled_scope(table, contract(**said), source, load, still=still)


def test_an_incremental_table_leaves_out_what_moved_by_its_key() -> None:
    """Wherever the lake has it: so every other row of the lake is judged."""
    assert scoped(mode="incremental") == Scope(
        source=f"`c` < {SETTLED}",
        lake="",
        newer=f"`c` >= {SETTLED}",
        settled=f"`c` < {SETTLED}",
        words=f"c < {SETTLED}",
        cursor="c",
        below=SETTLED,
    )


def test_rows_of_an_append_table_are_compared_as_soon_as_they_were_read() -> None:
    found = scoped()
    assert found == Scope(
        source=f"`c` < {READ}",
        lake=f"(`c` < TIMESTAMP_NTZ{READ} OR `c` IS NULL)",
        newer="",
        settled=f"`c` < {SETTLED}",
        words=f"c < {READ}",
        cursor="c",
        below=SETTLED,
        until=READ,
        beside=f"(`c` >= TIMESTAMP_NTZ{READ})",
        later=f"`c` >= {READ}",
    )
    # Without a key no row can be looked up: the settle time holds for all.
    loose = scoped(key=[])
    assert (loose.until, loose.later) == (SETTLED, f"`c` >= {SETTLED}")
    # A settle time of nothing is no promise that everything was read.
    assert scoped(settle=timedelta(0)).until == f"'{MOMENT}'"
    assert scoped("date").until == "'2026-07-01'"


def test_an_open_transaction_holds_back_what_must_be_there_and_nothing_else() -> None:
    told = SimpleNamespace(moment=str(MOMENT), oldest_open=OPEN)
    found = scoped(receipt=told)
    assert (found.below, found.until) == ("'2026-07-01 10:59:30'", READ)
    late = SimpleNamespace(moment=str(MOMENT), oldest_open=str(MOMENT))
    assert scoped(receipt=late).below == SETTLED


def test_keys_are_compared_up_to_the_highest_that_was_read() -> None:
    found = scoped("bigint")
    assert (found.source, found.settled) == ("`c` < 501", "`c` < 400")
    assert (found.lake, found.beside) == ("(`c` < 501 OR `c` IS NULL)", "(`c` >= 501)")
    assert (found.later, found.newer, found.below, found.until) == ("`c` >= 501", "", "400", "501")
    nothing = SimpleNamespace(moment=str(MOMENT), hi=None)
    empty = scoped("bigint", receipt=nothing)
    assert (empty.source, empty.settled, empty.later) == ("1 = 0", "0", "1 = 1")
    assert empty.beside == "(`c` >= -9223372036854775809)"
    assert (empty.until, empty.below) == ("-9223372036854775809", "")


def test_nothing_waits_while_mysql_is_as_the_load_found_it() -> None:
    for found in (scoped(still=True), scoped(still=True, mode="incremental")):
        assert (found.source, found.lake, found.beside, found.newer, found.later) == ("",) * 5
        # Which rows are old enough is still known: MySQL may move meanwhile.
        assert (found.settled, found.below, found.still) == (f"`c` < {SETTLED}", SETTLED, True)
        assert "as the newest load found it" in found.words
    assert not scoped().still


def test_rows_from_before_the_start_are_looked_up() -> None:
    first = "'2026-01-01 00:00:00'"
    found = scoped(start=date(2026, 1, 1))
    assert found.source == f"`c` < {READ} AND `c` >= {first}"
    assert found.lake == f"(`c` < TIMESTAMP_NTZ{READ} AND `c` >= TIMESTAMP_NTZ{first})"
    assert found.beside == (
        f"(`c` >= TIMESTAMP_NTZ{READ} OR `c` < TIMESTAMP_NTZ{first} OR `c` IS NULL)"
    )
    assert found.words == f"{first} <= c < {READ}"
    moving = scoped("timestamp", mode="incremental", start=date(2026, 1, 1))
    assert moving.lake == f"(`c` >= TIMESTAMP{first})"
    assert moving.beside == f"(`c` < TIMESTAMP{first} OR `c` IS NULL)"
    still = scoped("date", still=True, start=date(2026, 1, 1))
    assert (still.source, still.lake) == ("`c` >= '2026-01-01'", "(`c` >= DATE'2026-01-01')")
    assert still.words.startswith("'2026-01-01' <= c: all rows")


def test_what_is_compared_without_a_cursor_or_a_receipt() -> None:
    assert scoped(mode="full") is ALL
    assert scoped(cursor=None) is ALL
    assert scoped(receipt=None) is UNKNOWN
    assert scoped("bigint", receipt=None) is UNKNOWN
    # Whatever differs there can't be decided: nothing is old enough for sure.
    assert (UNKNOWN.source, UNKNOWN.lake, UNKNOWN.settled) == ("", "", "0")


def test_the_rows_of_a_day() -> None:
    kinds = {"at": "datetime", "made": "timestamp", "n": "int", "d": "date"}
    table: Any = SimpleNamespace(
        column=lambda name: SimpleNamespace(name=name, sql=f"`{name}`", data_type=kinds[name])
    )

    def day(cursor: str | None, created: str | None) -> tuple[str, str]:
        contract: Any = SimpleNamespace(name="t", cursor=cursor, created=created)
        return day_condition(table, contract, date(2026, 7, 31))

    low, high = "'2026-07-31 00:00:00'", "'2026-08-01 00:00:00'"
    assert day("at", "made") == (
        f"`at` >= {low} AND `at` < {high}",
        f"`at` >= TIMESTAMP_NTZ{low} AND `at` < TIMESTAMP_NTZ{high}",
    )
    assert day("n", "made")[1] == f"`made` >= TIMESTAMP{low} AND `made` < TIMESTAMP{high}"
    assert day(None, "d")[0] == "`d` >= '2026-07-31' AND `d` < '2026-08-01'"
    with pytest.raises(ConfigError, match="no column tells a row's day"):
        day("n", None)
    assert both("a", "", "b") == "(a) AND (b)"
