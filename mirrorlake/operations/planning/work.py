"""What is to be done to make tables and models what they should be: days to be loaded and folded,
partitions to be computed, in order, each with what it is expected to take.

Nothing is kept of a plan: it is made from what the ledger and the lake say, so a run that died is
resumed by making it again.

What belongs here: what is to be done, and in which order. What doesn't: doing it
(`mirrorlake.operations.planning.backfill`), and what it takes
(`mirrorlake.operations.planning.forecasts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from shlex import quote

from mirrorlake.config import Config, TableContract
from mirrorlake.errors import ConfigError
from mirrorlake.ledger import Ledger
from mirrorlake.operations.days.backfill_windows import BackfillWindow, WorkRequest, plan_backfill
from mirrorlake.operations.days.gaps import find_stretches
from mirrorlake.operations.days.invalid import DayPeriod, InvalidRange, invalid_ranges
from mirrorlake.operations.planning.computed import Computed, PartitionWork

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Work:
    """What is to be done, in order: tables are loaded, then folded; then models are computed, each
    after those that it reads.

    Attributes:
        windows: of each table, in their order.
        folds: tables whose loads are there, and not in every layer yet.
        reasons: table → why it is loaded.
        left: how many partitions are left out by the limit.
        warnings: marks of what is not there any more, and tables that have no days to fill.
    """

    windows: tuple[tuple[BackfillWindow, ...], ...] = ()
    folds: tuple[TableContract, ...] = ()
    partitions: tuple[PartitionWork, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])
    left: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        return not (self.windows or self.folds or self.partitions)


@dataclass
class _Found:
    """What was found so far; ranges by the id of their mark."""

    windows: dict[str, list[BackfillWindow]] = field(
        default_factory=dict[str, "list[BackfillWindow]"]
    )
    ranges: dict[str, InvalidRange] = field(default_factory=dict[str, InvalidRange])
    partitions: list[PartitionWork] = field(default_factory=list[PartitionWork])
    reasons: dict[str, str] = field(default_factory=dict[str, str])
    warnings: list[str] = field(default_factory=list[str])


def find_work(
    config: Config,
    ledger: Ledger,
    computed: Sequence[Computed],
    request: WorkRequest,
    today: date,
) -> Work:
    """What is to be done; nothing is written, and no source is queried.

    Args:
        computed: what is computed from tables, as far as it is meant.
        today: UTC.

    Raises:
        ConfigError, ModelError: the request can't be meant.
        LakeError, LedgerError: they can't be read.
    """
    found = _Found()
    if request.which == "invalid":
        _find_invalid(config, ledger, request, found)
    else:
        for contract in request.tables:
            windows = _missing_days(ledger, contract, request, today)
            if windows:
                found.windows[contract.name] = windows
                found.reasons[contract.name] = request.which
            elif contract.copies and request.named:
                found.warnings.append(
                    f"table {contract.name} is copied as a whole (mode: full), and MySQL has no "
                    "older copy: no past day can be filled. `mirrorlake sync "
                    f"{quote(contract.name)}` "
                    "copies it as it is now"
                )
    for one in computed:
        some = one.find(request)
        found.partitions += some.works
        found.warnings += some.warnings
        for part in some.ranges:
            found.ranges.setdefault(part.mark.mark_id, part)
    _plan_ranges(config, request, found)
    return _limited(_in_order(config, found), request.limit)


def _missing_days(
    ledger: Ledger, contract: TableContract, request: WorkRequest, today: date
) -> list[BackfillWindow]:
    if request.first is None and request.which == "all":
        raise ConfigError(
            f"table {contract.name}: all of its days are meant", next_step="Give the first: --from"
        )
    stretches = find_stretches(contract, ledger, today)
    begins = min((s.first or s.last for s in stretches), default=today)
    first, last = request.first or begins, min(request.last or today, today)
    return plan_backfill(contract, stretches, first, last, request.which, request.days_per_window)


def _find_invalid(
    config: Config,
    ledger: Ledger,
    request: WorkRequest,
    found: _Found,
) -> None:
    if request.first is not None or request.last is not None:
        raise ConfigError(
            "--invalid is about what was declared invalid: it has days of its own",
            next_step="Leave out --from and --to",
        )
    named = {contract.name for contract in request.tables}
    everything = not named and not request.models
    known = {contract.name for contract in config.tables}
    for one in invalid_ranges(ledger, ledger.dirty_marks()):
        if one.mark.target not in known:
            words = f"{one.words} was declared invalid, and is no longer in {config.path}"
            found.warnings.append(words)
        elif everything or one.mark.target in named:
            found.ranges[one.mark.mark_id] = one


def _plan_ranges(config: Config, request: WorkRequest, found: _Found) -> None:
    """Windows over the days that were declared invalid and not read again."""
    contracts = {contract.name: contract for contract in config.tables}
    by_table: dict[str, list[InvalidRange]] = {}
    for one in found.ranges.values():
        by_table.setdefault(one.mark.target, []).append(one)
    for name, ranges in by_table.items():
        contract = contracts.get(name)
        if contract is None:
            continue
        reasons = dict.fromkeys(one.mark.reason for one in ranges if one.mark.reason)
        found.reasons[name] = ": ".join(["declared invalid", *filter(None, ["; ".join(reasons)])])
        periods = [period for one in ranges for period in one.unread]
        if periods:
            windows = list(_windows(contract, periods, request.days_per_window))
            found.windows.setdefault(name, []).extend(windows)


def _windows(
    contract: TableContract, periods: Sequence[DayPeriod], most: int
) -> Iterator[BackfillWindow]:
    if contract.copies:
        last = max((last for _, last in periods if last is not None), default=date.max)
        first = min((first for first, _ in periods if first is not None), default=date.min)
        yield BackfillWindow(contract, first, last, live=True, complete=True)
        return
    for first, last in _joined_days(periods):
        begin = first
        while begin <= last:
            until = min(last, begin + timedelta(days=most - 1))
            yield BackfillWindow(contract, begin, until, live=False)
            begin = until + _DAY


def _joined_days(periods: Iterable[DayPeriod]) -> list[tuple[date, date]]:
    """Periods in order, those that touch or overlap as one."""
    found: list[tuple[date, date]] = []
    for first, last in sorted((low or date.min, high or date.max) for low, high in periods):
        if found and first <= found[-1][1] + _DAY:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def _in_order(config: Config, found: _Found) -> Work:
    waiting = {one.mark.target for one in found.ranges.values()}
    windows = (found.windows.get(contract.name) for contract in config.tables)
    return Work(
        windows=tuple(tuple(some) for some in windows if some),
        folds=tuple(c for c in config.tables if c.name in waiting and c.name not in found.windows),
        partitions=tuple(found.partitions),
        reasons=found.reasons,
        warnings=tuple(dict.fromkeys(found.warnings)),
    )


def days_in(window: BackfillWindow) -> int:
    """How many partitions a window counts as: its days; one that reads on to now, or a full copy,
    is one."""
    return 1 if window.live else (window.last - window.first).days + 1


def _limited(work: Work, limit: int | None) -> Work:
    """The first partitions of a plan, in its order."""
    if limit is None:
        return work
    room, left = limit, 0
    windows: list[tuple[BackfillWindow, ...]] = []
    for of_table in work.windows:
        kept: list[BackfillWindow] = []
        for window in of_table:
            some = min(room, days_in(window))
            left += days_in(window) - some
            if some:
                last = window.last if window.live else window.first + timedelta(days=some - 1)
                kept.append(replace(window, last=last))
            room -= some
        if kept:
            windows.append(tuple(kept))
    partitions: list[PartitionWork] = []
    for one in work.partitions:
        some = min(room, one.count)
        left += one.count - some
        room -= some
        if some:
            partitions.append(one.first(some))
    return replace(work, windows=tuple(windows), partitions=tuple(partitions), left=left)
