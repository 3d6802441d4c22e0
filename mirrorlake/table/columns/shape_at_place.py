"""What a table was at a place in its server's log, as its server described it.

A row in the log is of the table as it was there. What its server says now may be of later, so the
ledger keeps what it was when it was copied, and after each statement that was followed since.

What belongs here: that record. What doesn't: what a statement makes of a table
(`mirrorlake.sources.mysql.following.altered_in_log`).
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mirrorlake.config.contract import TableContract
from mirrorlake.config.settings import ColumnRule
from mirrorlake.errors import SourceError
from mirrorlake.ledger.store import Ledger
from mirrorlake.schema.versions import without_width
from mirrorlake.sources.mysql.tables import Column, ForeignKey, Index, SourceTable

if TYPE_CHECKING:
    from mirrorlake.sources.mysql.following.log_state import LogPlace


def record_shape(
    ledger: Ledger,
    name: str,
    place: LogPlace,
    table: SourceTable,
    before: tuple[LogPlace, SourceTable] | None = None,
) -> None:
    """Write down what a table is from a place on.

    Args:
        name: the contract's.
        before: what it was until then: should the run die before it has loaded what comes up to
            the place, that is what is read next.
    """
    shapes = [*([before] if before else []), (place, table)]
    text = json.dumps([[at.to_text(), asdict(one)] for at, one in shapes], ensure_ascii=False)
    if ledger.definition(_name(name)) != text:
        ledger.record_definition(_name(name), text)


def shape_at(ledger: Ledger, name: str, place: LogPlace) -> tuple[LogPlace, SourceTable] | None:
    """What a table was at a place, and since which; None where that was not recorded."""
    from mirrorlake.sources.mysql.following.log_state import LogPlace

    found: tuple[LogPlace, SourceTable] | None = None
    for text, fields in json.loads(ledger.definition(_name(name)) or "[]"):
        since = LogPlace.parse(text)
        try:
            if not place.log < since.log:
                found = since, _table(fields)
        except SourceError:
            continue  # of another server's log
    return found


def contract_at(contract: TableContract, table: SourceTable) -> TableContract:
    """A contract as it is of a table that may be of before: rules stand under the names that its
    columns have, and those of columns that it lacks are left out."""
    there = {column.name.lower() for column in table.columns}
    columns: dict[str, ColumnRule] = {}
    for name, rule in contract.columns.items():
        if contract.name_in_mysql(name).lower() in there:
            columns[name] = rule
        elif earlier := next((n for n in rule.renamed_from if n.lower() in there), None):
            columns[earlier] = rule.model_copy(update={"renamed_from": ()})
    if columns == contract.columns:
        return contract
    return contract.model_copy(update={"columns": columns})


def same_columns(one: SourceTable, other: SourceTable) -> bool:
    """Whether two descriptions are of the same columns, as far as that decides about values."""
    return one.engine.lower() == other.engine.lower() and _outline(one) == _outline(other)


def _outline(table: SourceTable) -> list[tuple[object, ...]]:
    return [
        (
            c.name,
            without_width(c.column_type),
            c.nullable,
            c.charset,
            c.collation,
            bool(c.generated),
        )
        for c in table.columns
    ]


def _name(table: str) -> str:
    return f"followed {table}"


def _table(fields: dict[str, Any]) -> SourceTable:
    indexes: list[dict[str, Any]] = [
        {**one, "columns": tuple(one["columns"])} for one in fields["indexes"]
    ]
    keys: list[dict[str, Any]] = [
        {**one, "columns": tuple(one["columns"])} for one in fields["foreign_keys"]
    ]
    lists: dict[str, Any] = {
        "columns": tuple(Column(**one) for one in fields["columns"]),
        "indexes": tuple(Index(**one) for one in indexes),
        "foreign_keys": tuple(ForeignKey(**one) for one in keys),
    }
    return SourceTable(**fields | lists)
