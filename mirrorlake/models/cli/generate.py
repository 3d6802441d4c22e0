"""The command that writes first models over mirrored tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from mirrorlake.cli import show as shown
from mirrorlake.cli.contract import open_contract
from mirrorlake.models.cli.prune import prune_command
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.models.generate.generate import GeneratedModel

_REFUSED = 2


@click.group("models", short_help="Write first models; list and drop what models left behind.")
def models_group() -> None:
    """First models over mirrored tables, and what models left behind."""


models_group.add_command(prune_command)


@models_group.command("generate")
@click.argument("tables", nargs=-1)
@shown.config_option
@shown.json_option
@click.option("--dataset", help="Of all of them. By default <deduped>__domain, for each database.")
@click.option("--no-streams", is_flag=True, help="Write no stream views.")
@click.option("--force", is_flag=True, help="Replace files that say something else.")
@click.option("--dry-run", is_flag=True, help="Say what would be written, and write nothing.")
def generate_command(
    tables: Sequence[str],
    config_path: Path,
    as_json: bool,
    dataset: str | None,
    no_streams: bool,
    force: bool,
    dry_run: bool,
) -> None:
    """Write models of TABLES (all by default): their rows by the day on which they were created,
    and a stream view of them."""
    from mirrorlake.destinations.iceberg.warehouse.identity import open_lake
    from mirrorlake.ledger import Ledger
    from mirrorlake.models.generate.generate import GenerateTerms, generate_models

    config = open_contract(config_path)
    terms = GenerateTerms(dataset, not no_streams, force, dry_run)
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    contracts = [config.mirrored_table(name) for name in dict.fromkeys(tables)] or config.mirrored
    found = generate_models(config, open_lake(config, ledger), ledger, contracts, terms)
    if as_json:
        shown.print_json([asdict(one) for one in found])
    else:
        _print(found)
    # One that was asked for by name, and was never loaded, is no success.
    absent = [one for one in found if one.outcome == "left out" and one.materialized == "table"]
    if any(one.outcome == "refused" for one in found) or (tables and absent):
        sys.exit(_REFUSED)


def _print(found: Sequence[GeneratedModel]) -> None:
    table = shown.table("model", "of", "partitions", "MB", "MB each", "outcome", "why…")
    for one in found:
        name = f"{one.model or '-'} ({one.materialized})"
        sizes = (f"{one.partitions:,}", f"{one.bytes / 1e6:,.2f}", f"{one.bytes_each / 1e6:,.3f}")
        sizes = sizes if one.model else ("-", "-", "-")
        table.add_row(escape(name), escape(one.table), *sizes, one.outcome, escape(one.why))
    shown.console.print(table)
    written = sum(one.outcome == "written" and not one.why for one in found)
    words = f"{plural(written, 'file')} written. `mirrorlake plan` says what they are."
    shown.console.print(words if written else "No file was written.")
