"""The verdicts on a table's structure: its columns as the contract has them, its days without gaps,
and nothing shown that the contract hides."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import dagster as dg

from dagster_mirrorlake.checks.days import Partition, ReportedDays
from dagster_mirrorlake.checks.verdicts import CheckVerdict, Look
from mirrorlake.destinations.iceberg.reading.stream import read_batches
from mirrorlake.destinations.iceberg.tables.views import read_view
from mirrorlake.errors import LakeError
from mirrorlake.operations.days.gaps import Stretch, find_stretches
from mirrorlake.operations.loading.resolve import resolve_table
from mirrorlake.serving.masking_audit import find_exposed, stored_pci
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.table.columns.new_columns import gone_words, held_now, why_held
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

_SHOWN = 100
"""How many gaps a verdict lists."""


def contract_verdict(look: Look) -> CheckVerdict:
    """Whether a layer has the contract's columns, and its rows what MySQL's columns promise."""
    from dagster_mirrorlake.checks.contract import build_schema, find_broken, fingerprint, layer_of

    workspace, contract = look.workspace, look.contract
    with session(workspace.config.sources[contract.source], contract.database) as connection:
        plan = resolve_table(workspace, contract, connection)
    if drift := _drift(workspace, plan):
        return CheckVerdict(False, words=drift, severity=dg.AssetCheckSeverity.WARN)
    layer = layer_of(plan, look.layer)
    schema, terms = build_schema(plan, layer), fingerprint(plan, layer)
    table = workspace.lake.load(layer.identifier)
    if table is None:
        view = read_view(workspace.lake, layer.identifier)
        if view is None:
            raise LakeError(
                f"lake table {layer.identifier} is not there",
                table=contract.name,
                next_step="Materialise the table's chain first",
            )
        broken, _ = find_broken(schema, view.schema, ())
        seen: dict[str, Any] = {"rows": "those of deduped: clean is a view"}
    else:
        since = look.good_snapshot("contract", terms)
        rows = read_batches(workspace.lake, table, since=since)
        broken, looked_at = find_broken(schema, table.schema(), rows)
        seen = {"rows looked at": looked_at, "rows found good before": since is not None}
        if not broken:
            look.found_good("contract", terms, table)
    cells = {f"{b.column} {b.what}": b.cells for b in broken}
    words = "; ".join(f"{b.column} {b.what}: {b.cells}" for b in broken) or None
    metadata = {"columns": len(schema.columns), **seen, **cells}
    if plan.gone and not broken:
        warning = dg.AssetCheckSeverity.WARN
        return CheckVerdict(False, metadata, gone_words(plan.gone), warning)
    return CheckVerdict(not broken, metadata, words)


def _drift(workspace: Workspace, plan: ResolvedTable) -> str | None:
    """What changed in MySQL since the table was loaded, if anything."""
    versions = workspace.ledger.schema_versions(plan.name)
    if not versions or versions[-1] == plan.version:
        return None
    names_before = plan.contract.earlier_names
    changes = plan.version.changes_from(versions[-1], names_before).said
    return f"MySQL's columns changed since the load, and rows were not looked at: {changes}"


_BAD = ("errored", "unknown")
"""States of days that somebody must see to."""


def gaps_verdict(look: Look) -> CheckVerdict:
    """Whether every day of the table that has ended was loaded; the days that were not, listed."""
    today = datetime.now(UTC).date()
    found = [
        s
        for s in find_stretches(look.contract, look.workspace.ledger, today)
        if s.state in (*_BAD, "unproved") or (s.state == "not asked" and s.first != today)
    ]
    days = _days_of_gaps(look, found, today)
    if not found:
        return CheckVerdict(True, {"gaps": 0}, partitions=days)
    records = [
        dg.TableRecord(
            {"from": str(s.first or "-"), "to": str(s.last), "state": s.state, "reason": s.reason}
        )
        for s in found[:_SHOWN]
    ]
    failed = sum(s.state == "errored" for s in found)
    unproved = sum(s.state == "unproved" for s in found)
    unknown = sum(s.state == "unknown" for s in found)
    never = len(found) - failed - unproved - unknown
    words = f"{failed} stretches of days failed, {never} were never requested"
    words += f", {unproved} are unproved" if unproved else ""
    words += f", {unknown} were lost by raw" if unknown else ""
    severity = dg.AssetCheckSeverity.ERROR if failed or unknown else dg.AssetCheckSeverity.WARN
    metadata = {"gaps": len(found), "days": dg.MetadataValue.table(records)}
    return CheckVerdict(False, metadata, words, severity, days)


def _days_of_gaps(look: Look, gaps: Sequence[Stretch], today: date) -> dict[str, Partition]:
    """The days that are gaps, those that were, the newest and the run's own."""
    begin = look.table.first_partition
    if not look.table.has_days or begin is None:
        return {}
    reported = ReportedDays(look.workspace, look.contract, "gaps", begin)
    days = [begin + timedelta(days=n) for n in range((today - begin).days + 1)]
    states = {
        day: gap for gap in gaps for day in days if (gap.first or date.min) <= day <= gap.last
    }
    found: dict[str, Partition] = {}
    for day in reported.choose(states, days, look.days):
        gap = states.get(day)
        words = f"{gap.state}: {gap.reason}" if gap and gap.reason else gap.state if gap else None
        error = dg.AssetCheckSeverity.ERROR
        severity = error if gap and gap.state in _BAD else dg.AssetCheckSeverity.WARN
        found[str(day)] = Partition(gap is None, {}, words, severity)
    reported.record(date.fromisoformat(day) for day, one in found.items() if not one.passed)
    return found


def privacy_verdict(look: Look) -> CheckVerdict:
    """Whether clean shows nothing that the contract hides, and no layer holds card columns."""
    lake, contract = look.workspace.lake, look.contract
    held = held_now(look.workspace.ledger, lake, contract)
    exposed = find_exposed(lake, contract, held)
    stored = stored_pci(lake, look.workspace.ledger, contract)
    found = [f"{column} {what}" for column, what in exposed.found.items()]
    found += [
        f"{column} is in {table}, and is never to be read" for column, table in stored.items()
    ]
    metadata: dict[str, Any] = {
        "columns shown": exposed.columns,
        "columns with a rule": len(contract.columns),
        "columns held out": ", ".join(held) or "none",
    }
    waiting = why_held(look.workspace.ledger, contract, held)
    words = "; ".join(found) or "; ".join(waiting) or None
    return CheckVerdict(not found, metadata, words)
