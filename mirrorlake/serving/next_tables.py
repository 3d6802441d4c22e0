"""Tables that are made under another name, and shown under their own once they are complete.

What belongs here: clean as a table, and deduped where a view has its name. What doesn't: views
(`mirrorlake.serving.views`).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from mirrorlake.destinations.base import Identifier, as_sql_identifier, text_literal
from mirrorlake.destinations.iceberg.commits.older_versions import remove_all_files
from mirrorlake.destinations.iceberg.tables.name_swap import take_name
from mirrorlake.destinations.iceberg.tables.tables import drop_column
from mirrorlake.errors import LakeDamaged
from mirrorlake.failpoints import failpoint
from mirrorlake.merge.fold import ensure_layer
from mirrorlake.merge.reshape import (
    forget_as_made,
    has_new_rules,
    record_as_made,
    write_by_new_rules,
)
from mirrorlake.merge.statements import Layer, clean_layer, originals_without
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.schema.versions import FIRST_CREATED
from mirrorlake.serving.hiding import begin_hiding, finish_hiding
from mirrorlake.serving.views import FOLLOWERS, look_at_view
from mirrorlake.table.hash_key import has_hash_key, is_hashed, record_hash_key
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

NEXT_TABLE: Final = "__mirror_next"
"""What the name of a table ends with that is about to take another one's."""


def renew_clean_table(workspace: Workspace, plan: ResolvedTable) -> Layer:
    """The clean table's layer. When its rules changed, its fold writes all rows again, and what
    they rule out goes with the older versions; see `mirrorlake.serving.hiding`. Columns that MySQL
    changed, its fold follows.

    Where a view has its name, or nothing yet, the layer is a table of another name, which
    `show_clean_table` gives that one."""
    layer = begin_layer(workspace, plan, clean_layer(plan), over_view=True)
    if not is_clean_as_ruled(workspace, plan):
        there = workspace.lake.load(plan.clean) is not None
        if there and not _only_reshaped(workspace, plan, layer):
            begin_hiding(workspace, plan.clean)
            write_by_new_rules(workspace, layer)
            if layer.original is None:
                drop_column(workspace.lake, plan.clean, ORIGINAL)
        workspace.ledger.record_definition(f"table {plan.clean}", layer.definition)
    # Before the first hash is written: a table may lag behind the record, never the other way.
    key = workspace.config.privacy.hash_key if is_hashed(plan) else None
    if key is not None and not has_hash_key(workspace.ledger, plan.clean):
        record_hash_key(workspace.ledger, plan.clean, key)
    return layer


def show_clean_table(workspace: Workspace, plan: ResolvedTable, layer: Layer) -> None:
    """Show readers a clean table that was folded, and nothing of what its rules take away."""
    if layer.identifier != plan.clean:
        for follower in FOLLOWERS:
            follower.drop(workspace, plan.contract)
    show_layer(workspace, plan, layer, plan.clean)
    if not has_new_rules(workspace, layer):  # there was nothing to fold
        finish_hiding(workspace, plan.clean)


def begin_layer(
    workspace: Workspace, plan: ResolvedTable, layer: Layer, *, over_view: bool = False
) -> Layer:
    """A layer as it is to be folded: where no table has its name yet, under another name, so that
    no reader finds a table that is still empty. `show_layer` gives it its own.

    Args:
        over_view: whether it takes the name of a view, which may be there.
    """
    name = layer.identifier
    try:
        there = workspace.lake.load(name) is not None
    except LakeDamaged:
        there = True  # a fold says so, and a refold makes it again
    viewed = has_view(workspace, name)
    if (there and not viewed) or (viewed and not over_view):
        return layer
    layer = replace(layer, identifier=next_table(workspace, name))
    ensure_layer(workspace, plan, layer, workspace.lake.location(name))
    return layer


def is_free(workspace: Workspace, name: Identifier) -> bool:
    """Whether no table, no view and nothing that a dead run left has a name."""
    try:
        tables = (name, _beside(name))
        return not any(workspace.lake.load(one) for one in tables) and not has_view(workspace, name)
    except LakeDamaged:
        return False


