"""What each check looks at and what it makes of it.

A check of rows remembers in the ledger which snapshot it last found good: then only rows of newer
files are read. Executed alone, by a person, it looks at all of them again.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

import dagster as dg

from dagster_mirrorlake.checks.days import Partition, ReportedDays
from dagster_mirrorlake.checks.repair_links import repair_links
from dagster_mirrorlake.checks.series import BY_DAY
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.table import Layer, MirroredTable
from mirrorlake.config import TableContract
from mirrorlake.destinations.iceberg.integrity import damage_errors
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.originals import originals_by_day
from mirrorlake.destinations.iceberg.stream import read_batches
from mirrorlake.destinations.iceberg.views import read_view
from mirrorlake.errors import LakeError
from mirrorlake.operations.gaps import Stretch, find_stretches
from mirrorlake.operations.observe import duplicate_keys
from mirrorlake.operations.resolve import resolve_table
from mirrorlake.proof.counts import NO_DAY, Counts, DayCounts, count_rows
from mirrorlake.serving.masking_audit import find_exposed, stored_pci
from mirrorlake.serving.personal_audit import find_suspects, suspect_words
from mirrorlake.sources.mysql.connect import session
from mirrorlake.table.lake_tables import clean_of, deduped_of, deduped_table, raw_tables
from mirrorlake.table.new_columns import held_now, held_words
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

_SWEPT_WITHIN = timedelta(days=1)
"""Without a compared chunk for so long, a table is not swept: `proofs` runs every two hours."""
_SHOWN = 100
"""How many gaps or days a verdict lists."""


@dataclass(frozen=True)
class CheckVerdict:
    """What one check found; ``words`` say what is wrong, without any row's values. ``partitions``:
    of the days that are reported one by one."""

    passed: bool
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    words: str | None = None
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR
    partitions: Mapping[str, Partition] = field(default_factory=dict[str, Partition])


@dataclass(frozen=True)
class Look:
    """One look at one layer of a table; ``whole``: at rows that were found good before, too;
    ``days``: the first and last that the run is about, None where it names none."""

    workspace: Workspace
    table: MirroredTable
    layer: Layer
    whole: bool
    days: tuple[date, date] | None = None

    @property
    def contract(self) -> TableContract:
        """The table's."""
        return self.table.contract

    def good_snapshot(self, name: str, terms: str) -> int | None:
        """The snapshot that a check last found good on the same terms."""
        said = None if self.whole else self.workspace.ledger.definition(self._name(name))
        good = json.loads(said) if said else {}
        return good["snapshot"] if good.get("terms") == terms else None

    def found_good(self, name: str, terms: str, table: LakeTable) -> None:
        """Remember that this check found the table good as it was loaded."""
        snapshot = _snapshot(table)
        if snapshot is not None:
            text = json.dumps({"snapshot": snapshot, "terms": terms})
            self.workspace.ledger.record_definition(self._name(name), text)

    def _name(self, name: str) -> str:
        layer = deduped_of if self.layer == "deduped" else clean_of
        return f"{name} {layer(self.contract)}"


def report_verdicts(
    context: dg.AssetCheckExecutionContext,
    table: MirroredTable,
    layer: Layer,
    names: Sequence[str],
) -> Iterator[dg.AssetCheckResult]:
    """The verdicts of these checks of one asset.

    One that can't look does not keep the others from being reported: its exception, of whatever
    kind, ends the step after them, and is no verdict.

    Raises:
        Failure: a look failed; the first reason.
        Exception: a look met a bug; as it came.
    """
    failed: Exception | None = None
    key, run = table.key(layer), context.op_execution_context.run
    alone, days = not run.asset_selection, _days_of(table, run.tags)
    for name in sorted({name.removesuffix(BY_DAY) for name in names}):
        try:
            with dagster_errors(0, again=False):
                workspace: Workspace = table.names.resources(context).mirrorlake.workspace
                look = Look(workspace, table, layer, alone, days)
                with damage_errors(workspace.lake, workspace.ledger, table.contract):
                    verdict = _VERDICTS[name](look)
        except Exception as error:  # noqa: BLE001 (raised below, after the others)
            failed = failed or error
            continue
        for day in _day_events(run, table, key, name, verdict):
            # Dagster takes it, and its own annotation does not say so.
            context.op_execution_context.log_event(day)  # pyright: ignore[reportArgumentType]
        if name not in names:
            continue
        yield dg.AssetCheckResult(
            asset_key=key,
            check_name=name,
            passed=verdict.passed,
            severity=verdict.severity,
            metadata=metadata_of(run, table, name, verdict),
            description=verdict.words,
        )
    if failed is not None:
        raise failed


