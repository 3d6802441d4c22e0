"""Rows that only the mirror has: how many deduped held, after a read of the whole table, that this
read did not bring.

MySQL deleted them, or its table was dropped and made again: which of the two, nothing tells. Where
a contract says `deletes: remove` they are to go, by the sweep of a check; until then they would
look current without a word.

What belongs here: how many, as the ledger keeps it, and in words. What doesn't: finding them
(`mirrorlake.proof`), and removing them (`mirrorlake.operations.repairing.repair`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Sequence
from typing import Final

from mirrorlake.config.contract import TableContract
from mirrorlake.ledger import Ledger, Load
from mirrorlake.runtime.plural import plural

logger = logging.getLogger(__name__)

SURPLUS: Final = "surplus "
"""How the names begin of what the ledger keeps of it; the table's own follows."""


def read_whole(ledger: Ledger, contract: TableContract, folded: Collection[int]) -> list[Load]:
    """The newest read of the whole table among loads that were just folded, and all loads after it;
    none where no such read is among them.

    Args:
        folded: the loads' numbers.
    """
    if contract.copies:
        return []
    loads = ledger.successful_loads(contract.name, min(folded) - 1)
    whole = [x.seq for x in loads if x.seq in folded and x.window.kind == "initial"]
    return [x for x in loads if x.seq >= max(whole)] if whole else []


def note_surplus(
    ledger: Ledger, contract: TableContract, loads: Sequence[Load], rows: int, *, kept: bool
) -> None:
    """Write down how many rows deduped has, at least, that a read of the whole table did not bring.

    Args:
        loads: that read, and those after it: see `read_whole`.
        rows: of deduped, after they were folded.
        kept: whether rows that MySQL has no more are to stay.
    """
    more = rows - sum(load.receipt.rows if load.receipt else rows for load in loads)
    name, receipt = SURPLUS + contract.name, loads[0].receipt
    if more <= 0 or receipt is None or kept:
        if ledger.definition(name) is not None:
            ledger.forget_definition(name)
        return
    ledger.record_definition(name, json.dumps({"rows": more, "at": receipt.moment[:19]}))
    logger.warning(
        "table %s: %s. `mirrorlake repair %s --deletes` removes those that MySQL has no more",
        *(contract.name, surplus_words(ledger.definition(name)), contract.name),
    )


def surplus_words(recorded: str | None) -> str:
    """What the ledger keeps of it, in words; '' if nothing.

    >>> surplus_words('{"rows": 2, "at": "2026-01-01 12:00:00"}')
    '2 rows only in the mirror when all of MySQL was read (2026-01-01 12:00:00 UTC)'
    """
    if not recorded:
        return ""
    found = json.loads(recorded)
    count, at = found["rows"], found["at"]
    rows = plural(count, "row")
    return f"{rows} only in the mirror when all of MySQL was read ({at} UTC)"
