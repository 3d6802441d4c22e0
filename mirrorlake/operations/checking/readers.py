"""Do all engines read the same rows? One version of a lake table, by each of them, compared.

Engines are known to disagree on one Iceberg table: on deletes, on columns that came later, on
types. Each row that an engine gives is digested here, whatever gave it; the numbers of rows and the
sums of their digests are compared, and the verdict is kept as a proof of its own.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pyarrow as pa

from mirrorlake.config import TableContract
from mirrorlake.config.sections.readers import TrinoConfig
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.reading.readers import (
    columns_of,
    read_by_duckdb,
    read_by_pyiceberg,
    rows_of_spark,
)
from mirrorlake.destinations.iceberg.reading.trino import read_by_trino
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.errors import LakeError, ReaderMissing
from mirrorlake.ledger import LayerProof
from mirrorlake.load.row_hashes.fingerprint import Words, fingerprints
from mirrorlake.proof.comparing.report import code_version
from mirrorlake.runtime.extras import require
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.workspace import Workspace

_LANES = 2
_SUMS = "rows bigint, sums array<decimal(20,0)>"
_WHOLE = 2**64


@dataclass(frozen=True)
class EngineRows:
    """What one engine read.

    Attributes:
        rows, digest: of all rows, in no order; None and '' where it did not read them.
        columns: name → digest of that column alone.
        words: why it did not.
        missing: it is not installed here, or not configured: it was not asked.
    """

    reader: str
    rows: int | None = None
    digest: str = ""
    columns: Mapping[str, int] = field(default_factory=dict[str, int])
    words: str = ""
    missing: bool = False


@dataclass(frozen=True)
class ReadAlike:
    """The verdict on one lake table.

    Attributes:
        layer: ``deduped`` or ``clean``.
        version: the snapshot that all of them read.
        verdict: ``equal``: all that were asked read the same rows; ``different``; ``undecided``:
            one could not read it, or there are not two of them.
    """

    table: str
    layer: str
    lake_table: str
    version: int | None
    verdict: str
    words: str
    readings: tuple[EngineRows, ...] = ()


def compare_readers(workspace: Workspace, contract: TableContract) -> list[ReadAlike]:
    """Read deduped, and clean where it is a table, by every engine, and keep the verdicts.

    Raises:
        LakeError: the catalog can't be read.
        ConfigError: the variable with Trino's password is not set.
    """
    trino = workspace.config.readers.trino
    if trino is not None and trino.password is not None:
        trino.password.get_secret_value()  # before minutes of reading, not after them
    layers = {"deduped": deduped_of(contract)}
    if contract.clean == "table":
        layers["clean"] = Identifier(contract.namespaces.clean, contract.table)
    found: list[ReadAlike] = []
    for layer, identifier in layers.items():
        started, clock = datetime.now(UTC), time.monotonic()
        one = _compare(workspace, contract.name, layer, identifier)
        found.append(one)
        proof = _proof(one, started, time.monotonic() - clock)
        workspace.ledger.record_layer_proofs([proof])
    return found


def _compare(workspace: Workspace, name: str, layer: str, identifier: Identifier) -> ReadAlike:
    table = workspace.lake.load(identifier)
    snapshot = table.current_snapshot() if table is not None else None
    if table is None or snapshot is None:
        words = "it is not there yet: sync first"
        return ReadAlike(name, layer, str(identifier), None, "undecided", words)
    version = snapshot.snapshot_id
    readings = tuple(_readings(workspace, table, identifier, version))
    verdict, words = _verdict(readings)
    return ReadAlike(name, layer, str(identifier), version, verdict, words, readings)


def _readings(
    workspace: Workspace, table: LakeTable, identifier: Identifier, version: int
) -> Iterator[EngineRows]:
    schema = columns_of(table, version)
    engines: dict[str, Callable[[], RowSums]] = {
        "PyIceberg": lambda: digest(read_by_pyiceberg(workspace.lake, table, version), schema),
        "DuckDB": lambda: digest(read_by_duckdb(table, version), schema),
        "Spark": lambda: _by_spark(workspace.spark, identifier, version, schema),
        "Trino": lambda: _by_trino(workspace.config.readers.trino, identifier, version, schema),
    }
    for reader, read in engines.items():
        try:
            found = read()
        except ReaderMissing as error:
            yield EngineRows(reader, words=str(error), missing=True)
        except LakeError as error:
            yield EngineRows(reader, words=str(error))
        else:
            columns = dict(zip(schema.names, found.columns, strict=True))
            yield EngineRows(reader, found.rows, found.text, columns)


def _by_spark(spark: LazySpark, identifier: Identifier, version: int, schema: pa.Schema) -> RowSums:
    require("pyspark", "spark", "Spark as a reader", ReaderMissing)
    rows = rows_of_spark(spark.get(), identifier, version, schema.names)
    with spark_errors(str(identifier)):
        parts = rows.mapInArrow(partial(_digest_part, schema=schema), _SUMS).collect()
    found = RowSums.of_nothing(schema)
    for part in parts:
        found += RowSums(part["rows"], tuple(int(one) for one in part["sums"]))
    return found


def _by_trino(
    server: TrinoConfig | None, identifier: Identifier, version: int, schema: pa.Schema
) -> RowSums:
    if server is None:
        raise ReaderMissing(
            "no Trino is configured", next_step="readers.trino in the contract file names one"
        )
    return digest(read_by_trino(server, identifier, version, schema), schema)


def _digest_part(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    found = digest(batches, schema)
    rows = pa.array([found.rows], pa.int64())
    sums = pa.array([found.sums], pa.list_(pa.decimal128(20, 0)))
    yield pa.RecordBatch.from_arrays([rows, sums], names=["rows", "sums"])


@dataclass(frozen=True)
class RowSums:
    """Of some rows, the same in any order.

    Attributes:
        rows: how many there are.
        sums: of 64-bit digests: two of each row, then one of each of its columns.
    """

    rows: int
    sums: tuple[int, ...]

    @staticmethod
    def of_nothing(schema: pa.Schema) -> RowSums:
        return RowSums(0, (0,) * (_LANES + len(schema)))

    def __add__(self, other: RowSums) -> RowSums:
        pairs = zip(self.sums, other.sums, strict=True)
        return RowSums(self.rows + other.rows, tuple((a + b) % _WHOLE for a, b in pairs))

    @property
    def text(self) -> str:
        """Of whole rows, in hexadecimal."""
        return "".join(f"{one:016x}" for one in self.sums[:_LANES])

    @property
    def columns(self) -> tuple[int, ...]:
        return self.sums[_LANES:]


def digest(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> RowSums:
    """The digests of all rows.

    Raises:
        LakeError: a column has another type.
    """
    found = RowSums.of_nothing(schema)
    for batch in batches:
        columns = [_typed(batch, field) for field in schema]
        table = pa.Table.from_arrays(columns, names=schema.names)
        sums = [_sum(fingerprints(table, schema.names, ()), lane) for lane in range(_LANES)]
        sums += [_sum(fingerprints(table, [name], ()), 0) for name in schema.names]
        found += RowSums(batch.num_rows, tuple(sums))
    return found


def _sum(words: Words, lane: int) -> int:
    return int(np.sum(words[:, 2 + lane], dtype=np.uint64))


def _typed(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    column = batch.column(field.name)
    if _kind(column.type) != _kind(field.type):
        raise LakeError(
            f"column {field.name!r} is read as {column.type}, and is {field.type}",
            column=field.name,
            next_step="Its values may be the same: compare them",
        )
    if pa.types.is_list(field.type) or pa.types.is_large_list(field.type):
        # PyIceberg 0.12 gives an empty list for NULL; there is nothing in either.
        texts = [repr(one) if one else None for one in column.to_pylist()]
        return pa.array(texts, pa.string())
    return column.cast(field.type)


def _kind(kind: pa.DataType) -> str:
    """A type's name, without how Arrow keeps long values: engines choose that as they like."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{_kind(kind.value_type)}>"
    if pa.types.is_struct(kind):
        fields = (kind.field(number) for number in range(kind.num_fields))
        return f"struct<{', '.join(f'{f.name}: {_kind(f.type)}' for f in fields)}>"
    return str(kind).removeprefix("large_").removesuffix("_view")


