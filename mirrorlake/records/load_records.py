"""The records of a load: read from raw, in the order of its events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import Any, Final

import pyarrow as pa

from mirrorlake.config.contract import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.reading.stream import read_load
from mirrorlake.destinations.iceberg.tables.schemas import stored_types
from mirrorlake.errors import RecordsError
from mirrorlake.landing.files.written import texts_of, written_rows
from mirrorlake.ledger import Load
from mirrorlake.records.columns import ShownColumns, shown_columns
from mirrorlake.records.record import ChangeRecord, Operation, RecordForm, key_text
from mirrorlake.schema.own_columns import (
    COMMITTED_AT,
    DELETED,
    EVENT,
    OF_EVENTS,
    OP,
    ORIGINAL,
    POSITION,
)
from mirrorlake.schema.versions import SchemaVersion
from mirrorlake.table.meaning import recorded_meaning
from mirrorlake.workspace import Workspace

_ROWS: Final = 8192
"""Rows that are made JSON at once."""
_OPERATIONS: Final[Mapping[str, Operation]] = {
    "insert": "INSERT",
    "update": "UPDATE",
    "delete": "DELETE",
}


class LoadRecords:
    """Gives the records of one table's loads.

    Args:
        workspace: without a lease: what raw has of a committed load does not change.
    """

    def __init__(self, workspace: Workspace, contract: TableContract) -> None:
        self._workspace, self._contract = workspace, contract
        self._raw: tuple[Identifier, LakeTable] | None = None
        self._shown: dict[str, ShownColumns] = {}

    def records(self, load: Load, before: Load | None, *, copies: bool) -> Iterator[ChangeRecord]:
        """What a load says: of its table, then of rows.

        Args:
            before: the successful load before it; None where there is none.
            copies: whether rows that a copy read are wanted.

        Raises:
            RecordsError: raw has not the rows that the load committed.
            ConfigError: the rules on columns hide a key column, which records need.
            LakeError: the lake can't be read.
        """
        version = self._version(load)
        form = RecordForm(self._contract, load, version.hash)
        logged = load.window.kind == "log"
        if load.receipt is not None and load.receipt.began == load.seq:
            yield form.of_table("TRUNCATE", "BINLOG" if logged else "SNAPSHOT")
        if logged and before is not None and (more := self._altered(load, before, version)):
            yield form.of_table("ALTER", "BINLOG", more)
        copied = load.window.kind in ("initial", "full")
        rows = load.receipt.committed if load.receipt is not None else None
        if rows != 0 and (copies or not copied):
            yield from self._rows(load, version, form)

    def schema(self, load: Load) -> tuple[str, bytes]:
        """The hash of a load's schema version, and its columns' types as a landing's schema."""
        version = self._version(load)
        table = self._table(load)
        originals = ORIGINAL in (field.name for field in table.schema().fields)
        return version.hash, self._columns(load, version, table).schema(originals=originals)

    def _version(self, load: Load) -> SchemaVersion:
        versions = self._workspace.ledger.schema_versions(self._contract.name)
        for version in reversed(versions):
            if version.raw_table == load.raw_table:
                return version
        raise self._lacking(load, "the ledger does not know its schema version")

    def _table(self, load: Load) -> LakeTable:
        meaning = recorded_meaning(load.receipt)
        space = meaning.raw if meaning is not None else self._contract.namespaces.raw
        identifier = Identifier(space, load.raw_table)
        if self._raw is None or self._raw[0] != identifier:
            table = self._workspace.lake.load(identifier)
            if table is None:
                raise self._lacking(load, f"there is no table {identifier}")
            self._raw = identifier, table
        table = self._raw[1]
        if load.snapshot_id is not None and table.snapshot_by_id(load.snapshot_id) is None:
            # It was loaded before this commit, or after the commit expired.
            self._raw = identifier, table.refresh()
        return self._raw[1]

    def _columns(self, load: Load, version: SchemaVersion, table: LakeTable) -> ShownColumns:
        if version.hash not in self._shown:
            parts = (self._workspace, self._contract, load, version, stored_types(table))
            self._shown[version.hash] = shown_columns(*parts)
        return self._shown[version.hash]

    def _altered(self, load: Load, before: Load, version: SchemaVersion) -> dict[str, Any]:
        """What a statement made of the table between two loads; empty if nothing."""
        filled = (load.receipt.filled if load.receipt is not None else None) or {}
        known = (before.receipt.filled if before.receipt is not None else None) or {}
        if load.raw_table == before.raw_table and filled.items() <= known.items():
            return {}
        shown = self._columns(load, version, self._table(load))
        types = {n: shown.stored[n].mysql or kind for n, kind in shown.types.items()}
        return {"columns": types, "filled": shown.filled(filled)}

    def _rows(self, load: Load, version: SchemaVersion, form: RecordForm) -> Iterator[ChangeRecord]:
        table = self._table(load)
        shown, there = self._columns(load, version, table), table.schema().column_names
        own = [n for n in (*OF_EVENTS, POSITION, DELETED, ORIGINAL) if n in there]
        head = table.current_snapshot()
        batches: Iterator[pa.RecordBatch] = iter(())
        if head is not None:
            parts = (self._workspace.lake, table, [*shown.types, *own])
            batches = read_load(*parts, load.load_id, head.snapshot_id)
        if load.window.kind == "log":
            batches = _in_order(batches)
        wanted = load.receipt.committed if load.receipt is not None else None
        count = 0
        for batch in batches:
            for first in range(0, batch.num_rows, _ROWS):
                some = batch.slice(first, _ROWS)
                yield from _records(form, shown, some, count)
                count += some.num_rows
        if wanted is not None and count != wanted:
            why = f"raw has {count:,} rows of it, and {wanted:,} were committed"
            raise self._lacking(load, why)

    def _lacking(self, load: Load, why: str) -> RecordsError:
        name = self._contract.name
        return RecordsError(
            f"table {name}: the records of load {load.seq} can't be made: {why}",
            table=name,
            next_step=f"`mirrorlake records {quote(name)} --restart` begins with its current "
            "history",
        )


def _in_order(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of a piece of the log, which is bounded, by the numbers of their events."""
    found = list(batches)
    if found:
        rows = pa.Table.from_batches(found).sort_by(EVENT)
        yield from rows.combine_chunks().to_batches()


def _records(
    form: RecordForm, shown: ShownColumns, batch: pa.RecordBatch, before: int
) -> Iterator[ChangeRecord]:
    """Records of some rows.

    Args:
        before: how many of their load came before them.
    """
    size, names = batch.num_rows, batch.schema.names

    def column(name: str) -> Sequence[Any]:
        return batch.column(name).to_pylist() if name in names else [None] * size

    texts = texts_of(column(ORIGINAL))
    columns = {name: shown.written(name, column(name), texts) for name in shown.types}
    left = [shown.shown_texts(one) for one in texts]
    rows = written_rows(columns, shown.types, left)
    own = zip(*(column(name) for name in (OP, EVENT, POSITION, COMMITTED_AT, DELETED)), strict=True)
    for number, (data, held, (op, event, position, at, gone)) in enumerate(
        zip(rows, left, own, strict=True), before + 1
    ):
        values = [data[n] if data[n] is not None else held.get(n) for n in shown.key]
        if op is None:
            operation: Operation = "DELETE" if gone else "SNAPSHOT"
            yield form.of_row(data, operation, number, key_text(values), None, None)
        else:
            parts = (key_text(values), position, at)
            yield form.of_row(data, _OPERATIONS[op], event, *parts)
