"""Does the published table of a landing match the snapshots that it is folded from?

What belongs here: which files can be read, the verdict, and its row in the ledger. What doesn't:
how rows are compared (`mirrorlake.landing.fold.trace`).
"""

from __future__ import annotations

import functools
import hashlib
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import mirrorlake
from mirrorlake.config import TableContract
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.errors import LakeError, LandingError
from mirrorlake.landing.files.land import TakenSnapshot, is_verdict, open_taken
from mirrorlake.landing.files.listing import Place, place_of
from mirrorlake.landing.fold import differences, row_texts, trace
from mirrorlake.landing.fold.contract import snapshot_table
from mirrorlake.landing.fold.folded_columns import as_columns_of, tables_as_folded
from mirrorlake.landing.fold.shape import SnapshotTable
from mirrorlake.landing.fold.state import MOST, State, read_state
from mirrorlake.landing.fold.trace import Traced, trace_table
from mirrorlake.landing.ledger import LandedSnapshots
from mirrorlake.landing.rolled_back import find_withdrawn
from mirrorlake.ledger import LayerProof
from mirrorlake.proof.comparing.evidence import formatter_of
from mirrorlake.proof.forms.differences import Difference, Formatter
from mirrorlake.runtime.plural import plural
from mirrorlake.sources.files.tasks import landing_errors
from mirrorlake.table.columns.new_columns import held_columns
from mirrorlake.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LAYER = "deduped"
"""Under this layer the verdict is kept in the ledger."""
_LISTED = 3
"""Snapshots that can't be read and are named, each with its reason, at most."""


@dataclass
class _Opened:
    """The folded snapshots of one table: frames of those that can be read, reasons of the others,
    by number."""

    frames: dict[int, DataFrame]
    unread: dict[int, str]
    taken: list[TakenSnapshot]


def check_snapshots(workspace: Workspace, contract: TableContract, most: int = 1_000) -> Traced:
    """Trace every row of what readers see to the files of the snapshots that it is folded from, and
    keep the verdict in the ledger.

    Every such snapshot whose files are as they were taken is read once, and once more where rows
    differ. What one that is gone might have said is undecided.

    Raises:
        LandingError: the landing can't be reached, or its files changed while they were read.
        LakeError: nothing was published yet, or it can't be read.
        LedgerError: the ledger can't be read or written.
    """
    # By the clock that says when a snapshot was published.
    begun, at = time.monotonic(), workspace.ledger.clock()
    find_withdrawn(workspace.lake, workspace.ledger, contract)
    place = place_of(workspace.config, contract)
    now = snapshot_table(contract, place.schema())
    rows, version, state = _shown(workspace, now)
    variants = tables_as_folded(rows, now)
    table = variants.get(state.taken[-1].columns)
    if table is None:
        why = "was folded under another key or other columns than the contract has now"
        opened = _Opened({}, {one.id: why for one in state.taken}, [])
        table = _only_there(rows, now)
    else:
        opened = _open(workspace, contract, place, state, table, variants)
    with landing_errors(contract.name):
        spark = workspace.spark.get()
        found = trace_table(spark, table, version, state, opened.frames, opened.unread, most)
        for taken in opened.taken:
            taken.check_files()  # Spark reads Parquet itself, whatever was written there since
    workspace.ledger.record_layer_proofs([_proof(contract, found, at, time.monotonic() - begun)])
    return found


def _shown(workspace: Workspace, table: SnapshotTable) -> tuple[LakeTable, int, State]:
    """What readers see: the lake's table, its version, and the snapshots in it.

    Raises:
        LakeError: nothing was published yet.
    """
    rows = workspace.lake.load(table.identifier)
    head = rows.current_snapshot() if rows is not None else None
    state = read_state(rows) if rows is not None else State()
    if rows is None or head is None or state.newest is None:
        raise LakeError(
            f"table {table.name} holds no snapshot yet",
            table=table.name,
            next_step="Fold one first: `mirrorlake land`",
        )
    return rows, head.snapshot_id, state


def _only_there(rows: LakeTable, table: SnapshotTable) -> SnapshotTable:
    """The table with the columns that the lake's has; its key may be what is not there."""
    names = {field.name for field in rows.schema().fields}
    if not set(table.key) <= names:
        raise LakeError(
            f"table {table.name}: the lake's table has no column {table.key[0]!r} of its key",
            table=table.name,
            next_step="The contract's key is another one since: fold a new snapshot first",
        )
    columns = tuple((name, kind) for name, kind in table.columns if name in names)
    day = table.day if table.day in names else None
    window = table.retention_days if day else None
    return replace(table, columns=columns, day=day, retention_days=window)


def _open(
    workspace: Workspace,
    contract: TableContract,
    place: Place,
    state: State,
    table: SnapshotTable,
    variants: dict[str, SnapshotTable],
) -> _Opened:
    """Open the snapshots of a state, by the columns that each was folded under."""
    found = _Opened({}, {}, [])
    ids: dict[int, list[int]] = {}
    for record in LandedSnapshots(workspace.ledger).snapshots(contract.name):
        if record.number is not None and record.state in ("landed", "published"):
            ids.setdefault(record.number, []).append(record.id)
    for one in state.taken:
        before = variants.get(one.columns)
        if before is None:
            found.unread[one.id] = "was folded under another key or other columns"
            continue
        if one.id not in ids:
            found.unread[one.id] = "is not in the ledger"
            continue
        try:
            taken = _take(workspace, place, ids[one.id], before)
            with landing_errors(contract.name):
                frame = taken.frame(workspace.spark.get())
        except LandingError as error:
            if not is_verdict(error):
                raise
            found.unread[one.id] = error.message
        else:
            found.taken.append(taken)
            found.frames[one.id] = as_columns_of(frame, before, table)
    return found


