"""Which rows of clean are a raw day's: by the column whose date is that day, where clean shows it.

Pure. A zone-less time has the day that it shows, an instant its day in UTC, as in loads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.config.contract import TableContract
from mirrorlake.destinations.base import Condition, as_sql_identifier
from mirrorlake.destinations.iceberg.model import LakeSchema
from mirrorlake.errors import ConfigError

pc: Any = _compute  # its functions are made at import: type checkers see none of them

Period = tuple[datetime, datetime]
"""From a moment (included) to another, without a zone, in the calendar of raw's days."""

_TIMES = ("date", "timestamp", "timestamptz")
_WHOLE = "Take the whole table (`whole=True`), and choose rows by a column of your own"


@dataclass(frozen=True)
class DayColumn:
    """The column whose date is a row's raw day, as clean has it.

    Attributes:
        kind: ``date``, ``timestamp`` or ``timestamptz``.
    """

    name: str
    kind: str

    def sql(self, periods: Sequence[Period]) -> str:
        """The rows of these times as a condition in Spark's SQL."""
        name = as_sql_identifier(self.name)
        parts = (
            f"({name} >= {self._literal(lo)} AND {name} < {self._literal(hi)})"
            for lo, hi in periods
        )
        return " OR ".join(parts) or "false"

    def reach(self, periods: Sequence[Period]) -> Condition:
        """From the first of some periods to the end of the last: no file outside is opened."""
        lo, hi = min(lo for lo, _ in periods), max(hi for _, hi in periods)
        if self.kind == "date":
            return Condition(self.name, lo.date(), hi.date() - timedelta(days=1))
        last = hi - timedelta(microseconds=1)
        if self.kind == "timestamptz":
            lo, last = lo.replace(tzinfo=UTC), last.replace(tzinfo=UTC)
        return Condition(self.name, lo, last)

    def chosen(self, batch: pa.RecordBatch, periods: Sequence[Period]) -> pa.RecordBatch:
        """The rows of a batch that are of these times."""
        wall = pa.timestamp("us")
        moments = batch.column(self.name).cast(wall)  # an instant becomes its wall clock in UTC
        chosen: Any = pa.repeat(pa.scalar(False), batch.num_rows)
        for lo, hi in periods:
            begun = pc.greater_equal(moments, pa.scalar(lo, wall))
            within = pc.and_(begun, pc.less(moments, pa.scalar(hi, wall)))
            chosen = pc.or_(chosen, pc.fill_null(within, False))
        return batch.filter(chosen)

    def _literal(self, at: datetime) -> str:
        if self.kind == "date":
            return f"DATE '{at.date().isoformat()}'"
        text = at.isoformat(sep=" ", timespec="microseconds")
        return (
            f"TIMESTAMP '{text}+00:00'" if self.kind == "timestamptz" else f"TIMESTAMP_NTZ '{text}'"
        )


def day_column(contract: TableContract, deduped: LakeSchema, clean: LakeSchema) -> DayColumn:
    """The column of clean whose date is a row's raw day.

    Raises:
        ConfigError: no column gives it, or the contract hides the one that does. Whoever was given
            rows by a hidden date would know the date.
    """
    types = {field.name.lower(): (field.name, str(field.field_type)) for field in deduped.fields}
    settings = contract.snapshot
    named = [settings.day] if settings is not None else [contract.cursor, contract.created]
    found = (types.get(name.lower()) for name in named if name)
    column = next((one for one in found if one is not None and one[1] in _TIMES), None)
    if column is None:
        raise ConfigError(
            f"table {contract.name}: no column of it gives a row's day, so its rows can't be taken "
            "by partition",
            table=contract.name,
            next_step=f"{_WHOLE}; or name a time column as `created` in the contract",
        )
    name, kind = column
    if contract.column_rule(name) or name not in {field.name for field in clean.fields}:
        raise ConfigError(
            f"table {contract.name}: column {name!r} gives a row's day, and the contract hides it: "
            "rows by day would reveal its date",
            table=contract.name,
            column=name,
            next_step=f"{_WHOLE}; or show {name!r} in clean (`pii: show`)",
        )
    return DayColumn(name, kind)


def refuse_parts_of_days(
    contract: TableContract, column: DayColumn, periods: Sequence[Period]
) -> None:
    """See that a DATE is used for whole days only.

    Raises:
        ConfigError: it is not: it does not hold a row's hour.
    """
    parts = any(one.time() != datetime.min.time() for period in periods for one in period)
    if column.kind == "date" and parts:
        raise ConfigError(
            f"table {contract.name}: {column.name!r} is a DATE, and gives no row's hour",
            table=contract.name,
            column=column.name,
            next_step=f"Partition by days; or: {_WHOLE[0].lower()}{_WHOLE[1:]}",
        )


def joined(periods: Iterable[Sequence[datetime]]) -> tuple[Period, ...]:
    """Periods in order, those that touch as one.

    >>> days = [datetime(2024, 5, number) for number in (1, 2, 3, 9, 10)]
    >>> [(lo.day, hi.day) for lo, hi in joined([days[3:5], days[1:3], days[0:2]])]
    [(1, 3), (9, 10)]
    """
    found: list[Period] = []
    for lo, hi in sorted((lo, hi) for lo, hi in periods):
        if found and lo <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], hi))
        else:
            found.append((lo, hi))
    return tuple(found)
