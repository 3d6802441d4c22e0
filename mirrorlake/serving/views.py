"""What is shown of layers: views in the catalog, clean as one, and clean tables that are made again
when their rules change.

A view is compared with the one that the catalog has, not with what the ledger remembers: a view
that somebody replaced is made again. What is there already with the same definition costs no Spark.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from mirrorlake.destinations.base import Identifier, as_sql_identifier
from mirrorlake.destinations.iceberg.heads import is_anothers
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeSchema
from mirrorlake.destinations.iceberg.name_swap import take_name
from mirrorlake.destinations.iceberg.older_versions import remove_all_files
from mirrorlake.destinations.iceberg.spark_errors import spark_errors
from mirrorlake.destinations.iceberg.tables import (
    ORIGINAL,
    current_schema,
    drop_column,
    iceberg_type,
)
from mirrorlake.destinations.iceberg.views import LakeView, forget_view, read_view, write_view
from mirrorlake.errors import LakeDamaged, LakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.merge.fold import ensure_layer
from mirrorlake.merge.reshape import (
    find_outdated,
    forget_as_made,
    has_new_rules,
    record_as_made,
    write_by_new_rules,
)
from mirrorlake.merge.statements import Layer, clean_layer, clean_view_sql, deduped_layer
from mirrorlake.schema.versions import FIRST_CREATED
from mirrorlake.serving.hiding import begin_hiding, finish_hiding, purge_files
from mirrorlake.table.hash_key import forget_hash_key, has_hash_key, is_hashed, record_hash_key
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
        workspace.ledger.record_definition(f"table {plan.clean}", _definition(layer))
    # Before the first hash is written: a table may lag behind the record, never the other way.
    key = workspace.config.privacy.hash_key if is_hashed(plan) else None
    if key is not None and not has_hash_key(workspace.ledger, plan.clean):
        record_hash_key(workspace.ledger, plan.clean, key)
    return layer


def show_clean_table(workspace: Workspace, plan: ResolvedTable, layer: Layer) -> None:
    """Show readers a clean table that was folded, and nothing of what its rules take away."""
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
    return plan.contract.clean == "table" and made_by == _definition(clean_layer(plan))


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
    return original in (None, layer.original)


def _definition(layer: Layer) -> str:
    return repr((layer.columns, layer.original))


def make_clean_view(
    workspace: Workspace, plan: ResolvedTable, later: list[Callable[[], None]] | None = None
) -> None:
    """The clean view; a table in its place makes way for it.

    Args:
        later: see `make_view`.
    """
    make_view(workspace, plan.clean, clean_view(plan), over_table=True, later=later)


def hold_clean_view(workspace: Workspace, plan: ResolvedTable) -> None:
    """Let a clean view show deduped as it is now, while columns of deduped are renamed, taken
    away or get another type: its readers see the old ones until `make_clean_view` shows the new."""
    if find_outdated(workspace, plan, deduped_layer(plan)).breaks_views:
        hold_view(workspace, plan.clean, plan.deduped)


def hold_view(workspace: Workspace, clean: Identifier, deduped: Identifier) -> None:
    """Let a clean view show the version that deduped has now, until it is made again."""
    head = workspace.lake.head(deduped)
    there = look_at_view(workspace.lake, clean)
    if head is None or not isinstance(there, LakeView):
        return
    if there.sql.endswith(f" FROM {deduped.sql}"):
        held = replace(there, sql=f"{there.sql} VERSION AS OF {head}")
        # Known as ours, it is replaced in one step.
        workspace.ledger.record_definition(f"view {clean}", held.sql)
        _write(workspace, clean, held)


def drop_view(workspace: Workspace, identifier: Identifier) -> None:
    """Take clean's view away, where there is one: clean is to be a table."""
    known = workspace.ledger.definition(f"view {identifier}") is not None
    # Another ledger may have known it, or none.
    if not known and not isinstance(look_at_view(workspace.lake, identifier), LakeView):
        return
    forget_view(workspace.lake, identifier)
    workspace.ledger.forget_definition(f"view {identifier}")


@dataclass(frozen=True)
class ViewText:
    """What a view must be: the SQL that a query of it runs, and the columns that it gives out.

    Attributes:
        schema: their types.
    """

    sql: str
    columns: tuple[str, ...]
    schema: LakeSchema


