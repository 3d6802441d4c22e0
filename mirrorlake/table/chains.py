"""Chains of full copies: a complete copy, and the later ones that wrote what had changed since.

A table's rows are those of its newest chain: of each key the newest row among its loads,
unless that is a tombstone. A complete copy begins a chain, and nothing before it counts any more.

What belongs here: which loads belong together, by their receipts alone; pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from mirrorlake.errors import LakeError
from mirrorlake.ledger import Load

UNKNOWN_DELTA = "delta"
"""The lower bound of a window whose load a rebuilt ledger knows by its files alone, to have written
what changed: on which copy it stands is not known."""


def chain_of(loads: Sequence[Load]) -> tuple[Load, ...]:
    """The newest chain among a table's successful copies, the complete one first.

    Args:
        loads: of the table's current history, in order.

    Raises:
        LakeError: what the newest copy stands on is not known any more.
    """
    copies = [load for load in loads if load.window.kind != "repair"]
    if not copies:
        return ()
    newest = copies[-1]
    base = base_of(newest)
    # One in the middle, too: what it changed would be left out.
    if any(load.seq >= base and _is_unknown_delta(load) for load in copies):
        raise _broken(newest)
    chain = tuple(load for load in copies if load.seq == base or base_of(load) == base)
    if chain[0].seq != base:
        raise _broken(newest)
    return chain


def _is_unknown_delta(load: Load) -> bool:
    return load.window.kind == "unknown" and load.window.lo == UNKNOWN_DELTA


def base_of(load: Load) -> int:
    """The number of the complete copy that a copy stands on, or is."""
    return (load.receipt.stands_on if load.receipt else 0) or load.seq


def _broken(load: Load) -> LakeError:
    return LakeError(
        f"table {load.table}: copies up to load {load.load_id} hold what changed alone, and the "
        "ledger does not know of each since which copy",
        table=load.table,
        next_step="Sync it: a complete copy is made",
    )