def _take(
    workspace: Workspace, place: Place, ids: Sequence[int], before: SnapshotTable
) -> TakenSnapshot:
    """The first of the ids of one number whose files are those that were taken.

    Raises:
        LandingError: none has them; what is wrong with the last.
    """
    for id in ids:
        try:
            (taken,) = open_taken(place, workspace.ledger, [id])
            taken.check_files()
        except LandingError as error:
            if id == ids[-1] or not is_verdict(error):
                raise
            continue
        schema = taken.reading.schema
        types = dict(before.columns)
        columns = tuple(
            replace(column, iceberg=types[column.name])
            for column in schema.columns
            if column.name in types
        )
        gone = [column.name for column in schema.columns if column.name not in types]
        left_out = (*schema.left_out, *gone)
        reading = replace(taken.reading, schema=replace(schema, columns=columns, left_out=left_out))
        return replace(taken, reading=reading)
    raise ValueError("no id")


# --- in words -------------------------------------------------------------------------------------


def compared_words(found: Traced) -> str:
    """What was compared, with its size."""
    read = found.snapshots - len(found.unread)
    kept = f", {found.kept:,} of them not in the newest snapshot" if found.kept else ""
    held = plural(found.snapshots, "snapshot")
    return f"{plural(found.rows, 'row')}{kept}, with the files of {read:,} of {held}"


def verdict_words(found: Traced) -> str:
    """How many rows differ, and how many can't be decided; '' where the table is equal."""
    kinds = {"missing": found.missing, "extra": found.extra, "changed": found.changed}
    parts = [f"{count:,} {kind}" for kind, count in kinds.items() if count]
    if found.undecided:
        parts.append(f"{found.undecided:,} undecided")
    if found.undecided_since:
        parts.append(f"{found.undecided_since:,} undecided in _mirror_snapshot alone")
    return ", ".join(parts)


def unread_words(found: Traced) -> list[str]:
    """Why snapshots can't be read: a line for each of the newest, and how many more there are."""
    listed = sorted(found.unread.items(), reverse=True)
    lines = [f"snapshot {number}: {reason}" for number, reason in listed[:_LISTED]]
    more = len(listed) - _LISTED
    return [*lines, f"and {more:,} older snapshots"] if more > 0 else lines


def landed_formatter(
    workspace: Workspace, contract: TableContract, *, shown: bool = False
) -> Formatter:
    """Describes a table's differences; ``shown``: with the values of columns that clean hides."""
    names = [column.name for column in place_of(workspace.config, contract).schema().columns]
    held = held_columns(workspace.ledger, workspace.lake, contract, names)
    return formatter_of(workspace.config, contract, shown=shown, held=held)


def difference_lines(formatter: Formatter, found: Iterable[Difference]) -> list[str]:
    """The lines that say what differs: one a field, or one for the row."""
    lines: list[str] = []
    for one in found:
        key = ", ".join(f"{value.column}={formatter.value(value)}" for value in one.key)
        if one.kind != "changed":
            lines.append(f"{one.kind} ({key}){one.note}")
        lines += [
            f"changed ({key}): `{field.source.column}` does not match between {one.note} "
            f"(val={formatter.value(field.source)}) and the lake "
            f"(val={formatter.value(field.lake)})"
            for field in one.fields
        ]
    return lines


def _proof(contract: TableContract, found: Traced, at: datetime, seconds: float) -> LayerProof:
    reasons = "; ".join(unread_words(found))
    words = verdict_words(found)
    # Of more, the table knows the newest alone: how many were published says nothing of it.
    more = f" and {found.snapshots - 1} more" if found.snapshots < MOST else ""
    return LayerProof(
        check_id=uuid.uuid4().hex,
        table=contract.name,
        layer=LAYER,
        verdict=found.verdict,
        words=f"{words} ({reasons})" if words and reasons else words,
        compared=compared_words(found),
        rows=found.rows,
        digest="",
        expected_rows=found.rows + found.missing - found.extra,
        expected_digest="",
        snapshots=f"snapshot {found.snapshot}{more}, lake version {found.version}",
        through_seq=0,
        code=_code(),
        started_at=at,
        seconds=round(seconds, 3),
    )


@functools.cache
def _code() -> str:
    """Mirrorlake's version, and a hash of the code that compares."""
    digest = hashlib.sha256()
    for module in (trace, row_texts, differences):
        digest.update(Path(str(module.__file__)).read_bytes())
    return f"{mirrorlake.__version__}+{digest.hexdigest()[:12]}"


# --- counted --------------------------------------------------------------------------------------


def count_newest(workspace: Workspace, contract: TableContract) -> tuple[int, int, int, bool]:
    """(the newest snapshot's rows inside its window, the table's rows, those of them that it lacks,
    whether its copies of one key were resolved), without Spark.

    Raises:
        LakeError: nothing was published yet, or it can't be read.
    """
    table = snapshot_table(contract, place_of(workspace.config, contract).schema())
    _, _, state = _shown(workspace, table)
    rows = workspace.lake.count_rows(table.identifier) or 0
    newest = state.newest
    held = newest.totals.n if newest else 0
    return held, rows, _count_missing(workspace, table, state), table.duplicates == "resolved"


def _count_missing(workspace: Workspace, table: SnapshotTable, state: State) -> int:
    side = workspace.lake.load(table.missing_rows)
    if side is None or state.missing is None:
        return 0
    # Keys whose day has left the window may still be listed.
    kept = f"missed_day >= '{state.floor}' OR missed_day IS NULL" if state.floor else None
    with workspace.lake.translated(table.missing_rows):
        scan = side.scan(snapshot_id=state.missing)
        return (scan.filter(kept) if kept else scan).count()
