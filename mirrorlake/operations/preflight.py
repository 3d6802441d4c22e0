"""Preflight: what a migration would do to the mirror, before it runs. Nothing is touched.

The statements are applied to the tables as their servers describe them now, and the result is
resolved, compared and refused by the code of a sync: what it would say, this says.

What belongs here: the findings. What doesn't: reading DDL (`mirrorlake.sources.mysql.ddl_parser`),
and what a server makes of it (`mirrorlake.sources.mysql.altered`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pymysql.connections import Connection

from mirrorlake.config import TableContract
from mirrorlake.destinations.iceberg.tables import can_hold, iceberg_type
from mirrorlake.errors import DdlRefused, MirrorlakeError
from mirrorlake.merge.raw_versions import unified_types
from mirrorlake.merge.statements import clean_layer
from mirrorlake.operations.resolve import changes_of, refuse_changes, resolve_as, resolve_table
from mirrorlake.schema.lattice import StoredType
from mirrorlake.schema.versions import SchemaChanges
from mirrorlake.sources.mysql.altered import alter
from mirrorlake.sources.mysql.connect import session
from mirrorlake.sources.mysql.ddl import ChangeColumn, RenameColumn, RenameTable, Statement
from mirrorlake.sources.mysql.ddl_parser import parse_ddl
from mirrorlake.sources.mysql.introspect import read_sizes, read_surroundings, read_table
from mirrorlake.sources.mysql.tables import Column, SourceTable
from mirrorlake.table.continuity import meaning_of_plan
from mirrorlake.table.ddl import definition_of, silent_changes
from mirrorlake.table.lake_tables import raw_tables
from mirrorlake.table.meaning import changes_between, strongest, words_of
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

Severity: TypeAlias = Literal["ok", "attention", "breaks"]
_RANK: dict[Severity, int] = {"ok": 0, "attention": 1, "breaks": 2}
Suggest: TypeAlias = Callable[[Column, str], str | None]
"""What a column's name says of whom it is about, and why; None: nothing. The column, its table."""


@dataclass(frozen=True)
class Finding:
    """One thing that a migration does to a table's mirror.

    Attributes:
        severity: ``ok``: the mirror follows by itself; ``attention``: it follows, at a cost or
            with a question for a person; ``breaks``: the table stops, or its readers lose a column
            or meet another kind of type.
    """

    severity: Severity
    words: str
    next_step: str = ""


@dataclass(frozen=True)
class ColumnFate:
    """One column before and after, in MySQL's words and the lake's; None: it is not there.

    Attributes:
        clean: what clean shows of it afterwards: ``shown``, a rule, ``held`` or ``gone``.
    """

    before: str | None
    now: str | None
    type_before: str | None
    type_now: str | None
    lake_before: str | None
    lake_now: str | None
    clean: str


@dataclass(frozen=True)
class Preflight:
    """What a migration does to one table's mirror.

    Attributes:
        table: ``source.database.table``; of a table without a contract as it is written.
        version_before, version_now: the raw tables (``customer_v_<hash>``); None: no table.
        columns: those that change.
        rows, bytes: about what the server holds, where all of it is to be read again; else 0.
        layers: the lake's tables and views that change.
    """

    table: str
    statements: tuple[str, ...]
    findings: tuple[Finding, ...]
    version_before: str | None = None
    version_now: str | None = None
    columns: tuple[ColumnFate, ...] = ()
    rows: int = 0
    bytes: int = 0
    layers: tuple[str, ...] = ()

    @property
    def severity(self) -> Severity:
        """The worst of its findings."""
        worst: Severity = "ok"
        for finding in self.findings:
            worst = finding.severity if _RANK[finding.severity] > _RANK[worst] else worst
        return worst


def _nothing(_column: Column, _table: str) -> None:
    return None


