"""What a check compares, as MySQL, the ledger and the lake have it now; what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config.contract import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.model import LakeSchema, LakeTable, shown_columns
from mirrorlake.errors import ProofError, SchemaError, SourceError
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.records import MOVING, Load
from mirrorlake.proof.comparing.unchanged_since_load import is_still
from mirrorlake.proof.forms.canonical import DELETED_AT, ORIGINALS
from mirrorlake.proof.forms.rows import RowForm, row_form
from mirrorlake.proof.ranges.scope import settled_scope
from mirrorlake.proof.ranges.target import Mirror, Target
from mirrorlake.proof.sides.mysql_side import read_packet
from mirrorlake.schema.versions import (
    FIRST_CREATED,
    SchemaVersion,
    first_created_column,
    schema_version,
)
from mirrorlake.sources.mysql.introspection.introspect import read_contracted
from mirrorlake.sources.mysql.sessions.connect import SourcePosition, read_position
from mirrorlake.sources.mysql.tables import Column, SourceTable
from mirrorlake.table.columns.lake_names import refuse_other_names
from mirrorlake.table.columns.shape import taken_up
from mirrorlake.table.holds import refuse_held
from mirrorlake.table.meaning import meaning_of, refuse_changed
from mirrorlake.workspace import Workspace


def resolve_target(
    workspace: Workspace, contract: TableContract, connection: Connection[Any]
) -> Target:
    """The table as MySQL, the ledger and the lake have it now.

    Raises:
        SchemaError: MySQL has no such table, or the user may not read it whole; a column is missing
            in the mirror or has another type there; the key is not unique in MySQL; the schema
            changed since the load.
        SourceError: another server answers than the one that was mirrored.
        SourceHeld: a person asked us to leave the source alone.
        ProofError: nothing of the table is in the mirror yet.
    """
    source = workspace.config.sources[contract.source]
    refuse_held(workspace.ledger, contract.source)
    whole = read_contracted(workspace.config, contract, connection)
    refuse_other_names(workspace.ledger, contract, whole)
    table = taken_up(contract, whole, workspace.ledger.schema_versions(contract.name))
    columns = _columns(table, contract)
    left = tuple(c.name for c in whole.columns if c not in columns)
    key = tuple(table.column(name) for name in contract.key)
    if key and not table.has_unique([c.name for c in key]):
        raise SchemaError(
            f"table {contract.name}: MySQL does not keep ({', '.join(contract.key)}) unique and "
            "NOT NULL, so rows can't be told apart by it",
            table=contract.name,
            next_step="Name the columns of its primary key or of a unique index over NOT NULL "
            "columns",
        )
    newest = workspace.ledger.newest_receipt(contract.name)
    refuse_changed(newest, contract.name, meaning_of(contract, source, table))
    version = _refuse_drift(workspace.ledger, contract, columns)
    mirror, found = read_mirror(workspace, contract)
    fields = _types(found.schema())
    rows = row_form(columns, ORIGINALS in fields, read_packet(connection))
    behind = mirror.load.raw_table != version.raw_table
    _check_columns(contract, key, rows, fields, _FOLD if behind else _CHANGED)
    # What is compared is what main shows: a fold that adds columns has not shown them yet.
    _check_columns(contract, key, rows, _types(shown_columns(found)), _FOLD)
    position = read_position(connection)
    _refuse_other_server(contract, mirror.load, position)
    moves = not contract.copies
    still = moves and is_still(connection, source, table, mirror.load, position)
    scope = settled_scope(table, contract, source, mirror.load, still=still)
    return Target(contract, source, table, key, rows, mirror, scope, position, left)


def read_mirror(workspace: Workspace, contract: TableContract) -> tuple[Mirror, LakeTable]:
    """The newest version of deduped, and the newest load that it surely holds.

    Raises:
        ProofError: there is none.
    """
    ledger = workspace.ledger
    # First the ledger, then the lake: the snapshot holds at least these loads.
    folded = ledger.folded_loads(contract.name, "deduped")
    held = [load for load in ledger.successful_loads(contract.name) if load.seq in folded]
    loads = [load for load in held if load.window.kind in MOVING]
    identifier = Identifier(contract.namespaces.deduped, contract.table)
    table = workspace.lake.load(identifier)
    if table is None or not loads:
        raise ProofError(
            f"table {contract.name} is not mirrored yet: no load of it was folded",
            table=contract.name,
            next_step="Sync it first",
        )
    snapshot = table.current_snapshot()
    at = snapshot.snapshot_id if snapshot else None
    return Mirror(identifier, at, _followed(ledger, loads[-1]), held[-1].seq), table


def _followed(ledger: Ledger, load: Load) -> Load:
    """The newest load of a table; where its log was followed further, and had no change of it, as
    of then."""
    further = ledger.log_progress(load.table)
    if further is None or further.seq != load.seq or load.receipt is None:
        return load
    moment = further.at.replace(tzinfo=None).isoformat(sep=" ")
    if moment <= load.receipt.moment:
        return load
    return replace(load, receipt=replace(load.receipt, moment=moment, position=""))


def _columns(table: SourceTable, contract: TableContract) -> tuple[Column, ...]:
    hidden = {name.lower() for name in contract.excluded}
    return tuple(c for c in table.columns if c.name.lower() not in hidden)


def _refuse_drift(
    ledger: Ledger, contract: TableContract, columns: tuple[Column, ...]
) -> SchemaVersion:
    """The table's schema version, which is the one that was loaded last."""
    versions = ledger.schema_versions(contract.name)
    of_version = [(c.name, c.column_type) for c in columns]
    if contract.entity is not None:
        named = {c.name.lower(): c.name for c in columns}
        entity = (contract.entity.token, contract.entity.created)
        token, created = (named.get(name.lower(), name) for name in entity)
        of_version.append(first_created_column(token, created))
    now = schema_version(contract.table, of_version)
    if not versions or versions[-1] == now:
        return now
    changes = now.changes_from(versions[-1], contract.earlier_names).said
    raise SchemaError(
        f"table {contract.name}: MySQL, or its contract, has other columns than were loaded: "
        f"{changes}",
        table=contract.name,
        next_step="Sync it first; what sync refuses, it explains",
    )


