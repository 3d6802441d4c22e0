"""What a first contract can be written from beside a server: a seam for capabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click

from mirrorlake.capabilities import Seam

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Beginning(Protocol):
    """Something that a first contract is written from, with options of its own."""

    @property
    def options(self) -> Sequence[Callable[[Any], Any]]:
        """The options that `init` has for it."""
        ...

    def write(
        self,
        url: str | None,
        name: str | None,
        output: Path,
        options: dict[str, Any],
        *,
        chosen: Sequence[str],
        force: bool,
        as_json: bool,
    ) -> None:
        """Write the contract, and say what is open.

        Args:
            url: the server that is named, too; it is one of both.
            options: what was given of all such options, None or empty where nothing was.
            chosen: patterns of tables.

        Raises:
            UsageError: the options can't be meant.
        """
        ...


_OTHERS: Seam[Beginning] = Seam("init")


def with_options(command: _Command) -> _Command:
    """Add every beginning's options to a command, which gets them by name."""
    for option in reversed([option for one in _OTHERS for option in one.options]):
        command = option(command)
    return command


def write_other(
    url: str | None,
    name: str | None,
    output: Path,
    options: dict[str, Any],
    *,
    chosen: Sequence[str],
    force: bool,
    as_json: bool,
) -> None:
    """Write a first contract from what is no server.

    Raises:
        UsageError: nothing is named that it can be written from.
    """
    for one in _OTHERS:
        one.write(url, name, output, options, chosen=chosen, force=force, as_json=as_json)
        return
    raise click.UsageError("Give --from (a server).")
