"""What is wrong between the fields of one table's contract."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from mirrorlake.config.modes import MODES
from mirrorlake.schema.reserved_names import keeper_of

if TYPE_CHECKING:
    from mirrorlake.config.sections.contract_file import TableSection
    from mirrorlake.config.sections.tenants import TenantTableSection


def mode_findings(table: TableSection) -> Iterable[tuple[str, str]]:
    """What the mode of a table needs or refuses: field and message."""
    mode = MODES[table.mode]
    if mode.rereads and not table.key:
        yield (
            "key",
            "mode incremental needs the columns of a unique key, like [id]; or use mode: full",
        )
    if mode.landed:
        yield from _snapshot_findings(table)
        return
    if table.snapshot is not None:
        yield "snapshot", f"mode {table.mode} reads a server: remove snapshot or change the mode"
    if mode.copies:
        yield from _copy_findings(table)
    if mode.by_log:
        yield from _log_findings(table)
    if mode.by_windows and table.cursor is None:
        yield "cursor", f"mode {table.mode} needs the column that moves when a row does"


def _copy_findings(table: TableSection) -> Iterable[tuple[str, str]]:
    if table.cursor is not None:
        yield "cursor", "mode full reads the whole table: remove the cursor or change the mode"
    if table.every is not None:
        yield "every", "mode full is copied by the daily schedule: remove every"
    if table.partition == "hour":
        yield "partition", "mode full keeps one copy a day: choose day or month"
    for field in ("overlap", "overlap_keys", "entity"):
        if getattr(table, field) is not None:
            yield field, f"mode full reads the whole table: remove {field}"


def _log_findings(table: TableSection) -> Iterable[tuple[str, str]]:
    windows = ("cursor", "created", "entity", "start", "overlap", "overlap_keys", "settle")
    for field in windows:
        if field in table.model_fields_set:
            yield field, f"mode binlog reads the server's log, and no window: remove {field}"


def _snapshot_findings(table: TableSection) -> Iterable[tuple[str, str]]:
    if not table.key:
        yield "key", "mode snapshot needs the columns of a unique key, like [id]"
    windows = ("cursor", "created", "entity", "start", "overlap", "overlap_keys", "settle")
    for field in (*windows, "every", "partition", "partitions_from", "schema_changes"):
        if field in table.model_fields_set:
            yield field, f"mode snapshot reads what lands, and no window: remove {field}"
    if "versions" in table.model_fields_set:
        yield "versions", "mode snapshot has no raw rows to show: remove versions"
    for name, rule in table.columns.items():
        if rule.json_as == "structure":
            yield "columns", f"mode snapshot has no raw rows to show: remove json_as of {name!r}"


def delete_findings(table: TableSection) -> Iterable[tuple[str, str]]:
    """What `deletes` needs or refuses."""
    mode = MODES[table.mode]
    if table.deletes is not None and not (mode.by_windows or mode.by_log):
        yield "deletes", f"mode {table.mode} copies what MySQL holds: remove deletes"
    elif table.deletes == "flag" and not table.key:
        yield (
            "deletes",
            "without a key nothing shows that a row is gone: name a key, or remove deletes",
        )
    elif table.deletes == "ignore" and mode.by_log and not table.key:
        yield (
            "deletes",
            "without a key an update takes a row away and adds one: name a key, or remove deletes",
        )


def _rename_findings(table: TableSection) -> Iterable[tuple[str, str]]:
    """A name that a column had before is no column's now, and was one column's alone."""
    names = lake_names(table)
    roles = [*table.key, *table.columns, *(n for n in (table.cursor, table.created) if n)]
    said = {names.get(name.lower(), name).lower() for name in roles}
    for name, rule in table.columns.items():
        if rule.renamed_from and MODES[table.mode].landed:
            yield "columns", f"mode snapshot reads what lands: remove renamed_from of {name!r}"
    yield from _hint_findings(table, dict.fromkeys(table.columns, said))


def lake_names(table: TableSection) -> dict[str, str]:
    """MySQL's name of a column, in lower case → the lake's, where the contract gives it another."""
    return {
        name.lower(): rule.name_in_lake
        for name, rule in table.columns.items()
        if rule.name_in_lake is not None
    }


def _lake_name_findings(table: TableSection) -> Iterable[tuple[str, str]]:
    """A name in the lake is one that a column can have there, and no other column's."""
    names = lake_names(table)
    if names and MODES[table.mode].landed:
        first = next(iter(names))
        yield "columns", f"mode snapshot reads what lands: remove name_in_lake of {first!r}"
        return
    roles = [*table.key, *(n for n in (table.cursor, table.created) if n), *table.columns]
    entity = table.entity
    roles += [entity.token, entity.created] if entity is not None else []
    said = {name.lower() for name in roles}
    for name, now in names.items():
        words = f"name_in_lake of {name!r}: "
        keeper = keeper_of(now)
        if keeper is not None:
            yield "columns", f"{words}{now!r} is called as {keeper}'s own are"
        elif now.lower() == name:
            yield "columns", f"{words}it is what MySQL calls it: remove it"
        elif now.lower() in said:
            yield "columns", f"{words}{now!r} is another column's name in MySQL"
        elif [one.lower() for one in names.values()].count(now.lower()) > 1:
            yield "columns", f"{words}{now!r} is another column's name in the lake, too"


