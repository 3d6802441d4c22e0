"""`bigquery`: what the lake shows, loaded into BigQuery, and compared with it.

What belongs here: options, and what is printed. What doesn't: which rows are loaded and how
(`mirrorlake.bigquery.loads`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract
from mirrorlake.cli.reports import CODES
from mirrorlake.config import Config
from mirrorlake.errors import ConfigError
from mirrorlake.runtime.outcomes import Failures

if TYPE_CHECKING:
    from mirrorlake.bigquery.check import BigQueryVerdict, CheckEstimate
    from mirrorlake.bigquery.costs import TableCosts
    from mirrorlake.bigquery.loads.publish import PublishOutcome
    from mirrorlake.bigquery.loads.published_contracts import PublishedContract


@click.group(short_help="Load tables into BigQuery, and check them there.")
def bigquery() -> None:
    """Tables with `publish: [lake, bigquery]`: load them, compare them."""


@bigquery.command()
@click.argument("tables", nargs=-1, shell_complete=show.table_names)
@show.config_option
@show.json_option
@click.option("--no-wait", is_flag=True, help="Submit jobs and end; a later sync settles them.")
def publish(tables: Sequence[str], config_path: Path, as_json: bool, no_wait: bool) -> None:
    """Load what the lake shows of TABLES (all by default) into BigQuery; queries no source.

    A model is named as `dataset.name`. Waits for each table's jobs, however long they run.
    """
    from mirrorlake.bigquery.loads.publish import publish_all

    config = open_contract(config_path)
    wait = timedelta(0) if no_wait else timedelta.max
    chosen, broken = _chosen_published(config, tables)
    done = publish_all(config, chosen, wait)
    done.failures.extend(broken)
    show.end_with(done, print_published, as_json=as_json)


@bigquery.command()
@click.argument("tables", nargs=-1, shell_complete=show.table_names)
@show.config_option
@show.json_option
@click.option("--dry-run", is_flag=True, help="Say what BigQuery would read; compare nothing.")
def check(tables: Sequence[str], config_path: Path, as_json: bool, dry_run: bool) -> None:
    """Compare every row of TABLES (all by default) in BigQuery with the lake; queries no source.

    The version that was loaded last is compared: what the lake got since is no difference.
    BigQuery bills what it reads: each table as a whole. Ends with 9 if a table differs, 10 if one
    is undecided.
    """
    from mirrorlake.bigquery.check import check_published, estimate_check
    from mirrorlake.bigquery.loads.open_clients import open_for
    from mirrorlake.operations.checking.check_layers import worst
    from mirrorlake.workspace import Workspace

    config = open_contract(config_path)
    chosen, broken = _chosen_published(config, tables)
    with Workspace.open(config) as workspace:
        client = open_for(workspace, chosen)
        if dry_run:
            _print_estimates([estimate_check(one, client) for one in chosen], as_json)
            return
        verdicts = [check_published(workspace, contract, client) for contract in chosen]
    if as_json:
        show.print_json([asdict(one) for one in verdicts])
    else:
        _print_checked(verdicts)
    if broken:
        show.print_errors(broken)
        sys.exit(broken[0][1].exit_code)
    sys.exit(CODES[worst(*(one.verdict for one in verdicts))])


@bigquery.command()
@click.argument("tables", nargs=-1, shell_complete=show.table_names)
@show.config_option
@show.json_option
@click.option(
    "--days",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="How many days back to look.",
)
def costs(tables: Sequence[str], config_path: Path, as_json: bool, days: int) -> None:
    """Show what loads and checks of TABLES (all by default) took of BigQuery in the last DAYS.

    From the ledger, where BigQuery's own statistics of each job are kept.
    """
    from mirrorlake.bigquery.costs import costs_of
    from mirrorlake.ledger import Ledger

    config = open_contract(config_path)
    names = [contract.name for contract in _chosen_published(config, tables)[0]]
    since = datetime.now(UTC) - timedelta(days=days)
    found = costs_of(Ledger(config.ledger.url, config.ledger.wait), names, since)
    if as_json:
        show.print_json([asdict(one) for one in found])
    else:
        _print_costs(found)


def _chosen_published(
    config: Config, names: Sequence[str]
) -> tuple[tuple[PublishedContract, ...], Failures]:
    """The contracts of these names, of any mode, of tenants, and models; all that are published in
    BigQuery without a name. And, without one, those models that are to be published and do not
    compile, with the reason.

    Raises:
        ConfigError: a name is nobody's, or nothing is published in BigQuery.
        ModelError: a model that is named does not compile.
    """
    from mirrorlake.bigquery.models import models_in_bigquery
    from mirrorlake.destinations.iceberg.lake import Lake
    from mirrorlake.models.contract_models import has_model

    of_models = [name for name in names if has_model(config, name)]
    tables = [config.mirrored_table(name) for name in names if name not in of_models]
    if names and not of_models:
        return tuple(tables), []
    models, broken = models_in_bigquery(config, lambda: Lake(config.lake), of_models)
    found = (*(tables if names else config.in_bigquery), *models)
    if not found and not broken:
        raise ConfigError(
            f"{config.path} publishes no table in BigQuery",
            next_step="Write publish: [lake, bigquery] in a table's contract, in defaults, or in a "
            "model's header",
        )
    return found, [(name, error) for name, error in broken.items()]


def print_published(done: Sequence[PublishOutcome]) -> None:
    """A table for people of what was loaded, and a line of what was not."""
    table = show.table("table", "BigQuery", "loaded", "of rows", "MB", "as", "because…")
    moved = [one for one in done if one.how is not None]
    for one in moved:
        counts = ("-" if n is None else f"{n:,}" for n in (one.loaded, one.rows))
        size = "-" if one.bytes is None else f"{one.bytes / 1e6:.2f}"
        cells = (one.state, *counts, size, one.how or "-")
        table.add_row(escape(one.table), *cells, escape(one.why))
    if moved:
        show.console.print(table)
    if len(moved) < len(done):
        none = [one.table for one in done if one.state == "not loaded"]
        same = len(done) - len(moved) - len(none)
        if same:
            words = f"{same:,} of {len(done):,} in BigQuery as the lake shows them"
            show.console.print(words, highlight=False, soft_wrap=True)
        for name in none:
            show.console.print(f"{escape(name)}: not in the lake yet", soft_wrap=True)
    for one in done:
        for view, state in one.views.items():
            if state != "unchanged":
                color, words = ("green", "made") if state == "made" else ("yellow", "there is none")
                line = f"{escape(one.table)}: view {view}: [{color}]{words}[/]"
                show.console.print(line, highlight=False, soft_wrap=True)


def _print_estimates(found: Sequence[CheckEstimate], as_json: bool) -> None:
    if as_json:
        show.print_json([asdict(one) for one in found])
        return
    table = show.table("table", "MB it would read")
    for one in found:
        table.add_row(escape(one.table), show.megabytes(one.bytes))
    show.console.print(table)


def _print_costs(found: Sequence[TableCosts]) -> None:
    unknown = any(part.unknown for one in found for part in (one.publish, one.check))
    more = ["unknown queries"] if unknown else []
    table = show.table("table", "for", "jobs", "MB processed", "MB billed", "slot s", *more)
    for one in found:
        for words, part in (("loads", one.publish), ("checks", one.check)):
            jobs = ", ".join(f"{kind} {count:,}" for kind, count in part.jobs.items())
            sizes = (show.megabytes(part.bytes_processed), show.megabytes(part.bytes_billed))
            slots = "unknown" if part.slot_ms is None else f"{part.slot_ms / 1000:,.1f}"
            figures = (*sizes, slots) if part.jobs else ("-", "-", "-")
            left = [f"{part.unknown:,}"] if unknown else []
            table.add_row(escape(one.table), words, jobs or "-", *figures, *left)
    show.console.print(table)


def _print_checked(found: Sequence[BigQueryVerdict]) -> None:
    table = show.table("table", "verdict", "rows there", "rows in the lake", "found…")
    for one in found:
        counts = ("-" if n is None else f"{n:,}" for n in (one.rows, one.lake_rows))
        table.add_row(escape(one.table), one.verdict, *counts, escape(one.words))
    show.console.print(table)
