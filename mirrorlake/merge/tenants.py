"""The fold of tenants: deduped holds the newest copy of each, in the columns of all versions.

Each tenant's copy is whole, so a fold takes a tenant's rows out and puts those of its newest copy
in: of the tenants that moved, and of no others. It is written on a branch, counted there, and shown
in one step. Which copy is the newest the ledger says by its load's id; rows of a load that it does
not name are passed over. Doing it again changes nothing.

A column has the type that holds what any version has of it (`mirrorlake.schema.lattice`). Where
that is another one than deduped has, and no wider one, all tenants are folded again.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from mirrorlake.config.contract import TenantTable
from mirrorlake.destinations.base import Identifier, text_literal
from mirrorlake.destinations.iceberg.commit import snapshot_property
from mirrorlake.destinations.iceberg.durable import flush_commits
from mirrorlake.destinations.iceberg.model import LakeTable, column_names, history, is_rewrite
from mirrorlake.destinations.iceberg.session_settings import activate
from mirrorlake.destinations.iceberg.spark_errors import spark_errors
from mirrorlake.destinations.iceberg.tables import (
    can_hold,
    current_schema,
    iceberg_type,
    reshape,
    stored_types,
)
from mirrorlake.destinations.iceberg.tenants import ensure_current_tenants
from mirrorlake.errors import LakeDamaged, LakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Tenant, TenantPlace
from mirrorlake.load.raw_files import compare_bytes
from mirrorlake.merge.compaction import compact_if_due
from mirrorlake.merge.raw_versions import version_columns, version_originals
from mirrorlake.merge.reshape import NEXT, next_names
from mirrorlake.merge.staging import branch_sql, drop_stale, new_branch
from mirrorlake.schema.lattice import StoredType, common_type
from mirrorlake.schema.own_columns import DATABASE, LOAD, ORIGINAL, SOURCE, VERSION
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.table.tenants import deduped_of, raw_of
from mirrorlake.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

FOLD: Final = "mirrorlake.tenants-fold"
"""On commits of deduped: which fold made it, by which it is known that nobody wrote since."""
LISTED: Final = 1_000
"""Up to this many tenants are named in a statement, so that only their buckets are opened."""
TENANTS: Final = "mirror_tenants"
"""The view of the tenants that a statement is about: see `listed`."""


@dataclass(frozen=True)
class TenantShapes:
    """The versions of a table of tenants, oldest first, and the columns in which all are read.

    Attributes:
        tables: the raw tables by the hash of their version; those that exist.
        columns: name → type: those of the first version, then those that later ones add.
        originals: whether some version keeps original texts.
    """

    tables: Mapping[str, LakeTable]
    columns: Mapping[str, StoredType]
    originals: bool

    @property
    def stored(self) -> list[tuple[str, str]]:
        """Name and Iceberg type of deduped's columns but the originals."""
        own = [(name, kind.iceberg) for name, kind in self.columns.items()]
        return [*own, *((name, "string") for name in (SOURCE, DATABASE, VERSION))]


def read_shapes(workspace: Workspace, table: TenantTable, lead: ResolvedTable) -> TenantShapes:
    """The versions of a table of tenants as the lake has them.

    Args:
        lead: any of its tenants: their contracts are alike.
    """
    tables: dict[str, LakeTable] = {}
    for version in workspace.ledger.schema_versions(table.name):
        found = workspace.lake.load(raw_of(table, version.raw_table))
        if found is not None:
            tables[version.hash] = found
    originals = any(ORIGINAL in column_names(one.schema()) for one in tables.values())
    return TenantShapes(tables, _united(lead, list(tables.values())), originals)


def _united(lead: ResolvedTable, tables: Sequence[LakeTable]) -> dict[str, StoredType]:
    versions = [stored_types(table) for table in tables]
    names: dict[str, str] = {}
    for there in versions:
        for name in there:
            names.setdefault(name.lower(), name)
    wanted = list(names.values())
    # A name that a column had before is no column of its own, unless some version has both.
    for now, earlier in lead.contract.earlier_names.items():
        column = next((name for name in wanted if name.lower() == now), None)
        for name in [n for n in wanted if n.lower() in earlier and column is not None]:
            both = any({name, column} <= set(there) for there in versions)
            if not both:
                wanted.remove(name)
    found: dict[str, StoredType] = {}
    for name in wanted:
        then = [(there, lead.name_in(there, name)) for there in versions]
        types = [there[held].iceberg for there, held in then if held is not None]
        found[name] = StoredType(common_type(types, utc=lead.source.is_utc).type)
    return found


