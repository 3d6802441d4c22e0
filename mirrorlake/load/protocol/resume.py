"""Resuming a load whose run ended in the middle: what was read of it is not read again.

Rows carry their load's number, and a higher number is a later observation. A load is therefore
resumed only while no later number was given out for its table; then all of its rows, read
before or after, are newer than those of every other load. What was read is used only where reading
it now would write the same: the same server, table, columns, window and release. A full copy is one
moment, so it is one chunk, and is always read again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pymysql.connections import Connection

import mirrorlake
from mirrorlake.destinations.iceberg.commits.data_files import holds
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeSchema, LakeTable
from mirrorlake.ledger import ChunkedLoad, Ledger, Window
from mirrorlake.load.chunks.planner import equality_columns, plan_chunks
from mirrorlake.load.chunks.receipt import ChunkReceipt, receipt_from_json
from mirrorlake.proof.forms.hashing import ALGORITHM
from mirrorlake.sources.mysql.changes.open_writes import (
    NO_CONNECTION,
    NOTHING_OPEN,
    OpenWrites,
    Waited,
)
from mirrorlake.sources.mysql.sessions.connect import rows_of
from mirrorlake.sources.mysql.tables import quote
from mirrorlake.table.resolve import ResolvedTable, by_time

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ChunkCut:
    """A load's chunks, and what was seen before the first of them was read.

    Attributes:
        bounds: their SQL conditions, by number.
        finished: receipts of those that need not be read.
        top: the highest key there was, where the cursor is a key and there are several chunks:
            what comes above it meanwhile is the next window's.
        open_writes: what was open on the server then, and commits later.
        clock_ahead: how far its clock was ahead of this machine's then.
        shown: up to where (UTC) its reads show all that was committed; None: as its chunks say.
        log_place: where the log was before the first read, of a table that follows it from there.
        by_keys: whether its conditions are of single keys: they hold values, and are not kept.
    """

    bounds: tuple[str, ...]
    finished: tuple[ChunkReceipt, ...] = ()
    top: int | None = None
    open_writes: OpenWrites = NOTHING_OPEN
    clock_ahead: timedelta | None = None
    shown: datetime | None = None
    by_keys: bool = False
    log_place: str | None = None

    @property
    def can_be_resumed(self) -> bool:
        return len(self.bounds) > 1 and not self.by_keys


def plan_cut(
    connection: Connection[Any],
    plan: ResolvedTable,
    window: Window,
    rows_per_chunk: int,
) -> ChunkCut:
    """Cut a window into chunks, and look at what they must not miss."""
    bounds = plan_chunks(connection, plan, window, rows_per_chunk)
    top = None
    if len(bounds) > 1 and plan.cursor is not None and not by_time(plan):
        table = f"{quote(plan.table.database)}.{quote(plan.table.name)}"
        sql = f"SELECT MAX({plan.cursor.sql}) FROM {table}"  # noqa: S608
        top = rows_of(connection, sql)[0][0]
    return ChunkCut(bounds, top=top)


def start_of(cut: ChunkCut) -> dict[str, str | None]:
    """What was seen before the first read, as the ledger keeps it."""
    return {
        "top": None if cut.top is None else str(cut.top),
        "oldest_open": cut.open_writes.oldest.isoformat() if cut.open_writes.oldest else None,
        "waiting": json.dumps([one.to_plain() for one in cut.open_writes.remembered()]),
        "clock_ahead": None if cut.clock_ahead is None else str(cut.clock_ahead.total_seconds()),
        "shown": cut.shown.isoformat() if cut.shown else None,
        "log_place": cut.log_place,
    }


def basis_of(
    connection: Connection[Any], plan: ResolvedTable, window: Window, table: LakeTable, server: str
) -> dict[str, str]:
    """What must be the same for chunks to be used by another run, by its name in words."""
    sql = (
        "SELECT CREATE_TIME FROM information_schema.TABLES "
        "WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    )
    made = rows_of(connection, sql, (plan.table.database, plan.table.name))
    contract = (
        *(plan.table.columns, plan.columns, plan.key, plan.cursor, plan.day_column),
        *(equality_columns(plan), plan.contract.mode, plan.source.time_zone),
        plan.contract.verify,
    )
    lake = (plan.raw, table.location(), table.schema().model_dump_json())
    return {
        "server": server,
        "schema version": plan.version.hash,
        "table in MySQL (it was made again, or altered)": str(made[0][0] if made else None),
        "window": repr((window.kind, window.lo, window.hi)),
        "contract": _digest(contract),
        "raw table": _digest(lake),
        "release": mirrorlake.__version__,
        # What MySQL said of a chunk is held against the lake's word of it: by one hash.
        "hash of digests": ALGORITHM if plan.contract.verify else "none",
    }


def find_cut(
    ledger: Ledger, lake: Lake, plan: ResolvedTable, basis: dict[str, str], table: LakeTable
) -> tuple[ChunkedLoad, ChunkCut] | None:
    """The load of a table that can be resumed, and its chunks; None if there is none.

    The caller holds the table's lease and has settled its loads. Files that are not as they were
    written are not used: their chunks are read again.
    """
    chunked = ledger.chunked_load(plan.name)
    if chunked is None or not chunked.receipts:
        return None
    load = chunked.load
    other = [name for name, value in basis.items() if chunked.basis.get(name) != value]
    if other:
        logger.info(
            "table %s load %s: not resumed, for this is another one now: %s",
            *(plan.name, load.load_id, ", ".join(other)),
        )
        return None
    finished: list[ChunkReceipt] = []
    with lake.translated(plan.name):
        for number, text in chunked.receipts.items():
            receipt = receipt_from_json(text)
            if _is_whole(receipt, table):
                finished.append(receipt)
            else:
                logger.warning(
                    "table %s load %s chunk %d: its files are not as they were written: read again",
                    *(plan.name, load.load_id, number),
                )
    logger.info(
        "table %s load %s: resumed, %d of %d chunks are there",
        *(plan.name, load.load_id, len(finished), len(chunked.bounds)),
    )
    top, shown = chunked.start.get("top"), chunked.start.get("shown")
    ahead = chunked.start.get("clock_ahead")
    return chunked, ChunkCut(
        bounds=chunked.bounds,
        finished=tuple(finished),
        top=int(top) if top is not None else None,
        open_writes=_open_writes_of(chunked.start),
        clock_ahead=timedelta(seconds=float(ahead)) if ahead is not None else None,
        shown=datetime.fromisoformat(shown) if shown else None,
        log_place=chunked.start.get("log_place"),
    )


def _open_writes_of(start: Mapping[str, str | None]) -> OpenWrites:
    """What was open before the first read, as far as the ledger keeps it: the oldest moment, and
    what the next load must know."""
    oldest, waiting = start.get("oldest_open"), start.get("waiting")
    began = {NO_CONNECTION: datetime.fromisoformat(oldest)} if oldest else {}
    waited = tuple(Waited.from_plain(one) for one in json.loads(waiting or "[]"))
    return OpenWrites(transactions=began, waited=waited)


def files_of(chunked: ChunkedLoad | None) -> frozenset[str]:
    """The data files of finished chunks: no snapshot names them, and they are no orphans."""
    if chunked is None:
        return frozenset()
    receipts = (receipt_from_json(text) for text in chunked.receipts.values())
    return frozenset(path for receipt in receipts for path in receipt.paths)


def _is_whole(receipt: ChunkReceipt, table: LakeTable) -> bool:
    schema: LakeSchema = table.schema()
    recorded = dict(receipt.metrics)
    return set(recorded) == set(receipt.paths) and all(
        metrics and holds(table.io, path, metrics, schema) for path, metrics in recorded.items()
    )


def _digest(values: Sequence[Any]) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]
