"""The commands that look after a mirror: what is missing, holds, and cleaning up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract
from mirrorlake.config import Config, TableContract, TenantTable
from mirrorlake.errors import ConfigError
from mirrorlake.runtime.outcomes import Outcomes

if TYPE_CHECKING:
    from mirrorlake.ledger import Hold, Ledger
    from mirrorlake.operations.publishers import Failures
    from mirrorlake.operations.repairing.recover import Recovered
    from mirrorlake.workspace import Leasable, Workspace


@click.command(short_help="List days that failed or were never loaded.")
@click.argument("tables", nargs=-1, shell_complete=show.table_names)
@show.config_option
@show.json_option
@click.option("--all", "everything", is_flag=True, help="Show loaded days too.")
def gaps(tables: Sequence[str], config_path: Path, as_json: bool, everything: bool) -> None:
    """List the days of every table whose load failed or was never requested. Queries no source.

    States: errored, not asked, unproved (the rows may not be MySQL's any more), unknown (raw lost
    them). Ends with 6 if the lake is not as the ledger has it.
    """
    from mirrorlake.ledger import Ledger
    from mirrorlake.operations.days.gaps import find_stretches, unknown_stretches
    from mirrorlake.operations.other_writers.moved_lake import find_all_moved, refuse_moved_tables

    config = open_contract(config_path)
    today = datetime.now(UTC).date()
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    chosen = config.chosen(tables)
    # What was loaded is a gap where the lake does not hold it any more.
    moved = find_all_moved(config, ledger, chosen)
    found = [
        s
        for c in chosen
        for s in unknown_stretches(find_stretches(c, ledger, today), moved.get(c.name, ()))
    ]
    shown = [s for s in found if everything or s.state not in ("loaded", "reloaded")]
    if as_json:
        show.print_json([asdict(s) for s in shown])
        refuse_moved_tables(moved)
        return
    table = show.table("table", "from", "to", "state", "reason…")
    for s in shown:
        begin = "the beginning" if s.first is None else str(s.first)
        table.add_row(escape(s.table), begin, str(s.last), s.state, escape(s.reason))
    if shown:
        show.console.print(table)
    elif not moved:
        show.console.print("No gaps: every day of every table is loaded.")
    refuse_moved_tables(moved)


@click.command(short_help="Leave a source alone for a while: no load reads it.")
@click.argument("source", required=False)
@show.config_option
@show.json_option
@click.option("--until", help="YYYY-MM-DDTHH:MM[+00:00]; without an offset in UTC.")
@click.option("--reason", default="", help="Shown to everyone who meets the hold.")
@click.option("--release", is_flag=True, help="End the hold now.")
def hold(
    source: str | None,
    config_path: Path,
    as_json: bool,
    until: str | None,
    reason: str,
    release: bool,
) -> None:
    """Leave SOURCE alone until a moment (its maintenance): no load reads it.

    What it changes meanwhile is read afterwards, from where each table ended. Without SOURCE: list
    the holds in force.
    """
    from mirrorlake.ledger import Ledger

    config = open_contract(config_path)
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    if source is None:
        if release or until is not None:
            raise ConfigError(
                "hold needs the SOURCE whose hold begins or ends",
                next_step=f"Sources are: {', '.join(sorted(config.sources))}",
            )
    else:
        _known_source(config, source)
        if release == (until is not None):
            raise ConfigError(
                f"hold {source} needs either --until or --release", next_step="Give one of them"
            )
        words = _hold(ledger, source, until, reason)
        if not as_json:
            show.console.print(escape(words), highlight=False)
            return
    _print_holds(ledger.holds(), as_json=as_json)


def _hold(ledger: Ledger, source: str, until: str | None, reason: str) -> str:
    if until is None:
        words = "is no longer held" if ledger.release(source) else "was not held"
        return f"Source {source} {words}."
    held = ledger.hold(source, _moment(until), reason)
    return f"Source {source} is held until {held.until:%Y-%m-%d %H:%M} UTC."


def _print_holds(holds: Sequence[Hold], *, as_json: bool) -> None:
    if as_json:
        show.print_json([asdict(one) for one in holds])
        return
    table = show.table("source", "held until (UTC)", "reason…")
    for one in holds:
        table.add_row(escape(one.source), f"{one.until:%Y-%m-%d %H:%M}", escape(one.reason))
    if holds:
        show.console.print(table)
    else:
        show.console.print("No source is held.")


def _moment(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(
            f"--until {text!r} is no date and time", next_step="Write 2026-11-22T06:00"
        ) from error
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    if at <= datetime.now(UTC):
        raise ConfigError(f"--until {text} has passed", next_step="Give a moment to come")
    return at


@click.command(short_help="Settle what dead runs left.")
@click.argument("tables", nargs=-1, shell_complete=show.table_names)
@show.config_option
@show.json_option
@show.grace_option
def recover(tables: Sequence[str], config_path: Path, as_json: bool, grace: float) -> None:
    """Put right what dead runs left of TABLES (all by default).

    Pending loads are settled by the lake's own history, and jobs in BigQuery by what became of
    them: of models, too, named as `dataset.name`. Files that no snapshot names are removed once
    they are older than --grace hours. No source is queried.
    """
    from mirrorlake.workspace import Workspace

    config = open_contract(config_path)
    done = Outcomes["Recovered"]()
    with Workspace.open(config) as workspace:
        chosen, failures = _to_recover(workspace, tables)
        done.failures.extend(failures)
        for one in chosen:
            done.attempt(one.name, partial(_recover, workspace, one, timedelta(hours=grace)))
    show.end_with(done, _print_recovered, as_json=as_json)


def _to_recover(workspace: Workspace, names: Sequence[str]) -> tuple[list[Leasable], Failures]:
    """What is to be recovered; and what has jobs somewhere that can't be continued."""
    from mirrorlake.operations.publishers import PUBLISHERS

    config = workspace.config
    besides = [one.unsettled(workspace, names) for one in PUBLISHERS]
    others = [name for name in names if not any(name in one.names for one in besides)]
    found = [one for some in besides for one in some.found]
    failures = [one for some in besides for one in some.failures]
    if others or not found:
        contracts, tenants = config.split(others)
        return [*contracts, *tenants, *found], failures
    mirrored = [] if names else [*config.tables, *config.tenants]
    return [*mirrored, *found], failures