def alone_verdict(
    context: dg.OpExecutionContext, table: MirroredTable, layer: Layer, name: str
) -> CheckVerdict:
    """The verdict of one check, for a step that is no check's.

    Raises:
        MirrorlakeError: it could not look.
    """
    workspace: Workspace = table.names.resources(context).mirrorlake.workspace
    with damage_errors(workspace.lake, workspace.ledger, table.contract):
        return _VERDICTS[name](Look(workspace, table, layer, whole=False))


def evaluations(
    run: dg.DagsterRun, table: MirroredTable, layer: Layer, name: str, verdict: CheckVerdict
) -> Iterator[dg.AssetCheckEvaluation]:
    """A verdict and its days as events of a step that is no check's. To be yielded: what is only
    logged is lost where the step fails."""
    key = table.key(layer)
    yield from _day_events(run, table, key, name, verdict)
    shown = metadata_of(run, table, name, verdict)
    yield dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=name,
        passed=verdict.passed,
        severity=verdict.severity,
        metadata={k: as_value(v) for k, v in shown.items()},
        description=verdict.words,
    )


_VALUES: dict[type, Any] = {
    bool: dg.MetadataValue.bool,
    int: dg.MetadataValue.int,
    float: dg.MetadataValue.float,
    str: dg.MetadataValue.text,
}


def as_value(value: Any) -> dg.MetadataValue[Any]:
    """A plain value as Dagster's metadata."""
    if isinstance(value, dg.MetadataValue):
        return value
    make = _VALUES.get(type(value))
    return dg.MetadataValue.text(str(value)) if make is None else make(value)


def metadata_of(
    run: dg.DagsterRun, table: MirroredTable, name: str, verdict: CheckVerdict
) -> dict[str, Any]:
    """What a verdict shows: of a failed one first what a person can do about it."""
    if verdict.passed:
        return dict(verdict.metadata)
    return {**repair_links(run, table, name, verdict.words), **verdict.metadata}


def _day_events(
    run: dg.DagsterRun,
    table: MirroredTable,
    key: dg.AssetKey,
    name: str,
    verdict: CheckVerdict,
) -> Iterator[dg.AssetCheckEvaluation]:
    """Each day by itself, in a series of its own; a failed one says what can be done, too."""
    for day, one in verdict.partitions.items() if table.has_days else ():
        links = {} if one.passed else repair_links(run, table, name, one.words)
        yield dg.AssetCheckEvaluation(
            asset_key=key,
            check_name=f"{name}{BY_DAY}",
            passed=one.passed,
            metadata={k: as_value(v) for k, v in {**links, **one.metadata}.items()},
            description=one.words,
            severity=one.severity,
            partition=day,
        )


