"""Reads fields off the front of bytes; what is not there is an error, never a shorter value.

Source: MySQL internals, "Protocol Basics": fixed-length and length-encoded integers and strings.
"""

from __future__ import annotations

from mirrorlake.errors import LogUnreadable

_WIDE = {0xFC: 2, 0xFD: 3, 0xFE: 8}


class ByteReader:
    """A place in bytes that only moves forward.

    Args:
        what: what the bytes are, for errors.
        end: where they end; by default at their own end.
    """

    __slots__ = ("at", "bytes", "end", "what")

    def __init__(self, given: bytes, what: str, at: int = 0, end: int | None = None) -> None:
        self.bytes, self.what, self.at = given, what, at
        self.end = len(given) if end is None else end

    @property
    def left(self) -> int:
        return self.end - self.at

    def take(self, size: int) -> bytes:
        """The next bytes.

        Raises:
            LogUnreadable: there are fewer.
        """
        begin = self.at
        if size > self.end - begin:
            raise unreadable(self.what, f"it ends within a field of {size} bytes at {begin}")
        self.at = begin + size
        return self.bytes[begin : self.at]

    def uint(self, size: int) -> int:
        """The next bytes as a number, the lowest byte first."""
        return int.from_bytes(self.take(size), "little")

    def packed(self) -> int:
        """A length-encoded number."""
        first = self.take(1)[0]
        if first < 0xFB:
            return first
        if first not in _WIDE:
            raise unreadable(self.what, f"no number begins with {first:#x}, at {self.at - 1}")
        return self.uint(_WIDE[first])

    def packed_bytes(self) -> bytes:
        """Bytes after their length-encoded length."""
        return self.take(self.packed())

    def name(self) -> str:
        """A name in UTF-8 after its length, with a zero byte at its end."""
        text = self.take(self.packed())
        if self.take(1) != b"\0":
            raise unreadable(self.what, "a name has no end")
        return self.text(text)

    def text(self, given: bytes) -> str:
        """Bytes as UTF-8."""
        try:
            return given.decode()
        except UnicodeDecodeError:
            raise unreadable(self.what, "a name is not in UTF-8") from None


def unreadable(what: str, why: str) -> LogUnreadable:
    """The error of bytes that can't be what they are said to be."""
    return LogUnreadable(
        f"{what} of the binary log can't be read: {why}",
        next_step="Nothing of it was taken. If it stays so, the log is damaged or of a format "
        "that Mirrorlake does not know: read the tables again",
    )
