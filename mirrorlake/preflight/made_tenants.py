"""A migration's CREATE TABLE in the databases of tenants: whether one that has the table joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pymysql.connections import Connection

from mirrorlake.config.contract import TenantTable
from mirrorlake.ledger import TenantPlace
from mirrorlake.operations.tenants.survey import TenantSurvey, key_types
from mirrorlake.preflight.findings import Finding
from mirrorlake.preflight.made_tables import TablesAfter
from mirrorlake.preflight.migration import Migration
from mirrorlake.sources.mysql.ddl.actions import Statement
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.sources.mysql.tables import SourceTable
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.table.tenants import resolve_tenants
from mirrorlake.workspace import Workspace

MadePlans: TypeAlias = Mapping[TenantPlace, ResolvedTable]


def made_shapes(
    workspace: Workspace,
    table: TenantTable,
    survey: TenantSurvey,
    statements: Sequence[Statement],
) -> tuple[MadePlans, list[Finding]]:
    """The shape of a tenant that the statements make, where it is none that is there, and what is
    to be said of it.

    Raises:
        DdlRefused: the server would refuse a statement.
        SourceError: the server could not be queried.
    """
    creates = [statement for statement in statements if statement.kind == "create"]
    joins = "a database that gets the table joins with the next sync"
    if not creates:
        return {}, []
    source, line = _source(table, survey), creates[0].line
    if source is None:
        return {}, [Finding("ok", f"{joins}; no source of it could be looked at", line=line)]
    database = creates[0].database or _database(survey, source)
    if database is None:
        words = f"{joins}; its columns were not looked at: name the database"
        return {}, [Finding("attention", words, line=line)]
    config = workspace.config.sources[source]
    with session(config) as connection:
        made = _made(connection, survey, (source, database), table.table, statements)
    if isinstance(made, str):
        words = f"{joins}; its columns were not looked at: {made}"
        return {}, [Finding("attention", words, "Compare them by hand", line=line)]
    versions = workspace.ledger.schema_versions(table.name)
    keys = key_types(workspace, table)
    resolved = resolve_tenants(table, config, {database: made}, keys, versions)
    place = (source, database)
    if (error := resolved.refused.get(place)) is not None:
        words = f"a database that gets the table is no tenant that can be kept: {error.message}"
        return {}, [Finding("breaks", words, error.next_step, line=line, column=error.column)]
    plan = resolved.plans[place]
    known = {version.hash for version in workspace.ledger.schema_versions(table.name)}
    if plan.version.hash in known:
        words = f"{joins}, in a shape that is there, {plan.version.raw_table}"
        return {}, [Finding("ok", words, line=line)]
    return {place: plan}, [
        Finding("ok", f"{joins}, in a new shape, {plan.version.raw_table}", line=line)
    ]


def _made(
    connection: Connection[Any],
    survey: TenantSurvey,
    place: TenantPlace,
    name: str,
    statements: Sequence[Statement],
) -> SourceTable | str:
    """The table as the statements make it, or why its columns are not known."""
    migration = Migration()
    for statement in statements:
        migration.add(replace(statement, database=place[1]), place[1])
    none = SourceTable(place[1], name, "", (), (), 0, ())
    there = survey.plans[place].table if place in survey.plans else none
    tables = TablesAfter(connection, migration, there)
    creates = [statement for statement in migration.ordered if statement.kind == "create"]
    if why := next(filter(None, map(tables.why_unknown, creates)), ""):
        return why
    # Of a database that lacks the table: whatever stands before is about the others.
    since = migration.ordered[migration.ordered.index(creates[0]) :]
    return tables.altered(none, since, there=False)


def _source(table: TenantTable, survey: TenantSurvey) -> str | None:
    return next((name for name in table.sources if name not in survey.lost), None)


def _database(survey: TenantSurvey, source: str) -> str | None:
    """A tenant of a source, which stands for all of them."""
    return next((database for name, database in survey.plans if name == source), None)
