"""The exact check in Dagster's words: the next chunk of a table, proved or not, and repaired where
its contract says so.

Personal values are shown as keyed digests here too.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from pathlib import Path
from shlex import quote
from typing import Any

import dagster as dg

from dagster_mirrorlake.checks.days import Partition, ReportedDays
from dagster_mirrorlake.checks.exact_days import days_verdict, listed_days, undecided_words
from dagster_mirrorlake.checks.known_differences import ExactVerdict, with_known_differences
from dagster_mirrorlake.checks.series import EXACT
from dagster_mirrorlake.checks.targets import materialized_since
from dagster_mirrorlake.checks.verdicts import moved_metadata
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.config import TableContract
from mirrorlake.errors import TooFewRows
from mirrorlake.operations.repairing.repair import Repaired, repair_table
from mirrorlake.proof.comparing.evidence import formatter_of, prove_table
from mirrorlake.proof.comparing.report import Ask, Report
from mirrorlake.proof.coverage.coverage import round_of
from mirrorlake.proof.coverage.outdated_proofs import aged_proofs
from mirrorlake.proof.forms.differences import Difference, Field, Formatter
from mirrorlake.proof.ranges.ranges import EVERYWHERE, Span
from mirrorlake.runtime.plural import plural
from mirrorlake.table.columns.new_columns import held_now
from mirrorlake.table.lake_tables import deduped_table
from mirrorlake.workspace import Workspace

_SHOWN = 50
"""How many differences a verdict lists."""
PROVED = "proved of this round (%)"
_COLUMNS = ("kind", "key", "column", "MySQL", "lake")

ExactVerdictOfDays = tuple[
    bool, Mapping[str, Any], str | None, dg.AssetCheckSeverity, Mapping[str, Partition]
]


def exact_verdict(
    workspace: Workspace,
    table: MirroredTable,
    run_days: tuple[date, date] | None = None,
    ask: Ask | None = None,
    compare_days: Collection[date] = (),
    instance: dg.DagsterInstance | None = None,
) -> ExactVerdictOfDays:
    """Whether it passed, metadata, words and severity; and the days that are reported one by one.

    Args:
        run_days: the run's first and last day.
        ask: the rows to compare; by default the next chunk of keys.
        compare_days: days of which a verdict was requested: the newest of them that are not proved
            are compared by themselves.
        instance: Dagster's: what it shows no more is reported again.

    Raises:
        MirrorlakeError: it could not be looked, or not be repaired; see
            `mirrorlake.proof.comparing.check.check_table` and
            `mirrorlake.operations.repairing.repair.repair_table`.
    """
    contract = table.contract
    if not workspace.ledger.folded_loads(contract.name, "deduped"):
        return False, {}, "Nothing is mirrored yet", dg.AssetCheckSeverity.WARN, {}
    report, evidence = prove_table(workspace, contract, ask or Ask("next"))
    return report_verdict(workspace, table, report, evidence, run_days, compare_days, instance)


def report_verdict(
    workspace: Workspace,
    table: MirroredTable,
    report: Report,
    evidence: Path,
    run_days: tuple[date, date] | None = None,
    compare_days: Collection[date] = (),
    instance: dg.DagsterInstance | None = None,
) -> ExactVerdictOfDays:
    """The same of a comparison that was made just now; repaired where the contract says so.

    Raises:
        MirrorlakeError: it could not be repaired.
    """
    contract = table.contract
    verdict, last = _chunk_verdict(workspace, contract, report, evidence)
    verdict = with_known_differences(workspace, contract, verdict)
    reported = ReportedDays(workspace, contract, EXACT, table.first_partition)
    event = reported.passed()[2]
    shown = (
        materialized_since(instance, table.key("deduped"), event) if instance else (set(), event)
    )
    days, unproved = days_verdict(workspace, reported, last, run_days, compare_days, shown)
    passed, metadata, words, severity = verdict
    if unproved:
        metadata = {**metadata, "days not proved": listed_days(unproved)}
    metadata = {**metadata, **moved_metadata(workspace, contract)}
    return passed, metadata, words, severity, days


def _chunk_verdict(
    workspace: Workspace, contract: TableContract, report: Report, evidence: Path
) -> tuple[ExactVerdict, Report]:
    """The verdict on the chunk, repaired where the contract says so; and the last look at it."""
    held = held_now(workspace.ledger, workspace.lake, contract)
    metadata = _metadata(report, formatter_of(workspace.config, contract, held=held), str(evidence))
    metadata |= _coverage(workspace, contract)
    stale = [p.stale for p in aged_proofs(workspace.ledger, contract.name) if p.stale is not None]
    if stale:
        metadata["stale proofs"] = (
            f"{plural(len(stale), 'range was', 'ranges were')} proved before this: {stale[0]}"
        )
    if report.verdict == "different":
        count = len(report.differences) + report.unlooked
        words = f"{plural(count, 'row differs', 'rows differ')} between MySQL and the lake"
        auto = contract.repair == "auto"
        gone = sum(key.gone for key in report.keys)
        # Deletes are what `deletes` of the contract is about: the sweep needs no other word.
        sweeps = contract.repair == "ask" and gone > 0
        if (auto and count <= contract.repair_limit) or (sweeps and gone <= contract.repair_limit):
            found = (report, evidence)
            try:
                done = repair_table(
                    workspace, contract, report.ask, found=found, only_deletes=not auto
                )
            except TooFewRows as held:
                # A verdict, as more than `repair_limit` is: the rows differ, and stay.
                return (False, metadata, f"{words}. {held}", dg.AssetCheckSeverity.ERROR), report
            metadata |= _repaired(done)
            words = (
                f"{plural(count, 'row')} differed ({done.why}); now {done.outcome}: "
                f"{done.rows} were read"
            )
            words += f" again, {done.gone} were gone from MySQL"
            later = done.after.only_deleted
            if later:
                rows = plural(
                    done.gone, "row that MySQL deleted was", "rows that MySQL deleted were"
                )
                words = f"{rows} swept; {len(done.after.keys)} "
                words += "more were deleted meanwhile: the next look sweeps them"
            passed = done.outcome == "equal" or later
            if not passed and contract.repair == "ask":
                metadata["or in a shell"] = _command(contract, report)
            return (passed, metadata, words, dg.AssetCheckSeverity.ERROR), done.after
        if contract.repair != "off":
            metadata["or in a shell"] = _command(contract, report)
        if contract.repair == "auto":
            words += f", more than repair_limit ({contract.repair_limit}): not repaired"
        return (False, metadata, words, dg.AssetCheckSeverity.ERROR), report
    if report.verdict == "undecided":
        return (False, metadata, undecided_words(report), dg.AssetCheckSeverity.WARN), report
    words = (
        f"{plural(report.waiting, 'row waits', 'rows wait')}: the next loads bring them"
        if report.waiting
        else None
    )
    return (True, metadata, words, dg.AssetCheckSeverity.ERROR), report


def _metadata(report: Report, formatter: Formatter, evidence: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "keys": str(report.ask.keys) if report.ranges[0].range else "all",
        "compared": report.scope,
        "rows in MySQL": report.source.rows,
        "rows in the mirror": report.lake.rows,
        "rows that wait": report.waiting,
        "rows looked up by key": report.beside,
        "MySQL's position": report.position,
        "bytes from MySQL": report.bytes,
        "seconds": report.seconds,
        "code": report.code,
        "evidence": dg.MetadataValue.path(evidence),
    }
    if report.not_mirrored:
        metadata["columns that are not mirrored"] = ", ".join(report.not_mirrored)
    if report.differences:
        metadata["first differences"] = _table(report.differences, formatter)
    return metadata


def shown_differences(
    workspace: Workspace, contract: TableContract, report: Report, evidence: Path
) -> dict[str, Any]:
    """The first differences of a comparison, what is personal as digests, and where all are."""
    metadata: dict[str, Any] = {"evidence": dg.MetadataValue.path(str(evidence))}
    if report.differences:
        held = held_now(workspace.ledger, workspace.lake, contract)
        formatter = formatter_of(workspace.config, contract, held=held)
        metadata["first differences"] = _table(report.differences, formatter)
    return metadata


def _coverage(workspace: Workspace, contract: TableContract) -> dict[str, Any]:
    """How much of the table this round of chunks has proved."""
    found = round_of(workspace.ledger.proofs(contract.name))
    snapshot = deduped_table(workspace.lake, contract).current_snapshot()
    if found is None or snapshot is None or snapshot.summary is None:
        return {}
    rows = int(snapshot.summary["total-records"] or 0)
    return {
        PROVED: found.percent(rows),
        "chunks of this round": found.chunks,
        "this round began": f"{found.since:%Y-%m-%d %H:%M} UTC",
    }


def _command(contract: TableContract, report: Report) -> str:
    """What a person runs to repair these rows."""
    keys = report.ask.keys
    if isinstance(keys, Span) or report.ranges[0].range is None or keys == EVERYWHERE:
        return f"mirrorlake repair {quote(contract.name)}"
    low = "" if keys.lo is None else str(keys.lo)
    high = "" if keys.hi is None else str(keys.hi - 1)
    return f"mirrorlake repair {quote(contract.name)} --keys {low}..{high}"


def _repaired(done: Repaired) -> dict[str, Any]:
    return {
        "repaired": done.why,
        "after the repair": done.outcome,
        "rows read again": done.rows,
        "keys gone": done.gone,
        "loads of the repair": ", ".join(done.loads) or "none",
        "repair": done.repair_id or "none",
        "evidence after it": dg.MetadataValue.path(str(done.evidence[-1])),
    }


def _table(differences: Sequence[Difference], formatter: Formatter) -> dg.TableMetadataValue:
    rows = [row for d in differences[:_SHOWN] for row in _rows(d, formatter)][:_SHOWN]
    return dg.MetadataValue.table(
        [dg.TableRecord(dict(zip(_COLUMNS, row, strict=True))) for row in rows],
        dg.TableSchema([dg.TableColumn(name, "string") for name in _COLUMNS]),
    )


def _rows(difference: Difference, formatter: Formatter) -> list[tuple[str, ...]]:
    key = ", ".join(f"{v.column}={formatter.value(v)}" for v in difference.key)
    kind = f"{difference.kind}{difference.note}"
    if not difference.fields:
        return [(kind, key, "", "", "")]
    return [(kind, key, f.source.column, *_both(f, formatter)) for f in difference.fields]


def _both(field: Field, formatter: Formatter) -> tuple[str, str]:
    return formatter.value(field.source), formatter.value(field.lake)
