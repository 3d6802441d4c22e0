"""Proofs that say nothing any more of the table as it is: something changed since that no proof
could see."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from mirrorlake.ledger import Ledger
from mirrorlake.ledger.proof_records import Proof
from mirrorlake.proof.covered import current_proofs


@dataclass(frozen=True)
class AgedProof(Proof):
    """A proof, and whether it still stands.

    Attributes:
        stale: why not: the table was marked unproved after the check began (a DDL that changes
            values, another server). None where it stands.
    """

    stale: str | None = None


def aged_proofs(ledger: Ledger, table: str, *, everything: bool = False) -> list[AgedProof]:
    """The proofs that newer ones do not cover (`current_proofs`), or every one; oldest first."""
    found = ledger.proofs(table)
    if not everything:
        found = current_proofs(found)
    mark = ledger.newest_mark(table)
    return [
        AgedProof(**asdict(p), stale=mark[1] if mark and p.started_at <= mark[0] else None)
        for p in found
    ]
