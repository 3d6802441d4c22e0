"""What a sync of tenants is to do, and what it did.

What belongs here: the words for both, and the counts. What doesn't: the sync
(`mirrorlake.operations.tenants.sync`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from mirrorlake.ledger import Tenant, TenantPlace
from mirrorlake.runtime.plural import plural
from mirrorlake.table.progress import OnProgress

COUNTS: Final = ("read", "unchanged", "failed", "gone", "not looked at")
"""What may have become of a tenant at a sync; each is counted once."""


@dataclass(frozen=True)
class TenantsSynced:
    """What a sync did of one table of tenants.

    Attributes:
        table: its name, ``group.table``.
        tenants: how many the mirror has now, those that are gone and whose rows stay too.
        shapes: how many schema versions the lake has of it.
        read: how many were read again, or had changes in their logs that were read.
        unchanged: how many were not, as their source shows that nothing happened.
        counts: what became of them (see `count_tenants`); these numbers add up to ``tenants``.
        joined: those of the read that were read for the first time.
        replaced: ``source.database`` of those whose table has the columns that it had and was made
            again, truncated, rebuilt or altered, or a partition of which was, and of those whose
            copy a log does not continue any more → what showed it, and what was done.
        gone: those whose database, or table, this sync was the first to miss.
        kept: all that are no more and whose rows readers still see, whenever they went → how many
            rows those are. A database that was renamed or moved to another server is such a tenant,
            and its rows are there under the new name as well.
        folded: of how many deduped got other rows.
        removed: tenants that are no more and whose rows left deduped and clean → how many rows
            those were; they are in ``tenants`` no more.
        rows_removed: of all of them.
        rows: of the tenants that were read, their changes too.
        failed: ``source.database`` → why it was not read; a whole source by its name, and as
            ``source.*`` where most of its tenants are gone and were not removed.
        clean: what clean is: ``view`` or ``table``.
        clean_made: whether all of it was made: there was none, or it was the other kind, or its
            rules changed.
        clean_written: of how many tenants rows were written into a clean table.
        held: sources that a person asked us to leave alone → until when, and why.
        left_out: what the contract names and that is no tenant (a view, a source without tenants,
            a pattern that no database matches) → why.
        without: databases that the patterns mean and that have no such table, as
            ``source.database``.
        held_columns: those that clean leaves out until a person decides.
        why_held: lines about them, with what to do.
        put_right: lake tables that were not as our last commit left them, and what was done.
    """

    table: str
    tenants: int
    shapes: int
    read: int
    unchanged: int
    counts: Mapping[str, int]
    joined: tuple[str, ...]
    gone: tuple[str, ...]
    folded: int
    removed: Mapping[str, int]
    rows_removed: int
    rows: int
    bytes: int
    seconds: float
    failed: Mapping[str, str]
    clean: str
    clean_made: bool
    clean_written: int
    held: Mapping[str, str] = field(default_factory=dict[str, str])
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    without: tuple[str, ...] = ()
    replaced: Mapping[str, str] = field(default_factory=dict[str, str])
    kept: Mapping[str, int] = field(default_factory=dict[str, int])
    held_columns: tuple[str, ...] = ()
    why_held: tuple[str, ...] = ()
    put_right: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """What was done, in a few words."""
        of = f"{self.read:,} of {plural(self.tenants, 'tenant')} read"
        failed = f", {len(self.failed):,} failed" if self.failed else ""
        return f"{of}{failed}, {plural(self.rows, 'row')}, {self.seconds} s"


@dataclass(frozen=True)
class SyncTerms:
    """How a sync of tenants is carried out.

    Attributes:
        databases: only these tenants; all where there is none.
        accept_smaller: whether copies are taken that are far smaller than the last ones, and many
            tenants may be gone at once; of these databases alone, where there are some.
        again: whether tenants are read that their source shows to be unchanged.
        sources: only tenants of these; of all where there is none.
    """

    databases: frozenset[str] = frozenset()
    accept_smaller: bool = False
    again: bool = False
    progress: OnProgress | None = None
    sources: frozenset[str] = frozenset()

    def means(self, place: TenantPlace) -> bool:
        """Whether a tenant is one of those that are meant."""
        return not self.databases or place[1] in self.databases


def count_tenants(
    known: Mapping[TenantPlace, Tenant],
    read: Collection[TenantPlace],
    unchanged: Collection[TenantPlace],
    failed: Collection[TenantPlace],
) -> dict[str, int]:
    """What became of each tenant at a sync, as one count for each of `COUNTS`: ``gone`` are those
    whose rows stay, ``not looked at`` those that were not requested, or whose source is held or
    can't be queried."""
    counts = Counter[str]()
    for place, tenant in known.items():
        if tenant.gone_at is not None:
            counts["gone"] += 1
        elif place in failed:
            counts["failed"] += 1
        elif place in read:
            counts["read"] += 1
        else:
            counts["unchanged" if place in unchanged else "not looked at"] += 1
    return {name: counts[name] for name in COUNTS}
