"""Preflight: what a migration would do to the mirror, before it runs. Nothing is touched.

The statements are applied to the tables as their servers describe them now, and the result is
resolved, compared and refused by the code of a sync: what it would say, this says.

What belongs here: which table has a contract's name before the migration and after it. What
doesn't: reading DDL (`mirrorlake.sources.mysql.ddl.parser`), what a server makes of it
(`mirrorlake.sources.mysql.ddl.altered`), what a statement says by itself
(`mirrorlake.preflight.statements`), and what follows from the table as it will be
(`mirrorlake.preflight.findings`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from pymysql.connections import Connection

from mirrorlake.config import TableContract, TenantTable
from mirrorlake.config.fields import nearest
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import DdlRefused, MirrorlakeError
from mirrorlake.operations.loading.resolve import refuse_changes, resolve_as, resolve_table
from mirrorlake.preflight.findings import (
    Finding,
    Preflight,
    Propose,
    Suggest,
    compare_tables,
    meaning_findings,
    rename_hint,
    stops_for_kept,
    taken_names,
    without_exchanges,
)
from mirrorlake.preflight.lines import called_in_lake, renames_of, with_lines
from mirrorlake.preflight.made_tables import TablesAfter
from mirrorlake.preflight.migration import Migration, TableAfter
from mirrorlake.preflight.models import ModelsAfter
from mirrorlake.preflight.new_tables import new_table_findings
from mirrorlake.preflight.rows import rows_findings
from mirrorlake.preflight.statements import (
    not_looked_at,
    outline,
    rebuilt_findings,
    statement_findings,
)
from mirrorlake.preflight.tenants import preflight_tenants
from mirrorlake.preflight.unmirrored import unmirrored_finding
from mirrorlake.sources.mysql.ddl.actions import Statement
from mirrorlake.sources.mysql.ddl.parser import parse_ddl
from mirrorlake.sources.mysql.ddl.surroundings import read_surroundings
from mirrorlake.sources.mysql.introspection.introspect import read_sizes, read_table
from mirrorlake.sources.mysql.introspection.lake_names import called
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.sources.mysql.tables import Column, SourceTable
from mirrorlake.table.columns.lake_names import stood_for
from mirrorlake.table.continuity import kept_words, meaning_of_plan
from mirrorlake.table.lake_tables import clean_of, deduped_of
from mirrorlake.table.meaning import changes_between, recorded_meaning, strongest, words_of
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace


def _nothing(_column: Column, _table: str) -> None:
    return None


def _nothing_proposed(_table: SourceTable) -> tuple[Finding, ...]:
    return ()


def preflight(
    workspace: Workspace,
    text: str,
    suggest: Suggest = _nothing,
    propose: Propose = _nothing_proposed,
    *,
    database: str | None = None,
    file: str | None = None,
) -> tuple[Preflight, ...]:
    """What a migration would do to the mirrors of the tables that it names, in their order.

    Args:
        text: DDL of MySQL or MariaDB, statements separated by semicolons.
        suggest: what a new column's name says.
        propose: what a contract of a new table would be.
        database: of the tables that the text names without one.
        file: where the text is from, to be shown.

    Raises:
        DdlRefused: a statement can't be read, or the server would refuse it, or names no database
            where several are mirrored.
        SourceError: a server could not be queried.
    """
    _refuse_unknown(workspace, database)
    migration = Migration()
    try:
        for statement in parse_ddl(text):
            migration.add(statement, database)
        found = [
            (replace(one, lines=tuple(s.line for s in statements), file=file), statements)
            for place, statements in migration.by_table.items()
            for one in _of_table(workspace, migration, place, statements, suggest, propose)
        ]
    except DdlRefused as error:
        raise error.in_file(file)  # noqa: B904  # it is the same error
    models = ModelsAfter(workspace, migration.after)
    contracts = {contract.name: contract for contract in workspace.config.tables}
    return tuple(
        models.extended(one, called_in_lake(statements, contracts.get(one.table)))
        for one, statements in found
    )


def _of_table(
    workspace: Workspace,
    migration: Migration,
    place: tuple[str | None, str],
    statements: Sequence[Statement],
    suggest: Suggest,
    propose: Propose,
) -> Iterator[Preflight]:
    """What the statements about one table do, by each contract of that name."""
    (of, name), words = place, tuple(s.words for s in statements)
    if not name:
        yield Preflight(NO_TABLE, words, tuple(map(not_looked_at, statements)))
        return
    contracts = _contracts(workspace, of, name, statements[0].line)
    if statements[0].kind == "create":  # beside one whose name has another case
        contracts = [contract for contract in contracts if contract.table == name]
    tenants = _tenants(workspace, of, name)
    for table in tenants:
        yield preflight_tenants(workspace, table, statements, suggest, migration.after)
    if not contracts and not tenants:
        whole = f"{of}.{name}" if of else name
        if any(s.kind == "create" for s in statements):
            config = workspace.config
            found = list(new_table_findings(config, migration, place, statements, propose))
        else:
            found = [unmirrored_finding(workspace.config, migration, place, statements)]
        yield Preflight(whole, words, tuple(with_lines(found, statements)))
    for contract in contracts:
        source = workspace.config.sources[contract.source]
        with session(source, contract.database) as connection:
            found = _look(workspace, contract, connection, migration, statements, suggest)
            yield replace(found, readers=_readers(contract))


def _readers(contract: TableContract) -> tuple[str, ...]:
    """What is read of a table's mirror."""
    return (
        f"{contract.versions} {Identifier(contract.namespaces.raw, contract.table)}",
        f"deduped {deduped_of(contract)}",
        f"clean {contract.clean} {clean_of(contract)}",
    )


