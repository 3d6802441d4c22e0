"""Records of one landed file, as typed batches: newline-delimited JSON and CSV.

A record that is malformed is named by file, line and reason, and never shown. It ends the reading,
unless the contract lets that many be left out.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, BinaryIO, Final, cast

import pyarrow as pa

from mirrorlake.errors import LandingError
from mirrorlake.landing.files.cells import Number, arrow_type, convert
from mirrorlake.landing.files.columns import LandedSchema
from mirrorlake.landing.files.csv_records import CsvRow, Fatal, read_csv
from mirrorlake.landing.files.limits import Expanding, Limits, size_words
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.sources.files.store import Store

_BATCH_LINES: Final = 8192
_ORIGINALS_ARROW: Final = pa.list_(pa.struct([("column", pa.string()), ("text", pa.string())]))


@dataclass(frozen=True)
class Reading:
    """How the files of one table are read; it travels to the workers.

    Attributes:
        max_bad: how many malformed records of one file are left out before it is refused.
        limits: how much of a file is read into memory.
    """

    store: Store
    table: str
    format: str
    schema: LandedSchema
    extra_columns: str = "refuse"
    missing_columns: str = "refuse"
    csv_null: str = "\\N"
    max_bad: int = 0
    limits: Limits = field(default_factory=Limits)

    def arrow_schema(self) -> pa.Schema:
        fields = [pa.field(c.name, arrow_type(c)) for c in self.schema.columns]
        if self.schema.has_original:
            fields.append(pa.field(ORIGINAL, _ORIGINALS_ARROW))
        return pa.schema(fields)


@dataclass(frozen=True)
class LandedFile:
    """One file to read: the store's version of it is the one that was taken."""

    path: str
    bytes: int
    version: str


@dataclass(frozen=True)
class Bad:
    """A malformed record: its place and why; its values stay where they are. Line 0 is the whole
    file."""

    path: str
    line: int
    reason: str

    def __str__(self) -> str:
        line = f", line {self.line}" if self.line else ""
        return f"{self.path}{line}: {self.reason}"


OnBad = Callable[[Bad], None]


def refusal_of(reading: Reading, bad: Bad) -> LandingError:
    """The error that a malformed record is, where it may not be left out."""
    return LandingError(
        f"table {reading.table}: a malformed record in {bad}",
        table=reading.table,
        next_step="Nothing of its snapshot was taken. Correct it and land it again, or let "
        "max_bad_records leave it out",
    )


def read_records(
    reading: Reading, file: LandedFile, on_bad: OnBad | None = None
) -> Iterator[pa.RecordBatch]:
    """The records of a file of JSON or CSV, in its order, in batches of the schema's types.

    Args:
        on_bad: called with every record that is left out.

    Raises:
        LandingError: the file is gone, was changed, is cut short or damaged, lacks a column, or has
            more malformed records than may be left out.
    """
    bad = _BadRecords(reading, reading.store.describe(file.path), on_bad)
    rows = read_written(reading, file)
    shape = _Shape(reading, bad)
    while some := list(islice(rows, _BATCH_LINES)):
        batch = shape.batch(some)
        if batch.num_rows:
            yield batch


def read_written(reading: Reading, file: LandedFile) -> Iterator[CsvRow]:
    """The records of a file of JSON or CSV as they are written, before any schema.

    Raises:
        LandingError: the file is gone, was changed, is cut short or damaged.
    """
    place = reading.store.describe(file.path)
    bad = _BadRecords(reading, place, None)
    stream = reading.store.open(file.path, file.version)
    with stream, _damage_named(place):
        longest = reading.limits.record
        lines = _lines(_decompressed(stream, file, place, reading.limits), bad.fatal, longest)
        if reading.format == "csv":
            yield from read_csv(lines, reading.csv_null, bad.fatal, longest)
        else:
            yield from _json_rows(lines)
    # What was read is what was taken, unless somebody wrote while we read.
    now = reading.store.entry(file.path)
    if now is None or now.version != file.version:
        reading.store.open(file.path, file.version).close()


