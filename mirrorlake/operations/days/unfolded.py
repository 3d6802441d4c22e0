"""Which tables' raw is ahead of what is folded from it, however its loads came there.

A load of the command line, of another process, or of a run that was killed before its fold leaves
a raw snapshot that nothing would fold until the table moves again. Here such tables are found from
the ledger, and from raw's own snapshots where the ledger can't know: a run that died after its
commit.

What belongs here: the decision. What doesn't: starting anything, and remembering the marks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Destination, Identifier
from mirrorlake.ledger import Ledger, Load
from mirrorlake.operations.days.raw_days import read_at

RETRY_AFTER = timedelta(minutes=15)
"""A request whose fold has not come after this time is made again."""


@dataclass(frozen=True)
class FoldRequest:
    """What a fold was requested for: the newest load, raw's snapshots then, and when (UTC, ISO)."""

    through: int
    heads: dict[str, int | None]
    at: str

    def __post_init__(self) -> None:
        """As of `mirrorlake.operations.loading.detect.Mark`.

        Raises:
            ValueError: ``at`` is no time.
        """
        datetime.fromisoformat(self.at)


@dataclass(frozen=True)
class FoldCursor:
    """What is remembered: no load up to ``floor`` waits for a fold; ``asked`` is by table name."""

    floor: int = 0
    asked: dict[str, FoldRequest] = field(default_factory=dict[str, FoldRequest])


@dataclass(frozen=True)
class Behind:
    """A table whose raw holds loads that are not folded; ``at`` is the day of the newest, or of
    partitions of an hour when it read (UTC, without a zone)."""

    contract: TableContract
    at: date
    request: FoldRequest


@dataclass(frozen=True)
class Unfolded:
    """The tables to be folded, and up to which load no table waits."""

    behind: tuple[Behind, ...]
    floor: int


def find_unfolded(
    lake: Destination, ledger: Ledger, contracts: Sequence[TableContract], marks: FoldCursor
) -> Unfolded:
    """The tables whose fold is due, against what was requested before. Nothing is written.

    A table that a live run holds is not due: that run, or the next look, will see to it.

    Raises:
        LakeError: a raw table could not be read.
        LedgerError: the ledger could not be read.
    """
    now = datetime.now(UTC).replace(tzinfo=None)
    highest = ledger.highest_seq()
    loads = _loads(ledger, contracts, marks.floor)
    found: list[Behind] = []
    for contract in contracts:
        waiting = loads.get(contract.name, [])
        if not waiting or ledger.is_held(contract.name):
            continue
        landed = [load for load in waiting if _landed(lake, contract, load)]
        if not landed:
            continue
        names = dict.fromkeys(load.raw_table for load in landed)
        heads = {n: lake.head(Identifier(contract.namespaces.raw, n)) for n in names}
        request = FoldRequest(landed[-1].seq, heads, now.isoformat())
        if not _is_pending(marks.asked.get(contract.name), request, now):
            found.append(Behind(contract, _when(contract, landed[-1]), request))
    lowest = min((load.seq for waiting in loads.values() for load in waiting), default=None)
    return Unfolded(tuple(found), highest if lowest is None else lowest - 1)


def _when(contract: TableContract, load: Load) -> date:
    """The day, or the moment, whose partition a fold of a load is requested for."""
    return read_at(load) if contract.partition == "hour" else load.window.day


def run_key(source: str, behind: Sequence[Behind], marks: FoldCursor) -> str:
    """One text per set of loads and snapshots, and per time that they were requested before."""
    said = [
        [b.contract.name, b.request.through, sorted(b.request.heads.items()), _before(b, marks)]
        for b in sorted(behind, key=lambda b: b.contract.name)
    ]
    digest = hashlib.sha256(json.dumps([source, said]).encode()).hexdigest()
    return f"fold-{source}-{digest[:16]}"


def _loads(
    ledger: Ledger, contracts: Sequence[TableContract], floor: int
) -> Mapping[str, list[Load]]:
    """By table: the loads that its folded layers don't hold."""
    by_name = {contract.name: contract for contract in contracts}
    found: dict[str, dict[int, Load]] = {}
    layers = ["deduped"]
    layers += ["clean"] if any(c.clean == "table" for c in contracts) else []
    for layer in layers:
        for load in ledger.unfolded_loads(layer, floor):
            contract = by_name.get(load.table)
            if contract is not None and (layer == "deduped" or contract.clean == "table"):
                found.setdefault(load.table, {})[load.seq] = load
    # What an earlier history left unfolded, no fold reaches any more.
    starts = {name: ledger.history_start(name) for name in found}
    kept = {n: [loads[q] for q in sorted(loads) if q >= starts[n]] for n, loads in found.items()}
    return {name: loads for name, loads in kept.items() if loads}


def _landed(lake: Destination, contract: TableContract, load: Load) -> bool:
    """Whether a load is in raw. Of one that never reported its end, raw's history knows."""
    if load.state == "success":
        return True
    raw = Identifier(contract.namespaces.raw, load.raw_table)
    return lake.find_load(raw, load.load_id) is not None


def _is_pending(before: FoldRequest | None, now: FoldRequest, at: datetime) -> bool:
    """Whether the same fold was requested, and not long ago."""
    if before is None or (before.through, before.heads) != (now.through, now.heads):
        return False
    return at - datetime.fromisoformat(before.at) < RETRY_AFTER


def _before(behind: Behind, marks: FoldCursor) -> str:
    """When the same fold was requested before: a request that is made again is another run."""
    before = marks.asked.get(behind.contract.name)
    same = before and (before.through, before.heads) == (
        behind.request.through,
        behind.request.heads,
    )
    return before.at if before and same else ""
