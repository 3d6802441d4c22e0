"""Indexes: which values the server keeps unique, and by which columns it reads ranges.

These are two questions. A hash index keeps a key unique and serves no range, an invisible or
ignored one too; an index over the beginning of a text serves ranges of what precedes that text.

Source: MySQL 8.0 manual, 28.3.34 "The INFORMATION_SCHEMA STATISTICS Table", 8.3.12 "Invisible
Indexes", 16.7.2 "MERGE Table Problems"; MariaDB: "Ignored Indexes", "System-Versioned Tables".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pymysql.connections import Connection

from mirrorlake.sources.mysql.sessions.connect import rows_of
from mirrorlake.sources.mysql.tables import Column, Index

_INDEXES: Final = """
SELECT {{of}}, INDEX_NAME, NON_UNIQUE, COLUMN_NAME, SUB_PART, INDEX_TYPE, COMMENT, {unused}
FROM information_schema.STATISTICS WHERE {{where}} ORDER BY {{of}}, INDEX_NAME, SEQ_IN_INDEX"""
_FLAGS: Final = """
SELECT COLUMN_NAME FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = 'information_schema' AND TABLE_NAME = 'STATISTICS'
  AND COLUMN_NAME IN ('IGNORED', 'IS_VISIBLE')"""
_OTHER: Final = ("FULLTEXT", "SPATIAL", "RTREE", "VECTOR")
"""Indexes over something else than a column's values in their order, and never unique."""
_BY_CHARACTER: Final = ("_bin", "_general_ci", "latin1_swedish_ci")
"""Collations that compare one character with one: texts that are equal begin with equal ones. Under
others 'ß…' may equal 'ss…', and their first two characters differ."""


def read_indexes(
    connection: Connection[Any],
    ask: Callable[[str], list[tuple[Any, ...]]],
    columns: Mapping[str, Sequence[Column]],
) -> Mapping[str, tuple[Index, ...]]:
    """The indexes of a database's tables, by table, in the order of their names; or of one table in
    many databases, by database.

    Args:
        ask: runs a statement over ``information_schema`` for the tables that are meant.
        columns: of these tables, by table.

    Raises:
        SourceError: the server was lost.
    """
    found = ask(_INDEXES.format(unused=_unused(connection)))
    indexes: dict[tuple[str, str], _Parts] = {}
    for table, name, non_unique, column, prefix, kind, comment, unused in found:
        kept = not int(unused) and "disabled" not in str(comment or "")
        index = indexes.setdefault((str(table), str(name)), _Parts(not int(non_unique), str(kind)))
        index.used = index.used and kept
        index.parts.append((None if column is None else str(column), prefix is not None))
    by_table: dict[str, list[Index]] = {}
    for (table, name), parts in indexes.items():
        index = parts.index(name, {c.name: c for c in columns.get(table, ())})
        if index is not None:
            by_table.setdefault(table, []).append(index)
    return {table: tuple(of_table) for table, of_table in by_table.items()}


def _unused(connection: Connection[Any]) -> str:
    """SQL that is 1 of an index that queries may not use, in the words of this server."""
    flags = {str(name).upper() for (name,) in rows_of(connection, _FLAGS)}
    if "IGNORED" in flags:  # MariaDB 10.6 and later
        return "IGNORED = 'YES'"
    return "IS_VISIBLE = 'NO'" if "IS_VISIBLE" in flags else "0"


@dataclass
class _Parts:
    unique: bool
    kind: str
    used: bool = True
    parts: list[tuple[str | None, bool]] = field(default_factory=list[tuple[str | None, bool]])

    def index(self, name: str, columns: Mapping[str, Column]) -> Index | None:
        if self.kind.upper() in _OTHER:
            return None
        plain = _before(self.parts, lambda part: part[0] is None)
        if not plain:
            return None
        names = tuple(str(column) for column, _ in plain)
        whole = _before(plain, lambda part: part[1])
        ordered = self.used and self.kind.upper() == "BTREE"
        exact = all(not cut or _equal_by_prefix(columns.get(str(c))) for c, cut in plain)
        # -0.0 and 0.0 are equal, and their hashes are not: both may be there.
        exact = exact and not (self.kind.upper() == "HASH" and _holds_floats(columns, names))
        return Index(
            name,
            self.unique and exact and len(plain) == len(self.parts),
            names,
            None if ordered and len(whole) == len(plain) else len(whole) if ordered else 0,
        )


def _holds_floats(columns: Mapping[str, Column], names: Iterable[str]) -> bool:
    return any(c in columns and columns[c].data_type in ("float", "double") for c in names)


def _before(
    parts: Sequence[tuple[str | None, bool]], ends: Callable[[tuple[str | None, bool]], bool]
) -> Sequence[tuple[str | None, bool]]:
    """The parts before the first that ends them."""
    end = next((n for n, part in enumerate(parts) if ends(part)), len(parts))
    return parts[:end]


def _equal_by_prefix(column: Column | None) -> bool:
    """Whether values that are equal have equal beginnings, so that unique beginnings make them
    unique."""
    if column is None:
        return False
    return column.collation is None or column.collation.endswith(_BY_CHARACTER)


def enforced(engine: str, columns: Iterable[Column], indexes: Iterable[Index]) -> tuple[Index, ...]:
    """Indexes as their table keeps them.

    A MERGE table shows the rows of several tables, each of which keeps its own rows unique. A
    system-versioned table keeps (key, end) unique, and shows the rows alone that have no end yet.
    """
    if engine.lower() == "mrg_myisam":
        return tuple(replace(index, unique=False) for index in indexes)
    ends = {c.name for c in columns if c.generated.strip("` ").upper() == "ROW END"}
    return tuple(_without(index, ends) if index.unique else index for index in indexes)


def _without(index: Index, ends: set[str]) -> Index:
    kept = tuple(name for name in index.columns if name not in ends)
    return replace(index, columns=kept) if kept else index
