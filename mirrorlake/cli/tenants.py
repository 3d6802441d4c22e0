"""`tenants`: which databases a table of tenants has, and what is known of each; and what other
commands do with such a table.

What belongs here: options, tables and JSON. What doesn't: the use cases
(`mirrorlake.operations.tenants.sync`).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract
from mirrorlake.config import Config, TenantTable
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from mirrorlake.ledger import Ledger, Tenant, TenantPlace
    from mirrorlake.operations.tenants.results import TenantsSynced

MOST_SHOWN = 20
"""Tenants that failed, or differ, are listed up to this many; ``--json`` has them all."""
_PARTLY = 4
"""The exit code where tenants failed and others were mirrored."""


@click.command(short_help="List the tenants of tables, and what is known of each.")
@click.argument("tables", nargs=-1, shell_complete=show.table_names)
@show.config_option
@show.json_option
@click.option("--failed", is_flag=True, help="Only tenants that are not mirrored as they are.")
@click.option("--tenant", "databases", multiple=True, help="Only this tenant's database; several.")
def tenants(
    tables: Sequence[str],
    config_path: Path,
    as_json: bool,
    failed: bool,
    databases: Sequence[str],
) -> None:
    """List the tenants of TABLES (all by default) and what is known of each. Queries no source."""
    from mirrorlake.ledger import Ledger

    config = open_contract(config_path)
    chosen = config.chosen_tenants(tables)
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    known = {table.name: ledger.tenants(table.name) for table in chosen}
    if databases:
        chosen = _of_tenants(chosen, databases, known)
    found = {
        table.name: [
            tenant
            for tenant in known[table.name].values()
            if (not failed or tenant.state not in ("mirrored", "loaded"))
            and (not databases or tenant.database in databases)
        ]
        for table in chosen
    }
    opened = {t.name: _files_opened(config, t, databases) for t in chosen}
    if as_json:
        refused = {table.name: _refused(ledger, table, known[table.name]) for table in chosen}
        show.print_json(
            [
                {
                    **{
                        "table": name,
                        **_fields(one),
                        "removal_refused": one.place in refused[name],
                    },
                    **dict(zip(_FILES, opened[name].get(one.database, (None, None)), strict=True)),
                }
                for name, listed in found.items()
                for one in listed
            ]
        )
        return
    for table in chosen:
        _print_tenants(ledger, table, found[table.name], failed=failed)
        for database, (files, of) in opened[table.name].items():
            words = f"a query of {database} opens {files:,} of {of:,} files of deduped"
            show.console.print(escape(words), highlight=False, soft_wrap=True)


_FILES = ("files_opened", "files")


def _files_opened(
    config: Config, table: TenantTable, databases: Sequence[str]
) -> dict[str, tuple[int, int]]:
    """Tenant → how many of deduped's files a query of it opens, and how many there are; of those
    that were requested by name."""
    if not databases:
        return {}
    from mirrorlake.destinations.iceberg.lake import Lake
    from mirrorlake.destinations.iceberg.tables.tenants import count_opened
    from mirrorlake.table.lake_tables import deduped_of

    lake = Lake(config.lake)
    found = {name: count_opened(lake, deduped_of(table), name) for name in databases}
    return {name: files for name, files in found.items() if files is not None}


def _fields(tenant: Tenant) -> dict[str, Any]:
    hidden = ("shown", "terms", "folded", "form", "log_place")
    fields = {name: value for name, value in asdict(tenant).items() if name not in hidden}
    fields["by_log"] = tenant.log_place is not None and tenant.terms is not None
    stale = tenant.verdict if tenant.verdict_now is None else None
    now = {"verdict": tenant.verdict_now, "verdict_before_gone": stale}
    return {"state": tenant.state, **fields, **now}


def _checked(tenant: Tenant) -> str:
    """What its last check found, and how long ago."""
    if tenant.verdict is None:
        return "-"
    when = show.since(tenant.checked_at.isoformat() if tenant.checked_at else None)
    before = "" if tenant.verdict_now else ", before it was gone"
    return f"{tenant.verdict} {when}{before}"


def _why(tenant: Tenant) -> str:
    """Why it is not mirrored as it is, and why its last check did not find it equal."""
    error, words = tenant.error or "", tenant.verdict_words or ""
    if not tenant.verdict_now or not words:
        return error
    return words if error in words else f"{error} Its check: {words}"


def _print_tenants(
    ledger: Ledger, table: TenantTable, listed: Sequence[Tenant], *, failed: bool
) -> None:
    versions = {version.hash: number for number, version in enumerate(_versions(ledger, table), 1)}
    shown = show.table("tenant", "state", "version", "rows", "as of", "check", "why…")
    for one in listed:
        version = f"{one.version} ({versions[one.version]})" if one.version in versions else "-"
        shown.add_row(
            escape(f"{one.source}.{one.database}"),
            one.state,
            version,
            "-" if one.rows is None else f"{one.rows:,}",
            show.since(one.seen_at.isoformat() if one.seen_at else None),
            _checked(one),
            escape(_why(one)),
        )
    states = Counter(one.state for one in listed)
    counts = ", ".join(f"{count:,} {state}" for state, count in sorted(states.items()))
    words = f"{table.name}: {counts or ('none failed' if failed else 'no tenant yet')}"
    show.console.print(escape(words), highlight=False, soft_wrap=True)
    if listed:
        show.console.print(shown)
    _print_look(ledger, table)


def _of_tenants(
    chosen: Sequence[TenantTable],
    databases: Sequence[str],
    known: Mapping[str, Mapping[TenantPlace, Tenant]],
) -> list[TenantTable]:
    """Of these tables those that have one of these tenants.

    Raises:
        ConfigError: none of them has a tenant of one of these names.
    """
    from mirrorlake.operations.tenants.names import refuse_unknown

    places = [place for of_table in known.values() for place in of_table]
    refuse_unknown(", ".join(table.name for table in chosen), databases, places)
    return [t for t in chosen if any(database in databases for _, database in known[t.name])]


def _refused(
    ledger: Ledger, table: TenantTable, known: Mapping[TenantPlace, Tenant]
) -> set[TenantPlace]:
    """The tenants that are gone and whose rows stay until somebody confirms that they are."""
    from mirrorlake.operations.tenants.looks import read_look, waiting

    return waiting(read_look(ledger, table), known)


def _print_look(ledger: Ledger, table: TenantTable) -> None:
    """What the last sync saw that is no tenant's own."""
    from mirrorlake.operations.tenants.looks import read_look
    from mirrorlake.table.columns.new_columns import why_held

    refusal, look = ledger.refusals().get(table.name), read_look(ledger, table)
    if refusal is not None:
        since = show.since(refusal.since.isoformat())
        line = f"[yellow]sync refused, first {since}:[/] {escape(refusal.error)}"
        show.console.print(line, highlight=False, soft_wrap=True)
    if look is None:
        return
    for drop in look.drops:
        since = show.since(drop.since.isoformat())
        words = f"{drop.words}. {drop.next_step(table.name)}"
        line = f"[yellow]refused {since}:[/] {escape(words)}"
        show.console.print(line, highlight=False, soft_wrap=True)
    _print_left_out(table.name, look.reasons, look.without, show.console)
    _print_held(table.name, why_held(ledger, table, look.held), show.console)


