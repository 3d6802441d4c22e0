"""What the last sync of a table of tenants saw that is no tenant's own: what the contract names and
that is no tenant, and drops that were refused. The ledger keeps it, so that it is reported until
it is put right.

What belongs here: what is kept of a look, and in which words. What doesn't: looking
(`mirrorlake.operations.tenants.survey`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from shlex import quote
from typing import Any

from mirrorlake.config.contract import TenantTable
from mirrorlake.ledger import Ledger, Tenant, TenantPlace
from mirrorlake.table.columns.exchanged import doubted_columns, exchanged_name

_MOST_GONE = 0.5
"""The share of a source's tenants that may be gone at once and are removed without a question: more
of them are a lost privilege more often than what somebody wanted."""
_CONFIRM = "--accept-smaller"


@dataclass(frozen=True)
class LeftOut:
    """Something that the contract names and that is no tenant.

    Attributes:
        source: where it is; "" of a pattern, which is about all sources.
        name: a database; "" where it is the whole source; of a pattern ``pattern`` or ``left_out``,
            and its text.
        why: in words.
    """

    source: str
    name: str
    why: str

    @property
    def label(self) -> str:
        """``source.database``, ``source``, ``pattern …`` or ``left_out …``."""
        return ".".join(part for part in (self.source, self.name) if part)


@dataclass(frozen=True)
class MassDrop:
    """Tenants of one source that are gone and whose rows stay until somebody confirms it.

    Attributes:
        gone: how many they are.
        of: how many tenants of the source deduped has.
        since: when this was refused first (UTC).
    """

    source: str
    gone: int
    of: int
    since: datetime

    @property
    def words(self) -> str:
        """What is refused, in words."""
        return (
            f"{self.gone:,} of {self.of:,} tenants of source {self.source} are gone; their rows "
            "stay as they were until somebody confirms it"
        )

    def next_step(self, table: str) -> str:
        """What a person can do."""
        return (
            "Check the account's privileges. If they were dropped: `mirrorlake sync "
            f"{quote(table)} {_CONFIRM}`"
        )


@dataclass(frozen=True)
class TenantLook:
    """What the last sync saw.

    Attributes:
        at: when (UTC).
        left_out: what the contract names and that is no tenant.
        without: databases that the patterns mean and that have no such table, as
            ``source.database``.
        drops: what was refused and is not confirmed yet.
        held: columns that clean leaves out until a person decides.
    """

    at: datetime
    left_out: tuple[LeftOut, ...] = ()
    without: tuple[str, ...] = ()
    drops: tuple[MassDrop, ...] = ()
    held: tuple[str, ...] = ()

    @property
    def reasons(self) -> dict[str, str]:
        """What was left out → why."""
        return {one.label: one.why for one in self.left_out}


def read_look(ledger: Ledger, table: TenantTable) -> TenantLook | None:
    """What the last sync of a table saw; None where no sync looked yet."""
    text = ledger.definition(_name(table))
    if text is None:
        return None
    found: dict[str, Any] = json.loads(text)
    decided = {name.lower() for name in table.columns} - _doubted(ledger, table)
    return TenantLook(
        at=datetime.fromisoformat(found["at"]),
        left_out=tuple(LeftOut(**one) for one in found["left_out"]),
        without=tuple(found["without"]),
        drops=tuple(
            MassDrop(one["source"], one["gone"], one["of"], datetime.fromisoformat(one["since"]))
            for one in found["drops"]
            if table.dropped == "remove"  # under `keep` nothing is refused any more
        ),
        held=tuple(name for name in found.get("held", ()) if name.lower() not in decided),
    )


def _doubted(ledger: Ledger, table: TenantTable) -> set[str]:
    """Columns that may have what another one had, in lower case."""
    recorded = ledger.definition(exchanged_name(table))
    return doubted_columns(recorded, table, ledger.known_columns(table.name))


def record_look(ledger: Ledger, table: TenantTable, look: TenantLook) -> None:
    """Keep what a sync saw, in place of what the one before it saw."""
    ledger.record_definition(_name(table), json.dumps(asdict(look), default=datetime.isoformat))


def mass_drops(
    known: Mapping[TenantPlace, Tenant],
    accepted: Collection[TenantPlace],
    before: Iterable[MassDrop],
) -> tuple[tuple[MassDrop, ...], set[TenantPlace]]:
    """Where most tenants of a source would be removed at once: what is refused, and whose rows
    stay.

    Args:
        known: as the ledger has them.
        accepted: tenants that a person said are gone.
        before: what was refused by the look before.
    """
    since = {drop.source: drop.since for drop in before}
    drops: list[MassDrop] = []
    kept: set[TenantPlace] = set()
    for source in dict.fromkeys(source for source, _ in known):
        shown = [t for p, t in known.items() if p[0] == source and t.folded is not None]
        leaving = {tenant.place for tenant in shown if tenant.gone_at is not None}
        if len(leaving) <= _MOST_GONE * len(shown):
            continue
        if staying := leaving - {*accepted}:
            began = since.get(source, datetime.now(UTC))
            drops.append(MassDrop(source, len(staying), len(shown), began))
            kept |= staying
    return tuple(drops), kept


def waiting(look: TenantLook | None, known: Mapping[TenantPlace, Tenant]) -> set[TenantPlace]:
    """The tenants that are gone and whose rows stay until somebody confirms that they are."""
    sources = {drop.source for drop in look.drops} if look is not None else set[str]()
    return {
        place
        for place, tenant in known.items()
        if place[0] in sources and tenant.gone_at is not None and tenant.folded is not None
    }


def with_drops(look: TenantLook, drops: Iterable[MassDrop]) -> TenantLook:
    """The look with what is refused now."""
    return replace(look, drops=tuple(drops))


def _name(table: TenantTable) -> str:
    return f"tenants_look {table.name}"