def _verdict(readings: tuple[EngineRows, ...]) -> tuple[str, str]:
    read = [one for one in readings if one.rows is not None]
    failed = [one for one in readings if one.rows is None and not one.missing]
    if len({(one.rows, one.digest) for one in read}) > 1:
        return "different", _difference(read)
    if failed:
        return "undecided", "; ".join(f"{one.reader}: {one.words}" for one in failed)
    if len(read) < _LANES:
        return "undecided", "only one engine could be queried here"
    return "equal", ""


def _difference(read: Sequence[EngineRows]) -> str:
    if len({one.rows for one in read}) > 1:
        return "rows: " + ", ".join(f"{one.reader} {one.rows:,}" for one in read)
    names = [name for name in read[0].columns if len({one.columns[name] for one in read}) > 1]
    if not names:
        return "as many rows with the same values, in other combinations"
    return f"as many rows, with other values in {', '.join(names)}"


def _proof(found: ReadAlike, started: datetime, seconds: float) -> LayerProof:
    read = [one for one in found.readings if one.rows is not None]
    first, last = (read[0], read[-1]) if read else (EngineRows(""), EngineRows(""))
    different = [one for one in read if (one.rows, one.digest) != (first.rows, first.digest)]
    other = different[0] if different else last
    return LayerProof(
        check_id=uuid.uuid4().hex,
        table=found.table,
        layer=f"readers of {found.layer}",
        verdict=found.verdict,
        words=found.words,
        compared=f"every row, by {', '.join(one.reader for one in read)}" if read else "nothing",
        rows=other.rows or 0,
        digest=other.digest,
        expected_rows=first.rows or 0,
        expected_digest=first.digest,
        snapshots="" if found.version is None else f"{found.lake_table}: {found.version}",
        through_seq=0,
        code=code_version(),
        started_at=started,
        seconds=round(seconds, 3),
    )
