"""What a migration does to one table's mirror, seen by the table before and after it.

What belongs here: the findings, and what the columns become. What doesn't: what the table is
afterwards (`mirrorlake.preflight.tables`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from mirrorlake.config import TableContract
from mirrorlake.destinations.iceberg.tables.schemas import can_hold, iceberg_type
from mirrorlake.merge.row_sql.conversions import convert
from mirrorlake.merge.row_sql.raw_versions import unified_types
from mirrorlake.merge.statements import clean_layer
from mirrorlake.operations.loading.resolve import changes_of
from mirrorlake.operations.planning.reader_impacts import ModelImpact
from mirrorlake.schema.lattice import StoredType
from mirrorlake.schema.versions import SchemaChanges
from mirrorlake.sources.mysql.tables import Column, SourceTable
from mirrorlake.table.columns.left_out import left_out_words
from mirrorlake.table.columns.new_columns import gone_words
from mirrorlake.table.continuity import kept_words, meaning_of_plan
from mirrorlake.table.ddl import definition_of, silent_changes
from mirrorlake.table.lake_tables import raw_tables
from mirrorlake.table.meaning import changes_between, strongest, words_of
from mirrorlake.table.resolve import ResolvedTable, names_not_in_bigquery, publish_step
from mirrorlake.workspace import Workspace

Severity: TypeAlias = Literal["ok", "attention", "breaks"]
_RANK: dict[Severity, int] = {"ok": 0, "attention": 1, "breaks": 2}
Suggest: TypeAlias = Callable[[Column, str], str | None]
"""What a column's name says of whom it is about, and why; None: nothing. The column, its table."""


Propose: TypeAlias = Callable[[SourceTable], "Sequence[Finding]"]
"""What `mirrorlake init` would make of a table that is not there yet."""


@dataclass(frozen=True)
class Finding:
    """One thing that a migration does to a table's mirror.

    Attributes:
        severity: ``ok``: the mirror follows by itself; ``attention``: it follows, at a cost or
            with a question for a person; ``breaks``: the table stops, or its readers lose a column
            or meet another kind of type.
        line: of the statement that it is about, from 1; None: it is about no statement.
        column: which it is about; None: it is about the table.
    """

    severity: Severity
    words: str
    next_step: str = ""
    line: int | None = None
    column: str | None = None


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
        readers: what is read of this mirror: its view over raw, deduped and clean; empty of a table
            that is not mirrored.
        checks: Dagster's asset checks that warn between the migration and the next sync.
        lines: where in the migration's text each statement begins, from 1.
        file: the migration's; None: it is not from a file.
        models: what becomes of the models that read it, through others or themselves.
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
    readers: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()
    file: str | None = None
    models: tuple[ModelImpact, ...] = ()

    @property
    def severity(self) -> Severity:
        """The worst of its findings."""
        worst: Severity = "ok"
        for finding in self.findings:
            worst = finding.severity if _RANK[finding.severity] > _RANK[worst] else worst
        return worst


