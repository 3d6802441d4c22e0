"""What a reload of past days replaces, and where the keys went that had left these days.

The small windows of a day hold versions of rows that MySQL has changed since. A reload reads the
day once more and takes their place, in one commit. Keys that they held and the reload did not
return have moved on: they are looked up by key. A row that is there is written as a newer
observation; a key that is not gets a tombstone. So no key loses its newest state with the files
that go.

What an earlier reload wrote, or an initial load of a day that had ended, stays: a later reload
only adds, and never destroys what MySQL has no more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as _compute
import pyarrow.parquet as pq

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.commit import delete_files
from mirrorlake.destinations.iceberg.commits.data_files import write_files
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.metadata.conditions import (
    EVERY_ROW,
    Condition,
    raw_day,
    raw_days,
)
from mirrorlake.destinations.iceberg.metadata.expressions import expression
from mirrorlake.destinations.iceberg.model import LakeTable, open_storage
from mirrorlake.errors import LakeError, SourceError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Load, Window
from mirrorlake.load.attempt import Attempt
from mirrorlake.load.chunks.chunk_task import load_chunk
from mirrorlake.load.chunks.receipt import ChunkReceipt
from mirrorlake.load.chunks.select_rows import SELECT
from mirrorlake.load.chunks.statements import ChunkPlan
from mirrorlake.load.row_hashes.digest import digest_of
from mirrorlake.load.shrink_guard import refuse_removals
from mirrorlake.runtime.plural import plural
from mirrorlake.schema.own_columns import DAY, DELETED, KEY, LOAD, LOADED_AT, SEQ, TOKEN
from mirrorlake.schema.versions import FIRST_CREATED
from mirrorlake.sources.mysql.reading.keys import key_condition
from mirrorlake.sources.mysql.reading.limits import reading
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.table.windows import days_of, end_of_day, replaced_from

pc: Any = _compute  # its functions are made at import: type checkers see none of them

_KEYS_PER_LOOKUP = 1_000
_EPOCH = date(1970, 1, 1)  # PyIceberg gives a day of a partition as days from here


@dataclass(frozen=True)
class Replacement:
    """What a reload adds beside the days it read, and what it takes away.

    Attributes:
        receipts: of the chunks that looked keys up, and of the tombstones' file.
        removes: paths of the small windows' files, all whose keys are accounted for.
        looked_up, gone: rows found by key, and keys that MySQL has no more.
        backward: of those that were found, the ones that now belong to an earlier day.
    """

    receipts: tuple[ChunkReceipt, ...] = ()
    removes: frozenset[str] = frozenset()
    looked_up: int = 0
    gone: int = 0
    backward: int = 0


NOTHING = Replacement()


def replace_small_loads(
    attempt: Attempt, chunk: ChunkPlan, receipts: Sequence[ChunkReceipt]
) -> Replacement:
    """Look up what moved on, and say which files the reload takes the place of.

    Args:
        chunk: any chunk of the load: the others differ from it in number and condition alone.
        receipts: of the chunks that read and wrote the days.

    Raises:
        SourceError: MySQL could not be queried; what was written here is removed again.
        TooFewRows: it has so few of the rows that a person has to look.
        LakeError: the lake could not be read or written.
    """
    plan = attempt.plan
    held, files = _held_rows(attempt, chunk)
    if held is None or held.num_rows == 0:
        return NOTHING
    names = _names(plan)
    returned = _keys_in(attempt, chunk, receipts)
    moved = _without(_latest(held, plan), returned, names)
    number = max((r.number for r in receipts), default=-1) + 1
    key = tuple(plan.table.column(name) for name in plan.key)
    found: list[ChunkReceipt] = []
    try:
        for keys in _batches(moved):
            lookup = dataclasses.replace(
                chunk, number=number + len(found), where=key_condition(key, keys)
            )
            with reading(lookup.source):
                found.append(load_chunk(lookup, SELECT))
        there = _keys_in(attempt, chunk, found)
        back = _moved_back(attempt, chunk, moved, found)
        gone = _without(moved, there, names)
        lake = attempt.workspace.lake
        refuse_removals(plan.contract, lake, gone.num_rows, lambda: _still_shown(lake, plan, gone))
        if gone.num_rows:
            found.append(write_tombstones(chunk, gone, found[-1], number + len(found)))
    except BaseException:
        paths = [path for receipt in found for path in receipt.paths]
        delete_files(attempt.workspace.lake, plan.raw, paths)
        raise
    failpoint("reload.looked_up")
    # Where a row is kept though MySQL deleted it, its newest version must stay in raw as well.
    covered = pa.concat_tables([returned, there])
    if plan.contract.deletes == "remove":
        covered = pa.concat_tables([covered, gone.select(returned.column_names)])
    return Replacement(
        receipts=tuple(found),
        removes=_removable(plan, chunk, held, files, covered),
        looked_up=sum(r.rows for r in found) - gone.num_rows,
        gone=gone.num_rows,
        backward=back,
    )


def _still_shown(lake: Lake, plan: ResolvedTable, gone: pa.Table) -> int:
    """How many of these keys deduped shows: an earlier repair may have taken them out."""
    table = lake.load(plan.deduped)
    if table is None:
        return 0
    names = list(plan.key)
    with lake.translated(plan.deduped):
        shown = table.scan(selected_fields=tuple(names)).to_arrow().select(names)
    keys = gone.select(names).cast(shown.schema)
    return gone.num_rows - _without(keys, shown, names).num_rows


def refuse_fewer_rows(attempt: Attempt, receipts: Sequence[ChunkReceipt]) -> None:
    """See that days of a table without a key came back with no fewer rows than raw holds.

    Their rows are replaced as a whole, so what MySQL has no more would be destroyed.

    Raises:
        SourceError: there are fewer.
    """
    plan = attempt.plan
    table = attempt.workspace.lake.load(plan.raw)
    held = sum(task.file.record_count for task in _tasks(attempt, table)) if table else 0
    read = sum(receipt.rows for receipt in receipts)
    if read < held:
        first, last = days_of(attempt.load.window)
        raise SourceError(
            f"table {plan.name}: {first} to {last} came back with {plural(read, 'row')}, and the "
            f"mirror holds {held}: without a key the days would be replaced, and rows lost",
            table=plan.name,
            next_step="If MySQL deleted them on purpose, leave these days alone; else look there",
        )


def replaced_by(plan: ResolvedTable, window: Window) -> Condition | None:
    """What of the raw table a load stands in for.

    A full copy: the copy of the same day. A table without a key: the days that it read again,
    whole.
    """
    if window.kind == "full":
        return raw_day(window.day)
    if plan.key:
        return None  # a reload's files are named one by one
    if window.kind == "reload":
        return raw_days(*days_of(window))
    if window.lo is None:
        return EVERY_ROW
    return raw_days(replaced_from(plan, window))


def _names(plan: ResolvedTable) -> list[str]:
    """The columns that tell keys apart as the server does."""
    return [KEY] if plan.keeps_aliases else list(plan.key)


def _columns(plan: ResolvedTable) -> list[str]:
    # Of an entity's first time too: a file goes only when another one holds what it recorded.
    of_entity = [TOKEN, FIRST_CREATED] if plan.entity else []
    return [*plan.key, *([KEY] if plan.keeps_aliases else []), *of_entity]


# --- what small windows hold ----------------------------------------------------------------------


def _held_rows(attempt: Attempt, chunk: ChunkPlan) -> tuple[pa.Table | None, list[str]]:
    """The keys in the files of small windows, each row with its file's number, and the files.

    Of raw tables of older schema versions too: their keys may have moved on as well.
    """
    plan, ledger = attempt.plan, attempt.workspace.ledger
    if any(pa.types.is_floating(chunk.schema.field(k).type) for k in plan.key):
        return None, []  # 0.0 and -0.0 are one key to the server, and two to us
    # What an earlier history holds was read by another key, perhaps; no fold reaches it.
    loads = {load.load_id: load for load in ledger.successful_loads(plan.name)}
    files: list[str] = []
    parts: list[pa.Table] = []
    for version in ledger.schema_versions(plan.name):
        table = attempt.workspace.lake.load(Identifier(plan.raw.namespace, version.raw_table))
        for task in _tasks(attempt, table) if table else ():
            path, day = task.file.file_path, _EPOCH + timedelta(days=task.file.partition[0])
            if _is_small(plan, loads.get(load_of(path)), day):
                parts.append(_read_keys(attempt, chunk, path, len(files), day))
                files.append(path)
    return (pa.concat_tables(parts) if parts else None), files


def _tasks(attempt: Attempt, table: LakeTable) -> list[Any]:
    days = raw_days(*days_of(attempt.load.window))
    with attempt.workspace.lake.translated(attempt.plan.name):
        return list(table.scan(row_filter=expression(days)).plan_files())


def load_of(path: str) -> str:
    """The id of the load that wrote a raw file."""
    return path.rsplit("/", 1)[-1].split("-", 1)[0]


def _is_small(plan: ResolvedTable, load: Load | None, day: date) -> bool:
    """Whether a load read a day while it was open; a load that the ledger doesn't know did not."""
    if load is None or load.receipt is None or load.window.kind not in ("live", "initial"):
        return False
    moment = datetime.fromisoformat(load.receipt.moment).replace(tzinfo=UTC)
    # A live window's view of a day that had ended is its overlap alone, not the day.
    return load.window.kind == "live" or moment < end_of_day(plan, day)


