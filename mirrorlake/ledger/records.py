"""What the ledger records: receipts, windows, loads and leases."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final


@dataclass(frozen=True)
class Receipt:
    """What a load saw. It stands in the ledger and in the commit's own summary, so either can be
    lost.

    Attributes:
        rows: what was read, and a reload's tombstones. They are what was committed, unless
            ``written`` says otherwise.
        bytes: bytes of the data files.
        files: how many data files.
        digest: of the data files, by their names and the SHA-256 of their bytes, in 64 hexadecimal
            digits; '' where that is not known. Of 16 digits, in loads of an earlier release: an
            order-free checksum of the rows.
        moment: the source's UTC clock just before the earliest of the load's reads: the next window
            starts before it.
        hi: where the window ends by what the load saw: the moment (UTC) for a time cursor, the
            highest key for a key cursor; None while there is none.
        server: the identity of the server that answered.
        position: its GTID position before the earliest read.
        originals: values kept as original text.
        future: rows whose cursor lies after the source's clock.
        query_seconds: the longest single query.
        oldest_open: when (UTC, by the source) the oldest statement or transaction began that was
            running or open on the server just before the earliest read: its rows may carry cursors
            from then on. None where none was, or the server does not let us see.
        looked_up: rows that a reload looked up by key, because they had left the days it reads.
        gone: keys that a reload looked up and MySQL has no more: each is a tombstone row.
        replaced: data files of small windows that a reload took the place of.
        read_bytes: bytes in memory of the rows that the run which committed the load has read: not
            those of an interrupted run's chunks.
        read_seconds: how long that took.
        original_columns: how many of ``originals`` each column has; columns without any are left
            out.
        moments: which moment each chunk shows, by number, where there were several; None where the
            load is one statement, and so one moment. See `moments_of`.
        source_digest: the sum of the rows' digests as MySQL computed it in the states that were
            read, in hexadecimal; None where that was not computed. A successful load that has one
            was found equal in the lake before it became visible.
        backward: rows whose time cursor is earlier than the one that the load before saw of them,
            or that moved to an earlier day; None where that was not looked at.
        clock_ahead: how many seconds the server's clock was ahead of the reading machine's just
            before the earliest read; None where that was not looked at.
        waiting: statements that ran just before the earliest read and had no transaction yet, and
            such ones of earlier loads whose transaction was open still: see
            `mirrorlake.sources.mysql.changes.open_writes.Waited`.
        meaning: what decides how its rows are to be taken
            (`mirrorlake.table.meaning.Meaning`); None in
            loads of a release that did not say it.
        began: the number of the load with which its history began: no fold reaches behind it. 0:
            with the table's first.
        identity: what distinguished the table from another one of its name just before it was read
            (`mirrorlake.sources.mysql.introspection.identity.Identity`); None where that was not
            looked at.
        stands_on: of a full copy that wrote what changed alone: the number of the complete copy to
            which it adds, after all that were made on it before. 0: it is complete.
        written: rows committed, tombstones too; None: as many as ``rows``.
        row_index: the file from which the next copy knows which rows this one had
            (`mirrorlake.load.row_hashes.row_index.RowIndex`); None where there is none.
        carried: those of ``rows`` that MySQL digested and did not send: deduped held them as they
            are.
        all_proved: whether this load, and each one before it in its history, was found equal
            before it became visible.
        log_place: of a table that follows the binary log: from where on changes are not in raw
            (`mirrorlake.sources.mysql.following.log_state.LogPlace`). Of a copy: the place before
            its first read. It is no ``hi``: with sets of GTIDs it is longer than a ledger's windows
            keep.
        filled: columns that were added since with one value for all rows that there were, and its
            text; None where there are none. Rows of versions without the column have it.
        sessions: how many sessions read one state together, their snapshots shown to be one.
        most_changed: of a complete copy: whether most rows are others than the copy before had.
        since: of a log's transactions: when (UTC, by their server) the first of them was committed.
        log_source: of tenants' changes: the source whose log has them.
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
    oldest_open: str | None = None
    looked_up: int = 0
    gone: int = 0
    replaced: int = 0
    read_bytes: int = 0
    read_seconds: float = 0.0
    original_columns: dict[str, int] = field(default_factory=dict[str, int])
    moments: dict[str, Any] | None = None
    source_digest: str | None = None
    backward: int | None = None
    clock_ahead: float | None = None
    waiting: list[list[str]] = field(default_factory=list[list[str]])
    meaning: dict[str, Any] | None = None
    began: int = 0
    identity: dict[str, Any] | None = None
    stands_on: int = 0
    written: int | None = None
    row_index: dict[str, Any] | None = None
    carried: int = 0
    all_proved: bool = False
    log_place: str | None = None
    filled: dict[str, str] | None = None
    sessions: int = 1
    most_changed: bool = False
    since: str | None = None
    log_source: str | None = None

    @property
    def committed(self) -> int:
        """How many rows the load's files have."""
        return self.rows if self.written is None else self.written

    def moments_of(self) -> list[tuple[datetime, str]]:
        """The source's UTC clock and its position just before each chunk was read, by number."""
        first = datetime.fromisoformat(self.moment)
        if self.moments is None:
            return [(first, self.position)]
        prefix = self.moments["prefix"]
        return [(first + timedelta(seconds=s), prefix + p) for s, p in self.moments["chunks"]]

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Receipt:
        """Fields that a newer Mirrorlake wrote and this one does not know are left out."""
        said = json.loads(text)
        if said.keys() <= _OF_RECEIPTS:
            return Receipt(**said)
        return Receipt(**{k: v for k, v in said.items() if k in _OF_RECEIPTS})


