"""Every fault of a cell × every type × both modes of comparison: 100 % is caught.

All are planted at once, each in a row of its own, in a table with a key and in one without. A row is
looked at only if its digest differs from MySQL's, and named only if its values do: what is named was
caught by both, one after the other. No other row may be named.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from demo.faults import KEYED, LOOSE, ROW_FAULTS, ROWS, TYPES, Fault
from demo.sabotage import Victim
from mirrorlake.runtime.embedded.server import EmbeddedServer
from tests.integration.proof.test_sabotage import (
    assert_caught,
    assert_mended,
    plant_all,
    victim_of,  # noqa: F401 - a fixture
)

NUMBERS = {
    **dict.fromkeys(("c_tinyint", "c_smallint", "c_mediumint", "c_int", "c_year"), "INT"),
    **dict.fromkeys(("c_left", "c_right"), "INT"),
    **dict.fromkeys(("c_uint", "c_bigint", "c_bit"), "BIGINT"),
    **dict.fromkeys(("c_ubigint", "c_bit64"), "DECIMAL(20,0)"),
    "c_decimal": "DECIMAL(20,4)",
    "c_float": "FLOAT",
    "c_double": "DOUBLE",
}
TEXTS = (
    *("c_char", "c_varchar", "c_empty", "c_text", "c_enum", "c_set", "c_json"),
    *("c_long_decimal", "c_time"),
)
BYTES = ("c_binary", "c_varbinary", "c_blob", "c_point")
TIMES = ("c_date", "c_datetime", "c_timestamp")
KINDS: dict[str, tuple[tuple[str, ...], Callable[[str], str]]] = {
    "altered": (tuple(TYPES), lambda c: TYPES[c][2]),
    "NULL": (tuple(TYPES), lambda _: "NULL"),
    "a tenth": (
        tuple(c for c in NUMBERS if c != "c_double"),
        lambda c: f"CAST({c} / 10 AS {NUMBERS[c]})",
    ),
    "another sign": (
        tuple(c for c in NUMBERS if c not in ("c_ubigint", "c_bit64")),
        lambda c: f"CAST(-{c} AS {NUMBERS[c]})",
    ),
    "a trailing space": (TEXTS, lambda c: f"concat({c}, ' ')"),
    "a leading space": (TEXTS, lambda c: f"concat(' ', {c})"),
    "'' for a text": (tuple(c for c in TEXTS if c != "c_empty"), lambda _: "''"),
    "a trailing zero byte": (BYTES, lambda c: f"concat({c}, X'00')"),
    "no bytes": (BYTES, lambda _: "X''"),
    "an hour later": (
        ("c_datetime", "c_timestamp"),
        lambda c: f"{c} + INTERVAL 1 HOUR",
    ),
    "a year earlier": (TIMES, lambda c: f"{c} - INTERVAL 1 YEAR"),
}
MATRIX = {
    f"{kind}: {column}": (column, value(column))
    for kind, (columns, value) in KINDS.items()
    for column in columns
}


def fault_of(name: str) -> Fault:
    column, value = MATRIX[name]
    return Fault(
        name,
        lambda t, row, _: (f"UPDATE {t} SET {column} = {value} WHERE id = {row}",),
        f"`{column}` does not match",
    )


def test_the_matrix_is_whole() -> None:
    """A type that nobody gave its faults to fails here."""
    classes = (*NUMBERS, *TEXTS, *BYTES, *TIMES)
    assert sorted(classes) == sorted(TYPES)
    assert len(MATRIX) == sum(len(columns) for columns, _ in KINDS.values())
    for kind, column in product(("altered", "NULL"), TYPES):
        assert f"{kind}: {column}" in MATRIX
    # Rows from 20 on, one for each.
    assert len(MATRIX) + len(ROW_FAULTS) < ROWS - 20


@pytest.mark.full
@pytest.mark.parametrize("table", [KEYED, LOOSE])
def test_every_fault_of_every_type_in_both_modes(
    table: str,
    victim_of: Callable[[str], Victim],  # noqa: F811
    server: EmbeddedServer,
    database: str,
) -> None:
    victim = victim_of(table)
    cases = [fault_of(name) for name in MATRIX]
    # Row 100's c_tinyint is 0, whose tenth is 0.
    planted = plant_all(victim, (*ROW_FAULTS, *cases))
    assert 100 in planted
    assert planted[100].name != "a tenth: c_tinyint"
    assert {fault.name for fault in planted.values()} == {*MATRIX, *(f.name for f in ROW_FAULTS)}
    assert_caught(victim, planted)
    assert_mended(victim, server, database)
