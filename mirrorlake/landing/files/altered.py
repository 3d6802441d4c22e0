"""Snapshots that were published, and whose files are others by now: an id is one content for good.

Files are read only where their sizes or times are not those that were taken. What was copied again
with the same content is no finding; neither are files that went away, which are their owner's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from mirrorlake.landing.files.snapshots import Chunk, Landed
from mirrorlake.landing.ledger import LandedSnapshots, SnapshotRecord
from mirrorlake.landing.notices import Notice, SnapshotNotices
from mirrorlake.ledger import Ledger
from mirrorlake.sources.files.store import Store

_BLOCK = 1 << 20


def find_altered(
    store: Store,
    ledger: Ledger,
    taken: Mapping[int, SnapshotRecord],
    there: Mapping[int, Landed],
    notices: Mapping[int, Notice],
) -> dict[int, tuple[str, str]]:
    """The snapshots whose files are not those that were taken: id → (fingerprint, reason).

    Args:
        taken: published snapshots by id.
        there: what stands of each in the landing now.
        notices: what is known to be wrong with them.

    Raises:
        LandingError: a file can't be read.
    """
    found: dict[int, tuple[str, str]] = {}
    for number, record in taken.items():
        landed = there.get(number)
        if landed is None or not landed.chunks:
            continue
        known = notices.get(number)
        same = landed.fingerprint == record.fingerprint
        if not same and known is not None and known.about == landed.fingerprint:
            found[number] = (known.about, known.text)  # these very files were compared before
            continue
        why = "" if same else _compare(store, ledger, record, landed)
        if why:
            found[number] = (landed.fingerprint, why)
        elif known is not None:
            SnapshotNotices(ledger).drop_notices(record.table, [number])
    return found


def _compare(store: Store, ledger: Ledger, record: SnapshotRecord, landed: Landed) -> str:
    """What is wrong with a snapshot's files, '' where they have the content that was taken."""
    files = {
        file.path: file for file in LandedSnapshots(ledger).landed_files(record.table, record.id)
    }
    if not files:
        return ""  # they left the landing by ``keep_landed``: what stands there is somebody else's
    name = f"snapshot {record.id:014d}"
    extra = [chunk.path for chunk in landed.chunks if chunk.path not in files]
    if extra:
        return (
            f"{name} has {len(landed.chunks)} files, and was taken with {len(files)}: what came "
            "later is not taken"
        )
    copied: dict[str, str] = {}
    for chunk in landed.chunks:
        file = files[chunk.path]
        if chunk.entry.version != file.version:
            if digest_of(store, chunk) != file.digest:
                return (
                    f"{name} has another content than when it was taken: "
                    f"{store.describe(chunk.path)} was written again. Readers see the first "
                    "content. Land what is new under a new id"
                )
            copied[chunk.path] = chunk.entry.version
    if copied and len(landed.chunks) == len(files):
        SnapshotNotices(ledger).refresh_files(record.table, record.id, landed.fingerprint, copied)
    return ""


def digest_of(store: Store, chunk: Chunk) -> str:
    """A file's digest: the store's own where it keeps one, else of its bytes."""
    if chunk.entry.digest:
        return chunk.entry.digest
    found = hashlib.sha256()
    with store.open(chunk.path, chunk.entry.version) as stream:
        while block := stream.read(_BLOCK):
            found.update(block)
    return f"sha256:{found.hexdigest()}"
