"""What a person decides of a first contract other than it was proposed: modes, rules of columns.

By options (``--mode TABLE=full``, ``--column TABLE.COLUMN=mask``), or in the dialogue, which says
the same by options at its end. Pure: it queries no server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final, Literal, cast

from mirrorlake.config import ColumnRule
from mirrorlake.errors import ConfigError
from mirrorlake.init.by_log import LogProposal, propose, refuse_unfollowed
from mirrorlake.init.choice import fits, no_match
from mirrorlake.init.pii import Suggestion
from mirrorlake.init.suggest_tables import (
    DECIDE,
    DECIDE_KEY,
    SuggestedTable,
    no_key,
    table_warnings,
)
from mirrorlake.schema.masking import HASHABLE
from mirrorlake.sources.mysql.binlog.requirements import LogRequirement
from mirrorlake.sources.mysql.tables import Column, SourceTable
from mirrorlake.sources.mysql.types.exact_types import exact_column

MODES: Final = ("full", "binlog")
RULES: Final = ("mask", "hash", "drop", "null", "show", "never")
_OF_KEYS: Final = ("hash", "drop", "show", "never")
_BY_A_PERSON: Final = "decided by a person"


@dataclass(frozen=True)
class Decisions:
    """What a person wants.

    Attributes:
        by_log: whether all full copies that can follow the server's binary log are to.
        modes: patterns of tables, and the mode of those that match.
        rules: patterns of columns, and the rule of those that match.
    """

    by_log: bool = False
    modes: tuple[tuple[str, str], ...] = ()
    rules: tuple[tuple[str, str], ...] = ()


def read_decisions(modes: Sequence[str], columns: Sequence[str]) -> Decisions:
    """Decisions as options have them.

    Raises:
        ConfigError: one can't be meant.
    """
    by_log, of_tables = False, list[tuple[str, str]]()
    for text in modes:
        pattern, sign, mode = text.rpartition("=")
        if mode not in MODES or (mode == "full" and not sign) or (sign and not pattern):
            raise ConfigError(
                f"--mode {text!r} is neither binlog nor TABLE=MODE",
                next_step="Write --mode binlog, --mode TABLE=binlog or --mode TABLE=full",
            )
        if sign:
            of_tables.append((pattern, mode))
        else:
            by_log = True
    of_columns = list[tuple[str, str]]()
    for text in columns:
        pattern, sign, rule = text.rpartition("=")
        if rule not in RULES or not pattern or "." not in pattern:
            raise ConfigError(
                f"--column {text!r} is no TABLE.COLUMN=RULE",
                next_step=f"Write it like --column customers.email=mask. Rules: {', '.join(RULES)}",
            )
        of_columns.append((pattern, rule))
    return Decisions(by_log, tuple(of_tables), tuple(of_columns))


def decide(
    tables: Sequence[SuggestedTable],
    decisions: Decisions,
    missing: tuple[LogRequirement, ...] | None = None,
) -> tuple[list[SuggestedTable], LogProposal]:
    """The tables as a person wants them, and what is said of following the log. What is decided of
    one table or column goes before what is decided of all.

    Args:
        missing: what the server lacks for its log to be followed; None where it does not say.

    Raises:
        ConfigError: a pattern matches nothing, or what is wanted can't be.
    """
    proposed, log = propose(tables, missing, wanted=decisions.by_log)
    found = {(table.database, table.table): table for table in proposed}
    for pattern, mode in decisions.modes:
        chosen = [key for key in found if fits(pattern, *key)]
        if not chosen:
            raise no_match("--mode", pattern, "no table", [f"{d}.{t}" for d, t in found])
        for key in chosen:
            found[key] = with_mode(found[key], mode, missing)
    for pattern, rule in decisions.rules:
        of_columns = [(k, c) for k in found for c in _columns_like(pattern, found[k])]
        if not of_columns:
            names = [f"{d}.{t}.{c.name}" for (d, t), one in found.items() for c in _columns(one)]
            raise no_match("--column", pattern, "no column", names)
        for key, column in of_columns:
            found[key] = with_rule(found[key], column, rule)
    decided = list(found.values())
    _, open_ = propose(decided, missing, wanted=False)
    follow = sum(table.mode == "binlog" for table in decided)
    return decided, replace(log, tables=follow if log.written else open_.tables)


def _columns_like(pattern: str, table: SuggestedTable) -> list[Column]:
    """The columns that a pattern means: ``table.column``, or with the database before it."""
    names = (table.table, f"{table.database}.{table.table}")
    return [
        column
        for column in _columns(table)
        if any(fnmatchcase(f"{name}.{column.name}", pattern) for name in names)
    ]


def _columns(table: SuggestedTable) -> tuple[Column, ...]:
    return _source(table).columns


def _source(table: SuggestedTable) -> SourceTable:
    if table.source is None:
        raise ValueError(f"{table.database}.{table.table} was not introspected")
    return table.source


def with_mode(
    table: SuggestedTable, mode: str, missing: tuple[LogRequirement, ...] | None
) -> SuggestedTable:
    """A table in another mode.

    Raises:
        ConfigError: it can't be kept so.
    """
    if mode == table.mode:
        return table
    if mode == "binlog":
        refuse_unfollowed(missing)
        if not table.logged:
            raise ConfigError(
                f"{table.database}.{table.table} can't follow the binary log: not all that changes "
                "its rows is in it, or a column of it can't be kept",
                next_step="Leave it full",
            )
    return _changed(
        table,
        mode=cast("Literal['full', 'binlog']", mode),
        notes=(f"{mode}: {_BY_A_PERSON}",),
        **_NO_WINDOWS,
    )


_NO_WINDOWS: Final[Mapping[str, None]] = {
    "cursor": None,
    "created": None,
    "partitions_from": None,
    "almost": None,
}


def with_rule(table: SuggestedTable, column: Column, rule: str) -> SuggestedTable:
    """A table with another rule for one of its columns. What is never read is neither key nor
    cursor: the table is then copied as a whole.

    Raises:
        ConfigError: the column can't be kept so.
    """
    if why := _why_not(table, column, rule):
        raise ConfigError(
            f"--column {table.database}.{table.table}.{column.name}={rule}: {why}",
            next_step=f"Rules that it can have: {', '.join(rules_for(table, column))}",
        )
    meant = ColumnRule(pci="never") if rule == "never" else ColumnRule.model_validate({"pii": rule})
    rules = [one for one in table.rules if one.column != column.name]
    rules.append(Suggestion(column.name, meant, _BY_A_PERSON))
    order = {one.name: one.ordinal for one in _columns(table)}
    rules.sort(key=lambda one: order.get(one.column, 0))
    open_ = [w for w in table.warnings if not (w.column == column.name and w.kind in _QUESTIONS)]
    fields: dict[str, object] = {
        "rules": tuple(rules),
        "warnings": tuple(open_),
        "clean": "table" if any(one.is_hash for one in rules) else None,
    }
    if rule == "never" and column.name in (*table.key, table.cursor, table.created):
        fields |= {"mode": "full", **_NO_WINDOWS}
        fields["notes"] = (f"full: {column.name} is never read",)
        if column.name in table.key:
            fields["key"] = ()
            fields["warnings"] = (*open_, no_key(_source(table)))
    return _changed(table, **fields)


_QUESTIONS: Final = (DECIDE, DECIDE_KEY)


def rules_for(table: SuggestedTable, column: Column) -> tuple[str, ...]:
    """The rules that a column can have."""
    return tuple(rule for rule in RULES if not _why_not(table, column, rule))


def _why_not(table: SuggestedTable, column: Column, rule: str) -> str:
    """Why a column can't have a rule; '' where it can."""
    exact = exact_column(column)
    kind = exact.iceberg.split("(")[0] if exact is not None else ""
    if rule == "mask" and kind != "string":
        return f"it is {column.column_type}, and only texts can be masked"
    if rule == "hash" and kind not in HASHABLE:
        return f"it is {column.column_type}, and only {', '.join(HASHABLE)} have one text"
    if column.name in table.key and rule not in _OF_KEYS:
        return "it is the key"
    others = {one.column: one.rule for one in table.rules if one.column != column.name}
    hidden = [name for name in table.key if (r := others.get(name)) and r.pii == "drop"]
    if rule == "hash" and hidden:
        return f"clean is a view, because the key column {hidden[0]} is dropped, and has no hashes"
    hashed = [name for name, one in others.items() if one.pii == "hash"]
    if rule == "drop" and column.name in table.key and hashed:
        return f"{hashed[0]} is hashed, so clean is a table, which needs its key"
    return ""


def _changed(table: SuggestedTable, **fields: object) -> SuggestedTable:
    """A table with other fields, and the warnings that then hold."""
    source = _source(table)
    changed = cast("Callable[..., SuggestedTable]", replace)(table, **fields)
    before = set(table_warnings(source, table.mode, _never(table)))
    kept = [one for one in changed.warnings if one not in before]
    now = table_warnings(source, changed.mode, _never(changed))
    return replace(changed, warnings=(*kept, *now))


def _never(table: SuggestedTable) -> set[str]:
    return {one.column for one in table.rules if one.rule.pci}