class _BadRecords:
    """Counts malformed records, and ends the reading with the one that is too many."""

    def __init__(self, reading: Reading, place: str, on_bad: OnBad | None) -> None:
        self._left, self._place, self._on_bad = reading.max_bad, place, on_bad
        self._reading = reading

    def add(self, line: int, reason: str) -> None:
        bad = Bad(self._place, line, reason)
        if self._left <= 0:
            raise refusal_of(self._reading, bad)
        self._left -= 1
        if self._on_bad is not None:
            self._on_bad(bad)

    def fatal(self, line: int, reason: str) -> LandingError:
        """What makes the rest of the file unreadable, however many records may be left out."""
        return refusal_of(self._reading, Bad(self._place, line, reason))


# --- lines ----------------------------------------------------------------------------------------


def _decompressed(stream: BinaryIO, file: LandedFile, place: str, limits: Limits) -> BinaryIO:
    if file.path.endswith(".gz"):
        found = cast(BinaryIO, gzip.GzipFile(fileobj=stream, mode="rb"))
    elif file.path.endswith(".zst"):
        found = cast(BinaryIO, _Zstd(stream))
    else:
        return stream
    return cast(BinaryIO, Expanding(found, place, file.bytes, limits))


class _Zstd:
    """A zstd stream as a file; one that is cut short is an error, as gzip's is."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream: Any = pa.CompressedInputStream(pa.PythonFile(stream, "r"), "zstd")

    def read(self, size: int) -> bytes:
        return self._stream.read(size)


def _lines(stream: BinaryIO, fatal: Fatal, longest: int) -> Iterator[tuple[int, bytes]]:
    """(number, line without its end) of every line, counted from 1."""
    rest, number = b"", 0
    first = True
    while block := stream.read(1 << 20):
        if first:
            block, first = block.removeprefix(b"\xef\xbb\xbf"), False
        parts = (rest + block).split(b"\n") if rest else block.split(b"\n")
        rest = parts.pop()
        if len(rest) > longest:
            raise fatal(number + len(parts) + 1, f"is longer than {size_words(longest)}")
        for part in parts:
            number += 1
            if len(part) > longest:
                raise fatal(number, f"is longer than {size_words(longest)}")
            yield number, part
    if rest:
        yield number + 1, rest


class _damage_named:
    """What a damaged stream raises, with the file's name."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, LandingError) or error is None:
            return
        if isinstance(error, EOFError | zlib.error | OSError):
            words = "is cut short" if isinstance(error, EOFError) else "is damaged"
            raise LandingError(
                f"{self._place} {words}: {str(error).splitlines()[0] if str(error) else ''}",
                next_step="Nothing of its snapshot was taken. Land the snapshot again, whole",
            ) from error


# --- JSON -----------------------------------------------------------------------------------------


def _no_constant(_: str) -> Any:
    raise ValueError("NaN and Infinity are no numbers of JSON")


_DECODE = json.JSONDecoder(
    object_pairs_hook=list, parse_int=Number, parse_float=Number, parse_constant=_no_constant
).decode


def _json_rows(lines: Iterable[tuple[int, bytes]]) -> Iterator[CsvRow]:
    for number, line in lines:
        if not line.strip(b" \t\r"):
            continue  # no record, and nothing in it
        try:
            pairs = _DECODE(line.decode())
        except UnicodeDecodeError as error:
            yield number, (), (), f"byte {error.start + 1} is no UTF-8"
        except json.JSONDecodeError as error:
            # Some of its words end so: "Unterminated string starting at".
            words = error.msg.removesuffix(" at")
            yield number, (), (), f"no JSON: {words} at character {error.pos + 1}"
        except (ValueError, RecursionError) as error:
            yield number, (), (), f"no JSON: {error}"
        else:
            if line.lstrip()[:1] != b"{":
                yield number, (), (), "is JSON, but no object"
            elif pairs:
                names, values = zip(*pairs, strict=True)
                yield number, names, values, ""
            else:
                yield number, (), (), "is an object without a column"


# --- rows into batches ----------------------------------------------------------------------------


