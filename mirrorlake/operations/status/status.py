"""The state of every table, from the ledger and the catalog alone: no source, no Spark.

What belongs here: what `mirrorlake status` shows. What doesn't: looking for differences (proof).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from mirrorlake.capabilities import Seam
from mirrorlake.config import Config, Mirrored, TableContract, TenantTable
from mirrorlake.destinations.iceberg.catalog.locations import metadata_locations
from mirrorlake.ledger import Ledger, Load, Receipt, age_of
from mirrorlake.ledger.lake.lake_heads import OF_MODELS
from mirrorlake.operations.other_writers.moved_lake import find_all_moved, recorded_tables
from mirrorlake.operations.publishers import published_statuses
from mirrorlake.operations.status.attention import undecided_columns
from mirrorlake.operations.status.known_of_all import KnownOfAll
from mirrorlake.operations.status.table_status import NOT_KNOWN, TableStatus
from mirrorlake.operations.status.tenants import tenants_status
from mirrorlake.proof.coverage.coverage import ProofStatus, proof_since_mark
from mirrorlake.proof.coverage.open_checks import find_open_checks
from mirrorlake.runtime.plural import plural
from mirrorlake.table.columns.clean_columns import LOOKS, look_name, read_look, undecided
from mirrorlake.table.columns.exchanged import EXCHANGED
from mirrorlake.table.columns.left_out import LEFT_OUT, left_out_columns, left_out_words
from mirrorlake.table.columns.new_columns import HIDDEN
from mirrorlake.table.meaning import edits_of
from mirrorlake.table.surplus import SURPLUS, surplus_words

if TYPE_CHECKING:
    from mirrorlake.destinations.iceberg.lake import Lake


OF_MODES: Seam[Callable[[KnownOfAll, TableContract], TableStatus]] = Seam("status")
"""By the name of a mode that a capability adds: a table's status."""


def status_of(config: Config, ledger: Ledger, contracts: Sequence[Mirrored]) -> list[TableStatus]:
    """The state of each of these tables, in their order.

    Raises:
        LakeError: the lake is not the one that the ledger knows, or it can't be read for a version
            not seen before.
        LedgerError: the ledger can't be read.
    """
    names = [contract.name for contract in contracts if not contract.landed]
    counts = _Counts(config, ledger)
    known = KnownOfAll(
        ledger=ledger,
        last=ledger.newest_attempts(names),
        good=ledger.newest_loads(names),
        behind=frozenset(ledger.unfolded_tables("deduped")),
        unproved=ledger.unproved_tables(),
        refusals=ledger.refusals(),
        holds={hold.source: hold for hold in ledger.holds()},
        chunked=frozenset(ledger.chunked_tables()),
        columns=ledger.newest_columns(),
        known_columns=ledger.all_known_columns(),
        looks=ledger.definitions(LOOKS),
        open_checks=find_open_checks(ledger),
        proved=frozenset(ledger.proved_tables()),
        marks=ledger.newest_marks(),
        stamps=ledger.stamps(names),
        surplus=ledger.definitions(SURPLUS),
        left_out=ledger.definitions(LEFT_OUT),
        exchanged=ledger.definitions(EXCHANGED),
        hidden=ledger.definitions(HIDDEN),
        published=published_statuses(config, ledger, {contract.name for contract in contracts}),
        moved=find_all_moved(config, ledger, contracts),
        rows_of=counts.rows_of,
    )
    found = [
        replace(
            _of_any(known, contract),
            suspected_pii=_suspected(contract, known),
            published=known.published(contract.name),
        )
        for contract in contracts
    ]
    ledger.record_counts(counts.counted)
    return found


def moved_models(config: Config, ledger: Ledger) -> list[TableStatus]:
    """Models whose tables other hands changed. Models have no state besides: that is of their
    partitions.

    Raises:
        LakeError: the lake is not the one that the ledger knows, or can't be read.
        LedgerError: the ledger can't be read.
    """
    models = [one for one in recorded_tables(config, ledger) if one.name.startswith(OF_MODELS)]
    found = find_all_moved(config, ledger, models) if models else {}
    return [
        TableStatus(
            table=name,
            mode="model",
            state="moved",
            last_load=None,
            rows=None,
            freshness=None,
            checks=NOT_KNOWN,
            error="; ".join(one.said for one in moved),
            originals={},
        )
        for name, moved in sorted(found.items())
    ]


def _of_any(known: KnownOfAll, contract: Mirrored) -> TableStatus:
    if isinstance(contract, TenantTable):
        return tenants_status(known, contract)
    of_mode = OF_MODES.added.get(contract.mode)
    return of_mode(known, contract) if of_mode is not None else _status(known, contract)


