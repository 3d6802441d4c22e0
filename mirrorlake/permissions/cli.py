"""`permissions`: who may do what with datasets of BigQuery, and who is in which Google group, from
a file.

What belongs here: options, and what is printed. What doesn't: the difference between what is and
what is declared (`mirrorlake.permissions.access_entries`), and the changes
(`mirrorlake.permissions.compare`).
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
from mirrorlake.cli.contract import open_contract
from mirrorlake.cli.reports import DIFFERENT, UNDECIDED
from mirrorlake.permissions.declared_datasets import permissions_schema
from mirrorlake.permissions.ledger import AccessChanges
from mirrorlake.permissions.permissions_file import permissions_path

if TYPE_CHECKING:
    from mirrorlake.permissions.access_changes import VerifiedAccess
    from mirrorlake.permissions.compare import OpenPermissions
    from mirrorlake.permissions.ledger import AccessChangeRecord, GrantRecord

_file_option = click.option(
    "--file",
    "file_path",
    type=click.Path(path_type=Path),
    help="The permissions file; permissions.yaml beside the contract by default.",
)


@click.group(short_help="Who may do what with BigQuery and the lake, from a file.")
def permissions() -> None:
    """Who may do what with BigQuery, and who is in which Google group: permissions.yaml."""


@permissions.command()
@show.config_option
@_file_option
@show.json_option
def plan(config_path: Path, file_path: Path | None, as_json: bool) -> None:
    """Say what apply would add and remove; nothing is touched."""
    from mirrorlake.permissions.compare import plan_permissions

    planned = plan_permissions(_opened(config_path, file_path))
    if as_json:
        show.print_json([asdict(one) for one in planned])
        return
    for one in planned:
        _print_change(one.resource, one.adds, one.removes, "nothing to change", one.stays)


@permissions.command()
@show.config_option
@_file_option
@show.json_option
def apply(config_path: Path, file_path: Path | None, as_json: bool) -> None:
    """Add what is declared, and remove what is not; the ledger keeps each change."""
    from mirrorlake.ledger import Ledger
    from mirrorlake.permissions.compare import apply_permissions

    declared = _opened(config_path, file_path)
    ledger = Ledger(declared.config.ledger.url, declared.config.ledger.wait)
    tried = apply_permissions(declared, ledger)
    failures = [(one.resource, one.error) for one in tried if one.error is not None]
    done = [one.done for one in tried if one.done is not None]
    if as_json:
        errors = [{"resource": r, "error": str(e), "code": e.exit_code} for r, e in failures]
        show.print_json({"done": [asdict(one) for one in done], "errors": errors})
    else:
        for one in done:
            _print_change(one.resource, one.adds, one.removes, "as declared already", one.stays)
        show.print_errors(failures)
    if failures:
        sys.exit(failures[0][1].exit_code)


@permissions.command()
@show.config_option
@_file_option
@show.json_option
def verify(config_path: Path, file_path: Path | None, as_json: bool) -> None:
    """Compare what is with what is declared, for a schedule; nothing is touched."""
    from mirrorlake.permissions.compare import verify_permissions

    found = verify_permissions(_opened(config_path, file_path))
    if as_json:
        show.print_json([asdict(one) for one in found])
    else:
        _print_verified(found)
    verdicts = {one.verdict for one in found}
    if "different" in verdicts:
        sys.exit(DIFFERENT)
    if "not declared" in verdicts:
        sys.exit(UNDECIDED)


@permissions.command("log")
@show.config_option
@show.json_option
def log_command(config_path: Path, as_json: bool) -> None:
    """Show the changes that apply made, the newest first: who, when, what. Asks nobody."""
    from mirrorlake.ledger import Ledger

    config = open_contract(config_path)
    changes = AccessChanges(Ledger(config.ledger.url, config.ledger.wait)).newest_first()
    if as_json:
        show.print_json([asdict(one) for one in changes])
        return
    for change in changes:
        _print_record(change)
    if not changes:
        show.console.print("No change was ever applied.")


@permissions.command("schema")
def schema_command() -> None:
    """Print the JSON schema of permissions.yaml."""
    show.print_json(permissions_schema())


def _opened(config_path: Path, file_path: Path | None) -> OpenPermissions:
    """What is declared, and the clients for it."""
    from mirrorlake.permissions.compare import open_declared

    config = open_contract(config_path)
    return open_declared(config, file_path or permissions_path(config))


def _print_change(
    resource: str,
    adds: Sequence[GrantRecord],
    removes: Sequence[GrantRecord],
    otherwise: str,
    stays: Sequence[GrantRecord] = (),
) -> None:
    moves = adds or removes
    _say(f"[bold]{escape(resource)}[/]" if moves else f"{escape(resource)}: {otherwise}")
    for sign, color, grants in (("+", "green", adds), ("-", "red", removes), ("=", "dim", stays)):
        for grant in grants:
            reason = f" ({grant['reason']})" if "reason" in grant else ""
            words = f"{sign} {grant['principal']} {grant['role']}{reason}"
            _say(f"  [{color}]{escape(words)}[/]")


def _print_verified(found: Sequence[VerifiedAccess]) -> None:
    for one in found:
        if one.verdict == "not declared":
            words = f"{one.filled_by} fills it, and nobody declares who may read it"
            _say(f"[yellow]{escape(one.resource)}[/]: {escape(words)}")
            continue
        _print_change(one.resource, one.adds, one.removes, "as declared", one.stays)


def _print_record(change: AccessChangeRecord) -> None:
    words = f": {change.words}" if change.words else ""
    state = f"{change.state}{words}"
    _say(f"{change.begun_at:%Y-%m-%d %H:%M:%S} {escape(change.runner)} {escape(state)}")
    _print_change(change.resource, change.adds, change.removes, "nothing")


def _say(words: str) -> None:
    show.console.print(words, highlight=False, soft_wrap=True)
