"""What is shown of a table of tenants, as its newest sync left it: kept in the ledger, so that it
is reported elsewhere, whether a command or Dagster ran the sync.

What belongs here: what distinguishes one state from another. What doesn't: reporting it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from mirrorlake.config.contract import TenantTable
from mirrorlake.errors import LedgerError, MirrorlakeError, SourceHeld
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
    listed = sorted((t.source, t.database, _rows_of(t)) for t in tenants if t.folded is not None)
    state = hashlib.sha256(json.dumps([listed, clean]).encode()).hexdigest()[:16]
    before, through = read_shown(ledger, table), ledger.newest_success(table)
    if listed and (before is None or (before.state, before.through) != (state, through)):
        shown = TenantsShown(state, through, run_id)
        ledger.record_definition(_name(table), json.dumps(asdict(shown)))


def _rows_of(tenant: Tenant) -> str | None:
    """What distinguishes a tenant's rows in deduped: its copy, and what its log said since."""
    if tenant.log_place is None or tenant.read_at is None:
        return tenant.folded
    return f"{tenant.folded} {tenant.read_at.isoformat()}"


def read_shown(ledger: Ledger, table: str) -> TenantsShown | None:
    """What readers are shown of a table; None before a sync of this release showed something."""
    text = ledger.definition(_name(table))
    return None if text is None else TenantsShown(**json.loads(text))


def _name(table: str) -> str:
    return f"tenants_shown {table}"


@contextmanager
def recorded_refusal(ledger: Ledger, table: TenantTable) -> Iterator[None]:
    """Keep what stopped the sync of a table as a whole, and since when, until a sync is not
    stopped."""
    before = ledger.refusals().get(table.name)
    try:
        yield
    except (LedgerError, SourceHeld):
        raise  # held by another run, nowhere to write it down, or what a person wanted
    except MirrorlakeError as error:
        since = before.since if before else None
        ledger.record_refusal(table.name, str(error), passing=error.retryable, since=since)
        raise
