"""The verdicts on a table's rows and values: counts against MySQL, unique keys, originals kept, and
what looks personal."""

from collections import Counter
from datetime import date, timedelta
from shlex import quote
from typing import Any

import dagster as dg

from dagster_mirrorlake.checks.days import Partition, ReportedDays
from dagster_mirrorlake.checks.verdicts import CheckVerdict, Look, snapshot_of
from mirrorlake.config import TableContract
from mirrorlake.destinations.iceberg.reading.originals import originals_by_day
from mirrorlake.operations.checking.observe import duplicate_keys
from mirrorlake.proof.comparing.counts import NO_DAY, Counts, DayCounts, count_rows
from mirrorlake.runtime.plural import plural
from mirrorlake.serving.personal_audit import find_suspects, suspect_words
from mirrorlake.table.lake_tables import deduped_table, raw_tables
from mirrorlake.table.shrink import takes_too_many

_SWEPT_WITHIN = timedelta(days=1)
"""Without a compared chunk for so long, a table is not swept: `proofs` runs every two hours."""
_SHOWN = 100
"""How many days a verdict lists."""


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
        rows = plural(counts.waiting, "row of MySQL is", "rows of MySQL are")
        words = f"Nothing can be said yet: {rows} too new to be counted"
        return CheckVerdict(False, metadata, words, dg.AssetCheckSeverity.WARN)
    if held := _held_words(contract, counts):
        return CheckVerdict(False, metadata, held, dg.AssetCheckSeverity.ERROR)
    swept = _is_swept(look)
    passed, words, severity = _of_count(contract, counts.lost, counts.surplus, swept=swept)
    return CheckVerdict(passed, metadata, words, severity, _partitions(look, counts, swept=swept))


def _held_words(contract: TableContract, counts: Counts) -> str | None:
    """Why no sweep takes out what MySQL deleted: most of the rows went."""
    gone, limit = counts.lake_rows - counts.source_rows, contract.shrink_limit
    copied = contract.copies or contract.deletes != "remove"
    if copied or counts.lost or not takes_too_many(counts.lake_rows, gone, limit):
        return None
    return (
        f"MySQL no longer has {gone} of the mirror's {counts.lake_rows} rows, and shrink_limit "
        f"({limit:.0%}) stops a sweep that would remove so many. If MySQL should hold so few: "
        f"`mirrorlake repair {quote(contract.name)} --deletes --accept-smaller`"
    )


def _is_swept(look: Look) -> bool:
    """Whether the sweep of deletes comes around: a chunk of keys was compared within a day, or the
    table is not a day in the mirror. Without a key a surplus row may as well be a doubled one."""
    contract, ledger = look.contract, look.workspace.ledger
    if not contract.by_keys or contract.repair == "off":
        return False
    since = ledger.clock() - _SWEPT_WITHIN
    newest = max((proof.started_at for proof in ledger.proofs(contract.name)), default=None)
    loads = ledger.successful_loads(contract.name)
    return (newest is not None and newest > since) or (bool(loads) and loads[0].started_at > since)


def _of_count(
    contract: TableContract, lost: int, surplus: int, *, swept: bool
) -> tuple[bool, str | None, dg.AssetCheckSeverity]:
    error, warning = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN
    if lost:
        rows = plural(lost, "row that MySQL has is", "rows that MySQL has are")
        more = f"; {surplus} others are in the mirror alone" if surplus else ""
        return (
            False,
            f"{rows} not in the mirror{more}",
            error,
        )
    if surplus and contract.deletes == "ignore":
        return (
            True,
            f"{plural(surplus, 'row')} deleted in MySQL, and kept in the mirror",
            error,
        )
    if surplus:
        rows = plural(surplus, "row of the mirror is", "rows of the mirror are")
        words = f"{rows} not in MySQL any more: deleted there"
        if swept:
            return True, f"{words}; the sweep looks at each key, and removes them", warning
        # A copy sees deletes: there it is no delete.
        return False, words, error if contract.copies else warning
    return True, None, error


