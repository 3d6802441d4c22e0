"""The last line of `sync`: what became of all tables, and what is not right of them."""

from __future__ import annotations

import pytest

from mirrorlake.cli.attention import print_summary
from mirrorlake.operations.attention import Attention

OUTCOMES = {"loaded": 2, "unchanged": 7, "of tenants": 0, "held": 0, "failed": 1}


@pytest.mark.parametrize(
    ("found", "last"),
    [
        ((), "10 tables: 2 loaded, 7 unchanged, 1 failed"),
        (
            (
                Attention("s.d.a", "put right", "table s.d.a: it is made again"),
                Attention("s.d.b", "held columns", "note, other: new in MySQL"),
                Attention("s.d.b", "held columns", "a: may have what b had"),
            ),
            "10 tables: 2 loaded, 7 unchanged, 1 failed; not right: 1 put right, "
            "1 with columns held out of clean",
        ),
    ],
)
def test_it_counts_tables_and_not_lines(
    found: tuple[Attention, ...], last: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_summary(OUTCOMES, found)
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1] == last
    assert printed.err.count("held columns: ") == sum(one.kind == "held columns" for one in found)
    assert all(one.table in printed.err for one in found)


def test_no_more_lines_than_a_screen_has(capsys: pytest.CaptureFixture[str]) -> None:
    found = [Attention(f"s.d.t{n}", "unproved", "raw lost loads") for n in range(25)]
    print_summary({"unchanged": 25}, found)
    printed = capsys.readouterr()
    assert printed.err.splitlines()[-1] == "and 5 more: --json lists them"
    assert printed.out == "25 tables: 25 unchanged; not right: 25 unproved\n"
