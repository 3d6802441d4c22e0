"""Preflight of a table of tenants: what a migration would do to it, once it ran in every tenant.

The statements are applied to one tenant of each shape, as its server describes it now, and the
result is resolved and joined with the other shapes by the code of a sync. A database that the
statements name stands for all tenants.

What belongs here: findings about tenants. What doesn't: the rules of shapes
(`mirrorlake.merge.tenant_shapes`), and tables that one contract is about
(`mirrorlake.preflight.tables`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote

from mirrorlake.config.contract import TenantTable
from mirrorlake.destinations.iceberg.tables.schemas import can_hold, iceberg_type, stored_types
from mirrorlake.errors import DdlRefused, MirrorlakeError
from mirrorlake.ledger import TenantPlace
from mirrorlake.merge.tenant_shapes import held_names, read_shapes
from mirrorlake.operations.tenants.survey import key_types, survey_tenants
from mirrorlake.preflight.findings import ColumnFate, Finding, Preflight, Suggest, taken_names
from mirrorlake.preflight.lines import renames_of, with_lines
from mirrorlake.preflight.made_tenants import made_shapes
from mirrorlake.preflight.migration import TableAfter, TenantsAfter
from mirrorlake.preflight.statements import not_looked_at
from mirrorlake.schema.lattice import common_type
from mirrorlake.sources.mysql.ddl.actions import RenameTable, Statement
from mirrorlake.sources.mysql.ddl.altered import alter, around_after
from mirrorlake.sources.mysql.ddl.surroundings import read_surroundings
from mirrorlake.sources.mysql.introspection.introspect import read_table
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.sources.mysql.tables import SourceTable
from mirrorlake.table.columns.exchanged import may_be_renamed, rule_fields
from mirrorlake.table.lake_tables import clean_of, deduped_of
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.table.tenants import held_of, raw_of, raw_view_of, resolve_tenants
from mirrorlake.workspace import Workspace


@dataclass
class _Shape:
    """The tenants of one source that have one shape, before the migration and after it.

    Attributes:
        refused: why the server would refuse the statements there; None: it would not.
        stops: why they could not be kept afterwards; None: they can.
    """

    plan: ResolvedTable
    places: list[TenantPlace] = field(default_factory=list[TenantPlace])
    now: ResolvedTable | None = None
    refused: DdlRefused | None = None
    stops: MirrorlakeError | None = None

    @property
    def moves(self) -> bool:
        return self.now is not None and self.now.version != self.plan.version


def preflight_tenants(
    workspace: Workspace,
    table: TenantTable,
    statements: Sequence[Statement],
    suggest: Suggest,
    after: dict[str, TableAfter | TenantsAfter],
) -> Preflight:
    """What a migration would do to a table of tenants.

    Args:
        after: is given the table as it will be.

    Raises:
        DdlRefused: the server would refuse it in every tenant.
        LakeError: the lake could not be read.
    """
    survey = survey_tenants(workspace, table)
    shapes: dict[tuple[str, str], _Shape] = {}
    for place, plan in survey.plans.items():
        shapes.setdefault((plan.version.hash, place[0]), _Shape(plan)).places.append(place)
    ordered = sorted(shapes.values(), key=lambda shape: -len(shape.places))
    for shape in ordered:
        _apply(workspace, table, shape, statements)
    refused = [shape.refused for shape in ordered if shape.refused is not None]
    if refused and len(refused) == len(ordered):
        raise refused[0]
    found = [
        Finding("attention", f"source {name} was not looked at: {error.message}")
        for name, error in survey.lost.items()
    ]
    lined = [*_of_statements(table, statements), *_of_shapes(workspace, table, ordered)]
    moved = [shape for shape in ordered if shape.moves]
    made, of_made = made_shapes(workspace, table, survey, statements)
    lined += of_made
    moved += [_Shape(plan, [place], plan) for place, plan in made.items()]
    joined = _joined(workspace, table, moved) if moved else {}
    held = _held(workspace, table, moved, joined)
    lined += _of_columns(workspace, table, moved, joined, held, statements, suggest)
    after_it = _after(table, moved, joined, held)
    after[table.name] = after_it
    found += with_lines(lined or [Finding("ok", "nothing of its mirror changes")], statements)
    known = workspace.ledger.tenants(table.name)
    rows = sum(known[p].rows or 0 for s in moved for p in s.places if p in known)
    first = (moved or ordered or [None])[0]
    now = first.now if first is not None else None
    return Preflight(
        table.name,
        tuple(statement.words for statement in statements),
        tuple(found),
        first.plan.version.raw_table if first is not None else None,
        now.version.raw_table if now is not None else None,
        _fates(workspace, after_it, moved[0]) if moved else (),
        rows,
        layers=_layers(table, moved),
        readers=_readers(table),
    )


def _apply(
    workspace: Workspace, table: TenantTable, shape: _Shape, statements: Sequence[Statement]
) -> None:
    """Find what becomes of a shape: of its first tenant, as its server has it."""
    source, database = shape.places[0]
    config = workspace.config.sources[source]
    with session(config, database) as connection:
        there = read_table(connection, database, table.table)
        around = read_surroundings(connection, database, table.table)
    after: SourceTable = there
    for statement in statements:
        if statement.kind != "alter":
            continue
        try:
            after = alter(after, statement.actions, around)
        except DdlRefused as error:
            shape.refused = error.at(statement.line)
            return
        around = around_after(statement.actions, around)
    if after.name != there.name:
        return  # the tenant is gone then
    versions = workspace.ledger.schema_versions(table.name)
    keys = key_types(workspace, table)
    resolved = resolve_tenants(table, config, {database: after}, keys, versions)
    shape.now = resolved.plans.get((source, database))
    shape.stops = resolved.refused.get((source, database))


def _of_statements(table: TenantTable, statements: Sequence[Statement]) -> Iterator[Finding]:
    """What the statements say by themselves, of each tenant in which they run."""
    for number, statement in enumerate(statements):
        line = statement.line
        renamed = any(isinstance(action, RenameTable) for action in statement.actions)
        again = any(later.kind == "create" for later in statements[number:])
        if (statement.kind == "drop" or renamed) and not again:
            stay = "stay as they were" if table.dropped == "keep" else "leave deduped and clean"
            words = f"tenants in which it runs are gone then: their rows {stay} (`dropped`)"
            step = "Gone in most tenants of a server at once, none is removed until confirmed"
            yield Finding("breaks", words, step if table.dropped == "remove" else "", line=line)
        elif statement.kind in ("truncate", "drop") or renamed:
            words = "tenants in which it runs are empty then"
            if table.shrink_limit is None:
                yield Finding("attention", f"{words}, and so is their next copy", line=line)
                continue
            step = f"`mirrorlake sync {quote(table.name)} --tenant NAME --accept-smaller` takes one"
            words += ": each keeps its rows as they were until somebody confirms it"
            yield Finding("breaks", words, step, line=line)
        elif statement.kind == "other":
            yield not_looked_at(statement)


def _count(places: Sequence[TenantPlace]) -> str:
    return f"{len(places):,} tenant{'' if len(places) == 1 else 's'}"


def _of_shapes(
    workspace: Workspace, table: TenantTable, shapes: Sequence[_Shape]
) -> Iterator[Finding]:
    known = workspace.ledger.tenants(table.name)
    there = {version.hash for version in workspace.ledger.schema_versions(table.name)}
    for shape in shapes:
        name = f"{_count(shape.places)} of shape {shape.plan.version.raw_table}"
        name += f" on {shape.places[0][0]}" if len(table.sources) > 1 else ""
        if shape.refused is not None:
            why = shape.refused.message.partition(": ")[2]
            yield Finding("attention", f"{name}: {why}", line=shape.refused.line)
        elif shape.stops is not None:
            words = f"{name} stop, and keep their rows as they were: {shape.stops.message}"
            yield Finding("breaks", words, shape.stops.next_step, column=shape.stops.column)
        elif shape.now is not None and shape.moves:
            rows = sum(known[p].rows or 0 for p in shape.places if p in known)
            kind = "a shape that is there" if shape.now.version.hash in there else "a new shape"
            words = (
                f"{name} get {kind}, {shape.now.version.raw_table}: each is read again as a whole, "
                f"{rows:,} row{'' if rows == 1 else 's'} in all"
            )
            yield Finding("attention" if rows else "ok", words)


def _of_columns(
    workspace: Workspace,
    table: TenantTable,
    moved: Sequence[_Shape],
    joined: Mapping[str, str],
    out: Collection[str],
    statements: Sequence[Statement],
    suggest: Suggest,
) -> Iterator[Finding]:
    """What deduped's columns become, and what clean shows of them."""
    if not moved:
        return
    held = _deduped_types(workspace, table)
    retyped = {
        name: kind
        for name, kind in joined.items()
        if (was := held.get(name.lower())) and not can_hold(iceberg_type(was), iceberg_type(kind))
    }
    for name, kind in retyped.items():
        was = held[name.lower()]
        words = f"{name} is {kind} in deduped and clean then, for all tenants; it was {was}"
        step = "Queries that compare or compute with it may fail; all tenants are folded again"
        yield Finding("breaks", words, step, column=name)
    widened = [
        name
        for name, kind in joined.items()
        if name not in retyped and held.get(name.lower(), kind) != kind
    ]
    added = [name for name in joined if name.lower() not in held] if held else []
    if not retyped:
        changes = [f"{name} is added" for name in added]
        changes += [f"{name} becomes {joined[name]}" for name in widened]
        if changes:
            yield Finding("ok", f"deduped evolves in place: {'; '.join(changes)}")
    yield from _of_new(table, moved, added, out, statements, suggest)
    yield from _of_lacking(table, moved, renames_of(statements))
    for shape in moved[:1]:
        yield from taken_names(shape.plan, renames_of(statements))


