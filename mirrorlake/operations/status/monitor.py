"""What keeps a mirror from being loaded, settled and as the ledger has it: `status --strict`.

What belongs here: what of each table's status is not right. What doesn't: the status itself
(`mirrorlake.operations.status.status`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import Final

from mirrorlake.config import Mirrored, TableContract, TenantTable
from mirrorlake.ledger import Ledger
from mirrorlake.operations.publishers import PublicationStatus
from mirrorlake.operations.status.attention import (
    Attention,
    attention_of,
    gravest_first,
    layers_attention,
    read_facts,
    tenants_attention,
)
from mirrorlake.operations.status.table_status import TableStatus
from mirrorlake.table.meaning import edits_of

_STATES: Final[Mapping[str, str]] = {
    "never loaded": "failed",
    "errored": "failed",
    "refused": "failed",
    "partly": "failed",
    "pending": "waiting",
    "moved": "moved",
    "unknown": "unknown",
}
"""What a state means that is not right."""


def not_right(
    ledger: Ledger,
    mirrored: Sequence[Mirrored],
    found: Sequence[TableStatus],
    others: Mapping[str, Mapping[str, PublicationStatus]],
) -> list[Attention]:
    """Everything that keeps these tables from being loaded, settled and as the ledger has it,
    gravest first; none where they are.

    Args:
        mirrored: the tables among ``found``.
        others: what was published of what is no mirrored table: its name → by publisher.

    Raises:
        LedgerError: the ledger can't be read.
    """
    facts, receipts = read_facts(ledger), ledger.newest_receipts()
    seen: list[Attention] = []
    for table in mirrored:
        seen += tenants_attention(ledger, table) if isinstance(table, TenantTable) else ()
    contracts = [one for one in mirrored if isinstance(one, TableContract)]
    for contract in contracts:
        if contract.landed:
            seen += layers_attention(contract, facts)
            continue
        seen += attention_of(ledger, contract, facts)
        if edits := edits_of(receipts.get(contract.name), contract):
            words = f"since it was loaded, {edits}: `mirrorlake sync {quote(contract.name)}`"
            seen.append(Attention(contract.name, "unproved", words))
    by_name = {contract.name: contract for contract in contracts}
    for status in found:
        seen += _of_status(status, by_name.get(status.table))
    for name, published in others.items():
        seen += _of_published(name, published)
    return gravest_first(seen)


def _of_status(status: TableStatus, contract: TableContract | None) -> Iterator[Attention]:
    """What the status of a table says that the ledger's facts do not.

    Args:
        contract: None of a table of tenants.
    """
    kind = _STATES.get(status.state)
    landed = contract is not None and contract.landed and kind != "moved"
    if landed and (kind is None or status.error):
        kind = "snapshots" if status.error else None
    if kind is not None:
        yield Attention(status.table, kind, status.error or _words(status.state))
    elif contract is not None and status.rows is None and status.last_load is not None:
        yield Attention(status.table, "failed", f"its rows can't be counted: {status.checks}")
    if contract is None:
        if status.held_until:
            yield Attention(status.table, "held", f"its sources are held until {status.held_until}")
        if status.held_columns:
            words = f"held out of clean: {', '.join(status.held_columns)}"
            yield Attention(status.table, "held columns", words)
    yield from _of_published(status.table, status.published)


def _words(state: str) -> str:
    if state == "pending":
        return "a load runs, or died: the next sync records what became of it"
    return state


def _of_published(
    name: str, published: Mapping[str, PublicationStatus | None]
) -> Iterator[Attention]:
    for publisher, load in published.items():
        if load is not None and load.state != "success":
            words = load.error or f"load job {load.job} is {load.state}"
            yield Attention(name, publisher, words)