def compare_tables(
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
        rows = now.table.estimated_rows if versions else 0
        found.append(_new_version(now, changes, rows))
    fates = _fates(before, now, changes)
    tables = raw_tables(workspace.lake, workspace.ledger, contract)
    taken = list(taken_names(before, renamed))
    found += taken
    found += _exchanged(now, {f.column for f in taken if f.severity == "breaks"})
    found += _of_clean(before, now, changes, renamed, suggest, unified_types(now, tables))
    found += _silent(before, now, moved=moved)
    found += [
        Finding(
            "breaks", f"{one.words}: publishing stops", publish_step(one), column=one.column or None
        )
        for one in names_not_in_bigquery(now)
        if one not in names_not_in_bigquery(before)
    ]
    layers = _layers(before, now, moved=moved)
    found += [
        Finding("ok", left_out_words([name]), "Name it under `columns` to take it up", column=name)
        for name in now.left_out
        if name not in before.left_out
    ]
    found += [
        Finding("attention", gone_words([name]), column=name)
        for name in now.gone
        if name not in before.gone
    ]
    found = found or [Finding("ok", "nothing of its mirror changes")]
    return Preflight(
        contract.name, words, tuple(found), before.version.raw_table, now.version.raw_table,
        fates, rows, size if rows else 0, layers, checks=("contract",) if moved else (),
    )  # fmt: skip


def _new_version(now: ResolvedTable, changes: SchemaChanges, rows: int) -> Finding:
    cost = f"; about {rows:,} rows are compared or read again" if rows else ""
    return Finding(
        "attention" if rows else "ok",
        f"a new version, {now.version.raw_table}: {changes.said}{cost}",
    )


def rename_hint(contract: TableContract, renamed: dict[str, str], column: str | None) -> str | None:
    """What to write for a column that a contract names, and that gets another name."""
    now = renamed.get((column or "").lower())
    if column is None or now is None or now.lower() == column.lower():
        return None
    now = _in_file(contract, now)
    rule = contract.columns.get(column)
    if rule and rule.pci:
        # It is in no layer: there are no values to bring along, and its name is all that protects.
        return f"In the same release, write `columns: {{{now}: {{pci: never}}}}` in the contract"
    written = f"pii: {rule.pii}" if rule and rule.pii else "pii: …"
    return (
        f"In the same release, name it {now} in the contract, with `columns: {{{now}: {{{written}, "
        f"renamed_from: {column}}}}}`"
    )


def _in_file(contract: TableContract, column: str) -> str:
    """What a column of the lake is called under ``columns``: as in MySQL."""
    return {now: before for before, now in contract.lake_names.items()}.get(column, column)


def stops_for_kept(changes: str, kept: str, *, now: bool) -> Finding:
    when = "as MySQL is now, it stops" if now else "its next sync stops"
    return Finding(
        "attention" if now else "breaks",
        f"{when}: {changes}: a new history would have to begin, and rows that only the mirror "
        f"holds ({kept}) would not be in it",
        "Mirror the table under other namespaces, where a new history begins and the old one stays",
    )


def meaning_findings(before: ResolvedTable, now: ResolvedTable) -> Iterator[Finding]:
    parts = [meaning_of_plan(plan) for plan in (before, now)]
    changes = changes_between(*parts)
    effect = strongest(changes)
    kept = kept_words(now.contract)
    if effect == "begin" and kept and not before.contract.copies:
        yield stops_for_kept(words_of(changes), kept, now=False)
    elif effect != "none":
        history = "; a new history begins" if effect == "begin" else ""
        yield Finding("attention", f"{words_of(changes)}: the whole table is read again{history}")


def _silent(before: ResolvedTable, now: ResolvedTable, *, moved: bool) -> Iterator[Finding]:
    if now.contract.copies:
        return
    then, later = (
        definition_of(plan.table, {exact.name for exact in plan.columns}) for plan in (before, now)
    )
    added = {f"column {name} was added" for name in changes_of(now, before.version).added}
    changes = [w for w in silent_changes(then, later, now.name_in) if w not in added]
    if changes:
        again = "" if moved else ": it is unproved until all of it was read again"
        yield Finding("attention", "; ".join(changes) + again)


def taken_names(
    before: ResolvedTable, renamed: Mapping[str, str], *, traceless: bool = False
) -> Iterator[Finding]:
    """Columns that get a name which another one has: contracts go by names, and so does what the
    mirror holds.

    Args:
        traceless: whether the table's columns look afterwards as they did before.
    """
    effect = "leaves both out until a person decides"
    if traceless:
        effect = "no sync can tell, as the columns look as they did"
    contract = before.contract
    there = {column.name.lower(): column.name for column in before.table.columns}
    for old, now in renamed.items():
        said = old in contract.earlier_names.get(now.lower(), ())
        if old == now.lower() or now.lower() not in there or said:
            continue
        name = there.get(old, old)
        words = f"{now} gets the values that {name} had"
        if contract.column_rule(name) != contract.column_rule(now):
            yield Finding(
                "breaks",
                f"{words}, and the contract's rule for {now} is another: clean goes by the name, "
                f"and {effect}",
                "In the same release, give both names the rules of the values that they get",
                column=now,
            )
        elif not contract.copies:
            yield Finding(
                "attention",
                f"{words}; rows that only the mirror holds keep theirs by name",
                column=now,
            )


def without_exchanges(
    before: ResolvedTable, now: ResolvedTable, renamed: Mapping[str, str]
) -> ResolvedTable:
    """A table after a migration whose statements say what is renamed: a column that they only move,
    or that stands where a dropped one stood, is what it was, and clean keeps it."""
    taken = {new.lower() for new in renamed.values()}
    pairs = tuple(pair for pair in now.exchanged if pair[1] in taken)
    doubted = {name for pair in now.exchanged for name in pair}
    stay = {name for pair in pairs for name in pair} | {name.lower() for name in before.held}
    held = tuple(n for n in now.held if n.lower() not in doubted or n.lower() in stay)
    return replace(now, held=held, exchanged=pairs)


def _exchanged(now: ResolvedTable, named: Collection[str | None]) -> Iterator[Finding]:
    """Columns that get what a hidden one had, where another finding does not say so."""
    for hidden, other in now.exchanged:
        name = now.table.column(other).name
        if name not in named:
            yield Finding(
                "breaks",
                f"{name} may have what {hidden} had, to which another rule applies: clean leaves "
                "both out until a person decides",
                "In the same release, give each the rule of the values that it gets",
                column=name,
            )


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
            words = f"clean shows {name} as {became}: queries that name it fail"
            yield Finding("breaks", words, column=name)
        elif name not in shown:
            hint = renamed.get(name.lower())
            step = "raw keeps what was loaded of it"
            if hint:
                ruled = now.contract.columns.get(name)
                pii = ruled.pii if ruled and ruled.pii else "show"
                hint = _in_file(now.contract, hint)
                rule = f"{{{hint}: {{pii: {pii}, renamed_from: {name}}}}}"
                step = f"Its values go on as {hint} with `columns: {rule}`"
            words = f"clean loses {name}: queries that name it fail"
            yield Finding("breaks", words, step, column=name)
        elif shown[name] != kind:
            yield _retyped(now, name, kind, unified[name].iceberg)
    for name in changes.added:
        yield _new_column(now, name, suggest)


def _retyped(now: ResolvedTable, name: str, before: str, unified: str) -> Finding:
    type_now = next(kind for of, kind, _ in clean_layer(now).columns if of == name)
    words = f"clean's {name} becomes {type_now}; it was {before}"
    if can_hold(iceberg_type(before), iceberg_type(type_now)):
        return Finding("attention", words, column=name)
    step = f"The view over raw shows {name} of all versions as {unified}"
    lost = convert("x", StoredType(before), StoredType(type_now), utc=now.source.is_utc).original
    if lost is not None and not now.contract.copies:
        step += (
            f". In a row that only the mirror holds, a value that {type_now} has no place for is "
            "NULL, and its text is kept"
        )
    words += ": queries that compare or compute with it may fail"
    return Finding("breaks", words, step, column=name)


def _new_column(now: ResolvedTable, name: str, suggest: Suggest) -> Finding:
    why = suggest(now.table.column(name), now.contract.table)
    looks = f" ({why})" if why else ""
    rules = now.contract.columns
    if any(spelled.lower() == name.lower() for spelled in rules):
        return Finding("ok", f"{name} is new, and the contract names it", column=name)
    if name in now.held:
        return Finding(
            "attention" if why else "ok",
            f"{name} is new{looks}: in deduped, and held out of clean until the contract names it",
            f"Decide: `columns: {{{name}: {{pii: …}}}}`",
            column=name,
        )
    return Finding(
        "attention" if why else "ok", f"{name} is new{looks}: clean shows it at once",
        "Give it a rule in the contract before the migration runs" if why else "", column=name,
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
    found = [f"raw {now.raw} (new)", f"{now.contract.versions} {now.raw_view}"] if moved else []
    if [(e.name, e.iceberg) for e in before.columns] != [(e.name, e.iceberg) for e in now.columns]:
        found.append(f"deduped {now.deduped}")
    if clean_layer(before) != clean_layer(now):
        found.append(f"clean {now.contract.clean} {now.clean}")
    return tuple(found)