def _read_keys(attempt: Attempt, chunk: ChunkPlan, path: str, number: int, day: date) -> pa.Table:
    rows = read_columns(attempt, chunk, path, [*_columns(attempt.plan), SEQ])
    rows = rows.append_column("_file", pa.repeat(pa.scalar(number, pa.int32()), rows.num_rows))
    return rows.append_column(DAY, pa.repeat(pa.scalar(day, pa.date32()), rows.num_rows))


def read_columns(attempt: Attempt, chunk: ChunkPlan, path: str, columns: list[str]) -> pa.Table:
    """Some columns of a data file, in the raw table's types."""
    io = open_storage(chunk.storage, chunk.location)
    wanted = pa.schema([chunk.schema.field(c).remove_metadata() for c in columns])
    with (
        attempt.workspace.lake.translated(attempt.plan.name),
        io.new_input(path).open(seekable=True) as stream,
    ):
        found = pq.read_table(stream, columns=columns).select(columns)
        return pa.Table.from_arrays(
            [c.cast(f.type) for c, f in zip(found.columns, wanted, strict=True)], schema=wanted
        )


def _keys_in(attempt: Attempt, chunk: ChunkPlan, receipts: Sequence[ChunkReceipt]) -> pa.Table:
    """The keys in the files that these chunks wrote."""
    columns = _columns(attempt.plan)
    wanted = pa.schema([chunk.schema.field(c).remove_metadata() for c in columns])
    parts = [read_columns(attempt, chunk, path, columns) for r in receipts for path in r.paths]
    return pa.concat_tables([wanted.empty_table(), *parts])


