"""What a check of tenants found: of each, and of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirrorlake.errors import MirrorlakeError


@dataclass(frozen=True)
class TenantVerdict:
    """What a check found of one tenant.

    Attributes:
        verdict: ``equal``, ``different``, ``undecided``, or ``gone``: MySQL has no more of it to
            compare, and deduped its newest copy.
        mysql_rows: rows in MySQL now; None where it was not counted.
        lake_rows: rows of its newest copy in raw.
        differing: rows that deduped has and the copy has not, and the other way.
        words: why it is not equal.
    """

    source: str
    database: str
    verdict: str
    mysql_rows: int | None
    lake_rows: int | None
    differing: int
    words: str


@dataclass(frozen=True)
class CleanChecked:
    """What was compared of clean.

    Attributes:
        kind: ``view`` or ``table``.
        compared: with what, in words; "" where nothing was.
        words: what is wrong with it as a whole, or why it was not compared.
        verdict: ``equal``, ``different`` or ``undecided``, of the tenants that were compared; None
            where nothing was.
    """

    kind: str
    compared: str = ""
    words: str = ""
    verdict: str | None = None


@dataclass(frozen=True)
class TenantsChecked:
    """What a check found of a table of tenants.

    Attributes:
        verdicts: in the order of their tenants.
        unread: ``source.database`` of tenants that the sources have and no sync has seen yet.
        lost: sources that could not be looked at, and why; all of their tenants are undecided.
        left_out: what the contract names and that is no tenant → why: nothing of it is compared.
        clean: what was compared of clean; a tenant's verdict counts it in.
    """

    table: str
    clean: CleanChecked
    verdicts: tuple[TenantVerdict, ...]
    unread: tuple[str, ...] = ()
    lost: Mapping[str, MirrorlakeError] = field(default_factory=dict[str, MirrorlakeError])
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def verdict(self) -> str:
        """The worst of all; ``undecided`` of none, and where something was not compared. Of one
        that is gone all is compared that there is: its newest copy, which deduped must have."""
        found = {one.verdict for one in self.verdicts}
        if "gone" in found:
            found.add("equal")
        if self.unread or self.lost:
            found.add("undecided")
        worst = (word for word in ("different", "undecided", "equal") if word in found)
        return next(worst, "undecided")
