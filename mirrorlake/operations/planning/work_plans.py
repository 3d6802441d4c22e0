"""What work is expected to take, step by step; from the ledger and the lake's metadata alone.

What belongs here: a plan as people and programs read it. What doesn't: which work there is
(`mirrorlake.operations.planning.work`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from mirrorlake.config import TableContract
from mirrorlake.ledger import Ledger
from mirrorlake.operations.days.backfill_windows import BackfillWindow
from mirrorlake.operations.days.invalid import period_words
from mirrorlake.operations.planning.computed import Computed
from mirrorlake.operations.planning.forecasts import (
    Forecast,
    ForecastSum,
    forecast_day,
    forecast_fold,
    forecast_window,
    summed,
)
from mirrorlake.operations.planning.planned_steps import PlannedStep
from mirrorlake.operations.planning.work import Work, days_in

_EVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class WorkPlan:
    """What is to be done, in order.

    Attributes:
        left: how many partitions the limit leaves to another run.
        total: of all steps.
    """

    steps: tuple[PlannedStep, ...]
    left: int
    total: ForecastSum
    warnings: tuple[str, ...]


def plan_work(work: Work, ledger: Ledger, computed: Sequence[Computed], today: date) -> WorkPlan:
    """What some work is expected to take.

    Raises:
        LakeError, LedgerError: they can't be read.
    """
    steps = [*_of_tables(work, ledger)]
    steps += [step for one in computed for step in one.plan(work.partitions, today)]
    total = summed([one.forecast for one in steps])
    return WorkPlan(tuple(steps), work.left, total, work.warnings)


def _of_tables(work: Work, ledger: Ledger) -> Iterator[PlannedStep]:
    loads = [_load(windows, work, ledger) for windows in work.windows]
    yield from loads
    rows = {one.target: one.forecast.rows for one in loads}
    folded = [*(windows[0].contract for windows in work.windows), *work.folds]
    for contract in folded:
        forecast = forecast_fold(ledger.costs(contract.name, _EVER), rows.get(contract.name))
        why = "what was loaded" if contract.name in rows else "loads that no layer holds yet"
        yield PlannedStep("fold", contract.name, 0, (), {why: 1}, forecast)


def _load(windows: Sequence[BackfillWindow], work: Work, ledger: Ledger) -> PlannedStep:
    contract = windows[0].contract
    count = sum(map(days_in, windows))
    why = {work.reasons.get(contract.name, ""): count}
    names = tuple(_window_words(one) for one in windows)
    return PlannedStep(
        "load", contract.name, count, names, why, _load_forecast(contract, windows, ledger)
    )


def _window_words(window: BackfillWindow) -> str:
    if window.contract.copies:
        return "a full copy"
    if window.live:
        return f"from {window.first} on"
    return period_words((window.first, window.last))


def _load_forecast(
    contract: TableContract, windows: Sequence[BackfillWindow], ledger: Ledger
) -> Forecast:
    loads = ledger.loads(contract.name)
    days = sum(days_in(one) for one in windows if not one.live)
    found: list[Forecast] = []
    if days:
        firsts = [x.seq for x in loads if x.state == "success" and x.window.kind == "initial"]
        written = ledger.days_written(contract.name, firsts)
        found.append(forecast_day(loads, written).times(days))
    if any(one.live for one in windows):
        loaded = ledger.last_load(contract.name, "success") is not None
        found.append(forecast_window(loads, contract.loads.next_load(contract.name, loaded=loaded)))
    return found[0] if len(found) == 1 else _added(found)


def _added(forecasts: Sequence[Forecast]) -> Forecast:
    """Several as one; what one of them lacks is not known of all."""
    total = summed(forecasts)
    return Forecast(
        None if "rows" in total.unknown else total.rows,
        None if "bytes" in total.unknown else total.bytes,
        None if "seconds" in total.unknown else total.seconds,
        " and ".join(dict.fromkeys(one.basis for one in forecasts if one.basis)),
    )
