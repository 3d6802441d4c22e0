"""A server's binary log while it is read.

What belongs here: how far it was read, and whether the server still has it from a place on. What
doesn't: opening it, and what becomes of its changes
(`mirrorlake.operations.loading.binlog.log_stream`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from mirrorlake.operations.loading.binlog.held_changes import HeldChanges
from mirrorlake.sources.mysql.binlog.column_forms import ServerForms
from mirrorlake.sources.mysql.binlog.log_batches import BatchLimits, LogBatch
from mirrorlake.sources.mysql.binlog.log_reader import LogReader
from mirrorlake.sources.mysql.binlog.positions import LogPosition
from mirrorlake.sources.mysql.binlog.table_shape import FollowedTable
from mirrorlake.sources.mysql.binlog.transport import LogTransport
from mirrorlake.sources.mysql.following.log_state import LogFiles, LogPlace


@dataclass
class OpenLog:
    """A log that is being read.

    Attributes:
        start: where that began.
        batches: what is being read of it up to some place; None: the next read says up to where.
    """

    start: LogPosition
    files: LogFiles
    reader: LogReader
    packets: Iterator[bytes]
    held: HeldChanges
    batches: Iterator[LogBatch] | None = None

    @property
    def at(self) -> LogPosition:
        """How far it was read."""
        return self.reader.position.log or self.start


@contextmanager
def open_log(
    transport: LogTransport,
    start: LogPosition,
    wanted: Mapping[tuple[str, str], FollowedTable],
    forms: ServerForms,
    limits: BatchLimits,
) -> Iterator[OpenLog]:
    """A server's log, while the block runs.

    Args:
        wanted: the tables whose changes are read, by database and name; it may change meanwhile.
    """
    with transport, HeldChanges() as held:
        files = LogFiles(transport)
        checksums = transport.checksums
        reader = LogReader(transport.start, wanted, forms, checksums=checksums, limits=limits)
        yield OpenLog(start, files, reader, files.packets(), held)


def why_unknown(files: Mapping[str, int], place: LogPlace) -> str | None:
    """Why a server can't say what changed since a place; None where it can, as far as is seen
    from here.

    Args:
        files: of the server's log, with their sizes.
    """
    start = place.position.start.log or place.log
    for one in (start, place.log):
        if one.file not in files:
            return f"its server has the log of before no more ({one}): purged, or reset"
        if one.offset > files[one.file]:
            return f"its server's log ends before {one}: it was reset, or cut"
    return None
