"""The command line: the engine's capabilities without Dagster.

Exit codes: 0 done · 1 anything not named here · 2 config or flags · 3 the machine · 4 the source ·
5 a schema or a type · 6 the lake · 7 the ledger, or a held table · 8 a proof. Where several tables
fail, the first failure's code.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from mirrorlake import __version__
from mirrorlake.config import Config, TableContract, config_schema, load_config
from mirrorlake.errors import ConfigError, MirrorlakeError

# In a file or a pipe nothing is wrapped for a screen that is not there.
_console = Console(width=None if sys.stdout.isatty() else 200)
_errors = Console(stderr=True)

_config_option = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    default=Path("mirrorlake.yaml"),
    envvar="MIRRORLAKE_CONFIG",
    show_default=True,
    show_envvar=True,
    help="The contract file.",
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-v", "--verbose", is_flag=True, help="Log what is done to standard error.")
@click.version_option(__version__, prog_name="mirrorlake")
def cli(verbose: bool) -> None:
    """MySQL, mirrored exactly in the lake, and proved."""
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    # Its INFO and its retries' warnings are ours to tell.
    logging.getLogger("py4j").setLevel(logging.ERROR)


@cli.command()
@click.option("--from", "url", required=True, help="mysql://user:password@host:port[/database]")
@click.option("--name", help="The source's name; by default its database's or host's.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("mirrorlake.yaml"))
@click.option("--force", is_flag=True, help="Overwrite the file if it is there.")
@_json_option
def init(url: str, name: str | None, output: Path, force: bool, as_json: bool) -> None:
    """Introspect a server and write a first, commented contract for every table.

    The password may be left out of the URL and given in MIRRORLAKE_INIT_PASSWORD.
    """
    from mirrorlake.first_contract import write_first_contract

    written = write_first_contract(url, name, output, force=force)
    if as_json:
        _print_json(asdict(written))
        return
    _console.print(
        f"Wrote {escape(str(output))}: {written.tables} tables, {written.warnings} "
        "warnings in its comments."
    )
    _console.print(f"Set {', '.join(written.variables)} in the environment, read the file, then:")
    _console.print(f"  mirrorlake sync --config {escape(str(output))}", highlight=False)


@cli.command()
@_config_option
@_json_option
def doctor(config_path: Path, as_json: bool) -> None:
    """Show each piece of this machine with its version and state."""
    from mirrorlake.checkup import diagnose_contract
    from mirrorlake.machine.doctor import diagnose

    there = config_path.exists()
    pieces = diagnose(config_path if there else None)
    pieces += diagnose_contract(config_path) if there else []
    if as_json:
        _print_json([asdict(p) for p in pieces])
    else:
        table = _table("piece", "version", "state", "where", "what to do")
        for p in pieces:
            color = {"ok": "green", "missing": "yellow"}.get(str(p.state), "red")
            note = f"(optional) {p.detail}" if p.optional and p.detail else p.detail
            row = (escape(p.name), escape(p.version), f"[{color}]{p.state}[/]", escape(p.where))
            table.add_row(*row, escape(note))
        _console.print(table)
    if any(p.state != "ok" and not p.optional for p in pieces):
        sys.exit(3)


@cli.command()
@click.argument("tables", nargs=-1)
@_config_option
@_json_option
def sync(tables: Sequence[str], config_path: Path, as_json: bool) -> None:
    """Mirror TABLES (all by default): load the next window, fold it, refresh clean.

    A table that fails does not stop the others.
    """
    config = load_config(config_path)
    chosen = [config.table(name) for name in tables] if tables else list(config.tables)
    if not chosen:
        raise ConfigError(
            f"{config_path} has no tables", next_step="`mirrorlake init` writes their contracts"
        )
    results, failures = sync_tables(config, chosen, quiet=as_json)
    if as_json:
        done = [asdict(r) for r in results]
        errors = [{"table": t, "error": str(e), "code": e.exit_code} for t, e in failures]
        _print_json({"tables": done, "errors": errors})
    else:
        _print_results(results)
        for table, error in failures:
            line = f"[red]{escape(table)}[/]: {escape(str(error))}"
            _errors.print(line, highlight=False, soft_wrap=True)
    if failures:
        sys.exit(failures[0][1].exit_code)


def sync_tables(
    config: Config, chosen: Sequence[TableContract], *, quiet: bool = False
) -> tuple[list[Any], list[tuple[str, MirrorlakeError]]]:
    """Sync tables one after the other with progress bars; their results, and the failures by
    table."""
    from mirrorlake.sync import Engine

    results: list[Any] = []
    failures: list[tuple[str, MirrorlakeError]] = []
    with Engine(config) as engine, _progress(quiet) as progress:
        total = progress.add_task("all tables", total=len(chosen))
        for contract in chosen:
            task = progress.add_task(contract.name, total=None)
            try:
                results.append(engine.sync(contract, _reporter(progress, task)))
            except MirrorlakeError as error:
                failures.append((contract.name, error))
            progress.remove_task(task)
            progress.advance(total)
    return results, failures


def _reporter(progress: Progress, task: Any) -> Callable[[int, int], None]:
    def report(done: int, total: int) -> None:
        # One step more than there are chunks: the fold.
        progress.update(task, completed=done, total=total + 1)

    return report


def _progress(quiet: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=_errors,
        transient=True,
        disable=quiet or not _errors.is_terminal,
    )


@cli.command()
@click.argument("tables", nargs=-1)
@_config_option
@_json_option
def status(tables: Sequence[str], config_path: Path, as_json: bool) -> None:
    """Show per table: mode, state, last load, rows, freshness and checks. Asks no source."""
    from mirrorlake.sync import Engine

    config = load_config(config_path)
    chosen = [config.table(name) for name in tables] if tables else list(config.tables)
    with Engine(config) as engine:
        found = [engine.status(contract) for contract in chosen]
    if as_json:
        _print_json([asdict(s) for s in found])
        return
    table = _table("table", "mode", "state", "last load (UTC)", "rows", "freshness", "checks")
    for s in found:
        rows = "-" if s.rows is None else f"{s.rows:,}"
        state = s.state if s.error is None else f"{s.state}: {s.error}"
        when = (s.last_load or "-").removesuffix("+00:00")
        cells = (s.table, s.mode, state, when, rows, _ago(s.freshness), s.checks)
        table.add_row(*(escape(str(cell)) for cell in cells))
    _console.print(table)


@cli.group()
def config() -> None:
    """The contract file's format."""


