"""The texts of values that have no place in their column's type, gathered row by row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa


def gather_originals(texts: Mapping[str, Any], rows: int, kind: pa.LargeListType) -> pa.Array:
    """The originals of each row, sorted by column, NULL where there are none.

    Args:
        texts: by column: the text of each row's value that has no place, NULL for all others.
        kind: a list of pairs: the column's name, the text.
    """
    held = [(name, text) for name, text in sorted(texts.items()) if text.null_count < rows]
    if not held:
        return pa.nulls(rows, kind)
    # Column by column, then by row: the order of the columns stays within each row.
    places = [np.flatnonzero(text.is_valid().to_numpy(zero_copy_only=False)) for _, text in held]
    order = np.argsort(np.concatenate(places), kind="stable")
    counts = np.bincount(np.concatenate(places), minlength=rows)
    text_type = kind.value_type[0].type
    names = [
        pa.repeat(pa.scalar(name, text_type), len(rows_of_it))
        for (name, _), rows_of_it in zip(held, places, strict=True)
    ]
    words = [text.drop_null().cast(text_type) for _, text in held]
    entries = [pa.concat_arrays(parts).take(pa.array(order)) for parts in (names, words)]
    pairs = pa.StructArray.from_arrays(entries, fields=list(kind.value_type))
    ends = pa.array(np.concatenate([[0], np.cumsum(counts)]))
    return pa.LargeListArray.from_arrays(ends, pairs, kind, mask=pa.array(counts == 0))
