"""Whether a commit that nobody answered was made: each transaction that writes leaves a mark.

The mark is a row of the transaction's own: there once it is committed, and never otherwise. A
connection has one such row at a time. Postgres can also say whether a transaction is still under
way; its number alone would not do, as a server that crashed may give it out a second time.

Source: PostgreSQL 16 manual, 9.27.8 "Transaction ID and Snapshot Information Functions".
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from mirrorlake.ledger.tables import META

_PREFIX = "commit:"
_KEPT = timedelta(days=1)


@dataclass(frozen=True)
class CommitMark:
    """The mark of one transaction, and what Postgres calls it; '' elsewhere."""

    name: str
    number: str


def leave_mark(connection: sa.Connection, kind: str, now: datetime) -> CommitMark:
    """Leave the transaction's mark, in place of the connection's last one."""
    values = {"name": f"{_PREFIX}{uuid.uuid4().hex}", "value": now.isoformat()}
    last = connection.info.get(_PREFIX)
    number = None
    if last:
        change = META.update().where(META.c.name == last).values(**values)
        number = _numbered(connection, kind, change)
    if number is None:
        number = _numbered(connection, kind, META.insert().values(**values))
    return CommitMark(values["name"], number or "")


def _numbered(connection: sa.Connection, kind: str, statement: sa.Insert | sa.Update) -> str | None:
    """Run it: the transaction's number, '' where the server has none; None if no row was there."""
    if kind == "postgresql":
        found = connection.scalar(statement.returning(sa.func.txid_current()))
        return None if found is None else str(found)
    return "" if connection.execute(statement).rowcount else None


def keep_mark(connection: sa.Connection, mark: CommitMark) -> None:
    """Note that a connection's transaction was committed, and its mark with it."""
    connection.info[_PREFIX] = mark.name


def is_there(connection: sa.Connection, mark: CommitMark) -> bool:
    """Whether the transaction with this mark was committed."""
    query = sa.select(META.c.name).where(META.c.name == mark.name)
    return connection.scalar(query) is not None


def is_under_way(connection: sa.Connection, mark: CommitMark) -> bool | None:
    """Whether it may yet be committed; None where the server can't say."""
    if not mark.number:
        return None
    query = sa.text("SELECT txid_status(CAST(:number AS bigint)) = 'in progress'")
    try:
        return bool(connection.scalar(query, {"number": mark.number}))
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != "22023":
            raise
        return False  # the server crashed before anything of it was kept


def has_old_marks(connection: sa.Connection, now: datetime) -> bool:
    """Whether there are marks of connections that are long gone."""
    return bool(connection.scalar(sa.select(sa.exists().where(_is_old(now)))))


def forget_marks(connection: sa.Connection, now: datetime) -> None:
    """Remove the marks of connections that are long gone."""
    connection.execute(META.delete().where(_is_old(now)))


def _is_old(now: datetime) -> sa.ColumnElement[bool]:
    ours = META.c.name.startswith(_PREFIX, autoescape=True)
    return ours & (META.c.value < (now - _KEPT).isoformat())
