"""What is shown of layers: the view over raw's versions, clean as a view, and clean tables that
are made again when their rules change.

A view is compared with the one that the catalog has, not with what the ledger remembers: a view
that somebody replaced is made again. What is there already with the same definition costs no Spark.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeSchema, chosen_columns
from mirrorlake.destinations.iceberg.spark_errors import spark_errors
from mirrorlake.destinations.iceberg.tables import current_schema, has_original
from mirrorlake.destinations.iceberg.views import LakeView, forget_view, read_view, write_view
from mirrorlake.errors import LakeDamaged
from mirrorlake.ledger import Ledger
from mirrorlake.merge.current_rows import original_or_none, raw_columns
from mirrorlake.merge.statements import Layer, clean_layer, clean_view_sql
from mirrorlake.schema.own_columns import KEY, ORIGINAL, TOKEN
from mirrorlake.table.hash_key import forget_hash_key, has_hash_key, is_hashed, record_hash_key
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)


def renew_clean_table(workspace: Workspace, plan: ResolvedTable) -> Layer:
    """The clean table's layer; a view in its place is dropped, and so is the table when its rules
    changed, so that nothing that they rule out stays."""
    layer = clean_layer(plan)
    _drop_view(workspace, plan.clean)
    if not is_clean_as_ruled(workspace, plan):
        _purge_table(workspace, plan.clean)
        workspace.ledger.record_definition(f"table {plan.clean}", _definition(layer))
    # Before the first hash is written: a table may lag behind the record, never the other way.
    key = workspace.config.privacy.hash_key if is_hashed(plan) else None
    if key is not None and not has_hash_key(workspace.ledger, plan.clean):
        record_hash_key(workspace.ledger, plan.clean, key)
    return layer


def is_clean_as_ruled(workspace: Workspace, plan: ResolvedTable) -> bool:
    """Whether clean is to be a table, and was last made by the rules that it has now."""
    made_by = workspace.ledger.definition(f"table {plan.clean}")
    return plan.contract.clean == "table" and made_by == _definition(clean_layer(plan))


def _definition(layer: Layer) -> str:
    return repr((layer.columns, layer.original))


def make_clean_view(workspace: Workspace, plan: ResolvedTable) -> None:
    """The clean view; a table in its place is dropped."""
    _purge_table(workspace, plan.clean)
    _make_view(workspace, plan.clean, clean_view(plan))


def _purge_table(workspace: Workspace, identifier: Identifier) -> None:
    """Drop a clean table with its files: its history may hold what a new rule takes away."""
    if workspace.lake.load(identifier) is not None:
        forget_hash_key(workspace.ledger, identifier)
        with workspace.lake.translated(identifier):
            workspace.lake.catalog.purge_table(identifier.path)


def _drop_view(workspace: Workspace, identifier: Identifier) -> None:
    known = workspace.ledger.definition(f"view {identifier}") is not None
    # Another ledger may have known it, or none.
    if not known and not isinstance(_look(workspace.lake, identifier), LakeView):
        return
    forget_view(workspace.lake, identifier)
    workspace.ledger.forget_definition(f"view {identifier}")


@dataclass(frozen=True)
class ViewText:
    """What a view must be: the SQL that a query of it runs, and the columns that it gives out.

    Attributes:
        schema: their types; None where only Spark knows them.
    """

    sql: str
    columns: tuple[str, ...]
    schema: LakeSchema | None = None


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
    return _wrong(_look(lake, identifier), wanted)


def _look(lake: Lake, identifier: Identifier) -> LakeView | LakeDamaged | None:
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
    return None


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


def make_raw_view(workspace: Workspace, plan: ResolvedTable) -> None:
    """The view over the raw tables of all versions, in the newest version's columns."""
    wanted = raw_view(plan, workspace.ledger, workspace.lake)
    if wanted is not None:
        _make_view(workspace, plan.raw_view, wanted)


def raw_view(plan: ResolvedTable, ledger: Ledger, lake: Lake) -> ViewText | None:
    """The view over the raw tables of all versions; None before there is any."""
    selects: list[str] = []
    names: list[str] = []
    schema: LakeSchema | None = None
    for version in ledger.schema_versions(plan.name):
        raw = Identifier(plan.raw.namespace, version.raw_table)
        table = lake.load(raw)
        if table is None:
            continue
        there = {field.name for field in table.schema().fields}
        columns = raw_columns(plan, table)
        meta = sorted(
            n for n in there if n.startswith("_mirror_") and n not in (ORIGINAL, KEY, TOKEN)
        )
        original = [original_or_none(there)] if has_original(plan.columns) else []
        selects.append(f"SELECT {', '.join([*columns, *original, *meta])} FROM {raw.sql}")  # noqa: S608
        # Of a union, the first part names the columns.
        shown = [*(e.name for e in plan.columns), *([ORIGINAL] if original else []), *meta]
        names = names or shown
        # The types of a union of several versions are Spark's to say.
        known = not selects[1:] and set(shown) <= there
        schema = chosen_columns(table.schema(), shown) if known else None
    return ViewText(" UNION ALL ".join(selects), tuple(names), schema) if selects else None


def _make_view(workspace: Workspace, identifier: Identifier, wanted: ViewText) -> None:
    name = f"view {identifier}"
    there = _look(workspace.lake, identifier)
    wrong = _wrong(there, wanted)
    known = workspace.ledger.definition(name)
    if wrong is None:
        if known != wanted.sql:
            workspace.ledger.record_definition(name, wanted.sql)
        return
    ours = there is None or (isinstance(there, LakeView) and there.sql == known != wanted.sql)
    if known == wanted.sql:
        logger.warning("view %s %s: somebody changed it; it is made again", identifier, wrong)
    workspace.lake.make_namespace(identifier.namespace)
    if not ours:
        # What somebody else put there shows nothing any more, and Spark need not be able to read
        # it: a file that was edited by hand fails Hadoop's checksums.
        forget_view(workspace.lake, identifier)
    view = LakeView(wanted.sql, wanted.schema) if wanted.schema is not None else None
    if view is None or not write_view(workspace.lake, identifier, view):
        spark = workspace.spark.get()
        with spark_errors(str(identifier)):
            spark.sql(f"CREATE OR REPLACE VIEW {identifier.sql} AS {wanted.sql}")
    workspace.ledger.record_definition(name, wanted.sql)
