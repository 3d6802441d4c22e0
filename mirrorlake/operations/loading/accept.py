"""Accepting another server: a source that answers from elsewhere is read again, on a person's word.

Two servers' answers are not one history: a failover may have lost the last transactions, a restored
copy has another past. So the engine refuses a server that is not the last one, until somebody says
that it is the source now. Then everything that was read is unproved, and each table's next load
reads it as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from mirrorlake.config import Config
from mirrorlake.errors import SourceError
from mirrorlake.ledger import Ledger
from mirrorlake.sources.mysql.sessions.connect import read_position, session
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace


@dataclass(frozen=True)
class Accepted:
    """One table that will be read again.

    Attributes:
        table: ``source.db.table``.
        was: the server that it was read from.
        server: the one that answers now.
    """

    table: str
    was: str
    server: str


def accept_server(config: Config, ledger: Ledger, source: str) -> list[Accepted]:
    """Take the server that answers now for a source; its tables that were read from another.

    Raises:
        SourceError: the source could not be queried.
        LedgerError: the ledger could not be read or written.
    """
    with session(config.sources[source]) as connection:
        server = read_position(connection).server
    found: list[Accepted] = []
    for contract in (c for c in config.tables if c.source == source):
        newest = ledger.last_load(contract.name, "success")
        was = newest.receipt.server if newest and newest.receipt else server
        mark = ledger.unproved(contract.name)
        if was == server or (mark is not None and mark.server == server):
            continue
        reason = f"read from server {was}, and the source is server {server} now"
        ledger.mark_unproved(contract.name, server, reason)
        found.append(Accepted(contract.name, was, server))
    return found


def refuse_other_server(workspace: Workspace, plan: ResolvedTable, server: str) -> None:
    """See that a table is still read from the server that it was read from.

    Raises:
        SourceError: it is another one.
    """
    newest = workspace.ledger.last_load(plan.name, "success")
    mark = workspace.ledger.unproved(plan.name)
    if mark is not None and mark.server == server:
        return  # a person took it for the source
    if newest and newest.receipt and newest.receipt.server != server:
        raise SourceError(
            f"source {plan.source.name} is now server {server}; table {plan.name} was read from "
            f"{newest.receipt.server}",
            source=plan.source.name,
            table=plan.name,
            next_step="Two servers' answers are not one history: point the contract back, or, "
            f"if this is the source now, run `mirrorlake accept {plan.source.name}`: every table "
            "is read again",
        )
