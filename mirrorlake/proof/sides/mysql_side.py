"""MySQL's side of a comparison: statements, and what they answered.

Only a group's number, count and digest come from the server, until digests differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pymysql.connections import Connection

from mirrorlake.errors import ProofError, SourceError
from mirrorlake.proof.forms.canonical import NULL, Form
from mirrorlake.proof.forms.rows import Key, Row, RowForm, source_number
from mirrorlake.proof.ranges.impossible_keys import (
    NO_ROW,
    can_hold,
    convertible_equals,
    is_convertible,
)
from mirrorlake.proof.ranges.ranges import Tally
from mirrorlake.proof.ranges.scope import both
from mirrorlake.sources.mysql.introspection.introspect import refresh_statistics
from mirrorlake.sources.mysql.sessions.connect import rows_of
from mirrorlake.sources.mysql.tables import Column, SourceTable, quote

KEYS_AT_ONCE = 200


@dataclass(frozen=True)
class SourceSide:
    """The statements over one table of MySQL, within a condition (``where``, '' for all)."""

    table: SourceTable
    rows: RowForm
    key: tuple[Column, ...]
    where: str
    settled: str = "1"

    @property
    def key_forms(self) -> tuple[Form, ...]:
        by_name = {cell.name: cell for cell in self.rows.cells}
        return tuple(by_name[column.name] for column in self.key)

    @property
    def name(self) -> str:
        return f"{quote(self.table.database)}.{quote(self.table.name)}"

    @property
    def key_form(self) -> str:
        """SQL of the key's form; of the row's, without a key."""
        if not self.key:
            return self.rows.source
        return f"CONCAT({_commas([form.source for form in self.key_forms])})"

    def bucket(self, count: int) -> str:
        """SQL of the bucket that a row is dealt into."""
        return f"{source_number(self.key_form, 8)} MOD {count}"

    def groups_sql(self, group: str, *conditions: str) -> str:
        """Group, rows and digest of every group."""
        columns = f"{group}, COUNT(*), SUM({self.rows.source_digest})"
        # By its place: to MySQL a name is the table's own column, if it has one of that name.
        return f"SELECT {columns} FROM {self.name}{self._where(*conditions)} GROUP BY 1"  # noqa: S608

    def digests_sql(self, *conditions: str) -> str:
        """Each row's digest and key."""
        cells = [self.rows.source_digest, *map(_as_text, self.key_forms)]
        return f"SELECT {', '.join(cells)} FROM {self.name}{self._where(*conditions)}"  # noqa: S608

    def keys_sql(self, *conditions: str) -> str:
        """The keys of the rows within some conditions, wherever they are."""
        cells = ", ".join(map(_as_text, self.key_forms))
        return f"SELECT {cells} FROM {self.name}{_where_of(both(*conditions))}"  # noqa: S608

    def count_sql(self, *conditions: str) -> str:
        """How many rows are within some conditions and this side's own."""
        return f"SELECT COUNT(*) FROM {self.name}{self._where(*conditions)}"  # noqa: S608

    def found_sql(self, flag: str, condition: str) -> str:
        """Digest, key and a flag of the rows within a condition, wherever they are."""
        cells = [self.rows.source_digest, *map(_as_text, self.key_forms), f"({flag})"]
        return f"SELECT {', '.join(cells)} FROM {self.name}{_where_of(condition)}"  # noqa: S608

    def key_at_sql(self, order: Sequence[str], forms: Sequence[Form], beyond: str, row: int) -> str:
        """Some forms of the key of the row with a number, counted from 0 in the server's order."""
        columns, by = ", ".join(map(_as_text, forms)), ", ".join(order)
        where = _where_of(beyond)
        return f"SELECT {columns} FROM {self.name}{where} ORDER BY {by} LIMIT 1 OFFSET {row}"  # noqa: S608

    def rows_sql(self, condition: str) -> str:
        """Whole rows, wherever they are."""
        cells = [_as_text(cell) for cell in self.rows.cells]
        shown = [cell.source_shown for cell in self.rows.cells]
        columns = ", ".join([self.settled, *cells, *shown])
        return f"SELECT {columns} FROM {self.name}{_where_of(condition)}"  # noqa: S608

    def _where(self, *conditions: str) -> str:
        return _where_of(both(self.where, *conditions))

    # --- reading ----------------------------------------------------------------------------------

    def read_groups(self, connection: Connection[Any], statement: str) -> dict[int, Tally]:
        """What `groups_sql` says."""
        found: dict[int, Tally] = {}
        for group, count, digest in rows_of(connection, statement):
            # A digest that could not be made is missing in the sum, which then differs.
            found[int(group)] = Tally(int(count), int(digest or 0))
        return found

    def read_digests(self, connection: Connection[Any], statement: str) -> list[tuple[Key, int]]:
        """What `digests_sql` says; without a key, the digest stands for it.

        Raises:
            ProofError: the server could not digest a row.
        """
        found: list[tuple[Key, int]] = []
        for digest, *key in rows_of(connection, statement):
            if digest is None:
                raise ProofError(
                    f"table {self.table.database}.{self.table.name}: the server could not digest a "
                    "row: a value is larger than its max_allowed_packet",
                    table=f"{self.table.database}.{self.table.name}",
                    next_step="Raise max_allowed_packet in the server",
                )
            texts = tuple(text_of(cell) for cell in key)
            found.append((texts or (str(digest),), int(digest)))
        return found

    def read_keys(self, connection: Connection[Any], statement: str) -> list[Key]:
        """What `keys_sql` says."""
        return [tuple(text_of(c) for c in row) for row in rows_of(connection, statement)]

    def read_rows(self, connection: Connection[Any], keys: Sequence[Key]) -> dict[Key, list[Row]]:
        """The rows that MySQL has now under these keys, by the requested key.

        Keys are compared by the server: a row may come under a key of other letters ('A' for 'a').
        """
        found: dict[Key, list[Row]] = {}
        for start in range(0, len(keys), KEYS_AT_ONCE):
            batch = keys[start : start + KEYS_AT_ONCE]
            condition = " OR ".join(f"({self.key_condition(key)})" for key in batch)
            rows = {row.key: row for row in self._rows(connection, condition)}
            for key in batch:
                if key in rows:
                    found[key] = [rows[key]]
                elif any(column.collation for column in self.key):
                    alike = self._rows(connection, self.key_condition(key))
                    found.update({key: alike} if alike else {})
        return found

    def read_by_digest(
        self, connection: Connection[Any], keys: Sequence[Key]
    ) -> dict[Key, list[Row]]:
        """Rows of a table without a key, by their digests. Reads the whole table."""
        found: dict[Key, list[Row]] = {}
        for start in range(0, len(keys), KEYS_AT_ONCE):
            digests = ", ".join(key[0] for key in keys[start : start + KEYS_AT_ONCE])
            where = both(self.where, f"{self.rows.source_digest} IN ({digests})")
            digest, shown = self.rows.source_digest, self.rows_sql(where)
            statement = shown.replace("SELECT ", f"SELECT {digest}, ", 1)
            for key, *cells in rows_of(connection, statement):
                row = self._row(cells, (str(key),))
                found.setdefault(row.key, []).append(row)
        return found

    def _rows(self, connection: Connection[Any], condition: str) -> list[Row]:
        return [self._row(cells) for cells in rows_of(connection, self.rows_sql(condition))]

    def _row(self, found: Iterable[Any], key: Key | None = None) -> Row:
        settled, *cells = found
        count = len(self.rows.cells)
        forms = tuple(text_of(cell) for cell in cells[:count])
        shown = tuple(None if cell is None else text_of(cell) for cell in cells[count:])
        if key is None:
            at = {cell.name: number for number, cell in enumerate(self.rows.cells)}
            key = tuple(forms[at[column.name]] for column in self.key)
        return Row(key, forms, shown, bool(settled))

    def key_condition(self, key: Key) -> str:
        """The condition that holds for the rows of a key, given as its cells' forms."""
        parts = zip(self.key, self.key_forms, key, strict=True)
        return " AND ".join(_equals(column, form, cell) for column, form, cell in parts)


