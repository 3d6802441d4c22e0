"""Row events → images by table, until somebody takes them; a table that can't be read is stopped.

Source: MySQL source, ``binary_log::Rows_event``; MySQL 8.0 manual, ``binlog_row_image``,
``binlog_row_value_options``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mirrorlake.errors import MirrorlakeError, SchemaError, SourceError
from mirrorlake.sources.mysql.binlog.byte_reader import unreadable
from mirrorlake.sources.mysql.binlog.column_forms import ServerForms
from mirrorlake.sources.mysql.binlog.events import event_kinds as kinds
from mirrorlake.sources.mysql.binlog.events.framing import LogEvent
from mirrorlake.sources.mysql.binlog.events.rows import (
    NO_TABLE,
    RowChange,
    read_images,
    table_id_of_rows,
)
from mirrorlake.sources.mysql.binlog.events.table_map import read_names, read_table_map, table_id_of
from mirrorlake.sources.mysql.binlog.log_batches import (
    LogTransaction,
    PendingRows,
    StoppedTable,
    TableChanges,
)
from mirrorlake.sources.mysql.binlog.positions import LogPosition
from mirrorlake.sources.mysql.binlog.row_scanner import scan_images
from mirrorlake.sources.mysql.binlog.table_shape import FollowedTable, TableShape

_MOST_KNOWN = 20_000
_IMAGE_STEP = "Run SET GLOBAL binlog_row_image = FULL, see that no session sets another, and read "
_JSON_STEP = "Run SET GLOBAL binlog_row_value_options = '', and read the table again"


@dataclass(frozen=True)
class _Known:
    """What a TABLE_MAP event meant when it was met first; no shape: its rows are not wanted."""

    name: tuple[str, str]
    followed: FollowedTable | None
    shape: TableShape | None


class RowGatherer:
    """Images that were read and not taken.

    Attributes:
        rows, bytes: how many there are, of all tables together.
    """

    def __init__(
        self, tables: Mapping[tuple[str, str], FollowedTable], server: ServerForms
    ) -> None:
        self._tables, self._server = tables, server
        self._known: dict[bytes, _Known] = {}
        self._by_id: dict[int, _Known] = {}
        self._pending: dict[TableShape, PendingRows] = {}
        self._marks: dict[TableShape, tuple[int, int, int, int]] = {}
        self._stopped: set[tuple[str, str]] = set()
        self._stops: list[StoppedTable] = []
        # Tables of which the open transaction has rows, in batches that were taken too.
        self._touched: set[tuple[str, str]] = set()
        self.rows = self.bytes = 0

    @property
    def is_empty(self) -> bool:
        return not self._pending and not self._stops

    @property
    def has_open_rows(self) -> bool:
        """Whether there are rows of the open transaction."""
        return bool(self._marks)

    def begin(self) -> None:
        """A transaction begins: tables get their numbers anew."""
        self._by_id.clear()

    def end(self) -> None:
        """The open transaction is done: its rows stay."""
        self._marks.clear()
        self._touched.clear()

    def void(self) -> None:
        """The open transaction's rows are to be forgotten."""
        for shape in list(self._marks):
            self._cut(shape)
        self.end()

    def resume(self, database: str, table: str) -> None:
        """A table that was stopped is wanted again."""
        self._stopped.discard((database, table))
        self._known.clear()

    def add(
        self,
        event: LogEvent,
        transaction: LogTransaction,
        numbers: dict[tuple[str, str], int],
        *,
        mariadb: bool,
    ) -> None:
        """Take in a TABLE_MAP or row event of the open transaction.

        Args:
            numbers: how many images each table had in the transaction so far.
        """
        if event.kind == kinds.TABLE_MAP:
            self._by_id[table_id_of(event.body)] = self._know(event.body, transaction.at, mariadb)
            return
        table_id = table_id_of_rows(event)
        if table_id == NO_TABLE:
            return
        known = self._by_id.get(table_id)
        if known is None:
            raise unreadable(f"An event ({event.name})", "no event says of which table it is")
        if known.shape is None or known.name in self._stopped:
            return
        try:
            count = self._gather(event, known.shape, transaction, numbers.get(known.name, 0))
        except MirrorlakeError as error:
            self._stop(known.name, transaction.at, error)
            return
        self.rows += count
        numbers[known.name] = numbers.get(known.name, 0) + count
        self._touched.add(known.name)

    def _know(self, body: bytes, at: LogPosition, mariadb: bool) -> _Known:
        known = self._known.get(body[8:])
        if known is not None and self._tables.get(known.name) is known.followed:
            return known
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        name = read_names(body)
        followed, shape = self._tables.get(name), None
        if followed is not None and name not in self._stopped:
            try:
                shape = TableShape(read_table_map(body, mariadb=mariadb), followed, self._server)
            except MirrorlakeError as error:
                self._stop(name, at, error)
        found = _Known(name, followed, shape)
        self._known[body[8:]] = found
        return found

    def _gather(
        self, event: LogEvent, shape: TableShape, transaction: LogTransaction, first: int
    ) -> int:
        """Add an event's images; returns how many."""
        _refuse_partial(event, shape)
        images = read_images(event)
        if images.columns != len(shape.widths):
            raise unreadable(f"An event ({event.name})", "it has not its table's columns")
        if not images.whole:
            raise SourceError(
                f"table {shape.logged.name} has rows in the binary log without all of their "
                "columns: binlog_row_image is not FULL, or the server leaves out generated columns "
                "(MariaDB 11.8)",
                table=shape.logged.name,
                next_step=f"{_IMAGE_STEP}the table again; or use another `mode` for a table with "
                "generated columns",
            )
        pending = self._pending.get(shape)
        if pending is None:
            pending = self._pending[shape] = PendingRows(shape)
        before = pending.mark()
        self._marks.setdefault(shape, before)
        at = len(pending.images)
        pending.images += memoryview(images.bytes)[images.at :]
        try:
            count = scan_images(shape.scan, pending.images, at, pending.starts)
            if images.change is RowChange.UPDATE_AFTER and count % 2:
                raise unreadable(f"An event ({event.name})", "an update has one image")
        except MirrorlakeError:
            pending.cut(before)
            raise
        self.bytes += len(pending.images) - at
        pending.note(transaction, first, count, images.change)
        return count

    def roll_back(self, transaction: LogTransaction, *, whole: bool) -> None:
        """The open transaction, or a part of it, was undone after its rows were logged. Which rows
        stayed depends on the tables' engines, so its tables are stopped."""
        for name in sorted(self._touched):
            what = "a transaction that was" if whole else "a part of a transaction that was"
            error = SourceError(
                f"table {'.'.join(name)} has rows in the binary log of {what} rolled back",
                table=".".join(name),
                next_step="Read the table again",
            )
            self._stop(name, transaction.at, error)

    def _stop(self, name: tuple[str, str], at: LogPosition, error: Exception) -> None:
        if name in self._stopped:
            return
        self._stopped.add(name)
        self._stops.append(StoppedTable(*name, at, error))
        for shape in [s for s in self._marks if (s.logged.database, s.logged.table) == name]:
            self._cut(shape)

    def _cut(self, shape: TableShape) -> None:
        """Forget what the open transaction brought of a shape."""
        mark, pending = self._marks.pop(shape), self._pending[shape]
        self.bytes -= len(pending.images) - mark[0]
        self.rows -= len(pending.starts) - mark[1]
        pending.cut(mark)
        if not pending.starts:
            del self._pending[shape]

    def take(self) -> tuple[tuple[TableChanges, ...], tuple[StoppedTable, ...]]:
        """All of it, decoded; a table with a value that can't be decoded is stopped."""
        found: list[TableChanges] = []
        for shape, pending in self._pending.items():
            name = shape.logged.database, shape.logged.table
            if not pending.starts or self._is_cut_short(name, pending):
                continue
            try:
                found.append(pending.decode())
            except (MirrorlakeError, ArithmeticError, ValueError) as error:
                self._stopped.add(name)
                self._stops.append(StoppedTable(*name, pending.first, error))
        self._pending.clear()
        self._marks.clear()
        self.rows = self.bytes = 0
        stops, self._stops = tuple(self._stops), []
        return tuple(found), stops

    def _is_cut_short(self, name: tuple[str, str], pending: PendingRows) -> bool:
        """Whether an earlier shape of the table, in the same batch, could not be decoded."""
        return any(
            (stop.database, stop.table) == name and not pending.first < stop.at
            for stop in self._stops
        )


def _refuse_partial(event: LogEvent, shape: TableShape) -> None:
    if event.kind == kinds.PARTIAL_UPDATE_ROWS:
        raise SchemaError(
            f"table {shape.logged.name} has partial updates of JSON in the binary log",
            table=shape.logged.name,
            next_step=_JSON_STEP,
        )
