"""`backup`, `restore` and `lake move`: ledger, catalog and lake as one.

What belongs here: options and what is printed. What doesn't: what is copied, and in which order
(`mirrorlake.backups`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract
from mirrorlake.runtime.permissions import held

if TYPE_CHECKING:
    from mirrorlake.cli.bars import Bars


@click.command(short_help="Back up ledger, catalog and lake, all of one moment.")
@click.argument("target")
@show.config_option
@show.json_option
def backup(target: str, config_path: Path, as_json: bool) -> None:
    """Back up ledger, catalog and lake, of one moment, into a new folder below TARGET.

    Syncs may run meanwhile. TARGET is a folder or a URI (gs://bucket/folder); on the lake's own
    disk files are links, and on another one those that an older backup there has are linked to it.

    Ends with 6 if a REST catalog may lend logins for a bucket, or its tables changed all the time.
    """
    from mirrorlake.backups.make import make_backup
    from mirrorlake.cli.bars import Bars

    config = open_contract(config_path)
    with Bars(show.errors, quiet=as_json) as bars:
        done = make_backup(config, target, _steps(bars))
    if as_json:
        show.print_json(asdict(done))
        return
    say = show.console.print
    say(f"Backed up to {escape(done.where)}", highlight=False, soft_wrap=True)
    size = f"{done.files:,} files, {show.megabytes(done.bytes)} MB"
    say(f"{done.tables:,} lake tables and views, {size}, {done.linked:,} of them links")
    if not done.one_moment:
        say(
            "The lake was never at rest: the ledger is some seconds older than the catalog, and a "
            "restore finds the loads of these seconds in the lake."
        )
    for words in done.moved:
        show.errors.print(f"[yellow]not as the ledger knows it[/]: {escape(words)}", soft_wrap=True)
    if done.others:
        say(f"Left out: {done.others:,} tables of the catalog that are not in this lake")


@click.command(short_help="Put a backup's ledger, catalog and lake in place.")
@click.argument("backup_folder", metavar="BACKUP")
@show.config_option
@show.json_option
def restore(backup_folder: str, config_path: Path, as_json: bool) -> None:
    """Put BACKUP back to where the contract file has lake, catalog and ledger.

    These must be empty. Every file is compared with the backup's manifest before the first is
    written. At another place than the original's, paths are written for it and the lake gets an id
    of its own. A REST catalog gets no views: the next sync makes them. If it is interrupted, run it
    again; until then the lake says that it is not whole.

    Ends with 6 if the backup is incomplete, damaged, of another project or of a newer release, or
    was restored there already, or if lake or catalog are not empty; with 7 if the ledger is not, or
    a run holds a table.
    """
    from mirrorlake.backups.restore import restore_backup
    from mirrorlake.cli.bars import Bars

    config = open_contract(config_path)
    with Bars(show.errors, quiet=as_json) as bars:
        done = restore_backup(config, backup_folder, _steps(bars))
    if as_json:
        show.print_json(asdict(done))
        return
    say = show.console.print
    say(
        f"Restored the lake of {done.begun:%Y-%m-%d %H:%M:%S} UTC to {escape(done.warehouse)}",
        highlight=False,
        soft_wrap=True,
    )
    say(
        f"{done.tables:,} lake tables and views, {done.files:,} files, "
        f"{show.megabytes(done.bytes)} MB"
    )
    if done.found:
        say(f"{done.found:,} loads were found in the lake that its ledger did not have yet")
    say("`mirrorlake sync` brings what MySQL changed since; `mirrorlake check` proves it.")


@click.command()
@click.argument("new")
@show.config_option
@show.json_option
@click.option("--yes", "confirmed", is_flag=True, help="Move it; without this it is only planned.")
def move(new: str, config_path: Path, as_json: bool, confirmed: bool) -> None:
    """Move the lake to NEW, a folder or a URI, and write the absolute paths in it again.

    NEW is empty, or has the lake's folder, moved or copied there by hand. The old place stays as it
    is. Nothing may sync meanwhile. If it is interrupted, run it again; until then neither place is
    opened by mistake.

    Ends with 6 if NEW has something else, there is no lake to move, a table names a file outside of
    the lake, or the folder of a REST catalog's lake was moved by hand; with 7 if a run holds a
    table.
    """
    from mirrorlake.backups.move import move_lake, plan_move
    from mirrorlake.cli.bars import Bars

    config = open_contract(config_path)
    with held(config.lake.permissions), Bars(show.errors, quiet=as_json) as bars:
        done = move_lake(config, new, _steps(bars)) if confirmed else plan_move(config, new)
    if as_json:
        show.print_json(asdict(done))
        return

    def say(words: str) -> None:
        show.console.print(escape(words), highlight=False, soft_wrap=True)

    say(f"from {done.old}")
    say(f"to   {done.new}")
    size = f"{done.files:,} files of {show.megabytes(done.bytes)} MB are copied"
    if done.linked:
        size = f"{done.files:,} files of {show.megabytes(done.bytes)} MB, of which {done.linked:,} "
        size += "are linked, not copied: the disk has them once"
    files = size if done.copied else "the files are there already, and are written where they are"
    say(f"{done.tables:,} lake tables and views; {files}")
    if not confirmed:
        say(f"Nothing was moved: `mirrorlake lake move {quote(new)} --yes` does it.")
        return
    say(f"Now set lake.warehouse to {done.new.removeprefix('file://')}, then `mirrorlake sync`.")
    if done.copied:
        say("The old place is as it was: remove it when nobody reads it any more.")


def _steps(bars: Bars) -> Callable[[str, int, int], None]:
    """A bar for each step of a long command, made when the step begins."""
    shown: dict[str, Callable[[int], None]] = {}

    def report(what: str, done: int, total: int) -> None:
        if what not in shown:
            shown[what] = bars.count(what, total)
            bars.line(f"{what}: {total:,}")
        shown[what](done)

    return report