def _joined(workspace: Workspace, table: TenantTable, moved: Sequence[_Shape]) -> dict[str, str]:
    """Column → its type over all shapes that the lake has, and those that come."""
    shapes = read_shapes(workspace, table)
    utc = all(workspace.config.sources[name].is_utc for name in table.sources)
    types: dict[str, tuple[str, list[str]]] = {}

    def add(column: str, kind: str) -> None:
        types.setdefault(column.lower(), (column, []))[1].append(kind)

    for hashed, names in shapes.names.items():
        there = stored_types(shapes.tables[hashed])
        for column, then in names.held.items():
            add(column, there[then].iceberg)
    for shape in moved:
        kinds = {exact.name: exact.iceberg for exact in (shape.now or shape.plan).columns}
        for column, then in held_names(table, kinds).items():
            add(column, kinds[then])
    return {name: common_type(kinds, utc=utc).type for name, kinds in types.values()}


def _of_new(
    table: TenantTable,
    moved: Sequence[_Shape],
    added: Sequence[str],
    out: Collection[str],
    statements: Sequence[Statement],
    suggest: Suggest,
) -> Iterator[Finding]:
    rules = {name.lower() for name in table.columns}
    came_from = {now.lower(): old for old, now in renames_of(statements).items()}
    by_name = {name.lower(): rule for name, rule in table.columns.items()}
    for name in added:
        if name.lower() in rules:
            yield Finding("ok", f"{name} is new, and the contract names it", column=name)
            continue
        old = by_name.get(came_from.get(name.lower(), ""))
        before = came_from.get(name.lower(), "")
        if old is not None and old.pci == "never":
            yield Finding(
                "breaks",
                f"{name} would be read: `pci: never` is said of {before} alone",
                f"In the same release, write `columns: {{{name}: {{pci: never, renamed_from: "
                f"{before}}}}}` in the contract",
                column=name,
            )
            continue
        column = next(
            (c for s in moved if s.now for c in s.now.table.columns if c.name == name), None
        )
        why = suggest(column, table.table) if column is not None else None
        looks = f" ({why})" if why else ""
        if name.lower() in out:
            words = f"{name} is new{looks}: in deduped, and held out of clean until it is named"
            step = f"Decide: `columns: {{{name}: {{pii: …}}}}`"
            yield Finding("attention" if why else "ok", words, step, column=name)
        else:
            words = f"{name} is new{looks}: clean shows it at once"
            step = "Give it a rule in the contract before the migration runs" if why else ""
            yield Finding("attention" if why else "ok", words, step, column=name)


