"""Columns of tenants that may have got each other's names, past a rule that hides one of them.

All tenants share one clean: what may be hidden in one is left out for all, until a person decides.

What belongs here: which tenants, and what the ledger keeps of their columns. What doesn't: what
columns and rows tell (`mirrorlake.operations.schema_changes.exchanged_columns`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence

from mirrorlake.config.contract import TenantTable
from mirrorlake.destinations.base import Condition
from mirrorlake.errors import MirrorlakeError, SourceError
from mirrorlake.ledger import Ledger, Tenant, TenantPlace
from mirrorlake.operations.schema_changes.exchanged_columns import (
    LakeRow,
    exchanged_between,
    lake_columns,
    rows_in_mysql,
    same_columns,
    sample_rows,
)
from mirrorlake.operations.schema_changes.recorded_contracts import recorded_contract
from mirrorlake.schema.own_columns import DATABASE, SOURCE
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.table.columns.exchanged import Pair, may_be_renamed, record_exchanged
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

_Columns = tuple[tuple[str, str], ...]


def record_tenant_exchanges(
    workspace: Workspace,
    table: TenantTable,
    plans: Mapping[TenantPlace, ResolvedTable],
    known: Mapping[TenantPlace, Tenant],
) -> dict[TenantPlace, MirrorlakeError]:
    """Keep the columns that may have been exchanged since the copies that the mirror has, before
    tenants are read again. Returns why it could not be asked of some: they are not to be read. The
    caller holds the table's lease.

    Args:
        plans: the tenants that are to be read.
    """
    ledger = workspace.ledger
    recorded = recorded_contract(ledger, table)
    before = _columns_before(ledger, table, known)
    failed: dict[TenantPlace, MirrorlakeError] = {}
    found: dict[Pair, list[TenantPlace]] = {}
    for place, plan in plans.items():
        then, now = before.get(place, ()), _columns_of(plan)
        for pair in may_be_renamed(table, (name for name, _ in then), (name for name, _ in now)):
            found.setdefault(pair, []).append(place)
        pairs = exchanged_between(table, then, now, recorded)
        if not pairs:
            continue
        try:
            stayed = _that_stayed(workspace, table, plan, pairs)
        except SourceError as error:
            failed[place] = error
            continue
        for pair in pairs:
            if pair[1] not in stayed:
                found.setdefault(pair, []).append(place)
    for (hidden, other), places in found.items():
        named = ", ".join(f"{s}.{d}" for s, d in places[:3]) + (" …" if len(places) > 3 else "")
        logger.warning("table %s: %s may have what %s had, in %s", table.name, other, hidden, named)
    record_exchanged(ledger, table, found)
    return failed


def record_tenant_columns(
    ledger: Ledger, table: TenantTable, plans: Mapping[TenantPlace, ResolvedTable]
) -> None:
    """Keep all columns of tenants that were read, where some are never read: the versions of their
    copies have only the others."""
    if not any(rule.pci == "never" for rule in table.columns.values()):
        return
    kept = _recorded(ledger, table)
    both = kept | {place: _columns_of(plan) for place, plan in plans.items()}
    if both != kept:
        alike: dict[_Columns, list[TenantPlace]] = {}
        for place, columns in both.items():
            alike.setdefault(columns, []).append(place)
        ledger.record_definition(_name(table), json.dumps([*alike.items()], ensure_ascii=False))


def _that_stayed(
    workspace: Workspace, table: TenantTable, plan: ResolvedTable, pairs: Iterable[Pair]
) -> set[str]:
    contract, deduped = plan.contract, deduped_of(table)

    def then(columns: Sequence[str]) -> list[LakeRow]:
        mine = Condition(DATABASE, contract.database, contract.database)
        rows = sample_rows(workspace, deduped, [*columns, SOURCE], mine)
        return [row for row in rows if row[SOURCE] == contract.source]

    with session(plan.source, contract.database) as connection:
        return same_columns(
            pairs,
            plan.key,
            lake_columns(workspace, deduped),
            then,
            lambda columns, keys: rows_in_mysql(connection, plan, columns, keys),
        )


def _columns_of(plan: ResolvedTable) -> _Columns:
    return tuple((column.name, column.column_type) for column in plan.table.columns)


def _columns_before(
    ledger: Ledger, table: TenantTable, known: Mapping[TenantPlace, Tenant]
) -> dict[TenantPlace, _Columns]:
    """Each tenant's columns when its copy was read, in the server's order."""
    versions = {version.hash: version.columns for version in ledger.schema_versions(table.name)}
    read = {
        place: tuple(versions[tenant.version])
        for place, tenant in known.items()
        if tenant.version in versions
    }
    return read | {p: columns for p, columns in _recorded(ledger, table).items() if p in read}


def _recorded(ledger: Ledger, table: TenantTable) -> dict[TenantPlace, _Columns]:
    text = ledger.definition(_name(table))
    return {
        (source, database): tuple((name, kind) for name, kind in columns)
        for columns, places in (json.loads(text) if text else ())
        for source, database in places
    }


def _name(table: TenantTable) -> str:
    return f"tenants' columns {table.namespaces.raw}.{table.table}"
