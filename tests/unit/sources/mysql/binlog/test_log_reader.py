"""Events made by hand → batches: what servers here do not write, and what nobody should."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from contextlib import suppress
from zlib import crc32

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.errors import LogUnreadable
from mirrorlake.sources.mysql.binlog.column_forms import ServerForms
from mirrorlake.sources.mysql.binlog.events import event_kinds as kinds
from mirrorlake.sources.mysql.binlog.events import wire_types as wire
from mirrorlake.sources.mysql.binlog.gtid_sets import GtidSet, MysqlGtid
from mirrorlake.sources.mysql.binlog.log_batches import BatchLimits, LogBatch
from mirrorlake.sources.mysql.binlog.log_reader import LogReader
from mirrorlake.sources.mysql.binlog.positions import LogPosition, StreamPosition
from mirrorlake.sources.mysql.binlog.table_shape import FollowedTable
from tests.unit.sources.mysql.binlog.events import (
    description,
    event,
    packed,
    part,
    rotate,
    rows,
    table_map,
)

SERVER = uuid.UUID(int=7)
START = StreamPosition(LogPosition("bin.000001", 4), GtidSet())
MAP = table_map(bytes([wire.LONG, wire.VARCHAR]), b"\x14\0", part(1, b"\0"), part(2, b"\x2d"))


class NoServer:
    """Nobody is asked."""

    def convert(self, charset: str, values: Sequence[bytes]) -> list[tuple[str | None, str | None]]:
        raise AssertionError(charset)


FORMS = ServerForms({45: "utf8mb4"}, NoServer())


class Log:
    """A file of a log that grows, as a server sends it."""

    def __init__(self, *, checksums: bool = True) -> None:
        self.checksums = checksums
        whole = bytearray(description(checksums=checksums))
        self.end = 4 + len(whole)
        whole[13:17] = struct.pack("<I", self.end)
        whole[-4:] = struct.pack("<I", crc32(bytes(whole[:-4])))
        self.packets = [rotate(checksum=checksums), bytes(whole)]

    def add(self, kind: int, body: bytes, flags: int = 0) -> Log:
        size = 19 + len(body) + 4 * self.checksums
        self.end += size
        self.packets.append(
            event(kind, body, self.end & 0xFFFFFFFF, flags, checksum=self.checksums, at=99)
        )
        return self

    def gtid(self, number: int) -> Log:
        times = struct.pack("<BQQ", 2, 1, 2) + (1_700_000_000_000_001).to_bytes(7, "little")
        return self.add(kinds.GTID, b"\0" + SERVER.bytes + struct.pack("<Q", number) + times)

    def query(self, text: str) -> Log:
        return self.add(kinds.QUERY, struct.pack("<IIBHH", 1, 0, 1, 0, 0) + b"d\0" + text.encode())

    def transaction(self, number: int, *images: bytes) -> Log:
        self.gtid(number).query("BEGIN").add(kinds.TABLE_MAP, MAP)
        return self.add(kinds.WRITE_ROWS, rows(2, *images)).add(kinds.XID, bytes(8))

    def read(
        self,
        tables: dict[tuple[str, str], FollowedTable] | None = None,
        start: StreamPosition = START,
        rows: int = 10**6,
    ) -> list[LogBatch]:
        wanted = {("d", "t"): FollowedTable()} if tables is None else tables
        reader = LogReader(start, wanted, FORMS, checksums=self.checksums, limits=BatchLimits(rows))
        return list(reader.batches(self.packets))


def image(number: int, text: str | None) -> bytes:
    value = b"" if text is None else bytes([len(text)]) + text.encode()
    return bytes([2 if text is None else 0]) + struct.pack("<i", number) + value


def values(batches: list[LogBatch]) -> list[tuple[int, str]]:
    return [tuple(row.values()) for b in batches for t in b.tables for row in t.rows.to_pylist()]


def test_a_transaction() -> None:
    [batch] = Log().transaction(1, image(1, "a"), image(2, None)).read()
    assert values([batch]) == [(1, "a"), (2, None)]
    assert batch.state == "complete"
    assert str(batch.position.gtids) == f"{SERVER}:1"
    [table] = batch.tables
    assert table.places.column("gtid").to_pylist() == [f"{SERVER}:1"] * 2
    assert (
        table.places.column("committed_at").cast(pa.int64()).to_pylist()
        == [1_700_000_000_000_001] * 2
    )


def test_a_compressed_transaction() -> None:
    """MySQL 8.0.20 and later: all but the GTID in one event, without checksums."""
    log = Log()
    inner = Log(checksums=False).query("BEGIN").add(kinds.TABLE_MAP, MAP)
    inner.add(kinds.WRITE_ROWS, rows(2, image(1, "a"), image(2, "b"))).add(kinds.XID, bytes(8))
    flat = b"".join(inner.packets[2:])
    shrunk = pa.compress(flat, "zstd", asbytes=True)
    sizes = part(2, b"\0") + part(3, packed(len(flat))) + part(1, packed(len(shrunk))) + b"\0"
    log.gtid(1).add(kinds.TRANSACTION_PAYLOAD, sizes + shrunk)
    log.transaction(2, image(3, "c"))
    batches = log.read()
    assert values(batches) == [(1, "a"), (2, "b"), (3, "c")]
    assert values(log.read(rows=1)[:1]) == [(1, "a"), (2, "b")]
    plain = Log().gtid(1).add(kinds.TRANSACTION_PAYLOAD, part(2, b"\xfc\xff\0") + b"\0" + flat)
    assert values(plain.read()) == [(1, "a"), (2, "b")]
    for wrong in (
        sizes + shrunk[:-6],
        part(2, b"\7") + b"\0" + flat,
        part(2, b"\0") + part(3, packed(len(flat) - 1)) + b"\0" + shrunk,
        part(2, b"\0") + part(3, packed(len(flat) + 1)) + b"\0" + shrunk,
    ):
        with pytest.raises(LogUnreadable):
            Log().gtid(1).add(kinds.TRANSACTION_PAYLOAD, wrong).read()


def test_a_tagged_transaction() -> None:
    """MySQL 8.3 and later; the bytes of an event of 9.0, of which the numbers are known."""
    body = bytes.fromhex(
        "02760000020200"  # version, size, last field that is needed; flags
        "0280012a84fdf8"  # not a whole one: see below
    )
    with pytest.raises(LogUnreadable):
        Log().add(kinds.GTID_TAGGED, body).read()
    fields = [
        (1, b"".join(number(b) for b in SERVER.bytes)),
        (2, number(5 << 1)),
        (3, number(3) + b"abc"),
    ]
    fields += [(0, number(1)), (6, number(1_739_270_369_410_361)), (8, number(215))]
    message = (
        number(1) + number(99) + number(0) + b"".join(number(n) + given for n, given in fields)
    )
    log = Log().add(kinds.GTID_TAGGED, message).query("BEGIN").add(kinds.TABLE_MAP, MAP)
    [batch] = log.add(kinds.WRITE_ROWS, rows(2, image(1, "a"))).add(kinds.XID, bytes(8)).read()
    assert str(batch.position.gtids) == f"{SERVER}:abc:5"
    [table] = batch.tables
    assert table.places.column("committed_at").cast(pa.int64()).to_pylist() == [
        1_739_270_369_410_361
    ]


def number(value: int) -> bytes:
    """A number of variable length, by MySQL's description of its serialisation."""
    size = next(n for n in range(1, 10) if value < 1 << 7 * n or n == 9)
    if size == 9:
        return b"\xff" + value.to_bytes(8, "little")
    return (value << size | (1 << size - 1) - 1).to_bytes(size, "little")


