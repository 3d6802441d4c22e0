"""Every type of MySQL and MariaDB with its boundary values, as a table's columns and SQL literals.

A case is (what follows the column's name in CREATE TABLE, literals). Values are written by the
server under a lenient ``sql_mode``, so that zero dates and errors of ENUM are stored too.
"""

from __future__ import annotations

from dataclasses import dataclass

MARIADB, MYSQL8 = "mariadb", "mysql8"


@dataclass(frozen=True)
class Case:
    """A column's definition, its values, and the servers that have the type (None: all)."""

    ddl: str
    values: tuple[str, ...]
    server: str | None = None

    def spelled(self, word: str, other: str) -> Case:
        """The same with another word, wherever one stands."""
        values = tuple(value.replace(word, other) for value in self.values)
        return Case(self.ddl.replace(word, other), values, self.server)


def _integers() -> list[Case]:
    cases: list[Case] = []
    for kind, bits in (
        ("TINYINT", 8),
        ("SMALLINT", 16),
        ("MEDIUMINT", 24),
        ("INT", 32),
        ("BIGINT", 64),
    ):
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        cases.append(Case(kind, (str(low), "-1", "0", "1", "2", str(high))))
        cases.append(
            Case(f"{kind} UNSIGNED", ("0", "1", str(high), str(high + 1), str(2**bits - 1)))
        )
        cases.append(Case(f"{kind} ZEROFILL", ("0", "7", str(2**bits - 1))))
    return [*cases, Case("TINYINT(1)", ("0", "1", "2", "-1"))]


def _decimals() -> list[Case]:
    cases: list[Case] = []
    sizes = (
        (10, 2),
        (18, 0),
        (28, 10),
        (28, 9),
        (29, 10),
        (30, 2),
        (12, 11),
        (20, 20),
        (38, 0),
        (38, 30),
    )
    for digits, scale in (*sizes, (39, 0), (65, 0), (65, 30)):
        whole, part = "9" * (digits - scale) or "0", f".{'9' * scale}" if scale else ""
        small = f"0.{'0' * (scale - 1)}1" if scale else "1"
        cases.append(
            Case(
                f"DECIMAL({digits},{scale})",
                (f"{whole}{part}", f"-{whole}{part}", "0", small, f"-{small}", "0.1"),
            )
        )
    cases.append(Case("DECIMAL(40,3) ZEROFILL", ("0", "1.5", "9" * 37 + ".999")))
    cases.append(Case("DECIMAL(12,11) UNSIGNED ZEROFILL", ("0", "1.5", "9.99999999999")))
    return cases


_DOUBLES = (
    "0",
    "-0e0",
    "1",
    "-1.5",
    "0.1",
    "5e-324",
    "2.2250738585072014e-308",
    "1.7976931348623157e308",
    "-1.7976931348623157e308",
    "1e22",
    "123456789.123456789",
)
_FLOATS = (
    "0",
    "-0e0",
    "16777217",
    "0.1",
    "1e-45",
    "1.17549435e-38",
    "3.4028234e38",
    "-3.4028234e38",
    "123456.789",
)
_DATES = (
    "'0000-00-00'",
    "'2024-00-00'",
    "'2024-01-00'",
    "'0000-01-01'",
    "'0001-01-01'",
    "'1000-01-01'",
    "'1582-10-10'",
    "'1969-12-31'",
    "'1970-01-01'",
    "'2000-02-29'",
    "'2023-02-31'",
    "'2023-02-28'",
    "'9999-12-31'",
)


def _times() -> list[Case]:
    cases = [Case("DATE", _DATES), Case("YEAR", ("0", "1901", "2000", "2155"))]
    for digits in range(7):
        part = f".{'9' * digits}" if digits else ""
        size = f"({digits})" if digits else ""
        moments = tuple(f"{d[:-1]} 23:59:59{part}'" for d in _DATES)
        cases.append(
            Case(f"DATETIME{size}", ("'0000-00-00'", "'2026-03-29 02:30:00.000001'", *moments))
        )
        stamps = (
            "'0000-00-00'",
            "'1970-01-01 00:00:01'",
            "'2026-03-29 02:30:00'",
            f"'2038-01-19 03:14:07{part}'",
            f"'2001-09-09 01:46:40{part}'",
        )
        cases.append(Case(f"TIMESTAMP{size} NULL", stamps))
        times = (
            f"'-838:59:59{part}'",
            f"'838:59:59{part}'",
            "'00:00:00'",
            f"'-00:00:01{part}'",
            "'24:00:00'",
            "'-100:00:00.000001'",
        )
        cases.append(Case(f"TIME{size}", times))
    return cases


