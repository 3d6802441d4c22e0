"""A table's partitions: on which day they begin, and in which of them a raw day is.

Everything here is pure; raw days are days as `mirrorlake.table.windows` gives them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import Final

from mirrorlake.config.contract import TableContract

EARLIEST: Final = date(1970, 1, 1)
"""Partitions begin no earlier unless a person says so: a row that is dated 1000-01-01 would give
its table 370,000 of them."""
_DAY = timedelta(days=1)


def first_day_of(contract: TableContract, known: date | None) -> date | None:
    """The day on which a table's partitions begin; None where that is not known.

    ``partitions_from`` of the contract, and never before its ``start``, of which nothing is
    requested; else ``start``; else what is known.

    Args:
        known: the first day that the ledger, or raw, is known to have of the table.
    """
    given = [day for day in (contract.partitions_from, contract.start) if day is not None]
    if given:
        return max(given)
    return None if known is None else max(known, EARLIEST)


def partition_of(contract: TableContract, day: date) -> date:
    """The beginning of the partition that a raw day is in: a day; of a table whose partitions are
    hours a moment without a zone, and of a day its first hour."""
    if contract.partition == "month":
        return day.replace(day=1)
    if contract.partition == "hour":
        midnight = datetime.combine(day, time())
        return midnight.replace(hour=day.hour) if isinstance(day, datetime) else midnight
    return day


def day_of(partition: date) -> date:
    """The day on which a partition begins."""
    return partition.date() if isinstance(partition, datetime) else partition


def days_in(contract: TableContract, partition: date) -> Iterator[date]:
    """The raw days of a partition, given by one of them."""
    first = partition_of(contract, partition)
    day = day_of(first)
    while contract.partition == "hour" or partition_of(contract, day) == first:
        yield day
        if contract.partition == "hour" or day == date.max:
            return
        day += _DAY


def hours_of(day: date) -> list[datetime]:
    """The beginnings of a day's 24 hours, in order.

    >>> hours_of(date(2026, 1, 31))[-1].isoformat()
    '2026-01-31T23:00:00'
    """
    midnight = datetime.combine(day, time())
    return [midnight.replace(hour=hour) for hour in range(24)]
