"""Which work is meant: what `backfill` does and `plan backfill` shows.

What belongs here: options and what they mean. What doesn't: finding the work
(`mirrorlake.operations.planning.work`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.config import Config

if TYPE_CHECKING:
    from mirrorlake.operations.days.backfill_windows import WorkRequest

DAY = click.DateTime(["%Y-%m-%d"])
_Command = TypeVar("_Command", bound=Callable[..., Any])


def work_options(command: _Command) -> _Command:
    """The options that say which work is meant: `backfill` does it, `plan backfill` shows it."""
    options = (
        click.option("--from", "first", type=DAY, help="The first day, YYYY-MM-DD."),
        click.option("--to", "last", type=DAY, help="The last day, included."),
        click.option(
            "--missing",
            "which",
            flag_value="missing",
            default=True,
            help="Days without a load; partitions that are missing or stale.",
        ),
        click.option(
            "--errored", "which", flag_value="errored", help="Days whose newest load failed."
        ),
        click.option("--all", "which", flag_value="all", help="All of the range, again."),
        click.option("--invalid", "which", flag_value="invalid", help="What was declared invalid."),
        click.option(
            "--days-per-window",
            type=int,
            default=31,
            show_default=True,
            help="Days that one window reads, at most.",
        ),
        click.option(
            "--limit", type=click.IntRange(1), help="At most this many partitions, the first ones."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def request_of(
    config: Config,
    targets: Sequence[str],
    first: datetime | None,
    last: datetime | None,
    which: Any,
    days_per_window: int,
    limit: int | None,
) -> WorkRequest:
    """What options mean; a target is a model where there is a file of one.

    Raises:
        ConfigError: there is no such table.
    """
    from mirrorlake.operations.days.backfill_windows import WorkRequest
    from mirrorlake.operations.planning.computed import is_computed

    models = tuple(name for name in targets if is_computed(config, name))
    tables = [name for name in targets if name not in models]
    return WorkRequest(
        tables=config.chosen(tables) if tables else (),
        models=models,
        which=which,
        first=first.date() if first else None,
        last=last.date() if last else None,
        days_per_window=days_per_window,
        limit=limit,
    )


def print_warnings(words: Sequence[str]) -> None:
    for one in words:
        show.errors.print(f"Warning: {escape(one)}", highlight=False, soft_wrap=True)
