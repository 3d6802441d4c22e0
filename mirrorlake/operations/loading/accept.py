"""Accepting another server: a source that answers from elsewhere is read again, on a person's word.

Two servers' answers are not one history: a failover may have lost the last transactions, a restored
copy has another past. So the engine refuses a server that is not the last one, until somebody says
that it is the source now. Then everything that was read is unproved, and each table's next load
reads it as a whole; but for tables that follow a log which the other server has, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any

from pymysql.connections import Connection

from mirrorlake.config import Config, SourceConfig, TableContract
from mirrorlake.errors import SourceError
from mirrorlake.ledger import Ledger
from mirrorlake.sources.mysql.sessions.connect import read_position, session
from mirrorlake.table.log_place import place_of
from mirrorlake.table.resolve import ResolvedTable

if TYPE_CHECKING:  # the decoder is imported once a table follows a log
    from mirrorlake.operations.loading.moved_server import AcceptedPlaces
    from mirrorlake.sources.mysql.following.log_state import LogPlace


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
        accepting = _Accepting(connection, config.sources[source], ledger, server)
        for contract in (c for c in config.tables if c.source == source):
            found += accepting.accept(contract)
    return found


class _Accepting:
    """Taking one server for a source, table by table."""

    def __init__(
        self, connection: Connection[Any], source: SourceConfig, ledger: Ledger, server: str
    ) -> None:
        self._connection, self._source = connection, source
        self._ledger, self._server = ledger, server
        self._places: AcceptedPlaces | None = None

    def accept(self, contract: TableContract) -> list[Accepted]:
        """Take it for a table; none, where it is read from that server anyway."""
        name, server = contract.name, self._server
        newest = self._ledger.last_load(name, "success")
        was = newest.receipt.server if newest and newest.receipt else server
        mark = self._ledger.unproved(name)
        if mark is not None and mark.server == server:
            return []
        why, reason = "", f"read from server {was}, and the source is server {server} now"
        if was == server:
            why = self._why_gone_back(contract)
            if not why:
                return []
            reason = f"server {server} was taken for the source as it is"
        elif contract.by_log and mark is None:
            why = self._why_not_followed(contract)
            if not why:
                return [Accepted(name, was, server, follows=True)]
        self._ledger.mark_unproved(name, server, f"{reason}: {why}" if why else reason)
        return [Accepted(name, was, server, why=why)]

    def _why_gone_back(self, contract: TableContract) -> str:
        from mirrorlake.sources.mysql.following.executed_sets import gone_back

        place = place_of(self._ledger, contract.name) if contract.by_log else None
        if place is None:
            return ""
        return gone_back(self._connection, self._source, self._server, place)

    def _why_not_followed(self, contract: TableContract) -> str:
        from mirrorlake.operations.loading.moved_server import AcceptedPlaces

        if self._places is None:
            parts = (self._connection, self._source, self._ledger, self._server)
            self._places = AcceptedPlaces(*parts)
        try:
            self._places.accept(contract)
        except SourceError as error:
            return error.message
        return ""


def refuse_other_server(
    ledger: Ledger, connection: Connection[Any], plan: ResolvedTable, server: str
) -> None:
    """See that a table is still read from the server that it was read from, and that this one still
    has what was followed of its log.

    Raises:
        SourceError: it is another one, or is what it was long ago.
    """
    newest = ledger.last_load(plan.name, "success")
    mark = ledger.unproved(plan.name)
    if newest is None or newest.receipt is None or (mark is not None and mark.server == server):
        return  # or a person took it for the source
    place = place_of(ledger, plan.name) if plan.contract.by_log else None
    if newest.receipt.server != server:
        follows = _what_follows(connection, server, place)
        raise SourceError(
            f"source {plan.source.name} is now server {server}; table {plan.name} was read from "
            f"{newest.receipt.server}",
            source=plan.source.name,
            table=plan.name,
            next_step="Two servers' answers are not one history: point the contract back, or, "
            f"if this is the source now, run `mirrorlake accept {quote(plan.source.name)}`: "
            f"{follows}",
        )
    if place is not None:
        from mirrorlake.sources.mysql.following.executed_sets import refuse_gone_back

        refuse_gone_back(connection, plan.source, server, place)


def _what_follows(connection: Connection[Any], server: str, place: LogPlace | None) -> str:
    """What is read of a table once another server is accepted."""
    if place is None:
        return "every table is read again"
    from mirrorlake.sources.mysql.following.same_place import why_not_there

    if why := why_not_there(connection, server, place):
        return f"the table is read again, as {why}"
    return "its log goes on there, and nothing is read again if the rest of it is there"
