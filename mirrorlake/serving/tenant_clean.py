"""Clean of tenants as a table: what the contract's rules make of deduped, tenant by tenant.

A table is what every engine can read, and where a keyed hash can stand: a view's text would show
the key. Rows are taken from deduped, never from raw, so both show the same copies; only tenants
whose rows moved are written again, on a branch that is counted before it is shown. A rule that
takes values away has all of them written again; then the older versions go with their files, as
they would show these values (`mirrorlake.serving.hiding`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from mirrorlake.config.contract import TenantTable
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.model import LakeTable, column_names, history, is_rewrite
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.destinations.iceberg.storage.durable import flush_commits
from mirrorlake.destinations.iceberg.tables.schemas import can_hold, current_schema, iceberg_type
from mirrorlake.destinations.iceberg.tables.tables import reshape
from mirrorlake.destinations.iceberg.tables.tenants import ensure_current_tenants
from mirrorlake.errors import ConfigError, LakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Ledger, TenantPlace
from mirrorlake.merge.compaction import compact_if_due
from mirrorlake.merge.reshape import NEXT, next_names
from mirrorlake.merge.staging import append_rows, branch_sql, drop_stale, made_of, new_branch
from mirrorlake.merge.tenant_due import Due, forget_due, read_due
from mirrorlake.merge.tenant_shapes import LISTED, TenantShapes, places_sql
from mirrorlake.schema.masking import HASHABLE, keyed_hash
from mirrorlake.schema.own_columns import DATABASE, ORIGINAL, SOURCE
from mirrorlake.serving.hiding import begin_hiding, finish_hiding, is_hiding
from mirrorlake.serving.next_tables import has_view, next_table, show_next_table
from mirrorlake.serving.tenant_clean_columns import CleanColumns, clean_columns_of, rules_of
from mirrorlake.table.hash_key import (
    forget_hash_key,
    has_hash_key,
    is_made_under,
    record_hash_key,
    unhashable,
)
from mirrorlake.table.lake_tables import clean_of, deduped_of
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)


# --- what is refused before anything is read ------------------------------------------------------


def refuse_hashes(workspace: Workspace, table: TenantTable, shapes: TenantShapes) -> None:
    """See that the hashes that the contract wants can be made, and are those that clean has.

    Raises:
        ConfigError: clean was hashed under another key, or a column's type over all shapes has more
            than one text.
    """
    rules, key = rules_of(table, shapes.columns), workspace.config.privacy.hash_key
    hashed = [name for name, rule in rules.items() if rule == "hash"]
    for name in hashed:
        kind = shapes.columns[name].iceberg
        if kind.split("(")[0] not in HASHABLE:
            raise unhashable(table.name, name, f"{kind} over all shapes")
    clean = clean_of(table)
    if not hashed or key is None or not has_hash_key(workspace.ledger, clean):
        return
    if not is_made_under(workspace.ledger, clean, key):
        raise ConfigError(
            f"table {table.name}: privacy.hash_key is not the key under which {clean} was hashed: "
            "one value would have two hashes in it",
            table=table.name,
            next_step="Set the old key again. Under the new one it is made again once it was "
            "`clean: view` for a sync, without hashes",
        )


# --- the table ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CleanMade:
    """What became of clean.

    Attributes:
        whole: whether all of it was made: a view where there was a table or none, a table with all
            of its rows.
        tenants: whose rows were written into a table.
    """

    whole: bool = False
    tenants: int = 0


def make_clean_table(workspace: Workspace, table: TenantTable, shapes: TenantShapes) -> CleanMade:
    """Bring the clean table up to deduped. Nothing to do costs no Spark.

    Raises:
        LakeError: Spark, the catalog or the storage failed; clean is as it was, or made.
        LeaseHeld: another run took the table over; this one writes nothing more.
    """
    ledger, lake, clean = workspace.ledger, workspace.lake, clean_of(table)
    wanted = clean_columns_of(ledger, table, shapes)
    made = _read_made(ledger, table)
    is_view = has_view(workspace, clean)
    there = None if is_view else lake.load(clean)
    if there is not None and (made is None or not wanted.only_adds(made["columns"])):
        begin_hiding(workspace, clean)
    due = read_due(ledger, clean)
    if (
        there is None
        or made is None
        or made["columns"] != wanted.text
        or not _is_as_made(there, made)
        or any(name.startswith(NEXT) for name in column_names(there.schema()))  # of a dead run
    ):
        due = Due(everything=True)
    if not due:
        finish_hiding(workspace, clean)  # of a run that died
        return CleanMade()
    key = workspace.config.privacy.hash_key
    if key is not None and "hash" in rules_of(table, shapes.columns).values():
        # Before the first hash is written: a table may lag behind the record, never the other way.
        record_hash_key(ledger, clean, key)
    target = next_table(workspace, clean) if is_view else clean
    beside = _ensure(workspace, table, wanted, there, target)
    with spark_errors(table.name):
        tenants = _write(workspace, table, wanted, due, beside, target)
    if is_view:
        show_next_table(workspace, target, clean)
    failpoint("tenants.clean_shown")
    _record_made(ledger, table, wanted, [lake.head(clean)])
    forget_due(ledger, clean)
    finish_hiding(workspace, clean)
    if not due.everything:
        compact_if_due(workspace.spark.get, lake, clean)
    return CleanMade(due.everything, tenants)


def forget_clean_table(ledger: Ledger, table: TenantTable) -> None:
    """Forget the clean table, where there was one: clean is a view."""
    if _read_made(ledger, table) is not None:
        forget_hash_key(ledger, clean_of(table))
        ledger.forget_definition(_made(table))
        forget_due(ledger, clean_of(table))


def _ensure(
    workspace: Workspace,
    table: TenantTable,
    wanted: CleanColumns,
    there: LakeTable | None,
    clean: Identifier,
) -> dict[str, str]:
    """The table with every column that is written; column → its name until it is shown, of those
    that must have their values as soon as they are there."""
    if there is not None and (gone := _gone(workspace.ledger, table, wanted, there)):
        reshape(workspace.lake, clean, {}, gone)
        there = there.refresh()
    held = {f.name: f.field_type for f in there.schema().fields} if there is not None else {}
    beside = next_names(
        [
            name
            for name, kind in wanted.stored
            if held and (name not in held or not can_hold(held[name], iceberg_type(kind)))
        ]
    )
    columns = [(beside.get(name, name), kind) for name, kind in wanted.stored]
    schema = current_schema(columns, wanted.original is not None)
    shown = {name.lower(): name for name, _ in wanted.stored}
    key = [shown[name.lower()] for name in table.key if name.lower() in shown]
    sorted_by = [beside.get(n, n) for n in key]
    place = workspace.lake.location(clean_of(table))
    ensure_current_tenants(workspace.lake, clean, schema, sorted_by, table.write_mode, place)
    return beside


def _gone(ledger: Ledger, table: TenantTable, wanted: CleanColumns, there: LakeTable) -> list[str]:
    """The columns that the table has and clean has not: a dead run's, and those that a rule takes
    away."""
    has = column_names(there.schema())
    left = [name for name in has if name.startswith(NEXT)]
    if not is_hiding(ledger, clean_of(table)):
        return left
    kept = {SOURCE, DATABASE, *(name for name, _ in wanted.stored)}
    kept |= {ORIGINAL} if wanted.original else set()
    return [name for name in has if name not in kept]


def _write(
    workspace: Workspace,
    table: TenantTable,
    wanted: CleanColumns,
    due: Due,
    beside: Mapping[str, str],
    clean: Identifier,
) -> int:
    """Write and show what is due; of how many tenants that was."""
    lake, spark = workspace.lake, workspace.spark.get()
    _register_hash(spark, workspace.config.privacy.hash_key)
    drop_stale(lake, clean)
    head, branch = lake.head(clean), new_branch()
    of_deduped = lake.head(deduped_of(table))
    target = branch_sql(clean, branch)
    if due.everything:
        lake.begin_branch(clean, branch)
    else:
        lake.create_branch(clean, branch, head)
    try:
        if not due.everything:
            spark.sql(f"DELETE FROM {target} WHERE {places_sql(due.places)}")  # noqa: S608
        rows = spark.sql(
            f"SELECT {', '.join(wanted.selects)} FROM {deduped_of(table).sql}{_where(due)}"  # noqa: S608
        )
        renamed = rows.toDF(*(beside.get(name, name) for name in rows.columns))
        append_rows(renamed, target, {} if due.everything else made_of(head))
        failpoint("tenants.clean_staged")
        there = _refuse_other_counts(workspace, table, target, due)
        _refuse_moved(workspace, table, of_deduped)
        flush_commits(lake.load(clean), head, branch)
        workspace.check_lease()
        staged = lake.branches(clean)[branch]
        # Before it is shown: who dies in between left it at one of both. As a whole it is made
        # again by its new rules, unless it shows them.
        _record_made(
            workspace.ledger, table, wanted, [staged] if due.everything else [head, staged]
        )
        failpoint("tenants.clean_marked")
        if due.everything:
            lake.replace_main(clean, branch, head, beside)
            lake.drop_branch(clean, branch)
        else:
            lake.publish_branch(clean, branch, head)
    except BaseException:
        drop_stale(lake, clean)
        raise
    return len(there if due.everything else due.places)


def _register_hash(spark: Any, key: SecretStr | None) -> None:
    if key is not None:
        function = keyed_hash(key.get_secret_value().encode())
        spark.udf.register("mirror_hash", function, "string")


def _refuse_moved(workspace: Workspace, table: TenantTable, at: int | None) -> None:
    """See that deduped is at the version that was read.

    Raises:
        LakeError: somebody wrote to it meanwhile; nothing is visible.
    """
    if workspace.lake.head(deduped_of(table)) != at:
        raise LakeError(
            f"table {table.name}: somebody wrote to {deduped_of(table)} while clean was made of it",
            table=table.name,
            next_step="Clean is as it was. Sync again",
            retryable=True,
        )


def _where(due: Due) -> str:
    return "" if due.everything else f" WHERE {places_sql(due.places)}"


def _refuse_other_counts(
    workspace: Workspace, table: TenantTable, target: str, due: Due
) -> set[TenantPlace]:
    """See that the branch has as many rows of each tenant as deduped; the tenants that were
    counted.

    Raises:
        LakeError: it has not; nothing is visible.
    """
    spark, where = workspace.spark.get(), _where(due) if len(due.places) <= LISTED else ""

    def count(rows: str) -> dict[TenantPlace, int]:
        sql = f"SELECT {SOURCE}, {DATABASE}, count(*) FROM {rows}{where} GROUP BY 1, 2"  # noqa: S608
        return {(str(s), str(d)): int(n) for s, d, n in spark.sql(sql).collect()}

    found, expected = count(target), count(deduped_of(table).sql)
    for place in sorted(found.keys() | expected.keys()):
        if found.get(place, 0) != expected.get(place, 0):
            raise LakeError(
                f"table {table.name}: clean has {found.get(place, 0):,} rows of tenant "
                f"{place[0]}.{place[1]}, and deduped {expected.get(place, 0):,}",
                table=table.name,
                next_step="Nothing of it is visible: sync again, and report it if it stays",
            )
    return {*expected}


# --- by what it is known again --------------------------------------------------------------------


def _is_as_made(there: LakeTable, made: Mapping[str, Any]) -> bool:
    """Whether the table is as it was last left: nobody wrote to it since, or set it back."""
    newest = next((s for s in history(there) if not is_rewrite(s)), None)
    return newest is not None and newest.snapshot_id in made["heads"]


def _read_made(ledger: Ledger, table: TenantTable) -> dict[str, Any] | None:
    text = ledger.definition(_made(table))
    return None if text is None else json.loads(text)


def _record_made(
    ledger: Ledger, table: TenantTable, wanted: CleanColumns, heads: Iterable[int | None]
) -> None:
    marks = {"columns": wanted.text, "heads": [head for head in heads if head is not None]}
    ledger.record_definition(_made(table), json.dumps(marks))


def _made(table: TenantTable) -> str:
    """The name under which the ledger keeps by what the clean table is known again."""
    return f"tenants_clean {clean_of(table)}"