NO_TABLE: Final = "(no table)"
"""Where statements stand that declare no column of a table."""


def _refuse_unknown(workspace: Workspace, database: str | None) -> None:
    known = {contract.database for contract in workspace.config.tables}
    if database is not None and any(t.has(database) for t in workspace.config.tenants):
        return
    if database is not None and database.lower() not in {name.lower() for name in known}:
        raise DdlRefused(
            f"no table of a database {database!r} is mirrored{nearest(database, sorted(known))}",
            next_step="Correct --database, or leave it out",
        )


def _contracts(
    workspace: Workspace, database: str | None, table: str, line: int
) -> list[TableContract]:
    """The contracts of a table, of whatever source: a migration runs on each of them.

    Raises:
        DdlRefused: it says no database, and several have a table of that name.
    """
    tables = workspace.config.tables
    named = [c for c in tables if c.table == table]
    named = named or [c for c in tables if c.table.lower() == table.lower()]
    if database is not None:
        return [c for c in named if c.database.lower() == database.lower()]
    if len({c.database for c in named}) > 1:
        raise DdlRefused(
            f"table {table!r}: {', '.join(sorted({c.database for c in named}))} all have one",
            table=table,
            next_step="Write the database before the table, or name it with --database",
        ).at(line)
    return named


def _tenants(workspace: Workspace, database: str | None, table: str) -> list[TenantTable]:
    """The tables of tenants that a statement may be about: it names one of their databases, which
    stands for all, or none."""
    return [
        one
        for one in workspace.config.tenants
        if one.table.lower() == table.lower() and (database is None or one.has(database))
    ]


def _look(
    workspace: Workspace,
    contract: TableContract,
    connection: Connection[Any],
    migration: Migration,
    statements: Sequence[Statement],
    suggest: Suggest,
) -> Preflight:
    table = read_table(connection, contract.database, contract.table)
    before, of_now = _resolve_before(workspace, contract, connection, table)
    found = _looked(
        workspace, contract, connection, migration, statements, suggest, (table, before, of_now)
    )
    named = called_in_lake(statements, contract)
    lined = with_lines((f for f in found.findings if f not in of_now), named)
    return replace(found, findings=(*of_now, *lined))


def _looked(
    workspace: Workspace,
    contract: TableContract,
    connection: Connection[Any],
    migration: Migration,
    statements: Sequence[Statement],
    suggest: Suggest,
    now_is: tuple[SourceTable, ResolvedTable | None, list[Finding]],
) -> Preflight:
    words = tuple(statement.words for statement in statements)
    table, before, findings = now_is
    tables = TablesAfter(connection, migration, table)
    after, of_statements = _after(contract, tables, statements)
    findings = findings + of_statements
    gone = _stopped_by(findings)
    renamed = renames_of(called_in_lake(statements, contract))
    in_mirror = TableAfter(contract, called(table, contract), called(after, contract))
    if gone:
        migration.after[contract.name] = replace(in_mirror, ends=True)
    if before is not None:
        ordered = migration.ordered
        findings += rows_findings(
            workspace, before, connection, ordered, outline(after) != outline(table)
        )
    around = read_surroundings(connection, contract.database, contract.table)
    alone = migration.successor(contract) is None
    if alone and workspace.ledger.newest_receipt(contract.name) is not None:
        findings += rebuilt_findings(contract, connection, table, after, around, statements)
    name = before.version.raw_table if before is not None else None
    if gone or (after == table and before is not None):
        # Columns may have each other's names and places.
        findings += [] if gone or before is None else taken_names(before, renamed, traceless=True)
        findings = findings or [Finding("ok", "nothing of its mirror changes")]
        return Preflight(contract.name, words, tuple(findings), name)
    size = read_sizes(connection, contract.database, contract.table)[0]

    def resolve(taken: SourceTable) -> tuple[ResolvedTable | None, list[Finding]]:
        return _resolve_after(workspace, contract, before, taken, renamed)

    now, stopped = resolve(after)
    if alone and _stopped_by(stopped):
        line = _line_of_stop(resolve, tables, statements)
        stopped = [replace(f, line=line) if f.severity == "breaks" else f for f in stopped]
    findings += stopped
    if now is not None and before is not None:
        now = without_exchanges(before, now, renamed)
    migration.after[contract.name] = replace(in_mirror, now=now, renamed=renamed)
    if now is None or before is None or _stopped_by(stopped):
        return Preflight(contract.name, words, tuple(findings), name)
    return compare_tables(workspace, before, now, words, findings, renamed, suggest, size)


