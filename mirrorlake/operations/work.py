"""What is to be done to make tables and models what they should be: days to be loaded and folded,
partitions to be computed, in order, each with what it is expected to take.

Nothing is kept of a plan: it is made from what the ledger and the lake say, so a run that died is
resumed by making it again.

What belongs here: what is to be done, and in which order. What doesn't: doing it
(`mirrorlake.operations.backfill`), and what it takes (`mirrorlake.operations.forecasts`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta

from mirrorlake.config import Config, TableContract
from mirrorlake.errors import ConfigError
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.dirty import DirtyMark
from mirrorlake.models.model import Model, Project
from mirrorlake.operations.backfill_windows import BackfillWindow, WorkRequest, plan_backfill
from mirrorlake.operations.gaps import find_stretches
from mirrorlake.operations.invalid import DayPeriod, InvalidRange, invalid_ranges
from mirrorlake.operations.models.derived import chosen_keys
from mirrorlake.operations.models.states import PartitionState, States

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class ModelWork:
    """The partitions of one model that are to be computed.

    Attributes:
        states: of each, as it was when the plan was made; in order.
        again: whether those that need nothing are computed, too.
    """

    model: Model
    states: tuple[PartitionState, ...]
    again: bool = False


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
    models: tuple[ModelWork, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])
    left: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        return not (self.windows or self.folds or self.models)


@dataclass
class _Found:
    """What was found so far; ranges by the id of their mark."""

    windows: dict[str, list[BackfillWindow]] = field(
        default_factory=dict[str, "list[BackfillWindow]"]
    )
    ranges: dict[str, InvalidRange] = field(default_factory=dict[str, InvalidRange])
    states: dict[str, dict[str, PartitionState]] = field(
        default_factory=dict[str, "dict[str, PartitionState]"]
    )
    reasons: dict[str, str] = field(default_factory=dict[str, str])
    warnings: list[str] = field(default_factory=list[str])


def find_work(
    config: Config,
    ledger: Ledger,
    project: Project,
    states: States,
    request: WorkRequest,
    today: date,
) -> Work:
    """What is to be done; nothing is written, and no source is queried.

    Args:
        today: UTC.

    Raises:
        ConfigError, ModelError: the request can't be meant.
        LakeError, LedgerError: they can't be read.
    """
    found = _Found()
    if request.which == "invalid":
        _find_invalid(config, ledger, project, states, request, found)
    else:
        for contract in request.tables:
            windows = _missing_days(ledger, contract, request, today)
            if windows:
                found.windows[contract.name] = windows
                found.reasons[contract.name] = request.which
            elif contract.copies:
                found.warnings.append(
                    f"table {contract.name} is copied as a whole (mode: full), and MySQL has no "
                    f"older copy: no past day can be filled. `mirrorlake sync {contract.name}` "
                    "copies it as it is now"
                )
        _find_partitions(project, states, request, found)
    _add_those_above(project, states, found)
    _plan_ranges(config, request, found)
    return _limited(_in_order(config, project, request, found), request.limit)


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


def _find_partitions(project: Project, states: States, request: WorkRequest, found: _Found) -> None:
    if request.models and request.which == "errored":
        raise ConfigError(
            "--errored is about loads of tables: a model has none", next_step="Leave out the models"
        )
    for name in request.models:
        model = project.model(name)
        for key in chosen_keys(model, {}, request.first, request.last):
            state = states.of(model, model.by_key[key])
            again = request.which == "all" and not states.why_over(model, model.by_key[key])
            if state.is_due or again:
                found.states.setdefault(model.name, {})[key] = state


def _find_invalid(
    config: Config,
    ledger: Ledger,
    project: Project,
    states: States,
    request: WorkRequest,
    found: _Found,
) -> None:
    if request.first is not None or request.last is not None:
        raise ConfigError(
            "--invalid is about what was declared invalid: it has days of its own",
            next_step="Leave out --from and --to",
        )
    named = {contract.name for contract in request.tables}
    models = {project.model(name).name for name in request.models}
    everything = not named and not models
    known = {contract.name for contract in config.tables}
    marks = ledger.dirty_marks()
    for one in invalid_ranges(ledger, marks):
        if one.mark.target not in known:
            words = f"{one.words} was declared invalid, and is no longer in {config.path}"
            found.warnings.append(words)
        elif everything or one.mark.target in named:
            found.ranges[one.mark.mark_id] = one
    chosen = [m for m in marks if m.key is not None and (everything or m.target in models)]
    _find_marked(project, states, chosen, found)


def _find_marked(
    project: Project, states: States, marks: Sequence[DirtyMark], found: _Found
) -> None:
    """The partitions of some marks, as far as they hold what could be wrong."""
    for mark in marks:
        key = mark.key or ""
        model = project.models.get(mark.target)
        scope = model.by_key.get(key) if model is not None else None
        if model is None or scope is None:
            name = f"{mark.target} {key}".strip()
            why = "is no more" if mark.target not in project.unfinished else "does not compile"
            found.warnings.append(f"{name} was declared invalid, and {why}")
            continue
        state = states.of(model, scope)
        # One that was never computed holds nothing that could be wrong; of one that is computed the
        # commit was found that answers the mark.
        if state.word == "stale":
            found.states.setdefault(model.name, {})[key] = state
        elif why := states.why_over(model, scope):
            found.warnings.append(f"{mark.target} {key} was declared invalid, and stays: {why}")


def _add_those_above(project: Project, states: States, found: _Found) -> None:
    """Take in what the partitions wait for: partitions of models above, and days that were
    declared invalid together with them."""
    waiting = [
        (name, key, state) for name, some in found.states.items() for key, state in some.items()
    ]
    while waiting:
        name, key, state = waiting.pop()
        declared = {mark.declaration for mark in states.dirty.of(name, key)}
        for one in states.dirty.ranges if state.waits else ():
            if one.mark.declaration in declared:
                found.ranges.setdefault(one.mark.mark_id, one)
        for words in state.waits:
            above, _, key_above = words.partition(" ")
            model = project.models.get(above)
            there = found.states.setdefault(above, {}) if model is not None else {}
            if model is None or key_above in there:
                continue
            there[key_above] = states.of(model, model.by_key[key_above])
            waiting.append((above, key_above, there[key_above]))


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


def _in_order(config: Config, project: Project, request: WorkRequest, found: _Found) -> Work:
    named = {project.model(name).name for name in request.models}
    again = named if request.which == "all" else set[str]()
    waiting = {one.mark.target for one in found.ranges.values()}
    windows = (found.windows.get(contract.name) for contract in config.tables)
    return Work(
        windows=tuple(tuple(some) for some in windows if some),
        folds=tuple(c for c in config.tables if c.name in waiting and c.name not in found.windows),
        models=tuple(_model_work(project, found, again)),
        reasons=found.reasons,
        warnings=tuple(dict.fromkeys(found.warnings)),
    )


def looked_at_again(work: Work, project: Project, states: States) -> tuple[ModelWork, ...]:
    """The models of some work, after its tables were folded: with what their partitions wait for
    now. A table that was loaded is another version, so more of what reads it may be stale.

    Raises:
        LakeError, LedgerError: they can't be read.
    """
    found = _Found()
    for one in work.models:
        by_key = one.model.by_key
        keys = [state.key for state in one.states]
        found.states[one.model.name] = {k: states.of(one.model, by_key[k]) for k in keys}
    _add_those_above(project, states, found)
    again = {one.model.name for one in work.models if one.again}
    return tuple(_model_work(project, found, again))


def _model_work(project: Project, found: _Found, again: Collection[str]) -> Iterator[ModelWork]:
    """Models with partitions to be computed, each after those that it reads."""
    for name, model in project.models.items():
        some = found.states.get(name)
        if some:
            states = tuple(some[key] for key in model.by_key if key in some)
            yield ModelWork(model, states, again=name in again)


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
    models: list[ModelWork] = []
    for one in work.models:
        some = one.states[:room]
        left += len(one.states) - len(some)
        room -= len(some)
        if some:
            models.append(replace(one, states=some))
    return replace(work, windows=tuple(windows), models=tuple(models), left=left)
