"""The commands about this machine: what it has of what Mirrorlake needs; faster starts of Spark.

What belongs here: options, what is printed, JSON. What doesn't: the looks themselves
(`mirrorlake.runtime.doctor`, `mirrorlake.operations.status.doctor`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from mirrorlake.cli import show

if TYPE_CHECKING:
    from mirrorlake.runtime.doctor import Diagnosis


@click.command(short_help="Say whether machine, contract and servers are ready.")
@show.config_option
@show.json_option
@click.option("--all", "everything", is_flag=True, help="Show the pieces that are fine, too.")
@click.option("--fix", "fixes", is_flag=True, help="Repair what needs no decision; touch no row.")
def doctor(config_path: Path, as_json: bool, everything: bool, fixes: bool) -> None:
    """Look at each piece of this machine and, where there is a contract file, at the lake, the
    ledger, each source and each table's contract.

    What is fine is counted, what is not is shown with what to do, and whether --fix does it. Ends
    with 3 if a piece that `sync` needs is missing or broken. Without --fix nothing is downloaded,
    and no file's mode is changed.

    With --fix, what needs no decision is repaired, and of everything else it is said why it was
    left alone: modes of files that are open wider than the contract says, damaged downloads, leases
    of runs that ended, the contract's JSON schema, Dagster's folder. Rows and contracts are never
    touched.
    """
    machine, contract = _look(config_path)
    pieces = [*machine, *contract]
    if fixes:
        _fix(pieces, config_path, as_json=as_json)
        machine, contract = _look(config_path)
        pieces = [*machine, *contract]
    elif as_json:
        show.print_json([asdict(p) for p in pieces])
    elif everything:
        _print_all(pieces)
    else:
        _print_counts("this machine", machine)
        if config_path.exists():
            _print_counts(str(config_path), contract)
        else:
            words = f"There is no {config_path}: `mirrorlake init` writes a first one."
            show.console.print(escape(words), highlight=False, soft_wrap=True)
        _print_lacking(pieces)
    if any(p.state != "ok" and not p.optional for p in pieces):
        sys.exit(3)


def _look(config_path: Path) -> tuple[list[Diagnosis], list[Diagnosis]]:
    """The pieces of this machine, and those of the contract, if it is there."""
    from mirrorlake.operations.status.doctor import diagnose_contract
    from mirrorlake.runtime.doctor import diagnose

    if not config_path.exists():
        return diagnose(None), []
    return diagnose(config_path), diagnose_contract(config_path)


def _fix(pieces: Sequence[Diagnosis], config_path: Path, *, as_json: bool) -> None:
    """Repair what can be, and say what became of each piece."""
    from mirrorlake.operations.status.fixes import fix_all

    done = fix_all(pieces, config_path)
    if as_json:
        show.print_json([asdict(one) for one in done])
        return
    for one in done:
        word = "[green]fixed[/]" if one.fixed else "[yellow]not fixed[/]"
        line = f"{word} {escape(one.name)}: {escape(one.words)}"
        show.console.print(line, highlight=False, soft_wrap=True)
    if not done:
        show.console.print("There is nothing to fix.")


_COLORS = {"ok": "green", "missing": "yellow", "broken": "red"}


def _print_all(pieces: Sequence[Diagnosis]) -> None:
    table = show.table("piece", "version…", "state", "where…", "note…")
    for p in pieces:
        note = f"(optional) {p.detail}" if p.optional and p.detail else p.detail
        row = (escape(p.name), escape(p.version), f"[{_COLORS[p.state]}]{p.state}[/]")
        table.add_row(*row, escape(p.where), escape(note))
    show.console.print(table)


def _print_counts(of: str, pieces: Sequence[Diagnosis]) -> None:
    """How many pieces are fine, and how many are not."""
    needed = sum(p.state != "ok" and not p.optional for p in pieces)
    fine = [p.name for p in pieces if p.state == "ok"]
    parts = [f"[green]{len(fine)} ok[/] ({escape(show.first_of(fine))})"]
    parts += [f"[red]{needed} not ok[/]"] if needed else []
    if known := sum(_is_to_know(p) for p in pieces):
        parts.append(f"[yellow]{known} to know of[/]")
    if coming := sum(p.optional and p.automatic for p in pieces):
        parts.append(f"{coming} not here, brought when needed")
    words = f"{escape(of)}: {', '.join(parts)}"
    show.console.print(words, highlight=False, soft_wrap=True)


def _is_to_know(piece: Diagnosis) -> bool:
    """Whether `sync` works, and a person may want to do something all the same."""
    return piece.state != "ok" and piece.optional and not piece.automatic


def _print_lacking(pieces: Sequence[Diagnosis]) -> None:
    """What is not fine as a whole, what `sync` needs first; then how to see the rest."""
    needed = [p for p in pieces if p.state != "ok" and not p.optional]
    known = [p for p in pieces if _is_to_know(p)]
    for p in [*needed, *known]:
        color = "yellow" if p.optional else "red"
        words = f"[{color}]{escape(p.name)}:[/] {escape(p.detail or p.state)}"
        show.console.print(words, highlight=False, soft_wrap=True)
    if fixable := [f"{p.name} ({p.fix})" for p in pieces if p.fix]:
        words = f"`mirrorlake doctor --fix` repairs: {escape(show.first_of(fixable))}"
        show.console.print(words, highlight=False, soft_wrap=True)
    words = "Every piece, with its version and place: `mirrorlake doctor --all`"
    show.console.print(words, highlight=False, soft_wrap=True)


@click.command(short_help="Make Spark start faster, once for each environment.")
@click.option("--quiet", is_flag=True, help="Say nothing where there is nothing to do.")
@show.json_option
def warm(quiet: bool, as_json: bool) -> None:
    """Make Spark start faster: archive its Java classes (once per environment)."""
    from mirrorlake.operations.loading.warm import make_archive

    with show.errors.status("Making Java's class archive (once; about a minute)"):
        path = make_archive()
    if as_json:
        show.print_json({"made": path is not None, "path": str(path) if path else None})
    elif path is None and not quiet:
        show.console.print("It is there already.")
    elif path is not None:
        show.console.print(f"Made {escape(str(path))}", highlight=False)