def _line_of_stop(
    resolve: Callable[[SourceTable], tuple[ResolvedTable | None, list[Finding]]],
    tables: TablesAfter,
    statements: Sequence[Statement],
) -> int:
    """The line of the statement after which the table stops, whatever follows."""
    for number in range(len(statements) - 1, 0, -1):
        if not _stopped_by(resolve(tables.altered(tables.before, statements[:number]))[1]):
            return statements[number].line
    return statements[0].line


def _stopped_by(findings: Sequence[Finding]) -> bool:
    """Whether one of these stops the table."""
    return any(finding.severity == "breaks" for finding in findings)


def _resolve_before(
    workspace: Workspace, contract: TableContract, connection: Connection[Any], table: SourceTable
) -> tuple[ResolvedTable | None, list[Finding]]:
    """The contract resolved against MySQL as it is. One that is written for after the migration is
    taken as it was before, as far as its ``renamed_from`` says it."""
    try:
        before = resolve_table(workspace, contract, connection)
    except MirrorlakeError as error:
        why = f"as MySQL is now, it stops by this contract: {error.message}"
        step = "If the migration is what it waits for, roll out both together"
        finding = Finding("attention", why, step)
        try:
            return resolve_as(workspace, _as_before(workspace, contract, table), table), [finding]
        except MirrorlakeError:
            return None, [finding]
    recorded = recorded_meaning(workspace.ledger.newest_receipt(contract.name))
    changes = changes_between(recorded, meaning_of_plan(before)) if recorded is not None else ()
    kept = kept_words(contract)
    if strongest(changes) == "begin" and kept and recorded is not None and not recorded.copies:
        return before, [stops_for_kept(words_of(changes), kept, now=True)]
    return before, []


def _as_before(workspace: Workspace, contract: TableContract, table: SourceTable) -> TableContract:
    """A contract in which columns that MySQL has by an earlier name have that one."""
    there = {column.name.lower(): column.name for column in table.columns}
    sources = {now.lower(): before for before, now in contract.lake_names.items()}
    then = stood_for(workspace.ledger, contract)
    names: dict[str, str] = {}
    lake_names = dict(contract.lake_names)
    for name, earlier in contract.earlier_names.items():
        if sources.get(name, name).lower() in there:
            continue
        one = next((one for one in earlier if then.get(one, one) in there), None)
        if one is None:
            continue
        lake_names.pop(sources.get(name, name), None)
        names[name] = there.get(one, one)
        if one in then and then[one] != one:
            lake_names[there[then[one]]] = names[name] = one

    def then_of(name: str) -> str:
        return names.get(name.lower(), name)

    columns = {
        then_of(name): rule.model_copy(update={"renamed_from": ()})
        if name.lower() in names
        else rule
        for name, rule in contract.columns.items()
    }
    key = tuple(map(then_of, contract.key))
    cursor, created = (name and then_of(name) for name in (contract.cursor, contract.created))
    update = {"columns": columns, "key": key, "cursor": cursor, "created": created}
    return contract.model_copy(update={**update, "lake_names": lake_names})


def _after(
    contract: TableContract, tables: TablesAfter, statements: Sequence[Statement]
) -> tuple[SourceTable, list[Finding]]:
    """The table that has the contract's name after the migration, and what its statements say."""
    successor = tables.migration.successor(contract)
    why, taken = tables.why_unknown, successor is not None
    findings = list(statement_findings(contract, statements, taken=taken, why_unknown=why))
    after = tables.altered(tables.before, statements)
    if successor is None:
        return after, findings
    (name, others), line = successor, tables.migration.line_of_name(contract)
    found = tables.successor(name, others)
    if found is None:
        words = f"{name} takes its name; there is no such table yet, so its columns are not known"
        return tables.before, [*findings, Finding("attention", words, line=line)]
    words = f"table {name} takes its name: to the mirror it is this table, changed"
    step = "Rows that it lacks go with a check's sweep, or with the next full copy"
    findings.append(Finding("attention", words, step, line=line))
    return replace(found, name=contract.table), findings


def _resolve_after(
    workspace: Workspace,
    contract: TableContract,
    before: ResolvedTable | None,
    after: SourceTable,
    renamed: dict[str, str],
) -> tuple[ResolvedTable | None, list[Finding]]:
    """The contract resolved against the table as it will be; and what its next sync stops at."""
    now: ResolvedTable | None = None
    versions = workspace.ledger.schema_versions(contract.name)
    try:
        now = resolve_as(workspace, contract, after)
        if versions and now.version != versions[-1]:
            refuse_changes(workspace, now, versions[-1])
    except MirrorlakeError as error:
        step = rename_hint(contract, renamed, error.column) or error.next_step
        return now, [
            Finding("breaks", f"its next sync stops: {error.message}", step, column=error.column)
        ]
    return now, list(meaning_findings(before, now)) if before is not None else []
