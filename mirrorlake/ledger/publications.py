"""Publications: versions of a table that were loaded into another home than the lake, by jobs that
may outlive the run that submitted them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

import sqlalchemy as sa

from mirrorlake.errors import LedgerError
from mirrorlake.ledger.database import Database, utc_now
from mirrorlake.ledger.tables import PUBLICATIONS

PublicationState: TypeAlias = Literal["pending", "success", "errored"]


@dataclass(frozen=True)
class Publication:
    """One attempt to bring a table there as a version of the lake has it.

    Attributes:
        id: what the ids of its jobs begin with.
        version: the lake's version of the table.
        since: the version that was there before, of which only the changes are loaded; None: all
            rows are.
        why: why so, in words.
        staged: rows of its files; None until they are written. rows: those of the table with it.
        bytes: of its files.
        form: the columns as they are loaded and the key, as the destination writes them.
        days: those that its changes touch, as the destination writes them; None where it does not
            need them.
        submitted_at, completed_at: when it began, and ended (UTC).
    """

    id: str
    table: str
    version: int
    since: int | None
    why: str
    state: PublicationState
    form: str
    submitted_at: datetime
    staged: int | None = None
    rows: int | None = None
    bytes: int | None = None
    error: str | None = None
    completed_at: datetime | None = None
    days: str | None = None


class Publications:
    """The publications in one ledger; a part of `Ledger`."""

    _database: Database

    def begin_publication(
        self, stem: str, table: str, version: int, since: int | None, why: str, form: str
    ) -> Publication:
        """Record that a version is about to be loaded. Its id ends in the number of the attempt and
        in random digits: jobs of a ledger that was lost are not taken for this one's.

        Args:
            stem: what the id begins with: of this table and version alone.
        """
        of_stem = PUBLICATIONS.c.id.like(f"{stem.replace('_', '|_')}|_%", escape="|")
        with self._database.begin() as connection:
            attempts = connection.scalar(
                sa.select(sa.func.count()).select_from(PUBLICATIONS).where(of_stem)
            )
            row = {
                "id": f"{stem}_{(attempts or 0) + 1}-{secrets.token_hex(4)}",
                "table_name": table,
                "version": version,
                "since": since,
                "why": why,
                "state": "pending",
                "form": form,
                "submitted_at": utc_now(),
            }
            connection.execute(PUBLICATIONS.insert().values(**row))
            found = connection.execute(
                PUBLICATIONS.select().where(PUBLICATIONS.c.id == row["id"])
            ).one()
        return _publication(found)

    def publication_staged(
        self, id: str, staged: int, rows: int, size: int, days: str | None = None
    ) -> Publication:
        """Record what the files of a publication hold."""
        return self._update(id, staged=staged, row_count=rows, bytes=size, days=days)

    def publication_ended(self, id: str, error: str | None = None) -> Publication:
        """Record that a publication is there, or why it is not."""
        state = "success" if error is None else "errored"
        return self._update(id, state=state, error=error, completed_at=utc_now())

    def newest_publications(
        self, state: PublicationState | None = None
    ) -> Mapping[str, Publication]:
        """The newest publication of each table that has one, by the table's name.

        Args:
            state: the newest of those in this state.
        """
        newest = sa.select(sa.func.max(PUBLICATIONS.c.number)).group_by(PUBLICATIONS.c.table_name)
        if state is not None:
            newest = newest.where(PUBLICATIONS.c.state == state)
        query = PUBLICATIONS.select().where(PUBLICATIONS.c.number.in_(newest))
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        return {row.table_name: _publication(row) for row in rows}

    def publications(self, table: str) -> Sequence[Publication]:
        """All publications of a table, the newest first."""
        query = PUBLICATIONS.select().where(PUBLICATIONS.c.table_name == table)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(PUBLICATIONS.c.number.desc())).all()
        return [_publication(row) for row in rows]

    def _update(self, id: str, **values: object) -> Publication:
        one = PUBLICATIONS.c.id == id
        with self._database.begin() as connection:
            connection.execute(PUBLICATIONS.update().where(one).values(**values))
            row = connection.execute(PUBLICATIONS.select().where(one)).one_or_none()
        if row is None:
            raise LedgerError(f"the ledger has no publication {id}")
        return _publication(row)


def _publication(row: sa.Row[tuple[object, ...]]) -> Publication:
    return Publication(
        id=row.id,
        table=row.table_name,
        version=row.version,
        since=row.since,
        why=row.why,
        state=row.state,
        form=row.form,
        submitted_at=row.submitted_at,
        staged=row.staged,
        rows=row.row_count,
        bytes=row.bytes,
        error=row.error,
        completed_at=row.completed_at,
        days=row.days,
    )
