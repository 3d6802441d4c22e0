"""Which of two ends of ranges comes first, where that is sure.

The ledger keeps the ends of ranges as texts. Their order is decided from the texts alone, only
where it is sure whatever the column's type; of others it is not known.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal

_NUMBER = re.compile(r"-?[0-9]+([.][0-9]+)?")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[0-9 :.]*")
_HEX = re.compile(r"([0-9A-F]{2})*")
_LONGEST = 255


def is_at_most(one: str, other: str) -> bool:
    """Whether an end of a range is surely the other one, or before it.

    >>> is_at_most("9", "10"), is_at_most('["1:b"]', '["2:aa"]'), is_at_most('["99"]', '["1234"]')
    (True, False, False)
    """
    if one == other:
        return True
    if _NUMBER.fullmatch(one) and _NUMBER.fullmatch(other):
        return Decimal(one) < Decimal(other)
    ours, theirs = _cells(one), _cells(other)
    if len(ours) != len(theirs):
        return False
    differ = next(((a, b) for a, b in zip(ours, theirs, strict=True) if a != b), None)
    return differ is not None and _is_before(*differ)


def _cells(end: str) -> list[str]:
    try:
        cells: object = json.loads(end)
    except ValueError:
        return []
    if not isinstance(cells, list):
        return []
    listed: list[object] = cells
    return [str(cell) for cell in listed]


def _is_before(one: str, other: str) -> bool:
    """Whether a cell's form is surely before another one of the same column."""
    texts = _text(one), _text(other)
    if texts[0] is not None and texts[1] is not None:
        # Whether the collation fills up with spaces or not.
        padded = (texts[0].ljust(_LONGEST), texts[1].ljust(_LONGEST))
        return texts[0] < texts[1] and padded[0] < padded[1]
    if _TIME.fullmatch(one) and _TIME.fullmatch(other):
        return len(one) == len(other) and one < other
    as_numbers = bool(_NUMBER.fullmatch(one) and _NUMBER.fullmatch(other))
    as_bytes = bool(_HEX.fullmatch(one) and _HEX.fullmatch(other))
    if not (as_numbers or as_bytes):
        return False
    # What can be both must be before as both.
    by_number = not as_numbers or Decimal(one) < Decimal(other)
    return by_number and (not as_bytes or one < other)


def _text(cell: str) -> str | None:
    head, _, text = cell.partition(":")
    return text if head == str(len(text.encode())) else None
