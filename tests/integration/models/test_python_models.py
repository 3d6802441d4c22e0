"""Models in Python over the mirror: computed by partition, checked before they are published."""

from __future__ import annotations

import re
import statistics
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo.nyc import NYC_TABLES, read_nyc
from mirrorlake.destinations.base import Identifier
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.integration.load.test_clusters import master  # noqa: F401 – a fixture
from tests.integration.models.test_models import (  # noqa: F401 – fixtures
    DAILY,
    computed,
    config,
    rows_of,
    run,
    write_models,
)
from tests.integration.operations.test_upkeep import shared_session  # noqa: F401 – one JVM for all commands
from tests.support.command import COMMAND

Sql = Callable[..., Any]
SHARES = '''"""---
for: {until_day: "TIMESERIES('2024-02-28', '2024-03-02', 'P1D')"}
reads:
  sold: SELECT product, amount FROM MODELS.daily WHERE sold_day = until_day
columns:
  product: {type: string, nullable: false}
  share: {type: "decimal(5,4)", made_of: sold.amount}
---"""
from datetime import date
from decimal import Decimal

import pyarrow as pa
from pyspark.sql import DataFrame

class Shares:
    """Defined here, and used on workers."""
    def __init__(self, amounts):
        self.total = sum(amounts)
    def of(self, amount):
        return (amount / self.total).quantize(Decimal("0.0001"))

def shared(batches):
    rows = [row for batch in batches for row in batch.to_pylist()]
    if rows:
        shares = Shares(row["amount"] for row in rows)
        found = [{"product": r["product"], "share": shares.of(r["amount"])} for r in rows]
        schema = pa.schema([("product", pa.string()), ("share", pa.decimal128(5, 4))])
        yield pa.RecordBatch.from_pylist(found, schema=schema)

def shares(sold: DataFrame, until_day: date) -> DataFrame:
    assert type(until_day) is date
    return sold.coalesce(1).mapInArrow(shared, "product string, share decimal(5,4)")
'''
PANDERA = """
import pandera.pyspark as pandera
from pyspark.sql import types as t

class Checked(pandera.DataFrameModel):
    product: t.StringType = pandera.Field(isin=["tea"])
"""
OTHERS = {date(2024, 2, 28), date(2024, 3, 1)}
WITH_NULL_SAID = "until_day=2024-02-29: not_null_product (product is not NULL): 1 of "
SELECTED = "sold.selectExpr('product', 'CAST(1 AS DECIMAL(5,4)) AS share')"
WITH_NULL = SELECTED.replace("'product'", "'NULLIF(product, \\'cup\\') AS product'")


def write_python(config: Path, text: str, name: str = "shares") -> str:  # noqa: F811
    folder = config.parent / "models" / f"m_{config.parent.name}"
    folder.mkdir(parents=True, exist_ok=True)
    text = text.replace("MODELS", f"m_{config.parent.name}")
    (folder / f"{name}.py").write_text(text)
    return f"m_{config.parent.name}.{name}"


def returning(expression: str, text: str = SHARES) -> str:
    return re.sub(r"return sold\.coalesce.*", f"return {expression}", text)


DAYS = [f"until_day=2024-{day}" for day in ("02-28", "02-29", "03-01")]


