"""Schema versions that tenants brought lately: the ledger alone is queried.

The versions of a table's first look are where it begins. One that comes later is new for a day, and
at least until the next look.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from mirrorlake.config.contract import TenantTable
from mirrorlake.ledger import Ledger

_NEW_FOR = timedelta(days=1)


@dataclass(frozen=True)
class TenantDrift:
    """What a look found.

    Attributes:
        versions: how many there are.
        new: hash → when it was first seen (UTC), of those that came lately.
        first: whether nobody looked before.
    """

    versions: int
    new: Mapping[str, datetime]
    first: bool


def look_for_drift(ledger: Ledger, table: TenantTable, now: datetime | None = None) -> TenantDrift:
    """The versions that are new, and write down that somebody looked."""
    now = now or datetime.now(UTC)
    name, seen = f"schema_drift {table.name}", ledger.first_seen(table.name)
    text = ledger.definition(name)
    looks = json.loads(text) if text else {}
    if seen:  # before the first version there is nothing to begin from
        first = looks.get("first", now.isoformat())
        ledger.record_definition(name, json.dumps({"first": first, "last": now.isoformat()}))
    if not looks:
        return TenantDrift(len(seen), {}, first=True)
    last = datetime.fromisoformat(looks["last"])
    after = max(datetime.fromisoformat(looks["first"]), min(last, now - _NEW_FOR))
    new = {h: at for h, at in seen.items() if at.replace(tzinfo=UTC) > after}
    return TenantDrift(len(seen), new, first=False)
