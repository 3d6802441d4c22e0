"""`cut`, `cuts` and `at`: a source's tables at one place in its log.

What belongs here: options and what is printed. What doesn't: how a cut is made
(`mirrorlake.cuts.make`).
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.attention import ATTENTION
from mirrorlake.cli.contract import open_contract
from mirrorlake.cli.reports import DIFFERENT
from mirrorlake.cuts.report import key_name, keys_sentence, reads_of, title_of
from mirrorlake.errors import ConfigError

if TYPE_CHECKING:
    from mirrorlake.config import Config
    from mirrorlake.cuts.ledger import Cut, CutKey, CutTable


@click.command(short_help="Tag a SOURCE's tables at one place in its log.")
@click.argument("source")
@show.config_option
@show.json_option
@click.option("--name", help="Of the cut: small letters, digits and _; by default its second's.")
@click.option("--keep", help="Drop it with the first cut after this time, as 12h or 7d.")
@click.option("--prove", is_flag=True, help="Compare every row with MySQL as it was there.")
@click.option("--lock", is_flag=True, help="MySQL: --prove may hold up writers for milliseconds.")
def cut(
    source: str,
    config_path: Path,
    as_json: bool,
    name: str | None,
    keep: str | None,
    prove: bool,
    lock: bool,
) -> None:
    """Bring all tables of mode binlog of SOURCE to one place in its log, between two transactions,
    and tag their versions there: reads of these are of one moment, foreign keys hold, and sums over
    several tables are sums that MySQL had.

    --prove compares every row with MySQL as it was at that place, while it is written to.

    Of each foreign key between them, rows without a parent are counted.

    Ends with 9 if a table differs, with 7 if another process follows the log, and with 10 if a
    table of the source is not in the cut or was not compared, or if rows have no parent and MySQL
    has fewer of them, or was not asked.
    """
    from mirrorlake.cli.bars import Bars
    from mirrorlake.cuts.make import CutTerms, make_cut
    from mirrorlake.operations.following.follower import followed_tables
    from mirrorlake.workspace import Workspace

    config = open_contract(config_path)
    config.require_secrets(followed_tables(config, source), ())
    kept = None if keep is None else show.as_duration(keep, "--keep")
    terms = CutTerms(name, kept, prove, lock)
    with Workspace.open(config) as workspace, Bars(show.errors, quiet=as_json) as bars:
        made = make_cut(workspace, source, terms, bars.line)
    compared = [one for one in made.cut.tables if one.layer == "deduped"]
    if as_json:
        show.print_json(_as_json(made.cut) | {"left_out": made.left_out, "tries": made.tries})
    else:
        _print_cut(made.cut, proved=prove)
        for table, why in made.left_out.items():
            show.errors.print(
                f"[yellow]not in it[/]: {escape(table)}: {escape(why)}",
                highlight=False,
                soft_wrap=True,
            )
    if any(one.proved == "different" for one in compared):
        sys.exit(DIFFERENT)
    orphans = made.cut.foreign_keys and made.cut.foreign_keys.with_orphans
    if made.left_out or orphans or (prove and any(one.proved != "equal" for one in compared)):
        sys.exit(ATTENTION)


@click.command(short_help="List cuts, or drop one.")
@show.config_option
@show.json_option
@click.option("--drop", help="Drop this cut: its versions expire with the others.")
def cuts(config_path: Path, as_json: bool, drop: str | None) -> None:
    """List the cuts of all sources, newest first: where in the log, of when, how many tables, and
    what was proved of them."""
    config = open_contract(config_path)
    if drop is not None:
        from mirrorlake.cuts.make import drop_cut
        from mirrorlake.workspace import Workspace

        found = _named(config, drop)
        with Workspace.open(config) as workspace:
            drop_cut(workspace, found)
        if as_json:
            show.print_json({"dropped": drop})
        else:
            show.console.print(f"{escape(drop)} is dropped.", highlight=False)
        return
    found = _all(config)[::-1]
    if as_json:
        show.print_json([_as_json(one) for one in found])
        return
    table = show.table("cut", "source", "at (UTC)", "place", "tables", "rows", "proved", "kept")
    for one in found:
        rows = sum(t.rows or 0 for t in one.tables if t.layer == "deduped")
        until = f"until {one.keep_until:%Y-%m-%d %H:%M}" if one.keep_until else "until dropped"
        cells = (one.name, one.source, f"{one.at:%Y-%m-%d %H:%M:%S}", one.place)
        table.add_row(*map(escape, cells), str(len(one.names)), f"{rows:,}", _proved(one), until)
    show.console.print(table)


@click.command(short_help="Say how the tables of a CUT are read.")
@click.argument("name", metavar="CUT")
@click.argument("table", required=False)
@show.config_option
@show.json_option
def at(name: str, table: str | None, config_path: Path, as_json: bool) -> None:
    """Say which versions CUT has of its tables (or of TABLE), and how engines read them."""
    found = _named(open_contract(config_path), name)
    tables = [one for one in found.tables if table in (None, one.table)]
    if not tables:
        raise ConfigError(
            f"cut {name} has no table {table!r}",
            next_step=f"It has {show.first_of(found.names)}",
        )
    if as_json:
        show.print_json(_as_json(found) | {"tables": [_table_json(found, one) for one in tables]})
        return
    show.console.print(escape(title_of(found)), highlight=False, soft_wrap=True)
    for one in tables:
        words = f" · {one.words}" if one.words else ""
        rows = "?" if one.rows is None else f"{one.rows:,}"
        head = f"\n{one.table} ({one.layer}): {rows} rows · {one.proved}{words}"
        show.console.print(escape(head), highlight=False, soft_wrap=True)
        for engine, text in reads_of(found, one).items():
            show.console.print(escape(f"  {engine:10} {text}"), highlight=False, soft_wrap=True)
    show.console.print()
    _print_keys(found, {one.table for one in tables})


def _all(config: Config) -> list[Cut]:
    from mirrorlake.cuts.ledger import Cuts
    from mirrorlake.ledger import Ledger

    return Cuts(Ledger(config.ledger.url, config.ledger.wait)).all()


def _named(config: Config, name: str) -> Cut:
    from mirrorlake.cuts.readable import ReadableCuts
    from mirrorlake.ledger import Ledger

    return ReadableCuts(config, Ledger(config.ledger.url, config.ledger.wait)).named(name)


def _as_json(found: Cut) -> dict[str, Any]:
    return asdict(found) | {"tag": found.tag}


def _table_json(found: Cut, one: CutTable) -> dict[str, Any]:
    return asdict(one) | {"read": reads_of(found, one)}


def _proved(found: Cut) -> str:
    deduped = [one for one in found.tables if one.layer == "deduped"]
    counts = {state: sum(one.proved == state for one in deduped) for state in _STATES}
    return ", ".join(f"{number} {state}" for state, number in counts.items() if number)


_STATES = ("equal", "different", "not compared")


def _print_cut(found: Cut, *, proved: bool) -> None:
    show.console.print(escape(title_of(found)), highlight=False, soft_wrap=True)
    table = show.table("table", "layer", "version", "rows", "proved", "")
    for one in found.tables:
        rows = "" if one.rows is None else f"{one.rows:,}"
        cells = (one.table, one.layer, str(one.snapshot_id or "empty"), rows, one.proved, one.words)
        table.add_row(*map(escape, cells))
    show.console.print(table)
    _print_keys(found)
    if not proved:
        show.console.print("Nothing was compared: --prove compares every row.", highlight=False)
    read = f"Read a table of it: VERSION AS OF '{found.tag}' (mirrorlake at {found.name})"
    show.console.print(escape(read), highlight=False, soft_wrap=True)


def _print_keys(found: Cut, tables: Collection[str] | None = None) -> None:
    """What became of its foreign keys; those of some tables one by one, else those that don't
    hold."""
    keys = found.foreign_keys
    show.console.print(escape(keys_sentence(keys)), highlight=False, soft_wrap=True)
    for one in keys.keys if keys else ():
        if one.verdict != "holds" if tables is None else {one.table, one.parent} & {*tables}:
            show.console.print(escape(_key_line(one)), highlight=False, soft_wrap=True)


def _key_line(one: CutKey) -> str:
    words = f" · {one.words}" if one.words else ""
    return f"  {key_name(one)}: {one.verdict}{words}"
