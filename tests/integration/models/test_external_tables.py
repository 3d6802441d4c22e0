"""Tables that are made elsewhere, read by models: exactly what was looked at, and stale when it
moved."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mirrorlake.destinations.base import Identifier
from tests.integration.conftest import Place
from tests.integration.hands import (
    Hand,
    LakePart,
    another,
    compacted,
    expired,
    old_catalog,
    out_of_catalog,
    purged,
    row_added,
    row_deleted,
    set_back,
)
from tests.integration.lakes import by_duckdb
from tests.integration.models.test_models import (  # noqa: F401 – fixtures
    computed,
    config,
    rows_of,
    run,
    write_models,
)
from tests.integration.operations.test_upkeep import shared_session  # noqa: F401 – one JVM for all commands

Sql = Callable[..., Any]
PRICES = """
format: parquet
path: prices
columns:
  product: {type: string, nullable: false}
  price: decimal(10,2)
  seen: timestamp
  tags: array<string>
  day: date
  store: string
partition_by: [day, store]
"""
STOCK = "format: iceberg\ncolumns: {product: string, day: date, stock: bigint}\npartition_by: day\n"
WORTH = """---
for:
  sold_day: TIMESERIES('2024-02-28', '2024-03-02', 'P1D')
---
WITH prices AS (SELECT * FROM {models}.prices WHERE day = sold_day)
SELECT stock.product, stock * price AS worth, DATE(seen) AS seen, SIZE(tags) AS tags,
  COUNT(*) OVER (PARTITION BY store) AS of_store