def test_a_function_is_computed_by_partition_and_again_where_its_code_changed(
    config: Path,  # noqa: F811
    place: Place,
) -> None:
    write_python(config, SHARES)
    done = computed(config, "shares", "until_day=2024-02-29", "--upstream")
    assert done["shares"] == DAYS[1:2]
    assert computed(config, "shares") == {"shares": [DAYS[0], DAYS[2]]}
    assert rows_of(place, config, "shares") == [
        ("cup", Decimal("0.4286"), date(2024, 2, 29)),
        ("tea", Decimal("0.5714"), date(2024, 2, 29)),
        ("tea", Decimal("1.0000"), date(2024, 2, 28)),
        ("tea", Decimal("1.0000"), date(2024, 3, 1)),
    ]
    write_python(config, SHARES.replace('"""Defined here', '"""Said'))
    assert computed(config, "shares") == {"shares": []}
    # The file of now is what is run, also where an earlier one was.
    write_python(config, returning(SELECTED))
    assert computed(config, "shares", "until_day=2024-02-29") == {"shares": DAYS[1:2]}
    before = rows_of(place, config, "shares")
    assert {share for _, share, day in before if day.day == 29} == {Decimal("1.0000")}
    # What is not as declared was written to a branch, and nobody saw it.
    write_python(config, returning(WITH_NULL))
    code, said = run(config, "run", f"m_{config.parent.name}.shares", "until_day=2024-02-29")
    assert (code, WITH_NULL_SAID in said) == (9, True)
    assert rows_of(place, config, "shares") == before


REFUSED = [
    ("sold", "gives other columns than its header declares: share is missing, amount is not"),
    (SELECTED.replace("5,4", "6,4"), "share is decimal(6,4), and is declared decimal(5,4)"),
    (f"{SELECTED}.select('share', 'product')", "in this order: share, product"),
    ("7", "returned int, and is to return a DataFrame"),
    ("sold.select('nothing')", "failed: AnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION]"),
    ("{}['a secret']", "shares.py:32:1: shares failed: KeyError. Nothing of"),
    (
        "sold.mapInArrow(lambda b: [int(r.to_pylist()[0]['product']) for r in b],"
        " 'product string, share decimal(5,4)')",
        "shares.py:32:1: shares failed: ValueError. Nothing of",
    ),
    (WITH_NULL, WITH_NULL_SAID),
]


@pytest.mark.full
def test_rows_that_are_not_what_is_declared_are_not_published(
    config: Path,  # noqa: F811
    place: Place,
) -> None:
    name = write_python(config, SHARES)
    assert computed(config, "daily")
    for expression, words in REFUSED:
        write_python(config, returning(expression))
        code, said = run(config, "run", name)
        assert code in (2, 5, 9), said
        assert words in said
        assert "secret" not in said
        assert "tea" not in said
        table = place.lake.load(Identifier(*name.split(".")))
        assert table is None or set(table.refs()) <= {"main"}
    # Of those the last alone wrote anything: the days without NULL are there.
    assert {day for *_, day in rows_of(place, config, "shares")} == OTHERS


