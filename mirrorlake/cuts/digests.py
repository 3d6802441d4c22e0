"""Versions in the lake, digested as they were when their cut was proved: without MySQL.

Of deduped it is the digest that MySQL gave of its own rows (`mirrorlake.proof.forms.rows`), over
the columns as MySQL described them then. Of a clean table, which MySQL has no rows of, it is that
of its cells (`mirrorlake.proof.forms.cells`).

What belongs here: how a version is digested again. What doesn't: what its digest is compared with
(`mirrorlake.cuts.recheck`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.cuts.evidence import CutEvidence
from mirrorlake.cuts.ledger import CutTable
from mirrorlake.destinations.base import EVERY_ROW
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.errors import MirrorlakeError
from mirrorlake.proof.forms.canonical import DELETED_AT, ORIGINALS, SHORT, form_of
from mirrorlake.proof.forms.cells import digests_of, sum_of
from mirrorlake.proof.forms.rows import RowForm
from mirrorlake.proof.ranges.ranges import NOTHING, Tally, total
from mirrorlake.proof.ranges.target import Target
from mirrorlake.proof.sides.local_side import tally_rows
from mirrorlake.proof.sides.spark_side import LakeSide
from mirrorlake.sources.mysql.tables import Column, SourceTable
from mirrorlake.workspace import Workspace

pc: Any = _compute  # its functions are made at import: type checkers see none of them
CELLS: Final = 1
"""The number of `digests_of`: one that writes cells in another way has another."""
AT_ONCE: Final = 20_000
"""Rows of a clean table that are digested at once."""


class OtherForm(Exception):
    """This release writes rows in another way than the one that proved them."""


def evidence_of(target: Target, found: Tally) -> CutEvidence:
    """What is kept of deduped's version that was compared.

    Args:
        found: of the lake's rows.
    """
    names = {cell.name for cell in target.rows.cells}
    form = {
        "columns": [asdict(column) for column in target.table.columns if column.name in names],
        "originals": target.rows.originals,
        "flags": target.flags,
        "fingerprint": target.rows.fingerprint,
    }
    return CutEvidence(found.rows, found.digest, json.dumps(form))


def digest_clean(lake: Lake, one: CutTable) -> CutEvidence:
    """Digest a clean table's version.

    Raises:
        LakeError: the lake can't be read.
    """
    table, names = lake.load(one.identifier), list[str]()
    if table is not None and one.snapshot_id is not None:
        schema = table.scan(snapshot_id=one.snapshot_id).projection()
        names = sorted(field.name for field in schema.fields)
    found = _of_cells(lake, one, names)
    form = json.dumps({"cells": CELLS, "columns": names})
    return CutEvidence(found.rows, found.digest, form)


def digest_again(workspace: Workspace, one: CutTable, kept: CutEvidence) -> Tally:
    """Digest a version by the form that was kept of it.

    Raises:
        OtherForm: this release can't.
        LakeError: the lake can't be read.
    """
    form = json.loads(kept.form)
    if "cells" in form:
        if form["cells"] != CELLS:
            raise OtherForm
        return _of_cells(workspace.lake, one, form["columns"])
    columns = tuple(Column(**column) for column in form["columns"])
    rows = _row_form(columns, form)
    flags = bool(form["flags"])
    found = _of_rows(workspace.lake, one, columns, rows, flags=flags)
    if found is not None and found == Tally(kept.rows, kept.digest):
        return found
    # What DuckDB does not call equal is Spark's to say.
    side = LakeSide(one.identifier, one.snapshot_id, rows, (), "", flags=flags)
    with spark_errors(one.table):
        return total(side.read_groups(workspace.spark.get(), side.groups_sql("0")))


def _row_form(columns: Sequence[Column], form: dict[str, Any]) -> RowForm:
    for short in (SHORT, 0):
        try:
            cells = tuple(form_of(column, form["originals"], short) for column in columns)
        except MirrorlakeError as error:  # a type that this release refuses
            raise OtherForm from error
        if (found := RowForm(cells, form["originals"])).fingerprint == form["fingerprint"]:
            return found
    raise OtherForm


def _of_rows(
    lake: Lake, one: CutTable, columns: tuple[Column, ...], rows: RowForm, *, flags: bool
) -> Tally | None:
    """Rows and digest by DuckDB; None where only Spark can say it."""
    if one.snapshot_id is None:
        return NOTHING
    also = [ORIGINALS] if rows.originals else []
    also += [DELETED_AT] if flags else []
    names = [*(cell.name for cell in rows.cells), *also]
    table = SourceTable("", one.lake_table, "", columns, (), 0, ())
    batches = lake.scan(one.identifier, names, EVERY_ROW, one.snapshot_id) or iter(())
    return tally_rows(table, rows, _unflagged(batches) if flags else batches)


def count_flagged(lake: Lake, one: CutTable, kept: CutEvidence | None) -> int:
    """The rows of a version that keep a flag, which MySQL had no more: its digest has none of them.

    Raises:
        LakeError: the lake can't be read.
    """
    if kept is None or one.snapshot_id is None or not json.loads(kept.form).get("flags"):
        return 0
    batches = lake.scan(one.identifier, [DELETED_AT], EVERY_ROW, one.snapshot_id) or ()
    return sum(b.num_rows - b.column(DELETED_AT).null_count for b in batches)


def _unflagged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(pc.is_null(batch.column(DELETED_AT)))


def _of_cells(lake: Lake, one: CutTable, names: Sequence[str]) -> Tally:
    found = NOTHING
    if one.snapshot_id is None:
        return found
    for batch in lake.scan(one.identifier, names, EVERY_ROW, one.snapshot_id) or ():
        for start in range(0, batch.num_rows, AT_ONCE):
            rows = batch.slice(start, AT_ONCE)
            digests = digests_of([rows.column(name) for name in names], rows.num_rows)
            found += Tally(rows.num_rows, sum_of(digests))
    return found
