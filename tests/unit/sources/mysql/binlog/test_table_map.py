"""What a TABLE_MAP says of a table, in both servers' forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.errors import LogUnreadable
from mirrorlake.sources.mysql.binlog.events import wire_types as wire
from mirrorlake.sources.mysql.binlog.events.table_map import read_names, read_table_map
from tests.unit.sources.mysql.binlog.events import part, table_map, texts

KINDS = bytes(
    [
        *(wire.LONG, wire.YEAR, wire.LONGLONG, wire.VARCHAR, wire.GEOMETRY, wire.BLOB),
        *(wire.STRING, wire.STRING, wire.NEWDECIMAL, wire.BIT, wire.DATETIME2),
    ]
)
METAS = bytes([0x2C, 1, 4, 2, 0xF7, 1, 0xF8, 2, 10, 2, 3, 1, 6])
FULL = (
    part(5, b"\2" + texts(b"x", b"y")),
    part(6, b"\1" + texts(b"\x82\xa0")),
    part(7, b"\1"),
    part(9, b"\0\0\3\5"),
    part(11, b"\x08\x0d"),
)


def test_all_that_is_logged_of_columns() -> None:
    # Signs of INT, BIGINT and DECIMAL; charsets of VARCHAR and BLOB.
    body = table_map(KINDS, METAS, part(1, b"\x40"), part(3, b"\xfc\xff\x00\x3f"), *FULL)
    found = read_table_map(body, mariadb=False)
    assert read_names(body) == (found.database, found.table) == ("d", "t")
    assert found.full
    assert found.unsigned == (frozenset(), frozenset({2}))  # with a bit for YEAR, and without one
    signed = found.signed_as(frozenset({2}))
    assert [c.unsigned for c in signed.columns] == [False, False, True] + [False] * 8
    assert [c.collation for c in found.columns] == [
        *(None, None, None, 255, None, 63, 8, 13, None, None, None)
    ]
    assert found.columns[3].size == 300
    assert (found.columns[6].kind, found.columns[6].labels) == (wire.ENUM, (b"\x82\xa0",))
    assert (found.columns[7].kind, found.columns[7].labels) == (wire.SET, (b"x", b"y"))
    assert (found.columns[8].size, found.columns[8].scale) == (10, 2)
    assert (found.columns[9].size, found.columns[10].scale) == (11, 6)
    assert (found.key, found.prefixes) == ((0, 3), (0, 5))
    assert found.columns[4].geometry == 1


def test_mariadb_counts_years_and_shapes_too() -> None:
    # Signs of INT, YEAR, BIGINT and DECIMAL; charsets of VARCHAR, shape and BLOB.
    body = table_map(KINDS, METAS, part(1, b"\x60"), part(2, b"\x2d\1\x3f\2\x3f"), *FULL)
    found = read_table_map(body, mariadb=True)
    assert [n for n, c in enumerate(found.columns) if c.unsigned] == [1, 2]
    assert [c.collation for c in found.columns[3:6]] == [45, 63, 63]


YEARS = bytes([wire.LONG, wire.YEAR, wire.LONG, wire.LONG])


@pytest.mark.parametrize(
    ("kinds", "bits", "unsigned"),
    [
        (YEARS, b"\x60", [{2}, {2, 3}]),  # 9.7.4: INT, YEAR, INT UNSIGNED, INT
        (YEARS, b"\x40", [set(), {2}]),
        (YEARS, b"\x10", [{3}]),  # there is no fourth number without YEAR
        (YEARS, b"\x00", [set()]),
        (YEARS[:2], b"\x40", [set()]),
        (YEARS + YEARS[:1] * 5, b"\x20\x80", [{2, 8}]),  # eight numbers have one byte
        (YEARS + YEARS[:1] * 5, b"\x20", [{3}]),
        (YEARS[:1] * 2, b"\x40", [{1}]),
    ],
)
def test_a_year_may_have_a_bit_among_the_signs(
    kinds: bytes, bits: bytes, unsigned: list[set[int]]
) -> None:
    """Newer servers give it one, 8.0.12 does not: what can be meant is said, not guessed."""
    found = read_table_map(table_map(kinds, b"", part(1, bits)), mariadb=False)
    assert list(map(set, found.unsigned)) == unsigned
    assert {n for n, c in enumerate(found.columns) if c.unsigned} == unsigned[0]


@pytest.mark.parametrize(
    "charsets", [part(2, b"\x3f\0\x08\2\xfc\xff\0"), part(3, b"\x08\x3f\xfc\xff\0")]
)
def test_a_vector_counts_among_texts(charsets: bytes) -> None:
    """As MySQL 9.7.4 writes it: were it left out, a text behind it would have another's charset."""
    kinds = bytes([wire.VARCHAR, wire.VECTOR, wire.VARCHAR])
    found = read_table_map(table_map(kinds, b"\x14\0\4\x50\0", charsets), mariadb=False)
    assert [column.collation for column in found.columns] == [8, 63, 255]


def test_long_strings_have_their_length_in_two_places() -> None:
    # CHAR(255) of four bytes a letter: 1,020.
    found = read_table_map(table_map(bytes([wire.STRING]), bytes([0xCE, 0xFC])), mariadb=False)
    assert (found.columns[0].kind, found.columns[0].size) == (wire.STRING, 1020)


def test_invisible_columns_and_parts_of_later_servers() -> None:
    body = table_map(bytes([wire.LONG, wire.LONG]), b"", part(12, b"\x80"), part(99, b"abc"))
    assert [c.visible for c in read_table_map(body, mariadb=False).columns] == [True, False]


@given(st.data())
def test_a_table_map_that_is_cut_is_an_error_or_says_less(data: st.DataObject) -> None:
    """Between two optional parts nobody can see that there were more."""
    body = table_map(KINDS, METAS, part(1, b"\x40"), part(3, b"\xfc\xff\x00\x3f"), *FULL)
    size = data.draw(st.integers(0, len(body) - 1))
    try:
        found = read_table_map(body[:size], mariadb=False)
    except LogUnreadable:
        return
    whole = read_table_map(body, mariadb=False)
    assert [c.kind for c in found.columns] == [c.kind for c in whole.columns]
    assert found != whole


@given(st.binary(max_size=80))
def test_other_bytes_are_an_error_or_a_table(given: bytes) -> None:
    try:
        found = read_table_map(bytes(8) + given, mariadb=True)
    except LogUnreadable:
        return
    assert found.columns


@pytest.mark.parametrize(
    "wrong",
    [
        table_map(bytes([wire.LONG]), b"\1"),
        table_map(bytes([wire.VARCHAR]), b"\1"),
        table_map(bytes([99]), b""),
        table_map(bytes([wire.TIME2]), b"\7"),
        table_map(bytes([wire.LONG]), b"", part(1, b"\0\0")),
        table_map(bytes([wire.LONG, wire.YEAR]), b"", part(1, b"\0\0")),
        table_map(bytes([wire.LONG, wire.YEAR]), b"", part(1, b"\1")),
        table_map(bytes([wire.LONG]), b"", part(8, b"\1")),
        table_map(bytes([wire.LONG]), b"", part(4, texts(b"a", b"b"))),
        table_map(bytes([wire.VARCHAR]), b"\1\0", part(3, b"\x21\x21")),
        table_map(bytes([wire.VARCHAR]), b"\1\0", part(2, b"\x21\1\x21")),
    ],
)
def test_parts_that_do_not_fit_are_an_error(wrong: bytes) -> None:
    with pytest.raises(LogUnreadable):
        read_table_map(wrong, mariadb=False)