def gaps_verdict(look: Look) -> CheckVerdict:
    """Whether every day of the table that has ended was loaded; the days that were not, listed."""
    today = datetime.now(UTC).date()
    found = [
        s
        for s in find_stretches(look.contract, look.workspace.ledger, today)
        if s.state in ("errored", "unproved") or (s.state == "not asked" and s.first != today)
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
    words = (
        f"{failed} stretches of days failed, {len(found) - failed - unproved} were never asked for"
    )
    words += f", {unproved} are unproved" if unproved else ""
    severity = dg.AssetCheckSeverity.ERROR if failed else dg.AssetCheckSeverity.WARN
    metadata = {"gaps": len(found), "days": dg.MetadataValue.table(records)}
    return CheckVerdict(False, metadata, words, severity, days)


def _days_of_gaps(look: Look, gaps: Sequence[Stretch], today: date) -> dict[str, Partition]:
    """The days that are gaps, those that were, the newest and the run's own."""
    begin = look.table.first_partition
    if not look.table.has_days or begin is None:
        return {}
    told = ReportedDays(look.workspace, look.contract, "gaps", begin)
    days = [begin + timedelta(days=n) for n in range((today - begin).days + 1)]
    states = {
        day: gap for gap in gaps for day in days if (gap.first or date.min) <= day <= gap.last
    }
    found: dict[str, Partition] = {}
    for day in told.choose(states, days, look.days):
        gap = states.get(day)
        words = f"{gap.state}: {gap.reason}" if gap and gap.reason else gap.state if gap else None
        error = dg.AssetCheckSeverity.ERROR
        severity = error if gap and gap.state == "errored" else dg.AssetCheckSeverity.WARN
        found[str(day)] = Partition(gap is None, {}, words, severity)
    told.record(date.fromisoformat(day) for day, one in found.items() if not one.passed)
    return found


def _days_of(table: MirroredTable, tags: Mapping[str, str]) -> tuple[date, date] | None:
    """The first and the last day of a run, by its partition or its range of partitions."""
    one = tags.get("dagster/partition")
    first = tags.get("dagster/asset_partition_range_start", one)
    last = tags.get("dagster/asset_partition_range_end", one)
    if not first or not last:
        return None
    open_day = datetime.now(UTC).date()
    return table.days_of(first, open_day)[0], table.days_of(last, open_day)[-1]


def originals_verdict(look: Look) -> CheckVerdict:
    """How many values keep their original text, of the run's days or of all."""
    workspace, contract = look.workspace, look.contract
    first, last = look.days or (None, None)
    by_day: dict[date, Counter[str]] = {}
    for table in raw_tables(workspace.lake, workspace.ledger, contract):
        for day, counts in originals_by_day(workspace.lake, table, first, last).items():
            by_day.setdefault(day, Counter()).update(counts)
    columns = sum(by_day.values(), Counter[str]())
    told = ", ".join(f"{name}: {count}" for name, count in sorted(columns.items()))
    days = (
        "all days" if look.days is None else f"{first} to {last}" if first != last else str(first)
    )
    metadata: dict[str, Any] = {
        "days": days,
        "values": columns.total(),
        "by column": dg.MetadataValue.json(dict(sorted(columns.items()))),
        "by day": dg.MetadataValue.json(
            {str(day): dict(sorted(by_day[day].items())) for day in sorted(by_day)}
        ),
    }
    return CheckVerdict(True, metadata, f"Originals kept in raw ({days}): {told or 'none'}")


def keys_verdict(look: Look) -> CheckVerdict:
    """Whether every key stands in one row only."""
    contract, lake = look.contract, look.workspace.lake
    table, terms = deduped_table(lake, contract), ", ".join(contract.key)
    if (good := look.good_snapshot("unique_key", terms)) and good == _snapshot(table):
        return CheckVerdict(True, words="Deduped has not changed since it was last found good")
    twice = duplicate_keys(lake, contract)
    if twice:
        words = f"{twice} rows of deduped repeat a key"
        return CheckVerdict(False, {"rows beyond the first of their key": twice}, words)
    look.found_good("unique_key", terms, table)
    return CheckVerdict(True, {"rows beyond the first of their key": 0})


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
    return CheckVerdict(not broken, {"columns": len(schema.columns), **seen, **cells}, words)


def rows_verdict(look: Look) -> CheckVerdict:
    """Whether the mirror has the rows that MySQL has, in all and day by day.

    Fewer is an error. More are deletes, which the sweep of the exact check takes away: they pass
    with their number while it comes around, and are a warning where it does not.
    """
    workspace, contract = look.workspace, look.contract
    if not workspace.ledger.folded_loads(contract.name, "deduped"):
        warning = dg.AssetCheckSeverity.WARN
        return CheckVerdict(False, words="Nothing is mirrored yet", severity=warning)
    counts = count_rows(workspace, contract)
    metadata: dict[str, Any] = {
        "counted": counts.compared,
        "rows in MySQL": counts.source_rows,
        "rows in the mirror": counts.lake_rows,
        "rows that wait": counts.waiting,
        "days counted": len(counts.counted),
        "days that differ": len(counts.days),
    }
    if counts.days:
        metadata["first days that differ"] = _table_of(counts.days)
    if counts.verdict == "undecided":
        words = f"Nothing can be said yet: {counts.waiting} rows of MySQL are too new to be counted"
        return CheckVerdict(False, metadata, words, dg.AssetCheckSeverity.WARN)
    swept = _is_swept(look)
    passed, words, severity = _of_count(contract, counts.lost, counts.surplus, swept=swept)
    return CheckVerdict(passed, metadata, words, severity, _partitions(look, counts, swept=swept))


def _is_swept(look: Look) -> bool:
    """Whether the sweep of deletes comes around: a chunk of keys was compared within a day, or the
    table is not a day in the mirror. Without a key a surplus row may as well be a doubled one."""
    contract, ledger = look.contract, look.workspace.ledger
    if not contract.key or contract.copies or contract.repair == "off":
        return False
    since = ledger.ledger_clock() - _SWEPT_WITHIN
    newest = max((proof.started_at for proof in ledger.proofs(contract.name)), default=None)
    loads = ledger.successful_loads(contract.name)
    return (newest is not None and newest > since) or (bool(loads) and loads[0].started_at > since)


def _of_count(
    contract: TableContract, lost: int, surplus: int, *, swept: bool
) -> tuple[bool, str | None, dg.AssetCheckSeverity]:
    error, warning = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN
    if lost:
        more = f"; {surplus} others are in the mirror alone" if surplus else ""
        return False, f"{lost} rows that MySQL has are not in the mirror{more}", error
    if surplus and contract.deletes == "ignore":
        return True, f"{surplus} rows of the mirror were deleted in MySQL, and are kept", error
    if surplus:
        words = f"{surplus} rows of the mirror are not in MySQL any more: deleted there"
        if swept:
            return True, f"{words}; the sweep looks at each key, and removes them", warning
        # A copy sees deletes: there it is no delete.
        return False, words, error if contract.copies else warning
    return True, None, error


def _partitions(look: Look, counts: Counts, *, swept: bool) -> dict[str, Partition]:
    """Of the days that are reported one by one; all others are as the whole check says: equal."""
    told = ReportedDays(look.workspace, look.contract, "row_count", look.table.first_partition)
    # A day that failed may have no row any more: then it is equal.
    days = {date.fromisoformat(day) for day in counts.counted if day != NO_DAY} | {*told.failed()}
    differ = [date.fromisoformat(day) for day in counts.days if day != NO_DAY]
    found: dict[str, Partition] = {}
    for day in map(str, told.choose(differ, sorted(days), look.days)):
        ours, theirs = counts.counted.get(day, (0, 0))
        lost, surplus = max(0, ours - theirs), max(0, theirs - ours)
        verdict = _of_count(look.contract, lost, surplus, swept=swept)
        metadata = {"rows in MySQL": ours, "rows in the mirror": theirs}
        found[day] = Partition(verdict[0], metadata, verdict[1], verdict[2])
    told.record(date.fromisoformat(day) for day, one in found.items() if not one.passed)
    return found


def _table_of(days: DayCounts) -> dg.TableMetadataValue:
    columns = ("day", "rows in MySQL", "rows in the mirror")
    rows = [(day, str(a), str(b)) for day, (a, b) in sorted(days.items())[:_SHOWN]]
    return dg.MetadataValue.table(
        [dg.TableRecord(dict(zip(columns, row, strict=True))) for row in rows],
        dg.TableSchema([dg.TableColumn(name, "string") for name in columns]),
    )


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
        "new columns held out": ", ".join(held) or "none",
    }
    words = "; ".join(found) or (held_words(held) if held else None)
    return CheckVerdict(not found, metadata, words)


