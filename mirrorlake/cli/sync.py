"""`sync`: what moved is loaded and folded, many tables at once.

What belongs here: options, bars, and what is printed. What doesn't: which tables need it, and how
they are synced side by side (`mirrorlake.operations`).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.attention import ATTENTION, print_summary
from mirrorlake.cli.contract import open_contract
from mirrorlake.cli.tenants import end_partly, print_synced
from mirrorlake.config import Config, Mirrored
from mirrorlake.errors import ConfigError, LedgerError, SourceHeld
from mirrorlake.operations.mirrored.kinds import sync_any
from mirrorlake.operations.mirrored.sync_run import SyncOptions, SyncRun
from mirrorlake.operations.publishers import Loaded, print_published, publish_all
from mirrorlake.runtime.outcomes import Failures, Outcome, Outcomes

if TYPE_CHECKING:
    from mirrorlake.cli.bars import Bars
    from mirrorlake.operations.loading.results import SyncResult
    from mirrorlake.operations.status.attention import Attention
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
    help="How many tables at once, and several times as many small ones; by default what sources "
    "and this machine allow.",
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
    and not all is right: a layer was put right, loads are unproved, held back or not complete, a
    check found a difference that stands, rows are only in the mirror, or columns wait for a
    decision. A source that is held changes no exit code. Tables that failed for one reason share
    an error.
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
    options = SyncOptions(
        accept_smaller=accept_smaller, jobs=jobs, databases=frozenset(databases), again=again
    )
    done = _Done(with_tenants=bool(tenants))
    _sync(config, [*chosen, *tenants], options, done, quiet=as_json)
    stopped = {table for table, _ in done.stopped}
    synced = [one for one in (*chosen, *tenants) if one.name not in stopped]
    done.published, done.unpublished = publish_all(config, synced)
    done.look_for_attention(config, [*chosen, *tenants])
    if as_json:
        show.print_json(done.as_json())
    else:
        _print_done(done)
    if failures := done.failures:
        sys.exit(failures[0][1].exit_code)
    end_partly(done.tenants)
    if done.attention:
        sys.exit(ATTENTION)


@dataclass
class _Done:
    """What a sync did of all tables.

    Attributes:
        stopped: tables that failed, or whose source is held.
        unpublished: tables that are in the lake, and failed on their way to somewhere else.
        attention: what is not right of those that did not.
    """

    with_tenants: bool
    of_kinds: dict[str, Outcomes[Any]] = field(default_factory=dict[str, Outcomes[Any]])
    published: Loaded = field(default_factory=dict[str, Sequence[Any]])
    stopped: Failures = field(default_factory=Failures)
    unpublished: Failures = field(default_factory=Failures)
    attention: list[Attention] = field(default_factory=list["Attention"])

    @property
    def results(self) -> list[SyncResult]:
        """Of tables of one database."""
        return self.of_kinds.get("tables", Outcomes[Any]()).results

    @property
    def tenants(self) -> list[TenantsSynced]:
        """Of tables of tenants."""
        return self.of_kinds.get("tenants", Outcomes[Any]()).results

    def note(self, kind: str, outcome: Outcome[Any]) -> None:
        """Take up what became of one table."""
        self.of_kinds.setdefault(kind, Outcomes[Any]()).note(outcome)

    def put_in_order(self, names: Sequence[str]) -> None:
        """Results and failures in the tables' order, whichever ended first."""
        order = {name: number for number, name in enumerate(names)}
        for of_kind in self.of_kinds.values():
            of_kind.results.sort(key=lambda one: order.get(one.table, -1))
            # One that was unchanged, and was brought to where the others are, may have failed then.
            of_kind.failures.sort(key=lambda one: order.get(one[0], -1))
            self.stopped.extend(of_kind.failures)

    @property
    def failures(self) -> Failures:
        stopped = [(t, e) for t, e in self.stopped if not isinstance(e, SourceHeld)]
        return stopped + self.unpublished

    @property
    def held(self) -> list[tuple[str, str]]:
        """Tables whose source is held, and why; a table of tenants once for each source."""
        held = [(t, str(e)) for t, e in self.stopped if isinstance(e, SourceHeld)]
        return held + [(one.table, why) for one in self.tenants for why in one.held.values()]

    def look_for_attention(self, config: Config, chosen: Sequence[Mirrored]) -> None:
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
        failed = {t for t, error in self.stopped if not isinstance(error, SourceHeld)}
        unpublished = {table for table, _ in self.unpublished}
        done = [r for r in self.results if r.table not in failed | unpublished]
        tenants = [one for one in self.tenants if one.table not in failed | unpublished]
        unchanged = sum(r.unchanged is not None for r in done)
        partly = sum(bool(one.failed) for one in tenants)
        return {
            "loaded": len(done) - unchanged,
            "unchanged": unchanged,
            "of tenants": len(tenants) - partly,
            "of tenants, in part": partly,
            "in the lake, not published": len(unpublished),
            "held": sum(isinstance(error, SourceHeld) for _, error in self.stopped),
            "failed": len(failed),
        }

    def as_json(self) -> dict[str, Any]:
        waiting = [{"table": t, "reason": reason} for t, reason in self.held]
        found: dict[str, Any] = {"tables": [asdict(r) for r in self.results]}
        found |= {"errors": show.errors_of(self.failures), "held": waiting}
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
    chosen: Sequence[Mirrored],
    options: SyncOptions,
    done: _Done,
    *,
    quiet: bool,
) -> None:
    """Sync tables with progress bars, or a line for each where there is no terminal; what became of
    them is noted."""
    shown = _Shown(len(chosen), quiet=quiet)
    with shown, SyncRun(config, chosen, options, shown.begin) as run:
        try:
            for kind, outcome in sync_any(run, shown.watch):
                done.note(kind.name, outcome)
                shown.end(outcome)
        except KeyboardInterrupt:
            shown.say_interrupted()
            raise
    done.put_in_order([table.name for table in chosen])


