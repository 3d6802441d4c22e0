"""What clean shows of an older version of deduped, by the contract's rules of now.

A column is known by its field id, whatever it was called then: what the contract says of its name
of now is its rule. One that deduped has no more is left out: nobody says what its rule would be.

What belongs here: that SELECT. What doesn't: clean of now (`mirrorlake.serving.views`).
"""

from __future__ import annotations

from collections.abc import Collection

from mirrorlake.config.contract import TableContract
from mirrorlake.destinations.base import as_sql_identifier, text_literal
from mirrorlake.destinations.iceberg.model import LakeSchema
from mirrorlake.destinations.iceberg.tables.schemas import current_schema
from mirrorlake.merge.statements import clean_column
from mirrorlake.schema.own_columns import DELETED_AT, ORIGINAL
from mirrorlake.serving.views import ViewText
from mirrorlake.table.columns.clean_rules import rules_of


def clean_at(
    contract: TableContract,
    now: LakeSchema,
    then: LakeSchema,
    held: Collection[str],
    over: str,
) -> ViewText | None:
    """Clean of a version; None where it would show no column.

    Args:
        now: deduped's columns.
        then: its columns in the version.
        held: new columns that wait for the contract; see `mirrorlake.table.columns.new_columns`.
        over: the version, in SQL.
    """
    rules = rules_of(contract) | {name.lower(): "drop" for name in held}
    today = {field.field_id: field.name for field in now.fields}
    shown: list[tuple[str, str, str]] = []
    plain: list[str] = []
    for field in then.fields:
        name = field.name
        if name in (ORIGINAL, DELETED_AT) or field.field_id not in today:
            continue
        # By its name of then, too: rather hidden twice than shown once.
        rule = rules.get(today[field.field_id].lower()) or rules.get(name.lower())
        column = clean_column(name, str(field.field_type).replace(" ", ""), rule)
        if rule == "hash" or column is None:
            continue  # a view can't hash: its key would stand in it
        shown.append(column)
        if column[2] == as_sql_identifier(name):
            plain.append(name)
    if not shown:
        return None
    names = {field.name for field in then.fields}
    if DELETED_AT in names:
        shown.append((DELETED_AT, "timestamptz", as_sql_identifier(DELETED_AT)))
    stored = [(name, kind) for name, kind, _ in shown]
    columns = [(name, sql) for name, _, sql in shown]
    if ORIGINAL in names:
        columns.append((ORIGINAL, _originals_of(plain)))
    listed = ", ".join(f"{sql} AS {as_sql_identifier(name)}" for name, sql in columns)
    schema = current_schema(stored, ORIGINAL in names)
    return ViewText(f"SELECT {listed} FROM {over}", tuple(n for n, _ in columns), schema)  # noqa: S608


def _originals_of(columns: Collection[str]) -> str:
    """The originals of some columns alone, NULL where there is none."""
    original = as_sql_identifier(ORIGINAL)
    names = ", ".join(text_literal(name) for name in columns) or "''"
    kept = f"filter({original}, x -> x.column IN ({names}))"
    return f"CASE WHEN size({kept}) > 0 THEN {kept} END"
