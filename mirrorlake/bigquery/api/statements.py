"""Statements in BigQuery's SQL. Names were looked at by `types.py`; none holds a backtick.

Source: BigQuery, "GoogleSQL reference": "Data manipulation language", "Hash functions".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date

from mirrorlake.bigquery.api.types import FieldJson

GONE = "_mirror_gone"
"""In a table of changes: whether the row with this key is there no more."""
_HASH_PARTS = 4
"""Into how many numbers a row's hash is cut, of eight hexadecimal digits each."""


def merge_sql(
    target: str, staging: str, columns: Sequence[str], key: Sequence[str], bounds: str = ""
) -> str:
    """One statement that makes a table what it is after the changes in another one; done twice, it
    changes nothing more.

    Args:
        bounds: a condition that each row ``T`` of the table fulfils whose key is among the changes.
    """
    same = " AND ".join(f"T.{_quoted(name)} = S.{_quoted(name)}" for name in key)
    same += f" AND ({bounds})" if bounds else ""
    others = [name for name in columns if name not in key]
    sets = ", ".join(f"{_quoted(name)} = S.{_quoted(name)}" for name in others)
    update = [f"WHEN MATCHED THEN UPDATE SET {sets}"] if others else []
    names = ", ".join(map(_quoted, columns))
    values = ", ".join(f"S.{_quoted(name)}" for name in columns)
    insert = f"INSERT ({names}) VALUES ({values})"  # noqa: S608 – names
    lines = [
        f"MERGE {_quoted(target)} T USING {_quoted(staging)} S ON {same}",
        f"WHEN MATCHED AND S.{_quoted(GONE)} THEN DELETE",
        *update,
        f"WHEN NOT MATCHED AND NOT S.{_quoted(GONE)} THEN {insert}",
    ]
    return "\n".join(lines)


def bounds_sql(column: FieldJson, ranges: Sequence[tuple[date, date]], *, unset: bool) -> str:
    """Whether a row ``T`` has a day within some ranges, both ends included, in literals alone: by
    these BigQuery leaves the other partitions unread.

    Args:
        unset: whether rows without a day are meant, too.
    """
    name, kind = f"T.{_quoted(column['name'])}", column["type"]
    first, last = _ENDS[kind]
    parts = [
        f"{name} BETWEEN {kind} '{lo.isoformat()}{first}' AND {kind} '{hi.isoformat()}{last}'"
        for lo, hi in ranges
    ]
    parts += [f"{name} IS NULL"] if unset else []
    return " OR ".join(parts) or "FALSE"


_ENDS = {
    "DATE": ("", ""),
    "DATETIME": (" 00:00:00", " 23:59:59.999999"),
    "TIMESTAMP": (" 00:00:00+00", " 23:59:59.999999+00"),
}
"""What follows a day in the literal of its first and of its last moment, by type."""


def replace_sql(target: str, staging: str, columns: Sequence[str], leaving: str) -> str:
    """One statement that puts the rows of another table in the place of those that leave; done
    twice, it changes nothing more.

    Args:
        leaving: a condition on a row ``T`` of the table, in literals alone, that every row of the
            other table fulfils, too.
    """
    names = ", ".join(map(_quoted, columns))
    values = ", ".join(f"S.{_quoted(name)}" for name in columns)
    insert = f"INSERT ({names}) VALUES ({values})"  # noqa: S608 – names
    return "\n".join(
        [
            f"MERGE {_quoted(target)} T USING {_quoted(staging)} S ON FALSE",
            f"WHEN NOT MATCHED BY SOURCE AND ({leaving}) THEN DELETE",
            f"WHEN NOT MATCHED THEN {insert}",
        ]
    )


def parts_sql(fields: Sequence[FieldJson], parts: Sequence[Sequence[str | None]]) -> str:
    """Whether a row ``T`` is of one of some partitions, in literals alone.

    Args:
        fields: the columns by which they are.
        parts: the values of each as texts; None: NULL.
    """
    if len(fields) == 1:
        values = [part[0] for part in parts]
        return _is_one_of(fields[0], values)
    by_rest: dict[tuple[str | None, ...], list[str | None]] = {}
    for first, *rest in parts:
        by_rest.setdefault(tuple(rest), []).append(first)
    # For each value of the others those of the first: the text stays short where they are a grid.
    grid: dict[tuple[str | None, ...], list[tuple[str | None, ...]]] = {}
    for rest, firsts in by_rest.items():
        grid.setdefault(tuple(firsts), []).append(rest)
    return " OR ".join(
        f"({_is_one_of(fields[0], firsts)}) AND ({parts_sql(fields[1:], rests)})"
        for firsts, rests in grid.items()
    )


