"""What a server says of a table's columns, kept to be shown without querying it again.

What belongs here: names, types, NULLs, uniqueness and comments, as they were at the newest load.
What doesn't: the shape by which loads are told apart (`mirrorlake.schema.versions`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from mirrorlake.config.contract import TableContract
from mirrorlake.ledger import Ledger
from mirrorlake.schema.versions import Exact
from mirrorlake.sources.mysql.tables import SourceTable

RECORDED: Final = "columns "
"""How the names of what the ledger keeps of columns begin; the table's own name follows."""


@dataclass(frozen=True)
class SourceColumn:
    """One column of a source table.

    Attributes:
        name: as the lake calls it.
        source: as the source calls it, where that is another name; else ''.
        type: in the source's own words.
        unique: whether the source keeps its values apart, NULLs aside.
        original: whether a value's original text may be kept beside it.
        unplaced: whether a value of it may have no place in the lake's type: NULL stands there.
    """

    name: str
    type: str
    nullable: bool = True
    unique: bool = False
    comment: str = ""
    original: bool = False
    unplaced: bool = False
    source: str = ""

    @property
    def in_source(self) -> str:
        """What the source calls it."""
        return self.source or self.name


def source_columns(table: SourceTable, read: Sequence[Exact] = ()) -> tuple[SourceColumn, ...]:
    """A table's columns, in the server's order; ``read`` is how they are read, where they are."""
    alone = {i.columns[0] for i in table.indexes if i.unique and len(i.columns) == 1}
    original = {e.name for e in read if e.has_original}
    unplaced = {e.name for e in read if e.has_original and not e.keeps_value}
    return tuple(
        SourceColumn(
            name=column.name,
            type=column.column_type,
            nullable=column.nullable,
            unique=column.name in alone,
            comment=column.comment,
            original=column.name in original,
            unplaced=column.name in unplaced,
            source=column.source,
        )
        for column in table.columns
    )


def record_source_columns(
    ledger: Ledger, contract: TableContract, columns: Sequence[SourceColumn], comment: str = ""
) -> None:
    """Keep what the source says of a table and its columns; nothing is written where it says the
    same."""
    said = [asdict(column) for column in columns]
    said = [{n: value for n, value in one.items() if n != "source" or value} for one in said]
    whole = {"comment": comment, "columns": said} if comment else said
    text = json.dumps(whole, ensure_ascii=False)
    if ledger.definition(f"{RECORDED}{contract.name}") != text:
        ledger.record_definition(f"{RECORDED}{contract.name}", text)


def recorded_columns(ledger: Ledger, contract: TableContract) -> tuple[SourceColumn, ...]:
    """A table's columns as they were at its newest load; of a ledger that was rebuilt, or of an
    earlier release, what its newest schema version has of them."""
    text = ledger.definition(f"{RECORDED}{contract.name}")
    if text is not None:
        return parse_columns(text)
    versions = ledger.schema_versions(contract.name)
    return tuple(SourceColumn(*one) for one in versions[-1].columns) if versions else ()


def parse_columns(text: str) -> tuple[SourceColumn, ...]:
    """The columns of what `record_source_columns` wrote."""
    said = json.loads(text)
    columns = said if isinstance(said, list) else said["columns"]
    return tuple(SourceColumn(**one) for one in columns)


def parse_comment(text: str) -> str:
    """The table's comment of what `record_source_columns` wrote; '' where it has none."""
    said = json.loads(text)
    return "" if isinstance(said, list) else str(said["comment"])
