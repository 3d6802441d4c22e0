"""What the command line's commands share: consoles, common options, and how things are printed."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

# In a file or a pipe nothing is wrapped for a screen that is not there.
console = Console(width=None if sys.stdout.isatty() else 200)
errors = Console(stderr=True)

config_option = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    default=Path("mirrorlake.yaml"),
    envvar="MIRRORLAKE_CONFIG",
    show_default=True,
    show_envvar=True,
    help="The contract file.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def table(*columns: str) -> Table:
    """A table that folds long cells: a name that is cut names nothing."""
    table = Table(box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def ago(age: timedelta | None) -> str:
    if age is None:
        return "-"
    seconds = int(age.total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, default=plain, indent=2, ensure_ascii=False))


def plain(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else str(value)
