"""Whether columns got each other's names: what the ledger, the server and its rows tell.

Where names, types and order leave it open, some rows of deduped are compared with what MySQL has of
them now. A rename is one of the whole table, so a few rows whose values in a column are unchanged
show that it is the same column.

What belongs here: that question, and a person's answer. What doesn't: which columns are in question
(`mirrorlake.table.columns.exchanged`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from itertools import chain
from typing import Any, Final, TypeAlias

from pymysql.connections import Connection

from mirrorlake.config.contract import Contract, Mirrored, TableContract
from mirrorlake.destinations.base import EVERY_ROW, Condition, Identifier
from mirrorlake.errors import ConfigError
from mirrorlake.ledger import Ledger
from mirrorlake.operations.schema_changes.recorded_contracts import recorded_contract
from mirrorlake.sources.mysql.sessions.connect import rows_of
from mirrorlake.sources.mysql.tables import SourceTable, quote
from mirrorlake.table.columns.exchanged import (
    ColumnTerms,
    ColumnTypes,
    Pair,
    exchanged_name,
    may_be_exchanged,
    rule_fields,
    undecided_pairs,
)
from mirrorlake.table.columns.source_columns import recorded_columns
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

LakeRow: TypeAlias = dict[str, Any]
Values: TypeAlias = tuple[Any, ...]
_SAMPLE: Final = 200
"""Rows that are compared."""
_ENOUGH: Final = 3
"""So many of them, at least, have to show it: a rename changes all rows at once."""
_PLAIN: Final = (int, str, bytes, date, Decimal)
"""Values of a key by which MySQL is asked for a row."""


def exchanged_since(
    ledger: Ledger, contract: TableContract, table: SourceTable
) -> tuple[Pair, ...]:
    """The pairs of columns that may have been exchanged since a table's newest load, as far as its
    columns tell; without those whose second column has another rule since: a person decided."""
    before = [(one.name, one.type) for one in recorded_columns(ledger, contract)]
    now = [(column.name, column.column_type) for column in table.columns]
    recorded = recorded_contract(ledger, contract) if before and before != now else None
    return exchanged_between(contract, before, now, recorded)


def exchanged_between(
    contract: Contract,
    before: ColumnTypes,
    now: ColumnTypes,
    recorded: Mapping[str, Any] | None,
) -> tuple[Pair, ...]:
    """The same, of columns then and now.

    Args:
        before: none where the table was never loaded.
        recorded: what the contract said then; None where that is not known.
    """
    if not before:
        return ()
    said: dict[str, ColumnTerms] = {}
    if recorded is not None and "columns" in recorded:
        columns: Mapping[str, ColumnTerms] = recorded["columns"]
        said = {name.lower(): rule for name, rule in columns.items()}
    pairs = may_be_exchanged(contract, before, now, said)
    if recorded is None:
        return pairs
    return tuple(pair for pair in pairs if rule_fields(contract, pair[1]) == said.get(pair[1]))


def that_stayed(workspace: Workspace, plan: ResolvedTable, connection: Connection[Any]) -> set[str]:
    """Of the second columns of a plan's pairs, in lower case, those that rows show to be the same
    columns as before; where that can't be said, none.

    Raises:
        SourceError: MySQL could not be queried.
    """
    return same_columns(
        plan.exchanged,
        plan.key,
        lake_columns(workspace, plan.deduped),
        lambda columns: sample_rows(workspace, plan.deduped, columns),
        lambda columns, keys: rows_in_mysql(connection, plan, columns, keys),
    )


def same_columns(
    pairs: Iterable[Pair],
    key: Sequence[str],
    lake: Iterable[str],
    then: Callable[[Sequence[str]], list[LakeRow]],
    now: Callable[[Sequence[str], Sequence[Values]], Mapping[Values, Values]],
) -> set[str]:
    """Of the second columns of pairs, those that rows show to be the same columns as before.

    Args:
        lake: what deduped calls its columns.
        then: some rows of these columns, as deduped has them.
        now: what the source has of these columns, in lower case, of the rows with these keys.
    """
    names = {name.lower(): name for name in lake}
    others: dict[str, list[str]] = {}
    for hidden, other in pairs:
        if other in names:
            others.setdefault(other, []).append(hidden)
    if not key or not others or any(name.lower() not in names for name in key):
        return set()
    wanted = dict.fromkeys(n.lower() for n in (*key, *others, *chain(*others.values())))
    before = [
        {n.lower(): value for n, value in row.items()}
        for row in then([names[n] for n in wanted if n in names])
    ]
    keys = [tuple(row[name.lower()] for name in key) for row in before]
    if not keys or not all(isinstance(v, _PLAIN) for values in keys for v in values):
        return set()
    found = now(list(others), keys)
    return {
        other
        for number, (other, hidden) in enumerate(others.items())
        if _is_same(
            [
                (row[other], [row[h] for h in hidden if h in row], found[at][number])
                for row, at in zip(before, keys, strict=True)
                if at in found
            ],
            known=all(h in names for h in hidden),
        )
    }


def _is_same(rows: Sequence[tuple[Any, Sequence[Any], Any]], *, known: bool) -> bool:
    """Whether rows show a column to be what it was.

    Args:
        rows: of each its value before, those of the columns that may have its name now, and its
            value of now.
        known: whether all of these are known: of a column that was never read none is.
    """
    told = [one for one in rows if one[0] is not None and one[0] not in one[1]]
    same = [before for before, _, now in told if before == now]
    if any(now in hidden for _, hidden, now in told if now is not None):
        return False
    enough = len(same) if known else len(set(map(str, same)))
    return enough >= _ENOUGH and 2 * len(same) > len(told)


def lake_columns(workspace: Workspace, deduped: Identifier) -> list[str]:
    """The columns of a deduped layer; none where it is not there."""
    table = workspace.lake.load(deduped)
    return [] if table is None else [one.name for one in table.schema().fields]


def sample_rows(
    workspace: Workspace,
    deduped: Identifier,
    columns: Sequence[str],
    rows: Condition = EVERY_ROW,
) -> list[LakeRow]:
    """Some rows of a deduped layer; none where it is not there."""
    batches = workspace.lake.scan(deduped, columns, rows)
    first = next((b for b in batches or () if b.num_rows), None)
    return [] if first is None else first.slice(0, _SAMPLE).to_pylist()


def rows_in_mysql(
    connection: Connection[Any],
    plan: ResolvedTable,
    columns: Sequence[str],
    keys: Sequence[Values],
) -> dict[Values, Values]:
    """What MySQL has of these columns now, by key."""
    called = [plan.table.column(name).sql for name in (*plan.key, *columns)]
    names = ", ".join(called)
    table = f"{quote(plan.table.database)}.{quote(plan.table.name)}"
    one = f"({', '.join(['%s'] * len(plan.key))})"
    where = f"({', '.join(called[: len(plan.key)])}) IN ({', '.join([one] * len(keys))})"
    query = f"SELECT {names} FROM {table} WHERE {where}"  # noqa: S608 - quoted
    rows = rows_of(connection, query, tuple(value for values in keys for value in values))
    width = len(plan.key)
    return {row[:width]: row[width:] for row in rows}


def accept_columns(workspace: Workspace, contract: Mirrored) -> tuple[Pair, ...]:
    """Take a contract's rules to mean the columns of now, on a person's word; the pairs that were
    held out of clean because of that.

    Raises:
        ConfigError: there are none.
        LeaseHeld: a run works on the table.
    """
    with workspace.leased(contract):
        name = exchanged_name(contract)
        pairs = undecided_pairs(workspace.ledger.definition(name), contract)
        if not pairs:
            raise ConfigError(
                f"table {contract.name}: no column is held out of clean because it may be another",
                table=contract.name,
                next_step="`mirrorlake status` says which columns are held, and why",
            )
        workspace.ledger.forget_definition(name)
    return pairs
