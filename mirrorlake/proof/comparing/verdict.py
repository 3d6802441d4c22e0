"""What a check may say: of the rows that were compared, and of no other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from mirrorlake.proof.comparing.recheck import Rechecked
from mirrorlake.proof.comparing.rows_beside_bounds import Beside
from mirrorlake.proof.forms.rows import Key
from mirrorlake.proof.ranges.ranges import Range, RangeProof, Span, Verdict

LEFT = "of the lake lie beside the cursor's bounds and were not compared"
NOTHING_OLD = "are newer than what the newest load has surely read, and no other could be compared"


def uncompared(ranges: Sequence[RangeProof], beside: Beside, waiting: int) -> Counter[str]:
    """Rows that no verdict may speak for, by the reason.

    Rows that wait are left out where others were compared: the verdict is about those. Where none
    were, it would be about nothing.
    """
    found = Counter({LEFT: beside.left} if beside.left else {})
    if waiting and not is_any_compared(ranges, beside):
        found[NOTHING_OLD] = waiting
    return found


def is_any_compared(ranges: Sequence[RangeProof], beside: Beside) -> bool:
    """Whether a row of either side was compared."""
    return any(r.source.rows or r.lake.rows for r in ranges) or beside.equal > 0


def verdict_of(rechecked: Rechecked, unlooked: int) -> Verdict:
    """The verdict of a whole check."""
    if rechecked.differences:
        return "different"
    # Where every candidate was rechecked and none was left, MySQL and the mirror met meanwhile.
    return "undecided" if rechecked.undecided or unlooked else "equal"


def settled_ranges(
    ranges: Sequence[RangeProof], verdict: Verdict, beside: Beside
) -> tuple[RangeProof, ...]:
    """A range has the whole check's verdict where its digests differ, and where it may hold a row
    beside the bounds that is not MySQL's; every one has, where nothing was compared."""
    every = beside.left > 0 or not is_any_compared(ranges, beside)
    return tuple(
        replace(one, verdict=verdict)
        if every or one.verdict != "equal" or _holds(one.range, beside.keys)
        else one
        for one in ranges
    )


def _holds(keys: Range | Span | None, candidates: Collection[Key]) -> bool:
    """Whether one of these keys may be in a range."""
    if not isinstance(keys, Range):
        return bool(candidates)
    return any(keys.holds(key[0]) for key in candidates)
