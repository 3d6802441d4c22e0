"""How long partitions of a model are kept: those of the newest time always, the others until a
period after their end has passed.

What belongs here: which partitions are kept. What doesn't: what their readers need
(`mirrorlake.models.compile.lookback`), and dropping the others
(`mirrorlake.models.partition_states.drop_expired`).
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

from pydantic import BeforeValidator

from mirrorlake.config.fields import format_duration, parse_duration
from mirrorlake.models.scope_values.on_demand import DayRange, ScopeProduct
from mirrorlake.models.scope_values.series import NoValues, period_of
from mirrorlake.models.spark_sql.constants.functions import add_months
from mirrorlake.models.spark_sql.constants.moving_days import midnight
from mirrorlake.models.spark_sql.constants.values import Constant


@dataclass(frozen=True)
class Retention:
    """So many months of the calendar, and so much time.

    Attributes:
        text: as it was written.
    """

    months: int
    length: timedelta
    text: str

    def before(self, moment: datetime) -> datetime:
        """The moment so long before another (UTC); the first there is where that is earlier."""
        try:
            return add_months(moment, -self.months) - self.length
        except (OverflowError, ValueError):
            return datetime.min.replace(tzinfo=UTC)


def _retention(value: object) -> Retention:
    text = str(value)
    if text.startswith("P"):
        try:
            months, days, clock = period_of(text)
        except NoValues as error:
            raise ValueError(str(error)) from None
        return Retention(months, days + clock, text)
    try:
        length = parse_duration(text)
    except ValueError:
        words = f"{text!r} is no retention: write 90d, 36h, or P3M for months of the calendar"
        raise ValueError(words) from None
    if length <= timedelta(0):
        raise ValueError("a retention is longer than nothing")
    return Retention(0, length, format_duration(length))


RetentionField = Annotated[Retention, BeforeValidator(_retention)]


def moment_of(value: Constant) -> datetime:
    """Where a value of a partition's time begins (UTC)."""
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    assert isinstance(value, date)  # noqa: S101
    return midnight(value)


def values_of(scopes: Sequence[Mapping[str, Constant]], name: str) -> Sequence[Constant]:
    """The values that a name of days or moments has, each once and in order."""
    if isinstance(scopes, ScopeProduct):
        values = scopes.columns[name]
        if isinstance(values, DayRange):
            return values
        return sorted(set(values), key=moment_of)
    return sorted({scope[name] for scope in scopes}, key=moment_of)


def split_scopes(
    scopes: Sequence[Mapping[str, Constant]], name: str, retention: Retention, now: datetime
) -> tuple[Sequence[Mapping[str, Constant]], Sequence[Mapping[str, Constant]]]:
    """Those scopes that are kept, and those that are gone; both in their order.

    A partition ends where that of the next time begins; the newest has no end.

    Args:
        name: of the partitions' days or moments.
    """
    values = values_of(scopes, name)
    cutoff = retention.before(now)
    # A partition is gone when the next one began at the cutoff, or before it.
    gone = bisect.bisect_right(values, cutoff, lo=1, key=moment_of) - 1
    if gone == 0:
        return scopes, ()
    if isinstance(scopes, ScopeProduct) and isinstance(values, DayRange):
        return (
            ScopeProduct({**scopes.columns, name: values[gone:]}),
            ScopeProduct({**scopes.columns, name: values[:gone]}),
        )
    first = moment_of(values[gone])
    kept = [scope for scope in scopes if moment_of(scope[name]) >= first]
    return kept, [scope for scope in scopes if moment_of(scope[name]) < first]
