"""Rows compared with the server's hash of each; the oracle hashes with hashlib what it writes out
by hand."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest

from mirrorlake.proof.forms.rows import row_form
from mirrorlake.proof.sides.server_hashes import (
    UNKNOWN,
    Compared,
    ServerHashes,
    compare_rows,
    numbers_of,
    server_hashes,
    sum_of,
)
from mirrorlake.sources.mysql.tables import Column, SourceTable
from tests.unit.proof.test_ranges import column

COLUMNS = (
    column("id", "int"),
    column("v", "varchar", length=20, charset="utf8mb4", nullable=True),
    column("n", "bigint", nullable=True),
)
ROWS = [(1, "a", 5), (2, "", None), (3, "ü,x", -7), (4, "b", 0)]
FORMS = ["1,1:a,5", "2,0:,N", "3,4:ü,x,-7", "4,1:b,0"]
SAID = [hashlib.sha256(form.encode()).hexdigest()[:16] for form in FORMS]
KEYS = sum(crc32(f"{row[0]}".encode()) for row in ROWS)


def hashes(key: tuple[str, ...] = ("id",), columns: tuple[Column, ...] = COLUMNS) -> ServerHashes:
    table = SourceTable("d", "t", "InnoDB", columns, (), 4, ())
    return server_hashes(table, row_form(columns, False, 10**6), key)


def batches(rows: list[tuple[Any, ...]], at_once: int = 3) -> list[pa.RecordBatch]:
    ids, texts, numbers = (list(cells) for cells in zip(*rows, strict=True))
    made = pa.table(
        {
            "id": pa.array(ids, pa.int32()),
            "v": pa.array(texts, pa.large_string()),
            "n": pa.array(numbers, pa.int64()),
        }
    )
    return made.to_batches(at_once)


def said(texts: list[str | None]) -> Any:
    return numbers_of(pa.chunked_array([pa.array(texts, pa.string())]))


def test_what_mysql_is_asked() -> None:
    form = "CONCAT(`id`,',',IFNULL(CONCAT(LENGTH("
    assert hashes().of_row.startswith(f"LEFT(SHA2({form}")
    assert hashes().of_row.endswith(",256),16)")
    assert hashes().of_key == "CRC32(CONCAT(`id`))"
    assert hashes(("n", "id")).of_key == "CRC32(CONCAT(IFNULL(`n`,'N'),',',`id`))"


@pytest.mark.parametrize("at_once", [1, 3, 4])
def test_rows_that_are_the_servers(at_once: int) -> None:
    """In batches of which some have no NULL: their forms are joined in another way."""
    found = compare_rows(hashes(), batches(ROWS, at_once), said([*SAID]).to_numpy())
    assert found == Compared(4, KEYS, True)


FAULTS: dict[str, tuple[list[tuple[Any, ...]], list[str | None]]] = {
    "a value": ([(1, "b", 5), *ROWS[1:]], [*SAID]),
    "NULL for ''": ([ROWS[0], (2, None, None), *ROWS[2:]], [*SAID]),
    "columns' values exchanged": ([(5, "a", 1), *ROWS[1:]], [*SAID]),
    "a hash": (ROWS, ["0" * 16, *SAID[1:]]),
    "neighbours' hashes": (ROWS, [*SAID[1:], SAID[0]]),
    "a row with no hash": (ROWS, SAID[:3]),
    "a hash with no row": (ROWS[:3], [*SAID]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_rows_that_are_not(fault: str) -> None:
    rows, texts = FAULTS[fault]
    assert not compare_rows(hashes(), batches(rows), said(texts).to_numpy()).equal


def test_a_row_that_takes_its_hash_with_it_is_missed_in_the_count_or_in_the_keys() -> None:
    whole = Compared(4, KEYS, True)
    lost = compare_rows(hashes(), batches(ROWS[1:]), said([*SAID[1:]]).to_numpy())
    assert (lost.equal, lost.rows) == (True, 3)
    doubled = [*ROWS[1:], ROWS[1]]
    found = compare_rows(hashes(), batches(doubled), said([*SAID[1:], SAID[1]]).to_numpy())
    assert (found.equal, found.rows) == (True, 4)
    assert found.keys != whole.keys


def test_what_has_no_form_here_is_not_known() -> None:
    finer = pa.table({"at": pa.array([datetime(2024, 1, 1, 0, 0, 0, 1)], pa.timestamp("us"))})
    by_time = hashes(("at",), (column("at", "datetime"),))
    assert compare_rows(by_time, finer.to_batches(), said([SAID[0]]).to_numpy()) == UNKNOWN


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        ([], []),
        (["0" * 15 + "1", "f" * 16], [1, 2**64 - 1]),
        ([None, "0" * 15 + "2"], [None, 2]),
        (["12", "0" * 15 + "3"], [None, 3]),
        (["g" * 16, "0" * 16], [None, None]),
    ],
)
def test_hashes_as_the_server_sends_them(
    texts: list[str | None], numbers: list[int | None]
) -> None:
    found = said(texts)
    assert found.to_pylist() == numbers
    assert sum_of(pa.chunked_array([found])) == sum(number or 0 for number in numbers)
    two = pa.chunked_array([pa.array(["x" * 16, *texts], pa.string()).slice(1)] * 2)
    assert numbers_of(two).to_pylist() == numbers * 2


def test_a_sum_is_of_whole_numbers() -> None:
    many = pa.chunked_array([pa.array(np.full(5, 2**64 - 1, np.uint64))])
    assert sum_of(many) == 5 * (2**64 - 1)
