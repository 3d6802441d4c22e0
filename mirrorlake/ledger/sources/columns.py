"""Known columns: those of each table that clean may show without the contract naming them."""

from __future__ import annotations

import json
from collections.abc import Iterable

import sqlalchemy as sa

from mirrorlake.ledger.database.database import Database, utc_now
from mirrorlake.ledger.tables import KNOWN_COLUMNS, VERSIONS


class Columns:
    """The known columns in one ledger; a part of `Ledger`. Names are folded: MySQL's are one name
    in any case."""

    _database: Database

    def known_columns(self, table: str) -> frozenset[str] | None:
        """The known columns of a table, in lower case; None if none were ever recorded."""
        query = sa.select(KNOWN_COLUMNS.c.column_name).where(KNOWN_COLUMNS.c.table_name == table)
        with self._database.read() as connection:
            return frozenset(connection.scalars(query)) or None

    def all_known_columns(self) -> dict[str, frozenset[str]]:
        """The known columns of every table that has a record of them, in lower case."""
        found: dict[str, set[str]] = {}
        with self._database.read() as connection:
            for table, name, _ in connection.execute(KNOWN_COLUMNS.select()):
                found.setdefault(table, set()).add(name)
        return {table: frozenset(names) for table, names in found.items()}

    def newest_columns(self) -> dict[str, tuple[str, ...]]:
        """The columns of every table's newest schema version, in order."""
        query = sa.select(VERSIONS.c.table_name, VERSIONS.c.columns).order_by(VERSIONS.c.number)
        with self._database.read() as connection:
            # The newest comes last, and stays.
            newest = {str(table): columns for table, columns in connection.execute(query)}
        return {table: tuple(n for n, _ in json.loads(text)) for table, text in newest.items()}

    def record_known_columns(self, table: str, names: Iterable[str]) -> None:
        """The table's known columns are these; ones recorded before and not among them are
        forgotten."""
        wanted = {name.lower() for name in names}
        of_table = KNOWN_COLUMNS.c.table_name == table
        with self._database.begin() as connection:
            there = set(connection.scalars(sa.select(KNOWN_COLUMNS.c.column_name).where(of_table)))
            for name in there - wanted:
                gone = KNOWN_COLUMNS.c.column_name == name
                connection.execute(KNOWN_COLUMNS.delete().where(of_table, gone))
            rows = [
                {"table_name": table, "column_name": name, "known_since": utc_now()}
                for name in sorted(wanted - there)
            ]
            if rows:
                connection.execute(KNOWN_COLUMNS.insert(), rows)
