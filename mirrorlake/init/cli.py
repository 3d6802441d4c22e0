"""``mirrorlake init``: writes the first contract, and summarises it on the screen."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.init.contract_origins import with_options, write_other
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.init.from_server import Written

_STATEMENTS = 5
"""How many statements are shown; the file has all."""


def _source_name(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    if name is None:
        return None
    from pydantic import TypeAdapter, ValidationError

    from mirrorlake.config.fields import SourceName

    try:
        return TypeAdapter(SourceName).validate_python(name)
    except ValidationError as error:
        first = error.errors()[0]
        words = first.get("ctx", {}).get("error", first["msg"])
        raise click.BadParameter(str(words)) from error


@click.command(short_help="Write a first contract from a server, or from landed files.")
@click.option("--from", "url", help="mysql://user:password@host:port[/database]")
@with_options
@click.option(
    "--name", callback=_source_name, help="The source's name; by default its database's or host's."
)
@click.option("--database", "databases", multiple=True, help="Only databases like this pattern.")
@click.option("--tables", multiple=True, help="Only tables like this pattern: table or db.table.")
@click.option("--exclude", multiple=True, help="No tables like this pattern: table or db.table.")
@click.option(
    "--mode",
    "modes",
    multiple=True,
    metavar="binlog|TABLE=MODE",
    help="Have full copies follow the server's binary log, where it can be followed; or one table: "
    "TABLE=binlog, TABLE=full.",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="TABLE.COLUMN=RULE",
    help="A column's rule: mask, hash, drop, null, show, or never (not read at all).",
)
@click.option(
    "--no-hash",
    is_flag=True,
    help="Propose drop in place of hash: clean is then a view, and needs no Spark.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("mirrorlake.yaml"),
    help="The file to write.",
)
@click.option("--force", is_flag=True, help="Overwrite the file if it is there.")
@click.option("--yes", is_flag=True, help="Ask nothing: write what is proposed.")
@show.json_option
def init(
    url: str | None,
    name: str | None,
    databases: Sequence[str],
    tables: Sequence[str],
    exclude: Sequence[str],
    modes: Sequence[str],
    columns: Sequence[str],
    no_hash: bool,
    output: Path,
    force: bool,
    yes: bool,
    as_json: bool,
    **others: Any,
) -> None:
    """Introspect a server, or look at the files of a landing, and write a first, commented contract
    for every table.

    On a terminal it asks, a screen for each: the server, databases, tables with their modes and
    why, personal data, the file. It ends with the command that does the same without questions.
    Nothing is written before the last answer. With --yes, or with an option that decides, it asks
    nothing.

    --database, --tables and --exclude take shell-style patterns (quote them: 'wp_*') and may be
    given several times; one with a dot matches db.table. --mode and --column take patterns, too.
    The password may be left out of the URL and given in MIRRORLAKE_INIT_PASSWORD.

    The JSON schema of the file is written beside it, for editors. What can't be looked at is named
    and does not stop the rest. From a landing, what the files don't show (a type, a key) is asked
    for with --type and --key.
    """
    from mirrorlake.init.choice import Choice
    from mirrorlake.init.decisions import read_decisions
    from mirrorlake.init.from_server import write_first_contract

    chosen = (*databases, *tables, *exclude, *modes, *columns)
    asks = not (yes or as_json or chosen or not _is_terminal())
    if any(others.values()) or (url is None and not asks):
        write_other(url, name, output, others, chosen=chosen, force=force, as_json=as_json)
        return
    hashes = False if no_hash else None
    if asks:
        written = _guided(url, name, output, hashes=hashes, force=force)
        if written is None:
            return
        found, output = written
    else:
        found = write_first_contract(
            url or "",
            name,
            output,
            force=force,
            choice=Choice(tuple(databases), tuple(tables), tuple(exclude)),
            decisions=read_decisions(modes, columns),
            hashes=hashes,
        )
    if as_json:
        show.print_json(asdict(found))
    else:
        _print(found, output)


def _guided(
    url: str | None, name: str | None, output: Path, *, hashes: bool | None, force: bool
) -> tuple[Written, Path] | None:
    """What was written by the answers, and where; None if nothing is to be."""
    from mirrorlake.init.guided import guide

    try:
        return guide(url, name, output, hashes=hashes, force=force)
    except click.Abort:  # at a question
        show.errors.print("\nInterrupted. Nothing was written.")
        sys.exit(130)


def _print(found: Written, output: Path) -> None:
    for line in _said(found, output):
        # What is copied stays one line, whatever the width.
        copied = line.startswith("  ")
        wrapped = [line] if copied else wrap(line, show.console.width, subsequent_indent="  ")
        for part in wrapped:
            show.console.print(escape(part), highlight=False, soft_wrap=True)


def _is_terminal() -> bool:
    """Whether somebody sits there who can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _said(written: Written, output: Path) -> Iterator[str]:
    from mirrorlake.init.by_log import proposal_lines
    from mirrorlake.init.summary import late_deletes, listed, modes_in_words, skipped_kinds

    warnings = plural(written.warnings, "warning") if written.warnings else "no warning"
    yield f"Wrote {output}: {modes_in_words(written.modes)}; {warnings} in its comments."
    if written.schema is None:
        yield "mirrorlake.schema.json is a file of somebody else's and stays as it is."
    for words, names in skipped_kinds(written.skipped).items():
        yield f"Skipped {words}: {listed(names)}."
    if written.time_zone != "UTC":
        named = written.time_zone or "UTC, for no known zone is like it: name it yourself"
        zone = f"The server writes DATETIME in its own time zone ({written.zone_words})"
        yield f"{zone}: time_zone is {named}."
    if late := late_deletes(written.modes):
        yield f"{late}."
    yield from proposal_lines(written.log)
    if written.warning_kinds:
        yield "Warnings by kind:"
    yield from (f"- {kind}" for kind in written.warning_kinds)
    yield from _indexes(written)
    if written.same_tables:
        shown = listed([f"{name} in {count:,}" for name, count in written.same_tables.items()])
        yield (
            f"Several databases have tables of the same name ({shown}). If they belong to tenants "
            "of one application, mirror each of these tables as one: write them under `tenants` "
            "(docs/tenants.md) in place of these contracts."
        )
    if written.variables:
        yield f"Set {', '.join(written.variables)} in the environment, read the file, then:"
    else:
        yield "Read the file, then:"
    yield f"  mirrorlake sync --config {quote(str(output))}"


def _indexes(written: Written) -> Iterator[str]:
    from mirrorlake.init.summary import full_copies, nullable_words

    if written.indexes:
        full = written.modes.get("full", 0)
        yield f"{full_copies(full, written.tables, len(written.indexes))}:"
        yield from (f"  {_one_line(one.statement)}" for one in written.indexes[:_STATEMENTS])
    more = len(written.indexes) - _STATEMENTS
    if more > 0:
        yield f"  and {more:,} more, in the file's first comment"
    if written.nullable:
        yield f"{nullable_words(written.nullable, after_others=bool(written.indexes))}."


def _one_line(text: str) -> str:
    return text if text.isprintable() else repr(text)
