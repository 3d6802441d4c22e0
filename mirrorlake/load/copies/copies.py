"""Full copies that write what changed: whether one may, what it adds beside the rows that it read,
and its proof.

The server is asked for key and hash of every row (`mirrorlake.load.copies.changed_rows`); those
rows are read and written that the row index of the copy before does not hold, and a tombstone for
each key that is gone. Such a load stands on a complete copy, and on those made on it since
(`mirrorlake.table.chains`).

It is proved before it is visible, by arithmetic: the digest of the rows that raw held before is
known, because that copy was proved; less the digests of the rows that are replaced or gone, plus
those of the rows that came, it must be the sum of the hashes that MySQL sent, and so must the
number of rows that it counted by itself. The digests are the proof's, by SHA-256, over rows that
are read from the lake: a hash or a key that changed on its way, a row that was left out or is of
another state, a wrong tombstone, all make a difference. Whatever is in doubt, or differs, is
answered by a complete copy.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as _compute
from pymysql.connections import Connection

import mirrorlake
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeTable, arrow_schema
from mirrorlake.destinations.iceberg.reading.originals import count_originals
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.errors import LakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Ledger, Load, Receipt, Window
from mirrorlake.load.attempt import Attempt, LoadTerms
from mirrorlake.load.chunks.planner import key_ranges
from mirrorlake.load.chunks.receipt import ChunkReceipt
from mirrorlake.load.chunks.statements import ChunkPlan
from mirrorlake.load.copies.chain_rows import RawRows, raw_rows
from mirrorlake.load.reloads.reload import write_tombstones
from mirrorlake.load.row_hashes.delta import SUFFIX, CopyPlan
from mirrorlake.load.row_hashes.fingerprint import VERSION
from mirrorlake.load.row_hashes.row_index import (
    ENTRY_BYTES,
    DeltaGivenUp,
    KeySet,
    RowIndex,
    index_path,
)
from mirrorlake.proof.comparing.load_proof import tally_table
from mirrorlake.proof.forms.rows import RowForm
from mirrorlake.proof.ranges.ranges import NOTHING, Tally
from mirrorlake.runtime.plural import plural
from mirrorlake.schema.own_columns import DAY, DELETED, ORIGINAL
from mirrorlake.table.chains import chain_of
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

pc: Any = _compute  # its functions are made at import: type checkers see none of them

SMALL_ROWS = 20_000
"""A smaller table is always copied whole: that takes less than finding out what changed."""
MOST_DELTAS = 16
"""At most this many copies stand on one: raw keeps its newest 20 versions, so that a ledger that is
made again knows all loads of a chain; and a fold of all of them reads few files."""
_TRUSTED = timedelta(days=1)
"""How old a complete copy may be, where the source's `skip_unchanged` does not say it."""
RANGE_ROWS = 400_000
"""Rows of a range that one session reads while others read the next ones: their keys and hashes
are some 20 MB, which wait in memory until the ranges before are through."""
_AT_ONCE = 50_000
"""This many rows of the lake are digested at once."""


@dataclass(frozen=True)
class Copying:
    """How a full copy is made.

    Attributes:
        plan: for the process that reads.
        chain: the copies that it adds to, if it writes what changed; none where it is complete.
    """

    plan: CopyPlan
    chain: tuple[Load, ...] = ()

    @property
    def is_delta(self) -> bool:
        """Whether the reading wrote what changed alone."""
        return self.plan.found.is_delta


