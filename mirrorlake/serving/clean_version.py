"""One committed version of a table's clean layer, to be read: all of its rows, or those of some
days.

What belongs here: which version that is, whether it may be shown, and reading it. A clean table is
read by PyIceberg, without a JVM; a clean view is Spark's alone to read. Both give the same values
in the same Arrow types.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.config.contract import TableContract
from mirrorlake.destinations.base import EVERY_ROW, Identifier, as_sql_identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeSchema, LakeTable, arrow_schema
from mirrorlake.destinations.iceberg.reading.stream import count_unset, read_rows
from mirrorlake.destinations.iceberg.spark.session import spark_errors
from mirrorlake.destinations.iceberg.tables.views import read_view
from mirrorlake.errors import ConfigError, LakeError
from mirrorlake.merge.row_sql.conversions import spark_type
from mirrorlake.merge.statements import clean_column
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.serving.clean_days import DayColumn, Period, day_column, refuse_parts_of_days
from mirrorlake.table.lake_tables import clean_of, deduped_of, deduped_table
from mirrorlake.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pc: Any = _compute  # its functions are made at import: type checkers see none of them

Undated = Literal["refuse", "skip"]
"""What becomes of rows without a date, when days are requested."""

_MESSAGE = "message"


@dataclass(frozen=True)
class CleanVersion:
    """A version of clean that no later commit changes; made by `open_clean`.

    Read twice it is the same rows twice, in no order.

    Attributes:
        schema: clean's columns in Arrow, the same for a view and for a table.
        snapshot: of the lake table that holds the rows: clean's own, or deduped's; None: no row was
            ever written.
        day: the column that chose the rows; None: all were taken.
        periods: the times that they are of.
    """

    contract: TableContract
    schema: pa.Schema
    snapshot: int | None
    day: DayColumn | None
    periods: tuple[Period, ...]
    _workspace: Workspace
    _rows: LakeTable
    _select: str

    @property
    def needs_spark(self) -> bool:
        """Whether Spark reads the rows for Arrow, too."""
        return self.contract.clean == "view"

    def frame(self) -> DataFrame:
        """The rows as a frame of the workspace's Spark session.

        Raises:
            LakeError: Spark failed.
            MachineError: there is no usable Java.
        """
        # The second: what was committed since is not in this version.
        conditions = [self.day.sql(self.periods)] if self.day is not None else []
        conditions += ["false"] if self.snapshot is None else []
        where = " AND ".join(f"({one})" for one in conditions) or "true"
        spark = self._workspace.spark.get()
        with spark_errors(self.contract.name):
            return spark.sql(f"SELECT * FROM ({self._select}) WHERE {where}")  # noqa: S608

    def table(self) -> pa.Table:
        """The rows in memory.

        Raises:
            LakeError: the lake or Spark failed.
            MachineError: there is no usable Java, where it is needed.
        """
        if not self.needs_spark:
            return pa.Table.from_batches(self.batches(), self.schema)
        frame = self.frame()
        with spark_errors(self.contract.name):
            return frame.toArrow().cast(self.schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows batch by batch: in memory are those of one data file, or of one of Spark's
        tasks.

        Raises:
            LakeError: the lake or Spark failed.
            MachineError: there is no usable Java, where it is needed.
        """
        if self.needs_spark:
            yield from self._spark_batches()
            return
        if self.day is not None and not self.periods:
            return
        reach = self.day.reach(self.periods) if self.day is not None else EVERY_ROW
        for batch in read_rows(self._workspace.lake, self._rows, ("*",), reach, None):
            # Without the table's field ids, which are no part of the types.
            found = _none_is_null(pa.RecordBatch.from_arrays(batch.columns, schema=self.schema))
            yield self.day.chosen(found, self.periods) if self.day is not None else found

    def _spark_batches(self) -> Iterator[pa.RecordBatch]:
        frame = self.frame()
        with spark_errors(self.contract.name):
            messages = frame.mapInArrow(cast(Any, _as_messages), f"{_MESSAGE} binary")
            for row in messages.toLocalIterator():
                with pa.ipc.open_stream(row[_MESSAGE]) as stream:
                    for batch in stream:
                        yield batch.cast(self.schema)


