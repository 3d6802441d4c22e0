"""The pandera schema of a layer, made from the table's contract and its columns in MySQL.

It says, per column: that it is there and no other, its type, its range or length as MySQL declares
it, whether it may be NULL (a value that has no place in its column is NULL, and then its original
stands beside it), and what the rules of clean leave of it. It is checked with pandera's pandas
backend over Arrow columns: the rows come as batches of one data file, are not copied, and no Spark
is started (`pandera.pyspark` would need a session, and a job per column).

That a key stands in one row only is `unique_key`'s business: no batch can see it alone.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pandera.pandas as pa_checks
import pyarrow as pa
import pyarrow.compute as _compute
from pandera.config import ValidationDepth, config_context
from pandera.errors import SchemaErrorReason

from dagster_mirrorlake.checks.ranges import by_arrow, promises
from mirrorlake.destinations.iceberg.model import LakeSchema, arrow_schema
from mirrorlake.destinations.iceberg.tables.schemas import current_schema
from mirrorlake.errors import LakeError
from mirrorlake.merge.statements import Layer, clean_layer, deduped_layer
from mirrorlake.schema.own_columns import DELETED_AT, ORIGINAL
from mirrorlake.schema.versions import Exact
from mirrorlake.sources.mysql.tables import Column
from mirrorlake.table.resolve import ResolvedTable

pc: Any = _compute  # its functions are made at import: type checkers see none of them
_VERSION = 2
"""Grows when more is required of rows, here or in `checks.ranges`."""
_ROWS_PER_LOOK = 100_000
_VERDICTS = (
    SchemaErrorReason.COLUMN_NOT_IN_DATAFRAME,
    SchemaErrorReason.COLUMN_NOT_IN_SCHEMA,
    SchemaErrorReason.DATAFRAME_CHECK,
    SchemaErrorReason.SERIES_CONTAINS_NULLS,
    SchemaErrorReason.WRONG_DATATYPE,
)
"""What pandera says of a table that it has looked at; anything else is a failure to look."""
_MASKED = r"\*{8}(?s:..)?"
_HASHED = r"[0-9a-f]{64}"


@dataclass(frozen=True)
class Broken:
    """One thing that rows (or the table itself) do not keep, and how many cells break it."""

    column: str
    what: str
    cells: int


def build_schema(plan: ResolvedTable, layer: Layer) -> pa_checks.DataFrameSchema:
    """The schema of deduped or clean, as `deduped_layer` and `clean_layer` name its columns."""
    types = arrow_types(current_schema(layer.stored, layer.original is not None))
    exact = {e.name: e for e in plan.columns}
    with_originals = layer.original is not None
    columns = {
        name: _column(plan, layer, exact[name], types[name], with_originals)
        for name, _, _ in layer.columns
    }
    if layer.flags:
        columns[DELETED_AT] = pa_checks.Column(pd.ArrowDtype(types[DELETED_AT]), nullable=True)
    whole: list[pa_checks.Check] = []
    if with_originals:
        columns[ORIGINAL] = pa_checks.Column(pd.ArrowDtype(types[ORIGINAL]), nullable=True)
        kept = [e for e in plan.columns if e.has_original and e.name in columns]
        whole = [check for e in kept if not _rule(plan, layer, e) for check in _paired(plan, e)]
    return pa_checks.DataFrameSchema(columns, checks=whole, strict=True, name=str(layer.identifier))


def layer_of(plan: ResolvedTable, name: str) -> Layer:
    """`deduped` or `clean` of a table."""
    return deduped_layer(plan) if name == "deduped" else clean_layer(plan)


def fingerprint(plan: ResolvedTable, layer: Layer) -> str:
    """A text that changes with whatever `build_schema` reads: rows that passed need no second
    look while it stays."""
    said = (plan.table.columns, sorted(plan.clean_rules.items()), plan.key, layer, _VERSION)
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]


def find_broken(
    schema: pa_checks.DataFrameSchema, table: LakeSchema, batches: Iterable[pa.RecordBatch]
) -> tuple[list[Broken], int]:
    """What a lake table does not keep of its schema, and how many rows were looked at.

    Its columns and types come first; rows are only looked at where these are right.
    """
    empty = _frame(arrow_schema(table, field_ids=False).empty_table())
    # Only columns and types: a check of values is meant for those of the right type.
    found = Counter(_failures(schema, empty, ValidationDepth.SCHEMA_ONLY))
    rows = 0
    for some in () if found else _gathered(batches):
        rows += some.num_rows
        found.update(_failures(schema, _frame(some)))
    return [Broken(c, what, n) for (c, what), n in sorted(found.items())], rows


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Small batches together: each look of pandera costs as much as some ten thousand rows."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(b.num_rows for b in held) >= _ROWS_PER_LOOK:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def arrow_types(schema: LakeSchema) -> Mapping[str, pa.DataType]:
    """The Arrow types in which rows of an Iceberg schema are read."""
    arrow = arrow_schema(schema, field_ids=False)
    return {field.name: field.type for field in arrow}


def _frame(rows: pa.Table) -> pd.DataFrame:
    return rows.to_pandas(types_mapper=pd.ArrowDtype)


def _failures(
    schema: pa_checks.DataFrameSchema,
    frame: pd.DataFrame,
    depth: ValidationDepth = ValidationDepth.SCHEMA_AND_DATA,
) -> Iterator[tuple[str, str]]:
    """(column, what) of each failing cell. Their values stay where they are.

    Raises:
        LakeError: a check could not be carried out.
    """
    try:
        # Whatever pandera's environment variables say: rows that nobody looked at are not good.
        with config_context(validation_enabled=True, validation_depth=depth):
            schema.validate(frame, lazy=True)
    except pa_checks.errors.SchemaErrors as errors:
        if (cannot := _not_carried_out(schema, errors)) is not None:
            # Not chained: pandera and Arrow quote values.
            raise cannot from None
        for case in errors.failure_cases.itertuples():
            if case.check == "column_in_dataframe":
                yield str(case.failure_case), "is missing"
            elif case.check == "column_in_schema":
                yield str(case.failure_case), "is not to be there"
            elif str(case.check).startswith("dtype"):
                yield str(case.column), f"has type {case.failure_case}"
            elif case.check == "not_nullable":
                yield str(case.column), "is NULL"
            else:
                # Checks of the whole frame are reported once per cell of the failing row.
                name, _, what = str(case.check).rpartition("\0")
                if not name:
                    yield str(case.column), what
                elif case.column == name:
                    yield name, what


def _not_carried_out(
    schema: pa_checks.DataFrameSchema, errors: pa_checks.errors.SchemaErrors
) -> LakeError | None:
    """The error for a check that ended in an exception, which pandera reports as a failed cell."""
    for error in errors.schema_errors:
        if error.reason_code in _VERDICTS:
            continue
        cause = str(error.failure_cases).partition("(")[0]
        check = getattr(error.check, "name", None) or str(error.reason_code)
        column, _, what = str(check).rpartition("\0")
        column = column or str(error.column_name or getattr(error.schema, "name", ""))
        return LakeError(
            f"the contract of {schema.name}.{column} can't be checked: "
            f'the check "{what}" ended in {cause}',
            column=column,
            next_step="Nothing is known of its rows. Report this with the column's type",
        )
    return None


# --- columns --------------------------------------------------------------------------------------


def _rule(plan: ResolvedTable, layer: Layer, exact: Exact) -> str | None:
    return plan.clean_rules.get(exact.name) if layer.name == "clean" else None


def _column(
    plan: ResolvedTable, layer: Layer, exact: Exact, kind: pa.DataType, with_originals: bool
) -> pa_checks.Column:
    rule, source = _rule(plan, layer, exact), plan.table.column(exact.name)
    # A NULL with an original beside it is looked for in the whole row (`_paired`).
    excused = exact.has_original and (with_originals or rule is not None)
    nullable = rule == "null" or excused or (source.nullable and exact.name not in plan.key)
    checks = list(_shape(rule) if rule else _range(source))
    return pa_checks.Column(pd.ArrowDtype(kind), nullable=nullable, checks=checks)


def _shape(rule: str) -> Iterator[pa_checks.Check]:
    """What a rule leaves of a value."""
    if rule == "null":
        yield _check("is not NULL", lambda cells: cells.isna(), ignore_na=False)
    elif rule == "mask":
        yield _check("is not masked", lambda cells: cells.str.fullmatch(_MASKED))
    elif rule == "hash":
        yield _check("is not hashed", lambda cells: cells.str.fullmatch(_HASHED))


def _range(source: Column) -> Iterator[pa_checks.Check]:
    """What MySQL's own declaration of the column promises of each value."""
    for promise in promises(source):
        yield _check(promise.broken, by_arrow(promise.holds))