def plan_copy(
    workspace: Workspace,
    plan: ResolvedTable,
    window: Window,
    terms: LoadTerms,
    table: LakeTable,
    rows: RowForm | None,
) -> Copying | None:
    """How a load is made that leaves a row index; None of one that leaves none."""
    if window.kind != "full" or rows is None or not _may_write_changes(plan):
        return None
    if plan.table.estimated_rows < SMALL_ROWS:
        return None
    columns = [exact.name for exact in plan.columns]
    if ORIGINAL in {field.name for field in table.schema().fields}:
        columns.append(ORIGINAL)
    digest = _terms(plan, table, rows, terms.server, columns)
    copy = CopyPlan(tuple(columns), plan.key, digest)
    loads = workspace.ledger.successful_loads(plan.name)
    index = _index_of(loads, plan, digest)
    if index is None or terms.complete:
        return Copying(copy)
    if index.wait:
        return Copying(dataclasses.replace(copy, wait=index.wait - 1))
    try:
        chain = chain_of(loads)
    except LakeError as error:  # a rebuilt ledger does not know all of it
        logger.info("%s A complete copy is made", error)
        return Copying(copy)
    why = _why_complete(chain, plan)
    if why:
        logger.info("table %s: a complete copy is made: %s", plan.name, why)
        return Copying(copy)
    return Copying(dataclasses.replace(copy, before=index), chain)


def _may_write_changes(plan: ResolvedTable) -> bool:
    """Whether a table's copies may write only what changed: its rows have keys that the lake tells
    apart as they are, a row that is gone is gone, and every copy shows one moment."""
    floating = {e.name for e in plan.columns if e.iceberg in ("float", "double")}
    unplaced = {e.name for e in plan.columns if e.has_original}
    contract = plan.contract
    return (
        bool(plan.key)
        and contract.replaces_all
        and not plan.keeps_aliases
        and plan.entity is None
        and not {*plan.key} & (floating | unplaced)
        and plan.table.engine.lower() == "innodb"
    )


