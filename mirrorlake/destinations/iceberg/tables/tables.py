"""The lake's tables, and how they come to be.

Raw tables hold row versions, one table per schema version, partitioned by ``_mirror_day``. Deduped
tables hold one row per key and no metadata but ``_mirror_original``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CreateTableTransaction, Table, Transaction
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import IcebergType, ListType, NestedField

from mirrorlake.config.settings import WriteMode
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.tables.field_ids import has_types_of, stage_with_ids_of
from mirrorlake.destinations.iceberg.tables.schemas import COLUMNS, OF, ascending, can_hold
from mirrorlake.errors import LakeError
from mirrorlake.schema.own_columns import DAY, KEY, OF_EVENTS, ORIGINAL
from mirrorlake.schema.versions import SchemaVersion

_COMMON = {
    "format-version": "2",
    # A moved parent is an error of ours to look at, not for the library to rebase over.
    "commit.retry.num-retries": "0",
    "write.parquet.compression-codec": "zstd",
}
TARGET_BYTES = 32 * 2**20
"""The size of deduped's files: each holds a range of keys, and a fold opens those it needs."""
_CURRENT = {
    # One file of deletes for each data file at most: a later one takes in what it holds.
    "write.delete.granularity": "file",
    "write.target-file-size-bytes": str(TARGET_BYTES),
    # Several groups a file: a fold or a check that needs a few keys reads one of them.
    "write.parquet.row-group-size-bytes": str(TARGET_BYTES // 4),
    # A fold sorts as far as it pays: by itself Spark would run the whole join twice to sample it.
    "write.distribution-mode": "none",
    "write.merge.distribution-mode": "none",
    # A manifest a tick would otherwise wait until there are a hundred.
    "commit.manifest.min-count-to-merge": "20",
}


def ensure_raw_table(
    lake: Connection,
    identifier: Identifier,
    schema: Schema,
    source_table: str,
    version: SchemaVersion,
) -> Table:
    """The raw table of one schema version, made if it isn't there, partitioned by the mirror's day.

    It says of which source table and version it is, for a ledger that is rebuilt. A column may come
    to need originals, a key the server's own view of it, or rows what is known of events, without
    another version of the schema: its charset, its collation or the table's mode changed.
    """
    day = schema.find_field(DAY)
    spec = PartitionSpec(PartitionField(day.field_id, 1000, IdentityTransform(), DAY))
    properties = raw_properties(source_table, version)
    table = create_table(lake, identifier, schema, spec, properties)
    refuse_edited(table, version)
    return add_missing(lake, identifier, table, schema, (ORIGINAL, KEY, *OF_EVENTS))


def raw_properties(source_table: str, version: SchemaVersion) -> dict[str, str]:
    """What a raw table says of itself: of which source table it is, and its columns' types."""
    return {OF: source_table, COLUMNS: json.dumps(version.columns, ensure_ascii=False)}


def refuse_edited(table: Table, version: SchemaVersion) -> None:
    """See that a raw table has the columns of its version: one that somebody took away would be
    read as NULL.

    Raises:
        LakeError: it has others, or is of another version with the same hash.
    """
    name, said = ".".join(table.name()[-2:]), table.properties.get(COLUMNS)
    columns = [list(column) for column in version.columns]
    if said is not None and json.loads(said) != columns:
        raise LakeError(
            f"lake table {name} holds another schema version than the one with the hash "
            f"{version.hash}: its property {COLUMNS} was edited, or two versions have one hash",
            next_step="Put the property back; or mirror the table under other namespaces",
        )
    wanted = {column for column, _ in version.columns}
    there = {field.name for field in table.schema().fields if not field.name.startswith("_mirror_")}
    if said is None or wanted == there:
        return
    lost, more = sorted(wanted - there), sorted(there - wanted)
    found = [f"{', '.join(lost)} missing"] if lost else []
    found += [f"{', '.join(more)} added"] if more else []
    raise LakeError(
        f"the columns of lake table {name} were edited: {'; '.join(found)}. It holds one schema "
        "version, as it was read",
        next_step="Put the metadata file from before that change back into the catalog (Iceberg's "
        "register_table)",
    )


def current_properties(mode: WriteMode = "merge-on-read") -> dict[str, str]:
    """The properties of deduped and clean tables."""
    return {**_CURRENT, **mode_properties(mode)}


def mode_properties(mode: WriteMode) -> dict[str, str]:
    """How Spark changes rows of a table: of those that changed it writes the new ones, and what
    they replace is marked deleted beside the old files; or it writes these files again."""
    return {f"write.{verb}.mode": mode for verb in ("merge", "update", "delete")}


def set_mode(lake: Connection, identifier: Identifier, table: Table, mode: WriteMode) -> Table:
    """A table whose rows are changed so from now on. Deletes that are there stay until the files
    that they are of are written again."""
    wanted = mode_properties(mode)
    if wanted.items() <= table.properties.items():
        return table
    with lake.translated(identifier), table.transaction() as transaction:
        transaction.set_properties(wanted)
    return table.refresh()


def add_missing(
    lake: Connection, identifier: Identifier, table: Table, schema: Schema, names: Sequence[str]
) -> Table:
    """A table with those of these columns that it lacks and the schema has."""
    there = {field.name for field in table.schema().fields}
    missing = [f for f in schema.fields if f.name in names and f.name not in there]
    if missing:
        with lake.translated(identifier), table.update_schema() as update:
            for field in missing:
                update.add_column((field.name,), field.field_type)
        table = table.refresh()
    return table


def ensure_current_table(
    lake: Connection,
    identifier: Identifier,
    schema: Schema,
    key: Sequence[str] = (),
    days_of: str | None = None,
    location: str | None = None,
    mode: WriteMode | None = None,
    like: Callable[[], Schema | None] = lambda: None,
) -> Table:
    """A deduped or clean table, made if it isn't there, sorted by its key; columns and properties
    that it lacks are added, and columns become wider where the schema has them so.

    Args:
        mode: how its rows are changed; None: as it is.
        days_of: a column by whose days the table is partitioned; what was written before
            stays as it is until it is compacted.
        location: where a new table's files go; by its name if not given.
        like: gives raw's schema, whose ids a new table gives the columns that both have, so that it
            can take copies of raw's files. Not called where the table is there.

    Raises:
        LakeError: a column of it has a type that can't become the one requested.
    """
    order = SortOrder(*(ascending(schema, name) for name in key))
    spec = UNPARTITIONED_PARTITION_SPEC
    if days_of is not None:
        source = schema.find_field(days_of).field_id
        spec = PartitionSpec(PartitionField(source, 1000, DayTransform(), f"{days_of}_day"))
    properties = current_properties(mode or "merge-on-read")
    table = create_table(lake, identifier, schema, spec, properties, order, location, like)
    lacking = {k: v for k, v in properties.items() if k not in table.properties}
    if lacking:
        with lake.translated(identifier), table.transaction() as transaction:
            transaction.set_properties(lacking)
    if mode is not None:
        table = set_mode(lake, identifier, table, mode)
    existing = {f.name: f.field_type for f in table.schema().fields}
    missing = [f for f in schema.fields if f.name not in existing]
    wider = _wider_fields(identifier, existing, schema)
    if missing or wider:
        with lake.translated(identifier), table.update_schema() as update:
            # As paths: a text with a dot would be taken for a nested field.
            for field in missing:
                update.add_column((field.name,), field.field_type)
            for field in wider:
                update.update_column((field.name,), field.field_type)
        table = table.refresh()
    if days_of is not None and table.spec().is_unpartitioned():
        with lake.translated(identifier), table.update_spec() as evolution:
            evolution.add_field(days_of, DayTransform(), f"{days_of}_day")
        table = table.refresh()
    return table


def stage_current_table(
    lake: Connection,
    identifier: Identifier,
    schema: Schema,
    key: Sequence[str],
    mode: WriteMode,
    like: Schema,
) -> CreateTableTransaction | None:
    """A deduped or clean table that is not there, to be made by the commit of its first rows; None
    where it can't have this schema's ids.

    Raises:
        LakeError: the catalog failed.
    """
    if not has_types_of(schema, like):
        return None
    lake.make_namespace(identifier.namespace)
    order = SortOrder(*(ascending(schema, name) for name in key))
    properties = {**_COMMON, **current_properties(mode)}
    location = lake.location(identifier)
    with lake.translated(identifier):
        return stage_with_ids_of(lake, identifier, like, schema, order, properties, location)


def _wider_fields(
    identifier: Identifier, existing: Mapping[str, IcebergType], schema: Schema
) -> list[NestedField]:
    """The fields of a schema of which a table has a narrower type.

    Raises:
        LakeError: a column of it has a type that can't become the one requested.
    """
    found: list[NestedField] = []
    for field in schema.fields:
        there = existing.get(field.name, field.field_type)
        if isinstance(there, ListType) and isinstance(field.field_type, ListType):
            continue  # of originals, whose field ids are each table's own
        if not can_hold(there, field.field_type):
            raise _other_type(identifier, field.name, there, field.field_type)
        if there != field.field_type:
            found.append(field)
    return found


def reshape(
    lake: Connection, identifier: Identifier, renamed: Mapping[str, str], dropped: Sequence[str]
) -> None:
    """Give columns of a table other names, and take others away, in one commit; their values stay
    in its older versions. Names are those of the table, then the new ones."""
    with lake.translated(identifier):
        table = lake.catalog.load_table(identifier.path)
        with table.transaction() as transaction:
            _sort_without(transaction, table, dropped)
            with transaction.update_schema() as update:
                for before, now in renamed.items():
                    update.rename_column((before,), now)
                for name in dropped:
                    update.delete_column((name,))


def _sort_without(transaction: Transaction, table: Table, dropped: Sequence[str]) -> None:
    """Sort a table by none of these columns: Spark can't read one that is sorted by a column that
    it has not."""
    fields = table.sort_order().fields
    by = [str(table.schema().find_column_name(field.source_id)) for field in fields]
    if set(dropped).isdisjoint(by):
        return
    with transaction.update_sort_order() as update:
        for field, column in zip(fields, by, strict=True):
            if column not in dropped:
                update.asc(column, field.transform, field.null_order)


def drop_column(lake: Connection, identifier: Identifier, name: str) -> Table:
    """Take a column away from a table, if it is there; the table."""
    with lake.translated(identifier):
        table = lake.catalog.load_table(identifier.path)
        if name in {field.name for field in table.schema().fields}:
            with table.update_schema() as update:
                update.delete_column((name,))
        return table.refresh()


def _other_type(
    identifier: Identifier, name: str, there: IcebergType, requested: IcebergType
) -> LakeError:
    return LakeError(
        f"lake table {identifier} has column {name!r} as {there}, the source now gives {requested}",
        table=str(identifier),
        column=name,
        next_step="Rename the lake table (one that is dropped is registered again), then sync "
        "again: it is rebuilt from raw",
    )


def create_table(
    lake: Connection,
    identifier: Identifier,
    schema: Schema,
    spec: PartitionSpec,
    properties: dict[str, str],
    order: SortOrder = UNSORTED_SORT_ORDER,
    location: str | None = None,
    like: Callable[[], Schema | None] = lambda: None,
) -> Table:
    """The table as it is, or made so, with the properties that all tables of the lake share.

    Args:
        like: gives a schema whose ids a new table takes, where it has no partitions and the columns
            of both have one type.
    """
    found = lake.load(identifier)
    if found is not None:
        return found
    lake.make_namespace(identifier.namespace)
    location = location or lake.location(identifier)
    other = like() if spec.is_unpartitioned() else None
    with lake.translated(identifier):
        try:
            if other is not None and has_types_of(schema, other):
                creation = stage_with_ids_of(
                    *(lake, identifier, other, schema, order, {**_COMMON, **properties}, location)
                )
                return creation.commit_transaction()
            return lake.catalog.create_table(
                identifier.path,
                schema,
                location=location,
                partition_spec=spec,
                sort_order=order,
                properties={
                    **_COMMON,
                    **properties,
                    # Files are added by name as well: then no commit has to set this first.
                    "schema.name-mapping.default": schema.name_mapping.model_dump_json(),
                },
            )
        except TableAlreadyExistsError:
            return lake.catalog.load_table(identifier.path)
