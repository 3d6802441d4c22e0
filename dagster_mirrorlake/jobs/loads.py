"""The jobs that load and fold: sync, the days that failed, and deduped again from raw."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from dagster_mirrorlake.jobs.each import (
    OF_MODES,
    PATTERNS,
    Act,
    Done,
    Events,
    Logs,
    chosen_tables,
    failed,
    log_line,
    report,
    run_each,
)
from dagster_mirrorlake.jobs.job import job_of
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.errors import ConfigError, MirrorlakeError, SourceHeld
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.config import TableContract
    from mirrorlake.operations.loading.results import SyncResult
    from mirrorlake.operations.planning.backfill import Filled
    from mirrorlake.workspace import Workspace


class SyncConfig(dg.Config):
    """What a sync loads."""

    tables: list[str] = Field(
        default=[],
        description=f"{PATTERNS}. Empty: every table; of those whose snapshots land, what landed.",
    )
    accept_smaller: bool = Field(
        default=False,
        description="Take full copies that are far smaller than their last. Only with `tables`: "
        "somebody has looked at them. Snapshots that land: `mirrorlake land --accept-smaller`.",
    )


class BackfillConfig(dg.Config):
    """Which days a backfill loads again."""

    tables: list[str] = Field(default=[], description=f"{PATTERNS}. Empty: every table.")
    first: str = Field(
        default="", description="The first day, YYYY-MM-DD. Empty: each table's first that failed."
    )
    last: str = Field(
        default="", description="The last day, YYYY-MM-DD, included. Empty: today (UTC)."
    )
    missing_too: bool = Field(
        default=False, description="Days that were never requested as well, not only failed ones."
    )
    days_per_window: int = Field(
        default=31, description="At most so many days in one load: what is lost when it fails."
    )


class RefoldConfig(dg.Config):
    """Which tables are made again from raw."""

    tables: list[str] = Field(
        default=[],
        description=f"{PATTERNS}. Empty only with `damaged`: a refold reads all of raw.",
    )
    damaged: bool = Field(
        default=False, description="Only those of these tables of which a file can't be read."
    )


def _take(context: dg.OpExecutionContext, workspace: "Workspace", table: MirroredTable) -> Act:
    return (yield from OF_MODES.added[table.contract.mode].sync(context, workspace, table))


def build_sync(
    tables: Sequence[MirroredTable], also: frozenset[str] = frozenset()
) -> dg.JobDefinition:
    """Load what is new, fold it, refresh clean.

    Args:
        tables: of any mode.
        also: resources that reading landings takes.
    """

    def sync(context: dg.OpExecutionContext, config: SyncConfig) -> Events:
        if config.accept_smaller and not config.tables:
            raise dg.Failure("accept_smaller is for tables that somebody has looked at: name them")
        workspace, chosen = chosen_tables(context, tables, config.tables)
        read = [table.contract for table in chosen if not table.contract.landed]
        landed = [table for table in chosen if table.contract.landed]
        done = sync_read(context, workspace, read, accept_smaller=config.accept_smaller)
        for one in (yield from run_each(context, landed, partial(_take, context, workspace))):
            done[one.table] = one
        yield report([done[table.contract.name] for table in chosen], "There is no table.")

    words = "Load the next window of tables, fold it, refresh clean: as `mirrorlake sync`."
    if any(table.contract.landed for table in tables):
        words += " Of tables of mode snapshot what landed is taken: as `mirrorlake land`."
    return job_of("sync", words, SyncConfig, sync, tables, also=also)


def sync_read(
    context: Logs,
    workspace: "Workspace",
    contracts: "Sequence[TableContract]",
    *,
    accept_smaller: bool,
) -> dict[str, Done]:
    """Sync tables that are read from a server; by name, what became of each."""
    from mirrorlake.operations.mirrored.sync_run import SyncOptions, SyncRun
    from mirrorlake.operations.mirrored.tables import TABLES
    from mirrorlake.table.progress import unwatched

    if not contracts:
        return {}
    done: dict[str, Done] = {}
    options = SyncOptions(accept_smaller=accept_smaller)
    with SyncRun.over(workspace, contracts, options) as run, dagster_errors():
        for one in TABLES.sync(run, contracts, unwatched):
            if one.error is not None:
                done[one.name] = _failed(one.name, one.error)
            elif one.result is not None:
                done[one.name] = _synced(one.result)
            if done[one.name].outcome != "unchanged":
                log_line(context, done[one.name])
    unchanged = sum(one.outcome == "unchanged" for one in done.values())
    context.log.info("%s, %d of them unchanged", plural(len(contracts), "table"), unchanged)
    return done


def _failed(name: str, error: MirrorlakeError) -> Done:
    if isinstance(error, SourceHeld):
        return Done(name, "held", str(error))
    return failed(name, error)


def _synced(result: "SyncResult") -> Done:
    if result.unchanged is not None:
        return Done(result.table, "unchanged")
    words = f"{result.window} window, {plural(result.rows, 'row')}, "
    words += f"{plural(result.folded, 'load')} folded, {result.seconds} s"
    return Done(result.table, "synced", words)


def build_backfill_errored(tables: Sequence[MirroredTable]) -> dg.JobDefinition:
    """Load the days again whose newest load failed."""

    def backfill_errored(context: dg.OpExecutionContext, config: BackfillConfig) -> Events:
        workspace, chosen = chosen_tables(context, tables, config.tables)
        with dagster_errors():
            done = fill_days(context, workspace, [table.contract for table in chosen], config)
        yield report(done, "No day failed: nothing was loaded.")

    words = (
        "Load the days again whose newest load failed, then fold: as `mirrorlake backfill "
        "--errored`. One window that fails stops no other."
    )
    return job_of("backfill_errored", words, BackfillConfig, backfill_errored, tables)


def fill_days(
    context: Logs,
    workspace: "Workspace",
    contracts: "Sequence[TableContract]",
    config: BackfillConfig,
) -> list[Done]:
    """Load the days again that failed; what became of each table that had some.

    Raises:
        MirrorlakeError: a day is none, or the ledger can't be read.
    """
    from mirrorlake.operations.days.backfill_windows import plan_backfill
    from mirrorlake.operations.planning.backfill import backfill

    today = datetime.now(UTC).date()
    which = "missing" if config.missing_too else "errored"
    first = _day(config.first, "first") or date.min
    last = min(_day(config.last, "last") or today, today)
    context.log.info("%d tables: days that failed are loaded again", len(contracts))
    filled = backfill(
        workspace,
        contracts,
        lambda c, s: plan_backfill(c, s, first, last, which, config.days_per_window),
        today,
        lambda one: log_line(context, _window(one)),
    )
    windows: dict[str, list[Done]] = {}
    for one in filled:
        windows.setdefault(one.table, []).append(_window(one))
    return [_of_table(name, found) for name, found in windows.items()]


def build_refold(tables: Sequence[MirroredTable]) -> dg.JobDefinition:
    """Make deduped and clean again from raw."""

    def refold(context: dg.OpExecutionContext, config: RefoldConfig) -> Events:
        from dagster_mirrorlake.jobs.recheck import recheck
        from mirrorlake.destinations.iceberg.tables.integrity import is_damaged
        from mirrorlake.operations.repairing.refold import refold_table

        if not config.tables and not config.damaged:
            raise dg.Failure(
                "refold reads all of raw: name tables, or let `damaged` find those of which a file "
                "can't be read",
                allow_retries=False,
            )
        workspace, chosen = chosen_tables(context, tables, config.tables)

        def act(table: MirroredTable) -> Act:
            contract = table.contract
            if config.damaged and not is_damaged(workspace.lake, contract):
                return Done(contract.name, "intact", "every file of it can be read")
            made = refold_table(workspace, contract)
            words = f"{plural(made.loads, 'load')} folded again in {made.seconds:.1f} s"
            why = [f"{one.layer}: {one.damage}" for one in made.layers if one.damage]
            words += f"; could not be read before: {'; '.join(why)}" if why else ""
            again = yield from recheck(context, table)
            return Done(contract.name, "refolded", words, metadata=again)

        yield report((yield from run_each(context, chosen, act)), "There is no table.")

    words = (
        "Make deduped and clean again from raw, whatever they hold: as `mirrorlake refold`. "
        "Readers see what was there until all is written."
    )
    return job_of("refold", words, RefoldConfig, refold, tables)


def _day(text: str, name: str) -> date | None:
    """A day that a person wrote; None where nothing was.

    Raises:
        ConfigError: it is none.
    """
    try:
        return date.fromisoformat(text) if text else None
    except ValueError as error:
        raise ConfigError(
            f"{name}: {text!r} is no day", next_step="Write YYYY-MM-DD, as 2026-01-31"
        ) from error


def _window(one: "Filled") -> Done:
    """What became of one window of days."""
    days = f"{one.first}" if one.first == one.last else f"{one.first} to {one.last}"
    if one.error is None:
        return Done(one.table, "loaded", f"{days}: {plural(one.rows, 'row')}, {one.seconds} s")
    words = f"{days}: {one.error.removeprefix(f'table {one.table}: ')}"
    return Done(one.table, "failed", words, failed=True)


def _of_table(name: str, windows: Sequence[Done]) -> Done:
    """A table's windows as one line: those that failed are what a person must know."""
    bad = [one for one in windows if one.failed]
    words = "; ".join(one.words for one in bad or windows)
    return Done(name, "failed" if bad else "loaded", words, failed=bool(bad))
