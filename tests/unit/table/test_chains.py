"""Which copies make up a table's rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from mirrorlake.errors import LakeError
from mirrorlake.ledger import Load, Receipt, Window
from mirrorlake.table.chains import UNKNOWN_DELTA, chain_of

AT = datetime(2024, 5, 1, tzinfo=UTC)
RECEIPT = Receipt(1, 1, 1, "0", "2024-05-01 00:00:00", None, "server", "", 0, 0, 0.0)


def load(seq: int, stands_on: int = 0, kind: str = "full") -> Load:
    window = Window(kind, None, None, date(2024, 5, 1))
    receipt = replace(RECEIPT, stands_on=stands_on)
    return Load(
        seq, f"{seq:032x}", 1, "s.d.t", "success", "t_v_1", window, None, 1, AT, AT, receipt, None
    )


def seqs(*loads: Load) -> list[int]:
    return [one.seq for one in chain_of(loads)]


def test_a_complete_copy_is_a_chain_of_its_own() -> None:
    assert seqs() == []
    assert seqs(load(1), load(2)) == [2]
    assert seqs(load(1), load(2, 1), load(3)) == [3]


def test_what_stands_on_a_copy_follows_it() -> None:
    assert seqs(load(1), load(2), load(4, 2), load(5, 2)) == [2, 4, 5]
    assert seqs(load(1), load(2, 1), load(3), load(4, 3)) == [3, 4]


def test_repairs_are_no_copies() -> None:
    assert seqs(load(1), load(2, kind="repair")) == [1]


def test_a_chain_without_its_beginning_is_refused() -> None:
    with pytest.raises(LakeError, match="since which copy"):
        chain_of([load(1), load(5, 3)])


def test_a_delta_that_files_alone_tell_of_is_refused() -> None:
    unknown = replace(load(3), window=Window("unknown", UNKNOWN_DELTA, None, AT.date()))
    with pytest.raises(LakeError, match="what changed alone"):
        chain_of([load(1), replace(unknown, receipt=None)])
    # In the middle of a chain too: what it changed would be left out.
    with pytest.raises(LakeError, match="what changed alone"):
        chain_of([load(1), load(2, 1), replace(unknown, receipt=None), load(4, 1)])
    # A complete copy after it begins a chain of its own.
    assert seqs(replace(unknown, receipt=None), load(4)) == [4]
