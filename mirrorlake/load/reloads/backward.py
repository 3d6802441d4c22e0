"""Rows whose time went back: their cursor is earlier than the one that the mirror had of them.

A clock that was ahead and is set right, or an application that writes old times, moves a row's
`modified_at` back. Such a row is loaded like any other where a window reaches it; here it is
counted. A live window has no upper bound, so the load before it saw every row whose cursor was
later than this one's start: only those two are compared. A row that went back behind the window is
found by the reload of its old day, which looks it up.

However large the window is, what is in memory is bounded: of the load before only the rows later
than the window's first time matter (its overlap, and rows of the future), a batch of them at a
time; the window's own rows pass by in batches, those earlier than the latest of them alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as _compute
import pyarrow.dataset as _dataset

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import added_files, open_storage
from mirrorlake.errors import LakeError
from mirrorlake.ledger import Ledger, Load
from mirrorlake.load.chunks.receipt import ChunkReceipt
from mirrorlake.load.chunks.statements import ChunkPlan
from mirrorlake.schema.own_columns import KEY
from mirrorlake.table.resolve import ResolvedTable, by_time

pc: Any = _compute  # its functions are made at import: type checkers see none of them
ds: Any = _dataset
logger = logging.getLogger(__name__)

MOST = 1_000_000
"""Rows of the load before that are in memory at a time; the window is read once for each part."""
BATCH = 65_536
_SEEN = "_mirror_seen"
Batches = Callable[[Any], Iterable[pa.Table]]
"""Reads rows in parts: those that fulfil a condition."""


def count_backward(
    plan: ResolvedTable,
    load: Load,
    chunk: ChunkPlan,
    receipts: Sequence[ChunkReceipt],
    ledger: Ledger,
    lake: Lake,
) -> int | None:
    """How many rows of a live window have an earlier time than the load before it saw; None where
    that was not looked at.

    The caller has written the rows' files (``receipts``) and not committed them.
    """
    if load.window.kind != "live" or not plan.contract.rereads:
        return None
    if not plan.key or not by_time(plan):
        return None
    before = ledger.last_load(plan.name, "success", moving=True)
    paths = [path for receipt in receipts for path in receipt.paths]
    if before is None:
        return None
    if before.snapshot_id is None or not paths:
        return 0  # it saw no row at all
    cursor = str(chunk.cursor)
    names = [KEY] if plan.keeps_aliases else list(plan.key)
    try:
        with lake.translated(plan.name):
            table = lake.load(Identifier(plan.raw.namespace, before.raw_table))
            snapshot = table.snapshot_by_id(before.snapshot_id) if table is not None else None
            if table is None or snapshot is None:
                return None
            columns, old = [*names, cursor], list(added_files(table, snapshot))
            return went_back(
                _rows(chunk, paths, [cursor], None),
                lambda where: _rows(chunk, paths, columns, where),
                lambda where: _rows(chunk, old, columns, where),
                names,
                cursor,
            )
    except LakeError as error:
        logger.warning("table %s: rows whose time went back are not counted: %s", plan.name, error)
        return None


def went_back(
    times: Iterable[pa.Table], rows: Batches, seen: Batches, names: Sequence[str], cursor: str
) -> int:
    """How many rows have an earlier cursor than one that was seen under their key.

    Args:
        times: the cursors of a window's rows.
        rows, seen: its rows, and those of the load before: their keys and cursors.
        names: the columns of the key.
        cursor: the column of the cursor; a row without a value in it is left out.
    """
    first = _extreme(pc.min, times, cursor)
    if first is None:
        return 0
    return sum(_count(rows, part, names, cursor) for part in _parts(seen(pc.field(cursor) > first)))


def _parts(batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows, up to `MOST` at a time."""
    kept: list[pa.Table] = []
    for batch in batches:
        if kept and sum(one.num_rows for one in kept) + batch.num_rows > MOST:
            yield pa.concat_tables(kept)
            kept = []
        kept.append(batch)
    if kept:
        yield pa.concat_tables(kept)


def _count(rows: Batches, seen: pa.Table, names: Sequence[str], cursor: str) -> int:
    last = _extreme(pc.max, [seen], cursor)
    renamed = seen.rename_columns([*names, _SEEN])
    found = 0
    for batch in rows(pc.field(cursor) < last) if last is not None else ():
        both = batch.join(renamed, keys=list(names), join_type="inner")
        found += int(pc.sum(pc.less(both[cursor], both[_SEEN])).as_py() or 0)
    return found


def _extreme(which: Any, batches: Iterable[pa.Table], column: str) -> Any:
    """The least or the greatest value of a column, None where there is none."""
    ends = [end for batch in batches if (end := which(batch[column])).is_valid]
    return which(pa.array([end.as_py() for end in ends], ends[0].type)) if ends else None


def _rows(
    chunk: ChunkPlan, paths: Iterable[str], columns: Sequence[str], where: Any
) -> Iterator[pa.Table]:
    """Some columns of data files, in parts; ``where`` is tried on row groups first."""
    wanted = pa.schema([chunk.schema.field(name).remove_metadata() for name in columns])
    io = open_storage(chunk.storage, chunk.location)
    for path in paths:
        with io.new_input(path).open(seekable=True) as stream:
            file = ds.ParquetFileFormat().make_fragment(pa.PythonFile(stream, mode="r"))
            reading = file.to_batches(
                columns=list(columns), filter=where, batch_size=BATCH, batch_readahead=1
            )
            for batch in reading:
                arrays = [c.cast(f.type) for c, f in zip(batch.columns, wanted, strict=True)]
                yield pa.Table.from_arrays(arrays, schema=wanted)