def _terms(
    plan: ResolvedTable, table: LakeTable, rows: RowForm, server: str, columns: Sequence[str]
) -> str:
    """A digest of all that must be the same for rows of two copies to be compared."""
    schema = arrow_schema(table.schema(), field_ids=False)
    parts = (
        *(VERSION, ENTRY_BYTES, mirrorlake.__version__),
        *(table.location(), plan.version.hash, server),
        *([(name, str(schema.field(name).type)) for name in columns], plan.key),
        *(rows.source_digest, plan.contract.mode),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _index_of(loads: Sequence[Load], plan: ResolvedTable, terms: str) -> RowIndex | None:
    """The row index of the newest load, if it can be held against the rows that are read now."""
    newest = loads[-1] if loads else None
    if newest is None or newest.receipt is None or newest.raw_table != plan.raw.name:
        return None
    fields = newest.receipt.row_index
    index = RowIndex.from_fields(fields) if fields else None
    return index if index is not None and index.terms == terms else None


def _why_complete(chain: Sequence[Load], plan: ResolvedTable) -> str:
    """Why nothing more may stand on a chain; '' if it may."""
    base, *deltas = chain
    receipts = [load.receipt for load in chain]
    if any(receipt is None or receipt.source_digest is None for receipt in receipts):
        return "not all copies before were proved"
    if len(deltas) >= MOST_DELTAS:
        return f"{len(deltas)} copies stand on the last complete one"
    changed = sum(load.receipt.committed for load in deltas if load.receipt)
    if base.receipt is None or 2 * changed > base.receipt.rows:
        return "half of the table changed since the last complete one"
    if datetime.now(UTC) - base.started_at >= (plan.source.skip_unchanged or _TRUSTED):
        return "the last complete one is old"
    return ""


def with_ranges(
    connection: Connection[Any], plan: ResolvedTable, copying: Copying | None
) -> Copying | None:
    """The same, with the ranges by which several sessions may read keys and hashes, where there may
    be several.

    Raises:
        SourceError: the server was lost or refused.
    """
    if copying is None or not copying.chain or plan.source.rows_per_second is not None:
        return copying
    if plan.source.connections < 2:
        return copying
    ranges = key_ranges(connection, plan, RANGE_ROWS)
    return dataclasses.replace(copying, plan=dataclasses.replace(copying.plan, ranges=ranges))


def with_copy(chunks: Sequence[ChunkPlan], copying: Copying | None) -> list[ChunkPlan]:
    """The chunks of a load with how its rows are written; a copy is one chunk."""
    if copying is None or len(chunks) != 1:
        return list(chunks)
    task = SUFFIX if copying.chain else ""
    return [dataclasses.replace(chunk, copy=copying.plan, task=task) for chunk in chunks]


# --- what is gone ---------------------------------------------------------------------------------


def tombstones_of_copy(
    attempt: Attempt, chunk: ChunkPlan, copying: Copying, receipts: Sequence[ChunkReceipt]
) -> list[ChunkReceipt]:
    """The file of tombstones of the keys that the copy did not see any more, if there are any.

    Raises:
        DeltaGivenUp: a key that is gone was not found in raw.
        LakeError: the lake could not be read or written.
    """
    if not copying.is_delta:
        return []
    keys = KeySet(copying.plan.found.gone())
    if not len(keys):
        return []
    held = _raw(attempt, chunk, copying, attempt.load.parent_snapshot)
    held.check(copying.chain)
    names = held.key_columns()
    with attempt.workspace.lake.translated(attempt.plan.name):
        parts = [rows for _, rows in held.current(copying.chain, keys, names)]
    gone = pa.concat_tables(parts) if parts else None
    if gone is None or gone.num_rows != len(keys):
        raise DeltaGivenUp("a key that is gone was not found in raw")
    day = pa.repeat(pa.scalar(attempt.load.window.day, pa.date32()), gone.num_rows)
    number = max(receipt.number for receipt in receipts) + 1
    tombstones = gone.append_column(DAY, day)
    written = write_tombstones(chunk, tombstones, receipts[-1], number, suffix=SUFFIX)
    failpoint("delta.found")
    # They are no rows that the copy saw, nor any that MySQL digested.
    seen = {"rows": 0, "source_rows": 0, "source_digest": 0, "read_bytes": 0}
    return [dataclasses.replace(written, **seen, written=gone.num_rows)]


def _raw(attempt: Attempt, chunk: ChunkPlan, copying: Copying, snapshot: int | None) -> RawRows:
    lake = attempt.workspace.lake
    table = lake.load(attempt.plan.raw)
    if table is None:
        raise DeltaGivenUp("raw is gone")
    return raw_rows(lake, table, snapshot, chunk.schema, copying.plan)


def with_originals(
    attempt: Attempt, chunk: ChunkPlan, copying: Copying, receipts: list[ChunkReceipt]
) -> None:
    """Have the receipt of a copy that wrote what changed count the originals of all rows: those
    that the copy before counted, without those of the rows that it takes the place of.

    Raises:
        DeltaGivenUp: raw does not hold the rows of the copy before.
        LakeError: the lake could not be read.
    """
    before = copying.chain[-1].receipt if copying.is_delta else None
    if before is None or not before.original_columns:
        return
    found = copying.plan.found
    held = _raw(attempt, chunk, copying, attempt.load.parent_snapshot)
    held.check(copying.chain)
    counts = Counter(before.original_columns) + Counter(receipts[0].originals)
    keys = KeySet(np.concatenate([found.gone(), *found.changed]))
    with attempt.workspace.lake.translated(attempt.plan.name):
        for _, rows in held.current(copying.chain, keys, [ORIGINAL]):
            counts -= Counter(count_originals(rows.column(ORIGINAL)))
    receipts[0] = dataclasses.replace(receipts[0], originals=dict(counts))


# --- the proof ------------------------------------------------------------------------------------


def prove_delta(
    attempt: Attempt,
    chunk: ChunkPlan,
    copying: Copying,
    rows: RowForm,
    expected: Tally,
    snapshot: int | None,
) -> None:
    """See that a table's rows in raw, up to this load, are those that MySQL digested.

    Everything is read from the lake: which keys the load touched from its own files, and what they
    take the place of from the files of the chain.

    Args:
        expected: MySQL's number of rows and sum of hashes, in the state that was read.
        snapshot: of raw, with the load's files.

    Raises:
        DeltaGivenUp: they are others, or that is not known.
        LakeError: the lake could not be read.
    """
    lake, load_id = attempt.workspace.lake, attempt.load.load_id
    held = _raw(attempt, chunk, copying, snapshot)
    held.check(copying.chain)
    columns = [cell.name for cell in rows.cells] + ([ORIGINAL] if rows.originals else [])
    tally = _Tallies(attempt, rows)
    with lake.translated(attempt.plan.name):
        prints = [held.key_prints(part) for part in held.of_load(load_id, held.key_columns())]
        keys = KeySet(np.concatenate([np.empty((0, 2), np.uint64), *prints]))
        came = tally.of(
            part.filter(pc.invert(part.column(DELETED).fill_null(False))).select(columns)
            for part in held.of_load(load_id, [*columns, DELETED])
        )
        went = tally.of(part for _, part in held.current(copying.chain, keys, columns))
    before = _proved(copying.chain[-1].receipt)
    found = Tally(before.rows - went.rows + came.rows, before.digest - went.digest + came.digest)
    if found != expected:
        raise DeltaGivenUp(
            f"the changes that were found leave {plural(found.rows, 'row')}, MySQL has "
            f"{expected.rows}, or "
            "others",
            costly=True,
        )
    failpoint("delta.proved")


def _proved(receipt: Receipt | None) -> Tally:
    """Number and digest of the rows that a copy saw, as MySQL said and the lake had them."""
    if receipt is None or receipt.source_digest is None:
        raise DeltaGivenUp("the copy before was not proved")
    return Tally(receipt.rows, int(receipt.source_digest.rpartition(":")[2], 16))


class _Tallies:
    """Digests rows of the lake by the proof's forms, some at a time."""

    def __init__(self, attempt: Attempt, rows: RowForm) -> None:
        self._table, self._rows = attempt.plan.table, rows
        self._spark: LazySpark = attempt.workspace.spark

    def of(self, parts: Iterable[pa.Table]) -> Tally:
        found, held, count = NOTHING, list[pa.Table](), 0
        for part in parts:
            held.append(part)
            count += part.num_rows
            if count >= _AT_ONCE:
                found += self._of(pa.concat_tables(held))
                held, count = [], 0
        return found + (self._of(pa.concat_tables(held)) if count else NOTHING)

    def _of(self, rows: pa.Table) -> Tally:
        with spark_errors(self._table.name):
            return tally_table(self._spark.get, self._table, self._rows, rows)


# --- what is kept ---------------------------------------------------------------------------------


def stamp_copy(receipt: Receipt, copying: Copying | None, gone: int) -> Receipt:
    """A copy's receipt with its row index, with what it stands on, and with how many keys it found
    gone."""
    if copying is None or copying.plan.found.index is None:
        return receipt
    index = copying.plan.found.index.to_fields()
    if not copying.is_delta:
        most = copying.plan.found.most_changed
        return dataclasses.replace(receipt, row_index=index, most_changed=most)
    base = copying.chain[0].seq
    return dataclasses.replace(receipt, row_index=index, stands_on=base, gone=gone)


def kept_indexes(ledger: Ledger, table: str) -> frozenset[str]:
    """The names of the row indexes that the next copy of a table may need."""
    receipt = ledger.newest_receipt(table)
    index = RowIndex.from_fields(receipt.row_index) if receipt and receipt.row_index else None
    return frozenset() if index is None else frozenset({index.name})


def drop_index(lake: Lake, plan: ResolvedTable, receipt: Receipt | None) -> None:
    """Remove the row index of a copy that has a newer one after it; what stays goes as an
    orphan."""
    table = lake.load(plan.raw)
    index = RowIndex.from_fields(receipt.row_index) if receipt and receipt.row_index else None
    if table is None or index is None:
        return
    try:
        with lake.translated(plan.raw):
            table.io.delete(index_path(table.location(), index.name))
    except LakeError as error:
        logger.info("table %s: row index %s was not removed: %s", plan.name, index.name, error)
