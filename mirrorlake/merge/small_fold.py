"""A fold of few rows into a small layer without Spark: both are read here, and the layer is written
again as a whole.

It is the rule of `mirrorlake.merge.row_sql.ranks` and of the MERGE in
`mirrorlake.merge.statements`, for layers whose columns are raw's as they are. A row is never taken
apart: only keys are looked at, and rows that stay or come are written as they were read.

What belongs here: which tables are folded so, which by Spark, and which rows stay. What doesn't:
the commit (`mirrorlake.destinations.iceberg.commits.rewritten_rows`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.destinations.base import Condition
from mirrorlake.destinations.iceberg.commits.rewritten_rows import (
    HeldFiles,
    held_files,
    read_whole,
)
from mirrorlake.destinations.iceberg.metadata.statistics import most_rows
from mirrorlake.destinations.iceberg.model import LakeTable, snapshot_property
from mirrorlake.merge.copied_load import is_as_stored
from mirrorlake.merge.fold_plan import Todo
from mirrorlake.merge.statements import Layer, flags, unplaced_key
from mirrorlake.schema.own_columns import DELETED, EVENT, SEQ
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

pc: Any = _compute  # its functions are made at import: type checkers see none of them

SMALL_COPY: Final = 20_000
"""A full copy of up to this many rows replaces the layer's rows; a larger one is merged."""
BYTES: Final = 4 * 2**20
"""A larger layer is left to Spark, which writes what changed: each fold here writes all of it."""
MEMORY: Final = 64 * 2**20
"""Loads that took more memory when they were read are left to Spark."""
FILES: Final = 5_000
"""Raw of more files than this takes long to look through here."""
_KEYS: Final = ("int", "long", "string", "binary", "decimal")
"""Types of which one value has one form here. Days and moments may have had no place in theirs."""

_Key: TypeAlias = tuple[object, ...]


@dataclass(frozen=True)
class SmallFold:
    """A layer written again.

    Attributes:
        held: what it holds.
        rows: what it is to hold.
        read: bytes of the files that were read: the layer's, and the loads'.
        same: whether these are the rows that it holds.
    """

    held: HeldFiles
    rows: pa.Table
    read: int
    same: bool


def _is_small(
    workspace: Workspace, plan: ResolvedTable, layer: LakeTable | None, rows: int = 0
) -> bool:
    """Whether this number of rows can be folded into a layer without Spark, judged by its snapshot
    and the contract alone."""
    held = most_rows(layer) if layer is not None else None
    limit = workspace.config.spark.folds_from
    return held is not None and max(held, rows) < limit and _has_plain_key(plan)


