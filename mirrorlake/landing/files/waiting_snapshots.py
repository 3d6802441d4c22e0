"""Snapshots that wait: for what each waits, and which have waited for too long. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

from mirrorlake.config.fields import format_duration
from mirrorlake.config.landing import SnapshotConfig
from mirrorlake.landing.files.snapshots import Landed
from mirrorlake.landing.ledger import SnapshotRecord
from mirrorlake.landing.notices import Notice
from mirrorlake.sources.files.layout import TableFolder


@dataclass(frozen=True)
class ArrivingSnapshot:
    """A snapshot that is not complete yet.

    Attributes:
        reason: what it waits for, as the end of a sentence that begins with "waits for".
        files, bytes: what is there of it.
        seen_at: when its first file was seen (UTC).
    """

    id: int
    reason: str
    files: int
    bytes: int
    seen_at: datetime


def waiting_of(
    folder: TableFolder, settings: SnapshotConfig, landed: Landed, seen: SnapshotRecord
) -> ArrivingSnapshot:
    """What a snapshot that is not complete waits for."""
    if settings.complete == "manifest":
        reason = f"its manifest {folder.manifest_name(landed.id)}"
    elif settings.complete == "marker":
        reason = f"its marker {folder.marker_name(landed.id)}"
    elif not landed.chunks:
        reason = "its first file"
    elif landed.unfinished:
        reason = "its writer"
    else:
        reason = f"its files to stay unchanged for {format_duration(settings.settle)}"
    if landed.unfinished:
        reason += "; a file with a name like .tmp or .part says that somebody still writes"
    return ArrivingSnapshot(landed.id, reason, len(landed.chunks), landed.bytes, seen.seen_at)


def find_overdue(
    records: Iterable[SnapshotRecord],
    notices: Mapping[int, Notice],
    limit: timedelta,
    now: datetime,
    waits: Mapping[int, str] = MappingProxyType({}),
) -> dict[int, str]:
    """The snapshots that somebody should look at, by id, with what is the matter.

    Those that wait for longer than ``limit``, complete or not; those that are refused or withdrawn,
    and published ones whose files changed, until somebody acknowledges it.

    Args:
        waits: for what those wait that are not complete, where the landing was looked at.
    """
    found: dict[int, str] = {}
    for record in sorted(records, key=lambda r: r.id):
        notice = notices.get(record.id)
        late = now - record.seen_at > limit
        if record.state == "refused":
            found[record.id] = "refused"
        elif record.state == "withdrawn":
            found[record.id] = "published before, and not in what readers see"
        elif record.state == "published" and notice is not None and not notice.acknowledged_at:
            found[record.id] = "its files changed after it was published"
        elif record.state == "landed" and late:
            found[record.id] = "landed, and not published"
        elif record.state == "arriving" and late:
            reason = waits.get(record.id)
            found[record.id] = f"waits for {reason}" if reason else "not taken yet"
    return found
