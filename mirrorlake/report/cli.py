"""`report`: the page about every table.

What belongs here: options and what is printed. What doesn't: what the page says
(`mirrorlake.report.collect`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract
from mirrorlake.report import MOST_DAYS


@click.command(short_help="Write one page about every table, day by day.")
@click.argument("tables", nargs=-1, shell_complete=show.table_names)
@show.config_option
@show.json_option
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("report.html"),
    show_default=True,
    help="The page; an older one is replaced, another file is not.",
)
@click.option(
    "--days",
    type=click.IntRange(1, MOST_DAYS),
    default=90,
    show_default=True,
    help="How many days it shows, today included.",
)
def report(
    tables: Sequence[str], config_path: Path, as_json: bool, output: Path, days: int
) -> None:
    """Write one HTML page about TABLES (all by default, and models): each day loaded, proved,
    stale or unknown, freshness, rows, cost, differences and repairs. Queries no source.

    The page needs no network and no other file, and has no values of rows. What was not compared
    is not called equal.
    """
    from mirrorlake.ledger import Ledger
    from mirrorlake.operations.status.all_tables import named_tables
    from mirrorlake.report.collect import make_report
    from mirrorlake.report.page.write import write_report
    from mirrorlake.runtime.pages.page import refuse_other_file

    config = open_contract(config_path)
    chosen = named_tables(config, tables)
    refuse_other_file(output, "--output")
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    found = make_report(config, ledger, chosen, days=days, besides=not tables)
    written = write_report(output, found, "--output")
    if as_json:
        show.print_json(written.as_json())
        return
    for words in (
        f"{escape(str(output))}: {written.tables:,} tables, {written.first} to {written.last}",
        "tables: " + (", ".join(f"{n:,} {name}" for name, n in written.proofs.items()) or "none"),
        "days: " + (", ".join(f"{n:,} {name}" for name, n in written.days.items()) or "none"),
    ):
        show.console.print(words, highlight=False, soft_wrap=True)
    if written.not_right:
        words = f"{written.not_right:,} to look at: the page names them, as `status --strict` does"
        show.console.print(words, highlight=False, soft_wrap=True)
