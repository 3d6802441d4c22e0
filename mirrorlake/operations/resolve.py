"""Resolving a contract against its server: the first step of everything that reads or folds.

What belongs here: what is refused before anything is read or written. What doesn't: what a contract
and a table make of each other (`mirrorlake.table.resolve`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config import TableContract
from mirrorlake.destinations.iceberg.tables import can_hold, iceberg_type
from mirrorlake.errors import SchemaError, SchemaMoved
from mirrorlake.merge.statements import check_rules
from mirrorlake.schema.versions import SchemaVersion
from mirrorlake.sources.mysql.introspect import read_contracted
from mirrorlake.sources.mysql.zones import WALL_TIMES, refuse_other_zone
from mirrorlake.table.hash_key import refuse_other_hash_key
from mirrorlake.table.lake_tables import raw_tables
from mirrorlake.table.meaning import refuse_changed
from mirrorlake.table.new_columns import held_columns
from mirrorlake.table.resolve import ResolvedTable, resolve_contract
from mirrorlake.workspace import Workspace


def resolve_table(
    workspace: Workspace,
    contract: TableContract,
    connection: Connection[Any],
    *,
    any_hash_key: bool = False,
) -> ResolvedTable:
    """The contract resolved against the server, refused if it can't be kept; nothing is written.

    Args:
        any_hash_key: whether the clean table may have been hashed under another key: for who
            rewrites it.

    Raises:
        ConfigError, SchemaError, TypeRefused: as `mirrorlake.table.resolve.plan_table` says.
        SourceError: MySQL could not be queried, or is in another time zone than the contract says.
    """
    config = workspace.config
    source = config.sources[contract.source]
    table = read_contracted(config, contract, connection)
    plan = resolve_contract(config, contract, table)
    check_rules(plan, config.privacy.hash_key)
    if not any_hash_key:
        refuse_other_hash_key(plan, workspace.ledger, config.privacy.hash_key)
    if plan.cursor is not None and plan.cursor.data_type in WALL_TIMES:
        refuse_other_zone(connection, source, plan.name, plan.cursor.name)
    names = [column.name for column in plan.table.columns]
    return replace(plan, held=held_columns(workspace.ledger, workspace.lake, contract, names))


def needs_first_load(workspace: Workspace, plan: ResolvedTable, *, elsewhere: bool = False) -> bool:
    """Whether the plan's schema version needs a first load of its own.

    Args:
        elsewhere: whether it goes to a namespace that holds no other version.

    Raises:
        SchemaError: a column is gone, or has a type in which not every value of the lake has a
            place.
    """
    versions = workspace.ledger.schema_versions(plan.name)
    if not versions or elsewhere:
        return True
    newest = versions[-1]
    if newest == plan.version:
        # A version whose first load never succeeded still needs it.
        done = {load.raw_table for load in workspace.ledger.successful_loads(plan.name)}
        return plan.raw.name not in done
    _refuse_changes(workspace, plan, newest)
    return True


def refuse_unloaded(workspace: Workspace, plan: ResolvedTable) -> None:
    """See that no column came or went since the load: it would be folded as NULL. Where no load
    ever succeeded, there is nothing to fold.

    Raises:
        SchemaMoved: one came, or a type became wider; retryable, as a load takes it up.
        SchemaError: more changed than that.
        ConfigError: the contract means something else by now.
    """
    receipt = workspace.ledger.newest_receipt(plan.name)
    refuse_changed(receipt, plan.contract, plan.source, plan.table)
    if needs_first_load(workspace, plan) and workspace.ledger.successful_loads(plan.name):
        raise SchemaMoved(
            f"table {plan.name}: its schema changed in MySQL since it was loaded",
            table=plan.name,
            next_step="Load it again first: the new version's first load is folded with it",
            retryable=True,
        )


def _refuse_changes(workspace: Workspace, plan: ResolvedTable, newest: SchemaVersion) -> None:
    hidden = {name.casefold() for name in plan.contract.excluded}
    never = [name for name, _ in newest.columns if name.casefold() in hidden]
    if never:
        raise SchemaError(
            f"table {plan.name}: {', '.join(never)} is marked `pci: never`, and its mirror "
            "holds it already",
            table=plan.name,
            column=never[0],
            next_step="Mirror the table again under other namespaces and drop the old ones: what "
            "was read can't be unread",
        )
    changes = plan.version.changes_from(newest)
    narrow = _find_narrow(workspace, plan) if changes.retyped else {}
    if changes.dropped or narrow:
        words = replace(changes, added=()).words
        held = "".join(f"; the lake holds {name} as {kind}" for name, kind in narrow.items())
        raise SchemaError(
            f"table {plan.name}: its schema changed in MySQL: {'; '.join(words)}{held}",
            table=plan.name,
            column=next(iter((*changes.dropped, *narrow))),
            next_step="Added columns and wider types are taken up by themselves; for other "
            "changes mirror the table again under other namespaces, or change it back",
        )


def _find_narrow(workspace: Workspace, plan: ResolvedTable) -> dict[str, str]:
    """The columns whose type has no place for every value that the lake may hold of them, each with
    its type there: in raw of any version, in deduped, or in clean where it is a table."""
    lake, contract = workspace.lake, plan.contract
    stored = [*raw_tables(lake, workspace.ledger, contract), lake.load(plan.deduped)]
    wanted = {e.name: iceberg_type(e.iceberg) for e in plan.columns}
    return {
        field.name: str(field.field_type)
        for table in stored
        if table is not None
        for field in table.schema().fields
        if (kind := wanted.get(field.name)) is not None and not can_hold(field.field_type, kind)
    }
