"""A table with a column of every type, and rows with values at their ends."""

from __future__ import annotations

# The emulator's BIGNUMERIC has 20 digits before its point and 18 behind it: no longer values here.
COLUMNS = """id BIGINT UNSIGNED PRIMARY KEY, tiny TINYINT(1), whole INT UNSIGNED, price DECIMAL(20,5),
    fine DECIMAL(30,12), huge DECIMAL(50,5), single FLOAT, twice DOUBLE, name VARCHAR(40), doc JSON,
    kind ENUM('a','b') NOT NULL, raw VARBINARY(20), flags BIT(40), day DATE, at DATETIME(6), stamp
    TIMESTAMP(3) NULL, span TIME(6), born DATE, shape POINT"""
ROWS = (
    """(18446744073709551615, 2, 4294967295, -12345.67890, 0.000000000001,
    '123456789012345678901234567890123456789012345.67890', 0.1, 2.2250738585072014e-308,
    'ü\\'\\n😀`', '{"b": [1, null]}', 'b', x'00ff', b'1010', '1000-01-01',
    '9999-12-31 23:59:59.999999', '2038-01-19 03:14:07.999', '-838:59:59', '1990-01-01',
    ST_GeomFromText('POINT(1 2)'))""",
    """(0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', NULL, 'a', '', NULL, '0000-00-00',
    '2024-00-10 00:00:00', NULL, NULL, '0000-00-00', NULL)""",
    """(1, -128, 0, 0.1, -1.5, 1, -0.0, 1e308, '-', '""', 'a', x'0a', b'0', '9999-12-31',
    '1970-01-01 00:00:00', '1970-01-01 00:00:01', '00:00:00.000001', NULL, NULL)""",
)
