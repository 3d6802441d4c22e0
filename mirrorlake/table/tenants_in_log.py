"""How far tenants were followed in their servers' logs, as the ledger has it.

A tenant's copy says from where on the log continues it. Beyond that each raw table says, for each
source, up to which place it has the changes of all tenants that are followed: its loads do, and
where there was none, what is recorded here for all raw tables of a source at once.

What belongs here: these places. What doesn't: reading the log
(`mirrorlake.operations.tenants.follow`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mirrorlake.config.contract import TenantTable
from mirrorlake.ledger.loads.tenants import Tenant, TenantPlace
from mirrorlake.ledger.records import Load
from mirrorlake.ledger.store import Ledger

if TYPE_CHECKING:  # the decoder is imported once a table follows a log
    from mirrorlake.sources.mysql.following.log_state import LogPlace


@dataclass(frozen=True)
class CopyPlace:
    """From where on a log continues a tenant's copy.

    Attributes:
        server: the identity of the server that has that log.
        place: where its log is read on from (`LogPlace`): the copy saw all that is before it.
        key: by which of its columns the log's rows are told apart.
        until: the number of the last load that may have changes of it, since the log continues it
            no more; None: it does.
    """

    server: str
    place: str
    key: tuple[str, ...]
    until: int | None = None

    def to_text(self) -> str:
        return json.dumps([self.server, self.place, self.key, self.until])

    @classmethod
    def of(cls, tenant: Tenant) -> CopyPlace | None:
        """What was recorded of a tenant's newest copy; None: no log continues it."""
        if tenant.log_place is None:
            return None
        server, place, key, until = json.loads(tenant.log_place)
        return cls(server, place, tuple(key), until)


def ended(tenant: Tenant, seq: int) -> Tenant:
    """A tenant whose copy its log continues no more: it is to be read again.

    Args:
        seq: the number of the newest load: what is loaded later continues another copy.
    """
    copied = CopyPlace.of(tenant)
    if copied is None or copied.until is not None:
        return replace(tenant, terms=None)
    return replace(tenant, terms=None, log_place=replace(copied, until=seq).to_text())


@dataclass(frozen=True)
class _Noted:
    """A place, and the number of the newest load that there was when it was noted."""

    seq: int
    place: str


@dataclass(frozen=True)
class SourcePlaces:
    """How far the tenants of one source were followed.

    Attributes:
        server: the identity of the server whose log it was.
        raw: by raw table, for all tenants that are followed in it.
    """

    server: str
    raw: Mapping[str, _Noted]

    def place_of(self, tenant: Tenant, raw_table: str) -> LogPlace | None:
        """From where on a tenant's changes are not in raw; None where this log does not continue
        its copy."""
        from mirrorlake.sources.mysql.following.log_state import LogPlace

        copied = CopyPlace.of(tenant)
        if copied is None or copied.server != self.server:
            return None
        place, noted = LogPlace.parse(copied.place), self.raw.get(raw_table)
        # One that was noted before this copy may be of another log.
        if noted is None or tenant.seq is None or noted.seq <= tenant.seq:
            return place
        return max(place, LogPlace.parse(noted.place), key=lambda one: one.log)

    def at(self, raw_tables: Iterable[str], place: LogPlace, seq: int) -> SourcePlaces:
        """The same once the log was read on for all tenants in these raw tables.

        Args:
            seq: the number of the newest load.
        """
        noted = dict.fromkeys(raw_tables, _Noted(seq, place.to_text()))
        return SourcePlaces(self.server, {**self.raw, **noted})


def read_places(ledger: Ledger, table: TenantTable, source: str, server: str) -> SourcePlaces:
    """How far the tenants of a source were followed; nothing is known of another server's log.

    Args:
        server: the identity of the source's server now.
    """
    found = _recorded(ledger, table).get(source)
    if found is None or found["server"] != server:
        return SourcePlaces(server, {})
    noted = {raw: _Noted(seq, place) for raw, (seq, place) in found["raw"].items()}
    # A run that died noted less than its loads have.
    newest = min((one.seq for one in noted.values()), default=0)
    for load in log_loads(ledger, table, newest):
        receipt = load.receipt
        if receipt is None or receipt.log_source != source or receipt.server != server:
            continue
        before = noted.get(load.raw_table)
        if receipt.log_place is not None and (before is None or before.seq < load.seq):
            noted[load.raw_table] = _Noted(load.seq, receipt.log_place)
    return SourcePlaces(server, noted)


def servers_of(ledger: Ledger, table: TenantTable) -> dict[str, str]:
    """The identity of the server whose log was last followed, by source."""
    return {source: found["server"] for source, found in _recorded(ledger, table).items()}


def lowest_place(
    ledger: Ledger, table: TenantTable, source: str, server: str, tenants: Iterable[Tenant]
) -> LogPlace | None:
    """From where on changes of some of these tenants of a source are not in raw; None where its log
    continues the copy of none.

    Args:
        server: the identity of the source's server now.
    """
    places = read_places(ledger, table, source, server)
    raw = {version.hash: version.raw_table for version in ledger.schema_versions(table.name)}
    found = [
        place
        for one in tenants
        if one.version in raw and (place := places.place_of(one, raw[one.version])) is not None
    ]
    return min(found, key=lambda one: one.log) if found else None


def record_places(ledger: Ledger, table: TenantTable, source: str, places: SourcePlaces) -> None:
    """Write down how far the tenants of a source were followed."""
    noted = {raw: [one.seq, one.place] for raw, one in places.raw.items()}
    found = {**_recorded(ledger, table), source: {"server": places.server, "raw": noted}}
    ledger.record_definition(_name(table), json.dumps(found))


def newest_seq(ledger: Ledger, table: TenantTable) -> int:
    """The number of a table's newest load; 0: it has none."""
    newest = ledger.last_load(table.name, "success")
    return newest.seq if newest is not None else 0


def log_loads(ledger: Ledger, table: TenantTable, after_seq: int) -> list[Load]:
    """The loads of tenants' changes with a higher number."""
    loads = ledger.successful_loads(table.name, after_seq)
    return [load for load in loads if load.receipt is not None and load.receipt.log_source]


def log_loads_of(ledger: Ledger, table: TenantTable, tenants: Sequence[Tenant]) -> list[Load]:
    """The loads that may have changes of these tenants since their newest copies."""
    seqs = [one.seq for one in tenants if one.log_place is not None and one.seq is not None]
    return log_loads(ledger, table, min(seqs)) if seqs else []


def has_changes_in(tenant: Tenant, load: Load) -> bool:
    """Whether a load of a log may have changes of a tenant since its newest copy."""
    copied = CopyPlace.of(tenant)
    if copied is None or load.receipt is None or load.receipt.log_source != tenant.source:
        return False
    return (tenant.seq or 0) < load.seq and (copied.until is None or load.seq <= copied.until)


def with_lost_changes(
    ledger: Ledger, table: TenantTable, tenants: Mapping[TenantPlace, Tenant]
) -> dict[TenantPlace, Tenant]:
    """The tenants of whose changes raw lost some: what is left of them is no state that they
    had."""
    lost = ledger.unknown_loads(table.name)
    return {
        place: tenant
        for place, tenant in tenants.items()
        if any(has_changes_in(tenant, load) for load in lost)
    }


def _recorded(ledger: Ledger, table: TenantTable) -> dict[str, Any]:
    text = ledger.definition(_name(table))
    return json.loads(text) if text is not None else {}


def _name(table: TenantTable) -> str:
    return f"tenants' log {table.name}"
