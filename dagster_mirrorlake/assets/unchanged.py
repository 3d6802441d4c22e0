"""What is reported to Dagster of a table that was found unchanged, and not read: by its own daily
run, or by a `mirrorlake sync`."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

import dagster as dg

from dagster_mirrorlake.assets.reported import partition_event
from dagster_mirrorlake.table import LAYERS, Layer, MirroredTable
from mirrorlake.ledger import Ledger, Load
from mirrorlake.operations.loading.results import SyncResult

_EVIDENCE = {
    "server": "its server's log stands where it stood",
    "table": "the time of its last change is the same",
    "digest": "MySQL's digest of its rows is the copy's",
    "log": "its server's binary log has no change of it",
}


def unchanged_layers(
    ledger: Ledger, table: MirroredTable, found: SyncResult
) -> Iterator[dg.AssetMaterialization]:
    """One materialisation of each layer, of the day on which the newest copy was made: that is what
    the lake holds, as new as MySQL. The requested day has no copy, and stays as it is.
    """
    load = ledger.newest_attempts([table.contract.name]).get(table.contract.name)
    if load is None or load.load_id != found.load_id:
        return  # loaded by another run since it was found unchanged: that run reports it
    rows = load.receipt.rows if load.receipt else 0
    for layer in LAYERS:
        counted = {} if layer == "raw" else {"dagster/row_count": rows}
        yield _event(table, layer, load, str(found.unchanged), str(found.moment), counted)


def confirmed_clean(
    instance: dg.DagsterInstance,
    ledger: Ledger,
    tables: Sequence[MirroredTable],
    before: Mapping[str, str],
    now: datetime,
) -> Iterator[tuple[str, str, dg.AssetMaterialization]]:
    """The tables that a sync found unchanged since their newest load: name, until when (ISO), and a
    materialisation of clean, by which Dagster sees it fresh.

    One for each table in a quarter of the time after which it counts as late, and none for what was
    seen longer ago than that: a materialisation is dated now.

    Args:
        before: by table, until when it was reported.
    """
    late = {
        table.contract.name: (fresh.warn_after or fresh.fail_after) / 4
        for table in tables
        if (fresh := table.contract.freshness) is not None
    }
    stamps = {
        name: stamp
        for name, stamp in ledger.stamps(list(late)).items()
        if stamp.evidence is not None
        and now - stamp.seen_at < late[name]
        and stamp.seen_at - _moment(before.get(name)) >= late[name]
    }
    newest = ledger.newest_attempts(list(stamps)) if stamps else {}
    for table in (table for table in tables if table.contract.name in stamps):
        name = table.contract.name
        stamp, load = stamps[name], newest.get(name)
        if load is None or load.seq != stamp.seq:
            continue
        last = instance.get_latest_materialization_event(table.key("clean"))
        if last is not None and last.timestamp >= stamp.seen_at.timestamp():
            continue  # a run reported it, or a load
        moment = stamp.seen_at.replace(tzinfo=None).isoformat(" ")
        event = _event(table, "clean", load, str(stamp.evidence), moment, {})
        yield name, stamp.seen_at.isoformat(), event


def _moment(text: str | None) -> datetime:
    return datetime.fromisoformat(text) if text else datetime.min.replace(tzinfo=UTC)


def _event(
    table: MirroredTable,
    layer: Layer,
    load: Load,
    evidence: str,
    moment: str,
    metadata: Mapping[str, int],
) -> dg.AssetMaterialization:
    """Of the day on which the newest load was made: that is what the lake holds."""
    shown = {
        "unchanged": _EVIDENCE[evidence],
        "evidence": evidence,
        "as of": f"{moment} UTC",
        "load id": load.load_id,
        **metadata,
    }
    return partition_event(table, layer, table.partition_of(load.window.day), shown, load.seq)
