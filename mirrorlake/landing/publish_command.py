"""`publish`: which versions of a landed table there are, and going back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract
from mirrorlake.errors import ConfigError


@click.command(short_help="List the versions of a landed table, or choose another.")
@click.argument("table", shell_complete=show.table_names)
@show.config_option
@show.json_option
@click.option(
    "--rollback",
    is_flag=False,
    flag_value="before",
    metavar="[SNAPSHOT]",
    help="Show a version that was published before: the one before, or that of SNAPSHOT.",
)
def publish(table: str, config_path: Path, as_json: bool, rollback: str | None) -> None:
    """List the versions of TABLE (mode snapshot) that readers can be shown, or go back to one.

    SNAPSHOT is the source's number of it, or the lake's snapshot id. Nothing is copied.
    """
    from mirrorlake.destinations.base import Identifier
    from mirrorlake.landing.fold.publish import list_versions, roll_table_back
    from mirrorlake.landing.rolled_back import find_withdrawn, gap_error
    from mirrorlake.workspace import Workspace

    config = open_contract(config_path)
    contract = config.snapshot_table(table)
    identifier = Identifier(contract.namespaces.deduped, contract.table)
    with Workspace.open(config) as workspace:
        if rollback is not None:
            to = None if rollback == "before" else _number(rollback)
            with workspace.leased(contract) as leased:
                roll_table_back(
                    workspace.lake, workspace.ledger, identifier, to, lease=leased.held_lease()
                )
                leased.accept(identifier)
                withdrawn = find_withdrawn(workspace.lake, workspace.ledger, contract)
            if withdrawn:
                words = str(gap_error(contract, withdrawn))
                show.errors.print(words, markup=False, highlight=False, soft_wrap=True)
        found = list_versions(workspace.lake, identifier)
    if as_json:
        show.print_json([asdict(one) for one in found])
        return
    shown = show.table("snapshot", "lake version", "published (UTC)", "readers see")
    for one in found:
        at = f"{one.published_at:%Y-%m-%d %H:%M:%S}"
        shown.add_row(str(one.snapshot), str(one.version), at, "this" if one.current else "")
    show.console.print(shown)


def _number(text: str) -> int:
    if not text.isdecimal():
        raise ConfigError(
            f"--rollback {text!r} is no snapshot's number",
            next_step="Without --rollback the command lists them",
        )
    return int(text)
