"""Views of a table's current rows: deduped, or clean, as if every load were folded already.

They exist for tables for which they were requested: `make_streamed` makes them, and from then on
each load and each fold keeps them. While loads are added that mean what those before them meant, a
view stays true without being touched. Before a load that reads the whole table again (another
schema version, another key or mode, rows that are not trusted) it is held: it shows what it showed
then, until that load is folded.

What belongs here: when there is such a view, and what it shows. What doesn't: its SQL
(`mirrorlake.merge.streamed`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from shlex import quote

from mirrorlake.config.contract import Mirrored
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import chosen_columns, column_names
from mirrorlake.destinations.iceberg.tables.schemas import current_schema
from mirrorlake.destinations.iceberg.tables.views import LakeView
from mirrorlake.errors import ConfigError, LakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Load
from mirrorlake.merge.reshape import find_outdated
from mirrorlake.merge.statements import clean_view_sql, deduped_layer
from mirrorlake.merge.streamed import (
    AddedLoads,
    after_of,
    folded_sql,
    held_at,
    held_sql,
    streamed_sql,
)
from mirrorlake.schema.own_columns import DELETED_AT
from mirrorlake.serving.views import ViewText, clean_view, drop_view, look_at_view, make_view
from mirrorlake.table.lake_tables import clean_of, deduped_of
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.table.streamed import streamed_of, why_nothing_to_add
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

_MOST_LOADS, _MOST_ROWS = 8, 20_000
"""When more is folded of what a view adds, it is made again to add less."""


def make_streamed(workspace: Workspace, plan: ResolvedTable, layer: Identifier) -> None:
    """See that there is the view of a layer, from now on.

    Args:
        workspace: with the table's lease.
        layer: deduped's or clean's.

    Raises:
        ConfigError: clean is hashed, which Spark's views can't do.
        LakeError
    """
    if layer == plan.clean and "hash" in plan.clean_rules.values():
        raise ConfigError(
            f"table {plan.name}: a column of {plan.clean} is hashed, so that it can be no view of "
            "current rows",
            table=plan.name,
            next_step=f"Read {plan.deduped} without these columns",
        )
    if layer == plan.clean:
        make_streamed(workspace, plan, plan.deduped)
    make_view(workspace, streamed_of(layer), _wanted(workspace, plan, layer))


def keep_streamed(workspace: Workspace, plan: ResolvedTable) -> None:
    """Bring the views of a table that are there up to what was folded. One that can't show clean by
    the rules of now goes: it would show it by those before.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    for layer in _there(workspace, plan):
        try:
            make_streamed(workspace, plan, layer)
        except ConfigError as error:
            logger.warning("%s is dropped: %s", streamed_of(layer), error.message)
            drop_view(workspace, streamed_of(layer))
        failpoint("stream.kept")


def hold_streamed(workspace: Workspace, plan: ResolvedTable) -> None:
    """Let the views of a table that are there show what they show now, until they are kept again:
    what is loaded next need not mean what their text takes it for, and columns of deduped are
    about to be renamed, taken away, or given another type.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    lake, identifier = workspace.lake, streamed_of(plan.deduped)
    there = look_at_view(lake, identifier)
    if not isinstance(there, LakeView):
        return
    versions = workspace.ledger.schema_versions(plan.name)
    tables = [plan.deduped, *(Identifier(plan.raw.namespace, v.raw_table) for v in versions)]
    heads = {one: head for one in tables if (head := lake.head(one)) is not None}
    names = tuple(field.name for field in there.schema.fields)
    make_view(workspace, identifier, ViewText(held_sql(there.sql, heads), names, there.schema))
    failpoint("stream.held")


def hold_reshaped(workspace: Workspace, plan: ResolvedTable) -> None:
    """`hold_streamed`, if columns of deduped are about to change, or to go."""
    if not _there(workspace, plan):
        return
    table, layer = workspace.lake.load(plan.deduped), deduped_layer(plan)
    flagged = table is not None and DELETED_AT in column_names(table.schema())
    outdated = find_outdated(workspace, plan, layer)
    if outdated.breaks_views or (flagged and not layer.flags):
        hold_streamed(workspace, plan)


def held_versions(lake: Lake, contract: Mirrored) -> frozenset[int]:
    """The versions of a table's lake tables that views of them are held at."""
    clean = clean_of(contract)
    views = (streamed_of(deduped_of(contract)), streamed_of(clean), clean)
    texts = [one.sql for view in views if isinstance(one := look_at_view(lake, view), LakeView)]
    return frozenset(number for text in texts for number in held_at(text))


