"""`records`: changes that raw has, published outside of the lake.

What belongs here: options and what is printed. What doesn't: what a record says, and where it goes
(`mirrorlake.records.publish`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract
from mirrorlake.config import Config, TableContract
from mirrorlake.errors import ConfigError
from mirrorlake.records.config import RecordsConfig
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.records.publish import OnRecords, RecordsPublished
    from mirrorlake.workspace import Workspace


@click.command(short_help="Publish changes of tables as JSON outside the lake.")
@click.argument("tables", nargs=-1, shell_complete=show.table_names)
@show.config_option
@show.json_option
@click.option("--dry-run", is_flag=True, help="Say what is due; publish nothing.")
@click.option(
    "--restart",
    is_flag=True,
    help="Begin again with the current history of TABLES: queues get all of it again.",
)
def records(
    tables: Sequence[str], config_path: Path, as_json: bool, dry_run: bool, restart: bool
) -> None:
    """Publish what raw has of TABLES (all by default) to the destinations of `records`; queries no
    source.

    `sync` and `follow` do so by themselves, after each table and round. Files that are gathered
    (`every`) are written at once. Ends with the first failure's code; a destination that fails does
    not stop the others.
    """
    from mirrorlake.records.publish import publish_tables
    from mirrorlake.workspace import Workspace

    config = open_contract(config_path)
    if restart and not tables:
        raise ConfigError(
            "--restart is for tables that somebody has looked at",
            next_step="Name them: mirrorlake records TABLE --restart",
        )
    chosen = _chosen(config, tables)
    with Workspace.open(config) as workspace, _watching(quiet=as_json) as report:
        if dry_run:
            _show_due(workspace, chosen, as_json=as_json)
            return
        done = publish_tables(workspace, chosen, report, restart=restart, wait=False)
    show.end_with(done, print_published, as_json=as_json, key="records")


def _chosen(config: Config, names: Sequence[str]) -> list[TableContract]:
    """The tables of these names whose records go anywhere; all of them without a name.

    Raises:
        ConfigError: there is no destination, or one that is named has none.
    """
    section = config.section(RecordsConfig)
    if not section.destinations:
        raise ConfigError(
            f"{config.path} has no destination under records",
            next_step="Name a folder, bucket or topic there (docs/records.md)",
        )
    if not config.tables:
        return []
    chosen = config.chosen(names)
    for contract in chosen if names else ():
        if not contract.by_log:
            raise ConfigError(
                f"table {contract.name} has mode {contract.mode}: records are the changes of mode "
                "binlog",
                table=contract.name,
                next_step="Write `mode: binlog` for it (docs/binlog.md), or leave it out",
            )
        if not section.of_table(contract):
            raise ConfigError(
                f"table {contract.name} is under no destination of records",
                table=contract.name,
                next_step="Add it to `tables` of one",
            )
    return [contract for contract in chosen if section.of_table(contract)]


def _show_due(workspace: Workspace, chosen: Sequence[TableContract], *, as_json: bool) -> None:
    from mirrorlake.records.publish import find_due

    due = [one for contract in chosen for one in find_due(workspace, contract)]
    if as_json:
        show.print_json({"due": [asdict(one) for one in due]})
        return
    table = show.table("table", "destination", "through load", "loads due", "rows due")
    for one in due:
        counts = (f"{n:,}" for n in (one.through, one.loads, one.rows))
        table.add_row(escape(one.table), one.destination, *counts)
    show.console.print(table)


def print_published(done: Sequence[RecordsPublished]) -> None:
    """A table for people of what was published, and a line of what was not."""
    moved = [one for one in done if one.state == "published"]
    table = show.table("table", "records to", "loads", "records", "files", "position…")
    for one in moved:
        counts = (f"{n:,}" for n in (one.loads, one.records))
        files = f"{one.files:,}" if one.files else "-"
        table.add_row(
            escape(one.table), one.destination, *counts, files, escape(one.position or "-")
        )
    if moved:
        show.console.print(table)
    if same := sum(one.state == "nothing new" for one in done):
        words = f"{plural(same, 'destination')} of records had nothing new to get"
        show.console.print(words, highlight=False, soft_wrap=True)
    for one in done:
        if one.state == "busy":
            words = f"{one.table}: another run publishes its records"
            show.console.print(escape(words), highlight=False, soft_wrap=True)


@contextmanager
def _watching(*, quiet: bool) -> Iterator[OnRecords]:
    """Show on a terminal what is being published, gone with the block."""
    if quiet or not show.errors.is_terminal:
        yield lambda _table, _destination, _records: None
        return
    with show.errors.status("") as status:
        yield lambda table, destination, count: status.update(
            f"{escape(table)} to {destination}: {count:,} records"
        )
