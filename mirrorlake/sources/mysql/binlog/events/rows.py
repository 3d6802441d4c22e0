"""Row events: which table their images are of, what happened to the rows, and where images begin.

Source: MySQL source, ``binary_log::Rows_event``; MariaDB knowledge base, "Rows Event",
"Rows_Compressed Event".
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from mirrorlake.sources.mysql.binlog.byte_reader import ByteReader, unreadable
from mirrorlake.sources.mysql.binlog.events import event_kinds as kinds
from mirrorlake.sources.mysql.binlog.events.framing import LogEvent
from mirrorlake.sources.mysql.binlog.events.payload import unpack_mariadb

NO_TABLE: Final = 0xFFFFFF
"""The table of an event that only ends its statement."""


class RowChange(IntEnum):
    """What an image says of its row. An update is two images: before, then after."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3


_CHANGES: Final = {
    RowChange.INSERT: (
        *(kinds.WRITE_ROWS_V1, kinds.WRITE_ROWS),
        *(kinds.WRITE_ROWS_COMPRESSED_V1, kinds.WRITE_ROWS_COMPRESSED),
    ),
    RowChange.UPDATE_AFTER: (
        *(kinds.UPDATE_ROWS_V1, kinds.UPDATE_ROWS),
        *(kinds.UPDATE_ROWS_COMPRESSED_V1, kinds.UPDATE_ROWS_COMPRESSED),
    ),
    RowChange.DELETE: (
        *(kinds.DELETE_ROWS_V1, kinds.DELETE_ROWS),
        *(kinds.DELETE_ROWS_COMPRESSED_V1, kinds.DELETE_ROWS_COMPRESSED),
    ),
}
CHANGE_OF: Final = {kind: change for change, those in _CHANGES.items() for kind in those}
"""What each kind of event does; an update by its second image."""

_EXTRA: Final = (
    *(kinds.WRITE_ROWS, kinds.UPDATE_ROWS, kinds.DELETE_ROWS),
    *(kinds.WRITE_ROWS_COMPRESSED, kinds.UPDATE_ROWS_COMPRESSED, kinds.DELETE_ROWS_COMPRESSED),
)
"""Of the second version, whose header may have more."""
_COMPRESSED: Final = range(kinds.WRITE_ROWS_COMPRESSED_V1, kinds.DELETE_ROWS_COMPRESSED + 1)


class RowImages(NamedTuple):
    """The images of one event: from ``at`` to the end of the bytes, one after the other.

    Attributes:
        whole: whether each has every column (``binlog_row_image=FULL``).
    """

    table_id: int
    change: RowChange
    columns: int
    whole: bool
    bytes: bytes
    at: int


def table_id_of_rows(event: LogEvent) -> int:
    """The number of the table that an event's rows are of.

    Raises:
        LogUnreadable: the event is cut.
    """
    if len(event.body) < 8:
        raise unreadable(f"An event ({event.name})", "it is cut")
    return int.from_bytes(event.body[:6], "little")


def read_images(event: LogEvent) -> RowImages:
    """What a row event has.

    Raises:
        LogUnreadable: it is cut.
    """
    kind, body = event.kind, event.body
    change = CHANGE_OF[kind]
    fields = ByteReader(body, f"An event ({event.name})", 8)
    if kind in _EXTRA:
        more = fields.uint(2)
        if more < 2:
            raise unreadable(fields.what, "its header has no end")
        fields.take(more - 2)
    columns = fields.packed()
    half = (columns + 7) // 8
    every = (1 << columns) - 1
    whole = int.from_bytes(fields.take(half), "little") & every == every
    if change is RowChange.UPDATE_AFTER:
        whole = int.from_bytes(fields.take(half), "little") & every == every and whole
    table_id = int.from_bytes(body[:6], "little")
    if kind in _COMPRESSED:
        return RowImages(table_id, change, columns, whole, unpack_mariadb(body[fields.at :]), 0)
    return RowImages(table_id, change, columns, whole, body, fields.at)
