"""Views in the catalog: clean as one, made, held and restored.

A view is compared with the one that the catalog has, not with what the ledger remembers: a view
that somebody replaced is made again. What is there already with the same definition costs no Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

from mirrorlake.capabilities import Seam
from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.heads import is_anothers
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeSchema
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.destinations.iceberg.tables.schemas import current_schema, iceberg_type
from mirrorlake.destinations.iceberg.tables.views import (
    LakeView,
    forget_view,
    read_view,
    write_view,
)
from mirrorlake.errors import LakeDamaged, LakeError
from mirrorlake.merge.reshape import find_outdated
from mirrorlake.merge.statements import clean_layer, clean_view_sql, deduped_layer
from mirrorlake.serving.hiding import purge_files
from mirrorlake.table.hash_key import forget_hash_key
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace


class CleanFollower(Protocol):
    """Shows clean of other versions by views, which must have the rules of now as soon as clean
    has."""

    def renew(self, workspace: Workspace, contract: TableContract) -> None:
        """Have a table's views, if there are any, show by the rules of now. The table's lease is
        held, and its clean view is about to be written.

        Raises:
            LakeError: the catalog or the storage failed.
        """
        ...

    def drop(self, workspace: Workspace, contract: TableContract) -> None:
        """Take a table's views away: its clean is to be a table."""
        ...


FOLLOWERS: Final[Seam[CleanFollower]] = Seam("clean views: followers")


def make_clean_view(
    workspace: Workspace,
    plan: ResolvedTable,
    *,
    is_new: bool = False,
) -> None:
    """The clean view; a table in its place makes way for it.

    Args:
        is_new: whether deduped is another table than the one that followers know.
    """
    wanted = clean_view(plan)
    if is_new or workspace.ledger.definition(f"view {plan.clean}") != wanted.sql:
        for follower in FOLLOWERS:  # before: they never show more than clean does
            follower.renew(workspace, plan.contract)
    make_view(workspace, plan.clean, wanted, over_table=True)


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
) -> bool:
    """Make a view, or replace it in one step, unless it is the one that it must be; whether it was
    made.

    Args:
        over_table: whether a table of that name makes way for it, and goes with its files.

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
    if there is None:
        workspace.record_last(record)  # a view that is as it must be is recorded when it is seen
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