class _Shown(ExitStack):
    """What is shown of a sync while it runs: bars, once a table is to be read."""

    def __init__(self, tables: int, *, quiet: bool) -> None:
        super().__init__()
        self._tables, self._quiet = tables, quiet
        self._bars: Bars | None = None
        self._running, self._ended = set[str](), 0

    def begin(self) -> None:
        """Show bars."""
        from mirrorlake.cli.bars import Bars

        self._bars = self.enter_context(Bars(show.errors, quiet=self._quiet))
        self._count = self._bars.count("all tables", self._tables)

    @contextmanager
    def watch(self, table: Mirrored) -> Iterator[OnProgress]:
        """Show how far one table is."""
        assert self._bars is not None  # noqa: S101
        with self._bars.table(table.name) as report:
            self._running.add(table.name)
            yield report
            self._running.discard(table.name)

    def end(self, outcome: Outcome[Any]) -> None:
        """Show what became of one."""
        self._ended += 1
        self._running.discard(outcome.name)
        if self._bars is None:
            return
        self._count(self._ended)
        if self._tables > 1 and (words := _words_of(outcome)):
            self._bars.line(f"{self._ended:,} of {self._tables:,}: {outcome.name}: {words}")

    def say_interrupted(self) -> None:
        """Say how far it was."""
        words = f"{self._ended:,} of {self._tables:,} tables were done."
        if self._running:
            words = f"In table {', '.join(sorted(self._running))}; {words}"
        show.errors.print(escape(words), highlight=False, soft_wrap=True)


def _words_of(outcome: Outcome[Any]) -> str:
    """What became of a table, in a few words; '' where nothing was to be done."""
    if outcome.result is None:
        return "held" if isinstance(outcome.error, SourceHeld) else "failed"
    return outcome.result.words


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