def clean_view(plan: ResolvedTable) -> ViewText:
    """The clean view, as the contract's rules make it."""
    layer = clean_layer(plan)
    schema = current_schema(layer.stored, layer.original is not None)
    return ViewText(clean_view_sql(plan), tuple(layer.names), schema)


def find_replaced(lake: Lake, identifier: Identifier, wanted: ViewText) -> str | None:
    """What is wrong with a view as the catalog has it; None where it is the one it must be.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    return _wrong(look_at_view(lake, identifier), wanted)


def look_at_view(lake: Lake, identifier: Identifier) -> LakeView | LakeDamaged | None:
    """A view as the catalog has it, or what keeps it from being read."""
    try:
        return read_view(lake, identifier)
    except LakeDamaged as error:
        return error


def _wrong(there: LakeView | LakeDamaged | None, wanted: ViewText) -> str | None:
    if isinstance(there, LakeDamaged):
        return f"can't be read: its metadata {there.reason}"
    if there is None:
        return "is not there"
    if there.sql != wanted.sql:
        return "has another definition than the contract's"
    # Names given to a view's columns stand beside its SQL, and may swap them.
    if tuple(field.name for field in there.schema.fields) != wanted.columns:
        return "gives its columns other names than the contract's"
    if _types(there.schema) != _types(wanted.schema):
        return _OTHER_TYPES
    return None


_OTHER_TYPES: Final = "declares other types than its columns have now, and can't be read"


def _types(schema: LakeSchema) -> dict[str, str]:
    """The types of a view's columns; of those with parts, whose numbers differ, none."""
    return {f.name: str(f.field_type) for f in schema.fields if f.field_type.is_primitive}


def is_as_written(
    lake: Lake, identifier: Identifier, sql: str, types: Mapping[str, str] | None = None
) -> bool:
    """Whether a view is there with this SQL.

    Args:
        types: what it must declare of its columns, too (in Iceberg's words): by others Spark can't
            read it.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    there = look_at_view(lake, identifier)
    wanted = {name: str(iceberg_type(kind)) for name, kind in (types or {}).items()}
    if not isinstance(there, LakeView) or there.sql != sql:
        return False
    return wanted.items() <= _types(there.schema).items()


def restore_view(workspace: Workspace, identifier: Identifier) -> bool:
    """Make a view again as the ledger knows it, where other hands changed it or took it away;
    whether it was made.

    Raises:
        LakeError: a table of that name is none of ours, or the catalog, the storage or Spark
            failed.
    """
    known = workspace.ledger.definition(f"view {identifier}")
    if known is None or is_as_written(workspace.lake, identifier, known):
        return False
    table = workspace.lake.load(identifier)
    if table is not None:
        raise _in_its_place(identifier)
    workspace.check_lease()
    forget_view(workspace.lake, identifier)
    _write_by_spark(workspace, identifier, known)
    return True


def forget_broken_view(workspace: Workspace, identifier: Identifier) -> None:
    """See that a view that is not there, or can't be read, will be made, whatever the ledger
    knows of it."""
    try:
        there = read_view(workspace.lake, identifier) is not None
    except LakeDamaged:
        there = False
        forget_view(workspace.lake, identifier)
    if not there:
        workspace.ledger.forget_definition(f"view {identifier}")


def make_view(
    workspace: Workspace,
    identifier: Identifier,
    wanted: ViewText,
    *,
    over_table: bool = False,
    later: list[Callable[[], None]] | None = None,
) -> bool:
    """Make a view, or replace it in one step, unless it is the one that it must be; whether it was
    made.

    Args:
        over_table: whether a table of that name makes way for it, and goes with its files.
        later: gets what records a view that is new, which is then the caller's to do.

    Raises:
        LakeError: a table of that name is none of ours.
    """
    table = workspace.lake.load(identifier) if over_table else None
    if table is not None and is_anothers(workspace.ledger, identifier, table):
        raise _in_its_place(identifier)
    name = f"view {identifier}"
    there = look_at_view(workspace.lake, identifier)
    wrong = _wrong(there, wanted)
    known = workspace.ledger.definition(name)
    if wrong is None:
        if known != wanted.sql:
            workspace.ledger.record_definition(name, wanted.sql)
        return False
    retyped = wrong == _OTHER_TYPES  # as an earlier release left it
    is_known = isinstance(there, LakeView) and there.sql == known
    ours = there is None or (is_known and (known != wanted.sql or retyped))
    if known == wanted.sql and not retyped:
        workspace.views.append(f"its view {identifier} {wrong}: it is made again")
    workspace.lake.make_namespace(identifier.namespace)
    view = LakeView(wanted.sql, wanted.schema)
    if not write_view(workspace.lake, identifier, view, over_table=table is not None):
        if not ours:
            # Spark need not be able to read what somebody else put there: a file that was edited by
            # hand fails Hadoop's checksums.
            forget_view(workspace.lake, identifier)
        if table is not None:
            workspace.lake.drop(identifier)
        _write_by_spark(workspace, identifier, wanted.sql)
    record = partial(workspace.ledger.record_definition, name, wanted.sql)
    if later is not None and there is None:
        later.append(record)
    else:
        record()
    if table is not None:
        forget_hash_key(workspace.ledger, identifier)
        purge_files(workspace, identifier, table)
    return True


def _in_its_place(identifier: Identifier) -> LakeError:
    return LakeError(
        f"view {identifier}: a table that Mirrorlake did not make has its name",
        table=str(identifier),
        next_step="Rename or drop that table, then sync again: the view is made again",
    )


def _write(workspace: Workspace, identifier: Identifier, view: LakeView) -> None:
    if not write_view(workspace.lake, identifier, view):
        _write_by_spark(workspace, identifier, view.sql)


def _write_by_spark(workspace: Workspace, identifier: Identifier, sql: str) -> None:
    spark = workspace.spark.get()
    with spark_errors(str(identifier)):
        spark.sql(f"CREATE OR REPLACE VIEW {identifier.sql} AS {sql}")


# --- views over many tables -----------------------------------------------------------------------

BRANCHES: Final = 50
"""Measured: a view over 500 tables takes seconds to plan, and over 2,000 it can't be."""
MOST: Final = 500
"""Beyond so many tables a query of the view is slow in any form: that is said."""