def test_the_numbers_of_the_servers_own_documentation() -> None:
    assert number(65535).hex() == "fbff07"
    assert number(1_739_270_369_410_361).hex() == "7f397d8970db2d06"
    assert number(215).hex() == "5d03"


def test_offsets_beyond_4_gb() -> None:
    log = Log()
    log.packets[0] = rotate("bin.000001", 2**32 - 150)
    log.packets[1] = description()
    log.end = 2**32 - 150
    batches = log.transaction(1, image(1, "a")).transaction(2, image(2, "b")).read()
    assert values(batches) == [(1, "a"), (2, "b")]
    assert batches[-1].position.log == LogPosition("bin.000001", log.end)
    assert log.end > 2**32


def test_a_transaction_that_the_server_never_finished() -> None:
    log = Log().transaction(1, image(1, "a"))
    log.gtid(2).query("BEGIN").add(kinds.TABLE_MAP, MAP).add(
        kinds.WRITE_ROWS, rows(2, image(2, "b"))
    )
    assert values(log.read()) == [(1, "a")]
    log.packets += [rotate("bin.000002"), description(created=9)]
    log.end = 4
    log.transaction(3, image(3, "c"))
    assert values(log.read()) == [(1, "a"), (3, "c")]
    states = [(values([batch]), batch.state) for batch in log.read(rows=1)]
    assert states == [
        ([(1, "a")], "complete"),
        ([(2, "b")], "open"),
        ([], "void"),
        ([(3, "c")], "complete"),
    ] or states[0] == ([(1, "a")], "open")


