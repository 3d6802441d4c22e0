"""How a query reads a mirrored table at a version, in the columns that it has now.

Spark gives a version the columns that the table had when it was written. The model was compiled
with those of now, by which it is known what is hidden, too: where they differ, and the version is
not the one that main shows, it can't be read.

What belongs here: one table. What doesn't: at which version it is read
(`mirrorlake.models.partition_states.cut_reads`).
"""

from __future__ import annotations

from collections.abc import Mapping

from mirrorlake.destinations.base import Identifier, as_sql_identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeSchema, LakeSnapshot, LakeTable, spark_types
from mirrorlake.destinations.iceberg.tables.views import LakeView, read_view
from mirrorlake.models.partition_states.input_versions import (
    PinnedTable,
    TableVersion,
    digest_of_view,
)
from mirrorlake.serving.catalogue import MirroredTable


class NotAtVersion(Exception):
    """A table can't be read at a version: why, in words that follow its name."""


def pin_table(lake: Lake, mirrored: MirroredTable, at: Mapping[str, int | None]) -> PinnedTable:
    """A mirrored table as a query reads it at a version.

    Args:
        at: lake table, in lower case → its snapshot; None of one that had no row.

    Raises:
        NotAtVersion: it can't be read so.
        LakeError: the lake can't be read.
    """
    under, view = mirrored.identifier, None
    table = lake.load(under)
    if table is None:
        view = read_view(lake, under)
        under = Identifier(mirrored.contract.namespaces.deduped, mirrored.contract.table)
        table = lake.load(under) if view is not None else None
    if str(under).lower() not in at:
        raise NotAtVersion("is not in it")
    if table is None:
        raise NotAtVersion("is not there any more")
    rows = _pinned(table, under, at[str(under).lower()])
    return rows if view is None else _shown(rows, under, view)


def _pinned(table: LakeTable, identifier: Identifier, at: int | None) -> PinnedTable:
    identity = str(table.metadata.table_uuid)
    if at is None:
        nothing = f"(SELECT * FROM {identifier.sql} WHERE FALSE)"  # noqa: S608 - quoted
        return PinnedTable(table, TableVersion(identity, 0, 0), nothing, in_place=True)
    snapshot = table.snapshot_by_id(at)
    if snapshot is None:
        raise NotAtVersion("does not have that version any more")
    version = TableVersion(identity, at, snapshot.sequence_number or 0)
    words = f"VERSION AS OF {at}"
    then, now = _schema_of(table, snapshot), table.schema()
    if _columns(then) == _columns(now):
        return PinnedTable(table, version, words, in_place=False)
    head = table.current_snapshot()
    if head is None or head.snapshot_id != at:
        raise NotAtVersion("has had other columns since")
    # Main shows this version, and was given columns since: so does this.
    columns = ", ".join(_projected(then, now))
    text = f"(SELECT {columns} FROM {identifier.sql} {words})"  # noqa: S608 - quoted
    return PinnedTable(table, version, text, in_place=True)


def _schema_of(table: LakeTable, snapshot: LakeSnapshot) -> LakeSchema:
    found = table.schemas().get(snapshot.schema_id) if snapshot.schema_id is not None else None
    if found is None:
        raise NotAtVersion("does not say which columns that version has")
    return found


def _columns(schema: LakeSchema) -> list[tuple[int, str, str]]:
    return [(one.field_id, one.name, str(one.field_type)) for one in schema.fields]


def _projected(then: LakeSchema, now: LakeSchema) -> list[str]:
    """The columns of now, of a version that has those of then: as Iceberg does it for main."""
    earlier = {one.field_id: one for one in then.fields}
    found: list[str] = []
    for field, (name, kind, _) in zip(now.fields, spark_types(now), strict=True):
        one = earlier.get(field.field_id)
        if one is None:
            value = f"CAST(NULL AS {kind})"
        elif one.field_type == field.field_type:
            value = as_sql_identifier(one.name)
        elif one.field_type.is_primitive and field.field_type.is_primitive:
            value = f"CAST({as_sql_identifier(one.name)} AS {kind})"  # a wider type
        else:
            raise NotAtVersion("has had other columns since")
        found.append(f"{value} AS {as_sql_identifier(name)}")
    return found


def _shown(rows: PinnedTable, deduped: Identifier, view: LakeView) -> PinnedTable:
    """A view's own text over deduped at its version."""
    over = f" FROM {deduped.sql}"
    if not view.sql.endswith(over):
        raise NotAtVersion("is a view that does not read deduped")
    of_rows = rows.written if rows.in_place else f"{deduped.sql} {rows.written}"
    read = rows.version
    version = TableVersion(read.table, read.snapshot, read.sequence, digest_of_view(view.sql))
    return PinnedTable(
        rows.rows, version, f"({view.sql.removesuffix(over)} FROM {of_rows})", in_place=True
    )
