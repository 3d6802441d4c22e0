"""Rows from a server's binary log, as a load's row source.

Of each change raw gets what there is after it; of a row that is gone, or that has another key now,
a tombstone with what it was. In one load they are numbered in the log's order.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.errors import LogUnreadable, SourceError
from mirrorlake.load.chunks.convert import cast_exact, with_own_columns
from mirrorlake.load.chunks.row_source import OnRows, Rows
from mirrorlake.load.chunks.statements import ChunkPlan
from mirrorlake.schema.own_columns import COMMITTED_AT, DAY, DELETED, EVENT, OP, ORIGINAL, POSITION
from mirrorlake.schema.versions import Exact
from mirrorlake.sources.mysql.binlog.events.rows import RowChange
from mirrorlake.sources.mysql.binlog.log_batches import TableChanges
from mirrorlake.sources.mysql.binlog.positions import LogPosition
from mirrorlake.sources.mysql.reading.route import Heed
from mirrorlake.sources.mysql.sessions.connect import SourcePosition

pc: Any = _compute  # its functions are made at import: type checkers see none of them

_OPS: Final = {
    RowChange.INSERT: "insert",
    RowChange.UPDATE_BEFORE: "delete",
    RowChange.UPDATE_AFTER: "update",
    RowChange.DELETE: "delete",
}
_Mask = npt.NDArray[np.bool_]


def in_mysql(exact: Exact) -> str:
    """What MySQL calls a column."""
    return exact.source or exact.name


@dataclass(frozen=True)
class LogRows:
    """The changes of one table, as they are to be loaded.

    Attributes:
        changes: in the log's order; read once.
        since: transactions that begin before this place are in raw already.
        key: the key's columns, as the lake calls them; none: each image is kept.
        seen: where the source stood.
    """

    changes: Iterable[TableChanges]
    since: LogPosition
    key: Sequence[str]
    seen: SourcePosition

    def read(self, part: ChunkPlan, heed: Heed | None = None, report: OnRows | None = None) -> Rows:  # noqa: ARG002 - all is here
        """See `RowSource.read`."""
        return Rows(part, self.seen, self._batches(part))

    def _batches(self, part: ChunkPlan) -> Generator[pa.Table]:
        number, last = 1, None
        for changes in self.changes:
            first, end = _place_of(changes, 0), _place_of(changes, changes.rows.num_rows - 1)
            if last is not None and not last < first:
                raise LogUnreadable(
                    f"the binary log of source {part.source.name} gives changes of {part.name} out "
                    "of order",
                    table=part.name,
                )
            last = end
            kept = np.flatnonzero(self._kept(part, changes))
            if len(kept):
                yield self._raw(part, changes, kept, number)
                number += len(kept)

    def _kept(self, part: ChunkPlan, changes: TableChanges) -> _Mask:
        """Which images raw gets: new ones, and of updates the image before only where it may be of
        another key, or there is none: rows are counted then."""
        kept = is_new(changes.places, self.since)
        before = np.flatnonzero(_column(changes.places, "change") == RowChange.UPDATE_BEFORE)
        if len(before) and self.key:
            kept[before[self._same_key(part, changes.rows, before)]] = False
        return kept

    def _same_key(self, part: ChunkPlan, rows: pa.RecordBatch, before: Any) -> _Mask:
        """Of images before an update, whether the image after them surely has the same key."""
        same = np.ones(len(before), dtype=bool)
        for exact in part.columns:
            if exact.name in self.key:
                cells = rows.column(in_mysql(exact))
                pairs = cells.take(pa.array(before)), cells.take(pa.array(before + 1))
                # NULL stands for a value without a place in its type: its text would tell.
                same &= pc.fill_null(pc.equal(*pairs), False).to_numpy(zero_copy_only=False)
        return same

    def _raw(self, part: ChunkPlan, changes: TableChanges, kept: Any, first: int) -> pa.Table:
        rows, places = changes.rows.take(pa.array(kept)), changes.places.take(pa.array(kept))
        columns: dict[str, Any] = {}
        for exact in part.columns:
            wanted = part.schema.field(exact.name).type
            columns[exact.name] = cast_exact(part, exact, rows.column(in_mysql(exact)), wanted)
        if ORIGINAL in rows.schema.names:
            columns |= _originals(part, rows.column(ORIGINAL))
        change = pc.cast(places.column("change"), pa.int8())
        committed = places.column("committed_at")
        columns[EVENT] = pa.array(np.arange(first, first + len(kept), dtype=np.int64))
        columns[OP] = pa.array(_OP_TEXTS).take(change)
        columns[DELETED] = pa.array(_GONE).take(change)
        columns[POSITION] = _position_texts(places)
        columns[COMMITTED_AT] = committed
        columns[DAY] = committed.cast(pa.date32(), safe=False)
        return with_own_columns(part, columns, len(kept), "")


_OP_TEXTS: Final = [_OPS[change] for change in RowChange]
_GONE: Final = [_OPS[change] == "delete" for change in RowChange]


def _column(places: pa.RecordBatch, name: str) -> Any:
    return places.column(name).to_numpy(zero_copy_only=False)


def is_new(places: pa.RecordBatch, since: LogPosition) -> _Mask:
    """Which images are of transactions that begin at a place or later."""
    files: Any = places.column("file")
    later = np.array([LogPosition(f, since.offset) > since for f in files.dictionary.to_pylist()])
    same = np.array([f == since.file for f in files.dictionary.to_pylist()])
    of_row = files.indices.to_numpy()
    return later[of_row] | (same[of_row] & (_column(places, "offset") >= since.offset))


def _place_of(changes: TableChanges, row: int) -> tuple[LogPosition, int]:
    places = changes.places
    file, offset = places.column("file")[row].as_py(), places.column("offset")[row].as_py()
    return LogPosition(file, offset), places.column("row")[row].as_py()


def _position_texts(places: pa.RecordBatch) -> Any:
    """Of each row its transaction's GTID; of one that has none, where the transaction begins."""
    gtid = places.column("gtid").cast(pa.string())
    file, offset = places.column("file").cast(pa.string()), places.column("offset")
    where = pc.binary_join_element_wise(file, offset.cast(pa.string()), ":")
    return pc.coalesce(gtid, where)


def _originals(part: ChunkPlan, entries: Any) -> dict[str, Any]:
    """Original texts under the names that their columns have in the lake, sorted by them.

    Raises:
        SourceError: raw has no place for them.
    """
    if entries.null_count == len(entries):
        return {}
    if ORIGINAL not in part.schema.names:
        raise SourceError(
            f"the binary log has a value of {part.name} that has no place in its column's type",
            source=part.source.name,
            table=part.name,
            next_step="Use mode incremental or full for it",
        )
    wanted = part.schema.field(ORIGINAL).type
    names = {in_mysql(exact): exact.name for exact in part.columns}
    if all(name == own for name, own in names.items()):
        return {ORIGINAL: entries.cast(wanted)}

    def renamed(texts: list[dict[str, str]] | None) -> list[dict[str, str]] | None:
        kept = [{**one, "column": names[one["column"]]} for one in texts or ()]
        return sorted(kept, key=lambda one: one["column"]) or None

    return {ORIGINAL: pa.array([renamed(texts) for texts in entries.to_pylist()], wanted)}