def test_rows_that_were_rolled_back_after_they_were_logged() -> None:
    log = Log().transaction(1, image(1, "a"))
    log.gtid(2).query("BEGIN").add(kinds.TABLE_MAP, MAP).add(
        kinds.WRITE_ROWS, rows(2, image(2, "b"))
    )
    log.query("ROLLBACK").transaction(3, image(3, "c"))
    batches = log.read()
    assert values(batches) == [(1, "a")]
    [stop] = [stop for batch in batches for stop in batch.stopped]
    assert "rolled back" in str(stop.error)


def test_a_table_stops_and_is_read_again() -> None:
    log = Log().transaction(1, b"\0\0\0\0\0\5a").transaction(2, image(2, "b"))
    wanted = {("d", "t"): FollowedTable()}
    reader = LogReader(START, wanted, FORMS, checksums=True)
    batches = list(reader.batches(log.packets))
    [stop] = [stop for batch in batches for stop in batch.stopped]
    assert (values(batches), stop.table) == ([], "t")
    assert isinstance(stop.error, LogUnreadable)
    reader.resume("d", "t")
    later = Log()
    later.packets, later.end = [], log.end
    batches = list(reader.batches(later.transaction(3, image(3, "c")).packets))
    assert values(batches) == [(3, "c")]


@pytest.mark.parametrize(
    ("bits", "unsigned", "found"),
    [
        (b"\x60", {"c2"}, (2**32 - 1, -1)),  # as 9.7.4 writes it, with a bit for the YEAR
        (b"\x40", {"c2"}, (2**32 - 1, -1)),  # as 8.0.12 writes it
        (b"\x60", {"c2", "c3"}, (2**32 - 1, 2**32 - 1)),
        (b"\x40", set(), (-1, -1)),
        (b"\x60", {"c3"}, None),
        (b"\x60", None, None),
    ],
)
def test_signs_beside_a_year_are_those_of_the_schema(
    bits: bytes, unsigned: set[str] | None, found: tuple[int, int] | None
) -> None:
    """-1 for 4294967295, or the other way round, would look like any number."""
    columns = bytes([wire.LONG, wire.YEAR, wire.LONG, wire.LONG])
    log = Log().gtid(1).query("BEGIN").add(kinds.TABLE_MAP, table_map(columns, b"", part(1, bits)))
    row = b"\0" + struct.pack("<iBii", 1, 100, -1, -1)
    log.add(kinds.WRITE_ROWS, rows(4, row)).add(kinds.XID, bytes(8))
    types = {f"c{n}": "int" for n in range(4)} if unsigned is not None else {}
    [batch] = log.read({("d", "t"): FollowedTable(types, unsigned=frozenset(unsigned or ()))})
    if found is None:
        assert "which numbers have a sign: c" in str(batch.stopped[0].error)
        assert not values([batch])
        return
    assert values([batch]) == [(1, 2000, *found)]


def test_other_tables_cost_nothing_but_their_names() -> None:
    log = Log().gtid(1).query("BEGIN").add(kinds.TABLE_MAP, table_map(bytes([99]), b"", table="x"))
    [batch] = log.add(kinds.WRITE_ROWS, b"\7\0\0\0\0\0\0\0garbage").add(kinds.XID, bytes(8)).read()
    assert (batch.tables, batch.stopped, batch.state) == ((), (), "complete")


@pytest.mark.parametrize(
    "log",
    [
        Log().add(200, b""),
        Log().add(kinds.INCIDENT, b"\1\0"),
        Log().add(kinds.XID, bytes(8)),
        Log().add(kinds.WRITE_ROWS, rows(2)),
        Log().gtid(1).gtid(2),
        Log().gtid(1).query("BEGIN").add(kinds.WRITE_ROWS, rows(2, image(1, "a"))),
        Log().gtid(1).add(kinds.QUERY, b"\0\0"),
        Log().gtid(1).add(kinds.XA_PREPARE, bytes(13)),
    ],
)
def test_what_no_server_writes_is_an_error(log: Log) -> None:
    with pytest.raises(LogUnreadable):
        log.read()


