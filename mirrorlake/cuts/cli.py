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
from mirrorlake.cuts.config import CutsConfig
from mirrorlake.cuts.report import (
    NOT_IN_CUT,
    key_name,
    keys_sentence,
    others_sentence,
    title_of,
)
from mirrorlake.errors import ConfigError

if TYPE_CHECKING:
    from mirrorlake.config import Config
    from mirrorlake.cuts.ledger import Cut, CutKey
    from mirrorlake.cuts.make import CutTerms, MadeCut
    from mirrorlake.destinations.iceberg.lake import Lake
    from mirrorlake.ledger import Ledger


@click.command(short_help="Tag a SOURCE's tables at one place in its log.")
@click.argument("source")
@show.config_option
@show.json_option
@click.option("--name", help="Of the cut: small letters, digits and _; by default its second's.")
@click.option("--keep", help="Drop it with the first cut after this time, as 12h or 7d.")
@click.option("--prove", is_flag=True, help="Compare every row with MySQL as it was there.")
@click.option("--lock", is_flag=True, help="MySQL: --prove may hold up writers for milliseconds.")
@click.option("--others", is_flag=True, help="With --prove: tables of other modes that are equal.")
@click.option("--due", is_flag=True, help="Only if one is due, as the section `cuts` says it.")
def cut(
    source: str,
    config_path: Path,
    as_json: bool,
    name: str | None,
    keep: str | None,
    prove: bool,
    lock: bool,
    others: bool,
    due: bool,
) -> None:
    """Bring all tables of mode binlog of SOURCE to one place in its log, between two transactions,
    and tag their versions there: reads of these are of one moment, foreign keys hold, and sums over
    several tables are sums that MySQL had.

    --prove compares every row with MySQL as it was at that place, while it is written to.

    --others syncs the source's tables of other modes, too; those that equal MySQL at that place are
    in the cut, and how far the others are from it is said.

    Of each foreign key between them, rows without a parent are counted.

    Ends with 9 if a table differs, with 7 if another process follows the log, and with 10 if a
    table that should be in the cut is not, or was not compared, or if rows have no parent and MySQL
    has fewer of them, or was not asked; or if a table of it is to be published, and is not. Tables
    of other modes, of tenants and near the cut are listed, and don't change the exit code.
    """
    from mirrorlake.cli.bars import Bars
    from mirrorlake.cuts.due import due_terms
    from mirrorlake.cuts.make import CutTerms, followed_of_cuts, make_cut
    from mirrorlake.workspace import Workspace

    config = open_contract(config_path)
    config.require_secrets(followed_of_cuts(config, source).tables)
    kept = None if keep is None else show.as_duration(keep, "--keep")
    asked: CutTerms | None = CutTerms(name, kept, prove, lock, others)
    _refuse_together(asked, due=due)
    with Workspace.open(config) as workspace, Bars(show.errors, quiet=as_json) as bars:
        asked = due_terms(config, workspace.ledger, source) if due else asked
        if asked is None:
            _print_none_due(config, source, as_json=as_json)
            return
        made = make_cut(workspace, source, asked, bars.line)
    if as_json:
        said = {name: value for name, value in asdict(made).items() if name != "cut"}
        show.print_json(_as_json(made.cut) | said)
    else:
        _print_made(made, proved=asked.prove)
    if made.not_shown is not None:
        words = f"readers of the newest cut keep the one before: {made.not_shown}"
        show.errors.print(f"[yellow]not shown[/]: {escape(words)}", soft_wrap=True)
    if code := _exit_code(made, proved=asked.prove):
        sys.exit(code)


def _print_made(made: MadeCut, *, proved: bool) -> None:
    from mirrorlake.cuts.shown import ShownCut

    _print_cut(made.cut, proved=proved)
    if made.shown is not None:
        how = "" if made.shown.together else ", table by table"
        words = f"It is shown as {', '.join(made.shown.namespaces)}{how}"
        show.console.print(escape(words), highlight=False, soft_wrap=True)
    if made.not_asked:
        show.console.print(escape(others_sentence(made.not_asked)), soft_wrap=True)
    if made.tenants:
        words = f"Tables of tenants are in no cut: {', '.join(made.tenants)}."
        show.console.print(escape(words), soft_wrap=True)
    shown = made.shown or ShownCut((), together=True)
    for table, read in made.published.there.items():
        show.console.print(escape(f"{table}: {read}"), highlight=False, soft_wrap=True)
    parts = (("not in it", made.left_out), ("near it", made.near), ("no clean view", shown.without))
    left = dict.fromkeys(shown.left, NOT_IN_CUT)
    others = (("not shown any more", left), ("not published", made.published.missing))
    for head, tables in (*parts, *others):
        for table, why in tables.items():
            text = f"[yellow]{head}[/]: {escape(table)}: {escape(why)}"
            show.errors.print(text, highlight=False, soft_wrap=True)


def _exit_code(made: MadeCut, *, proved: bool) -> int:
    states = {one.proved for one in made.cut.tables if one.layer == "deduped"}
    if "different" in states:
        return DIFFERENT
    orphans = made.cut.foreign_keys and made.cut.foreign_keys.with_orphans
    uncompared = proved and states - {"equal"}
    without = made.shown is not None and made.shown.without
    unread = made.not_shown or without or made.published.missing
    wrong = made.left_out or unread or orphans or uncompared
    return ATTENTION if wrong else 0


def _refuse_together(asked: CutTerms, *, due: bool) -> None:
    """See that options mean something beside each other.

    Raises:
        ConfigError: they don't.
    """
    if due and asked != type(asked)():
        raise ConfigError(
            "--due makes a cut as the section `cuts` says it: no other option goes with it",
            next_step="Write them in the file: docs/reference/configuration.md",
        )
    if asked.others and not asked.prove:
        raise ConfigError(
            "--others: only a comparison says where tables of other modes are",
            next_step="Add --prove",
        )


