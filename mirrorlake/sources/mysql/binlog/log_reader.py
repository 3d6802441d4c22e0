"""Events → batches: transactions are put together, and rows gathered for the tables that want them.

Source: MySQL 8.0 manual, 5.4.4 "The Binary Log"; MySQL source, ``sql/binlog.cc``, MariaDB source,
``sql/log.cc``: which events a transaction consists of.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from mirrorlake.sources.mysql.binlog.byte_reader import unreadable
from mirrorlake.sources.mysql.binlog.column_forms import ServerForms
from mirrorlake.sources.mysql.binlog.events import event_kinds as kinds
from mirrorlake.sources.mysql.binlog.events.framing import (
    IGNORABLE,
    Framing,
    LogEvent,
    unknown_event,
)
from mirrorlake.sources.mysql.binlog.events.gtid_events import TransactionStart, read_start
from mirrorlake.sources.mysql.binlog.events.payload import read_payload
from mirrorlake.sources.mysql.binlog.events.rows import CHANGE_OF
from mirrorlake.sources.mysql.binlog.log_batches import (
    BatchLimits,
    LogBatch,
    LoggedStatement,
    LogTransaction,
)
from mirrorlake.sources.mysql.binlog.log_offsets import LogOffsets
from mirrorlake.sources.mysql.binlog.open_transactions import (
    OpenTransaction,
    PreparedTransaction,
    PreparedTransactions,
)
from mirrorlake.sources.mysql.binlog.positions import (
    LogPosition,
    StreamPosition,
    has_gtid,
    with_gtid,
)
from mirrorlake.sources.mysql.binlog.row_gatherer import RowGatherer
from mirrorlake.sources.mysql.binlog.statements import (
    LoggedQuery,
    QueryKind,
    may_define,
    read_query,
    read_xa_prepare,
)
from mirrorlake.sources.mysql.binlog.table_shape import FollowedTable

_BEGIN: Final = b"\0BEGIN"
_NOTHING: Final = ()
_ROW_KINDS: Final = frozenset({*CHANGE_OF, kinds.TABLE_MAP, kinds.PARTIAL_UPDATE_ROWS})


class LogReader:
    """Reads one server's log from one position on.

    Args:
        start: where reading begins; the transport must be given the same position.
        tables: the tables that are wanted, by (database, table), as the log spells them. Looked at
            whenever a table is met: a caller may change it between two batches. No batch has rows
            of before and of after a statement that may define one of them.
        checksums: as the transport says.
    """

    def __init__(
        self,
        start: StreamPosition,
        tables: Mapping[tuple[str, str], FollowedTable],
        server: ServerForms,
        *,
        checksums: bool,
        limits: BatchLimits | None = None,
    ) -> None:
        self._start, self._limits = start, limits or BatchLimits()
        self._server, self._tables = server, tables
        self._framing = Framing(checksums)
        self._gatherer = RowGatherer(tables, server)
        self._at = LogOffsets()
        self._done: tuple[str, int] | None = None
        self._gtids = start.start.gtids
        self._catching_up = start.since is not None
        # Read by transactions, a file is met in the middle: what of it was left out is not known.
        self._located = start.start.log is not None
        self._open: OpenTransaction | None = None
        self._prepared = PreparedTransactions()
        self._statements: list[LoggedStatement] = []
        self._reported: StreamPosition | None = None
        self._written_at = 0
        self._due: float | None = None
        self._handlers: dict[int, Callable[[LogEvent], Iterable[LogBatch] | None]] = {
            **dict.fromkeys(
                (kinds.GTID, kinds.ANONYMOUS_GTID, kinds.GTID_TAGGED, kinds.MARIADB_GTID),
                self._on_gtid,
            ),
            **dict.fromkeys(
                (kinds.QUERY, kinds.QUERY_COMPRESSED, kinds.EXECUTE_LOAD_QUERY), self._on_query
            ),
            kinds.XID: self._on_xid,
            kinds.XA_PREPARE: self._on_xa_prepare,
            kinds.ROTATE: self._on_rotate,
            kinds.FORMAT_DESCRIPTION: self._on_description,
            kinds.HEARTBEAT: self._on_heartbeat,
            kinds.INCIDENT: self._on_incident,
            **dict.fromkeys(kinds.SILENT, self._on_nothing),
        }

    @property
    def position(self) -> StreamPosition:
        """How far all was given out: the end of the last transaction that is done."""
        if self._catching_up or self._done is None:
            return self._start
        log = LogPosition(*self._done) if self._located else None
        return StreamPosition(log, self._gtids, self._prepared.since)

    @property
    def reached(self) -> LogPosition:
        """Up to where the server gave its log, or left it out."""
        return LogPosition(self._at.file, self._at.offset)

    def resume(self, database: str, table: str) -> None:
        """Read a table again that was stopped, from the next transaction on."""
        self._gatherer.resume(database, table)

    def batches(
        self, packets: Iterable[bytes | None], until: LogPosition | None = None
    ) -> Iterator[LogBatch]:
        """Batches in the log's order; the last one ends where the packets do, or at ``until``.

        Args:
            packets: events, as the transport gives them; None: nothing came for a while.
            until: the batch in which this place is reached is the last one; it may go beyond.

        Raises:
            LogUnreadable: an event is cut, changed or unknown. What was given out before stands.
            SourceError: the server was lost.
        """
        for packet in packets:
            if packet is None:
                yield from self._rest()
                continue
            event = self._framing.read(packet)
            if event.kind not in (kinds.ROTATE, kinds.HEARTBEAT):  # these are more than places
                self._at.note(event)
            self._written_at = event.timestamp or self._written_at
            if event.kind == kinds.TRANSACTION_PAYLOAD:
                for inner in read_payload(event):
                    yield from self._event(inner)
            elif (found := self._event(event)) is not _NOTHING:
                yield from found
            if self._open is None:
                self._done = (self._at.file, self._at.offset)
                if self._is_due():
                    yield self._take()
                if until is not None and self._at.offset and self._reached(until):
                    break
        yield from self._rest(void=True)

    def _reached(self, until: LogPosition) -> bool:
        return self.reached >= until

    def _is_due(self) -> bool:
        return self._due is not None and time.monotonic() >= self._due

    def _rest(self, *, void: bool = False) -> Iterator[LogBatch]:
        """What is there, where nothing comes any more; a position that moved, too."""
        if self._open is not None:
            if not void:
                return
            yield from self._void()
        if not self._gatherer.is_empty or self._statements or self.position != self._reported:
            yield self._take()

    def _event(self, event: LogEvent) -> Iterable[LogBatch]:
        """Take in an event; what is full then is to be given out."""
        kind = event.kind
        if kind in _ROW_KINDS:
            return self._on_rows(event)
        handler = self._handlers.get(kind)
        if handler is not None:
            return handler(event) or _NOTHING
        if event.flags & IGNORABLE:
            return _NOTHING
        raise unknown_event(event)

    def _on_rows(self, event: LogEvent) -> Iterable[LogBatch]:
        current = self._open
        if current is None:
            raise unreadable(f"An event ({event.name})", "it is in no transaction")
        if current.prepared is not None:
            current.prepared.add(event)
            return _NOTHING
        if current.silent:
            return _NOTHING
        if self._statements:
            return self._gather_after_statements(event, current)
        return self._gather(event, current)

    def _gather_after_statements(
        self, event: LogEvent, current: OpenTransaction
    ) -> Iterator[LogBatch]:
        # First they are given out: whoever gets them may want another shape of the table then.
        yield self._take()
        yield from self._gather(event, current)

    def _gather(self, event: LogEvent, current: OpenTransaction) -> Iterable[LogBatch]:
        self._gatherer.add(event, current.mark, current.numbers, mariadb=self._is_mariadb)
        self._wait_no_longer()
        limits = self._limits
        if self._gatherer.rows >= limits.rows or self._gatherer.bytes >= limits.bytes:
            return [self._take()]
        return _NOTHING

    def _wait_no_longer(self) -> None:
        """From now on a batch is due after the stated time, whatever is in it by then."""
        if self._due is None:
            self._due = time.monotonic() + self._limits.seconds

    @property
    def _is_mariadb(self) -> bool:
        description = self._framing.description
        return description is not None and description.mariadb

    def _on_gtid(self, event: LogEvent) -> None:
        if self._open is not None:
            raise unreadable(f"An event ({event.name})", "the transaction before has no end")
        self._begin(read_start(event))

    def _begin(self, start: TransactionStart) -> OpenTransaction:
        self._located = True
        at = LogPosition(self._at.file, self._at.began)
        mark = LogTransaction(at, start.gtid, start.committed_at)
        opened = OpenTransaction(
            mark, start, self._was_given_out(mark), begun=start.standalone is False
        )
        if start.prepared:
            opened.prepared = self._new_prepared(opened)
        self._open = opened
        self._gatherer.begin()
        return opened

    def _was_given_out(self, mark: LogTransaction) -> bool:
        if not self._catching_up:
            return False
        if self._start.log is None:
            given = has_gtid(self._start.gtids, mark.gtid)
        else:
            given = mark.at < self._start.log
        self._catching_up = given
        return given

    def _new_prepared(self, opened: OpenTransaction) -> PreparedTransaction:
        since = self._prepared.since or StreamPosition(opened.mark.at, self._gtids)
        return PreparedTransaction(since)

    def _on_query(self, event: LogEvent) -> Iterable[LogBatch] | None:
        if event.body.endswith(_BEGIN):
            self._opened(event).begun = True
            return None
        query = read_query(event, self._server)
        current, kind = self._opened(event), query.kind
        if kind is QueryKind.COMMIT:
            self._end()
        elif kind in (QueryKind.ROLLBACK, QueryKind.ROLLBACK_TO):
            self._gatherer.roll_back(current.mark, whole=kind is QueryKind.ROLLBACK)
            if kind is QueryKind.ROLLBACK:
                self._end()
        elif kind is QueryKind.XA_BEGIN:
            current.begun, current.xid = True, query.xid
            current.prepared = current.prepared or self._new_prepared(current)
        elif kind in (QueryKind.XA_COMMIT, QueryKind.XA_ROLLBACK):
            return self._settle(query, current)
        elif kind is QueryKind.OTHER:
            return self._on_other(query, current)
        return None

    def _on_other(self, query: LoggedQuery, current: OpenTransaction) -> Iterable[LogBatch]:
        """Take in a statement. One that may define a table of which there are rows is in a batch
        after theirs: so that a place lies between the two."""
        before = _NOTHING
        if not current.silent and not current.begun and not self._gatherer.is_empty:
            before = [self._take()] if may_define(query.text, self._tables) else _NOTHING
        self._on_statement(query, current)
        return before

    def _opened(self, event: LogEvent) -> OpenTransaction:
        if self._open is None:
            # A server that numbers no transactions.
            self._begin(TransactionStart(None, event.timestamp * 1_000_000))
        assert self._open is not None  # noqa: S101 (just begun)
        return self._open

    def _on_statement(
        self, query: LoggedQuery, current: OpenTransaction, *, rows_unknown: bool = False
    ) -> None:
        self._wait_no_longer()
        if not current.silent:
            unknown = rows_unknown or query.changes_rows
            self._statements.append(
                LoggedStatement(query.database, query.text, current.mark, unknown, query.session)
            )
            current.given_out = current.given_out or current.begun
        if not current.begun:
            self._end()

    def _settle(self, query: LoggedQuery, current: OpenTransaction) -> Iterator[LogBatch]:
        """A prepared transaction was committed, or not."""
        held = self._prepared.take(query.xid)
        if held is not None and query.kind is QueryKind.XA_COMMIT and not current.silent:
            for event in held.events():
                yield from self._on_rows(event)
        elif held is not None:
            held.forget()
        elif query.kind is QueryKind.XA_COMMIT:
            self._on_statement(query, current, rows_unknown=True)
        if self._open is not None:
            self._end()

    def _on_xid(self, event: LogEvent) -> None:
        if self._open is None:
            raise unreadable(f"An event ({event.name})", "it is in no transaction")
        self._end()

    def _on_xa_prepare(self, event: LogEvent) -> Iterator[LogBatch]:
        current = self._open
        if current is None or current.prepared is None:
            raise unreadable(f"An event ({event.name})", "it is in no XA transaction")
        held, current.prepared = current.prepared, None
        one_phase, xid = read_xa_prepare(event)
        if not one_phase:
            self._prepared.prepare(xid, held)
        elif not current.silent:
            for kept in held.events():
                yield from self._on_rows(kept)
        self._end()

    def _end(self) -> None:
        """The transaction is done: all of it was committed, or is prepared."""
        assert self._open is not None  # noqa: S101 (callers have seen it)
        self._gtids = with_gtid(self._gtids, self._open.start.gtid)
        self._gatherer.end()
        self._open = None

    def _on_rotate(self, event: LogEvent) -> Iterator[LogBatch]:
        self._located = self._located or bool(self._at.file)
        self._at.note(event)
        if self._open is not None:
            yield from self._void()

    def _on_description(self, _event: LogEvent) -> Iterable[LogBatch] | None:
        return self._void() if self._open is not None else None

    def _void(self) -> Iterator[LogBatch]:
        """The server stopped, or sends no more, within a transaction: it was not committed."""
        assert self._open is not None  # noqa: S101 (callers have seen it)
        given_out = self._open.given_out
        self._statements = [s for s in self._statements if s.transaction is not self._open.mark]
        self._gatherer.void()
        self._open = None
        if given_out:
            yield self._take(void=True)

    def _on_heartbeat(self, event: LogEvent) -> Iterator[LogBatch]:
        if self._open is None and event.body.decode(errors="replace") == self._at.file:
            self._at.note(event)
            self._located, self._done = True, (self._at.file, self._at.offset)
        return self._rest()

    def _on_incident(self, event: LogEvent) -> None:
        raise unreadable(
            f"An event ({event.name})",
            "the server lost events: what changed there is in no log, so read all tables again",
        )

    def _on_nothing(self, _event: LogEvent) -> None:
        return None

    def _take(self, *, void: bool = False) -> LogBatch:
        """All that was gathered, as a batch."""
        current = self._open
        is_open = current is not None and (current.given_out or self._gatherer.has_open_rows)
        tables, stopped = self._gatherer.take()
        if current is not None and is_open:
            current.given_out = True
        statements, self._statements = tuple(self._statements), []
        self._reported, self._due = self.position, None
        return LogBatch(
            tables,
            statements,
            stopped,
            self._reported,
            "void" if void else "open" if is_open else "complete",
            self._written_at,
        )
