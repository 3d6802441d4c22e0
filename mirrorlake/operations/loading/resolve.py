"""Resolving a contract against its server: the first step of everything that reads or folds.

What belongs here: what is refused before anything is read or written. What doesn't: what a contract
and a table make of each other (`mirrorlake.table.resolve`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config import TableContract
from mirrorlake.destinations.iceberg.model import column_names
from mirrorlake.destinations.iceberg.tables.schemas import can_hold, has_original, iceberg_type
from mirrorlake.errors import LakeDamaged, SchemaError, SchemaMoved
from mirrorlake.merge.row_sql.raw_versions import may_lose
from mirrorlake.merge.statements import check_rules
from mirrorlake.operations.schema_changes.exchanged_columns import exchanged_since, that_stayed
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.schema.reserved_names import keeper_of
from mirrorlake.schema.versions import FIRST_CREATED, SchemaChanges, SchemaVersion
from mirrorlake.sources.mysql.introspection.introspect import read_contracted
from mirrorlake.sources.mysql.introspection.lake_names import in_lake
from mirrorlake.sources.mysql.sessions.zones import WALL_TIMES, refuse_other_zone
from mirrorlake.sources.mysql.tables import SourceTable
from mirrorlake.table.columns.exchanged import Pair
from mirrorlake.table.columns.lake_names import refuse_other_names
from mirrorlake.table.columns.new_columns import held_columns, once_there
from mirrorlake.table.columns.shape import (
    left_out,
    read_already,
    recorded_renames,
    refuse_forgotten,
    refuse_renames,
    refuse_unread_moved,
    renames_text,
    taken_names,
    taken_up,
)
from mirrorlake.table.hash_key import refuse_other_hash_key
from mirrorlake.table.lake_tables import raw_tables
from mirrorlake.table.meaning import meaning_of, recorded_meaning, refuse_changed
from mirrorlake.table.resolve import (
    ResolvedTable,
    located_errors,
    refuse_names_there,
    resolve_contract,
)
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
    plan = resolve_as(workspace, contract, read_contracted(config, contract, connection))
    if plan.exchanged:
        stayed = that_stayed(workspace, plan, connection)
        pairs = tuple(pair for pair in plan.exchanged if pair[1] not in stayed)
        plan = _holding(replace(plan, held=_held(workspace, plan)), pairs)
    if not any_hash_key:
        refuse_other_hash_key(plan, workspace.ledger, config.privacy.hash_key)
    if plan.cursor is not None and plan.cursor.data_type in WALL_TIMES:
        refuse_other_zone(connection, plan.source, plan.name, plan.cursor.name)
    return plan


def resolve_as(workspace: Workspace, contract: TableContract, table: SourceTable) -> ResolvedTable:
    """The contract resolved against a table as a server describes it, or will.

    Raises:
        ConfigError, SchemaError, TypeRefused: as `mirrorlake.table.resolve.plan_table` says.
    """
    config = workspace.config
    with located_errors(config, contract):
        table = in_lake(table, contract)
    versions = workspace.ledger.schema_versions(contract.name)
    taken = taken_up(contract, table, versions)
    once = once_there(workspace.ledger, contract, versions)
    with located_errors(config, contract):
        refuse_unread_moved(contract, taken, versions, once)
        refuse_other_names(workspace.ledger, contract, table)
    plan = resolve_contract(config, contract, taken, once)
    with located_errors(config, contract):
        if not versions:  # what was loaded already goes on in the lake, and publishing refuses it
            refuse_names_there(plan)
        refuse_renames(contract, table, versions, plan.gone)
        recorded = workspace.ledger.definition(_renames_name(contract))
        refuse_forgotten(contract, table, recorded_renames(recorded, contract))
    check_rules(plan, config.privacy.hash_key)
    receipt = workspace.ledger.newest_receipt(contract.name) if versions else None
    plan = replace(
        plan,
        held=_held(workspace, plan),
        filled=(receipt.filled if receipt else None) or {},
        left_out=left_out(contract, table, versions),
        had_originals=not has_original(plan.columns) and _had_originals(workspace, plan),
        taken=taken_names(
            contract, versions, workspace.ledger.successful_loads(contract.name, ever=True)
        ),
    )
    return _holding(plan, exchanged_since(workspace.ledger, contract, plan.table))


def _held(workspace: Workspace, plan: ResolvedTable) -> tuple[str, ...]:
    names = [column.name for column in plan.table.columns]
    return held_columns(workspace.ledger, workspace.lake, plan.contract, names)


def _holding(plan: ResolvedTable, pairs: tuple[Pair, ...]) -> ResolvedTable:
    """A plan by which clean leaves out the columns that may have been exchanged, too."""
    held = {name.lower() for name in plan.held} | {name for pair in pairs for name in pair}
    names = tuple(column.name for column in plan.table.columns if column.name.lower() in held)
    return replace(plan, held=names, exchanged=pairs)


def _renames_name(contract: TableContract) -> str:
    """The name under which the ledger keeps by which earlier names a table was loaded: under other
    namespaces it has no past."""
    return f"renamed {contract.namespaces.raw}.{contract.table}"


def remember_renames(workspace: Workspace, contract: TableContract) -> None:
    """Write down the earlier names that the contract says, for when it no longer does. The caller
    holds the table's lease."""
    if not contract.earlier_names:
        return
    name = _renames_name(contract)
    known = workspace.ledger.definition(name)
    text = renames_text(recorded_renames(known, contract))
    if text != known:
        workspace.ledger.record_definition(name, text)


