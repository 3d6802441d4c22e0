"""Snapshots that the ledger says are published, reported to Dagster, whoever took them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.assets.columns import landed_metadata, layer_columns
from dagster_mirrorlake.assets.landed_events import (
    is_landed_reported,
    landed_event,
    partition_key,
)
from dagster_mirrorlake.sensors.requests import busy_tables
from dagster_mirrorlake.table import LAYERS, Layer, MirroredTable

if TYPE_CHECKING:
    from mirrorlake.ledger import Ledger, SnapshotRecord

MOST = 100
"""Snapshots that one look reports: each is an event of three layers."""


@dataclass
class Published:
    """What is to be reported of the tables whose snapshots land.

    Attributes:
        events: the oldest publication first.
        opened, ended: by the name of dynamic partitions: keys to add and to remove.
        through: by table, how far reports have come.
    """

    events: list[dg.AssetMaterialization] = field(default_factory=list[dg.AssetMaterialization])
    opened: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    ended: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    through: dict[str, str] = field(default_factory=dict[str, str])


def find_published(
    instance: dg.DagsterInstance,
    lake: Any,
    ledger: "Ledger",
    tables: Sequence[MirroredTable],
    before: Mapping[str, str],
) -> Published:
    """The snapshots that were published since the last look, and are not reported by their run.

    A table that a run is at work on is left until it has ended. A snapshot that was published, and
    that somebody left out for good, is a partition no more.
    """
    found, left = Published(), MOST
    records = {table.contract.name: ledger.snapshots(table.contract.name) for table in tables}
    known = {t.contract.name: set(instance.get_dynamic_partitions(t.dynamic_name)) for t in tables}
    due = {n: _due(records[n], before.get(n, ""), known[n]) for n in records}
    busy = busy_tables(instance, [t for t in tables if due[t.contract.name]])
    for table in tables:
        name = table.contract.name
        found.through[name] = before.get(name, "")
        gone = {partition_key(r) for r in records[name] if r.state == "skipped"} & known[name]
        if gone:
            found.ended[table.dynamic_name] = gone
        chosen = [] if name in busy else due[name][:left]
        left -= len(chosen)
        if not chosen:
            continue
        found.through[name] = max(found.through[name], _mark(chosen[-1]))
        found.opened[table.dynamic_name] = {partition_key(record) for record in chosen}
        for layer in LAYERS:
            unreported = [r for r in chosen if not is_landed_reported(instance, table, layer, r)]
            found.events += _events(lake, ledger, table, layer, unreported)
    return found


def _due(
    records: "Sequence[SnapshotRecord]", mark: str, known: Collection[str]
) -> "list[SnapshotRecord]":
    """What was published after a mark, in that order; and what is no partition, as it was left out
    for good, and was taken again. A snapshot keeps the time of its first publication."""
    published = (r for r in records if r.state == "published" and r.published_at is not None)
    chosen = (r for r in published if _mark(r) > mark or partition_key(r) not in known)
    return sorted(chosen, key=_mark)


def _mark(record: "SnapshotRecord") -> str:
    """When a snapshot was published, and its id: several may be published at once."""
    at = record.published_at
    return f"{at:%Y-%m-%dT%H:%M:%S.%f} {record.id:014d}" if at is not None else ""


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
