"""What a sync did, for the command line, for Dagster and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mirrorlake.config import TableContract
from mirrorlake.errors import CommitConflict
from mirrorlake.ledger import Load
from mirrorlake.operations.loading.unchanged import Unchanged
from mirrorlake.runtime.plural import plural


@dataclass(frozen=True)
class SyncResult:
    """What one sync of one table did.

    Attributes:
        table: ``source.db.table``.
        load_id: the load's id, also in the commit and in the files' names; of an unchanged table
            its newest load's.
        files: how many data files.
        window: the kind of its window: initial, live, full, log or reload; ``unchanged`` where
            nothing was loaded, because the table is as its newest load read it. Then ``load_id`` is
            that load's, ``moment`` and ``until`` say up to when that is known, and all figures are
            0.
        unchanged: by what that was found: ``server``, ``table``, ``digest`` or ``log``; else None.
        rows: what this load saw. written: rows of its data files: of a full copy, perhaps what
            changed alone. carried: of ``rows``, those that MySQL digested and did not send, because
            deduped held them as they are.
        bytes: of its data files.
        seconds: from its lease to its fold.
        read_bytes, read_seconds, mb_per_second: of the rows in memory as they came from MySQL.
        longest_query: seconds of the longest statement that read rows.
        original_columns: ``originals`` by column; those without any are left out.
        chunks: of these loads: one statement each.
        moment, until: the source's clock (UTC) just before the first and the last of them was read.
        folded: how many loads were folded into deduped.
        originals: values kept as original text by this load.
        future: rows dated after the source's clock.
        backward: rows whose time went back since the load before saw them.
        looked_up, gone: keys that had left the days of a reload: found elsewhere, and no more.
        replaced: data files of small windows that a reload took the place of.
        settled: loads of dead runs that were put right first.
        put_right: lake tables that were not as the last commit of ours left them, and what was done
            about each, in words.
        changed: what a schema change, or a DDL that moves no cursor, changed since the last load,
            and what followed, in words; empty where nothing was changed.
        held_back: which prepared transaction (XA) from before its server's last start keeps its
            windows reaching further and further back, in words; else empty.
        shown: of several tables that follow one log, how readers got to see what was folded:
            ``together``, at one moment of the catalog; ``one by one``, where the catalog can't.
            Empty where a table was shown by itself, or nothing was.
    """

    table: str
    window: str
    load_id: str
    rows: int
    bytes: int
    files: int
    originals: int
    future: int
    backward: int
    looked_up: int
    gone: int
    replaced: int
    folded: int
    settled: int
    seconds: float
    longest_query: float
    read_bytes: int
    read_seconds: float
    mb_per_second: float
    original_columns: dict[str, int]
    chunks: int
    moment: str
    until: str
    unchanged: str | None = None
    written: int = 0
    carried: int = 0
    put_right: tuple[str, ...] = ()
    changed: str = ""
    held_back: str = ""
    shown: str = ""

    @property
    def words(self) -> str:
        """What was done, in a few words; '' where the table was unchanged."""
        return "" if self.unchanged else f"{plural(self.rows, 'row')}, {self.seconds} s"


def result_of(
    contract: TableContract, loads: Sequence[Load], settled: int, folded: int, seconds: float
) -> SyncResult:
    """The loads of one sync, added up.

    Raises:
        CommitConflict: there is none, or one without a receipt.
    """
    receipts = [load.receipt for load in loads if load.receipt is not None]
    if len(receipts) != len(loads) or not loads:
        raise CommitConflict(f"a load of {contract.name} has no receipt", table=contract.name)
    size = sum(r.read_bytes for r in receipts)
    moments = [at for r in receipts for at, _ in r.moments_of()]
    columns: Counter[str] = Counter()
    for receipt in receipts:
        columns.update(receipt.original_columns)
    spent = sum(r.read_seconds for r in receipts)
    return SyncResult(
        table=contract.name,
        window=loads[-1].window.kind,
        load_id=loads[-1].load_id,
        rows=sum(r.rows for r in receipts),
        bytes=sum(r.bytes for r in receipts),
        files=sum(r.files for r in receipts),
        originals=sum(r.originals for r in receipts),
        future=sum(r.future for r in receipts),
        backward=sum(r.backward or 0 for r in receipts),
        looked_up=sum(r.looked_up for r in receipts),
        gone=sum(r.gone for r in receipts),
        replaced=sum(r.replaced for r in receipts),
        folded=folded,
        settled=settled,
        seconds=round(seconds, 2),
        longest_query=max(r.query_seconds for r in receipts),
        read_bytes=size,
        read_seconds=round(spent, 3),
        mb_per_second=speed(size, spent),
        original_columns=dict(sorted(columns.items())),
        chunks=len(moments),
        moment=min(moments).isoformat(sep=" "),
        until=max(moments).isoformat(sep=" "),
        written=sum(r.committed for r in receipts),
        carried=sum(r.carried for r in receipts),
    )


def unchanged_result(found: Unchanged, settled: int, folded: int, seconds: float) -> SyncResult:
    """The result of a sync that found its table unchanged."""
    at = found.as_of.replace(tzinfo=None).isoformat(sep=" ")
    figures: dict[str, Any] = dict.fromkeys(_FIGURES, 0)
    return SyncResult(
        **figures,
        table=found.contract.name,
        window="unchanged",
        load_id=found.load.load_id,
        folded=folded,
        settled=settled,
        seconds=round(seconds, 2),
        longest_query=0.0,
        read_seconds=0.0,
        mb_per_second=0.0,
        original_columns={},
        moment=at,
        until=at,
        put_right=(),
        changed="",
        held_back="",
        unchanged=found.evidence,
    )


def add_results(first: SyncResult, then: SyncResult) -> SyncResult:
    """What two steps of one table's sync did."""
    if then.unchanged is not None:
        loaded = first
    elif first.unchanged is not None:
        loaded = then
    else:
        names = (*_FIGURES, "written", "carried")
        sums: dict[str, Any] = {n: getattr(first, n) + getattr(then, n) for n in names}
        columns = Counter(first.original_columns) + Counter(then.original_columns)
        loaded = replace(
            first,
            **sums,
            load_id=then.load_id,
            longest_query=max(first.longest_query, then.longest_query),
            read_seconds=round(first.read_seconds + then.read_seconds, 3),
            original_columns=dict(sorted(columns.items())),
            until=max(first.until, then.until),
        )
    return replace(
        loaded,
        folded=first.folded + then.folded,
        settled=first.settled + then.settled,
        seconds=round(first.seconds + then.seconds, 2),
        put_right=(*first.put_right, *then.put_right),
        changed="; ".join(filter(None, (first.changed, then.changed))),
        held_back=then.held_back or first.held_back,
        shown=then.shown or first.shown,
    )


_FIGURES = (
    *("rows", "bytes", "files", "originals", "future", "backward", "looked_up", "gone"),
    *("replaced", "read_bytes", "chunks"),
)


def speed(size: int, seconds: float) -> float:
    """Megabytes a second; 0 where nothing was measured."""
    return round(size / 1e6 / seconds, 2) if seconds > 0 else 0.0
