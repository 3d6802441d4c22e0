"""Raw over all schema versions of a table: shown by a view, or written as a table.

A view is Spark's alone. The table (``versions: table``) has the same rows in the same columns, for
every engine: a second copy of raw. Each fold brings it up to raw: what came into raw since, or left
it, is found by raw's files, written on a branch, counted, and shown in one step. The commit says
which versions of raw's tables it shows, so a run that dies leaves nothing that the next fold does
not find.

What belongs here: which of the two there is, and what the table lacks. What doesn't: which columns
it has (`mirrorlake.serving.unified`), and how it is written (`mirrorlake.serving.versions_write`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from mirrorlake.config.contract import Mirrored
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeTable, column_names
from mirrorlake.destinations.iceberg.tables.integrity import find_damage
from mirrorlake.destinations.iceberg.tables.versions import loads_moved
from mirrorlake.errors import LakeDamaged, LakeError
from mirrorlake.ledger import Ledger
from mirrorlake.load.raw.raw_files import refuse_damaged
from mirrorlake.merge.compaction import compact_if_due
from mirrorlake.merge.row_sql.raw_versions import unified_types
from mirrorlake.runtime.plural import plural
from mirrorlake.schema.own_columns import KEY, ORIGINAL, TOKEN
from mirrorlake.serving.many_views import drop_views, make_views, views_over
from mirrorlake.serving.next_tables import has_view, next_table, show_next_table
from mirrorlake.serving.unified import Unified, digest_of
from mirrorlake.serving.versions_write import (
    VERSIONS_OF,
    Fill,
    Shown,
    drop_gone,
    raw_of,
    write_versions,
)
from mirrorlake.serving.views import ViewText
from mirrorlake.table.lake_tables import raw_tables
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

_MOST_LOADS: Final = 1_000
"""If more loads moved, all rows are written again: a statement can't name more of them."""
_MANY_ROWS: Final = 1_000_000
"""For Spark's settings: of a load whose receipt was lost, nobody knows how many it has."""
_UNKNOWN: Final = "was written to by somebody else, or the versions that said what it shows expired"


def show_raw_view(workspace: Workspace, plan: ResolvedTable) -> None:
    """Show raw by the view over all versions, if the contract wants one; a table of versions in its
    place makes way for it.

    Raises:
        LakeError: there is a table of that name which Mirrorlake did not make.
    """
    if plan.contract.versions == "view":
        there = _ours(workspace, plan) is not None
        _make_raw_view(workspace, plan, over_table=there)
        if there:
            workspace.ledger.forget_definition(_made(plan))


def _make_raw_view(workspace: Workspace, plan: ResolvedTable, *, over_table: bool) -> None:
    """The view over the raw tables of all versions, in every column that one of them has."""
    wanted = raw_views(plan, workspace.ledger, workspace.lake)
    if wanted:
        make_views(workspace, wanted, over_table=over_table)


def raw_views(plan: ResolvedTable, ledger: Ledger, lake: Lake) -> dict[Identifier, ViewText]:
    """The view over the raw tables of all versions, as `mirrorlake.serving.unified` has them, last;
    before it the views that it is over, where there are many versions. None before there is any
    version."""
    unified = _read_unified(plan, ledger, lake)
    if unified is None:
        return {}

    def view_of(names: Sequence[str]) -> ViewText:
        sql = " UNION ALL ".join(unified.rows_sql(name) for name in names)
        return ViewText(sql, unified.names, unified.schema)

    return views_over(plan.raw_view, [*unified.tables], view_of)


def fill_versions_table(
    workspace: Workspace, plan: ResolvedTable, compared: set[str], *, again: bool = False
) -> int:
    """Bring the table of versions up to raw, if the contract wants one; how many loads were written
    or taken out. A view in its place is dropped. Nothing to do costs no Spark.

    Args:
        workspace: with the table's lease.
        compared: names of raw's files whose bytes were compared with what their loads recorded;
            those that are compared here are added.
        again: whether all rows are written again, whatever the table shows.

    Raises:
        LakeDamaged: raw has a file that is not what its load wrote; nothing was changed.
        LakeError: Spark, the catalog or the storage failed, or a table of that name is not
            Mirrorlake's; the table is as it was, or filled.
        LeaseHeld: another run took the table over; this one writes nothing more.
    """
    if plan.contract.versions != "table":
        return 0
    unified = _read_unified(plan, workspace.ledger, workspace.lake)
    if unified is None:
        return 0
    there = _ours(workspace, plan)
    made = Shown.of(there) if there is not None else None
    if there is not None and made is None and there.current_snapshot() is not None:
        logger.warning("table %s: %s %s; it is made again", *(plan.name, plan.raw_view, _UNKNOWN))
    loads = workspace.ledger.successful_loads(plan.name, ever=True)
    heads = {name: head for name in unified.tables if (head := _head(unified, name)) is not None}
    wanted = Shown(heads, digest_of(unified.definition), max((x.seq for x in loads), default=0))
    if made is not None and not again and (made.raw, made.definition) == (heads, wanted.definition):
        # Of a run that died after it had shown the rows.
        drop_gone(workspace, unified)
        _record(workspace, unified)
        return 0
    todo = _plan(workspace, unified, None if again else made, wanted)
    named = [load for load in loads if todo.whole or load.seq in todo.seqs]
    refuse_damaged(workspace.lake, workspace.ledger, plan.contract, named, compared)
    rows = sum(load.receipt.rows if load.receipt else _MANY_ROWS for load in named)
    if there is None and has_view(workspace, plan.raw_view):
        beside = next_table(workspace, plan.raw_view)
        write_versions(workspace, unified, None, todo, wanted, rows, beside)
        show_next_table(workspace, beside, plan.raw_view)
        drop_views(workspace, plan.raw_view)  # those that it was over
    else:
        write_versions(workspace, unified, there, todo, wanted, rows, plan.raw_view)
    _record(workspace, unified)
    if not todo.whole:
        compact_if_due(workspace.spark.get, workspace.lake, plan.raw_view)
    return len(named)


