"""A change of who sees what of a table."""

from __future__ import annotations

from dataclasses import dataclass

from mirrorlake.config.grants import Grant


@dataclass(frozen=True)
class PolicyChange:
    """Statements of DDL, one after the other, and what they change.

    Attributes:
        before: what is not so any more, but for what is in ``after``, too.
    """

    statements: tuple[str, ...]
    before: frozenset[Grant]
    after: frozenset[Grant]
