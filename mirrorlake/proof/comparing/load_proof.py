"""A load proved before anybody sees it: what MySQL digested in the very states that were read,
beside what stands in the lake on a branch.

MySQL's side was queried in the session, and in the consistent snapshot, from which the rows were
then read. So both are equal whatever changes meanwhile, unless a row was lost, doubled or changed
on its way. Rows are compared by the forms of `mirrorlake.proof.forms.canonical`, which the loads
don't use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as _compute
from pymysql.connections import Connection

from mirrorlake.config.contract import TableContract
from mirrorlake.config.server import SourceConfig
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.reading.stream import read_load
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.errors import ProofError
from mirrorlake.ledger.records import Load
from mirrorlake.proof.comparing.compare import KeyCut, candidates, cut_for, read_lake, read_source
from mirrorlake.proof.forms.canonical import ORIGINALS
from mirrorlake.proof.forms.differences import Difference, compare_counts, compare_rows
from mirrorlake.proof.forms.rows import RowForm, row_form
from mirrorlake.proof.ranges.ranges import NOTHING, Range, Tally, ordered_column, plan_grid
from mirrorlake.proof.ranges.scope import ALL
from mirrorlake.proof.ranges.target import Mirror, Target
from mirrorlake.proof.sides.local_side import LOCAL_ROWS, tally_rows
from mirrorlake.proof.sides.mysql_side import SourceSide, read_bounds, read_packet
from mirrorlake.proof.sides.spark_side import LakeSide
from mirrorlake.schema.own_columns import DELETED
from mirrorlake.sources.mysql.sessions.connect import read_position
from mirrorlake.sources.mysql.tables import Column, SourceTable

pc: Any = _compute  # its functions are made at import: type checkers see none of them
MOST = 20
"""Rows that differ and are looked for, at most, in as many chunks as it takes."""
_CHUNK = "mirror_chunk_"
SaidOfChunks = Mapping[int, tuple[str | None, Tally]]
"""Of each chunk by number, its condition in MySQL, where that is known, and its rows and digest
there."""


@dataclass(frozen=True)
class Unseen:
    """A load as it stands in a snapshot that main does not show.

    Attributes:
        identifier, snapshot: the raw table, and that snapshot.
        fields: the raw table's columns with their Iceberg types.
        chunks: what MySQL said of each.
        keys: of chunks whose rows came with their hashes, the server's sum of their keys' numbers.
        sums_suffice: whether number and digest of all rows decide: each chunk's were summed up by
            the server itself, or its files were compared row by row.
    """

    contract: TableContract
    source: SourceConfig
    table: SourceTable
    identifier: Identifier
    snapshot: int
    load: Load
    rows: RowForm
    chunks: SaidOfChunks
    keys: Mapping[int, int] = field(default_factory=dict[int, int])
    sums_suffice: bool = True

    @property
    def key(self) -> tuple[Column, ...]:
        return tuple(self.table.column(name) for name in self.contract.key)


@dataclass(frozen=True)
class LoadSide(LakeSide):
    """The lake's statements over the rows of one load alone, each with its chunk's number; a
    tombstone is no row of MySQL."""

    load_id: str = ""

    def keys_sql(self) -> str:
        """Chunk, rows, and the sum of the numbers of their keys."""
        number = f"CAST(crc32(CAST({self.key_form} AS BINARY)) AS DECIMAL(20,0))"
        # Spark sums up no number that it takes for one of chance: of a key with a DOUBLE.
        inner = f"SELECT {_CHUNK}, {number} AS n_ FROM {self.name}"  # noqa: S608
        return f"SELECT {_CHUNK}, count(*), sum(n_) FROM ({inner}) GROUP BY {_CHUNK}"  # noqa: S608

    @property
    def name(self) -> str:
        # Files are named after their load, attempt and chunk.
        found = f"regexp_extract(_file, '{self.load_id}-[0-9]+-([0-9]+)', 1)"
        columns = f"*, coalesce(try_cast({found} AS INT), -1) AS {_CHUNK}"
        where = f"_mirror_load = '{self.load_id}' AND NOT coalesce({DELETED}, false)"
        at = f"{self.identifier.sql} VERSION AS OF {self.snapshot}"
        return f"(SELECT {columns} FROM {at} WHERE {where})"  # noqa: S608


def load_form(
    connection: Connection[Any],
    table: SourceTable,
    contract: TableContract,
    fields: Mapping[str, str],
    originals: str,
) -> RowForm:
    """The form of a load's rows.

    Args:
        fields: the raw table's columns with their Iceberg types.
        originals: the name of its column of original texts.

    Raises:
        TypeRefused: a column has no form.
        ProofError: a column of the raw table has another type than its form is made for.
    """
    hidden = {name.lower() for name in contract.excluded}
    columns = [c for c in table.columns if c.name.lower() not in hidden]
    rows = row_form(columns, originals in fields, read_packet(connection))
    for cell in rows.cells:
        if fields.get(cell.name) != cell.iceberg:
            raise ProofError(
                f"table {contract.name}: column {cell.name} is {fields.get(cell.name)} in raw, and "
                f"the proof compares {cell.iceberg}",
                table=contract.name,
                column=cell.name,
                next_step="`verify: false` loads it without a proof; please report this",
            )
    return rows


def is_small(unseen: Unseen) -> bool:
    """Whether a load is looked at without Spark first."""
    return sum(tally.rows for _, tally in unseen.chunks.values()) <= LOCAL_ROWS


def equals_locally(lake: Lake, unseen: Unseen, table: LakeTable | None) -> bool:
    """Whether a small load is known to be equal without Spark: all its rows together are what MySQL
    said of all its chunks. False says nothing: then `prove_loaded` has the verdict.

    Args:
        table: the raw table, which has the load's snapshot.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    if table is None or not unseen.sums_suffice or not is_small(unseen):
        return False
    expected = sum((tally for _, tally in unseen.chunks.values()), NOTHING)
    names = [cell.name for cell in unseen.rows.cells]
    names += [ORIGINALS] if unseen.rows.originals else []
    batches = read_load(lake, table, [*names, DELETED], unseen.load.load_id, unseen.snapshot)
    rows = (b.filter(pc.invert(pc.fill_null(b.column(DELETED), False))) for b in batches)
    return tally_rows(unseen.table, unseen.rows, rows) == expected


