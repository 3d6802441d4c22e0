"""Spark's own JDBC reader, four partitions by the key, into an Iceberg table of the same kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.sides.job import Job, serve
from mirrorlake.config.settings import LakeConfig, SparkConfig
from mirrorlake.destinations.base import CATALOG
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.runtime.jars import ensure_jars

PARTITIONS = 4
_sparks: list[Any] = []


def copy(job: Job) -> int:
    """One CREATE TABLE … AS SELECT over the partitioned reader."""
    spark = _session(job)
    name = f"{CATALOG}.bench.{job.table}_{job.run}"
    options = _options(job)
    if job.database == "tpch":
        bounds = spark.read.format("jdbc").options(**options)
        key = job.key[0]
        low, high = (
            bounds.option("query", f"SELECT MIN({key}), MAX({key}) FROM {job.table}").load().first()
        )
        options |= {
            "partitionColumn": key,
            "lowerBound": str(low),
            "upperBound": str(high),
            "numPartitions": str(PARTITIONS),
        }
    found = spark.read.format("jdbc").options(**options).option("dbtable", job.table).load()
    found.writeTo(name).using("iceberg").create()
    snapshot = spark.sql(f"SELECT summary FROM {name}.snapshots").first()[0]
    return int(snapshot["total-records"])


def _options(job: Job) -> dict[str, str]:
    url = urlsplit(job.url)
    return {
        # With jdbc:mariadb: Spark quotes names so that every text column is its own name.
        "url": f"jdbc:mysql://{url.hostname}:{url.port}/{job.database}?permitMysqlScheme",
        "driver": "org.mariadb.jdbc.Driver",
        "user": url.username or "",
        "password": url.password or "",
        "fetchsize": "10000",
    }


def _session(job: Job) -> Any:
    if not _sparks:
        jars = ":".join(str(jar) for jar in ensure_jars(["bench"]))
        lake = Lake(LakeConfig(warehouse=str(Path(job.folder) / "lake")))
        config = SparkConfig(conf={"spark.driver.extraClassPath": jars})
        _sparks.append(LazySpark(config, lake).get())
        _sparks[0].sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.bench")
    return _sparks[0]


if __name__ == "__main__":
    serve(copy)