def preflight(
    workspace: Workspace, text: str, suggest: Suggest = _nothing, *, database: str | None = None
) -> tuple[Preflight, ...]:
    """What a migration would do to the mirrors of the tables that it names, in their order.

    Args:
        text: DDL of MySQL or MariaDB, statements separated by semicolons.
        suggest: what a new column's name says.
        database: of the tables that the text names without one.

    Raises:
        DdlRefused: a statement can't be read, or the server would refuse it, or names no database
            where several are mirrored.
        SourceError: a server could not be queried.
    """
    by_table: dict[tuple[str | None, str], list[Statement]] = {}
    for statement in parse_ddl(text):
        by_table.setdefault((statement.database or database, statement.table), []).append(statement)
    found: list[Preflight] = []
    for (of, name), statements in by_table.items():
        contracts = _contracts(workspace, of, name)
        words = tuple(s.words for s in statements)
        if not contracts:
            whole = f"{of}.{name}" if of else name
            found.append(Preflight(whole, words, (_unmirrored(statements),)))
        for contract in contracts:
            source = workspace.config.sources[contract.source]
            with session(source, contract.database) as connection:
                found.append(_look(workspace, contract, connection, statements, suggest))
    return tuple(found)


def _contracts(workspace: Workspace, database: str | None, table: str) -> list[TableContract]:
    """The contracts of a table, of whatever source: a migration runs on each of them.

    Raises:
        DdlRefused: it says no database, and several have a table of that name.
    """
    tables = workspace.config.tables
    named = [c for c in tables if c.table == table]
    named = named or [c for c in tables if c.table.casefold() == table.casefold()]
    if database is not None:
        return [c for c in named if c.database.casefold() == database.casefold()]
    if len({c.database for c in named}) > 1:
        raise DdlRefused(
            f"table {table!r}: {', '.join(sorted({c.database for c in named}))} all have one",
            table=table,
            next_step="Write the database before the table, or name it with --database",
        )
    return named


def _unmirrored(statements: Sequence[Statement]) -> Finding:
    if any(s.kind == "create" for s in statements):
        return Finding(
            "ok", "a new table: it is not mirrored", "`mirrorlake init` proposes its contract"
        )
    return Finding("ok", "it has no contract: it is not mirrored")


def _look(
    workspace: Workspace,
    contract: TableContract,
    connection: Connection[Any],
    statements: Sequence[Statement],
    suggest: Suggest,
) -> Preflight:
    words = tuple(statement.words for statement in statements)
    before: ResolvedTable | None = None
    findings: list[Finding] = []
    try:
        before = resolve_table(workspace, contract, connection)
    except MirrorlakeError as error:
        why = f"as MySQL is now, it stops by this contract: {error.message}"
        step = "If the migration is what it waits for, roll out both together"
        findings.append(Finding("attention", why, step))
    table = read_table(connection, contract.database, contract.table)
    around = read_surroundings(connection, contract.database, contract.table)
    after = table
    for statement in statements:
        findings += _of_statement(contract, statement)
        if statement.kind == "alter":
            after = alter(after, statement.actions, around)
    gone = any(f.severity == "breaks" for f in findings)
    name = before.version.raw_table if before is not None else None
    if gone or (after == table and before is not None):
        findings = findings or [Finding("ok", "nothing of it is mirrored: no column changes")]
        return Preflight(contract.name, words, tuple(findings), name)
    size = read_sizes(connection, contract.database, contract.table)[0]
    renamed = _renames(statements)
    now, stopped = _resolve_after(workspace, contract, before, after, renamed)
    findings += stopped
    if now is None or before is None:
        return Preflight(
            contract.name, words, tuple(findings), name, now.version.raw_table if now else None
        )
    return _compare(workspace, before, now, words, findings, renamed, suggest, size)


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
        step = _hint(contract, renamed, error.column) or error.next_step
        return now, [Finding("breaks", f"its next sync stops: {error.message}", step)]
    return now, list(_of_meaning(before, now)) if before is not None else []


