"""A first contract for every table, from what the server says of it. Pure: it queries no server.

Every choice is careful: where it is not certain that a mode keeps the mirror exact, the mode is
``full``, and a note says what would make the table incremental.

==================  ==============================================================================
incremental         a unique key, and a NOT NULL time that moves with each change and leads an index
append              a table that is named as a log, whose rows have no state to change, by its
                    auto-increment key or by an indexed time of birth
full                everything else
==================  ==============================================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Final

from mirrorlake.config import Clean, ColumnRule, Mode
from mirrorlake.init.pii import Suggestion, split_words, suggest_rule
from mirrorlake.schema.masking import HASHABLE
from mirrorlake.schema.reserved_names import name_problems
from mirrorlake.sources.mysql.introspection.introspect import Column, SourceTable
from mirrorlake.sources.mysql.tables import ForeignKey
from mirrorlake.sources.mysql.types.collations import why_no_key
from mirrorlake.sources.mysql.types.exact_types import exact_column
from mirrorlake.sources.mysql.types.registry import INTEGERS
from mirrorlake.table.log_place import why_unlogged

_MOMENTS: Final = ("datetime", "timestamp")
_MODIFIED: Final = re.compile(
    r"(?:.*_)?(?:modified|updated|changed|last_(?:modified|updated?|changed?|modification)"
    r"|modification|update|modify)(?:_(?:at|on|time|date|ts|timestamp|datetime|utc))*|mtime"
)
_CREATED: Final = re.compile(
    r"(?:.*_)?(?:created|inserted|occurred|happened|logged|recorded|received|creation|event|log|insert)"
    r"(?:_(?:at|on|time|date|ts|timestamp|datetime|utc))*|timestamp|ts|ctime"
)
_LOGS: Final = re.compile(
    r"(?:.*_)?(?:events?|logs?|audits?|history|histories|clicks?|views?|impressions?|journals?|trail"
    r"|measurements?|readings?|ledger)(?:_\d+)?"
)
_STATE: Final = re.compile(
    r"(?:.*_)?(?:status|state|is_.*|has_.*|processed|done|deleted|active|enabled|attempts?|retries"
    r"|locked|finished|ended|closed|resolved|read|seen|sent)(?:_(?:at|on|by|count|time|date))?"
)
DECIDE: Final = (
    "a column may be personal or card data, by too little to act on, and is shown until you decide"
)
DECIDE_KEY: Final = (
    "a key column looks personal or secret, or like card data: raw and deduped hold it as it is"
)


@dataclass(frozen=True)
class Warned:
    """What may make the mirror differ or a load fail: one line, without any value of the table.

    Attributes:
        kind: the words under which tables with the like of it are counted.
        column: the column that it is of, if it is of one.
    """

    text: str
    kind: str
    column: str | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Almost:
    """A full copy that would be incremental by this column, had it an index that begins with it;
    and, where it is ``nullable``, were it NOT NULL; and, ``keyless``, had the table a key."""

    column: str
    nullable: bool
    indexed: bool
    keyless: bool
    in_memory: bool


@dataclass(frozen=True)
class SuggestedTable:
    """A contract for one table, and what a person should know before agreeing to it.

    ``notes`` explain the choices: single lines without any value of the table. ``logged``: all that
    changes its rows is in the server's binary log, if the server keeps one that can be followed.
    ``bytes``: by the server's estimate. ``source``: as it was introspected.
    """

    database: str
    table: str
    mode: Mode
    key: tuple[str, ...]
    cursor: str | None
    created: str | None
    clean: Clean | None
    rules: tuple[Suggestion, ...]
    notes: tuple[str, ...]
    warnings: tuple[Warned, ...]
    estimated_rows: int
    almost: Almost | None = None
    partitions_from: date | None = None
    logged: bool = False
    bytes: int | None = None
    source: SourceTable | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class _Choice:
    mode: Mode
    reason: str
    cursor: str | None = None
    created: str | None = None
    almost: Almost | None = None


def suggest_contract(
    table: SourceTable, samples: Mapping[str, Sequence[str]], *, hashes: bool = True
) -> SuggestedTable:
    """Mode, key, cursor and rules for one table.

    Args:
        table: as introspected.
        samples: column name → sampled texts, NULLs left out; a column may be absent.
        hashes: whether a clean table with hashes can be made here: Spark makes it.
    """
    key = table.primary_key()
    rules, warnings = _decided(table, key, samples, hashes=hashes)
    never = {s.column for s in rules if s.rule.pci}
    warnings += [] if key else [no_key(table)]
    choice = _choose(table, key, never)
    rules = _fit_the_view(rules, key, hashes=hashes)
    hashed = any(rule.is_hash for rule in rules)
    return SuggestedTable(
        database=table.database,
        table=table.name,
        mode=choice.mode,
        key=key,
        cursor=choice.cursor,
        created=choice.created,
        # A view would show the hash's key in its text.
        clean="table" if hashed else None,
        rules=tuple(rules),
        notes=(choice.reason,),
        warnings=(*warnings, *table_warnings(table, choice.mode, never)),
        estimated_rows=table.estimated_rows,
        almost=choice.almost,
        logged=_is_logged(table, never),
        source=table,
    )


def _is_logged(table: SourceTable, never: set[str]) -> bool:
    kept = all(exact_column(c) is not None for c in table.columns if c.name not in never)
    return kept and why_unlogged(table) is None


def _choose(table: SourceTable, key: tuple[str, ...], never: set[str]) -> _Choice:
    columns = [c for c in table.columns if c.name not in never]
    modified = [c for c in columns if _is_modified(c)]
    if modified:
        return _by_modification(table, key, modified)
    appended = _by_birth(table, key, columns)
    if appended is not None:
        return appended
    reason = "full: no column says when a row changed"
    born = next((c.name for c in columns if _is_created(c)), None)
    if born is not None:
        reason += f"; if rows never change once written, mode: append with cursor: {_shown(born)}"
        reason += (
            " reads less" if table.led_by(born) else " reads less, once an index begins with it"
        )
    return _Choice("full", reason)


def _by_modification(
    table: SourceTable, key: tuple[str, ...], modified: Sequence[Column]
) -> _Choice:
    best = min(
        modified,
        key=lambda c: (
            *(c.nullable, not table.led_by(c.name), c.fixed_time is not None),
            *(not _moves(c), c.ordinal),
        ),
    )
    name = _shown(best.name)
    indexed = table.led_by(best.name)
    missing: list[str] = []
    if best.nullable:
        missing.append(f"{name} were NOT NULL")
    if best.fixed_time is not None:
        # No window reaches back to it: until a check, such rows would not be in the mirror.
        missing.append(
            f"{name} had no default like '{best.fixed_time}', which no window would read"
        )
    if not indexed:
        missing.append(_missing_index(table, best.name))
    if not key:
        missing.append("the table had a unique key")
    if missing:
        reason = f"full: it could be incremental if {' and '.join(missing)}"
        in_memory = table.engine.lower() == "memory"
        almost = Almost(best.name, best.nullable, indexed, not key, in_memory)
        return _Choice("full", reason, almost=almost if best.fixed_time is None else None)
    for part in map(table.column, key):
        if why := why_no_key(part):
            reason = "full: incremental can't tell its keys apart as MySQL does"
            return _Choice("full", f"{reason}: {_shown(part.name)}: {why}")
    who = "the server moves it with each update" if _moves(best) else "the application must move it"
    return _Choice("incremental", f"incremental: {name} leads an index; {who}", best.name)


def _missing_index(table: SourceTable, column: str) -> str:
    name, unused = _shown(column), table.unused_index(column)
    if unused is None:
        return f"an index began with {name}"
    return f"an index began with {name} ({_shown(unused)} is a hash, or queries don't use it)"


def _by_birth(
    table: SourceTable, key: tuple[str, ...], columns: Sequence[Column]
) -> _Choice | None:
    words = {c.name: "_".join(split_words(c.name)) for c in columns}
    if not _LOGS.fullmatch("_".join(split_words(table.name))):
        return None
    if any(_STATE.fullmatch(name) for name in words.values()):
        return None
    born = next((c for c in columns if _is_created(c) and not c.nullable), None)
    if len(key) == 1:
        column = table.column(key[0])
        if column.data_type in INTEGERS and "auto_increment" in column.extra.lower():
            reason = f"append: named as a log, and {_shown(column.name)} only grows"
            return _Choice("append", reason, column.name, born.name if born else None)
    if born is not None and table.led_by(born.name) and born.fixed_time is None:
        reason = f"append: named as a log, and {_shown(born.name)} leads an index"
        return _Choice("append", reason, born.name)
    return None


def _is_modified(column: Column) -> bool:
    if column.data_type not in _MOMENTS:
        return False
    return _moves(column) or _MODIFIED.fullmatch("_".join(split_words(column.name))) is not None


def _moves(column: Column) -> bool:
    return "on update current_timestamp" in column.extra.lower()


def _is_created(column: Column) -> bool:
    words = "_".join(split_words(column.name))
    return column.data_type in _MOMENTS and _CREATED.fullmatch(words) is not None


def _decided(
    table: SourceTable,
    key: tuple[str, ...],
    samples: Mapping[str, Sequence[str]],
    *,
    hashes: bool,
) -> tuple[list[Suggestion], list[Warned]]:
    """The rules that the evidence is enough for, and a question for each of the others."""
    decided: list[Suggestion] = []
    questions: list[Warned] = []
    for column in table.columns:
        one = suggest_rule(column, samples.get(column.name, ()), table=table.name)
        if one is None:
            continue
        about = f"DECIDE on {_shown(one.column)}: {one.reason}"
        if one.unsure:
            rule = f"pci: {one.rule.pci}" if one.rule.pci else f"pii: {one.rule.pii}"
            text = (
                f"{about}; it is read and shown until you write {{{rule}}} for it under columns, or"
                " {pii: show}"
            )
            questions.append(Warned(text, DECIDE, one.column))
        elif one.column in key and not one.is_hash:
            safe = _safe_in_key(column, hashes=hashes)
            shows = "its hash" if safe.pii == "hash" else "nothing of it"
            text = f"{about}; it is the key: raw and deduped hold it, clean shows {shows}"
            if one.rule.pci:
                text += "; if it must never be read, write {pci: never}, key: [] and mode: full"
            else:
                text += "; if it may be seen, write {pii: show}"
            questions.append(Warned(text, DECIDE_KEY, one.column))
            decided.append(replace(one, rule=safe))
        else:
            decided.append(one)
    return decided, questions


def _safe_in_key(column: Column, *, hashes: bool) -> ColumnRule:
    """A rule under which clean reveals nothing of a key column, and the table stays kept by it."""
    exact = exact_column(column)
    hashable = hashes and exact is not None and exact.iceberg.split("(")[0] in HASHABLE
    return ColumnRule(pii="hash" if hashable else "drop")


def _fit_the_view(
    rules: Sequence[Suggestion], key: tuple[str, ...], *, hashes: bool
) -> list[Suggestion]:
    """The rules; no hash where clean has to be a view: Spark is not installed, or a column of the
    key is dropped there and a clean table is kept by its key."""
    keyless = any(one.column in key and one.rule.pii == "drop" for one in rules)
    if hashes and not keyless:
        return list(rules)
    reason = "not hashed: a key column is dropped, so clean is a view"
    if not keyless:
        reason = "not hashed: Spark is not installed (extra mirrorlake[spark]), so clean is a view"
    return [
        replace(one, rule=ColumnRule(pii="drop"), reason=f"{one.reason}; {reason}")
        if one.is_hash
        else one
        for one in rules
    ]


def no_key(table: SourceTable) -> Warned:
    """What is to be known of a table without a unique key."""
    why = "no unique key of NOT NULL columns"
    if table.merges:
        why = "a MERGE table keeps no key unique over its tables"
    kind = f"{why}: rows can only be compared as a multiset"
    return Warned(kind, kind)


def table_warnings(table: SourceTable, mode: Mode, never: set[str]) -> list[Warned]:
    """What may make its mirror differ, or its loads fail, in that mode."""
    found: list[Warned] = []
    if table.engine.lower() != "innodb":
        kind = f"engine {table.engine or 'unknown'} has no snapshot: rows may change during a read"
        found.append(Warned(kind, kind))
    if mode != "full":
        found += [warned for key in table.foreign_keys for warned in _late_deletes(key)]
    if mode == "incremental":
        found += [warned for key in table.foreign_keys for warned in _silent_changes(key)]
        if table.unseen_rules:
            kind = (
                "this account can't see whether a foreign key changes rows without moving the "
                "cursor (ON UPDATE CASCADE, ON DELETE SET NULL), or deletes some: grant SELECT on "
                "the whole table"
            )
            found.append(Warned(kind, kind))
    if mode == "append":
        kind = "append never sees an update: check that rows never change once written"
        found.append(Warned(kind, kind))
    for problem in name_problems(c.name for c in table.columns if c.name not in never):
        then = (
            "the table will be refused until you give it a name_in_lake and a rule, write "
            "{pci: never} for"
        )
        words, kind = (
            f"{of}: {then} it, or rename it in MySQL" for of in (problem.words, problem.kind)
        )
        found.append(Warned(words, kind, problem.column))
    refused = [c for c in table.columns if c.name not in never and exact_column(c) is None]
    for column in refused:
        words = "can't be kept exactly yet: the table will be refused"
        text = f"column {_shown(column.name)} {_shown(column.column_type)} {words}"
        found.append(Warned(text, f"a column {words}", column.name))
    return found


def _silent_changes(key: ForeignKey) -> list[Warned]:
    # The server changes these rows itself, and touches no modified_at.
    changes = [
        f"ON {event} {action.upper()}"
        for event, action in (("UPDATE", key.on_update), ("DELETE", key.on_delete))
        if action.upper() in ("SET NULL", "SET DEFAULT")
        or (event, action.upper()) == ("UPDATE", "CASCADE")
    ]
    columns, words = _listed(key.columns), "changes rows without moving the cursor"
    return [
        Warned(f"{change} on {columns} {words}", f"a foreign key's {change} {words}")
        for change in changes
    ]


def _late_deletes(key: ForeignKey) -> list[Warned]:
    if key.on_delete.upper() != "CASCADE":
        return []
    change = "ON DELETE CASCADE"
    words = "deletes rows, which stay in the mirror until a reload or a check finds them"
    text = f"{change} on {_listed(key.columns)} {words}"
    return [Warned(text, f"a foreign key's {change} {words}")]


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(_shown(column) for column in columns)


def _shown(name: str) -> str:
    """A name for a comment: on one line, whatever it holds."""
    return name if name.isprintable() else repr(name)
