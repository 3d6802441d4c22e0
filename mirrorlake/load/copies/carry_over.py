"""Rows that deduped holds and MySQL still has as they are: a first load carries them over.

DDL can change any value, so a table whose columns changed is loaded as a whole. But most of its
rows are those that deduped holds, and a new column has one value in all of them, whatever its
default is. So MySQL digests a chunk; the rows that deduped has there, with the new column's value
of a row that was read, are digested here. Where both digests are equal, these rows are the chunk's,
and none is sent. Where they are not, the chunk is read like any other.

Nothing of deduped is trusted: a row that MySQL has no more, or has otherwise, makes a difference.
The load is then proved as ever before it is visible, from the files that were written.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as _compute
from pymysql.connections import Connection

from mirrorlake.destinations.base import Condition, Identifier
from mirrorlake.destinations.iceberg.commits.data_files import PartFiles
from mirrorlake.destinations.iceberg.model import column_names
from mirrorlake.destinations.iceberg.tables.integrity import find_damage
from mirrorlake.errors import LakeError, ReadGivenUp, SourceBusy, SourceError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Window
from mirrorlake.load.attempt import Attempt, LoadTerms
from mirrorlake.load.chunks.chunk_task import ChunkTally, removed_on_failure
from mirrorlake.load.chunks.convert import exact_rows, with_own_columns
from mirrorlake.load.chunks.receipt import ChunkReceipt
from mirrorlake.load.chunks.select_rows import gathered, look_at, read_rows
from mirrorlake.load.chunks.statements import ChunkPlan, held_statement, select_statement
from mirrorlake.proof.comparing.load_proof import tally_table
from mirrorlake.proof.forms.rows import RowForm
from mirrorlake.proof.ranges.ranges import NOTHING, Tally
from mirrorlake.schema.own_columns import DELETED_AT, ORIGINAL
from mirrorlake.sources.mysql.reading.limits import reading
from mirrorlake.sources.mysql.reading.route import Heed
from mirrorlake.sources.mysql.sessions.connect import SourcePosition, rows_of, session
from mirrorlake.sources.mysql.types.registry import INTEGERS
from mirrorlake.table.progress import Pace
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

pc: Any = _compute  # its functions are made at import: type checkers see none of them

CHUNK_ROWS = 500_000
"""Rows of a chunk that may be carried over: one row that differs has all of them read."""
_SLOW_ROWS = 50_000
"""Rows that are digested here in a second: rows that a source may send faster are read."""
_MOST_MISSES = 3
"""Once the chunks that differ outnumber those that are equal by this many, the rest is read."""
SUFFIX = "h"
"""What the names of files of such a chunk have after its number."""


@dataclass(frozen=True)
class Carrying:
    """What rows of deduped are taken for those of a version.

    Attributes:
        rows: the form by which both sides digest a row.
        key: the leading column of the key: integers, which both sides order alike.
        names: columns of the version → what deduped calls them; those that it lacks are not there.
        there: all columns of deduped.
    """

    deduped: Identifier
    rows: RowForm
    key: str
    names: Mapping[str, str]
    there: frozenset[str]


def plan_carrying(
    workspace: Workspace,
    plan: ResolvedTable,
    window: Window,
    terms: LoadTerms,
    rows: RowForm | None,
) -> Carrying | None:
    """What a load may carry over; None where it reads everything.

    Only where the source is read slowly (``rows_per_second``): else reading takes less time. Only
    first loads that are proved, of a table with rows in deduped whose key begins with an integer.
    Not where a new history begins: what deduped holds may be another table's, and nobody would look
    at it.
    """
    if plan.source.rows_per_second is None or plan.source.rows_per_second > _SLOW_ROWS:
        return None
    if rows is None or window.kind != "initial" or not plan.key or plan.entity is not None:
        return None
    if terms.continuity is None or terms.continuity.begins or plan.keeps_aliases:
        return None
    if plan.table.engine.lower() != "innodb":
        return None
    if plan.table.column(plan.key[0]).data_type not in INTEGERS:
        return None
    table = workspace.lake.load(plan.deduped)
    if table is None or table.current_snapshot() is None:
        return None
    there = column_names(table.schema())
    found = {exact.name: plan.name_in(there, exact.name) for exact in plan.columns}
    names = {name: then for name, then in found.items() if then is not None}
    if not names.keys() >= set(plan.key):
        return None
    return Carrying(plan.deduped, rows, plan.key[0], names, frozenset(there))


def carry_over(
    attempt: Attempt, carrying: Carrying, chunks: Sequence[ChunkPlan], pace: Pace, heed: Heed
) -> Iterator[ChunkReceipt]:
    """Receipts of the chunks whose rows are those that deduped holds, their files written.

    Args:
        heed: raises to give the load up.

    Where deduped can't be read, the rest is read from MySQL: only a table that was loaded can be
    made again (`mirrorlake.operations.repairing.refold`).

    Raises:
        LakeError: a file could not be written.
        ReadGivenUp: by ``heed``.
        SourceBusy: it did not come to rest.
    """
    try:
        yield from _carried(attempt, carrying, chunks, pace, heed)
    except (SourceBusy, ReadGivenUp):
        raise
    except _Unreadable as error:
        name = attempt.plan.name
        damage = find_damage(attempt.workspace.lake, carrying.deduped)
        logger.warning(
            "table %s: stopped carrying rows over: its deduped table %s can't be read: %s. Once "
            "this load is in raw, `mirrorlake refold %s` makes it again",
            *(name, carrying.deduped, damage or error, name),
        )
    except SourceError as error:
        heed()  # a statement that was ended because it was in the way
        logger.warning("table %s: stopped carrying rows over: %s", attempt.plan.name, error)


def _carried(
    attempt: Attempt, carrying: Carrying, chunks: Sequence[ChunkPlan], pace: Pace, heed: Heed
) -> Iterator[ChunkReceipt]:
    misses = rows = 0
    new: Mapping[str, Any] | None = None
    with reading(attempt.plan.source), session(attempt.plan.source) as connection:
        for chunk in chunks:
            heed()
            seen = look_at(connection, chunk)
            new = _new_values(carrying, chunk, seen, heed) if new is None else new
            if new is None:
                misses += 1  # a chunk without rows shows no value
                continue
            found = _carry(attempt, carrying, _Chunk(chunk, seen, connection, new))
            if found is not None:
                misses -= 1
                rows += found.rows
                pace.advance(found.rows, 0)
                yield found
                continue
            misses += 1
            new = None  # of another chunk: this one's row may be one that was changed since
            if misses > _MOST_MISSES:
                break
    logger.info(
        "table %s load %s: %d rows are in MySQL as deduped holds them: they were digested there, "
        "and not sent",
        *(attempt.plan.name, attempt.load.load_id, rows),
    )


@dataclass(frozen=True)
class _Chunk:
    """One chunk that may be carried over.

    Attributes:
        seen: where the server was just before it is digested.
        new: the values of columns that deduped lacks, in a row of the table.
    """

    plan: ChunkPlan
    seen: SourcePosition
    connection: Connection[Any]
    new: Mapping[str, Any]


def _new_values(
    carrying: Carrying, chunk: ChunkPlan, seen: SourcePosition, heed: Heed
) -> Mapping[str, Any] | None:
    """The values of columns that deduped lacks in some row of a chunk; None where it has no row.

    They are read like any row's, so that they are what a load would write. That they are all
    rows' is a guess, which the digest decides.
    """
    lacking = [exact.name for exact in chunk.columns if exact.name not in carrying.names]
    if not lacking:
        return {}

    def one_row(own: int | None) -> str:
        return f"{select_statement(chunk, seen, own)} LIMIT 1"

    found = pa.concat_tables(list(read_rows(chunk, one_row, seen, None, heed)))
    if not found.num_rows:
        return None
    row = exact_rows(chunk, found, seen.position)
    return {name: row.column(name)[0] for name in lacking}


def _carry(attempt: Attempt, carrying: Carrying, chunk: _Chunk) -> ChunkReceipt | None:
    """Write the rows of a chunk as deduped has them; None, and nothing, where MySQL has others."""
    # No row comes, and so none with its hash: the server adds them up.
    digest = carrying.rows.source_digest
    plan = dataclasses.replace(chunk.plan, task=SUFFIX, hashes=None, digest=digest)
    tally = ChunkTally(plan, chunk.seen)
    [(count, digest, low, high)] = rows_of(chunk.connection, held_statement(plan, carrying.key))
    tally.end_of_query()
    expected = Tally(int(count), int(digest or 0))
    if not expected.rows:
        return None
    held = _held(attempt.workspace, carrying, Condition(carrying.key, int(low), int(high)))
    files = PartFiles(plan.storage, plan.location, plan.stem, plan.schema, plan.iceberg)
    with removed_on_failure(plan, files):
        found = NOTHING
        for batch in gathered(held):
            rows = _as_raw(carrying, chunk, batch)
            if rows is None or found.rows + rows.num_rows > expected.rows:
                break
            found += _digested(attempt, carrying.rows, rows)
            files.add(rows)
            tally.add(rows)
        if found != expected:
            files.discard()
            return None
        written = files.finish()
        failpoint("chunk.carried")
    return dataclasses.replace(
        tally.receipt(written),
        source_rows=expected.rows,
        source_digest=expected.digest,
        read_bytes=0,
        carried=expected.rows,
    )


class _Unreadable(Exception):
    """Deduped can't be read."""


