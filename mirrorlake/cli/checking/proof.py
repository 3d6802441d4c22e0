"""The command that shows what was proved of a table, when, and at which position."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract, refuse_tenants
from mirrorlake.config import TableContract

if TYPE_CHECKING:
    from mirrorlake.ledger import Ledger


@click.command(short_help="Show what was proved of a table, and when.")
@click.argument("table", shell_complete=show.table_names)
@show.config_option
@show.json_option
@click.option("--all", "everything", is_flag=True, help="Show what newer checks cover, too.")
@click.option("--layers", is_flag=True, help="Show the proofs of raw and clean instead.")
def proof(table: str, config_path: Path, as_json: bool, everything: bool, layers: bool) -> None:
    """Show what was proved of TABLE: ranges, verdicts, when, at which position, by which code.

    From the ledger: no source is queried. With --layers, what was proved of raw and clean. Of a
    table of mode snapshot: what was proved of its deduped.
    """
    from mirrorlake.ledger import Ledger
    from mirrorlake.proof.coverage.outdated_proofs import aged_proofs

    config = open_contract(config_path)
    refuse_tenants(
        config,
        [table],
        "`mirrorlake tenants {table}` shows what the newest check found of each tenant, and when; "
        "`mirrorlake check {table}` compares them now",
    )
    contract = config.contract(table)
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    if layers or contract.landed:
        _show_layers(ledger, contract, everything, as_json=as_json)
        return
    found = aged_proofs(ledger, contract.name, everything=everything)
    if as_json:
        show.print_json([asdict(p) for p in found])
        return
    columns = ("keys…", "verdict…", "rows", "digest in MySQL", "in the lake", "MySQL's time (UTC)")
    printed = show.table(*columns, "position…", "code")
    for p in found:
        keys = "all" if p.lo is None and p.hi is None else f"{p.lo or ''}..{p.hi or ''}"
        if p.asked in ("partition", "where"):
            keys = p.asked if p.day is None else f"{p.asked} {p.day}"
        rows = (
            f"{p.source_rows:,}"
            if p.source_rows == p.lake_rows
            else (f"{p.source_rows:,} / {p.lake_rows:,}")
        )
        digests = (p.source_digest[-16:], p.lake_digest[-16:])
        when = f"{p.source_time:%Y-%m-%d %H:%M:%S}"
        verdict = p.verdict if p.stale is None else f"{p.verdict}, stale: {p.stale}"
        cells = (keys, verdict, rows, *digests, when, p.position, p.code)
        printed.add_row(*(escape(cell) for cell in cells))
    if found:
        show.console.print(printed)
    else:
        show.console.print(
            f"Nothing of {escape(contract.name)} was proved yet: see mirrorlake check."
        )


def _show_layers(
    ledger: Ledger, contract: TableContract, everything: bool, *, as_json: bool
) -> None:
    found = ledger.layer_proofs(contract.name, everything=everything)
    if as_json:
        show.print_json([asdict(p) for p in found])
        return
    printed = show.table("layer", "verdict", "rows", "digest", "as it should be", "when (UTC)", "")
    for p in found:
        rows = f"{p.rows:,}" if p.rows == p.expected_rows else f"{p.rows:,} / {p.expected_rows:,}"
        when = f"{p.started_at:%Y-%m-%d %H:%M:%S}"
        digests = (p.digest[-16:], p.expected_digest[-16:])
        cells = (p.layer, p.verdict, rows, *digests, when, p.words or p.compared)
        printed.add_row(*(escape(cell) for cell in cells))
    if found:
        show.console.print(printed)
    else:
        name = escape(contract.name)
        show.console.print(f"No layer of {name} was proved yet: see mirrorlake check.")
