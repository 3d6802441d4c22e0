"""What checks found not equal, and none has found equal since: of all tables at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mirrorlake.ledger import Ledger
from mirrorlake.ledger.proofs.proof_records import Proof
from mirrorlake.proof.coverage.covered import open_proofs
from mirrorlake.runtime.plural import plural


@dataclass(frozen=True)
class OpenCheck:
    """The newest of a table's checks that stand open; of those that found a difference, if any did.

    Attributes:
        verdict: ``different`` or ``undecided``.
        rows: how many rows differed then, or were not decided.
        at: when it began (UTC).
    """

    verdict: str
    rows: int
    at: datetime

    @property
    def words(self) -> str:
        """What it found, for people."""
        return f"{self.verdict} as of {self.at:%Y-%m-%d %H:%M}: {plural(self.rows, 'row')}"


def find_open_checks(ledger: Ledger) -> dict[str, OpenCheck]:
    """The tables with such a check.

    Raises:
        LedgerError: the ledger can't be read.
    """
    found = {table: open_check_of(ledger, table) for table in ledger.not_equal_tables()}
    return {table: check for table, check in found.items() if check is not None}


def open_check_of(ledger: Ledger, table: str) -> OpenCheck | None:
    """The same of one table. A check of other rows, however equal, closes none.

    Raises:
        LedgerError: the ledger can't be read.
    """
    proofs = open_proofs(ledger.newest_proofs(table))
    if any(proof.asked == "where" for proof in proofs):
        proofs = _not_repaired(ledger, table, proofs)
    gravest = [p for p in proofs if p.verdict == "different"] or proofs
    if not gravest:
        return None
    newest = gravest[0]
    return OpenCheck(newest.verdict, newest.differences, newest.started_at)


def _not_repaired(ledger: Ledger, table: str, proofs: list[Proof]) -> list[Proof]:
    """These without those of conditions whose very rows a repair found, and ended equal."""
    good = {
        path for one in ledger.repairs(table) if one.outcome == "equal" for path in one.evidence
    }
    repaired = {
        _sides(p) for p in ledger.proofs(table) if p.asked == "where" and p.evidence in good
    }
    return [p for p in proofs if p.asked != "where" or _sides(p) not in repaired]


def _sides(proof: Proof) -> tuple[object, ...]:
    return proof.source_rows, proof.source_digest, proof.lake_rows, proof.lake_digest
