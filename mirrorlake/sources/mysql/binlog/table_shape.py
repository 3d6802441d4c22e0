"""A table as its rows are decoded: the columns of one TABLE_MAP, each with its form.

Source: none of a server's; `column_forms` has those of the types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from mirrorlake.errors import SchemaError, TypeRefused
from mirrorlake.schema.originals import gather_originals
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.sources.mysql.binlog.cells import PADDING, locate
from mirrorlake.sources.mysql.binlog.column_forms import ColumnForm, ServerForms, form_of, width_of
from mirrorlake.sources.mysql.binlog.events.table_map import TableMap
from mirrorlake.sources.mysql.binlog.row_scanner import make_scan
from mirrorlake.sources.mysql.tables import SourceTable

ORIGINALS: Final = pa.large_list(
    pa.field("element", pa.struct([("column", pa.large_string()), ("text", pa.large_string())]))
)
"""The type of the column `ORIGINAL` in what is decoded."""


@dataclass(frozen=True)
class FollowedTable:
    """What a reader has to be told of a table.

    Attributes:
        types: by column: its type as information_schema names it (``data_type``). The log does not
            tell UUID, INET4, INET6 and VECTOR of MariaDB from others.
        charsets: by column: its charset. Some servers log none of ENUM and SET (MySQL 8.0.12).
        excluded: columns that are passed over undecoded, by their names in MySQL.
        unsigned: those of ``types`` that have no sign. The log of MySQL may be read in two ways.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    charsets: Mapping[str, str] = field(default_factory=dict)
    excluded: frozenset[str] = frozenset()
    unsigned: frozenset[str] = frozenset()

    @classmethod
    def of(cls, table: SourceTable, excluded: frozenset[str] = frozenset()) -> FollowedTable:
        """All of it, of a table as its server describes it."""
        return cls(
            {column.in_mysql: column.data_type for column in table.columns},
            {c.in_mysql: c.charset for c in table.columns if c.charset is not None},
            excluded,
            frozenset(column.in_mysql for column in table.columns if column.unsigned),
        )

    def with_signs(self, logged: TableMap) -> TableMap:
        """The table with each number's sign as the log and the server's schema say it.

        Raises:
            TypeRefused: the log can be read in two ways, and the schema agrees with neither, or
                is not known.
        """
        if len(logged.unsigned) == 1:
            return logged
        names = [column.name for column in logged.columns]
        first, second = logged.unsigned
        unclear = {names[number] for number in first ^ second} - self.excluded
        if unclear <= self.types.keys():
            known = set(self.unsigned - self.excluded)
            for one in logged.unsigned:
                kept = {names[number] for number in one} - self.excluded
                if kept & self.types.keys() == known:
                    return logged.signed_as(one)
        listed = ", ".join(sorted(unclear))
        raise TypeRefused(
            f"table {logged.name} has a YEAR, and its binary log does not say clearly which "
            f"numbers have a sign: {listed}",
            table=logged.name,
            next_step="Read the table again; if it stays so, use another `mode` for it",
        )


class TableShape:
    """How rows of one table are decoded, as long as its columns stay what they are."""

    def __init__(self, logged: TableMap, followed: FollowedTable, server: ServerForms) -> None:
        """Raises: TypeRefused: a column can't be decoded. SchemaError: names are not logged."""
        if not logged.full:
            raise SchemaError(
                f"table {logged.name} has rows in the binary log without the names of its columns",
                table=logged.name,
                next_step="Run SET GLOBAL binlog_row_metadata = FULL, and read the table again",
            )
        logged = followed.with_signs(logged)
        self.logged, self.followed = logged, followed
        self.widths = [width_of(column) for column in logged.columns]
        self.scan = make_scan(self.widths)
        self._forms: list[ColumnForm | None] = [
            None
            if column.name in followed.excluded
            else form_of(
                column,
                server,
                followed.types.get(column.name, "").lower(),
                followed.charsets.get(column.name),
            )
            for column in logged.columns
        ]
        self.originals = any(form.originals for form in self._forms if form)

    @property
    def key(self) -> tuple[str, ...]:
        """The names of its primary key's columns; of a key of prefixes too."""
        return tuple(self.logged.columns[number].name for number in self.logged.key)

    @property
    def schema(self) -> pa.Schema:
        """What `decode` gives: the columns in the server's order, and `ORIGINAL` if a value may
        have no place in its type."""
        fields = [pa.field(form.name, form.kind) for form in self._forms if form]
        return pa.schema([*fields, pa.field(ORIGINAL, ORIGINALS)] if self.originals else fields)

    def decode(self, images: bytearray, starts: Sequence[int]) -> pa.RecordBatch:
        """The rows of these images.

        Raises:
            LogUnreadable: a value can't be one of its column.
            SourceError: the server could not be asked for a text.
        """
        found = locate(images + PADDING, starts, self.widths)
        arrays: list[Any] = []
        originals: dict[str, Any] = {}
        for form, cells in zip(self._forms, found, strict=True):
            if form is None:
                continue
            decoded = form.decode(cells)
            arrays.append(decoded.values)
            if decoded.originals is not None:
                originals[form.name] = decoded.originals
        if self.originals:
            arrays.append(gather_originals(originals, len(starts), ORIGINALS))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
