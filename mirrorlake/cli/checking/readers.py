"""`mirrorlake readers`: whether every engine reads the same rows of a table."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract, refuse_tenants
from mirrorlake.cli.reports import CODES, COLORS

if TYPE_CHECKING:
    from mirrorlake.operations.checking.readers import ReadAlike


@click.command(short_help="Compare what PyIceberg, DuckDB, Spark and Trino read.")
@click.argument("table", shell_complete=show.table_names)
@show.config_option
@show.json_option
def readers(table: str, config_path: Path, as_json: bool) -> None:
    """Read TABLE by PyIceberg, DuckDB, Spark and Trino, and compare what each of them gives.

    All rows of deduped, and of clean where it is a table, in one version. The verdict is kept; see
    `mirrorlake proof TABLE --layers`. Trino is asked if the contract names one. Ends with 0 if
    all that were asked read the same rows, 9 if they don't, 10 if one of them can't read them.
    """
    from mirrorlake.operations.checking.check_layers import worst
    from mirrorlake.operations.checking.readers import compare_readers
    from mirrorlake.workspace import Workspace

    config = open_contract(config_path)
    refuse_tenants(config, [table], "`mirrorlake check {table}` compares each tenant with MySQL")
    contract = config.contract(table)
    with Workspace.open(config) as workspace:
        found = compare_readers(workspace, contract)
    verdict = worst(*(one.verdict for one in found))
    if as_json:
        show.print_json([asdict(one) for one in found])
    else:
        for one in found:
            _print(one)
    sys.exit(CODES[verdict])


def _print(found: ReadAlike) -> None:
    version = "" if found.version is None else f", version {found.version}"
    color = COLORS[found.verdict]
    words = f": {escape(found.words)}" if found.words else ""
    head = f"{escape(found.lake_table)}{version}: [{color}]{found.verdict}[/]{words}"
    show.console.print(head, highlight=False, soft_wrap=True)
    if not found.readings:
        return
    said = any(one.words for one in found.readings)
    table = show.table("engine", "rows", "digest", *(["why not…"] if said else []))
    for one in found.readings:
        rows = "-" if one.rows is None else f"{one.rows:,}"
        cells = (one.reader, rows, one.digest or "-", *([one.words] if said else []))
        table.add_row(*(escape(cell) for cell in cells))
    show.console.print(table)