def _moved_back(
    attempt: Attempt, chunk: ChunkPlan, moved: pa.Table, receipts: Sequence[ChunkReceipt]
) -> int:
    """How many of the rows that were looked up lie in an earlier raw day than they were held in."""
    names = _names(attempt.plan)
    columns = [*names, DAY]
    parts = [read_columns(attempt, chunk, path, columns) for r in receipts for path in r.paths]
    if not parts or not attempt.plan.contract.rereads:
        return 0
    held = moved.select(columns).rename_columns([*names, "_held"])
    both = pa.concat_tables(parts).join(held, keys=names, join_type="inner")
    return int(pc.sum(pc.less(both[DAY], both["_held"])).as_py() or 0)


# --- what moved on --------------------------------------------------------------------------------


def _latest(held: pa.Table, plan: ResolvedTable) -> pa.Table:
    """One row a key: its columns and its day as the newest of these loads saw them.

    A key with a part that has no place in its column (a zero date) can't be looked up: it is left
    out, and so its file stays.
    """
    names, complete = _names(plan), held
    for name in plan.key:
        complete = complete.filter(pc.is_valid(complete[name]))
    ordered = complete.sort_by(SEQ)
    numbers = pa.array(range(ordered.num_rows), pa.int64())
    newest = ordered.append_column("_row", numbers).group_by(names).aggregate([("_row", "max")])
    return ordered.take(newest["_row_max"]).select([*_columns(plan), DAY])


