"""What Dagster does not have any more, though the lake has it: partitions of an asset that was
wiped in the UI, or that an older copy of Dagster's storage lacks; keys of copies that were deleted.

Each look compares a few tables, in turn, with what the ledger and the lake hold; what is missing is
reported again. What belongs here: finding it. What doesn't: what is new
(`mirrorlake.operations.days.day_reports`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.sensors.requests import busy_tables
from dagster_mirrorlake.table import LAYERS, MirroredTable, layer_named
from mirrorlake.config.partitions import day_of

if TYPE_CHECKING:
    from mirrorlake.operations.days.day_reports import DayReport, ReportCursor

_GLANCED = 20
"""Tables of which a look sees whether an asset has no materialisation at all: that costs little."""
COMPARED_EVERY = 6
"""Looks between two in which a table is compared partition by partition."""
MOST = 1500
"""Partitions that are reported again in one look."""


@dataclass
class Forgotten:
    """What one look found.

    Attributes:
        due: partitions that are in the lake and not in Dagster, in their order.
        left: the tables of which there is more.
        opened: by name, keys of copies' partitions to be added.
    """

    due: "list[tuple[MirroredTable, DayReport]]" = field(
        default_factory=list["tuple[MirroredTable, DayReport]"]
    )
    left: list[str] = field(default_factory=list[str])
    opened: dict[str, set[str]] = field(default_factory=dict[str, set[str]])


def find_forgotten(
    instance: dg.DagsterInstance,
    lake: Any,
    ledger: Any,
    tables: Sequence[MirroredTable],
    reported: "ReportCursor",
    number: int,
    left: Sequence[str],
    today: date,
) -> Forgotten:
    """Compare any of the next twenty tables that has an asset without a materialisation; and in
    every sixth look the next one, whatever it has. Of tables whose history is reported.

    Args:
        reported: whose history that is.
        number: of the look; each has other tables.
        left: tables that the last look was not done with.
    """
    from mirrorlake.errors import LakeError
    from mirrorlake.operations.days.day_reports import held_reports, is_imported

    known = [table for table in tables if is_imported(table.contract, reported)]
    found = Forgotten()
    if not known:
        return found
    start = number * _GLANCED % len(known)
    glanced = [*known[start:], *known[:start]][:_GLANCED]
    chosen = {*left, *_empty(instance, glanced)}
    if number % COMPARED_EVERY == 0:
        chosen.add(known[number // COMPARED_EVERY % len(known)].contract.name)
    some = [table for table in known if table.contract.name in chosen]
    busy = busy_tables(instance, some)
    for table in (table for table in some if table.contract.name not in busy):
        try:
            reports = held_reports(lake, ledger, table.contract, today)
        except LakeError:
            continue  # what reports what is new says so
        _compare(instance, table, reports, found)
    return found


def _empty(instance: dg.DagsterInstance, tables: Sequence[MirroredTable]) -> set[str]:
    """The tables of which an asset has no materialisation."""
    names = {table.key(layer): table.contract.name for table in tables for layer in LAYERS}
    return {names[key] for key in assets_without_record(instance, list(names))}


def assets_without_record(
    instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey]
) -> set[dg.AssetKey]:
    """Those of these assets of which Dagster has no materialisation."""
    records = instance.get_asset_records(keys) if keys else ()
    there = {r.asset_entry.asset_key for r in records if r.asset_entry.last_materialization_record}
    return set(keys) - there


def _compare(
    instance: dg.DagsterInstance,
    table: MirroredTable,
    reports: "Sequence[DayReport]",
    found: Forgotten,
) -> None:
    green = {n: instance.get_materialized_partitions(table.key(n)) for n in LAYERS}
    first = table.first_partition or date.min
    missing = [
        report
        for report in reports
        if day_of(report.partition) >= first
        and table.partition_of(report.partition) not in green[layer_named(report.layer)]
    ]
    room = max(0, MOST - len(found.due))
    if len(missing) > room:
        found.left.append(table.contract.name)
    found.due += [(table, report) for report in missing[len(missing) - min(room, len(missing)) :]]
    if table.contract.copies:
        name = table.dynamic_name
        held = {table.partition_of(report.partition) for report in reports}
        if gone := held - set(instance.get_dynamic_partitions(name)):
            found.opened[name] = gone
