"""Tables that are made elsewhere: what their files say, what is there, and what models read of them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField, StringType

from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import LandingError, ModelError
from mirrorlake.models.compile.dependencies import inputs_of, unbounded
from mirrorlake.models.compile.model import Project
from mirrorlake.models.compile.project import stored_columns
from mirrorlake.models.compile.table_mentions import written_instead
from mirrorlake.models.external_sources.arrow_types import arrow_type
from mirrorlake.models.external_sources.inspect import look_at
from mirrorlake.models.external_sources.own_places import OwnPlaces
from mirrorlake.models.external_sources.tables import ExternalInput, ExternalTable
from mirrorlake.models.files.external_table import read_external, read_externals
from mirrorlake.models.scope_values.query_text import bound_sql
from mirrorlake.sources.files.parquet_table import check_files, read_rows
from tests.unit.models.test_project import (  # noqa: F401 - fixtures
    DAYS,
    Compiled,
    compiled,
    contract,
    problem,
)

FOLDER = """\
description: Prices
owner: team:pricing
format: parquet
path: exports/prices
columns:
  product: {type: string, nullable: false}
  price: decimal(12,2)
  seen: timestamp
  day: date
  shop: string
partition_by: [day, shop]
"""
LAKE = """\
format: iceberg
columns: {product: string, stock: bigint, day: date}
partition_by: day
hidden: product
"""
THERE = """\
format: bigquery
table: p-1.ds.prices
columns: {product: string}
"""


def written(folder: Path, text: str, name: str = "ext/prices.yaml") -> Path:
    path = folder / "models" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_all_that_a_file_says(tmp_path: Path) -> None:
    found = read_external(written(tmp_path, FOLDER))
    assert (found.name, found.owner, found.description) == ("ext.prices", "team:pricing", "Prices")
    assert (found.format, found.url) == ("parquet", str(tmp_path / "exports" / "prices"))
    assert [(c.name, c.type, c.nullable, c.place) for c in found.columns][:2] == [
        ("product", "string", False, (6, 3)),
        ("price", "decimal(12,2)", True, (7, 3)),
    ]
    assert found.partition_by == ("day", "shop")
    there = read_external(written(tmp_path, LAKE))
    assert (there.table, there.hidden) == (("ext", "prices"), {"product"})
    other = read_external(written(tmp_path, LAKE + "table: Elsewhere.Other\n"))
    assert other.table == ("Elsewhere", "Other")
    google = read_external(written(tmp_path, THERE + "location: EU\n"))
    assert (google.project, google.table, google.location) == ("p-1", ("ds", "prices"), "EU")
    domain = read_external(written(tmp_path, THERE.replace("p-1", "a.com:p-1")))
    assert (domain.project, domain.table, domain.place) == ("a.com:p-1", ("ds", "prices"), (2, 8))
    by_name = read_external(written(tmp_path, "format: bigquery\ncolumns: {n: bigint}"))
    assert (by_name.project, by_name.table, by_name.place) == (None, ("ext", "prices"), (1, 1))


def test_the_files_of_a_folder(tmp_path: Path) -> None:
    written(tmp_path, FOLDER)
    written(tmp_path, LAKE, "ext/stock.yaml")
    written(tmp_path, "tests: {}", "ext/prices.test.yaml")
    found, _ = read_externals(tmp_path / "models")
    assert [one.name for one in found] == ["ext.prices", "ext.stock"]
    for name in ("stray.yaml", "ext/stock.yml", "ext/deep/stock.yaml"):
        stray = written(tmp_path, LAKE, name)
        _, unread = read_externals(tmp_path / "models")
        assert "is not where a table that is made elsewhere is" in unread.problems[0].message
        stray.unlink()


WRONG = [
    ("format: parquet", "format: bigquery", "4:1: path: this is for parquet alone"),
    ("format: parquet", "format: bigquery", "11:1: partition_by: a table of BigQuery is read as"),
    ("path: exports/prices", "path: x\nlocation: EU", "5:1: location: this is for bigquery alone"),
    (FOLDER, THERE.replace("p-1.ds", "p-1.ds.ds"), "2:8: table: a table of BigQuery is project.da"),
    (FOLDER, THERE.replace("prices", "prices$2024"), "2:8: table: a table of BigQuery is project."),
    (FOLDER, THERE + "location: here!", "4:11: location: a location is written US, EU or"),
    ("format: parquet", "format: delta", "3:9: format: 'delta' is not 'iceberg', 'parquet' or"),
    ("path: exports/prices\n", "", "3:9: format: of Parquet a path is needed"),
    ("path: exports/prices", "path: http://x/y", "4:7: path: it is a folder, gs://bucket/… or"),
    ("path: exports/prices", "path: x\ntable: a.b", "5:1: table: this is for iceberg and bigquery"),
    ("format: parquet", "format: iceberg", "4:1: path: this is for parquet alone"),
    ("path: exports/prices", "path: x\nendpoint: y", "5:11: endpoint: an endpoint is written http"),
    ("price: decimal(12,2)", "price: decimal(12, 2)x", "7:10: columns.price: 'decimal(12, 2)x' is"),
    ("price: decimal(12,2)", "price: {type: int, made_of: a.b}", "7:22: columns.price.made_of: nobody"),
    ("[day, shop]", "[day, shap]", "11:21: partition_by[1]: there is no column shap; did you mean"),
    ("[day, shop]", "[shop, day]", "5:1: columns: the columns of its folders come last, in this order"),
    ("day: date", "day: double", "11:16: partition_by[0]: a folder's name is no double"),
    ("[day, shop]", "[day, day]", "11:21: partition_by[1]: day is there twice"),
    ("owner:", "hidden: [x]\nowner:", "2:10: hidden[0]: there is no column x"),
    ("owner:", "for: {}\nowner:", "2:1: for: unknown key"),
    (FOLDER, "", "1:1: the file is a mapping"),
    (FOLDER, LAKE + "table: x.a.b", "5:8: table: a table of the lake's own catalog is namespace.name"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_what_a_file_can_not_say(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in FOLDER
    with pytest.raises(ModelError) as caught:
        read_external(written(tmp_path, FOLDER.replace(old, new, 1)))
    said = re.sub(r"(?m)^.*/prices\.yaml:\s?", "", str(caught.value)).splitlines()
    assert any(line.startswith(words) for line in said), said


# --- what is there --------------------------------------------------------------------------------

ROWS: dict[str, list[Any]] = {
    "product": ["tea", "cup"],
    "price": [Decimal("1.10"), None],
    "seen": [datetime(2024, 3, 1, 12, tzinfo=UTC)] * 2,
}
TYPES: dict[str, Any] = {
    "product": pa.string(),
    "price": pa.decimal128(12, 2),
    "seen": pa.timestamp("us", "UTC"),
}
Written = Callable[..., Path]


@pytest.fixture
def file(tmp_path: Path) -> Written:
    """Write a file of Parquet."""

    def write(place: str, rows: dict[str, list[Any]] = ROWS, **types: Any) -> Path:
        path = tmp_path / "exports" / "prices" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        kinds = {name: kind for name, kind in (TYPES | types).items() if name in rows}
        pq.write_table(pa.table(rows, schema=pa.schema(list(kinds.items()))), path)
        return path

    return write


@pytest.fixture
def lake(contract: Path) -> Lake:  # noqa: F811
    return Lake(load_config(contract).lake)


def looked(lake: Lake, text: str = FOLDER) -> ExternalTable:
    return look_at(read_external(written(Path(lake.warehouse[7:]).parent, text)), lake, OwnPlaces())


def test_a_folder_as_it_is(lake: Lake, file: Written) -> None:
    for place in ("day=2024-03-02/shop=Par%2Fis/b.parquet", "day=2024-03-01/shop=Metz/a.parquet",
                  "day=2024-03-01/shop=__HIVE_DEFAULT_PARTITION__/a.parquet"):  # fmt: skip
        file(place)
    root = file("_temporary/0/x.parquet").parents[2]
    (root / "_SUCCESS").touch()
    (root / "day=2024-03-01" / "shop=Metz" / ".a.parquet.crc").touch()
    found = looked(lake)
    assert [one.values for one in found.files] == [
        (date(2024, 3, 1), "Metz"),
        (date(2024, 3, 1), None),
        (date(2024, 3, 2), "Par/is"),
    ]
    assert found.folder is not None
    (batch,) = read_rows(found.folder, found.files[2])
    assert batch.to_pylist() == [
        {"product": "tea", "price": Decimal("1.10"), "seen": ROWS["seen"][0],
         "day": date(2024, 3, 2), "shop": "Par/is"},
        {"product": "cup", "price": None, "seen": ROWS["seen"][0],
         "day": date(2024, 3, 2), "shop": "Par/is"},
    ]  # fmt: skip
    assert check_files(found.folder, found.files) == [2, 2, 2]


IN = "day=2024-03-01/shop=Metz/a.parquet"
STRANGE = [
    ("day=2024-03-01/a.parquet", "a.parquet is no folder shop=…"),
    ("day=2024-03-01/store=x/a.parquet", "store=x is no folder shop=…"),
    ("day=x/shop=x/a.parquet", "day=x is no date32[day] of day"),
    ("day=2024-03-01/shop=x/y/a.parquet", "y is a folder where files are expected"),
    ("day=2024-03-01/shop=x/a.csv", "a.csv is no .parquet"),
]


@pytest.mark.parametrize(("place", "words"), STRANGE)
def test_what_is_in_no_partition(lake: Lake, file: Written, place: str, words: str) -> None:
    file(IN)
    file(place)
    with pytest.raises(ModelError, match=re.escape(words)):
        looked(lake)


def test_a_folder_that_is_not_there_or_empty(lake: Lake, file: Written) -> None:
    with pytest.raises(ModelError, match=r"prices\.yaml:4:7: there is no folder .*/exports/prices"):
        looked(lake)
    file(IN).unlink()
    with pytest.raises(ModelError, match="there is no file of Parquet in"):
        looked(lake)


UNLIKE: list[tuple[str, dict[str, Any], str]] = [
    ("price", {"price": pa.decimal128(12, 3)}, "is decimal128(12, 3) in the file, and not decimal128(12, 2)"),
    ("price", {"price": None}, "is missing"),
    ("seen", {"seen": pa.timestamp("us")}, "is timestamp[us] in the file, and not timestamp[us, tz=UTC]"),
    ("product", {"product": pa.int32()}, "is int32 in the file, and not string"),
]  # fmt: skip


@pytest.mark.parametrize(("column", "types", "words"), UNLIKE)
def test_a_file_with_other_columns(
    lake: Lake, file: Written, column: str, types: dict[str, Any], words: str
) -> None:
    rows = {
        name: [None] * 2 if name == column else values
        for name, values in ROWS.items()
        if types.get(name, "") is not None
    }
    file(IN)
    found = looked(lake)
    other = file("day=2024-03-02/shop=Metz/b.parquet", rows, **types)
    with pytest.raises(ModelError, match=re.escape(f"b.parquet: column {column} {words}")):
        looked(lake)
    file("day=2024-03-03/shop=Metz/c.parquet")
    # Not the one that is looked at first: it is found as it is read.
    found = looked(lake)
    assert found.folder is not None
    with pytest.raises(LandingError, match=re.escape(f"{other}: column {column} {words}")):
        list(read_rows(found.folder, found.files[1]))
    with pytest.raises(LandingError, match=re.escape(f"column {column} {words}")):
        check_files(found.folder, found.files)


def test_values_that_a_column_can_not_hold(lake: Lake, file: Written) -> None:
    file(IN, {**ROWS, "product": ["tea", None]})
    found = looked(lake)
    assert found.folder is not None
    with pytest.raises(LandingError, match="column product is NULL, and is declared without NULL"):
        list(read_rows(found.folder, found.files[0]))
    file(IN, {**ROWS, "seen": [1, 2]}, seen=pa.timestamp("ns", "UTC"))
    found = looked(lake)
    with pytest.raises(
        LandingError, match="has a value that its column can't hold exactly"
    ) as caught:
        list(read_rows(found.folder, found.files[0]))
    assert caught.value.__cause__ is None


def test_a_file_that_was_written_again_is_not_read_as_what_it_was(
    lake: Lake, file: Written
) -> None:
    path = file(IN)
    found = looked(lake)
    assert found.folder is not None
    before = found.version([{}])
    assert looked(lake).version([{}]) == before
    os.utime(path, ns=(1, 1))
    assert looked(lake).version([{}]) != before
    with pytest.raises(LandingError, match="is gone, or was written again, since it was listed"):
        list(read_rows(found.folder, found.files[0]))
    path.write_bytes(b"PAR1")
    with pytest.raises(ModelError, match="is no whole file of Parquet"):
        looked(lake)


def test_types_of_other_writers(lake: Lake, file: Written) -> None:
    text = FOLDER.replace("price: decimal(12,2)", "price: bigint").replace(
        "seen: timestamp", "seen: timestamp"
    )
    rows = {**ROWS, "price": [1, 2]}
    file(
        IN,
        rows,
        price=pa.int32(),
        product=pa.dictionary(pa.int8(), pa.string()),
        seen=pa.timestamp("ms", "UTC"),
    )
    found = looked(lake, text)
    assert found.folder is not None
    (batch,) = read_rows(found.folder, found.files[0])
    assert batch.schema.field("price").type == pa.int64()
    assert batch.column("product").to_pylist() == ["tea", "cup"]
    # Spark's own form of a moment: 96 bits, without a zone.
    kinds = pa.schema(
        [
            (name, (TYPES | {"seen": pa.timestamp("us"), "price": pa.int64()})[name])
            for name in TYPES
        ]
    )
    naive = {**rows, "seen": [one.replace(tzinfo=None) for one in ROWS["seen"]]}
    path = Path(lake.warehouse[7:]).parent / "exports" / "prices" / IN
    pq.write_table(pa.table(naive, schema=kinds), path, use_deprecated_int96_timestamps=True)
    found = looked(lake, text)
    assert found.folder is not None
    (batch,) = read_rows(found.folder, found.files[0])
    assert batch.column("seen").to_pylist() == ROWS["seen"]
    with pytest.raises(ModelError, match="seen is a moment in the file, and not timestamp"):
        looked(lake, text.replace("seen: timestamp", "seen: timestamp_ntz"))


@pytest.mark.parametrize(
    "kind", ["array<int>", "struct<a:string,b:array<date>>", "map<string,bigint>"]
)
def test_nested_types(lake: Lake, file: Written, kind: str) -> None:
    rows = {**ROWS, "price": [None, None]}
    file(IN, rows, price=arrow_type(kind))
    found = looked(lake, FOLDER.replace("decimal(12,2)", kind))
    assert found.folder is not None
    (batch,) = read_rows(found.folder, found.files[0])
    assert batch.column("price").to_pylist() == [None, None]


def make_stock(lake: Lake, **properties: str) -> Any:
    lake.make_namespace("ext")
    fields = [("product", StringType()), ("stock", LongType()), ("day", DateType())]
    return lake.catalog.create_table(
        ("ext", "stock"),
        Schema(*(NestedField(i, n, k, required=False) for i, (n, k) in enumerate(fields, 1))),
        partition_spec=PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "day")),
        properties=properties,
    )


def stock(lake: Lake, text: str = LAKE) -> ExternalTable:
    folder = Path(lake.warehouse[7:]).parent
    return look_at(read_external(written(folder, text, "ext/stock.yaml")), lake, OwnPlaces())


def test_a_table_of_the_lake(lake: Lake) -> None:
    with pytest.raises(
        ModelError, match=r"stock\.yaml:1:1: there is no table ext\.stock in the lake"
    ):
        stock(lake)
    table = make_stock(lake)
    empty = stock(lake)
    assert (empty.snapshot, empty.version([{}])) == (None, "0")
    kinds = pa.schema([("product", pa.string()), ("stock", pa.int64()), ("day", pa.date32())])
    table.append(
        pa.table({"product": ["a"], "stock": [1], "day": [date(2024, 3, 1)]}, schema=kinds)
    )
    head = lake.load(empty_identifier(empty)).current_snapshot()  # type: ignore[union-attr]
    assert head is not None
    assert (stock(lake).snapshot, stock(lake).version([{}])) == (
        head.snapshot_id,
        str(head.snapshot_id),
    )
    for old, new, words in (
        (
            "stock: bigint",
            "stocks: bigint",
            r"2:28: ext\.stock has no column stocks; did you mean 'stock'",
        ),
        ("stock: bigint", "stock: int", r"2:28: column stock is bigint in ext\.stock"),
        (
            "stock: bigint",
            "stock: {type: bigint, nullable: false}",
            "2:28: column stock may be NULL",
        ),
        (
            "partition_by: day",
            "partition_by: product",
            r"1:1: ext\.stock is not partitioned by product",
        ),
    ):
        with pytest.raises(ModelError, match=f"stock.yaml:{words}"):
            stock(lake, LAKE.replace(old, new))


def empty_identifier(found: ExternalTable) -> Any:
    from mirrorlake.destinations.base import Identifier

    return Identifier(*found.declaration.table)


def test_a_table_that_a_model_makes_is_not_made_elsewhere(lake: Lake) -> None:
    make_stock(lake, **{"mirrorlake.model": "m.x"})
    with pytest.raises(ModelError, match=r"ext\.stock is made here: model m\.x does"):
        stock(lake)


# --- beside models --------------------------------------------------------------------------------

Both = Callable[..., Project]


@pytest.fixture
def both(compiled: Compiled, lake: Lake, file: Written) -> Both:  # noqa: F811
    """Compile models beside both tables."""
    folder = Path(lake.warehouse[7:]).parent
    for day in ("2024-03-01", "2024-03-02"):
        for shop in ("Metz", "Paris"):
            file(f"day={day}/shop={shop}/a.parquet")
    make_stock(lake)

    def run(**models: str) -> Project:
        written(folder, models.pop("prices", FOLDER))
        written(folder, LAKE, "ext/stock.yaml")
        project = compiled(**models)
        run.catalogue = compiled.catalogue  # type: ignore[attr-defined]
        return project

    return run


OF_DAY = f"---\n{DAYS.replace('day', 'sold')}\n---\n"
JOINED = (
    f"{OF_DAY}SELECT p.price, stock FROM ext.prices AS p JOIN ext.stock ON stock.product = p.product"
    " AND stock.day = p.day WHERE p.day = sold AND shop = 'Metz'"
)


def test_what_a_partition_reads_of_them(both: Both) -> None:
    project = both(m__x=JOINED.replace("SELECT ", "SELECT /* hidden is product alone */ "))
    assert not project.problems
    model = project.models["m.x"]
    assert project.readers["ext.prices"] == ("m.x",)
    assert [f.value.type for f in model.fields] == ["decimal(12,2)", "bigint", "date"]
    assert [str(o.table) for o in stored_columns(project, model, "price")] == ["ext.prices"]
    prices, other = inputs_of(project, both.catalogue, model, model.scopes[0])  # type: ignore[attr-defined]
    assert isinstance(prices, ExternalInput)
    assert isinstance(other, ExternalInput)
    assert [(name, str(values)) for name, values in prices.mentions[0]] == [
        ("day", "{2024-03-01}"),
        ("shop", "{Metz}"),
    ]
    assert [(name, str(values)) for name, values in other.mentions[0]] == [("day", "{2024-03-01}")]
    table = project.externals["ext.prices"]
    assert [one.path for one in table.reached(prices.reached)] == [
        "prices/day=2024-03-01/shop=Metz/a.parquet"
    ]
    assert not list(unbounded(project, both.catalogue, model))  # type: ignore[attr-defined]
    all_of = both(m__x=f"{OF_DAY}SELECT price, sold AS d FROM ext.prices").models["m.x"]
    (words,) = unbounded(both(), both.catalogue, all_of)  # type: ignore[attr-defined]
    assert "every partition reads all of ext.prices" in words


def test_only_files_that_a_partition_reads_make_it_stale(both: Both, file: Written) -> None:
    def versions() -> list[str]:
        project = both(m__x=JOINED)
        model = project.models["m.x"]
        found = []
        for scope in model.scopes[:2]:
            prices, _ = inputs_of(project, both.catalogue, model, scope)  # type: ignore[attr-defined]
            assert isinstance(prices, ExternalInput)
            found.append(project.externals["ext.prices"].version(prices.reached))
        return found

    before = versions()
    file("day=2024-03-02/shop=Paris/more.parquet")
    assert versions() == before
    file("day=2024-03-02/shop=Metz/more.parquet")
    after = versions()
    assert (after[0] == before[0], after[1] == before[1]) == (True, False)


def test_a_view_is_written_in_their_place(both: Both) -> None:
    sql = "SELECT p.price, prices.price AS q FROM ext.prices AS p, `ext`.prices WHERE p.day > '2024-01-01'"
    model = both(m__x=sql).models["m.x"]
    instead = written_instead(model.query, model.bound.trace.tables, {"ext.prices": "`v_1`"})
    assert bound_sql(sql, model.bound, {}, instead=instead) == (
        "SELECT p.price, prices.price AS q FROM `v_1` AS p, `v_1` AS `prices` WHERE p.day > '2024-01-01'"
    )


BESIDE = [
    ({"m__x": "SELECT prise FROM ext.prices"}, "x.sql:1:8: there is no column prise; did you mean 'price'"),
    ({"m__x": "SELECT price FROM ext.price"}, "x.sql:1:19: there is no table ext.price; did you mean"),
    ({"m__x": "SELECT price FROM ext.prices VERSION AS OF 1"}, "x.sql:1:19: VERSION AS OF can't be analysed"),
    ({"m__x": "SELECT price FROM ext.prices TABLESAMPLE (1 ROWS)"}, "x.sql:1:19: a sample of ext.prices"),
    ({"m__x": "SELECT ext.prices.price FROM ext.prices"}, "x.sql:1:8: ext.prices is made elsewhere: a column"),
    ({"m__x": "---\nmaterialized: view\n---\nSELECT price FROM ext.prices"}, "x.sql:4:19: a view can't read ext.prices"),
    ({"m__x": "SELECT product FROM ext.stock"}, "x.sql:1:8: column product is made of product of ext.stock, which"),
    ({"ext__prices": "SELECT 1 AS a"}, "/models/ext/prices.sql, too"),
    ({"prices": FOLDER.replace("price:", "prize:"), "m__x": "SELECT prize FROM ext.prices"},
     "a.parquet: column prize is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("models", "words"), BESIDE)
def test_what_models_can_not_read_of_them(both: Both, models: dict[str, str], words: str) -> None:
    # Of a table that is not as it is declared the error is of its file; its readers name it.
    assert words in problem(both(**models))


@pytest.mark.parametrize("table", ["ext.stock", "ext.none"])
def test_a_mirrored_table_is_read_whatever_is_declared_by_its_name(
    both: Both, lake: Lake, table: str
) -> None:
    text = f"{LAKE}table: {table}\n"
    path = written(Path(lake.warehouse[7:]).parent, text, "s_d/sales.yaml")
    project = both(m__x="SELECT id FROM s_d.sales")
    assert list(project.models) == ["m.x"]
    assert str(path) in project.problems[0].message


def test_what_is_made_elsewhere_is_not_declared_invalid(
    both: Both, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not both(m__x="SELECT price FROM ext.prices").problems
    monkeypatch.setenv(
        "MIRRORLAKE_CONFIG", str(Path(lake.warehouse[7:]).parent / "mirrorlake.yaml")
    )
    result = CliRunner().invoke(cli, ["invalidate", "ext.prices", "--reason", "z"])
    assert isinstance(result.exception, ModelError)
    assert "ext.prices is made elsewhere (" in str(result.exception)
    assert "Declare a model that reads it invalid" in str(result.exception)


def test_show_of_one(both: Both, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirrorlake.cli.show.console.width", 200)
    assert not both(m__x="SELECT price FROM ext.prices").problems

    def show(*arguments: str) -> str:
        config = str(Path(lake.warehouse[7:]).parent / "mirrorlake.yaml")
        result = CliRunner().invoke(cli, ["show", *arguments, "--config", config])
        assert result.exit_code == 0, result.output
        return result.stdout

    said = show("ext.prices")
    assert "ext.prices (parquet, team:pricing), made elsewhere: " in said
    assert "8 rows in 4 files, version " in said
    assert "Read by m.x." in said
    found = json.loads(show("ext.prices", "--json"))
    assert (found["seen"]["rows"], found["columns"][0]) == (
        8,
        {"name": "product", "type": "string", "nullable": False},
    )
    assert "ext.stock: 0 rows in 0 files, version 0." in show("EXT.stock")
