"""The lake tables of a table of snapshots: the rows, and two small ones beside them.

The rows are laid out by day, so that a day leaves by metadata alone and a day without a change is
not opened. Beside: the keys that the newest snapshots lack, and digests.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mirrorlake.destinations.base import SIDES, Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeSchema, LakeTable, history, is_rewrite
from mirrorlake.destinations.iceberg.tables.schemas import (
    can_widen,
    current_schema,
    iceberg_type,
    partitioned_by_day,
)
from mirrorlake.destinations.iceberg.tables.tables import create_table, mode_properties, set_mode
from mirrorlake.errors import LakeError, SchemaError
from mirrorlake.landing.fold.shape import MISSED_DAY, MISSED_FIRST, SnapshotTable
from mirrorlake.landing.fold.state import State, version_state
from mirrorlake.schema.own_columns import ORIGINAL, SNAPSHOT

_WIDER = "Types are widened from int to long, float to double and to more digits, no other way"
TARGET_BYTES = 128 * 2**20
_ROWS = {
    "write.delete.granularity": "file",
    "write.target-file-size-bytes": str(TARGET_BYTES),
    # Files of one day each; few of them, whatever the number of tasks.
    "write.distribution-mode": "hash",
    "write.merge.distribution-mode": "hash",
}
_SIDE = {
    **mode_properties("merge-on-read"),
    "write.delete.granularity": "file",
    "write.distribution-mode": "none",
}


def ensure_rows(lake: Lake, table: SnapshotTable) -> LakeTable:
    """The table of rows, made if it isn't there; columns that it lacks are added, and types are
    widened where Iceberg can.

    Raises:
        SchemaError: a column of it is not among the contract's, or has a type that can't become the
            contract's.
    """
    plain = [(name, kind) for name, kind in table.columns if name != ORIGINAL]
    with_original = len(plain) < len(table.columns)
    schema = current_schema((*plain, (SNAPSHOT, "long")), with_original=with_original)
    properties = {**mode_properties(table.write_mode), **_ROWS}
    spec = partitioned_by_day(schema, table.day)
    made = create_table(lake, table.identifier, schema, spec, properties)
    made = set_mode(lake, table.identifier, made, table.write_mode)
    # Originals have one type for good; in another table its fields have other numbers.
    same = {ORIGINAL: iceberg_type("string")}
    there = {f.name: same.get(f.name, f.field_type) for f in made.schema().fields}
    wanted = {f.name: same.get(f.name, f.field_type) for f in schema.fields}
    _refuse_other(table, there, wanted)
    added = [f for f in schema.fields if f.name not in there]
    widened = [f for f in schema.fields if f.name in there and there[f.name] != wanted[f.name]]
    if added or widened:
        with lake.translated(table.identifier), made.update_schema() as update:
            for column in added:
                update.add_column((column.name,), column.field_type)
            for column in widened:
                update.update_column((column.name,), column.field_type)
        made = made.refresh()
    return made


def _refuse_other(table: SnapshotTable, there: dict[str, Any], wanted: dict[str, Any]) -> None:
    # In this order: a column that needs no originals any more has another type.
    for name, kind in wanted.items():
        if name in there and there[name] != kind and not can_widen(there[name], kind):
            words = f"is {there[name]} in the lake, and {kind} in the contract"
            raise _refused(table, name, words, _WIDER)
    gone = [name for name in there if name not in wanted]
    if gone:
        raise _refused(table, gone[0], "is not in the contract any more", "Name it again")


def _refused(table: SnapshotTable, column: str, words: str, step: str) -> SchemaError:
    return SchemaError(
        f"table {table.name}: column {column!r} {words}",
        table=table.name,
        column=column,
        next_step=f"{step}; nothing was written",
    )


def ensure_missing(lake: Lake, table: SnapshotTable) -> LakeTable:
    """The side table of missing keys: the key, the row's day, and the first snapshot without it."""
    types = dict(table.columns)
    columns = [(name, types[name]) for name in table.key]
    fields = (*columns, (MISSED_DAY, "date"), (MISSED_FIRST, "long"))
    made = _ensure_side(lake, table.missing_rows, current_schema(fields, with_original=False))
    widened = {
        name: iceberg_type(kind)
        for name, kind in columns
        if made.schema().find_field(name).field_type != iceberg_type(kind)
    }
    if widened:
        with lake.translated(table.missing_rows), made.update_schema() as update:
            for name, kind in widened.items():
                update.update_column((name,), kind)
        made = made.refresh()
    return made


def ensure_cells(lake: Lake, table: SnapshotTable) -> LakeTable:
    """The side table of digests by cell: what to add up."""
    fields = [(name, "long") for name in ("cell", "n", "a", "b", "c", "d")]
    return _ensure_side(lake, table.cells, current_schema(fields, with_original=False))


def _ensure_side(lake: Lake, identifier: Identifier, schema: LakeSchema) -> LakeTable:
    return create_table(lake, identifier, schema, partitioned_by_day(schema, None), _SIDE)


def _same_rows(table: LakeTable) -> list[int]:
    """Main's head, and the snapshots before it that hold the same rows: files alone were written
    again since."""
    found: list[int] = []
    for snapshot in history(table):
        found.append(snapshot.snapshot_id)
        if not is_rewrite(snapshot):
            break
    return found


def align(lake: Lake, identifier: Identifier, to: int | None) -> bool:
    """Bring a side table back to the version that the rows' head names; whether it is one that can
    be added to. A fold that died, or a version that was rolled back to, leaves it elsewhere."""
    table = lake.load(identifier)
    head = table.current_snapshot() if table is not None else None
    if table is None or to is None:
        return head is None
    if to not in _same_rows(table):
        with lake.translated(identifier):
            table.manage_snapshots().set_current_snapshot(snapshot_id=to).commit()
    return True


def without_lost(lake: Lake, rows: Identifier, state: State) -> State:
    """A state without the digests that are not in the lake any more: they are made again.

    Raises:
        LakeError: the list of keys that the newest snapshots lack is not there: nothing else says
            which they are.
    """
    missing, cells = (rows.beside(name) for name in SIDES)
    if not _has_version(lake, missing, state.missing):
        raise LakeError(
            f"lake table {rows}: version {state.missing} of {missing} is not there: which keys the "
            "newest snapshots lack is not known",
            table=str(rows),
            next_step=_step_without(lake, rows),
        )
    return state if _has_version(lake, cells, state.cells) else replace(state, cells=None)


def _has_version(lake: Lake, side: Identifier, version: int | None) -> bool:
    """Whether a version of a side table is there; where none is named, none is missed."""
    table = lake.load(side) if version is not None else None
    return version is None or (table is not None and table.snapshot_by_id(version) is not None)


def _step_without(lake: Lake, rows: Identifier) -> str:
    """What brings back the keys that were missing: from a version that knows them."""
    table, missing = lake.load(rows), rows.beside(SIDES[0])
    backup = f"Put {missing} back: from a backup, then by `mirrorlake lake find`"
    for one in history(table) if table is not None else ():
        state = version_state(table, one) if table is not None else None
        if state is not None and _has_version(lake, missing, state.missing):
            return (
                f"{backup}; or fold what came since again: `mirrorlake publish TABLE --rollback "
                f"{one.snapshot_id}`, then `mirrorlake land TABLE --retry withdrawn`"
            )
    return backup
