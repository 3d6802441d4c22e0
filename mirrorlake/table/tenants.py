"""A table of tenants resolved against its servers: each tenant by itself, so that one whose table
can't be kept stops no other.

What belongs here: what a tenant's contract is, and which tenants can be kept. What doesn't: reading
them (`mirrorlake.load.tenants`).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from mirrorlake.config.contract import TableContract, TenantTable
from mirrorlake.config.server import SourceConfig
from mirrorlake.config.settings import ColumnRule
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import MirrorlakeError, SchemaError, TypeRefused
from mirrorlake.ledger.loads.tenants import TenantPlace
from mirrorlake.ledger.store import Ledger
from mirrorlake.schema.lattice import is_promoted
from mirrorlake.schema.versions import SchemaVersion
from mirrorlake.sources.mysql.tables import SourceTable
from mirrorlake.table.columns.exchanged import exchanged_name
from mirrorlake.table.columns.new_columns import held_by
from mirrorlake.table.resolve import ResolvedTable, plan_table

Plans: TypeAlias = dict[TenantPlace, ResolvedTable]
"""Tenants' tables, resolved, by source and database."""
FailedTenants: TypeAlias = dict[TenantPlace, MirrorlakeError]
"""Why tenants are not read, by source and database."""


@dataclass
class Resolved:
    """The tenants that can be kept, and why others can't."""

    plans: dict[TenantPlace, ResolvedTable] = field(
        default_factory=dict[TenantPlace, ResolvedTable]
    )
    refused: dict[TenantPlace, MirrorlakeError] = field(
        default_factory=dict[TenantPlace, MirrorlakeError]
    )


def raw_of(table: TenantTable, raw_table: str) -> Identifier:
    """The raw table of one schema version."""
    return Identifier(table.namespaces.raw, raw_table)


def raw_view_of(table: TenantTable) -> Identifier:
    """The view over the raw tables of all versions."""
    return Identifier(table.namespaces.raw, table.table)


def contract_of(
    table: TenantTable, source: str, database: str, columns: Iterable[str] | None = None
) -> TableContract:
    """One tenant's contract: a full copy, in the tables that all tenants share.

    Args:
        columns: those that the tenant has. Rules for other columns are left out; a rule for a
            column that the tenant still has by an earlier name goes to that name. None: all rules.
    """
    return TableContract(
        source=source,
        database=database,
        table=table.table,
        mode="full",
        key=table.key,
        new_columns=table.new_columns,
        verify=table.verify,
        shrink_limit=table.shrink_limit,
        owners=table.owners,
        freshness=table.freshness,
        columns=table.columns if columns is None else rules_of(table, columns),
        namespaces=table.namespaces,
    )


def rules_of(table: TenantTable, columns: Iterable[str]) -> dict[str, ColumnRule]:
    """The rules of these columns: each has its own, or that of the column that it became."""
    there = {name.lower(): name for name in columns}
    found = {n: rule for n, rule in table.columns.items() if n.lower() in there}
    named = {name.lower() for name in found}
    for rule in table.columns.values():
        for earlier in rule.renamed_from:
            if earlier.lower() in there.keys() - named:
                plain = rule.model_copy(update={"renamed_from": ()})
                found[there[earlier.lower()]] = plain
    return found


def held_of(ledger: Ledger, table: TenantTable, names: Iterable[str]) -> tuple[str, ...]:
    """The columns that clean leaves out because nobody decided on them yet: they came later, or may
    have what another one had in some tenant."""
    names = tuple(names)
    known = ledger.known_columns(table.name)
    exchanged = ledger.definition(exchanged_name(table))
    return held_by(table, names, known, exchanged=exchanged, hidden=None)


