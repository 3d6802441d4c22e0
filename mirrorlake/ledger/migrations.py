"""How a ledger of an older version becomes one of this version: one step a version, in order.

New tables need no step: they are made where they are missing. A step runs in the transaction that
writes the new version, so it is done or not done; in MySQL, where DDL ends a transaction, it may be
done while the version is still the old one, so a step finds out what is left to do.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from mirrorlake.ledger.settled_rows import find_first_days, record_first_days
from mirrorlake.ledger.tables import METADATA

LEDGER_VERSION = 14


def _to_2(connection: sa.Connection) -> None:
    """Loads name the external job that read them."""
    if "job_id" not in {column["name"] for column in sa.inspect(connection).get_columns("loads")}:
        connection.execute(sa.text("ALTER TABLE loads ADD COLUMN job_id VARCHAR(255)"))


def _to_3(_: sa.Connection) -> None:
    """Finished chunks are kept: two new tables. An older release would take their files for
    orphans, which is why this is a version of its own."""


def _to_4(connection: sa.Connection) -> None:
    """Loads are found by table and number; alerts that were sent have a table of their own."""
    name = "ix_loads_table_name_seq"
    if name not in {index["name"] for index in sa.inspect(connection).get_indexes("loads")}:
        connection.execute(sa.text(f"CREATE INDEX {name} ON loads (table_name, seq)"))


def _to_5(connection: sa.Connection) -> None:
    """Ranges of keys that are no integers, however long: SQLite's texts have no length anyway."""
    column = {"postgresql": "ALTER COLUMN {0} TYPE TEXT", "mysql": "MODIFY COLUMN {0} TEXT"}
    change = column.get(
        "mysql" if connection.dialect.name == "mariadb" else connection.dialect.name
    )
    if change is None:
        return
    for table, names in (("proofs", ("lo", "hi")), ("proof_offsets", ("next_lo",))):
        for name in names:
            connection.execute(sa.text(f"ALTER TABLE {table} {change.format(name)}"))


def _to_6(connection: sa.Connection) -> None:
    """Proofs name their day, and the days of which they compared every row."""
    there = {column["name"] for column in sa.inspect(connection).get_columns("proofs")}
    for name in ("day", "days_from", "days_before"):
        if name not in there:
            connection.execute(sa.text(f"ALTER TABLE proofs ADD COLUMN {name} DATE"))


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
    there = {column["name"] for column in sa.inspect(connection).get_columns("publications")}
    if "days" not in there:
        text = METADATA.tables["publications"].c["days"].type.compile(connection.dialect)
        connection.execute(sa.text(f"ALTER TABLE publications ADD COLUMN days {text}"))


def _to_14(_: sa.Connection) -> None:
    """What each commit left of a lake table is recorded. An older release would commit without, and
    its commits would be taken for another's, which is why this is a version of its own."""


_STEPS: dict[int, Callable[[sa.Connection], None]] = {
    2: _to_2,
    3: _to_3,
    4: _to_4,
    5: _to_5,
    6: _to_6,
    7: _to_7,
    8: _to_8,
    9: _to_9,
    10: _to_10,
    11: _to_11,
    12: _to_12,
    13: _to_13,
    14: _to_14,
}


def migrate(connection: sa.Connection, found: int) -> None:
    """Bring a ledger of version ``found`` to this version; the caller writes the new number."""
    for version in range(found + 1, LEDGER_VERSION + 1):
        _STEPS[version](connection)
