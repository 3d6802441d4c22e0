"""Which days a commit changed: the days, in one column, of the rows that it added or took out.

Nothing is read of a file but that column, and not even that where the file's bounds name one day.
A commit that took whole files out and wrote their rows again changed the days of those rows alone
that are not in both: rows are compared where there are few enough of them. Days may be named that
did not change; one that did change is never left out. Where that can't be said, no days are.

Source: Iceberg specification, "Manifests", "Position Delete Files", "Sequence Numbers".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as _compute
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table import FileScanTask
from pyiceberg.types import DateType
from pyiceberg.utils.datetime import days_to_date

from mirrorlake.destinations.iceberg.metadata.row_counts import deleted_positions
from mirrorlake.destinations.iceberg.model import (
    LakeFile,
    LakeSnapshot,
    LakeTable,
    changed_files,
    has_rows,
    is_rewrite,
)

pc: Any = _compute  # its functions are made at import: type checkers see none of them

ChangedDays: TypeAlias = frozenset[date | None]
"""Days (UTC); None among them: rows that have none."""
COMPARED = 200_000
"""Up to this many rows, those that were taken out are compared with those that were added."""
_DAY = 86_400_000_000


@dataclass
class _Files:
    """What one commit added and took out."""

    added: list[LakeFile] = field(default_factory=list[LakeFile])
    removed: list[LakeFile] = field(default_factory=list[LakeFile])
    deletes: list[LakeFile] = field(default_factory=list[LakeFile])
    dropped: list[LakeFile] = field(default_factory=list[LakeFile])


def changed_days(table: LakeTable, snapshot: LakeSnapshot, column: str) -> ChangedDays | None:
    """The days whose rows a commit changed; None: it may be any.

    Args:
        snapshot: one that main showed; its parent may have expired.
        column: a date, or a time without a zone or in UTC, in any case of letters. Of one that the
            table does not have, or of none (''), it is only said where no row changed.

    Raises:
        OSError, ValueError: a file of the table can't be read.
    """
    if is_rewrite(snapshot):
        return frozenset()
    names = [one.name for one in table.schema().fields if one.name.lower() == column.lower()]
    files = _files_of(table, snapshot)
    positional = [*files.deletes, *files.dropped]
    if any(
        one.content != DataFileContent.POSITION_DELETES or one.file_format != FileFormat.PARQUET
        for one in positional
    ):
        return None
    written_again = files.removed and files.added and not files.deletes
    other = _other_rows(table, snapshot, files) if written_again else None
    if not names:
        # Without days: the same rows, as of a copy that found nothing new, are no change.
        return frozenset() if other is not None and not other.num_rows else None
    column = names[0]
    reader = _Reader(table, column)
    try:
        if other is not None:
            return _days_of(table, other, column)
        found = set[date | None]()
        for one in (*files.added, *files.removed):
            found |= reader.days(one)
        if positional:
            found |= _deleted_days(table, snapshot, files, reader)
    except (pa.ArrowInvalid, OverflowError):
        return None  # a day past Python's calendar, which somebody wrote into the lake
    return frozenset(found)


def _files_of(table: LakeTable, snapshot: LakeSnapshot) -> _Files:
    found = _Files()
    for added, file in changed_files(table, snapshot):
        if added:
            (found.added if has_rows(file) else found.deletes).append(file)
        else:
            (found.removed if has_rows(file) else found.dropped).append(file)
    return found


@dataclass
class _Reader:
    """Reads one column of a table's files."""

    table: LakeTable
    column: str

    def days(self, file: LakeFile) -> set[date | None]:
        """The days that a file has, of rows that were deleted since, too."""
        stated = self._stated(file)
        return {stated} if stated is not None else set(pc.unique(self.values(file)).to_pylist())

    def values(self, file: LakeFile) -> pa.ChunkedArray:
        """The day of each row of a file, in the order of its positions."""
        schema = self.table.schema().select(self.column)
        scan = ArrowScan(self.table.metadata, self.table.io, schema, AlwaysTrue())
        batches = scan.to_record_batches([FileScanTask(file)])
        return pa.chunked_array([_as_days(batch.column(0)) for batch in batches], type=pa.date32())

    def _stated(self, file: LakeFile) -> date | None:
        """The one day that a file has by its bounds; of times and dates these are never cut."""
        one = self.table.schema().find_field(self.column)
        low = (file.lower_bounds or {}).get(one.field_id)
        high = (file.upper_bounds or {}).get(one.field_id)
        unset = (file.null_value_counts or {}).get(one.field_id)
        if low is None or high is None or unset != 0:
            return None
        kind: Any = one.field_type
        size = 1 if isinstance(kind, DateType) else _DAY
        first, last = (int(from_bytes(kind, raw)) // size for raw in (low, high))
        return days_to_date(first) if first == last else None


def _as_days(values: pa.Array) -> pa.Array:
    """The days of dates and times (UTC); Arrow's cast of a time to a day rounds it down, before
    1970, too."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp(values.type.unit))
    return values.cast(pa.date32(), safe=False)


def _deleted_days(
    table: LakeTable, snapshot: LakeSnapshot, files: _Files, reader: _Reader
) -> set[date | None]:
    """The days of the rows whose positions a commit deletes, or shows again."""
    new = _positions(table, files.deletes)
    old = _positions(table, files.dropped)
    moved = {
        path: np.setxor1d(new.get(path, _NOWHERE), old.get(path, _NOWHERE)) for path in {*new, *old}
    }
    wanted = {path: at for path, at in moved.items() if len(at)}
    gone = {one.file_path for one in files.removed}
    found = set[date | None]()
    tasks = table.scan(snapshot_id=snapshot.snapshot_id).plan_files() if wanted else ()
    for task in tasks:
        positions = wanted.pop(task.file.file_path, None)
        if positions is not None:
            days = reader.values(task.file).take(pa.array(positions))
            found |= set(pc.unique(days).to_pylist())
    if wanted.keys() - gone:
        raise OverflowError  # deletes of a file that is not there: nothing can be said
    return found


_NOWHERE = np.array([], dtype=np.int64)


def _positions(table: LakeTable, files: Sequence[LakeFile]) -> dict[str, Any]:
    found: dict[str, list[Any]] = {}
    for one in files:
        for path, positions in deleted_positions(table.io, one.file_path).items():
            found.setdefault(path, []).append(positions)
    return {path: np.unique(np.concatenate(several)) for path, several in found.items()}


# --- rows that were written again -----------------------------------------------------------------


def _other_rows(table: LakeTable, snapshot: LakeSnapshot, files: _Files) -> pa.Table | None:
    """The rows that are not both among those taken out and those added; None: there are too many,
    or what was taken out can't be read any more."""
    parent = snapshot.parent_snapshot_id
    size = sum(one.record_count for one in (*files.added, *files.removed))
    if size > COMPARED or parent is None or table.snapshot_by_id(parent) is None:
        return None
    gone = {one.file_path for one in files.removed}
    if not _positions(table, files.dropped).keys() <= gone:
        return None  # rows of files that stay are shown again
    before = [
        task for task in table.scan(snapshot_id=parent).plan_files() if task.file.file_path in gone
    ]
    if len(before) != len(gone):
        return None
    rows = pa.concat_tables(
        [
            *_marked(table, before, -1),
            *_marked(table, [FileScanTask(one) for one in files.added], 1),
        ]
    )
    counts = rows.group_by(rows.column_names[:-1]).aggregate([("_count", "sum")])
    return counts.filter(pc.not_equal(counts["_count_sum"], 0))


def _days_of(table: LakeTable, rows: pa.Table, column: str) -> ChangedDays:
    number = [one.name for one in table.schema().fields].index(column)
    days = _as_days(rows[f"c{number}"].combine_chunks())
    return frozenset(pc.unique(days).to_pylist())


def _marked(table: LakeTable, tasks: Sequence[FileScanTask], count: int) -> Iterator[pa.Table]:
    """The rows of some files, in columns whose values are equal only where they are the same."""
    scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
    for batch in scan.to_record_batches(tasks):
        columns = {f"c{n}": _comparable(array) for n, array in enumerate(batch.columns)}
        columns["_count"] = pa.array(np.full(batch.num_rows, count, dtype=np.int64))
        yield pa.table(columns)


def _comparable(values: pa.Array) -> pa.Array:
    """Numbers with a point by their bits: 0.0 and -0.0 are two values, NaN is one. Lists and texts
    as text."""
    kind = values.type
    if pa.types.is_float64(kind):
        return values.view(pa.int64())
    if pa.types.is_float32(kind):
        return values.view(pa.int32())
    if pa.types.is_nested(kind):
        return pa.array([None if v is None else repr(v) for v in values.to_pylist()], pa.string())
    if pa.types.is_large_string(kind):
        return values.cast(pa.string())
    if pa.types.is_large_binary(kind):
        return values.cast(pa.binary())
    return values
