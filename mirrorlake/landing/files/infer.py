"""Which columns landed files have, and of which types: what the files show, or a question.

Careful: a type is chosen only where it holds every value that was seen exactly and nothing else
could have been meant that reads them in another way. Where that is not so there is a `Question`,
and somebody answers it. Texts of CSV stay texts: ``007`` as a number would lose its zeros.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mirrorlake.landing.files.cells import Number
from mirrorlake.landing.files.columns import LandedColumn, LandedSchema, bounds_of
from mirrorlake.landing.files.parquet import open_parquet, plain_type
from mirrorlake.landing.files.records import Bad, LandedFile, Reading, read_written, refusal_of

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_CLOCK = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?"
_MOMENT = re.compile(rf"\d{{4}}-\d{{2}}-\d{{2}}[ T]{_CLOCK}", re.ASCII)
_ZONED = re.compile(
    rf"\d{{4}}-\d{{2}}-\d{{2}}[ T]{_CLOCK}(?:Z| UTC|[+-]\d{{2}}:?\d{{2}})", re.ASCII
)
# A sign of zero has no place in a whole number or a decimal.
_WHOLE = re.compile(r"0|-?[1-9]\d*", re.ASCII)
_FRACTION = re.compile(r"(?!-[0.]+$)-?(?:0|[1-9]\d*)\.\d+", re.ASCII)


@dataclass(frozen=True)
class InferredColumn:
    """What the files show of one column.

    Attributes:
        iceberg: its type; "" where that can't be decided.
        question: why not, and what it could be; "" where nothing is open.
        note: what else somebody may want to know.
    """

    name: str
    iceberg: str
    question: str = ""
    note: str = ""


@dataclass
class Inferred:
    """The columns of a table's files, in the order of their first appearance.

    ``absent``: columns that some records lack; ``rows``: how many records were looked at.
    """

    columns: tuple[InferredColumn, ...] = ()
    absent: tuple[str, ...] = ()
    rows: int = 0


@dataclass
class _Seen:
    """The forms of one column's values."""

    count: int = 0
    forms: dict[str, int] = field(default_factory=dict[str, int])
    scales: set[int] = field(default_factory=set[int])
    padded: bool = False
    whole: int = 0
    most: int = 0
    least: int = 0

    def add(self, value: Any, form: str) -> None:
        self.count += 1
        self.forms[form] = self.forms.get(form, 0) + 1
        if form == "whole":
            number = int(value)
            self.most, self.least = max(self.most, number), min(self.least, number)
        elif form == "fraction":
            whole, _, places = value.lstrip("-").partition(".")
            self.scales.add(len(places))
            self.padded |= places.endswith("0")
            self.whole = max(self.whole, len(whole.lstrip("0")))


def infer_columns(reading: Reading, files: Sequence[LandedFile], most: int) -> Inferred:
    """The columns of files, and the questions about them, from a limited number of records.

    Args:
        reading: how they are read; its schema is not looked at.

    Raises:
        LandingError: a file can't be read, holds a malformed record, or has other columns than the
            file before (Parquet: or another type of one).
    """
    if reading.format == "parquet":
        return _of_parquet(reading, files)
    return _of_records(reading, files, most)


# --- JSON and CSV ---------------------------------------------------------------------------------


def _of_records(reading: Reading, files: Sequence[LandedFile], most: int) -> Inferred:
    seen: dict[str, _Seen] = {}
    there: dict[str, int] = {}
    rows = 0
    form_of = _form_of_csv if reading.format == "csv" else _form_of_json
    for names, values in _records(reading, files):
        rows += 1
        for name, value in zip(names, values, strict=True):
            there[name] = there.get(name, 0) + 1
            mine = seen.setdefault(name, _Seen())
            if value is not None:
                mine.add(value, form_of(value))
        if rows >= most:
            break
    decide = _decide_csv if reading.format == "csv" else _decide_json
    return Inferred(
        tuple(decide(name, mine) for name, mine in seen.items()),
        tuple(name for name, count in there.items() if count < rows),
        rows,
    )


def _records(
    reading: Reading, files: Iterable[LandedFile]
) -> Iterator[tuple[Sequence[str], Sequence[Any]]]:
    for file in files:
        place = reading.store.describe(file.path)
        for line, names, values, reason in read_written(reading, file):
            wrong = reason
            if not wrong and len(set(names)) < len(names):
                wrong = "has one column twice"
            if wrong:
                raise refusal_of(reading, Bad(place, line, wrong))
            yield names, values


def _form_of_json(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, Number):
        if _WHOLE.fullmatch(value):
            return "whole"
        return "fraction" if _FRACTION.fullmatch(value) else "exponent"
    return _form_of_text(value) if isinstance(value, str) else "nested"


def _form_of_csv(value: str) -> str:
    form = _form_of_text(value)
    if form == "text" and _WHOLE.fullmatch(value):
        return "number"
    return "number" if form == "text" and _FRACTION.fullmatch(value) else form


def _form_of_text(value: str) -> str:
    if len(value) > 40 or not value[:4].isdigit():
        return "text"
    for form, pattern in (("date", _DATE), ("moment", _MOMENT), ("zoned", _ZONED)):
        if pattern.fullmatch(value):
            return form if _is_day(value[:10]) else "text"
    return "text"


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return text == "0000-00-00"  # MySQL's zero date: NULL, with its text kept beside it
    return True


_TIMES = {"date": "date", "moment": "timestamp", "zoned": "timestamptz"}


