"""The canonical form of a cell and the digest of rows once more, as DuckDB's SQL over rows of the
lake that are at hand: a third writing, which shares nothing with MySQL's, Spark's or the loads'.

It may say less than the two others: no form where a value has more digits of a second than its
column declares. Originals are not read here. Extensions are never loaded or downloaded.

Source: DuckDB documentation, "Text Functions", "Blob Functions", "Date Format Functions".
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.destinations.base import LocalFiles
from mirrorlake.proof.forms.canonical import NULL, Form
from mirrorlake.proof.forms.hashing import numbers_of_digits
from mirrorlake.proof.ranges.ranges import NOTHING, Tally
from mirrorlake.runtime.cache import cache_folder
from mirrorlake.sources.mysql.tables import Column

pc: Any = _compute  # its functions are made at import: type checkers see none of them
_MOST_BYTES = 512 * 2**20
_SHARE = 8
"""DuckDB may use one part in so many of the machine's memory, and 512 MB at most: rows stream
through it. What is more goes to files in the cache folder."""
AT_ONCE = 130_000
"""Rows that are digested at once, where they are small."""
_BYTES_AT_ONCE = 64 * 2**20
"""Larger rows are digested in batches of about this many bytes, or one batch at a time."""
_POINT = ("float", "double")
_MOMENTS = ("datetime", "timestamp")
_PATTERNS = frozenset("*?[")
"""In a path they would stand for other files."""
_STREAMED = 32_768
"""Rows that DuckDB hands over at once."""
_DIGEST = "('0x' || left(sha256({}), 16))::UBIGINT::HUGEINT"


class NoForm(Exception):
    """What stands here has no form here."""


class FileRows(NamedTuple):
    """Rows of a Parquet file on a local disk.

    Attributes:
        first, until: which, by their place in it; None: to its end.
        filled: the columns in which no row of the file has NULL.
    """

    path: str
    first: int
    until: int | None
    filled: Collection[str]


def forms_of(cells: Sequence[tuple[Column, Form]], rows: Any) -> pa.Table:
    """The forms of some rows: a column of text for each cell, none of them NULL, then the row's.

    Raises:
        NoForm: a value has none here.
    """
    texts = [_sql_of(column, form, f"c{n}") for n, (column, form) in enumerate(cells)]
    asked = ", ".join(f"{text} AS f{n}" for n, text in enumerate(texts))
    sql = f"SELECT {asked}, {_joined(texts)} AS form FROM rows"  # noqa: S608
    return _ask(sql, _plain(cells, rows))


def tally_forms(forms: Any) -> Tally:
    """Number and digest of rows of which these are the forms."""
    return _tally("form", [pa.table({"form": forms})])


def tally_of(cells: Sequence[tuple[Column, Form]], batches: Iterable[Any]) -> Tally:
    """Number and digest of rows, as they come.

    Raises:
        NoForm: a value has none here.
    """
    texts = [_sql_of(column, form, f"c{n}") for n, (column, form) in enumerate(cells)]
    return _tally(_joined(texts), (_plain(cells, batch) for batch in batches))


def tally_files(
    cells: Sequence[tuple[Column, Form]],
    files: LocalFiles,
    never_null: Sequence[str],
    originals: str | None,
) -> Tally:
    """Number and digest of all rows of Parquet files on a local disk, which DuckDB reads by itself.

    Args:
        never_null: columns of the key.
        originals: the column of original texts, if there is one: it must hold none.

    Raises:
        NoForm: a value, or a type, has none here, a key is NULL, or DuckDB can't read a file.
    """
    texts = [
        _sql_of(*cell, f"c{n}", filled=cell[1].name in files.filled) for n, cell in enumerate(cells)
    ]
    refused = [f"{_quoted(name)} IS NULL" for name in never_null]
    refused += [f"len({_quoted(originals)}) > 0"] if originals is not None else []
    columns = _columns_of(cells, files.paths)
    asked = f"count(*), sum({_DIGEST.format(_joined(texts))})::VARCHAR"
    if refused:
        columns.append(f"{' OR '.join(refused)} AS refused")
        asked += ", count(CASE WHEN refused THEN error('no form') END)"
    if not files.paths:
        return NOTHING
    cursor = _database(os.getpid(), None).cursor()
    try:
        source = _rows_in(cursor, files.paths).project(", ".join(columns))
        [(rows, digest, *_)] = source.aggregate(asked).fetchall()
    except duckdb.Error as error:
        raise NoForm from error
    finally:
        cursor.close()
    return Tally(int(rows), int(digest or 0))


def hashes_of(
    cells: Sequence[tuple[Column, Form]], key: Sequence[int], rows: Any
) -> tuple[Any, list[bytes]]:
    """Each row's digest, and the form of its key, in the order of the rows.

    Args:
        key: which cells are the key's.

    Raises:
        NoForm: a value has none here.
    """
    plain = _plain(cells, rows)
    filled = {
        form.name for (_, form), c in zip(cells, plain.columns, strict=True) if not c.null_count
    }
    # One thread: two take longer over a row's answer than they save, and MySQL works beside them.
    found = _ask(f"SELECT {_hash_and_key(cells, key, filled)} FROM rows", plain, threads=1)  # noqa: S608
    return _hashes_and_keys(found)


def hashes_in_file(
    cells: Sequence[tuple[Column, Form]],
    key: Sequence[int],
    rows: FileRows,
    originals: str | None,
) -> Iterator[tuple[Any, list[bytes]]]:
    """`hashes_of` the rows of a Parquet file on a local disk, which DuckDB reads by itself: a tenth
    less work, and fewer of them are held in memory.

    Args:
        originals: the column of original texts, if there is one: it must hold none.

    Raises:
        NoForm: a value, or a type, has none here, or DuckDB can't read the file.
    """
    columns = _columns_of(cells, [rows.path])
    asked = _hash_and_key(cells, key, rows.filled)
    if originals is not None:
        columns.append(f"len({_quoted(originals)}) AS kept")
        asked += ", CASE WHEN kept > 0 THEN error('an original') END"
    within = f"file_row_number >= {rows.first:d}"
    if rows.until is not None:
        within += f" AND file_row_number < {rows.until:d}"
    cursor = _database(os.getpid(), 1).cursor()
    try:
        source = _rows_in(cursor, [rows.path]).filter(within).project(", ".join(columns))
        for found in source.project(asked).to_arrow_reader(_STREAMED):
            yield _hashes_and_keys(pa.Table.from_batches([found]))
    except (duckdb.Error, OSError, pa.ArrowException) as error:
        raise NoForm from error
    finally:
        cursor.close()


def _rows_in(cursor: Any, paths: Sequence[str]) -> Any:
    """The rows of Parquet files. Their paths are given as they are: for a value that is bound to a
    ``?`` DuckDB imports pandas, which takes a tenth of a short sync."""
    return cursor.read_parquet([*paths], hive_partitioning=False, file_row_number=True)


def _columns_of(cells: Sequence[tuple[Column, Form]], paths: Iterable[str]) -> list[str]:
    """SQL of the cells' columns in files, called c0, c1 … as `_plain` gives them.

    Raises:
        NoForm: a type has none there, or a path stands for several files.
    """
    points = any(form.iceberg in _POINT for _, form in cells)
    if points or any(set(path) & _PATTERNS for path in paths):
        raise NoForm
    return [f"{_in_file(*cell)} AS c{n}" for n, cell in enumerate(cells)]


def _hash_and_key(
    cells: Sequence[tuple[Column, Form]], key: Sequence[int], filled: Collection[str]
) -> str:
    """SQL of each row's hash ``h`` and its key's form ``k``, over columns c0, c1 …"""
    texts = [
        _sql_of(column, form, f"c{n}", filled=form.name in filled)
        for n, (column, form) in enumerate(cells)
    ]
    return f"sha256({_joined(texts)}) AS h, {_joined([texts[n] for n in key])} AS k"


def _hashes_and_keys(found: pa.Table) -> tuple[Any, list[bytes]]:
    """The first 16 digits of each hash of 64, as numbers without a sign, and the keys. In DuckDB's
    SQL it takes longer than the hash itself."""
    digits = b"".join(_digits(chunk) for chunk in found.column("h").chunks)
    return numbers_of_digits(digits), pc.cast(found.column("k"), pa.binary()).to_pylist()


def _digits(hashes: Any) -> bytes:
    shown = np.frombuffer(hashes.buffers()[2], dtype=np.uint8)[64 * hashes.offset :]
    return shown[: 64 * len(hashes)].reshape(-1, 64)[:, :16].tobytes()


def _sql_of(column: Column, form: Form, name: str, *, filled: bool = False) -> str:
    """DuckDB's SQL of a cell's form over a column as `_plain` gives it; never NULL.

    Args:
        filled: whether no row has NULL there. The form may then come in several parts, for
            `_joined`: that takes a quarter less time.
    """
    if form.iceberg in _POINT:
        text = f"format('{{:016X}}', {name})"
    elif column.data_type in _MOMENTS:
        digits = column.fraction or 0
        shown = 19 + (digits + 1 if digits else 0)
        text = f"left(strftime({name}, '%Y-%m-%d %H:%M:%S.%f'), {shown})"
    elif form.digested:
        text = f"CASE WHEN {name} IS NOT NULL THEN sha256({name}) END"
    elif form.iceberg == "binary":
        text = f"hex({name})"
    elif form.iceberg == "string":
        and_then = ", " if filled else " || "
        text = and_then.join((f"strlen({name})", "':'", name))
    else:
        text = f"CAST({name} AS VARCHAR)"
    return text if filled else f"coalesce({text}, '{NULL}')"


def _joined(texts: Sequence[str]) -> str:
    # One function, not an operator between each two, which makes a text each time: half the time.
    # It leaves NULL out; no form is NULL.
    separated = ", ',', ".join(texts)
    return f"concat({separated})"


# --- asking ---------------------------------------------------------------------------------------


@cache
def _database(_process: int, threads: int | None) -> Any:
    """One for all of a process: opening one takes longer than digesting a few rows, and a child
    can't use its parent's."""
    return duckdb.connect(config=_settings(threads))


def _settings(threads: int | None) -> dict[str, str | bool | int | float | list[str]]:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # A folder of this process's own, which DuckDB makes when it first needs it, and removes.
    spills = cache_folder("duckdb") / f"{os.getpid()}-{threads or 'all'}"
    return {
        "memory_limit": f"{min(_MOST_BYTES, machine // _SHARE) // 2**20}MiB",
        "threads": threads or len(os.sched_getaffinity(0)),
        "temp_directory": str(spills),
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }


def _ask(sql: str, rows: pa.Table, threads: int | None = None) -> Any:
    """The answer about rows, which are called ``rows`` there.

    Args:
        threads: None: as many as there are cores.

    Raises:
        NoForm: DuckDB has none for a value.
    """
    cursor = _database(os.getpid(), threads).cursor()
    try:
        cursor.register("rows", rows)
        return cursor.execute(sql).to_arrow_table()
    except duckdb.Error as error:
        raise NoForm from error
    finally:
        cursor.close()


def _tally(form: str, tables: Iterable[Any]) -> Tally:
    """One query per batch of tables: DuckDB keeps all that it takes from a stream in memory."""
    sql = f"SELECT count(*) AS n, sum({_DIGEST.format(form)})::VARCHAR AS s FROM rows"  # noqa: S608
    found = NOTHING
    for rows in gathered(tables):
        answer = _ask(sql, rows).to_pylist()[0]
        found += Tally(int(answer["n"]), int(answer["s"] or 0))
    return found


def gathered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Rows together, as many as are asked about at once."""
    waiting, count, size = list[pa.Table](), 0, 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        size += table.nbytes
        if count >= AT_ONCE or size >= _BYTES_AT_ONCE:
            yield pa.concat_tables(waiting)
            waiting, count, size = [], 0, 0
    if count:
        yield pa.concat_tables(waiting)


