"""Windows and their loads: what was requested of every table, and what became of each attempt."""

from __future__ import annotations

import uuid
from functools import cache
from typing import Any

import sqlalchemy as sa

from mirrorlake.errors import LedgerError
from mirrorlake.ledger.database.database import Database, utc_now
from mirrorlake.ledger.loads.load_rows import (
    is_running,
    loads_where,
    read_history_start,
    read_load,
    read_loads,
    read_query,
    storable,
)
from mirrorlake.ledger.loads.settling import note_load
from mirrorlake.ledger.records import LOOKING_BACK, MOVING, Lease, Load, OpenWindow, Receipt, Window
from mirrorlake.ledger.tables import CHUNKED, CHUNKS, LOADS, WINDOWS

UNREAD = ("created", "pending", "errored", "unknown")
"""The states of windows that were requested, and that nothing in raw answers."""
_NAME, _LOAD_ID = sa.bindparam("name"), sa.bindparam("id")
# Made once: see `loads_where`.
_SUCCESSFUL = loads_where(
    LOADS.c.table_name == _NAME, LOADS.c.state == "success", LOADS.c.seq > sa.bindparam("after")
)
_HIGHEST = sa.select(sa.func.max(LOADS.c.seq)).where(LOADS.c.table_name == _NAME)
_LAST_SUCCESS = _HIGHEST.where(LOADS.c.state == "success")
_UNSETTLED = loads_where(
    LOADS.c.table_name == _NAME,
    sa.or_(
        LOADS.c.state == "pending",
        sa.and_(
            LOADS.c.state.in_(("errored", "unknown")), LOADS.c.seq > sa.bindparam("last_success")
        ),
    ),
)
_ATTEMPTS = sa.select(sa.func.max(LOADS.c.attempt)).where(LOADS.c.load_id == _LOAD_ID)
_BEGIN_WINDOW = WINDOWS.update().where(WINDOWS.c.load_id == _LOAD_ID).values(state="pending")


