"""SQL that shows a JSON document by its structure: documents that are equal are one text.

Keys are sorted, nothing stands between the parts, characters stand for themselves where JSON lets
them. A number has no zeros at its end (``1.50`` and ``1.5`` are one number). It has an exponent
only if it was written with one, and is at least ten million or less than a thousandth (``1.0E7``):
it is then another text than its digits.

A text stays as it is where that would lose something, or where it is no one document: numbers of
more digits than Spark keeps exactly, half of a surrogate pair, a key that stands twice, anything
that JSON does not allow.

What belongs here: this form. What doesn't: which columns have it (`mirrorlake.serving.unified`).

Source: RFC 8259; Spark SQL reference, "try_parse_json" (numbers are decimals of at most 38 digits,
else doubles; what follows the first document is ignored).
"""

from __future__ import annotations

from typing import Final

from mirrorlake.destinations.base import text_literal

# Each without a repeated group, which Java's regular expressions can't do for long texts.
_ESCAPE: Final = r"\\."
_STRING: Final = r'"[^"]*+"'
_UNSAFE_NUMBERS: Final = "|".join(
    (
        r"[0-9.]{39,}",  # more digits than a decimal has
        r"[0-9.]{17,}[eE]",  # more than a double surely keeps
        r"[eE][+-]?0*[0-9]{3,}",  # beyond the doubles, or near their end
    )
)
_ESCAPED_BACKSLASH: Final = r"\\\\"
_PAIR: Final = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_SURROGATE: Final = r"\\u[dD][89a-fA-F]"


def json_structure(text: str) -> str:
    """SQL of a text by the structure of its JSON, or of the text itself.

    Args:
        text: SQL of it.
    """
    # Spark reads one document and ignores the rest. What is one value in a list, and one in an
    # object, has no rest: a bracket that ends the one too early ends the other wrongly.
    whole = " AND ".join(
        f"try_parse_json(CONCAT({text_literal(before)}, {text}, {text_literal(after)})) IS NOT NULL"
        for before, after in (("[", "]"), ('{"a":', "}"))
    )
    numbers = _replaced(_replaced(text, _ESCAPE, ""), _STRING, "")
    escapes = _replaced(_replaced(text, _ESCAPED_BACKSLASH, ""), _PAIR, "")
    exact = " AND ".join(
        f"NOT regexp_like({where}, {text_literal(pattern)})"
        for where, pattern in ((numbers, _UNSAFE_NUMBERS), (escapes, _SURROGATE))
    )
    # Twice: a double is shown as 100.0 the first time, and as any other 100 the second.
    form = f"to_json(parse_json(to_json(try_parse_json({text}))))"
    return f"CASE WHEN {exact} AND {whole} THEN {form} ELSE {text} END"


def _replaced(text: str, pattern: str, by: str) -> str:
    return f"regexp_replace({text}, {text_literal(pattern)}, {text_literal(by)})"