def _status(known: KnownOfAll, contract: TableContract) -> TableStatus:
    name, ledger = contract.name, known.ledger
    last, good = known.last.get(name), known.good.get(name)
    refusal, hold = known.refusals.get(name), known.holds.get(contract.source)
    rows, damage = known.rows_of(contract) if good else (None, None)
    stamp = known.stamps.get(name)
    found = stamp.evidence if stamp and good and stamp.seq == good.seq else None
    state = last.state if last else "never loaded"
    error = last.error if last and last.state in ("errored", "unknown") else None
    moved = known.moved_words(name)
    if moved:
        state, error = "moved", moved
    trusted = good is not None and not damage and not moved
    compared = trusted and name in known.proved
    proved = proof_since_mark(ledger, name, known.marks.get(name)) if compared else None
    return TableStatus(
        table=name,
        mode=contract.mode,
        state="refused" if refusal and not moved else state,
        last_load=last.started_at.isoformat(timespec="seconds") if last else None,
        rows=rows,
        freshness=None if moved else age_of(good, stamp=stamp),
        checks=damage or (NOT_KNOWN if moved else _checks(ledger, contract, good, known, proved)),
        proved=proved,
        unchanged=None if moved else found,
        error=refusal.error if refusal and not moved else error,
        refused_since=refusal.since.isoformat(timespec="seconds") if refusal else None,
        originals=good.receipt.original_columns if good and good.receipt else {},
        held_until=_iso(hold.until) if hold else None,
        held_for=hold.reason if hold else None,
        held_columns=undecided_columns(contract, known) if good else (),
        not_mirrored=_left_out(contract, known),
    )


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="minutes")


def _left_out(contract: TableContract, known: KnownOfAll) -> tuple[str, ...]:
    if contract.schema_changes != "freeze":
        return ()  # the next load takes them up
    return left_out_columns(known.left_out.get(LEFT_OUT + contract.name))


def _suspected(contract: Mirrored, known: KnownOfAll) -> dict[str, str]:
    return undecided(contract, read_look(known.looks.get(look_name(contract)))["found"])


def _checks(
    ledger: Ledger,
    contract: TableContract,
    good: Load | None,
    known: KnownOfAll,
    by_checks: ProofStatus | None,
) -> str:
    name = contract.name
    chunked = ledger.chunked_load(name) if name in known.chunked else None
    read = (
        [f"{len(chunked.receipts)} of {len(chunked.bounds):,} chunks of the newest load read"]
        if chunked
        else []
    )
    if good is None or good.receipt is None:
        return ", ".join(read) or "-"
    if mark := known.unproved.get(name):
        return f"unproved: {mark.reason}"
    if edits := edits_of(good.receipt, contract):
        return f"unproved: since it was loaded, {edits}"
    behind = _behind(ledger, name) if name in known.behind else 0
    proved = good.receipt.source_digest is not None
    found = [f"{plural(behind, 'load')} not folded" if behind else "folded", *read]
    if proved or by_checks is None:
        found.append(_loaded_words(good.receipt))
    found += [by_checks.words] if by_checks is not None else []
    found += [known.open_checks[name].words] if name in known.open_checks else []
    found += [words] if (words := surplus_words(known.surplus.get(SURPLUS + name))) else []
    found += _of_columns(good.receipt, contract, known)
    if good.receipt.future:
        rows = good.receipt.future
        found.append(f"{plural(rows, 'row')} dated in the future")
    if good.receipt.backward:
        rows = good.receipt.backward
        found.append(f"{plural(rows, 'row')} whose time went back")
    return ", ".join(found)


def _loaded_words(receipt: Receipt) -> str:
    """What is known of loads by their own proofs."""
    if receipt.source_digest is None:
        return "loaded, not yet proved"
    earlier = "" if receipt.all_proved else ", not all earlier ones"
    return f"loaded, proved before it was visible{earlier}"


def _behind(ledger: Ledger, name: str) -> int:
    """How many loads of the current history deduped does not hold."""
    loads = {load.seq for load in ledger.successful_loads(name)}
    return len(loads - ledger.folded_loads(name, "deduped"))


def _of_columns(receipt: Receipt, contract: TableContract, known: KnownOfAll) -> list[str]:
    """What there is to know of single columns: original texts, and what a person must decide."""
    found: list[str] = []
    if receipt.originals:
        columns = receipt.original_columns
        by_column = ", ".join(f"{column}: {count}" for column, count in columns.items())
        some = plural(receipt.originals, "original")
        by_columns = f" ({by_column})" if columns else ""
        found.append(f"{some} kept by the newest load{by_columns}")
    if held := undecided_columns(contract, known):
        found.append(f"held out of clean: {', '.join(held)}")
    if left := _left_out(contract, known):
        found.append(left_out_words(left))
    if suspected := _suspected(contract, known):
        found.append(f"may show personal data: {', '.join(suspected)}")
    return found


@dataclass
class _Counts:
    """How many rows deduped has: counted once per version, and kept in the ledger.

    A count of a version with delete files reads them, and PyIceberg takes seconds to import: where
    no table moved since the last look, neither is needed.
    """

    config: Config
    ledger: Ledger
    counted: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    _lake: Lake | None = None

    def __post_init__(self) -> None:
        self._locations = metadata_locations(self.config.lake)
        self._before = self.ledger.counted_rows()

    def rows_of(self, contract: TableContract) -> tuple[int | None, str | None]:
        """The rows, None where there is no table; and why they can't be read, where they can't."""
        at = None
        if self._locations is not None:
            at = self._locations.get((contract.namespaces.deduped, contract.table))
            if at is None:
                return None, None
            before = self._before.get(contract.name)
            if before is not None and before[0] == at:
                return before[1], None
        rows, damage = self._count(contract)
        if at is not None and rows is not None:
            self.counted[contract.name] = (at, rows)
        return rows, damage

    def _count(self, contract: TableContract) -> tuple[int | None, str | None]:
        from mirrorlake.destinations.iceberg.tables.integrity import count_rows
        from mirrorlake.destinations.iceberg.warehouse.identity import open_lake

        if self._lake is None:
            self._lake = open_lake(self.config, self.ledger)
        return count_rows(self._lake, self.ledger, contract)
