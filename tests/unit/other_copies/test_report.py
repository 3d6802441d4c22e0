"""A report shows what was found as it is, whatever names and values hold."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from mirrorlake.errors import ConfigError
from mirrorlake.other_copies.lines import note_lines
from mirrorlake.other_copies.report import write_report
from mirrorlake.other_copies.run import ComparedCopies
from mirrorlake.other_copies.verdict import ComparedColumn, ComparedCopy, CopyDifference

HOSTILE = "<script>alert('|')</script>"


def copy_with(*differences: CopyDifference, **more: object) -> ComparedCopy:
    terms: dict[str, object] = {
        **{"table": "shop.orders", "place": "Parquet, orders", "version": "1 file"},
        **{"server": "s", "position": "", "read_at": "2024-01-01 00:00:00.000000"},
        **{"key": ("id",), "rows": (2, 2), "equal_rows": 1, "differences": differences},
        "columns": (ComparedColumn("id", "id", "int", "INTEGER"),),
    }
    return ComparedCopy(**(terms | more))  # type: ignore[arg-type]


class Tags(HTMLParser):
    """The names of all elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        assert not {name for name, _ in attrs} & {"src", "href", "onclick"}


def test_html_runs_nothing_and_loads_nothing(tmp_path: Path) -> None:
    found = CopyDifference("other", HOSTILE, 1, "", (HOSTILE,), ((HOSTILE, None),))
    path = tmp_path / "made" / "page.html"
    write_report(path, ComparedCopies((copy_with(found, left_out={HOSTILE: HOSTILE}),)))
    page = path.read_text("utf-8")
    assert "script" not in Tags(page).seen
    assert "&lt;script&gt;" in page
    assert "://" not in page
    assert "default-src &#39;none&#39;" in page


def test_markdown_keeps_its_tables_whole(tmp_path: Path) -> None:
    found = CopyDifference("other", HOSTILE, 1, "", ("a|b\nc",))
    path = tmp_path / "page.md"
    write_report(path, ComparedCopies((copy_with(found),)))
    page = path.read_text("utf-8")
    assert r"\<script\>alert('\|')\</script\>" in page
    assert r"| 1 | a\|b c |" in page


def test_only_the_lossless_is_equal() -> None:
    note, loss = CopyDifference("set_order", "a", 5), CopyDifference("cut", "a", 1)
    assert copy_with(note).verdict == "equal"
    assert copy_with(note, loss).verdict == "different"
    assert copy_with(note, left_out={"b": "why"}).verdict == "undecided"
    assert copy_with(left_out={"b": "asked"}, by_request=("b",)).verdict == "equal"


def test_a_report_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ends in neither"):
        write_report(tmp_path / "page.pdf", ComparedCopies(()))


def test_another_file_is_left(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("<p>mine</p>")
    with pytest.raises(ConfigError, match="is no page of Mirrorlake's"):
        write_report(path, ComparedCopies((copy_with(),)))
    assert path.read_text() == "<p>mine</p>"
    path.unlink()
    for _ in range(2):  # the second takes the first one's place
        write_report(path, ComparedCopies((copy_with(),)))
    assert [*tmp_path.iterdir()] == [path]


def test_a_note_promises_nothing_of_a_column_with_losses() -> None:
    columns = tuple(ComparedColumn(n, n, "bit(3)", "BLOB", ("bits as bytes",)) for n in "ab")
    found = copy_with(CopyDifference("other", "b", 1), columns=columns)
    assert [*note_lines(found)] == [
        "a: bits as bytes; nothing is lost",
        "b: bits as bytes",
    ]
