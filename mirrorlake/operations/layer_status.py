"""What `mirrorlake status` says of landed snapshots: what is proved, as of when, what has come
since, and what somebody should look at. From the ledger alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirrorlake.ledger import LayerProof, Ledger, Notice, SnapshotRecord
from mirrorlake.proof.coverage import ProofStatus

_SHOWN = 3
"""Of so many snapshots that wait for a decision it is said why."""
_OPEN: Mapping[str, str] = {
    "refused": "refused",
    "landed": "landed, and not published",
    "arriving": "not taken",
    "published": "published, and its files are others now",
    "withdrawn": "published before, and not in what readers see",
}


def open_words(records: Sequence[SnapshotRecord], notices: Mapping[int, Notice]) -> str | None:
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


def newest_proof(ledger: Ledger, table: str, layer: str) -> LayerProof | None:
    """The newest verdict on a layer; None where it was never compared."""
    return next((p for p in ledger.layer_proofs(table) if p.layer == layer), None)


def snapshots_proved(
    proof: LayerProof | None, published: Sequence[SnapshotRecord]
) -> ProofStatus | None:
    """What the newest check found equal to the files that landed, and how many snapshots were
    published since; None where it found nothing equal."""
    if proof is None or proof.verdict != "equal":
        return None
    number = int(proof.snapshots.removeprefix("snapshot ").partition(",")[0])
    since = sum(1 for one in published if one.number is not None and one.number > number)
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
    number = proof.snapshots.removeprefix("snapshot ").partition(",")[0]
    at = f"{proof.started_at:%Y-%m-%d %H:%M}"
    return f"folded, newest check {proof.verdict}{words} of snapshot {number}, as of {at}"
