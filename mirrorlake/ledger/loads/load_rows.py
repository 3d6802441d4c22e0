"""Rows of loads as the ledger's parts read them, each within its own transaction."""

from __future__ import annotations

from datetime import UTC
from typing import Any, TypeAlias

import sqlalchemy as sa

from mirrorlake.errors import LeaseHeld
from mirrorlake.ledger.records import Load, Receipt, Window
from mirrorlake.ledger.tables import FOLDS, LOADS, UNPROVED, WINDOWS

LoadQuery: TypeAlias = "sa.Select[*tuple[Any, ...]]"
_NEWEST_RECEIPT = (
    sa.select(LOADS.c.receipt)
    .where(
        LOADS.c.table_name == sa.bindparam("name"),
        LOADS.c.state == "success",
        LOADS.c.receipt.is_not(None),
    )
    .order_by(LOADS.c.seq.desc())
    .limit(1)
)


def loads_where(*where: sa.ColumnElement[bool]) -> LoadQuery:
    """The query of loads that fulfil all conditions, in the order of their sequence numbers. A sync
    asks some of them several times a table: those are made once, for that takes longer than SQLite
    does."""
    joined = LOADS.join(WINDOWS, LOADS.c.load_id == WINDOWS.c.load_id)
    return sa.select(*_COLUMNS).select_from(joined).where(*where).order_by(LOADS.c.seq)


def read_loads(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> list[Load]:
    """The loads that fulfil all conditions, in the order of their sequence numbers."""
    return read_query(connection, loads_where(*where))


def read_query(connection: sa.Connection, query: LoadQuery, **values: object) -> list[Load]:
    """What a query of `loads_where` finds."""
    return [_load(*row) for row in connection.execute(query, values)]


def read_load(connection: sa.Connection, seq: int) -> Load:
    """The load with a sequence number, which there is."""
    return read_query(connection, _NUMBERED, seq=seq)[0]


def is_running(load: Load) -> sa.ColumnElement[bool]:
    """Whether an attempt is still the one that may write its load: none has taken it over."""
    return sa.and_(
        LOADS.c.seq == load.seq,
        LOADS.c.attempt == load.attempt,
        LOADS.c.token == load.token,
        LOADS.c.state == "pending",
    )


def is_folded(layer: str) -> sa.Exists:
    """Whether a layer holds a load."""
    return sa.exists().where(
        FOLDS.c.table_name == LOADS.c.table_name,
        FOLDS.c.layer == layer,
        FOLDS.c.seq == LOADS.c.seq,
    )


def hold_load(connection: sa.Connection, load: Load) -> None:
    """Lock an attempt's row until the transaction ends: a run that takes the load over comes before
    this, or after.

    Raises:
        LeaseHeld: another run has taken it over; what this one has written is nobody's.
    """
    held = connection.execute(LOADS.update().where(is_running(load)).values(state="pending"))
    if held.rowcount != 1:
        raise taken_over(load)


def taken_over(load: Load) -> LeaseHeld:
    """The error of a run whose load another run has taken over."""
    return LeaseHeld(
        f"table {load.table}: load {load.load_id} was taken over by another run",
        table=load.table,
        next_step="Nothing of this run is visible: see what the other one does",
        retryable=True,
    )


_COLUMNS = (
    *(LOADS.c.seq, LOADS.c.load_id, LOADS.c.attempt, LOADS.c.table_name, LOADS.c.state),
    *(LOADS.c.raw_table, LOADS.c.parent_snapshot, LOADS.c.snapshot_id, LOADS.c.started_at),
    *(LOADS.c.finished_at, LOADS.c.receipt, LOADS.c.error, LOADS.c.token, LOADS.c.job_id),
    *(WINDOWS.c.kind, WINDOWS.c.lo, WINDOWS.c.hi, WINDOWS.c.day),
)


_NUMBERED = loads_where(LOADS.c.seq == sa.bindparam("seq"))


def _load(*row: Any) -> Load:
    """A row of `_COLUMNS`; there can be a great many."""
    seq, load_id, attempt, table, state, raw_table, parent, snapshot, started, *rest = row
    finished, receipt, error, token, job_id, *window = rest
    return Load(
        *(seq, load_id, attempt, table, state, raw_table, Window(*window), parent, snapshot),
        started.replace(tzinfo=UTC),
        finished.replace(tzinfo=UTC) if finished else None,
        Receipt.from_json(receipt) if receipt else None,
        *(error, token, job_id),
    )


def read_history_start(connection: sa.Connection, table: str) -> int:
    """`Histories.history_start` within a transaction."""
    receipt = read_newest_receipt(connection, table)
    return receipt.began if receipt else 0


def read_newest_receipt(connection: sa.Connection, table: str) -> Receipt | None:
    found = connection.scalar(_NEWEST_RECEIPT, {"name": table})
    return Receipt.from_json(found) if found else None


def storable(error: str) -> str:
    """An error's text as every database takes it: a failure to note a failure would hide it."""
    return error[:4000].replace("\0", "\N{SYMBOL FOR NULL}").encode(errors="replace").decode()


def standing_marks() -> sa.Select[Any]:
    """The marks of tables that were marked unproved and not read as a whole since."""
    read = (
        sa.select(LOADS.c.seq)
        .select_from(LOADS.join(WINDOWS, LOADS.c.load_id == WINDOWS.c.load_id))
        .where(
            LOADS.c.table_name == UNPROVED.c.table_name,
            LOADS.c.seq > UNPROVED.c.seq,
            LOADS.c.state == "success",
            WINDOWS.c.kind.in_(("initial", "full")),
        )
    )
    return UNPROVED.select().where(~read.exists())
