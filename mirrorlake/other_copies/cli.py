"""`check --against`: options, and what is printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.reports import COLORS, code_of_all, print_tally

if TYPE_CHECKING:
    from mirrorlake.other_copies.run import ComparedCopies
    from mirrorlake.other_copies.verdict import ComparedCopy

_OPTIONS = (
    click.option("--against", help="Compare MySQL with a copy that another tool made: its path "
                 "or URI. No contract is read, and nothing is written."),
    click.option("--from", "url", help="With --against: mysql://user@host:port/database."),
    click.option("--their-table", help="With --against: what the copy calls TABLE."),
    click.option("--map", "columns", multiple=True, help="With --against: a column of another "
                 "name in the copy, as theirs=ours; several."),
    click.option("--key", multiple=True, help="With --against: a column by which rows are "
                 "paired; several. By default the primary key."),
    click.option("--leave-out", multiple=True, help="With --against: a column of MySQL's that is "
                 "not compared; without TABLE, a table; several."),
    click.option("--show-values", is_flag=True, help="With --against: show values of rows that "
                 "differ."),
    click.option("--report", type=click.Path(path_type=Path, dir_okay=False), help="With "
                 "--against: write a page to hand on, .html or .md."),
)  # fmt: skip
_OWN = {
    "url": "--from",
    "their_table": "--their-table",
    "columns": "--map",
    "key": "--key",
    "leave_out": "--leave-out",
    "show_values": "--show-values",
    "report": "--report",
}
_OF_ONE = {"where": "--where", "columns": "--map", "key": "--key"}
_SHARED = {"table", "against", "where", "as_json"}
"""Parameters of `check` that mean here what they mean there."""


class Copies:
    """The comparison with another tool's copy, as `check` has it."""

    options: Sequence[Callable[[Any], Any]] = _OPTIONS

    def is_meant(self, options: Mapping[str, Any]) -> bool:
        """See `OtherComparison.is_meant`."""
        if options["against"]:
            return True
        if alone := [name for key, name in _OWN.items() if options[key]]:
            raise click.UsageError(f"{alone[0]} goes with --against, which names the copy.")
        return False

    def check(
        self, table: str | None, options: Mapping[str, Any], given: Sequence[str], *, as_json: bool
    ) -> int:
        """See `OtherComparison.check`."""
        from mirrorlake.cli.bars import Bars
        from mirrorlake.other_copies.compare import CopyTerms
        from mirrorlake.other_copies.report import refuse_report, write_report
        from mirrorlake.other_copies.run import CopiesAsked, check_copies

        _refuse_others(given)
        if not options["url"]:
            raise click.UsageError(
                "--against needs --from: the server, as mysql://user@host:3306/database. Its "
                "password may be in the environment, as MIRRORLAKE_CHECK_PASSWORD."
            )
        if table is None and (alone := [n for k, n in _OF_ONE.items() if options[k]]):
            raise click.UsageError(f"{alone[0]} is of one table: name it, mirrorlake check TABLE.")
        if options["report"]:
            refuse_report(options["report"])
        terms = CopyTerms(
            columns=_mapped(options["columns"]),
            key=tuple(name.strip() for one in options["key"] for name in one.split(",")),
            left_out=tuple(options["leave_out"]),
            where=options["where"] or "",
            show_values=options["show_values"],
        )
        names = (options["against"], options["url"], table, options["their_table"])
        with Bars(show.errors, quiet=as_json or table is not None) as bars:
            found = check_copies(
                CopiesAsked(*names, terms), lambda name, words: bars.line(f"{name}: {words}")
            )
        if options["report"]:
            write_report(options["report"], found)
        if as_json:
            show.print_json(_as_json(found))
        else:
            _print(found, options["report"])
        verdicts = [one.verdict for one in found.tables]
        # A table that the copy has not was not compared: that is not equal.
        verdicts += ["undecided"] * bool(found.only_mysql)
        return code_of_all(verdicts, found.failures)


COPIES = Copies()


def _refuse_others(given: Sequence[str]) -> None:
    """See that no option is given that is about our own mirror."""
    own = {*_OWN, *_SHARED}
    if other := [name for name in given if name not in own and name != "config_path"]:
        option = "--" + other[0].strip("_").replace("_", "-").replace("databases", "tenant")
        raise click.UsageError(f"{option} is about our own mirror: it does not go with --against.")


def _mapped(texts: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        theirs, sign, ours = text.partition("=")
        if not sign or not theirs or not ours:
            raise click.UsageError(f"--map {text}: write theirs=ours, like customerid=CustomerID.")
        if theirs in found or ours in found.values():
            raise click.UsageError(f"--map {text}: one of both is mapped twice.")
        found[theirs] = ours
    return found


def _as_json(found: ComparedCopies) -> dict[str, Any]:
    return {
        "tables": [one.as_json() for one in found.tables],
        "errors": [
            {"table": name, "error": str(error), "code": error.exit_code}
            for name, error in found.failures
        ],
        "only_mysql": list(found.only_mysql),
        "only_theirs": list(found.only_theirs),
    }


def _print(found: ComparedCopies, report: Path | None) -> None:
    for one in found.tables:
        _print_one(one)
    if found.only_mysql:
        _say(f"in MySQL alone, not compared: {show.first_of(found.only_mysql)}")
    if found.only_theirs:
        _say(f"in the copy alone, not compared: {show.first_of(found.only_theirs)}")
    if len(found.tables) + len(found.failures) > 1 or found.failures:
        print_tally("compared", [one.verdict for one in found.tables], found.failures)
    if report is not None:
        _say(f"report: {report}")


def _print_one(one: ComparedCopy) -> None:
    from mirrorlake.other_copies.lines import difference_line, note_lines, scope_lines, value_lines

    color = COLORS[one.verdict]
    head = f"{escape(one.table)}: [{color}]{one.verdict}[/] ({escape(one.compared())})"
    show.console.print(head, highlight=False, soft_wrap=True)
    for found in one.differences:
        if not found.lossless:
            _say(f"  {difference_line(found)}")
            for line in value_lines(found):
                _say(f"      {line}")
    for line in note_lines(one):
        _say(f"  (note) {line}")
    for line in scope_lines(one):
        _say(f"  {line}")


def _say(line: str) -> None:
    show.console.print(escape(line), highlight=False, soft_wrap=True)
