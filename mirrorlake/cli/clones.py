"""The command over clones, and what else a capability can have cloned than one table: a seam."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
from rich.markup import escape

from mirrorlake.capabilities import Seam
from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract
from mirrorlake.config import Config, TableContract
from mirrorlake.errors import ConfigError

if TYPE_CHECKING:
    from mirrorlake.destinations.base import Identifier


class OtherClone(Protocol):
    """Something that is cloned by options of its own."""

    @property
    def options(self) -> Sequence[Callable[[Any], Any]]:
        """The options that `clone` has for it."""
        ...

    def is_meant(self, names: Sequence[str], options: Mapping[str, Any]) -> bool:
        """Whether the names and options that were given are for it."""
        ...

    def clone(self, names: Sequence[str], options: Mapping[str, Any], *, as_json: bool) -> None:
        """Clone it, or drop a clone, and say what was done.

        Args:
            options: all of them, ``drop`` and ``config_path`` too.
        """
        ...


_OTHERS: Seam[OtherClone] = Seam("clone: others")


def _with_others(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add every other clone's options to the command."""
    for option in reversed([option for one in _OTHERS for option in one.options]):
        command = option(command)
    return command


@click.command(short_help="Give a table, or a whole cut, a second name.")
@click.argument("table", required=False, shell_complete=show.table_names)
@click.argument("name", required=False)
@show.config_option
@show.json_option
@click.option("--drop", help="Drop this clone instead: NAMESPACE.NAME of TABLE, NAME of a cut.")
@_with_others
def clone(
    table: str | None, name: str | None, config_path: Path, as_json: bool, **options: Any
) -> None:
    """Give what readers of TABLE see now a second name, NAMESPACE.NAME, without copying rows; or
    all tables of a cut, with --cut, in namespaces that end with __NAME: they stay when it is
    dropped.

    What is written to the clone is seen in the clone alone. Drop it with --drop, never with PURGE;
    without TABLE, --drop NAME drops a cut's, and `--drop at_cut` those that show the newest cut.
    """
    given = options | {"config_path": config_path}
    names = [one for one in (table, name) if one is not None]
    for other in _OTHERS:
        if other.is_meant(names, given):
            other.clone(names, given, as_json=as_json)
            return
    _clone_table(open_contract(config_path), names, options["drop"], as_json=as_json)


def _clone_table(config: Config, names: Sequence[str], drop: str | None, *, as_json: bool) -> None:
    from mirrorlake.destinations.base import Identifier
    from mirrorlake.operations.upkeep.clones import clone_table, drop_clone
    from mirrorlake.workspace import Workspace

    table, *rest = names or [""]
    if not table or len(rest) == (drop is not None):
        raise ConfigError(
            "clone needs a table and a name, or a table, --drop and a name",
            next_step="mirrorlake clone TABLE NAMESPACE.NAME",
        )
    contract = _contract(config, table)
    identifier = Identifier(contract.namespaces.deduped, contract.table)
    wanted = _identifier(rest[0] if drop is None else drop, contract)
    with Workspace.open(config) as opened, opened.leased(contract) as workspace:
        if drop is not None:
            drop_clone(workspace.lake, wanted)
            words, said = f"{wanted} is dropped.", {"dropped": [str(wanted)]}
        else:
            lake, lease = workspace.lake, workspace.held_lease()
            shown = clone_table(lake, workspace.ledger, identifier, wanted, lease=lease)
            words = f"{wanted} shows snapshot {shown} of {identifier}."
            said = {"table": str(wanted), "version": shown}
    if as_json:
        show.print_json(said)
    else:
        show.console.print(escape(words), highlight=False, soft_wrap=True)


def _identifier(name: str, contract: TableContract) -> Identifier:
    from mirrorlake.destinations.base import Identifier

    namespace, dot, table = name.rpartition(".")
    return Identifier(namespace if dot else contract.namespaces.deduped, table)


def _contract(config: Config, name: str) -> TableContract:
    """A table of either kind."""
    try:
        return config.snapshot_table(name)
    except ConfigError:
        return config.table(name)