def _of_lacking(
    table: TenantTable, moved: Sequence[_Shape], renamed: Mapping[str, str]
) -> Iterator[Finding]:
    """Columns that tenants had and lack then: they stay in deduped, and are NULL."""
    for name, places in _lacking(table, moved).items():
        now = renamed.get(name.lower())
        pii = (rule_fields(table, name) or {}).get("pii", "show")
        rule = f"columns: {{{now}: {{pii: {pii}, renamed_from: {name}}}}}"
        step = f"Its values go on as {now} with `{rule}`" if now else ""
        words = f"{name} is NULL in deduped and clean for {_count(places)}: the column stays"
        yield Finding("breaks", words, step, column=name)


def _held(
    workspace: Workspace, table: TenantTable, moved: Sequence[_Shape], joined: Iterable[str]
) -> set[str]:
    """The columns that clean leaves out then, as nobody decided on them, in lower case."""
    held = {name.lower() for name in held_of(workspace.ledger, table, joined)}
    for shape in moved:
        then, now = (
            [column.name for column in plan.table.columns]
            for plan in (shape.plan, shape.now or shape.plan)
        )
        held |= {other for _, other in may_be_renamed(table, then, now)}
    return held


def _lacking(table: TenantTable, moved: Sequence[_Shape]) -> dict[str, list[TenantPlace]]:
    """Columns that tenants had and lack then, and which tenants."""
    lacking: dict[str, list[TenantPlace]] = {}
    for shape in moved:
        before, after = (
            held_names(table, (exact.name for exact in plan.columns))
            for plan in (shape.plan, shape.now or shape.plan)
        )
        there = {name.lower() for name in after}
        for name in before:
            if name.lower() not in there:
                lacking.setdefault(name, []).extend(shape.places)
    return lacking