def _print_none_due(config: Config, source: str, *, as_json: bool) -> None:
    every = config.section(CutsConfig).of(source).every
    if every is None:
        raise ConfigError(
            f"no cut of source {source} is ever due",
            next_step=f"Write `every` and `keep` for it under `cuts`, `sources`, `{source}`",
        )
    if as_json:
        show.print_json({"due": False})
    else:
        show.console.print(f"No cut of {escape(source)} is due.", highlight=False)


@click.command(short_help="List cuts, or drop one.")
@show.config_option
@show.json_option
@click.option("--drop", help="Drop this cut: its versions expire with the others.")
@click.option("--held", is_flag=True, help="Count the bytes that each keeps from expiring.")
def cuts(config_path: Path, as_json: bool, drop: str | None, held: bool) -> None:
    """List the cuts of all sources, newest first: where in the log, of when, how many tables, and
    what was proved of them.

    --held reads the manifests of the lake, and counts the files that a cut alone keeps: neither
    what tables show now nor another tag or branch names them.
    """
    config = open_contract(config_path)
    if drop is not None:
        from mirrorlake.cuts.drop import drop_cut
        from mirrorlake.cuts.published import drop_gone
        from mirrorlake.cuts.shown import shown_cuts
        from mirrorlake.workspace import Workspace

        found = _named(config, drop)
        with Workspace.open(config) as workspace:
            if shown_cuts(workspace, [found]):
                raise ConfigError(
                    f"readers of the newest cut see cut {drop}: it is not dropped",
                    next_step="Make another one first; or, to have them see none: "
                    "mirrorlake clone --drop at_cut",
                )
            drop_cut(workspace, found)
            left = drop_gone(workspace)
        if as_json:
            show.print_json({"dropped": drop, "published": left})
        else:
            show.console.print(f"{escape(drop)} is dropped.", highlight=False)
            for name, why in left.items():
                show.errors.print(f"[yellow]{name}[/]: {escape(why)}", soft_wrap=True)
        if left:
            sys.exit(ATTENTION)
        return
    found = _all(config)[::-1]
    kept = _held(config, found) if held else {}
    if as_json:
        more = [{"held_bytes": kept[one.name]} if held else {} for one in found]
        show.print_json([_as_json(one) | of for one, of in zip(found, more, strict=True)])
        return
    heads = ("cut", "source", "at (UTC)", "place", "tables", "rows", "proved", "kept")
    table = show.table(*heads, *(["MB held"] if held else []))
    for one in found:
        rows = sum(t.rows or 0 for t in one.tables if t.layer == "deduped")
        until = f"until {one.keep_until:%Y-%m-%d %H:%M}" if one.keep_until else "until dropped"
        cells = (one.name, one.source, f"{one.at:%Y-%m-%d %H:%M:%S}", one.place)
        table.add_row(
            *map(escape, cells),
            str(len(one.names)),
            f"{rows:,}",
            _proved(one),
            until,
            *([f"{kept[one.name] / 1e6:,.2f}"] if held else []),
        )
    show.console.print(table)


@click.command(short_help="Say how the tables of a CUT are read.")
@click.argument("name", metavar="CUT")
@click.argument("table", required=False, shell_complete=show.table_names)
@show.config_option
@show.json_option
def at(name: str, table: str | None, config_path: Path, as_json: bool) -> None:
    """Say which versions CUT has of its tables (or of TABLE), and how engines read them. One that
    the lake has no more (a rule took values away from clean) is said to be gone."""
    from mirrorlake.cuts.reads import reads_at

    config = open_contract(config_path)
    found = _named(config, name)
    tables = found.tables_called(table)
    reads = reads_at(config, _lake(config), _ledger(config), found, tables)
    if as_json:
        listed = [asdict(one) | {"read": read} for one, read in zip(tables, reads, strict=True)]
        show.print_json(_as_json(found) | {"tables": listed})
        return
    show.console.print(escape(title_of(found)), highlight=False, soft_wrap=True)
    for one, read in zip(tables, reads, strict=True):
        words = f" · {one.words}" if one.words else ""
        rows = "?" if one.rows is None else f"{one.rows:,}"
        head = f"\n{one.table} ({one.layer}): {rows} rows · {one.proved}{words}"
        show.console.print(escape(head), highlight=False, soft_wrap=True)
        for engine, text in read.items():
            show.console.print(escape(f"  {engine:10} {text}"), highlight=False, soft_wrap=True)
    show.console.print()
    _print_keys(found, {one.table for one in tables})


def _held(config: Config, found: list[Cut]) -> dict[str, int]:
    from mirrorlake.cuts.held import held_bytes

    return held_bytes(_lake(config), found)


def _lake(config: Config) -> Lake:
    """The lake, to look at."""
    from mirrorlake.destinations.iceberg.warehouse.identity import open_lake

    return open_lake(config, _ledger(config), looks_only=True)


def _ledger(config: Config) -> Ledger:
    from mirrorlake.ledger import Ledger

    return Ledger(config.ledger.url, config.ledger.wait)


def _all(config: Config) -> list[Cut]:
    from mirrorlake.cuts.ledger import Cuts

    return Cuts(_ledger(config)).all()


def _named(config: Config, name: str) -> Cut:
    from mirrorlake.cuts.readable import ReadableCuts

    return ReadableCuts(config, _ledger(config)).named(name)


def _as_json(found: Cut) -> dict[str, Any]:
    return asdict(found) | {"tag": found.tag}


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
