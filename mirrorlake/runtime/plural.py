"""A count with its noun, as English has it."""

from __future__ import annotations


def plural(count: int, noun: str, many: str | None = None) -> str:
    """A number and what it counts.

    Args:
        many: the noun's plural where it is not one with an s; a verb may follow either.

    >>> plural(1, "row"), plural(1200, "row"), plural(0, "copy", "copies")
    ('1 row', '1,200 rows', '0 copies')
    >>> plural(1, "row differs", "rows differ")
    '1 row differs'
    """
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"