# --- columns --------------------------------------------------------------------------------------


def _plain(cells: Sequence[tuple[Column, Form]], rows: Any) -> pa.Table:
    """The cells' columns, called c0, c1 …, in types of which DuckDB's own text is exact: of numbers
    with a point their bits, of moments those without a zone."""
    found = [_as_plain(column, form, rows.column(form.name)) for column, form in cells]
    return pa.table(found, names=[f"c{n}" for n in range(len(found))])


def _as_plain(column: Column, form: Form, values: Any) -> Any:
    if form.iceberg in _POINT:
        return _bits(values)
    if column.data_type in _MOMENTS:
        _refuse_finer(values, column.fraction or 0)
        return values.cast(pa.timestamp("us"))
    return values


def _in_file(column: Column, form: Form) -> str:
    """SQL of a column of a file, as `_as_plain` gives it."""
    name = _quoted(form.name)
    if column.data_type not in _MOMENTS:
        return name
    micros, step = f"epoch_us({name})", 10 ** (6 - (column.fraction or 0))
    finer = f"WHEN {micros} % {step} <> 0 THEN error('finer than declared')" if step > 1 else ""
    return (
        f"CASE {finer} ELSE make_timestamp({micros}) END" if finer else f"make_timestamp({micros})"
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _bits(values: Any) -> Any:
    """A number's bits, as MySQL has them; NULL is NULL whatever lies below it."""
    wide = values.cast(pa.float64())
    numbers = pc.fill_null(wide, 0.0).to_numpy(zero_copy_only=False).view(np.uint64)
    return pa.array(numbers, pa.uint64(), mask=wide.is_null().to_numpy(zero_copy_only=False))


def _refuse_finer(values: Any, digits: int) -> None:
    """See that no moment has more digits of a second than are declared."""
    step = 10 ** (6 - digits)
    micros = pc.fill_null(values.cast(pa.int64()), 0)
    if (
        step > 1
        and pc.any(pc.not_equal(pc.multiply(pc.divide(micros, step), step), micros)).as_py()
    ):
        raise NoForm
