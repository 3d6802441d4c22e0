"""SQL of the raw table of one version, in the columns of another: under the names and in the types
of now, or of all versions.

What belongs here: which column of a version is which, and in what type. What doesn't: SQL of two
types (`mirrorlake.merge.row_sql.conversions`), and what a table's columns are
(`mirrorlake.merge.row_sql.raw_versions`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from mirrorlake.destinations.base import as_sql_identifier, text_literal
from mirrorlake.destinations.iceberg.model import LakeTable, column_names
from mirrorlake.destinations.iceberg.tables.schemas import stored_types
from mirrorlake.merge.row_sql.conversions import Conversion, convert, sql_type
from mirrorlake.merge.row_sql.json_form import json_structure
from mirrorlake.schema.lattice import StoredType, common_type
from mirrorlake.schema.own_columns import ORIGINAL, SEQ


class Naming(Protocol):
    """How columns are called in a version: a table's contract says it, or a shape of tenants."""

    @property
    def is_utc(self) -> bool:
        """Whether times without a zone are written by UTC."""
        ...

    def name_in(self, names: Iterable[str], column: str) -> str | None:
        """What a column is called among the names of a version; None if it is not there."""
        ...

    def another_until(self, column: str, then: str) -> int:
        """The number of the last load in which a name of a column was another column's; 0: it never
        was."""
        ...


def types_over(
    plan: Naming, now: Mapping[str, str], tables: Sequence[LakeTable]
) -> dict[str, StoredType]:
    """The same of a table that was not resolved against its server.

    Args:
        now: the columns of now, each with its type in Iceberg's words.
    """
    versions = [stored_types(table) for table in tables]
    found = {name: [kind] for name, kind in now.items()}
    then = (plan.name_in(there, name) for there in versions for name in found)
    # To MySQL and to Spark a name in another case is the same one.
    ours = {name.lower() for name in (*found, *then) if name is not None}
    former: dict[str, str] = {}
    for there in reversed(versions):
        for name in there:
            if name.lower() not in ours:
                former.setdefault(name.lower(), name)
    found |= {name: [] for name in former.values()}
    for there in versions:
        for name, types in found.items():
            then = plan.name_in(there, name)
            if then is not None:
                types.append(there[then].iceberg)
    return {
        name: StoredType(common_type(types, utc=plan.is_utc).type) for name, types in found.items()
    }


def version_columns(
    plan: Naming,
    table: LakeTable | None,
    wanted: Mapping[str, StoredType],
    structured: Collection[str] = (),
    filled: Mapping[str, str] | None = None,
) -> list[str]:
    """SQL of columns as one raw table has them: under the name that they had then, NULL where its
    version lacks one, in the types wanted.

    Args:
        structured: texts that are shown by the structure of their JSON.
        filled: columns that have one value in rows of versions that lack them, and its text.
    """
    texts = {name: text_literal(text) for name, text in (filled or {}).items()}
    found: list[str] = []
    conversions = converted(plan, table, wanted)
    for name, kind in wanted.items():
        column = as_sql_identifier(name)
        if name not in conversions:
            found.append(f"CAST({texts.get(name, 'NULL')} AS {sql_type(kind.iceberg)}) AS {column}")
        elif name in structured:
            found.append(f"{json_structure(conversions[name].value)} AS {column}")
        elif conversions[name].value == column:
            found.append(column)
        else:
            found.append(f"{conversions[name].value} AS {column}")
    return found


def version_originals(
    plan: Naming, table: LakeTable | None, wanted: Mapping[str, StoredType]
) -> str:
    """SQL of a raw table's originals of these columns, under the names that they have now, and of
    values that have no place in the types wanted; NULL where a row has none."""
    stored = _stored_originals(plan, table, wanted)
    lost = [
        f"CASE WHEN ({found.original}) IS NOT NULL THEN"
        f" named_struct('column', {text_literal(name)}, 'text', {found.original}) END"
        for name, found in converted(plan, table, wanted).items()
        if found.original is not None
    ]
    if not lost:
        return f"{stored} AS {ORIGINAL}" if stored != ORIGINAL else ORIGINAL
    texts = f"filter(array({', '.join(lost)}), x -> x IS NOT NULL)"
    entries = f"array_sort(concat({texts}, coalesce({stored}, {_NONE})))"
    return f"CASE WHEN size({entries}) > 0 THEN {entries} END AS {ORIGINAL}"


_ENTRIES = "array<struct<column:string,text:string>>"
_NONE = f"CAST(array() AS {_ENTRIES})"
NO_ORIGINALS = f"CAST(NULL AS {_ENTRIES}) AS {ORIGINAL}"
"""SQL of the originals of a raw table that has none."""


def _stored_originals(
    plan: Naming, table: LakeTable | None, wanted: Mapping[str, StoredType]
) -> str:
    there = column_names(table.schema()) if table is not None else []
    if ORIGINAL not in there:
        return f"CAST(NULL AS {_ENTRIES})"
    now = {then: name for name in wanted if (then := plan.name_in(there, name)) is not None}
    own = {name for name in there if not name.startswith("_mirror_")}
    same = all(then == name and not plan.another_until(name, then) for then, name in now.items())
    if own <= now.keys() and same:
        return ORIGINAL
    names = ", ".join(text_literal(then) for then in now)
    others = [
        f" AND NOT (x.column = {text_literal(then)} AND {SEQ} <= {until})"
        for then, name in now.items()
        if (until := plan.another_until(name, then))
    ]
    kept = f"filter({ORIGINAL}, x -> x.column IN ({names}){''.join(others)})"
    cases = " ".join(
        f"WHEN {text_literal(then)} THEN {text_literal(name)}" for then, name in now.items()
    )
    entry = f"named_struct('column', CASE x.column {cases} END, 'text', x.text)"
    entries = f"array_sort(transform({kept}, x -> {entry}))"
    return f"CASE WHEN size({kept}) > 0 THEN {entries} END"


def converted(
    plan: Naming, table: LakeTable | None, wanted: Mapping[str, StoredType]
) -> dict[str, Conversion]:
    """The columns that a raw table has of these."""
    there, utc = stored_types(table), plan.is_utc
    names = {name: plan.name_in(there, name) for name in wanted}
    return {
        name: convert(_own(plan, name, then), there[then], wanted[name], utc=utc)
        for name, then in names.items()
        if then is not None
    }


def _own(plan: Naming, name: str, then: str) -> str:
    """SQL of a column where its name was its own, and not another's that was dropped since."""
    column, until = as_sql_identifier(then), plan.another_until(name, then)
    if not until:
        return column
    return f"CASE WHEN {SEQ} > {until} THEN {column} END"