def _partitions(look: Look, counts: Counts, *, swept: bool) -> dict[str, Partition]:
    """Of the days that are reported one by one; all others are as the whole check says: equal."""
    reported = ReportedDays(look.workspace, look.contract, "row_count", look.table.first_partition)
    if not counts.dated:
        return {}
    # A day that failed may have no row any more: then it is equal.
    days = {
        *(date.fromisoformat(day) for day in counts.counted if day != NO_DAY),
        *reported.failed(),
        # Of the others none has a row, but those whose rows are all too new to be counted.
        *(d for d in look.requested_days if not counts.waiting_days.get(str(d))),
    }
    differ = [date.fromisoformat(day) for day in counts.days if day != NO_DAY]
    found: dict[str, Partition] = {}
    for day in map(str, reported.choose(differ, sorted(days), look.days)):
        ours, theirs = counts.counted.get(day, (0, 0))
        lost, surplus = max(0, ours - theirs), max(0, theirs - ours)
        passed, words, severity = _of_count(look.contract, lost, surplus, swept=swept)
        if not ours and not theirs:
            words = "It has no row on either side"
        metadata = {"rows in MySQL": ours, "rows in the mirror": theirs}
        found[day] = Partition(passed, metadata, words, severity)
    reported.record(date.fromisoformat(day) for day, one in found.items() if not one.passed)
    return found


def _table_of(days: DayCounts) -> dg.TableMetadataValue:
    columns = ("day", "rows in MySQL", "rows in the mirror")
    rows = [(day, str(a), str(b)) for day, (a, b) in sorted(days.items())[:_SHOWN]]
    return dg.MetadataValue.table(
        [dg.TableRecord(dict(zip(columns, row, strict=True))) for row in rows],
        dg.TableSchema([dg.TableColumn(name, "string") for name in columns]),
    )


def keys_verdict(look: Look) -> CheckVerdict:
    """Whether every key stands in one row only."""
    contract, lake = look.contract, look.workspace.lake
    table, terms = deduped_table(lake, contract), ", ".join(contract.key)
    if (good := look.good_snapshot("unique_key", terms)) and good == snapshot_of(table):
        return CheckVerdict(True, words="Deduped has not changed since it was last found good")
    twice = duplicate_keys(lake, contract)
    if twice:
        words = f"{plural(twice, 'row of deduped repeats', 'rows of deduped repeat')} a key"
        return CheckVerdict(False, {"rows beyond the first of their key": twice}, words)
    look.found_good("unique_key", terms, table)
    return CheckVerdict(True, {"rows beyond the first of their key": 0})


def originals_verdict(look: Look) -> CheckVerdict:
    """How many values keep their original text, of the run's days or of all."""
    workspace, contract = look.workspace, look.contract
    first, last = look.days or (None, None)
    by_day: dict[date, Counter[str]] = {}
    for table in raw_tables(workspace.lake, workspace.ledger, contract):
        for day, counts in originals_by_day(workspace.lake, table, first, last).items():
            by_day.setdefault(day, Counter()).update(counts)
    columns = sum(by_day.values(), Counter[str]())
    words = ", ".join(f"{name}: {count}" for name, count in sorted(columns.items()))
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
    return CheckVerdict(True, metadata, f"Originals kept in raw ({days}): {words or 'none'}")


def suspects_verdict(look: Look) -> CheckVerdict:
    """Whether clean's new rows hold what looks personal, in columns without a rule."""
    workspace = look.workspace
    seen = find_suspects(workspace.lake, workspace.ledger, look.contract, whole=look.whole)
    metadata = {"rows sampled": seen.rows, **seen.found}
    words = "; ".join(suspect_words(seen.found)) or None
    return CheckVerdict(not seen.found, metadata, words, dg.AssetCheckSeverity.WARN)