class _Shape:
    """Rows of names and values, brought into the schema's order and types."""

    def __init__(self, reading: Reading, bad: _BadRecords) -> None:
        self._reading, self._bad = reading, bad
        self._schema = reading.arrow_schema()
        self._names = [column.name for column in reading.schema.columns]
        self._original_names = frozenset(c.name for c in reading.schema.columns if c.original)
        self._places: dict[tuple[str, ...], tuple[list[int], str]] = {}

    def batch(self, rows: Sequence[CsvRow]) -> pa.RecordBatch:
        lines: list[int] = []
        picked: list[list[Any]] = []
        for line, names, values, reason in rows:
            places, wrong = self._order(tuple(names)) if not reason else ([], reason)
            if wrong:
                self._bad.add(line, wrong)
                continue
            lines.append(line)
            picked.append([values[at] if at >= 0 else None for at in places])
        stated = [row.pop() for row in picked] if self._original_names else []
        return self._convert(lines, picked, stated)

    def _order(self, names: tuple[str, ...]) -> tuple[list[int], str]:
        """Where each column stands among a record's names (-1: nowhere), or what is wrong."""
        known = self._places.get(names)
        if known is None:
            known = self._new_order(names)
            if len(self._places) < 10_000:
                self._places[names] = known
        return known

    def _new_order(self, names: tuple[str, ...]) -> tuple[list[int], str]:
        at: dict[str, int] = {}
        for place, name in enumerate(names):
            if name in at:
                return [], f"has the column {_shown(name)} twice"
            at[name] = place
        allowed = {*self._names, *self._reading.schema.left_out}
        if self._original_names:
            allowed.add(ORIGINAL)
        extra = [name for name in names if name not in allowed]
        if extra and self._reading.extra_columns == "refuse":
            return [], f"has the column {_shown(extra[0])}, which its schema has not"
        missing = [name for name in self._names if name not in at]
        if missing and self._reading.missing_columns == "refuse":
            return [], f"lacks the column {missing[0]!r}"
        last = [ORIGINAL] if self._original_names else []
        return [at.get(name, -1) for name in (*self._names, *last)], ""

    def _convert(
        self, lines: Sequence[int], rows: Sequence[Sequence[Any]], stated: Sequence[Any]
    ) -> pa.RecordBatch:
        columns = list(zip(*rows, strict=True)) or [()] * len(self._names)
        done = [
            convert(column, values)
            for column, values in zip(self._reading.schema.columns, columns, strict=True)
        ]
        refused: dict[int, str] = {}
        for one in done:
            for row, reason in one.refused.items():
                refused.setdefault(row, reason)
        originals = {n: one.originals for n, one in zip(self._names, done, strict=True)}
        for row, entries in enumerate(stated):
            if entries is None:
                continue
            why = self._add_originals(originals, row, entries)
            if why:
                refused.setdefault(row, why)
        for row in sorted(refused):
            self._bad.add(lines[row], refused[row])
        arrays: list[Any] = [one.values for one in done]
        if self._reading.schema.has_original:
            arrays.append(originals_of(originals, len(rows)))
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        if not refused:
            return batch
        return batch.filter(pa.array([row not in refused for row in range(len(rows))]))

    def _add_originals(self, found: dict[str, dict[int, str]], row: int, entries: Any) -> str:
        """Take up the originals that a record gives; what is wrong with them, or ''."""
        listed = cast("list[Any]", entries) if isinstance(entries, list) else [None]
        for entry in listed:
            pair = cast("tuple[Any, Any]", entry) if isinstance(entry, tuple) else ("", None)
            name, text = pair
            if name in self._reading.schema.left_out:
                continue
            if name not in self._original_names or type(text) is not str or row in found[name]:
                return f"its {ORIGINAL} is no object of columns that may have originals, and texts"
            found[name][row] = text
        return ""


def originals_of(texts: dict[str, dict[int, str]], rows: int) -> Any:
    """The column of originals: NULL where a row has none, else its entries sorted by column."""
    entries: dict[int, list[dict[str, str]]] = {}
    for name in sorted(texts):
        for row, text in texts[name].items():
            entries.setdefault(row, []).append({"column": name, "text": text})
    if not entries:
        return pa.nulls(rows, _ORIGINALS_ARROW)
    return pa.array([entries.get(row) for row in range(rows)], _ORIGINALS_ARROW)


def _shown(name: str) -> str:
    """A name from a record, which may be anything."""
    return repr(name if len(name) <= 64 else name[:64] + "…")
