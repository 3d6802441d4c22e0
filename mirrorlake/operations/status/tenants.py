"""The state of a table of tenants as `mirrorlake status` shows it: of all its tenants together,
from the ledger alone.

What belongs here: the sum. What doesn't: each tenant (`mirrorlake tenants`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from mirrorlake.config.contract import TenantTable
from mirrorlake.ledger import Hold, Ledger, Load, Refusal, Tenant
from mirrorlake.operations.status.known_of_all import KnownOfAll
from mirrorlake.operations.status.table_status import NOT_KNOWN, TableStatus
from mirrorlake.operations.tenants.looks import TenantLook, read_look
from mirrorlake.proof.coverage.coverage import ProofStatus
from mirrorlake.table.holds import hold_words


def tenants_status(of_all: KnownOfAll, table: TenantTable) -> TableStatus:
    """The state of a table of tenants.

    Raises:
        LedgerError: the ledger can't be read.
    """
    ledger, load, moved = of_all.ledger, of_all.last.get(table.name), of_all.moved_words(table.name)
    holds = [of_all.holds[source] for source in table.sources if source in of_all.holds]
    known, look = list(ledger.tenants(table.name).values()), read_look(ledger, table)
    refused = _refused(table, of_all.refusals.get(table.name), look)
    proved = None if moved else _proved(ledger, table, known)
    until = min(hold.until for hold in holds) if len(holds) == len(table.sources) else None
    return TableStatus(
        table=table.name,
        mode="tenants",
        state="moved" if moved else "refused" if refused else _state(known, load),
        last_load=load.started_at.isoformat(timespec="seconds") if load else None,
        rows=_rows(known),
        freshness=None if moved else _age_of_the_oldest(known),
        checks=NOT_KNOWN if moved else _checks(known, look, holds, proved),
        error=moved or (refused.words if refused else _error(known, load)),
        refused_since=refused.since.isoformat(timespec="seconds") if refused else None,
        originals={},
        held_until=until.isoformat(timespec="minutes") if until else None,
        held_for="; ".join(sorted({h.reason for h in holds} - {""})) if until else None,
        held_columns=look.held if look is not None else (),
        proved=proved,
    )


@dataclass(frozen=True)
class _Refused:
    """What is refused, in words, and since when (UTC)."""

    words: str
    since: datetime


def _refused(
    table: TenantTable, refusal: Refusal | None, look: TenantLook | None
) -> _Refused | None:
    """The sync as a whole; or, where it is not, the removal of most of a source's tenants."""
    if refusal is not None:
        return _Refused(refusal.error, refusal.since)
    if look is not None and look.drops:
        drop = look.drops[0]
        return _Refused(f"{drop.words}. {drop.next_step(table.name)}", drop.since)
    return None


def _state(known: Collection[Tenant], load: Load | None) -> str:
    """The newest load's state where it died or failed, for then it says nothing of its tenants."""
    if load is None:
        return "never loaded"
    states = {one.state for one in known}
    if load.state == "pending" or (load.state == "errored" and "failed" not in states):
        return load.state
    return "mirrored" if states <= {"mirrored", "gone"} else "partly"


def _rows(known: Collection[Tenant]) -> int | None:
    # Where a newer copy is not folded yet, deduped has an older one, whose rows nobody kept.
    folded = [one for one in known if one.folded is not None]
    if not folded or any(one.folded != one.load_id for one in folded):
        return None
    return sum(one.rows or 0 for one in folded)


def _age_of_the_oldest(known: Collection[Tenant]) -> timedelta | None:
    seen = [one.seen_at for one in known if one.seen_at is not None and one.gone_at is None]
    return datetime.now(UTC) - min(seen) if seen else None


def _checks(
    known: Collection[Tenant],
    look: TenantLook | None,
    holds: Sequence[Hold],
    proved: ProofStatus | None,
) -> str:
    parts = [f"{count:,} {state}" for state, count in _counted(one.state for one in known)]
    checked = [
        f"checked {one.verdict_now}" if one.verdict_now else "never checked"
        for one in known
        if one.gone_at is None
    ]
    parts += [f"{count:,} {verdict}" for verdict, count in _counted(checked)]
    parts += [proved.words] if proved is not None else []
    if look is not None and look.left_out:
        parts.append(f"{len(look.left_out):,} left out")
    if look is not None and look.held:
        parts.append(f"held out of clean: {', '.join(look.held)}")
    parts += [hold_words(hold) for hold in holds]
    return ", ".join(parts) or "-"


def _proved(ledger: Ledger, table: TenantTable, known: Collection[Tenant]) -> ProofStatus | None:
    """What checks found equal to MySQL, as of the oldest of them, and of how many tenants newer
    copies were read since; None where nothing was found equal."""
    there = [one for one in known if one.gone_at is None]
    checked = {one.place: one.checked_at for one in there if one.verdict_now == "equal"}
    moments = {place: at.replace(tzinfo=UTC) for place, at in checked.items() if at is not None}
    if not moments:
        return None
    equal = [one for one in there if one.place in moments]
    loads = ledger.loads_of(table.name, {one.seq for one in equal if one.seq is not None})
    begun = {seq: load.started_at.replace(tzinfo=UTC) for seq, load in loads.items()}
    same = [one for one in equal if one.seq in begun and begun[one.seq] <= moments[one.place]]
    # What a log continues is read again with each change of it.
    same = [one for one in same if not _changed_since(one, moments[one.place])]
    # MySQL has nothing with which rows of those that are gone could be compared.
    kept = any(one.gone_at is not None and one.folded is not None and one.rows for one in known)
    return ProofStatus(
        as_of=min(moments.values()).isoformat(timespec="seconds"),
        rows=sum(one.rows or 0 for one in same),
        whole=len(same) == len(there) and not kept,
        loads_since=len(equal) - len(same),
        unit="copy",
    )


def _changed_since(tenant: Tenant, moment: datetime) -> bool:
    """Whether a log had changes of a tenant since."""
    if tenant.log_place is None or tenant.read_at is None:
        return False
    return tenant.read_at > moment


def _error(known: Collection[Tenant], load: Load | None) -> str | None:
    failed = [one for one in known if one.state == "failed"]
    if not failed:
        return load.error if load is not None and load.state == "errored" else None
    more = f" (and {len(failed) - 1:,} more: `mirrorlake tenants --failed`)"
    first = failed[0]
    return f"tenant {first.source}.{first.database}: {first.error}{more if failed[1:] else ''}"


def _counted(words: Iterable[str]) -> list[tuple[str, int]]:
    return sorted(Counter(words).items())