def _versions(ledger: Ledger, table: TenantTable) -> Sequence[Any]:
    return ledger.schema_versions(table.name)


# --- what other commands do with tenants ----------------------------------------------------------


def print_synced(results: Sequence[TenantsSynced]) -> None:
    """A table for people, and which tenants failed.

    ``read`` to ``not looked at`` add up to ``tenants``; those that joined are of the read. What
    happens rarely has a column where it happened.
    """
    shown = _columns(results)
    for one in results:
        counts = {**one.counts, "tenants": one.tenants, "joined": len(one.joined)}
        counts |= {"removed": len(one.removed), "rows removed": one.rows_removed}
        counts |= {"rows read": one.rows, "versions": one.shapes}
        cells = {name: f"{count:,}" for name, count in counts.items()}
        cells |= {"table": escape(one.table), "MB": f"{one.bytes / 1e6:.2f}"}
        cells |= {"seconds": str(one.seconds)}
        shown.add_row(*(cells[str(column.header)] for column in shown.columns))
    if results:
        show.console.print(shown)
    for one in results:
        if one.clean_made:
            of = f", with the rows of {one.clean_written:,} tenants" if one.clean_written else ""
            words = f"{one.table}: clean was made as a {one.clean}{of}"
            show.console.print(escape(words), highlight=False, soft_wrap=True)
        _print_listed(one.table, one.replaced, "more were made again, truncated or altered: --json")
        _print_listed(one.table, one.failed, "more: `mirrorlake tenants --failed`")
        _print_kept(one.table, one.kept)
        _print_left_out(one.table, one.left_out, one.without, show.errors)
        _print_held(one.table, one.why_held, show.errors)