_FOLD = "The newest load has these columns, and was not folded yet: sync it first"
_CHANGED = (
    "Somebody changed the lake table: sync it, which sets its columns back; if that does not help, "
    "rename the lake table (one that is dropped is registered again) and sync again: it is rebuilt "
    "from raw"
)


def _types(schema: LakeSchema) -> dict[str, str]:
    return {field.name: str(field.field_type).replace(" ", "") for field in schema.fields}


def _check_columns(
    contract: TableContract,
    key: tuple[Column, ...],
    rows: RowForm,
    fields: dict[str, str],
    next_step: str,
) -> None:
    """Forms are compared as texts: a value of another type must not pass for the right one."""
    keys = {column.name for column in key}
    for cell in sorted(rows.cells, key=lambda cell: cell.name not in keys):
        what = "key column" if cell.name in keys else "column"
        there = fields.get(cell.name)
        if there == cell.iceberg:
            continue
        words = f"is {there} there, not {cell.iceberg}" if there else "is missing there"
        raise SchemaError(
            f"table {contract.name}: the mirror can't be compared: {what} {cell.name} {words}",
            table=contract.name,
            column=cell.name,
            next_step=next_step,
        )
    flag = {DELETED_AT} if contract.deletes == "flag" else set[str]()
    if not flag <= set(fields):
        raise ProofError(
            f"table {contract.name}: deletes are to be flagged, and its mirror has no such column",
            table=contract.name,
            column=DELETED_AT,
            next_step="Sync it first: it is folded again by this rule",
        )
    # MySQL may have deleted an entity's first row: it can't confirm the mirror's time.
    kept = {ORIGINALS, FIRST_CREATED} if contract.entity else {ORIGINALS}
    strange = sorted({*fields} - {cell.name for cell in rows.cells} - kept - flag)
    if strange:
        raise SchemaError(
            f"table {contract.name}: the mirror has columns that are not mirrored: "
            f"{', '.join(strange)}",
            table=contract.name,
            column=strange[0],
            next_step=next_step,
        )


def _refuse_other_server(contract: TableContract, load: Load, now: SourcePosition) -> None:
    if load.receipt is not None and load.receipt.server != now.server:
        raise SourceError(
            f"source {contract.source} is now server {now.server}; table {contract.name} was read "
            f"from {load.receipt.server}",
            source=contract.source,
            table=contract.name,
            next_step="Point the contract back, or mirror the new server into other namespaces",
        )
