"""What clean shows of a table, by the contract's rules over deduped as the lake has it.

The clean view of the lake is made of a table that was resolved against its server
(`mirrorlake.merge.statements.clean_view_sql`); this is the same of one that was not, from the same
definition of each column.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mirrorlake.config.contract import Contract
from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.destinations.iceberg.model import LakeSchema
from mirrorlake.merge.statements import clean_column, originals_without, view_sql
from mirrorlake.schema.own_columns import ORIGINAL, hash_column
from mirrorlake.table.columns.clean_rules import rules_of
from mirrorlake.table.lake_tables import deduped_of


@dataclass(frozen=True)
class CleanSelect:
    """Clean's columns, each with its SQL over deduped.

    Attributes:
        lacking: columns whose hashes are not there. A view can't compute them: the key would stand
            in it.
    """

    columns: tuple[tuple[str, str], ...]
    sql: str
    lacking: tuple[str, ...]


def clean_select(
    contract: Contract,
    deduped: LakeSchema,
    held: Collection[str],
    there: Collection[str],
) -> CleanSelect:
    """What clean shows.

    Args:
        deduped: its columns in the lake.
        held: new columns that wait for the contract; see `mirrorlake.table.columns.new_columns`.
        there: the columns that can be shown: of deduped, and of hashes.
    """
    rules = rules_of(contract) | {name.lower(): "drop" for name in held}
    columns: list[tuple[str, str]] = []
    for field in deduped.fields:
        rule = rules.get(field.name.lower())
        if field.name == ORIGINAL or field.name not in there:
            continue
        shown = clean_column(field.name, str(field.field_type).replace(" ", ""), rule)
        if shown is not None and rule == "hash":
            columns.append((shown[0], as_sql_identifier(hash_column(field.name))))
        elif shown is not None:
            columns.append((shown[0], shown[2]))
    names = [field.name for field in deduped.fields]
    if ORIGINAL in there and ORIGINAL in names:
        # As deduped spells them, and as the contract does: of one that deduped has no more, too.
        spelled = {*(n for n in names if n.lower() in rules), *contract.rules, *rules, *held}
        columns.append((ORIGINAL, originals_without(sorted({*spelled, *contract.excluded}))))
    hashed = (name for name in names if rules.get(name.lower()) == "hash")
    lacking = tuple(name for name in hashed if hash_column(name) not in there)
    return CleanSelect(tuple(columns), view_sql(columns, deduped_of(contract)), lacking)