def _equals(column: Column, form: Form, cell: str) -> str:
    """``column = value``, so that the server finds it through the index; every literal is digits,
    hexadecimal, or a date between quotes. What the column can't hold, no row has."""
    if cell == NULL:
        return f"{column.sql} IS NULL"
    return _equals_value(column, form, cell) if can_hold(column, cell) else NO_ROW


def _equals_value(column: Column, form: Form, cell: str) -> str:
    name, kind = column.sql, column.data_type
    if cell == "E":
        return f"{name} + 0 = 0"
    if kind in ("float", "double") or "!" in cell[:1]:
        return _equals_form(form, cell)
    if kind in ("date", "datetime", "timestamp"):
        return f"{name} = {_literal(cell)}"
    if cell[:1] == "x" and form.original:
        return f"{name} = _{column.charset} x'{cell[1:]}'"
    head, colon, text = cell.partition(":")
    if colon and head.isdigit():
        if is_convertible(column, text):
            return f"{name} = {_literal(text)}"
        return convertible_equals(column, _literal(text))
    if form.iceberg == "binary" and (column.length or 0) <= _WRITTEN:
        return f"{name} = x'{cell}'"
    if form.iceberg in ("string", "binary"):
        return _equals_form(form, cell)
    return f"{name} = {cell}"


