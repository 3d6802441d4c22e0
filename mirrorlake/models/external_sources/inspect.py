"""Tables that are made elsewhere are looked at: once a run, which then reads what it saw.

What a file declares is compared with what is there: columns with their types and whether they may
be NULL, and partitions. A table that is not as it is declared is an error of its file; a store that
can't be asked is an exception.

What belongs here: looking. What doesn't: what is known of a table afterwards
(`mirrorlake.models.external_sources.tables`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from mirrorlake.config.fields import nearest
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeTable, history, is_rewrite, spark_types
from mirrorlake.errors import LakeError, LandingError, ModelError
from mirrorlake.models.external_sources.arrow_types import arrow_type
from mirrorlake.models.external_sources.own_places import OwnPlaces
from mirrorlake.models.external_sources.stores import store_of_format
from mirrorlake.models.external_sources.tables import ExternalLook, Externals, ExternalTable
from mirrorlake.models.files.external_table import ExternalDeclaration
from mirrorlake.sources.files.parquet_folder import ParquetFolder
from mirrorlake.sources.files.parquet_table import check_files, list_files
from mirrorlake.sources.files.stores import store_of


def look_at_externals(
    declared: Iterable[ExternalDeclaration], lake: Lake, own: OwnPlaces
) -> Externals:
    """Compare all that are declared with what is there. A store that can't be reached is a problem
    of its table: models that read others need not wait for it.

    Raises:
        LakeError: the lake can't be read.
    """
    tables: dict[str, ExternalTable] = {}
    why: dict[str, ModelError] = {}
    for one in declared:
        try:
            tables[one.name] = look_at(one, lake, own)
        except ModelError as error:
            why[one.name] = error
        except LakeError as error:
            if one.format == "iceberg":
                raise
            why[one.name] = one.wrong(error.message, next_step=error.next_step)
    return Externals(tables, why)


def look_at(declared: ExternalDeclaration, lake: Lake, own: OwnPlaces) -> ExternalTable:
    """A table as it is now, to be read.

    Raises:
        ModelError: it is not there, or not as it is declared; with the place in its file.
        LakeError: the lake, the store or BigQuery can't be read.
    """
    look = compare_declared(declared, lake, own)
    for difference in look.drift:
        raise difference
    if look.table.stored is not None:
        store_of_format(declared).refuse_unreadable(look.table)
    return look.table


def compare_declared(declared: ExternalDeclaration, lake: Lake, own: OwnPlaces) -> ExternalLook:
    """A table as it is now, whether or not it is as it is declared.

    Args:
        own: what it may not be.

    Raises:
        ModelError: it is not there, or is Mirrorlake's own; with the place in its file.
        LakeError: the lake, the store or BigQuery can't be read.
    """
    own.refuse(declared)
    if declared.format == "iceberg":
        return _iceberg(declared, lake, own)
    if declared.format == "parquet":
        return _parquet(declared, own)
    look = store_of_format(declared).look(declared, own.config)
    own.refuse_look(look)
    return look


# --- Iceberg --------------------------------------------------------------------------------------


def _iceberg(declared: ExternalDeclaration, lake: Lake, own: OwnPlaces) -> ExternalLook:
    identifier = Identifier(*declared.table)
    table = lake.load(identifier)
    if table is None:
        raise declared.wrong(
            f"there is no table {identifier} in the lake",
            next_step="Have it made first, or correct `table`",
        )
    own.refuse_look(ExternalLook(ExternalTable(declared), ()), table)
    drift = tuple(_iceberg_drift(declared, table))
    names = {one.name for one in declared.columns}
    undeclared = tuple(one.name for one in table.schema().fields if one.name not in names)
    head = table.current_snapshot()
    if head is None:
        return ExternalLook(ExternalTable(declared), drift, undeclared)
    # What a compaction wrote again are the same rows.
    rows_of = next((one for one in history(table) if not is_rewrite(one)), head)
    found = ExternalTable(declared, head.snapshot_id, rows_of.snapshot_id)
    return ExternalLook(found, drift, undeclared)


def _iceberg_drift(declared: ExternalDeclaration, table: LakeTable) -> Iterator[ModelError]:
    identifier = Identifier(*declared.table)
    there = {name: (kind, null) for name, kind, null in spark_types(table.schema())}
    for one in declared.columns:
        if one.name not in there:
            near = nearest(one.name, there)
            yield declared.wrong(f"{identifier} has no column {one.name}{near}", one.place)
            continue
        kind, nullable = there[one.name]
        if kind != one.type:
            yield declared.wrong(f"column {one.name} is {kind} in {identifier}", one.place)
        if nullable and not one.nullable:
            words = f"column {one.name} may be NULL in {identifier}"
            yield declared.wrong(words, one.place, "Leave out `nullable: false`")
    by = {table.schema().find_column_name(one.source_id) for one in table.spec().fields}
    for name in declared.partition_by:
        if name not in by:
            yield declared.wrong(f"{identifier} is not partitioned by {name}")


# --- Parquet --------------------------------------------------------------------------------------


def _parquet(declared: ExternalDeclaration, own: OwnPlaces) -> ExternalLook:
    if "://" not in declared.url and not Path(declared.url).is_dir():
        raise declared.wrong(
            f"there is no folder {declared.url}", next_step="Have it made first, or correct `path`"
        )
    fields = [pa.field(one.name, arrow_type(one.type)) for one in declared.columns]
    needed = frozenset(one.name for one in declared.columns if not one.nullable)
    above, _, name = declared.url.rpartition("/")
    store = store_of(above, declared.endpoint)
    folder = ParquetFolder(store, name, pa.schema(fields), len(declared.partition_by), needed)
    try:
        files = tuple(list_files(folder))
    except LandingError as error:
        raise _parquet_error(declared, error) from error
    if not files:
        raise declared.wrong(
            f"there is no file of Parquet in {declared.url}",
            next_step="Have one written first: columns are compared with it",
        )
    found = ExternalTable(declared, folder=folder, files=files)
    own.refuse_look(ExternalLook(found, ()))
    try:
        # One file tells what the others are like; each is looked at when it is read.
        check_files(folder, files[-1:])
    except LandingError as error:
        wrong = _parquet_error(declared, error)
        if isinstance(wrong, ModelError):
            return ExternalLook(found, (wrong,))
        raise wrong from error
    return ExternalLook(found, ())


def _parquet_error(declared: ExternalDeclaration, error: LandingError) -> LakeError | ModelError:
    """An error of the file that declares a table, or of the store, which may pass by itself."""
    if error.retryable:
        return LakeError(
            error.message, table=declared.name, next_step=error.next_step, retryable=True
        )
    return declared.wrong(error.message, next_step=error.next_step)
