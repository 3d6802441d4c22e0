"""Accepting another server: a source that answers from elsewhere is read again, on a person's word.

Two servers' answers are not one history: a failover may have lost the last transactions, a restored
copy has another past. So the engine refuses a server that is not the last one, until somebody says
that it is the source now. Then everything that was read is unproved, and each table's next load
reads it as a whole; but for tables that follow a log which the other server has, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config import Config, TableContract
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
        follows: whether its log is followed on from where it stands, and nothing is read again.
        why: why not, of a table that follows its server's log; '' of any other.
    """

    table: str
    was: str
    server: str
    follows: bool = False
    why: str = ""


def accept_server(config: Config, ledger: Ledger, source: str) -> list[Accepted]:
    """Take the server that answers now for a source; its tables that were read from another.

    Raises:
        SourceError: the source could not be queried.
        LedgerError: the ledger could not be read or written.
    """
    found: list[Accepted] = []
    with session(config.sources[source]) as connection:
        server = read_position(connection).server
        for contract in (c for c in config.tables if c.source == source):
            newest = ledger.last_load(contract.name, "success")
            was = newest.receipt.server if newest and newest.receipt else server
            mark = ledger.unproved(contract.name)
            if was == server or (mark is not None and mark.server == server):
                continue
            why = ""
            if contract.by_log and mark is None:
                why = _why_not_followed(connection, config, ledger, contract, server)
                if not why:
                    found.append(Accepted(contract.name, was, server, follows=True))
                    continue
            reason = f"read from server {was}, and the source is server {server} now"
            ledger.mark_unproved(contract.name, server, f"{reason}: {why}" if why else reason)
            found.append(Accepted(contract.name, was, server, why=why))
    return found


def _why_not_followed(
    connection: Connection[Any],
    config: Config,
    ledger: Ledger,
    contract: TableContract,
    server: str,
) -> str:
    from mirrorlake.operations.loading.moved_server import accept_place

    try:
        accept_place(connection, config, ledger, contract, server)
    except SourceError as error:
        return error.message
    return ""


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