_OF_RECEIPTS: Final = frozenset(f.name for f in fields(Receipt))


@dataclass(frozen=True)
class Window:
    """A half-open range [lo, hi) of a table's cursor, or the whole table (``full``), as texts.

    ``kind`` is ``initial``, ``live``, ``full``, ``log``, ``reload`` or ``repair``. A ``log`` has
    what the server's binary log says since the load before: its receipt says up to where. ``hi`` is
    None while the window is open above: it is set from the receipt when the load succeeds. A
    ``reload`` reads whole days again: its bounds are days of the column that gives a row's raw day,
    or keys where none does, and it never moves where the next live window starts; nor does a
    ``repair``, which reads single keys again and has no bounds. A rebuilt ledger may not know what
    a load read: its kind is ``unknown``.
    """

    kind: str
    lo: str | None
    hi: str | None
    day: date

    def to_json(self) -> str:
        return json.dumps([self.kind, self.lo, self.hi, self.day.isoformat()])

    @staticmethod
    def from_json(text: str) -> Window:
        kind, lo, hi, day = json.loads(text)
        return Window(kind, lo, hi, date.fromisoformat(day))


MOVING = ("initial", "live", "full", "log")
"""The kinds of window that bring the mirror forward."""
LOOKING_BACK = ("reload", "repair")
"""Those that read again what was read: they move nothing on."""


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
    token: int = 0
    """The lease's token under which this attempt runs: a later owner's is higher."""
    job_id: str | None = None
    """The application of Spark whose tasks read its chunks; None where they were read here."""


@dataclass(frozen=True)
class ChunkedLoad:
    """A load of several chunks that did not end, and what of it was read.

    Attributes:
        basis: what must be the same for a run that resumes it, by its name in words.
        start: what was seen before its first read, by name; None where there was none.
        bounds: the SQL condition of every chunk, by number.
        receipts: those of finished chunks, by number, as they were recorded.
    """

    load: Load
    basis: dict[str, str]
    start: dict[str, str | None]
    bounds: tuple[str, ...]
    receipts: dict[int, str]


@dataclass(frozen=True)
class Lease:
    """The right to write one table until it expires; ``token`` grows with every owner (fencing)."""

    table: str
    owner: str
    token: int


@dataclass(frozen=True)
class OpenWindow:
    """A window that was requested and not read: ``created``, ``pending`` or ``errored``.

    ``error`` is the newest attempt's, None where there was no attempt or it left no word.
    """

    load_id: str
    window: Window
    state: str
    error: str | None


@dataclass(frozen=True)
class Cost:
    """What one step read of the lake and wrote to it, in bytes.

    Attributes:
        step: ``deduped`` or ``clean``, a fold of that layer and its compaction; ``verify``, the
            proof of a load before it was visible, where it was Spark's.
        seq: the newest load's that it was for.
        scanned: None where other processes read for Spark.
        seconds: how long it took; None of an earlier release.
    """

    step: str
    seq: int
    scanned: int | None
    written: int
    seconds: float | None = None


@dataclass(frozen=True)
class Hold:
    """A source that is left alone until a moment (UTC), and why."""

    source: str
    until: datetime
    reason: str


@dataclass(frozen=True)
class Refusal:
    """What stopped a table before a load of it began, when (UTC), how many times in a row by what
    does not pass by itself, and since when (UTC)."""

    table: str
    at: datetime
    error: str
    times: int
    since: datetime


@dataclass(frozen=True)
class Stamp:
    """What a source showed of a table, written down when the sync that read it ended.

    Attributes:
        table: its name.
        seq: the number of the load that it is of.
        shown: what the source showed before that load read (`ChangeStamp`), as it gives itself.
        terms: a digest of all else on which the load and what was made of it depend.
        lake: a digest of which versions of its lake tables the catalog named then.
        form: a digest of the form of its rows' digests; None where they were not digested.
        read_at: the source's clock (UTC) before the newest read of the whole table, or of the
            window, that this rests on.
        seen_at: the source's moment (UTC) up to which the mirror is known to be the source: of
            that read, or of a later look that found the table unchanged.
        evidence: by what it was found unchanged; None where it was not looked at since.
    """

    table: str
    seq: int
    shown: str
    terms: str
    lake: str
    form: str | None
    read_at: datetime
    seen_at: datetime
    evidence: str | None = None


@dataclass(frozen=True)
class Unproved:
    """A table whose rows must be read again, from which server, and why."""

    table: str
    server: str
    reason: str


@dataclass(frozen=True)
class LogProgress:
    """How far a table was followed in its server's log beyond its newest load, without a change.

    Attributes:
        seq: the number of that load: with a newer one this says nothing any more.
        place: see `Receipt.log_place`.
        at: the source's clock (UTC) up to which the mirror has all that was committed.
    """

    table: str
    seq: int
    place: str
    at: datetime


def age_of(
    load: Load | None, now: datetime | None = None, stamp: Stamp | None = None
) -> timedelta | None:
    """How long ago the source stood where the mirror stands now; None before the first load.

    Args:
        stamp: the table's: it may have been seen unchanged since that load.
    """
    if load is None or load.receipt is None:
        return None
    moment = datetime.fromisoformat(load.receipt.moment).replace(tzinfo=UTC)
    if stamp is not None and stamp.seq == load.seq:
        moment = max(moment, stamp.seen_at)
    return (now or datetime.now(UTC)) - moment
