"""The pandera schema of a table's layers: what it asks of columns and of rows, without a server."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from dagster_mirrorlake.checks.contract import build_schema, find_broken, fingerprint, layer_of
from mirrorlake.config import ColumnRule, Namespaces, SourceConfig, TableContract
from mirrorlake.destinations.iceberg.tables.schemas import current_schema
from mirrorlake.merge.statements import Layer
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.sources.mysql.tables import Column, Index, SourceTable
from mirrorlake.table.resolve import ResolvedTable, plan_table

RULES = {
    "mail": ColumnRule(pii="hash"),
    "phone": ColumnRule(pii="mask"),
    "born": ColumnRule(pii="null"),
    "name": ColumnRule(pii="drop"),
}


def column(name: str, kind: str, *, nullable: bool = False, length: int | None = None) -> Column:
    text = kind.startswith(("varchar", "char"))
    charset, collation = ("utf8mb4", "utf8mb4_bin") if text else (None, None)
    base = kind.partition("(")[0].partition(" ")[0]
    return Column(
        name, 1, base, kind, nullable, charset, collation, None, None, length, None, "", ""
    )


PEOPLE = (
    column("id", "int(11)"),
    column("small", "tinyint(3) unsigned", nullable=True),
    column("word", "varchar(3)", nullable=True, length=3),
    column("bytes", "varbinary(2)", nullable=True, length=2),
    column("at", "datetime"),
    column("born", "date", nullable=True),
    column("mail", "varchar(40)", nullable=True, length=40),
    column("phone", "varchar(40)", nullable=True, length=40),
    column("name", "varchar(40)", nullable=True, length=40),
)
ROW: dict[str, Any] = {
    "id": 1, "small": 255, "word": "äöü", "bytes": b"ab", "at": datetime(2020, 1, 1),
    "born": date(2000, 1, 1), "mail": "a@example.com", "phone": "0123456", "name": "Ann",
    ORIGINAL: [],
}  # fmt: skip
EMPTY = {n: None for n in ROW if n not in ("id", "at", ORIGINAL)}
ZERO = {"at": None, ORIGINAL: [{"column": "at", "text": "0000-00-00 00:00:00"}]}
CLEAN: dict[str, Any] = {
    **{n: v for n, v in ROW.items() if n != "name"},
    "born": None, "mail": "0123456789abcdef" * 4, "phone": "********56",
}  # fmt: skip


def planned(columns: tuple[Column, ...] = PEOPLE) -> ResolvedTable:
    table = SourceTable("d", "t", "InnoDB", columns, (Index("PRIMARY", True, ("id",)),), 1, ())
    contract = TableContract(
        source="s",
        database="d",
        table="t",
        mode="full",
        key=("id",),
        clean="table",
        columns=RULES,
        namespaces=Namespaces(raw="r", deduped="d", clean="c"),
    )
    return plan_table(contract, SourceConfig(name="s", host="h", user="u"), table)


def lake_schema(layer: Layer) -> Schema:
    return current_schema([(n, t) for n, t, _ in layer.columns], layer.original is not None)


def broken(name: str, *rows: dict[str, Any]) -> dict[tuple[str, str], int]:
    plan = planned()
    layer = layer_of(plan, name)
    schema = lake_schema(layer)
    arrow = schema_to_pyarrow(schema, include_field_ids=False)
    batches = [pa.RecordBatch.from_pylist([row], arrow) for row in rows]
    found, seen = find_broken(build_schema(plan, layer), schema, batches)
    assert seen == len(rows)
    return {(b.column, b.what): b.cells for b in found}


@pytest.mark.parametrize("row", [ROW, {**ROW, **EMPTY}, {**ROW, **ZERO}])
def test_good_rows_of_deduped_break_nothing(row: dict[str, Any]) -> None:
    assert broken("deduped", row) == {}


@pytest.mark.parametrize(
    "row", [CLEAN, {**CLEAN, **ZERO}, {**CLEAN, "mail": None, "phone": "********"}]
)
def test_good_rows_of_clean_break_nothing(row: dict[str, Any]) -> None:
    assert broken("clean", row) == {}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"id": None}, ("id", "is NULL")),
        ({"at": None}, ("at", "is NULL without an original")),
        ({**ZERO, "at": ROW["at"]}, ("at", "has an original beside a value")),
        ({"small": 256}, ("small", "is not in tinyint(3) unsigned")),
        ({"small": -1}, ("small", "is not in tinyint(3) unsigned")),
        ({"word": "long"}, ("word", "is longer than varchar(3)")),
        ({"bytes": b"abc"}, ("bytes", "is longer than varbinary(2)")),
    ],
)
def test_a_bad_cell_of_deduped_is_counted(change: dict[str, Any], what: tuple[str, str]) -> None:
    bad = {**ROW, **change}
    assert broken("deduped", ROW, bad, ROW, bad) == {what: 2}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"mail": "a@example.com"}, ("mail", "is not hashed")),
        ({"mail": "0" * 63}, ("mail", "is not hashed")),
        ({"phone": "0123456"}, ("phone", "is not masked")),
        ({"phone": "********123"}, ("phone", "is not masked")),
        ({"born": date(2000, 1, 1)}, ("born", "is not NULL")),
        ({"id": None}, ("id", "is NULL")),
    ],
)
def test_a_bad_cell_of_clean_is_counted(change: dict[str, Any], what: tuple[str, str]) -> None:
    assert broken("clean", CLEAN, {**CLEAN, **change}) == {what: 1}


def test_columns_come_before_rows() -> None:
    """One absent, one of another type, one that the contract drops: no row is looked at then."""
    plan = planned()
    layer = layer_of(plan, "clean")
    columns = [(n, "long" if n == "id" else t) for n, t, _ in layer.columns if n != "word"]
    schema = current_schema([*columns, ("name", "string")], True)

    def unread() -> Any:
        pytest.fail("a row was read")
        yield

    found, rows = find_broken(build_schema(plan, layer), schema, unread())
    assert rows == 0
    assert {(b.column, b.what) for b in found} == {
        ("id", "has type int64[pyarrow]"),
        ("name", "is not to be there"),
        ("word", "is missing"),
    }


def test_what_is_found_names_no_value() -> None:
    secret = {**CLEAN, "mail": "top secret", "phone": "top secret"}
    assert "secret" not in str(broken("clean", secret))


def test_new_terms_are_another_fingerprint() -> None:
    plan = planned()
    same = fingerprint(plan, layer_of(plan, "deduped"))
    assert same == fingerprint(planned(), layer_of(planned(), "deduped"))
    nullable = planned((*PEOPLE[:4], column("at", "datetime", nullable=True), *PEOPLE[5:]))
    assert same != fingerprint(nullable, layer_of(nullable, "deduped"))
