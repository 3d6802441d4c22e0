"""What can be planted in the demo's lake: a table with a column of every type, and the faults.

The faults are written by Spark past the engine: into deduped, where people's queries look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

OLD, NEWER = "2020-01-01 00:00:00", "DATE_SUB(UTC_TIMESTAMP(6), INTERVAL 10 MINUTE)"
KEYED, LOOSE = "things", "loose_things"
"""A table compared by its key, and one without: compared as a multiset."""
ROWS = 200

# Column: MySQL's type, its value in row `seq` there, and another value in Spark's SQL.
TYPES: dict[str, tuple[str, str, str]] = {
    "c_tinyint": ("TINYINT", "seq % 100", "CAST(c_tinyint + 1 AS INT)"),
    "c_smallint": ("SMALLINT", "seq", "CAST(c_smallint + 1 AS INT)"),
    "c_mediumint": ("MEDIUMINT", "seq", "CAST(c_mediumint + 1 AS INT)"),
    "c_int": ("INT", "-CAST(seq AS SIGNED)", "CAST(c_int + 1 AS INT)"),
    "c_uint": ("INT UNSIGNED", "4294967000 + seq", "c_uint - 4294967296"),
    "c_bigint": ("BIGINT", "CAST(seq AS SIGNED) - 9223372036854775000", "c_bigint + 1"),
    "c_ubigint": (
        "BIGINT UNSIGNED",
        "18446744073709551000 + seq",
        "CAST(c_ubigint - 1 AS DECIMAL(20,0))",
    ),
    "c_decimal": ("DECIMAL(20,4)", "seq + 0.5", "CAST(c_decimal + 0.0001 AS DECIMAL(20,4))"),
    "c_long_decimal": ("DECIMAL(50,10)", "seq", "concat(c_long_decimal, '0')"),
    "c_float": ("FLOAT", "seq / 10", "CAST(c_float + 0.5 AS FLOAT)"),
    "c_double": ("DOUBLE", "-0e0", "CAST(1e-300 AS DOUBLE)"),
    "c_bit": ("BIT(8)", "b'101'", "c_bit + 1"),
    "c_bit64": ("BIT(64)", "18446744073709551615", "CAST(c_bit64 - 1 AS DECIMAL(20,0))"),
    "c_year": ("YEAR", "2000 + seq % 50", "CAST(c_year + 1 AS INT)"),
    "c_date": ("DATE", "'2024-05-01'", "date_add(c_date, 1)"),
    "c_datetime": (
        "DATETIME(6)",
        "'2024-05-01 12:00:00.123456'",
        "c_datetime + INTERVAL '0.000001' SECOND",
    ),
    "c_timestamp": ("TIMESTAMP(6) NULL", "'2024-05-01 12:00:00'", "c_timestamp + INTERVAL 1 DAY"),
    "c_time": ("TIME(3)", "'-12:34:56.789'", "'-12:34:56.790'"),
    "c_char": ("CHAR(10)", "'a'", "'A'"),
    "c_varchar": ("VARCHAR(40)", "CONCAT('text ', seq)", "upper(c_varchar)"),
    "c_empty": ("VARCHAR(10)", "''", "' '"),
    "c_text": ("TEXT", "REPEAT('ä', 300)", "concat(substr(c_text, 2), 'a')"),
    "c_binary": ("BINARY(4)", "x'00ff0102'", "X'00FF0103'"),
    "c_varbinary": ("VARBINARY(10)", "x'0001'", "X'0002'"),
    "c_blob": ("BLOB", "x'0001'", "X'000100'"),
    "c_enum": ("ENUM('a','b')", "'a'", "'b'"),
    "c_set": ("SET('x','y')", "'x,y'", "'x'"),
    "c_json": ("JSON", "'{\"a\": 1}'", "'{\"a\": 2}'"),
    "c_point": ("POINT", "POINT(1, 2)", "concat(c_point, X'00')"),
    "c_left": ("INT", "seq", "c_left + 1"),
    "c_right": ("INT", "seq + 1000", "c_right + 1"),
}


@dataclass(frozen=True)
class Fault:
    """One fault, in one row.

    Attributes:
        name: what it is, for people.
        statements: makes Spark's statements, of the table, the row's number and deduped as it was
            before the row's last change (``VERSION AS OF``).
        shows: what the check's words about it must hold; ``loose``: in a table without a key, where
            a changed row is one too few and one too many.
    """

    name: str
    statements: Callable[[str, int, str], tuple[str, ...]]
    shows: str
    loose: str = "the lake has this row"

    def found(self, row: int, lines: Sequence[str], *, keyed: bool) -> str:
        """The check's first words about this fault in this row, '' if there are none."""
        words = self.shows if keyed else self.loose
        named = (f"(id={row})", f"(id={row}, ")
        return next((li for li in lines if words in li and any(n in li for n in named)), "")


def _set(name: str, column: str, value: str) -> Fault:
    return Fault(
        name,
        lambda t, row, _: (f"UPDATE {t} SET {column} = {value} WHERE id = {row}",),  # noqa: S608
        f"`{column}` does not match",
    )


