"""One reading of a source's binary log, for the tables of it that follow it.

What belongs here: the stream, what of it is loaded, and what stops a table. What doesn't: which
tables are followed, and from where (`mirrorlake.operations.loading.follow_log`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from pymysql.connections import Connection

from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import LeaseHeld, LogPurged, LogUnreadable, MirrorlakeError, SourceError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import LogProgress
from mirrorlake.load.following.log_load import LogTerms, load_changes
from mirrorlake.load.following.log_rows import LogRows
from mirrorlake.load.protocol.load_run import settle_loads
from mirrorlake.operations.loading.binlog.following_table import (
    FollowingTable,
    InLog,
    Leased,
    LoggedName,
)
from mirrorlake.operations.loading.binlog.following_tenants import (
    ROWS_UNKNOWN,
    FollowingTenant,
    Pieces,
    beginning_of,
    groups_of,
)
from mirrorlake.operations.loading.binlog.held_changes import (
    HeldChanges,
    LoggedPiece,
    pieces_by_name,
)
from mirrorlake.operations.loading.binlog.log_ddl import LogDdl
from mirrorlake.operations.loading.binlog.open_log import OpenLog, open_log, why_unknown
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.sources.mysql.binlog.charsets import read_server_forms
from mirrorlake.sources.mysql.binlog.log_batches import BatchLimits, LogBatch, LoggedStatement
from mirrorlake.sources.mysql.binlog.positions import LogPosition, StreamPosition
from mirrorlake.sources.mysql.binlog.statements import may_define
from mirrorlake.sources.mysql.binlog.table_shape import FollowedTable
from mirrorlake.sources.mysql.binlog.transport import LogTransport
from mirrorlake.sources.mysql.following.log_state import (
    LogEnd,
    LogPlace,
    new_server_id,
    read_end,
)
from mirrorlake.sources.mysql.following.log_statements import moves_rows
from mirrorlake.sources.mysql.following.same_place import gtids_at
from mirrorlake.sources.mysql.sessions.connect import SourcePosition
from mirrorlake.table.log_place import place_of
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

_Kind = TypeVar("_Kind", bound=InLog)
_WAIT_SECONDS, _PAUSE = 30.0, 0.05
"""How long the log is waited for that a server said is there, and between two looks."""
LIMITS = BatchLimits()
"""How much is loaded at once."""


class LogStream:
    """One reading of a source's log, up to where it ended when it was looked at.

    Attributes:
        done: the tables that reached that place.
    """

    def __init__(
        self,
        workspace: Workspace,
        connection: Connection[Any],
        leased: Leased,
        seen: SourcePosition,
        end: LogEnd,
        tables: Sequence[InLog],
        source: SourceConfig,
        *,
        raises: bool,
    ) -> None:
        self._workspace, self._connection, self._leased = workspace, connection, leased
        self._seen, self._end, self._raises = seen, end, raises
        self._source, self._limits = source, LIMITS
        self._waiting = sorted(tables, key=lambda table: table.place.log)
        self._reading: dict[LoggedName, InLog] = {}
        self._wanted: dict[LoggedName, FollowedTable] = {}
        self._ddl = LogDdl(connection)
        self.done: list[InLog] = []

    def follow(self) -> None:
        """Read to the end.

        Raises:
            SourceError: the server was lost, or refused.
            LedgerError: the ledger failed.
        """
        for table in list(self._waiting):
            if (why := why_unknown(self._end.files, table.place)) is not None:
                self._unproved(table, why)
        deadline = time.monotonic() + _WAIT_SECONDS
        while self._waiting or self._reading:
            before = self._lowest()
            if self._read_or_leave(before):
                break
            self._waiting = sorted(self._tables(), key=lambda table: table.place.log)
            self._reading.clear()
            self._wanted.clear()
            if self._waiting and self._lowest() == before and time.monotonic() > deadline:
                raise SourceError(
                    f"source {self._source.name} said that its log goes on to "
                    f"{self._end.position}, and gives it to {before}",
                    source=self._source.name,
                    retryable=True,
                )
            time.sleep(_PAUSE)
        self.done = self._tables()

    def _tables(self) -> list[InLog]:
        return [*self._waiting, *self._reading.values()]

    def _lowest(self) -> LogPosition:
        starts = [t.place.position.start.log or t.place.log for t in self._tables()]
        return min(starts)

    def _read_or_leave(self, start: LogPosition) -> bool:
        """Read from a place on, and leave the tables of which that can't be; whether the end was
        reached."""
        try:
            return self._read(start)
        except LogPurged as error:
            for table in [t for t in self._tables() if t.place.position.start.log == start]:
                self._unproved(table, str(error))
        except LogUnreadable as error:
            for table in list(self._reading.values()) or list(self._waiting):
                self._unproved(table, str(error))
        return False

    def _read(self, start: LogPosition) -> bool:
        """Read from a place on; whether the end was reached."""
        with self._opened(start) as log:
            return self._read_on(log)

    @contextmanager
    def _opened(self, start: LogPosition, *, follow: bool = False) -> Iterator[OpenLog]:
        """The log from a place on.

        Args:
            follow: whether to wait for more at its end.
        """
        forms = read_server_forms(self._connection)
        known = [t.place.position.start for t in self._tables()]
        gtids = next((one.gtids for one in known if one.log == start and one.gtids), None)
        gtids = gtids or gtids_at(self._connection, self._source, self._seen.server, start)
        transport = LogTransport(
            self._source,
            StreamPosition(start, gtids),
            new_server_id(self._connection),
            follow=follow,
            server=self._seen.server,
        )
        with open_log(transport, start, self._wanted, forms, self._limits) as log:
            yield log

    def _read_on(self, log: OpenLog) -> bool:
        """Read to the end, or until enough was read; False: the log went no further."""
        while True:
            ahead = [table.place.log for table in self._waiting]
            until = min([*ahead, self._end.position])
            log.batches = log.batches or log.reader.batches(log.packets, until)
            for batch in log.batches:
                self._take(batch, log.held, log.files.made)
                if self._is_enough(batch):
                    return True
            log.batches = None
            if log.at < until:
                return False
            self._join(log.at, log.files.made)
            if not self._waiting and not log.at < self._end.position:
                self._note_end(log.reader.position, log.files.made)
                return True

    def _is_enough(self, batch: LogBatch) -> bool:  # noqa: ARG002 - for who folds in between
        """Whether to read no further for now."""
        return False

    def _join(self, at: LogPosition, made: Mapping[str, int]) -> None:
        """Begin with the tables whose place was reached."""
        for table in [t for t in self._waiting if not at < t.place.log]:
            if not any(one is table for one in self._waiting):
                continue  # it left with another one
            begun = made.get(at.file)
            if at != table.place.log:
                self._unproved(table, f"{table.place.log} is no place in its server's log any more")
            elif begun is not None and table.place.made and begun != table.place.made:
                self._unproved(table, "its server's log was begun again (RESET MASTER)")
            else:
                self._waiting.remove(table)
                self._reading[table.name] = table
                self._wanted[table.name] = table.followed()

    # --- what the log says ------------------------------------------------------------------------

    def _take(self, batch: LogBatch, held: HeldChanges, made: Mapping[str, int]) -> None:
        """Load the changes of whole transactions; of one that goes on, keep them."""
        for stop in batch.stopped:
            if (table := self._reading.get((stop.database, stop.table))) is not None:
                self._unproved(table, f"its log can't be read at {stop.at}: {stop.error}")
        if (log := batch.position.log) is None:
            return
        if batch.state == "void":
            held.forget_from(log)
        held.add(batch.tables)
        pieces = held.take(before=log if batch.state == "open" else None)
        if batch.state == "open" and not pieces and not batch.statements:
            return
        place, seen = LogPlace(batch.position, made.get(log.file, 0)), self._seen_at(batch)
        by_name = pieces_by_name(pieces)
        for name, new in by_name.items():
            if isinstance(table := self._reading.get(name), FollowingTable):
                self._leasing(table, partial(self._load, table, new, place, seen))
                failpoint("log.table")
        self._take_tenants(batch, by_name, (place, seen))
        self._heed(batch, place, seen)
        self._note(place, seen.clock)

    def _take_tenants(
        self, batch: LogBatch, pieces: Pieces, moment: tuple[LogPlace, SourcePosition]
    ) -> None:
        """Give up the tenants that a statement altered, before the others' changes are loaded: who
        dies in between reads no statement again that a load is behind."""
        for tenant in self._those(FollowingTenant):
            if why := tenant.why_altered(batch.statements, self._connection):
                self._unproved(tenant, why)
        for group, members in groups_of(self._those(FollowingTenant)):
            if not group.load(members, pieces, moment, self._unproved):
                for member in members:
                    self._leave(member)

    def _heed(self, batch: LogBatch, place: LogPlace, seen: SourcePosition) -> None:
        """Take up what statements made of tables; give up those whose rows one changed, or may have
        changed, in a way that is not known."""
        for table in self._those(FollowingTable):
            new = [s for s in batch.statements if not s.transaction.at < table.place.log]
            mine = [s for s in new if may_define(s.text, [table.name])]
            if unknown := next((s for s in new if s.rows_unknown), None):
                self._unproved(table, f"{ROWS_UNKNOWN}: {beginning_of(unknown.text)}")
            elif table.shape is None or batch.state == "open":
                moving = (s for s in mine if moves_rows(s.text, *table.name))
                if (moved := next(moving, None)) is not None:
                    self._unproved(table, f"a statement moved its rows: {beginning_of(moved.text)}")
            elif mine:
                self._leasing(table, partial(self._follow, table, mine, place, seen))

    def _follow(
        self,
        table: FollowingTable,
        statements: Sequence[LoggedStatement],
        place: LogPlace,
        seen: SourcePosition,
        workspace: Workspace,
    ) -> None:
        if self._read_before(workspace, table, place) is None:
            return
        if why := self._ddl.follow(workspace, table, statements, place, seen):
            self._unproved(table, f"what became of its rows can't be told from its log: {why}")
        else:
            self._wanted[table.name] = table.followed()

    def _seen_at(self, batch: LogBatch) -> SourcePosition:
        """Where the source stood when the log ended with this batch."""
        log = batch.position.log
        if log is not None and not log < self._end.position:
            return self._seen
        # What was committed before its last event was written is in it, or was before it.
        written = datetime.fromtimestamp(batch.written_at, UTC).replace(tzinfo=None)
        return replace(self._seen, position="", clock=min(written, self._seen.clock))

    def _leasing(self, table: FollowingTable, act: Callable[[Workspace], None]) -> None:
        """Do something for a table under its lease; where that fails, it is followed no further."""
        try:
            with self._leased(table.contract) as workspace:
                act(workspace)
        except LogUnreadable as error:
            self._unproved(table, str(error))
        except MirrorlakeError as error:
            self._leave(table)
            if self._raises:
                raise
            level = logging.INFO if isinstance(error, LeaseHeld) else logging.WARNING
            logger.log(level, "table %s: its log is not followed: %s", table.plan.name, error)

    def _read_before(
        self, workspace: Workspace, table: FollowingTable, place: LogPlace
    ) -> LogPosition | None:
        """From where on changes are not in raw; None where the table can't be followed from here:
        another run may have been here, or have copied it again."""
        plan, ledger = table.plan, workspace.ledger
        if workspace.moved and not self._raises:
            self._leave(table)  # its own sync, which raises, has put right what other hands did
            return None
        settle_loads(workspace, table.contract)
        last = ledger.last_load(plan.name, "success", moving=True)
        since = place_of(ledger, plan.name, last)
        if last is None or since is None or ledger.unproved(plan.name) is not None:
            self._leave(table)
            return None
        if last.raw_table != plan.raw.name or place.log < since.log:
            self._leave(table)
            return None
        table.seq = last.seq
        return since.log

    def _load(
        self,
        table: FollowingTable,
        pieces: Sequence[LoggedPiece],
        place: LogPlace,
        seen: SourcePosition,
        workspace: Workspace,
    ) -> None:
        since = self._read_before(workspace, table, place)
        if since is None:
            return
        new = [piece for piece in pieces if not piece.last < since]
        if any([n for n in p.columns if n != ORIGINAL] != table.columns for p in new):
            words = "now" if table.held else "by its log"
            self._unproved(table, f"its rows in the log have other columns than it has {words}")
            return
        if not new:
            return
        rows = LogRows((piece.read() for piece in new), since, table.plan.key, seen)
        terms = LogTerms(self._connection, table.plan, table.continuity, place, table.held)
        load = load_changes(workspace, terms, rows)
        table.loads.append(load)
        table.seq, table.stamped = load.seq, table.continuity.identity

    def _those(self, kind: type[_Kind]) -> list[_Kind]:
        """What is being read of a kind."""
        return [one for one in self._reading.values() if isinstance(one, kind)]

    def _leave(self, table: InLog) -> None:
        """Follow a table no further."""
        self._reading.pop(table.name, None)
        self._wanted.pop(table.name, None)
        if table in self._waiting:
            self._waiting.remove(table)

    def _unproved(self, table: InLog, reason: str) -> None:
        """Leave a table, which the next sync reads again as a whole."""
        self._leave(table)
        logger.warning("table %s: %s: it is read again as a whole", table.plan.name, reason)
        table.give_up(self._workspace.ledger, self._seen.server, reason)

    # --- how far ----------------------------------------------------------------------------------

    def _note(self, place: LogPlace, clock: datetime) -> None:
        """Write down how far all tables were followed that are being read."""
        failpoint("log.progress")
        at, text = clock.replace(tzinfo=UTC), place.to_text()
        tables = [t for t in self._those(FollowingTable) if (t.place, t.noted) != (place, clock)]
        for table in tables:
            table.place, table.noted = place, clock
        self._workspace.ledger.record_log_progress(
            [LogProgress(table.plan.name, table.seq, text, at) for table in tables]
        )
        for group, members in groups_of(self._those(FollowingTenant)):
            group.note(members, place)

    def _note_end(self, position: StreamPosition, made: Mapping[str, int]) -> None:
        """The same at the end, where the last batch may have ended earlier, or there was none."""
        if position.log is None or not self._reading:
            return
        place = LogPlace(position, made.get(position.log.file, 0))
        for table in self._those(FollowingTable):
            if table.altered or table.doubt:
                self._leasing(table, partial(self._confirm, table, place))
        self._note(place, self._seen.clock)

    def _confirm(self, table: FollowingTable, place: LogPlace, workspace: Workspace) -> None:
        if self._read_before(workspace, table, place) is None:
            return
        if not (why := self._ddl.confirm(workspace, table, place, self._seen)):
            return
        if read_end(self._connection, self._source).position == self._end.position:
            self._unproved(table, why)
        else:
            self._leave(table)  # what comes after the end of this reading may tell more