def tally_table(
    spark: Callable[[], Any], table: SourceTable, rows: RowForm, found: pa.Table
) -> Tally:
    """Number and digest of some rows of a lake table that are at hand, by a form's columns; Spark
    reads what only it can.

    Raises:
        LakeError: Spark failed.
    """
    tally = tally_rows(table, rows, found.combine_chunks().to_batches())
    return tally if tally is not None else tally_by_spark(spark, table, rows, found)


def tally_by_spark(
    spark: Callable[[], Any], table: SourceTable, rows: RowForm, found: pa.Table
) -> Tally:
    """`tally_table`, whatever could be said without Spark: that may be less than what it says.

    Raises:
        LakeError: Spark failed.
    """
    session, view = spark(), f"mirror_rows_{uuid4().hex}"
    with spark_errors(table.name):
        session.createDataFrame(_as_spark_takes(found)).createOrReplaceTempView(view)
        try:
            side = ViewSide(Identifier("", ""), None, rows, (), "", view=view)
            return side.read_groups(session, side.groups_sql("0")).get(0, NOTHING)
        finally:
            session.catalog.dropTempView(view)


@dataclass(frozen=True)
class ViewSide(LakeSide):
    """The lake's statements over a view of some rows."""

    view: str = ""

    @property
    def name(self) -> str:
        return self.view


def _as_spark_takes(rows: pa.Table) -> pa.Table:
    """Rows in types that Spark makes a view of: its lists and texts have no large ones, and PySpark
    refuses a list that is part of a longer one (PyArrow: "Null bitmap with offsets slice")."""
    plain = pa.schema([pa.field(f.name, _plain(f.type)) for f in rows.schema])
    return rows.cast(plain).take(pa.array(range(rows.num_rows)))


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        entry = kind.value_type
        return pa.list_(pa.struct([pa.field(f.name, _plain(f.type)) for f in entry]))
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind


