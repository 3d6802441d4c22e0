"""The shapes of a table of tenants, and SQL of the rows of some tenants in the columns of all.

What belongs here: what is read together, and how. What doesn't: writing it
(`mirrorlake.merge.tenants`, `mirrorlake.serving.tenant_clean`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from mirrorlake.config.contract import TenantTable
from mirrorlake.destinations.base import as_sql_identifier, text_literal
from mirrorlake.destinations.iceberg.model import LakeTable, column_names
from mirrorlake.destinations.iceberg.tables.schemas import stored_types
from mirrorlake.destinations.iceberg.tables.tables import refuse_edited
from mirrorlake.ledger import Load, Tenant, TenantPlace
from mirrorlake.merge.row_sql.ranks import GONE, newest_by
from mirrorlake.merge.row_sql.version_sql import version_columns, version_originals
from mirrorlake.merge.statements import original_of
from mirrorlake.schema.lattice import StoredType, common_type
from mirrorlake.schema.own_columns import (
    DATABASE,
    DELETED,
    EVENT,
    LOAD,
    OP,
    ORIGINAL,
    SEQ,
    SOURCE,
    VERSION,
)
from mirrorlake.table.tenants import raw_of
from mirrorlake.table.tenants_in_log import CopyPlace
from mirrorlake.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LISTED: Final = 1_000
"""Up to this many tenants are named in a statement, so that only their buckets are opened."""
TENANTS: Final = "mirror_tenants"
"""The view of the tenants that a statement is about: see `listed`."""
LOG_LOADS: Final = "mirror_log_loads"
"""The view of the loads that have what logs say of tenants: see `listed`."""


@dataclass(frozen=True)
class ShapeNames:
    """What columns are called in one shape of a table of tenants.

    Attributes:
        held: column → its name in the shape; columns that it lacks are left out.
    """

    held: Mapping[str, str]
    is_utc: bool

    def name_in(self, names: Iterable[str], column: str) -> str | None:
        """What a column is called in this shape; None if it is not there."""
        name = self.held.get(column)
        return name if name in set(names) else None

    def another_until(self, column: str, then: str) -> int:
        """0: a column of a shape is itself in all of its rows."""
        del column, then
        return 0

    @property
    def fingerprint(self) -> str:
        """A short name of the mapping: by another one, rows are others."""
        return hashlib.sha256(json.dumps(sorted(self.held.items())).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class TenantShapes:
    """The versions of a table of tenants, oldest first, and the columns in which all are read.

    Attributes:
        tables: the raw tables by the hash of their version; those that exist.
        names: what the columns are called in each of them, by hash.
        columns: name → type: those of the first version, then those that later ones add.
        originals: whether some version keeps original texts.
    """

    tables: Mapping[str, LakeTable]
    names: Mapping[str, ShapeNames]
    columns: Mapping[str, StoredType]
    originals: bool

    @property
    def stored(self) -> list[tuple[str, str]]:
        """Name and Iceberg type of deduped's columns but the originals."""
        own = [(name, kind.iceberg) for name, kind in self.columns.items()]
        return [*own, *((name, "string") for name in (SOURCE, DATABASE, VERSION))]

    @property
    def fingerprints(self) -> dict[str, str]:
        """By version, a name of how its columns are called."""
        return {hashed: names.fingerprint for hashed, names in self.names.items()}


def read_shapes(workspace: Workspace, table: TenantTable) -> TenantShapes:
    """The versions of a table of tenants as the lake has them.

    Raises:
        LakeError: one can't be read, or somebody edited its columns.
    """
    tables: dict[str, LakeTable] = {}
    for version in workspace.ledger.schema_versions(table.name):
        found = workspace.lake.load(raw_of(table, version.raw_table))
        if found is not None:
            refuse_edited(found, version)
            tables[version.hash] = found
    originals = any(ORIGINAL in column_names(one.schema()) for one in tables.values())
    utc = all(workspace.config.sources[name].is_utc for name in table.sources)
    types = {hashed: stored_types(one) for hashed, one in tables.items()}
    held = {hashed: held_names(table, there) for hashed, there in types.items()}
    spelled: dict[str, str] = {}
    for names in held.values():
        for column in names:
            spelled.setdefault(column.lower(), column)
    columns: dict[str, StoredType] = {}
    named: dict[str, dict[str, str]] = {hashed: {} for hashed in held}
    for lowered, name in spelled.items():
        found_types: list[str] = []
        for hashed, names in held.items():
            then = next((h for c, h in names.items() if c.lower() == lowered), None)
            if then is not None:
                named[hashed][name] = then
                found_types.append(types[hashed][then].iceberg)
        columns[name] = StoredType(common_type(found_types, utc=utc).type)
    shapes = {hashed: ShapeNames(names, utc) for hashed, names in named.items()}
    return TenantShapes(tables, shapes, columns, originals)


def held_names(table: TenantTable, there: Iterable[str]) -> dict[str, str]:
    """Column → its name in one shape. A column that the shape has by its own name has that one; one
    that it has by earlier names alone has the newest of these, and the others are columns of their
    own: in one shape no value may stand for another."""
    names = {name.lower(): name for name in there}
    became: dict[str, str] = {}
    for column, rule in table.columns.items():
        earlier = [one.lower() for one in rule.renamed_from if one.lower() in names]
        if earlier and column.lower() not in names:
            became[earlier[0]] = column
    return {became.get(lowered, name): name for lowered, name in names.items()}


# --- rows of tenants ---------------------------------------------------------------------


