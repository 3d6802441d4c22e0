"""The command that drops what models left in the lake: it lists it, and drops it with `--yes`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from mirrorlake.cli import show as shown
from mirrorlake.cli.contract import open_contract
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.models.upkeep.prune import Leftover


@click.command("prune")
@click.argument("models", nargs=-1)
@shown.config_option
@shown.json_option
@click.option("--yes", "confirmed", is_flag=True, help="Drop it; without this it is only listed.")
def prune_command(models: Sequence[str], config_path: Path, as_json: bool, confirmed: bool) -> None:
    """List what MODELS (all by default) left in the lake, and drop it with --yes.

    Left behind are partitions that `for` no longer has, and the tables and views of models whose
    files are gone. What no model made is never touched, nor what is of a model that does not
    compile. A snapshot's partitions can't be made again: they are dropped only where the model is
    named.
    """
    from mirrorlake.models.contract_models import compile_project
    from mirrorlake.models.upkeep.prune import drop_leftover, find_leftovers
    from mirrorlake.workspace import Workspace

    config = open_contract(config_path)
    with Workspace.open(config) as workspace:
        project, _ = compile_project(config, workspace.lake)
        found = find_leftovers(workspace.lake, workspace.ledger, project, models)
        going = [one for one in found if not one.kept]
        for one in going if confirmed else []:
            drop_leftover(workspace, project, one)
    if as_json:
        dropped = {one.model for one in going} if confirmed else set[str]()
        shown.print_json([asdict(one) | {"dropped": one.model in dropped} for one in found])
        return
    _print(found, confirmed=confirmed)
    if left := len(project.unfinished):
        words = f"Not looked at: {plural(left, 'model does', 'models do')} not compile"
        shown.console.print(f"{words}: `mirrorlake plan` says why", highlight=False)


def _print(found: Sequence[Leftover], *, confirmed: bool) -> None:
    if not found:
        shown.console.print("Models left nothing.")
        return
    table = shown.table("model", "what", "rows", "partitions…", "becomes…")
    for one in found:
        rows = "-" if one.rows is None else f"{one.rows:,}"
        becomes = one.kept or ("dropped" if confirmed else "would be dropped")
        words = "; ".join(filter(None, (becomes, one.there)))
        keys = f"{one.keys[0]} to {one.keys[-1]} ({len(one.keys):,})" if one.keys else "-"
        table.add_row(escape(one.model), one.what, rows, escape(keys), escape(words))
    shown.console.print(table)
    if not confirmed and any(not one.kept for one in found):
        shown.console.print("Nothing was dropped: `mirrorlake models prune --yes` drops it.")
