"""What `mirrorlake status` says of a table that is kept by snapshots: its newest snapshot, what is
proved of its rows, and what somebody should look at. From the ledger alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from mirrorlake.config import TableContract
from mirrorlake.landing.ledger import LandedSnapshots, SnapshotRecord
from mirrorlake.landing.notices import Notice, SnapshotNotices
from mirrorlake.ledger import LayerProof, Ledger
from mirrorlake.operations.status.copies import RecordedCopy
from mirrorlake.operations.status.known_of_all import KnownOfAll
from mirrorlake.operations.status.layer_status import newest_proof
from mirrorlake.operations.status.table_status import NOT_KNOWN, TableStatus
from mirrorlake.proof.coverage.coverage import ProofStatus

_READ = re.compile(r"snapshot (\d+)(?: and (\d+) more)?")
_SHOWN = 3
"""At most this many snapshots that wait for a decision are shown with the reason."""
_OPEN: Mapping[str, str] = {
    "refused": "refused",
    "landed": "landed, and not published",
    "arriving": "not taken",
    "published": "published, and its files are others now",
    "withdrawn": "published before, and not in what readers see",
}


def landed_status(known: KnownOfAll, contract: TableContract) -> TableStatus:
    """A table of mode ``snapshot``: its newest snapshot, and the newest verdict on its rows."""
    ledger, moved = known.ledger, known.moved_words(contract.name)
    records = LandedSnapshots(ledger).snapshots(contract.name)
    newest = records[-1] if records else None
    times = [r.published_at for r in records if r.published_at is not None]
    rows, damage = known.rows_of(contract) if times else (None, None)
    published = [r for r in records if r.state == "published" and r.number is not None]
    proof = newest_proof(ledger, contract.name, "deduped") if published and not damage else None
    proved = None if moved else snapshots_proved(proof, published)
    state = newest.state if newest else "never loaded"
    return TableStatus(
        table=contract.name,
        mode=contract.mode,
        state="moved" if moved else state,
        last_load=max(times).isoformat(timespec="seconds") if times else None,
        rows=rows,
        freshness=ledger.clock() - max(times) if times and not moved else None,
        checks=damage or (NOT_KNOWN if moved else snapshot_checks(proof, proved, bool(published))),
        proved=proved,
        error=moved or _open_words(records, SnapshotNotices(ledger).notices(contract.name)),
        originals={},
    )


def landed_copies(ledger: Ledger, since: datetime) -> Mapping[str, Sequence[RecordedCopy]]:
    """What became of snapshots since a moment, by table."""
    found: dict[str, list[RecordedCopy]] = {}
    for one in LandedSnapshots(ledger).changed_since(since):
        copy = RecordedCopy(
            name=f"{one.id:014d}",
            at=one.published_at or one.changed_at,
            state=one.state,
            failed=one.state == "refused",
            shown=one.state == "published",
            rows=one.rows,
            bytes=one.bytes,
            words=one.error or "",
        )
        found.setdefault(one.table, []).append(copy)
    return {name: sorted(copies, key=lambda one: one.at) for name, copies in found.items()}


def _open_words(records: Sequence[SnapshotRecord], notices: Mapping[int, Notice]) -> str | None:
    """The snapshots that somebody should look at, newest first, each with its id and why."""
    found: list[str] = []
    for record in (one for one in reversed(records) if one.state != "skipped"):
        notice = notices.get(record.id)
        told = notice.text if notice is not None and not notice.acknowledged_at else None
        why = record.error if record.state == "refused" else told
        if why is not None or record.state == "withdrawn":
            words = f"snapshot {record.id:014d} is {_OPEN.get(record.state, record.state)}"
            found.append(f"{words}: {why}" if why else words)
    more = [f"and {len(found) - _SHOWN:,} more"] if len(found) > _SHOWN else []
    return "; ".join([*found[:_SHOWN], *more]) or None


def snapshots_proved(
    proof: LayerProof | None, published: Sequence[SnapshotRecord]
) -> ProofStatus | None:
    """What the newest check found equal to the files that landed, and how many snapshots were
    published since; None where it found nothing equal, or where readers see others of the snapshots
    that it read: of such a version nothing was compared."""
    if proof is None or proof.verdict != "equal":
        return None
    number, read = _read_by(proof)
    since = sum(
        1
        for one in published
        if (one.number or 0) > number
        or (one.published_at is not None and one.published_at > proof.started_at)
    )
    if read is not None and len(published) != read + since:
        return None
    at = proof.started_at.isoformat(timespec="seconds")
    return ProofStatus(at, proof.rows, whole=True, loads_since=since, unit="snapshot")


def snapshot_checks(proof: LayerProof | None, proved: ProofStatus | None, published: bool) -> str:
    """What the newest check of a landed table's rows found, in words."""
    if not published:
        return "-"
    if proof is None:
        return "folded, not yet checked"
    if proved is not None:
        return f"folded, {proved.words}"
    words = f" ({proof.words})" if proof.words else ""
    number, _ = _read_by(proof)
    at = f"{proof.started_at:%Y-%m-%d %H:%M}"
    other = ", and readers see other snapshots now" if proof.verdict == "equal" else ""
    return f"folded, newest check {proof.verdict}{words} of snapshot {number}, as of {at}{other}"


def _read_by(proof: LayerProof) -> tuple[int, int | None]:
    """The newest snapshot that a check read, and how many it read; None where it did not say."""
    found = _READ.match(proof.snapshots)
    if found is None:
        raise ValueError(f"the check {proof.check_id} names no snapshot: {proof.snapshots!r}")
    return int(found[1]), None if found[2] is None else int(found[2]) + 1
