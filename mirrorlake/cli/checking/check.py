"""The check command: what is compared with MySQL, and what is shown of it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from rich.markup import escape

from mirrorlake.capabilities import Seam
from mirrorlake.cli import show
from mirrorlake.cli.checking.other_comparisons import other_meant, with_other_comparisons
from mirrorlake.cli.checking.tenant_checks import OF_TENANTS
from mirrorlake.cli.checking.whole import CheckTerms, WholeCheck
from mirrorlake.cli.contract import every_table, open_contract
from mirrorlake.cli.reports import (
    CODES,
    COLORS,
    Checked,
    ask_of,
    code_of_all,
    notes_of,
    print_checked,
    print_report,
    print_rows,
    print_tally,
)
from mirrorlake.config import Config, Mirrored, TableContract, TenantTable
from mirrorlake.errors import ConfigError
from mirrorlake.runtime.outcomes import Outcomes
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.operations.checking.check_layers import LayerReport
    from mirrorlake.proof.comparing.report import Report
    from mirrorlake.workspace import Workspace


@click.command(short_help="Compare with MySQL, field by field, and keep the proof.")
@click.argument("table", required=False, shell_complete=show.table_names)
@show.config_option
@show.json_option
@click.option("--full", is_flag=True, help="Check the whole table. The default.")
@click.option("--next", "next_", is_flag=True, help="Check the next 100,000 rows, then move on.")
@click.option(
    "--partition", type=click.DateTime(["%Y-%m-%d"]), help="Check the rows of a day, YYYY-MM-DD."
)
@click.option("--keys", help="Check keys from a to b, both included, written a..b.")
@click.option("--where", help="Check the rows that a condition chooses, in SQL of both sides.")
@click.option("--counts", is_flag=True, help="Only count rows, day by day: no proof is kept.")
@click.option(
    "--most",
    type=click.IntRange(1),
    default=1_000,
    show_default=True,
    help="How many differing rows are compared one by one; the others are counted. The screen "
    "lists the first 20, or as many as this says; --json and the evidence list all.",
)
@click.option("--show-pii", is_flag=True, help="Show values of columns with a rule on this screen.")
@click.option("--evidence", type=click.Path(path_type=Path), help="The folder of evidence files.")
@click.option("--tenant", "databases", multiple=True, help="Only this tenant's database; several.")
@with_other_comparisons
def check(
    table: str | None,
    config_path: Path,
    as_json: bool,
    show_pii: bool,
    databases: Sequence[str],
    **options: Any,
) -> None:
    """Compare TABLE with MySQL, field by field, and keep the proof; without TABLE, every table.

    A check of the whole table proves its raw and clean layers too: raw's files against what their
    loads recorded, clean against deduped. A table of mode snapshot is compared with the files that
    landed; a table of tenants tenant by tenant. Ends with 0 if all are equal, 9 if one differs, 10
    if that can't be decided yet; where a table can't be looked at, with that error's code.

    Rows that MySQL wrote so recently that the lake need not have them yet are counted as waiting,
    never as different. The condition of --where is not kept.
    """
    from mirrorlake.workspace import Workspace

    if (other := other_meant(options)) is not None:
        asked = options | {"config_path": config_path}
        sys.exit(other.check(table, asked, _given(), as_json=as_json))
    config = open_contract(config_path)
    terms = CheckTerms(options, tuple(databases), as_json=as_json, show_pii=show_pii)
    if table is None:
        _refuse_parts_of_all(terms)
        sys.exit(_check_everything(config, terms))
    chosen = config.mirrored_table(table)
    _refuse_terms(chosen, terms)
    with Workspace.open(config) as workspace:
        found = check_chosen(workspace, chosen, terms)
    if as_json:
        show.print_json(found.words)
    else:
        found.show()
    sys.exit(CODES[found.verdict])


def _given() -> list[str]:
    """The options that somebody wrote."""
    context = click.get_current_context()
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return [name for name, source in sources.items() if source is ParameterSource.COMMANDLINE]


OF_MODES: Seam[WholeCheck] = Seam("check")
"""By the name of a mode that a capability adds: how its tables are checked."""


def _whole_check(contract: Mirrored) -> WholeCheck | None:
    """How a table is checked that is compared as a whole; None of one of which rows can be."""
    if isinstance(contract, TenantTable):
        return OF_TENANTS
    return OF_MODES.added.get(contract.mode)


def check_chosen(workspace: Workspace, contract: Mirrored, terms: CheckTerms) -> Checked:
    """Check a table of any kind, and say what other hands did to its lake tables."""
    from mirrorlake.operations.other_writers.moved_lake import find_all_moved

    there = find_all_moved(workspace.config, workspace.ledger, [contract])
    moved = [one.said for found in there.values() for one in found]
    if not terms.as_json:
        for words in moved:
            show.errors.print(f"table {contract.name}: {words}", markup=False, soft_wrap=True)
    found = _check_chosen(workspace, contract, terms)
    return replace(found, words={**found.words, "moved": moved})


def _check_chosen(workspace: Workspace, contract: Mirrored, terms: CheckTerms) -> Checked:
    whole = _whole_check(contract)
    if whole is not None:
        return whole.check(workspace, contract, terms)
    assert isinstance(contract, TableContract)  # noqa: S101
    if terms.options["counts"]:
        return _count(workspace, contract)
    return _check_mirrored(workspace, contract, terms)


def _refuse_terms(contract: Mirrored, terms: CheckTerms) -> None:
    """See that the options are for a table of this kind."""
    if terms.databases and not isinstance(contract, TenantTable):
        raise ConfigError("--tenant is for tables of tenants", next_step="Leave it out")
    whole = _whole_check(contract)
    if whole is not None:
        _refuse_parts(contract.name, terms.options, whole)
    else:
        ask_of(terms.options)


def _check_mirrored(workspace: Workspace, contract: TableContract, terms: CheckTerms) -> Checked:
    from mirrorlake.operations.checking.check_layers import prove_layers, worst
    from mirrorlake.proof.comparing.evidence import (
        evidence_of,
        formatter_of,
        prove_table,
        report_words,
    )
    from mirrorlake.serving.personal_audit import find_suspects
    from mirrorlake.table.columns.new_columns import held_now, why_held

    ask, options = ask_of(terms.options), terms.options
    report, path = prove_table(workspace, contract, ask, options["evidence"], options["most"])
    whole = ask.kind == "full"
    layers = prove_layers(workspace, contract, show_pii=terms.show_pii) if whole else ()
    held = held_now(workspace.ledger, workspace.lake, contract)
    waiting = why_held(workspace.ledger, contract, held)
    suspects = find_suspects(workspace.lake, workspace.ledger, contract).found
    verdict = worst(report.verdict, *(layer.verdict for layer in layers))
    formatter = formatter_of(workspace.config, contract, shown=terms.show_pii, held=held)
    written = evidence_of(report, formatter, "")
    words = {key: written[key] for key in (*report_words(report), "undecided", "differences")}
    words |= {"verdict": verdict, "evidence": str(path), "layers": _layers(report, layers)}
    words |= {"held_columns": held, "suspected_pii": suspects}

    def show_it() -> None:
        print_report(report, path)
        lines = [line for each in report.differences for line in formatter.lines(each)]
        print_rows(lines, terms.shown, f"--json, and the evidence in {path}, list them")
        _print_layers(layers)
        warn_of_clean(waiting, suspects)

    notes = (*notes_of(report), *clean_notes(layers, held, suspects))
    rows = (report.source.rows, report.lake.rows)
    repairable = report.verdict == "different"
    return Checked(contract.name, verdict, words, show_it, rows, notes, report.waiting, repairable)


def clean_notes(
    layers: Sequence[LayerReport], held: Sequence[str], suspects: Mapping[str, str]
) -> list[str]:
    """What a line about a table says of its other layers."""
    found = [f"{x.proof.layer} is {x.proof.verdict}" for x in layers if x.proof.verdict != "equal"]
    found += [f"held out of clean: {', '.join(held)}"] if held else []
    return found + ([f"may show personal data: {', '.join(suspects)}"] if suspects else [])


def _check_everything(config: Config, terms: CheckTerms) -> int:
    """Check all tables of a contract file, one after the other; the exit code. One that can't be
    looked at does not keep the others from it."""
    from mirrorlake.cli.bars import Bars
    from mirrorlake.workspace import Workspace

    chosen = every_table(config)
    done = Outcomes[Checked]()
    with Workspace.open(config) as workspace, Bars(show.errors, quiet=terms.as_json) as bars:
        moved = bars.count("all tables", len(chosen))
        for number, contract in enumerate(chosen, 1):
            check_one = partial(check_chosen, workspace, contract, terms)
            found = done.attempt(contract.name, check_one).result
            words = found.verdict if found is not None else "failed"
            moved(number)
            bars.line(f"{number:,} of {len(chosen):,}: {contract.name}: {words}")
    verdicts = [one.verdict for one in done.results]
    if terms.as_json:
        errors = show.errors_of(done.failures)
        show.print_json({"tables": [one.words for one in done.results], "errors": errors})
    else:
        print_checked(done.results)
        print_tally("checked", verdicts, done.failures)
        if wrong := [one.table for one in done.results if one.repairable]:
            which = f"repair {shlex.quote(wrong[0])}" if len(wrong) == 1 else "repair"
            words = f"Next: `mirrorlake {which}` reads the rows that differ again"
            words += "" if len(wrong) == 1 else f" of all tables; or one by one: {', '.join(wrong)}"
            show.console.print(words, highlight=False, soft_wrap=True, markup=False)
    return code_of_all(verdicts, done.failures)


def _refuse_parts_of_all(terms: CheckTerms) -> None:
    """See that no option is given that is about rows of one table."""
    some = ("next_", "partition", "keys", "where", "counts")
    if terms.databases or any(terms.options[option] for option in some):
        raise ConfigError(
            "without a TABLE every table is checked as a whole",
            next_step="Name the table: --next, --partition, --keys, --where, --counts and --tenant "
            "are about rows of one",
        )


def _refuse_parts(name: str, options: dict[str, Any], whole: WholeCheck) -> None:
    some = ("next_", "partition", "keys", "where", "counts", "evidence")
    if any(options.get(option) for option in some):
        raise ConfigError(
            f"table {name} is {whole.words}: it is compared as a whole",
            table=name,
            next_step=f"`mirrorlake check {shlex.quote(name)}`, with {whole.takes}",
        )


def _layers(report: Report, layers: Sequence[LayerReport]) -> list[dict[str, Any]]:
    """The verdict on each layer; of those that were not looked at, that."""
    from mirrorlake.operations.checking.check_layers import NOT_LOOKED_AT, summary

    others = [summary(layer) for layer in layers]
    if not layers:
        others = [{"layer": name, "verdict": NOT_LOOKED_AT} for name in ("raw", "clean")]
    return [{"layer": "deduped", "verdict": report.verdict}, *others]


def _print_layers(layers: Sequence[LayerReport]) -> None:
    """The verdicts on raw and clean, a line each, and what differs."""
    lines: list[str] = []
    if not layers:
        lines = ["  raw and clean were not looked at: a check of the whole table does"]
    for layer in layers:
        proof = layer.proof
        notes = "; ".join(note for note in (proof.compared, proof.words, layer.next_step) if note)
        color = COLORS[proof.verdict]
        lines.append(f"  {proof.layer}: [{color}]{proof.verdict}[/] ({escape(notes)})")
        lines += [f"    {escape(line)}" for line in layer.lines]
    for line in lines:
        show.console.print(line, highlight=False, soft_wrap=True)


def warn_of_clean(held: Sequence[str], suspects: dict[str, str]) -> None:
    """What a person should decide about the table's clean layer; never a value.

    Args:
        held: lines about columns that are held out of it.
    """
    from mirrorlake.serving.personal_audit import suspect_words

    lines = [*held, *(f"clean may show personal data: {line}" for line in suspect_words(suspects))]
    for line in lines:
        show.console.print(f"[yellow]warning:[/] {escape(line)}", highlight=False, soft_wrap=True)


def _count(workspace: Workspace, contract: TableContract) -> Checked:
    from mirrorlake.proof.comparing.counts import count_rows

    found = count_rows(workspace, contract)

    def show_it() -> None:
        rows = f"{plural(found.source_rows, 'row')} in MySQL, {found.lake_rows:,} in the lake"
        waiting = f", {found.waiting:,} wait" if found.waiting else ""
        line = f"{found.table}: counts are {found.verdict} ({rows}{waiting}; {found.compared})"
        show.console.print(escape(line), highlight=False, soft_wrap=True)
        for day, (ours, theirs) in found.days.items():
            line = f"  {day}: {plural(ours, 'row')} in MySQL, {theirs:,} in the lake"
            show.console.print(line, highlight=False)

    rows = (found.source_rows, found.lake_rows)
    return Checked(contract.name, found.verdict, asdict(found), show_it, rows)
