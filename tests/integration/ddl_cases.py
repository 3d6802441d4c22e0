"""The columns of the DDL histories: their types, what they become, and values for each."""

from __future__ import annotations

SECRET = "mail"
FIRST = {
    "n": "INT",
    "s": "VARCHAR(20)",
    "d": "DECIMAL(8,2)",
    "born": "DATE",
    SECRET: "VARCHAR(40)",
    "state": "ENUM('a','b')",
}
"""What the table has at first, beside its key and its cursor; `SECRET` is masked."""
ADDED = (
    *("INT", "BIGINT", "VARCHAR(20)", "DECIMAL(8,2)", "DATE", "DATETIME(3)", "DOUBLE"),
    "ENUM('a','b')",
)
PLACES = ("", "", "FIRST", "AFTER id")
TEXTS = ("VARCHAR(60)", "VARCHAR(20)", "TEXT", "VARCHAR(30)")
_ANY = (
    *("INT", "BIGINT", "VARCHAR(40)", "VARCHAR(9)", "DECIMAL(12,2)", "DECIMAL(10,4)", "DOUBLE"),
    *("DATE", "DATETIME(3)", "TEXT"),
)
_LIKELY = {
    "int": ("BIGINT", "VARCHAR(20)"),
    "bigint": ("INT", "DECIMAL(12,2)"),
    "varchar": ("INT", "VARCHAR(40)", "VARCHAR(9)"),
    "decimal": ("DECIMAL(12,2)", "DECIMAL(10,4)", "DECIMAL(6,1)", "DECIMAL(38,9)"),
    "date": ("DATETIME(3)", "DATETIME"),
    "datetime": ("DATE", "DATETIME(6)"),
    "double": ("DECIMAL(10,4)", "VARCHAR(40)"),
}
_STRINGS = (
    *("''", "'7'", "'-12'", "'05'", "'fünf'", "'2026-01-05'", "'12.50'", "' x'", "'0xFF'"),
    *("'2026-01-05 00:00:00.000'", "'2147483648'", "'1.0E20'"),
)
_VALUES = {
    "int": ("0", "-7", "2147483647", "12"),
    "bigint": ("5", "-9007199254740993", "40000", "9223372036854775807"),
    "decimal": ("0", "-1.25", "999.5", "12"),
    "double": ("0.5", "-2.25", "1024", "8.125", "9007199254740994"),
    "varchar": _STRINGS,
    "text": _STRINGS,
    "date": ("'2026-01-05'", "'0000-00-00'", "'2024-00-15'", "'1999-12-31'"),
    "datetime": (
        *("'2026-01-05 00:00:00'", "'2026-01-05 07:08:09.120'", "'0000-00-00 00:00:00'"),
        "'1999-12-31 23:59:59'",
    ),
}


def retypes(kind: str) -> tuple[str, ...]:
    """What a column of a type may become; the likely ones more than once. An ENUM gets labels: one
    that loses its own would hold MySQL's error value."""
    base = kind.partition("(")[0].lower()
    if base != "enum":
        return (*_LIKELY.get(base, ()) * 3, *_ANY)
    more = (kind[:-1] + ",'ç')", kind[:-1] + ",'d','e')")
    return (*(one for one in more if "'ç','ç'" not in one and one.count("'d'") < 2), "VARCHAR(9)")


def literal(kind: str, number: int) -> str:
    """A value of a type as SQL, another one for each number."""
    base, _, sizes = kind.partition("(")
    values = _VALUES.get(base.lower()) or tuple(sizes.rstrip(")").split(","))
    return values[number % len(values)]
