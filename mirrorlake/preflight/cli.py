"""The command that says what a migration would do to the mirror."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract
from mirrorlake.errors import ConfigError, DdlRefused

if TYPE_CHECKING:
    from mirrorlake.preflight.findings import ColumnFate, Preflight, Propose, Suggest

CODES: Final = {"ok": 0, "attention": 10, "breaks": 20}
_COLORS: Final = {"ok": "green", "attention": "yellow", "breaks": "red"}


@click.command(short_help="Say what a migration would do to the mirror.")
@click.argument("statements", nargs=-1)
@click.option("--file", type=click.Path(), help="A migration; - is standard input.")
@click.option("--database", help="The database of tables that are named without one.")
@show.config_option
@show.json_option
def preflight(
    statements: tuple[str, ...],
    file: str | None,
    database: str | None,
    config_path: Path,
    as_json: bool,
) -> None:
    """Say what a migration ("ALTER TABLE …") would do to the mirror. Nothing is touched.

    Ends with 0 if the mirror follows by itself, 10 if it follows at a cost or with a question, 20
    if a table stops or its readers lose a column; 5 if a statement can't be read or the server
    would refuse it, 4 if a server can't be reached.
    """
    from mirrorlake.preflight.tables import preflight as look
    from mirrorlake.workspace import Workspace

    text = ";\n".join(statements) if statements else _read(file) if file is not None else ""
    given = bool(text.strip()) if statements else file is not None
    if not given or (statements and file is not None):
        raise ConfigError(
            "preflight takes statements or a file",
            next_step='Write them behind the command, `mirrorlake preflight "ALTER TABLE …"`, or '
            "name a file with --file",
        )
    shown = "stdin" if file == "-" else file
    config = open_contract(config_path)
    with Workspace.open(config) as workspace:
        try:
            found = look(workspace, text, _suggest(), _propose(), database=database, file=shown)
        except DdlRefused as error:
            if as_json:
                show.print_json(_of_error(error))
            raise
    if as_json:
        show.print_json([{**asdict(one), "severity": one.severity} for one in found])
    else:
        for one in found:
            _print(one)
    if not found:
        words = f"{shown or 'the text'} has no statement that changes a table: no mirror changes"
        show.errors.print(escape(words), highlight=False, soft_wrap=True)
    sys.exit(max((CODES[one.severity] for one in found), default=0))


def _of_error(error: DdlRefused) -> dict[str, Any]:
    return {
        "error": error.message,
        "next_step": error.next_step,
        "file": error.file,
        "line": error.line,
        "column": error.col,
    }


def _read(file: str) -> str:
    """The text of a migration.

    Raises:
        ConfigError: the file can't be read.
    """
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file} can't be read: {error}", next_step="Name a migration in UTF-8"
        ) from error


def _suggest() -> Suggest:
    from mirrorlake.init.pii import suggest_rule
    from mirrorlake.sources.mysql.tables import Column

    def suggest(column: Column, table: str) -> str | None:
        found = suggest_rule(column, (), table=table)
        return found.reason if found is not None else None

    return suggest


def _propose() -> Propose:
    from mirrorlake.init.suggest_tables import suggest_contract
    from mirrorlake.preflight.findings import Finding
    from mirrorlake.sources.mysql.tables import SourceTable

    def propose(table: SourceTable) -> list[Finding]:
        found = suggest_contract(table, {})
        key = f"key ({', '.join(found.key)})" if found.key else "no key"
        by = f", cursor {found.cursor}" if found.cursor else ""
        words = f"`mirrorlake init` would propose mode {found.mode}, {key}{by}"
        findings = [Finding("ok", words, "; ".join(found.notes))]
        findings += [Finding("ok", str(one), column=one.column) for one in found.warnings]
        for rule in found.rules:
            words = f"{rule.column}: {rule.reason}"
            step = "If it is mirrored, decide what clean shows of it"
            findings.append(Finding("ok", words, step, column=rule.column))
        return findings

    return propose


def _print(one: Preflight) -> None:
    color = _COLORS[one.severity]
    head = f"[bold]{escape(one.table)}[/]: [{color}]{one.severity}[/]"
    show.console.print(head, highlight=False)
    for finding in one.findings:
        place = f"{one.file}:{finding.line}: " if one.file and finding.line else ""
        said = escape(place + finding.words)
        words = f"  [{_COLORS[finding.severity]}]{finding.severity:>9}[/]  {said}"
        show.console.print(words, highlight=False, soft_wrap=True)
        if finding.next_step:
            step = f"             {escape(finding.next_step)}"
            show.console.print(step, highlight=False, soft_wrap=True)
    if one.columns:
        table = show.table("column", "in MySQL…", "in the lake…", "clean")
        for fate in one.columns:
            name = fate.now or fate.before or ""
            if fate.before and fate.now and fate.before != fate.now:
                name = f"{fate.before} → {fate.now}"
            table.add_row(escape(name), *_cells(fate), escape(fate.clean))
        show.console.print(table)
    for label, names in (
        ("changes", one.layers),
        ("read of it", one.readers),
        ("checks that warn until the next sync", one.checks),
    ):
        if names:
            line = f"  {label}: {escape('; '.join(names))}"
            show.console.print(line, highlight=False, soft_wrap=True)


def _cells(fate: ColumnFate) -> tuple[str, ...]:
    pairs = ((fate.type_before, fate.type_now), (fate.lake_before, fate.lake_now))
    return tuple(
        escape(before or now or "")
        if before == now or before is None or now is None
        else escape(f"{before} → {now}")
        for before, now in pairs
    )