class Loads:
    """The windows and loads in one ledger; a part of `Ledger`."""

    _database: Database

    def create_load(self, table: str, window: Window) -> str:
        """Write the window as ``created`` and return its load id."""
        load_id = uuid.uuid4().hex
        with self._database.begin() as connection:
            connection.execute(
                WINDOWS.insert(),
                {
                    "load_id": load_id,
                    "table_name": table,
                    "kind": window.kind,
                    "lo": window.lo,
                    "hi": window.hi,
                    "day": window.day,
                    "state": "created",
                    "created_at": utc_now(),
                },
            )
        return load_id

    def start_load(
        self, load_id: str, lease: Lease, run_id: str, raw_table: str, parent_snapshot: int | None
    ) -> Load:
        """Write the next attempt as ``pending``; its sequence number is taken before anything is
        read.

        With it the chunks of an earlier load are forgotten: rows that they hold are older than this
        number says, and rows still to be read would be newer than theirs.
        """
        with self._database.begin() as connection:
            _forget_chunks(
                connection, LOADS.c.table_name == lease.table, LOADS.c.token <= lease.token
            )
            newest = connection.scalar(_HIGHEST, {"name": lease.table})
            attempt = 1 + (connection.scalar(_ATTEMPTS, {"id": load_id}) or 0)
            result = connection.execute(
                LOADS.insert(),
                {
                    "load_id": load_id,
                    "attempt": attempt,
                    "table_name": lease.table,
                    "state": "pending",
                    "run_id": run_id,
                    "token": lease.token,
                    "raw_table": raw_table,
                    "parent_snapshot": parent_snapshot,
                    "started_at": utc_now(),
                },
            )
            connection.execute(_BEGIN_WINDOW, {"id": load_id})
            key = result.inserted_primary_key
            if not key or key[0] <= (newest or 0):
                raise _out_of_order(lease.table, key[0] if key else None, newest)
            return read_load(connection, key[0])

    def record_job(self, load: Load, job_id: str) -> None:
        """Write which external job reads a pending attempt."""
        with self._database.begin() as connection:
            connection.execute(LOADS.update().where(is_running(load)).values(job_id=job_id))

    def finish_load(self, load: Load, snapshot_id: int | None, receipt: Receipt) -> None:
        """Write an attempt, found or just made in the lake, as ``success``; older failures it
        covers as ``superseded``. ``snapshot_id`` is None where there was nothing to commit."""
        end = load.window.hi if load.window.kind in LOOKING_BACK else receipt.hi
        with self._database.begin() as connection:
            connection.execute(
                LOADS.update()
                .where(LOADS.c.seq == load.seq)
                .values(
                    state="success",
                    snapshot_id=snapshot_id,
                    receipt=receipt.to_json(),
                    finished_at=utc_now(),
                    error=None,
                )
            )
            connection.execute(
                WINDOWS.update()
                .where(WINDOWS.c.load_id == load.load_id)
                .values(state="success", hi=end)
            )
            connection.execute(
                WINDOWS.update()
                .where(
                    WINDOWS.c.table_name == load.table,
                    WINDOWS.c.state.in_(UNREAD),
                    WINDOWS.c.load_id != load.load_id,
                    _covered_by(load.window),
                )
                .values(state="superseded")
            )
            _forget_chunks(connection, LOADS.c.seq == load.seq)
            note_load(connection, load)

    def fail_load(self, load: Load, error: str, *, keep_chunks: bool = False) -> bool:
        """Write an attempt as ``errored`` with the reason, its chunks as not to be resumed
        unless ``keep_chunks``.

        False, and nothing is written, where the attempt is not pending any more: another run has
        taken the load over, and its files are that run's.
        """
        with self._database.begin() as connection:
            failed = connection.execute(
                LOADS.update()
                .where(is_running(load))
                .values(state="errored", error=storable(error), finished_at=utc_now())
            )
            if failed.rowcount != 1:
                return False
            connection.execute(
                WINDOWS.update().where(WINDOWS.c.load_id == load.load_id).values(state="errored")
            )
            if not keep_chunks:
                _forget_chunks(connection, LOADS.c.seq == load.seq)
            return True

    def unsettled_loads(self, table: str) -> list[Load]:
        """Attempts not known to have succeeded since the table's last success, oldest first."""
        with self._database.read() as connection:
            last = connection.scalar(_LAST_SUCCESS, {"name": table})
            return read_query(connection, _UNSETTLED, name=table, last_success=last or 0)

    def successful_loads(self, table: str, after_seq: int = 0, *, ever: bool = False) -> list[Load]:
        """Successful loads of a table's current history with a higher sequence number, in its
        order; ``ever``: of all its histories."""
        with self._database.read() as connection:
            start = 0 if ever else read_history_start(connection, table)
            after = max(after_seq, start - 1)
            return read_query(connection, _SUCCESSFUL, name=table, after=after)

    def unknown_loads(self, table: str) -> list[Load]:
        """The loads of a table that raw lost after they had succeeded."""
        with self._database.read() as connection:
            return read_loads(connection, LOADS.c.table_name == table, LOADS.c.state == "unknown")

    def last_load(
        self, table: str, state: str | None = None, *, moving: bool = False
    ) -> Load | None:
        """The newest attempt, of any state or of one; ``moving``: reloads apart."""
        newest = _newest(of_state=state is not None, moving=moving)
        with self._database.read() as connection:
            values = {"name": table} | ({} if state is None else {"state": state})
            seq = connection.scalar(newest, values)
            return read_load(connection, seq) if seq else None

    def loads(self, table: str) -> list[Load]:
        """Every attempt ever made for a table, in the order of their sequence numbers."""
        with self._database.read() as connection:
            return read_loads(connection, LOADS.c.table_name == table)

    def open_windows(self, table: str) -> list[OpenWindow]:
        """The windows of a table that were requested and not read, and that no success covers."""
        newest = sa.select(sa.func.max(LOADS.c.attempt)).where(LOADS.c.load_id == WINDOWS.c.load_id)
        attempt = sa.and_(
            LOADS.c.load_id == WINDOWS.c.load_id,
            LOADS.c.attempt == newest.correlate(WINDOWS).scalar_subquery(),
        )
        query = (
            sa.select(WINDOWS, LOADS.c.error)
            .select_from(WINDOWS.outerjoin(LOADS, attempt))
            .where(WINDOWS.c.table_name == table)
            .where(WINDOWS.c.state.in_(UNREAD))
            # A repair that failed leaves no range unread: the next check finds its rows again.
            .where(WINDOWS.c.kind != "repair")
            .order_by(WINDOWS.c.created_at)
        )
        with self._database.read() as connection:
            found = connection.execute(query).mappings().all()
        return [
            OpenWindow(
                row["load_id"],
                Window(row["kind"], row["lo"], row["hi"], row["day"]),
                row["state"],
                row["error"],
            )
            for row in found
        ]

    def knows(self, load_id: str) -> bool:
        """Whether a load of this id was ever created here."""
        query = sa.select(WINDOWS.c.load_id).where(WINDOWS.c.load_id == load_id)
        with self._database.read() as connection:
            return connection.scalar(query) is not None

    def adopt(self, load: Load) -> bool:
        """Write down a successful load that the lake holds and the ledger does not; whether it was
        new.

        Raises:
            LedgerError: its number belongs to another load.
        """
        taken = sa.select(LOADS.c.load_id).where(LOADS.c.seq == load.seq)
        with self._database.begin() as connection:
            known = connection.scalar(taken)
            if known == load.load_id:
                return False
            if known is not None:
                raise LedgerError(
                    f"table {load.table}: loads {known} and {load.load_id} have one number "
                    f"({load.seq}): the lake was loaded with two ledgers",
                    table=load.table,
                    next_step="Mirror this table again under other namespaces",
                )
            window = load.window
            fields = {
                "kind": window.kind,
                "lo": window.lo,
                "hi": window.hi,
                "day": window.day,
                "state": "success",
            }
            mine = WINDOWS.c.load_id == load.load_id
            # An old copy of the ledger may know an earlier attempt.
            if connection.execute(WINDOWS.update().where(mine).values(fields)).rowcount == 0:
                at = load.started_at.replace(tzinfo=None)
                fields |= {"load_id": load.load_id, "table_name": load.table, "created_at": at}
                connection.execute(WINDOWS.insert().values(fields))
            connection.execute(
                LOADS.insert().values(
                    seq=load.seq,
                    load_id=load.load_id,
                    attempt=load.attempt,
                    table_name=load.table,
                    state="success",
                    run_id="rebuilt",
                    token=0,
                    raw_table=load.raw_table,
                    snapshot_id=load.snapshot_id,
                    started_at=load.started_at.replace(tzinfo=None),
                    finished_at=load.started_at.replace(tzinfo=None),
                    receipt=load.receipt.to_json() if load.receipt else None,
                )
            )
            self._database.count_on(connection, LOADS.c.seq)
            note_load(connection, load, "rebuilt")
            return True

    def skip_numbers(self, through: int) -> None:
        """Never give out a sequence number up to this one: the lake has met them."""
        with self._database.begin() as connection:
            if (connection.scalar(sa.select(sa.func.max(LOADS.c.seq))) or 0) >= through:
                return
            # The database counts on after the highest number it ever held, deleted or not.
            name, at = f"skipped-{uuid.uuid4().hex[:20]}", utc_now()
            window = {"load_id": name, "table_name": name, "kind": "skipped", "state": "errored"}
            connection.execute(WINDOWS.insert().values(**window, created_at=at))
            load = {"load_id": name, "table_name": name, "attempt": 1, "state": "errored"}
            load |= {"run_id": "rebuilt", "token": 0, "raw_table": name}
            connection.execute(LOADS.insert().values(**load, seq=through, started_at=at))
            self._database.count_on(connection, LOADS.c.seq)
            connection.execute(LOADS.delete().where(LOADS.c.load_id == name))
            connection.execute(WINDOWS.delete().where(WINDOWS.c.load_id == name))

    def highest_seq(self) -> int:
        """The highest sequence number that was given out; 0 if none was."""
        with self._database.read() as connection:
            return connection.scalar(sa.select(sa.func.max(LOADS.c.seq))) or 0


