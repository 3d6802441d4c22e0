"""Rows of loads as the ledger's parts read them, each within its own transaction."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Any

import sqlalchemy as sa

from mirrorlake.ledger.records import Load, Receipt, Window
from mirrorlake.ledger.tables import LOADS, UNPROVED, WINDOWS

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


def read_loads(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> list[Load]:
    """The loads that fulfil all conditions, in the order of their sequence numbers."""
    joined = LOADS.join(WINDOWS, LOADS.c.load_id == WINDOWS.c.load_id)
    query = (
        sa.select(LOADS, WINDOWS.c.kind, WINDOWS.c.lo, WINDOWS.c.hi, WINDOWS.c.day)
        .select_from(joined)
        .where(*where)
        .order_by(LOADS.c.seq)
    )
    return [_load(dict(row)) for row in connection.execute(query).mappings()]


def is_running(load: Load) -> sa.ColumnElement[bool]:
    """Whether an attempt is still the one that may write its load: none has taken it over."""
    return sa.and_(
        LOADS.c.seq == load.seq,
        LOADS.c.attempt == load.attempt,
        LOADS.c.token == load.token,
        LOADS.c.state == "pending",
    )


def _load(row: Mapping[str, Any]) -> Load:
    return Load(
        seq=row["seq"],
        load_id=row["load_id"],
        attempt=row["attempt"],
        table=row["table_name"],
        state=row["state"],
        raw_table=row["raw_table"],
        window=Window(row["kind"], row["lo"], row["hi"], row["day"]),
        parent_snapshot=row["parent_snapshot"],
        snapshot_id=row["snapshot_id"],
        started_at=row["started_at"].replace(tzinfo=UTC),
        finished_at=row["finished_at"].replace(tzinfo=UTC) if row["finished_at"] else None,
        receipt=Receipt.from_json(row["receipt"]) if row["receipt"] else None,
        error=row["error"],
        token=row["token"],
        job_id=row["job_id"],
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
