"""Tables of whose server's log nothing is to be read: where it stands still, a question to the
server and the beginning of its last file; a short read of it where others write to it.

What belongs here: that look, for a sensor's tick and for a sync. What doesn't: following
(`mirrorlake.operations.loading.follow_log`).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

from pymysql.connections import Connection

from mirrorlake.config import SourceConfig, TableContract
from mirrorlake.errors import SourceError
from mirrorlake.ledger import Ledger, LogProgress
from mirrorlake.ledger.sources.log_progress import BY_LOG
from mirrorlake.sources.mysql.sessions.connect import read_position

if TYPE_CHECKING:  # the decoder is imported once a log has something to read
    from mirrorlake.sources.mysql.binlog.log_batches import LogBatch
    from mirrorlake.sources.mysql.binlog.positions import StreamPosition
    from mirrorlake.sources.mysql.following.log_state import LogEnd, LogPlace

logger = logging.getLogger(__name__)

MOST_BYTES: Final = 4 * 2**20
"""So much of a log is looked through; of more its tables are taken to have moved."""


@dataclass(frozen=True)
class QuietLog:
    """What a look found.

    Attributes:
        tables: of which the log has nothing new, by name: with how far they were followed by now.
        moved_on: whether that is further than the ledger knows.
        end: where the log ended then; None where it was not asked.
    """

    tables: dict[str, LogProgress]
    moved_on: bool = False
    end: LogEnd | None = None


def find_quiet(
    connection: Connection[Any],
    source: SourceConfig,
    contracts: Collection[TableContract],
    ledger: Ledger,
) -> QuietLog:
    """Of which tables that follow a source's log it has nothing new, neither a row nor a statement
    that names them. One whose place is not known, or is another server's, of which a load is open,
    or that is to be read again is not among them.

    Raises:
        SourceError: the server was lost, or does not show its log.
        LedgerError: the ledger could not be read.
    """
    from mirrorlake.sources.mysql.following.log_state import LogPlace, read_end
    from mirrorlake.sources.mysql.following.log_walk import is_begun_again

    mine = {c.name: c for c in contracts if c.by_log and c.source == source.name}
    if not mine:
        return QuietLog({})
    known = ledger.standing_progress()
    server = read_position(connection).server
    doubted = {*ledger.unproved_tables(), *ledger.refusals(), *ledger.followed_elsewhere(server)}
    standing = {n: p for n, p in known.items() if n in mine and n not in doubted}
    if not standing:
        return QuietLog({})
    end = read_end(connection, source)
    places = {text: LogPlace.parse(text) for text in {p.place for p in standing.values()}}
    waiting = {n: places[p.place] for n, p in standing.items()}
    if all(place.log == end.position for place in places.values()):
        if is_begun_again(connection, source, server, places.values()):
            return QuietLog({})
        return QuietLog(_up_to(standing, end, None), end=end)
    look = _Look(connection, source, server, end, {n: mine[n] for n in waiting}, waiting)
    place = look.read()
    quiet = {n: p for n, p in standing.items() if n not in look.moved}
    if place is None:
        return QuietLog({})
    return QuietLog(_up_to(quiet, end, place), moved_on=bool(quiet), end=end)


def find_changed(
    connection: Connection[Any],
    source: SourceConfig,
    server: str,
    places: Mapping[str, tuple[TableContract, LogPlace]],
) -> set[str]:
    """Of which tables a log has, or may have, something new since these places, by name: of all
    where it can't be looked through.

    Raises:
        SourceError: the server was lost, or does not show its log.
    """
    from mirrorlake.sources.mysql.following.log_state import read_end
    from mirrorlake.sources.mysql.following.log_walk import is_begun_again

    end = read_end(connection, source)
    further = {name: both for name, both in places.items() if both[1].log != end.position}
    at_end = [place for _, place in places.values() if place.log == end.position]
    if at_end and is_begun_again(connection, source, server, at_end):
        return set(places)
    if not further:
        return set()
    contracts = {name: contract for name, (contract, _) in further.items()}
    waiting = {name: place for name, (_, place) in further.items()}
    look = _Look(connection, source, server, end, contracts, waiting)
    return look.moved if look.read() is not None else set(further)


def note_quiet(ledger: Ledger, found: QuietLog) -> None:
    """Write down what a look found: tables are as fresh as it was."""
    if found.moved_on:
        ledger.record_log_progress(list(found.tables.values()))
    elif found.tables:
        ledger.record_unchanged({(n, p.seq): (p.at, BY_LOG) for n, p in found.tables.items()})


def _up_to(
    tables: dict[str, LogProgress], end: LogEnd, place: LogPlace | None
) -> dict[str, LogProgress]:
    at = end.clock.replace(tzinfo=UTC)
    text = place.to_text() if place is not None else None
    return {n: replace(p, at=at, place=text or p.place) for n, p in tables.items()}


class _Look:
    """One short read of a log.

    Attributes:
        moved: the tables of which it has something new.
    """

    def __init__(
        self,
        connection: Connection[Any],
        source: SourceConfig,
        server: str,
        end: LogEnd,
        contracts: dict[str, TableContract],
        places: dict[str, LogPlace],
    ) -> None:
        from mirrorlake.sources.mysql.binlog.table_shape import FollowedTable

        self._connection, self._source, self._end = connection, source, end
        self._server = server
        self._places = {(c.database, c.table): places[n] for n, c in contracts.items()}
        self._names = {(c.database, c.table): n for n, c in contracts.items()}
        self._wanted = dict.fromkeys(self._places, FollowedTable())
        self.moved: set[str] = set()

    def read(self) -> LogPlace | None:
        """Read to the log's end; the place there, None where it was not read, or not to its end."""
        lowest = min(p.position.start.log or p.log for p in self._places.values())
        made = {p.log.file: p.made for p in self._places.values()}
        files, end = self._end.files, self._end.position
        from mirrorlake.sources.mysql.binlog.positions import LogPosition, StreamPosition

        starts = [p.position.start for p in self._places.values()]
        gtids = next((s.gtids for s in starts if s.log == lowest and s.gtids), None)
        between = [f for f in files if not LogPosition(f, 0) < LogPosition(lowest.file, 0)]
        size = sum(files[f] for f in between) - lowest.offset
        if lowest.file not in files or not lowest < end or size > MOST_BYTES:
            return None
        try:
            return self._read(StreamPosition(lowest, gtids), made)
        except SourceError as error:
            logger.info("source %s: its log was not looked through: %s", self._source.name, error)
            return None

    def _read(self, start: StreamPosition, made: dict[str, int]) -> LogPlace | None:
        from mirrorlake.sources.mysql.binlog.charsets import read_server_forms
        from mirrorlake.sources.mysql.binlog.log_batches import BatchLimits
        from mirrorlake.sources.mysql.binlog.log_reader import LogReader
        from mirrorlake.sources.mysql.binlog.transport import LogTransport
        from mirrorlake.sources.mysql.following.log_state import LogFiles, LogPlace, new_server_id

        forms, number = read_server_forms(self._connection), new_server_id(self._connection)
        with LogTransport(
            *(self._source, start, number), follow=False, server=self._server
        ) as transport:
            files = LogFiles(transport)
            reader = LogReader(
                *(transport.start, self._wanted, forms),
                checksums=transport.checksums,
                limits=BatchLimits(rows=1),
            )
            for batch in reader.batches(files.packets(), self._end.position):
                self._take(batch)
                if not self._wanted:
                    return None
            log = reader.position.log
        begun_again = any(files.made.get(f, at) != at for f, at in made.items() if at)
        if log is None or log < self._end.position or begun_again:
            return None
        return LogPlace(reader.position, files.made.get(log.file, 0))

    def _take(self, batch: LogBatch) -> None:
        from mirrorlake.sources.mysql.binlog.statements import may_define, mentions

        for stop in batch.stopped:
            self._move((stop.database, stop.table))
        for changes in batch.tables:
            one = (changes.database, changes.table)
            file = changes.places.column("file")[-1].as_py()
            offset = changes.places.column("offset")[-1].as_py()
            place = self._places.get(one)
            if place is not None and not type(place.log)(file, offset) < place.log:
                self._move(one)
        for statement in batch.statements:
            at, text = statement.transaction.at, statement.text
            for one in [*self._wanted]:
                named = mentions(text, one[1]) or may_define(text, [one])
                if (statement.rows_unknown or named) and not at < self._places[one].log:
                    self._move(one)

    def _move(self, one: tuple[str, str]) -> None:
        if self._wanted.pop(one, None) is not None:
            self.moved.add(self._names[one])
