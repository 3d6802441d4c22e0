"""A source's log that is held open: each round loads what came since the last one.

What belongs here: the connection from round to round, and which tables a round met. What doesn't:
what is loaded of a log (`mirrorlake.operations.loading.binlog.log_stream`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from pymysql.connections import Connection
from typing_extensions import override

from mirrorlake.config import SourceConfig
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Load, LogProgress
from mirrorlake.operations.following.live_tenants import LiveTenants
from mirrorlake.operations.loading.binlog.following_table import FollowingTable, InLog, Leased
from mirrorlake.operations.loading.binlog.following_tenants import FollowingTenant, Pieces
from mirrorlake.operations.loading.binlog.held_changes import LoggedPiece
from mirrorlake.operations.loading.binlog.log_stream import LogStream, OpenLog
from mirrorlake.sources.mysql.binlog.log_batches import BatchLimits, LogBatch
from mirrorlake.sources.mysql.binlog.positions import LogPosition, StreamPosition
from mirrorlake.sources.mysql.binlog.statements import mentions
from mirrorlake.sources.mysql.following.log_state import LogEnd, LogPlace
from mirrorlake.sources.mysql.following.log_walk import is_begun_again
from mirrorlake.sources.mysql.sessions.connect import SourcePosition
from mirrorlake.workspace import Workspace

_NOTED_EVERY: Final = 10.0
"""Seconds between two notes of how far tables without a change were followed (each is a row a
table), and between two looks at whether the log's file is still the one that is read."""


@dataclass
class Round:
    """What was read of the log at once.

    Attributes:
        loads: by the name of each table that had changes; none where they were in raw already.
        altered: tables that a statement named: whoever syncs them looks at them again.
        left: tables of tenants that are not followed any more, by name.
        enough: whether it ended for its size: more is there.
    """

    loads: dict[str, list[Load]] = field(default_factory=dict[str, list[Load]])
    altered: set[str] = field(default_factory=set[str])
    left: dict[str, LiveTenants] = field(default_factory=dict[str, LiveTenants])
    rows: int = 0
    enough: bool = False


