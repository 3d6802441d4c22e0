"""Partitions: which raw days of a table are in the lake, how many row versions each has, and which
of them deduped and clean hold.

The calls of the face (all of them without a JVM; none queries a source)::

    look_at_raw(lake, ledger, contract, today) -> RawLooked
    folded_days(lake, ledger, contract, layer, held) -> FoldedDays
    held_partitions(contract, looked, today) -> Mapping[date, int]
    folded_partitions(contract, looked, folded, today) -> set[date]
    find_reports(lake, ledger, contracts, cursor, most=…, today=…, busy=…) -> DayReports
                                                    (in `mirrorlake.operations.days.day_reports`)
    first_days(ledger_url, contracts, limit_seconds) -> dict[str, date]
                                                    (in `mirrorlake.ledger.database.peek`)
    first_day_of(contract, known), partition_of(contract, day), days_in(contract, partition)
                                                    (in `mirrorlake.config.partitions`)

A day is held when a load that succeeded read all of its range, whether MySQL had rows of
it or not, or when raw has rows of it. It stays held whatever failed since: a request that failed
takes nothing out of raw, and what was read is still there. That a day is held does not promise that
it equals MySQL: only a proof says that (`mirrorlake.proof`).

What belongs here: looking. What doesn't: notifying anybody, and deciding what is to be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from mirrorlake.config import TableContract
from mirrorlake.config.partitions import days_in, first_day_of, hours_of, partition_of
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.ledger import Ledger, Load
from mirrorlake.operations.days.gaps import READ, Stretch, stretches_of
from mirrorlake.operations.days.raw_days import RawFiles, read_at
from mirrorlake.operations.days.touched_days import TouchedDays, touched_days
from mirrorlake.table.windows import days_of

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class HeldDays:
    """The raw days of one table that are in the lake, from its first day through today.

    Attributes:
        rows: day → how many row versions raw has of it; 0: the range was read, and MySQL had
            nothing. Of mode ``full``: the rows of the newest copy that was begun that day, whatever
            of them it had to write.
        through: the number of the newest settled load that this reflects; 0: none.
        read_until: when (by the source's clock, UTC, without a zone) the newest load read that
            brought the mirror forward; None: there is none, or the table is copied.
        reread: when, likewise, days were read again that this does not reach the end of.
    """

    rows: Mapping[date, int]
    through: int
    read_until: datetime | None = None
    reread: Mapping[date, datetime] = field(default_factory=dict[date, datetime])


@dataclass(frozen=True)
class FoldedDays:
    """Which of a table's held days a layer holds.

    Attributes:
        days: those of which every load is folded.
        waiting: every other held day → the ids of the loads that touched it and are not folded;
            none where the layer holds nothing of the table.
        unfolded: what each load touched that is not folded.
        is_empty: whether the layer holds nothing of the table.
    """

    days: frozenset[date]
    waiting: Mapping[date, tuple[str, ...]] = field(default_factory=dict[date, tuple[str, ...]])
    unfolded: tuple[TouchedDays, ...] = ()
    is_empty: bool = False


def folded_days(
    lake: Lake, ledger: Ledger, contract: TableContract, layer: str, held: HeldDays
) -> FoldedDays:
    """Which held days a layer (``deduped``, ``clean``) holds: those that no load touched which is
    not folded. A clean view holds what deduped holds.

    Raises:
        LakeError: raw can't be read.
        LedgerError: the ledger can't be read.
    """
    stored = "clean" if layer == "clean" and contract.clean == "table" else "deduped"
    some, unfolded = ledger.unfolded_of(contract.name, stored)
    if not some:
        return FoldedDays(frozenset(), dict.fromkeys(held.rows, ()), is_empty=True)
    waiting: dict[date, list[str]] = {}
    touched: dict[int, TouchedDays] = {}
    if unfolded:
        raw = RawFiles(lake, ledger, contract)
        touched = touched_days(ledger, contract, {load.seq: load for load in unfolded}, raw)
        for load in unfolded:
            for day in touched[load.seq].among(held.rows):
                waiting.setdefault(day, []).append(load.load_id)
    left = {day: tuple(ids) for day, ids in sorted(waiting.items())}
    return FoldedDays(frozenset(held.rows).difference(left), left, tuple(touched.values()))


def held_partitions(contract: TableContract, looked: RawLooked, today: date) -> Mapping[date, int]:
    """`HeldDays.rows` by partition, given by its beginning.

    A month is held when all its days are that the table has had: from its first day through today,
    or, of the open month, through the day that was read last. An hour is held when its day is, and
    it had begun when a load read it. How many rows an hour has is read when it is looked up, a day
    at a time.
    """
    held = looked.held
    if contract.partition == "day":
        return dict(held.rows)
    if contract.partition == "hour":
        return _HourRows(looked)
    rows: Counter[date] = Counter()
    for day, count in held.rows.items():
        rows[partition_of(contract, day)] += count
    first = min(held.rows, default=today)
    whole: dict[date, int] = {}
    for month, count in rows.items():
        last = today
        if held.read_until is not None and partition_of(contract, today) == month:
            last = min(today, held.read_until.date())
        days = (day for day in days_in(contract, month) if first <= day <= last)
        if contract.copies or all(day in held.rows for day in days):
            whole[month] = count
    return whole


def folded_partitions(
    contract: TableContract, looked: RawLooked, folded: FoldedDays, today: date
) -> set[date]:
    """The held partitions of which a layer holds every load that touched them."""
    if folded.is_empty:
        return set()
    held = looked.held.rows
    waiting = {p for one in folded.unfolded for p in one.partitions(contract, held)}
    return set(held_partitions(contract, looked, today)) - waiting


class _HourRows(Mapping[date, int]):
    """The row versions of the hours that are held, in their order; a day of them is counted when
    one of its hours is first needed."""

    def __init__(self, looked: RawLooked) -> None:
        self._files, held = looked.files, looked.held
        self._hours = dict.fromkeys(
            hour for day in held.rows for hour in hours_of(day) if self._is_read(hour, held)
        )

    def _is_read(self, hour: datetime, held: HeldDays) -> bool:
        """Whether an hour had begun when it was read; by its rows where no load says when."""
        moments = (held.read_until, held.reread.get(hour.date()))
        known = [moment for moment in moments if moment is not None]
        return hour <= max(known) if known else hour in self._files.hours_of(hour.date())

    def __getitem__(self, partition: date) -> int:
        if not isinstance(partition, datetime) or partition not in self._hours:
            raise KeyError(partition)
        return self._files.hours_of(partition.date()).get(partition, 0)

    def __iter__(self) -> Iterator[date]:
        return iter(self._hours)

    def __len__(self) -> int:
        return len(self._hours)


# --- raw as it is now -----------------------------------------------------------------------------


@dataclass(frozen=True)
class RawLooked:
    """A table's held days, the files that they were seen in, and its first day."""

    held: HeldDays
    files: RawFiles
    first: date | None


def look_at_raw(lake: Lake, ledger: Ledger, contract: TableContract, today: date) -> RawLooked:
    """The raw days of a table that are in the lake, and what they were seen in.

    Args:
        today: the open day (UTC); what is dated later is held when its day has come.

    Raises:
        LakeError: raw can't be read.
        LedgerError: the ledger can't be read.
    """
    through = ledger.newest_success(contract.name)
    files = RawFiles(lake, ledger, contract)
    if not through:
        return RawLooked(HeldDays({}, 0), files, None)
    days = [day for day in (ledger.first_day(contract.name), *files.rows) if day is not None]
    first = first_day_of(contract, min(days, default=None))
    if first is None:
        return RawLooked(HeldDays({}, through), files, None)
    if contract.copies:
        held = _copies(ledger, contract, files)
        kept = {day: rows for day, rows in sorted(held.items()) if first <= day <= today}
        return RawLooked(HeldDays(kept, through), files, first)
    landmarks = ledger.landmarks(contract.name)
    # Without the requests that failed: they took nothing away.
    stretches = stretches_of(contract, landmarks, (), today)
    read = dict.fromkeys(_read_days(stretches, first, today), 0)
    there = {day: rows for day, rows in files.rows.items() if first <= day <= today}
    moving = ("initial", "live", "log")
    moments = [_read_until(load) for load in landmarks if load.window.kind in moving]
    until = max(moments, default=None)
    reread = _reread(landmarks, until)
    held_now = HeldDays(dict(sorted({**read, **there}.items())), through, until, reread)
    return RawLooked(held_now, files, first)


def _reread(landmarks: Iterable[Load], until: datetime | None) -> dict[date, datetime]:
    """When days were read again of which no other load read the end."""
    found: dict[date, datetime] = {}
    for load in landmarks:
        if load.window.kind == "reload":
            at, (first, last) = _read_until(load), days_of(load.window)
            begin = max(first, until.date()) if until is not None else first
            for day in span(begin, last):
                found[day] = max(at, found.get(day, at))
    return found


def _read_until(load: Load) -> datetime:
    """`read_at`, but not later than the load ended by the ledger's clock: a source's clock that is
    ahead says nothing of hours to come."""
    ended = load.finished_at or datetime.now(UTC)
    return min(read_at(load), ended.replace(tzinfo=None))


def _read_days(stretches: Iterable[Stretch], first: date, today: date) -> Iterator[date]:
    for stretch in stretches:
        if stretch.state in READ:
            yield from span(max(stretch.first or first, first), min(stretch.last, today))


def span(first: date, last: date) -> Iterator[date]:
    """The days from one to another, both included."""
    for number in range((last - first).days + 1):
        yield first + number * _DAY


def _copies(ledger: Ledger, contract: TableContract, files: RawFiles) -> dict[date, int]:
    """The days on which a copy was begun that raw still holds, with the rows of the newest.

    A copy that wrote what changed is held while the complete one that it stands on is; an empty
    table's copy has no file.
    """
    copies = ledger.newest_copies(contract.name)
    bases = ledger.loads_of(
        contract.name, {c.receipt.stands_on for c in copies.values() if c.receipt} - {0}
    )
    found: dict[date, int] = {}
    for day, copy in copies.items():
        receipt, there = copy.receipt, files.rows.get(day, 0)
        if receipt is None:
            if there:
                found[day] = there
            continue
        if (receipt.meaning or {}).get("raw", contract.namespaces.raw) != contract.namespaces.raw:
            continue
        base = bases.get(receipt.stands_on)
        if base is not None and not receipt.committed:
            there = files.rows.get(base.window.day, 0)
        empty = not receipt.committed and not receipt.stands_on
        if there or empty:
            found[day] = receipt.rows
    return found
