"""What a fold of one layer applies: which loads, over which that the layer holds already.

What belongs here: deciding it, from the ledger alone. What doesn't: applying it
(`mirrorlake.merge.fold`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirrorlake.errors import RowsMiscounted
from mirrorlake.ledger import Ledger, Load
from mirrorlake.table.chains import chain_of
from mirrorlake.table.resolve import ResolvedTable

LISTED = 200_000
"""Up to this many rows, the changed keys are brought here to be bounded."""
KNOWN_LOADS, KNOWN_ROWS = 8, 20_000
"""How far back loads are read for what the layer holds: at most this many, and this many rows, or
four times those that are folded."""


@dataclass(frozen=True)
class Todo:
    """What a fold of one layer applies.

    Attributes:
        loads: those whose rows, latest per key, must be applied.
        held: the numbers of the loads that the layer then holds.
        known: the loads right before these, which show what the layer holds of a key.
        windows: whether all are small windows, after all that the layer holds.
        again: whether all loads are folded again.
        repairs: whether a repair is among them: what the layer holds of these keys is not trusted.
        delta: whether these are copies that wrote what changed since what the layer holds.
    """

    loads: tuple[Load, ...] = ()
    held: tuple[int, ...] = ()
    known: tuple[Load, ...] = ()
    windows: bool = False
    again: bool = False
    repairs: bool = False
    delta: bool = False

    @property
    def rows(self) -> int:
        return sum(load.receipt.committed if load.receipt else LISTED for load in self.loads)

    @property
    def alone(self) -> Load | None:
        """The one load whose rows are applied, if it is one."""
        return self.loads[0] if len(self.loads) == 1 else None

    @property
    def most_changed(self) -> bool:
        """Whether it is a complete copy whose rows are mostly others than the one before had."""
        return bool(self.alone and self.alone.receipt and self.alone.receipt.most_changed)


def plan_fold(plan: ResolvedTable, folded: set[int], empty: bool, ledger: Ledger) -> Todo:
    """What a layer that holds these loads (and has a snapshot, or none) needs.

    Raises:
        RowsMiscounted: rows without a key can't be counted by these loads.
    """
    loads = ledger.successful_loads(plan.name)
    missing = [load for load in loads if load.seq not in folded]
    if not missing and not (empty and any(load.snapshot_id for load in loads)):
        return Todo()
    held = tuple(load.seq for load in loads)
    repairs = any(load.window.kind == "repair" for load in missing)
    if plan.contract.copies:
        return _plan_copies(loads, folded, held, empty=empty)
    if plan.contract.by_count:
        return _plan_counts(_counted(loads), folded, held, empty=empty)
    late = bool(folded) and bool(missing) and missing[0].seq < max(folded)
    if empty or late or not folded or not plan.key:
        return Todo(tuple(loads), held, again=True, repairs=repairs)
    # A load without rows committed nothing and has nothing to apply.
    new = tuple(load for load in missing if load.snapshot_id is not None)
    windows = all(load.window.kind == "live" for load in new)
    known = _known(new, [load for load in loads if load.seq in folded]) if windows else ()
    return Todo(new, held, known, windows, repairs=repairs)


def _plan_copies(
    loads: list[Load], folded: set[int], held: tuple[int, ...], *, empty: bool
) -> Todo:
    """What a layer needs of full copies: the newest complete one and what stands on it; or, where
    it holds the rows of one of these, what came after that."""
    chain = chain_of(loads)
    seqs = [load.seq for load in chain]
    newest = max(folded, default=0)
    # A copy that found nothing changed committed nothing; a complete one of an empty table may not
    # have either, and empties the layer.
    if empty or newest not in seqs or not folded.issuperset(seqs[: seqs.index(newest) + 1]):
        deltas = (load for load in chain[1:] if load.snapshot_id is not None)
        return Todo((*chain[:1], *deltas), held)
    new = chain[seqs.index(newest) + 1 :]
    return Todo(tuple(load for load in new if load.snapshot_id is not None), held, delta=True)


def _plan_counts(
    loads: Sequence[Load], folded: set[int], held: tuple[int, ...], *, empty: bool
) -> Todo:
    """What a layer needs of a copy and what its log says since: all of it, or, where it holds the
    beginning of it, the rest."""
    if any(load.window.kind not in ("initial", "log") for load in loads):
        # A ledger that was rebuilt knows of some loads their files alone.
        raise RowsMiscounted("what some of its loads read is not known")
    seqs = [load.seq for load in loads]
    through = max(folded, default=0)
    begun = seqs[: seqs.index(through) + 1] if through in seqs else []
    again = empty or not begun or not folded.issuperset(begun)
    rest = loads[1:] if again else loads[len(begun) :]
    new = (load for load in rest if load.snapshot_id is not None)
    # The first one even without rows: it empties what there was.
    return Todo((*(loads[:1] if again else ()), *new), held, again=again)


def _counted(loads: Sequence[Load]) -> Sequence[Load]:
    """The loads whose rows are counted together: the newest copy, and those of the log after it;
    without a copy, all."""
    copies = [n for n, load in enumerate(loads) if load.window.kind != "log"]
    return loads[copies[-1] :] if copies else loads


def _known(new: tuple[Load, ...], before: list[Load]) -> tuple[Load, ...]:
    """The newest loads that the layer holds, without a gap, back to a small window, if that is
    cheap to read: each begins no later than the next one, and so read what that one reads again.

    Only beside small windows: a reload takes older loads' rows out of raw, and what is left of a
    key there need not be what the layer holds.
    """
    rows = 4 * sum(load.receipt.rows for load in new if load.receipt) + KNOWN_ROWS
    known: tuple[Load, ...] = ()
    for load in reversed(before):
        if load.snapshot_id is None:
            continue
        if load.receipt is None or load.receipt.rows > rows or len(known) == KNOWN_LOADS:
            return known
        rows -= load.receipt.rows
        known = (load, *known)
        if load.window.kind == "live":
            return known
    return known
