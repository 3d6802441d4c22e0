"""What may become of a value on its way through another tool, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class LossKind:
    """What became of a value.

    Attributes:
        words: what is said of it; what varies (an offset, a length) follows.
        lossless: whether MySQL's value can be had back from it: then it is a note, no difference.
    """

    words: str
    lossless: bool = False


KINDS: Final[Mapping[str, LossKind]] = {
    # Rows.
    "missing": LossKind("MySQL has this row, the copy has not"),
    "extra": LossKind("the copy has this row, MySQL has not (deleted there, or never there)"),
    "doubled": LossKind("the copy has this key more than once"),
    "stale": LossKind("the copy has an older version of this row"),
    # Columns.
    "column_missing": LossKind("the copy has no such column"),
    # NULL.
    "value_to_null": LossKind("a value became NULL"),
    "empty_to_null": LossKind("'' became NULL"),
    "zero_to_null": LossKind("0 became NULL"),
    "null_to_empty": LossKind("NULL became ''"),
    "null_to_zero": LossKind("NULL became 0"),
    "null_to_value": LossKind("NULL became a value"),
    # Dates without a place in the calendar.
    "zero_date_to_null": LossKind("a zero date became NULL"),
    "partial_date_to_null": LossKind("a date that no calendar has became NULL"),
    "zero_date_to_date": LossKind("a zero date became a real one"),
    "partial_date_to_date": LossKind("a date that no calendar has became another one"),
    # Numbers.
    "boolean": LossKind("a number other than 0 and 1 became true"),
    "overflow": LossKind("a number overflowed and wrapped round"),
    "unsigned_overflow": LossKind("an unsigned number became a negative one"),
    "clamped": LossKind("a number became the largest or smallest that the type has"),
    "digits_cut": LossKind("decimal places were cut off"),
    "digits_rounded": LossKind("decimal places were rounded away"),
    "decimal_to_double": LossKind("a decimal was rounded to a floating-point number"),
    "integer_to_double": LossKind("a whole number was rounded to a floating-point number"),
    "float_to_6_digits": LossKind("a FLOAT was rounded to 6 digits"),
    "double_to_float": LossKind("a DOUBLE was rounded to a FLOAT"),
    "float_rounded": LossKind("a floating-point number was rounded"),
    "sign_of_zero": LossKind("zero has another sign (-0.0, 0.0)"),
    "year_zero": LossKind("YEAR 0 became another year"),
    "year_two_digits": LossKind("a year lost its century"),
    "bit_to_boolean": LossKind("a BIT value other than 0 and 1 became true"),
    "bit_digits": LossKind("BIT became the digits of its bytes, without the zeros between them"),
    # Moments.
    "shifted": LossKind("a moment was shifted by a whole offset"),
    "day_shifted": LossKind("a date was shifted by a day"),
    "calendar": LossKind("an old date was moved between the Julian and the Gregorian calendar"),
    "fraction_cut": LossKind("fractional seconds were cut off"),
    "fraction_rounded": LossKind("fractional seconds were rounded away"),
    "time_of_day_lost": LossKind("the time of day was lost"),
    "nanosecond_overflow": LossKind("a date outside 1677–2262 overflowed and wrapped round"),
    "nanosecond_clamped": LossKind("a date outside 1677–2262 became the first or last of these"),
    "time_to_null": LossKind("a TIME that is negative or has more than 24 hours became NULL"),
    "time_wrapped": LossKind("a TIME that is negative or has more than 24 hours lost its days"),
    "time_clamped": LossKind("a TIME that is negative or has more than 24 hours was cut to a day"),
    "other_unit": LossKind("a time is written in another unit than the column's others"),
    # Texts.
    "trailing_spaces": LossKind("trailing spaces were cut off"),
    "spaces_added": LossKind("trailing spaces were added"),
    "spaces_trimmed": LossKind("spaces around a text were cut off"),
    "cut": LossKind("a text was cut"),
    "case": LossKind("upper and lower case were changed"),
    "normalised": LossKind("letters were written in another form of Unicode"),
    "replaced": LossKind("letters were replaced by ? or \N{REPLACEMENT CHARACTER}"),
    "charset": LossKind("letters were read in a wrong charset"),
    "nul_removed": LossKind("NUL characters were taken out"),
    "line_ends": LossKind("line ends were changed"),
    "enum_index": LossKind("an ENUM became the number of its label"),
    "set_order": LossKind("the members of a SET are in another order", lossless=True),
    "set_number": LossKind("a SET became the number of its members, unlike the column's others"),
    "set_list": LossKind("a SET is written as a list", lossless=True),
    "json_formatted": LossKind("JSON: only the formatting differs", lossless=True),
    "json_text": LossKind("a text that is JSON was formatted otherwise"),
    "json_numbers": LossKind("JSON: numbers are written otherwise"),
    # Bytes.
    "trailing_zeros": LossKind("trailing zero bytes were cut off"),
    "zeros_added": LossKind("trailing zero bytes were added"),
    "bytes_cut": LossKind("bytes were cut off at the end"),
    "bytes_mangled": LossKind("bytes were read as text, and those that are none were replaced"),
    "srid": LossKind("the SRID of a spatial value was lost"),
    "other_encoding": LossKind("bytes are written otherwise than the column's others"),
    "as_wkb": LossKind("a spatial value is written without the SRID 0", lossless=True),
    "as_wkt": LossKind("a spatial value is written as text (WKT), which is not compared"),
    "other": LossKind("another value"),
}
"""In no order. A value that fits none is ``other``."""
