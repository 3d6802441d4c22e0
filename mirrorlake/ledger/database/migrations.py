"""How a ledger of an older version becomes one of this version: one step a version, in order.

New tables need no step: they are made where they are missing. A step runs in the transaction that
writes the new version, so it is done or not done; in MySQL, where DDL ends a transaction, it may be
done while the version is still the old one, so a step finds out what is left to do.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from mirrorlake.errors import LedgerError
from mirrorlake.ledger.database.settled_rows import find_first_days, record_first_days
from mirrorlake.ledger.tables import METADATA

LEDGER_VERSION = 17
OLDEST = 6
"""The oldest version that is brought to this one; no release had an older one."""


def _to_7(connection: sa.Connection) -> None:
    """Alert hooks have names of the user's own; SQLite's texts have no length anyway."""
    column = {
        "postgresql": "ALTER COLUMN hook TYPE VARCHAR(64)",
        "mysql": "MODIFY COLUMN hook VARCHAR(64) NOT NULL",
        "mariadb": "MODIFY COLUMN hook VARCHAR(64) NOT NULL",
    }
    change = column.get(connection.dialect.name)
    if change is not None:
        connection.execute(sa.text(f"ALTER TABLE alerts {change}"))


def _to_8(_: sa.Connection) -> None:
    """Full copies may write what changed alone. An older release would take one of them for the
    whole table, which is why this is a version of its own."""


def _to_9(connection: sa.Connection) -> None:
    """What is settled has an order of its own; each table's first day is recorded. An older release
    would settle loads that are reported nowhere, which is why this is a version of its own."""
    record_first_days(connection, find_first_days(connection, files=True))


def _to_10(connection: sa.Connection) -> None:
    """Refusals say since when, and verdicts on tenants why."""
    for table, name in (("refusals", "first_refused_at"), ("tenants", "verdict_words")):
        if name not in {column["name"] for column in sa.inspect(connection).get_columns(table)}:
            text = METADATA.tables[table].c[name].type.compile(connection.dialect)
            connection.execute(sa.text(f"ALTER TABLE {table} ADD COLUMN {name} {text}"))


def _to_11(connection: sa.Connection) -> None:
    """Costs say how long they took; what was declared invalid has a table of its own, which is why
    this is a version: an older release would leave it as it is."""
    if "seconds" not in {column["name"] for column in sa.inspect(connection).get_columns("costs")}:
        text = METADATA.tables["costs"].c["seconds"].type.compile(connection.dialect)
        connection.execute(sa.text(f"ALTER TABLE costs ADD COLUMN seconds {text}"))


def _to_12(_: sa.Connection) -> None:
    """What is loaded into BigQuery has a table of its own. An older release would not settle its
    jobs, which is why this is a version."""


def _to_13(connection: sa.Connection) -> None:
    """Loads into BigQuery say of which days their changes are. An older release would merge them
    without, which is why this is a version."""
    tables = sa.inspect(connection)
    if not tables.has_table("publications"):
        return  # it is made with the column
    if "days" not in {column["name"] for column in tables.get_columns("publications")}:
        connection.execute(sa.text("ALTER TABLE publications ADD COLUMN days TEXT"))


def _to_14(_: sa.Connection) -> None:
    """What each commit left of a lake table is recorded. An older release would not record its
    commits, and they would be taken for somebody else's: hence a version of its own."""


def _to_15(_: sa.Connection) -> None:
    """Tables follow their server's log: how far has a table of its own. An older release would copy
    such a table, which is why this is a version."""


def _to_16(connection: sa.Connection) -> None:
    """Partitions of models say at which cut they were computed."""
    tables, columns = sa.inspect(connection), {"cut": sa.String(64), "cut_at": sa.DateTime()}
    if not tables.has_table("model_partitions"):
        return  # it is made with the columns
    there = {column["name"] for column in tables.get_columns("model_partitions")}
    for name in columns.keys() - there:
        kind = columns[name].compile(connection.dialect)
        connection.execute(sa.text(f"ALTER TABLE model_partitions ADD COLUMN {name} {kind}"))


def _to_17(connection: sa.Connection) -> None:
    """Tenants follow their servers' logs. An older release would take the copies that the logs
    continue for all of their rows, which is why this is a version."""
    tables = sa.inspect(connection)
    if "log_place" not in {column["name"] for column in tables.get_columns("tenants")}:
        connection.execute(sa.text("ALTER TABLE tenants ADD COLUMN log_place TEXT"))


_STEPS: dict[int, Callable[[sa.Connection], None]] = {
    7: _to_7,
    8: _to_8,
    9: _to_9,
    10: _to_10,
    11: _to_11,
    12: _to_12,
    13: _to_13,
    14: _to_14,
    15: _to_15,
    16: _to_16,
    17: _to_17,
}


def migrate(connection: sa.Connection, found: int) -> None:
    """Bring a ledger of version ``found`` to this version; the caller writes the new number.

    Raises:
        LedgerError: it is older than `OLDEST`.
    """
    if found < OLDEST:
        raise LedgerError(
            f"the ledger has version {found}; the oldest that this Mirrorlake takes is {OLDEST}",
            next_step="Name another ledger.url, and make the ledger again from the lake:"
            " `mirrorlake ledger rebuild`",
        )
    for version in range(found + 1, LEDGER_VERSION + 1):
        _STEPS[version](connection)
