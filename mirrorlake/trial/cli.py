"""``mirrorlake try``: options, and what is said."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from mirrorlake.cli import show

if TYPE_CHECKING:
    from mirrorlake.trial.run import TrialDone


@click.command("try", short_help="See a mirror and its proof, with no database at hand.")
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep contract, lake and report in this folder, which is new or empty.",
)
@show.json_option
def try_(keep: Path | None, as_json: bool) -> None:
    """Start a MariaDB with an invented shop, mirror it, change rows, and prove the mirror equal.

    Each step is a command that you could type, and is printed. The server listens on this machine
    alone; it is stopped and everything is removed at the end, also after Ctrl-C, but for what
    --keep names. Neither Java nor Spark is needed. MariaDB is downloaded once, into the cache
    folder: 149 MB.
    """
    from mirrorlake.trial.run import refuse_filled, run_trial

    if keep is not None:
        refuse_filled(keep)
    _bring_server()
    done = run_trial(keep, say=_unsaid if as_json else _said, quiet=as_json)
    if as_json:
        show.print_json(asdict(done))
    else:
        _print_where(done)


def _said(words: str) -> None:
    style = "bold" if words.startswith(("$ ", "mysql> ")) else "green"
    show.console.print(f"[{style}]{escape(words)}[/]", highlight=False, soft_wrap=True)


def _unsaid(_: str) -> None:
    """Where a program reads what is printed."""


def _bring_server() -> None:
    """Download MariaDB where it is not here yet, and say so before."""
    from mirrorlake.cli.bars import Bars
    from mirrorlake.runtime.cache import cache_path
    from mirrorlake.runtime.embedded.mariadb_files import missing_jar
    from mirrorlake.runtime.jars import ensure_jars

    jar = missing_jar()
    if jar is None:
        return
    words = (
        f"MariaDB {jar.version} is downloaded, once: {jar.size / 1e6:.0f} MB to {cache_path()}, "
        "250 MB more when it is unpacked"
    )
    show.errors.print(words, markup=False, highlight=False, soft_wrap=True)
    with Bars(show.errors) as bars:
        report = bars.count("bytes", jar.size)
        ensure_jars([jar.group], lambda _, arrived: report(arrived))


def _print_where(done: TrialDone) -> None:
    """Where to look, and how it goes on."""
    lines = [
        f"The server is stopped. {done.tables} tables were proved twice: with their {done.rows:,} "
        "rows, and after the changes."
    ]
    if done.folder is None:
        lines += [
            "Everything is removed. To look around afterwards: mirrorlake try --keep my-trial",
        ]
    else:
        lines += [
            f"Kept in {quote(done.folder)}:",
            "  mirrorlake.yaml    the contract: what is mirrored, how, and why",
            "  report.html        each table, day by day: loaded, proved, fresh",
            "  .mirrorlake/lake   the Iceberg tables, for PyIceberg, DuckDB, Spark or Trino",
        ]
    lines.append("With a database of your own: mirrorlake init")
    for line in lines:
        show.console.print(line, markup=False, highlight=False, soft_wrap=True)
