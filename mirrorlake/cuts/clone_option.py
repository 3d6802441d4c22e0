"""`clone --cut`: all tables of a cut under second names, and how these go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract
from mirrorlake.errors import ConfigError


class CutCloneOption:
    """A whole cut, as `clone` has it."""

    options: Sequence[Callable[[Any], Any]] = (
        click.option("--cut", help="Clone all tables of this cut, under one NAME."),
    )

    def is_meant(self, names: Sequence[str], options: Mapping[str, Any]) -> bool:
        """See `OtherClone.is_meant`."""
        return options["cut"] is not None or (options["drop"] is not None and not names)

    def clone(self, names: Sequence[str], options: Mapping[str, Any], *, as_json: bool) -> None:
        """See `OtherClone.clone`."""
        from mirrorlake.cuts.readable import ReadableCuts
        from mirrorlake.cuts.shown import clone_cut, drop_clone_of_cut
        from mirrorlake.workspace import Workspace

        cut, drop = options["cut"], options["drop"]
        if (cut is None) == (drop is None) or len(names) != (cut is not None):
            raise ConfigError(
                "clone --cut needs a cut and one name, or --drop and the name alone",
                next_step="mirrorlake clone --cut CUT NAME",
            )
        config = open_contract(options["config_path"])
        with Workspace.open(config) as workspace:
            if drop is not None:
                spaces, said = drop_clone_of_cut(workspace, drop), "dropped"
            else:
                found = ReadableCuts(config, workspace.ledger).named(cut)
                spaces = list(clone_cut(workspace, found, names[0]).namespaces)
                said = f"show cut {cut}, until they are dropped"
        if as_json:
            show.print_json({"dropped" if drop is not None else "namespaces": spaces})
        else:
            text = f"{', '.join(spaces)}: {said}"
            show.console.print(escape(text), highlight=False, soft_wrap=True)


CUT_CLONE: Final = CutCloneOption()