@dataclass(frozen=True)
class _Todo:
    """What a fold does.

    Attributes:
        rows: tenants whose newest copies are put in.
        out: tenants whose rows are taken out.
        whole: whether deduped is written anew, whatever it holds.
        retyped: columns whose type can't become the one of now.
    """

    rows: Mapping[TenantPlace, Tenant]
    out: frozenset[TenantPlace]
    whole: bool
    retyped: tuple[str, ...] = ()


def fold_tenants(
    workspace: Workspace,
    table: TenantTable,
    lead: ResolvedTable,
    tenants: Mapping[TenantPlace, Tenant],
    shapes: TenantShapes,
) -> tuple[TenantPlace, ...]:
    """Bring deduped up to the newest copy of every tenant; the tenants whose rows it did not hold
    so before. Nothing to do costs no Spark.

    Args:
        workspace: with the lease of the table of tenants.
        lead: any of its tenants.
        tenants: as the ledger has them.
        shapes: the versions that the lake has.

    Raises:
        LakeError: Spark, the catalog or the storage failed; deduped is as it was, or folded.
        LeaseHeld: another run took the table over; this one writes nothing more.
    """
    todo = _plan(workspace, table, shapes, tenants)
    if not todo.rows and not todo.out:
        return ()
    identifier = deduped_of(table)
    _refuse_damaged(workspace, table, shapes, todo.rows.values())
    _ensure(workspace, table, lead, shapes, todo.retyped)
    failpoint("fold.before")
    head = workspace.lake.head(identifier)
    with spark_errors(table.name):
        spark = workspace.spark.get()
        with listed(spark, todo.rows.values()):
            _write(workspace, table, lead, shapes, todo)
    failpoint("fold.committed")
    flush_commits(workspace.lake.load(identifier), head)
    folded = {place: tenant.load_id for place, tenant in todo.rows.items()}
    workspace.ledger.record_tenants_folded(
        table.name, {**dict.fromkeys(todo.out - folded.keys()), **folded}
    )
    failpoint("fold.recorded")
    if not todo.whole:
        compact_if_due(workspace.spark.get(), workspace.lake, identifier)
    return tuple(p for p, t in todo.rows.items() if t.folded != t.load_id) + tuple(
        p for p in todo.out if p not in todo.rows
    )


def is_shown(table: TenantTable, tenant: Tenant) -> bool:
    """Whether deduped is to have a tenant's rows."""
    there = tenant.gone_at is None or table.dropped == "keep"
    return tenant.load_id is not None and there


def _plan(
    workspace: Workspace,
    table: TenantTable,
    shapes: TenantShapes,
    tenants: Mapping[TenantPlace, Tenant],
) -> _Todo:
    identifier = deduped_of(table)
    shown = {p: t for p, t in tenants.items() if is_shown(table, t)}
    lost = {p: t for p, t in shown.items() if t.version not in shapes.tables}
    there = workspace.lake.load(identifier)
    held = {f.name: f.field_type for f in there.schema().fields} if there is not None else {}
    retyped = tuple(
        name
        for name, kind in shapes.stored
        if name in held and not can_hold(held[name], iceberg_type(kind))
    )
    if there is None or retyped or not _is_ours(workspace, identifier, there):
        if lost and there is not None:
            raise _lost_raw(table, lost)
        rows = {p: t for p, t in shown.items() if p not in lost}
        return _Todo(rows, frozenset(), whole=True, retyped=retyped)
    moved = {p: t for p, t in shown.items() if t.folded != t.load_id and p not in lost}
    gone = {p for p, t in tenants.items() if t.folded is not None and p not in shown}
    return _Todo(moved, frozenset({*moved, *gone}), whole=False)