def _after(
    table: TenantTable, moved: Sequence[_Shape], joined: Mapping[str, str], held: Collection[str]
) -> TenantsAfter:
    lacking = {
        name.lower(): f"is NULL for {_count(places)} then"
        for name, places in _lacking(table, moved).items()
    }
    return TenantsAfter(table, joined, held, lacking)


def _deduped_types(workspace: Workspace, table: TenantTable) -> dict[str, str]:
    """The types of deduped's columns as they are, by name in lower case; none where it is not
    there."""
    lake = workspace.lake.load(deduped_of(table))
    fields = () if lake is None else lake.schema().fields
    return {field.name.lower(): str(field.field_type).replace(", ", ",") for field in fields}


def _fates(workspace: Workspace, after: TenantsAfter, shape: _Shape) -> tuple[ColumnFate, ...]:
    """The columns that change, of the tenants of a shape; in the lake, of all tenants."""
    assert shape.now is not None  # noqa: S101  # it moves
    was, types = dict(shape.plan.version.columns), dict(shape.now.version.columns)
    lake_was = _deduped_types(workspace, after.table)
    lake = {name.lower(): kind for name, kind in after.types.items()}
    rules = {name.lower(): rule for name, rule in after.table.columns.items()}

    def fate(name: str) -> ColumnFate:
        rule, lower = rules.get(name.lower()), name.lower()
        ruled = rule.pii if rule is not None and rule.pii != "show" else None
        clean = "held" if lower in after.held else ruled or "shown"
        return ColumnFate(
            name if name in was else None, name if name in types else None, was.get(name),
            types.get(name), lake_was.get(lower), lake.get(lower), clean,
        )  # fmt: skip

    return tuple(fate(name) for name in {**types, **was} if was.get(name) != types.get(name))


def _layers(table: TenantTable, moved: Sequence[_Shape]) -> tuple[str, ...]:
    if not moved:
        return ()
    raws = dict.fromkeys(raw_of(table, s.now.version.raw_table) for s in moved if s.now)
    return (*(f"raw {raw}" for raw in raws), *_readers(table))


def _readers(table: TenantTable) -> tuple[str, ...]:
    """What is read of a mirror of tenants."""
    return (
        f"view {raw_view_of(table)}",
        f"deduped {deduped_of(table)}",
        f"clean {table.clean} {clean_of(table)}",
    )
