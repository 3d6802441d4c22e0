"""Rows that come with the server's hash of each: what MySQL is asked for, and what the files say.

The statement that reads a row also hashes it, over the same form as every digest. That a hash
travels beside its row says nothing of a row that never came, nor of one that came twice, with its
hash. So the server counts the rows by itself, and digests their keys alone, in the state that is
then read. A file that was written is read again: each row's hash is compared with the server's,
and the rows and keys of all files with what it counted.

Source: MySQL 8.0 manual, 12.6.2 "Mathematical Functions", ``CRC32``; ISO 3309, the same sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.proof.forms.canonical import ORIGINALS, Form
from mirrorlake.proof.forms.hashing import numbers_of_digits, source_hash
from mirrorlake.proof.forms.rows import RowForm
from mirrorlake.proof.sides.duckdb_forms import FileRows, NoForm, hashes_in_file, hashes_of
from mirrorlake.proof.sides.local_side import refuse_originals
from mirrorlake.sources.mysql.tables import Column, SourceTable

pc: Any = _compute  # its functions are made at import: type checkers see none of them
HASH = "_mirror_hash"
"""The column in which a row comes with the server's hash of it; no file has it."""
_COMMA = ",',',"
_DIGITS = 16


@dataclass(frozen=True)
class ServerHashes:
    """How a table's rows are hashed, and its keys digested.

    Attributes:
        columns: of MySQL, in the order of the form's cells.
        key: the key's columns, in its order.
    """

    rows: RowForm
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    @property
    def of_row(self) -> str:
        """MySQL's SQL of a row's hash, as text: to make a number of each costs the server more
        than to send it (0.5 s of 4.5 for 1.5 million rows of lineitem)."""
        return f"LEFT({source_hash(self.rows.source)},{_DIGITS})"

    @property
    def of_key(self) -> str:
        """MySQL's SQL of a number of a row's key: cheap, as it only has to tell rows apart that
        were lost from rows that came twice."""
        forms = [self.rows.cells[place].source for place in self.key_places]
        return f"CRC32(CONCAT({_COMMA.join(forms)}))"

    @property
    def key_places(self) -> tuple[int, ...]:
        """Where the key's cells stand in the row's form."""
        at = {cell.name: number for number, cell in enumerate(self.rows.cells)}
        return tuple(at[name] for name in self.key)

    @property
    def cells(self) -> list[tuple[Column, Form]]:
        """The columns, each with its form."""
        return list(zip(self.columns, self.rows.cells, strict=True))

    @property
    def names(self) -> list[str]:
        """The columns of a file that are read."""
        names = [cell.name for cell in self.rows.cells]
        return [*names, ORIGINALS] if self.rows.originals else names


@dataclass(frozen=True)
class Compared:
    """What files say of their rows.

    Attributes:
        rows: how many there are.
        keys: the sum of their keys' numbers.
        equal: whether every row is, in its place, the one that the server hashed. False says no
            more than that this is not known.
    """

    rows: int = 0
    keys: int = 0
    equal: bool = True

    def __add__(self, other: Compared) -> Compared:
        return Compared(self.rows + other.rows, self.keys + other.keys, self.equal and other.equal)


UNKNOWN = Compared(equal=False)


def server_hashes(table: SourceTable, rows: RowForm, key: Iterable[str]) -> ServerHashes:
    """How the rows of a table with a key are hashed."""
    columns = {column.name: column for column in table.columns}
    names = tuple(table.column(name).name for name in key)
    return ServerHashes(rows, tuple(columns[cell.name] for cell in rows.cells), names)


def compare_rows(hashes: ServerHashes, batches: Iterable[pa.RecordBatch], said: Any) -> Compared:
    """Hash rows of a file, and compare each with what the server said of it.

    Args:
        said: the server's hashes, in the order of the rows, as 64 bits without a sign.
    """
    try:
        return _compare(_hashed(hashes, batches), said)
    except NoForm:
        return UNKNOWN


def compare_file(hashes: ServerHashes, rows: FileRows, said: Any) -> Compared | None:
    """`compare_rows` of a Parquet file on a local disk, read by DuckDB; None where its rows are to
    be given to it instead."""
    kept = ORIGINALS if hashes.rows.originals else None
    try:
        return _compare(hashes_in_file(hashes.cells, hashes.key_places, rows, kept), said)
    except NoForm:
        return None


def _hashed(
    hashes: ServerHashes, batches: Iterable[pa.RecordBatch]
) -> Iterator[tuple[Any, list[bytes]]]:
    """Each batch's hashes, and forms of keys."""
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        if hashes.rows.originals:
            refuse_originals(rows)
        yield hashes_of(hashes.cells, hashes.key_places, rows)


def _compare(hashed: Iterable[tuple[Any, list[bytes]]], said: Any) -> Compared:
    found, place = Compared(), 0
    for own, keys in hashed:
        theirs = said[place : place + len(own)]
        place += len(own)
        equal = len(theirs) == len(own) and bool((own == theirs).all())
        found += Compared(len(own), sum(map(crc32, keys)), equal)
    return found + Compared(equal=place == len(said))


def numbers_of(texts: Any) -> pa.Array[Any]:
    """The hashes of rows, as the server sent them, as numbers of 64 bits without a sign; NULL for
    one that it could not make, and for all of them if one is no hash."""
    found = texts.combine_chunks().cast(pa.large_binary())
    there = pc.equal(pc.binary_length(found), _DIGITS).fill_null(False)
    if not pc.all(there).as_py():
        found = pc.if_else(there, found, pa.scalar(b"0" * _DIGITS, pa.large_binary()))
    found = pa.concat_arrays([found])
    data = found.buffers()[2]
    digits = data.to_pybytes() if data is not None else b""
    try:
        numbers = numbers_of_digits(digits)
    except ValueError:
        return pa.nulls(len(found), pa.uint64())
    mask = pc.invert(there).to_numpy(zero_copy_only=False)
    return pa.array(numbers, pa.uint64(), mask=mask)


def sum_of(hashes: Any) -> int:
    """The sum of hashes of 64 bits, as the server would add them up; a NULL is none."""
    values = hashes.drop_null().to_numpy()
    high, low = values >> np.uint64(32), values & np.uint64(0xFFFFFFFF)
    return (int(high.sum()) << 32) + int(low.sum())