def _decide_json(name: str, seen: _Seen) -> InferredColumn:
    forms = set(seen.forms)
    if not forms:
        return InferredColumn(name, "", "it is NULL in every record: nothing shows its type")
    if forms <= {"text", *_TIMES}:
        return _decide_text(name, seen)
    if forms == {"boolean"}:
        return InferredColumn(name, "boolean")
    if forms == {"whole"}:
        return _decide_whole(name, seen)
    if forms <= {"whole", "fraction", "exponent"}:
        return _decide_fraction(name, seen)
    if "nested" in forms:
        words = "it holds objects or lists, which no column can be"
        return InferredColumn(name, "", f"{words}: let the exporter write them as text")
    kinds = {"boolean": "true and false", "text": "texts"}
    mixed = sorted({kinds.get(f, "texts" if f in _TIMES else "numbers") for f in forms})
    counts = " and ".join(mixed)
    return InferredColumn(
        name, "", f"it mixes {counts}: a column has one type. Let the exporter write one"
    )


def _decide_text(name: str, seen: _Seen) -> InferredColumn:
    (form, *more) = seen.forms
    if not more and form in _TIMES:
        kind = _TIMES[form]
        return InferredColumn(
            name, kind, note=f"{kind}: every one of its {seen.count:,} texts is one"
        )
    return InferredColumn(name, "string")


def _decide_whole(name: str, seen: _Seen) -> InferredColumn:
    if seen.least >= -(2**63) and seen.most < 2**63:
        return InferredColumn(name, "long")
    digits = max(len(str(abs(seen.most))), len(str(abs(seen.least))))
    if digits > 38:
        words = f"whole numbers of {digits} digits, and a decimal has up to 38: let them be texts"
        return InferredColumn(name, "", f"it holds {words}")
    could = f"decimal({max(digits, 20)},0)"
    if seen.least >= 0 and seen.most < 2**64:
        could += " (MySQL's bigint unsigned), or decimal(38,0)"
    return InferredColumn(name, "", f"it holds whole numbers beyond 64 bits. It could be {could}")


def _decide_fraction(name: str, seen: _Seen) -> InferredColumn:
    forms = set(seen.forms)
    places = max(seen.scales, default=0)
    kind = f"decimal(38,{places})"
    fits = forms == {"fraction"} and len(seen.scales) == 1 and places + seen.whole <= 38
    # No double is printed with a zero at its end, but for one place: 12.50 is a decimal's.
    if fits and places > 1 and seen.padded:
        note = f"{kind}: each of its {seen.count:,} numbers is written with {places} places"
        return InferredColumn(name, kind, note=note)
    words = "it holds numbers with decimal places, and does not show whether they are exact"
    could = f"decimal(38,{min(places, 38)}) if they are, double if they are measured"
    return InferredColumn(name, "", f"{words}: {could}")


def _decide_csv(name: str, seen: _Seen) -> InferredColumn:
    forms = set(seen.forms)
    if not forms:
        return InferredColumn(name, "string", note="string: it is NULL in every record")
    if forms == {"number"}:
        words = f"string: every one of its {seen.count:,} texts is a number. If none ever begins"
        return InferredColumn(
            name, "string", note=f"{words} with a zero that counts, name its type"
        )
    return _decide_text(name, seen)


# --- Parquet --------------------------------------------------------------------------------------

_ARROW: Mapping[str, tuple[Any, ...]] = {
    "int": (pa.int32(), pa.int16(), pa.int8(), pa.uint16(), pa.uint8()),
    "long": (pa.int64(), pa.uint32()),
    "decimal(20,0)": (pa.uint64(),),
    "float": (pa.float32(),),
    "double": (pa.float64(),),
    "string": (pa.string(), pa.large_string()),
    "binary": (pa.binary(), pa.large_binary()),
    "boolean": (pa.bool_(),),
    "date": (pa.date32(),),
    "timestamp": (pa.timestamp("us"), pa.timestamp("ms"), pa.timestamp("s")),
    "timestamptz": (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")),
}
_WIDER = (("int", "long"), ("float", "double"))


def _of_parquet(reading: Reading, files: Sequence[LandedFile]) -> Inferred:
    kinds: dict[str, set[Any]] = {}
    there: dict[str, int] = {}
    rows = 0
    for file in files:
        found: pq.ParquetFile = open_parquet(reading, file)
        with found:
            footer: Any = found.metadata
            rows += footer.num_rows
            for one in found.schema_arrow:
                kinds.setdefault(one.name, set()).add(plain_type(one.type))
                there[one.name] = there.get(one.name, 0) + 1
    columns = tuple(_decide_arrow(name, found) for name, found in kinds.items())
    absent = tuple(name for name, count in there.items() if count < len(files))
    return Inferred(columns, absent, rows)


def _decide_arrow(name: str, kinds: set[Any]) -> InferredColumn:
    found = {_iceberg_of(kind) for kind in kinds}
    for narrow, wide in _WIDER:
        if found == {narrow, wide}:
            return InferredColumn(name, wide)
    shown = " and ".join(sorted(map(str, kinds)))
    if len(found) > 1:
        return InferredColumn(
            name, "", f"it is {shown} in different files: let the exporter write one"
        )
    (kind,) = found
    if kind is None:
        return InferredColumn(name, "", f"it is {shown} in the files, which no column can be")
    return InferredColumn(name, kind)


def _iceberg_of(kind: Any) -> str | None:
    if pa.types.is_decimal(kind):
        fits = 0 <= kind.scale <= kind.precision <= 38
        return f"decimal({kind.precision},{kind.scale})" if fits else None
    return next((name for name, same in _ARROW.items() if kind in same), None)


def schema_of(text_types: Iterable[tuple[str, str]]) -> LandedSchema:
    """Columns as a reader takes them, each nullable."""
    return LandedSchema(tuple(LandedColumn(n, t, True, *bounds_of(t)) for n, t in text_types))
