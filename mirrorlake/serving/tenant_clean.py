"""Clean of tenants as a table: what the contract's rules make of deduped, tenant by tenant.

A table is what every engine can read, and where a keyed hash can stand: a view's text would show
the key. Rows are taken from deduped, never from raw, so both show the same copies; only tenants
whose rows moved are written again, on a branch that is counted before it is shown. A rule that
takes values away has all of them written again; then the older versions go with their files, as
they would show these values (`mirrorlake.serving.hiding`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from mirrorlake.config.contract import TenantTable
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.model import LakeTable, column_names
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.destinations.iceberg.tables.schemas import can_hold, iceberg_type
from mirrorlake.errors import ConfigError, LakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Ledger, TenantPlace
from mirrorlake.merge.compaction import compact_if_due
from mirrorlake.merge.reshape import NEXT, next_names
from mirrorlake.merge.statements import Layer, register_hash
from mirrorlake.merge.tenant_due import Due, forget_due, read_due
from mirrorlake.merge.tenant_layer import LayerChange, LayerSteps, TenantLayer, count_rows
from mirrorlake.merge.tenant_shapes import TenantShapes, places_sql
from mirrorlake.schema.masking import HASHABLE
from mirrorlake.serving.hiding import begin_hiding, finish_hiding, is_hiding
from mirrorlake.serving.next_tables import has_view, next_table, show_next_table
from mirrorlake.serving.tenant_clean_columns import clean_columns_of, only_adds, rules_of
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

STEPS = LayerSteps(
    *("tenants.clean_branched", "tenants.clean_staged"),
    *("tenants.clean_marked", "tenants.clean_replaced"),
)


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
    made = _layer(workspace, table).made()
    is_view = has_view(workspace, clean)
    there = None if is_view else lake.load(clean)
    if there is not None and (made is None or not only_adds(wanted, made["columns"])):
        begin_hiding(workspace, clean)
    due = read_due(ledger, clean)
    if (
        there is None
        or made is None
        or made["columns"] != wanted.definition
        or not _layer(workspace, table).is_as_left(there, made)
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
    layer = _layer(workspace, table, target)
    beside = _beside(wanted, there)
    layer.ensure(
        wanted.stored,
        originals=wanted.original is not None,
        beside=beside,
        gone=_gone(ledger, clean, wanted, there),
        location=lake.location(clean),
    )
    with spark_errors(table.name):
        tenants = _write(layer, wanted, due, beside)
    if is_view:
        show_next_table(workspace, target, clean)
    failpoint("tenants.clean_shown")
    layer.record_made([lake.head(clean)], {"columns": wanted.definition})
    forget_due(ledger, clean)
    finish_hiding(workspace, clean)
    if not due.everything:
        compact_if_due(workspace.spark.get, lake, clean)
    return CleanMade(due.everything, tenants)


def forget_clean_table(workspace: Workspace, table: TenantTable) -> None:
    """Forget the clean table, where there was one: clean is a view."""
    layer, ledger = _layer(workspace, table), workspace.ledger
    if layer.made() is not None:
        forget_hash_key(ledger, clean_of(table))
        ledger.forget_definition(layer.known_as)
        forget_due(ledger, clean_of(table))


def _layer(
    workspace: Workspace, table: TenantTable, identifier: Identifier | None = None
) -> TenantLayer:
    """The clean table.

    Args:
        identifier: its name while it is made, where another has its own.
    """
    clean = clean_of(table)
    return TenantLayer(workspace, table, identifier or clean, f"tenants_clean {clean}", STEPS)


def _beside(wanted: Layer, there: LakeTable | None) -> dict[str, str]:
    """Column → its name until it is shown, of those that must have their values as soon as they are
    there."""
    held = {f.name: f.field_type for f in there.schema().fields} if there is not None else {}
    return next_names(
        [
            name
            for name, kind in wanted.stored
            if held and (name not in held or not can_hold(held[name], iceberg_type(kind)))
        ]
    )


def _gone(ledger: Ledger, clean: Identifier, wanted: Layer, there: LakeTable | None) -> list[str]:
    """The columns that the table has and that a rule takes away."""
    if there is None or not is_hiding(ledger, clean):
        return []
    has = (name for name in column_names(there.schema()) if not name.startswith(NEXT))
    return [name for name in has if name not in wanted.names]


def _write(layer: TenantLayer, wanted: Layer, due: Due, beside: Mapping[str, str]) -> int:
    """Write and show what is due; of how many tenants that was."""
    workspace, deduped = layer.workspace, deduped_of(layer.table)
    register_hash(workspace.spark.get(), workspace.config.privacy.hash_key)
    at = workspace.lake.head(deduped)
    where = "" if due.everything else f" WHERE {places_sql(due.places)}"
    expected = count_rows(workspace, deduped.sql, None if due.everything else due.places)
    selects = ", ".join(wanted.selects(originals=wanted.original is not None))
    change = LayerChange(
        out=due.places,
        whole=due.everything,
        rows=f"SELECT {selects} FROM {deduped.sql}{where}",  # noqa: S608
        beside=beside,
        verify=partial(_refuse_other_rows, layer, expected, at),
        made={"columns": wanted.definition},
    )
    layer.write(change)
    return len(expected if due.everything else due.places)


def _refuse_other_rows(
    layer: TenantLayer,
    expected: Mapping[TenantPlace, int],
    at: int | None,
    found: Mapping[TenantPlace, int],
) -> None:
    """See that the branch has as many rows of each tenant as deduped, and that deduped is at the
    version that was read.

    Args:
        expected: how many rows of each tenant that is written deduped had.

    Raises:
        LakeError: it is not; nothing is visible.
    """
    workspace, table = layer.workspace, layer.table
    for place in sorted(found.keys() | expected.keys()):
        if found.get(place, 0) != expected.get(place, 0):
            raise LakeError(
                f"table {table.name}: clean has {found.get(place, 0):,} rows of tenant "
                f"{place[0]}.{place[1]}, and deduped {expected.get(place, 0):,}",
                table=table.name,
                next_step="Nothing of it is visible: sync again, and report it if it stays",
            )
    if workspace.lake.head(deduped_of(table)) != at:
        raise LakeError(
            f"table {table.name}: somebody wrote to {deduped_of(table)} while clean was made of it",
            table=table.name,
            next_step="Clean is as it was. Sync again",
            retryable=True,
        )
