"""Which proofs of a table are current: of the ranges that newer checks did not cover as a whole.

Where the order of two ends is not known (`mirrorlake.proof.ranges.range_ends`), an older range
stays in the list: nothing is ever taken for covered that is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mirrorlake.ledger.proofs.proof_records import Proof
from mirrorlake.proof.ranges.range_ends import is_at_most

BY_KEYS = ("full", "next", "keys")
"""What is requested by ranges of keys: such a check compared every row of its ranges."""
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


def open_proofs(proofs: Iterable[Proof]) -> list[Proof]:
    """Those of a table's proofs, the newest first, that found no equality, and of whose rows none
    has been found equal since; no more of them is read than it takes.

    An undecided check closes no difference. What was found by a day is closed by the day's next
    check; what was found by a condition, by checks of all keys alone: the ledger does not keep
    conditions.
    """
    found: list[Proof] = []
    every: list[Ends] = []
    decided: list[Ends] = []
    newest: dict[tuple[object, bool], str] = {}
    for proof in proofs:
        ends, undecided = (proof.lo, proof.hi), proof.verdict == "undecided"
        closed = proof.verdict == "equal" or is_covered(ends, every if undecided else decided)
        if proof.asked in BY_KEYS:
            every.append(ends)
            decided += [] if undecided else [ends]
        elif proof.day is not None or undecided:
            # A check's own ranges don't close each other.
            check = newest.setdefault((proof.day, undecided), proof.check_id)
            closed = (
                closed or check != proof.check_id or (undecided and (proof.day, False) in newest)
            )
        found += [] if closed else [proof]
        if proof.lo is None and is_covered((None, None), decided):
            break
    return found


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