def _recover(workspace: Workspace, one: Leasable, grace: timedelta) -> Recovered:
    from mirrorlake.operations.repairing.recover import recover_published, recover_table

    if isinstance(one, TableContract | TenantTable):
        return recover_table(workspace, one, grace)
    return recover_published(workspace, one)


def _print_recovered(done: Sequence[Recovered]) -> None:
    from mirrorlake.operations.publishers import PUBLISHERS

    there = {
        name: f"in {publisher.title}"
        for name, publisher in PUBLISHERS.added.items()
        if any(one.published.get(name) for one in done)
    }
    columns = ("table", "found committed", "marked errored", "files removed", "MB")
    table = show.table(*columns, *there.values())
    for one in done:
        counts = (str(n) for n in (one.committed, one.errored, one.orphans))
        states = (one.published.get(name) or "-" for name in there)
        table.add_row(escape(one.table), *counts, f"{one.bytes / 1e6:.2f}", *states)
    show.console.print(table)


@click.command(short_help="Take another server for a source, after a failover.")
@click.argument("source", metavar="SOURCE|TABLE")
@show.config_option
@show.json_option
@click.option(
    "--columns",
    is_flag=True,
    help="Of a TABLE whose columns may have got each other's names: the rules are right.",
)
def accept(source: str, config_path: Path, as_json: bool, columns: bool) -> None:
    """Take the server that answers now for SOURCE, after a failover or a move.

    What was read from another is unproved, and each table's next load reads it as a whole. Tables
    that follow the log go on from where they stand, where the server's log has what follows.

    With --columns, take the contract's rules for TABLE to mean its columns of now: those that are
    held out of clean because they may have what another one had are shown by the next sync.
    """
    from mirrorlake.ledger import Ledger
    from mirrorlake.operations.loading.accept import accept_server

    config = open_contract(config_path)
    if columns:
        _accept_columns(config, source, as_json=as_json)
        return
    _known_source(config, source)
    found = accept_server(config, Ledger(config.ledger.url, config.ledger.wait), source)
    if as_json:
        show.print_json([asdict(one) for one in found])
        return
    for one in found:
        words = f"{one.table}: unproved; its next load reads it as a whole from {one.server}"
        words += f" ({one.why})" if one.why else ""
        if one.follows:
            words = f"{one.table}: its log is followed on from where it stands, on {one.server}"
        show.console.print(escape(words), highlight=False, soft_wrap=True)
    if not found:
        show.console.print(f"Nothing to accept: no table of {escape(source)} was read elsewhere.")


