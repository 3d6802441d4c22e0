"""The digest of a lake table's rows, as BigQuery's SQL computes that of its own
(`mirrorlake.bigquery.api.statements.digest_sql`): no code is shared but its definition.

A row's text is each cell's length in bytes, ``:`` and its text, or ``-`` for NULL. The MD5 of that,
in hexadecimal, is cut into four numbers, and these are added over all rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

_PARTS = 4
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a DATETIME has no zone
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def digest_rows(batches: Iterable[pa.RecordBatch]) -> tuple[int, ...]:
    """How many rows there are, and the sums of the parts of their hashes."""
    count, sums = 0, [0] * _PARTS
    for batch in batches:
        columns = [[_cell(value) for value in column.to_pylist()] for column in batch.columns]
        for row in zip(*columns, strict=True):
            digest = hashlib.md5("".join(row).encode(), usedforsecurity=False).hexdigest()
            for part in range(_PARTS):
                sums[part] += int(digest[part * 8 : part * 8 + 8], 16)
        count += batch.num_rows
    return (count, *sums)


def _cell(value: Any) -> str:
    text = _text(value)
    return "-" if text is None else f"{len(text.encode())}:{text}"


def _text(value: Any) -> str | None:
    match value:
        case None:
            return None
        case list():
            entries = "".join(_cell(one["column"]) + _cell(one["text"]) for one in value)
            return entries or None  # BigQuery has no NULL where a column repeats
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case bytes():
            return value.hex()
        case float():
            return f"{value:.17g}"
        case Decimal():
            plain = f"{value:f}"
            return plain.rstrip("0").rstrip(".") if "." in plain else plain
        case datetime():
            since = value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)
            return str(since // _MICROSECOND)
        case date():
            return str((value - _EPOCH.date()).days)
        case _:
            return str(value)