def _lost_raw(table: TenantTable, lost: Mapping[TenantPlace, Tenant]) -> LakeError:
    names = sorted(f"{source}.{database}" for source, database in lost)
    return LakeError(
        f"table {table.name}: all tenants are to be folded again, and raw has no rows of "
        f"{len(names)} of them any more ({', '.join(names[:3])}{' …' if len(names) > 3 else ''})",
        table=table.name,
        next_step="Deduped is as it was. Sync again once they can be read; of tenants that are "
        "gone, restore their raw table, or write `dropped: remove`",
    )


def _is_ours(workspace: Workspace, identifier: Identifier, table: LakeTable) -> bool:
    """Whether deduped is as the last fold left it: nobody wrote to it since, or set it back."""
    known = (workspace.ledger.definition(_made(identifier)) or "").split()
    with workspace.lake.translated(identifier):
        newest = next((s for s in history(table) if not is_rewrite(s)), None)
    return newest is not None and snapshot_property(newest, FOLD) in known


def _made(identifier: Identifier) -> str:
    """The name under which the ledger keeps the last folds: two, for the last may not have come to
    be shown."""
    return f"tenants {identifier}"


def _refuse_damaged(
    workspace: Workspace, table: TenantTable, shapes: TenantShapes, tenants: Collection[Tenant]
) -> None:
    """See that the files that are folded have the bytes that their loads wrote.

    Raises:
        LakeDamaged: one has not; nothing was changed.
    """
    seqs = {tenant.seq for tenant in tenants if tenant.seq is not None}
    tables = {one.name()[-1]: one for one in shapes.tables.values()}
    records = [
        record
        for record in workspace.ledger.raw_files(table.name, seqs)
        if record.raw_table in tables
    ]
    for record, found in zip(records, compare_bytes(workspace.lake, tables, records), strict=True):
        if found is None:
            continue
        # Without terms they are read again, as if their contract had changed.
        theirs = [replace(t, terms=None) for t in tenants if t.seq == record.seq]
        workspace.ledger.record_tenants(table.name, theirs)
        raise LakeDamaged(
            f"table {table.name}: raw file {found.path} {found.what}",
            table=table.name,
            reason=found.what,
            next_step="Sync again: its tenants are then read again",
        )


def _ensure(
    workspace: Workspace,
    table: TenantTable,
    lead: ResolvedTable,
    shapes: TenantShapes,
    retyped: Sequence[str],
) -> None:
    """Deduped, with every column that this fold writes."""
    identifier, beside = deduped_of(table), next_names(retyped)
    there = workspace.lake.load(identifier)
    left = [n for n in column_names(there.schema()) if n.startswith(NEXT)] if there else []
    if left:  # of a run that died
        reshape(workspace.lake, identifier, {}, left)
    columns = [(beside.get(name, name), kind) for name, kind in shapes.stored]
    schema = current_schema(columns, shapes.originals)
    key = [n for column in lead.key if (n := lead.name_in(shapes.columns, column)) is not None]
    sorted_by = [beside.get(name, name) for name in key]
    ensure_current_tenants(workspace.lake, identifier, schema, sorted_by)


# --- Spark ----------------------------------------------------------------------------------------


def _write(
    workspace: Workspace,
    table: TenantTable,
    lead: ResolvedTable,
    shapes: TenantShapes,
    todo: _Todo,
) -> None:
    lake, identifier, spark = workspace.lake, deduped_of(table), workspace.spark.get()
    drop_stale(lake, identifier)
    head, branch, fold = lake.head(identifier), new_branch(), uuid.uuid4().hex[:12]
    target = branch_sql(identifier, branch)
    if todo.whole:
        lake.begin_branch(identifier, branch)
    else:
        lake.create_branch(identifier, branch, head)
    failpoint("refold.begun")
    try:
        if todo.out:
            with _marked(spark, fold):
                spark.sql(f"DELETE FROM {target} WHERE {places_sql(todo.out)}")  # noqa: S608
        if todo.rows:
            rows = spark.sql(rows_sql(table, lead, shapes, todo.rows))
            renamed = rows.toDF(*(next_names(todo.retyped).get(n, n) for n in rows.columns))
            _append(renamed, target, fold)
        failpoint("refold.written")
        _refuse_other_counts(spark, table, target, todo)
        known = (workspace.ledger.definition(_made(identifier)) or "").split()[-1:]
        workspace.ledger.record_definition(_made(identifier), " ".join([*known, fold]))
        flush_commits(lake.load(identifier), head, branch)
        workspace.check_lease()
        if todo.whole:
            lake.replace_main(identifier, branch, head, next_names(todo.retyped))
            failpoint("refold.shown")
            lake.drop_branch(identifier, branch)
        else:
            lake.publish_branch(identifier, branch, head)
    except BaseException:
        drop_stale(lake, identifier)
        raise


