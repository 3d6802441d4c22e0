"""`status`: what the ledger says of each table, and what its loads cost.

What belongs here: options and what is printed. What doesn't: what is said
(`mirrorlake.operations.status.status`).
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.attention import ATTENTION, print_not_right
from mirrorlake.cli.contract import open_contract
from mirrorlake.config import TableContract
from mirrorlake.errors import LakeError

if TYPE_CHECKING:
    from mirrorlake.ledger import Ledger
    from mirrorlake.operations.publishers import PublicationStatus
    from mirrorlake.operations.status.attention import Attention
    from mirrorlake.operations.status.table_status import TableStatus


@click.command(short_help="Show each table: state, rows, age, what is proved.")
@click.argument("tables", nargs=-1, shell_complete=show.table_names)
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
    A model is shown if others changed its table in the lake.

    Ends with 6 if the lake is not as the ledger has it. --strict is for monitors: it ends with 0
    only if every table is loaded, folded and decided on, and no check found a difference in rows
    that none has found equal since.
    """
    from mirrorlake.ledger import Ledger
    from mirrorlake.operations.status.all_tables import all_statuses, named_tables

    config = open_contract(config_path)
    chosen = named_tables(config, tables)
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    of_one = [contract for contract in chosen if isinstance(contract, TableContract)]
    if history:
        _show_history(ledger, [c for c in of_one if not c.landed], days, as_json=as_json)
        return
    found = all_statuses(config, ledger, chosen, besides=not tables)
    every = found.every
    wrong = found.not_right(ledger) if strict else None
    if as_json:
        show.print_json([_with_attention(s, wrong) for s in every])
    else:
        _print_status(every, {contract.name for contract in of_one})
        for name, published in found.published.items():
            _print_published(name, published)
        if len(of_one) < len(chosen):
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
        return status.as_json()
    of_table = [asdict(one) for one in wrong if one.table == status.table]
    return {**status.as_json(), "not_right": of_table}


def _print_status(found: Sequence[TableStatus], of_one: Collection[str]) -> None:
    """A table for people, and what is held and refused.

    Args:
        of_one: the tables of one source, by whose name theirs begin; the checks of tenants name
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
        {
            (s.table.split(".")[0], s.held_until, s.held_for)
            for s in found
            if s.table in of_one and s.held_until
        }
    ):
        why = f" ({reason})" if reason else ""
        words = f"source {source} is held until {until}{why}"
        show.console.print(f"[yellow]held:[/] {escape(words)}", highlight=False, soft_wrap=True)
    for s in found:
        _print_published(s.table, s.published)
        if s.error:
            since = f" (first {show.since(s.refused_since)})" if s.refused_since else ""
            words = f"[red]{s.state}{since}:[/] {escape(show.named(s.table, s.error))}"
            show.console.print(words, highlight=False, soft_wrap=True)


def _print_published(name: str, published: Mapping[str, PublicationStatus | None]) -> None:
    """A publisher's newest load that runs or failed; of one that is there, what is proved."""
    from mirrorlake.operations.publishers import PUBLISHERS

    for publisher, load in published.items():
        title = PUBLISHERS.added[publisher].title
        if load is None:
            continue
        if load.state == "success":
            words = load.proved.words if load.proved is not None else load.words or "loaded"
            line = f"{title}: {escape(show.named(name, words))}"
        else:
            color = "red" if load.state == "errored" else "yellow"
            words = f"{load.error or load.job} (since {load.submitted})"
            line = f"[{color}]{title} {load.state}:[/] {escape(show.named(name, words))}"
        show.console.print(line, highlight=False, soft_wrap=True)


def _show_history(
    ledger: Ledger, chosen: Sequence[TableContract], days: int, *, as_json: bool
) -> None:
    from mirrorlake.ledger import age_of
    from mirrorlake.operations.status.history import history_of

    since, names = datetime.now(UTC) - timedelta(days=days), [c.name for c in chosen]
    loads = ledger.loads_since(since, names[0] if len(names) == 1 else None)
    costs, stamps, newest = (
        ledger.costs_since(since),
        ledger.stamps(names),
        ledger.newest_loads(names),
    )
    found = [
        history_of(
            *(name, loads.get(name, ())),
            age_of(newest.get(name), stamp=stamps.get(name)),
            costs.get(name, ()),
        )
        for name in names
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
