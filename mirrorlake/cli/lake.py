"""`lake`: the lake itself.

What belongs here: options and what is printed. What doesn't: finding tables
(`mirrorlake.operations.repairing.find_tables`).
"""

from __future__ import annotations

import sys
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from mirrorlake.capabilities import Seam
from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract
from mirrorlake.runtime.permissions import held

if TYPE_CHECKING:
    from mirrorlake.operations.repairing.find_tables import FoundTable

_ADDED: Seam[click.Command] = Seam("commands: lake")
_LISTED = 20
"""Tables that are listed on a screen, at most."""


@click.group(short_help="The lake itself: find what a catalog lost, move it.")
def lake() -> None:
    """The lake itself."""


for _command in _ADDED:
    lake.add_command(_command)


@lake.command()
@show.config_option
@show.json_option
def find(config_path: Path, as_json: bool) -> None:
    """Register the lake's tables again that the catalog lost, or names by an older metadata file.

    After a catalog was lost, or put back from an old copy. It reads metadata and writes the catalog
    alone; the next sync makes the views again. Ends with 6 if a table was left: its name is taken,
    the catalog has it by another name, or its metadata were written for another place.
    """
    from mirrorlake.ledger import Ledger
    from mirrorlake.operations.repairing.find_tables import find_tables, next_steps

    config = open_contract(config_path)
    with held(config.lake.permissions):
        ledger = Ledger(config.ledger.url, config.ledger.wait)
        found = find_tables(config, ledger, uuid.uuid4().hex[:12])
        steps = next_steps(ledger, found)
    if as_json:
        show.print_json([asdict(one) for one in found])
        _end(found)
        return
    counts = Counter(one.what for one in found)
    said = ", ".join(f"{count:,} {what}" for what, count in counts.items())
    show.console.print(f"{said or 'Nothing to find: the catalog names the newest of every table'}.")
    # What went well needs no line each: a lake has hundreds of tables.
    listed = [one for one in found if one.why]
    if listed:
        table = show.table("lake table", "what", "why…")
        for one in listed[:_LISTED]:
            table.add_row(escape(one.table), one.what, escape(one.why))
        show.console.print(table)
    if len(listed) > _LISTED:
        show.console.print(f"and {len(listed) - _LISTED:,} more (all of them: --json)")
    for step in steps:
        show.console.print(f"Next: {step}", soft_wrap=True)
    _end(found)


def _end(found: Sequence[FoundTable]) -> None:
    if any(one.what == "left" for one in found):
        sys.exit(6)
