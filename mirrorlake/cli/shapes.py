"""The command that shows every shape that a table had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract

if TYPE_CHECKING:
    from mirrorlake.operations.schema_changes.table_shapes import Shapes


@click.command(short_help="Show the schema versions that a table had.")
@click.argument("table", shell_complete=show.table_names)
@show.config_option
@show.json_option
@click.option("--ddl", is_flag=True, help="Print the statement of each version too.")
def schema(table: str, config_path: Path, as_json: bool, ddl: bool) -> None:
    """Show every schema version that TABLE had, and its columns over them. Queries no source.

    The versions of a table of tenants stand side by side.
    """
    from mirrorlake.operations.schema_changes.table_shapes import shapes_of
    from mirrorlake.workspace import Workspace

    config = open_contract(config_path)
    contract = next(iter(config.split_tenants([table])), None) or config.table(table)
    with Workspace.open(config) as workspace:
        found = shapes_of(workspace, contract)
    if as_json:
        show.print_json(asdict(found))
    elif not found.versions:
        show.console.print(f"{escape(found.table)} was never loaded: no version of it is known.")
    else:
        _print(found, ddl=ddl)


def _print(found: Shapes, *, ddl: bool) -> None:
    from mirrorlake.serving.many_views import many_words

    of_tenants = found.versions[0].tenants is not None
    counted = ("tenants",) if of_tenants else ()
    columns = ("no.", "version", "first seen (UTC)", "last load (UTC)", "loads", *counted)
    table = show.table(*columns, "changes…")
    for one in found.versions:
        first = f"{one.first_seen:%Y-%m-%d %H:%M:%S}"
        last = f"{one.last_load:%Y-%m-%d %H:%M:%S}" if one.last_load else "-"
        cells = (str(one.number), escape(one.raw_table), first, last, f"{one.loads:,}")
        cells += () if one.tenants is None else (f"{one.tenants:,}",)
        table.add_row(*cells, escape("; ".join(one.changes) or "-"))
    show.console.print(table)
    if words := many_words(len(found.versions), tenants=of_tenants):
        show.console.print(f"[yellow]{words}[/]", highlight=False, soft_wrap=True)
    newest = len(found.versions)
    table = show.table("column", "in MySQL…", "over all versions…", "versions", "before")
    for column in found.columns:
        gone = "" if column.until == newest else ", gone"
        since = f"{column.since} to " if column.since < column.until else ""
        versions = _numbers(column.versions) if of_tenants else f"{since}{column.until}{gone}"
        several = len(column.types) > 1 and column.lake
        lake = f"{column.lake}: {column.why}" if several else column.lake or "-"
        cells = (escape(column.name), escape(" → ".join(column.types)), escape(lake))
        table.add_row(*cells, versions, escape(", ".join(column.former) or "-"))
    show.console.print(table)
    if found.identity:
        show.console.print(f"The table that was read: {escape(found.identity)}")
    for one in found.versions if ddl else ():
        show.console.print(f"\n-- {escape(one.raw_table)}", highlight=False)
        show.console.print(escape(one.ddl or "-- not known"), highlight=False, soft_wrap=True)


def _numbers(numbers: Sequence[int]) -> str:
    """Ascending numbers, neighbours as a range.

    >>> _numbers((1, 2, 3, 5))
    '1 to 3, 5'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]} to {run[-1]}" if run[1:] else f"{run[0]}" for run in runs)