def rows_sql(
    table: TenantTable, shapes: TenantShapes, tenants: Mapping[TenantPlace, Tenant]
) -> str:
    """The rows of some tenants, in deduped's columns: their newest copies, and what logs say since.
    These tenants, and the loads of logs, are listed in views (`listed`)."""
    selects: list[str] = []
    for hashed, raw in shapes.tables.items():
        alike: dict[tuple[str, ...] | None, list[TenantPlace]] = {}
        for place, tenant in tenants.items():
            if tenant.version == hashed:
                copied = CopyPlace.of(tenant)
                alike.setdefault(copied and copied.key, []).append(place)
        columns = version_columns(shapes.names[hashed], raw, shapes.columns)
        columns += [SOURCE, DATABASE, f"{text_literal(hashed)} AS {VERSION}"]
        if shapes.originals:
            columns.append(version_originals(shapes.names[hashed], raw, shapes.columns))
        for key, of in alike.items():
            name = raw_of(table, raw.name()[-1]).sql
            where = f" WHERE ({places_sql(of)})" if len(of) <= LISTED else ""
            if key is None:
                selects.append(_selected(name, columns, f"{LOAD} = m.load_id", key) + where)
            else:
                selects.append(_newest_sql(shapes, hashed, key, name, columns, where))
    return " UNION ALL ".join(selects)


def _selected(raw: str, columns: Sequence[str], which: str, key: tuple[str, ...] | None) -> str:
    return (
        f"SELECT {', '.join(columns)} FROM {raw} LEFT SEMI JOIN {TENANTS} m"  # noqa: S608
        f" ON {SOURCE} = m.source AND {DATABASE} = m.database_name"
        f" AND m.key_columns = {text_literal(_key_text(key))} AND {which}"
    )


_SINCE: Final = (
    f"({LOAD} = m.load_id OR ({OP} IS NOT NULL AND {SEQ} > m.seq"
    f" AND {SEQ} <= coalesce(m.until, {SEQ})))"
)
"""SQL of whether a row is of a tenant's newest copy, or of its log since, as far as that continues
the copy."""


def _newest_sql(
    shapes: TenantShapes,
    hashed: str,
    key: tuple[str, ...],
    raw: str,
    columns: Sequence[str],
    where: str,
) -> str:
    """The current rows of tenants that follow their logs: of each key the newest, where it is no
    tombstone. Rows of loads that the ledger does not name are nobody's."""
    named = {then.lower(): name for name, then in shapes.names[hashed].held.items()}
    names = [named[name.lower()] for name in key]
    parts = [SOURCE, DATABASE, *map(as_sql_identifier, names)]
    parts += [original_of(name) for name in names] if shapes.originals else []
    [(rank, newest)] = newest_by(parts, flagged=False, events=True)
    known = f"({OP} IS NULL OR {LOAD} IN (SELECT load_id FROM {LOG_LOADS}))"  # noqa: S608
    where = f"{where} AND {known}" if where else f" WHERE {known}"
    rows = _selected(raw, [*columns, SEQ, EVENT, f"{DELETED} AS {GONE}"], _SINCE, key) + where
    shown = [as_sql_identifier(name) for name in shapes.columns] + [SOURCE, DATABASE, VERSION]
    shown += [ORIGINAL] if shapes.originals else []
    return (
        f"SELECT {', '.join(shown)} FROM (SELECT *, {newest} AS {rank} FROM ({rows}))"  # noqa: S608
        f" WHERE {rank} = 1 AND NOT {GONE}"
    )


def _key_text(key: tuple[str, ...] | None) -> str:
    """A key as `listed` has it; '' of tenants whose copies are all that there is."""
    return "" if key is None else json.dumps(key)


def places_sql(places: Iterable[TenantPlace]) -> str:
    """SQL of whether a row is of one of these tenants."""
    by_source: dict[str, list[str]] = {}
    for source, database in sorted(places):
        by_source.setdefault(source, []).append(text_literal(database))
    return " OR ".join(
        f"({SOURCE} = {text_literal(source)} AND {DATABASE} IN ({', '.join(names)}))"
        for source, names in by_source.items()
    )


_LISTED_COLUMNS: Final = pa.schema(
    [
        *(("source", pa.string()), ("database_name", pa.string()), ("load_id", pa.string())),
        *(("seq", pa.int64()), ("until", pa.int64()), ("key_columns", pa.string())),
    ]
)


@contextmanager
def listed(
    spark: SparkSession, tenants: Iterable[Tenant], log_loads: Iterable[Load] = ()
) -> Iterator[None]:
    """While the block runs, ``mirror_tenants`` has these tenants and their loads, and
    ``mirror_log_loads`` the loads of their logs.

    Args:
        log_loads: those that may have changes of these tenants since their newest copies.
    """
    # Arrow's tables: Spark knows their size and broadcasts them. A list of rows becomes an RDD of
    # unknown size: raw is shuffled and sorted to be joined with it.
    rows: list[dict[str, Any]] = []
    for one in tenants:
        copied = CopyPlace.of(one)
        until, key = (None, None) if copied is None else (copied.until, copied.key)
        parts = (one.source, one.database, one.load_id, one.seq, until, _key_text(key))
        rows.append(dict(zip(_LISTED_COLUMNS.names, parts, strict=True)))
    found: Any = spark.createDataFrame(pa.Table.from_pylist(rows, _LISTED_COLUMNS))
    found.createOrReplaceTempView(TENANTS)
    loads = pa.array([load.load_id for load in log_loads], pa.string())
    found = spark.createDataFrame(pa.table({"load_id": loads}))
    found.createOrReplaceTempView(LOG_LOADS)
    try:
        yield
    finally:
        spark.catalog.dropTempView(TENANTS)
        spark.catalog.dropTempView(LOG_LOADS)
