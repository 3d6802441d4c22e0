"""What a lake table's manifests say of the values in its files.

Bounds may be cut (of a text, its first characters): they order and divide, and prove nothing.

Source: Iceberg specification, "Manifests", lower_bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import ManifestContent
from pyiceberg.types import DateType, IcebergType, LongType, TimestampType, TimestamptzType
from pyiceberg.utils.datetime import days_to_date, micros_to_timestamp, micros_to_timestamptz

from mirrorlake.destinations.iceberg.manifests import entries_of, manifests_of
from mirrorlake.destinations.iceberg.model import (
    LakeFile,
    LakeSnapshot,
    LakeTable,
    changed_files,
    has_rows,
    snapshot_property,
)


def file_starts(
    table: LakeTable, column: str, *, at_least: int, most: int
) -> tuple[set[Any], int, int] | None:
    """The least values of a column in a table's files, as Arrow gives them.

    Args:
        at_least: bytes that a file has for its start to count.
        most: how many files are looked at.

    Returns:
        The starts, the bytes of the files that counted, and the bytes of the others; None where
        the table is empty or has more than ``most`` files.
    """
    snapshot, field = table.current_snapshot(), table.schema().find_field(column, False)
    if snapshot is None or int(snapshot_property(snapshot, "total-data-files") or 0) > most:
        return None
    found: set[Any] = set()
    counted = others = 0
    for manifest in manifests_of(table.io, snapshot):
        if manifest.content == ManifestContent.DATA:
            for entry in entries_of(table.io, manifest):
                file = entry.data_file
                raw = (file.lower_bounds or {}).get(field.field_id)
                if raw is not None and file.file_size_in_bytes >= at_least:
                    found.add(_value(field.field_type, raw))
                    counted += file.file_size_in_bytes
                else:
                    others += file.file_size_in_bytes
    return found, counted, others


def file_range(table: LakeTable, column: str, *, most: int) -> tuple[Any, Any] | None:
    """The least and the greatest value of a column in a table's files, as Arrow gives them, deleted
    rows included; None where no file says any, or there are more than ``most`` files."""
    snapshot, field = table.current_snapshot(), table.schema().find_field(column, False)
    if snapshot is None or int(snapshot_property(snapshot, "total-data-files") or 0) > most:
        return None
    found: set[Any] = set()
    for manifest in manifests_of(table.io, snapshot):
        if manifest.content == ManifestContent.DATA:
            for entry in entries_of(table.io, manifest):
                for bounds in (entry.data_file.lower_bounds, entry.data_file.upper_bounds):
                    raw = (bounds or {}).get(field.field_id)
                    if raw is not None:
                        found.add(_value(field.field_type, raw))
    return (min(found), max(found)) if found else None


def most_rows(table: LakeTable) -> int | None:
    """How many rows a table's data files have, those that were deleted since too; None where its
    newest snapshot does not say."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return 0
    total = snapshot_property(snapshot, "total-records")
    return int(total) if total else None


def least_number(table: LakeTable, file: LakeFile, column: str) -> int | None:
    """The least value of a ``long`` column in a file; None where its manifest does not say."""
    bound = (file.lower_bounds or {}).get(table.schema().find_field(column).field_id)
    return None if bound is None else int(from_bytes(LongType(), bound))


def _value(kind: IcebergType, raw: bytes) -> Any:
    """A bound as Arrow gives a value of its column."""
    return shown_value(kind, from_bytes(kind, raw))  # pyright: ignore[reportArgumentType]


def shown_value(kind: IcebergType, value: Any) -> Any:
    """A value of a manifest as Arrow gives it."""
    if value is None:
        return None
    if isinstance(kind, DateType):
        return days_to_date(value)
    if isinstance(kind, TimestampType):
        return micros_to_timestamp(value)
    return micros_to_timestamptz(value) if isinstance(kind, TimestamptzType) else value


def rows_by_partition(table: LakeTable, snapshot: LakeSnapshot) -> dict[tuple[Any, ...], int]:
    """The rows that a snapshot added, by the values of the columns by which the table is
    partitioned as they are; a table without partitions has one, of no values."""
    found: Counter[tuple[Any, ...]] = Counter()
    fields = table.spec().fields
    kinds = [table.schema().find_field(field.source_id).field_type for field in fields]
    for added, file in changed_files(table, snapshot):
        if added and has_rows(file):
            values = (shown_value(kind, file.partition[n]) for n, kind in enumerate(kinds))
            found[tuple(values)] += file.record_count
    return dict(found)


def partitions_there(table: LakeTable) -> set[tuple[Any, ...]]:
    """The partitions of which a table has data files now, by the values of the columns by which it
    is partitioned as they are."""
    kinds = [table.schema().find_field(f.source_id).field_type for f in table.spec().fields]
    snapshot = table.current_snapshot()
    return {
        tuple(shown_value(kind, entry.data_file.partition[n]) for n, kind in enumerate(kinds))
        for manifest in manifests_of(table.io, snapshot)
        if manifest.content == ManifestContent.DATA
        for entry in entries_of(table.io, manifest)
    }


def sizes_of_partitions(table: LakeTable) -> list[int]:
    """The bytes of the data files of each partition that a table has now, in no order."""
    found: Counter[tuple[Any, ...]] = Counter()
    fields = len(table.spec().fields)
    snapshot = table.current_snapshot()
    for manifest in manifests_of(table.io, snapshot):
        if manifest.content == ManifestContent.DATA:
            for entry in entries_of(table.io, manifest):
                file = entry.data_file
                found[tuple(file.partition[n] for n in range(fields))] += file.file_size_in_bytes
    return list(found.values())


def files_by_day(table: LakeTable) -> Iterator[tuple[date, str, int]]:
    """Raw's data files as main has them: the day of each, its path and its rows. From manifests
    alone; raw tables are partitioned by the mirror's day."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return
    for manifest in manifests_of(table.io, snapshot):
        if manifest.content == ManifestContent.DATA:
            for entry in entries_of(table.io, manifest):
                file = entry.data_file
                yield days_to_date(file.partition[0]), file.file_path, file.record_count


def count_days(table: LakeTable) -> dict[date, int]:
    """Row versions per raw day of a raw table, as main has it."""
    days: Counter[date] = Counter()
    for day, _, rows in files_by_day(table):
        days[day] += rows
    return dict(days)


def partitions_changed(table: LakeTable, snapshot: LakeSnapshot) -> set[tuple[Any, ...]] | None:
    """The partitions of which a snapshot added or took files, of rows or of deletes; None where the
    table was partitioned otherwise once, so that a file does not say."""
    if len(table.specs()) > 1:
        return None
    fields = table.spec().fields
    kinds = [table.schema().find_field(field.source_id).field_type for field in fields]
    return {
        tuple(shown_value(kind, file.partition[n]) for n, kind in enumerate(kinds))
        for _, file in changed_files(table, snapshot)
    }
