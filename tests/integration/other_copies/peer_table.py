"""A table with the types of docs/types.md, and values that tools are known to lose."""

from __future__ import annotations

COLUMNS = {
    "flag": "TINYINT(1)",
    "int_u": "INT UNSIGNED",
    "big": "BIGINT",
    "big_u": "BIGINT UNSIGNED",
    "money": "DECIMAL(10,2)",
    "dec38": "DECIMAL(38,10)",
    "dec65": "DECIMAL(65,30)",
    "f": "FLOAT",
    "d": "DOUBLE",
    "bit1": "BIT(1)",
    "bit9": "BIT(9)",
    "y": "YEAR",
    "dat": "DATE",
    "dtm": "DATETIME",
    "dtm6": "DATETIME(6)",
    "ts": "TIMESTAMP NULL",
    "ts6": "TIMESTAMP(6) NULL",
    "tim": "TIME",
    "tim6": "TIME(6)",
    "chr": "CHAR(10)",
    "vchr": "VARCHAR(40)",
    "txt": "TEXT",
    "lat": "VARCHAR(40) CHARACTER SET latin1",
    "enm": "ENUM('a','b','')",
    "sett": "SET('a','b','c')",
    "doc": "JSON",
    "bin4": "BINARY(4)",
    "vbin": "VARBINARY(10)",
    "blb": "BLOB",
    "pnt": "POINT",
    "uid": "UUID",
}
"""Name → MySQL's type, beside the key `id`."""

ORDINARY = {
    "flag": "1", "int_u": "7", "big": "-7", "big_u": "7", "money": "12.50", "dec38": "1.5",
    "dec65": "1.5", "f": "0.5", "d": "0.1", "bit1": "b'1'", "bit9": "b'101'", "y": "2024",
    "dat": "'2024-01-31'", "dtm": "'2024-01-31 12:00:00'", "dtm6": "'2024-01-31 12:00:00.5'",
    "ts": "'2024-01-31 12:00:00'", "ts6": "'2024-01-31 12:00:00.5'", "tim": "'10:00:00'",
    "tim6": "'10:00:00.5'", "chr": "'abc'", "vchr": "'abc'", "txt": "'abc'", "lat": "'abc'",
    "enm": "'a'", "sett": "'a,b'", "doc": "'{\"a\": 1}'", "bin4": "'abcd'", "vbin": "'ab'",
    "blb": "'abc'", "pnt": "ST_GeomFromText('POINT(1 2)')",
    "uid": "'123e4567-e89b-12d3-a456-426655440000'",
}  # fmt: skip
EXTREME = ORDINARY | {
    "flag": "2", "int_u": "3349714808", "big": "9223372036854775807",
    "big_u": "18446744073709551615", "money": "99999999.99",
    "dec38": "1234567890123456789012345678.0123456789",
    "dec65": "12345678901234567890123456789012345.000000000000000000000000000001",
    "f": "123456.789", "d": "-0e0", "bit1": "b'0'", "bit9": "b'111111111'",
    "dat": "'9999-12-31'", "dtm": "'1000-01-01 00:00:00'", "dtm6": "'9999-12-31 23:59:59.999999'",
    "ts": "'2038-01-19 03:14:07'", "ts6": "'2024-07-31 12:00:00.123456'",
    "tim": "'-100:00:00'", "tim6": "'838:59:59.000001'", "vchr": "'é😀  '",
    "txt": "'a\\r\\nb\\0c '", "lat": "'é€'", "enm": "''", "sett": "''",
    "doc": "'{\"b\": 1.0,  \"a\": 12345678901234567890}'", "bin4": "x'61000000'", "vbin": "x'00ff'",
    "blb": "x'fffe00'", "pnt": "ST_GeomFromText('POINT(1 2)', 4326)",
}  # fmt: skip
ZERO = {
    "d": "0.1234567890123456", "f": "0.1", "bit9": "b'1'", "doc": "'[]'", "chr": "'a b'",
    "y": "0", "dat": "'0000-00-00'", "dtm": "'0000-00-00 00:00:00'",
    "dtm6": "'2024-00-15 00:00:00'", "ts": "'0000-00-00 00:00:00'", "vchr": "''", "enm": "'none'",
}  # fmt: skip
"""NULL in every other column."""


def statements(columns: dict[str, str] = COLUMNS, table: str = "every_type") -> list[str]:
    """SQL that makes the table, with rows 1 ordinary, 2 extreme, 3 zero, 4 NULL."""
    defined = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    made = [f"CREATE TABLE {table} (id INT PRIMARY KEY, {defined})"]
    for number, row in enumerate((ORDINARY, EXTREME, ZERO, {}), 1):
        cells = ", ".join(row.get(name, "NULL") for name in columns)
        made.append(f"INSERT INTO {table} VALUES ({number}, {cells})")
    return made