@pytest.mark.full
def test_pandera_looks_before_they_are_published(
    config: Path,  # noqa: F811
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PANDERA_VALIDATION_ENABLED", "False")
    text = (SHARES + PANDERA).replace('---"""', 'expect: {pandera: Checked}\n---"""')
    name = write_python(config, text)
    computed(config, "daily")
    code, said = run(config, "run", name)
    assert code == 9
    refused = "until_day=2024-02-29: pandera (pandera schema shares.py:Checked): product: isin"
    assert refused in said
    assert "cup" not in said
    assert {day for *_, day in rows_of(place, config, "shares")} == OTHERS
    check = "\n    @pandera.check('product')\n    def f(cls, c):\n        raise ValueError('cup')\n"
    write_python(config, text + check)
    code, said = run(config, "run", name)
    assert (code, "the check product: f ended in ValueError" in said) == (6, True)
    assert "cup" not in said
    write_python(config, text.replace("class Checked(pandera.DataFrameModel)", "class Checked"))
    code, said = run(config, "run", name)
    assert (code, "there is no schema of pandera.pyspark Checked" in said) == (2, True)
    write_python(config, text.replace('["tea"]', '["tea", "cup"]'))
    assert computed(config, "shares") == {"shares": DAYS}


@pytest.mark.full
def test_what_a_file_defines_reaches_workers(
    config: Path,  # noqa: F811
    place: Place,
    master: str,  # noqa: F811
) -> None:
    name = write_python(config, SHARES)
    computed(config, "daily")
    told = yaml.safe_load(config.read_text()) | {"spark": {"master": master}}
    cluster = config.with_name("cluster.yaml")
    cluster.write_text(yaml.safe_dump(told))
    command = [*COMMAND, "run", name, "--config", str(cluster)]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    assert {share for _, share, day in rows_of(place, config, "shares") if day.day != 29} == {
        Decimal("1.0000")
    }
    write_python(config, SHARES.replace("/ self.total", "/ 0"))
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 2, done.stderr
    assert "shares.py:20:1: shares failed: " in done.stderr


# --- the documents' example -----------------------------------------------------------------------


@pytest.fixture
def flights(server: MariaDB, place: Place, database: str, sql: Sql) -> Iterator[Path]:
    """Two months of real flights, mirrored."""
    (wanted,) = [table for table in NYC_TABLES if table.name == "flights"]
    found = read_nyc(wanted).select(["time_hour", "carrier", "dep_delay", "arr_delay"])
    columns = zip(*(found[name].to_pylist() for name in found.column_names), strict=True)
    rows = [row for row in columns if row[0][:7] in ("2013-01", "2013-02")]
    sql(
        "CREATE TABLE flights (id INT AUTO_INCREMENT PRIMARY KEY, time_hour DATETIME,"
        " carrier CHAR(2), dep_delay SMALLINT, arr_delay SMALLINT)"
    )
    for start in range(0, len(rows), 5_000):
        values = ", ".join(
            f"('{hour}', '{carrier}', {dep or 'NULL'}, {arr or 'NULL'})"
            for hour, carrier, dep, arr in (
                (h.replace("T", " ").rstrip("Z"), c, d, a)
                for h, c, d, a in rows[start : start + 5_000]
            )
        )
        sql(f"INSERT INTO flights (time_hour, carrier, dep_delay, arr_delay) VALUES {values}")
    folder = place.folder / database
    folder.mkdir()
    path = write_contract(
        folder / "mirrorlake.yaml",
        server.port,
        {database: {"tables": {"flights": {"mode": "full", "key": ["id"]}}}},
        lake={"warehouse": str(place.folder / "lake")},
        ledger={"url": "sqlite:///ledger.db"},
    )
    assert run(path, "sync", "--json")[0] == 0
    return path


def example() -> str:
    page = (Path(__file__).parents[3] / "docs" / "models-python.md").read_text("utf-8")
    (found,) = [
        text for text in re.findall(r"```python\n(.*?)```", page, re.S) if "Learned" in text
    ]
    return found


@pytest.mark.full
def test_the_example_of_the_documents_learns(flights: Path, place: Place, sql: Sql) -> None:
    write_python(flights, example().replace("nyc_nyc", f"s_{flights.parent.name}"), "delays")
    months = ("of_month=2013-01-01", "of_month=2013-02-01")
    assert (
        tuple(key for month in months for key in computed(flights, "delays", month)["delays"])
        == months
    )
    points: dict[tuple[str, date], list[tuple[int, int]]] = defaultdict(list)
    for carrier, month, dep, arr in sql(
        "SELECT carrier, DATE_FORMAT(time_hour, '%Y-%m-01'), dep_delay, arr_delay FROM flights"
        " WHERE arr_delay IS NOT NULL"
    ):
        points[carrier, date.fromisoformat(month)].append((dep, arr))
    found = rows_of(place, flights, "delays")
    assert len(found) == len(points) > 25
    for carrier, slope, intercept, count, month in found:
        of = points[carrier, month]
        assert count == len(of)
        if len({dep for dep, _ in of}) < 2:  # through one point go all lines
            assert (slope, intercept) == (None, None)
            continue
        line = statistics.linear_regression([x for x, _ in of], [y for _, y in of])
        assert (slope, intercept) == pytest.approx((line.slope, line.intercept))
    # The same bits again, whatever the tasks.
    assert computed(flights, "delays", months[0], "--again")["delays"] == [months[0]]
    assert rows_of(place, flights, "delays") == found
