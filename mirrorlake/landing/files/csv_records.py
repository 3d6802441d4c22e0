"""Records of CSV: RFC 4180 with a header, where quotes tell a text from NULL.

Python's own reader can't tell ``""`` from nothing, and takes what is not CSV for something.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from mirrorlake.errors import LandingError
from mirrorlake.landing.files.limits import size_words

CsvRow: TypeAlias = tuple[int, Sequence[str], Sequence[Any], str]
"""(line, names, values, reason): names and values of a record, or why there are none."""
Fatal: TypeAlias = Callable[[int, str], LandingError]
"""Makes the error that ends the reading at a line, for a reason."""
_FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^",]*))(,|\Z)')


class _Unquoted(str):
    """A field without quotes around it."""

    __slots__ = ()


def read_csv(
    lines: Iterable[tuple[int, bytes]], null: str, fatal: Fatal, longest: int
) -> Iterator[CsvRow]:
    """The records after the header, each with the header's names and a text or None a column.

    Args:
        null: the text that means NULL where no quotes are around it.
        longest: how many bytes a record may have.
        fatal: what to raise where all that follows is doubtful: without a header, and where quotes
            don't end, however many records may be left out.
    """
    records = _records(lines, fatal, longest)
    line, header, reason = next(records, (1, [], "there is no header with the columns' names"))
    if reason:
        raise fatal(line, reason)
    names = [str(name) for name in header]
    for line, fields, wrong in records:
        if not wrong and len(fields) != len(names):
            wrong = f"has {len(fields)} fields, and the header {len(names)}"
        values = [
            None if isinstance(field, _Unquoted) and field == null else str(field)
            for field in fields
        ]
        yield line, names, values, wrong


def _records(
    lines: Iterable[tuple[int, bytes]], fatal: Fatal, longest: int
) -> Iterator[tuple[int, list[str], str]]:
    """(first line, fields, reason) of each record; a quoted field may hold line ends."""
    begun = size = quotes = 0
    held: list[bytes] = []
    for number, line in lines:
        if not held:
            begun, size, quotes = number, 0, 0
        held.append(line)
        size += len(line) + 1
        quotes += line.count(b'"')
        if size > longest:
            raise fatal(begun, f"a quoted field does not end within {size_words(longest)}")
        if quotes % 2 == 0:
            yield begun, *_fields(b"\n".join(held))
            held = []
    if held:
        raise fatal(begun, "a quoted field does not end")


def _fields(record: bytes) -> tuple[list[str], str]:
    try:
        text = record.decode().removesuffix("\r")
    except UnicodeDecodeError as error:
        return [], f"byte {error.start + 1} is no UTF-8"
    if '"' not in text:
        return [_Unquoted(field) for field in text.split(",")], ""
    fields: list[str] = []
    at = 0
    while True:
        found = _FIELD.match(text, at)
        if found is None:
            return [], f"has quotes where there can't be any, at character {at + 1}"
        quoted, plain, end = found.groups()
        fields.append(_Unquoted(plain) if quoted is None else quoted.replace('""', '"'))
        at = found.end()
        if not end:
            return fields, ""
