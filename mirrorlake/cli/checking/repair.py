"""The command that repairs a mirror: what differs is read again, and proved again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import every_table, open_contract, refuse_tenants
from mirrorlake.cli.reports import (
    CODES,
    Checked,
    ask_of,
    code_of_all,
    notes_of,
    print_checked,
    print_report,
    print_tally,
)
from mirrorlake.config import Config, TableContract
from mirrorlake.errors import ConfigError, MirrorlakeError
from mirrorlake.runtime.outcomes import Failures
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.operations.repairing.repair import Repaired
    from mirrorlake.proof.comparing.report import Report
    from mirrorlake.proof.forms.differences import Formatter
    from mirrorlake.workspace import Workspace

_SHOWN = 20


@click.command(short_help="Read again exactly what differs, and prove it again.")
@click.argument("table", required=False, shell_complete=show.table_names)
@show.config_option
@show.json_option
@click.option("--full", is_flag=True, help="Repair the whole table. The default.")
@click.option(
    "--partition", type=click.DateTime(["%Y-%m-%d"]), help="Repair the rows of a day, YYYY-MM-DD."
)
@click.option("--keys", help="Repair keys from a to b, both included, written a..b.")
@click.option("--where", help="Repair the rows that a condition chooses, in SQL of both sides.")
@click.option("--deletes", is_flag=True, help="Only remove the rows that MySQL no longer has.")
@click.option(
    "--accept-smaller",
    is_flag=True,
    help="With --deletes or --yes: let most of TABLE's rows go.",
)
@click.option("--yes", is_flag=True, help="Don't ask before anything is written.")
@click.option("--journal", is_flag=True, help="Show the repairs that were made instead.")
@click.option("--evidence", type=click.Path(path_type=Path), help="The folder of evidence files.")
def repair(table: str | None, config_path: Path, as_json: bool, **options: Any) -> None:
    """Check TABLE, read again from MySQL exactly what differs, and prove it again; without TABLE,
    every table.

    It shows what differs and asks before anything is written. Ends with 0 if it is equal then, 9 if
    rows still differ (or nobody said yes), 10 if that can't be decided yet.
    """
    from mirrorlake.operations.repairing.repair import refuse_repair
    from mirrorlake.workspace import Workspace

    config = open_contract(config_path)
    if table is None:
        _refuse_parts_of_all(options)
        sys.exit(_repair_everything(config, options, as_json=as_json))
    refuse_tenants(
        config,
        [table],
        "`mirrorlake sync {table} --tenant DATABASE --again` reads a tenant again as a whole, then "
        "`mirrorlake check {table} --tenant DATABASE` compares it",
    )
    contract = config.table(table)
    if options["journal"]:
        _print_journal(config, contract, as_json=as_json)
        return
    refuse_repair(contract)
    _refuse_questions(options, as_json=as_json)
    with Workspace.open(config) as workspace:
        found = _look(workspace, contract, options)
        if not as_json:
            found.show()
        question = _question(workspace, contract, found.report)
        if found.verdict == "different" and not _confirmed(options, question):
            sys.exit(CODES["different"])
        # Who was asked, and shown how many rows go, said yes to that.
        smaller = options["accept_smaller"] or not options["yes"]
        done = _repair(workspace, contract, found, options, accept_smaller=smaller)
    if as_json:
        show.print_json(_words(done))
    elif done.rounds:
        _print_done(done)
    sys.exit(CODES[done.outcome])


def _refuse_questions(options: dict[str, Any], *, as_json: bool) -> None:
    if as_json and not options["yes"]:
        raise ConfigError("repair --json writes without a question", next_step="Say so with --yes")


def _confirmed(options: dict[str, Any], question: str) -> bool:
    if options["yes"]:
        return True
    try:
        return click.confirm(question)
    except click.Abort:
        # Nobody answers: as if they had said no. Ctrl-C comes this way, too.
        show.errors.print("\nNothing was repaired. Without a terminal, say so with --yes.")
        return False


def _question(workspace: Workspace, contract: TableContract, report: Report) -> str:
    """What a person is asked: of how many rows the mirror would lose, where they are many."""
    from mirrorlake.errors import TooFewRows
    from mirrorlake.load.shrink_guard import refuse_removals
    from mirrorlake.operations.repairing.repair import removed_by

    try:
        refuse_removals(contract, workspace.lake, removed_by(contract, report))
    except TooFewRows as error:
        words = f"[yellow]warning:[/] {escape(error.message)}"
        show.errors.print(words, highlight=False, soft_wrap=True)
        return "Take them out of the mirror?"
    return "Repair them?"


@dataclass(frozen=True)
class _Looked(Checked):
    """A check of what may be repaired, which people see before anything is written."""

    report: Report = field(kw_only=True)
    evidence: Path = field(kw_only=True)


def _look(workspace: Workspace, contract: TableContract, options: dict[str, Any]) -> _Looked:
    """What differs of one table."""
    from mirrorlake.operations.repairing.repair import MOST_KEYS
    from mirrorlake.proof.comparing.evidence import formatter_of, prove_table
    from mirrorlake.table.columns.new_columns import held_now

    folder = options["evidence"]
    report, path = prove_table(workspace, contract, ask_of(options), folder, MOST_KEYS)

    def show_it() -> None:
        print_report(report, path)
        held = held_now(workspace.ledger, workspace.lake, contract)
        _print_differences(report, formatter_of(workspace.config, contract, held=held))

    rows, notes = (report.source.rows, report.lake.rows), notes_of(report)
    checked = (contract.name, report.verdict, {}, show_it, rows, notes, report.waiting)
    return _Looked(*checked, report=report, evidence=path)


def _repair(
    workspace: Workspace,
    contract: TableContract,
    found: _Looked,
    options: dict[str, Any],
    *,
    accept_smaller: bool = False,
) -> Repaired:
    from mirrorlake.operations.repairing.repair import repair_table

    return repair_table(
        workspace,
        contract,
        found.report.ask,
        found=(found.report, found.evidence),
        only_deletes=bool(options["deletes"]),
        accept_smaller=accept_smaller,
        evidence=options["evidence"],
    )


# --- every table ----------------------------------------------------------------------------------


def _refuse_parts_of_all(options: dict[str, Any]) -> None:
    """See that no option is given that is about rows of one table."""
    some = ("partition", "keys", "where", "journal", "accept_smaller")
    if any(options[option] for option in some):
        raise ConfigError(
            "without a TABLE every table is repaired as a whole",
            next_step="Name the table: --partition, --keys, --where, --journal and "
            "--accept-smaller are about one",
        )


@dataclass
class _Everything:
    """What became of each table: the newest verdict by name, the repairs, and what failed."""

    verdicts: dict[str, str] = field(default_factory=dict[str, str])
    repaired: list[Repaired] = field(default_factory=list["Repaired"])
    failures: Failures = field(default_factory=Failures)


def _repair_everything(config: Config, options: dict[str, Any], *, as_json: bool) -> int:
    """Look at all tables first, ask once, and repair those that differ; the exit code. A table that
    fails does not keep the others from it."""
    from mirrorlake.workspace import Workspace

    _refuse_questions(options, as_json=as_json)
    every_table(config)
    left_out, seen = _left_out(config), _Everything()
    chosen = [one for one in config.tables if one.name not in left_out]
    if not chosen:
        raise ConfigError(
            "the contract file has no table that is repaired by what differs",
            next_step="; ".join(f"{name}: {why}" for name, why in left_out.items()),
        )
    with Workspace.open(config) as workspace:
        looks = _look_at_all(workspace, chosen, options, seen, as_json=as_json)
        if not as_json:
            print_checked([found for _, found in looks])
        count = [*seen.verdicts.values()].count("different")
        question = f"Repair {plural(count, 'table')}?"
        if not count or _confirmed(options, question):
            _repair_all(workspace, looks, options, seen, as_json=as_json)
    verdicts = [*seen.verdicts.values()]
    if as_json:
        found = {"tables": [_words(done) for done in seen.repaired]}
        errors = show.errors_of(seen.failures)
        show.print_json({**found, "errors": errors, "left_out": left_out})
    else:
        print_tally("checked", verdicts, seen.failures)
        for name, why in left_out.items():
            words = f"  left out: {name}: {why}"
            show.console.print(escape(words), highlight=False, soft_wrap=True)
    return code_of_all(verdicts, seen.failures)


def _look_at_all(
    workspace: Workspace,
    chosen: Sequence[TableContract],
    options: dict[str, Any],
    seen: _Everything,
    *,
    as_json: bool,
) -> list[tuple[TableContract, _Looked]]:
    from mirrorlake.cli.bars import Bars

    looks: list[tuple[TableContract, _Looked]] = []
    with Bars(show.errors, quiet=as_json) as bars:
        moved = bars.count("all tables", len(chosen))
        for number, contract in enumerate(chosen, 1):
            try:
                found = _look(workspace, contract, options)
                looks.append((contract, found))
                seen.verdicts[contract.name] = found.verdict
            except MirrorlakeError as error:
                seen.failures.append((contract.name, error))
            moved(number)
            words = seen.verdicts.get(contract.name, "failed")
            bars.line(f"{number:,} of {len(chosen):,}: {contract.name}: {words}")
    return looks


def _repair_all(
    workspace: Workspace,
    looks: Sequence[tuple[TableContract, _Looked]],
    options: dict[str, Any],
    seen: _Everything,
    *,
    as_json: bool,
) -> None:
    for contract, found in looks:
        try:
            done = _repair(workspace, contract, found, options)
        except MirrorlakeError as error:
            seen.failures.append((contract.name, error))
            del seen.verdicts[contract.name]
            continue
        seen.repaired.append(done)
        seen.verdicts[contract.name] = done.outcome
        if not as_json and done.rounds:
            _print_done(done)


def _left_out(config: Config) -> dict[str, str]:
    """The tables that are not repaired by what differs, and what is done with them."""
    found = {
        one.name: "its contract says `repair: off`" for one in config.tables if one.repair == "off"
    }
    for one in config.snapshots:
        found[one.name] = (
            f"it is kept by snapshots: `mirrorlake check {quote(one.name)}` compares it"
        )
    for one in config.tenants:
        found[one.name] = (
            f"it is of tenants: `mirrorlake check {quote(one.name)}` compares it, and "
            f"`mirrorlake sync {quote(one.name)} --tenant DATABASE --again` reads one again"
        )
    return found


def _print_differences(report: Report, formatter: Formatter) -> None:
    lines = [line for d in report.differences[:_SHOWN] for line in formatter.lines(d)]
    for line in lines[:_SHOWN]:
        show.console.print(f"  {escape(line)}", highlight=False, soft_wrap=True)
    more = len(report.differences) - _SHOWN
    if more > 0:
        words = f"  … and {plural(more, 'more row')}: see the evidence file"
        show.console.print(words, highlight=False)


def _print_done(done: Repaired) -> None:
    color = {"equal": "green", "different": "red", "undecided": "yellow"}[done.outcome]
    show.console.print(
        f"{escape(done.table)}: now [{color}]{done.outcome}[/] ({plural(done.rows, 'row')} read "
        f"again, {done.gone:,} gone, in {plural(done.rounds, 'round')} and {done.seconds} s; it "
        f"was: {done.why})",
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


def _print_journal(config: Config, contract: TableContract, *, as_json: bool) -> None:
    from mirrorlake.ledger import Ledger

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
