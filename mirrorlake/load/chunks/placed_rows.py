"""A table's rows as they were at one place of its server's log: those of a copy to which what the
log says since is added, row by row."""

from __future__ import annotations

from contextlib import closing
from typing import Final

from mirrorlake.load.chunks.row_source import OnRows, Rows, RowSource
from mirrorlake.load.chunks.select_rows import SelectRows, look_at, tallies_of
from mirrorlake.load.chunks.statements import ChunkPlan, count_statement, digest_statement, measured
from mirrorlake.sources.mysql.reading.reader import InSnapshot, Question
from mirrorlake.sources.mysql.reading.route import Heed
from mirrorlake.sources.mysql.sessions.connect import SourcePosition, open_session, session


class _PlacedRows(SelectRows):
    """All rows of one snapshot, of which is found out where it is in the log."""

    def read(self, part: ChunkPlan, heed: Heed | None = None, report: OnRows | None = None) -> Rows:
        """See `RowSource.read`."""
        del report  # all that is read is to come
        with session(part.source, part.database) as connection:
            seen = look_at(connection, part)
            part = measured(connection, part)
        # Last: while the server counts, the log goes on.
        statement = digest_statement(part) if part.digest else count_statement(part)
        question, placing = Question(statement, after=True), _Placing(part, seen)
        rows = self._rows(part, seen, question, heed, placing.find)
        tallies = (lambda: tallies_of(question.answer)) if part.digest else None
        return Rows(part, seen, rows, tallies, asked_last=True, log_place=placing.found)


PLACED: Final[RowSource] = _PlacedRows()


class _Placing:
    """Where a snapshot is in the log."""

    def __init__(self, part: ChunkPlan, seen: SourcePosition) -> None:
        self._part, self._seen = part, seen
        self._place = ""

    def find(self, snapshot: InSnapshot) -> None:
        """Find it out of a snapshot that was opened just now; it may be opened again.

        Raises:
            SourceBusy: the table is written to all the time.
            SourceError: the server was lost, or does not say.
        """
        from mirrorlake.sources.mysql.following.snapshot_place import place_of_snapshot

        part = self._part
        with closing(open_session(part.source)) as connection:
            table = (part.database, part.table)
            parts = (connection, part.source, self._seen.server, table)
            self._place = place_of_snapshot(*parts, snapshot).to_text()

    def found(self) -> str:
        return self._place