def _accept_columns(config: Config, table: str, *, as_json: bool) -> None:
    from mirrorlake.operations.schema_changes.exchanged_columns import accept_columns
    from mirrorlake.workspace import Workspace

    with Workspace.open(config) as workspace:
        contract = config.mirrored_table(table)
        pairs = accept_columns(workspace, contract)
    if as_json:
        show.print_json({"table": contract.name, "columns": pairs})
        return
    names = ", ".join(sorted({name for pair in pairs for name in pair}))
    words = f"{contract.name}: {names}: by the contract's rules in clean again, with the next sync"
    show.console.print(escape(words), highlight=False, soft_wrap=True)


def _known_source(config: Config, source: str) -> None:
    if source not in config.sources:
        raise ConfigError(
            f"{config.path} has no source {source!r}",
            next_step=f"Its sources are: {', '.join(sorted(config.sources))}",
        )


@click.group(short_help="The ledger itself: rebuild one that was lost.")
def ledger() -> None:
    """The ledger itself."""


@ledger.command()
@click.argument("tables", nargs=-1, shell_complete=show.table_names)
@show.config_option
@show.json_option
def rebuild(tables: Sequence[str], config_path: Path, as_json: bool) -> None:
    """Record the loads of TABLES (all by default) that the lake holds and the ledger has lost.

    A SQLite ledger that is damaged is moved aside first. What the ledger knows stays; running it
    again changes nothing. Of loads that only their files name, the range is unknown: if nothing is
    left to continue from, the table is read once more.
    """
    from mirrorlake.ledger import Ledger
    from mirrorlake.operations.repairing.restore_ledger import rebuild_tables, set_damaged_aside

    config = open_contract(config_path)
    # Landed snapshots and tenants are read again by what works on them.
    chosen = config.chosen(tables) if tables or config.tables else ()
    aside = set_damaged_aside(config)
    done = rebuild_tables(config, Ledger(config.ledger.url, config.ledger.wait), chosen)
    if as_json:
        moved = None if aside is None else str(aside)
        show.print_json({"damaged": moved, "tables": [asdict(one) for one in done]})
        return
    if aside is not None:
        show.console.print(f"The damaged ledger is now {escape(str(aside))}.")
    table = show.table("table", "loads found", "of unknown windows", "folded", "branches dropped")
    for one in done:
        counts = (one.loads, one.unknown, one.folded, one.dropped)
        table.add_row(escape(one.table), *map(str, counts))
    show.console.print(table)
    taken = "`mirrorlake land`" if config.snapshots and not chosen else "`mirrorlake sync`"
    words = f"{taken}, then `mirrorlake check`: what checks found is not known any more"
    show.console.print(f"Next: {words}", highlight=False, soft_wrap=True)
