"""`lake`: the lake itself.

What belongs here: options and what is printed. What doesn't: finding tables
(`mirrorlake.operations.find_tables`).
"""

from __future__ import annotations

import sys
import uuid
from dataclasses import asdict
from pathlib import Path

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract
from mirrorlake.runtime.permissions import held


@click.group(short_help="The lake itself: find tables that a catalog lost.")
def lake() -> None:
    """The lake itself."""


@lake.command()
@show.config_option
@show.json_option
def find(config_path: Path, as_json: bool) -> None:
    """Register the lake's tables again that the catalog lost, or names by an older metadata file.

    After a catalog was lost, or put back from an old copy. Nothing is read, and no file is written
    but the catalog's. Views are made again by the next sync.
    """
    from mirrorlake.ledger import Ledger
    from mirrorlake.operations.find_tables import find_tables

    config = open_contract(config_path)
    with held(config.lake.permissions):
        ledger = Ledger(config.ledger.url, config.ledger.wait)
        found = find_tables(config, ledger, uuid.uuid4().hex[:12])
    if as_json:
        show.print_json([asdict(one) for one in found])
    elif not found:
        show.console.print("Nothing to find: the catalog names the newest of every table.")
    else:
        table = show.table("lake table", "what", "metadata file", "why…")
        for one in found:
            table.add_row(escape(one.table), one.what, escape(one.metadata), escape(one.why))
        show.console.print(table)
    if any(one.what == "left" for one in found):
        sys.exit(6)
