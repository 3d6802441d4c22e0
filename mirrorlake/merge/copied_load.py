"""A layer whose rows are those of one load takes the load's data files as copies: no row is decoded
and no Spark starts.

What belongs here: when one load's files are what the fold would write. What doesn't: the copying
(`mirrorlake.destinations.iceberg.commits.copied_files`).
"""

from __future__ import annotations

from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.destinations.iceberg.commits.copied_files import CopiedFiles, table_to_make
from mirrorlake.destinations.iceberg.commits.rewritten_rows import held_files
from mirrorlake.destinations.iceberg.model import LakeFile, LakeTable, NewTable
from mirrorlake.destinations.iceberg.tables.field_ids import shares_ids
from mirrorlake.destinations.iceberg.tables.tables import TARGET_BYTES
from mirrorlake.ledger import Load, RawFile
from mirrorlake.merge.row_sql.raw_versions import wanted_types
from mirrorlake.merge.row_sql.version_sql import version_columns, version_originals
from mirrorlake.merge.statements import Layer
from mirrorlake.schema.own_columns import DELETED, ORIGINAL
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

FILES = 4
"""A layer may have this many times as many files as at their usual size; beyond that, Spark writes
the small files of many days as larger ones."""


def copied_load(
    workspace: Workspace,
    plan: ResolvedTable,
    layer: Layer,
    load: Load,
    creation: NewTable | None = None,
) -> CopiedFiles | None:
    """The files that make up a layer of this load alone; None where the rows have to be read.

    Args:
        creation: what makes the layer's table, where it is not there yet.

    They are the layer's rows if none of them is a tombstone, no value
    changes on the way, and every file is the one that the load recorded.
    """
    raw = workspace.lake.load(plan.raw)
    table = table_to_make(creation) if creation else workspace.lake.load(layer.identifier)
    if raw is None or table is None or not _is_whole(plan, load):
        return None
    if not is_as_stored(plan, layer, raw) or not shares_ids(raw, table):
        return None
    # Other hands may have given it partitions. One that other rows were deleted from is written
    # again, so that its files stay few.
    held = held_files(workspace.lake, table)
    if held is None:
        return None
    known = workspace.ledger.raw_files(plan.name, {load.seq})
    records = {f"{raw.location()}/data/{record.name}": record for record in known}
    with workspace.lake.translated(plan.raw):
        tasks = [task for task in raw.scan().plan_files() if task.file.file_path in records]
    if any(task.delete_files for task in tasks):
        return None
    files = [task.file for task in tasks]
    if not _are_its_rows(load, raw, records, files):
        return None
    sums = ((file, records[file.file_path].checksum) for file in files)
    return CopiedFiles(raw, table, tuple(sums), held.files, creation)


def _is_whole(plan: ResolvedTable, load: Load) -> bool:
    """Whether a load is of this version, and read rows alone: no key that it looked up, and no
    events, of which several may be of one key."""
    receipt = load.receipt
    return (
        load.raw_table == plan.raw.name
        and load.window.kind not in ("repair", "reload", "log")
        and receipt is not None
        and not receipt.gone
        and plan.entity is None
    )


def is_as_stored(plan: ResolvedTable, layer: Layer, raw: LakeTable) -> bool:
    """Whether the layer's columns are all of raw's, without a conversion or a rule: what a rule
    drops would stand in the file."""
    wanted = wanted_types(plan)
    plain = [as_sql_identifier(name) for name in wanted]
    if [sql for _, _, sql in layer.columns] != plain:
        return False
    if version_columns(plan, raw, wanted) != plain:
        return False
    return layer.original is None or (
        layer.original == as_sql_identifier(ORIGINAL)
        and version_originals(plan, raw, wanted) == ORIGINAL
    )


def _are_its_rows(
    load: Load, raw: LakeTable, records: dict[str, RawFile], files: list[LakeFile]
) -> bool:
    """Whether these files are all that the load committed, by its receipt and its records, of a
    size that suits a layer, and without a tombstone by their statistics."""
    assert load.receipt is not None  # noqa: S101
    size = sum(file.file_size_in_bytes for file in files)
    flag = raw.schema().find_field(DELETED).field_id
    return (
        len(files) == len(records) <= FILES * max(1, round(size / TARGET_BYTES))
        and all(records[file.file_path].checksum for file in files)
        and sum(file.record_count for file in files) == load.receipt.committed
        and not any((file.upper_bounds or {}).get(flag, b"\x01") != b"\x00" for file in files)
    )
