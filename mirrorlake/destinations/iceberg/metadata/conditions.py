"""Conditions that the engine puts to its own columns of a raw table."""

from __future__ import annotations

from datetime import date

from mirrorlake.destinations.base import EVERY_ROW, Condition
from mirrorlake.schema.own_columns import DAY, LOAD

__all__ = ["EVERY_ROW", "Condition", "raw_day", "raw_days", "rows_of_load"]


def raw_days(first: date, last: date | None = None) -> Condition:
    """The rows of these raw days, both included; None: without an end."""
    return Condition(DAY, first, last)


def raw_day(day: date) -> Condition:
    """The rows of one raw day."""
    return Condition(DAY, day, day)


def rows_of_load(load_id: str) -> Condition:
    """The rows that one load brought."""
    return Condition(LOAD, load_id, load_id)
