"""The contract check over every type: a boundary value passes, the first value beyond it does not,
and an exception inside a check is an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pandera.pandas as pa_checks
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow

from dagster_mirrorlake.checks import contract as checked
from dagster_mirrorlake.checks.contract import build_schema, find_broken, layer_of
from mirrorlake.config import Namespaces, SourceConfig, TableContract
from mirrorlake.destinations.iceberg.tables.schemas import current_schema
from mirrorlake.errors import LakeError
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.sources.mysql.tables import Column, Index, SourceTable
from mirrorlake.table.resolve import ResolvedTable, plan_table

PLAIN = Column("c", 2, "", "", True, None, None, None, None, None, None, "", "")
TEXT = replace(PLAIN, charset="utf8mb4", collation="utf8mb4_bin")
SECRET = "18446744073709551999"


def of(kind: str, base: Column = PLAIN, **more: Any) -> Column:
    data_type = kind.partition("(")[0].partition(" ")[0]
    return replace(base, data_type=data_type, column_type=kind, **more)


def _integers() -> list[tuple[Column, list[Any], list[Any]]]:
    found: list[tuple[Column, list[Any], list[Any]]] = []
    for kind, bits in [
        ("tinyint", 8), ("smallint", 16), ("mediumint", 24), ("int", 32), ("bigint", 64),
    ]:  # fmt: skip
        low, high, top = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 2**bits - 1
        # What the lake's own type can't hold has no place in it: nothing is to be found there.
        beyond = [low - 1, high + 1] if bits < 32 else []
        found.append((of(kind), [low, -1, 0, 1, high], beyond))
        found.append((of(f"{kind}(20) zerofill"), [low, high], beyond))
        above = [top + 1] if bits != 64 else [Decimal(top + 1), Decimal(10**20 - 1)]
        values = [0, 1, high, high + 1, top]
        wide = [Decimal(v) for v in values] if bits == 64 else values
        for text in (f"{kind} unsigned", f"{kind}(20) unsigned zerofill"):
            found.append((of(text), wide, [type(wide[0])(-1), *above]))
    return [*found, (of("tinyint(1)"), [-128, 2, 127], [128])]


def _numbers() -> list[tuple[Column, list[Any], list[Any]]]:
    def decimal(p: int, s: int, more: str = "") -> Column:
        return of(f"decimal({p},{s}){more}", precision=p, scale=s)

    def nines(p: int, s: int) -> Decimal:
        return Decimal(f"{'9' * (p - s) or 0}.{'9' * s}")

    sizes = [(10, 2), (18, 0), (19, 0), (20, 0), (29, 10), (20, 20), (38, 0), (38, 30), (38, 38)]
    found: list[tuple[Column, list[Any], list[Any]]] = [
        (decimal(p, s), [nines(p, s), nines(p, s).copy_negate(), Decimal(0)], []) for p, s in sizes
    ]
    found += [
        (decimal(p, s, " unsigned"), [nines(p, s), Decimal(0)], [nines(p, s).copy_negate()])
        for p, s in sizes
    ]
    found += [(of("decimal(65,30)", precision=65, scale=30), ["9" * 35 + "." + "9" * 30], [])]
    for n in (1, 2, 8, 31, 32, 33, 62, 63, 64):
        wide: Callable[[int], Any] = Decimal if n == 64 else int
        beyond = [wide(2**n)] if n != 63 else []
        found.append((of(f"bit({n})", precision=n), [wide(0), wide(2**n - 1)], [wide(-1), *beyond]))
    return [
        *found,
        (of("year(4)"), [0, 1901, 2155, None], [-1, 1900, 2156]),
        (of("float"), [-3.4028234663852886e38, -0.0, 1e-45, 3.4028234663852886e38], []),
        (of("double"), [-1.7976931348623157e308, -0.0, 5e-324, 1.7976931348623157e308], []),
        (of("float unsigned"), [-0.0, 0.0, 3.4028234663852886e38], [-1e-45]),
        (of("double unsigned"), [-0.0, 0.0, 1.7976931348623157e308], [-5e-324]),
    ]


def _others() -> list[tuple[Column, list[Any], list[Any]]]:
    astral = "😀"
    texts: list[tuple[Column, list[Any], list[Any]]] = [
        (of("char(3)", TEXT, length=3), ["", astral * 3], [astral * 4, "a   "]),
        (of("varchar(3)", TEXT, length=3), ["", "a  ", astral * 3], ["abcd"]),
        (of("varchar(0)", TEXT, length=0), ["", None], ["a"]),
        *((of(kind, TEXT), ["", "a" * 70_000], []) for kind in ("tinytext", "text", "longtext")),
        (of("enum('a','')", TEXT), ["a", ""], []),
        (of("set('a','b')", TEXT), ["", "a,b"], []),
        (of("json"), ['{"a": null}', "null"], []),
        (of("time(6)", fraction=6), ["-838:59:59.000000", "838:59:59.000000"], []),
        *((of(kind), ["::"], []) for kind in ("uuid", "inet4", "inet6")),
    ]
    bits: list[tuple[Column, list[Any], list[Any]]] = [
        (of("binary(2)", length=2), [b"\0\0"], [b"abc"]),
        (of("varbinary(2)", length=2), [b"", b"\0\xff"], [b"abc"]),
        *((of(kind), [b"", b"\0" * 70_000], []) for kind in ("tinyblob", "blob", "longblob")),
        *((of(kind), [b"\0" * 25], []) for kind in ("point", "geometry", "multipolygon")),
    ]
    first, last = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)
    return [
        *texts,
        *bits,
        (of("date"), [date(1, 1, 1), date(1582, 10, 10), date(9999, 12, 31)], []),
        *((of(f"datetime({n})", fraction=n), [first, last], []) for n in (0, 6)),
        (of("timestamp(6)", fraction=6), [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)], []),
    ]  # fmt: skip


CASES = [*_integers(), *_numbers(), *_others()]


def planned(column: Column) -> ResolvedTable:
    key = replace(of("int"), name="id", ordinal=1, nullable=False)
    table = SourceTable(
        "d", "t", "InnoDB", (key, column), (Index("PRIMARY", True, ("id",)),), 1, ()
    )
    contract = TableContract(
        source="s", database="d", table="t", mode="full", key=("id",), clean="table",
        namespaces=Namespaces(raw="r", deduped="d", clean="c"),
    )  # fmt: skip
    return plan_table(contract, SourceConfig(name="s", host="h", user="u"), table)


def broken(column: Column, layer_name: str, values: list[Any]) -> dict[str, int]:
    plan = planned(column)
    layer = layer_of(plan, layer_name)
    schema = current_schema([(n, t) for n, t, _ in layer.columns], layer.original is not None)
    rows = [{"id": i, "c": v, ORIGINAL: []} for i, v in enumerate(values)]
    batch = pa.RecordBatch.from_pylist(rows, schema_to_pyarrow(schema, include_field_ids=False))
    found, _ = find_broken(build_schema(plan, layer), schema, [batch])
    assert {b.column for b in found} <= {"c"}
    return {b.what: b.cells for b in found}


@pytest.mark.parametrize("layer", ["deduped", "clean"])
@pytest.mark.parametrize("nullable", [True, False])
def test_every_value_that_mysql_can_hold_passes(layer: str, nullable: bool) -> None:
    for column, good, _ in CASES:
        values = [v for v in good if v is not None or nullable] + ([None] if nullable else [])
        declared = replace(column, nullable=nullable)
        assert broken(declared, layer, values) == {}, column.column_type


def test_each_value_that_mysql_cannot_hold_is_counted() -> None:
    for column, good, bad in CASES:
        for value in bad:
            found = broken(column, "deduped", [good[0], value, value])
            assert list(found.values()) == [2], (column.column_type, value)


def test_an_exception_inside_a_check_is_an_error_without_the_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """pandera reports it as a failed cell: a blocking check then stood red for ever."""

    def overflow(_: Any) -> Any:
        raise pa.ArrowInvalid(f"{SECRET} does not fit")

    def explode(_: Column) -> list[pa_checks.Check]:
        return [checked._check("is not in bigint unsigned", overflow)]

    monkeypatch.setattr(checked, "_range", explode)
    with pytest.raises(LakeError, match=r"d\.t\.id .*ArrowInvalid") as raised:
        broken(of("bigint unsigned"), "deduped", [Decimal(SECRET)])
    assert SECRET not in str(raised.value)
    assert raised.value.next_step
    assert raised.value.__suppress_context__
