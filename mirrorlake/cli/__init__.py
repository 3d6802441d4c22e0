"""The command line: the engine's capabilities without Dagster.

Exit codes: 0 done · 1 anything not named here · 2 the contract file, a flag, a model's file · 3 the
machine: Java, a jar, a port · 4 the source · 5 a schema or a type · 6 the lake, or BigQuery · 7 the
ledger, or a table that another run holds · 8 a proof that could not be made, or a load that failed
its proof · 9 a difference, a failed test, expectation or external check · 10 a check that can't
decide yet, or nothing failed and not all is right · 20 `plan` and `preflight`: readers lose a
column, or a table stops · 130 Ctrl-C. Where several tables fail, the first failure's code.

What belongs here: options, tables for people, JSON for programs. What doesn't: the use cases
themselves (`mirrorlake.operations`).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from mirrorlake import __version__
from mirrorlake.cli import show
from mirrorlake.cli.attention import ATTENTION, print_not_right
from mirrorlake.cli.backfills import backfill, invalidate
from mirrorlake.cli.backup import backup, restore
from mirrorlake.cli.bigquery import bigquery
from mirrorlake.cli.contract import open_contract
from mirrorlake.cli.external import external
from mirrorlake.cli.generate import models_group
from mirrorlake.cli.init import init
from mirrorlake.cli.lake import lake
from mirrorlake.cli.landing import export, land
from mirrorlake.cli.machine import doctor, warm
from mirrorlake.cli.model_tests import test_command
from mirrorlake.cli.models import run_command, show_command
from mirrorlake.cli.permissions import permissions
from mirrorlake.cli.plans import plan
from mirrorlake.cli.preflight import preflight
from mirrorlake.cli.proof import check, proof
from mirrorlake.cli.readers import readers
from mirrorlake.cli.refold import refold, rekey
from mirrorlake.cli.repair import repair
from mirrorlake.cli.shapes import schema
from mirrorlake.cli.snapshots import clone, maintain, publish
from mirrorlake.cli.sync import sync
from mirrorlake.cli.tenants import tenants
from mirrorlake.cli.upkeep import accept, alert, gaps, hold, ledger, recover
from mirrorlake.config import TableContract, config_schema
from mirrorlake.errors import LakeError, MirrorlakeError

if TYPE_CHECKING:
    from mirrorlake.ledger import Ledger
    from mirrorlake.operations.attention import Attention
    from mirrorlake.operations.status import PublicationStatus, TableStatus


class _Sections(click.Group):
    """A group whose help lists its commands by what they are for."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """A section for each of `SECTIONS`, in its order."""
        longest = max(len(str(one.name)) for some in SECTIONS.values() for one in some)
        for title, commands in SECTIONS.items():
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


@click.command(short_help="Show each table: state, rows, age, what is proved.")
@click.argument("tables", nargs=-1)
@show.config_option
@show.json_option
@click.option(
    "--strict", is_flag=True, help="Say what is not right, and end with 10 if anything is."
)
@click.option("--history", is_flag=True, help="Show what the loads of the last days cost instead.")
@click.option("--days", type=int, default=7, show_default=True, help="How far --history looks.")
def status(
    tables: Sequence[str],
    config_path: Path,
    as_json: bool,
    strict: bool,
    history: bool,
    days: int,
) -> None:
    """Show per table: mode, state, last load, rows, freshness and checks. Queries no source.

    Ends with 6 if the lake is not as the ledger has it. --strict is for monitors: it ends with 0
    only if every table is loaded, folded, decided on and found equal by its newest check.
    """
    from mirrorlake.ledger import Ledger
    from mirrorlake.operations.monitor import not_right
    from mirrorlake.operations.moved_lake import find_all_moved
    from mirrorlake.operations.status import status_of, status_of_models
    from mirrorlake.operations.tenant_status import tenants_status

    config = open_contract(config_path)
    everything = sorted((*config.tables, *config.snapshots), key=lambda contract: contract.name)
    tables = config.named(tables)
    tenants = config.split_tenants(tables) if tables else config.tenants
    others = [name for name in tables if not config.split_tenants([name])]
    chosen = [config.contract(name) for name in others] if tables else everything
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    if history:
        chosen = [contract for contract in chosen if not contract.landed]
        _show_history(ledger, chosen, days, as_json=as_json)
        return
    found = status_of(config, ledger, chosen) if chosen or not tenants else []
    moved = find_all_moved(config, ledger, tenants)
    every = [*found, *tenants_status(ledger, tenants, moved)]
    models = {} if tables else status_of_models(ledger)
    wrong = not_right(ledger, chosen, every, models) if strict else None
    if as_json:
        show.print_json([_with_attention(s, wrong) for s in every])
    else:
        _print_status(every, found)
        for name, there in models.items():
            _print_there(name, there)
        if tenants:
            words = "Each tenant by itself: `mirrorlake tenants`"
            show.console.print(words, highlight=False, soft_wrap=True)
        if wrong is not None:
            print_not_right(wrong, len(every))
    if any(one.state == "moved" for one in every):
        sys.exit(LakeError.exit_code)
    if wrong:
        sys.exit(ATTENTION)


def _with_attention(status: TableStatus, wrong: Sequence[Attention] | None) -> dict[str, Any]:
    """A status as JSON has it; with --strict, what is not right of it."""
    if wrong is None:
        return asdict(status)
    of_table = [asdict(one) for one in wrong if one.table == status.table]
    return {**asdict(status), "not_right": of_table}


def _print_status(found: Sequence[TableStatus], of_one: Sequence[TableStatus]) -> None:
    """A table for people, and what is held and refused.

    Args:
        of_one: tables of one source, by whose name theirs begin; the checks of the others name
            what is held.
    """
    table = show.table("table", "mode", "state", "last load", "rows", "as of", "checks…")
    for s in found:
        rows = "-" if s.rows is None else f"{s.rows:,}"
        state = "held" if s.held_until else s.state
        cells = (s.table, s.mode, state, show.since(s.last_load), rows, show.ago(s.freshness))
        table.add_row(*(escape(str(cell)) for cell in cells), escape(s.checks))
    show.console.print(table)
    for source, until, reason in sorted(
        {(s.table.split(".")[0], s.held_until, s.held_for) for s in of_one if s.held_until}
    ):
        why = f" ({reason})" if reason else ""
        words = f"source {source} is held until {until}{why}"
        show.console.print(f"[yellow]held:[/] {escape(words)}", highlight=False, soft_wrap=True)
    for s in found:
        if s.bigquery is not None:
            _print_there(s.table, s.bigquery)
        if s.error:
            since = f" (first {show.since(s.refused_since)})" if s.refused_since else ""
            words = f"[red]{s.state}{since}:[/] {escape(show.named(s.table, s.error))}"
            show.console.print(words, highlight=False, soft_wrap=True)


def _print_there(name: str, there: PublicationStatus) -> None:
    """A load into BigQuery that runs or failed; of one that is there, what is proved of it."""
    if there.state == "success":
        words = (
            there.proved.words if there.proved is not None else "loaded, not compared, or not equal"
        )
        line = f"BigQuery: {escape(show.named(name, words))}"
        show.console.print(line, highlight=False, soft_wrap=True)
        return
    color = "red" if there.state == "errored" else "yellow"
    words = f"{there.error or there.job} (since {there.submitted})"
    line = f"[{color}]BigQuery {there.state}:[/] {escape(show.named(name, words))}"
    show.console.print(line, highlight=False, soft_wrap=True)


def _show_history(
    ledger: Ledger, chosen: Sequence[TableContract], days: int, *, as_json: bool
) -> None:
    from mirrorlake.operations.history import history_of

    since = datetime.now(UTC) - timedelta(days=days)
    stamps = ledger.stamps([c.name for c in chosen])
    found = [
        history_of(
            *(c.name, ledger.loads(c.name), since),
            costs=ledger.costs(c.name, since),
            stamp=stamps.get(c.name),
        )
        for c in chosen
    ]
    if as_json:
        show.print_json([asdict(h) for h in found])
        return
    columns = ("table", "loads", "failed", "retries", "rows", "MB", "mean s", "longest s")
    columns = (*columns, "source s", "longest query", "lake MB written", "scanned")
    table = show.table(*columns, "future", "backward", "freshness", "last error…")
    for h in found:
        seconds = ("-" if s is None else str(s) for s in (h.mean_seconds, h.longest_seconds))
        counts = (str(n) for n in (h.loads, h.errored, h.retries))
        sizes = (f"{h.rows:,}", f"{h.bytes / 1e6:.2f}")
        cells = (*counts, *sizes, *seconds, str(h.source_seconds))
        scanned = "-" if h.lake_scanned is None else f"{h.lake_scanned / 1e6:.2f}"
        cells = (*cells, str(h.longest_query), f"{h.lake_written / 1e6:.2f}", scanned)
        cells = (*cells, str(h.future), str(h.backward), show.ago(h.freshness))
        table.add_row(escape(h.table), *cells, escape(h.last_error or ""))
    show.console.print(table)


@click.group(short_help="Print the contract file's JSON schema.")
def config() -> None:
    """The contract file's format."""


@config.command("schema")
def config_schema_command() -> None:
    """Print the JSON schema of mirrorlake.yaml."""
    show.print_json(config_schema())


SECTIONS: dict[str, tuple[click.Command, ...]] = {
    "Start": (init, plan, doctor),
    "Every day": (sync, status, gaps, backfill, hold, alert),
    "Prove and repair": (check, repair, proof, readers, refold, recover),
    "Look": (schema, tenants, preflight),
    "Models": (run_command, show_command, test_command, models_group, invalidate, external),
    "Snapshots": (land, publish, clone, export),
    "BigQuery": (bigquery, permissions),
    "Upkeep": (maintain, backup, restore, lake, accept, rekey, ledger, config, warm),
}
"""Every command, by what it is for: a newcomer's first, most used first."""
for _commands in SECTIONS.values():
    for _command in _commands:
        cli.add_command(_command)


def main(command: click.Command = cli) -> None:
    """Run a command line; a MirrorlakeError is one line on standard error and its exit code."""
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
