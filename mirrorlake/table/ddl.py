"""DDL that changes values, or lets them change, without moving any row's cursor.

An added column has values in old rows (its default, an expression) that no window reads again. A
converted charset or another expression of a generated column rewrites values. A foreign key that
cascades lets the server change rows by itself. What a table's definition said of these is kept from
load to load; where it says something else, the whole table is unproved and is read again.

Source: MySQL 8.0 manual, 13.1.9 "ALTER TABLE Statement", 13.1.20.5 "FOREIGN KEY Constraints".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias

from mirrorlake.sources.mysql.tables import UNKNOWN, Column, SourceTable

NameThen: TypeAlias = Callable[[Iterable[str], str], str | None]

# One that is not to be seen may be any of them.
_CASCADES = ("CASCADE", "SET NULL", "SET DEFAULT", UNKNOWN)


def definition_of(table: SourceTable, mirrored: Collection[str]) -> str:
    """What of a table's definition decides about values beside its columns' types; JSON.

    Args:
        mirrored: the columns that are read.
    """
    columns = {
        column.name: " ".join(
            part for part in (column.charset, column.collation, column.generated) if part
        )
        for column in table.columns
        if column.name in mirrored
    }
    keys = {
        ", ".join(key.columns): f"ON UPDATE {key.on_update} ON DELETE {key.on_delete}"
        for key in table.foreign_keys
        # A row that is deleted with its parent is found by a reload or a check, as every deletion.
        if key.on_update.upper() in _CASCADES or key.on_delete.upper() in _CASCADES[1:]
    }
    if table.keys_hidden:
        keys["?"] = "not to be seen by this account"
    limits = {
        column.name: "NULL" if column.nullable else _limit(column)
        for column in table.columns
        if column.name in mirrored
    }
    computed = any(column.generated for column in table.columns if column.name in mirrored)
    beside = {
        column.name: column.column_type
        for column in table.columns
        if computed and column.name not in mirrored
    }
    parts = {"columns": columns, "keys": keys, "limits": limits, "beside": beside}
    return json.dumps(parts, ensure_ascii=False, sort_keys=True)


def _limit(column: Column) -> str:
    counted = "auto_increment" in column.extra.lower()
    return "NOT NULL AUTO_INCREMENT" if counted else "NOT NULL"


def silent_changes(before: str, now: str, name_then: NameThen | None = None) -> tuple[str, ...]:
    """In words, what of a later definition may have changed values silently; nothing if nothing.

    Both are as `definition_of` gives them. A column that went changes no value of another, nor does
    a foreign key that went. One that got another kind of type is of another schema version.

    Args:
        name_then: what a column was called among the names of then; by default as now.

    >>> old = '{"columns": {"a": "latin1"}, "keys": {}}'
    >>> silent_changes(old, old.replace("latin1", "utf8mb4"))
    ('column a was latin1 and is utf8mb4',)
    >>> silent_changes(old, '{"columns": {"a": "latin1", "b": ""}, "keys": {}}')
    ('column b was added',)
    """
    old, new = (_parts(text) for text in (before, now))
    found: list[str] = []

    def then_of(name: str) -> str | None:
        return name if name_then is None else name_then(old["columns"], name)

    for name, text in new["columns"].items():
        then = then_of(name)
        if then is None or then not in old["columns"]:
            found.append(f"column {name} was added")
        elif old["columns"][then] != text and not _is_type(old["columns"][then], text):
            found.append(
                f"column {name} was {old['columns'][then] or 'plain'} and is {text or 'plain'}"
            )
    found += [
        f"the foreign key on ({columns}) is {rules}"
        for columns, rules in new["keys"].items()
        if old["keys"].get(columns) != rules
    ]
    found += _stricter(old["limits"], new["limits"], then_of)
    found += [
        f"column {name}, which generated ones may be computed from, was {kind} and is {later}"
        for name, kind in old["beside"].items()
        if (later := new["beside"].get(name)) not in (None, kind)
    ]
    return tuple(found)


def _stricter(
    old: Mapping[str, str], new: Mapping[str, str], then_of: Callable[[str], str | None]
) -> list[str]:
    """A column that may not be NULL any more had its NULLs replaced, if the session that altered it
    was lenient; one that counts had its zeros numbered."""
    found: list[str] = []
    for name, limit in new.items():
        before: str | None = old.get(then_of(name) or "")
        if before == "NULL" and limit != "NULL":
            found.append(f"column {name} could be NULL, and can't any more")
        elif before is not None and limit.endswith("AUTO_INCREMENT") and limit != before:
            found.append(f"column {name} counts by itself now")
    return found


def _is_type(before: str, now: str) -> bool:
    """Whether a column has a charset now and had none, or the other way: it has another type."""
    return sorted((len(before.split()), len(now.split()))) == [0, 2]


def _parts(text: str) -> dict[str, dict[str, str]]:
    # Of an earlier release, which did not write all of it down: what it did not is no change.
    return {"limits": {}, "beside": {}, **json.loads(text)}
