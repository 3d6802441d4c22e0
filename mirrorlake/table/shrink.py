"""When a copy is so much smaller than the last one that a person has to say whether it is right."""

from __future__ import annotations


def is_too_small(before: int, now: int, limit: float) -> bool:
    """Whether ``now`` rows after ``before`` ones are for a person to decide.

    >>> is_too_small(10, 2, 0.9), is_too_small(10, 1, 0.9), is_too_small(0, 0, 0.9)
    (False, True, False)
    """
    return now < before and (now == 0 or before - now >= limit * before)