_TEXTS = (
    "''",
    "' '",
    "'a'",
    "'a  '",
    "'NULL'",
    "'0'",
    "'é'",
    "'日本語'",
    "'😀 \\t\\n\\r\\0 \\\\ \\' \"'",
    "'x''41'''",
)


def _texts() -> list[Case]:
    cases = [
        Case(f"{kind} CHARACTER SET utf8mb4", _TEXTS)
        for kind in ("CHAR(20)", "VARCHAR(20)", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT")
    ]
    for collation in ("utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_unicode_ci"):
        cases.append(Case(f"VARCHAR(20) CHARACTER SET utf8mb4 COLLATE {collation}", _TEXTS))
    every = [f"{n:02x}" for n in range(256)]
    latin1 = (
        f"CAST(x'{''.join(every[:128])}' AS CHAR CHARACTER SET latin1)",
        f"CAST(x'{''.join(every[128:])}' AS CHAR CHARACTER SET latin1)",
    )
    cases.append(Case("VARCHAR(200) CHARACTER SET latin1", (*_TEXTS[:7], *latin1)))
    cases.append(Case("CHAR(200) CHARACTER SET latin1 COLLATE latin1_bin", latin1))
    for charset, stored in CHARSETS.items():
        raw = tuple(f"CAST(x'{value}' AS CHAR CHARACTER SET {charset})" for value in stored)
        cases.append(Case(f"VARCHAR(40) CHARACTER SET {charset}", ("''", "'a  '", "'?'", *raw)))
    cases.append(
        Case(
            "TEXT CHARACTER SET sjis COLLATE sjis_bin",
            ("'あ'", "CAST(x'fc4b' AS CHAR CHARACTER SET sjis)"),
        )
    )
    cases.append(Case("CHAR(9) CHARACTER SET ucs2", ("'a '", "'é'")))
    return cases


# Stored bytes per charset: letters that come back from UTF-8, and such that do not.
CHARSETS = {
    "ascii": ("417e", "80", "c3a9"),
    "utf8mb3": ("c3a9", "e697a5"),
    "sjis": ("82a0", "5c", "7e", "8160", "817c", "fc4b"),
    "cp932": ("82a0", "8160", "8754", "fa40", "ed40"),
    "gbk": ("b0a1", "a2a1", "a2ab", "a6d9"),
    "gb2312": ("b0a1", "a2b1"),
    "euckr": ("b0a1", "a2e6", "c9a1"),
    "big5": ("a440", "a145", "c6a1"),
    "ujis": ("a4a2", "8fa2b7", "adb5"),
    "hebrew": ("e0", "a1", "fb", "80"),
    "geostd8": ("c0", "81", "ff"),
    "greek": ("e1", "ff"),
    "cp1251": ("c0", "98"),
    "cp1256": ("c7", "81"),
    "tis620": ("a1", "fc"),
    "swe7": ("41", "5b", "80"),
    "utf16": ("00410042", "d83dde00"),
    "utf16le": ("4100", "3dd800de"),
    "ucs2": ("0041", "65e5", "d800", "dc00"),
    "utf32": ("00000041", "0001f600", "0000d800"),
}  # fmt: skip


def _others() -> list[Case]:
    bits = [
        Case(f"BIT({n})", (f"b'{'1' * n}'", "b'0'", "b'1'", f"b'1{'0' * (n - 1)}'"))
        for n in (1, 2, 8, 31, 32, 33, 63, 64)
    ]
    binaries = ("''", "x'00'", "x'00ff00'", "x'c3'", "'a  '", "x'0000000000000000'")
    kinds = (
        "BINARY(16)",
        "VARBINARY(20)",
        "TINYBLOB",
        "BLOB",
        "MEDIUMBLOB",
        "LONGBLOB",
        "VARCHAR(20) CHARACTER SET binary",
    )
    json = (
        """'{"b": 1, "a": [null, true, {"ü": "😀"}], "a": 2}'""",
        "'[1.5, 12345678901234567890, -1e-7]'",
        "'\"\"'",
        "'null'",
        f"'{'[' * 30}{']' * 30}'",
        '\'{"": {"\\\\\\\\": "\\\\\\\\u0000"}}\'',
    )
    return [
        *bits,
        *(Case(kind, binaries) for kind in kinds),
        Case("ENUM('a','','ü b')", ("'a'", "''", "'ü b'", "'none'", "3")),
        Case("ENUM('あ','a') CHARACTER SET sjis", ("'あ'", "'none'", "2")),
        Case("SET('a','b c','ü')", ("''", "'a'", "'a,ü'", "7")),
        Case("SET('あ','b') CHARACTER SET sjis", ("'あ'", "3", "''")),
        Case("JSON", json),
        Case(
            "UUID",
            ("'123e4567-e89b-12d3-a456-426655440000'", "'00000000-0000-0000-0000-000000000000'"),
            MARIADB,
        ),
        Case("INET4", ("'0.0.0.0'", "'255.255.255.255'", "'10.0.0.1'"), MARIADB),
        Case("INET6", ("'::'", "'::1'", "'2001:db8::ff00:42:8329'", "'::ffff:1.2.3.4'"), MARIADB),
        Case("FLOAT", _FLOATS),
        Case("FLOAT UNSIGNED", ("0", "0.1", "3.4028234e38")),
        Case("FLOAT(7,3)", ("1.0005", "-9999.999", "0")),
        Case("FLOAT(30)", ("0.1", "1e300")),
        Case("DOUBLE", _DOUBLES),
        Case("DOUBLE(20,5)", ("0.123456789", "-0e0")),
        Case("DOUBLE ZEROFILL", ("0", "1.5")),
    ]


def _shapes() -> list[Case]:
    points = (
        "ST_GeomFromText('POINT(1 2)')",
        "ST_GeomFromText('POINT(-0 1e300)', 0)",
        "ST_GeomFromText('POINT(10 20)', 4326)",
    )
    polygon = "ST_GeomFromText('POLYGON((0 0,0 1,1 1,0 0))')"
    return [
        Case("POINT", points),
        Case("GEOMETRY", (*points, polygon, "ST_GeomFromText('LINESTRING(0 0,1 1)')")),
        Case("LINESTRING", ("ST_GeomFromText('LINESTRING(0 0,1 1)')",)),
        Case("POLYGON", (polygon,)),
        Case("MULTIPOINT", ("ST_GeomFromText('MULTIPOINT(0 0,1 1)')",)),
        Case("MULTILINESTRING", ("ST_GeomFromText('MULTILINESTRING((0 0,1 1),(2 2,3 3))')",)),
        Case("MULTIPOLYGON", ("ST_GeomFromText('MULTIPOLYGON(((0 0,0 1,1 1,0 0)))')",)),
        Case(
            "GEOMETRYCOLLECTION",
            ("ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1),LINESTRING(0 0,1 1))')",),
        ),
    ]


def _odd() -> list[Case]:
    """Columns that `SELECT *` or a plain look at the schema may miss."""
    return [
        Case("INT GENERATED ALWAYS AS (id * 2) VIRTUAL", ()),
        Case("VARCHAR(20) GENERATED ALWAYS AS (CONCAT('n', id)) STORED", ()),
        Case("INT INVISIBLE", ("7",), MARIADB),
        Case("VARCHAR(36) DEFAULT (UUID())", ("'x'",), MARIADB),
        Case("DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6)", ("'2020-01-01'",)),
    ]


CASES: tuple[Case, ...] = (
    *_integers(),
    *_decimals(),
    *_times(),
    *_texts(),
    *_others(),
    *_shapes(),
    *_odd(),
)