def altered(column: str) -> Fault:
    """One altered cell of a type."""
    return _set(f"an altered cell: {column}", column, TYPES[column][2])


def _lose(table: str, row: int, _: str) -> tuple[str, ...]:
    return (f"DELETE FROM {table} WHERE id = {row}",)  # noqa: S608


def _double(table: str, row: int, _: str) -> tuple[str, ...]:
    return (f"INSERT INTO {table} SELECT * FROM {table} WHERE id = {row}",)  # noqa: S608


def _bring_back(table: str, row: int, before: str) -> tuple[str, ...]:
    """The row as it was before MySQL last changed it; one that MySQL deleted since is back."""
    return (
        f"DELETE FROM {table} WHERE id = {row}",  # noqa: S608
        f"INSERT INTO {table} SELECT * FROM {before} WHERE id = {row}",  # noqa: S608
    )


LOST = Fault("a lost row", _lose, "the lake has not", "the lake has not")
DOUBLED = Fault("a doubled row", _double, "a second row")
STALE = Fault("a stale row", _bring_back, "`c_varchar` does not match")
RESURRECTED = Fault("a resurrected delete", _bring_back, "gone from MySQL")
CELLS = (
    _set("NULL for ''", "c_empty", "NULL"),
    _set("0.0 for -0.0", "c_double", "CAST(0 AS DOUBLE)"),
    _set("a trailing space", "c_varchar", "concat(c_varchar, ' ')"),
    _set("a shifted time zone", "c_timestamp", "c_timestamp + INTERVAL 2 HOURS"),
    _set("another scale", "c_decimal", "CAST(c_decimal * 10 AS DECIMAL(20,4))"),
    Fault(
        "swapped columns",
        lambda t, row, _: (
            f"UPDATE {t} SET c_left = c_right, c_right = c_left WHERE id = {row}",  # noqa: S608
        ),
        "`c_right` does not match",
    ),
)
ROW_FAULTS = (LOST, DOUBLED, STALE, RESURRECTED, *CELLS)
TRUNCATED, UNDONE = "a truncated data file", "a lost commit"
FILE_FAULTS = (TRUNCATED, UNDONE)
DELETED_BY_OTHERS, ADDED_BY_OTHERS = "other hands: a row deleted", "other hands: a row added"
SET_BACK_BY_OTHERS = "other hands: an older version shown"
DROPPED_BY_OTHERS = "other hands: dropped from the catalog"
PURGED_BY_OTHERS = "other hands: gone with its files"
REPLACED_BY_OTHERS = "other hands: renamed, and another in its place"
RAW_SET_BACK_BY_OTHERS = "other hands: an older version of raw shown"
RAW_ADDED_BY_OTHERS = "other hands: a row added to raw"
RAW_DROPPED_BY_OTHERS = "other hands: raw dropped from the catalog"
CATALOG_SET_BACK_BY_OTHERS = "other hands: an older copy of the catalog"
VIEW_DROPPED_BY_OTHERS = "other hands: clean's view dropped"
OLDER_LEDGER, LOST_LEDGER = "other hands: an older copy of the ledger", "other hands: no ledger"
HAND_FAULTS = (
    *(DELETED_BY_OTHERS, ADDED_BY_OTHERS, SET_BACK_BY_OTHERS, DROPPED_BY_OTHERS),
    *(PURGED_BY_OTHERS, REPLACED_BY_OTHERS),
    *(RAW_SET_BACK_BY_OTHERS, RAW_ADDED_BY_OTHERS, RAW_DROPPED_BY_OTHERS),
    *(CATALOG_SET_BACK_BY_OTHERS, VIEW_DROPPED_BY_OTHERS),
    *(OLDER_LEDGER, LOST_LEDGER),
)
"""What a colleague with a Spark of his own does: no commit of it carries a word of ours."""
DELETED = ROWS
"""The row that MySQL deletes before faults are planted; every other row was changed."""


def create_sql(table: str) -> tuple[str, ...]:
    """MySQL's statements that make one of the two tables, with rows of long ago."""
    columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in TYPES.items())
    key = "PRIMARY KEY" if table == KEYED else "NOT NULL"
    values = ", ".join(value for _, value, _ in TYPES.values())
    return (
        f"CREATE TABLE {table} (id BIGINT {key}, {columns}, "
        "modified_at TIMESTAMP(6) NOT NULL DEFAULT '2020-01-01', KEY (modified_at))",
        f"INSERT INTO {table} SELECT seq, {values}, '{OLD}' FROM seq_1_to_{ROWS}",  # noqa: S608
    )


def change_sql(table: str) -> tuple[str, ...]:
    """MySQL's statements that change every row, and delete one."""
    return (
        f"UPDATE {table} SET c_varchar = CONCAT('newer ', id), modified_at = {NEWER}",  # noqa: S608
        f"DELETE FROM {table} WHERE id = {DELETED}",  # noqa: S608
    )
