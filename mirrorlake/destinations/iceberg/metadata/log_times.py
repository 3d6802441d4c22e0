"""The times in a table's logs, where a clock was ahead."""

from __future__ import annotations

from itertools import accumulate

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import MetadataLogEntry, SnapshotLogEntry


def in_order(metadata: TableMetadata) -> TableMetadata:
    """Metadata whose times go up to the newest one's: those of a clock that was ahead are taken
    back to it.

    Iceberg's Java library reads no table whose log goes back by more than a minute, and writes none
    whose log is that much ahead of its own clock.

    Source: Iceberg 1.10, `TableMetadata`: "Expected sorted previous metadata log entries", "Invalid
    update timestamp".
    """
    earlier: dict[str, object] = {}
    for name in ("metadata_log", "snapshot_log"):
        log: list[MetadataLogEntry | SnapshotLogEntry] = getattr(metadata, name)
        backwards = (entry.timestamp_ms for entry in reversed(log))
        times = [*accumulate(backwards, min, initial=metadata.last_updated_ms)][:0:-1]
        if any(entry.timestamp_ms > at for entry, at in zip(log, times, strict=True)):
            earlier[name] = [
                entry.model_copy(update={"timestamp_ms": at})
                for entry, at in zip(log, times, strict=True)
            ]
    return metadata.model_copy(update=earlier) if earlier else metadata
