"""The commands that look after a mirror: what is missing, holds, and cleaning up."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract
from mirrorlake.config import Config, TenantTable
from mirrorlake.errors import ConfigError, MirrorlakeError
from mirrorlake.ledger.lake_heads import OF_MODELS
from mirrorlake.models.published import PublishedModel

if TYPE_CHECKING:
    from mirrorlake.ledger import Hold, Ledger
    from mirrorlake.operations.bigquery.tables import PublishedContract
    from mirrorlake.operations.recover import Recovered
    from mirrorlake.workspace import Workspace


@click.command(short_help="List days that failed or were never loaded.")
@click.argument("tables", nargs=-1)
@show.config_option
@show.json_option
@click.option("--all", "everything", is_flag=True, help="Show loaded days too.")
def gaps(tables: Sequence[str], config_path: Path, as_json: bool, everything: bool) -> None:
    """List the days of every table whose load failed or was never requested. Queries no source.

    States: errored, not asked, unproved (the rows may not be MySQL's any more), unknown (raw lost
    them). Ends with 6 if the lake is not as the ledger has it.
    """
    from mirrorlake.ledger import Ledger
    from mirrorlake.operations.gaps import find_stretches, unknown_stretches
    from mirrorlake.operations.moved_lake import find_all_moved, refuse_moved_tables

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
@click.argument("tables", nargs=-1)
@show.config_option
@show.json_option
@click.option(
    "--grace",
    type=float,
    default=24.0,
    show_default=True,
    help="Hours since a file was written before it is an orphan; over Spark Connect at least 1.",
)
def recover(tables: Sequence[str], config_path: Path, as_json: bool, grace: float) -> None:
    """Put right what dead runs left of TABLES (all by default).

    Pending loads are settled by the lake's own history, and jobs in BigQuery by what became of
    them: of models, too, named as `dataset.name`. Files that no snapshot names are removed once
    they are older than --grace hours. No source is queried.
    """
    from mirrorlake.workspace import Workspace

    config = open_contract(config_path)
    done: list[Recovered] = []
    with Workspace.open(config) as workspace:
        chosen, failures = _to_recover(workspace, tables)
        for contract in chosen:
            try:
                done.append(_recover(workspace, contract, timedelta(hours=grace)))
            except MirrorlakeError as error:
                failures.append((contract.name, error))
    if as_json:
        errors = [{"table": t, "error": str(e), "code": e.exit_code} for t, e in failures]
        show.print_json({"tables": [asdict(one) for one in done], "errors": errors})
    else:
        _print_recovered(done)
        show.print_errors(failures)
    if failures:
        sys.exit(failures[0][1].exit_code)


def _to_recover(
    workspace: Workspace, names: Sequence[str]
) -> tuple[list[PublishedContract], list[tuple[str, MirrorlakeError]]]:
    """What is to be recovered; and the models with jobs in BigQuery that can't be continued, since
    they do not compile."""
    from mirrorlake.operations.models.compiled import has_model, models_there

    config = workspace.config
    of_models = [name for name in names if has_model(config, name)]
    others = [name for name in names if name not in of_models]
    found: list[PublishedContract] = []
    broken: Mapping[str, MirrorlakeError] = {}
    if of_models or not names:
        models, broken = models_there(config, lambda: workspace.lake, of_models)
        found += models
    if others or not found:
        contracts, tenants = config.split(others)
        return [*contracts, *tenants, *found], _with_jobs(workspace, broken)
    mirrored = [] if names else [*config.tables, *config.tenants]
    return [*mirrored, *found], _with_jobs(workspace, broken)


def _with_jobs(
    workspace: Workspace, broken: Mapping[str, MirrorlakeError]
) -> list[tuple[str, MirrorlakeError]]:
    newest = workspace.ledger.newest_publications()
    named = {f"{OF_MODELS}{name}": error for name, error in broken.items()}
    return [
        (name, error)
        for name, error in named.items()
        if name in newest and newest[name].state == "pending"
    ]


def _recover(workspace: Workspace, contract: PublishedContract, grace: timedelta) -> Recovered:
    from mirrorlake.operations.recover import recover_model, recover_table
    from mirrorlake.operations.tenant_upkeep import recover_tenants

    match contract:
        case PublishedModel():
            return recover_model(workspace, contract)
        case TenantTable():
            return recover_tenants(workspace, contract, grace)
        case _:
            return recover_table(workspace, contract, grace)


def _print_recovered(done: Sequence[Recovered]) -> None:
    there = ["in BigQuery"] if any(one.bigquery for one in done) else []
    table = show.table("table", "found committed", "marked errored", "files removed", "MB", *there)
    for one in done:
        counts = (str(n) for n in (one.committed, one.errored, one.orphans))
        state = [one.bigquery or "-"] if there else []
        table.add_row(escape(one.table), *counts, f"{one.bytes / 1e6:.2f}", *state)
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

    What was read from another is unproved, and each table's next load reads it as a whole.

    With --columns, take the contract's rules for TABLE to mean its columns of now: those that are
    held out of clean because they may have what another one had are shown by the next sync.
    """
    from mirrorlake.ledger import Ledger
    from mirrorlake.operations.accept import accept_server

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
        show.console.print(escape(words), highlight=False, soft_wrap=True)
    if not found:
        show.console.print(f"Nothing to accept: no table of {escape(source)} was read elsewhere.")


