"""A DuckDB file, attached so that nothing can be written to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from mirrorlake.errors import LakeError
from mirrorlake.other_copies.their_columns import literal, quoted
from mirrorlake.other_copies.theirs.table import TheirRows, types_of

_MAGIC = b"DUCK"
_NAME = "theirs"


def is_duckdb(path: Path) -> bool:
    """Whether a file is a database of DuckDB's."""
    with path.open("rb") as file:
        return file.read(12)[8:] == _MAGIC


@dataclass(frozen=True)
class DuckTable:
    """A table or view in a file."""

    name: str
    schema: str
    path: Path

    @property
    def place(self) -> str:
        return f"DuckDB, {self.path}, {self.schema}.{self.name}"

    def open(self, database: Any, folder: Path) -> TheirRows:
        """See `TheirTable.open`."""
        del folder
        _attach(database, self.path)
        relation = f"{_NAME}.{quoted(self.schema)}.{quoted(self.name)}"
        columns = types_of(database, relation)
        when = datetime.fromtimestamp(self.path.stat().st_mtime, UTC)
        return TheirRows(relation, columns, f"the file of {when:%Y-%m-%d %H:%M:%S} UTC")


def duckdb_tables(path: Path, schema: str | None = None) -> list[DuckTable]:
    """The tables in a file, or in one of its schemas.

    Raises:
        LakeError: another process has it open for writing, or it is of another version.
    """
    with duckdb.connect(config={"autoload_known_extensions": False}) as database:
        _attach(database, path)
        found = database.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ? UNION ALL "
            "SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = ? "
            "AND NOT internal ORDER BY ALL",
            [_NAME, _NAME],
        ).fetchall()
    return [DuckTable(name, home, path) for home, name in found if schema in (None, home)]


def _attach(database: Any, path: Path) -> None:
    try:
        database.execute(f"ATTACH IF NOT EXISTS {literal(str(path))} AS {_NAME} (READ_ONLY)")
    except duckdb.Error as error:
        raise LakeError(
            f"{path} can't be opened as a DuckDB file: {str(error).splitlines()[0]}",
            next_step="See that no other process has it open for writing, or copy it first",
        ) from error
