"""Rows whose time went back: their cursor is earlier than the one that the mirror had of them.

A clock that was ahead and is set right, or an application that writes old times, moves a row's
`modified_at` back. Such a row is loaded like any other where a window reaches it; here it is
counted. A live window has no upper bound, so the load before it saw every row whose cursor was
later than this one's start: only those two are compared. A row that went back behind the window is
found by the reload of its old day, which looks it up.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as _compute
import pyarrow.parquet as _parquet
from pyiceberg.io import load_file_io
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from mirrorlake.chunk import ChunkReceipt
from mirrorlake.chunk_plan import ChunkPlan
from mirrorlake.errors import LakeError
from mirrorlake.lake.catalog import Identifier, Lake
from mirrorlake.lake.tables import KEY
from mirrorlake.ledger import Ledger, Load
from mirrorlake.plan import TablePlan, by_time

pc: Any = _compute  # its functions are made at import: type checkers see none of them
pq: Any = _parquet
logger = logging.getLogger(__name__)

MOST = 2_000_000
"""Rows of a window that are compared at most: they are in memory meanwhile."""


def count_backward(
    plan: TablePlan,
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
    if load.window.kind != "live" or plan.contract.mode != "incremental":
        return None
    if not plan.key or not by_time(plan) or sum(r.rows for r in receipts) > MOST:
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
            rows = _rows(chunk, paths, [*names, cursor])
            since = pc.min(rows[cursor])
            if not since.is_valid:
                return 0
            later = pc.field(cursor) > since
            seen = _rows(chunk, _added_by(table, snapshot), [*names, cursor], later)
    except LakeError as error:
        logger.warning("table %s: rows whose time went back are not counted: %s", plan.name, error)
        return None
    return _went_back(rows, seen, names, cursor)


def _went_back(rows: pa.Table, seen: pa.Table, names: list[str], cursor: str) -> int:
    renamed = seen.rename_columns([*names, "_mirror_seen"])
    both = rows.join(renamed, keys=names, join_type="inner")
    return int(pc.sum(pc.less(both[cursor], both["_mirror_seen"])).as_py() or 0)


def _added_by(table: Table, snapshot: Snapshot) -> Iterable[str]:
    """The data files that a snapshot added."""
    for manifest in snapshot.manifests(table.io):
        if manifest.added_snapshot_id != snapshot.snapshot_id:
            continue
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            if entry.status == ManifestEntryStatus.ADDED:
                yield entry.data_file.file_path


def _rows(
    chunk: ChunkPlan, paths: Iterable[str], columns: list[str], where: Any = None
) -> pa.Table:
    """Some columns of data files; ``where`` is tried on row groups first."""
    wanted = pa.schema([chunk.schema.field(name).remove_metadata() for name in columns])
    io = load_file_io(chunk.storage, chunk.location)
    parts = [wanted.empty_table()]
    for path in paths:
        with io.new_input(path).open(seekable=True) as stream:
            found = pq.read_table(stream, columns=columns, filters=where).select(columns)
        arrays = [c.cast(f.type) for c, f in zip(found.columns, wanted, strict=True)]
        parts.append(pa.Table.from_arrays(arrays, schema=wanted))
    return pa.concat_tables(parts)