def views_over(
    identifier: Identifier, names: Sequence[str], view_of: Callable[[Sequence[str]], ViewText]
) -> dict[Identifier, ViewText]:
    """The view over tables of these names, last, and the views that it is over, where there are
    more than `BRANCHES`: Spark plans each branch of a view, whatever a query asks for.

    Args:
        view_of: the view over some of them; of none, its columns alone.
    """
    if len(names) <= BRANCHES:
        return {identifier: view_of(names)}
    found: dict[Identifier, ViewText] = {}
    for first in range(0, len(names), BRANCHES):
        part = view_of(names[first : first + BRANCHES])
        digest = hashlib.sha256(repr((part.sql, part.columns)).encode()).hexdigest()[:10]
        found[Identifier(identifier.namespace, f"{identifier.name}__part_{digest}")] = part
    whole = view_of(())
    columns = ", ".join(as_sql_identifier(name) for name in whole.columns)
    selects = [f"SELECT {columns} FROM {part.sql}" for part in found]  # noqa: S608
    return {**found, identifier: ViewText(" UNION ALL ".join(selects), whole.columns, whole.schema)}


def make_views(
    workspace: Workspace, wanted: Mapping[Identifier, ViewText], *, over_table: bool = False
) -> None:
    """Make what `views_over` says, each only where it is not there as it must be; views that it was
    over before, and is no more, are dropped. They have other names than those that are new, so that
    no query fails meanwhile."""
    *_, identifier = wanted
    for name, text in wanted.items():
        make_view(workspace, name, text, over_table=over_table and name == identifier)
    for old in _parts(workspace, identifier):
        if old not in wanted:
            drop_view(workspace, old)


def drop_views(workspace: Workspace, identifier: Identifier) -> None:
    """Drop a view, and those that it is over."""
    drop_view(workspace, identifier)
    for part in _parts(workspace, identifier):
        drop_view(workspace, part)


def _parts(workspace: Workspace, identifier: Identifier) -> list[Identifier]:
    """The views that the ledger knows as those that a view is, or was, over."""
    known = workspace.ledger.definitions(f"view {identifier}__part_")
    within = f"view {identifier.namespace}."
    return [Identifier(identifier.namespace, name.removeprefix(within)) for name in known]


def many_words(tables: int, *, tenants: bool) -> str:
    """What is to be said of a view over so many tables; '' where nothing is.

    >>> many_words(500, tenants=True)
    ''
    """
    if tables <= MOST:
        return ""
    instead = "deduped has all in one table" if tenants else "`versions: table` is one table"
    return f"a query of the view over {tables:,} versions of raw plans each of them: {instead}"