def _is_one_of(field: FieldJson, values: Sequence[str | None]) -> str:
    name = f"T.{_quoted(field['name'])}"
    literals = ", ".join(LITERALS[field["type"]](one) for one in values if one is not None)
    found = [f"{name} IN ({literals})"] if literals else []
    return " OR ".join([*found, *([f"{name} IS NULL"] if None in values else [])])


def _text_literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + escaped.replace("\n", "\\n").replace("\r", "\\r") + "'"


LITERALS: Mapping[str, Callable[[str], str]] = {
    "BOOLEAN": str,
    "INTEGER": str,
    "STRING": _text_literal,
    "DATE": "DATE '{}'".format,
    "DATETIME": "DATETIME '{}'".format,
    "TIMESTAMP": "TIMESTAMP '{}'".format,
}
"""The literal of a value's text, by its type; of others none is exact."""


def snapshot_sql(target: str, source: str) -> str:
    """A table that stays what another one is now, and that nobody can write to; no row is copied.
    One of that name stays as it is: the statement may be run twice.

    Source: BigQuery, "Introduction to table snapshots".
    """
    return f"CREATE SNAPSHOT TABLE IF NOT EXISTS {_quoted(target)} CLONE {_quoted(source)}"


def count_sql(table: str) -> str:
    """How many rows a table has."""
    return f"SELECT COUNT(*) AS found FROM {_quoted(table)}"  # noqa: S608 – a quoted name


def digest_sql(table: str, fields: Sequence[FieldJson]) -> str:
    """A table's rows and the sums of the parts of their hashes, in whatever order the rows are.

    Each cell is its length and its text, or ``-`` for NULL, so that two rows that differ never have
    one text: `mirrorlake.bigquery.lake_digest` writes the same of the lake's rows.
    """
    row = ", ".join(_cell(field) for field in fields)
    sums = ", ".join(
        f"SUM(CAST(CONCAT('0x', SUBSTR(h, {part * 8 + 1}, 8)) AS INT64)) AS part{part}"
        for part in range(_HASH_PARTS)
    )
    hashes = f"SELECT TO_HEX(MD5(CONCAT({row}))) AS h FROM {_quoted(table)}"  # noqa: S608 – names
    return f"SELECT COUNT(*) AS found, {sums} FROM ({hashes})"  # noqa: S608 – names


def _cell(field: FieldJson) -> str:
    name = _quoted(field["name"])
    if field["mode"] == "REPEATED":
        inner = f"CONCAT({_sized('e.`column`')}, {_sized('e.text')})"
        entries = f"FROM UNNEST({name}) AS e WITH OFFSET AS at"
        return _sized(f"(SELECT STRING_AGG({inner}, '' ORDER BY at) {entries})")
    return _sized(_TEXTS[field["type"]].format(name))


def _sized(text: str) -> str:
    return f"IFNULL(CONCAT(CAST(BYTE_LENGTH({text}) AS STRING), ':', {text}), '-')"


# A number's text ends in zeros or not, by its type: without them it is one text for one number.
_NUMBER = (
    "IF(STRPOS(CAST({0} AS STRING), '.') > 0,"
    " RTRIM(RTRIM(CAST({0} AS STRING), '0'), '.'), CAST({0} AS STRING))"
)
_TEXTS = {
    "BOOLEAN": "CAST({0} AS STRING)",
    "INTEGER": "CAST({0} AS STRING)",
    "NUMERIC": _NUMBER,
    "BIGNUMERIC": _NUMBER,
    "FLOAT": "FORMAT('%.17g', {0})",
    "STRING": "{0}",
    "BYTES": "TO_HEX({0})",
    "DATE": "CAST(UNIX_DATE({0}) AS STRING)",
    "DATETIME": "CAST(DATETIME_DIFF({0}, DATETIME '1970-01-01 00:00:00', MICROSECOND) AS STRING)",
    "TIMESTAMP": "CAST(UNIX_MICROS({0}) AS STRING)",
}
"""The text of a cell, by its type."""


def _quoted(name: str) -> str:
    return f"`{name}`"