def folds_by_spark(workspace: Workspace, plan: ResolvedTable) -> bool:
    """Whether Spark is expected to fold what is loaded next: it may be started meanwhile. Where it
    turns out to be otherwise, it starts when it is needed, or for nothing.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    if plan.entity is not None or (plan.contract.clean == "table" and plan.clean_rules):
        return True
    table = workspace.lake.load(plan.deduped)
    filled = table is not None and table.current_snapshot() is not None
    replaced = plan.contract.copies and plan.table.estimated_rows <= SMALL_COPY
    return filled and not replaced and not _is_small(workspace, plan, table)


def small_fold(
    workspace: Workspace, plan: ResolvedTable, layer: Layer, todo: Todo, *, whole: bool
) -> SmallFold | None:
    """What a layer is to hold after these loads; None where Spark has to fold them.

    Args:
        whole: whether it is written from these loads alone, whatever it holds.

    Raises:
        LakeError: the catalog or the storage failed, or a file can't be read.
    """
    lake = workspace.lake
    raw, table = lake.load(plan.raw), lake.load(layer.identifier)
    if raw is None or table is None or not _is_small(workspace, plan, table, todo.rows):
        return None
    if table.format_version != 2:
        return None  # PyIceberg writes none other
    if any(load.raw_table != plan.raw.name for load in todo.loads):
        return None  # rows of another version are converted
    if _files(raw) > FILES or _memory(todo) > MEMORY:
        return None
    names = layer.names
    if not is_as_stored(plan, layer, raw) or {f.name for f in table.schema().fields} != {*names}:
        return None
    held = held_files(lake, table)
    if held is None or held.bytes > BYTES:
        return None
    seqs = [load.seq for load in todo.loads]
    own = [SEQ, DELETED, *({EVENT} & {field.name for field in raw.schema().fields})]
    observed = read_whole(lake, raw, [*names, *own], Condition(SEQ, min(seqs), max(seqs)))
    observed = observed.filter(pc.is_in(observed[SEQ], pa.array(seqs, pa.int64())))
    before = read_whole(lake, table, names)
    if any(rows[key].null_count for rows in (observed, before) for key in plan.key):
        return None  # to a MERGE it is the key of no row
    newest, gone = _newest(plan, observed)
    came = observed.take(pa.array([i for i in newest.values() if not gone[i]], pa.int64()))
    came = came.select(names).cast(before.schema)
    keys = list(_keys(plan, before))
    stays = [not whole and key not in newest for key in keys]
    rows = pa.concat_tables([before.filter(pa.array(stays, pa.bool_())), came])
    # Several loads always make a commit, and so do new columns: a version is read by the columns
    # that the table had when it was committed.
    may_stay = not whole and len(todo.loads) == 1 and _has_columns_of_now(table)
    same = may_stay and _is_same(plan, before, keys, stays, came)
    loaded = sum(load.receipt.bytes for load in todo.loads if load.receipt)
    return SmallFold(held, rows, held.bytes + loaded, same)


def _has_plain_key(plan: ResolvedTable) -> bool:
    """Whether keys are told apart by the values that are stored, and rows that MySQL deleted go."""
    contract, types = plan.contract, {e.name: e.iceberg.split("(")[0] for e in plan.columns}
    return (
        bool(plan.key)
        and plan.entity is None
        and (contract.replaces_all or not contract.copies)
        and not (plan.keeps_aliases or flags(plan) or unplaced_key(plan))
        and all(types[name] in _KEYS for name in plan.key)
    )


def _has_columns_of_now(table: LakeTable) -> bool:
    head = table.current_snapshot()
    return head is not None and head.schema_id == table.metadata.current_schema_id


def _files(table: LakeTable) -> int:
    head = table.current_snapshot()
    return int(snapshot_property(head, "total-data-files") or 0) if head is not None else 0


def _memory(todo: Todo) -> int:
    """Bytes of the loads' rows in memory; those of an interrupted run were not counted."""
    receipts = [load.receipt for load in todo.loads]
    return sum(max(r.read_bytes, 4 * r.bytes) if r else MEMORY for r in receipts)


def _newest(plan: ResolvedTable, rows: pa.Table) -> tuple[dict[_Key, int], list[bool]]:
    """Which of these rows is each key's latest observation, and which rows are tombstones."""
    gone: list[bool] = rows[DELETED].to_pylist()
    seqs = rows[SEQ].to_pylist()
    events = rows[EVENT].to_pylist() if EVENT in rows.column_names else [None] * len(seqs)
    ignored = plan.contract.deletes == "ignore"
    found: dict[_Key, int] = {}
    order: dict[_Key, tuple[int, int]] = {}
    for i, key in enumerate(_keys(plan, rows)):
        if ignored and gone[i]:
            continue
        place = (seqs[i], events[i] or 0)
        if key not in order or place > order[key]:
            order[key], found[key] = place, i
    return found, gone


def _keys(plan: ResolvedTable, rows: pa.Table) -> Iterator[_Key]:
    """The key of each row, as values that are equal where the lake's are."""
    return zip(*(rows[name].to_pylist() for name in plan.key), strict=True)


def _is_same(
    plan: ResolvedTable, before: pa.Table, keys: list[_Key], stays: list[bool], came: pa.Table
) -> bool:
    """Whether the rows that go are those that come. Of columns with -0.0, Arrow can't say."""
    if any(pa.types.is_floating(field.type) for field in before.schema):
        return False
    places = {key: i for i, key in enumerate(keys) if not stays[i]}
    wanted = [places.get(key) for key in _keys(plan, came)]
    if None in wanted or len(wanted) != stays.count(False):
        return False
    return before.take(pa.array(wanted, pa.int64())).equals(came)
