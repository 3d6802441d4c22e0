"""The group of all commands, by what they are for, and how one ends.

What belongs here: the list. What doesn't: a command.
"""

from __future__ import annotations

import gc
import logging
import sys

import click
from rich.markup import escape

from mirrorlake import __version__
from mirrorlake.capabilities import Seam
from mirrorlake.cli import show
from mirrorlake.cli.backfills import backfill, invalidate
from mirrorlake.cli.checking.check import check
from mirrorlake.cli.checking.proof import proof
from mirrorlake.cli.checking.readers import readers
from mirrorlake.cli.checking.refold import refold, rekey
from mirrorlake.cli.checking.repair import repair
from mirrorlake.cli.clones import clone
from mirrorlake.cli.completion import completion
from mirrorlake.cli.explain.command import explain
from mirrorlake.cli.follow import follow
from mirrorlake.cli.lake import lake
from mirrorlake.cli.machine import doctor, warm
from mirrorlake.cli.maintain import maintain
from mirrorlake.cli.plans import plan
from mirrorlake.cli.shapes import schema
from mirrorlake.cli.status import status
from mirrorlake.cli.sync import sync
from mirrorlake.cli.tenants import tenants
from mirrorlake.cli.upkeep import accept, gaps, hold, ledger, recover
from mirrorlake.config import config_schema
from mirrorlake.errors import MirrorlakeError


class _Sections(click.Group):
    """A group whose help lists its commands by what they are for."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """A section for each of `SECTIONS`, in its order."""
        longest = max(len(str(one.name)) for some in SECTIONS.values() for one in some)
        for title, commands in SECTIONS.items():
            if not commands:
                continue  # nothing adds any
            with formatter.section(title):
                room = formatter.width - longest - 6
                rows = [(str(c.name), c.get_short_help_str(room)) for c in commands]
                # Sections share one column of names.
                width = max(len(name) for name, _ in rows)
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


@click.group(short_help="Print the contract file's JSON schema.")
def config() -> None:
    """The contract file's format."""


@config.command("schema")
def config_schema_command() -> None:
    """Print the JSON schema of mirrorlake.yaml."""
    show.print_json(config_schema())


_CORE: dict[str, tuple[click.Command, ...]] = {
    "Start": (doctor, plan, explain),
    "Every day": (sync, status, follow, gaps, backfill, hold),
    "Prove and repair": (check, repair, proof, readers, refold, recover),
    "Look": (schema, tenants),
    "Models": (invalidate,),
    "Snapshots": (clone,),
    "BigQuery": (),
    "Upkeep": (maintain, lake, accept, rekey, ledger, config, warm, completion),
}


_FIRST = ("try", "init")
"""What a newcomer begins with, in this order."""


def _opens(command: click.Command) -> int:
    """Sorts first what a newcomer begins with."""
    return _FIRST.index(command.name) if command.name in _FIRST else len(_FIRST)


SECTIONS = {
    title: sorted((*commands, *Seam[click.Command](f"commands: {title}")), key=_opens)
    for title, commands in _CORE.items()
}
"""Every command, by what it is for: a newcomer's first, most used first; those that capabilities
add behind the core's."""
for _commands in SECTIONS.values():
    for _command in _commands:
        cli.add_command(_command)


def main(command: click.Command = cli) -> None:
    """Run a command line; a MirrorlakeError is one line on standard error and its exit code."""
    # Modules and contracts stay: to look through them for garbage every 700 objects, Python's
    # default, took a tenth of a sync of small tables.
    gc.set_threshold(50_000, 20, 20)
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
        show.errors.print(f"[red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)
