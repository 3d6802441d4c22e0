"""Where events are in the log: their file, and offsets beyond what a header can say.

Source: MySQL internals, "Binary Log Event Header" (``log_pos`` has 32 bits), "Heartbeat Event".
"""

from __future__ import annotations

from typing import Final

from mirrorlake.sources.mysql.binlog.byte_reader import unreadable
from mirrorlake.sources.mysql.binlog.events import event_kinds as kinds
from mirrorlake.sources.mysql.binlog.events.framing import LogEvent, read_rotate

_WRAP: Final = 0xFFFFFFFF
_NEAR: Final = 1 << 31


class LogOffsets:
    """A place in the log that moves with the events that are given to it.

    Attributes:
        file: '' before the first event, which names it.
        began: where the newest event begins that says where it is.
        offset: where the next one will.
    """

    __slots__ = ("began", "file", "offset")

    def __init__(self) -> None:
        self.file, self.began, self.offset = "", 0, 0

    def note(self, event: LogEvent) -> None:
        """Move past an event.

        Raises:
            LogUnreadable: it ends before it begins.
        """
        if event.kind == kinds.ROTATE:
            self.file, self.offset = read_rotate(event)
        elif event.kind == kinds.HEARTBEAT:
            self._skip(event)
        elif event.placed:
            step = (event.end - self.offset) & _WRAP
            if step < event.size:
                raise unreadable(
                    f"An event ({event.name})", f"it ends before it begins: {event.end}"
                )
            self.began, self.offset = self.offset + step - event.size, self.offset + step

    def _skip(self, event: LogEvent) -> None:
        """A heartbeat says how far the server is: events before it were left out, or there are
        none."""
        step = (event.end - self.offset) & _WRAP
        if event.body.decode(errors="replace") == self.file and step < _NEAR:
            self.offset += step
