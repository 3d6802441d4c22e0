"""How large databases and tables are, by the server's own estimate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pymysql.connections import Connection

from mirrorlake.sources.mysql.sessions.connect import rows_of

_BYTES = "SUM(COALESCE(DATA_LENGTH, 0) + COALESCE(INDEX_LENGTH, 0))"
_FROM = "FROM information_schema.TABLES WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')"


@dataclass(frozen=True)
class DatabaseSize:
    """A database: its tables, and their rows and bytes as the server estimates them."""

    name: str
    tables: int
    rows: int
    bytes: int


def read_database_sizes(connection: Connection[Any]) -> dict[str, DatabaseSize]:
    """Every database that has tables which this account may see, by its name."""
    found = rows_of(
        connection,
        f"SELECT TABLE_SCHEMA, COUNT(*), SUM(COALESCE(TABLE_ROWS, 0)), {_BYTES} {_FROM} "
        "GROUP BY TABLE_SCHEMA",
    )
    return {
        str(name): DatabaseSize(str(name), int(tables), int(rows), int(size))
        for name, tables, rows, size in found
    }


def read_table_sizes(connection: Connection[Any], database: str) -> dict[str, int]:
    """The bytes of each table of a database, its indexes included; those of which the server says
    nothing are left out."""
    found = rows_of(
        connection,
        f"SELECT TABLE_NAME, DATA_LENGTH + INDEX_LENGTH {_FROM} AND TABLE_SCHEMA = %s",
        (database,),
    )
    return {str(name): int(size) for name, size in found if size is not None}
