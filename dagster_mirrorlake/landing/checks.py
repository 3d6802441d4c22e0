"""The checks of a table of mode ``snapshot``: they ask the lake and the ledger, and but for the
exact match no Spark."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.checks.step import checks_in_one_step
from dagster_mirrorlake.landing.as_of import as_of_snapshots
from dagster_mirrorlake.landing.promises import CHECKS, COUNT, EXACT, FRESH, SUSPECTED, UNIQUE
from dagster_mirrorlake.landing.resource import reach_landing
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.config import TableContract, format_duration
from mirrorlake.landing.ledger import LandedSnapshots
from mirrorlake.landing.notices import SnapshotNotices

if TYPE_CHECKING:
    from dagster_mirrorlake.checks.verdicts import CheckVerdict

_SHOWN = 50
"""How many lines of differences a verdict lists."""


def build_snapshot_checks(
    table: MirroredTable, needs: frozenset[str] = frozenset()
) -> list[dg.AssetChecksDefinition]:
    """Checks of deduped; the unique key blocks what is downstream.

    Args:
        needs: resources that reading the landing takes.
    """
    key = table.key("deduped")
    specs = [
        dg.AssetCheckSpec(name, asset=key, description=text, blocking=name == UNIQUE)
        for name, text in CHECKS.items()
    ]
    resources = table.names.all_of({"mirrorlake", *needs})
    return [checks_in_one_step(key, specs, _step(table, key), resources)]


def snapshot_check_keys(table: MirroredTable) -> list[dg.AssetCheckKey]:
    """The checks that run with every snapshot: all but the one that reads everything again."""
    key = table.key("deduped")
    return [dg.AssetCheckKey(key, name) for name in CHECKS if name != EXACT]


def _step(
    table: MirroredTable, key: dg.AssetKey
) -> Callable[[dg.AssetCheckExecutionContext, Any], Iterator[dg.AssetCheckResult]]:
    def step(context: dg.AssetCheckExecutionContext, _: Any) -> Iterator[dg.AssetCheckResult]:
        from dagster_mirrorlake.resources.failures import dagster_errors

        contract, resources = table.contract, table.names.resources(context)
        selected = context.op_execution_context.selected_asset_check_keys
        names = {k.name for k in selected if k.asset_key == key}
        with dagster_errors():
            workspace = resources.mirrorlake.workspace
            reach_landing(resources, workspace.config, contract)
            of_run = {"published", FRESH} & names
            ids = [int(k) for k in context.op_execution_context.partition_keys] if of_run else []
            for name in (name for name in _LOOKS if name in names):
                as_of = as_of_snapshots(workspace.ledger, table, name)
                yield as_of.noted(_LOOKS[name](workspace, contract, key, ids))

    return step


def _counted(
    workspace: Any, contract: TableContract, key: dg.AssetKey, _: list[int]
) -> dg.AssetCheckResult:
    """The newest snapshot's rows against the table's; of copies of one key one row is kept."""
    from mirrorlake.landing.check import count_newest

    held, rows, lacks, resolved = count_newest(workspace, contract)
    return dg.AssetCheckResult(
        passed=rows - lacks <= held if resolved else rows - lacks == held,
        check_name=COUNT,
        asset_key=key,
        metadata={"rows of the snapshot": held, "rows of the table": rows, "kept": lacks},
    )


def landed_verdict(workspace: Any, contract: TableContract) -> "CheckVerdict":
    """Whether every row that readers see is what the files say: all snapshots are read again.

    A difference is an error; what only files that are gone could show is a warning.
    """
    from dagster_mirrorlake.checks.verdicts import CheckVerdict, moved_metadata
    from mirrorlake.landing.check import (
        check_snapshots,
        compared_words,
        difference_lines,
        landed_formatter,
        unread_words,
        verdict_words,
    )

    found = check_snapshots(workspace, contract)
    metadata: dict[str, Any] = {
        "verdict": found.verdict,
        "compared": compared_words(found),
        "snapshot": found.snapshot,
        "rows": found.rows,
        "rows kept": found.kept,
        "rows missing": found.missing,
        "rows too many": found.extra,
        "rows changed": found.changed,
        "rows undecided": found.undecided,
        "rows undecided in _mirror_snapshot alone": found.undecided_since,
        **moved_metadata(workspace, contract),
    }
    if found.unread:
        metadata["snapshots that can't be read"] = "\n".join(unread_words(found))
    if found.differences:
        formatter = landed_formatter(workspace, contract)
        lines = difference_lines(formatter, found.differences[:_SHOWN])
        metadata["first differences"] = "\n".join(lines[:_SHOWN])
    undecided = found.verdict == "undecided"
    severity = dg.AssetCheckSeverity.WARN if undecided else dg.AssetCheckSeverity.ERROR
    return CheckVerdict(found.equal, metadata, verdict_words(found) or None, severity)


def _unique(
    workspace: Any, contract: TableContract, key: dg.AssetKey, _: list[int]
) -> dg.AssetCheckResult:
    """How many keys more than one row has."""
    from mirrorlake.operations.checking.observe import duplicate_keys

    twice = duplicate_keys(workspace.lake, contract)
    return dg.AssetCheckResult(
        passed=twice == 0,
        check_name=UNIQUE,
        asset_key=key,
        metadata={"keys held twice": twice},
    )


def _exact(
    workspace: Any, contract: TableContract, key: dg.AssetKey, _: list[int]
) -> dg.AssetCheckResult:
    """See `landed_verdict`."""
    verdict = landed_verdict(workspace, contract)
    return dg.AssetCheckResult(
        passed=verdict.passed,
        check_name=EXACT,
        asset_key=key,
        severity=verdict.severity,
        description=verdict.words,
        metadata=verdict.metadata,
    )


def _suspected(
    workspace: Any, contract: TableContract, key: dg.AssetKey, _: list[int]
) -> dg.AssetCheckResult:
    """Whether clean's new rows hold what looks personal, in columns without a rule: counts, never a
    value."""
    from mirrorlake.serving.personal_audit import find_suspects

    seen = find_suspects(workspace.lake, workspace.ledger, contract)
    return dg.AssetCheckResult(
        passed=not seen.found,
        check_name=SUSPECTED,
        asset_key=key,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"rows sampled": seen.rows, **seen.found},
    )


def _fresh(
    workspace: Any, contract: TableContract, key: dg.AssetKey, ids: list[int]
) -> dg.AssetCheckResult:
    """How long the run's snapshots took from their arrival to their publication, and which others
    wait longer than they may, are refused, or are not in what readers see."""
    from mirrorlake.landing.files.waiting_snapshots import find_overdue
    from mirrorlake.landing.land import minutes_of

    limit = contract.snapshot.fresh_within if contract.snapshot else timedelta(0)
    most = limit.total_seconds() / 60
    now = workspace.ledger.clock()
    records = {
        record.id: record for record in LandedSnapshots(workspace.ledger).snapshots(contract.name)
    }
    took = {one: minutes_of(records[one]) for one in ids if one in records}
    notices = SnapshotNotices(workspace.ledger).notices(contract.name)
    waiting = find_overdue(records.values(), notices, limit, now)
    late = [one for one, minutes in took.items() if minutes is not None and minutes > most]
    metadata: dict[str, Any] = {
        "limit": format_duration(limit),
        **{f"minutes of {i:014d}": round(m, 2) for i, m in took.items() if m is not None},
        **({"not published": show_overdue(waiting)} if waiting else {}),
    }
    return dg.AssetCheckResult(
        passed=not late and not waiting,
        check_name=FRESH,
        asset_key=key,
        severity=dg.AssetCheckSeverity.WARN,
        metadata=metadata,
    )


def show_overdue(waiting: dict[int, str]) -> str:
    """Snapshots that somebody should look at, as a check's metadata says it."""
    listed = [f"{one:014d} ({reason})" for one, reason in list(waiting.items())[:20]]
    return ", ".join(listed) + (f" and {len(waiting) - 20} more" if len(waiting) > 20 else "")


def _published(
    workspace: Any, contract: TableContract, key: dg.AssetKey, ids: list[int]
) -> dg.AssetCheckResult:
    """Whether the published version knows the run's snapshots, as the ledger numbers them."""
    from mirrorlake.landing.fold.state import read_state
    from mirrorlake.table.lake_tables import deduped_table

    state = read_state(deduped_table(workspace.lake, contract))
    rows: dict[str, int] = {}
    absent: list[str] = []
    for one in ids:
        record = LandedSnapshots(workspace.ledger).snapshot(contract.name, one)
        found = state.find(record.number) if record and record.number is not None else None
        if found is None:
            absent.append(f"{one:014d}")
        else:
            rows[f"rows of {one:014d}"] = found.totals.n
    metadata: dict[str, Any] = {**rows, **({"absent": ", ".join(absent)} if absent else {})}
    return dg.AssetCheckResult(
        passed=not absent, check_name="published", asset_key=key, metadata=metadata
    )


_LOOKS = {
    "published": _published,
    FRESH: _fresh,
    COUNT: _counted,
    EXACT: _exact,
    SUSPECTED: _suspected,
    UNIQUE: _unique,
}
