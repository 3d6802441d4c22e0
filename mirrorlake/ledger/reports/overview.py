"""The figures behind a list of tables: a few queries for all of them, however many there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import sqlalchemy as sa

from mirrorlake.ledger.database.database import Database, utc_now
from mirrorlake.ledger.loads.load_rows import (
    is_folded,
    read_history_start,
    read_loads,
    standing_marks,
    storable,
)
from mirrorlake.ledger.records import Hold, Load, Refusal, Unproved
from mirrorlake.ledger.tables import (
    CHUNKED,
    HOLDS,
    LEASES,
    LOADS,
    REFUSALS,
    ROW_COUNTS,
)

_AT_ONCE = 500
"""Names in one IN list: SQLite takes 999 at most in old builds."""


class Overview:
    """A part of `Ledger`."""

    _database: Database

    def newest_attempts(self, tables: Sequence[str]) -> dict[str, Load]:
        """The newest attempt of each table, whatever became of it. Every load took its table's
        lease, so `LEASES` has one row a table."""
        newest = (
            sa.select(LOADS.c.seq)
            .where(LOADS.c.table_name == LEASES.c.table_name)
            .order_by(LOADS.c.seq.desc())
            .limit(1)
            .correlate(LEASES)
            .scalar_subquery()
        )
        found: dict[str, Load] = {}
        with self._database.read() as connection:
            for some in _parts(tables):
                wanted = sa.select(newest).where(LEASES.c.table_name.in_(some))
                numbers = [seq for seq in connection.scalars(wanted) if seq is not None]
                loads = read_loads(connection, LOADS.c.seq.in_(numbers))
                found |= {load.table: load for load in loads}
        return found

    def unfolded_tables(self, layer: str) -> set[str]:
        """The tables with a successful load of their current history that a layer does not hold."""
        held = is_folded(layer)
        newest = sa.select(LOADS.c.table_name, sa.func.max(LOADS.c.seq))
        query = newest.where(LOADS.c.state == "success", ~held).group_by(LOADS.c.table_name)
        with self._database.read() as connection:
            return {
                table
                for table, seq in connection.execute(query).all()
                if seq >= read_history_start(connection, table)
            }

    def unproved_tables(self) -> dict[str, Unproved]:
        """The mark of every table that was marked unproved and not read as a whole since."""
        with self._database.read() as connection:
            rows = connection.execute(standing_marks()).all()
        return {row.table_name: Unproved(row.table_name, row.server, row.reason) for row in rows}

    def chunked_tables(self) -> set[str]:
        """The tables with a load that is cut into chunks and may not have ended."""
        query = sa.select(LOADS.c.table_name).join(CHUNKED, CHUNKED.c.seq == LOADS.c.seq)
        with self._database.read() as connection:
            return set(connection.scalars(query))

    def holds(self) -> list[Hold]:
        """Every hold that is in force now, by source."""
        with self._database.read() as connection:
            now = self._database.now(connection)
            query = HOLDS.select().where(HOLDS.c.until > now).order_by(HOLDS.c.source)
            rows = connection.execute(query).all()
        return [Hold(row.source, row.until.replace(tzinfo=UTC), row.reason) for row in rows]

    # --- refusals: what stopped a table before a load of it began -------------------------------

    def record_refusal(
        self, table: str, error: str, *, passing: bool = False, since: datetime | None = None
    ) -> None:
        """A sync of this table failed before it began a load; an earlier refusal is replaced, and
        counted where no load was begun since and what stopped it will not pass by itself.

        Args:
            since: when the first refusal in a row was, where the caller knows it better (UTC).
        """
        mine = REFUSALS.c.table_name == table
        with self._database.begin() as connection:
            before = connection.execute(REFUSALS.select().where(mine, ~_begun_since())).first()
            times, now = (before.times if before else 0), utc_now()
            began = since.astimezone(UTC).replace(tzinfo=None) if since else None
            if began is None and before is not None:
                began = before.first_refused_at or before.refused_at
            connection.execute(REFUSALS.delete().where(mine))
            connection.execute(
                REFUSALS.insert().values(
                    table_name=table,
                    error=storable(error),
                    refused_at=now,
                    first_refused_at=began or now,
                    times=times if passing else times + 1,
                )
            )

    def refusals(self) -> dict[str, Refusal]:
        """The newest refusal of every table that no load was begun of since."""
        with self._database.read() as connection:
            rows = connection.execute(REFUSALS.select().where(~_begun_since())).all()
        return {
            row.table_name: Refusal(
                row.table_name,
                row.refused_at.replace(tzinfo=UTC),
                row.error,
                row.times,
                (row.first_refused_at or row.refused_at).replace(tzinfo=UTC),
            )
            for row in rows
        }

    def forget_refusal(self, table: str) -> None:
        """A sync of this table was not refused, though it may not have begun a load."""
        with self._database.begin() as connection:
            connection.execute(REFUSALS.delete().where(REFUSALS.c.table_name == table))

    # --- how many rows deduped has, by version --------------------------------------------------

    def counted_rows(self) -> dict[str, tuple[str, int]]:
        """Per table the metadata file of the deduped version that was last counted, and its
        rows."""
        with self._database.read() as connection:
            rows = connection.execute(ROW_COUNTS.select()).all()
        return {row.table_name: (row.metadata_location, row.row_count) for row in rows}

    def record_counts(self, counts: Mapping[str, tuple[str, int]]) -> None:
        """Write down the rows of deduped versions: table → metadata file, rows."""
        rows = [
            {"table_name": table, "metadata_location": at, "row_count": count}
            for table, (at, count) in counts.items()
        ]
        if not rows:
            return
        with self._database.begin() as connection:
            for some in _parts([*counts]):
                connection.execute(ROW_COUNTS.delete().where(ROW_COUNTS.c.table_name.in_(some)))
            connection.execute(ROW_COUNTS.insert(), rows)


def _begun_since() -> sa.ColumnElement[bool]:
    """Whether a load of a refused table was begun since."""
    return sa.exists().where(
        LOADS.c.table_name == REFUSALS.c.table_name,
        LOADS.c.started_at > REFUSALS.c.refused_at,
    )


def _parts(names: Sequence[str]) -> list[Sequence[str]]:
    return [names[n : n + _AT_ONCE] for n in range(0, len(names), _AT_ONCE)]
