"""Checks of tables that are compared as a whole, whatever they are, and the options of all checks.

What belongs here: what `check` asks of a kind of table. What doesn't: how one is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from mirrorlake.cli.reports import Checked

if TYPE_CHECKING:
    from mirrorlake.workspace import Workspace

_SHOWN: Final = 20


@dataclass(frozen=True)
class CheckTerms:
    """How tables are checked: the command's options."""

    options: dict[str, Any]
    databases: tuple[str, ...]
    as_json: bool
    show_pii: bool

    @property
    def shown(self) -> int:
        """So many rows that differ are on the screen: as many as --most says, where it is given."""
        given = click.get_current_context().get_parameter_source("most")
        return _SHOWN if given in (None, ParameterSource.DEFAULT) else int(self.options["most"])


@dataclass(frozen=True)
class WholeCheck:
    """How tables of one kind are checked, all of whose rows are compared.

    Attributes:
        words: what such a table is: ``kept by snapshots``.
        takes: the options that are for it.
        check: compares one; it takes a table of its kind alone.
    """

    words: str
    takes: str
    check: Callable[[Workspace, Any, CheckTerms], Checked]
