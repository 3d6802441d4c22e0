"""What clean shows of the columns that the contract hides: in its definition, and in its rows.

A view shows what its SQL says of deduped's rows; a table what stands in it. A difference is a
value; a failure to look is an exception. Nothing here reveals a row's values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa

from mirrorlake.config.contract import TableContract
from mirrorlake.config.settings import ColumnRule
from mirrorlake.destinations.base import as_sql_identifier, text_literal
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.reading.stream import read_batches
from mirrorlake.destinations.iceberg.tables.views import LakeView, read_view
from mirrorlake.errors import LakeError
from mirrorlake.ledger import Ledger
from mirrorlake.merge.statements import clean_column
from mirrorlake.runtime.repeats import Read, common_values
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.table.lake_tables import clean_of, deduped_of, deduped_table, raw_tables

# Of `SELECT … AS `name`, … FROM`: each column that a view of ours gives out.
_SHOWN = re.compile(r" AS `((?:[^`]|``)+)`(?=, | FROM )")


@dataclass(frozen=True)
class Exposure:
    """What clean shows that it must not: column → what is wrong with it, none of its values."""

    columns: int
    found: dict[str, str]


def find_exposed(lake: Lake, contract: TableContract, held: Collection[str] = ()) -> Exposure:
    """Look at what clean shows now, against the contract's rules and deduped's rows.

    Args:
        held: new columns that are held out of clean; see `mirrorlake.table.columns.new_columns`.

    Raises:
        LakeError: clean or deduped is not there, or can't be read.
    """
    hidden = dict.fromkeys(held, ColumnRule(pii="drop"))
    contract = contract.model_copy(update={"columns": {**contract.columns, **hidden}})
    identifier = clean_of(contract)
    deduped = deduped_table(lake, contract)
    table = lake.load(identifier)
    if table is not None:
        names = [field.name for field in table.schema().fields]
        return Exposure(len(names), _in_table(lake, contract, table, deduped))
    view = read_view(lake, identifier)
    if view is None:
        raise LakeError(
            f"clean table {identifier} is not there",
            table=contract.name,
            next_step="Materialise the table's chain first",
        )
    return Exposure(len(view.schema.fields), _in_view(lake, contract, view, deduped))


def stored_pci(lake: Lake, ledger: Ledger, contract: TableContract) -> dict[str, str]:
    """PCI columns that stand in any table of the chain: name of the column → of the table."""
    excluded = {name.lower() for name in contract.excluded}
    there = [lake.load(deduped_of(contract)), lake.load(clean_of(contract))]
    tables = [*raw_tables(lake, ledger, contract), *(t for t in there if t is not None)]
    return {
        field.name: ".".join(table.name())
        for table in tables
        for field in table.schema().fields
        if field.name.lower() in excluded
    }


def view_columns(definition: str) -> dict[str, str]:
    """The columns that a view of ours gives out, each with its SQL.

    >>> view_columns("SELECT `a` AS `a`, f(`b`) AS `b` FROM `lake`.`n`.`t`")
    {'a': '`a`', 'b': 'f(`b`)'}
    """
    shown: dict[str, str] = {}
    start = len("SELECT ")
    for match in _SHOWN.finditer(definition):
        shown[match[1].replace("``", "`")] = definition[start : match.start()]
        start = match.end() + len(", ")
    return shown


def _absent(contract: TableContract, name: str) -> str | None:
    """What is wrong with a column being there at all."""
    rule = contract.column_rule(name)
    if rule is not None and rule.pci:
        return "is never to be read (pci)"
    return "is to be dropped (pii)" if rule is not None and rule.pii == "drop" else None


# --- views ----------------------------------------------------------------------------------------


def _in_view(
    lake: Lake, contract: TableContract, view: LakeView, deduped: LakeTable
) -> dict[str, str]:
    """A view is its SQL: each column as the contract requires, of all rows of deduped."""
    columns = view_columns(view.sql)
    listed = ", ".join(f"{sql} AS {as_sql_identifier(name)}" for name, sql in columns.items())
    if view.sql != f"SELECT {listed} FROM {deduped_of(contract).sql}":  # noqa: S608
        return {"the view": "does not show deduped's rows: it was not made by Mirrorlake"}
    if [field.name for field in view.schema.fields] != list(columns):
        # `CREATE VIEW v (a, b) AS …` names them past the SQL, and may swap two.
        return {"the view": "gives its columns other names than its definition does"}
    types = {f.name: str(f.field_type).replace(" ", "") for f in deduped.schema().fields}
    found: dict[str, str] = {}
    for name, sql in columns.items():
        wrong = _absent(contract, name)
        if wrong is None and name == ORIGINAL:
            wrong = _originals_in_view(lake, contract, sql, deduped)
        elif wrong is None:
            rule = contract.column_rule(name)
            pii = rule.pii if rule else None
            if (wanted := clean_column(name, types.get(name, ""), pii)) and sql != wanted[2]:
                wrong = (
                    f"is not made as the rule {pii} requires" if pii else "is not deduped's column"
                )
        if wrong:
            found[name] = wrong
    return found


def _originals_in_view(
    lake: Lake, contract: TableContract, sql: str, deduped: LakeTable
) -> str | None:
    kept = _ruled_originals(lake, contract, deduped)
    through = sorted(name for name in kept if text_literal(name) not in sql)
    return f"keeps originals of {', '.join(through)}" if through else None


# --- tables ---------------------------------------------------------------------------------------


def _in_table(
    lake: Lake, contract: TableContract, clean: LakeTable, deduped: LakeTable
) -> dict[str, str]:
    found: dict[str, str] = {}
    held = {field.name for field in deduped.schema().fields}
    for field in clean.schema().fields:
        wrong = _absent(contract, field.name)
        rule = contract.column_rule(field.name)
        if wrong is None and field.name == ORIGINAL:
            kept = _ruled_originals(lake, contract, clean)
            wrong = f"keeps originals of {', '.join(sorted(kept))}" if kept else None
        elif wrong is None and rule is not None and rule.pii and field.name in held:
            ours = _texts(lake, clean, field.name)
            count = _shown(rule.pii, ours, _texts(lake, deduped, field.name))
            if count:
                wrong = f"shows {count} values as they are, and the rule is {rule.pii}"
        if wrong:
            found[field.name] = wrong
    return found


def _shown(rule: str, clean: Read, deduped: Read) -> int:
    """How many different values of clean the rule does not explain, though deduped has them."""
    if rule == "null":
        return len({v for batch in clean() for v in batch.column(0).drop_null().to_pylist()})
    both = common_values(clean, deduped)
    # A text that is its own mask reads the same on both sides; it is ten characters long, for of
    # fewer than six characters the mask is eight stars alone. No text is its own keyed hash.
    return len({v for v in both if rule != "mask" or v != "********" + v[-2:]})


def _texts(lake: Lake, table: LakeTable, column: str) -> Read:
    def read() -> Iterator[pa.RecordBatch]:
        for batch in read_batches(lake, table, (column,)):
            cells = batch.column(0)
            if not pa.types.is_binary(cells.type) and not pa.types.is_large_binary(cells.type):
                cells = cells.cast(pa.large_string())
            yield pa.RecordBatch.from_arrays([cells], names=[column])

    return read


def _ruled_originals(lake: Lake, contract: TableContract, table: LakeTable) -> set[str]:
    """Columns with a rule whose originals stand in a table."""
    if ORIGINAL not in {field.name for field in table.schema().fields}:
        return set()
    kept: set[str] = set()
    for batch in read_batches(lake, table, (ORIGINAL,)):
        kept.update(batch.column(0).flatten().field("column").drop_null().unique().to_pylist())
    return {name for name in kept if contract.column_rule(name) is not None}