def _had_originals(workspace: Workspace, plan: ResolvedTable) -> bool:
    """Whether raw has original texts in a table of any version, or values that have no place in the
    types of now; False where one can't be read: reading its rows raises that error."""
    try:
        tables = raw_tables(workspace.lake, workspace.ledger, plan.contract)
    except LakeDamaged:
        return False
    if any(ORIGINAL in column_names(table.schema()) for table in tables):
        return True
    return any(may_lose(plan, table) for table in tables)


def needs_first_load(workspace: Workspace, plan: ResolvedTable, *, elsewhere: bool = False) -> bool:
    """Whether the plan's schema version needs a first load of its own.

    Args:
        elsewhere: whether it goes to a namespace that holds no other version.

    Raises:
        SchemaError: the contract's ``schema_changes`` stops the table, or what identifies its rows
            has another type.
    """
    versions = workspace.ledger.schema_versions(plan.name)
    if not versions or elsewhere:
        return True
    newest = versions[-1]
    if newest == plan.version:
        # One whose first load never succeeded still needs it: a version that came back, too.
        last = workspace.ledger.last_load(plan.name, "success")
        return last is None or last.raw_table != plan.raw.name
    refuse_changes(workspace, plan, newest)
    return True


def refuse_unloaded(workspace: Workspace, plan: ResolvedTable) -> None:
    """See that no column came or went since the load: it would be folded as NULL. Where no load
    ever succeeded, there is nothing to fold.

    Raises:
        SchemaMoved: one came, or a type changed; retryable, as a load takes it up.
        SchemaError: more changed than that.
        ConfigError: the contract means something else by now.
    """
    receipt = workspace.ledger.newest_receipt(plan.name)
    refuse_changed(receipt, plan.name, meaning_of(plan.contract, plan.source, plan.table))
    if needs_first_load(workspace, plan) and workspace.ledger.successful_loads(plan.name):
        raise SchemaMoved(
            f"table {plan.name}: MySQL, or its contract, has other columns than were loaded",
            table=plan.name,
            next_step="Load it again first: the new version's first load is folded with it",
            retryable=True,
        )


def changes_of(plan: ResolvedTable, newest: SchemaVersion) -> SchemaChanges:
    """What changed in a table since the version that its mirror holds."""
    return plan.version.changes_from(newest, plan.contract.earlier_names)


def refuse_changes(workspace: Workspace, plan: ResolvedTable, newest: SchemaVersion) -> None:
    """See that a table's mirror can take up what changed since its newest version.

    Raises:
        SchemaError: the contract's ``schema_changes`` stops the table, what identifies its rows has
            another type, or its mirror holds what is never to be read.
    """
    _refuse_read_already(plan, newest)
    changes = changes_of(plan, newest)
    if FIRST_CREATED in changes.dropped:
        raise SchemaError(
            f"table {plan.name}: {FIRST_CREATED} was dropped: its contract names no entity any "
            "more, and deduped is laid out by its days",
            table=plan.name,
            next_step="Put `entity` back, or mirror the table again under other namespaces",
        )
    # Of what a frozen table was added, the contract names what is left here.
    spoken = plan.contract.schema_changes == "freeze" and changes == SchemaChanges(changes.added)
    if plan.contract.schema_changes != "evolve" and not (spoken and changes.added):
        raise SchemaError(
            f"table {plan.name}: its schema changed in MySQL: {changes.said}; and its "
            f"contract says `schema_changes: {plan.contract.schema_changes}`",
            table=plan.name,
            next_step="Write `schema_changes: evolve` to take it up (all rows are read again), or "
            "change it back; until then nothing of this table is read",
        )
    _refuse_key(workspace, plan)


def _refuse_read_already(plan: ResolvedTable, newest: SchemaVersion) -> None:
    names = [name for name, _ in newest.columns]
    never = [found for column in plan.contract.excluded if (found := plan.name_in(names, column))]
    # A column that no lake can show was loaded by an earlier release, and never went beyond raw.
    never = [name for name in never if keeper_of(name) is None]
    if never:
        raise read_already(plan.contract, never)


def _refuse_key(workspace: Workspace, plan: ResolvedTable) -> None:
    """Refuse an entity whose token or time has another type, and a key, unless its loads recorded
    its type: then the next load begins a new history.

    Raises:
        SchemaError: one of them has another type.
    """
    receipt = workspace.ledger.newest_receipt(plan.name)
    meaning = recorded_meaning(receipt)
    entity = plan.entity
    roles = {FIRST_CREATED, entity.token.name, entity.created.name} if entity else set[str]()
    if meaning is None or not meaning.key_types:
        roles |= set(plan.key)
    deduped = workspace.lake.load(plan.deduped)
    held = {f.name: f.field_type for f in deduped.schema().fields} if deduped is not None else {}
    for exact in plan.columns:
        there = plan.name_in(held, exact.name)
        if exact.name not in roles or there is None:
            continue
        if not can_hold(held[there], iceberg_type(exact.iceberg)):
            raise SchemaError(
                f"table {plan.name}: {exact.name} is {exact.iceberg} now, and the lake holds it as "
                f"{held[there]}: it identifies rows",
                table=plan.name,
                column=exact.name,
                next_step="Mirror the table again under other namespaces, or change it back",
            )
