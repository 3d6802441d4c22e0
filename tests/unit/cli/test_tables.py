"""Tables for people: plain ones are printed as Rich prints them, only sooner."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from mirrorlake.cli import show

CELLS = st.one_of(
    st.text("ab 1,-_.é漢🙂:[]\\\t\n", max_size=12),
    st.sampled_from(["", "-", "[red]x[/]", ":smile:", "12:00:01", "a\u0301b", "👩‍🔬", "x" * 40]),
)
COLUMNS = st.lists(st.sampled_from(["table", "state", "checks…", "", "as of"]), min_size=1, max_size=4)  # fmt: skip


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[str]]]:
    columns = draw(COLUMNS)
    row = st.lists(CELLS, min_size=len(columns), max_size=len(columns))
    return columns, draw(st.lists(row, max_size=4))


def printed(table: Table, width: int) -> str:
    text = io.StringIO()
    Console(file=text, width=width).print(table)
    return text.getvalue()


def made(columns: list[str], rows: list[list[str]]) -> Table:
    table = show.table(*columns)
    for row in rows:
        table.add_row(*row)
    return table


@given(given_table=tables(), width=st.integers(20, 160))
def test_a_plain_table_is_as_rich_prints_it(
    given_table: tuple[list[str], list[list[str]]], width: int
) -> None:
    table = made(*given_table)
    fast = table._plain(width)  # type: ignore[attr-defined]
    if not fast:
        return
    slow = made(*given_table)
    slow._plain = lambda _: []  # type: ignore[attr-defined]
    assert printed(table, width) == printed(slow, width)


def test_what_is_printed_sooner() -> None:
    rows = [["shop.orders", "success", "folded, loaded, proved before it was visible"]]
    table = made(["table", "state", "checks…"], rows)
    assert table._plain(80)  # type: ignore[attr-defined]
    assert not table._plain(60)  # type: ignore[attr-defined]
    assert "shop.orders   success   folded, loaded" in printed(table, 80)
    for styled in ("[red]x[/]", "\\[x]", ":smile:", "a\tb", "a\nb", "\x07"):
        assert not made(["table"], [[styled]])._plain(80)  # type: ignore[attr-defined]


@given(width=st.integers(60, 120))
def test_no_word_is_cut_off_at_any_width(width: int) -> None:
    sentence = "50 rows on both sides, and not the same ones"
    table = made(
        ["table", "verdict", "rows there", "rows in the lake", "found…"],
        [["s.shop.orders", "different", "50", "3 min ago", sentence]],
    )
    text = printed(table, width)
    assert [word for word in sentence.split() if word not in text.split()] == []
    assert "3 min ago" in text


def test_ten_tables_fit_a_screen_of_eighty_columns() -> None:
    """Each a record of few lines, of which no cell is broken."""
    table = show.table("table", "mode", "state", "last load", "rows", "as of", "checks…")
    row = ("incremental", "success", "3 min ago", "1,234,567", "2 min ago")
    for number in range(10):
        table.add_row(f"shop.shop.orders_{number}", *row, "folded, loaded, not yet proved")
    screen = Console(width=80, file=io.StringIO())
    screen.print(table)
    lines = screen.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 30
    assert max(map(len, lines)) <= 80
    assert "rows 1,234,567, as of 2 min ago" in lines[1]


def test_a_file_has_no_line_that_is_filled_with_spaces() -> None:
    """Neither in a table nor in records, whatever is styled."""
    cells = ["shop.orders", "[red]failed[/]", "a sentence that is long enough for a line " * 4]
    for width in (30, 80, 200):
        lines = printed(made(["table", "state", "note…"], [cells, cells]), width).splitlines()
        assert lines == [line.rstrip() for line in lines]
        assert max(map(len, lines)) <= width
