"""What a look has to report, whatever the order in which loads begin, settle and are folded: every
day of every load at least once, and once only where the cursor was kept."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirrorlake.config import TableContract, default_namespaces
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.ledger import Ledger, Load, Receipt, Window
from mirrorlake.ledger.tables import SETTLED
from mirrorlake.operations.cursors import cursor_text, read_cursor
from mirrorlake.operations.days import day_reports
from mirrorlake.operations.days.day_reports import DayReports, ReportCursor, find_reports
from mirrorlake.operations.days.partitions import folded_days, look_at_raw

TODAY = date(2026, 3, 10)
FIRST = date(2026, 3, 1)
NO_LAKE = cast(Lake, None)
"""Of tables without a schema version there is nothing to be read."""
RECEIPT = Receipt(0, 0, 0, "0", "2026-03-10 01:00:00", None, "server", "", 0, 0, 0.0)
_numbers = itertools.count()


def contract_of(name: str, **fields: Any) -> TableContract:
    named = {"source": "s", "database": "d", "table": name, "mode": "incremental", "cursor": "at"}
    spaces = default_namespaces("s", "d")
    return TableContract(**{**named, "key": ("id",), "namespaces": spaces, **fields})


def begin(ledger: Ledger, table: str, window: Window, run: str = "run") -> Load:
    load_id = ledger.create_load(table, window)
    with ledger.lease(table, run) as lease:
        return ledger.start_load(load_id, lease, run, "raw", None)


def settle(ledger: Ledger, load: Load) -> None:
    ledger.finish_load(load, None, RECEIPT)


def reload_of(first: date, last: date) -> Window:
    return Window("reload", first.isoformat(), (last + timedelta(days=1)).isoformat(), TODAY)


def first_load(ledger: Ledger, table: str) -> Load:
    load = begin(ledger, table, Window("initial", f"{FIRST} 00:00:00", None, TODAY))
    settle(ledger, load)
    return load


@contextmanager
def statements() -> Iterator[list[str]]:
    found: list[str] = []

    def note(*told: Any) -> None:
        found.append(str(told[2]))

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return Ledger(f"sqlite:///{tmp_path_factory.mktemp('ledger') / 'ledger.db'}")


@dataclass
class World:
    """Two tables, their loads, and somebody who looks."""

    ledger: Ledger
    contracts: list[TableContract]
    cursor: ReportCursor = field(default_factory=ReportCursor)
    pending: list[tuple[Load, date, date]] = field(default_factory=list[Any])
    settled: dict[str, tuple[str, set[date]]] = field(default_factory=dict[str, Any])
    unfolded: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    live: set[str] = field(default_factory=set[str])
    told: Counter[tuple[str, str, date]] = field(default_factory=Counter[Any])
    was_lost: bool = False
    shown: dict[tuple[str, str], set[date]] = field(default_factory=dict[Any, set[date]])

    def look(self, most: int, *, lost: bool = False) -> DayReports:
        found = find_reports(
            NO_LAKE,
            self.ledger,
            self.contracts,
            self.cursor,
            most=most,
            today=TODAY,
            busy=self.live.__contains__,
        )
        for report in found.reports:
            self.shown.setdefault((report.layer, report.table), set()).add(report.partition)
            for load_id in report.loads:
                self.told[load_id, report.layer, report.partition] += 1
                assert not self.live.intersection(report.runs)
        if not lost:
            # As a sensor keeps it.
            text = cursor_text(found.cursor)
            self.cursor = read_cursor(ReportCursor, text, ReportCursor())
            assert self.cursor == found.cursor
        return found

    # --- what happens ---------------------------------------------------------------------------

    def begin(self, number: int, one: date, other: date, busy: bool) -> None:
        first, last, run = min(one, other), max(one, other), f"r{next(_numbers)}"
        load = begin(self.ledger, self.contracts[number].name, reload_of(first, last), run)
        self.pending.append((load, first, last))
        self.live |= {run} if busy else set()

    def settle(self, number: int) -> None:
        if self.pending:
            load, first, last = self.pending.pop(number % len(self.pending))
            settle(self.ledger, load)
            touched = {first + timedelta(days=n) for n in range((last - first).days + 1)}
            self.settled[load.load_id] = (load.table, touched)
            self.unfolded[load.table].append(load.seq)

    def fold(self, number: int, busy: bool) -> None:
        name, run = self.contracts[number].name, f"r{next(_numbers)}"
        self.ledger.record_folds(name, "deduped", self.unfolded[name], run)
        self.unfolded[name] = []
        self.live |= {run} if busy else set()

    def end(self, number: int) -> None:
        if self.live:
            self.live.remove(sorted(self.live)[number % len(self.live)])

    def look_once(self, most: int, lost: bool) -> None:
        """``lost``: whoever looked died after it had reported, and before the cursor was kept."""
        found = self.look(most, lost=lost)
        if lost:
            self.was_lost = True
            assert found == self.look(most, lost=True), "the same cursor, the same answer"


days = st.integers(0, 9).map(lambda n: FIRST + timedelta(days=n))
steps = st.one_of(
    st.tuples(st.just("begin"), st.integers(0, 1), days, days, st.booleans()),
    st.tuples(st.just("settle"), st.integers(0, 9)),
    st.tuples(st.just("fold"), st.integers(0, 1), st.booleans()),
    st.tuples(st.just("end"), st.integers(0, 9)),
    st.tuples(st.just("look_once"), st.integers(1, 12), st.booleans()),
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(steps, max_size=30))
def test_every_day_of_every_load_is_told_and_none_twice(
    ledger: Ledger, taken: list[tuple[Any, ...]]
) -> None:
    contracts = [contract_of(f"t{next(_numbers)}") for _ in range(2)]
    world = World(ledger, contracts)
    for contract in contracts:
        world.unfolded[contract.name] = [first_load(ledger, contract.name).seq]
    world.look(1000)
    for name, *given_ in taken:
        getattr(world, name)(*given_)
    world.live.clear()
    while world.look(7).reports:
        pass
    for load_id, (_, touched) in world.settled.items():
        times = {day: world.told[load_id, "raw", day] for day in touched}
        assert all(times.values()), "a day that a load touched was never reported"
        assert world.was_lost or set(times.values()) == {1}, "a load was reported twice"
        assert not {d for i, layer, d in world.told if (i, layer) == (load_id, "raw")} - touched
    for contract in contracts:
        held = look_at_raw(NO_LAKE, ledger, contract, TODAY).held
        assert world.shown["raw", contract.name] == set(held.rows)
        folded = folded_days(NO_LAKE, ledger, contract, "deduped", held).days
        assert world.shown.get(("deduped", contract.name), set()) >= folded
        assert world.shown.get(("clean", contract.name)) == world.shown.get(
            ("deduped", contract.name)
        )
    assert not world.cursor.waiting


def test_a_layer_is_shown_on_a_day_when_all_its_loads_are_folded(ledger: Ledger) -> None:
    contract = contract_of(f"t{next(_numbers)}")
    world = World(ledger, [contract])
    first = first_load(ledger, contract.name)
    second = begin(ledger, contract.name, reload_of(TODAY, TODAY))
    settle(ledger, second)
    ledger.record_folds(contract.name, "deduped", [first.seq])
    world.look(1000)
    before = {FIRST + timedelta(days=n) for n in range(9)}
    assert world.shown["deduped", contract.name] == before, "not of the day that waits"
    ledger.record_folds(contract.name, "deduped", [second.seq])
    found = world.look(1000).reports
    assert {(r.layer, r.partition) for r in found} == {("deduped", TODAY), ("clean", TODAY)}


def test_a_number_that_comes_late_is_found(ledger: Ledger) -> None:
    """As where a transaction that was given a lower number ends after one with a higher."""
    contract = contract_of(f"t{next(_numbers)}")
    world = World(ledger, [contract])
    first_load(ledger, contract.name)
    world.look(1000)
    late = begin(ledger, contract.name, reload_of(FIRST, FIRST))
    settle(ledger, late)
    with ledger._database.begin() as connection:
        row = connection.execute(SETTLED.select().where(SETTLED.c.seq == late.seq)).one()
        connection.execute(SETTLED.delete().where(SETTLED.c.number == row.number))
    settle(ledger, begin(ledger, contract.name, reload_of(TODAY, TODAY)))
    assert {r.partition for r in world.look(1000).reports} == {TODAY}
    with ledger._database.begin() as connection:
        connection.execute(SETTLED.insert().values(**row._mapping))
    found = world.look(1000).reports
    assert [(r.partition, r.loads) for r in found] == [(FIRST, (late.load_id,))]
    assert not world.look(1000).reports


def test_another_ledger_is_history_again(ledger: Ledger) -> None:
    contract = contract_of(f"t{next(_numbers)}")
    world = World(ledger, [contract])
    first_load(ledger, contract.name)
    assert len(world.look(1000).reports) == 10
    assert not world.look(1000).reports
    ledger.renew_identity()
    assert len(world.look(1000).reports) == 10
    world.cursor = replace(world.cursor, through=world.cursor.through + 1000)
    assert len(world.look(1000).reports) == 10, "an older copy of it, too"


def test_nothing_new_costs_a_few_statements(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    contracts = [contract_of(f"t{n}") for n in range(30)]
    world = World(ledger, contracts)
    for contract in contracts[:20]:
        first_load(ledger, contract.name)
    world.look(10_000)
    with statements() as found:
        assert not world.look(10_000).reports
    queries = [text for text in found if text.startswith("SELECT")]
    assert len(queries) <= 4


def test_days_before_the_partitions_are_not_reported(ledger: Ledger) -> None:
    contract = contract_of(f"t{next(_numbers)}", partitions_from=date(2026, 3, 8))
    world = World(ledger, [contract])
    first_load(ledger, contract.name)
    world.look(1000)
    assert min(world.shown["raw", contract.name]) == date(2026, 3, 8)


def test_a_failed_request_takes_no_day_away(ledger: Ledger) -> None:
    contract = contract_of(f"t{next(_numbers)}")
    first_load(ledger, contract.name)
    failed = begin(ledger, contract.name, reload_of(FIRST, TODAY))
    ledger.fail_load(failed, "lost")
    assert len(look_at_raw(NO_LAKE, ledger, contract, TODAY).held.rows) == 10
    # What was never read is not held, whatever failed there.
    later = look_at_raw(NO_LAKE, ledger, contract, TODAY + timedelta(days=3)).held
    assert max(later.rows) == TODAY


def test_history_begins_with_the_newest_days_of_every_table(ledger: Ledger) -> None:
    """A table's years keep nobody else from being seen."""
    contracts = [contract_of(f"t{next(_numbers)}") for _ in range(3)]
    world = World(ledger, contracts)
    for contract in contracts:
        first_load(ledger, contract.name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(day_reports, "FIRST_SHARE", 2)
        first = world.look(7).reports
    newest = {TODAY, TODAY - timedelta(days=1)}
    assert {(r.table, r.partition) for r in first} >= {
        (contract.name, day) for contract in contracts for day in newest
    }
    assert len(first) == 6
    while found := world.look(4).reports:
        assert len(found) <= 4
    for contract in contracts:
        assert len(world.shown["raw", contract.name]) == 10
