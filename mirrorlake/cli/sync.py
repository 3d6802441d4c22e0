"""`sync`: what moved is loaded and folded, many tables at once.

What belongs here: options, bars, and what is printed. What doesn't: which tables need it, and how
they are synced side by side (`mirrorlake.operations`).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.bigquery import print_published, publish_all
from mirrorlake.cli.contract import open_contract
from mirrorlake.cli.tenants import end_partly, print_synced, sync_all
from mirrorlake.config import Config, TableContract, TenantTable
from mirrorlake.errors import ConfigError, MirrorlakeError, SourceHeld

if TYPE_CHECKING:
    from mirrorlake.operations.bigquery.publish import PublishedThere
    from mirrorlake.operations.sync_tables import Synced
    from mirrorlake.operations.tenant_results import TenantsSynced
    from mirrorlake.operations.unchanged import Look
    from mirrorlake.table.progress import OnProgress


@click.command(short_help="Load what is new of every table, or of TABLES, and show it.")
@click.argument("tables", nargs=-1)
@show.config_option
@show.json_option
@click.option(
    "--accept-smaller",
    is_flag=True,
    help="Take full copies of TABLES that are far smaller than their last.",
)
@click.option("--tenant", "databases", multiple=True, help="Only this tenant's database; several.")
@click.option("--again", is_flag=True, help="Read tenants that their source shows unchanged, too.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    help="How many tables at once; by default what sources and this machine allow.",
)
def sync(
    tables: Sequence[str],
    config_path: Path,
    as_json: bool,
    accept_smaller: bool,
    databases: Sequence[str],
    again: bool,
    jobs: int | None,
) -> None:
    """Mirror TABLES (all by default): load the next window, fold it, refresh clean.

    A table that fails does not stop the others, nor does a tenant. --tenant and --again are for
    tables of tenants.
    """
    config = open_contract(config_path)
    if accept_smaller and not tables:
        raise ConfigError(
            "--accept-smaller is for tables that somebody has looked at",
            next_step="Name them: mirrorlake sync TABLE --accept-smaller",
        )
    chosen, tenants = config.split(tables)
    if (databases or again) and not (tables and not chosen):
        raise ConfigError(
            "--tenant and --again are for tables of tenants",
            next_step="Name one: mirrorlake sync TABLE --tenant DATABASE",
        )
    config.require_secrets(chosen, tenants)
    results: list[Any] = []
    stopped: list[tuple[str, MirrorlakeError]] = []
    if chosen:
        results, stopped = _sync(
            config, chosen, quiet=as_json, accept_smaller=accept_smaller, jobs=jobs
        )
    synced: list[TenantsSynced] = []
    if tenants:
        terms = {"accept_smaller": accept_smaller, "again": again, "quiet": as_json}
        synced, others = sync_all(config, tenants, databases=databases, **terms)
        stopped += others
    loaded, unloaded = _publish(config, [*chosen, *tenants], {table for table, _ in stopped})
    stopped += unloaded
    held = [(t, str(e)) for t, e in stopped if isinstance(e, SourceHeld)]
    held += [(one.table, reason) for one in synced for reason in one.held.values()]
    failures = [(t, e) for t, e in stopped if not isinstance(e, SourceHeld)]
    if as_json:
        done = [asdict(r) for r in results]
        errors = [{"table": t, "error": str(e), "code": e.exit_code} for t, e in failures]
        waiting = [{"table": t, "reason": reason} for t, reason in held]
        found = {"tables": done, "errors": errors, "held": waiting}
        found |= {"tenants": [asdict(one) for one in synced]} if tenants else {}
        found |= {"bigquery": [asdict(one) for one in loaded]} if loaded else {}
        show.print_json(found)
    else:
        if chosen:
            _print_results(results)
        if loaded:
            print_published(loaded)
        print_synced(synced)
        for reason in sorted({reason for _, reason in held}):
            show.errors.print(f"[yellow]held[/]: {escape(reason)}", highlight=False, soft_wrap=True)
        show.print_errors(failures)
    if failures:
        sys.exit(failures[0][1].exit_code)
    end_partly(synced)


def _publish(
    config: Config, chosen: Sequence[TableContract | TenantTable], stopped: Collection[str]
) -> tuple[list[PublishedThere], list[tuple[str, MirrorlakeError]]]:
    """Load into BigQuery what is to be there of the tables that were synced."""
    there = [one for one in chosen if one.in_bigquery and one.name not in stopped]
    return publish_all(config, there)


def _sync(
    config: Config,
    chosen: Sequence[TableContract],
    *,
    quiet: bool = False,
    accept_smaller: bool = False,
    jobs: int | None = None,
) -> tuple[list[Any], list[tuple[str, MirrorlakeError]]]:
    """Sync tables with progress bars, or a line for each where there is no terminal; their results,
    and the failures by table, each in the tables' order. Tables that are unchanged come first: they
    cost neither PyIceberg's import nor a Spark session."""
    from mirrorlake.ledger import Ledger
    from mirrorlake.operations.results import unchanged_result
    from mirrorlake.operations.unchanged import Look, look_at

    look = Look()
    if not accept_smaller:
        look = look_at(config, Ledger(config.ledger.url, config.ledger.wait), chosen)
    results: list[Any] = [unchanged_result(found, 0, 0, 0.0) for found in look.unchanged.values()]
    chosen = [contract for contract in chosen if contract.name not in look.unchanged]
    if not chosen:
        return results, []

    done, failures = _sync_moved(
        config, chosen, look, quiet=quiet, accept_smaller=accept_smaller, jobs=jobs
    )
    results += done
    order = [contract.name for contract in chosen]
    failures.sort(key=lambda failure: order.index(failure[0]))
    results.sort(key=lambda result: order.index(result.table) if result.table in order else -1)
    return results, failures