def _hint_findings(
    table: TableSection | TenantTableSection, said: Mapping[str, Collection[str]]
) -> Iterable[tuple[str, str]]:
    """What is wrong with the earlier names of columns.

    Args:
        said: column → the names, in lower case, that it can't have had: they are columns now.
    """
    taken: dict[str, str] = {}
    around = _renamed_around(table)
    if around:
        listed = f"{', '.join(map(repr, around[:-1]))} and {around[-1]!r}"
        words = f"{listed} are renamed from one another: columns that change names can't be said"
        yield "columns", f"{words}, and a row that only the mirror holds keeps its values by name"
    for name, rule in table.columns.items():
        for earlier in () if name in around else rule.renamed_from:
            first = taken.setdefault(earlier.lower(), name)
            if earlier.lower() in said[name]:
                words = f"{name!r} was renamed from {earlier!r}, which the contract names itself"
                yield "columns", f"{words}: a column that was renamed has its new name alone"
            elif first != name or rule.renamed_from.count(earlier) > 1:
                yield "columns", f"{earlier!r} stands twice under renamed_from"


def _renamed_around(table: TableSection | TenantTableSection) -> list[str]:
    """The columns whose ``renamed_from`` lead back to themselves by way of others: one that names
    itself alone is none."""
    named = {name.lower(): name for name in table.columns}
    before = {
        name.lower(): [e.lower() for e in rule.renamed_from if e.lower() != name.lower()]
        for name, rule in table.columns.items()
    }

    def leads_back(name: str) -> bool:
        seen: set[str] = set()
        ahead = [*before[name]]
        while ahead:
            one = ahead.pop()
            if one == name:
                return True
            ahead += [] if one in seen else before.get(one, [])
            seen.add(one)
        return False

    return [named[name] for name in before if leads_back(name)]


def _once_findings(table: TableSection | TenantTableSection) -> Iterable[tuple[str, str]]:
    """MySQL's column names are one name in any case."""
    if len({column.lower() for column in table.key}) < len(table.key):
        yield "key", "the key names a column twice"
    if len({column.lower() for column in table.columns}) < len(table.columns):
        yield "columns", "two rules are for one column: MySQL's column names are one in any case"


def tenant_findings(table: TenantTableSection) -> Iterable[tuple[str, str]]:
    """What is wrong with the columns that a table of tenants names. A tenant may have a column
    beside the one that it became, with a rule of its own; the key has one name in all."""
    yield from _once_findings(table)
    key = {column.lower() for column in table.key}
    if MODES[table.mode].by_log and not key:
        words = "name the columns of a unique key, like [id]; or use mode: full"
        yield "key", f"tenants follow the log by their key: {words}"
    yield from _hint_findings(table, {name: {*key, name.lower()} for name in table.columns})
    for name, rule in table.columns.items():
        if rule.name_in_lake is not None:
            words = "columns of tenants have MySQL's names: remove name_in_lake of"
            yield "columns", f"{words} {name!r}"
        if rule.pci and name.lower() in key:
            yield "key", _NEVER_READ.format(name=name, role="key")


_NEVER_READ: Final = "{name!r} is marked pci: never, and {role} has to be read: name another column"


def column_findings(table: TableSection) -> Iterable[tuple[str, str]]:
    """What is wrong with the columns that a table names."""
    yield from _once_findings(table)
    if table.entity is not None and not table.key:
        yield "entity", "rows of an entity need a key: name the columns of a unique key"
    rules = {column.lower(): rule for column, rule in table.columns.items()}
    yield from _rename_findings(table)
    yield from _lake_name_findings(table)
    roles = [*(("key", column) for column in table.key)]
    roles += [("cursor", table.cursor)] if table.cursor else []
    roles += [("created", table.created)] if table.created else []
    if table.snapshot is not None:
        named = (table.snapshot.day, table.snapshot.id_column)
        roles += [("snapshot", column) for column in named if column]
    entity = table.entity
    roles += [("entity", name) for name in (entity.token, entity.created)] if entity else []
    for role, column in roles:
        rule = rules.get(column.lower())
        if rule is not None and rule.pci:
            yield role, _NEVER_READ.format(name=column, role=role)
