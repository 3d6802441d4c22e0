"""The last line of `sync`: what became of all tables, and what is not right of them."""

from __future__ import annotations

import pytest

from mirrorlake.cli import show
from mirrorlake.cli.attention import print_summary
from mirrorlake.errors import LedgerError
from mirrorlake.operations.status.attention import Attention

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


def test_what_is_said_of_many_tables_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A ledger that was lost: each table's error names its own raw table and load."""
    step = "run `mirrorlake ledger rebuild`"

    def unknown(table: str, load: str) -> LedgerError:
        words = f"lake table s_d__raw.{table}_v_{load[:10]} holds load {load}, which is not known"
        return LedgerError(words, table=f"s.d.{table}", next_step=step)

    failures = [(f"s.d.t{n}", unknown(f"t{n}", f"{n:032x}")) for n in range(30)]
    show.print_errors([*failures, ("s.d.other", LedgerError("the disk is full"))])
    printed = capsys.readouterr().err.splitlines()
    assert len(printed) == 3
    assert "lake table s_d__raw.t0_v_" in printed[0]
    assert (
        printed[1]
        == "The same of 29 other tables: s.d.t1, s.d.t2, s.d.t3, s.d.t4, s.d.t5 and 24 more"
    )
    assert printed[2] == "error: s.d.other: the disk is full"
