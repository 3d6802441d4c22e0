"""How far a load is: what is told, when, and in which words."""

from __future__ import annotations

import io
import logging
import re

import pytest
from rich.console import Console

from mirrorlake.cli.bars import Bars
from mirrorlake.table import progress
from mirrorlake.table.progress import Pace, Progress

SEEN = Progress("s.d.t", "abc", 300, 1_000, 50_000_000, 200, 10.0)


def test_speed_and_rest_are_of_what_this_run_has_read() -> None:
    assert SEEN.mb_per_second == 5.0
    assert SEEN.seconds_left == 35.0
    assert SEEN.words == "300 of about 1,000 rows, 50 MB, 5.0 MB/s, about 35 s left"


@pytest.mark.parametrize(
    ("expected", "read", "ended"), [(None, 200, False), (1_000, 0, False), (300, 200, True)]
)
def test_what_nothing_tells_is_not_said(expected: int | None, read: int, ended: bool) -> None:
    seen = Progress("s.d.t", "abc", 300, expected, 50_000_000, read, 10.0, ended)
    assert seen.seconds_left is None
    assert "left" not in seen.words


def test_rows_are_counted_as_they_come_and_the_end_is_told_once() -> None:
    told: list[Progress] = []
    counted = Pace("s.d.t", "abc", 100, told.append, there=50)
    counted.advance(40, 4_000)
    counted.advance(40, 4_000)  # more than the statistics say
    last = counted.finish()
    assert [(seen.rows, seen.expected, seen.ended) for seen in told] == [
        (50, 100, False),
        (90, 100, False),
        (130, 130, False),
        (130, 130, True),
    ]
    assert (last.read, last.bytes) == (80, 8_000)
    assert told[-1] is last


def test_nothing_is_expected_where_nothing_tells() -> None:
    told: list[Progress] = []
    Pace("s.d.t", "abc", None, told.append).advance(5, 1)
    assert [seen.expected for seen in told] == [None, None]


def test_the_log_says_it_at_intervals(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = iter([0.0, 0.0, 4.0, 11.0, 12.0, 21.5])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with caplog.at_level(logging.INFO, "mirrorlake"):
        counted = Pace("s.d.t", "abc", 100, None)
        for _ in range(4):
            counted.advance(10, 11_000_000)
    assert caplog.messages == [
        "table s.d.t load abc: 20 of about 100 rows, 22 MB, 2.0 MB/s, about 44 s left",
        "table s.d.t load abc: 40 of about 100 rows, 44 MB, 2.0 MB/s, about 32 s left",
    ]


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())


def test_bars_show_rows_speed_and_rest_on_a_terminal() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=140)
    with Bars(console) as bars:
        done = bars.count("all tables", 3)
        with bars.table("s.d.[odd] name") as report:
            report(SEEN)
            bars.refresh()
            report(Progress("s.d.t", "abc", 1_000, 1_000, 90_000_000, 900, 20.0, ended=True))
            bars.refresh()
        done(1)
    text = shown(console)
    assert re.search(
        r"s\.d\.\[odd\] name .*300 of about 1,000 rows, 50 MB, 5\.0 MB/s, about 35 s", text
    )
    assert "1,000 rows, 90 MB, 4.5 MB/s; commit and fold" in text
    assert "1 of 3" in text


@pytest.mark.parametrize(
    ("terminal", "quiet", "expected"),
    [
        (False, False, "1 of 3: s.d.[odd] name: done\n"),
        (False, True, ""),
        (True, True, ""),
    ],
)
def test_elsewhere_lines_are_shown_and_nothing_where_it_is_quiet(
    terminal: bool, quiet: bool, expected: str
) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal)
    with Bars(console, quiet=quiet) as bars:
        with bars.table("s.d.[odd] name") as report:
            report(SEEN)
        bars.line("1 of 3: s.d.[odd] name: done")
    assert shown(console) == expected


def test_a_terminal_shows_bars_and_no_lines() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=140)
    with Bars(console) as bars:
        bars.line("1 of 3: s.d.t: done")
    assert "done" not in shown(console)