def forget_unreadable_versions(workspace: Workspace, plan: ResolvedTable) -> None:
    """Take a table of versions that can't be read out of the catalog, so that it can be made again.
    Its files stay, as orphans."""
    try:
        workspace.lake.load(plan.raw_view)
    except LakeDamaged:
        workspace.lake.drop(plan.raw_view)


def versions_table(lake: Lake, contract: Mirrored) -> Identifier | None:
    """The table of versions, if the catalog has one that Mirrorlake made of this table."""
    name = Identifier(contract.namespaces.raw, contract.table)
    found = lake.load(name)
    return name if found is not None and _is_ours(found, contract) else None


def find_lag(workspace: Workspace, plan: ResolvedTable) -> str | None:
    """What is wrong with the table of versions, in words; None where it is the one that it must be,
    by what its newest commit says, all of its files are there, and it has as many rows as raw.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    unified = _read_unified(plan, workspace.ledger, workspace.lake)
    if unified is None:
        return None
    damage = find_damage(workspace.lake, plan.raw_view)
    if damage is not None:
        return f"can't be read: {damage}"
    there = workspace.lake.load(plan.raw_view)
    if there is None:
        return "is not there"
    if not _is_ours(there, plan.contract):
        return "was not made by Mirrorlake"
    made = Shown.of(there)
    if made is None:
        return _UNKNOWN
    if made.definition != digest_of(unified.definition):
        return "was made for other columns"
    heads = {name: head for name in unified.tables if (head := _head(unified, name)) is not None}
    if made.raw != heads:
        loads = {load.seq for load in workspace.ledger.successful_loads(plan.name)}
        folded = workspace.ledger.folded_loads(plan.name, "deduped")
        # A load that is not folded yet is not in it either.
        return "lacks what came into raw, or left it" if loads <= folded else None
    expected = sum(workspace.lake.count_rows(raw_of(plan, name)) or 0 for name in heads)
    found = workspace.lake.count_rows(plan.raw_view) or 0
    return None if found == expected else f"has {plural(found, 'row')}, and raw {expected:,}"


def _ours(workspace: Workspace, plan: ResolvedTable) -> LakeTable | None:
    """The table of versions as the catalog has it, or None.

    Raises:
        LakeError: the table of that name is another one.
    """
    found = workspace.lake.load(plan.raw_view)
    if found is not None and not _is_ours(found, plan.contract):
        raise LakeError(
            f"table {plan.name}: lake table {plan.raw_view} was not made by Mirrorlake",
            table=plan.name,
            next_step="Rename or drop it: all versions of raw are shown under this name",
        )
    return found


def _is_ours(table: LakeTable, contract: Mirrored) -> bool:
    return table.properties.get(VERSIONS_OF) == contract.name


def _read_unified(plan: ResolvedTable, ledger: Ledger, lake: Lake) -> Unified | None:
    """Raw over all versions that the lake has; None before there is any.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    tables = raw_tables(lake, ledger, plan.contract)
    if not tables:
        return None
    meta = {
        field.name: str(field.field_type)
        for field in sorted(tables[-1].schema().fields, key=lambda field: field.name)
        if field.name.startswith("_mirror_") and field.name not in (ORIGINAL, KEY, TOKEN)
    }
    return Unified(
        plan=plan,
        tables={table.name()[-1]: table for table in tables},
        types=unified_types(plan, tables),
        originals=plan.originals or any(ORIGINAL in column_names(t.schema()) for t in tables),
        meta=meta,
    )


def _head(unified: Unified, name: str) -> int | None:
    head = unified.tables[name].current_snapshot()
    return head.snapshot_id if head is not None else None


def _plan(workspace: Workspace, unified: Unified, made: Shown | None, wanted: Shown) -> Fill:
    """What is to be written so that a table which shows one thing shows another."""
    if made is None or made.raw.keys() - wanted.raw.keys():
        return Fill(whole=True)
    if made.definition != wanted.definition:
        recorded = workspace.ledger.definition(_made(unified.plan))
        known = recorded is not None and digest_of(recorded) == made.definition
        if recorded is None or not known or not unified.keeps(recorded):
            return Fill(whole=True)
    out: set[int] = set()
    rows: dict[str, frozenset[int]] = {}
    for name in wanted.raw:
        with workspace.lake.translated(unified.plan.name):
            moved = loads_moved(unified.tables[name], made.raw.get(name), made.through)
        if moved is None:
            return Fill(whole=True)
        out |= moved.known
        if moved.now:
            rows[name] = moved.now
    todo = Fill(out=frozenset(out), rows=rows)
    return todo if len(todo.seqs) <= _MOST_LOADS else Fill(whole=True)


def _record(workspace: Workspace, unified: Unified) -> None:
    """Write down by which definition the table was made."""
    name = _made(unified.plan)
    if workspace.ledger.definition(name) != unified.definition:
        workspace.ledger.record_definition(name, unified.definition)


def _made(plan: ResolvedTable) -> str:
    """The name under which the ledger keeps by which definition the table was made."""
    return f"versions {plan.raw_view}"