def _held(workspace: Workspace, carrying: Carrying, rows: Condition) -> Iterator[pa.Table]:
    """What deduped shows of these keys, but rows that are marked as deleted.

    Raises:
        _Unreadable: a file of it is not there, or is cut.
    """
    try:
        yield from _held_rows(workspace, carrying, rows)
    except (LakeError, OSError, pa.ArrowInvalid) as error:
        raise _Unreadable(str(error)) from error


def _held_rows(workspace: Workspace, carrying: Carrying, rows: Condition) -> Iterator[pa.Table]:
    names = [*carrying.names.values()]
    names += [name for name in (ORIGINAL, DELETED_AT) if name in carrying.there]
    rows = dataclasses.replace(rows, column=carrying.names[rows.column])
    for batch in workspace.lake.scan(carrying.deduped, names, rows) or ():
        found = pa.Table.from_batches([batch])
        if DELETED_AT in carrying.there:
            found = found.filter(pc.is_null(found.column(DELETED_AT)))
        yield found


def _as_raw(carrying: Carrying, chunk: _Chunk, found: pa.Table) -> pa.Table | None:
    """Rows of deduped as the chunk would have written them; None where they have no place there."""
    plan, count = chunk.plan, found.num_rows
    columns: dict[str, Any] = {name: found.column(then) for name, then in carrying.names.items()}
    columns |= {name: pa.repeat(value, count) for name, value in chunk.new.items()}
    if ORIGINAL in carrying.there and ORIGINAL in plan.schema.names:
        columns[ORIGINAL] = _originals(carrying, found.column(ORIGINAL))
    try:
        cast = {name: cells.cast(plan.schema.field(name).type) for name, cells in columns.items()}
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return with_own_columns(plan, cast, count, chunk.seen.position)


def _originals(carrying: Carrying, texts: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Original texts under the names that their columns have now, sorted by them; those of columns
    that are gone are left out. The digest of a chunk has these texts in it: one under a wrong name
    has the chunk read."""
    now = {then: name for name, then in carrying.names.items()}
    own = {name for name in carrying.there if not name.startswith("_mirror_")}
    if own <= now.keys() and all(then == name for then, name in now.items()):
        return texts

    def renamed(entries: list[dict[str, str]]) -> list[dict[str, str]] | None:
        kept = [{**one, "column": now[one["column"]]} for one in entries if one["column"] in now]
        return sorted(kept, key=lambda one: one["column"]) or None

    values = [None if entries is None else renamed(entries) for entries in texts.to_pylist()]
    return pa.chunked_array([pa.array(values, texts.type)])


def _digested(attempt: Attempt, form: RowForm, rows: pa.Table) -> Tally:
    names = [cell.name for cell in form.cells] + ([ORIGINAL] if form.originals else [])
    get: Callable[[], Any] = attempt.workspace.spark.get
    return tally_table(get, attempt.plan.table, form, rows.select(names))
