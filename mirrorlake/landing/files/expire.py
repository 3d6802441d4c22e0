"""Files of snapshots that were published long ago leave the landing, where a contract says so.

Only files that are still those which were taken, and never those of the newest published snapshot.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from mirrorlake.failpoints import failpoint
from mirrorlake.landing.files.listing import Place
from mirrorlake.landing.ledger import LandedSnapshots, SnapshotRecord
from mirrorlake.ledger import Ledger
from mirrorlake.sources.files.layout import time_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Expired:
    """What left a landing: snapshots, and their files with their bytes; and what is kept."""

    snapshots: int
    files: int
    bytes: int
    kept_files: int
    kept_bytes: int
    kept: int


def expire_landed(place: Place, ledger: Ledger) -> Expired:
    """Remove the files of snapshots that were published longer ago than ``keep_landed``.

    The caller holds the table's lease. Killed, it continues with the next call.

    Raises:
        LandingError: a file can't be looked at or removed.
    """
    table, keep = place.contract.name, place.settings.keep_landed
    files = LandedSnapshots(ledger).files_by_snapshot(table)
    there = [
        r
        for r in LandedSnapshots(ledger).snapshots(table)
        if r.state == "published" and files.get(r.id)
    ]
    if keep is None:
        return _summary([], there)
    now = ledger.clock()
    newest = max((record.id for record in there), default=0)
    old = [
        record
        for record in there
        if record.id != newest and record.published_at and now - record.published_at > keep
    ]
    for record in old:
        _remove(place, ledger, record)
    gone = {record.id for record in old}
    return _summary(old, [record for record in there if record.id not in gone])


def _remove(place: Place, ledger: Ledger, record: SnapshotRecord) -> None:
    when = time_of(record.id)
    if when is None:
        return
    folder, names = place.folder.day_path(when.date()), place.folder
    # What says that it is complete goes first: the rest is then never taken for a whole one.
    for name in (names.manifest_name(record.id), names.marker_name(record.id)):
        place.store.remove(f"{folder}/{name}")
    for file in LandedSnapshots(ledger).landed_files(place.contract.name, record.id):
        found = place.store.entry(file.path)
        if found is not None and found.version == file.version:
            place.store.remove(file.path)
            failpoint("landing.removed")
    LandedSnapshots(ledger).forget_files(place.contract.name, record.id)
    words = "table %s snapshot %014d: its files left the landing"
    logger.info(words, place.contract.name, record.id)


def _summary(gone: list[SnapshotRecord], kept: list[SnapshotRecord]) -> Expired:
    return Expired(
        snapshots=len(gone),
        files=sum(record.files for record in gone),
        bytes=sum(record.bytes for record in gone),
        kept_files=sum(record.files for record in kept),
        kept_bytes=sum(record.bytes for record in kept),
        kept=len(kept),
    )
