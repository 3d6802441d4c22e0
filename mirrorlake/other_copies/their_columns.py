"""Which columns of the copy are which of MySQL's, and which are its tool's own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mirrorlake.config.fields import nearest
from mirrorlake.errors import ConfigError
from mirrorlake.other_copies.our_rows import OurColumn
from mirrorlake.schema.own_columns import ORIGINAL

_TOOLS: Final = {
    "dlt": r"_dlt_.*|.*__v_(text|bigint|double|decimal|bool|timestamp|date|time|binary|json)",
    "Airbyte": r"_airbyte_.*|_ab_.*",
    "Debezium": r"__(deleted|op|ts_ms|ts_us|ts_ns|lsn|db|table|schema|file|pos|row|gtid|server_id)"
    r"|__source_.*|__transaction_.*",
    "Fivetran": r"_fivetran_.*",
    "OLake": r"_olake_.*|_op_type|_cdc_timestamp",
    "Datastream": r"datastream_metadata|_metadata_.*",
    "Singer": r"_sdc_.*",
    "Hevo": r"__hevo_.*",
    "rivet": r"_rivet_.*",
    "Sling": r"_sling_.*",
    "Estuary": r"_meta/.*|flow_document|flow_published_at",
    "DMS": r"op|dms_.*|transact_id",
    "Hudi": r"_hoodie_.*",
    "Mirrorlake": r"_mirror_.*",
}
"""Columns of a tool's own, by patterns of their names in small letters."""
_DELETED: Final = {
    **dict.fromkeys(
        ("__deleted", "_fivetran_deleted", "__hevo__marked_deleted", "_mirror_deleted"),
        "lower(CAST({c} AS VARCHAR)) IN ('true', '1', 't')",
    ),
    **dict.fromkeys(
        ("_ab_cdc_deleted_at", "_sdc_deleted_at", "_mirror_deleted_at"), "{c} IS NOT NULL"
    ),
    **dict.fromkeys(("_op_type", "__op", "op"), "lower(CAST({c} AS VARCHAR)) IN ('d', 'delete')"),
}
"""SQL that is true of a row that its tool marks as deleted, by the column that says so."""


_ORIGINALS: Final = 'STRUCT("column" VARCHAR, "text" VARCHAR)[]'


def tool_of(name: str) -> str | None:
    """The tool that makes a column of this name.

    >>> tool_of("_dlt_load_id"), tool_of("id")
    ('dlt', None)
    """
    found = (tool for tool, pattern in _TOOLS.items() if re.fullmatch(pattern, name.lower()))
    return next(found, None)


@dataclass(frozen=True)
class ColumnMap:
    """What belongs together.

    Attributes:
        pairs: MySQL's column and the copy's name of it, in MySQL's order.
        missing: columns of MySQL's that the copy has not.
        tools: columns of the copy's that its tool made, with the tool's name.
        surplus: other columns of the copy's that MySQL has not.
        deleted: SQL over the copy that is true of rows which its tool marks as deleted, by the
            column that says so.
        originals: whether the copy keeps the texts of values that have no place in their column.
    """

    pairs: tuple[tuple[OurColumn, str], ...]
    missing: tuple[str, ...]
    tools: Mapping[str, str]
    surplus: tuple[str, ...]
    deleted: Mapping[str, str]
    originals: bool


def map_columns(
    ours: Sequence[OurColumn],
    types: Mapping[str, str],
    declared: Mapping[str, str],
    left_out: Sequence[str],
    key: Sequence[str] = (),
) -> ColumnMap:
    """Pair columns: those that are declared, then by name, by name in any case, and by what tools
    make of a name (``Customer ID`` → ``customer_id``).

    Args:
        types: the copy's columns, with DuckDB's types.
        declared: the copy's name → MySQL's.
        left_out: MySQL's columns that are not to be compared.
        key: MySQL's columns by which rows are to be paired.

    Raises:
        ConfigError: a name that was given is not there, or no column is in both.
    """
    names, theirs = [one.column.name for one in ours], [*types]
    _refuse_unknown(names, theirs, declared, {"--leave-out": left_out, "--key": key})
    found = {_name_in(names, mine): their for their, mine in declared.items()}
    free = [name for name in theirs if name not in found.values()]
    for form in (str, str.lower, _plain):
        for name in names:
            if name in found:
                continue
            alike = [one for one in free if form(one) == form(name)]
            if len(alike) == 1:
                found[name] = alike[0]
                free.remove(alike[0])
    out = {_name_in(names, name) for name in left_out}
    pairs = [(one, found[one.column.name]) for one in ours if one.column.name in found]
    pairs = [(one, name) for one, name in pairs if one.column.name not in out]
    if not pairs:
        raise ConfigError(
            f"no column is in both: MySQL has {_some(names)}, the copy has {_some(theirs)}",
            next_step="Say which is which: --map theirs=ours",
        )
    tools = {name: tool for name in free if (tool := tool_of(name)) is not None}
    deleted = {
        name: _DELETED[name.lower()].format(c=quoted(name))
        for name in tools
        if name.lower() in _DELETED
    }
    if "datastream_metadata" in tools:
        inside = f"{quoted('datastream_metadata')}.change_type"
        deleted["datastream_metadata"] = f"CAST({inside} AS VARCHAR) = 'DELETE'"
    originals = types.get(ORIGINAL) == _ORIGINALS
    if originals:  # it is read with its columns
        free.remove(ORIGINAL)
        del tools[ORIGINAL]
    return ColumnMap(
        pairs=tuple(pairs),
        missing=tuple(name for name in names if name not in found and name not in out),
        tools=tools,
        surplus=tuple(name for name in free if name not in tools),
        deleted=deleted,
        originals=originals,
    )


def _refuse_unknown(
    names: Sequence[str],
    theirs: Sequence[str],
    declared: Mapping[str, str],
    given: Mapping[str, Sequence[str]],
) -> None:
    """See that all names that were given are there.

    Args:
        given: MySQL's columns, by the option that names them.
    """
    for their, mine in declared.items():
        if their not in theirs:
            raise ConfigError(
                f"--map {their}={mine}: the copy has no column {their!r}"
                f"{nearest(their, [*theirs])}",
                next_step=f"It has {_some(theirs)}",
            )
    known = {name.lower() for name in names}
    for option, asked in {"--map": declared.values(), **given}.items():
        if unknown := [one for one in asked if one.lower() not in known]:
            raise ConfigError(
                f"{option}: MySQL has no column {unknown[0]!r}{nearest(unknown[0], [*names])}",
                next_step=f"It has {_some(names)}",
            )


def _name_in(names: Sequence[str], wanted: str) -> str:
    return next(name for name in names if name.lower() == wanted.lower())


def _plain(name: str) -> str:
    """A name as tools write it: words in small letters.

    >>> _plain("CustomerID"), _plain("Customer ID"), _plain("customer_id")
    ('customerid', 'customerid', 'customerid')
    """
    return re.sub(r"[\W_]+", "", name.lower())


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 8:,} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def quoted(name: str) -> str:
    """An identifier of DuckDB's."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in DuckDB's SQL."""
    return "'" + text.replace("'", "''") + "'"
