"""What work is expected to take, step by step; from the ledger and the lake's metadata alone.

What belongs here: a plan as people and programs read it. What doesn't: which work there is
(`mirrorlake.operations.work`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Literal

from mirrorlake.config import TableContract
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.statistics import sizes_of_partitions
from mirrorlake.ledger import Ledger
from mirrorlake.models.model import Model
from mirrorlake.operations.backfill_windows import BackfillWindow
from mirrorlake.operations.forecasts import (
    Forecast,
    ForecastSum,
    forecast_day,
    forecast_fold,
    forecast_partitions,
    forecast_window,
    summed,
)
from mirrorlake.operations.input_proofs import InputProofs, UnprovedInput
from mirrorlake.operations.invalid import period_words
from mirrorlake.operations.models.states import States
from mirrorlake.operations.models.tables import model_table
from mirrorlake.operations.work import ModelWork, Work, days_in

StepKind = Literal["load", "fold", "compute"]
_EVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class PlannedStep:
    """One step of a plan.

    Attributes:
        step: ``load`` (days of a table, from MySQL into raw), ``fold`` (of a table, into deduped
            and clean) or ``compute`` (partitions of a model).
        target: the table or model.
        partitions: how many: of a load days, or 1 for a full copy and for a window that reads on to
            now; of a fold 0.
        names: the windows of a load; partitions by name.
        why: reason → how many partitions have it.
        forecast: what all of it is expected to take.
        unproved: what it reads that is not proved.
    """

    step: StepKind
    target: str
    partitions: int
    names: tuple[str, ...]
    why: Mapping[str, int]
    forecast: Forecast
    unproved: tuple[UnprovedInput, ...] = ()


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


def plan_work(work: Work, ledger: Ledger, lake: Lake, states: States, today: date) -> WorkPlan:
    """What some work is expected to take.

    Raises:
        LakeError, LedgerError: they can't be read.
    """
    proofs = InputProofs(states.catalogue, ledger, today)
    steps = [*_of_tables(work, ledger)]
    steps += [_of_model(one, lake, states, proofs) for one in work.models]
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


def _of_model(work: ModelWork, lake: Lake, states: States, proofs: InputProofs) -> PlannedStep:
    model = work.model
    why = Counter(one.why or "again" for one in work.states)
    inputs = (states.read_by(model, model.by_key[one.key]) for one in work.states)
    keys = tuple(one.key for one in work.states)
    return PlannedStep(
        "compute",
        model.name,
        len(keys),
        keys,
        dict(why),
        model_forecast(model, keys, lake, states),
        tuple(proofs.unproved(inputs)),
    )


def model_forecast(model: Model, keys: Sequence[str], lake: Lake, states: States) -> Forecast:
    """What some partitions of a model are expected to take.

    Raises:
        LakeError, LedgerError: they can't be read.
    """
    records = states.ledger.model_partitions(model.name)
    table = lake.load(model_table(model)) if records else None
    sizes = sizes_of_partitions(table) if table is not None else ()
    return forecast_partitions(records, keys, sizes)
