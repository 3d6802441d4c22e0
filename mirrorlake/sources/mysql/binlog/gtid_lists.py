"""MariaDB's global transaction ids: the last one of each domain.

Source: MariaDB knowledge base, "Global Transaction ID"; "Gtid Event", "Gtid List Event".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mirrorlake.errors import SourceError

_GTID = re.compile(r"(\d{1,10})-(\d{1,10})-(\d{1,20})", re.ASCII)


@dataclass(frozen=True, order=True)
class MariadbGtid:
    """One transaction: ``sequence`` counts those of a domain, whichever server wrote them."""

    domain: int
    server: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.domain}-{self.server}-{self.sequence}"

    @classmethod
    def parse(cls, text: str) -> MariadbGtid:
        """From its text.

        >>> MariadbGtid.parse("0-1-42").sequence
        42

        Raises:
            SourceError: it is none.
        """
        found = _GTID.fullmatch(text.strip())
        numbers = [int(part) for part in found.groups()] if found else []
        if not numbers or max(numbers[:2]) >= 2**32 or numbers[2] >= 2**64:
            raise SourceError(
                f"{text!r} is no GTID of MariaDB",
                next_step="Write it as domain-server-sequence: 0-1-42",
            )
        return cls(*numbers)


@dataclass(frozen=True)
class GtidList:
    """All transactions up to the last one of each domain.

    >>> str(GtidList.parse("1-2-3,0-1-7"))
    '0-1-7,1-2-3'
    """

    last: Mapping[int, MariadbGtid] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> GtidList:
        """From its text, as ``@@gtid_binlog_pos`` has it.

        Raises:
            SourceError: it is none, or names a domain twice.
        """
        parts = [part for part in text.replace("\n", "").split(",") if part.strip()]
        gtids = [MariadbGtid.parse(part) for part in parts]
        found = {gtid.domain: gtid for gtid in gtids}
        if len(found) != len(gtids):
            raise SourceError(f"{text!r} names a domain twice")
        return cls(found)

    def __str__(self) -> str:
        return ",".join(str(self.last[domain]) for domain in sorted(self.last))

    def __contains__(self, gtid: MariadbGtid) -> bool:
        known = self.last.get(gtid.domain)
        return known is not None and gtid.sequence <= known.sequence

    def __le__(self, other: GtidList) -> bool:
        """Whether the other one has all of these transactions."""
        return all(gtid in other for gtid in self.last.values())

    def add(self, gtid: MariadbGtid) -> GtidList:
        """These transactions, and one more with all before it."""
        return self if gtid in self else GtidList({**self.last, gtid.domain: gtid})
