"""What work is expected to take, judged by similar work before; pure.

Rows, bytes and seconds are medians: of a day that was loaded again, of a full copy, of a window of
the open day, of a fold, of a partition of a model. Without similar work before, the forecast is
unknown, never 0. The bytes of a load are what MySQL sent, those of everything else what was written
to the lake.

What belongs here: figures. What doesn't: what is to be done
(`mirrorlake.operations.planning.work`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from statistics import median
from typing import Final, Protocol

from mirrorlake.ledger import Cost, Load
from mirrorlake.table.windows import days_of

RECENT: Final = 50
"""How many of the newest of a kind are looked at."""


@dataclass(frozen=True)
class Forecast:
    """What something is expected to take; None: not known.

    Attributes:
        basis: of how many of what the medians are; '' where nothing is known.
    """

    rows: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    basis: str = ""

    def times(self, count: float) -> Forecast:
        """The forecast of doing this ``count`` times."""
        return Forecast(
            None if self.rows is None else round(self.rows * count),
            None if self.bytes is None else round(self.bytes * count),
            None if self.seconds is None else round(self.seconds * count, 2),
            self.basis,
        )


@dataclass(frozen=True)
class ForecastSum:
    """Several forecasts together.

    Attributes:
        rows, bytes, seconds: of those that are known.
        unknown: how many of them lack each: ``rows``, ``bytes``, ``seconds``; those of which all
            are known are left out.
    """

    rows: int
    bytes: int
    seconds: float
    unknown: Mapping[str, int]


def summed(forecasts: Sequence[Forecast]) -> ForecastSum:
    """Several forecasts together: what is not known is counted, not taken for nothing."""
    unknown = {
        name: missing
        for name in ("rows", "bytes", "seconds")
        if (missing := sum(getattr(one, name) is None for one in forecasts))
    }
    return ForecastSum(
        sum(one.rows or 0 for one in forecasts),
        sum(one.bytes or 0 for one in forecasts),
        round(sum(one.seconds or 0.0 for one in forecasts), 2),
        unknown,
    )


@dataclass(frozen=True)
class _Sample:
    rows: float | None
    bytes: float | None
    seconds: float | None


def _counted(count: int, noun: str) -> str:
    """
    >>> _counted(1, "copy"), _counted(2, "copy"), _counted(1_000, "fold")
    ('1 copy', '2 copies', '1,000 folds')
    """
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else many}"


def _medians(samples: Sequence[_Sample], noun: str) -> Forecast:
    if not samples:
        return Forecast()
    rows = [one.rows for one in samples if one.rows is not None]
    sizes = [one.bytes for one in samples if one.bytes is not None]
    seconds = [one.seconds for one in samples if one.seconds is not None]
    return Forecast(
        round(median(rows)) if rows else None,
        round(median(sizes)) if sizes else None,
        round(median(seconds), 3) if seconds else None,
        _counted(len(samples), noun),
    )


def _sample(load: Load, parts: int = 1) -> _Sample | None:
    """What one of the equal parts of a load took; None where its receipt is lost."""
    receipt = load.receipt
    if receipt is None:
        return None
    seconds = None
    if load.finished_at is not None and load.finished_at > load.started_at:
        seconds = (load.finished_at - load.started_at).total_seconds() / parts
    # A load that another run began may have read more than the receipt says.
    sent = receipt.read_bytes / parts if receipt.read_bytes or not receipt.rows else None
    return _Sample(receipt.rows / parts, sent, seconds)


def _recent(loads: Sequence[Load], kinds: Collection[str]) -> list[Load]:
    found = [x for x in loads if x.state == "success" and x.window.kind in kinds]
    return found[-RECENT:]


def forecast_window(loads: Sequence[Load], kind: str) -> Forecast:
    """One window of a kind: ``live``, ``initial``, ``full`` or ``log``.

    Args:
        loads: of the table, oldest first.
    """
    samples = [found for x in _recent(loads, (kind,)) if (found := _sample(x)) is not None]
    return _medians(
        samples, {"full": "copy", "live": "window", "log": "log"}.get(kind, "first load")
    )


def forecast_day(loads: Sequence[Load], written: Mapping[int, Collection[date]]) -> Forecast:
    """One day that is loaded again: of days that were, or else of the days of first loads.

    Args:
        loads: of the table, oldest first.
        written: load number → the days of its files.
    """
    reloads = [
        found for x in _recent(loads, ("reload",)) if (found := _sample(x, _days(x))) is not None
    ]
    if reloads:
        return _medians(reloads, "reload")
    firsts = [
        found
        for x in _recent(loads, ("initial",))
        if (days := written.get(x.seq)) and (found := _sample(x, len(days))) is not None
    ]
    return _medians(firsts, "first load")


def _days(load: Load) -> int:
    first, last = days_of(load.window)
    return (last - first).days + 1


def forecast_fold(costs: Sequence[Cost], rows: int | None) -> Forecast:
    """One fold of a table, of all its layers.

    Args:
        costs: of the table, oldest first.
        rows: that it is to fold.
    """
    by_layer: dict[str, list[_Sample]] = {}
    for one in costs:
        if one.step in ("deduped", "clean"):
            by_layer.setdefault(one.step, []).append(_Sample(None, one.written, one.seconds))
    found = [_medians(samples[-RECENT:], "fold") for samples in by_layer.values()]
    if not found:
        return Forecast(rows)
    sizes, seconds = [one.bytes for one in found], [one.seconds for one in found]
    return Forecast(
        rows,
        None if None in sizes else sum(size or 0 for size in sizes),
        None if None in seconds else round(sum(one or 0.0 for one in seconds), 3),
        _counted(max(len(samples[-RECENT:]) for samples in by_layer.values()), "fold"),
    )


class ComputedPartition(Protocol):
    """A partition of a model, as it was last computed."""

    @property
    def rows(self) -> int: ...
    @property
    def seconds(self) -> float: ...


def forecast_partitions(
    records: Mapping[str, ComputedPartition], keys: Collection[str], sizes: Collection[int] = ()
) -> Forecast:
    """Some partitions of a model: each what it took when it was computed last, or the median.

    Args:
        records: what was computed of the model, by partition.
        sizes: bytes of partitions that are in its table.
    """
    samples = [_Sample(one.rows, None, one.seconds or None) for one in records.values()]
    one = _medians(samples, "partition")
    rows = [records[key].rows if key in records else one.rows for key in keys]
    own = [records[key].seconds if key in records else None for key in keys]
    seconds = [found or one.seconds for found in own]
    return Forecast(
        None if None in rows else sum(found or 0 for found in rows),
        round(median(sizes) * len(keys)) if sizes else None,
        None if None in seconds else round(sum(found or 0.0 for found in seconds), 2),
        one.basis,
    )


def scaled(one: Forecast, rows: int | None) -> Forecast:
    """The forecast for another number of rows: bytes in proportion; seconds as they were, or in
    proportion where there are more rows than before."""
    if rows is None:
        return one
    if not one.rows:
        return Forecast(rows, None if rows else 0, one.seconds, one.basis)
    share = rows / one.rows
    return Forecast(
        rows,
        None if one.bytes is None else round(one.bytes * share),
        None if one.seconds is None else round(one.seconds * max(1.0, share), 2),
        one.basis,
    )
