"""Forms of keys: the part of a key column's declaration that decides how the lake distinguishes its
values.

Two versions of a table may have a key of one type and store its values differently: ``TIME`` as
``10:00:00`` and, as ``TIME(3)``, as ``10:00:00.000``; a text by its weights, which may be padded to
the column's length. Rows of one version then meet no row of the other, and would stand beside them.
So a load records the forms of its key, and one that is another begins a new history.

Source: MySQL 8.0 manual, 12.8.1 "String Functions" (``WEIGHT_STRING``), 11.3.5 "The ENUM Type".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mirrorlake.sources.mysql.types.collations import identity_form, is_short
from mirrorlake.sources.mysql.types.registry import LABELS

if TYPE_CHECKING:
    from mirrorlake.sources.mysql.tables import Column

_BEFORE = "not recorded"
_NEWER = re.compile(r".+ \S+ (trimmed|levels|bytes|weights)")
"""Forms that no release had which did not record them."""
_LABEL = re.compile(r"'(?:[^']|'')*'")


def key_form(column: Column, *, collated: bool, hashed: bool) -> str:
    """What decides how a key column's values are told apart: its name, and more where that can be
    another one in the same type.

    Args:
        collated: whether its texts are told apart as the server does.
        hashed: whether the key is known by its bytes, which are those of its columns' texts.
    """
    kind = column.data_type
    more = ""
    if collated:
        more = f"{column.collation} {_identified(column)}".strip()
    elif kind in LABELS:
        more = column.column_type
    elif kind == "binary" or (kind == "decimal" and (column.precision or 0) > 38):
        more = f"{kind} {column.length if kind == 'binary' else column.scale}"
    elif kind == "time" or (hashed and kind in ("datetime", "timestamp")):
        more = f"{kind} {column.fraction or 0}"
    elif hashed and column.padded:
        more = column.column_type
    return f"{column.name} {more}".strip()


def _identified(column: Column) -> str:
    """Which bytes identify a text, if not the weights alone of a short one."""
    form = identity_form(column)
    if form == "padded":
        return str(column.length)
    # Older releases recorded nothing of a longer text, and may have had NULL for one.
    return "" if form == "weights" and is_short(column) else form


def other_forms(before: Sequence[str], now: Sequence[str]) -> list[tuple[str, str]]:
    """The forms of one key's columns, in one order, that are others now.

    Labels that were added at the end of an ENUM or SET leave the others what they were.

    >>> other_forms(["t time 0", "e enum('a','b')"], ["t time 3", "e enum('a','b','c')"])
    [('t time 0', 't time 3')]
    >>> other_forms(["e enum('a','b')"], ["e enum('a','x','b')"])
    [("e enum('a','b')", "e enum('a','x','b')")]
    >>> other_forms([], ["k utf8mb4_unicode_ci trimmed"])
    [('not recorded', 'k utf8mb4_unicode_ci trimmed')]
    """
    if not before:
        return [(_BEFORE, form) for form in now if _NEWER.fullmatch(form)]
    pairs = zip(before, now, strict=True) if len(before) == len(now) else ()
    return [(old, new) for old, new in pairs if old != new and not _only_longer(old, new)]


def _only_longer(before: str, now: str) -> bool:
    labels = [_LABEL.findall(form) for form in (before, now)]
    kinds = [form.partition("(")[0] for form in (before, now)]
    return bool(labels[0]) and kinds[0] == kinds[1] and labels[1][: len(labels[0])] == labels[0]
