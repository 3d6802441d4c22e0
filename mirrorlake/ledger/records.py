"""What the ledger tells: receipts, windows, loads and leases."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import date, datetime


@dataclass(frozen=True)
class Receipt:
    """What a load saw. It stands in the ledger and in the commit's own summary, so either can be
    lost.

    Attributes:
        rows: rows read and committed.
        bytes: bytes of the data files.
        files: how many data files.
        digest: order-free 64-bit checksum of the rows, in hexadecimal.
        moment: the source's UTC clock just before the earliest of the load's reads: the next window
            starts before it.
        hi: where the window ends by what the load saw: the moment (UTC) for a time cursor, the
            highest key for a key cursor; None while there is none.
        server: the identity of the server that answered.
        position: its GTID position before the earliest read.
        originals: values kept as original text.
        future: rows whose cursor lies after the source's clock.
        query_seconds: the longest single query.
    """

    rows: int
    bytes: int
    files: int
    digest: str
    moment: str
    hi: str | None
    server: str
    position: str
    originals: int
    future: int
    query_seconds: float

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Receipt:
        return Receipt(**json.loads(text))


@dataclass(frozen=True)
class Window:
    """A half-open range [lo, hi) of a table's cursor, or the whole table (``full``), as texts.

    ``kind`` is ``initial``, ``live`` or ``full``. ``hi`` is None while the window is open above:
    it is set from the receipt when the load succeeds.
    """

    kind: str
    lo: str | None
    hi: str | None
    day: date


@dataclass(frozen=True)
class Load:
    """One attempt of one window's load. ``seq`` orders observations: a later read has a higher
    one."""

    seq: int
    load_id: str
    attempt: int
    table: str
    state: str
    raw_table: str
    window: Window
    parent_snapshot: int | None
    snapshot_id: int | None
    started_at: datetime
    finished_at: datetime | None
    receipt: Receipt | None
    error: str | None


@dataclass(frozen=True)
class Lease:
    """The right to write one table until it expires; ``token`` grows with every owner (fencing)."""

    table: str
    owner: str
    token: int
