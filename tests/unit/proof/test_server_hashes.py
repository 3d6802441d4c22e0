"""Rows compared with the server's hash of each; the oracle hashes with hashlib what it writes out
by hand."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mirrorlake.proof.forms.canonical import ORIGINALS
from mirrorlake.proof.forms.rows import row_form
from mirrorlake.proof.sides.duckdb_forms import FileRows
from mirrorlake.proof.sides.server_hashes import (
    UNKNOWN,
    Compared,
    ServerHashes,
    compare_file,
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
    by_time = hashes(("at",), (column("at", "datetime"),))
    for micros in (1, 100_000):
        at = datetime(2024, 1, 1, 0, 0, 0, micros)
        finer = pa.table({"at": pa.array([at], pa.timestamp("us"))})
        assert compare_rows(by_time, finer.to_batches(), said([SAID[0]]).to_numpy()) == UNKNOWN


def test_what_is_not_known_is_not_equal() -> None:
    assert not UNKNOWN.equal


def of_originals() -> ServerHashes:
    table = SourceTable("d", "t", "InnoDB", COLUMNS, (), 4, ())
    return server_hashes(table, row_form(COLUMNS, True, 10**6), ("id",))


def with_originals(kept: list[Any]) -> pa.Table:
    kind = pa.list_(pa.struct([("column", pa.string()), ("text", pa.string())]))
    rows = pa.Table.from_batches(batches(ROWS))
    return rows.append_column(ORIGINALS, pa.array(kept, kind))


KEPT = [None, [{"column": "v", "text": "x"}], [], None]
"""The second row keeps an original."""


def test_originals_are_read_and_left_to_others() -> None:
    assert hashes().names == ["id", "v", "n"]
    assert of_originals().names == ["id", "v", "n", ORIGINALS]
    theirs = said([*SAID]).to_numpy()
    for kept, found in ((KEPT, UNKNOWN), ([None, [], None, None], Compared(4, KEYS, True))):
        rows = with_originals(kept).to_batches()
        assert compare_rows(of_originals(), rows, theirs) == found


# --- files that DuckDB reads by itself ------------------------------------------------------------


def written(folder: Path, rows: pa.Table, groups: int = 2, name: str = "f.parquet") -> str:
    """A file of row groups of so many rows."""
    path = folder / name
    pq.write_table(rows, path, row_group_size=groups)
    return str(path)


def in_file(
    path: str, part: tuple[int, int | None] = (0, None), filled: tuple[str, ...] = ("id",)
) -> Compared | None:
    first, until = part
    theirs = said([*SAID]).to_numpy()[first:until]
    return compare_file(hashes(), FileRows(path, first, until, filled), theirs)


def test_a_file_says_what_its_rows_do(tmp_path: Path) -> None:
    path = written(tmp_path, pa.Table.from_batches(batches(ROWS)))
    assert in_file(path) == Compared(4, KEYS, True)
    parts = [in_file(path, part) for part in [(0, 2), (2, None)]]
    assert None not in parts
    assert sum((part for part in parts if part), Compared()) == Compared(4, KEYS, True)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_whose_rows_are_not_the_servers(tmp_path: Path, fault: str) -> None:
    rows, texts = FAULTS[fault]
    path = written(tmp_path, pa.Table.from_batches(batches(rows)))
    found = compare_file(hashes(), FileRows(path, 0, None, ("id",)), said(texts).to_numpy())
    assert found is not None
    assert not found.equal


def test_a_column_that_is_said_to_be_filled_and_is_not(tmp_path: Path) -> None:
    """A footer that lies makes a difference, and hides none."""
    path = written(tmp_path, pa.Table.from_batches(batches(ROWS)))
    found = in_file(path, filled=("id", "v", "n"))
    assert found is not None
    assert not found.equal


def test_moments_in_a_file(tmp_path: Path) -> None:
    """With a zone too: DuckDB would need an extension to write one out."""
    at = datetime(1, 1, 1, 0, 0, 0, 250000)
    wanted = [hashlib.sha256(b"0001-01-01 00:00:00.25").hexdigest()[:16]]
    for zone, kind in ((None, "datetime"), ("UTC", "timestamp")):
        by_time = hashes(("at",), (column("at", kind, fraction=2),))
        for micros, equal in ((250000, True), (250001, None)):
            value = at.replace(microsecond=micros, tzinfo=UTC if zone else None)
            rows = pa.table({"at": pa.array([value], pa.timestamp("us", zone))})
            file = FileRows(written(tmp_path, rows), 0, None, ("at",))
            found = compare_file(by_time, file, said([*wanted]).to_numpy())
            assert (found.equal if found else None) is equal
    rows = pa.table({"at": pa.array([at.replace(microsecond=100_000)], pa.timestamp("us"))})
    file = FileRows(written(tmp_path, rows), 0, None, ("at",))
    whole = [hashlib.sha256(b"0001-01-01 00:00:00").hexdigest()[:16]]
    to_seconds = hashes(("at",), (column("at", "datetime"),))
    assert compare_file(to_seconds, file, said([*whole]).to_numpy()) is None
    to_micros = hashes(("at",), (column("at", "datetime", fraction=6),))
    rows = pa.table({"at": pa.array([at.replace(microsecond=7)], pa.timestamp("us"))})
    wanted = [hashlib.sha256(b"0001-01-01 00:00:00.000007").hexdigest()[:16]]
    file = FileRows(written(tmp_path, rows), 0, None, ("at",))
    found = compare_file(to_micros, file, said([*wanted]).to_numpy())
    assert found is not None
    assert found.equal


def test_what_is_left_to_others(tmp_path: Path) -> None:
    """A number with a point, an original, a name that DuckDB takes for a pattern, no file."""
    theirs = said([*SAID]).to_numpy()
    rows = with_originals(KEPT)
    path = written(tmp_path, rows)
    assert compare_file(of_originals(), FileRows(path, 0, None, ()), theirs) is None
    none = with_originals([None, [], None, None])
    file = FileRows(written(tmp_path, none), 0, None, ())
    assert compare_file(of_originals(), file, theirs) == Compared(4, KEYS, True)
    point = hashes(("x",), (column("x", "double"),))
    path = written(tmp_path, pa.table({"x": [0.5]}))
    assert compare_file(point, FileRows(path, 0, None, ()), theirs[:1]) is None
    # Read as a pattern, it would be both files.
    path = written(tmp_path, rows, name="f?.parquet")
    written(tmp_path, rows, name="fx.parquet")
    assert in_file(path) is None
    assert in_file(str(tmp_path / "nothing.parquet")) is None


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