def _sync_moved(
    config: Config,
    chosen: Sequence[TableContract],
    look: Look,
    *,
    quiet: bool,
    accept_smaller: bool,
    jobs: int | None,
) -> tuple[list[Any], list[tuple[str, MirrorlakeError]]]:
    """Sync the tables that are not known to be unchanged; results and failures as they came."""
    from mirrorlake.cli.bars import Bars
    from mirrorlake.operations.sync_tables import default_jobs, sync_tables
    from mirrorlake.workspace import Workspace

    results: list[Any] = []
    failures: list[tuple[str, MirrorlakeError]] = []
    jobs = jobs or default_jobs(config, chosen)
    with Workspace.open(config) as workspace, Bars(show.errors, quiet=quiet) as bars:
        done, running = bars.count("all tables", len(chosen)), set[str]()

        @contextmanager
        def watch(contract: TableContract) -> Iterator[OnProgress]:
            with bars.table(contract.name) as report:
                running.add(contract.name)
                yield report
                running.discard(contract.name)

        number = 0
        try:
            for synced in sync_tables(
                *(workspace, chosen),
                jobs=jobs,
                accept_smaller=accept_smaller,
                look=look,
                watch=watch,
            ):
                number += 1
                if synced.result is not None:
                    results.append(synced.result)
                elif synced.error is not None:
                    failures.append((synced.contract.name, synced.error))
                running.discard(synced.contract.name)
                done(number)
                if len(chosen) > 1:
                    line = f"{number:,} of {len(chosen):,}: {synced.contract.name}"
                    bars.line(f"{line}: {_words_of(synced)}")
        except KeyboardInterrupt:
            before = f"{number:,} of {len(chosen):,} tables were done"
            words = f"In table {', '.join(sorted(running))}; {before}." if running else f"{before}."
            show.errors.print(escape(words), highlight=False, soft_wrap=True)
            raise
    return results, failures


def _words_of(synced: Synced) -> str:
    """What became of a table, in a few words."""
    result = synced.result
    if result is None:
        return "held" if isinstance(synced.error, SourceHeld) else "failed"
    if result.unchanged is not None:
        return "unchanged"
    return f"{result.rows:,} rows, {result.seconds} s"


_EVIDENCE = {
    "server": "their server's log",
    "table": "the time of their last change",
    "digest": "a digest of their rows",
}
"""What a table was found unchanged by."""


def _print_results(results: Sequence[Any]) -> None:
    columns = ("table", "window", "rows", "MB", "MB/s", "originals", "future", "seconds")
    table = show.table(*columns, "longest query")
    loaded = [r for r in results if r.unchanged is None]
    for r in loaded:
        cells = (
            f"{r.rows:,}",
            f"{r.bytes / 1e6:.2f}",
            f"{r.mb_per_second:.1f}",
            str(r.originals),
            str(r.future),
            str(r.seconds),
            str(r.longest_query),
        )
        table.add_row(escape(r.table), r.window, *cells)
    if loaded:
        show.console.print(table)
    for r in (r for r in loaded if r.carried):
        words = f"{r.table}: {r.carried:,} of {r.rows:,} rows are in MySQL as deduped held them: "
        words += "it digested them, and sent none"
        show.console.print(escape(words), highlight=False, soft_wrap=True)
    if found := Counter(_EVIDENCE[r.unchanged] for r in results if r.unchanged is not None):
        by = ", ".join(f"{count:,} by {words}" for words, count in sorted(found.items()))
        show.console.print(f"{found.total():,} of {len(results):,} unchanged: {by}")
