"""What is to be reported of each table's raw days: the loads and folds since the last look,
whatever made them.

A report says of one partition of one layer what is in the lake now. The first look at a table
reports its history: every partition that it holds. From then on a partition is reported again when
a load touched it, or a layer folded it. Loads end out of order, and some of runs that report them
themselves: `ReportCursor` remembers what was left, so nothing is left out and no load is reported
twice. The same cursor over the same ledger and lake gives the same answer: a look that died before
its cursor was kept is repeated.

What belongs here: the decision, and what to remember. What doesn't: reporting it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from mirrorlake.config import TableContract
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import LakeError
from mirrorlake.ledger import Ledger, Load, Settlement
from mirrorlake.operations.days.partitions import (
    RawLooked,
    folded_days,
    folded_partitions,
    held_partitions,
    look_at_raw,
)
from mirrorlake.operations.days.touched_days import touched_days

logger = logging.getLogger(__name__)

LAYERS = ("raw", "deduped", "clean")
FIRST_SHARE = 21
"""Reports of a table's history that come before any other table's: a week of three layers."""
_HOLES = 100
"""At most this many missing numbers are looked for again: a database gives a number out before its
transaction ends, and one that is rolled back leaves a hole."""


@dataclass(frozen=True)
class ReportCursor:
    """How far reports have come; see `mirrorlake.operations.cursors`.

    Attributes:
        ledger: whose numbers these are; of another ledger everything is forgotten.
        through: up to this number every settlement was looked at.
        missing: numbers up to there that were not in the ledger.
        waiting: settlements up to there that are not, or not wholly, reported, by number: the
            earliest partition that was (ISO), '' for none. The newest ones go first.
        imported: the tables whose history is reported, as `_mark` calls them.
        history_to: those of which it is in part: the earliest partition that was.
    """

    ledger: str = ""
    through: int = 0
    missing: tuple[int, ...] = ()
    waiting: dict[int, str] = field(default_factory=dict[int, str])
    imported: tuple[str, ...] = ()
    history_to: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class DayReport:
    """One partition of one layer, as it is in the lake now.

    Attributes:
        layer: ``raw``, ``deduped`` or ``clean``; of the last two: every load that touched the
            partition is folded into it.
        partition: its first day; the day itself where partitions are days, and the beginning of the
            hour, without a zone, where they are hours.
        rows: row versions that raw has of it (of mode ``full``: rows of the copy).
        loads: the ids of the loads that this is reported for: that touched it, or were folded;
            none where it is history.
        runs: the ids of the runs that made them, or folded them, as far as known.
        through: the number of the newest settled load of the table that this reflects.
    """

    layer: str
    table: str
    partition: date
    rows: int
    loads: tuple[str, ...]
    runs: tuple[str, ...]
    through: int


@dataclass(frozen=True)
class DayReports:
    """What one look found.

    Attributes:
        reports: by table and partition.
        cursor: to be remembered once they are made; equal to the one that was given where nothing
            is new.
        failed: tables that could not be looked at, and why; the next look tries them again.
    """

    reports: tuple[DayReport, ...]
    cursor: ReportCursor
    failed: Mapping[str, str] = field(default_factory=dict[str, str])


def find_reports(
    lake: Lake,
    ledger: Ledger,
    contracts: Sequence[TableContract],
    cursor: ReportCursor,
    *,
    most: int,
    today: date,
    busy: Callable[[str], bool],
) -> DayReports:
    """The reports that are due, about ``most`` of them at most; nothing is written.

    Where nothing is new this costs a few statements to the ledger, however many tables there are,
    and no look at the lake. Tables of mode ``snapshot`` are left out.

    Args:
        today: the open day (UTC).
        busy: whether a run, by the id under which the ledger knows it, has not ended: it reports
            what it did itself, so its loads and folds are left until it has.

    Raises:
        LedgerError: the ledger can't be read.
    """
    chosen = {c.name: c for c in contracts if not c.landed}
    look = _Look(lake, ledger, chosen, cursor, today)
    settled = look.find_settled(busy)
    reports = look.report_settled(settled, most)
    reports += look.report_history(most - len(reports))
    return DayReports(tuple(reports), look.cursor(), look.failed)


def held_reports(
    lake: Lake, ledger: Ledger, contract: TableContract, today: date
) -> tuple[DayReport, ...]:
    """Every partition of every layer of a table that is in the lake now, in the order of its days:
    what Dagster is compared with.

    Raises:
        LakeError: raw can't be read.
    """
    table = _Table(lake, ledger, contract, today)
    due = table.history("")
    return tuple(table.report(day, layer, due[day, layer]) for day, layer in _chosen(due, len(due)))


def is_imported(contract: TableContract, cursor: ReportCursor) -> bool:
    """Whether the whole history of a table was reported, as its partitions are now."""
    return _mark(contract) in cursor.imported


@dataclass(frozen=True)
class _Due:
    """A report that is due: whose settlements it is for, and their loads."""

    settlements: list[Settlement] = field(default_factory=list[Settlement])
    loads: dict[int, Load] = field(default_factory=dict[int, Load])


class _Look:
    """One look: what was remembered, and what is to be remembered of it."""

    def __init__(
        self,
        lake: Lake,
        ledger: Ledger,
        contracts: Mapping[str, TableContract],
        before: ReportCursor,
        today: date,
    ) -> None:
        self._lake, self._ledger, self._contracts, self._today = lake, ledger, contracts, today
        self._before = self._after = before
        self._waiting: dict[int, str] = {}
        self._tables: dict[str, _Table] = {}
        self.failed: dict[str, str] = {}

    def cursor(self) -> ReportCursor:
        """What is to be remembered."""
        return replace(self._after, waiting=dict(sorted(self._waiting.items())))

    # --- what is new ----------------------------------------------------------------------------

    def find_settled(self, busy: Callable[[str], bool]) -> list[Settlement]:
        """The settlements to be reported now, by number; those of runs that have not ended are
        left."""
        before, ledger = self._before, self._ledger
        others = (*before.missing, *before.waiting)
        seen = ledger.settled_since(before.through, others)
        if seen.ledger != before.ledger or seen.newest < before.through:
            # Another ledger, or an older copy of it: all that it holds is history.
            start = max(0, seen.newest - _HOLES)
            before = ReportCursor(ledger=seen.ledger, through=start)
            seen = ledger.settled_since(start)
        found = {one.number: one for one in seen.found}
        looked = {*before.missing, *range(before.through + 1, seen.highest + 1)}
        missing = sorted(looked - set(found))[-_HOLES:]
        known = {_mark(contract) for contract in self._contracts.values()}
        self._before = self._after = replace(
            before,
            through=max(before.through, seen.highest),
            missing=tuple(missing),
            waiting={n: at for n, at in before.waiting.items() if n in found},
            imported=tuple(sorted(known.intersection(before.imported))),
            history_to={n: at for n, at in sorted(before.history_to.items()) if n in known},
        )
        begun = {*self._before.imported, *self._before.history_to}
        ended: dict[str, bool] = {}
        settled: list[Settlement] = []
        for one in sorted(found.values(), key=lambda s: s.number):
            contract = self._contracts.get(one.table)
            if contract is None or _mark(contract) not in begun:
                continue  # its history, which is not reported yet, holds it
            if one.run_id not in ended:
                ended[one.run_id] = not one.run_id or not busy(one.run_id)
            if ended[one.run_id]:
                settled.append(one)
            else:
                self._waiting[one.number] = self._before.waiting.get(one.number, "")
        return settled

    def report_settled(self, settled: Sequence[Settlement], most: int) -> list[DayReport]:
        """Reports for these settlements, table by table; what is too much is left."""
        tables: dict[str, list[Settlement]] = {}
        for one in settled:
            tables.setdefault(one.table, []).append(one)
        reports: list[DayReport] = []
        for table, of_table in tables.items():
            if len(reports) >= most:
                self._leave(of_table)
                continue
            try:
                reports += self._report_table(self._contracts[table], of_table, most - len(reports))
            except LakeError as error:
                self._leave(of_table)
                self._fail(table, error)
        return reports

    def _report_table(
        self, contract: TableContract, settled: Sequence[Settlement], most: int
    ) -> list[DayReport]:
        table = _Table(self._lake, self._ledger, contract, self._today)
        due = table.due(settled, self._before.waiting)
        chosen = _chosen(due, most)
        last = min((day for day, _ in chosen), default=date.max)
        rest = {one.number for key in due if key[0] < last for one in due[key].settlements}
        for number in rest:
            # What was reported of it already stays so: others may touch newer days.
            reached = self._before.waiting.get(number)
            self._waiting[number] = min(filter(None, (reached, last.isoformat())))
        return [table.report(day, layer, due[day, layer]) for day, layer in chosen]

    def _leave(self, settled: Iterable[Settlement]) -> None:
        self._waiting |= {s.number: self._before.waiting.get(s.number, "") for s in settled}

    def _fail(self, table: str, error: LakeError) -> None:
        logger.warning("table %s: what is in the lake can't be reported: %s", table, error)
        self.failed[table] = str(error)

    # --- history --------------------------------------------------------------------------------

    def report_history(self, most: int) -> list[DayReport]:
        """Reports for the partitions of tables that were not reported before, some at a time: of
        every table its newest ones first, then table by table the rest."""
        marks = {name: _mark(contract) for name, contract in self._contracts.items()}
        unknown = [name for name, mark in marks.items() if mark not in self._after.imported]
        loaded = self._ledger.loaded_tables(unknown) if unknown else set[str]()
        imported, history_to = set(self._after.imported), dict(self._after.history_to)
        reports: list[DayReport] = []
        due = [name for name in unknown if name in loaded and name not in self.failed]
        new = [(name, FIRST_SHARE) for name in due if marks[name] not in history_to]
        for name, share in (*new, *((name, most) for name in due)):
            if len(reports) > most - len(LAYERS) and reports:
                break  # a partition is reported with all of its layers
            mark = marks[name]
            if mark in imported or name in self.failed:
                continue
            share = min(share, most - len(reports))
            try:
                found, more = self._history_of(name, history_to.get(mark, ""), share)
            except LakeError as error:
                self._fail(name, error)
                continue
            reports += found
            if more:
                history_to[mark] = found[0].partition.isoformat()
            else:
                imported.add(mark)
                history_to.pop(mark, None)
        self._after = replace(
            self._after,
            imported=tuple(sorted(imported)),
            history_to=dict(sorted(history_to.items())),
        )
        return reports

    def _history_of(self, name: str, before: str, most: int) -> tuple[list[DayReport], bool]:
        """A share of a table's history, the newest of what is left; and whether there is more."""
        if name not in self._tables:
            parts = (self._lake, self._ledger, self._contracts[name], self._today)
            self._tables[name] = _Table(*parts)
        table = self._tables[name]
        due = table.history(before)
        chosen = _chosen(due, most)
        reports = [table.report(day, layer, due[day, layer]) for day, layer in chosen]
        return reports, len(chosen) < len(due)


