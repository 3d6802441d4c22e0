"""Receipts of loads, made of their chunks' receipts."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from os.path import commonprefix
from typing import Any

from pymysql.connections import Connection

from mirrorlake.errors import SchemaError
from mirrorlake.ledger import Load, Receipt, Window
from mirrorlake.load.chunks.receipt import ChunkReceipt
from mirrorlake.load.protocol.resume import ChunkCut
from mirrorlake.load.raw.raw_files import digest_of_files
from mirrorlake.load.reloads.reload import Replacement
from mirrorlake.proof.comparing.report import digest_text
from mirrorlake.proof.ranges.ranges import Tally
from mirrorlake.sources.mysql.changes.open_writes import OpenWrites, Waited, read_start
from mirrorlake.sources.mysql.types.registry import TIMES
from mirrorlake.table.progress import Progress
from mirrorlake.table.resolve import ResolvedTable, by_time
from mirrorlake.table.windows import settled_before

logger = logging.getLogger(__name__)


def receipt_of(
    plan: ResolvedTable,
    load: Load,
    cut: ChunkCut,
    chunks: Sequence[ChunkReceipt],
    replacement: Replacement,
    seen: Progress,
    backward: int | None = None,
) -> Receipt:
    """What a load saw.

    Raises:
        SchemaError: its chunks were answered by several servers.
    """
    first = min(chunks, key=lambda c: c.moment)
    # Before the first chunk there may be a wait, and a replica shows the past.
    moment = min(first.moment, cut.shown or first.moment)
    oldest = cut.open_writes.oldest
    servers = {c.server for c in chunks}
    if len(servers) > 1:
        raise SchemaError(
            f"table {plan.name}: chunks of one load were answered by several servers: "
            f"{sorted(servers)}",
            table=plan.name,
            next_step="Point the contract at one server: answers of two are not one copy",
        )
    return replace(
        summed(chunks),
        moment=moment.isoformat(sep=" "),
        hi=_end(plan, load.window, moment, chunks, cut.top),
        oldest_open=oldest.isoformat(sep=" ") if oldest else None,
        looked_up=replacement.looked_up,
        gone=replacement.gone,
        replaced=len(replacement.removes),
        read_bytes=seen.bytes,
        read_seconds=round(seen.seconds, 3),
        moments=_moments(chunks, moment) if len(chunks) > 1 else None,
        backward=replacement.backward if load.window.kind == "reload" else backward,
        clock_ahead=None if cut.clock_ahead is None else round(cut.clock_ahead.total_seconds(), 3),
        waiting=[one.to_plain() for one in cut.open_writes.remembered()],
        log_place=cut.log_place or first.log_place,
    )


def summed(chunks: Sequence[ChunkReceipt]) -> Receipt:
    """What the parts of a load saw together, as of the earliest of them."""
    first = min(chunks, key=lambda c: c.moment)
    rows, written = sum(c.rows for c in chunks), sum(c.committed for c in chunks)
    originals = _originals(chunks)
    return Receipt(
        rows=rows,
        bytes=sum(c.bytes for c in chunks),
        files=sum(len(c.paths) for c in chunks),
        digest=digest_of_files([pair for chunk in chunks for pair in chunk.metrics]),
        moment=first.moment.isoformat(sep=" "),
        hi=None,
        server=first.server,
        position=first.position,
        originals=sum(originals.values()),
        future=sum(c.future for c in chunks),
        query_seconds=round(max(c.query_seconds for c in chunks), 3),
        read_bytes=sum(c.read_bytes for c in chunks),
        original_columns=originals,
        source_digest=_source_digest(chunks),
        written=written if written != rows else None,
        sessions=max(c.sessions for c in chunks),
        carried=sum(c.carried for c in chunks),
        since=min((c.since for c in chunks if c.since is not None), default=None),
    )


def still_open(
    plan: ResolvedTable, now: OpenWrites, last: Load | None, window: Window
) -> OpenWrites:
    """What is open now, with what the last load saw waiting and is open still; what the server
    recovered when it started is bounded by what that load left open."""
    waited = last.receipt.waiting if last and last.receipt else []
    found = now.after([Waited.from_plain(one) for one in waited])
    if not found.recovered or not by_time(plan):
        return found
    found = found.since(settled_before(window))
    logger.warning("table %s: %s", plan.name, recovered_words(plan, found))
    return found


def recovered_words(plan: ResolvedTable, found: OpenWrites) -> str:
    """What a transaction that the server recovered does to a table's windows; '' without one."""
    if not found.recovered or not by_time(plan):
        return ""
    return (
        f"source {plan.source.name} has a prepared transaction (XA) from before its last start, "
        f"and can't say when that wrote its rows: windows reach back to {found.oldest} UTC until "
        "it is committed or rolled back (XA RECOVER lists it; in MySQL 8 it takes XA_RECOVER_ADMIN)"
    )


def warn_of_unseen(connection: Connection[Any], plan: ResolvedTable, last: Load | None) -> None:
    """Say that nobody could see whether a prepared transaction outlived the server, if that was
    started since the last load. Of a replica, which shows none of its primary's, nothing is said.

    Raises:
        SourceError: the server was lost.
    """
    moment = last.receipt.moment if last and last.receipt else None
    if moment is None or plan.source.primary is not None or not by_time(plan):
        return
    started = read_start(connection)
    if datetime.fromisoformat(moment) >= started:
        return
    logger.warning(
        "table %s: source %s was started again at %s UTC, and this account may not see (PROCESS) "
        "whether a prepared transaction (XA) outlived that: rows that one commits later than "
        "`overlap` after they were stamped are missed until their day is reloaded",
        *(plan.name, plan.source.name, f"{started:%Y-%m-%d %H:%M:%S}"),
    )


def _source_digest(chunks: Sequence[ChunkReceipt]) -> str | None:
    digests = [c.source_digest for c in chunks]
    known = [digest for digest in digests if digest is not None]
    return digest_text(Tally(0, sum(known))) if known and len(known) == len(digests) else None


def _originals(chunks: Sequence[ChunkReceipt]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for chunk in chunks:
        found.update(chunk.originals)
    return dict(sorted(found.items()))


def _moments(chunks: Sequence[ChunkReceipt], first: datetime) -> dict[str, Any]:
    """Seconds after the receipt's own moment and the end of the position, by chunk: the receipt of
    a thousand chunks stands in the summary of a commit too."""
    ordered = sorted(chunks, key=lambda c: c.number)
    prefix = commonprefix([c.position for c in ordered])  # noqa: RUF071 - of texts, no paths
    listed = [[(c.moment - first).total_seconds(), c.position[len(prefix) :]] for c in ordered]
    return {"prefix": prefix, "chunks": listed}


def _end(
    plan: ResolvedTable,
    window: Window,
    moment: datetime,
    chunks: Sequence[ChunkReceipt],
    top: int | None,
) -> str | None:
    """Where the next window starts from, before its overlap.

    A time: the earliest moment that a chunk shows. A key: the highest one read, but of several
    chunks none that came after the first of them was read (``top``); without rows, what the window
    itself started from.
    """
    if plan.cursor is None or plan.cursor.data_type in TIMES:
        return moment.isoformat(sep=" ")
    highs = [int(c.high) for c in chunks if c.high is not None]
    if highs:
        return str(max(highs) if top is None else min(max(highs), top))
    return None if window.lo is None else str(int(window.lo) + plan.contract.overlap_keys)