def _of_statement(contract: TableContract, statement: Statement) -> Iterator[Finding]:
    if statement.kind == "drop":
        yield Finding(
            "breaks",
            "the table goes: its next sync fails, the lake keeps what it has",
            "Take its contract out of the file once it is gone",
        )
    elif statement.kind == "truncate":
        taken = contract.copies and contract.shrink_limit is None
        step = "" if taken else f"`mirrorlake sync {contract.table} --accept-smaller` takes it"
        how = "so does its next copy" if taken else "its next load waits for a person to confirm it"
        yield Finding("attention", f"all rows go: {how}", step)
    elif statement.kind in ("other", "create"):
        yield Finding(
            "attention",
            f"not looked at: {statement.words}",
            "Rows that a statement changes are seen if the cursor moves with them",
        )
    for action in statement.actions:
        if isinstance(action, RenameTable):
            yield Finding(
                "breaks",
                f"the table becomes {action.name}: its next sync finds no table of its name",
                f"Write a contract for {action.name}: it is mirrored as a new table",
            )


def _compare(
    workspace: Workspace,
    before: ResolvedTable,
    now: ResolvedTable,
    words: tuple[str, ...],
    findings: Sequence[Finding],
    renamed: dict[str, str],
    suggest: Suggest,
    size: int,
) -> Preflight:
    contract, found = before.contract, list(findings)
    versions = workspace.ledger.schema_versions(contract.name)
    stops = any(f.severity == "breaks" for f in found)
    changes = changes_of(now, before.version)
    moved = now.version != before.version
    rows = 0
    if moved and not stops:
        rows = before.table.estimated_rows if versions else 0
        found.append(_new_version(now, changes, rows))
    fates = _fates(before, now, changes)
    tables = raw_tables(workspace.lake, workspace.ledger, contract)
    found += _of_clean(before, now, changes, renamed, suggest, unified_types(now, tables))
    found += _silent(before, now, moved=moved)
    layers = _layers(before, now, moved=moved)
    found = found or [Finding("ok", "nothing of its mirror changes")]
    return Preflight(
        contract.name, words, tuple(found), before.version.raw_table, now.version.raw_table,
        fates, rows, size if rows else 0, layers,
    )  # fmt: skip


def _new_version(now: ResolvedTable, changes: SchemaChanges, rows: int) -> Finding:
    cost = f"; about {rows:,} rows are read again" if rows else ""
    return Finding(
        "attention" if rows else "ok",
        f"a new version, {now.version.raw_table}: {changes.said}{cost}",
    )


def _renames(statements: Sequence[Statement]) -> dict[str, str]:
    """Column (case-folded) → its name now, as the statements themselves say it."""
    found: dict[str, str] = {}
    for statement in statements:
        for action in statement.actions:
            if isinstance(action, RenameColumn):
                found[action.name.casefold()] = action.now
            elif isinstance(action, ChangeColumn) and action.name != action.column.name:
                found[action.name.casefold()] = action.column.name
    return found


def _hint(contract: TableContract, renamed: dict[str, str], column: str | None) -> str | None:
    """What to write for a column that a contract names, and that gets another name."""
    now = renamed.get((column or "").casefold())
    if column is None or now is None:
        return None
    rule = contract.columns.get(column)
    written = f"pii: {rule.pii}" if rule and rule.pii else "pii: …"
    return (
        f"In the same release, name it {now} in the contract, with `columns: {{{now}: {{{written}, "
        f"renamed_from: {column}}}}}`"
    )


def _of_meaning(before: ResolvedTable, now: ResolvedTable) -> Iterator[Finding]:
    parts = [meaning_of_plan(plan) for plan in (before, now)]
    changes = changes_between(*parts)
    effect = strongest(changes)
    if effect != "none":
        history = "; a new history begins" if effect == "begin" else ""
        yield Finding("attention", f"{words_of(changes)}: the whole table is read again{history}")


def _silent(before: ResolvedTable, now: ResolvedTable, *, moved: bool) -> Iterator[Finding]:
    if now.contract.copies:
        return
    then, later = (
        definition_of(plan.table, {exact.name for exact in plan.columns}) for plan in (before, now)
    )
    added = {f"column {name} was added" for name in changes_of(now, before.version).added}
    changes = [words for words in silent_changes(then, later) if words not in added]
    if changes:
        again = "" if moved else ": it is unproved until all of it was read again"
        yield Finding("attention", "; ".join(changes) + again)