def _paired(plan: ResolvedTable, exact: Exact) -> Iterator[pa_checks.Check]:
    """Originals and values of one column: none beside a value, one beside a NULL that MySQL can't
    have."""
    name = exact.name
    if not exact.keeps_value:
        yield _row_check(
            name, "has an original beside a value", lambda f: f[name].isna() | ~_has(f, name)
        )
    if not plan.table.column(name).nullable:
        yield _row_check(
            name, "is NULL without an original", lambda f: f[name].notna() | _has(f, name)
        )


def _has(frame: pd.DataFrame, name: str) -> Any:
    """Which rows keep an original of a column."""
    entries: Any = frame[ORIGINAL].array
    lengths = pc.list_value_length(pa.array(entries, entries.dtype.pyarrow_dtype))
    kept = pc.fill_null(pc.greater(lengths, 0), False).to_numpy(zero_copy_only=False).copy()
    for row in kept.nonzero()[0]:
        kept[row] = any(entry["column"] == name for entry in entries[row])
    return pd.Series(kept, index=frame.index, dtype=bool)


def _check(what: str, holds: Callable[[Any], Any], *, ignore_na: bool = True) -> pa_checks.Check:
    return pa_checks.Check(holds, name=what, error=what, ignore_na=ignore_na)


def _row_check(column: str, what: str, holds: Callable[[Any], Any]) -> pa_checks.Check:
    text = f"{column}\0{what}"
    return pa_checks.Check(holds, name=text, error=text, ignore_na=False)
