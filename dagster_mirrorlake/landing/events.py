"""A landed snapshot's partition in Dagster's words: the same from the run that took it and from the
sensor on the ledger.

What reflects the same files (raw), or the same publication (deduped and clean), is not reported a
second time.
"""

from typing import Any

import dagster as dg

from dagster_mirrorlake.table import Layer, MirroredTable
from mirrorlake.landing.ledger import SnapshotRecord

PUBLISHED, DIGEST = "published at", "digest"


def partition_key(record: SnapshotRecord) -> str:
    """The partition of a snapshot."""
    return f"{record.id:014d}"


def landed_files(record: SnapshotRecord) -> dict[str, Any]:
    """What is known of the files of a snapshot."""
    metadata: dict[str, Any] = {
        "files": record.files,
        "bytes": record.bytes,
        DIGEST: record.digest,
        "malformed records left out": record.bad,
        "seen at": record.seen_at.isoformat(),
    }
    if record.rows is not None:
        metadata["dagster/partition_row_count"] = record.rows
    return metadata


def publication(record: SnapshotRecord) -> dict[str, Any]:
    """When a snapshot was published."""
    if record.published_at is None:
        return {}
    waited = record.published_at - record.seen_at
    return {
        PUBLISHED: record.published_at.isoformat(),
        "minutes from arrival to publication": round(waited.total_seconds() / 60, 2),
    }


def landed_event(
    table: MirroredTable, layer: Layer, record: SnapshotRecord, metadata: dict[str, Any]
) -> dg.AssetMaterialization:
    """A snapshot as one partition of one layer."""
    own = landed_files(record) if layer == "raw" else publication(record)
    return dg.AssetMaterialization(
        table.key(layer), partition=partition_key(record), metadata={**own, **metadata}
    )


def is_landed_reported(
    instance: dg.DagsterInstance, table: MirroredTable, layer: Layer, record: SnapshotRecord
) -> bool:
    """Whether the newest materialisation of a snapshot's partition is of it as it is now."""
    chosen = dg.AssetRecordsFilter(
        asset_key=table.key(layer), asset_partitions=[partition_key(record)]
    )
    found = instance.fetch_materializations(chosen, limit=1).records
    event = found[0].asset_materialization if found else None
    if event is None:
        return False
    name, value = (
        (DIGEST, record.digest)
        if layer == "raw"
        else (PUBLISHED, publication(record).get(PUBLISHED))
    )
    said = event.metadata.get(name)
    return said is not None and said.value == value
