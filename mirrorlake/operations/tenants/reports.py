"""What is shown of a table of tenants, as its newest sync left it: kept in the ledger, so that it
is reported elsewhere, whether a command or Dagster ran the sync.

What belongs here: what distinguishes one state from another. What doesn't: reporting it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from mirrorlake.ledger import Ledger, Tenant


@dataclass(frozen=True)
class TenantsShown:
    """What readers are shown of a table of tenants.

    Attributes:
        state: one text for one set of tenants and copies in deduped, and one kind of clean.
        through: the number of the newest load of the table.
        run_id: of the run that made it so.
    """

    state: str
    through: int
    run_id: str


def record_shown(
    ledger: Ledger, table: str, tenants: Iterable[Tenant], clean: str, run_id: str
) -> None:
    """Keep what a sync shows, unless it is what the one before it showed.

    Args:
        tenants: all of the table, as the ledger has them now.
        clean: what distinguishes this clean from another one of the same rows.
    """
    listed = sorted((t.source, t.database, t.folded) for t in tenants if t.folded is not None)
    state = hashlib.sha256(json.dumps([listed, clean]).encode()).hexdigest()[:16]
    before, through = read_shown(ledger, table), ledger.newest_success(table)
    if listed and (before is None or (before.state, before.through) != (state, through)):
        shown = TenantsShown(state, through, run_id)
        ledger.record_definition(_name(table), json.dumps(asdict(shown)))


def read_shown(ledger: Ledger, table: str) -> TenantsShown | None:
    """What readers are shown of a table; None before a sync of this release showed something."""
    text = ledger.definition(_name(table))
    return None if text is None else TenantsShown(**json.loads(text))


def _name(table: str) -> str:
    return f"tenants_shown {table}"