def refuse_unfolded(workspace: Workspace, plan: ResolvedTable) -> None:
    """See that deduped has the columns that its rows have now: before, nothing can be added to it.

    Raises:
        LakeError: loads with other columns wait to be folded.
    """
    table = workspace.lake.load(plan.deduped)
    there = {field.name for field in table.schema().fields} if table is not None else set[str]()
    layer = deduped_layer(plan)
    if not there.issuperset(layer.names) or find_outdated(workspace, plan, layer):
        raise LakeError(
            f"{plan.deduped} has not the columns of {plan.name} yet: what was loaded last is not "
            "folded",
            next_step=f"mirrorlake sync {quote(plan.name)}",
        )


def added_loads(workspace: Workspace, plan: ResolvedTable) -> list[Load] | None:
    """The loads that deduped does not hold, in order; None where they can't be added to it."""
    folded = workspace.ledger.folded_loads(plan.name, "deduped")
    loads = workspace.ledger.successful_loads(plan.name)
    held = [load for load in loads if load.seq in folded]
    waiting = [load for load in loads if load.seq not in folded]
    if not held or why_nothing_to_add(plan.contract):
        return None
    first = waiting[0].seq if waiting else held[-1].seq + 1
    later = [load for load in loads if load.seq >= first]
    if any(load.raw_table != plan.raw.name for load in (*later, held[-1])):
        return None
    return later


def _there(workspace: Workspace, plan: ResolvedTable) -> list[Identifier]:
    """The layers that have such a view; clean has none without deduped's, which it shows."""
    lake, found = workspace.lake, list[Identifier]()
    for layer in (deduped_of(plan.contract), clean_of(plan.contract)):
        if look_at_view(lake, streamed_of(layer)) is None:
            break
        found.append(layer)
    return found


def _wanted(workspace: Workspace, plan: ResolvedTable, layer: Identifier) -> ViewText:
    if layer == plan.clean:
        clean = clean_view(plan)
        over = clean_view_sql(plan, streamed_of(plan.deduped))
        return ViewText(over, clean.columns, clean.schema)
    own, names = deduped_layer(plan), _names(workspace, plan)
    schema = chosen_columns(current_schema(own.stored, own.original is not None), names)
    return ViewText(_current_sql(workspace, plan, names), names, schema)


def _names(workspace: Workspace, plan: ResolvedTable) -> tuple[str, ...]:
    """The columns of deduped that it has by its contract, in its own order."""
    table, names = workspace.lake.load(plan.deduped), deduped_layer(plan).names
    there = column_names(table.schema()) if table is not None else []
    return tuple(sorted(names, key=lambda name: there.index(name) if name in there else len(there)))


def _current_sql(workspace: Workspace, plan: ResolvedTable, names: Sequence[str]) -> str:
    """Deduped with the loads that it does not hold; those alone that it holds where these can't be
    added."""
    later, lake, ledger = added_loads(workspace, plan), workspace.lake, workspace.ledger
    if later is None or find_outdated(workspace, plan, deduped_layer(plan)):
        return folded_sql(plan.deduped, names)
    loads = ledger.successful_loads(plan.name)
    named = dict.fromkeys(load.raw_table for load in loads)
    found = {one: lake.load(one) for n in named if (one := Identifier(plan.raw.namespace, n))}
    tables = {name: table for name, table in found.items() if table is not None}
    if plan.raw not in tables:
        return folded_sql(plan.deduped, names)
    after = later[0].seq - 1 if later else loads[-1].seq
    start = ledger.history_start(plan.name)
    there = look_at_view(lake, streamed_of(plan.deduped))
    began = after_of(there.sql) if isinstance(there, LakeView) else None
    if began is not None and isinstance(there, LakeView):
        again = [load for load in loads if began < load.seq <= after]
        kept = streamed_sql(plan, AddedLoads(began, start, tables, names))
        if kept == there.sql and began <= after and _are_few(again):
            return kept
    return streamed_sql(plan, AddedLoads(after, start, tables, names))


def _are_few(loads: Sequence[Load]) -> bool:
    rows = sum(load.receipt.rows if load.receipt else _MOST_ROWS for load in loads)
    return len(loads) <= _MOST_LOADS and rows <= _MOST_ROWS
