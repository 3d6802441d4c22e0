"""Tables that follow their server's binary log: one stream for all of a source's.

Whatever was committed when the log's end was looked at is in raw afterwards. Each table's load says
up to which place of the log it has its changes, and rows of before that are passed over: what is
read twice, after a crash or beside another run, is loaded once. How far tables without a change
were followed is written down for all of them at once, when every load of a piece has succeeded.

What belongs here: which tables are followed, and from where. What doesn't: the first copy
(`mirrorlake.operations.loading.sync`), and what is read of the log
(`mirrorlake.operations.loading.binlog.log_stream`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from pymysql.connections import Connection

from mirrorlake.config import SourceConfig, TableContract
from mirrorlake.errors import ConfigError, MirrorlakeError, SchemaError, SourceError
from mirrorlake.ledger import Load
from mirrorlake.operations.loading.accept import refuse_other_server
from mirrorlake.operations.loading.next_load import find_next_load
from mirrorlake.operations.loading.resolve import resolve_as, resolve_table
from mirrorlake.sources.mysql.sessions.connect import read_position, session
from mirrorlake.table.columns.shape_at_place import contract_at, shape_at
from mirrorlake.table.holds import refuse_held
from mirrorlake.table.log_place import place_of, refuse_unlogged
from mirrorlake.workspace import Workspace

if TYPE_CHECKING:  # the decoder is imported once a table follows a log: each sync comes by here
    from mirrorlake.operations.loading.binlog.following_table import (
        FollowingTable,
        InLog,
        Leased,
    )
    from mirrorlake.sources.mysql.following.log_state import LogEnd, LogPlace

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Followed:
    """What became of a table that follows the log.

    Attributes:
        loads: of its changes, in their order.
        as_of: up to when (UTC, by the source) its raw has all that was committed.
        changes: what was followed of its columns, in words.
        place: up to which place of the log; None where that was not noted.
    """

    loads: tuple[Load, ...]
    as_of: datetime
    changes: tuple[str, ...] = ()
    place: LogPlace | None = None


class ReadAlong(Protocol):
    """What reads a source's log along with its tables.

    Attributes:
        tables: what is read.
    """

    @property
    def tables(self) -> Sequence[InLog]: ...

    def end(self, done: Sequence[InLog], end: LogEnd) -> None:
        """Take in which of them were followed to the log's end."""
        ...


Along = Callable[
    ["Connection[Any]", SourceConfig, Sequence["InLog"]], AbstractContextManager[ReadAlong]
]
"""What gives what reads along, of a source whose log is about to be read for these tables."""


def follow_tables(
    workspace: Workspace,
    contracts: Sequence[TableContract],
    *,
    ends: Mapping[str, LogEnd] = MappingProxyType({}),
    along: Along | None = None,
) -> dict[str, Followed]:
    """Load what the log says of tables that have their copy; what became of each, by name.

    A table that is not among them was not followed to the log's end: it has no copy yet, is to be
    read again as a whole, or something failed. Whoever syncs it next says which, and why.

    Args:
        ends: by source: where its log ended, and they are followed to; those that are beyond it
            are left. By default each source's log as it ends now.
        along: what else reads these logs.

    Raises:
        LedgerError: the ledger failed.
    """
    found: dict[str, Followed] = {}
    mine = [contract for contract in contracts if contract.by_log]
    for source in dict.fromkeys(contract.source for contract in mine):
        try:
            tables = [c for c in mine if c.source == source]
            parts = (workspace, tables, workspace.leased, ends.get(source), along)
            found |= _follow_source(*parts)
        except SourceError as error:
            logger.warning("source %s: its log was not followed: %s", source, error)
    return found


def follow_copied(workspace: Workspace, contract: TableContract) -> Followed | None:
    """The same of one table, under its lease; None where its log says that it has to be read again
    as a whole.

    Args:
        workspace: with the table's lease.

    Raises:
        MirrorlakeError: the log, or the table, could not be read, or its changes not be loaded.
    """
    found = _follow_source(workspace, [contract], lambda _: nullcontext(workspace), alone=True)
    return found.get(contract.name)


def _follow_source(
    workspace: Workspace,
    contracts: Sequence[TableContract],
    leased: Leased,
    end: LogEnd | None = None,
    along: Along | None = None,
    *,
    alone: bool = False,
) -> dict[str, Followed]:
    from mirrorlake.operations.loading.binlog.following_table import FollowingTable
    from mirrorlake.operations.loading.binlog.log_stream import LogStream
    from mirrorlake.operations.loading.moved_server import move_to_server, moved_tables
    from mirrorlake.sources.mysql.following.log_state import read_end, refuse_unfollowable

    source = workspace.config.sources[contracts[0].source]
    with session(source) as connection:
        seen = read_position(connection)
        tables: list[FollowingTable] = []
        moved = moved_tables(workspace.ledger)
        for contract in contracts:
            try:
                refuse_held(workspace.ledger, contract.source)
                if contract.name in moved:
                    with leased(contract) as own:
                        move_to_server(own, connection, contract, seen)
                table = resolve_following(workspace, contract, connection, seen.server)
            except MirrorlakeError as error:
                if alone:
                    raise
                logger.info("table %s: its log is not followed: %s", contract.name, error)
                continue
            tables += [table] if table is not None else []
        if end is not None:
            tables = [table for table in tables if not end.position < table.place.log]
        if not tables:
            return {}
        refuse_unfollowable(connection, source, {table.name for table in tables})
        end = end or read_end(connection, source)
        seen = replace(seen, clock=end.clock)
        with along(connection, source, tables) if along else nullcontext() as beside:
            others = beside.tables if beside is not None else ()
            if any(end.position < one.place.log for one in others):
                others = ()  # another run was here meanwhile
            every = [*tables, *others]
            parts = (workspace, connection, leased, seen, end, every, source)
            stream = LogStream(*parts, raises=alone)
            stream.follow()
            if beside is not None and others:
                beside.end(stream.done, end)
    done = [table for table in stream.done if isinstance(table, FollowingTable)]
    at = end.clock.replace(tzinfo=UTC)
    return {t.contract.name: Followed(tuple(t.loads), at, tuple(t.changes), t.place) for t in done}


def resolve_following(
    workspace: Workspace, contract: TableContract, connection: Connection[Any], server: str
) -> FollowingTable | None:
    """A table that can be followed from where it stands; None where it is to be read as a whole.

    Raises:
        MirrorlakeError: it is refused, or something could not be read.
    """
    from mirrorlake.operations.loading.binlog.following_table import FollowingTable

    last = workspace.ledger.last_load(contract.name, "success", moving=True)
    if last is None:
        return None
    plan = resolve_table(workspace, contract, connection)
    refuse_other_server(workspace.ledger, connection, plan, server)
    upcoming = find_next_load(connection, workspace, plan, server)
    place = place_of(workspace.ledger, plan.name, last)
    if place is None or (upcoming.whole and not upcoming.doubt):
        return None
    refuse_unlogged(plan)
    shape = shape_at(workspace.ledger, plan.name, place)
    if not upcoming.doubt:
        return FollowingTable(contract, plan, upcoming.continuity, place, last.seq, shape)
    if shape is None:
        return None
    # What its rows in the log are of is what it was there, whatever it is by now.
    try:
        then = resolve_as(workspace, contract_at(contract, shape[1]), shape[1])
    except (ConfigError, SchemaError) as error:
        logger.info("table %s: its log is not followed: %s", contract.name, error)
        return None
    parts = (contract, then, upcoming.continuity.goes_on(), place, last.seq, shape)
    return FollowingTable(*parts, upcoming.doubt, held=False)
