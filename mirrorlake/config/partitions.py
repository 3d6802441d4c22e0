"""A table's partitions: on which day they begin, and in which of them a raw day is.

Everything here is pure; raw days are days as `mirrorlake.table.windows` tells them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Final

from mirrorlake.config.contract import TableContract

EARLIEST: Final = date(1970, 1, 1)
"""Partitions begin no earlier unless a person says so: a row that is dated 1000-01-01 would give
its table 370,000 of them."""
_DAY = timedelta(days=1)


def first_day_of(contract: TableContract, known: date | None) -> date | None:
    """The day on which a table's partitions begin; None where nothing tells it.

    ``partitions_from`` of the contract, and never before its ``start``, of which nothing is
    requested; else ``start``; else what is known.

    Args:
        known: the first day that the ledger, or raw, is known to have of the table.
    """
    told = [day for day in (contract.partitions_from, contract.start) if day is not None]
    if told:
        return max(told)
    return None if known is None else max(known, EARLIEST)


def partition_of(contract: TableContract, day: date) -> date:
    """The first day of the partition that a raw day is in."""
    return day.replace(day=1) if contract.partition == "month" else day


def days_in(contract: TableContract, partition: date) -> Iterator[date]:
    """The raw days of a partition, given by one of them."""
    day = first = partition_of(contract, partition)
    while partition_of(contract, day) == first:
        yield day
        if day == date.max:
            return
        day += _DAY
