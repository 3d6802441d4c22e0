"""Reports published snapshots to Dagster, however they were loaded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.assets.columns import landed_metadata, layer_columns
from dagster_mirrorlake.landing.events import is_landed_reported, landed_event, partition_key
from dagster_mirrorlake.sensors.reports import Reports
from dagster_mirrorlake.sensors.requests import busy_tables
from dagster_mirrorlake.table import LAYERS, Layer, MirroredTable
from mirrorlake.landing.ledger import LandedSnapshots

if TYPE_CHECKING:
    from mirrorlake.landing.ledger import SnapshotRecord
    from mirrorlake.ledger import Ledger

MOST = 100
"""Snapshots that one look reports: each is an event of three layers."""


def find_published(
    instance: dg.DagsterInstance, lake: Any, ledger: "Ledger", tables: Sequence[MirroredTable]
) -> Reports:
    """The published snapshots whose partitions are not green yet, because no run reported them.

    Dagster's own record says which are: no cursor, no clock. A table that a run is at work on is
    left until it has ended. A snapshot that was published, and that somebody left out for good, is
    a partition no more.
    """
    found, left = Reports(), MOST
    looked = [_look(instance, ledger, table) for table in tables]
    busy = busy_tables(instance, [one.table for one in looked if one.due])
    for one in looked:
        table = one.table
        if one.skipped:
            found.ended[table.dynamic_name] = one.skipped
        chosen = [] if table.contract.name in busy else one.due[:left]
        left -= len(chosen)
        if not chosen:
            continue
        found.opened[table.dynamic_name] = {partition_key(record) for record in chosen}
        for layer in LAYERS:
            unreported = [r for r in chosen if not is_landed_reported(instance, table, layer, r)]
            found.events += _events(lake, ledger, table, layer, unreported)
    return found


@dataclass(frozen=True)
class _Looked:
    """One table: its published snapshots that are not green, by the time of their publication, and
    the partitions of those that are to be left out."""

    table: MirroredTable
    due: "list[SnapshotRecord]"
    skipped: set[str]


def _look(instance: dg.DagsterInstance, ledger: "Ledger", table: MirroredTable) -> _Looked:
    records = LandedSnapshots(ledger).snapshots(table.contract.name)
    known = set(instance.get_dynamic_partitions(table.dynamic_name))
    green = known if records else set[str]()
    for layer in LAYERS if green else ():
        green &= instance.get_materialized_partitions(table.key(layer))
    published = (r for r in records if r.state == "published")
    due = [record for record in published if partition_key(record) not in green]
    skipped = {partition_key(r) for r in records if r.state == "skipped"} & known
    return _Looked(table, sorted(due, key=lambda r: (str(r.published_at), r.id)), skipped)


def _events(
    lake: Any,
    ledger: "Ledger",
    table: MirroredTable,
    layer: Layer,
    records: "Sequence[SnapshotRecord]",
) -> list[dg.AssetMaterialization]:
    """An asset's page shows the columns and the rows of its newest event: the last one has them."""
    from mirrorlake.table.lake_tables import deduped_of

    events = [landed_event(table, layer, record, {}) for record in records[:-1]]
    for record in records[-1:]:
        if layer == "raw":
            shown = landed_metadata(ledger, table)
        else:
            rows = lake.count_rows(deduped_of(table.contract)) or 0
            shown = {"dagster/row_count": rows, **layer_columns(lake, ledger, table, layer)}
        events.append(landed_event(table, layer, record, shown))
    return events
