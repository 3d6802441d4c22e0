"""`sync`: what moved is loaded and folded, many tables at once.

What belongs here: options, bars, and what is printed. What doesn't: which tables need it, and how
they are synced side by side (`mirrorlake.operations`).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.attention import ATTENTION, print_summary
from mirrorlake.cli.contract import open_contract
from mirrorlake.cli.tenants import end_partly, print_synced, sync_all
from mirrorlake.config import Config, TableContract, TenantTable
from mirrorlake.errors import ConfigError, LedgerError, MirrorlakeError, SourceHeld
from mirrorlake.operations.publishers import Loaded, print_published, publish_all
from mirrorlake.runtime.plural import plural
from mirrorlake.runtime.quick_imports import importing

if TYPE_CHECKING:
    from mirrorlake.operations.loading.results import Synced
    from mirrorlake.operations.loading.unchanged import Look
    from mirrorlake.operations.status.attention import Attention
    from mirrorlake.operations.tenants.read_along import TenantsAlong
    from mirrorlake.operations.tenants.results import TenantsSynced
    from mirrorlake.table.progress import OnProgress


@click.command(short_help="Load what is new of every table, or of TABLES, and show it.")
@click.argument("tables", nargs=-1, shell_complete=show.table_names)
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
    help="How many tables at once, of many small ones twice as many; by default what sources and "
    "this machine allow.",
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

    A table that its source shows to be unchanged is not read. One that fails does not stop the
    others, nor does a tenant. --tenant and --again are for tables of tenants.

    Ends with the first failure's code, with 4 if only tenants failed, and with 10 if nothing failed
    and not all is right: a layer was put right, loads are unproved, held back or not complete, the
    newest check found a difference, rows are only in the mirror, or columns wait for a decision. A
    source that is held changes no exit code. Tables that failed for one reason share an error.
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
    config.require_secrets([*chosen, *tenants])
    done = _Done(with_tenants=bool(tenants))
    along = _along(tenants)
    if chosen:
        done.results, done.stopped = _sync(
            *(config, chosen),
            quiet=as_json,
            accept_smaller=accept_smaller,
            jobs=jobs,
            along=along,
        )
    if tenants:
        terms = {"accept_smaller": accept_smaller, "again": again, "quiet": as_json}
        done.tenants, others = sync_all(config, tenants, databases=databases, along=along, **terms)
        done.stopped += others
    stopped = {table for table, _ in done.stopped}
    synced = [one for one in (*chosen, *tenants) if one.name not in stopped]
    done.published, unpublished = publish_all(config, synced)
    done.stopped += unpublished
    done.look_for_attention(config, chosen)
    if as_json:
        show.print_json(done.as_json())
    else:
        _print_done(done)
    if failures := done.failures:
        sys.exit(failures[0][1].exit_code)
    end_partly(done.tenants)
    if done.attention:
        sys.exit(ATTENTION)


def _along(tenants: Sequence[TenantTable]) -> TenantsAlong | None:
    """How tables of tenants read logs along with other tables; None where none follows one."""
    if not any(table.by_log for table in tenants):
        return None
    from mirrorlake.operations.tenants.read_along import TenantsAlong

    return TenantsAlong(tenants)


@dataclass
class _Done:
    """What a sync did of all tables.

    Attributes:
        stopped: tables that failed, or whose source is held.
        attention: what is not right of those that did not.
    """

    with_tenants: bool
    results: list[Any] = field(default_factory=list[Any])
    tenants: list[TenantsSynced] = field(default_factory=list["TenantsSynced"])
    published: Loaded = field(default_factory=dict[str, Sequence[Any]])
    stopped: list[tuple[str, MirrorlakeError]] = field(
        default_factory=list[tuple[str, MirrorlakeError]]
    )
    attention: list[Attention] = field(default_factory=list["Attention"])

    @property
    def failures(self) -> list[tuple[str, MirrorlakeError]]:
        return [(t, e) for t, e in self.stopped if not isinstance(e, SourceHeld)]

    @property
    def held(self) -> list[tuple[str, str]]:
        """Tables whose source is held, and why; a table of tenants once for each source."""
        held = [(t, str(e)) for t, e in self.stopped if isinstance(e, SourceHeld)]
        return held + [(one.table, why) for one in self.tenants for why in one.held.values()]

    def look_for_attention(self, config: Config, chosen: Sequence[TableContract]) -> None:
        """Find what is not right of the tables that did not fail; where the ledger can't be read
        any more, that is one failure more."""
        from mirrorlake.ledger import Ledger
        from mirrorlake.operations.status.attention import find_attention

        stopped = {table for table, _ in self.stopped}
        left = [contract for contract in chosen if contract.name not in stopped]
        try:
            ledger = Ledger(config.ledger.url, config.ledger.wait)
            self.attention = find_attention(ledger, left, self.results, self.tenants)
        except LedgerError as error:
            self.stopped.append(("what is not right of the others is not known", error))

    def outcomes(self) -> dict[str, int]:
        """What became of the tables, in a word → of how many."""
        failed = {table for table, _ in self.failures}
        done = [r for r in self.results if r.table not in failed]
        tenants = [one for one in self.tenants if one.table not in failed]
        unchanged = sum(r.unchanged is not None for r in done)
        partly = sum(bool(one.failed) for one in tenants)
        return {
            "loaded": len(done) - unchanged,
            "unchanged": unchanged,
            "of tenants": len(tenants) - partly,
            "of tenants, in part": partly,
            "held": len(self.stopped) - len(self.failures),
            "failed": len(failed),
        }

    def as_json(self) -> dict[str, Any]:
        errors = [{"table": t, "error": str(e), "code": e.exit_code} for t, e in self.failures]
        waiting = [{"table": t, "reason": reason} for t, reason in self.held]
        found = {"tables": [asdict(r) for r in self.results], "errors": errors, "held": waiting}
        found |= {"attention": [asdict(one) for one in self.attention]}
        found |= {"tenants": [asdict(one) for one in self.tenants]} if self.with_tenants else {}
        return found | {n: [asdict(one) for one in done] for n, done in self.published.items()}


def _print_done(done: _Done) -> None:
    if done.results:
        _print_results(done.results)
    print_published(done.published)
    print_synced(done.tenants)
    for reason in sorted({reason for _, reason in done.held}):
        show.errors.print(f"[yellow]held[/]: {escape(reason)}", highlight=False, soft_wrap=True)
    show.print_errors(done.failures)
    print_summary(done.outcomes(), done.attention)


def _sync(
    config: Config,
    chosen: Sequence[TableContract],
    *,
    quiet: bool = False,
    accept_smaller: bool = False,
    jobs: int | None = None,
    along: TenantsAlong | None = None,
) -> tuple[list[Any], list[tuple[str, MirrorlakeError]]]:
    """Sync tables with progress bars, or a line for each where there is no terminal; their results,
    and the failures by table, each in the tables' order. Tables that are unchanged come first: they
    cost neither PyIceberg's import nor a Spark session."""
    with importing():
        from mirrorlake.ledger import Ledger
        from mirrorlake.operations.loading.results import unchanged_result
        from mirrorlake.operations.loading.unchanged import Look, look_at

    look = Look()
    if not accept_smaller:
        look = look_at(config, Ledger(config.ledger.url, config.ledger.wait), chosen)
    results: list[Any] = [unchanged_result(found, 0, 0, 0.0) for found in look.unchanged.values()]
    chosen = [contract for contract in chosen if contract.name not in look.unchanged]
    if not chosen:
        return results, []

    done, failures = _sync_moved(
        config, chosen, look, quiet=quiet, accept_smaller=accept_smaller, jobs=jobs, along=along
    )
    results += done
    order = [contract.name for contract in chosen]
    # One that was unchanged, and was brought to where the others are, may have failed then.
    failures.sort(key=lambda failure: order.index(failure[0]) if failure[0] in order else -1)
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
    along: TenantsAlong | None,
) -> tuple[list[Any], list[tuple[str, MirrorlakeError]]]:
    """Sync the tables that are not known to be unchanged; results and failures as they came."""
    from mirrorlake.operations.loading.workers import default_jobs, start_workers
    from mirrorlake.runtime.pandas_imports import import_arrow_alone
    from mirrorlake.sources.mysql.reading.carriers import start_carriers

    jobs = jobs or default_jobs(config, chosen)
    # These import what they need while this process does.
    workers = start_workers(config, chosen, look, jobs)
    start_carriers()
    with importing():
        import_arrow_alone()
        from mirrorlake.cli.bars import Bars
        from mirrorlake.operations.loading.sync_tables import sync_tables
        from mirrorlake.workspace import Workspace

    results: list[Any] = []
    failures: list[tuple[str, MirrorlakeError]] = []
    with (
        closing(workers),
        Workspace.open(config) as workspace,
        Bars(show.errors, quiet=quiet) as bars,
    ):
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
                along=along.of(workspace) if along is not None else None,
                workers=workers,
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
    return f"{plural(result.rows, 'row')}, {result.seconds} s"


_EVIDENCE = {
    "server": "their server's log",
    "table": "the time of their last change",
    "digest": "a digest of their rows",
    "log": "their server's binary log",
}
"""What a table was found unchanged by."""


def _print_results(results: Sequence[Any]) -> None:
    """A table of what was loaded: what happens rarely has a column where it happened."""
    loaded = [r for r in results if r.unchanged is None]
    rare = [name for name in ("originals", "future") if any(getattr(r, name) for r in loaded)]
    table = show.table("table", "window", "rows", "MB", "MB/s", *rare, "seconds")
    for r in loaded:
        speed, seconds = f"{r.mb_per_second:.1f}", f"{r.seconds:.1f}"
        counts = (f"{getattr(r, name):,}" for name in rare)
        cells = (f"{r.rows:,}", f"{r.bytes / 1e6:.2f}", speed, *counts, seconds)
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
