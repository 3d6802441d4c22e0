"""The group of all commands, by what they are for, and how one ends.

What belongs here: the list. What doesn't: a command.
"""

from __future__ import annotations

import gc
import logging
import sys
from typing import NoReturn

import click
from rich.markup import escape

from mirrorlake import __version__
from mirrorlake.capabilities import Seam
from mirrorlake.cli import show
from mirrorlake.cli.commands import Commands
from mirrorlake.errors import MirrorlakeError
from mirrorlake.runtime.pandas_imports import hide_pandas


class _Sections(click.Group):
    """A group whose help lists its commands by what they are for."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """A section for each of `SECTIONS`, in its order."""
        longest = max(map(len, self.commands))
        for title, names in SECTIONS.items():
            if not names:
                continue  # nothing adds any
            with formatter.section(title):
                room = formatter.width - longest - 6
                rows = [(name, self.commands[name].get_short_help_str(room)) for name in names]
                # Sections share one column of names.
                width = max(map(len, names))
                formatter.write_dl(rows, col_spacing=2 + longest - width)


@click.group(cls=_Sections, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-v", "--verbose", is_flag=True, help="Log each step to standard error.")
@click.version_option(__version__, prog_name="mirrorlake")
def cli(verbose: bool) -> None:
    """MySQL, mirrored exactly in the lake, and proved."""
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    # We report what its INFO lines and retry warnings would say.
    for library in ("py4j", "sqlglot"):
        logging.getLogger(library).setLevel(logging.ERROR)
    for handler in logging.getLogger().handlers:
        handler.addFilter(_is_no_interrupt)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """False of the trace that py4j logs when Ctrl-C reaches it: `main` says what happened."""
    return not (record.name == "root" and "KeyboardInterrupt" in str(record.msg))


_CORE = {
    "Start": {
        "doctor": "machine:doctor",
        "plan": "plans:plan",
        "explain": "explain.command:explain",
    },
    "Every day": {
        "sync": "sync:sync",
        "status": "status:status",
        "follow": "follow:follow",
        "gaps": "upkeep:gaps",
        "backfill": "backfills:backfill",
        "hold": "upkeep:hold",
    },
    "Prove and repair": {
        "check": "checking.check:check",
        "repair": "checking.repair:repair",
        "proof": "checking.proof:proof",
        "readers": "checking.readers:readers",
        "refold": "checking.refold:refold",
        "recover": "upkeep:recover",
    },
    "Look": {"schema": "shapes:schema", "tenants": "tenants:tenants"},
    "Models": {"invalidate": "backfills:invalidate"},
    "Snapshots": {"clone": "clones:clone"},
    "BigQuery": {},
    "Upkeep": {
        "maintain": "maintain:maintain",
        "lake": "lake:lake",
        "accept": "upkeep:accept",
        "rekey": "checking.refold:rekey",
        "ledger": "upkeep:ledger",
        "config": "schemas:config",
        "warm": "machine:warm",
        "completion": "completion:completion",
    },
}
"""Title → name → ``module:attribute`` of this package."""
_FIRST = ("try", "init")
"""What a newcomer begins with, in this order."""


def _opens(name: str) -> int:
    """Sorts first what a newcomer begins with."""
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)


_ADDED = {title: Seam[click.Command](f"commands: {title}").references for title in _CORE}
SECTIONS = {title: sorted((*names, *_ADDED[title]), key=_opens) for title, names in _CORE.items()}
"""The name of every command, by what it is for: a newcomer's first, most used first; those that
capabilities add behind the core's."""
cli.commands = Commands(
    {
        **{n: f"mirrorlake.cli.{found}" for some in _CORE.values() for n, found in some.items()},
        **{name: found for some in _ADDED.values() for name, found in some.items()},
    }
)


def main(command: click.Command = cli) -> None:
    """Run a command line; a MirrorlakeError is one line on standard error and its exit code."""
    # Modules and contracts stay: to look through them for garbage every 700 objects, Python's
    # default, took a tenth of a sync of small tables.
    gc.set_threshold(50_000, 20, 20)
    hide_pandas()
    try:
        command(standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        words = "Interrupted. What was not committed is not visible; the same command continues."
        show.errors.print(words, highlight=False, soft_wrap=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except MirrorlakeError as error:
        _end_with(error)
    except OSError as error:
        from mirrorlake.runtime.file_errors import file_error

        ours = file_error(error)
        if ours is None:
            raise
        _end_with(ours)


def _end_with(error: MirrorlakeError) -> NoReturn:
    show.errors.print(f"[red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
    sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