def _of_clean(
    before: ResolvedTable,
    now: ResolvedTable,
    changes: SchemaChanges,
    renamed: dict[str, str],
    suggest: Suggest,
    unified: Mapping[str, StoredType],
) -> Iterator[Finding]:
    """What readers of clean see, and what a person is to decide.

    Args:
        unified: columns → their types where all versions are read together.
    """
    types = {name: kind for name, kind, _ in clean_layer(before).columns}
    shown = {name: kind for name, kind, _ in clean_layer(now).columns}
    for name, kind in types.items():
        became = dict(changes.renamed).get(name)
        if name not in shown and became:
            yield Finding("breaks", f"clean shows {name} as {became}: queries that name it fail")
        elif name not in shown:
            hint = renamed.get(name.casefold())
            step = "raw keeps what was loaded of it"
            if hint:
                rule = f"{{{hint}: {{pii: show, renamed_from: {name}}}}}"
                step = f"Its values go on as {hint} with `columns: {rule}`"
            yield Finding("breaks", f"clean loses {name}: queries that name it fail", step)
        elif shown[name] != kind:
            yield _retyped(name, kind, shown[name], unified[name].iceberg)
    for name in changes.added:
        yield _new_column(now, name, suggest)


def _retyped(name: str, before: str, now: str, unified: str) -> Finding:
    words = f"clean's {name} becomes {now}; it was {before}"
    if can_hold(iceberg_type(before), iceberg_type(now)):
        return Finding("attention", words)
    return Finding(
        "breaks",
        f"{words}: queries that compare or compute with it may fail",
        f"The view over raw shows {name} of all versions as {unified}. In a row that only the "
        f"mirror holds, a value that {now} has no place for is NULL, and its text is kept",
    )


def _new_column(now: ResolvedTable, name: str, suggest: Suggest) -> Finding:
    why = suggest(now.table.column(name), now.contract.table)
    looks = f" ({why})" if why else ""
    rules = now.contract.columns
    if any(spelled.casefold() == name.casefold() for spelled in rules):
        return Finding("ok", f"{name} is new, and the contract names it")
    if name in now.held:
        return Finding(
            "attention" if why else "ok",
            f"{name} is new{looks}: in deduped, and held out of clean until the contract names it",
            f"Decide: `columns: {{{name}: {{pii: …}}}}`",
        )
    return Finding(
        "attention" if why else "ok", f"{name} is new{looks}: clean shows it at once",
        "Give it a rule in the contract before the migration runs" if why else "",
    )  # fmt: skip


def _fates(
    before: ResolvedTable, now: ResolvedTable, changes: SchemaChanges
) -> tuple[ColumnFate, ...]:
    was, types = dict(before.version.columns), dict(now.version.columns)
    lake_was = {e.name: e.iceberg for e in before.columns}
    lake = {e.name: e.iceberg for e in now.columns}
    renamed = dict(changes.renamed)
    names_now = {new: old for old, new in renamed.items()}

    def fate(old: str | None, new: str | None) -> ColumnFate:
        rule = now.clean_rules.get(new or "", "shown")
        clean = "gone" if new is None else "held" if new in now.held else rule
        return ColumnFate(
            old, new, was.get(old or ""), types.get(new or ""),
            lake_was.get(old or ""), lake.get(new or ""), clean,
        )  # fmt: skip

    changed = {*changes.added, *names_now, *(name for name, _, _ in changes.retyped)}
    kept = [name for name in types if name in changed]
    found = [fate(None if n in changes.added else names_now.get(n, n), n) for n in kept]
    return (*found, *(fate(name, None) for name in changes.dropped))


def _layers(before: ResolvedTable, now: ResolvedTable, *, moved: bool) -> tuple[str, ...]:
    found = [f"raw {now.raw} (new)", f"view {now.raw_view}"] if moved else []
    if [(e.name, e.iceberg) for e in before.columns] != [(e.name, e.iceberg) for e in now.columns]:
        found.append(f"deduped {now.deduped}")
    if clean_layer(before) != clean_layer(now):
        found.append(f"clean {now.contract.clean} {now.clean}")
    return tuple(found)