def rows_sql(
    table: TenantTable,
    lead: ResolvedTable,
    shapes: TenantShapes,
    tenants: Mapping[TenantPlace, Tenant],
) -> str:
    """The newest copies of some tenants, in deduped's columns; these tenants are listed in
    ``mirror_tenants`` (`listed`)."""
    selects: list[str] = []
    for hashed, raw in shapes.tables.items():
        of = [place for place, tenant in tenants.items() if tenant.version == hashed]
        if not of:
            continue
        columns = version_columns(lead, raw, shapes.columns)
        columns += [SOURCE, DATABASE, f"{text_literal(hashed)} AS {VERSION}"]
        if shapes.originals:
            columns.append(version_originals(lead, raw, shapes.columns))
        name = raw_of(table, raw.name()[-1]).sql
        where = f" WHERE {places_sql(of)}" if len(of) <= LISTED else ""
        selects.append(
            f"SELECT {', '.join(columns)} FROM {name} LEFT SEMI JOIN {TENANTS} m"  # noqa: S608
            f" ON {SOURCE} = m.source AND {DATABASE} = m.database_name AND {LOAD} = m.load_id"
            f"{where}"
        )
    return " UNION ALL ".join(selects)


def places_sql(places: Iterable[TenantPlace]) -> str:
    """SQL of whether a row is of one of these tenants."""
    by_source: dict[str, list[str]] = {}
    for source, database in sorted(places):
        by_source.setdefault(source, []).append(text_literal(database))
    return " OR ".join(
        f"({SOURCE} = {text_literal(source)} AND {DATABASE} IN ({', '.join(names)}))"
        for source, names in by_source.items()
    )


@contextmanager
def listed(spark: SparkSession, tenants: Iterable[Tenant]) -> Iterator[None]:
    """While the block runs, ``mirror_tenants`` has these tenants and their loads."""
    rows = [(t.source, t.database, t.load_id) for t in tenants]
    schema = "source string, database_name string, load_id string"
    spark.createDataFrame(rows, schema).createOrReplaceTempView(TENANTS)
    try:
        yield
    finally:
        spark.catalog.dropTempView(TENANTS)


@contextmanager
def _marked(spark: SparkSession, fold: str) -> Iterator[None]:
    """Commits in the block carry the fold's mark."""
    setting = f"spark.sql.iceberg.snapshot-property.{FOLD}"
    spark.conf.set(setting, fold)
    try:
        yield
    finally:
        spark.conf.unset(setting)


def _append(rows: DataFrame, target: str, fold: str) -> None:
    activate(rows.sparkSession)
    writer: Any = rows.writeTo(target)
    # Each bucket's rows in one task, sorted by tenant: a file a bucket.
    writer = writer.option("distribution-mode", "hash")
    writer.option(f"snapshot-property.{FOLD}", fold).append()


def _refuse_other_counts(spark: SparkSession, table: TenantTable, target: str, todo: _Todo) -> None:
    """See that the branch has as many rows of each tenant as its load read.

    Raises:
        LakeError: it has not; nothing is visible.
    """
    places = {*todo.rows, *todo.out}
    where = "" if todo.whole or len(places) > LISTED else f" WHERE {places_sql(places)}"
    counts = spark.sql(
        f"SELECT {SOURCE}, {DATABASE}, count(*) FROM {target}{where} GROUP BY 1, 2"  # noqa: S608
    ).collect()
    found = {(str(s), str(d)): int(n) for s, d, n in counts}
    for place in places:
        tenant = todo.rows.get(place)
        wanted = (tenant.rows or 0) if tenant is not None else 0
        if found.get(place, 0) != wanted:
            raise LakeError(
                f"table {table.name}: the fold has {found.get(place, 0):,} rows of tenant "
                f"{place[0]}.{place[1]}, and its load read {wanted:,}",
                table=table.name,
                next_step="Nothing of it is visible; see whether somebody wrote into raw, then "
                "sync again",
            )
