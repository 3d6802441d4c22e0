"""Tables that are made elsewhere, for people and for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from mirrorlake.cli import show as shown

if TYPE_CHECKING:
    from mirrorlake.operations.models.observed import ShownExternal


def print_external(found: ShownExternal, *, as_json: bool) -> None:
    """What `mirrorlake show` says of a table that no model makes."""
    if as_json:
        shown.print_json(_as_json(found))
        return
    console, seen = shown.console, found.seen
    kind = f"{found.format}, {found.owner}" if found.owner else found.format
    console.print(f"{escape(found.name)} ({escape(kind)}), made elsewhere: {escape(found.path)}")
    if found.description:
        console.print(escape(found.description))
    table = shown.table("column", "type", "NULL")
    for one in found.columns:
        table.add_row(
            escape(one.name), escape(one.value.type), "yes" if one.value.nullable else "no"
        )
    console.print(table)
    rows = "rows unknown" if seen.rows is None else f"{seen.rows:,} rows"
    written = (
        "" if seen.changed_at is None else f", written {seen.changed_at:%Y-%m-%d %H:%M:%S} UTC"
    )
    files = "" if seen.files is None else f" in {seen.files:,} files"
    where = f"{found.place}: {rows}{files}, version {seen.version}{written}."
    console.print(escape(where), soft_wrap=True, highlight=False)
    if found.partition_by:
        console.print(f"Partitioned by {escape(', '.join(found.partition_by))}.")
    console.print(f"Read by {escape(', '.join(found.read_by) or 'no model')}.")


def _as_json(found: ShownExternal) -> dict[str, Any]:
    columns = [
        {"name": one.name, "type": one.value.type, "nullable": one.value.nullable}
        for one in found.columns
    ]
    return {**asdict(found), "columns": columns}
