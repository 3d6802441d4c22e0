"""The command that repairs a mirror: what differs is read again, and proved again."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract, refuse_tenants
from mirrorlake.cli.reports import CODES, ask_of, print_report
from mirrorlake.config import TableContract
from mirrorlake.errors import ConfigError

if TYPE_CHECKING:
    from mirrorlake.operations.repair import Repaired
    from mirrorlake.proof.differences import Formatter
    from mirrorlake.proof.report import Report

_SHOWN = 20


@click.command()
@click.argument("table")
@show.config_option
@show.json_option
@click.option("--full", is_flag=True, help="Repair the whole table. The default.")
@click.option("--partition", type=click.DateTime(["%Y-%m-%d"]), help="Repair the rows of a day.")
@click.option("--keys", help="Repair keys from a to b, both included, written a..b.")
@click.option("--where", help="Repair the rows that a condition chooses, in SQL of both sides.")
@click.option("--deletes", is_flag=True, help="Only mark the rows gone that MySQL has no more.")
@click.option("--yes", is_flag=True, help="Don't ask before anything is written.")
@click.option("--journal", is_flag=True, help="Show the repairs that were made instead.")
@click.option("--evidence", type=click.Path(path_type=Path), help="The folder of evidence files.")
def repair(table: str, config_path: Path, as_json: bool, **options: Any) -> None:
    """Check TABLE, read again from MySQL exactly what differs, and prove it again.

    Ends with 0 if it is equal then, 9 if rows still differ (or nobody said yes), 10 if that can't
    be decided yet.
    """
    from mirrorlake.operations.repair import MOST_KEYS, refuse_repair, repair_table
    from mirrorlake.proof.evidence import formatter_of, prove_table
    from mirrorlake.table.new_columns import held_now
    from mirrorlake.workspace import Workspace

    config = open_contract(config_path)
    refuse_tenants(
        config,
        [table],
        "`mirrorlake sync {table} --tenant DATABASE --again` reads a tenant again as a whole, then "
        "`mirrorlake check {table} --tenant DATABASE` compares it",
    )
    contract = config.table(table)
    if options["journal"]:
        _print_journal(config_path, contract, as_json=as_json)
        return
    refuse_repair(contract)
    if as_json and not options["yes"]:
        raise ConfigError("repair --json writes without a question", next_step="Say so with --yes")
    only, evidence = bool(options["deletes"]), options["evidence"]
    with Workspace.open(config) as workspace:
        report, path = prove_table(workspace, contract, ask_of(options), evidence, MOST_KEYS)
        if not as_json:
            print_report(report, path)
            held = held_now(workspace.ledger, workspace.lake, contract)
            _print_differences(report, formatter_of(config, contract, held=held))
        wanted = report.verdict == "different"
        if wanted and not options["yes"] and not click.confirm("Repair them?"):
            sys.exit(CODES["different"])
        done = repair_table(
            workspace,
            contract,
            report.ask,
            found=(report, path),
            only_deletes=only,
            evidence=evidence,
        )
    if as_json:
        show.print_json(_words(done))
    elif done.rounds:
        _print_done(done)
    sys.exit(CODES[done.outcome])


def _print_differences(report: Report, formatter: Formatter) -> None:
    lines = [line for d in report.differences[:_SHOWN] for line in formatter.lines(d)]
    for line in lines[:_SHOWN]:
        show.console.print(f"  {escape(line)}", highlight=False, soft_wrap=True)
    more = len(report.differences) - _SHOWN
    if more > 0:
        show.console.print(f"  … and {more:,} more rows: see the evidence file", highlight=False)


def _print_done(done: Repaired) -> None:
    color = {"equal": "green", "different": "red", "undecided": "yellow"}[done.outcome]
    show.console.print(
        f"{escape(done.table)}: now [{color}]{done.outcome}[/] ({done.rows:,} rows read again, "
        f"{done.gone:,} gone, in {done.rounds} rounds and {done.seconds} s; it was: {done.why})",
        highlight=False,
        soft_wrap=True,
    )
    show.console.print(f"  evidence: {escape(str(done.evidence[-1]))}", highlight=False)


def _words(done: Repaired) -> dict[str, Any]:
    return {
        "table": done.table,
        "outcome": done.outcome,
        "why": done.why,
        "keys": done.keys,
        "rows": done.rows,
        "gone": done.gone,
        "rounds": done.rounds,
        "loads": list(done.loads),
        "seconds": done.seconds,
        "repair_id": done.repair_id,
        "evidence": [str(path) for path in done.evidence],
    }


def _print_journal(config_path: Path, contract: TableContract, *, as_json: bool) -> None:
    from mirrorlake.ledger import Ledger

    config = open_contract(config_path)
    found = Ledger(config.ledger.url, config.ledger.wait).repairs(contract.name)
    if as_json:
        show.print_json([asdict(one) for one in found])
        return
    table = show.table(
        "began (UTC)", "requested…", "why…", "outcome", "in MySQL", "in the lake", "loads…"
    )
    for one in found:
        after = one.after or one.before
        sides = (after.get("mysql", "-"), after.get("lake", "-"))
        cells = (one.asked, one.why, one.outcome, *sides, ", ".join(one.load_ids) or "-")
        table.add_row(f"{one.started_at:%Y-%m-%d %H:%M:%S}", *(escape(cell) for cell in cells))
    if found:
        show.console.print(table)
    else:
        show.console.print(f"{escape(contract.name)} was never repaired.")
