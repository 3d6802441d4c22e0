"""Publications: versions of a table that were loaded into BigQuery, by jobs that may outlive the
run that submitted them; and what jobs cost, as BigQuery's own statistics say it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

import sqlalchemy as sa

from mirrorlake.errors import LedgerError
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.database.database import utc_now, waits_for_server
from mirrorlake.ledger.tables import COUNTER, METADATA

PUBLICATIONS = sa.Table(
    "publications",
    METADATA,
    sa.Column("number", COUNTER, primary_key=True, autoincrement=True),
    sa.Column("id", sa.String(255), nullable=False, unique=True),
    sa.Column("table_name", sa.String(255), nullable=False, index=True),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("since", sa.BigInteger),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("staged", sa.BigInteger),
    sa.Column("row_count", sa.BigInteger),
    sa.Column("bytes", sa.BigInteger),
    sa.Column("form", sa.Text, nullable=False),
    sa.Column("days", sa.Text),
    sa.Column("error", sa.Text),
    sa.Column("submitted_at", sa.DateTime, nullable=False),
    sa.Column("completed_at", sa.DateTime),
)
JOB_COSTS = sa.Table(
    "job_costs",
    METADATA,
    sa.Column("job", sa.String(255), primary_key=True),
    sa.Column("table_name", sa.String(255), nullable=False, index=True),
    sa.Column("purpose", sa.String(16), nullable=False),
    sa.Column("job_type", sa.String(16), nullable=False),
    sa.Column("recorded_at", sa.DateTime, nullable=False),
    sa.Column("bytes_processed", sa.BigInteger),
    sa.Column("bytes_billed", sa.BigInteger),
    sa.Column("slot_ms", sa.BigInteger),
)
PublicationState: TypeAlias = Literal["pending", "success", "errored"]


@dataclass(frozen=True)
class Publication:
    """One attempt to bring a version of a lake table to BigQuery.

    Attributes:
        id: what the ids of its jobs begin with.
        version: the lake's version of the table.
        since: the version that BigQuery had before: only changes since are loaded; None: all
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


@waits_for_server
class Publications:
    """The publications in one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._database = ledger.database

    def begin(
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

    def staged(
        self, id: str, staged: int, rows: int, size: int, days: str | None = None
    ) -> Publication:
        """Record what the files of a publication hold."""
        return self._update(id, staged=staged, row_count=rows, bytes=size, days=days)

    def ended(self, id: str, error: str | None = None) -> Publication:
        """Record that a publication succeeded, or why it did not."""
        state = "success" if error is None else "errored"
        return self._update(id, state=state, error=error, completed_at=utc_now())

    def newest(self, state: PublicationState | None = None) -> Mapping[str, Publication]:
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

    def of_table(self, table: str) -> Sequence[Publication]:
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


_REFUSED = "not published in BigQuery "
"""How the names begin of what the ledger keeps of refusals."""


@dataclass(frozen=True)
class PublicationRefused:
    """Why the newest attempt to publish a table failed.

    Attributes:
        at: when (UTC).
    """

    error: str
    at: datetime


class PublicationsRefused:
    """What stopped tables on their way to BigQuery, be it before a job of theirs was begun."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def note(self, table: str, error: Exception | None) -> None:
        """Keep why an attempt failed; None: it did not, and what was kept goes."""
        name = f"{_REFUSED}{table}"
        if error is not None:
            said = {"error": str(error), "at": utc_now().isoformat()}
            self._ledger.record_definition(name, json.dumps(said))
        elif self._ledger.definition(name) is not None:
            self._ledger.forget_definition(name)

    def all(self) -> Mapping[str, PublicationRefused]:
        """By table."""
        found: dict[str, PublicationRefused] = {}
        for name, text in self._ledger.definitions(_REFUSED).items():
            said = json.loads(text)
            at = datetime.fromisoformat(said["at"])
            found[name.removeprefix(_REFUSED)] = PublicationRefused(said["error"], at)
        return found


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


JobPurpose: TypeAlias = Literal["publish", "check"]


@dataclass(frozen=True)
class JobCostRecord:
    """What one job took; None where nobody says it.

    Attributes:
        purpose: ``publish`` or ``check``; job_type: ``load``, ``copy`` or ``query``.
        recorded_at: when its end was seen (UTC).
    """

    job: str
    table: str
    purpose: JobPurpose
    job_type: str
    recorded_at: datetime
    bytes_processed: int | None
    bytes_billed: int | None
    slot_ms: int | None


@waits_for_server
class JobCosts:
    """The costs of jobs in one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._database = ledger.database

    def record(
        self,
        table: str,
        purpose: JobPurpose,
        job: str,
        job_type: str,
        took: Mapping[str, int | None],
    ) -> None:
        """Record what a job took when it has ended, once.

        Args:
            took: ``bytes_processed``, ``bytes_billed``, ``slot_ms``.
        """
        row = {"table_name": table, "purpose": purpose, "job_type": job_type, **took}
        with self._database.begin() as connection:
            one = JOB_COSTS.c.job == job
            if connection.execute(JOB_COSTS.select().where(one)).first() is None:
                values = {"job": job, "recorded_at": utc_now(), **row}
                connection.execute(JOB_COSTS.insert().values(**values))

    def since(
        self, since: datetime, tables: Sequence[str] | None = None
    ) -> Sequence[JobCostRecord]:
        """What was recorded at or after a moment (UTC), oldest first; of all tables by default."""
        query = JOB_COSTS.select().where(JOB_COSTS.c.recorded_at >= since.replace(tzinfo=None))
        if tables is not None:
            query = query.where(JOB_COSTS.c.table_name.in_(tables))
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(JOB_COSTS.c.recorded_at)).all()
        return [_cost_record(row) for row in rows]


def _cost_record(row: sa.Row[tuple[object, ...]]) -> JobCostRecord:
    return JobCostRecord(
        job=row.job,
        table=row.table_name,
        purpose=row.purpose,
        job_type=row.job_type,
        recorded_at=row.recorded_at,
        bytes_processed=row.bytes_processed,
        bytes_billed=row.bytes_billed,
        slot_ms=row.slot_ms,
    )
