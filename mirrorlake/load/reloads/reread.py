"""A repair's load: single keys, read again, and tombstones for those that MySQL has no more.

Its rows are observations like any other, later than all before them. What is to be read comes as
conditions, each one statement; what the lake holds under these keys says which tombstones are due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mirrorlake.errors import SourceError
from mirrorlake.load.attempt import Attempt
from mirrorlake.load.chunks.receipt import ChunkReceipt
from mirrorlake.load.chunks.statements import ChunkPlan
from mirrorlake.load.reloads.reload import Replacement, read_columns, write_tombstones
from mirrorlake.schema.own_columns import DAY, KEY, ORIGINAL
from mirrorlake.table.resolve import ResolvedTable


@dataclass(frozen=True)
class Reread:
    """What a repair reads again.

    Attributes:
        conditions: SQL of MySQL, each of some keys.
        held: reads the keys that the lake holds of those requested, as `key_columns` has them; it
            is called under the table's lease.
    """

    conditions: tuple[str, ...]
    held: Callable[[], pa.Table]


def key_columns(plan: ResolvedTable) -> list[str]:
    """The columns that identify a key: its own, the server's view of it, and the originals of parts
    that have no place in their type."""
    columns = list(plan.key)
    if plan.keeps_aliases:
        columns.append(KEY)
    if unplaced(plan):
        columns.append(ORIGINAL)
    return columns


def unplaced(plan: ResolvedTable) -> frozenset[str]:
    """Key columns whose values may have no place in their type."""
    originals = {exact.name for exact in plan.columns if exact.has_original}
    return frozenset(name for name in plan.key if name in originals)


def tombstones_of(
    attempt: Attempt, chunk: ChunkPlan, reread: Reread, receipts: Sequence[ChunkReceipt]
) -> Replacement:
    """The tombstones of the keys that the lake holds and MySQL did not return.

    Raises:
        SourceError: a row came back twice, in two statements, because it changed between them.
        LakeError: the lake could not be read or written.
    """
    plan = attempt.plan
    columns = key_columns(plan)
    paths = [path for receipt in receipts for path in receipt.paths]
    there: set[Any] = set()
    for path in paths:
        for identity in identities(plan, read_columns(attempt, chunk, path, columns)):
            if identity in there:
                raise SourceError(
                    f"table {plan.name}: a row changed its key while it was read again",
                    table=plan.name,
                    next_step="Nothing of this load is visible: repair it again",
                    retryable=True,
                )
            there.add(identity)
    held = reread.held()
    # One row a key: the lake may hold it twice, and that may be what is being repaired.
    rows = {identity: n for n, identity in enumerate(identities(plan, held))}
    gone = [n for identity, n in rows.items() if identity is not None and identity not in there]
    if not gone:
        return Replacement(looked_up=len(there))
    rows = _only_key_originals(plan, held.take(gone))
    day = pa.repeat(pa.scalar(attempt.load.window.day, pa.date32()), rows.num_rows)
    number = max(receipt.number for receipt in receipts) + 1
    written = write_tombstones(chunk, rows.append_column(DAY, day), receipts[-1], number)
    return Replacement(receipts=(written,), looked_up=len(there), gone=len(gone))


def identities(plan: ResolvedTable, keys: pa.Table) -> Iterator[Any]:
    """Each row's key, equal where two rows are of one key; None where that is not known."""
    if plan.keeps_aliases:
        yield from keys[KEY].to_pylist()
    else:
        yield from written(plan, keys)


def written(plan: ResolvedTable, keys: pa.Table) -> Iterator[Any]:
    """Each row's key as it is written: 'a' and 'A' are two, whatever the server says of them."""
    parts = unplaced(plan)
    columns = [_numbered(keys[name]).to_pylist() for name in plan.key]
    kept: Any = keys[ORIGINAL].to_pylist() if parts else [None] * keys.num_rows
    for row, entries in zip(zip(*columns, strict=True), kept, strict=True):
        of_key = sorted((e["column"], e["text"]) for e in entries or () if e["column"] in parts)
        yield (*row, *of_key)


def _numbered(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Days and moments as numbers: the lake may hold ones that Python's calendar lacks."""
    if pa.types.is_date32(cells.type):
        return cells.cast(pa.int32())
    return cells.cast(pa.int64()) if pa.types.is_timestamp(cells.type) else cells


def _only_key_originals(plan: ResolvedTable, keys: pa.Table) -> pa.Table:
    """A tombstone keeps the originals of its key, which tell it from others, and no other."""
    if ORIGINAL not in keys.column_names:
        return keys
    parts, at = unplaced(plan), keys.column_names.index(ORIGINAL)
    kept = [
        [e for e in entries or () if e["column"] in parts] or None
        for entries in keys[ORIGINAL].to_pylist()
    ]
    kind = keys.schema.field(ORIGINAL).type
    return keys.set_column(at, keys.schema.field(at), pa.array(kept, kind))
