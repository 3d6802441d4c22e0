"""How much of a table is proved: by its newest checks, and by the chunks of the newest round."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from mirrorlake.ledger import Ledger
from mirrorlake.ledger.proofs.proof_records import Proof
from mirrorlake.proof.coverage.covered import BY_KEYS, is_covered, newest_of
from mirrorlake.runtime.plural import plural


@dataclass(frozen=True)
class Standing:
    """What the newest checks of a table found equal to MySQL, whatever requested them.

    Attributes:
        as_of: the time (MySQL's, UTC) at which the oldest of them looked: what they proved is
            proved as of then.
        rows: of the mirror, that they found equal; those too new to be compared are not among them.
        waiting: how many were too new.
        whole: whether they hold every key.
        through: the newest load that each of them saw; later ones have come since.
    """

    as_of: datetime
    rows: int
    waiting: int
    whole: bool
    through: int


def _standing_of(proofs: Iterable[Proof], marked: datetime | None = None) -> Standing | None:
    """What a table's proofs, the newest first, say of it now; None where they prove nothing.

    Args:
        marked: when the table was last marked unproved (UTC): older proofs say nothing.
    """
    newest = newest_of(p for p in proofs if marked is None or p.started_at > marked)
    equal = [proof for proof in newest.by_keys if proof.verdict == "equal"]
    if not equal:
        return None
    wrong = any(proof.verdict == "different" for proof in newest.others)
    return Standing(
        as_of=min(proof.source_time for proof in equal),
        rows=sum(proof.lake_rows for proof in equal),
        waiting=sum({proof.check_id: proof.waiting for proof in equal}.values()),
        whole=newest.whole and len(equal) == len(newest.by_keys) and not wrong,
        through=min(proof.through_seq for proof in equal),
    )


@dataclass(frozen=True)
class ProofStatus:
    """What is proved of a table, as of when, and what has come since.

    Attributes:
        as_of: (MySQL's time, UTC, ISO) what is proved was equal then.
        rows: how many rows of the mirror that is.
        whole: whether it is all of them that were old enough to be compared.
        loads_since: how many loads brought rows since.
        unit: what ``loads_since`` counts: loads, or what stands for them.
        waiting: how many rows were too new to be compared; the next check looks at them.
    """

    as_of: str
    rows: int
    whole: bool
    loads_since: int
    unit: str = "load"
    waiting: int = 0

    @property
    def words(self) -> str:
        """The same for people."""
        what = "every row" if self.whole else plural(self.rows, "row")
        if self.whole and self.waiting:
            what += f" but {self.waiting:,} too new to be compared,"
        many = {"copy": "copies"}.get(self.unit)
        some = plural(self.loads_since, self.unit, many) if self.loads_since else f"no {self.unit}"
        return f"{what} proved as of {self.as_of[:16].replace('T', ' ')}, {some} since"


def proof_since_mark(
    ledger: Ledger, table: str, mark: tuple[datetime, str] | None
) -> ProofStatus | None:
    """What is proved of a table now; None where nothing is.

    Args:
        mark: when the table was last marked unproved, and why; None where it never was.
    """
    found = _standing_of(ledger.newest_proofs(table), mark[0] if mark else None)
    if found is None:
        return None
    return ProofStatus(
        as_of=found.as_of.isoformat(timespec="seconds"),
        rows=found.rows,
        whole=found.whole,
        loads_since=len(ledger.runs_since(table, found.through)),
        waiting=found.waiting,
    )


@dataclass(frozen=True)
class Coverage:
    """The round of chunks that is under way, or that the newest chunk ended.

    Attributes:
        rows: of the lake, in chunks that were found equal.
        chunks: how many of this round were looked at; ``equal``: how many were found equal.
        since: when the round began (UTC).
        whole: whether the newest chunk was the table's last.
    """

    rows: int
    chunks: int
    equal: int
    since: datetime
    whole: bool

    def percent(self, rows: int) -> float:
        """The percentage of this many rows that the round has proved."""
        if self.whole and self.equal == self.chunks:
            return 100.0
        return round(min(100.0 * self.rows / max(rows, 1), 100.0), 1)


def round_of(proofs: Sequence[Proof]) -> Coverage | None:
    """The newest round in a table's proofs (oldest first); None before its first chunk.

    A chunk that was looked at again counts once, as it was found last; one that was repaired, as it
    was found then.
    """
    chunks = [proof for proof in proofs if proof.asked == "next"]
    begins = [number for number, chunk in enumerate(chunks) if chunk.lo is None]
    if not begins:
        return None
    newest = chunks[begins[-1] :]
    by_key = {chunk.lo: chunk for chunk in newest}
    equal = [chunk for chunk in by_key.values() if _is_equal(chunk, proofs)]
    return Coverage(
        rows=sum(chunk.lake_rows for chunk in equal),
        chunks=len(by_key),
        equal=len(equal),
        since=newest[0].started_at,
        whole=newest[-1].hi is None,
    )


def _is_equal(chunk: Proof, proofs: Sequence[Proof]) -> bool:
    """Whether a chunk was found equal, or all of it since it was not."""
    if chunk.verdict == "equal":
        return True
    at = next(number for number, proof in enumerate(proofs) if proof is chunk)
    later = (p for p in proofs[at + 1 :] if p.asked in BY_KEYS and p.verdict == "equal")
    ranges = [(p.lo, p.hi) for p in later]
    return is_covered((chunk.lo, chunk.hi), ranges)