@cache
def _newest(*, of_state: bool, moving: bool) -> sa.Select[Any]:
    """The number of a table's newest attempt, of any state or of one."""
    joined = LOADS.join(WINDOWS, LOADS.c.load_id == WINDOWS.c.load_id)
    newest = sa.select(sa.func.max(LOADS.c.seq)).select_from(joined)
    newest = newest.where(LOADS.c.table_name == _NAME)
    if of_state:
        newest = newest.where(LOADS.c.state == sa.bindparam("state"))
    return newest.where(WINDOWS.c.kind.in_(MOVING)) if moving else newest


def _forget_chunks(connection: sa.Connection, *loads: sa.ColumnElement[bool]) -> None:
    """The chunks of these loads are of no use any more; nor are the bounds, which are values."""
    joined = CHUNKED.join(LOADS, CHUNKED.c.seq == LOADS.c.seq)
    seqs = connection.scalars(sa.select(CHUNKED.c.seq).select_from(joined).where(*loads)).all()
    # By their numbers: MySQL would lock what other tables' loads are writing.
    for table in (CHUNKS, CHUNKED) if seqs else ():
        connection.execute(table.delete().where(table.c.seq.in_(seqs)))


def _covered_by(window: Window) -> sa.ColumnElement[bool]:
    """The unfinished windows of a table that a success makes needless.

    A moving window starts at the last success, or at the table's start: it covers every range that
    was requested, and not read, since. A reload covers reloads of days (or keys) within its own. A
    repair covers earlier ones: rows that they left are found again by the next check.
    """
    if window.kind == "repair":
        return WINDOWS.c.kind == "repair"
    if window.kind != "reload":
        return WINDOWS.c.kind.in_(MOVING)
    mine = WINDOWS.c.kind == "reload"
    if window.lo is not None and window.lo.count("-") == 2:  # days, which order as texts
        return sa.and_(mine, WINDOWS.c.lo >= window.lo, WINDOWS.c.hi <= window.hi)
    return sa.and_(mine, WINDOWS.c.day == window.day)


def _out_of_order(table: str, number: int | None, newest: int | None) -> LedgerError:
    """A later observation must have a higher number: the fold goes by it."""
    return LedgerError(
        f"table {table}: the ledger's database gave the sequence number {number} after {newest}",
        table=table,
        next_step="Let one server alone write the ledger (no multi-primary cluster), and put its "
        "counter behind the highest number",
    )