class LiveStream(LogStream):
    """One source's log, read on round by round over one connection; `close` ends it.

    Attributes:
        round: the newest.
        place: how far the log was read; None before the first round.
        as_of: up to when (UTC, by the source) all that was committed is in raw.

    Args:
        limits: of a round: it ends with the batch that reaches one of them.
    """

    def __init__(
        self,
        workspace: Workspace,
        connection: Connection[Any],
        leased: Leased,
        seen: SourcePosition,
        end: LogEnd,
        source: SourceConfig,
        limits: BatchLimits,
    ) -> None:
        super().__init__(workspace, connection, leased, seen, end, (), source, raises=False)
        self._limits = limits
        self._tenants: dict[str, LiveTenants] = {}
        self._log: OpenLog | None = None
        self._closing = ExitStack()
        self._noted_at, self._began = 0.0, 0.0
        self._from: LogPosition | None = None
        self.round = Round()
        self.place: LogPlace | None = None
        self.as_of: datetime | None = None

    @property
    def tables(self) -> list[FollowingTable]:
        """Those that are followed."""
        return [one for one in self._tables() if isinstance(one, FollowingTable)]

    @property
    def tenants(self) -> list[LiveTenants]:
        """The tables of tenants that are followed."""
        return list(self._tenants.values())

    @property
    def is_apart(self) -> bool:
        """Whether some of them are further in the log than the others: a round ended before it read
        to where they are."""
        return bool(self._waiting)

    def advance(self, seen: SourcePosition, end: LogEnd) -> Round:
        """Load what the log has up to its end, or as much of it as a round takes.

        Raises:
            SourceError: the server was lost, or refused. Close the stream, and open another.
            LedgerError: the ledger failed.
        """
        self._seen, self._end = seen, end
        self.round, self._began = Round(), time.monotonic()
        self._from = self._log.at if self._log is not None else None
        due = time.monotonic() - self._noted_at >= _NOTED_EVERY
        if (self._from is not None and end.position < self._from) or (
            due and self._is_begun_again()
        ):
            self.add(())  # it was begun again, or cut: their places are looked at again
        for table in self.tables:
            table.loads.clear()
        self.follow()
        if due:
            self._write_down()
        return self.round

    def _is_begun_again(self) -> bool:
        """Whether the file that is being read is no more that of its name. MySQL without GTIDs
        sends no word of RESET MASTER over a connection that is open: it goes on in the new file."""
        log = self._log
        if log is None or log.at.file not in self._end.files:
            return False
        place = LogPlace(StreamPosition(log.at), log.files.made.get(log.at.file, 0))
        return is_begun_again(self._connection, self._source, self._seen.server, [place])

    def add(self, tables: Sequence[InLog]) -> None:
        """Follow more tables, or the same ones from another place: the log is read again from the
        earliest place; what is in raw is passed over."""
        names = {table.contract.name for table in tables}
        kept = [table for table in self._tables() if table.contract.name not in names]
        self._waiting = sorted([*kept, *tables], key=lambda table: table.place.log)
        self._reading.clear()
        self._wanted.clear()
        self._hang_up()

    def leave(self, names: Set[str]) -> None:
        """Follow these tables no further, be they of tenants."""
        for table in [t for t in self.tables if t.contract.name in names]:
            self._leave(table)
        for name in names & self._tenants.keys():
            self.leave_tenants(name)

    def add_tenants(self, tenants: LiveTenants) -> bool:
        """Follow a table of tenants, too; whether that can be: one name is one table to a
        reading."""
        if {one.name for one in tenants.members} & {one.name for one in self._tables()}:
            return False
        self._tenants[tenants.name] = tenants
        self.add(tenants.members)
        return True

    def leave_tenants(self, name: str) -> None:
        """Follow a table of tenants no further: its sync is to take it up."""
        if (tenants := self.drop_tenants(name)) is not None:
            self.round.left[name] = tenants

    def drop_tenants(self, name: str) -> LiveTenants | None:
        """Follow a table of tenants no further; None where it was not followed, or left already."""
        self.round.left.pop(name, None)
        if (tenants := self._tenants.pop(name, None)) is None:
            return None
        tenants.release()
        self._waiting = [one for one in self._waiting if not _is_of(name, one)]
        for one in [one for one in self._reading.values() if _is_of(name, one)]:
            del self._reading[one.name]
            self._wanted.pop(one.name, None)
        return tenants

    def close(self) -> None:
        """Write down how far tables were followed, and end the connection."""
        try:
            self._write_down()
        finally:
            self._hang_up()

    def _hang_up(self) -> None:
        self._log = None
        self._closing.close()

    # --- how it is read ---------------------------------------------------------------------------

    def _read(self, start: LogPosition) -> bool:
        log = self._log
        if log is None:
            log = self._closing.enter_context(self._opened(start, follow=True))
            self._log, self._from = log, start
        elif log.batches is None and not self._waiting and not log.at < self._end.position:
            self._note_end(log.reader.position, log.files.made)
            return True
        reached = False
        try:
            reached = self._read_on(log)
        finally:
            if not reached:
                self._hang_up()
        return reached

    def _is_enough(self, batch: LogBatch) -> bool:
        # Of a transaction that goes on, what came is kept: the next round reads on in it.
        self.round.rows += batch.rows
        limits, at = self._limits, batch.position.log
        read = distance(self._end.files, self._from, at) if self._from and at else 0
        taken = time.monotonic() - self._began
        full = self.round.rows >= limits.rows or read >= limits.bytes or taken >= limits.seconds
        self.round.enough = full
        return full

    def _heed(self, batch: LogBatch, place: LogPlace, seen: SourcePosition) -> None:
        for statement in batch.statements:
            at = statement.transaction.at
            for table in self._those(FollowingTable):
                if mentions(statement.text, table.name[1]) and not at < table.place.log:
                    # Its own sync follows the statement, and folds what it made of the table.
                    self.round.altered.add(table.contract.name)
                    self._leave(table)
        super()._heed(batch, place, seen)

    def _load(
        self,
        table: FollowingTable,
        pieces: Sequence[LoggedPiece],
        place: LogPlace,
        seen: SourcePosition,
        workspace: Workspace,
    ) -> None:
        # Whoever died after a load of it has not folded it.
        loads = self.round.loads.setdefault(table.contract.name, [])
        super()._load(table, pieces, place, seen, workspace)
        loads[:] = table.loads

    @override
    def _take_tenants(
        self, batch: LogBatch, pieces: Pieces, moment: tuple[LogPlace, SourcePosition]
    ) -> None:
        """Load what a batch has of tenants; those of a table of which it has more than rows leave
        the log before anything of it is loaded."""
        met = [self._reading[name] for name in pieces if name in self._reading]
        for tenants in self.tenants:
            mine = [m for m in met if isinstance(m, FollowingTenant) and m.group is tenants.group]
            if not tenants.take(batch, mine, pieces, moment):
                self.leave_tenants(tenants.name)

    @override
    def _unproved(self, table: InLog, reason: str) -> None:
        if not isinstance(table, FollowingTenant):
            super()._unproved(table, reason)
            return
        # Its sync finds the same, has it read again, and lets the others go on.
        name = table.group.table.name
        if (tenants := self._tenants.get(name)) is not None:
            tenants.why = tenants.why or f"{table.plan.name}: {reason}"
        self.leave_tenants(name)

    # --- how far ----------------------------------------------------------------------------------

    def _note(self, place: LogPlace, clock: datetime) -> None:
        self.place, self.as_of = place, clock.replace(tzinfo=UTC)
        for table in self._those(FollowingTable):
            table.place, table.noted = place, clock
        for tenant in self._those(FollowingTenant):
            tenant.place = place
        for tenants in self.tenants:
            if tenants.place is None or tenants.place.log < place.log:
                tenants.place = place

    def _note_end(self, position: StreamPosition, made: Mapping[str, int]) -> None:
        super()._note_end(position, made)
        if position.log is not None and not self._reading:
            self._note(LogPlace(position, made.get(position.log.file, 0)), self._seen.clock)

    def _write_down(self) -> None:
        """Have the ledger know how far tables were followed, for other runs and for who asks how
        fresh they are."""
        failpoint("log.progress")
        self._noted_at = time.monotonic()
        self._workspace.ledger.record_log_progress(
            [
                LogProgress(t.plan.name, t.seq, t.place.to_text(), t.noted.replace(tzinfo=UTC))
                for t in self._those(FollowingTable)
                if t.noted is not None
            ]
        )


def _is_of(name: str, one: InLog) -> bool:
    return isinstance(one, FollowingTenant) and one.group.table.name == name


def distance(files: Mapping[str, int], start: LogPosition, end: LogPosition) -> int:
    """How many bytes of a log are between two of its places; 0 where its files don't tell.

    >>> distance({"a.1": 100, "a.2": 50}, LogPosition("a.1", 90), LogPosition("a.2", 20))
    30
    """
    if not start < end:
        return 0
    if start.file == end.file:
        return end.offset - start.offset
    if start.file not in files:
        return 0
    between = [
        size
        for name, size in files.items()
        if start < LogPosition(name, 0) and LogPosition(name, 0) < LogPosition(end.file, 0)
    ]
    return files[start.file] - start.offset + sum(between) + end.offset
