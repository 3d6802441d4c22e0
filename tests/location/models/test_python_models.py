"""Models in Python and tables made elsewhere, as Dagster has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from tests.location.models.test_models import SALES, definitions, node

SPEED = '''"""---
description: How fast
owner: team:data
for: {day: "TIMESERIES('2024-02-28', '2024-03-02', 'P1D')"}
reads:
  sales: SELECT store FROM s_m.sales WHERE DATE(sold_at) = day
  prices: SELECT * FROM made.prices WHERE day = day_
columns: {store: string}
---"""

raise RuntimeError("a location that loads runs nothing of a model")

def speed(sales: DataFrame, prices: DataFrame) -> DataFrame:
    return sales
'''
PRICES = """
description: By the pricing team
owner: team:pricing
format: parquet
path: prices
columns: {price: bigint}
"""
STOCK = "format: iceberg\ncolumns: {n: {type: bigint, nullable: false}}\n"


@pytest.fixture
def defs(contract_file: Callable[[Any], Path]) -> dg.Definitions:
    path = contract_file(SALES)
    for name, text in (("speed.py", SPEED), ("prices.yaml", PRICES), ("stock.yaml", STOCK)):
        file = path.parent / "models" / "made" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return definitions(path, {"made/read": "SELECT n FROM made.stock JOIN made.speed ON TRUE"})


def test_each_is_an_asset_with_what_it_reads(
    defs: dg.Definitions, contract_file: Callable[[Any], Path]
) -> None:
    speed, prices = node(defs, "made/speed"), node(defs, "made/prices")
    assert {key.to_user_string() for key in speed.parent_keys} == {
        "deduped/s/m/sales",
        "made/prices",
    }
    assert {key.to_user_string() for key in node(defs, "made/read").parent_keys} == {
        "made/stock",
        "made/speed",
    }
    assert (speed.group_name, speed.owners, speed.kinds) == (
        "made",
        ["team:data"],
        {"python", "iceberg"},
    )
    assert isinstance(speed.partitions_def, dg.TimeWindowPartitionsDefinition)
    (reference,) = speed.metadata["dagster/code_references"].code_references
    assert (Path(reference.file_path).name, reference.line_number) == (
        "speed.py",
        SPEED[: SPEED.index("def speed")].count("\n") + 1,
    )
    assert speed.metadata["code"].value == f"````python\n{SPEED.strip()}\n````"
    assert (prices.is_external, prices.is_materializable, prices.kinds) == (
        True,
        False,
        {"parquet"},
    )
    written = "Written by others, and read by Mirrorlake as `made.prices`."
    assert prices.description == f"By the pricing team\n\n{written}"
    (column,) = node(defs, "made/stock").metadata["dagster/column_schema"].columns
    assert (column.name, column.type, column.constraints.nullable) == ("n", "bigint", False)