def prove_loaded(spark: Any, unseen: Unseen) -> dict[int, tuple[Tally, Tally]]:
    """The chunks whose rows or digests differ, with MySQL's side and the lake's; none if the load
    is proved. What stands in files of no chunk is number -1.

    Raises:
        LakeError: Spark, the catalog or the storage failed.
    """
    side = _lake_side(unseen, "")
    with spark_errors(unseen.contract.name):
        lake = side.read_groups(spark, side.groups_sql(_CHUNK))
    source = {number: tally for number, (_, tally) in unseen.chunks.items()}
    pairs = {n: (source.get(n, NOTHING), lake.get(n, NOTHING)) for n in sorted({*source, *lake})}
    differing = {number for number, pair in pairs.items() if pair[0] != pair[1]}
    if unseen.keys:
        with spark_errors(unseen.contract.name):
            keys = side.read_groups(spark, side.keys_sql())
        differing |= {n for n, said in unseen.keys.items() if keys.get(n, NOTHING).digest != said}
    return {number: pairs[number] for number in sorted(differing)}


def find_differences(
    connection: Connection[Any], spark: Any, unseen: Unseen, numbers: Sequence[int]
) -> list[Difference]:
    """The first rows of these chunks that differ between the branch and MySQL as it is now.

    MySQL may have moved on since the load: they are what to look at, not the verdict.
    """
    found: list[Difference] = []
    for number in numbers:
        where, _ = unseen.chunks.get(number, (None, NOTHING))
        if where is None:
            continue
        if len(found) >= MOST:
            break
        with spark_errors(unseen.contract.name):
            found += _differences_of(connection, spark, unseen, number, where)
    return found[:MOST]


def _differences_of(
    connection: Connection[Any], spark: Any, unseen: Unseen, number: int, where: str
) -> list[Difference]:
    source = SourceSide(unseen.table, unseen.rows, unseen.key, where)
    lake = _lake_side(unseen, f"{_CHUNK} = {number}")
    target = Target(
        contract=unseen.contract,
        source=unseen.source,
        table=unseen.table,
        key=unseen.key,
        rows=unseen.rows,
        mirror=Mirror(unseen.identifier, unseen.snapshot, unseen.load, unseen.load.seq),
        scope=ALL,
        position=read_position(connection),
    )
    cut = _cut(connection, target, source)
    digests = read_source(connection, target, source, cut)
    digests.lake = read_lake(spark, lake, cut, ())
    keys = sorted(candidates(connection, spark, target, (source, lake), cut, digests).keys)[:MOST]
    read = source.read_rows if target.key else source.read_by_digest
    ours, theirs = read(connection, keys), lake.read_rows(spark, keys)
    compare = compare_rows if target.key else None
    return [
        difference
        for key in keys
        for difference in (
            compare(unseen.rows, target.key_names, ours.get(key, []), theirs.get(key, []))
            if compare
            else compare_counts(unseen.rows, ours.get(key, []), theirs.get(key, []))
        )
    ]


def _cut(connection: Connection[Any], target: Target, side: SourceSide) -> KeyCut:
    column = ordered_column(target.key)
    rule = target.contract.column_rule(column.name) if column else None
    if column is None or (rule is not None and rule.pii is not None):
        return cut_for(target, None)
    bounds = read_bounds(connection, side, column, side.where) or (0, 0)
    return cut_for(target, plan_grid(column, Range(), *bounds, target.table.estimated_rows))


def _lake_side(unseen: Unseen, where: str) -> LoadSide:
    keys = SourceSide(unseen.table, unseen.rows, unseen.key, "").key_forms
    return LoadSide(
        unseen.identifier, unseen.snapshot, unseen.rows, keys, where, unseen.load.load_id
    )
