"""Tenants whose rows in deduped may be others than those that a clean table shows.

A fold writes them down before it shows its rows, and the clean table takes them off once it shows
them too. So a run that dies in between forgets no tenant: the next sync finds it here. A tenant
that is listed needlessly costs a copy of its rows, and changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from mirrorlake.destinations.base import Identifier
from mirrorlake.ledger import Ledger, TenantPlace


@dataclass(frozen=True)
class Due:
    """What a clean table has to take from deduped.

    Attributes:
        places: these tenants.
        everything: all of them, and whatever else is there goes.
    """

    places: frozenset[TenantPlace] = frozenset()
    everything: bool = False

    def __bool__(self) -> bool:
        return self.everything or bool(self.places)


def read_due(ledger: Ledger, clean: Identifier) -> Due:
    """What a clean table has to take from deduped."""
    text = ledger.definition(_name(clean))
    if text is None:
        return Due()
    found = json.loads(text)
    return Due(frozenset((s, d) for s, d in found["places"]), found["everything"])


def add_due(
    ledger: Ledger, clean: Identifier, places: Iterable[TenantPlace], *, everything: bool
) -> None:
    """Write down that these tenants are due, beside those that are already."""
    before = read_due(ledger, clean)
    due = Due(before.places | {*places}, before.everything or everything)
    if due != before:
        text = {"places": sorted(due.places), "everything": due.everything}
        ledger.record_definition(_name(clean), json.dumps(text))


def forget_due(ledger: Ledger, clean: Identifier) -> None:
    """The clean table shows what deduped has: nothing is due."""
    ledger.forget_definition(_name(clean))


def _name(clean: Identifier) -> str:
    return f"tenants_due {clean}"