def _print_held(table: str, why: Sequence[str], console: Console) -> None:
    """Columns on which a person should decide."""
    for words in why:
        console.print(f"[yellow]{escape(f'{table}: {words}')}[/]", highlight=False, soft_wrap=True)


def _print_kept(table: str, kept: Mapping[str, int]) -> None:
    """Whose rows are counted although MySQL has them no more, or has them elsewhere."""
    if kept:
        have = plural(len(kept), "tenant is", "tenants are")
        some = ", ".join(list(kept)[:MOST_SHOWN]) + (" …" if len(kept) > MOST_SHOWN else "")
        words = (
            f"{table}: {have} gone from MySQL or left out, and still in every total, with "
            f"{plural(sum(kept.values()), 'row')}: {some}. `dropped: remove` takes them out"
        )
        show.console.print(f"[yellow]{escape(words)}[/]", highlight=False, soft_wrap=True)


def _print_listed(table: str, tenants: Mapping[str, str], more: str) -> None:
    """A line for each of the first tenants, and of how many there are more."""
    for name, words in list(tenants.items())[:MOST_SHOWN]:
        line = f"[yellow]{escape(table)}, tenant {escape(name)}:[/] {escape(words)}"
        show.errors.print(line, highlight=False, soft_wrap=True)
    if len(tenants) > MOST_SHOWN:
        words = f"and {len(tenants) - MOST_SHOWN:,} {more}"
        show.errors.print(escape(words), highlight=False, soft_wrap=True)


def _columns(results: Sequence[TenantsSynced]) -> Table:
    rare: list[str] = []
    if any(one.counts["not looked at"] for one in results):
        rare.append("not looked at")
    if any(one.removed for one in results):
        rare += ["removed", "rows removed"]
    always = ("table", "versions", "tenants", "read", "joined", "unchanged", "failed", "gone")
    return show.table(*always, *rare, "rows read", "MB", "seconds")


def _print_left_out(
    table: str, left_out: Mapping[str, str], without: Sequence[str], console: Console
) -> None:
    """What the contract names and that is no tenant: a line for each, of the first."""
    words = [f"{name}: {why}" for name, why in left_out.items()]
    if without:
        have = "database has" if len(without) == 1 else "databases have"
        some = ", ".join(without[:MOST_SHOWN]) + (" …" if len(without) > MOST_SHOWN else "")
        words.append(f"{len(without):,} {have} no such table: {some}")
    for line in words[:MOST_SHOWN]:
        text = f"{escape(table)}, left out: {escape(line)}"
        console.print(text, highlight=False, soft_wrap=True)
    if len(words) > MOST_SHOWN:
        more = f"and {len(words) - MOST_SHOWN:,} more were left out: --json lists them"
        console.print(more, highlight=False, soft_wrap=True)


def end_partly(results: Sequence[TenantsSynced]) -> None:
    """End with an exit code of its own where some tenants failed."""
    if any(one.failed for one in results):
        sys.exit(_PARTLY)