def _none_is_null(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows without originals have NULL: some writers leave an empty list there, others don't."""
    place = batch.schema.get_field_index(ORIGINAL)
    if place < 0:
        return batch
    held = batch.column(place)
    some = pc.greater(pc.list_value_length(held), 0)
    return batch.set_column(
        place, batch.schema.field(place), pc.if_else(some, held, pa.scalar(None, held.type))
    )


def _as_messages(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each batch as one row of bytes, in Arrow's own format: so Spark hands rows out task by task
    and makes no Python objects of them. Runs on workers."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        message = pa.array([sink.getvalue().to_pybytes()], pa.binary())
        yield pa.RecordBatch.from_arrays([message], names=[_MESSAGE])


def open_clean(
    workspace: Workspace,
    contract: TableContract,
    periods: Sequence[Period] | None = None,
    *,
    undated: Undated = "refuse",
) -> CleanVersion:
    """The version of clean that readers see now; what is committed later is not in it.

    Args:
        periods: the rows of these times alone, by the column whose date is a row's raw day. Of a
            table of full copies all rows: it holds one copy.
        undated: whether rows without a date there are refused, or left out. They are of the raw
            day that loaded them, which clean does not know.

    Raises:
        LakeError: clean is not there, is being made, is not what the contract's rules make of
            deduped, or holds rows without a date.
        ConfigError: no column that clean shows gives a row's day.
    """
    lake = workspace.lake
    # The view before the table under it: what it names, a later deduped has too.
    found = _clean_table(lake, contract) if contract.clean == "table" else None
    view = read_view(lake, clean_of(contract)) if contract.clean == "view" else None
    if found is None and view is None:
        raise _not_there(contract)
    deduped = deduped_table(lake, contract)
    rows = found if found is not None else deduped
    schema = view.schema if view is not None else rows.schema()
    made_by = workspace.ledger.definition(f"{contract.clean} {clean_of(contract)}")
    if made_by is None or (view is not None and made_by != view.sql):
        raise _not_ours(contract, "was not made by this ledger's folds, or was changed since")
    _refuse_other_rules(contract, deduped.schema(), schema, made_by)
    day = None
    if periods is not None and not contract.copies:
        day = day_column(contract, deduped.schema(), schema)
        refuse_parts_of_days(contract, day, periods)
        if undated == "refuse":
            _refuse_undated(lake, contract, rows, day)
    head = rows.current_snapshot()
    shown = _pinned(rows, found is not None, contract)
    return CleanVersion(
        contract=contract,
        schema=arrow_schema(schema, field_ids=False),
        snapshot=head.snapshot_id if head is not None else None,
        day=day,
        periods=tuple(periods or ()) if day is not None else (),
        _workspace=workspace,
        _rows=rows,
        _select=shown if view is None else _view_over(view.sql, contract, shown),
    )


def _clean_table(lake: Lake, contract: TableContract) -> LakeTable | None:
    """The clean table; one without a version is being made from deduped."""
    table = lake.load(clean_of(contract))
    if table is None or table.current_snapshot() is not None:
        return table
    if lake.count_rows(deduped_of(contract)):
        raise LakeError(
            f"clean table {clean_of(contract)} is being made: it holds nothing yet",
            table=contract.name,
            next_step="Read it when the fold that makes it has ended, or sync the table",
            retryable=True,
        )
    return table


def _not_there(contract: TableContract) -> LakeError:
    return LakeError(
        f"clean {contract.clean} {clean_of(contract)} is not there",
        table=contract.name,
        next_step="Materialise the table's chain first, or `mirrorlake sync` it",
    )


def _not_ours(contract: TableContract, words: str) -> LakeError:
    return LakeError(
        f"clean {contract.clean} {clean_of(contract)} {words}: it may show what the contract hides",
        table=contract.name,
        next_step="Sync the table: its clean layer is then made again",
    )


def _refuse_other_rules(
    contract: TableContract, deduped: LakeSchema, clean: LakeSchema, made_by: str
) -> None:
    """See that clean was made by the rules that the contract has now; it may be older than they."""
    shown = {field.name for field in clean.fields}
    rules = {name.lower(): rule for name, rule in contract.rules.items()}
    never = {name.lower() for name in contract.excluded}
    for field in deduped.fields:
        rule = rules.get(field.name.lower())
        wanted = clean_column(field.name, _kind(field.field_type), rule)
        if field.name.lower() in never or (wanted is None and field.name in shown):
            raise _not_ours(contract, f"shows column {field.name!r}")
        if rule is None or wanted is None:
            continue
        name, _, sql = wanted
        text = repr(wanted) if contract.clean == "table" else f"{sql} AS {as_sql_identifier(name)}"
        if text not in made_by:
            raise _not_ours(contract, f"shows column {field.name!r} by another rule than {rule}")


def _refuse_undated(lake: Lake, contract: TableContract, rows: LakeTable, day: DayColumn) -> None:
    found = count_unset(lake, rows, day.name)
    if found:
        raise ConfigError(
            f"table {contract.name}: {found} rows have no date in {day.name!r} (NULL, or one that "
            "no calendar has): clean does not know which day loaded them",
            table=contract.name,
            column=day.name,
            next_step="Leave them out of every day (`undated='skip'`), or take the whole table "
            "(`whole=True`)",
        )


# --- as Spark reads it ----------------------------------------------------------------------------


def _view_over(sql: str, contract: TableContract, rows: str) -> str:
    """A view's own text over one version of deduped."""
    deduped = f" FROM {deduped_of(contract).sql}"
    if not sql.endswith(deduped):
        raise _not_ours(contract, "does not read deduped")
    return f"{sql.removesuffix(deduped)} FROM ({rows})"


def _pinned(table: LakeTable, is_clean: bool, contract: TableContract) -> str:
    """A lake table's rows at its current version, in its current columns: a version that was
    written before a column was added has none of it."""
    identifier: Identifier = clean_of(contract) if is_clean else deduped_of(contract)
    head = table.current_snapshot()
    if head is None:
        return f"SELECT * FROM {identifier.sql}"  # noqa: S608
    written = table.schemas().get(head.schema_id) if head.schema_id is not None else None
    then = {field.name: field.field_type for field in (written or table.schema()).fields}
    columns: list[str] = []
    for field in table.schema().fields:
        name, kind = as_sql_identifier(field.name), spark_type(_kind(field.field_type))
        if field.name not in then:
            columns.append(f"CAST(NULL AS {kind}) AS {name}")
        elif then[field.name] != field.field_type and not kind.startswith("array"):
            columns.append(f"CAST({name} AS {kind}) AS {name}")
        elif field.name == ORIGINAL:
            columns.append(f"CASE WHEN size({name}) > 0 THEN {name} END AS {name}")
        else:
            columns.append(name)
    version = f"VERSION AS OF {head.snapshot_id}"
    return f"SELECT {', '.join(columns)} FROM {identifier.sql} {version}"  # noqa: S608


def _kind(type_: Any) -> str:
    """An Iceberg type in the words of `Exact.iceberg`."""
    text = str(type_)
    if text.startswith("list<struct<"):
        return "list<struct<column: string, text: string>>"
    return text.replace(", ", ",")
