"""A chunk's rows as MySQL gave them, made exact: Arrow in the raw table's schema.

Pure but for the clock: nothing here reads or writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.errors import SourceError
from mirrorlake.load.chunks.statements import ChunkPlan, is_projected
from mirrorlake.proof.sides.server_hashes import HASH, numbers_of
from mirrorlake.schema.originals import gather_originals
from mirrorlake.schema.own_columns import (
    DAY,
    DELETED,
    KEY,
    LOAD,
    LOADED_AT,
    OF_EVENTS,
    ORIGINAL,
    POSITION,
    SEQ,
    TOKEN,
)
from mirrorlake.schema.versions import Exact
from mirrorlake.sources.mysql.reading.reader import WITNESS, other_session
from mirrorlake.sources.mysql.types.calendar import dates_of, datetimes_of

pc: Any = _compute  # its functions are made at import: type checkers see none of them

_DECODERS = {"date": dates_of, "datetime": datetimes_of}


def check_witness(plan: ChunkPlan, other: bool) -> None:
    if other:
        raise other_session(plan.source)


def _check_nothing_lost(plan: ChunkPlan, found: pa.Table) -> None:
    """See that every value that the server has arrived, as itself or as its original text, and that
    all that is computed of NOT NULL columns has a value."""
    filled = found.column(WITNESS).cast(pa.int64())
    check_witness(plan, pc.any(pc.less(filled, 0)).as_py() is True)
    arrived: Any = pa.repeat(pa.scalar(0, pa.int64()), found.num_rows)
    valid: dict[str, Any] = {}
    for number, exact in enumerate(plan.columns):
        if not is_projected(exact):
            continue
        there = found.column(f"c{number}").is_valid()
        if exact.original is not None:
            there = pc.or_(there, found.column(f"o{number}").is_valid())
        arrived = pc.add(arrived, there.cast(pa.int64()))
        valid[exact.name] = there
    lost = pc.not_equal(arrived, filled)
    if pc.any(lost).as_py():
        # Some of these may be NULL in MySQL, too: the server says how many are, not which.
        null = [n for n, there in valid.items() if not pc.all(there.filter(lost)).as_py()]
        _refuse_lost(plan, null or list(valid))
    for number, kept in enumerate(plan.equality_columns):
        if found.column(f"k{number}").null_count:
            _refuse_lost(plan, kept.of, kept.name)


def _refuse_lost(plan: ChunkPlan, columns: Sequence[str], computed: str = "") -> NoReturn:
    """Refuse rows in which NULL stands for what has a value.

    Args:
        computed: the column of ours that is computed of these columns, where they arrived and it
            did not.
    """
    names = ", ".join(map(repr, columns))
    what = f"{computed}, which is computed of {names}," if computed else f"a value of {names}"
    raise SourceError(
        f"reading {plan.database}.{plan.table} from source {plan.source.name}: {what} came as "
        "NULL, and is not: it is too large for the server's max_allowed_packet",
        source=plan.source.name,
        table=plan.name,
        column=columns[0],
        next_step="Raise max_allowed_packet in the server (a text in another charset than utf8mb4 "
        "needs twice its size, and one in a key that a collation compares several times)",
    )


def exact_rows(plan: ChunkPlan, found: pa.Table, position: str) -> pa.Table:
    """The chunk's rows in the raw table's schema, and the server's hash of each if it sent them; a
    value that does not fit is an error, never changed."""
    _check_nothing_lost(plan, found)
    rows = found.num_rows
    columns: dict[str, Any] = {}
    texts: dict[str, Any] = {}
    for number, exact in enumerate(plan.columns):
        wanted = plan.schema.field(exact.name).type
        values = found.column(f"c{number}")
        if exact.decode == "unscaled":
            values = _scaled(values, wanted)
        elif exact.decode:
            values, texts[exact.name] = _DECODERS[exact.decode](values)
        elif exact.original is not None:
            texts[exact.name] = found.column(f"o{number}").combine_chunks()
        columns[exact.name] = cast_exact(plan, exact, values, wanted)
    for number, (name, _, _) in enumerate(plan.equality_columns):
        columns[name] = found.column(f"k{number}")
    if any(e.has_original for e in plan.columns):
        columns[ORIGINAL] = gather_originals(texts, rows, plan.schema.field(ORIGINAL).type)
    exact = with_own_columns(plan, columns, rows, position)
    if plan.hashes is None:
        return exact
    return exact.append_column(HASH, numbers_of(found.column(HASH)))


def with_own_columns(
    plan: ChunkPlan, columns: Mapping[str, Any], rows: int, position: str
) -> pa.Table:
    """Exact values of ``rows`` rows in the raw table's schema, with what a load writes beside them.

    Args:
        columns: the table's, in the types of raw, what is known of the server's equality, and what
            of the load's own columns is another value in each row.
        position: the source's, just before they were read.
    """
    now = datetime.now(UTC)
    own: dict[str, Any] = {
        LOAD: _constant(plan.load_id, rows, pa.string()),
        SEQ: _constant(plan.seq, rows, pa.int64()),
        POSITION: _constant(position, rows, pa.string()),
        LOADED_AT: _constant(now, rows, pa.timestamp("us", "UTC")),
        DELETED: _constant(False, rows, pa.bool_()),
    }
    columns = {**own, **columns}
    if DAY not in columns:
        columns[DAY] = _days(plan, columns, rows)
    for field in plan.schema:
        if field.name not in columns and _may_lack(field.name):
            columns[field.name] = pa.nulls(rows, field.type)
    arrays = [
        columns[f.name].cast(f.type) if columns[f.name].type != f.type else columns[f.name]
        for f in plan.schema
    ]
    return pa.Table.from_arrays(arrays, schema=plan.schema)


def _may_lack(name: str) -> bool:
    """Whether a load may have nothing for a column of raw: an earlier load of this version needed
    it (the column's charset or collation was another), only rows of the log have it, or somebody
    else made it."""
    return name in (KEY, TOKEN, ORIGINAL, *OF_EVENTS) or not name.startswith("_mirror_")


def cast_exact(plan: ChunkPlan, exact: Exact, values: Any, wanted: pa.DataType) -> Any:
    """A column's values in the type of raw.

    Raises:
        SourceError: one does not fit.
    """
    try:
        return values.cast(wanted, safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # The error's own text holds the value: it may be personal.
        if exact.iceberg == "string" and pa.types.is_large_binary(values.type):
            raise SourceError(
                f"a value of {plan.database}.{plan.table}, column {exact.name!r}, holds bytes that "
                "are no text in the column's own charset",
                source=plan.source.name,
                table=f"{plan.source.name}.{plan.database}.{plan.table}",
                column=exact.name,
                next_step="Repair the value in MySQL, declare the column as binary, or mark it "
                "`pci: never` to leave it out",
            ) from None
        raise SourceError(
            f"a value of {plan.database}.{plan.table}, column {exact.name!r}, does not fit "
            f"{exact.iceberg}",
            source=plan.source.name,
            column=exact.name,
            next_step="Its type changed while it was read: sync again",
            retryable=True,
        ) from None


def _scaled(values: Any, kind: Any) -> Any:
    """Decimals from their digits as whole numbers (int64, and so at most 18 digits)."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    array = array.cast(pa.int64())
    whole = np.frombuffer(array.buffers()[1], dtype=np.int64)[array.offset :][: len(array)]
    halves = np.empty((len(array), 2), dtype=np.int64)
    halves[:, 0], halves[:, 1] = whole, whole >> 63
    if array.null_count and array.offset:
        array = pa.concat_arrays([array])
    validity = array.buffers()[0] if array.null_count else None
    return pa.Array.from_buffers(kind, len(array), [validity, pa.py_buffer(halves)])


def _constant(value: Any, rows: int, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), rows)


def _days(plan: ChunkPlan, columns: dict[str, Any], rows: int) -> Any:
    today = _constant(plan.day, rows, pa.date32())
    if plan.day_column is None:
        return today
    # A cursor without a place in the calendar (a zero date) belongs to the day that loaded it.
    return pc.coalesce(columns[plan.day_column].cast(pa.date32(), safe=False), today)
