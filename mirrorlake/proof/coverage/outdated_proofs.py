"""Proofs that say nothing any more of the table as it is: something changed since that no proof
could see."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from mirrorlake.ledger import Ledger
from mirrorlake.ledger.proofs.proof_records import Proof
from mirrorlake.proof.coverage.covered import current_proofs


@dataclass(frozen=True)
class AgedProof(Proof):
    """A proof, and whether it still stands.

    Attributes:
        check_id: the check; its ranges share it.
        table: ``source.db.table``.
        asked: ``full``, ``next``, ``partition``, ``keys`` or ``where``.
        lo: the range's first key, or null: from the lowest.
        hi: the first key after it, or null: to the highest; with `` included`` at its end, the last
            key of it.
        verdict: ``equal``, ``different`` or ``undecided``.
        source_rows: rows in MySQL.
        lake_rows: rows in the lake.
        source_digest: the sum of the rows' digests in MySQL: the hash (``sha256``; old proofs name
            none), a colon, hexadecimal digits.
        lake_digest: the same of the lake.
        waiting: in the whole check: rows too new to be compared.
        differences: in the whole check: rows (or groups not looked at) that differ; if it was
            undecided, rows that were not compared or could not be decided.
        server: the MySQL server's identity.
        position: its GTID position just before the first read.
        source_time: its clock then, UTC.
        snapshot_id: the version of deduped that was read (Iceberg's snapshot id).
        through_seq: the number of the newest load in it.
        code: Mirrorlake's version, and a hash of the code that compared.
        started_at: when the check began, UTC.
        seconds: how long the whole check took.
        source_bytes: what MySQL sent for it.
        evidence: the path of its evidence file.
        day: the day of a ``partition`` check, or null.
        days_from, days_before: every row of the range in the days [``days_from``, ``days_before``)
            was old enough to be compared; ``days_from`` null: from the earliest day on;
            ``days_before`` null: no day, or unknown.
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