def show_layer(workspace: Workspace, plan: ResolvedTable, layer: Layer, name: Identifier) -> None:
    """Give a layer that was folded under another name its own."""
    if layer.identifier != name:
        show_next_table(workspace, layer.identifier, name)
        shown = replace(layer, identifier=name)
        workspace.ledger.together(
            lambda: record_as_made(workspace, plan, shown),
            lambda: forget_as_made(workspace, layer),
        )


def has_view(workspace: Workspace, identifier: Identifier) -> bool:
    """Whether a view has this name, which a table is to have. What the ledger still knows of one
    that is not there any more is forgotten."""
    if look_at_view(workspace.lake, identifier) is not None:
        return True
    if workspace.ledger.definition(f"view {identifier}") is not None:
        workspace.ledger.forget_definition(f"view {identifier}")
    return False


def next_table(workspace: Workspace, identifier: Identifier) -> Identifier:
    """The name of a table until it takes this one; none has it now. The caller holds the lease."""
    beside = _beside(identifier)
    with suppress(LakeDamaged):
        left = workspace.lake.load(beside)
        if left is None:
            return beside
        workspace.lake.drop(beside)  # of a run that died
        remove_all_files(left)
    workspace.lake.drop(beside)
    return beside


def _beside(identifier: Identifier) -> Identifier:
    return Identifier(identifier.namespace, f"{identifier.name}{NEXT_TABLE}")


def show_next_table(workspace: Workspace, table: Identifier, name: Identifier) -> None:
    """Give a table that is complete the name of a view or of another table, which goes: in one step
    where the catalog has it."""
    workspace.check_lease()
    failpoint("clean.beside")
    take_name(workspace.lake, table, name)
    if workspace.ledger.definition(f"view {name}") is not None:
        workspace.ledger.forget_definition(f"view {name}")


def is_clean_as_ruled(workspace: Workspace, plan: ResolvedTable) -> bool:
    """Whether clean is to be a table, and was last made by the rules that it has now."""
    made_by = workspace.ledger.definition(f"table {plan.clean}")
    return plan.contract.clean == "table" and made_by == clean_layer(plan).definition


def _only_reshaped(workspace: Workspace, plan: ResolvedTable, layer: Layer) -> bool:
    """Whether a clean table differs from what it must be in nothing but what its fold can follow:
    columns that it lacks, or that MySQL renamed, dropped or gave another type. Its readers then
    need not miss it while it is made again."""
    made_by = workspace.ledger.definition(f"table {plan.clean}")
    if made_by is None:
        return False
    columns, original = ast.literal_eval(made_by)
    before = {name: (kind, sql) for name, kind, sql in columns}
    shown = {then for name, _, _ in layer.columns if (then := plan.name_in(before, name))}
    if any(plan.name_in(before, exact.name) not in {None, *shown} for exact in plan.columns):
        return False  # a rule takes one of them away: its values must not stay
    for name, _, sql in layer.columns:
        then = plan.name_in(before, name)
        if then is None:
            if name == FIRST_CREATED:
                return False  # it is laid out by the days of that column
        elif before[then][1] != sql.replace(as_sql_identifier(name), as_sql_identifier(then)):
            return False
    return original in (None, layer.original) or _excludes_new(workspace, plan, before, original)


def _excludes_new(
    workspace: Workspace, plan: ResolvedTable, before: Mapping[str, object], original: str
) -> bool:
    """Whether clean's originals leave out what they left out then, and besides only columns that
    were never there before, of which no row has one."""
    ruled = [exact.name for exact in plan.columns if exact.name in plan.clean_rules]
    then = [name for name in ruled if text_literal(name) in original]
    versions = workspace.ledger.schema_versions(plan.name)
    earlier = {column.lower() for version in versions[:-1] for column, _ in version.columns}
    new = [name for name in ruled if name not in then]
    if any(name.lower() in earlier or plan.name_in(before, name) is not None for name in new):
        return False
    return original == originals_without(then)
