"""Positions, and both kinds of sets of transactions."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.errors import LogUnreadable, SourceError
from mirrorlake.sources.mysql.binlog.gtid_lists import GtidList, MariadbGtid
from mirrorlake.sources.mysql.binlog.gtid_sets import GtidSet, MysqlGtid
from mirrorlake.sources.mysql.binlog.positions import LogPosition, StreamPosition, with_gtid

SERVERS = [uuid.UUID(int=n) for n in (1, 2, 2**127)]
GTIDS = st.builds(
    MysqlGtid, st.sampled_from(SERVERS), st.sampled_from(["", "a", "blue_7"]), st.integers(1, 30)
)
SETS = st.lists(GTIDS, max_size=40)


def set_of(gtids: list[MysqlGtid]) -> GtidSet:
    found = GtidSet()
    for gtid in gtids:
        found = found.add(gtid)
    return found


@given(SETS, SETS)
def test_a_set_of_gtids_is_a_set(first: list[MysqlGtid], second: list[MysqlGtid]) -> None:
    one, other = set_of(first), set_of(second)
    every = {MysqlGtid(s, t, n) for s in SERVERS for t in ("", "a", "blue_7") for n in range(1, 31)}

    def members(given: GtidSet) -> set[MysqlGtid]:
        return {gtid for gtid in every if gtid in given}

    assert members(one) == set(first)
    assert members(one.union(other)) == set(first) | set(second)
    assert members(one.minus(other)) == set(first) - set(second)
    assert (one <= other) == (set(first) <= set(second))
    assert (one == other) == (set(first) == set(second))


@given(SETS)
def test_a_set_of_gtids_is_read_as_it_was_written(gtids: list[MysqlGtid]) -> None:
    found = set_of(gtids)
    assert GtidSet.parse(str(found)) == found
    assert GtidSet.parse(str(found).upper().replace(",", ",\n ")) == found
    assert GtidSet.decode(found.encode()) == found


@given(SETS.filter(bool), st.data())
def test_a_set_that_is_cut_is_an_error(gtids: list[MysqlGtid], data: st.DataObject) -> None:
    encoded = set_of(gtids).encode()
    size = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(LogUnreadable):
        GtidSet.decode(encoded[:size])


def test_the_encoding_is_the_servers() -> None:
    server = "00000000-0000-0000-0000-000000000001"
    plain = GtidSet.parse(f"{server}:1-3").encode()
    assert plain.hex() == (
        "0100000000000000" + "00" * 15 + "01" + "0100000000000000"
        "0100000000000000" + "0400000000000000"
    )
    tagged = GtidSet.parse(f"{server}:ab:7").encode()
    assert tagged.hex() == (
        "0101000000000001" + "00" * 15 + "01" + "046162" + "0100000000000000"
        "0700000000000000" + "0800000000000000"
    )


@pytest.mark.parametrize(
    "text",
    ["x", "1-2", f"{SERVERS[0]}", f"{SERVERS[0]}:0", f"{SERVERS[0]}:5-3", f"{SERVERS[0]}:1:1-x"],
)
def test_what_is_no_set_is_an_error(text: str) -> None:
    with pytest.raises(SourceError, match="no set of GTIDs"):
        GtidSet.parse(text)


def test_a_list_of_mariadb_has_all_up_to_the_last_of_each_domain() -> None:
    found = GtidList.parse("0-1-7,2-5-1")
    assert MariadbGtid(0, 9, 7) in found
    assert MariadbGtid(0, 1, 8) not in found
    assert MariadbGtid(1, 1, 1) not in found
    assert str(found.add(MariadbGtid(0, 3, 9)).add(MariadbGtid(0, 1, 8))) == "0-3-9,2-5-1"
    assert GtidList.parse("0-1-6") <= found
    assert not found <= GtidList.parse("0-1-7")
    assert GtidList.parse("") <= found
    for wrong in ("0-1", "0-1-1,0-1-2", "4294967296-1-1", "a-1-1", "0-1-1-1"):
        with pytest.raises(SourceError):
            GtidList.parse(wrong)


def test_positions_are_in_the_order_of_their_files_numbers() -> None:
    places = [("bin.999999", 900), ("bin.1000000", 4), ("bin.1000000", 5_000_000_000)]
    positions = [LogPosition(*place) for place in places]
    assert sorted([positions[2], positions[0], positions[1]]) == positions
    assert [LogPosition.parse(str(one)) for one in positions] == positions
    with pytest.raises(SourceError, match="not positions of one binary log"):
        _ = LogPosition("bin.000001", 4) < LogPosition("other.000001", 4)
    for wrong in ("", "bin:4", "bin.000001", "bin.000001:", "bin.000001:-4"):
        with pytest.raises(SourceError):
            LogPosition.parse(wrong)


def test_a_streams_position_is_read_as_it_was_written() -> None:
    mysql = GtidSet.parse(f"{SERVERS[0]}:1-5:tag:2")
    since = StreamPosition(LogPosition("bin.000001", 4), mysql)
    position = StreamPosition(LogPosition("bin.000002", 99), mysql, since)
    assert StreamPosition.parse(position.to_text()) == position
    assert position.start is since
    assert position.by_transactions() == StreamPosition(None, mysql, StreamPosition(None, mysql))
    with pytest.raises(SourceError, match="single server"):
        StreamPosition(LogPosition("bin.000001", 4)).by_transactions()
    assert since.start is since
    without = StreamPosition(None, GtidList.parse("0-1-2"))
    assert StreamPosition.parse(without.to_text()) == without
    for wrong in ("", "[]", "7", '{"log":"x"}'):
        with pytest.raises(SourceError):
            StreamPosition.parse(wrong)


def test_transactions_of_two_kinds_of_servers_are_not_mixed() -> None:
    gtids = GtidList.parse("0-1-1")
    assert with_gtid(gtids, MariadbGtid(0, 1, 2)) == GtidList.parse("0-1-2")
    assert with_gtid(None, MariadbGtid(0, 1, 2)) is None
    with pytest.raises(SourceError, match="different kinds"):
        with_gtid(gtids, MysqlGtid(SERVERS[0], "", 1))


def test_a_transaction_without_a_number_ends_a_set() -> None:
    """No set of MySQL's has all that are before a place then; MariaDB's say which is the last."""
    assert with_gtid(GtidSet(), None) is None
    assert with_gtid(GtidList.parse("0-1-1"), None) == GtidList.parse("0-1-1")
