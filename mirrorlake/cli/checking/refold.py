"""The command that makes deduped and clean again from raw."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract, refuse_tenants
from mirrorlake.config import Config, TableContract
from mirrorlake.errors import ConfigError
from mirrorlake.runtime.outcomes import Outcomes

if TYPE_CHECKING:
    from mirrorlake.operations.repairing.refold import Refolded


@click.command(short_help="Make deduped and clean again from raw.")
@click.argument("tables", nargs=-1, shell_complete=show.table_names)
@show.config_option
@show.json_option
@click.option("--damaged", is_flag=True, help="Only tables of which a file can't be read.")
def refold(tables: Sequence[str], config_path: Path, as_json: bool, damaged: bool) -> None:
    """Make deduped and clean of TABLES again from raw, whatever they hold or can't show.

    Readers see what was there until all is written. A table that fails does not stop the others.
    """
    from mirrorlake.destinations.iceberg.tables.integrity import is_damaged
    from mirrorlake.operations.repairing.refold import refold_table
    from mirrorlake.workspace import Workspace

    config = open_contract(config_path)
    if not tables and not damaged:
        raise ConfigError(
            "refold reads all of raw, so it is for tables that somebody has chosen",
            next_step="Name them, or let --damaged find those of which a file can't be read",
        )
    refuse_tenants(
        config,
        tables,
        "`mirrorlake sync {table}` folds what is not folded, and everything where somebody else "
        "wrote into deduped; `mirrorlake sync {table} --again` reads every tenant again first",
    )
    names = config.named(tables)
    chosen = [_contract(config, name) for name in names] or config.chosen(())
    done = Outcomes["Refolded"]()
    with Workspace.open(config) as workspace:

        def refold_one(contract: TableContract) -> Refolded | None:
            if damaged and not is_damaged(workspace.lake, contract):
                return None
            return refold_table(workspace, contract)

        for contract in chosen:
            done.attempt(contract.name, partial(refold_one, contract))
    _end(done, "Nothing to do: every file of every table can be read.", as_json=as_json)


@click.command(short_help="Hash clean tables again after the hash key changed.")
@click.argument("tables", nargs=-1, shell_complete=show.table_names)
@show.config_option
@show.json_option
def rekey(tables: Sequence[str], config_path: Path, as_json: bool) -> None:
    """Make the clean tables of TABLES (all by default) again under the hash key that is set now.

    Only tables with hashed columns that were made under another key. Readers see the old hashes
    until all are written. A table that fails does not stop the others.
    """
    from mirrorlake.operations.repairing.rekey import rekey_table
    from mirrorlake.workspace import Workspace

    config = open_contract(config_path)
    refuse_tenants(
        config,
        tables,
        "Sync {table} once with `clean: view` and without `pii: hash`, which drops the hashed "
        "table, then with `clean: table` and the new key",
    )
    done = Outcomes["Refolded"]()
    with Workspace.open(config) as workspace:
        for contract in config.chosen(tables):
            if "hash" in contract.rules.values():
                done.attempt(contract.name, partial(rekey_table, workspace, contract))
    _end(done, "Nothing to do: every clean table was made under this hash key.", as_json=as_json)


def _contract(config: Config, name: str) -> TableContract:
    with suppress(ConfigError):
        return config.snapshot_table(name)  # it is refused with a reason of its own
    return config.table(name)


def _end(done: Outcomes[Refolded], nothing: str, *, as_json: bool) -> None:
    """Print what was made again, and exit with the first failure's code, if there is one."""
    nothing = "" if done.failures else nothing
    show.end_with(done, partial(_print, nothing=nothing), as_json=as_json)


def _print(done: Sequence[Refolded], nothing: str) -> None:
    table = show.table("table", "layer", "rows", "loads", "seconds", "could not be read before…")
    for one in done:
        for layer in one.layers:
            rows = "-" if layer.rows is None else f"{layer.rows:,}"
            cells = (layer.layer, rows, str(one.loads), str(one.seconds))
            table.add_row(escape(one.table), *cells, escape(layer.damage or "-"))
    if done:
        show.console.print(table)
    elif nothing:
        show.console.print(nothing)
