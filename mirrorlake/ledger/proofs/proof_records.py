"""What the ledger keeps of checks and repairs. Times are UTC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime


@dataclass(frozen=True)
class Proof:
    """The verdict on one range of keys of one check, and what it rests on. No values of rows.

    Attributes:
        check_id: one check's ranges share it.
        asked: full, next, partition, keys or where.
        lo, hi: the range's keys as texts, [lo, hi); None: no bound there.
        verdict: equal, different or undecided.
        source_rows, lake_rows, source_digest, lake_digest: of the range, on both sides.
        waiting, differences: of the whole check: rows too new to be compared, and rows that differ;
            where it was undecided, the rows that were not compared or could not be decided.
        server, position, source_time: of MySQL just before the first read (UTC).
        snapshot_id: of deduped; ``through_seq``: the newest load in it.
        code: the version of the code that compared.
        seconds, source_bytes: of the whole check; ``evidence``: where its file is.
        day: of a check of one day.
        days_from, days_before: the days [from, before) all of whose rows in the range were old
            enough to be compared; no ``days_from``: from the earliest; no ``days_before``: none, or
            not known.
    """

    check_id: str
    table: str
    asked: str
    lo: str | None
    hi: str | None
    verdict: str
    source_rows: int
    lake_rows: int
    source_digest: str
    lake_digest: str
    waiting: int
    differences: int
    server: str
    position: str
    source_time: datetime
    snapshot_id: int | None
    through_seq: int
    code: str
    started_at: datetime
    seconds: float
    source_bytes: int
    evidence: str
    day: date | None = None
    days_from: date | None = None
    days_before: date | None = None


@dataclass(frozen=True)
class Repair:
    """One repair of a table: what was read again, why, and what was found before and after.

    Attributes:
        asked: which rows were requested: full, keys, partition, where or next.
        why: how many rows were missing, extra and changed, in words; no values of rows.
        keys: how many keys differed; ``digests``: keyed digests of the first of them (none without
            ``privacy.hash_key``).
        before, after: both sides of the ranges that differed, as ``rows:digest`` by side; empty
            while it is not proved again.
        load_ids: of the loads that brought the rows; none where deduped was only folded again.
        before_snapshot, after_snapshot: of deduped.
        code: the version of the code that compared.
        outcome: ``begun``, ``interrupted``, ``failed``, ``equal``, ``different`` or ``undecided``.
        evidence: the paths of the evidence files, in order.
    """

    repair_id: str
    table: str
    asked: str
    why: str
    keys: int
    digests: tuple[str, ...]
    before: dict[str, str]
    after: dict[str, str]
    load_ids: tuple[str, ...]
    before_snapshot: int | None
    after_snapshot: int | None
    code: str
    started_at: datetime
    finished_at: datetime | None
    outcome: str
    evidence: tuple[str, ...]