def _equals_form(form: Form, cell: str) -> str:
    """By its bytes: a function's text has the session's collation, and a literal another one."""
    return f"CAST({form.source} AS BINARY) = x'{cell.encode('utf-8', 'surrogateescape').hex()}'"


_WRITTEN = 255


def _literal(text: str) -> str:
    return f"_utf8mb4 x'{text.encode('utf-8', 'surrogateescape').hex()}'" if text else "''"


def text_of(cell: Any) -> str:
    """A form as a text; bytes that are no UTF-8 survive in it."""
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "surrogateescape")
    return str(cell)


def _as_text(form: Form) -> str:
    """SQL of a form as the server writes it: of a DATETIME or a DECIMAL the driver would make a
    value, whose text leaves out the zeros at its end."""
    return f"CONCAT({form.source})"


def _where_of(condition: str) -> str:
    return f" WHERE {condition}" if condition else ""


def _commas(forms: Sequence[str]) -> str:
    return ",',',".join(forms)


@dataclass
class SessionTraffic:
    """How many bytes the server has sent to one session."""

    connection: Connection[Any]
    before: int = field(init=False)

    def __post_init__(self) -> None:
        self.before = self._sent()

    @property
    def bytes(self) -> int:
        return self._sent() - self.before

    def _sent(self) -> int:
        return int(rows_of(self.connection, "SHOW SESSION STATUS LIKE 'Bytes_sent'")[0][1])


@contextmanager
def one_state(connection: Connection[Any]) -> Iterator[None]:
    """Every statement inside sees one state of MySQL (of InnoDB's tables)."""
    rows_of(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
    try:
        yield
    finally:
        if connection.open:
            rows_of(connection, "ROLLBACK")


def read_bounds(
    connection: Connection[Any], side: SourceSide, column: Column, condition: str
) -> tuple[int, int] | None:
    """The lowest and the highest number that a column of the key has; None without any row."""
    name = column.sql
    statement = f"SELECT MIN({name}), MAX({name}) FROM {side.name}{_where_of(condition)}"  # noqa: S608
    low, high = rows_of(connection, statement)[0]
    return None if low is None else (int(low), int(high))


def read_packet(connection: Connection[Any]) -> int:
    """How long a text may be in the server's functions."""
    return int(rows_of(connection, "SELECT @@max_allowed_packet")[0][0])


def changed_at(connection: Connection[Any], table: SourceTable) -> Any:
    """When (UTC) MySQL last changed the table, as a datetime; None if it does not know.

    Source: MySQL 8.0 manual, 28.3.38 "The INFORMATION_SCHEMA TABLES Table": kept in memory alone.
    """
    refresh_statistics(connection)
    statement = (
        "SELECT UPDATE_TIME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s"
        " AND TABLE_NAME = %s"
    )
    found = rows_of(connection, statement, (table.database, table.name))
    if not found:
        raise SourceError(
            f"table {table.database}.{table.name} is gone from MySQL",
            table=f"{table.database}.{table.name}",
        )
    return found[0][0]