@config.command()
def schema() -> None:
    """Print the JSON schema of mirrorlake.yaml."""
    _print_json(config_schema())


@cli.command()
@click.option("--once", is_flag=True, help="Stop after the comparison; start no UI.")
@click.option("--folder", type=click.Path(path_type=Path), default=Path(".mirrorlake/demo"))
@click.option("--port", type=int, help="The embedded server's port; a free one by default.")
@click.option("--changes", type=int, default=2_000, show_default=True, help="Live changes to make.")
def demo(once: bool, folder: Path, port: int | None, changes: int) -> None:
    """Mirror real flights and an invented, changing shop from an embedded MariaDB."""
    from mirrorlake.demo.run import run_demo

    sys.exit(run_demo(folder, port=port, changes=changes, once=once, console=_console))


def _table(*columns: str) -> Table:
    """A table that folds long cells: a name that is cut names nothing."""
    table = Table(box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _print_results(results: Sequence[Any]) -> None:
    table = _table("table", "window", "rows", "MB", "originals", "future", "seconds")
    for r in results:
        cells = (
            f"{r.rows:,}",
            f"{r.bytes / 1e6:.2f}",
            str(r.originals),
            str(r.future),
            str(r.seconds),
        )
        table.add_row(escape(r.table), r.window, *cells)
    if results:
        _console.print(table)


def _ago(age: timedelta | None) -> str:
    if age is None:
        return "-"
    seconds = int(age.total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, default=_plain, indent=2, ensure_ascii=False))


def _plain(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else str(value)


def main() -> None:
    """Run the command line; a MirrorlakeError is one line on standard error and its exit code."""
    try:
        cli(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except MirrorlakeError as error:
        _errors.print(f"[red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