def suspects_verdict(look: Look) -> CheckVerdict:
    """Whether clean's new rows hold what looks personal, in columns without a rule."""
    workspace = look.workspace
    seen = find_suspects(workspace.lake, workspace.ledger, look.contract, whole=look.whole)
    metadata = {"rows sampled": seen.rows, **seen.found}
    words = "; ".join(suspect_words(seen.found)) or None
    return CheckVerdict(not seen.found, metadata, words, dg.AssetCheckSeverity.WARN)


def _drift(workspace: Workspace, plan: ResolvedTable) -> str | None:
    """What changed in MySQL since the table was loaded, if anything."""
    versions = workspace.ledger.schema_versions(plan.name)
    if not versions or versions[-1] == plan.version:
        return None
    added, other = plan.version.changes_from(versions[-1])
    changes = "; ".join([*(f"{name} was added" for name in added), *other])
    return f"MySQL's columns changed since the load, and rows were not looked at: {changes}"


def _snapshot(table: LakeTable) -> int | None:
    snapshot = table.current_snapshot()
    return snapshot.snapshot_id if snapshot else None


def _exact_verdict(look: Look) -> CheckVerdict:
    from dagster_mirrorlake.checks.exact import exact_verdict

    return CheckVerdict(*exact_verdict(look.workspace, look.table, look.days))


def _intact_verdict(look: Look) -> CheckVerdict:
    from dagster_mirrorlake.checks.layers import raw_verdict

    return CheckVerdict(*raw_verdict(look.workspace, look.contract, whole=False))


def _matches_verdict(look: Look) -> CheckVerdict:
    from dagster_mirrorlake.checks.layers import clean_verdict

    return CheckVerdict(*clean_verdict(look.workspace, look.contract, whole=False))


_VERDICTS = {
    "contract": contract_verdict,
    "exact_match": _exact_verdict,
    "gaps": gaps_verdict,
    "intact": _intact_verdict,
    "matches_deduped": _matches_verdict,
    "no_pii": privacy_verdict,
    "originals": originals_verdict,
    "row_count": rows_verdict,
    "suspected_pii": suspects_verdict,
    "unique_key": keys_verdict,
}
