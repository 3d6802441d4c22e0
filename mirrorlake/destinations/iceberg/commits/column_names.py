"""Columns that were written under other names, and take theirs in the step that shows their rows.

What belongs here: what such a step changes of a table. What doesn't: the step
(`mirrorlake.destinations.iceberg.commits.branches`,
`mirrorlake.destinations.iceberg.commits.shown_together`).
"""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.table import Table, Transaction
from pyiceberg.table.update.snapshot import ManageSnapshots


def name_columns(
    transaction: Transaction, table: Table, name: str, columns: Mapping[str, str]
) -> int:
    """Have a transaction set main to what a branch shows, and give its columns their names; main's
    head then.

    A version shows the columns that the table had when it was written: so main gets a version of
    its own, which adds no file to the branch's.
    """
    head = table.snapshot_by_name(name)
    summary = head.summary.additional_properties if head and head.summary else {}
    ours = {key: value for key, value in summary.items() if key.startswith("mirrorlake.")}
    _rename(transaction, table, columns)
    with transaction.update_snapshot(ours, branch=name).fast_append() as append:
        shown = append.snapshot_id
    ManageSnapshots(transaction=transaction).set_current_snapshot(snapshot_id=shown).commit()
    return shown


def _rename(transaction: Transaction, table: Table, columns: Mapping[str, str]) -> None:
    """Let columns take others' names and places, in the schema and in the order of rows."""
    there = [field.name for field in table.schema().fields]
    order = table.sort_order()
    sources = [table.schema().find_column_name(field.source_id) for field in order.fields]
    if any(source in columns for source in sources):
        with transaction.update_sort_order() as update:
            for field, source in zip(order.fields, sources, strict=True):
                column = columns.get(str(source), str(source))
                update.asc(column, field.transform, field.null_order)
    with transaction.update_schema() as update:
        before: str | None = None
        for name in [name for name in there if name not in columns.values()]:
            column = columns.get(name, name)
            if name in columns:
                update.delete_column((name,))
                if before is None:
                    update.move_first((column,))
                else:
                    update.move_after((column,), (before,))
            before = column
        for name, column in columns.items():
            update.rename_column((column,), name)