def test_an_unknown_event_that_may_be_left_out_is() -> None:
    assert values(Log().add(200, b"x", flags=0x80).transaction(1, image(1, "a")).read()) == [
        (1, "a")
    ]


WHOLE = Log().transaction(1, image(1, "a"), image(2, None)).transaction(2, image(3, "ü" * 5))
BARE = Log(checksums=False)
BARE.transaction(1, image(1, "a"), image(2, None)).transaction(2, image(3, "xyz"))


@given(st.data())
def test_a_stream_with_a_changed_byte_gives_no_other_row(data: st.DataObject) -> None:
    """An error, or the rows before it; with checksums nothing else."""
    packets = list(WHOLE.packets)
    place = data.draw(st.integers(1, len(packets) - 1))
    changed = bytearray(packets[place])
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    packets[place] = bytes(changed)
    found = read_some(packets, checksums=True)
    assert found == values(WHOLE.read())[: len(found)]


@given(st.data())
def test_a_stream_that_is_cut_gives_no_other_row(data: st.DataObject) -> None:
    for log in (WHOLE, BARE):
        packets = list(log.packets)
        place = data.draw(st.integers(0, len(packets) - 1))
        size = data.draw(st.integers(0, len(packets[place]) - 1))
        packets[place] = packets[place][:size]
        found = read_some(packets, checksums=log.checksums)
        assert found == values(log.read())[: len(found)]


@given(st.data())
def test_a_changed_byte_without_checksums_is_no_hang_and_no_other_error(
    data: st.DataObject,
) -> None:
    packets = list(BARE.packets)
    place = data.draw(st.integers(2, len(packets) - 1))
    changed = bytearray(packets[place])
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    packets[place] = bytes(changed)
    read_some(packets, checksums=False)


def read_some(packets: list[bytes], *, checksums: bool) -> list[tuple[int, str]]:
    """What is given out before an error."""
    reader = LogReader(
        START, {("d", "t"): FollowedTable()}, FORMS, checksums=checksums, limits=BatchLimits(1)
    )
    found: list[LogBatch] = []
    with suppress(LogUnreadable):
        for batch in reader.batches(packets):
            found.append(batch)
    return values(found)


def prepared(log: Log, number: int, text: str) -> Log:
    log.gtid(number).query("XA START X'61',X'62',1").add(kinds.TABLE_MAP, MAP)
    log.add(kinds.WRITE_ROWS, rows(2, image(number, text))).query("XA END X'61',X'62',1")
    return log.add(kinds.XA_PREPARE, struct.pack("<BIII", 0, 1, 1, 1) + b"ab")


def test_an_xa_transaction_counts_where_it_is_committed() -> None:
    log = prepared(Log().transaction(1, image(1, "a")), 2, "b")
    between = log.read()[-1].position
    assert between.since is not None
    assert between.since.gtids == GtidSet().add(MysqlGtid(SERVER, "", 1))
    assert values(log.read()) == [(1, "a")]
    place = log.end
    log.gtid(3).query("XA COMMIT X'61',X'62',1").transaction(4, image(4, "d"))
    assert values(log.read()) == [(1, "a"), (2, "b"), (4, "d")]
    for again in (between, between.by_transactions()):
        assert values(log.read(start=again)) == [(2, "b"), (4, "d")]
    [table] = log.read()[-1].tables
    assert table.places.column("offset").to_pylist()[1] == place
    assert table.places.column("gtid").to_pylist()[1] == f"{SERVER}:3"
    with pytest.raises(LogUnreadable, match="prepared already"):
        prepared(prepared(Log(), 1, "a"), 2, "b").read()


def test_a_batch_is_due_after_a_time_whatever_is_in_it() -> None:
    """Rows of tables that nobody wants, and statements, move the position too."""
    log = Log().transaction(1, image(1, "a")).gtid(2).query("CREATE TABLE x (id INT)")
    reader = LogReader(START, {}, FORMS, checksums=True, limits=BatchLimits(seconds=0))
    found = list(reader.batches(log.packets))
    assert [(batch.rows, len(batch.statements)) for batch in found] == [(0, 0), (0, 1)]
    assert [str(batch.position.gtids)[-1] for batch in found] == ["1", "2"]
