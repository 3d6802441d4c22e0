"""When a table became so much smaller that a person has to say whether it is right."""

from __future__ import annotations

_FEWEST_REMOVED_FROM = 100
"""Deletes in a smaller mirror than this are followed: a short queue that ran empty is no alarm."""


def is_too_small(before: int, now: int, limit: float) -> bool:
    """Whether ``now`` rows after ``before`` ones are for a person to decide.

    >>> is_too_small(10, 2, 0.9), is_too_small(10, 1, 0.9), is_too_small(0, 0, 0.9)
    (False, True, False)
    """
    return now < before and (now == 0 or before - now >= limit * before)


def takes_too_many(shown: int, removed: int, limit: float | None) -> bool:
    """Whether a person has to say that ``removed`` of the ``shown`` rows may leave the mirror.

    >>> takes_too_many(1_200, 1_060, 0.8), takes_too_many(1_200, 1_060, 0.9)
    (True, False)
    >>> takes_too_many(99, 99, 0.9), takes_too_many(1_200, 1_200, None)
    (False, False)
    """
    if limit is None or shown < _FEWEST_REMOVED_FROM:
        return False
    return is_too_small(shown, max(0, shown - removed), limit)
