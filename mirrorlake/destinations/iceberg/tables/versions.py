"""The lake table of all schema versions of a source table: its layout, and which loads' rows came
into a raw table, or left it, since it was written.

Each file of raw holds rows of one load, whose number its bounds say. Only manifests that are not
the same in both versions of a raw table are read, where that is enough.

Source: Iceberg specification, "Manifests", ``lower_bounds`` and ``upper_bounds`` of ``data_file``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.manifests import entries_of, manifests_of
from mirrorlake.destinations.iceberg.tables.schemas import partitioned_by_day
from mirrorlake.destinations.iceberg.tables.tables import (
    create_table,
    current_properties,
    ensure_current_table,
)
from mirrorlake.schema.own_columns import DAY, SEQ


def ensure_versions_table(
    lake: Connection,
    identifier: Identifier,
    schema: Schema,
    properties: Mapping[str, str],
    beside: Mapping[str, str],
    location: str,
) -> Table:
    """The table of all versions, made if it isn't there, partitioned by raw's day as raw is;
    columns that it lacks are added, and columns become wider.

    Args:
        properties: what a new table says of itself.
        beside: column → the name under which it is added, and not shown.
        location: where a new table's files go.

    Raises:
        LakeError: a column of it has a type that can't become the one requested.
    """
    day, said = partitioned_by_day(schema, DAY), {**current_properties(), **properties}
    create_table(lake, identifier, schema, day, said, location=location)
    fields = [f.model_copy(update={"name": beside.get(f.name, f.name)}) for f in schema.fields]
    return ensure_current_table(lake, identifier, Schema(*fields))


@dataclass(frozen=True)
class LoadsMoved:
    """The numbers of loads of which a raw table has other files now.

    Attributes:
        known: those of which it had files before: rows of theirs were read.
        now: those of which it has files now.
    """

    known: frozenset[int] = frozenset()
    now: frozenset[int] = frozenset()


def loads_moved(table: Table, since: int | None, through: int) -> LoadsMoved | None:
    """The loads of which main names other files than a version did.

    Args:
        since: the version; None: before the table had any.
        through: no load with a higher number had files in that version.

    Returns:
        None where it can't be said: the version has expired, rows were deleted in files, or a file
        does not say of which load it is.
    """
    then = table.snapshot_by_id(since) if since is not None else None
    if since is not None and then is None:
        return None
    now = table.current_snapshot()
    before = {m.manifest_path: m for m in manifests_of(table.io, then)}
    after = {m.manifest_path: m for m in manifests_of(table.io, now)}
    changed = [*(before[path] for path in before.keys() - after.keys())]
    changed += [after[path] for path in after.keys() - before.keys()]
    if any(manifest.content != ManifestContent.DATA for manifest in changed):
        return None
    old = _numbers(table, (before[path] for path in before.keys() - after.keys()))
    new = _numbers(table, (after[path] for path in after.keys() - before.keys()))
    moved = {old[path] for path in old.keys() - new.keys()}
    moved |= {new[path] for path in new.keys() - old.keys()}
    if None in moved:
        return None
    earlier = {number for number in moved if number is not None and number <= through}
    came = {n for n in new.values() if n is not None and n > through}
    if not earlier:  # as in most cases: no other manifest need be read
        return LoadsMoved(frozenset(), frozenset(came))
    known = earlier.intersection(_numbers(table, before.values()).values())
    still = earlier.intersection(_numbers(table, after.values()).values())
    return LoadsMoved(frozenset(known), frozenset(came | still))


def _numbers(table: Table, manifests: Iterable[ManifestFile]) -> dict[str, int | None]:
    """The files that manifests name, each with the number of the load whose rows it has; None where
    it does not say."""
    field = table.schema().find_field(SEQ).field_id
    return {
        entry.data_file.file_path: _number(entry.data_file, field)
        for manifest in manifests
        for entry in entries_of(table.io, manifest)
    }


def _number(file: DataFile, field: int) -> int | None:
    """The number of the load whose rows a file has; None where it does not say."""
    lower = (file.lower_bounds or {}).get(field)
    upper = (file.upper_bounds or {}).get(field)
    if lower is None or lower != upper:
        return None
    return int(from_bytes(LongType(), lower))
