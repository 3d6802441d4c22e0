"""What is read of the log at once: rows by table, statements, and how far it goes.

Source: none of a server's; the seam between the log and whatever loads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from mirrorlake.sources.mysql.binlog.events.rows import RowChange
from mirrorlake.sources.mysql.binlog.events.table_map import TableMap
from mirrorlake.sources.mysql.binlog.positions import Gtid, LogPosition, StreamPosition
from mirrorlake.sources.mysql.binlog.statements import PLAIN_SESSION, StatementSession
from mirrorlake.sources.mysql.binlog.table_shape import TableShape

PLACES: Final = pa.schema(
    [
        ("change", pa.int8()),
        ("file", pa.dictionary(pa.int32(), pa.string())),
        ("offset", pa.int64()),
        ("gtid", pa.dictionary(pa.int32(), pa.string())),
        ("row", pa.int64()),
        ("committed_at", pa.timestamp("us", "UTC")),
    ]
)
"""Of each row: a `RowChange`; the file and the offset at which its transaction begins (of an XA
transaction: its XA COMMIT); that one's GTID or NULL; the number of the row image among those of its
table in the transaction, from 0; and when the transaction was committed.

(file, offset, row) is unique in a table, is the same each time the log is read, and orders the
table's changes."""


@dataclass(frozen=True)
class BatchLimits:
    """How much a batch holds at most, but for the event that reaches the limit.

    Attributes:
        rows: row images.
        bytes: of images, as they are in the log.
        seconds: after its first row; a transaction is not cut by time.
    """

    rows: int = 100_000
    bytes: int = 16 * 2**20
    seconds: float = 10.0


class LogTransaction(NamedTuple):
    """The transaction that a row or statement is of; see `PLACES`."""

    at: LogPosition
    gtid: Gtid | None
    committed_at: int


@dataclass(frozen=True)
class TableChanges:
    """Row images of one table, in the log's order.

    Attributes:
        logged: its columns and key as they were at these rows.
        rows: the images: columns by MySQL's names in the types that a SELECT of ours gives, and
            ``_mirror_original`` where a column's values may have none in its type. An update has
            two images, before and after.
        places: what each of them is and where: `PLACES`.
    """

    logged: TableMap
    rows: pa.RecordBatch
    places: pa.RecordBatch

    @property
    def database(self) -> str:
        return self.logged.database

    @property
    def table(self) -> str:
        return self.logged.table


@dataclass(frozen=True)
class LoggedStatement:
    """A statement that is no part of a transaction's control, and names what it will.

    Attributes:
        database: the default one of its session.
        rows_unknown: it may have changed rows that are in no row event: its session's format was
            not ROW, or it commits an XA transaction that was prepared before reading began.
    """

    database: str
    text: str
    transaction: LogTransaction
    rows_unknown: bool
    session: StatementSession = PLAIN_SESSION


@dataclass(frozen=True)
class StoppedTable:
    """A table that is read no further: its rows from ``at`` on are unknown, here and in what
    follows, those of earlier batches of the same open transaction included.

    Attributes:
        error: why, in words for people; its type says the kind.
    """

    database: str
    table: str
    at: LogPosition
    error: Exception


@dataclass(frozen=True)
class LogBatch:
    """A piece of the log: first its rows, then its statements.

    Attributes:
        tables: one for each table, and for each shape that it had, in the order of their first
            rows.
        position: where reading goes on once all before it is kept; of an open batch: before its
            open transaction.
        state: ``complete``: it ends between two transactions. ``open``: its last transaction goes
            on in the next batch. ``void``: that transaction was never committed: what open batches
            had of it is to be forgotten, and is not in this one.
        written_at: when its last event was written, in seconds since 1970; 0: not known.
    """

    tables: tuple[TableChanges, ...]
    statements: tuple[LoggedStatement, ...]
    stopped: tuple[StoppedTable, ...]
    position: StreamPosition
    state: Literal["complete", "open", "void"]
    written_at: int

    @property
    def rows(self) -> int:
        """How many row images it has."""
        return sum(changes.rows.num_rows for changes in self.tables)


class PendingRows:
    """Row images of one shape that are not decoded yet."""

    def __init__(self, shape: TableShape) -> None:
        self.shape = shape
        self.images = bytearray()
        self.starts: list[int] = []
        # A piece is what one event brought: its transaction, its first row's number, its change.
        self._transactions: list[LogTransaction] = []
        self._pieces: list[tuple[int, int, int, RowChange]] = []

    @property
    def first(self) -> LogPosition:
        """Where the first transaction of these rows begins."""
        return self._transactions[0].at

    def note(self, transaction: LogTransaction, first: int, count: int, change: RowChange) -> None:
        """Say what the images are that were added last."""
        if not self._transactions or self._transactions[-1] is not transaction:
            self._transactions.append(transaction)
        self._pieces.append((len(self._transactions) - 1, first, count, change))

    def mark(self) -> tuple[int, int, int, int]:
        """How much there is, for `cut`."""
        counts = len(self._transactions), len(self._pieces)
        return len(self.images), len(self.starts), *counts

    def cut(self, mark: tuple[int, int, int, int]) -> None:
        """Forget what came since."""
        images, starts, transactions, pieces = mark
        del self.images[images:], self.starts[starts:]
        del self._transactions[transactions:], self._pieces[pieces:]

    def decode(self) -> TableChanges:
        """All of them.

        Raises:
            LogUnreadable: a value can't be one of its column.
            SourceError: the server could not be asked for a text.
        """
        rows = self.shape.decode(self.images, self.starts)
        return TableChanges(self.shape.logged, rows, self._places())

    def _places(self) -> pa.RecordBatch:
        pieces = np.array([piece[:3] for piece in self._pieces], dtype=np.int64)
        which, firsts, counts = pieces[:, 0], pieces[:, 1], pieces[:, 2]
        of_transaction = np.repeat(which, counts)
        # Within a piece numbers go up by one.
        offsets = np.arange(len(of_transaction)) - np.repeat(np.cumsum(counts) - counts, counts)
        numbers = np.repeat(firsts, counts) + offsets
        changes = np.repeat(np.array([piece[3] for piece in self._pieces], dtype=np.int8), counts)
        before = (changes == RowChange.UPDATE_AFTER) & (offsets % 2 == 0)
        changes[before] = RowChange.UPDATE_BEFORE
        known = self._transactions
        gtids = [None if one.gtid is None else str(one.gtid) for one in known]
        times = np.array([one.committed_at for one in known], dtype=np.int64)
        arrays: list[Any] = [
            pa.array(changes),
            _repeated([one.at.file for one in known], of_transaction),
            pa.array(np.array([one.at.offset for one in known], dtype=np.int64)[of_transaction]),
            _repeated(gtids, of_transaction),
            pa.array(numbers),
            pa.array(times[of_transaction]).cast(pa.timestamp("us", "UTC")),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=PLACES)


def _repeated(texts: Sequence[str | None], places: Any) -> pa.Array:
    """The texts at these places, each distinct one kept once."""
    keys: Any = pa.array(texts, pa.string()).dictionary_encode()
    return pa.DictionaryArray.from_arrays(keys.indices.take(pa.array(places)), keys.dictionary)
