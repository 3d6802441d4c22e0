"""Which proofs of a table are current: of the ranges that newer checks did not cover as a whole.

The ledger keeps the ends of ranges as texts, and which of two ends comes first is decided from the
texts alone, only where it is sure whatever the column's type: of others it is not known, and then
an older range stays in the list. Nothing is ever taken for covered that is not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from mirrorlake.ledger.proof_records import Proof

BY_KEYS = ("full", "next", "keys")
"""What is requested by ranges of keys: such a check compared every row of its ranges."""
_NUMBER = re.compile(r"-?[0-9]+([.][0-9]+)?")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[0-9 :.]*")
_HEX = re.compile(r"([0-9A-F]{2})*")
_LONGEST = 255
Ends = tuple[str | None, str | None]
"""A range's ends as the ledger has them, [lo, hi); None: no bound."""


def current_proofs(proofs: Sequence[Proof]) -> list[Proof]:
    """Those of a table's proofs (oldest first) that newer ones do not cover, in the same order.

    A check of a day, or of a condition, covers no keys; of a day its newest check is current. The
    ledger does not keep conditions: the newest check of one stands for all.
    """
    found: list[Proof] = []
    ranges: list[Ends] = []
    checks: dict[object, str] = {}
    for proof in reversed(proofs):
        ends = (proof.lo, proof.hi)
        if is_covered(ends, ranges):
            continue
        if proof.asked in BY_KEYS:
            ranges.append(ends)
        elif checks.setdefault((proof.asked, proof.day), proof.check_id) != proof.check_id:
            continue
        found.append(proof)
    return found[::-1]


@dataclass(frozen=True)
class Newest:
    """The newest proofs of a table, back to where they hold all keys, or to the first.

    Attributes:
        by_keys: those of ranges of keys that newer ones do not cover, the newest first.
        others: those of days and conditions that are newer than the last of them.
        whole: whether the first hold all keys between them.
    """

    by_keys: Sequence[Proof]
    others: Sequence[Proof]
    whole: bool


def newest_of(proofs: Iterable[Proof]) -> Newest:
    """These of a table's proofs, the newest first; no more of them is read than it takes."""
    by_keys: list[Proof] = []
    ranges: list[Ends] = []
    others: list[Proof] = []
    for proof in proofs:
        ends = (proof.lo, proof.hi)
        if proof.asked not in BY_KEYS:
            others.append(proof)
        elif not is_covered(ends, ranges):
            by_keys.append(proof)
            ranges.append(ends)
            if is_covered((None, None), ranges):
                return Newest(by_keys, others, True)
    return Newest(by_keys, others, False)


def is_covered(ends: Ends, ranges: Sequence[Ends]) -> bool:
    """Whether ranges surely hold, together, every key of one."""
    low, high = ends
    reached: list[str] = [] if low is None else [low]
    left, before = list(reversed(ranges)), -1
    while len(left) != before:
        before, rest = len(left), list[Ends]()
        for begin, end in left:
            if not (begin is None or any(is_at_most(begin, point) for point in reached)):
                rest.append((begin, end))
            elif end is None or (high is not None and is_at_most(high, end)):
                return True
            else:
                reached = [point for point in reached if not is_at_most(point, end)] + [end]
        left = rest
    return False


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