FROM {models}.stock JOIN prices ON stock.product = prices.product AND stock.day = prices.day
"""
CHEAP = '''"""---
reads: {found: SELECT * FROM MODELS.prices WHERE store = 'Metz'}
columns: {product: string, columns: string}
---"""
from pyspark.sql import DataFrame

def cheap(found: DataFrame) -> DataFrame:
    return found.selectExpr("product", f"'{' '.join(found.columns)}' AS columns")
'''


@pytest.fixture
def elsewhere(config: Path, place: Place) -> Path:  # noqa: F811
    """A folder of Parquet that Spark wrote, and a table of the lake that somebody else makes."""
    space = f"m_{config.parent.name}"
    folder = config.parent / "models" / space
    (folder / "prices.yaml").write_text(PRICES)
    (folder / "stock.yaml").write_text(STOCK)
    (folder / "cheap.py").write_text(CHEAP.replace("MODELS", space))
    write_models(config, worth=WORTH)
    spark = place.spark.get()
    rows = spark.sql(
        "SELECT product, CAST(price AS DECIMAL(10,2)) AS price, TIMESTAMP '2024-01-01 23:30:00' AS"
        " seen, array('a', product) AS tags, DATE(day) AS day, store FROM VALUES"
        " ('tea', 1.10, '2024-02-28', 'Metz'), ('cup', 3, '2024-02-28', 'Par/is'),"
        " ('tea', NULL, '2024-02-29', 'Metz') AS t (product, price, day, store)"
    )
    rows.write.partitionBy("day", "store").parquet(f"file://{config.parent / 'prices'}")
    place.lake.make_namespace(space)
    spark.sql(
        f"CREATE TABLE lake.{space}.stock (product STRING, added INT, day DATE, stock BIGINT)"
        " USING iceberg PARTITIONED BY (day)"
    )
    spark.sql(
        f"INSERT INTO lake.{space}.stock VALUES ('tea', 1, DATE '2024-02-28', 10),"
        " ('cup', 1, DATE '2024-02-28', 2), ('tea', 1, DATE '2024-02-29', 5)"
    )
    return config


SEEN = date(2024, 1, 1)
FIRST = [
    ("cup", Decimal("6.00"), SEEN, 2, 1, date(2024, 2, 28)),
    ("tea", Decimal("11.00"), SEEN, 2, 1, date(2024, 2, 28)),
    ("tea", None, SEEN, 2, 1, date(2024, 2, 29)),
]
DAYS = [f"sold_day=2024-{day}" for day in ("02-28", "02-29", "03-01")]


def by_day(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: (row[5], row[0]))


def test_what_others_made_is_read_and_what_they_changed_is_read_again(
    elsewhere: Path, place: Place
) -> None:
    space = f"m_{elsewhere.parent.name}"
    assert computed(elsewhere, "worth") == {"worth": DAYS}
    found = place.spark.get().table(f"lake.{space}.worth").collect()
    assert by_day([tuple(row) for row in found]) == FIRST
    assert computed(elsewhere, "worth") == {"worth": []}
    # A file of another day: that day's partition alone.
    kinds = pa.schema(
        [("product", pa.string()), ("price", pa.decimal128(10, 2)),
         ("seen", pa.timestamp("ms", "UTC")), ("tags", pa.list_(pa.string()))]
    )  # fmt: skip
    more = elsewhere.parent / "prices" / "day=2024-02-29" / "store=Par%2Fis" / "more.parquet"
    more.parent.mkdir()
    pq.write_table(pa.table([["tea"], [Decimal(2)], [0], [None]], schema=kinds), more)
    assert computed(elsewhere, "worth") == {"worth": DAYS[1:2]}
    found = place.spark.get().table(f"lake.{space}.worth").collect()
    assert [row.worth for row in found if row.sold_day.day == 29 and row.seen != SEEN] == [
        Decimal(10)
    ]


@pytest.mark.full
def test_what_changes_no_row_makes_nothing_stale(elsewhere: Path, place: Place) -> None:
    space = f"m_{elsewhere.parent.name}"
    assert computed(elsewhere, "worth") == {"worth": DAYS}
    # A column that nobody declared changes nothing; rows do.
    place.spark.get().sql(f"ALTER TABLE lake.{space}.stock ADD COLUMN more INT")
    assert computed(elsewhere, "worth") == {"worth": []}
    place.spark.get().sql(f"CALL lake.system.rewrite_data_files('{space}.stock')")
    assert computed(elsewhere, "worth") == {"worth": []}
    place.spark.get().sql(f"DELETE FROM lake.{space}.stock WHERE product = 'cup'")
    assert computed(elsewhere, "worth") == {"worth": DAYS}


GONE = (out_of_catalog, purged)
HANDS: tuple[Hand, ...] = (set_back, old_catalog, row_added, row_deleted, expired, compacted)
HANDS += (another, *GONE)


@pytest.mark.full
def test_a_model_shows_what_others_left_of_a_table_or_is_refused(
    elsewhere: Path, place: Place
) -> None:
    """One table after the other, each with a past of three versions, of which the model shows the
    newest; what is right is what a reader that shares no code finds in it now."""
    space, spark = f"m_{elsewhere.parent.name}", place.spark.get()
    folder = elsewhere.parent / "models" / space
    for hand in HANDS:
        name = f"of_{hand.__name__}"
        (folder / f"{name}.yaml").write_text("format: iceberg\ncolumns: {id: bigint, v: string}\n")
        write_models(elsewhere, **{f"m_{name}": f"SELECT id, v FROM {space}.{name}\n"})
        spark.sql(f"CREATE TABLE lake.{space}.{name} (id BIGINT, v STRING) USING iceberg")
        spark.sql(f"INSERT INTO lake.{space}.{name} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        before = LakePart(place, Identifier(space, name)).metadata_location
        spark.sql(f"INSERT INTO lake.{space}.{name} VALUES (4, 'd'), (3, 'e')")
        part = LakePart(place, Identifier(space, name), before)
        assert computed(elsewhere, f"m_{name}") == {f"m_{name}": [""]}
        shown = rows_of(place, elsewhere, f"m_{name}")
        hand(part)
        code, said = run(elsewhere, "run", f"{space}.m_{name}")
        if hand in GONE:
            assert code != 0, name
            assert f"{space}.{name}" in str(said)
            assert rows_of(place, elsewhere, f"m_{name}") == shown
            continue
        assert code == 0, said
        now = sorted(tuple(r.values()) for r in by_duckdb(part.load()).to_pylist())
        assert rows_of(place, elsewhere, f"m_{name}") == now, name
        assert (now == shown) == (hand in (expired, compacted)), name


@pytest.mark.full
def test_a_function_reads_them_and_show_names_them(elsewhere: Path, place: Place) -> None:
    # A function is given the declared columns, of the files that it reads.
    assert computed(elsewhere, "cheap") == {"cheap": [""]}
    assert rows_of(place, elsewhere, "cheap") == [
        ("tea", "product price seen tags day store"),
        ("tea", "product price seen tags day store"),
    ]
    model = f"m_{elsewhere.parent.name}.worth"
    code, shown = run(elsewhere, "show", model, "sold_day=2024-02-28")
    assert code == 0
    assert "day {2024-02-28}" in shown


@pytest.mark.full
def test_a_file_that_is_not_as_declared_fails_what_reads_it_alone(
    elsewhere: Path, place: Place
) -> None:
    folder = elsewhere.parent / "prices"
    bad = folder / "day=2024-02-28" / "store=Metz" / "aa.parquet"
    pq.write_table(pa.table({"product": ["tea"], "price": [1.5]}), bad)
    code, said = run(elsewhere, "run", f"m_{elsewhere.parent.name}.worth")
    assert code == 4, said
    assert "sold_day=2024-02-28: " in said
    assert "aa.parquet: column price is double in the file, and not decimal128(10, 2)" in said
    assert computed(elsewhere, "worth", "sold_day=2024-02-29") == {"worth": DAYS[1:2]}
    bad.unlink()
    (whole,) = bad.parent.glob("*.parquet")
    pq.write_table(
        pa.table(
            [[None], [Decimal(2)], [0], [None]],
            schema=pa.schema(
                [("product", pa.string()), ("price", pa.decimal128(10, 2)),
                 ("seen", pa.timestamp("us", "UTC")), ("tags", pa.list_(pa.string()))]
            ),
        ),
        whole,
    )  # fmt: skip
    code, said = run(elsewhere, "run", f"m_{elsewhere.parent.name}.worth")
    assert (code, "column product is NULL, and is declared without NULL" in said) == (4, True)
    shutil.rmtree(folder)
    code, said = run(elsewhere, "run", f"m_{elsewhere.parent.name}.worth")
    assert code == 2
    assert f"there is no folder {folder}" in said, said
    # What reads none of it runs.
    assert computed(elsewhere, "daily", "sold_day=2024-02-28")
    code, said = run(elsewhere, "run", f"m_{elsewhere.parent.name}.stock")
    assert (code, "is made elsewhere" in said) == (2, True)