def _mark(contract: TableContract) -> str:
    """What a table's history is remembered by: partitions of another size are another history."""
    size = contract.partition
    return contract.name if size == "day" else f"{contract.name} by {size}"


_Key = tuple[date, str]


def _chosen(due: Mapping[_Key, _Due], most: int) -> list[_Key]:
    """Whole partitions, the newest ones, at least one; in the order of their days."""
    keys = sorted(due, key=lambda key: (key[0], LAYERS.index(key[1])))
    if len(keys) <= most:
        return keys
    newest = keys[::-1]
    last = newest[max(most, 1) - 1][0]
    if most >= 1 and newest[most][0] == last and newest[0][0] > last:
        last = min(day for day, _ in keys if day > last)
    return [key for key in keys if key[0] >= last]


class _Table:
    """One table of a look: read once."""

    def __init__(self, lake: Lake, ledger: Ledger, contract: TableContract, today: date) -> None:
        self._lake, self._ledger, self._contract, self._today = lake, ledger, contract, today
        self._raw: RawLooked = look_at_raw(lake, ledger, contract, today)
        self._held = held_partitions(contract, self._raw, today)
        self._folded: dict[str, set[date]] = {}

    def report(self, partition: date, layer: str, due: _Due) -> DayReport:
        loads = (due.loads[seq].load_id for seq in sorted(due.loads))
        runs = sorted({one.run_id for one in due.settlements if one.run_id})
        return DayReport(
            layer,
            self._contract.name,
            partition,
            self._held[partition],
            tuple(loads),
            tuple(runs),
            self._raw.held.through,
        )

    def history(self, before: str) -> dict[_Key, _Due]:
        """Every partition that is held, of every layer, before one; '': all."""
        found = {(day, "raw"): _Due() for day in self._held}
        for layer in LAYERS[1:]:
            found |= {(day, layer): _Due() for day in self._folded_into(layer)}
        return {k: due for k, due in found.items() if not before or k[0].isoformat() < before}

    def due(self, settled: Sequence[Settlement], before: Mapping[int, str]) -> dict[_Key, _Due]:
        """The partitions that these settlements touched, before those that are reported."""
        contract = self._contract
        loads = self._ledger.loads_of(contract.name, {one.seq for one in settled})
        touched = touched_days(self._ledger, contract, loads, self._raw.files)
        partitions = {
            seq: days.partitions(contract, self._raw.held.rows) for seq, days in touched.items()
        }
        found: dict[_Key, _Due] = {}
        for one in settled:
            reported = before.get(one.number, "")
            for layer in self._layers_of(one.what):
                there = self._held if layer == "raw" else self._folded_into(layer)
                for day in partitions.get(one.seq, set()).intersection(there):
                    if not reported or day.isoformat() < reported:
                        due = found.setdefault((day, layer), _Due())
                        due.settlements.append(one)
                        due.loads[one.seq] = loads[one.seq]
        return found

    def _layers_of(self, what: str) -> tuple[str, ...]:
        """The layers that a settlement covers: a clean view has what deduped has."""
        if what == "load":
            return ("raw",)
        both = what == "deduped" and self._contract.clean == "view"
        return ("deduped", "clean") if both else (what,)

    def _folded_into(self, layer: str) -> set[date]:
        if layer not in self._folded:
            held = self._raw.held
            folded = folded_days(self._lake, self._ledger, self._contract, layer, held)
            self._folded[layer] = folded_partitions(self._contract, self._raw, folded, self._today)
        return self._folded[layer]
