"""What `mirrorlake status` says of a layer that was compared: what is proved, as of when, and what
has come since. From the ledger alone."""

from __future__ import annotations

from mirrorlake.ledger import LayerProof, Ledger
from mirrorlake.proof.coverage import ProofStatus


def newest_proof(ledger: Ledger, table: str, layer: str) -> LayerProof | None:
    """The newest verdict on a layer; None where it was never compared."""
    return next((p for p in ledger.layer_proofs(table) if p.layer == layer), None)


def publication_proved(ledger: Ledger, table: str) -> ProofStatus | None:
    """What the newest check found BigQuery to have as the lake has it, and how many loads came
    since; None where it found nothing equal."""
    proof = newest_proof(ledger, table, "bigquery")
    if proof is None or proof.verdict != "equal":
        return None
    loads = (one for one in ledger.publications(table) if one.state == "success")
    since = sum(1 for one in loads if one.submitted_at.timestamp() > proof.started_at.timestamp())
    at = proof.started_at.isoformat(timespec="seconds")
    return ProofStatus(at, proof.rows, whole=True, loads_since=since)
