"""When each day of a lake table last changed, as far as its commits were looked at.

What belongs here: the records. What doesn't: looking at commits
(`mirrorlake.models.partition_states.input_versions`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from mirrorlake.ledger.database.database import Database
from mirrorlake.ledger.tables import MOVED_DAYS


@dataclass(frozen=True)
class MovedDays:
    """What the commits of a lake table changed, by days of one column.

    Commits are named by their sequence numbers, which grow along a table's history.

    Attributes:
        lake_table: the identity of the table.
        column: whose date is the day of a row; empty where none is.
        base: each commit after this one was looked at …
        through: … up to this snapshot.
        anything: the newest commit that may have changed rows of any day.
        undated: the newest one that changed rows that have no day.
        days: day → the newest commit that changed rows of it.
        heads: snapshots that models were computed from: history led through them.
    """

    lake_table: str
    column: str
    base: int
    through: int
    anything: int = 0
    undated: int = 0
    days: Mapping[date, int] = field(default_factory=dict[date, int])
    heads: Mapping[int, int] = field(default_factory=dict[int, int])


class MovedDaysRecords:
    """The moved days of one ledger; a part of `Ledger`."""

    _database: Database

    def moved_days(self, lake_table: str, column: str) -> MovedDays | None:
        """What is known of a table's days; None where nobody looked."""
        query = sa.select(MOVED_DAYS.c.said).where(_here(lake_table, column))
        with self._database.read() as connection:
            said = connection.scalar(query)
        if said is None:
            return None
        words = json.loads(said)
        return MovedDays(
            lake_table,
            column,
            base=words["base"],
            through=words["through"],
            anything=words["anything"],
            undated=words["undated"],
            days={date.fromisoformat(day): seq for day, seq in words["days"].items()},
            heads={int(snapshot): seq for snapshot, seq in words["heads"].items()},
        )

    def record_moved_days(self, found: MovedDays) -> None:
        """Keep what is known of a table's days, in place of what was known before. Each record is
        true by itself: where two runs write at once, either may stay."""
        said = {
            "base": found.base,
            "through": found.through,
            "anything": found.anything,
            "undated": found.undated,
            "days": {day.isoformat(): seq for day, seq in sorted(found.days.items())},
            "heads": {str(snapshot): seq for snapshot, seq in found.heads.items()},
        }
        here = _here(found.lake_table, found.column)
        row = {"said": json.dumps(said)}
        # Another run's first record came in between: that one stays.
        with suppress(IntegrityError), self._database.begin() as connection:
            if not connection.execute(MOVED_DAYS.update().where(here).values(row)).rowcount:
                names = {"lake_table": found.lake_table, "column_name": found.column}
                connection.execute(MOVED_DAYS.insert().values(names | row))


def _here(lake_table: str, column: str) -> sa.ColumnElement[bool]:
    return (MOVED_DAYS.c.lake_table == lake_table) & (MOVED_DAYS.c.column_name == column)
