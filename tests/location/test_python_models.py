"""Models in Python and tables made elsewhere, as Dagster has them."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.lake import Lake
from tests.location.test_models import SALES, definitions, node

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
    assert prices.description == "By the pricing team"
    (column,) = node(defs, "made/stock").metadata["dagster/column_schema"].columns
    assert (column.name, column.type, column.constraints.nullable) == ("n", "bigint", False)


def test_what_changed_is_observed(defs: dg.Definitions, tmp_path: Path) -> None:
    lake = Lake(load_config(tmp_path / "mirrorlake.yaml").lake)
    folder = tmp_path / "prices"
    with dg.DagsterInstance.ephemeral() as instance:

        def tick(cursor: str | None) -> Any:
            context = dg.build_sensor_context(
                instance=instance,
                cursor=cursor,
                repository_def=defs.get_repository_def(),
                resources=dict(defs.resources or {}),
            )
            with context:
                return defs.resolve_sensor_def("made_elsewhere").evaluate_tick(context)

        with pytest.raises(dg.Failure, match="there is no folder"):
            tick(None)
        folder.mkdir()
        pq.write_table(pa.table({"price": [1, 2, 3]}), folder / "a.parquet")
        os.utime(folder / "a.parquet", (1_700_000_000, 1_700_000_000))
        first = tick(None)
        # The other one is not there yet: it is no reason to see nothing of this one.
        (event,) = first.asset_events
        assert event.asset_key == dg.AssetKey(["made", "prices"])
        assert {name: value.value for name, value in event.metadata.items()} == {
            "dagster/row_count": 3,
            "dagster/last_updated_timestamp": 1_700_000_000,
            "files": 1,
            "bytes": (folder / "a.parquet").stat().st_size,
            "version": event.tags["dagster/data_version"],
        }
        lake.make_namespace("made")
        table = lake.catalog.create_table(
            ("made", "stock"), Schema(NestedField(1, "n", LongType(), required=True))
        )
        n = pa.schema([pa.field("n", pa.int64(), nullable=False)])
        table.append(pa.table({"n": [5, 6]}, schema=n))
        second = tick(first.cursor)
        (event,) = second.asset_events
        assert event.asset_key == dg.AssetKey(["made", "stock"])
        head = table.refresh().current_snapshot()
        assert head is not None
        assert event.tags["dagster/data_version"] == str(head.snapshot_id)
        assert event.metadata["dagster/row_count"].value == 2
        written = datetime.fromtimestamp(
            event.metadata["dagster/last_updated_timestamp"].value, UTC
        )
        assert abs((datetime.now(UTC) - written).total_seconds()) < 600
        assert tick(second.cursor).skip_message == "None of 2 tables changed"
        pq.write_table(pa.table({"price": ["x"]}), folder / "b.parquet")
        third = tick(second.cursor)
        assert third.skip_message == "None of 2 tables changed; 1 could not be looked at"
        (folder / "b.parquet").unlink()
        assert tick(third.cursor or second.cursor).skip_message == "None of 2 tables changed"