def _without(rows: pa.Table, other: pa.Table, names: list[str]) -> pa.Table:
    """The rows whose key is not in ``other``; in the same columns."""
    keys = other.select(names).group_by(names).aggregate([])
    return rows.join(keys, keys=names, join_type="left anti").select(rows.column_names)


def _check_written(chunk: ChunkPlan, rows: pa.Table, paths: Sequence[str]) -> None:
    """Tombstones are no rows of MySQL's, and no proof compares them: a wrong key in a file would
    take another row out, so each file is read again.

    Raises:
        LakeError: what was written is not what was to be.
    """
    io, count, digest = open_storage(chunk.storage, chunk.location), 0, 0
    for path in paths:
        with io.new_input(path).open() as stream:
            read = pq.ParquetFile(stream).read(rows.column_names)
        arrays = [read[field.name].cast(field.type) for field in rows.schema]
        found = pa.Table.from_arrays(arrays, names=rows.column_names)
        count, digest = count + found.num_rows, digest + digest_of(found)
    if (count, digest % 2**64) != (rows.num_rows, digest_of(rows)):
        raise LakeError(
            f"table {chunk.name}: the storage gives back other tombstones than were written",
            table=chunk.name,
            next_step="Nothing of this load is visible. See that the storage gives back what it "
            "was given, then sync again",
            retryable=True,
        )


def write_tombstones(
    chunk: ChunkPlan, gone: pa.Table, seen: ChunkReceipt, number: int, suffix: str = ""
) -> ChunkReceipt:
    """One file a day of rows that hold a key, and nothing but that it is gone.

    Args:
        chunk: any chunk of the load.
        gone: the key's columns, with the raw day of each.
        seen: the receipt of the statement that did not return them.
        suffix: what the files' names have after the number.
    """
    constants = {
        LOAD: pa.scalar(chunk.load_id),
        SEQ: pa.scalar(chunk.seq, pa.int64()),
        LOADED_AT: pa.scalar(datetime.now(UTC), pa.timestamp("us", "UTC")),
        DELETED: pa.scalar(True),
    }
    arrays = [
        gone[f.name].cast(f.type)
        if f.name in gone.column_names
        else pa.repeat(constants.get(f.name, pa.scalar(None, f.type)).cast(f.type), gone.num_rows)
        for f in chunk.schema
    ]
    rows = pa.Table.from_arrays(arrays, schema=chunk.schema)
    stem = f"{chunk.load_id}-{chunk.attempt}-{number:05d}{suffix}"
    written = write_files(chunk.storage, chunk.location, stem, rows, chunk.iceberg)
    told = [name for name in gone.column_names if name != DAY]
    _check_written(chunk, rows.select([*told, SEQ, DELETED]), [file.path for file in written])
    return dataclasses.replace(
        seen,
        number=number,
        rows=rows.num_rows,
        written=rows.num_rows,
        bytes=sum(file.bytes for file in written),
        paths=tuple(file.path for file in written),
        metrics=tuple((file.path, file.metrics) for file in written),
        high=None,
        originals={},
        future=0,
        query_seconds=0.0,
        # They are no rows of MySQL's: there is nothing to compare.
        source_rows=None if seen.source_rows is None else 0,
        source_digest=None if seen.source_digest is None else 0,
        source_keys=None,
        proved=seen.proved,
    )


def _removable(
    plan: ResolvedTable, chunk: ChunkPlan, held: pa.Table, files: Sequence[str], covered: pa.Table
) -> frozenset[str]:
    """The files of the load's own raw table in which every key, as it is written, is covered.

    Under a collation a key may be held as 'a' and be 'A' now: its file stays, so that the fold
    finds the text that it has to take away.
    """
    rest = _without(held, covered, _columns(plan))
    kept = set(rest["_file"].to_pylist())
    own = f"{chunk.location}/"
    return frozenset(p for n, p in enumerate(files) if n not in kept and p.startswith(own))


def _batches(keys: pa.Table) -> list[pa.Table]:
    return [keys.slice(n, _KEYS_PER_LOOKUP) for n in range(0, keys.num_rows, _KEYS_PER_LOOKUP)]
