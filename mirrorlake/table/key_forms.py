"""Forms of keys: the part of a key column's declaration that decides how the lake distinguishes its
values.

Two versions of a table may have a key of one type and store its values differently: ``TIME`` as
``10:00:00`` and, as ``TIME(3)``, as ``10:00:00.000``; a text by its weights, padded to the column's
length. Rows of one version then meet no row of the other, and would stand beside them. So a load
records the forms of its key, and one that is another begins a new history.

Source: MySQL 8.0 manual, 12.8.1 "String Functions" (``WEIGHT_STRING``), 11.3.5 "The ENUM Type".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mirrorlake.sources.mysql.registry import LABELS

if TYPE_CHECKING:
    from mirrorlake.sources.mysql.tables import Column

_LABEL = re.compile(r"'(?:[^']|'')*'")


def key_form(column: Column, *, collated: bool, padded: bool, hashed: bool) -> str:
    """What decides how a key column's values are told apart: its name, and more where that can be
    another one in the same type.

    Args:
        collated: whether its texts are told apart as the server does.
        padded: whether their weights are padded to the column's length.
        hashed: whether the key is known by its bytes, which are those of its columns' texts.
    """
    kind = column.data_type
    more = ""
    if collated:
        more = f"{column.collation} {column.length}" if padded else f"{column.collation}"
    elif kind in LABELS:
        more = column.column_type
    elif kind == "binary" or (kind == "decimal" and (column.precision or 0) > 38):
        more = f"{kind} {column.length if kind == 'binary' else column.scale}"
    elif kind == "time" or (hashed and kind in ("datetime", "timestamp")):
        more = f"{kind} {column.fraction or 0}"
    elif hashed and column.padded:
        more = column.column_type
    return f"{column.name} {more}".strip()


def other_forms(before: Sequence[str], now: Sequence[str]) -> list[tuple[str, str]]:
    """The forms of one key's columns, in one order, that are others now.

    Labels that were added at the end of an ENUM or SET leave the others what they were.

    >>> other_forms(["t time 0", "e enum('a','b')"], ["t time 3", "e enum('a','b','c')"])
    [('t time 0', 't time 3')]
    >>> other_forms(["e enum('a','b')"], ["e enum('a','x','b')"])
    [("e enum('a','b')", "e enum('a','x','b')")]
    """
    pairs = zip(before, now, strict=True) if len(before) == len(now) else ()
    return [(old, new) for old, new in pairs if old != new and not _only_longer(old, new)]


def _only_longer(before: str, now: str) -> bool:
    labels = [_LABEL.findall(form) for form in (before, now)]
    kinds = [form.partition("(")[0] for form in (before, now)]
    return bool(labels[0]) and kinds[0] == kinds[1] and labels[1][: len(labels[0])] == labels[0]