def resolve_tenants(
    table: TenantTable,
    source: SourceConfig,
    found: Mapping[str, SourceTable],
    key_types: Mapping[str, str],
    versions: Sequence[SchemaVersion],
) -> Resolved:
    """Resolve each tenant of a source.

    Args:
        found: the table as each database has it, by database.
        versions: the shapes that the mirror has.
        key_types: Iceberg's types of the key's columns (by name, in lower case) in the lake; none
            before the first load: then they are those that most tenants have.
    """
    resolved = Resolved()
    for database, there in found.items():
        place = (source.name, database)
        try:
            _refuse_hidden(there)
            contract = contract_of(table, *place, (column.name for column in there.columns))
            resolved.plans[place] = plan_table(contract, source, there)
            _refuse_new_shape(table, resolved.plans[place], versions)
        except (MirrorlakeError, TypeRefused) as error:
            resolved.plans.pop(place, None)
            resolved.refused[place] = error
    _refuse_alike(resolved)
    _refuse_other_keys(resolved, key_types or _most_key_types(resolved.plans.values()))
    return resolved


def _refuse_new_shape(
    table: TenantTable, plan: ResolvedTable, versions: Sequence[SchemaVersion]
) -> None:
    """Under ``schema_changes: fail``, see that the mirror has the shape of a tenant, or none yet.

    Raises:
        SchemaError: it is another one.
    """
    if table.schema_changes != "fail" or not versions or plan.version in versions:
        return
    at, changes = plan.version.nearest(versions, plan.contract.earlier_names)
    raise SchemaError(
        f"table {plan.name}: the mirror has no such shape, and `schema_changes` is fail; it is "
        f"{versions[at].raw_table} {changes.beside}",
        table=plan.name,
        next_step="Change it back, or write `schema_changes: evolve` until the next sync",
    )


def _refuse_hidden(table: SourceTable) -> None:
    ordinals = [column.ordinal for column in table.columns]
    if ordinals != list(range(1, len(ordinals) + 1)) or not ordinals:
        name = f"{table.database}.{table.name}"
        raise SchemaError(
            f"table {name}: this user may not read every column of it (a column is hidden)",
            table=name,
            next_step="Grant SELECT on the whole table",
        )


def _refuse_alike(resolved: Resolved) -> None:
    """Databases whose names differ only in case: to some readers they are one tenant."""
    alike: dict[TenantPlace, list[str]] = defaultdict(list)
    for source, database in resolved.plans:
        alike[source, database.casefold()].append(database)
    for (source, _), databases in alike.items():
        if len(databases) > 1:
            for database in databases:
                plan = resolved.plans.pop((source, database))
                resolved.refused[source, database] = SchemaError(
                    f"table {plan.name}: {' and '.join(sorted(databases))} differ only in case, "
                    "and to some readers are one tenant",
                    table=plan.name,
                    next_step="Leave one of them out under `left_out`",
                )


def _most_key_types(plans: Iterable[ResolvedTable]) -> dict[str, str]:
    """The types (Iceberg's) of the key's columns that most tenants have, by name, in lower case."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for plan in plans:
        for name, kind in _key_types(plan).items():
            seen[name][kind] += 1
    return {name: counts.most_common(1)[0][0] for name, counts in seen.items()}


def _key_types(plan: ResolvedTable) -> dict[str, str]:
    types = {exact.name: exact.iceberg for exact in plan.columns}
    return {name.lower(): types[name] for name in plan.key if name in types}


def _refuse_other_keys(resolved: Resolved, types: Mapping[str, str]) -> None:
    """Refuse tenants whose key has other types than the others': joined with them it would be
    something else."""
    for place, plan in [*resolved.plans.items()]:
        for name, kind in _key_types(plan).items():
            wanted = types.get(name, kind)
            same = kind == wanted or is_promoted(kind, wanted) or is_promoted(wanted, kind)
            if not same:
                del resolved.plans[place]
                resolved.refused[place] = SchemaError(
                    f"table {plan.name}: key {name} is {kind}, and {wanted} in the other tenants",
                    table=plan.name,
                    column=name,
                    next_step="Give it their type, or make a group of tenants of its own",
                )
                break


def terms_of(plan: ResolvedTable) -> str:
    """A digest of all on which a tenant's copy depends, but its rows: the columns and how they are
    read, and the server's address."""
    source = plan.source
    inputs = [
        [repr(exact) for exact in plan.columns],
        plan.version.hash,
        plan.contract.verify,
        [source.host, source.port],
    ]
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()
