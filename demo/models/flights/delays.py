"""---
description: What a minute of delay at departure becomes by the arrival, learnt from a month
owner: team:demo
for:
  of_month: TIMESERIES('2013-01-01', '2014-01-01', 'P1M')
reads:
  flights:
    SELECT carrier, dep_delay, arr_delay FROM nyc_nyc.flights
    WHERE time_hour >= of_month AND time_hour < ADD_MONTHS(of_month, 1) AND arr_delay IS NOT NULL
columns:
  carrier: {type: string, nullable: false, made_of: flights.carrier}
  slope: {type: double, made_of: [flights.dep_delay, flights.arr_delay]}
  intercept: {type: double, made_of: [flights.dep_delay, flights.arr_delay]}
  flights: {type: bigint, nullable: false, made_of: []}
expect:
  unique: carrier
  where: {counted: flights > 0}
  pandera: Learned
---"""

from collections.abc import Iterable, Iterator

import pandas as pd
import pandera.pyspark as pandera
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as t


class Learned(pandera.DataFrameModel):  # pyright: ignore[reportMissingTypeArgument]
    carrier: t.StringType = pandera.Field(str_length={"min_value": 2, "max_value": 2})
    slope: t.DoubleType = pandera.Field(nullable=True, ge=-10, le=10)
    flights: t.LongType = pandera.Field(gt=0)


def fit(rows: pd.DataFrame) -> pd.DataFrame:
    """Least squares by carrier. Sums of whole numbers are the same in every order."""
    x, y = rows["dep_delay"].astype("int64"), rows["arr_delay"].astype("int64")
    sums = pd.DataFrame({"x": x, "y": y, "xx": x * x, "xy": x * y, "n": 1})
    sums = sums.groupby(rows["carrier"]).sum().reset_index()
    below = sums["n"] * sums["xx"] - sums["x"] ** 2
    slope = (sums["n"] * sums["xy"] - sums["x"] * sums["y"]) / below.where(below != 0)
    intercept = (sums["y"] - slope * sums["x"]) / sums["n"]
    return pd.DataFrame(
        {
            "carrier": sums["carrier"],
            "slope": slope,
            "intercept": intercept,
            "flights": sums["n"],
        }
    )


def fit_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    found = list(batches)
    if found:
        learned = fit(pa.Table.from_batches(found).to_pandas())
        yield pa.RecordBatch.from_pandas(learned, preserve_index=False)


def delays(flights: DataFrame) -> DataFrame:
    schema = "carrier string, slope double, intercept double, flights bigint"
    return flights.repartition("carrier").mapInArrow(fit_batches, schema)
