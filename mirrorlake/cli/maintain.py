"""The command `maintain`, and what is printed of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract
from mirrorlake.runtime.outcomes import Outcomes

if TYPE_CHECKING:
    from mirrorlake.operations.upkeep.maintain import Ages, Maintained
    from mirrorlake.workspace import Workspace


@click.command(short_help="Compact tables, expire old versions, remove orphans.")
@click.argument("tables", nargs=-1, shell_complete=show.table_names)
@show.config_option
@show.json_option
@click.option(
    "--keep-days",
    type=click.FloatRange(min=0.05),
    default=7.0,
    show_default=True,
    help="Days that a version stays for its readers, and for publish --rollback.",
)
@show.grace_option
@click.option(
    "--dry-run",
    is_flag=True,
    help="List the orphans, with their sizes, and change nothing.",
)
def maintain(
    tables: Sequence[str],
    config_path: Path,
    as_json: bool,
    keep_days: float,
    grace: float,
    dry_run: bool,
) -> None:
    """Compact TABLES (all by default, and all models), expire old versions, and remove orphans.

    Versions older than --keep-days go, but for the newest 20 and what a branch, a tag, a clone or
    an unfinished load names. Files that no version names go once they are older than --grace hours:
    in a lake on this machine they are set aside for seven days, in the folder `removed` of their
    table.
    """
    from mirrorlake.cli.bars import Bars
    from mirrorlake.operations.upkeep.maintain import Ages
    from mirrorlake.workspace import Workspace

    config = open_contract(config_path)
    ages = Ages(timedelta(days=keep_days), timedelta(hours=grace), dry_run=dry_run)
    steps = Outcomes[list["Maintained"]]()
    with Workspace.open(config) as workspace, Bars(show.errors, quiet=as_json) as bars:
        chosen = list(_maintenance(workspace, tables, ages))
        moved = bars.count("tables", len(chosen))
        for number, (name, step) in enumerate(chosen, 1):
            steps.attempt(name, step)
            moved(number)
            bars.line(f"{number:,} of {len(chosen):,}: {name}")
    done = [one for some in steps.results for one in some]
    show.end_with(Outcomes(done, steps.failures), _print_maintained, as_json=as_json)
    if any(one.error for one in done):
        sys.exit(6)


def _maintenance(
    workspace: Workspace, tables: Sequence[str], ages: Ages
) -> Iterator[tuple[str, Callable[[], list[Maintained]]]]:
    """What is to be maintained, each by its name: tables of every kind, then models.

    Raises:
        ConfigError: a name is nobody's, or several tables'.
    """
    from mirrorlake.operations.planning.computed import COMPUTED, is_computed
    from mirrorlake.operations.upkeep.maintain import maintain_table

    config = workspace.config
    models = [name for name in tables if is_computed(config, name)]
    others = [name for name in tables if name not in models]
    chosen = config.mirrored_tables(others) if tables else config.mirrored
    for contract in chosen:
        yield contract.name, partial(maintain_table, workspace, contract, ages)
    if models or not tables:
        for kind in COMPUTED:
            yield from kind.maintenance(workspace, models, ages)


def _print_maintained(done: Sequence[Maintained]) -> None:
    shown = show.table("lake table", "files", "delete files", "MB", "versions", "orphans", "error…")
    for one in done:
        pairs = (
            (one.before.data_files, one.after.data_files),
            (one.before.delete_files, one.after.delete_files),
            (round(one.before.bytes / 1e6, 2), round(one.after.bytes / 1e6, 2)),
            (one.before.versions, one.after.versions),
        )
        cells = (f"{a} → {b}" if a != b else str(a) for a, b in pairs)
        shown.add_row(escape(one.table), *cells, str(one.orphans), escape(one.error or ""))
    show.console.print(shown)
    for orphan in (file for one in done for file in one.planned):
        how = "for good" if orphan.for_good else "set aside"
        words = f"{orphan.bytes:>15,} bytes, {how}: {orphan.path}"
        show.console.print(escape(words), highlight=False, soft_wrap=True)
