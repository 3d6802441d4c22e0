"""`check --cut`: whether what was proved of a cut is still so, and what is printed of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.attention import ATTENTION
from mirrorlake.cli.contract import open_contract
from mirrorlake.cli.reports import DIFFERENT

if TYPE_CHECKING:
    from mirrorlake.cuts.ledger import Cut
    from mirrorlake.cuts.recheck import CutAgain

_SHARED: Final = {"table", "cut", "as_json", "config_path"}
"""Parameters of `check` that mean here what they mean there."""
_COLORS: Final = {"as proved": "green", "as counted": "green", "not compared": "yellow"}


class CutAgainOption:
    """A cut's versions against what was proved of them, as `check` has it."""

    options: Sequence[Callable[[Any], Any]] = (
        click.option("--cut", help="Read this cut's versions again, and compare them with what "
                     "was proved of them. MySQL is not asked."),
    )  # fmt: skip

    def is_meant(self, options: Mapping[str, Any]) -> bool:
        """See `OtherComparison.is_meant`."""
        return bool(options["cut"])

    def check(
        self, table: str | None, options: Mapping[str, Any], given: Sequence[str], *, as_json: bool
    ) -> int:
        """See `OtherComparison.check`."""
        from mirrorlake.cli.bars import Bars
        from mirrorlake.cuts.readable import ReadableCuts
        from mirrorlake.cuts.recheck import look_again
        from mirrorlake.workspace import Workspace

        if other := [name for name in given if name not in _SHARED]:
            option = "--" + other[0].strip("_").replace("_", "-").replace("databases", "tenant")
            raise click.UsageError(f"{option} does not go with --cut, which reads all of a cut.")
        config = open_contract(options["config_path"])
        with Workspace.open(config) as workspace, Bars(show.errors, quiet=as_json) as bars:
            cut = ReadableCuts(config, workspace.ledger).named(options["cut"])
            found = look_again(workspace, cut, table, bars.line)
        if as_json:
            show.print_json(_as_json(found))
        else:
            _print(cut, found)
        return _exit_code(cut, found)


CUT_AGAIN: Final = CutAgainOption()


def _exit_code(cut: Cut, found: CutAgain) -> int:
    if found.failures:
        return found.failures[0][1].exit_code
    if found.verdict in ("changed", "different"):
        return DIFFERENT
    orphans = cut.foreign_keys is not None and cut.foreign_keys.with_orphans
    return ATTENTION if found.verdict == "not compared" or orphans else 0


def _as_json(found: CutAgain) -> dict[str, Any]:
    said = asdict(found) | {"verdict": found.verdict, "errors": show.errors_of(found.failures)}
    said.pop("failures")
    return said


def _print(cut: Cut, found: CutAgain) -> None:
    from mirrorlake.cuts.report import title_of

    show.console.print(escape(title_of(cut)), highlight=False, soft_wrap=True)
    table = show.table("table", "layer", "verdict", "")
    for one in found.tables:
        table.add_row(escape(one.table), one.layer, _colored(one.verdict), escape(one.words))
    show.console.print(table)
    for key in found.foreign_keys:
        text = f"  {escape(f'{key.table} {key.name}')}: {_colored(key.verdict)} · "
        show.console.print(text + escape(key.words), highlight=False, soft_wrap=True)
    for words in found.shown:
        text = f"[red]shown otherwise[/]: {escape(words)}"
        show.console.print(text, highlight=False, soft_wrap=True)
    show.console.print(f"{escape(cut.name)}: {_colored(found.verdict)}", highlight=False)
    show.print_errors(found.failures)
    if found.verdict == "changed":
        step = (
            f"Next: `mirrorlake cut {quote(cut.source)} --prove` makes a new one; this one "
            "stays as it is"
        )
        show.console.print(escape(step), highlight=False, soft_wrap=True)


def _colored(verdict: str) -> str:
    return f"[{_COLORS.get(verdict, 'red')}]{verdict}[/]"
