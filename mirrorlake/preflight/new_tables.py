"""A migration's CREATE TABLE of a table that no contract names: what a mirror of it would be.

No mirror changes. What would be refused is reported before there are rows in the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from mirrorlake.config import Config, TableContract
from mirrorlake.errors import MirrorlakeError
from mirrorlake.preflight.findings import Finding, Propose
from mirrorlake.preflight.made_tables import TablesAfter
from mirrorlake.preflight.migration import Migration
from mirrorlake.sources.mysql.ddl.actions import Statement
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.sources.mysql.tables import SourceTable
from mirrorlake.table.resolve import plan_table, refuse_names_there

_NOT_MIRRORED: Final = "a new table: it is not mirrored"
_INIT: Final = "`mirrorlake init` proposes its contract"


def new_table_findings(
    config: Config,
    migration: Migration,
    place: tuple[str | None, str],
    statements: Sequence[Statement],
    propose: Propose,
) -> Iterator[Finding]:
    """What is to be known of a new table, whose statements these are.

    Args:
        place: its database, if it is named, and its name.

    Raises:
        DdlRefused: the server would refuse a statement.
        SourceError: the server could not be queried.
    """
    statement = next(one for one in statements if one.kind == "create")
    beside = _beside(config, place[0])
    if beside is None:
        words = f"{_NOT_MIRRORED}, and no table of one known database is: its columns were not "
        yield Finding("ok", f"{words}looked at", _INIT, line=statement.line)
        return
    source = config.sources[beside.source]
    with session(source, beside.database) as connection:
        none = SourceTable(beside.database, place[1], "", (), (), 0, ())
        tables = TablesAfter(connection, migration, none)
        if why := tables.why_unknown(statement):
            words = f"{_NOT_MIRRORED}, and its columns were not looked at: {why}"
            yield Finding("ok", words, _INIT, line=statement.line)
            return
        table = tables.altered(none, statements, there=False)
    if any(_is_beside(one, beside) and one.table == table.name for one in config.tables):
        words = f"it is {table.name} then, which is mirrored"
        yield Finding("ok", words, line=statement.line)
        return
    yield Finding("ok", _NOT_MIRRORED, _INIT, line=statement.line)
    yield from _alike(config, beside, table)
    yield from _refused(config, beside, table)
    yield from propose(table)


def _beside(config: Config, database: str | None) -> TableContract | None:
    """A table that is mirrored from the database; None where none is, or where it is not named and
    several are."""
    named = [c for c in config.tables if database in (None, c.database)]
    several = len({(c.source, c.database) for c in named}) > 1
    return named[0] if named and not (several and database is None) else None


def _is_beside(one: TableContract, other: TableContract) -> bool:
    return (one.source, one.database) == (other.source, other.database)


def _alike(config: Config, beside: TableContract, table: SourceTable) -> Iterator[Finding]:
    for contract in config.tables:
        if _is_beside(contract, beside) and contract.table.lower() == table.name.lower():
            words = f"its name is that of {contract.table}, which is mirrored, but for its case"
            step = "The lake has one name for both: mirror it under other namespaces, or not at all"
            yield Finding("attention", words, step)


def _refused(config: Config, beside: TableContract, table: SourceTable) -> Iterator[Finding]:
    """What stops any mirror of it, whatever its contract says: one finding for each column."""
    plain = {"mode": "full", "key": (), "cursor": None, "created": None, "start": None}
    contract = beside.model_copy(
        update={**plain, "table": table.name, "columns": {}, "entity": None, "partition": "day"}
    )
    columns = list(table.columns)
    while columns:
        error = _refusal(config, contract, replace(table, columns=tuple(columns)))
        if error is None:
            break
        words = f"a mirror of it would stop: {error.message}"
        yield Finding("attention", words, error.next_step, column=error.column)
        left = [column for column in columns if column.name != error.column]
        columns = left if len(left) < len(columns) else []


def _refusal(config: Config, contract: TableContract, table: SourceTable) -> MirrorlakeError | None:
    try:
        refuse_names_there(plan_table(contract, config.sources[contract.source], table))
    except MirrorlakeError as error:
        return error
    return None
