"""Events are taken whole, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.errors import LogUnreadable
from mirrorlake.sources.mysql.binlog.events import event_kinds as kinds
from mirrorlake.sources.mysql.binlog.events.framing import (
    Framing,
    inner_event,
    pack_event,
    read_rotate,
)
from tests.unit.sources.mysql.binlog.events import description, event, rotate

WHOLE = event(kinds.XID, b"\1\2\3\4\5\6\7\x08", end=250, at=1_700_000_000)


def test_an_event_is_its_header_and_body() -> None:
    found = Framing(checksums=True).read(WHOLE)
    assert (found.kind, found.timestamp, found.server_id) == (kinds.XID, 1_700_000_000, 1)
    assert (found.end, found.size, found.body) == (250, len(WHOLE), b"\1\2\3\4\5\6\7\x08")
    assert inner_event(pack_event(found)).body == found.body


@given(st.integers(0, len(WHOLE) - 1))
def test_a_cut_event_is_an_error(size: int) -> None:
    with pytest.raises(LogUnreadable):
        Framing(checksums=True).read(WHOLE[:size])
    with pytest.raises(LogUnreadable):
        Framing(checksums=False).read(WHOLE[:size])


@given(st.integers(0, 8 * len(WHOLE) - 1))
def test_a_flipped_bit_is_an_error(bit: int) -> None:
    flipped = bytearray(WHOLE)
    flipped[bit >> 3] ^= 1 << (bit & 7)
    with pytest.raises(LogUnreadable):
        Framing(checksums=True).read(bytes(flipped))


@given(st.binary(min_size=1, max_size=40))
def test_more_bytes_than_the_event_has_are_an_error(more: bytes) -> None:
    with pytest.raises(LogUnreadable):
        Framing(checksums=True).read(WHOLE + more)


def test_a_files_description_says_whether_events_have_checksums() -> None:
    framing = Framing(checksums=True)
    framing.read(description(checksums=False))
    bare = event(kinds.XID, bytes(8), checksum=False)
    assert framing.read(bare).body == bytes(8)
    framing.read(description(b"11.4.5-MariaDB-log"))
    assert framing.description is not None
    assert framing.description.mariadb
    with pytest.raises(LogUnreadable, match="checksum"):
        framing.read(bare)


def test_a_description_is_verified_as_it_was_before_it_was_in_use() -> None:
    framing = Framing(checksums=False)
    framing.read(description(in_use=True, created=5))
    assert framing.description is not None
    assert framing.description.begun


def test_row_events_of_the_second_version_alone() -> None:
    """As MySQL 9.7.4 writes them; no server has neither, or others."""
    framing = Framing(checksums=True)
    framing.read(description(b"9.7.4", rows=(0, 10)))
    assert framing.description is not None
    for lengths in (0, 0), (0, 8), (6, 10):
        with pytest.raises(LogUnreadable, match="row events"):
            framing.read(description(rows=lengths))


@given(st.integers(0, 8 * (len(description()) - 5) - 1))
def test_a_flipped_bit_of_a_description_is_an_error(bit: int) -> None:
    flipped = bytearray(description())
    flipped[bit >> 3] ^= 1 << (bit & 7)
    if bit == 17 * 8:  # the flag of a file that is in use
        return
    with pytest.raises(LogUnreadable):
        Framing(checksums=True).read(bytes(flipped))


def test_a_rotation_names_the_next_file() -> None:
    found = Framing(checksums=True).read(rotate("bin.000042", 5_000_000_000))
    assert read_rotate(found) == ("bin.000042", 5_000_000_000)
    assert not found.placed
    for wrong in (rotate("", 4), rotate("bin.1", 3), rotate("x" * 600, 4)):
        with pytest.raises(LogUnreadable):
            read_rotate(Framing(checksums=True).read(wrong))
