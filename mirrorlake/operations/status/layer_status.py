"""What `mirrorlake status` says of a layer that was compared: what is proved, as of when, and what
has come since. From the ledger alone."""

from __future__ import annotations

from mirrorlake.ledger import LayerProof, Ledger


def newest_proof(ledger: Ledger, table: str, layer: str) -> LayerProof | None:
    """The newest verdict on a layer; None where it was never compared."""
    return next((p for p in ledger.layer_proofs(table) if p.layer == layer), None)
