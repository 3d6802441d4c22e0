"""What MySQL's declaration of a column promises of each value: its range, its length.

Compared in Arrow, with bounds of the column's own Arrow type: pandas would turn 2⁶⁴−1 into a number
that no decimal can be compared with.

Source: MySQL 8.0 manual, 11.1 "Numeric Data Types", 11.2.4 "The YEAR Type".
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.sources.mysql.tables import Column
from mirrorlake.sources.mysql.types.registry import TYPES

pc: Any = _compute  # its functions are made at import: type checkers see none of them
_FIRST_YEAR, _LAST_YEAR = 1901, 2155


@dataclass(frozen=True)
class Promise:
    """One thing that a declaration promises.

    Attributes:
        broken: the words for a value that breaks it.
        holds: which values of an Arrow array keep it.
    """

    broken: str
    holds: Callable[[Any], Any]


def promises(column: Column) -> Iterator[Promise]:
    """What each value of a column keeps, NULL aside."""
    kind, outside = column.data_type, f"is not in {column.column_type}"
    bounds = _bounds(column)
    if bounds is not None:
        low, high = bounds
        yield Promise(outside, lambda cells: _between(cells, low, high))
    elif kind in ("decimal", "float", "double") and column.unsigned:
        yield Promise(outside, _not_negative)
    elif kind == "year":
        yield Promise(outside, _is_year)
    length = column.length
    if length is None:
        return
    if kind in ("char", "varchar") and column.charset is not None:
        yield Promise(
            f"is longer than {column.column_type}",
            lambda cells: pc.less_equal(pc.utf8_length(cells), length),
        )
    if kind in ("binary", "varbinary"):
        yield Promise(
            f"is longer than {column.column_type}",
            lambda cells: pc.less_equal(pc.binary_length(cells), length),
        )


def by_arrow(holds: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of Arrow arrays as one of pandas' columns over Arrow."""

    def held(cells: Any) -> Any:
        kept = holds(pa.array(cells.array))
        return pd.Series(kept.to_pandas().to_numpy(), index=cells.index, dtype=bool)

    return held


def _bounds(column: Column) -> tuple[int, int] | None:
    """The least and the greatest whole number of a column, both included."""
    if column.data_type == "bit":
        return 0, 2 ** (column.precision or 1) - 1
    kind = TYPES.get(column.data_type)
    if kind is None or not kind.bits:
        return None
    bits = kind.bits
    if column.unsigned:
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _between(cells: Any, low: int, high: int) -> Any:
    return pc.and_(
        pc.greater_equal(cells, _bound(low, cells.type)),
        pc.less_equal(cells, _bound(high, cells.type)),
    )


def _bound(number: int, kind: pa.DataType) -> Any:
    """A bound in the type of the cells; every bound fits the type that its column is kept in."""
    return pa.scalar(Decimal(number) if pa.types.is_decimal(kind) else number, kind)


def _not_negative(cells: Any) -> Any:
    if pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type):
        # A decimal of more than 38 digits is kept as its text.
        return pc.invert(pc.starts_with(cells, "-"))
    return pc.greater_equal(cells, _bound(0, cells.type))


def _is_year(cells: Any) -> Any:
    zero = pc.equal(cells, _bound(0, cells.type))
    return pc.or_(zero, _between(cells, _FIRST_YEAR, _LAST_YEAR))