def _accept_columns(config: Config, table: str, *, as_json: bool) -> None:
    from mirrorlake.operations.exchanged_columns import accept_columns
    from mirrorlake.workspace import Workspace

    with Workspace.open(config) as workspace:
        tenants = config.split_tenants([table])
        contract = tenants[0] if tenants else config.contract(table)
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


@click.command(short_help="Notify hooks of tables that became late or failing.")
@show.config_option
@show.json_option
@click.option("--test", is_flag=True, help="Send every hook a test message instead.")
def alert(config_path: Path, as_json: bool, test: bool) -> None:
    """Notify the contract file's hooks of tables that became late or failing, or no longer are.

    Each is sent once. Queries no source.
    """
    from mirrorlake.ledger import Ledger
    from mirrorlake.operations.alerts import send_alerts, send_test

    config = open_contract(config_path)
    if not config.alerts.hooks:
        raise ConfigError(
            f"{config_path} has no hook under alerts",
            next_step="Name a webhook, slack, email or services there",
        )
    if test:
        _print_test(send_test(config), as_json=as_json)
        return
    deliveries = send_alerts(config, Ledger(config.ledger.url, config.ledger.wait))
    if as_json:
        show.print_json([asdict(one) for one in deliveries])
    elif not deliveries:
        show.console.print("Nothing to report.")
    else:
        table = show.table("hook", "table", "kind", "event", "delivered…")
        for one in deliveries:
            words = "yes" if one.delivered else str(one.error)
            table.add_row(one.hook, escape(one.table), one.kind, one.event, escape(words))
        show.console.print(table)
    if any(not one.delivered for one in deliveries):
        sys.exit(1)


def _print_test(errors: Mapping[str, str | None], *, as_json: bool) -> None:
    """What became of the test message at each hook."""
    if as_json:
        found = [{"hook": h, "delivered": e is None, "error": e} for h, e in errors.items()]
        show.print_json(found)
    else:
        for hook, error in errors.items():
            words = "the test message was delivered" if error is None else f"not delivered: {error}"
            show.console.print(f"{hook}: {escape(words)}", highlight=False, soft_wrap=True)
    if any(error is not None for error in errors.values()):
        sys.exit(1)


@click.group(short_help="The ledger itself: rebuild one that was lost.")
def ledger() -> None:
    """The ledger itself."""


@ledger.command()
@click.argument("tables", nargs=-1)
@show.config_option
@show.json_option
def rebuild(tables: Sequence[str], config_path: Path, as_json: bool) -> None:
    """Record the loads of TABLES (all by default) that the lake holds and the ledger has lost.

    A SQLite ledger that is damaged is moved aside first. What the ledger knows stays; running it
    again changes nothing. Of loads that only their files name, the range is unknown: if nothing is
    left to continue from, the table is read once more.
    """
    from mirrorlake.operations.restore_ledger import rebuild_table, set_damaged_aside
    from mirrorlake.workspace import Workspace

    config = open_contract(config_path)
    chosen = config.chosen(tables)
    aside = set_damaged_aside(config)
    with Workspace.open(config) as workspace:
        done = [
            rebuild_table(workspace.ledger, workspace.lake, c, workspace.run_id) for c in chosen
        ]
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
    words = "`mirrorlake sync`, then `mirrorlake check`: what checks found is not known any more"
    show.console.print(f"Next: {words}", highlight=False, soft_wrap=True)
