"""Tables of other modes in a cut: those that equal MySQL at its place, however they were read.

A full copy, or windows of a cursor, say of no place in the log that they are there. A comparison
with MySQL as it was at the cut's place does.

What belongs here: which of them are in a cut, and how far from it the others are. What doesn't: the
comparison (`mirrorlake.cuts.prove`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config import Config, TableContract
from mirrorlake.cuts.ledger import Cut, CutTable
from mirrorlake.cuts.moment import Moment
from mirrorlake.cuts.prove import prove_table
from mirrorlake.cuts.tags import leave_out, shown_of, tag_shown
from mirrorlake.errors import LakeError, MirrorlakeError
from mirrorlake.ledger import Ledger
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace


def other_tables(config: Config, source: str) -> list[TableContract]:
    """The tables of a source that do not follow its log."""
    return [one for one in config.tables if one.source == source and not one.by_log]


def add_others(
    workspace: Workspace,
    contracts: Sequence[TableContract],
    moment: Moment,
    tables: list[CutTable],
    cut: Cut,
    say: Callable[[str], None],
) -> dict[str, str]:
    """Add to a cut's ``tables`` those of other modes that equal MySQL at its place; of the others,
    how far they are from it."""
    near: dict[str, str] = {}
    for number, contract in enumerate(contracts, 1):
        say(f"of other modes, {number} of {len(contracts)}: {contract.name}")
        try:
            found = _tagged(workspace, contract, cut)
            assert moment.connection is not None  # noqa: S101 (who asks for these has it proved)
            proved, *clean = (
                prove_table(workspace, contract, moment.connection, cut, one) for one in found
            )
            if proved.proved == "equal":
                tables += [proved, *clean]
                continue
            words = f"{proved.proved} at {cut.place}: {proved.words}"
            near[contract.name] = f"{words}; {_read_at(workspace.ledger, contract, cut)}"
        except MirrorlakeError as error:
            near[contract.name] = str(error)
        leave_out(workspace, contract, cut)
    return near


def _tagged(workspace: Workspace, contract: TableContract, cut: Cut) -> list[CutTable]:
    """Tag what a table shows once it is folded.

    Raises:
        LakeError: something of it is not folded.
    """
    found: list[CutTable] = []

    def tag(leased: Workspace, _: Connection[Any], plan: ResolvedTable) -> None:
        if contract.name in leased.ledger.unfolded_tables("deduped"):
            raise LakeError("a load of it is not folded", table=contract.name)
        found.extend(shown_of(leased, plan))
        tag_shown(leased, contract, cut, found)

    fold_table(workspace, contract, tag)
    return found


def _read_at(ledger: Ledger, contract: TableContract, cut: Cut) -> str:
    """When its newest load was read, beside the cut's moment."""
    load = ledger.last_load(contract.name, "success")
    if load is None:
        return "it was never read"
    seconds = (cut.at - load.started_at).total_seconds()
    if seconds >= 0:
        return f"its newest load began {seconds:,.1f} s before the cut's moment"
    return f"its newest load began {-seconds:,.1f} s after the cut's moment"
