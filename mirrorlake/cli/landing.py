"""Commands for tables of mode ``snapshot``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.config import load_config

if TYPE_CHECKING:
    from mirrorlake.arrive import Arrived


@click.command()
@click.argument("tables", nargs=-1)
@show.config_option
@show.json_option
@click.option("--all", "whole", is_flag=True, help="Look into the folders of all days.")
@click.option("--accept-smaller", is_flag=True, help="Take snapshots far smaller than their last.")
def land(
    tables: Sequence[str], config_path: Path, as_json: bool, whole: bool, accept_smaller: bool
) -> None:
    """Take what has landed of TABLES (all of mode snapshot by default), fold and publish it.

    Snapshots are folded in the order of their ids. A table's first failure ends the command; what
    was published before it stays.
    """
    from mirrorlake.arrive import arrive, look_for
    from mirrorlake.sync import Engine

    config = load_config(config_path, secrets="when used")
    done: list[Arrived] = []
    with Engine(config) as engine:
        for contract in config.chosen_snapshots(tables):
            found = look_for(engine, contract, whole=whole)
            for number, reason in sorted(found.refused.items()):
                show.errors.print(f"{contract.name} {number:014d} refused: {reason}", markup=False)
            for name in found.strange:
                show.errors.print(f"{contract.name}: {name} is no snapshot's", markup=False)
            ready = [one.id for one in found.ready]
            done += arrive(engine, contract, ready, accept_smaller=accept_smaller)
    if as_json:
        show.print_json([asdict(one) for one in done])
        return
    if not done:
        show.console.print("Nothing new has landed.")
        return
    table = show.table("table", "snapshot", "rows", "added", "changed", "removed", "how", "seconds")
    for one in done:
        numbers = (one.rows, one.added, one.changed, one.removed)
        cells = (f"{one.id:014d}", *(f"{number:,}" for number in numbers))
        table.add_row(escape(one.table), *cells, one.strategy, str(one.seconds))
    show.console.print(table)


@click.command()
@click.argument("table")
@show.config_option
@show.json_option
@click.option("--to", required=True, help="The landing: a folder, gs://… or s3://….")
@click.option("--endpoint", help="Another address of the bucket's API.")
@click.option("--gzip", "packed", is_flag=True, help="Compress the files.")
def export(
    table: str, config_path: Path, as_json: bool, to: str, endpoint: str | None, packed: bool
) -> None:
    """Write TABLE as MySQL has it now into a landing: one snapshot in JSON, its manifest last."""
    from mirrorlake.export import export_table
    from mirrorlake.landing.sinks import open_sink
    from mirrorlake.sync import Engine

    config = load_config(config_path, secrets="when used")
    with Engine(config) as engine:
        place = open_sink(to, endpoint)
        done = export_table(engine, config.table(table), place, packed=packed)
    if as_json:
        show.print_json(asdict(done))
        return
    words = f"{done.rows:,} rows in {done.files} files: snapshot {done.snapshot:014d}"
    show.console.print(f"{words} in {done.folder}", markup=False)
