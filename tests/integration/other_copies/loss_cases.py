"""Each kind of loss, planted: a column of MySQL's, what a tool made of its values, and what must be
said of each; None: they are equal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LossCase:
    """A column of both.

    Attributes:
        ddl: MySQL's type.
        theirs: DuckDB's type of the copy.
        values: MySQL's literal, the copy's in DuckDB's SQL, and the kind.
    """

    name: str
    ddl: str
    theirs: str
    values: tuple[tuple[str, str, str | None], ...]


def _case(name: str, ddl: str, theirs: str, *values: tuple[str, str, str | None]) -> LossCase:
    return LossCase(name, ddl, theirs, values)


_NUMBERS = (
    _case(
        *("tinyint(1) as boolean", "TINYINT(1)", "BOOLEAN"),
        *(("0", "false", None), ("1", "true", None), ("2", "true", "boolean")),
        *(("-1", "true", "boolean"), ("1", "false", "other"), ("NULL", "false", "null_to_zero")),
    ),
    _case(
        *("unsigned overflow", "INT UNSIGNED", "INTEGER"),
        *(("5", "5", None), ("3349714808", "-945252488", "unsigned_overflow")),
        *(("4000000000", "2147483647", "clamped"), ("0", "NULL", "zero_to_null")),
        *(("NULL", "0", "null_to_zero"), ("7", "8", "other")),
    ),
    _case(
        *("unsigned bigint", "BIGINT UNSIGNED", "BIGINT"),
        *(("18446744073709551615", "-1", "unsigned_overflow"), ("7", "7", None)),
        ("18446744073709551615", "9223372036854775807", "clamped"),
    ),
    _case(
        *("bigint as double", "BIGINT", "DOUBLE"),
        *(("9007199254740993", "9007199254740992", "integer_to_double"), ("5", "5", None)),
        ("5", "5.5", "other"),
    ),
    _case(
        *("narrowed", "BIGINT", "INTEGER"),
        *(("4294967301", "5", "overflow"), ("-5", "-5", None)),
    ),
    _case(
        *("bigint as text", "BIGINT", "VARCHAR"),
        *(("12", "'12'", None), ("12", "'12.0'", None), ("12", "'12.5'", "other")),
        *(("12", "'twelve'", "other"), ("0", "'1e-11'", "other"), ("100", "'1e2'", None)),
    ),
    _case(
        *("bigint unsigned as decimal", "BIGINT UNSIGNED", "DECIMAL(20,0)"),
        *(("18446744073709551615", "18446744073709551615", None), ("1", "2", "other")),
    ),
    _case(
        *("decimal as double", "DECIMAL(20,2)", "DOUBLE"),
        *(("0.10", "0.1", None), ("-12345.67", "-12345.67", None)),
        ("123456789012345678.91", "123456789012345678.91", "decimal_to_double"),
        *(("0.10", "0.1000000001", "decimal_to_double"), ("0.10", "0.2", "other")),
    ),
    _case(
        *("decimal as float", "DECIMAL(10,2)", "FLOAT"),
        *(("0.50", "0.5", None), ("12345678.91", "12345678.91", "decimal_to_double")),
    ),
    _case(
        *("decimal of fewer places", "DECIMAL(12,4)", "DECIMAL(12,2)"),
        *(("1.2300", "1.23", None), ("1.2387", "1.23", "digits_cut")),
        *(("1.2387", "1.24", "digits_rounded"), ("1.2387", "1.25", "other")),
    ),
    _case(
        *("decimal of more places", "DECIMAL(12,2)", "DECIMAL(38,10)"),
        *(("1.23", "1.23", None), ("1.23", "1.2300000001", "other"), ("0", "NULL", "zero_to_null")),
    ),
    _case(
        *("large decimal as text", "DECIMAL(65,30)", "VARCHAR"),
        ("1.000000000000000000000000000001", "'1.000000000000000000000000000001'", None),
        ("1.000000000000000000000000000001", "'1.0000000000'", "digits_cut"),
        *(("-0.500000000000000000000000000000", "'-.5'", None), ("1500", "'1.5E+3'", None)),
        ("-0.000000000000000000000000000012", "'-1.2E-29'", None),
        ("-0.000000000000000000000000000012", "'-1.3e-29'", "other"),
    ),
    _case(
        *("decimal as integer", "DECIMAL(10,2)", "BIGINT"),
        *(("5.00", "5", None), ("5.25", "5", "digits_cut"), ("5.75", "6", "digits_rounded")),
    ),
    _case(
        *("float as text of 6 digits", "FLOAT", "DOUBLE"),
        *(("123456.789", "123457", "float_to_6_digits"), ("0.1", "0.1", None)),
        *(("0.1", "CAST(CAST(0.1 AS FLOAT) AS DOUBLE)", None), ("1.5", "2.5", "other")),
        ("-0e0", "0.0", "sign_of_zero"),
    ),
    _case(
        *("double as float", "DOUBLE", "FLOAT"),
        *(("0.1", "0.1", "double_to_float"), ("0.5", "0.5", None)),
        ("-0e0", "CAST('-0.0' AS FLOAT)", None),
    ),
    _case(
        *("double", "DOUBLE", "DOUBLE"),
        *(("0.1", "0.1", None), ("0.1", "0.10000000000000002", "float_rounded")),
        *(("-0e0", "0.0", "sign_of_zero"), ("5e-324", "5e-324", None), ("1e300", "1e301", "other")),
    ),
    _case(
        *("year", "YEAR", "INTEGER"),
        *(("2024", "2024", None), ("0", "1900", "year_zero"), ("0", "2000", "year_zero")),
        *(("2024", "24", "year_two_digits"), ("0", "NULL", "zero_to_null")),
    ),
    _case(
        *("year as date", "YEAR", "DATE"),
        *(("2024", "'2024-01-01'", None), ("2024", "'2024-02-01'", "other")),
        ("0", "'2000-01-01'", "year_zero"),
    ),
    _case(
        *("bit as bytes", "BIT(9)", "BLOB"),
        *(("b'100000001'", "'\\x01\\x01'", None), ("b'1'", "'\\x00\\x01'", None)),
        *(("b'10'", "'\\x03'", "other"), ("b'0'", "'\\x00\\x00'", None)),
        ("b'101'", "'0101'", "bit_digits"),
    ),
    _case(
        *("bit as boolean", "BIT(3)", "BOOLEAN"),
        *(("b'1'", "true", None), ("b'0'", "false", None), ("b'101'", "true", "bit_to_boolean")),
        ("b'1'", "false", "other"),
    ),
    _case(
        *("bit 64", "BIT(64)", "BIGINT"),
        ("18446744073709551615", "-1", "unsigned_overflow"),
        ("b'101'", "5", None),
    ),
)

_MOMENTS = (
    _case(
        *("zero and partial dates", "DATE", "DATE"),
        *(("'0000-00-00'", "NULL", "zero_date_to_null"), ("'2024-01-31'", "'2024-01-31'", None)),
        ("'0000-00-00'", "'1970-01-01'", "zero_date_to_date"),
        *(("'2024-00-15'", "NULL", "partial_date_to_null"), ("NULL", "NULL", None)),
        ("'2024-02-00'", "'2024-01-31'", "partial_date_to_date"),
        ("'2024-01-31'", "NULL", "value_to_null"),
    ),
    _case(
        *("dates moved", "DATE", "DATE"),
        *(("'2024-01-31'", "'2024-01-30'", "day_shifted"), ("'9999-12-31'", "'9999-12-31'", None)),
        *(("'1582-10-01'", "'1582-10-11'", "calendar"), ("'2024-01-31'", "'2024-03-31'", "other")),
    ),
    _case(
        *("date as text", "DATE", "VARCHAR"),
        *(("'0000-00-00'", "'0000-00-00'", None), ("'2024-01-31'", "'2024-01-31'", None)),
        *(("'2024-01-31'", "'2024-01-31T00:00:00Z'", None), ("'2024-01-31'", "'31.1.24'", "other")),
    ),
    _case(
        *("date as days", "DATE", "INTEGER"),
        *(("'2024-01-31'", "19753", None), ("'2024-01-31'", "19754", "day_shifted")),
        ("'0000-00-00'", "0", "zero_date_to_date"),
    ),
    _case(
        *("datetime", "DATETIME(6)", "TIMESTAMP"),
        ("'2024-01-31 12:00:00.123456'", "'2024-01-31 12:00:00.123456'", None),
        ("'2024-01-31 12:00:00.123456'", "'2024-01-31 12:00:00'", "fraction_cut"),
        ("'2024-01-31 12:00:00.123456'", "'2024-01-31 12:00:00.123'", "fraction_cut"),
        ("'2024-01-31 12:00:00.623456'", "'2024-01-31 12:00:01'", "fraction_rounded"),
        ("'1969-12-31 23:59:59.500000'", "'1969-12-31 23:59:59'", "fraction_cut"),
        ("'2024-01-31 12:00:00.123456'", "'2024-01-31 00:00:00'", "time_of_day_lost"),
        ("'2024-01-31 12:00:00.123456'", "'2024-01-31 14:00:00.123456'", "shifted"),
        ("'2024-01-31 12:00:00.123456'", "'2024-01-31 17:30:00'", "shifted"),
        ("'2024-01-31 12:00:00.123456'", "'2024-01-31 12:00:07.5'", "other"),
        ("'0000-00-00 00:00:00'", "'0001-01-01'", "zero_date_to_date"),
    ),
    _case(
        *("datetime as nanoseconds", "DATETIME", "TIMESTAMP_NS"),
        *(("'2024-01-31 12:00:00'", "'2024-01-31 12:00:00'", None),),
        ("'2024-01-31 12:00:00'", "'2024-01-31 12:00:00.000000001'", "other"),
        ("'9999-12-31 00:00:00'", "'1816-03-29 05:56:08.066277376'", "nanosecond_overflow"),
        ("'9999-12-31 00:00:00'", "'2262-04-11 23:47:16.854775'", "nanosecond_clamped"),
    ),
    _case(
        *("datetime as an instant", "DATETIME", "TIMESTAMPTZ"),
        ("'2024-01-31 12:00:00'", "'2024-01-31 12:00:00+00'", None),
        ("'2024-07-31 12:00:00'", "'2024-07-31 10:00:00+00'", "shifted"),
    ),
    _case(
        *("datetime as a date", "DATETIME", "DATE"),
        *(("'2024-01-31 00:00:00'", "'2024-01-31'", None),),
        ("'2024-01-31 12:00:00'", "'2024-01-31'", "time_of_day_lost"),
    ),
    _case(
        *("datetime as milliseconds", "DATETIME(3)", "BIGINT"),
        ("'2024-01-31 12:00:00.500'", "1706702400500", None),
        ("'1970-01-01 00:00:01'", "1000", None),
        ("'1970-01-01 00:16:40'", "1000", "other_unit"),
        ("'2024-01-31 12:00:00'", "1706702400", "other_unit"),
        ("'2024-01-31 12:00:00.500'", "1706702400501", "other"),
        ("'2024-01-31 12:00:00.500'", "1706702400000", "fraction_cut"),
    ),
    _case(
        *("date as days, one in seconds", "DATE", "BIGINT"),
        *(("'1970-01-02'", "1", None), ("'2024-01-31'", "19753", None)),
        ("'1970-01-12'", "950400", "other_unit"),
    ),
    _case(
        *("datetime as nanoseconds since 1970", "DATETIME(6)", "BIGINT"),
        ("'2024-01-31 12:00:00.000001'", "1706702400000001000", None),
        ("'2024-01-31 12:00:00.000001'", "1706702400000001001", "other"),
    ),
    _case(
        *("datetime as whole floating-point seconds", "DATETIME", "DOUBLE"),
        *(("'2024-01-31 12:00:00'", "1706702400.0", None),),
        ("'2024-01-31 12:00:00'", "1706702400.5", "other"),
    ),
    _case(
        *("datetime as shifted milliseconds", "DATETIME", "BIGINT"),
        ("'2024-01-31 12:00:00'", "1706709600000", "shifted"),
    ),
    _case(
        *("timestamp as a time without a zone", "TIMESTAMP(6) NULL", "TIMESTAMP"),
        ("'2024-01-31 12:00:00.000001'", "'2024-01-31 12:00:00.000001'", None),
        ("'2024-01-31 12:00:00.000001'", "'2024-01-31 06:30:00.000001'", "shifted"),
        ("'0000-00-00 00:00:00'", "'1970-01-01'", "zero_date_to_date"),
        ("'0000-00-00 00:00:00'", "NULL", "zero_date_to_null"),
    ),
    _case(
        *("timestamp as text", "TIMESTAMP NULL", "VARCHAR"),
        ("'2024-01-31 12:00:00'", "'2024-01-31T14:00:00+02:00'", None),
        ("'2024-01-31 12:00:00'", "'2024-01-31T12:00:00+02:00'", "shifted"),
        ("'2024-01-31 12:00:00'", "'2024-01-31 12:00:00.0000001'", "other"),
    ),
    _case(
        *("time of a day", "TIME(3)", "TIME"),
        *(
            ("'10:00:00.500'", "'10:00:00.5'", None),
            ("'10:00:00.500'", "'10:00:00'", "fraction_cut"),
        ),
        *(("'-01:00:00'", "NULL", "time_to_null"), ("'100:00:00'", "'04:00:00'", "time_wrapped")),
        *(("'100:00:00'", "'23:59:59'", "time_clamped"), ("'10:00:00'", "NULL", "value_to_null")),
        *(("'-01:00:00'", "'23:00:00'", "time_wrapped"), ("'10:00:00'", "'11:07:00'", "other")),
        ("'10:00:00'", "'12:00:00'", "shifted"),
    ),
    _case(
        *("time as text", "TIME(3)", "VARCHAR"),
        *(("'-838:59:59'", "'-838:59:59'", None), ("'10:00:00.500'", "'10:00:00.500000'", None)),
        *(("'25:00:00'", "'0-0 0 25:0:0'", None), ("'-25:00:00'", "'0-0 -1 -1:0:0'", None)),
        ("'10:00:00'", "'0-1 0 10:0:0'", "other"),
        *(("'10:00:00.500'", "'10:00:00'", "fraction_cut"), ("'10:00:00'", "'ten'", "other")),
    ),
    _case(
        *("time as a duration", "TIME", "INTERVAL"),
        *(
            ("'-838:59:59'", "INTERVAL '-838:59:59'", None),
            ("'10:00:00'", "INTERVAL '7 m'", "other"),
        ),
    ),
    _case(
        *("time as microseconds", "TIME", "BIGINT"),
        *(("'-01:00:00'", "-3600000000", None), ("'10:00:00'", "36000000001", "other")),
        *(("'00:00:02'", "2000000", None), ("'00:00:01'", "1000", "other_unit")),
    ),
    _case(
        *("time as seconds", "TIME(3)", "DOUBLE"),
        *(("'-01:00:00'", "-3600", None), ("'10:00:00.5'", "36000.5", None)),
    ),
)

_TEXTS = (
    _case(
        *("varchar", "VARCHAR(60)", "VARCHAR"),
        *(("'a  '", "'a'", "trailing_spaces"), ("'a'", "'a   '", "spaces_added")),
        *(("'abcdef'", "'abc'", "cut"), ("'Ab'", "'ab'", "case"), ("''", "NULL", "empty_to_null")),
        *(("NULL", "''", "null_to_empty"), ("'a\\0b'", "'ab'", "nul_removed")),
        *(("'é'", "'e' || chr(769)", "normalised"), ("'a'", "'b'", "other"), ("'é'", "'é'", None)),
        *(
            (" 'x'", "' x '", "spaces_trimmed"),
            ("'a\\r\\nb'", "'a' || chr(10) || 'b'", "line_ends"),
        ),
    ),
    _case(
        *("letters", "VARCHAR(60)", "VARCHAR"),
        *(
            ("'é'", "'?'", "replaced"),
            ("'日本'", "'??'", "replaced"),
            ("'a😀b'", "'a?b'", "replaced"),
        ),
        *(
            ("'é😀'", "'é????'", "replaced"),
            ("'é'", "'Ã©'", "charset"),
            ("'NULL'", "NULL", "value_to_null"),
        ),
        ("NULL", "'x'", "null_to_value"),
    ),
    _case(
        *("text as bytes", "VARCHAR(60)", "BLOB"),
        *(("'é'", "encode('é')", None), ("'é'", "'\\xE9'", "other")),
    ),
    _case(
        *("enum", "ENUM('a','b','c')", "VARCHAR"),
        *(("'b'", "'b'", None), ("'b'", "'2'", "enum_index"), ("'b'", "'c'", "other")),
        *(("'none'", "''", None), ("'none'", "NULL", "empty_to_null")),
    ),
    _case(
        *("enum as number", "ENUM('a','b','c')", "INTEGER"),
        *(("'b'", "2", "enum_index"), ("'none'", "0", "enum_index"), ("'b'", "3", "other")),
    ),
    _case(
        *("set", "SET('a','b','c')", "VARCHAR"),
        *(
            ("'a,c'", "'a,c'", None),
            ("'a,c'", "'c,a'", "set_order"),
            ("'a,c'", "'5'", "set_number"),
        ),
        *(("'a,c'", "'a'", "cut"), ("''", "''", None), ("'a,c'", '\'["c","a"]\'', "set_list")),
    ),
    _case(
        *("set as number", "SET('a','b','c')", "INTEGER"),
        *(("'a,c'", "5", None), ("''", "0", None), ("'a'", "2", "other")),
    ),
    _case(
        *("set as list", "SET('a','b','c')", "VARCHAR[]"),
        *(("'a,c'", "['c', 'a']", None), ("''", "[]", None), ("'a,c'", "['a']", "other")),
    ),
    _case(
        *("json", "JSON", "VARCHAR"),
        *((r"""'{"a": 1, "b": "é"}'""", r"""'{"b":"\u00e9","a":1}'""", "json_formatted"),),
        *((r"""'{"a": 1.0}'""", r"""'{"a":1}'""", "json_numbers"),),
        *(("'1.0'", "'1'", "json_numbers"), ("'1e2'", "'100'", "json_numbers")),
        *(
            (r"""'{"a": 1}'""", r"""'{"a":2}'""", "other"),
            (r"""'[1, 2]'""", r"""'[2, 1]'""", "other"),
        ),
        (r"""'{"a": 1}'""", r"""'{"a": 1}'""", None),
    ),
    _case(
        *("json as nested values", "JSON", "STRUCT(a INTEGER, b VARCHAR)"),
        *((r"""'{"a": 1, "b": "x"}'""", "{'a': 1, 'b': 'x'}", "json_formatted"),),
        (r"""'{"a": 1, "b": "y"}'""", "{'a': 1, 'b': 'x'}", "other"),
    ),
    _case(
        *("text that is JSON", "TEXT", "VARCHAR"),
        *((r"""'{"a": 1}'""", r"""'{"a":1}'""", "json_text"), ("'{'", "'{'", None)),
    ),
    _case(
        *("float as integer", "FLOAT", "INTEGER"),
        *(("16777216", "16777216", None), ("16777216", "16777217", "float_rounded")),
    ),
    _case(
        *("uuid", "UUID", "UUID"),
        ("'6f1c2b9e-8a4e-4b7f-9d2a-1c3e5f7a9b0d'", "'6F1C2B9E-8A4E-4B7F-9D2A-1C3E5F7A9B0D'", None),
        (
            "'6f1c2b9e-8a4e-4b7f-9d2a-1c3e5f7a9b0d'",
            "'6f1c2b9e-8a4e-4b7f-9d2a-1c3e5f7a9b0e'",
            "other",
        ),
    ),
    _case(
        *("uuid as text", "UUID", "VARCHAR"),
        ("'6f1c2b9e-8a4e-4b7f-9d2a-1c3e5f7a9b0d'", "'6F1C2B9E8A4E4B7F9D2A1C3E5F7A9B0D'", None),
        ("'6f1c2b9e-8a4e-4b7f-9d2a-1c3e5f7a9b0d'", "'6F1C2B9E8A4E4B7F9D2A1C3E5F7A9B0E'", "other"),
    ),
    _case(
        *("number as text", "VARCHAR(20)", "INTEGER"),
        *(("'12'", "12", None), ("'012'", "12", "other")),
    ),
)

_BYTES = (
    _case(
        *("binary", "BINARY(4)", "BLOB"),
        *(("x'61000000'", "'a'", "trailing_zeros"), ("x'61000000'", "'a\\x00\\x00\\x00'", None)),
        *(("x'61626364'", "'ab'", "bytes_cut"), ("x'61626364'", "'abce'", "other")),
    ),
    _case(
        *("varbinary", "VARBINARY(20)", "BLOB"),
        *(("x'61'", "'a\\x00'", "zeros_added"), ("x''", "NULL", "empty_to_null"), ("x'00'", "'\\x00'", None)),
    ),
    _case(
        *("binary as text", "VARBINARY(20)", "VARCHAR"),
        *(("x'00ff'", "'AP8='", "other_encoding"), ("x'00ff'", "'00ff'", "other_encoding")),
        *(("x'69b71d'", "'abcd'", "other_encoding"), ("'abcd'", "'abcd'", None)),
        *(("x'00ff'", "'0x00FF'", "other_encoding"), ("x'616263'", "'abc'", None)),
        *(("x'ff61'", "'\N{REPLACEMENT CHARACTER}a'", "bytes_mangled"), ("x'6162'", "'xy'", "other")),
    ),
    _case(
        *("binary in base64", "VARBINARY(20)", "VARCHAR"),
        *(("x'00ff'", "'AP8='", None), ("x'616263'", "'YWJj'", None), ("x'fb'", "'-w'", None)),
        *(("'YWJj'", "'YWJj'", "other_encoding"), ("'q'", "'YQ=='", "other")),
    ),
    _case(
        *("binary in hexadecimal", "VARBINARY(20)", "VARCHAR"),
        *(("x'00ff'", "'00FF'", None), ("x'616263'", "'0x616263'", None), ("x''", "''", None)),
        *(("'6162'", "'6162'", "other_encoding"), ("x'0102'", "'01'", "bytes_cut")),
    ),
    _case(
        *("spatial", "POINT", "BLOB"),
        ("ST_GeomFromText('POINT(1 2)')", "unhex('0101000000000000000000F03F0000000000000040')", "as_wkb"),
        ("ST_GeomFromText('POINT(1 2)')", "unhex('000000000101000000000000000000F03F0000000000000040')", None),
        ("ST_GeomFromText('POINT(1 2)', 4326)", "unhex('0101000000000000000000F03F0000000000000040')", "srid"),
    ),
)  # fmt: skip

CASES = (*_NUMBERS, *_MOMENTS, *_TEXTS, *_BYTES)
